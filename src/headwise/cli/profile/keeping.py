"""What a profile leaves: its result, the rest of a run that was stopped beside it, and words that say so."""

from __future__ import annotations

import stat
import tempfile
from contextlib import suppress
from pathlib import Path

import xarray as xr
from rich.console import Console

from headwise.cli.printing import counted, print_out, stacks_of, without
from headwise.cli.profile.command import ProfileRequest
from headwise.names import OutputError
from headwise.see.profile.files import left_out, save_profile
from headwise.see.profile.partial import Partial, load_partial, partial_of, save_partial
from headwise.see.profile.striking import striking
from headwise.show.terminal import stack_words
from headwise.show.terminal_profile import profile_table

__all__ = ["Keeper"]


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

    def __init__(self, request: ProfileRequest) -> None:
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
            OutputError: there is no file to keep it in, and the table cannot be written.
        """
        done = f"{counted(profile)} are done"
        if self.out is None:
            show(profile)
            return f"{done} and in the table; with -o they would be kept"
        kept = "" if self.sidecar is None else self._kept(profile, partial)
        try:
            save_profile(profile, self.out)
        except OutputError as error:
            return f"{done}; {error}; {kept or self._rescued(profile, partial)}"
        on = ", go on with --resume" if kept == self._waits() else f"; {kept}"
        return f"{done} and in {self.out}{on if kept else ''}"

    def finish(self, profile: xr.Dataset, partial: Partial) -> None:
        """Save the result of a whole run, remove what an earlier part of it left, then show the result.

        Raises:
            OutputError: the result cannot be written (the run is kept where that is possible), or not shown.
        """
        if self.out is not None:
            try:
                save_profile(profile, self.out)
            except OutputError as error:
                raise OutputError(f"{error}; {self._kept(profile, partial)}") from None
            if self.sidecar is not None:
                self.sidecar.unlink(missing_ok=True)
        show(profile, self.out)

    def _kept(self, profile: xr.Dataset, partial: Partial) -> str:
        """Keep a run that may have no result: beside it, else in the temporary folder. Says where it is."""
        with suppress(OutputError):
            self.save(partial)
            if self.sidecar is not None:
                return self._waits()
        return self._rescued(profile, partial)

    def _waits(self) -> str:
        return f"the run is kept in {self.sidecar}, go on with --resume"

    def _rescued(self, profile: xr.Dataset, partial: Partial) -> str:
        """Keep the result in the temporary folder, and what is needed to go on. Says where they are."""
        assert self.out is not None
        nothing = "nothing of this run is kept: the temporary folder takes nothing either"
        try:
            folder = Path(tempfile.mkdtemp(prefix="headwise-"))
        except OSError:
            return nothing
        said = []
        with suppress(OutputError):
            save_profile(profile, folder / self.out.name)
            said.append(f"the result is kept in {folder / self.out.name}")
        if self.sidecar is not None:
            with suppress(OutputError):
                save_partial(partial, folder / self.sidecar.name)
                said.append(
                    f"the run is kept in {folder / self.sidecar.name}, move it to {self.sidecar} to go on "
                    "with --resume"
                )
        if not said:
            with suppress(OSError):
                folder.rmdir()
        return "; ".join(said) or nothing

    def wrote(self, profile: xr.Dataset) -> str:
        """What was written, and what the file has no place for."""
        if self.out is None:
            return ""
        return f"; wrote {self.out}{without(left_out(profile, self.out))}"


def show(profile: xr.Dataset, saved: Path | None = None) -> None:
    """The table of the heads that stand out, on the terminal (`print_out`)."""

    def table(console: Console, colour: bool) -> None:
        stacks = ", ".join(stack_words(stack) for stack in stacks_of(profile))
        console.print(f"{profile.attrs['model']}: {stacks}", markup=False)
        console.print(counted(profile), markup=False)
        console.print()
        console.print(profile_table(striking(profile), width=console.width, colour=colour))

    print_out(table, saved)


def _sidecar(out: Path | None) -> Path | None:
    """Where the rest of a run is kept; nowhere beside what is no file."""
    if out is None:
        return None
    try:
        regular = stat.S_ISREG(out.stat().st_mode)
    except FileNotFoundError:
        regular = True
    return partial_of(out) if regular else None
