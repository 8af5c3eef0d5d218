"""What reports of the lab say besides the claims' own words, in both languages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headwise.lab.agreeing import Agreement
from headwise.lab.claim import Finding, Kind
from headwise.lab.running import Run
from headwise.lab.words import Language, Words

__all__ = ["KINDS", "SAYS", "agreement_told", "asked_told", "finding_told", "kind_told"]

KINDS: Mapping[Kind, Words] = {
    "holds": Words("holds", "成立"),
    "holds up to": Words("holds up to a point", "在一定范围内成立"),
    "fails here": Words("fails here", "在这里不成立"),
    "not settled": Words("not settled", "尚无定论"),
}

SAYS = {
    "asks": Words("What is measured", "测量什么"),
    "verdict": Words("Verdict", "结论"),
    "yes": Words("as claimed", "与论断一致"),
    "no": Words("against the claim", "与论断相反"),
    "open": Words("cannot be told", "无法判定"),
    "again": Words("Run it yourself", "自己运行"),
    "sources": Words("Sources", "出处"),
    "seeds": Words("seeds", "种子数"),
    "claim": Words("claim", "论断"),
    "not run": Words("not run", "未运行"),
    "unfinished": Words("unfinished", "未完成"),
    "second": Words("second run", "第二次运行"),
    "figures": Words("figure", "数值"),
    "first": Words("first run", "第一次运行"),
    "code": Words("What is run:", "运行的代码:"),
    "course": Words("The claims of the textbooks, run", "教科书的论断,逐条运行"),
    "index": Words("The lab", "实验室"),
    "none": Words("this folder holds no whole run", "这个文件夹里没有完整的运行"),
    "interval": Words(
        "Means over seeds, with their 95 % intervals [from, to].",
        "为各种子的均值,方括号内是 95 % 置信区间。",
    ),
    "band": Words("95 % intervals over seeds", "各种子的 95 % 置信区间"),
}


def kind_told(kind: Kind, language: Language) -> str:
    """A kind of verdict."""
    return KINDS[kind].of(language)


def finding_told(finding: Finding, language: Language) -> str:
    """A figure that a verdict rests on, with what it says of the claim."""
    says = {True: "yes", False: "no", None: "open"}[finding.holds]
    colon = ": " if language == "en" else ":"
    value = finding.value.told(finding.digits)
    return f"{finding.says.of(language)}{colon}{value} ({SAYS[says].of(language)})"


def asked_told(asked: Mapping[str, Any], language: Language) -> str:
    """What a run was made with."""
    size = Words("Quick", "快速") if asked.get("quick") else Words("Full", "完整")
    threads = asked.get("threads")
    parts = {
        "size": size.of(language),
        "seed": asked.get("seed"),
        "text": asked.get("text"),
        "stamp": str(asked.get("text_sha256", ""))[:12],
        "headwise": asked.get("headwise"),
        "torch": asked.get("torch"),
        "python": asked.get("python"),
        "where": f"{asked.get('device')} ({asked.get('machine')})",
        "threads": f"{threads} thread{'' if threads == 1 else 's'}"
        if language == "en"
        else threads,
    }
    told = Words(
        "{size} run, seed {seed}, on the {text} (SHA-256 {stamp}...); headwise {headwise}, torch {torch}, Python "
        "{python}, {where}, {threads}",
        "{size}运行,种子 {seed},文本 {text}(SHA-256 {stamp}…);headwise {headwise},torch {torch},Python "
        "{python},{where},{threads} 个线程",
    )
    return told.filled(**parts).of(language)


def agreement_told(found: Agreement, other: Run, language: Language) -> str:
    """Whether another run agrees, and where not."""
    kind = kind_told(other.verdict().kind, language)
    seed, count = other.asked.get("seed"), len(found.pairs)
    if found.agree:
        told = Words(
            "A second run with other seeds (seed {seed}) agrees: {kind}, and all {count} figures meet.",
            "换用其他种子的第二次运行(种子 {seed})与此一致:{kind},{count} 个数值的置信区间都有重合。",
        )
    else:
        told = Words(
            "A second run with other seeds (seed {seed}) does not agree: {kind}; figures that differ: {names}.",
            "换用其他种子的第二次运行(种子 {seed})与此不一致:{kind};不同的数值:{names}。",
        )
    names = ", ".join(found.differing) or Words("none", "无").of(language)
    return told.filled(seed=seed, kind=kind, count=count, names=names).of(language)
