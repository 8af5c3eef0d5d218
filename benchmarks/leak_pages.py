"""The tables of docs/*/pangolinn.md, in English and Chinese, from results/leak_tests.json.

    python benchmarks/leak_pages.py

`leak_tests.py`, which measures, ends with this.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parents[1] / "docs"
RESULTS = Path(__file__).parent / "results" / "leak_tests.json"
MARK = "<!-- tables: written by python benchmarks/leak_tests.py -->\n"
COUNTED = "{seeds} seeds each; a number stands where they differ. {versions}."
CHINESE = {
    COUNTED: "每个用 {seeds} 个种子;各种子结果不同时写出次数。{versions}。",
    "decoder": "解码器",
    "encoder": "编码器",
    "pangolinn, gradient": "pangolinn,梯度",
    "pangolinn, prefix": "pangolinn,前缀",
    "pangolinn, padding area": "pangolinn,填充区",
    "pangolinn, batch size": "pangolinn,批大小",
    "audit": "审计",
    "faults": "有错的",
    "sound": "正确的",
    "passes": "通过",
    "fails": "不通过",
    "error": "出错",
    "leaks": "泄漏",
    "differs": "不一致",
    "clean": "干净",
    "unknown": "无法判断",
    "no causal mask": "没有因果掩码",
    "sees one position ahead": "看到后面一个位置",
    "convolution padded on both sides": "两侧都填充的卷积",
    "mean over the text": "对整段文本求平均",
    "no causal mask, on token ids": "没有因果掩码,读 token id",
    "experts choose among all tokens": "专家在全部 token 中挑选",
    "finite mask outrun by large scores": "有限的掩码值被大的分数越过",
    "no causal mask, norms first": "没有因果掩码,归一化在前",
    "a leak whose gradients sum to zero": "梯度之和为零的泄漏",
    "a leak of a billionth": "十亿分之一的泄漏",
    "the first position sees the last": "第一个位置看到最后一个",
    "no mask after position 32": "位置 32 之后没有掩码",
    "no mask in training": "训练时没有掩码",
    "no mask where weights are asked for": "要求返回权重时没有掩码",
    "window one too wide": "窗口宽了一格",
    "sees itself where it must not": "看到了不该看的自己",
    "mean over the batch": "对批求平均",
    "batch norm in training": "训练时的批归一化",
    "padding on the left is seen": "看到左侧的填充",
    "packed documents see each other": "打包的文档互相看到",
    "padding of the encoder is seen": "看到编码器的填充",
    "divided by the length of the text": "除以文本长度",
    "padding is seen": "看到填充",
    "padding is not zero between convolutions": "卷积之间填充处不为零",
    "padding is in the mean": "填充计入了平均",
    "mean over the batch, in an encoder": "对批求平均,编码器",
    "causal attention": "因果注意力",
    "causal attention on token ids": "因果注意力,读 token id",
    "causal attention, norms first": "因果注意力,归一化在前",
    "attention in windows": "窗口注意力",
    "recurrence": "循环",
    "causal convolution": "因果卷积",
    "experts, each token its best": "专家,每个 token 取最好的一个",
    "each position by itself": "每个位置各自独立",
    "a stream far from zero": "远离零的流",
    "packed documents": "打包的文档",
    "cross-attention": "交叉注意力",
    "encoder, padding not set to zero": "编码器,填充处未置零",
    "convolutions with padding at zero": "填充处为零的卷积",
}
LANGUAGES: dict[str, Mapping[str, str]] = {"en": {word: word for word in CHINESE}, "zh-CN": CHINESE}


def below(held: Mapping[str, Any], language: str) -> str:
    """What stands below the mark on the page of a language."""
    words = LANGUAGES[language]
    versions = ", ".join(f"{name} {number}" for name, number in held["versions"].items())
    counted = words[COUNTED].format(seeds=held["seeds"], versions=versions)
    tables = [*table(held, words, False), "", *table(held, words, True)]
    return "\n".join([counted, "", *tables, ""])


def table(held: Mapping[str, Any], words: Mapping[str, str], encoder: bool) -> list[str]:
    kind = "encoder" if encoder else "decoder"
    asked = ("padding area", "batch size") if encoder else ("gradient", "prefix")
    cells = [kind, *(f"pangolinn, {name}" for name in asked), "audit"]
    lines = [f"| {' | '.join(words[cell] for cell in cells)} |", "| --- | --- | --- | --- |"]
    for good, name in ((False, "faults"), (True, "sound")):
        lines.append(f"| **{words[name]}** | | | |")
        rows = [row for row in held["rows"] if row["encoder"] == encoder and row["sound"] == good]
        lines += [_row(row, words, held["seeds"]) for row in rows]
    return lines


def _row(row: Mapping[str, Any], words: Mapping[str, str], seeds: int) -> str:
    places = [place for place, times in row["where"].items() if times * 2 > seeds]
    more = f": {'; '.join(places)}" if places else ""
    one, two, audit = (_said(counts, words) for counts in (*row["pangolinn"], row["audit"]))
    return f"| {words[row['name']]} | {one} | {two} | {audit}{more} |"


def _said(counts: Mapping[str, int], words: Mapping[str, str]) -> str:
    told = [(words[said], times) for said, times in counts.items()]
    return ", ".join(f"{said} {times}" if len(told) > 1 else said for said, times in told)


def write(held: Mapping[str, Any]) -> None:
    """Put the tables into the page of each language."""
    for language in LANGUAGES:
        page = DOCS / language / "pangolinn.md"
        above, mark, _ = page.read_text(encoding="utf-8").partition(MARK)
        assert mark, f"{page} has lost its line {MARK!r}"
        page.write_text(f"{above}{mark}\n{below(held, language)}", encoding="utf-8")


if __name__ == "__main__":
    write(json.loads(RESULTS.read_text(encoding="utf-8")))
