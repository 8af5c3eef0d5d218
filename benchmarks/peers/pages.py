"""The tables of docs/en/why.md and docs/zh-CN/why.md, from the committed results."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from tries import QUESTIONS

from harness import RESULTS

DOCS = Path(__file__).parents[2] / "docs"
LANGUAGES = ("en", "zh-CN")
HEADS = {
    "tries": ("| tool | | what came |", "| 工具 | | 结果 |"),
    "speed": (
        "| case | contender | ratio | 95 % | rounds |",
        "| 情形 | 对象 | 比值 | 95 % 区间 | 轮数 |",
    ),
    "page": (
        "| tokens | headwise, MB | BertViz, MB |",
        "| 词元数 | headwise,MB | BertViz,MB |",
    ),
}
ANSWERS = (("yes", "no"), ("是", "否"))
MEASURED = ("Measured", "测于")
BLOCK_CASES = ("n 512", "n 2048")


def result(name: str) -> dict[str, Any]:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def fill() -> None:
    """Replace what stands between the marks of each table, in both languages."""
    for place, language in enumerate(LANGUAGES):
        page = DOCS / language / "why.md"
        text = page.read_text(encoding="utf-8")
        for name, make in TABLES.items():
            text = between(text, name, make(place))
        page.write_text(text, encoding="utf-8")


def between(text: str, name: str, lines: Iterable[str]) -> str:
    """The text with other lines between the marks of one table."""
    start, end = (
        f"<!-- table {name}: written by python benchmarks peers -->",
        f"<!-- end {name} -->",
    )
    assert start in text, f"no mark {start!r}"
    assert end in text, f"no mark {end!r}"
    before, rest = text.split(start)
    return "\n".join([before + start, "", *lines, "", end]) + rest.split(end)[1]


def facts(name: str, place: int) -> str:
    """Which file the figures are from, and what they were measured on."""
    machine = result(name)["machine"]
    said = ", ".join(f"{key.replace('_', ' ')} {machine[key]}" for key in machine)
    return f"{MEASURED[place]}: {said}. [results/{name}.json](../../benchmarks/results/{name}.json)"


def tries_table(place: int) -> list[str]:
    rows = result("peers")["rows"]
    lines: list[str] = []
    for question, said in QUESTIONS.items():
        lines += [f"**{said[place]}**", "", HEADS["tries"][place], "|---|---|---|"]
        for row in (row for row in rows if row["question"] == question):
            answer = ANSWERS[place][not row["yes"]]
            lines.append(f"| {row['tool']} | {answer} | {row['said'].replace('|', '/')} |")
        lines.append("")
    return [*lines, facts("peers", place)]


def ratios(rows: Sequence[dict[str, Any]], place: int) -> list[str]:
    lines = [HEADS["speed"][place], "|---" * 5 + "|"]
    for r in rows:
        lines.append(
            f"| {r['case']} | {r['contender']} | {r['ratio']:.2f} | {r['low']:.2f} - {r['high']:.2f} "
            f"| {r['rounds']} |"
        )
    return lines


def speed_table(place: int) -> list[str]:
    rows = result("peers-speed")["rows"]
    return [*ratios(rows, place), "", facts("peers-speed", place)]


def heads_table(place: int) -> list[str]:
    rows = [r for r in result("heads")["rows"] if r["case"] in ("gpt2, n 256", "gpt2, n 1024")]
    return [*ratios(rows, place), "", facts("heads", place)]


def blocks_table(place: int) -> list[str]:
    rows = [
        r
        for r in result("blocks")["rows"]
        if r["case"].startswith(("forward, causal, batch 1", "forward+backward, causal, batch 1"))
        and r["case"].endswith(BLOCK_CASES)
    ]
    return [*ratios(rows, place), "", facts("blocks", place)]


def page_table(place: int) -> list[str]:
    lines = [HEADS["page"][place], "|---" * 3 + "|"]
    for r in result("page")["rows"]:
        theirs = f"{r['bertviz']:.1f}" if r["bertviz"] else r["bertviz_why"]
        lines.append(f"| {r['tokens']:,} | {r['page']:.2f} | {theirs} |")
    return [*lines, "", facts("page", place)]


TABLES = {
    "tries": tries_table,
    "speed": speed_table,
    "heads": heads_table,
    "page": page_table,
    "blocks": blocks_table,
}
