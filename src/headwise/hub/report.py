"""What a fetch tells the person who waits for it: on stderr, one line at a time or a bar."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["bar", "megabytes", "say", "spin"]


def megabytes(size: float) -> str:
    """A size in bytes for people, for instance `93 MB`."""
    return f"{size / 1e6:.0f} MB" if size >= 1e6 else f"{size / 1e3:.0f} kB"


def say(text: str, *, quiet: bool) -> None:
    """Print one line on stderr, unless `quiet`."""
    if not quiet:
        print(f"headwise: {text}", file=sys.stderr, flush=True)


@contextmanager
def bar(label: str, total: int, *, quiet: bool) -> Iterator[Callable[[int], None]]:
    """A progress bar with bytes, speed and time left; yields `update(bytes so far)`.

    Without a terminal it is the plain line `label (size)`; with `quiet` nothing.
    """
    if quiet or not sys.stderr.isatty():
        say(f"{label} ({megabytes(total)})", quiet=quiet)
        yield lambda done: None
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(file=sys.stderr)) as progress:
        task = progress.add_task(label, total=total)
        yield lambda done: progress.update(task, completed=min(done, total))


@contextmanager
def spin(label: str, *, quiet: bool) -> Iterator[None]:
    """A sign of life while something without a measure runs; a plain line without a terminal."""
    if quiet or not sys.stderr.isatty():
        say(label, quiet=quiet)
        yield
        return
    from rich.console import Console

    with Console(file=sys.stderr).status(label):
        yield
