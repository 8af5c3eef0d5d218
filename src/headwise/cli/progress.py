"""How far a run is, on stderr: a bar for who sits there, else a line now and then."""

from __future__ import annotations

import threading
import time

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

__all__ = ["RunProgress", "StepProgress"]

_EVERY = 30.0
"""Seconds between two lines where there is no terminal."""

_STEP_EVERY = 10.0
"""The same where the steps are few and differ in length."""


class RunProgress:
    """Texts, tokens, tokens per second and the time left; counts on from what was done before.

    Args:
        total: texts in all, or bytes; None where it is not known.
        texts: how many were done before.
        done: how much of the total was done before.
        shown: whether anything is shown.
    """

    def __init__(self, total: int | None, texts: int, done: int, shown: bool) -> None:
        self.total, self.texts, self.done = total, texts, done
        self.tokens = 0
        self._start = self._said = time.monotonic()
        self._shown = shown
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def __enter__(self) -> RunProgress:
        console = Console(stderr=True)
        if self._shown and console.is_terminal:
            columns = (BarColumn(20), TextColumn("{task.description}"), TimeRemainingColumn())
            self._bar = Progress(*columns, console=console, transient=True)
            self._task = self._bar.add_task(self._line(), total=self.total, completed=self.done)
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        if self._bar is not None:
            self._bar.stop()

    @property
    def seconds(self) -> float:
        """Since the start."""
        return time.monotonic() - self._start

    @property
    def speed(self) -> float:
        """Tokens per second since the start."""
        return self.tokens / max(self.seconds, 1e-9)

    def add(self, texts: int, tokens: int, done: int) -> None:
        """So much more is done."""
        self.texts, self.tokens, self.done = (
            self.texts + texts,
            self.tokens + tokens,
            self.done + done,
        )
        now = time.monotonic()
        if self._bar is not None:
            self._bar.update(self._task, description=self._line(), completed=self.done)
        elif self._shown and now - self._said >= _EVERY:
            self._said = now
            Console(stderr=True, highlight=False, soft_wrap=True).print(self._line())

    def _line(self) -> str:
        part = f" ({self.done / self.total:.0%})" if self.total else ""
        texts = f"{self.texts:,} text{'' if self.texts == 1 else 's'}"
        return f"{texts}{part}, {self.tokens:,} tokens, {self.speed:,.0f} tokens/s"


class StepProgress:
    """Which step of a run of several is under way: a bar on a terminal, else a line every so often.

    Args:
        total: how many there are.
        short: steps that take no time by themselves: a line says how the run stands, not how long the step takes.
    """

    def __init__(self, total: int, *, short: bool = False) -> None:
        self.total = total
        self._short = short
        self._state: tuple[int, str] = (0, "")
        self._since = time.monotonic()
        self._ended = threading.Event()
        self._clock: threading.Thread | None = None
        self._bar: Progress | None = None
        self._task = TaskID(0)

    def __enter__(self) -> StepProgress:
        console = Console(stderr=True)
        if console.is_terminal:
            text = TextColumn("{task.description}", markup=False)
            self._bar = Progress(
                BarColumn(20), text, TimeElapsedColumn(), console=console, transient=True
            )
            self._task = self._bar.add_task("", total=self.total)
            self._bar.start()
        else:
            self._clock = threading.Thread(target=self._tell, daemon=True)
            self._clock.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._ended.set()
        if self._clock is not None:
            self._clock.join()
        if self._bar is not None:
            self._bar.stop()

    def at(self, done: int, what: str) -> None:
        """So many are done, and this one is under way."""
        self._state, self._since = (done, what), time.monotonic()
        if self._bar is not None:
            self._bar.update(self._task, description=what, completed=done, total=self.total)

    def _tell(self) -> None:
        """A line every so often, also in the midst of a step that takes long."""
        while not self._ended.wait(_STEP_EVERY):
            done, what = self._state
            seconds = time.monotonic() - self._since
            long = f" done, now {what} ({seconds:.0f} s)"
            line = f"{done} of {self.total}{f': {what}' if self._short else long}"
            Console(stderr=True, highlight=False, soft_wrap=True).print(line, markup=False)
