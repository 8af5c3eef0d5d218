"""timing: one model's speed, or two models' against one another, by batch, length and phase.

On a shared machine absolute times say little, so two models are measured in turns, in random order, and what counts
is the ratio of the two times of one round.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

import torch

from headwise.check.running.filling import cache_bytes
from headwise.cut.timing.driving import Drive, drive_of
from headwise.cut.timing.result import Case, Phase, Timed, Timing
from headwise.cut.timing.rounds import interleaved
from headwise.cut.timing.spread import spread
from headwise.hub.load import Model, evaluating
from headwise.names import ConfigError, ModelError
from headwise.see.texts.refusing import check_model

__all__ = ["timing"]

_LEAST = 0.01
"""Seconds that one measurement takes at least; a faster pass is run several times."""

_STEPS = 8
"""Tokens that one measurement of decoding takes."""

Progress = Callable[[int, int, str], None]
"""progress(done, total, what is under way)."""


def timing(
    a: Model,
    b: Model | None = None,
    *,
    batches: Sequence[int] = (1,),
    lengths: Sequence[int] = (128, 1024),
    phases: Sequence[Phase] = ("prefill", "decode"),
    rounds: int = 9,
    threads: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Timing:
    """Time a model, or a second against it.

    Every round runs both once in random order; a ratio is that of one round, and what is told is its median with a
    95 % interval. Each is run once before. With one thread on a CPU the clock is the time the process computed,
    which others on the machine disturb least, else the wall clock, with the device waited for.

    Args:
        a: from `load`; the reference where there are two.
        b: the other one, for instance `a` pruned; on the same device.
        batches: rows at a time.
        lengths: tokens of each row.
        phases: "prefill", "decode", or "forward", a whole pass without a cache and with all logits. A model
            without a cache has "forward" in place of the first, and no "decode".
        rounds: how often each is measured; below 6 the interval is the range.
        threads: of the CPU, for the time of the call; None = as they are set.
        seed: of the order.
        progress: is told how far it is.

    Raises:
        ConfigError: a batch, length, phase or number of rounds that cannot be.
        ModelError: models on two devices, or only "decode" asked of a model without a cache.
        TextError: a length that a model cannot read.
    """
    models = [a] if b is None else [a, b]
    _check(models, batches, lengths, phases, rounds, threads)
    with _threads(threads), _evaluating(models), torch.no_grad():
        clock = _Clock(a.device)
        cases: list[Case] = []
        plan = [(n, size) for size in batches for n in (lengths if _reads(a) else lengths[:1])]
        for done, (length, batch) in enumerate(plan):
            what = f"batch {batch}, length {length}"
            if progress is not None:
                progress(done, len(plan), what)
            cases += _Pair(models, batch, length, clock, rounds, seed).cases(phases)
        if not cases:
            raise ModelError(f"{a.name} has no cache to decode with; give phases=('forward',)")
        told = [_timed(model) for model in models]
        return Timing(
            told[0],
            told[1] if b is not None else None,
            tuple(cases),
            rounds,
            str(a.device),
            torch.get_num_threads(),
            clock.name,
            str(next(a.module.parameters()).dtype).removeprefix("torch."),
        )


class _Clock:
    """Measures a call, the device waited for."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        cpu = device.type == "cpu" and torch.get_num_threads() == 1
        self.name = "cpu" if cpu else "wall"
        self._now = time.process_time if cpu else time.perf_counter

    def wait(self) -> None:
        if self.device.type != "cpu":
            torch.accelerator.synchronize(self.device)

    def __call__(self, run: Callable[[], object], calls: int) -> float:
        self.wait()
        start = self._now()
        for _ in range(calls):
            run()
        self.wait()
        return (self._now() - start) / calls


@dataclass(frozen=True, eq=False)
class _Pair:
    """One model, or two that are measured in turns, at one batch and length."""

    models: Sequence[Model]
    batch: int
    length: int
    clock: _Clock
    rounds: int
    seed: int

    def cases(self, phases: Sequence[Phase]) -> Iterator[Case]:
        room = 1 + _STEPS if "decode" in phases else 0
        drives = [drive_of(model, self.batch, self.length, room) for model in self.models]
        cached = all(drive.fill is not None for drive in drives)
        if not cached:  # a model without a cache is run whole
            phases = list(dict.fromkeys("forward" for phase in phases if phase != "decode"))
        for phase in phases:
            yield self._case(phase, drives, cached)

    def _case(self, phase: Phase, drives: Sequence[Drive], cached: bool) -> Case:
        held = [drive.fill() for drive in drives if drive.fill is not None] if cached else []
        bytes_held = tuple(cache_bytes(one.cache) for one in held) or (None,) * len(drives)
        if phase == "decode":
            measures = [self._decoding(one.steps) for one in held]
        else:
            runs = [d.fill if phase == "prefill" and d.fill else d.forward for d in drives]
            measures = self._passes(runs)
        times = interleaved(measures, self.rounds, self.seed)
        spreads = [spread(one) for one in times]
        length = drives[0].length
        if len(times) == 1:
            return Case(phase, self.batch, length, spreads[0], cache_bytes=bytes_held)
        ratio = spread([b / a for a, b in zip(*times, strict=True)])
        return Case(phase, self.batch, length, spreads[0], spreads[1], ratio, bytes_held)

    def _passes(self, runs: Sequence[Callable[[], object]]) -> list[Callable[[], float]]:
        """Measures of passes, each of so many calls that they take a while."""
        for run in runs:
            run()
        least = min(self.clock(run, 1) for run in runs)
        calls = min(max(1, math.ceil(_LEAST / max(least, 1e-9))), 1000)
        return [lambda run=run: self.clock(run, calls) for run in runs]  # type: ignore[misc]

    def _decoding(self, steps: Callable[[int], Callable[[], None]]) -> Callable[[], float]:
        """A measure of one token more, the mean of several."""
        return lambda: self.clock(steps(_STEPS), 1) / _STEPS


def _timed(model: Model) -> Timed:
    module = model.module
    parameters = sum(p.numel() for p in module.parameters())
    every = {id(x): x for x in (*module.parameters(), *module.buffers())}.values()
    return Timed(model.name, parameters, sum(x.numel() * x.element_size() for x in every))


def _reads(model: Model) -> bool:
    """Whether it reads texts of any length."""
    return getattr(model.module, "main_input_name", "input_ids") == "input_ids"


def _check(
    models: Sequence[Model],
    batches: Sequence[int],
    lengths: Sequence[int],
    phases: Sequence[Phase],
    rounds: int,
    threads: int | None,
) -> None:
    for model in models:
        check_model(model, "timing")
    if len({model.device for model in models}) > 1:
        places = " and ".join(str(model.device) for model in models)
        raise ModelError(f"the models are on {places}; load both on one device")
    counts = (("batches", batches), ("lengths", lengths), ("rounds", (rounds,)))
    for name, values in (*counts, ("threads", () if threads is None else (threads,))):
        wrong = [x for x in values if isinstance(x, bool) or not isinstance(x, int) or x < 1]
        if wrong or (not values and name != "threads"):
            raise ConfigError(f"{name} must be whole numbers of 1 or more, came {values!r}")
    known = ("prefill", "decode", "forward")
    if not phases or any(phase not in known for phase in phases):
        raise ConfigError(f"phases must be some of {', '.join(known)}, came {phases!r}")


@contextmanager
def _threads(threads: int | None) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


@contextmanager
def _evaluating(models: Sequence[Model]) -> Iterator[None]:
    """In eval mode for the time of the `with`."""
    with ExitStack() as stack:
        for model in models:
            stack.enter_context(evaluating(model.module))
        yield
