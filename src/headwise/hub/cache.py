"""The cache of converted models: each entry whole or not there at all.

    <cache>/models/<name>/            an entry, with a SOURCE.json that lists its files and origin
    <cache>/models/.<name>.lock       held by the process that makes the entry
    <cache>/models/.<name>.part-*/    where it is made; moved into place in one step when complete

<cache> is the environment's HEADWISE_CACHE, else the user's cache folder of the system.
"""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headwise.hub.report import megabytes, say
from headwise.names import HeadwiseError, ModelError

__all__ = ["cached", "models_folder"]

_SOURCE = "SOURCE.json"

# Makes an entry: (scratch folder, empty target folder) -> where it came from, for SOURCE.json
Build = Callable[[Path, Path], dict[str, Any]]


def models_folder() -> Path:
    """The folder of converted models (it may not exist yet)."""
    root = os.environ.get("HEADWISE_CACHE")
    if root:
        return Path(root).expanduser() / "models"
    from platformdirs import user_cache_dir

    return Path(user_cache_dir("headwise")) / "models"


def cached(name: str, stamp: str, build: Build, *, needs: int, quiet: bool) -> Path:
    """The folder of entry `name`, made by `build` when it is missing, broken or out of date.

    Args:
        name: folder name of the entry.
        stamp: mark of the converter; an entry with another one is made again.
        build: makes the entry; what it leaves in the scratch folder is thrown away.
        needs: bytes of free disk that `build` needs.
        quiet: say nothing on stderr.

    Raises:
        ModelError: no room, no permission, or `build` failed; the cache is as it was before.
    """
    folder = models_folder() / name
    if _is_whole(folder, stamp):
        return folder
    with _disk_errors(folder.parent), _locked(folder, quiet=quiet):
        if not _is_whole(folder, stamp):
            _check_room(folder.parent, name, needs)
            _make(folder, stamp, build)
    return folder


def _is_whole(folder: Path, stamp: str) -> bool:
    """Whether every file that was made is there with its size. Reads one small file."""
    try:
        source = json.loads((folder / _SOURCE).read_text(encoding="utf-8"))
        sizes = source["files"]
        return source["converter"] == stamp and all(
            (folder / path).stat().st_size == size for path, size in sizes.items()
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


@contextmanager
def _locked(folder: Path, *, quiet: bool) -> Iterator[None]:
    from filelock import FileLock, Timeout

    folder.parent.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder.with_name(f".{folder.name}.lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        say(f"waiting for another process that makes {folder.name}", quiet=quiet)
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _make(folder: Path, stamp: str, build: Build) -> None:
    for leftover in folder.parent.glob(f".{folder.name}.part-*"):  # of a process that was killed
        shutil.rmtree(leftover, ignore_errors=True)
    part = Path(tempfile.mkdtemp(prefix=f".{folder.name}.part-", dir=folder.parent))
    try:
        scratch, target = part / "scratch", part / "model"
        scratch.mkdir()
        target.mkdir()
        origin = build(scratch, target)
        files = {
            path.relative_to(target).as_posix(): path.stat().st_size
            for path in sorted(target.rglob("*"))
            if path.is_file()
        }
        source = {**origin, "converter": stamp, "files": files}
        (target / _SOURCE).write_text(json.dumps(source, indent=2) + "\n", encoding="utf-8")
        if folder.exists():
            folder.rename(part / "old")
        target.rename(folder)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _check_room(parent: Path, name: str, needs: int) -> None:
    free = shutil.disk_usage(parent).free
    if free < needs:
        raise ModelError(
            f"{name} needs {megabytes(needs)} of free disk while it is made, and {parent} has "
            f"{megabytes(free)}; set HEADWISE_CACHE to a folder on a larger disk"
        )


@contextmanager
def _disk_errors(parent: Path) -> Iterator[None]:
    """Turn what the disk refuses into one line."""
    try:
        yield
    except HeadwiseError:
        raise
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        said = "the disk is full" if full else error.strerror or str(error)
        where = error.filename or parent
        raise ModelError(
            f"cannot write the model cache at {where}: {said}; "
            "set HEADWISE_CACHE to a folder that can be written and has room"
        ) from error
