"""What `headwise profile` does once its arguments are read: run the model over the corpus, save, show."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import torch
import xarray as xr

from headwise import __version__
from headwise.cli.printing import say
from headwise.cli.profile.command import ProfileRequest
from headwise.cli.profile.keeping import Keeper
from headwise.cli.progress import RunProgress
from headwise.cli.reading import begun, out_of_memory, reading_model
from headwise.cli.stopping import Stopping
from headwise.core import kernel
from headwise.names import ConfigError, HeadwiseError, ModelError, OutputError, TextError
from headwise.see.probes import BUILT_IN, ON_REPEATED, Probe, named
from headwise.see.profile.partial import (
    OtherTextsError,
    Partial,
    Read,
    ReadTexts,
    check_made_with,
    weights_of,
)
from headwise.see.profile.profiler import Profiler
from headwise.see.profile.running import Run, Word, united
from headwise.see.profile.together import LostError, Team, joined
from headwise.see.texts.batches import Batch
from headwise.see.texts.packing import packed

_FIRST = 10.0
"""Seconds until what is done is saved first."""

_EVERY = 60.0
"""Seconds between two savings after that."""

_LEAST_PAUSE = 30.0
"""A saving is followed by at least so many times what it took, so that it takes no more than 3 % of the time."""


def run(request: ProfileRequest) -> int:
    """Profile, alone or as one of several processes; the exit code."""
    probes = tuple(map(_of_texts, request.probes)) or BUILT_IN
    texts = begun(request.corpus.texts())
    with joined() as team:
        session = _together(request, team, probes, texts)
        if session is None:
            return 1
        try:
            return session.go()
        except HeadwiseError:
            if team.rank == 0:
                raise
            return 1  # the first process tells


def _of_texts(name: str) -> Probe:
    """The probe of this name; those of repeated random tokens are no probes of texts."""
    probe = named(name)
    if probe in ON_REPEATED:
        raise ConfigError(
            f"{name} is measured on random tokens, repeated, which `headwise roles` runs beside the texts: "
            f"headwise roles FILES --probe {name}"
        )
    return probe


def _together(
    request: ProfileRequest, team: Team, probes: tuple[Probe, ...], texts: Iterator[str]
) -> Session | None:
    """The session, once all processes have theirs; None where one failed, which the first tells."""
    if team.size == 1:
        return Session(request, team, probes, texts)
    session, problem = None, None
    try:
        session = Session(request, team, probes, texts)
    except HeadwiseError as error:
        problem = str(error)
    problems = [line for line in team.tell(problem) if line is not None]
    if problems and team.rank == 0:
        raise ModelError(problems[0])
    return None if problems else session


@dataclass(eq=False)
class _Sums:
    """Of this process: the sums, which batches are in them, and how far texts were read for them."""

    state: dict[str, np.ndarray | str]
    done: set[int]
    reads: tuple[Read, ...]


class Session:
    """One run over a corpus.

    Args:
        request: what was asked for.
        team: the processes that share the corpus.
        probes: to score.
        texts: of the corpus.

    Raises:
        HeadwiseError: what can be told before the run.
    """

    def __init__(
        self,
        request: ProfileRequest,
        team: Team,
        probes: tuple[Probe, ...],
        texts: Iterator[str],
    ) -> None:
        self.request, self.team, self.probes = request, team, probes
        self.leads = team.rank == 0
        self.keeper = Keeper(request)
        self.model = reading_model(
            request,
            call="profile",
            targets=None if request.targets is None else "--target",
            quiet=not self.leads,
        )
        self.made_with = self._made_with()
        self.profiler = Profiler(
            self.model, probes=self.probes, pool=request.pool, context=request.context
        )
        self.readers = self._readers(texts)
        self.breaks: tuple[int, ...] = ()
        self.run = Run(self.profiler, team, step=self._step, word=self._word, save=self._autosave)
        self._go_on()
        self._reads = tuple(reader.read for reader in self.readers)
        self._pending = (0, 0, 0)
        self._save_at = time.monotonic() + _FIRST
        self._by_bytes = request.corpus.size() is not None

    def go(self) -> int:
        """Run to the end, or until it is stopped; the exit code.

        Raises:
            HeadwiseError: what stopped it; what was done before is kept.
        """
        with Stopping() if self.leads else Stopping("") as self.stopping:
            with self._progress() as self.progress:
                ended, problem = self._through()
            return self._end(ended, problem)

    def _through(self) -> tuple[bool, Exception | None]:
        """Whether the run came to its end, and what went wrong with a text or a batch."""
        targets = self.readers[1] if len(self.readers) > 1 else None
        context, breaks = self.request.context, self.breaks
        batches = packed(
            self.model, self.readers[0], targets=targets, context=context, breaks=breaks
        )
        try:
            ended = self.run.through(batches)
        except (LostError, OtherTextsError):  # what was saved before stays as it is
            raise
        except torch.OutOfMemoryError as error:
            return False, out_of_memory(error)
        except Exception as error:
            return False, self._fault() or error
        fault = self._fault()
        return ended and fault is None, fault

    def _end(self, ended: bool, problem: Exception | None) -> int:
        """Save and show what was done, and what to go on from where that is not all."""
        now = self._sums()
        sums, numbers = self._united(now)
        if not self.leads:
            if problem is not None and not isinstance(problem, HeadwiseError):
                raise problem
            return 0 if ended else 1
        if not sums.batches:
            raise problem or TextError("stopped before a batch was done; there is nothing to save")
        profile = sums.dataset()
        partial = self._partial(now, sums, numbers)
        if ended:
            self.keeper.finish(profile, partial)
            seconds, speed = self.progress.seconds, self.progress.speed
            rate = f"{self.progress.tokens:,} tokens in {seconds:,.1f} s ({speed:,.0f} tokens/s)"
            say(f"{rate}, {_exactness(profile)}{self.keeper.wrote(profile)}")
            return 0
        kept = self.keeper.stop(profile, partial)
        if isinstance(problem, HeadwiseError):
            raise type(problem)(f"{problem}; {kept}")
        if problem is not None:  # a fault of ours
            say(f"headwise: {kept}")
            raise problem
        say(f"headwise: interrupted; {kept}")
        return self.stopping.code

    # before the run

    def _made_with(self) -> dict[str, str]:
        """What a run and the one that goes on with it must have in common."""
        request = self.request
        return {
            "headwise": __version__,
            "weights": f"{weights_of(self.model)} ({self.model.name})",
            "probes": ", ".join(probe.name for probe in self.probes),
            "context": str(request.context or self.model.max_length),
            "pool": str(request.pool),
            "targets": "none" if request.targets is None else "given",
        }

    def _readers(self, texts: Iterator[str]) -> tuple[ReadTexts, ...]:
        readers = [ReadTexts(texts)]
        if self.request.targets is not None:
            readers.append(ReadTexts(self.request.targets.texts(), name="targets"))
        return tuple(readers)

    def _go_on(self) -> None:
        """Take up what an earlier run has left."""
        partial, sidecar = self.keeper.found, self.keeper.sidecar
        if self.request.resume and self.request.out is not None and partial is None and self.leads:
            old = " (which the new one replaces)" if self.request.out.exists() else ""
            say(
                f"headwise: no unfinished run beside {self.request.out}{old}; starting from the beginning"
            )
        if partial is None or sidecar is None:
            return
        check_made_with(partial, self.made_with, sidecar)
        if self.leads:  # the others add to it
            self.profiler.restore(partial.state)
        self.run.skip, self.breaks = partial.batches, partial.breaks
        for reader, read in zip(self.readers, partial.reads, strict=True):
            reader.expected = read

    def _progress(self) -> RunProgress:
        corpus = self.request.corpus
        total = (corpus.size() or corpus.count()) if self.leads else None
        if self._by_bytes and self.run.skip:
            total = None  # how many bytes were done before is not known
        before = 0 if self._by_bytes else self.profiler.texts
        return RunProgress(total, self.profiler.texts, before, self.leads)

    # after each step

    def _step(self, batches: list[Batch]) -> None:
        self._reads = tuple(reader.read for reader in self.readers)
        ends = self._reads[0].count
        if self._fault() is not None and ends not in self.breaks:  # of the mended corpus, too
            self.breaks = (*self.breaks, ends)
        texts = sum(batch.size if batch.begun is None else batch.begun for batch in batches)
        tokens = sum(batch.tokens or 0 for batch in batches)
        self._pending = (texts, tokens, sum(map(_bytes, batches)) if self._by_bytes else texts)

    def _word(self) -> Word:
        self.progress.add(*self._pending)
        if self.stopping.asked:
            return Word.STOPPING
        due = self.leads and time.monotonic() > self._save_at
        return Word.SAVING if due else Word.GOING

    def _autosave(self) -> None:
        start, now = time.monotonic(), self._sums()
        sums, numbers = self._united(now)
        if self.leads:
            with suppress(OutputError):  # the end of the run tells, if it is so still
                self.keeper.save(self._partial(now, sums, numbers))
        end = time.monotonic()
        self._save_at = end + max(_EVERY, _LEAST_PAUSE * (end - start))

    def _partial(self, now: _Sums, sums: Profiler, numbers: frozenset[int]) -> Partial:
        return Partial(self.made_with, numbers, now.reads, sums.state(), self.breaks)

    def _sums(self) -> _Sums:
        return _Sums(self.profiler.state(), set(self.run.done), self._reads)

    def _united(self, sums: _Sums) -> tuple[Profiler, frozenset[int]]:
        return united(self.team, sums.state, sums.done, self.run.skip, self.profiler.empty)

    def _fault(self) -> TextError | None:
        return next((reader.fault for reader in self.readers if reader.fault is not None), None)


def _exactness(profile: xr.Dataset) -> str:
    """Which code made the statistics, and how far its head outputs are from the model's own."""
    status, paths = kernel.status(), str(profile.attrs["path"]).split(" and ")
    why = f"portable (plain torch): {status.why}"
    if status.runs:
        why = "portable (plain torch): the kernel does not fit these calls"
    names = {"kernel": f"compiled kernel, {status.path}", "portable": why}
    off = profile.attrs["verified"]
    near = f"within {off:.1e} of the model's own" if off else "equal the model's own exactly"
    return f"{' and '.join(names[path] for path in paths)}; recomputed head outputs {near}"


def _bytes(batch: Batch) -> int:
    """How much of its texts a batch holds."""
    found = 0
    for side in batch.sources:
        own = [token for token in side.tokens if not token.special] if side is not None else []
        if side is not None and own:
            found += len(side.text[own[0].start : own[-1].end].encode())
    return found
