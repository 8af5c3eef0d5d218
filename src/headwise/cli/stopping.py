"""Ctrl-C while a run is under way: the first asks it to stop, the second stops it at once."""

from __future__ import annotations

import os
import signal
import time
from contextlib import suppress
from types import FrameType
from typing import Any

__all__ = ["Stopping"]

_SAYS = "headwise: stopping after the batch that runs; Ctrl-C again stops at once"
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_ONE = 1.0
"""Within so many seconds a second signal counts as the first: launchers pass on what the terminal sent too."""


class Stopping:
    """Catches Ctrl-C (and a request to terminate) for the time of a `with`.

    Args:
        says: the line that the first Ctrl-C is answered with; "" where another process says it.

    Attributes:
        asked: the signal that asked to stop, 0 where none did.
    """

    def __init__(self, says: str = _SAYS) -> None:
        self.asked = 0
        self._says = says
        self._since = 0.0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stopping:
        with suppress(ValueError):  # not in the main thread: there is no Ctrl-C to catch
            for one in _SIGNALS:
                self._before[one] = signal.signal(one, self._catch)
        return self

    def __exit__(self, *error: object) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)

    @property
    def code(self) -> int:
        """The exit code of a run that was stopped: 130 for Ctrl-C, also on another process."""
        return 128 + (self.asked or signal.SIGINT)

    def _catch(self, number: int, frame: FrameType | None) -> None:
        now = time.monotonic()
        if self.asked:
            if now - self._since > _ONE:
                raise KeyboardInterrupt
            return
        self.asked, self._since = number, now
        if self._says:
            with suppress(
                OSError
            ):  # written past the buffers, one of which the signal may have come amid
                os.write(2, f"\n{self._says}\n".encode())
