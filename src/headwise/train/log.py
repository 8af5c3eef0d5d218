"""The log of a training: a line of CSV for each step, written as it goes."""

from __future__ import annotations

import csv
import errno
import io
import os
from collections.abc import Sequence
from dataclasses import astuple, dataclass, fields
from pathlib import Path
from typing import Any

from headwise.names import OutputError
from headwise.train.disk import put_text

__all__ = ["Line", "Log", "read_log"]


@dataclass(frozen=True)
class Line:
    """One step.

    Attributes:
        step: from 1.
        loss: the mean over the step's tokens before it, in nats.
        held_out: the mean loss of the held-out texts after it; None where they were not looked at.
        rate: of the step.
        norm: of the gradients, before they were clipped.
        tokens: counted since the first step.
        speed: tokens per second of this step.
        seconds: since the first step, without pauses between runs.
    """

    step: int
    loss: float
    held_out: float | None
    rate: float
    norm: float
    tokens: int
    speed: float
    seconds: float


_KINDS: dict[str, Any] = {"step": int, "tokens": int}


class Log:
    """log.csv, held open while a training runs.

    Args:
        path: where it is.
        last: of an old log, the last line that is kept, whether it is there or not; None = a new log.

    Attributes:
        before: the lines that were kept.
        missing: the steps before `last` that the old log did not hold.

    Raises:
        OutputError: it cannot be read or written.
    """

    def __init__(self, path: Path, last: Line | None) -> None:
        self.path = path
        self.before: list[Line] = []
        self.missing: list[int] = []
        if last is not None:
            held = {line.step: line for line in read_log(path)} | {last.step: last}
            self.before = [held[step] for step in range(1, last.step + 1) if step in held]
            self.missing = [step for step in range(1, last.step) if step not in held]
        rows = [[f.name for f in fields(Line)], *map(_values, self.before)]
        put_text(path, "".join(map(_row, rows)), "the log")
        self._file = path.open("ab", buffering=0)

    def add(self, line: Line) -> None:
        """Append a line, at once.

        Raises:
            OSError: it cannot be written whole; what stands of it is no line.
        """
        row = _row(_values(line)).encode()
        if self._file.write(row) != len(row):
            raise OSError(errno.ENOSPC, "No space left on device")

    def sync(self) -> None:
        """Let the disk have it."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """No more lines will come."""
        self._file.close()


def read_log(path: Path) -> list[Line]:
    """The whole lines of a log; none where there is no log.

    Raises:
        OutputError: it cannot be read.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except FileNotFoundError:
        return []
    except (OSError, UnicodeDecodeError) as error:
        raise OutputError(f"the log {path} cannot be read: {error}") from None
    whole = text[: text.rfind("\n") + 1]
    try:
        return [_read(row) for row in csv.DictReader(io.StringIO(whole))]
    except (KeyError, TypeError, ValueError) as error:
        raise OutputError(
            f"{path} is no log of a training ({error}); move it away to go on without it"
        ) from None


def _read(row: dict[str, str]) -> Line:
    values: dict[str, Any] = {
        f.name: _KINDS.get(f.name, float)(row[f.name] or "nan") for f in fields(Line)
    }
    return Line(**{**values, "held_out": values["held_out"] if row["held_out"] else None})


def _values(line: Line) -> Sequence[object]:
    return ["" if x is None else repr(x) for x in astuple(line)]


def _row(values: Sequence[object]) -> str:
    return ",".join(map(str, values)) + "\n"
