"""What every command prints alike: tables on the standard output, lines on stderr, what was read and written."""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import xarray as xr
from rich.console import Console

from headwise.names import OutputError
from headwise.show.terminal import Stack

__all__ = ["counted", "glyphs_told", "print_out", "say", "stacks_of", "without"]


def say(line: str) -> None:
    """A line on stderr."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(line, markup=False)


@contextmanager
def glyphs_told() -> Iterator[None]:
    """Tell once, in a line on stderr, which characters of the pictures drawn within have no font here."""
    from headwise.show.fonts import MissingGlyphWarning

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", MissingGlyphWarning)
        yield
    found = [one for one in caught if issubclass(one.category, MissingGlyphWarning)]
    for line in dict.fromkeys(str(one.message) for one in found):
        say(f"headwise: {line}")


def counted(profile: xr.Dataset | xr.DataArray) -> str:
    """How many texts and tokens a profile (or distances) is of."""
    texts, tokens = profile.attrs["texts"], profile.attrs["tokens"]
    pieces = profile.attrs.get("pieces", texts)
    cut = f" in {pieces:,} pieces" if pieces != texts else ""
    return f"{texts:,} text{'' if texts == 1 else 's'}{cut}, {tokens:,} token{'' if tokens == 1 else 's'}"


def without(left: list[str]) -> str:
    """Which variables a file has no place for, in words."""
    return f" (without {', '.join(left)}: those are in .nc and .json)" if left else ""


def print_out(show: Callable[[Console, bool], None], saved: Path | None = None) -> None:
    """A table on the terminal.

    Args:
        show: prints it to the console it is given, in colour or not.
        saved: where it is saved, so that the table may be left unread, as by `| head`.

    Raises:
        OutputError: the table cannot be written.
    """
    console = Console(highlight=False)
    colour = console.is_terminal and not console.no_color
    try:
        with console.capture() as capture:  # rich itself ends the process where a pipe was closed
            show(console, colour)
        sys.stdout.write(capture.get())
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what the buffer holds
        if saved is not None and isinstance(error, BrokenPipeError):
            return
        where = "with -o a file would hold it" if saved is None else f"{saved} is whole"
        raise OutputError(
            f"the table cannot be written: {error.strerror or error}; {where}"
        ) from None


def stacks_of(profile: xr.Dataset) -> list[Stack]:
    """The stacks of attention layers of a profile's model."""
    rows: dict[str, list[list[int]]] = {}
    for layer, groups in zip(profile["layer"].values, profile["kv_group"].values, strict=True):
        stream = str(layer).rpartition(".")[0]
        rows.setdefault(stream, []).append([int(group) for group in groups if group >= 0])
    return [
        Stack.of(stream, [len(heads) for heads in layers], [len(set(heads)) for heads in layers])
        for stream, layers in rows.items()
    ]
