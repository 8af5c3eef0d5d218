"""The folder of a training, and what it was asked for.

RUN/
|- run.toml         all that was asked: model, recipe, tokenizer, texts with their checksums
|- log.csv          a line for each step
|- checkpoints/     the newest ones, to go on from
|- tokenizer.json   where texts are read
|- config.json, model.safetensors     the model, when it is done or was stopped
|- curves.png       drawn by `headwise train`
'- .headwise.lock   held by the process that trains here
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import nn

from headwise.names import ConfigError, OutputError
from headwise.train.disk import leftover, put_text, sync
from headwise.train.log import Line

__all__ = ["Run", "check_fresh", "differing", "read_asked", "write_asked"]

_ASKED = "run.toml"
_FREE = ("keep", "save_every")
"""Fields of a recipe that change nothing of what comes out."""
_NEEDED = (("model", "class"), ("train", "steps"), ("start", "tensor_parallel"))
"""What run.toml always says; the last is its last line, so one that was cut short is known."""


@dataclass(frozen=True, eq=False, repr=False)
class Run:
    """A training that is over, or was stopped.

    Attributes:
        model: as it is now.
        log: a line for each step.
        folder: of the run.
        stopped: why it ended before its time; "" where it did not.
        before: how many of its steps had been made before it was taken up again.
    """

    model: nn.Module
    log: tuple[Line, ...]
    folder: Path
    stopped: str
    before: int = 0

    def __repr__(self) -> str:
        loss = f", loss {self.log[-1].loss:.4f}" if self.log else ""
        kind = type(self.model).__name__
        return f"<Run {self.folder}: {kind}, {self.stopped or f'{self.steps} steps'}{loss}>"

    @property
    def steps(self) -> int:
        """How many were made, from the first on."""
        return self.log[-1].step if self.log else 0

    @property
    def held_out(self) -> tuple[tuple[int, float], ...]:
        """(step, mean loss of the held-out texts after so many steps)."""
        return tuple((x.step, x.held_out) for x in self.log if x.held_out is not None)


def check_fresh(folder: Path) -> None:
    """Refuse a folder for a new run that holds something.

    Raises:
        OutputError: it does, or cannot be made.
    """
    if (folder / _ASKED).exists():
        raise OutputError(
            f"{folder} holds a run; go on with it by headwise train --resume {folder}, or choose another folder"
        )
    try:
        folder.mkdir(exist_ok=True)
        sync(folder.parent)
        held = sorted(one.name for one in folder.iterdir() if not leftover(one.name))
    except OSError as error:
        raise OutputError(
            f"the run cannot be written to {folder}: {error.strerror or error}; choose another folder"
        ) from None
    if held:
        raise OutputError(
            f"{folder} holds {held[0]}{' and more' if held[1:] else ''}, which is no run's; choose another folder"
        )


def write_asked(folder: Path, asked: Mapping[str, Mapping[str, Any]]) -> None:
    """Write run.toml, on the disk before the first step."""
    lines = ["# What headwise train was asked for; headwise train --resume goes on with it.\n"]
    for name, table in asked.items():
        lines += [f"\n[{name}]\n", *(f"{key} = {_toml(value)}\n" for key, value in _some(table))]
    put_text(folder / _ASKED, "".join(lines), "what was asked for")


def read_asked(folder: Path) -> dict[str, dict[str, Any]]:
    """What run.toml says.

    Raises:
        OutputError: there is none, or it cannot be read, or not all of it is there.
    """
    path = folder / _ASKED
    try:
        asked = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise OutputError(
            f"{folder} holds no run (no {_ASKED}); give the folder of one, or texts to start one"
        ) from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise OutputError(f"{path} cannot be read: {error}") from None
    for table, field in _NEEDED:
        if not isinstance(held := asked.get(table), dict) or field not in held:
            raise OutputError(
                f"{path} is damaged: it says no {field} in [{table}]; put it back as it was, or start another run"
            )
    return asked


def differing(
    before: Mapping[str, Mapping[str, Any]], now: Mapping[str, Mapping[str, Any]]
) -> None:
    """Refuse to go on with a run that was asked for otherwise.

    Raises:
        ConfigError: a field that is another, by name.
    """
    for table in sorted({*before, *now}):
        old, new = dict(_some(before.get(table, {}))), dict(_some(now.get(table, {})))
        for name in dict.fromkeys((*old, *new)):
            if name not in _FREE and _plain(old.get(name)) != _plain(new.get(name)):
                raise ConfigError(
                    f"the run was asked for with {name}={old.get(name)!r} in [{table}], and now "
                    f"{name}={new.get(name)!r} came; resume it as it was, or start another (init takes its weights)"
                )


def _some(table: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """TOML has no word for None: what is not there."""
    return [(name, value) for name, value in table.items() if value is not None]


def _plain(value: Any) -> Any:
    return list(map(_plain, value)) if isinstance(value, list | tuple) else value


def _toml(value: Any) -> str:
    """Strings, numbers, truth values, lists and tables of them as TOML writes them."""
    if isinstance(value, Mapping):
        inside = ", ".join(f"{json.dumps(str(k))} = {_toml(v)}" for k, v in _some(value))
        return f"{{ {inside} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool | int | float):
        return repr(value).lower()
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
