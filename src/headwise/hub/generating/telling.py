"""Text out of tokens while they come: never half a character, and nothing that may be part of a stop string."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["Telling"]

_UNKNOWN = "\ufffd"
"""What a decoder gives for bytes that are no character, or not yet."""

_MOST = 3
"""Half a character is so many tokens at most: UTF-8 has four bytes."""

_WAITS = 8
"""So many tokens may be one character's (or a run of them, where a broken byte spoils its neighbours)."""


class Telling:
    """The text of one row.

    Args:
        tokenizer: with decode(ids, skip_special_tokens).
        before: the ids that stand before the new ones: a decoder may write a token otherwise at the start.
        stops: strings that end the text, and are not part of it.

    Attributes:
        text: what is told so far.
        stopped: whether a stop string came.
    """

    def __init__(self, tokenizer: Any, before: Sequence[int], stops: Sequence[str] = ()) -> None:
        self.text = ""
        self.stopped = False
        self._tokenizer = tokenizer
        self._stops = tuple(stops)
        self._window = list(before)
        self._from = len(self._window)
        self._told = len(self._decode(self._window))
        self._held = ""

    def take(self, id: int) -> str:
        """The text that is settled now that this token came; "" where it must wait, or the text has stopped."""
        if self.stopped:
            return ""
        self._window.append(id)
        return self._tell(self._fresh())

    def finish(self) -> str:
        """What was still held back, now that no more tokens come; half a character at the end is left out."""
        if self.stopped:
            return ""
        fresh = self._decode(self._window)[self._told :]
        few = len(self._window) - self._from <= _MOST
        rest = self._tell(fresh.rstrip(_UNKNOWN) if few else fresh.removesuffix(_UNKNOWN))
        if not self.stopped:
            rest += self._held
            self.text += self._held
        self.stopped = True
        return rest

    def _decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True)) if ids else ""

    def _fresh(self) -> str:
        """The characters that are whole now and were not before."""
        whole = self._decode(self._window)
        fresh = whole[self._told :]
        if not fresh.endswith(_UNKNOWN):
            if fresh:  # what comes next is read after these tokens alone
                self._window = self._window[self._from :]
                self._from = len(self._window)
                self._told = len(self._decode(self._window))
            return fresh
        settled = fresh[:-1]
        if _UNKNOWN in settled and len(self._window) - self._from <= _WAITS:
            return ""
        self._told += len(settled)
        return settled

    def _tell(self, fresh: str) -> str:
        """Pass on what cannot be part of a stop string, and stop where one is whole."""
        self._held += fresh
        found = [(at + len(stop), at) for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if found:  # the one that is whole first, as if the characters came one by one
            self.stopped, cut = True, min(found)[1]
        else:
            cut = len(self._held) - self._begun()
        piece, self._held = self._held[:cut], self._held[cut:]
        self.text += piece
        return piece

    def _begun(self) -> int:
        """How many characters at the end may begin a stop string."""
        longest = max((len(stop) for stop in self._stops), default=1)
        for size in range(min(longest - 1, len(self._held)), 0, -1):
            end = self._held[-size:]
            if any(stop.startswith(end) for stop in self._stops):
                return size
        return 0
