"""Writing results: a file or folder is replaced whole or left as it was; what is neither is written into.

Floor 0: this module imports nothing of ours but the errors.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path

from headwise.names import OutputError

__all__ = ["check_ending", "check_folder", "check_writable", "replacing", "replacing_folder"]


@contextmanager
def replacing(path: Path, what: str) -> Iterator[Path]:
    """Yield the path of a new file to write; after the `with`, `path` holds what it held.

    A file is written beside `path` and moved there, so that a failure leaves an old one as it was,
    and keeps its permissions; a link stays, and what it leads to is replaced. A device, a pipe or a
    socket is never replaced: what was written is copied into it.

    Args:
        path: where the result goes.
        what: the result, as the errors call it: `the record`.

    Raises:
        OutputError: a folder, or a path that cannot be written, and why.
    """
    mode = check_writable(path, what)
    try:
        if mode is None or stat.S_ISREG(mode):
            with _beside(path.resolve(), mode) as place:
                yield place
        else:
            with tempfile.TemporaryDirectory(prefix="headwise-") as folder:
                place = Path(folder) / "result"
                yield place
                with place.open("rb") as source, path.open("wb") as into:
                    shutil.copyfileobj(source, into)
    except OSError as error:
        raise _refusal(path, what, error.strerror or str(error)) from error


@contextmanager
def replacing_folder(path: Path, what: str, ours: Iterable[str]) -> Iterator[Path]:
    """Yield a new empty folder to fill; after the `with`, it is the folder at `path`.

    It is filled beside `path` and moved there, so that a failure leaves an old folder as it was. An old one is
    replaced only where that loses nothing: each thing it holds is in the new one too, or has a name of `ours`.

    Args:
        path: where the folder goes; a link stays, and what it leads to is replaced.
        what: the result, as the errors call it: `the model`.
        ours: patterns (fnmatch) of the names that only an old result has.

    Raises:
        OutputError: a file, a folder that holds something else, or one that cannot be written, and why.
    """
    ours = (*ours,)
    check_folder(path, what)
    try:
        target = path.resolve()
        place = target.with_name(_name())
        try:
            place.mkdir()
            yield place
            _check_loses_nothing(path, place, what, ours)
            _exchange(place, target)
        finally:
            shutil.rmtree(place, ignore_errors=True)
    except OSError as error:
        raise _refusal(path, what, error.strerror or str(error)) from error


def check_folder(path: Path, what: str) -> None:
    """Refuse a path at which no folder can be made or replaced, before anything is made.

    Raises:
        OutputError: a file, or a path that cannot be written, or whose folder does not exist.
    """
    try:
        mode = _mode(path)
        home = path.resolve().parent
        if not stat.S_ISDIR(home.stat().st_mode):
            raise NotADirectoryError(20, "Not a directory")
    except (OSError, ValueError, RuntimeError) as error:  # ValueError: a NUL; RuntimeError: a loop
        raise _refusal(path, what, getattr(error, "strerror", None) or str(error)) from None
    if mode is not None and not stat.S_ISDIR(mode):
        raise _refusal(path, what, "it is a file, and a folder is to be written")
    if not all(os.access(place, os.W_OK) for place in ([home] if mode is None else [home, path])):
        raise _refusal(path, what, "Permission denied")


def _check_loses_nothing(path: Path, new: Path, what: str, ours: tuple[str, ...]) -> None:
    """Refuse to replace a folder that holds what the new one does not."""
    held = sorted(entry.name for entry in path.iterdir()) if path.is_dir() else []
    lost = [
        name
        for name in held
        if not (new / name).exists() and not any(fnmatchcase(name, pattern) for pattern in ours)
    ]
    if lost:
        more = f" and {len(lost) - 3} more" if len(lost) > 3 else ""
        raise _refusal(path, what, f"it holds {', '.join(lost[:3])}{more}, which would be lost")


def _exchange(new: Path, target: Path) -> None:
    """Put `new` at `target`; what was there is removed, or put back where that fails."""
    if not target.exists():
        new.rename(target)
        return
    new.chmod(stat.S_IMODE(target.stat().st_mode))
    old = target.with_name(_name())
    try:
        target.rename(old)
        new.rename(target)
    except BaseException:  # Ctrl-C too
        if old.exists() and not target.exists():
            old.rename(target)
        raise
    shutil.rmtree(old, ignore_errors=True)


def check_ending(path: Path, endings: Iterable[str]) -> None:
    """Refuse a name whose ending says no kind of table.

    Raises:
        OutputError: it has none of the endings.
    """
    if path.suffix.lower() not in endings:
        kinds = ", ".join(endings)
        raise OutputError(
            f"{str(path)!r} says no kind of table; its name must end in one of {kinds}"
        )


def check_writable(path: Path, what: str) -> int | None:
    """The mode of what is at `path`, None where nothing is; refused before anything is made.

    Raises:
        OutputError: a folder, a read-only file, or a path whose folder does not exist.
    """
    try:
        mode = _mode(path)
        folder = path.resolve().parent
        if mode is None and not stat.S_ISDIR(folder.stat().st_mode):
            raise NotADirectoryError(20, "Not a directory")
    except (OSError, ValueError, RuntimeError) as error:  # ValueError: a NUL; RuntimeError: a loop
        raise _refusal(path, what, getattr(error, "strerror", None) or str(error)) from None
    if mode is not None and stat.S_ISDIR(mode):
        raise _refusal(path, what, "it is a folder, which headwise cannot write over")
    needed = [path] if mode is not None else []
    if mode is None or stat.S_ISREG(mode):
        needed.append(folder)  # the new file is made there
    if not all(os.access(place, os.W_OK) for place in needed):
        raise _refusal(path, what, "Permission denied")
    return mode


def _mode(path: Path) -> int | None:
    try:
        return path.stat().st_mode
    except FileNotFoundError:
        return None


@contextmanager
def _beside(target: Path, mode: int | None) -> Iterator[Path]:
    """A new file beside `target`, moved there at the end; gone where anything fails."""
    place = target.with_name(_name())
    try:
        place.touch(exist_ok=False)
        wanted = stat.S_IMODE(place.stat().st_mode if mode is None else mode)
        yield place
        if stat.S_IMODE(place.stat().st_mode) != wanted:  # a writer may have put its own file there
            place.chmod(wanted)
        os.replace(place, target)
    finally:
        with suppress(OSError):
            place.unlink(missing_ok=True)


def _name() -> str:
    """A name that nothing beside a result has."""
    return f".headwise-{os.getpid()}-{secrets.token_hex(4)}.part"


def _refusal(path: Path, what: str, why: str) -> OutputError:
    return OutputError(f"{what} cannot be written to {path}: {why}; choose another path")
