"""How far a long text is, on stderr."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console

__all__ = ["long_progress"]

_LONG = 256
"""From this many tokens on, progress is shown."""


@contextmanager
def long_progress(tokens: int, what: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar for long texts, when someone is there to see it."""
    console = Console(stderr=True)
    if tokens < _LONG or not console.is_terminal:
        yield None
        return
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(what, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
