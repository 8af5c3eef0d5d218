"""What a profile leaves: its result, the rest of a run that was stopped beside it, and lines that say so."""

from __future__ import annotations

import stat
from pathlib import Path

import xarray as xr
from rich.console import Console

from headwise.cli.profile import Request
from headwise.names import OutputError
from headwise.see.profile.files import left_out, save_profile
from headwise.see.profile.partial import Partial, load_partial, partial_of, save_partial
from headwise.see.profile.striking import striking
from headwise.show.terminal import Stack, stack_words
from headwise.show.terminal_profile import profile_table

__all__ = ["Keeper", "say"]


def say(line: str) -> None:
    """A line on stderr."""
    Console(stderr=True, highlight=False, soft_wrap=True).print(line, markup=False)


class Keeper:
    """Where results go.

    Args:
        request: `out` for the result, None for the terminal alone; `resume` to go on with what is there.

    Attributes:
        sidecar: where the rest of a run waits; None where there is no file beside which it could.
        found: what an earlier run has left there.

    Raises:
        ModelError: an earlier run's rest is there, and not to be gone on with.
    """

    def __init__(self, request: Request) -> None:
        self.out = request.out
        self.sidecar = _sidecar(self.out)
        self.found: Partial | None = None
        if self.sidecar is None:
            if request.resume:
                raise OutputError(f"{self.out} is no file, so no stopped run waits beside it")
            return
        if request.resume:
            self.found = load_partial(self.sidecar)
        elif self.sidecar.exists():
            raise OutputError(
                f"{self.sidecar} holds what a stopped run has done; go on from there with --resume, or remove "
                "it to start from the beginning"
            )

    def save(self, partial: Partial) -> None:
        """Keep what is needed to go on.

        Raises:
            OutputError: it cannot be written.
        """
        if self.sidecar is not None:
            save_partial(partial, self.sidecar)

    def stop(self, profile: xr.Dataset, partial: Partial) -> str:
        """Keep a run that was stopped: its result so far, and what is needed to go on. Says what was kept.

        Raises:
            OutputError: the result cannot be written.
        """
        done = f"{counted(profile)} are done"
        if self.out is None:
            show(profile)
            return f"{done} and in the table; with -o they would be kept"
        on = ""
        if self.sidecar is not None and partial.batches:
            self.save(partial)
            on = ", go on with --resume"
        save_profile(profile, self.out)
        return f"{done} and in {self.out}{on}"

    def finish(self, profile: xr.Dataset, partial: Partial) -> None:
        """Show and save the result of a whole run; what an earlier part of it left is removed.

        Raises:
            OutputError: the result cannot be written; the run is kept beside it where that is possible.
        """
        show(profile)
        if self.out is None:
            return
        try:
            save_profile(profile, self.out)
        except OutputError as error:
            kept = self._rescued(partial)
            raise OutputError(f"{error}{kept}") from None
        if self.sidecar is not None:
            self.sidecar.unlink(missing_ok=True)

    def _rescued(self, partial: Partial) -> str:
        """What to say of a run whose result could not be written."""
        try:
            self.save(partial)
        except OutputError:
            return ""
        kept = f"; the run is kept in {self.sidecar}, so --resume needs no second one"
        return "" if self.sidecar is None else kept

    def wrote(self, profile: xr.Dataset) -> str:
        """What was written, and what the file has no place for."""
        if self.out is None:
            return ""
        left = left_out(profile, self.out)
        without = f" (without {', '.join(left)}: those are in .nc and .json)" if left else ""
        return f"; wrote {self.out}{without}"


def counted(profile: xr.Dataset) -> str:
    """How many texts and tokens a profile is of."""
    texts, tokens = profile.attrs["texts"], profile.attrs["tokens"]
    pieces = profile.attrs.get("pieces", texts)
    cut = f" in {pieces:,} pieces" if pieces != texts else ""
    return f"{texts:,} text{'' if texts == 1 else 's'}{cut}, {tokens:,} tokens"


def show(profile: xr.Dataset) -> None:
    """The table of the heads that stand out, on the terminal."""
    console = Console(highlight=False)
    stacks = ", ".join(stack_words(stack) for stack in _stacks(profile))
    console.print(f"{profile.attrs['model']}: {stacks}", markup=False)
    console.print(counted(profile), markup=False)
    console.print()
    colour = console.is_terminal and not console.no_color
    console.print(profile_table(striking(profile), width=console.width, colour=colour))


def _stacks(profile: xr.Dataset) -> list[Stack]:
    rows: dict[str, list[list[int]]] = {}
    for layer, groups in zip(profile["layer"].values, profile["kv_group"].values, strict=True):
        stream = str(layer).rpartition(".")[0]
        rows.setdefault(stream, []).append([int(group) for group in groups if group >= 0])
    return [Stack(s, len(r), len(r[0]), len(set(r[0]))) for s, r in rows.items()]


def _sidecar(out: Path | None) -> Path | None:
    """Where the rest of a run is kept; nowhere beside what is no file."""
    if out is None:
        return None
    try:
        regular = stat.S_ISREG(out.stat().st_mode)
    except FileNotFoundError:
        regular = True
    return partial_of(out) if regular else None
