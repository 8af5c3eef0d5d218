"""Checkpoints of a training: whole on the disk before they count, and checked when they are read.

checkpoints/step-00001200/ holds state.safetensors (weights, moments, random numbers) and state.json (the rest, with
the SHA-256 of the other). A folder is filled beside its place, brought to the disk and moved there; only then an
older one goes. Whatever kills a run, the newest that stands is whole.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from headwise.names import OutputError

__all__ = ["Checkpoint", "checkpoints", "newest", "write_checkpoint"]

_NAME = re.compile(r"step-(\d{8,})")
_PART = ".part"


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
    """Write a checkpoint, then remove all but the newest `keep`.

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
        folder.mkdir(exist_ok=True)
        clear_parts(folder)
        part.mkdir()
        with _plain_errors():
            save_file(_apart(checkpoint.tensors), part / "state.safetensors")
        said = {
            **checkpoint.said,
            "step": checkpoint.step,
            "sha256": _sum(part / "state.safetensors"),
        }
        _write_json(part / "state.json", said)
        for path in (*part.iterdir(), part):
            _sync(path)
        if place.exists():  # a damaged one, else the run had gone on from it
            _remove(place)
        part.rename(place)
        _sync(folder)
        for old in checkpoints(folder)[:-keep]:
            _remove(old)
    except OSError as error:
        shutil.rmtree(part, ignore_errors=True)
        raise OutputError(_unwritten(place, error, folder)) from error
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


def checkpoints(folder: Path) -> list[Path]:
    """The folders of checkpoints, the oldest first."""
    if not folder.is_dir():
        return []
    return sorted(
        (one for one in folder.iterdir() if _NAME.fullmatch(one.name)),
        key=lambda one: int(one.name.removeprefix("step-")),
    )


def clear_parts(folder: Path) -> None:
    """Remove what a run that was killed left half written or half removed."""
    for left in folder.glob(f".*{_PART}"):
        shutil.rmtree(left, ignore_errors=True)


def _read(place: Path) -> Checkpoint | str:
    """A checkpoint, or why it is none."""
    try:
        said = json.loads((place / "state.json").read_text(encoding="utf-8"))
        digest = said.pop("sha256")
        if digest != _sum(place / "state.safetensors"):
            return "its checksum is another"
        return Checkpoint(said.pop("step"), load_file(place / "state.safetensors"), said)
    except (OSError, ValueError, KeyError, AttributeError, SafetensorError) as error:
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


def _unwritten(place: Path, error: OSError, folder: Path) -> str:
    stands = checkpoints(folder)
    kept = f"the last good one is {stands[-1].name}" if stands else "there is none before it"
    return (
        f"the checkpoint {place} cannot be written: {error.strerror or error}; {kept}; "
        "make room, and go on with headwise train --resume"
    )


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _write_json(path: Path, said: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(said, indent=1) + "\n", encoding="utf-8")


def _sync(path: Path) -> None:
    """Bring a file or a folder's names to the disk; where a system has no such thing for folders, leave it."""
    with suppress(PermissionError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def _plain_errors() -> Iterator[None]:
    """safetensors has an error of its own for a full disk."""
    try:
        yield
    except SafetensorError as error:
        line = str(error).strip().partition("\n")[0]
        full = "No space left" in line
        raise OSError(
            errno.ENOSPC if full else errno.EIO, "No space left on device" if full else line
        ) from error
