"""What of a run must be on the disk before the next thing happens, and the lock that keeps a run to one process."""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

from headwise.files import replacing
from headwise.names import OutputError

__all__ = ["Lock", "leftover", "put_text", "sync"]

_LOCK = ".headwise.lock"
_PART = ".headwise-*.part"


def sync(path: Path) -> None:
    """Bring a file or a folder's names to the disk; where a system has no such thing for folders, leave it."""
    with suppress(PermissionError):
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def put_text(path: Path, text: str, what: str) -> None:
    """Replace a file whole, on the disk when this is over.

    Args:
        path: where it goes.
        text: all that it holds.
        what: it is, as the errors call it.

    Raises:
        OutputError: it cannot be written.
    """
    try:
        with replacing(path, what) as place:
            place.write_text(text, encoding="utf-8")
            sync(place)
        sync(path.parent)
    except OSError as error:
        raise OutputError(
            f"{what} cannot be written to {path}: {error.strerror or error}; make room, or choose another folder"
        ) from error


def leftover(name: str) -> bool:
    """Whether something in a run's folder is but what a run left there that was killed, or its lock."""
    return name == _LOCK or Path(name).match(_PART)


class Lock:
    """The folder of a run, held by one process at a time; the system lets go where that one dies.

    Args:
        folder: of the run.
        does: what the other process does in it, as the error says.
    """

    def __init__(self, folder: Path, does: str = "trains") -> None:
        self.folder, self.does = folder, does
        self._held: Any = None

    def take(self) -> None:
        """Hold the folder, and clear it of what runs left there that were killed.

        Raises:
            OutputError: another process holds it, or it cannot be written.
        """
        from filelock import FileLock, Timeout

        lock = FileLock(self.folder / _LOCK)
        try:
            lock.acquire(timeout=0)
        except Timeout:
            raise OutputError(
                f"another process {self.does} in {self.folder}; wait until it is done, or stop it first"
            ) from None
        except NotImplementedError:  # a file system without locks
            return
        except OSError as error:
            raise OutputError(
                f"the run cannot be written to {self.folder}: {error.strerror or error}; make room, or choose "
                "another folder"
            ) from error
        self._held = lock
        for left in self.folder.glob(_PART):
            if left.is_dir():
                shutil.rmtree(left, ignore_errors=True)
            else:
                left.unlink(missing_ok=True)

    def close(self) -> None:
        """Let go; nothing where it is not held."""
        if self._held is not None:
            self._held.release()
            self._held = None
