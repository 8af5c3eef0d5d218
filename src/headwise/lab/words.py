"""A text in both languages of the project."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

__all__ = ["LANGUAGES", "LOSS", "NONE", "Language", "Words"]

Language = Literal["en", "zh-CN"]
LANGUAGES: tuple[Language, ...] = get_args(Language)


@dataclass(frozen=True)
class Words:
    """The same said in English and in Chinese."""

    en: str
    zh: str

    def of(self, language: Language) -> str:
        """What it says in a language."""
        return self.en if language == "en" else self.zh

    def filled(self, **parts: object) -> Words:
        """With its {names} filled in, in both."""
        return Words(self.en.format(**parts), self.zh.format(**parts))


LOSS = Words("held-out loss, nats per token", "留出文本的损失,nats/token")
"""What most claims measure, as tables and pictures call it."""
NONE = Words("", "")
"""Of an axis whose ticks say it."""
