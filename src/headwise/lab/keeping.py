"""What a run keeps: NAME.jsonl, a line for what was asked and one for each measurement, written as they come.

A run that was stopped or killed goes on with the same command: what stands in whole lines is not measured again.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from headwise.lab.results import Row
from headwise.names import OutputError
from headwise.train.disk import Lock, put_text

__all__ = ["Kept", "held", "read_rows"]


@contextmanager
def held(folder: Path) -> Iterator[None]:
    """Keep a folder of runs, made where it is not there, to this process: two would measure the same twice.

    Raises:
        OutputError: another process measures in it, or it cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{folder} cannot be made: {error.strerror or error}") from error
    with closing(Lock(folder, "measures")) as lock:
        lock.take()
        yield


class Kept:
    """The file of one claim's run, held open while it runs.

    Args:
        path: where it is; made where it is not there.
        asked: what the run was asked for; another than that in the file is refused.

    Attributes:
        rows: that were there.

    Raises:
        OutputError: a file of something else, of another run, or that cannot be written.
    """

    def __init__(self, path: Path, asked: Mapping[str, Any]) -> None:
        self.path = path
        self.rows: list[Row] = []
        if path.exists():
            before, self.rows = read_rows(path)
            _check_same(path, before, asked)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise OutputError(f"{path.parent} cannot be made: {error.strerror or error}") from error
        lines = [_line(dict(asked)), *(_line(_plain(row)) for row in self.rows)]
        put_text(path, "".join(lines), "the measurements")

    def add(self, row: Row) -> None:
        """Append a row, on the disk when this is over.

        Raises:
            OutputError: the disk refuses it; the rows before it stand.
        """
        try:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(_line(_plain(row)))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise OutputError(
                f"{self.path} cannot be written: {error.strerror or error}; what was measured before stands: make "
                "room, and give the same command again"
            ) from error
        self.rows.append(row)


def read_rows(path: Path) -> tuple[dict[str, Any], list[Row]]:
    """What a run was asked for, and its rows; a last line that was cut off is left out.

    Raises:
        OutputError: no such file, or one of something else.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OutputError(f"{path} cannot be read: {error}") from None
    try:
        said, *lines = [json.loads(line) for line in text[: text.rfind("\n") + 1].splitlines()]
        rows = [_row(line) for line in lines]
        if not isinstance(said, dict) or "claim" not in said:
            raise ValueError("its first line says no claim")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise OutputError(
            f"{path} holds no measurements of the lab ({error}); move it away, or choose another folder"
        ) from None
    return said, rows


def _check_same(path: Path, before: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    for name in ("claim", "quick", "seed", "text"):
        if before.get(name) != asked.get(name):
            raise OutputError(
                f"{path} is of a run with {name}={before.get(name)!r}, and this one has {asked.get(name)!r}; "
                "choose another folder with -o, or ask as that run did"
            )


def _row(line: Mapping[str, Any]) -> Row:
    numbers = {name: math.nan if x is None else float(x) for name, x in line["numbers"].items()}
    return Row(dict(line["case"]), int(line["seed"]), numbers, float(line["seconds"]))


def _plain(row: Row) -> dict[str, Any]:
    numbers = {name: x if math.isfinite(x) else None for name, x in row.numbers.items()}
    return {
        "case": dict(row.case),
        "seed": row.seed,
        "numbers": numbers,
        "seconds": round(row.seconds, 3),
    }


def _line(values: Mapping[str, Any] | Sequence[Any]) -> str:
    return json.dumps(values, ensure_ascii=False) + "\n"
