"""Checkpoints of a training: whole on the disk before they count, and checked when they are read.

checkpoints/step-00001200/ holds state.safetensors (weights, moments), state.json (the rest) and SHA256SUMS, which
`sha256sum -c` reads. A folder is filled beside its place, brought to the disk and moved there; only then an
older one goes. Whatever kills a run, the newest that stands is whole.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from headwise.names import OutputError
from headwise.nn.writing import disk_errors, write_json
from headwise.train.disk import sync as _sync

__all__ = ["Checkpoint", "checkpoints", "newest", "write_checkpoint"]

_NAME = re.compile(r"step-(\d{8,})")
_PART = ".part"
_TENSORS, _SAID, _SUMS = "state.safetensors", "state.json", "SHA256SUMS"


@dataclass(frozen=True, eq=False)
class Checkpoint:
    """All that a training goes on from.

    Attributes:
        step: how many were done.
        tensors: by their names.
        said: plain data beside them.
    """

    step: int
    tensors: Mapping[str, Tensor]
    said: Mapping[str, Any]


def write_checkpoint(folder: Path, checkpoint: Checkpoint, keep: int) -> Path:
    """Write a checkpoint, then remove those of later steps, which the run went back past, and old ones.

    Args:
        folder: of the checkpoints.
        checkpoint: what is written.
        keep: how many stay, this one among them.

    Raises:
        OutputError: it cannot be written (a full disk); those before stay as they are.
    """
    place = folder / f"step-{checkpoint.step:08d}"
    part = folder / f".{place.name}{_PART}"
    try:
        if not folder.is_dir():
            folder.mkdir()
            _sync(folder.parent)
        clear_parts(folder)
        part.mkdir()
        with disk_errors():
            save_file(_apart(checkpoint.tensors), part / _TENSORS)
        write_json(part / _SAID, {**checkpoint.said, "step": checkpoint.step})
        (part / _SUMS).write_text(_sums(part), encoding="utf-8")
        for path in (*part.iterdir(), part):
            _sync(path)
        if place.exists():  # a damaged one, else the run had gone on from it
            _remove(place)
        part.rename(place)
        _sync(folder)
        good = checkpoints(folder, checkpoint.step)[-keep:]
        for old in checkpoints(folder):
            if old not in good:
                _remove(old)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        stands = checkpoints(folder, checkpoint.step - 1)
        raise OutputError(_unwritten(place, error, stands)) from error
    return place


def newest(folder: Path, tell: Callable[[str], None]) -> Checkpoint | None:
    """The newest checkpoint that is whole; None where none is.

    Args:
        folder: of the checkpoints.
        tell: is told of each that is damaged.
    """
    for place in reversed(checkpoints(folder)):
        read = _read(place)
        if isinstance(read, Checkpoint):
            return read
        tell(f"{place} is damaged ({read}); going back to the one before")
    return None


def checkpoints(folder: Path, until: int | None = None) -> list[Path]:
    """The folders of checkpoints, the oldest first; until: the last step that is listed."""
    if not folder.is_dir():
        return []
    found = {_step(one): one for one in folder.iterdir() if _NAME.fullmatch(one.name)}
    return [found[step] for step in sorted(found) if until is None or step <= until]


def clear_parts(folder: Path) -> None:
    """Remove what a run that was killed left half written or half removed."""
    for left in folder.glob(f".*{_PART}"):
        shutil.rmtree(left, ignore_errors=True)


def _read(place: Path) -> Checkpoint | str:
    """A checkpoint, or why it is none."""
    try:
        if (place / _SUMS).read_text(encoding="utf-8") != _sums(place):
            return "its checksum is another"
        said = json.loads((place / _SAID).read_text(encoding="utf-8"))
        if said.pop("step") != _step(place):
            return "it is of another step"
        return Checkpoint(_step(place), load_file(place / _TENSORS), said)
    except (
        *(OSError, ValueError, TypeError, KeyError, AttributeError),
        *(RecursionError, SafetensorError),
    ) as error:
        return str(error).strip().partition("\n")[0] or type(error).__name__


def _apart(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The same on the CPU, each with a memory of its own, as the format asks."""
    seen: set[int] = set()
    apart: dict[str, Tensor] = {}
    for name, tensor in tensors.items():
        own = tensor.detach().cpu().contiguous()
        whole = own.untyped_storage().nbytes() == own.numel() * own.element_size()
        if not whole or own.untyped_storage().data_ptr() in seen:
            own = own.clone()
        seen.add(own.untyped_storage().data_ptr())
        apart[name] = own
    return apart


def _remove(place: Path) -> None:
    """Remove a checkpoint so that half of it never stands under its name."""
    gone = place.with_name(f".{place.name}.old{_PART}")
    place.rename(gone)
    shutil.rmtree(gone, ignore_errors=True)


def _step(place: Path) -> int:
    return int(place.name.removeprefix("step-"))


def _unwritten(place: Path, error: OSError, stands: list[Path]) -> str:
    kept = f"the last good one is {stands[-1].name}" if stands else "there is none before it"
    return (
        f"the checkpoint {place} cannot be written: {error.strerror or error}; {kept}; "
        "make room, and go on with headwise train --resume"
    )


def _sums(place: Path) -> str:
    """The checksums of a checkpoint's files, as sha256sum writes them."""
    lines = []
    for name in (_TENSORS, _SAID):
        with (place / name).open("rb") as file:
            lines.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {name}\n")
    return "".join(lines)
