"""The main job as a newcomer types it, with what each command must leave behind. `mini` needs no network."""

from __future__ import annotations

import json
import re
from pathlib import Path

from installing import Job

ENGLISH = "The animal didn't cross the street because it was too tired"
CHINESE = "小明把书还给了图书馆,因为它到期了。"
LINE = re.compile(r"^(?P<name>\S.*?)  +(?P<said>.+)$", re.MULTILINE)


def jobs(version: str, kernel: bool) -> tuple[Job, ...]:
    """All jobs for this version; `kernel` says whether the compiled kernel must be there."""
    look = ("headwise", "look", "--model", "mini")
    return (
        Job("headwise --version", ("headwise", "--version"), lambda out, _: said(out, version)),
        Job("headwise doctor", ("headwise", "doctor"), lambda out, _: doctor_said(out, kernel)),
        Job("look, PNG", (*look, ENGLISH, "--png", "maps.png"), lambda _, at: png(at / "maps.png")),
        Job(
            "look, page",
            (*look, ENGLISH, "--html", "page.html"),
            lambda _, at: page(at / "page.html"),
        ),
        Job(
            "look, Chinese",
            (*look, CHINESE, "--words", "--json", "zh.json"),
            lambda _, at: chinese(at),
        ),
        Job(
            "audit",
            ("headwise", "audit", "mini", "--dimension", "future", "--length", "12"),
            lambda out, _: said(out, "mini: clean"),
        ),
        Job(
            "prune",
            ("headwise", "prune", "mini", "--heads", "0.1", "-o", "small"),
            lambda out, _: said(out, "1 of 16 heads cut: 0.1"),
        ),
        Job(
            "look at the pruned model",
            ("headwise", "look", "--model", "small", ENGLISH, "--top", "0"),
            lambda out, _: said(out, "15 heads"),
        ),
    )


def said(out: str, wanted: str) -> str:
    """The line of the output that has the wanted words."""
    for line in out.splitlines():
        if wanted in line:
            return line
    raise ValueError(f"does not say {wanted!r}")


def doctor_said(out: str, kernel: bool) -> str:
    """What doctor says of the kernel."""
    lines = {line["name"]: line["said"] for line in LINE.finditer(out)}
    built, by = lines.get("kernel", ""), lines.get("statistics by", "")
    if kernel and not built.startswith("built for"):
        raise ValueError(f"the kernel should be there: {built}")
    if not kernel and not (by.startswith("plain torch") and "built for" not in built):
        raise ValueError(f"plain torch should serve: {by}; {built}")
    return f"statistics by {by}"


def png(path: Path) -> str:
    """The size of a picture."""
    data = path.read_bytes()
    if not data.startswith(b"\x89PNG") or len(data) < 10_000:
        raise ValueError(f"{path.name} is no picture of maps: {len(data)} bytes")
    return f"{len(data):,} bytes"


def page(path: Path) -> str:
    """The size of a page that loads nothing from elsewhere."""
    text = path.read_text(encoding="utf-8")
    away = re.findall(r"<(?:script|link|img)[^>]*(?:src|href)=[\"']https?:[^\"']*", text)
    if away:
        raise ValueError(f"{path.name} loads from elsewhere: {away[0]}")
    if "<script" not in text or len(text) < 50_000:
        raise ValueError(f"{path.name} is no page: {len(text)} characters")
    return f"{len(text):,} characters"


def chinese(at: Path) -> str:
    """That the tokens of the Chinese sentence are its own characters, in their places."""
    tokens = json.loads((at / "zh.json").read_text(encoding="utf-8"))["tokens"]
    wrong = [t for t in tokens if CHINESE[t["start"] : t["end"]] != t["text"]]
    covered = {place for t in tokens for place in range(t["start"], t["end"])}
    if wrong or covered != set(range(len(CHINESE))):
        raise ValueError(f"tokens are not the sentence: {wrong or sorted(covered)}")
    return f"{len(tokens)} tokens, each its own characters"
