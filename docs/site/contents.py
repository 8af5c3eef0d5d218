"""What the site holds: two languages, the pages both have, and their order in the sidebar."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

SHARED = (
    "docs/reference/*.md",
    "benchmarks/README.md",
    "benchmarks/results/*.md",
    "evidence/*.md",
    "evidence/mini/README.md",
    "release/README.md",
    "CONTRIBUTING.md",
    "CHANGELOG.md",
)
"""Pages in English that are in both builds."""


@dataclass(frozen=True)
class Language:
    """Where the pages of a language lie: its start page, its guides, and its folder in the site."""

    start: str
    folder: str
    site: str
    name: str


LANGUAGES = {
    "en": Language("README", "docs/en", "", "English"),
    "zh-CN": Language("README.zh-CN", "docs/zh-CN", "zh-CN/", "中文"),
}

GUIDES = {
    ("Start", "开始"): ("start", "inside", "limits", "why"),
    ("Look", "看"): ("look", "page", "profile", "roles", "circuits", "neurons"),
    ("Check", "查"): ("masks", "reach", "audit", "findings", "pangolinn", "ledger"),
    ("Cut", "剪"): ("cutting",),
    ("Build and train", "搭建与训练"): ("blocks", "training", "parallel", "generating"),
    ("Experiments", "实验"): ("claims", "lab"),
    ("Models", "模型"): ("models", "families"),
}

REFERENCE = ("look", "profile", "masks", "probes", "check", "cut", "nn", "train", "lab")
HOUSE = ("benchmarks/README", "evidence/README", "CONTRIBUTING", "release/README", "CHANGELOG")


def toctrees(root: Path, here: Language) -> str:
    """The tables of contents of the start page, in Markdown for Sphinx: guides that are there, reference, house."""
    second = here is LANGUAGES["zh-CN"]
    parts = {names[second]: _there(root, here, pages) for names, pages in GUIDES.items()}
    parts["API 参考" if second else "Reference"] = [f"docs/reference/{x}" for x in REFERENCE]
    parts["工程" if second else "House"] = list(HOUSE)
    return "\n".join(_toctree(caption, pages) for caption, pages in parts.items() if pages)


def _there(root: Path, here: Language, names: tuple[str, ...]) -> list[str]:
    pages = [f"{here.folder}/{name}" for name in names]
    return [page for page in pages if (root / f"{page}.md").exists()]


def _toctree(caption: str, pages: list[str]) -> str:
    return "\n".join(
        [
            "```{toctree}",
            ":hidden:",
            f":caption: {caption}",
            "",
            *(f"/{x}" for x in pages),
            "```",
            "",
        ]
    )
