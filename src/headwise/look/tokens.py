"""Tokens and words of a text, each with its characters in the original string."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Token:
    """One token of a text.

    `text[start:end]` of the original string is what the token stands for; special tokens that stand for
    nothing have start == end and carry their name in `text`. A character cut into several byte tokens gives
    each of them the whole character; `part` is then (1-based index, count), else None.
    """

    id: int
    text: str
    start: int
    end: int
    special: bool = False
    part: tuple[int, int] | None = None

    @property
    def label(self) -> str:
        """The token as shown: its characters without surrounding space, `书·2` for a second byte piece."""
        text = self.text.strip() or {" ": "␣", "\n": "⏎", "\t": "⇥"}.get(self.text[:1], "∅")
        return text if self.part is None else f"{text}·{self.part[0]}"
