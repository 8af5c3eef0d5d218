"""Running a claim: its cases in turns, seed by seed, each kept as soon as it is measured."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from headwise import __version__
from headwise.hub.load import checked_device
from headwise.lab.bench import Bench, Stopped
from headwise.lab.claim import Claim, Verdict
from headwise.lab.judging import of_quick
from headwise.lab.keeping import Kept, read_rows
from headwise.lab.results import Case, Results, Row, key_of
from headwise.lab.text import LabText
from headwise.names import ModelError

__all__ = ["Run", "measurements", "read_run", "run_claim", "seeds_of"]

Tell = Callable[[int, int, str], None]
"""tell(measurements done, in all, what is under way)."""

_APART = 1000
"""Between the seeds of two runs: --seed 1 begins at 1000."""


@dataclass(frozen=True, eq=False)
class Run:
    """A claim that was run.

    Attributes:
        claim: which.
        results: its rows.
        asked: versions, machine, text and settings it was run with.
        whole: whether every case was measured with every seed.
    """

    claim: Claim
    results: Results
    asked: dict[str, Any]
    whole: bool

    def verdict(self) -> Verdict:
        """On the rows there are; a quick run fails no claim."""
        found = self.claim.judge(self.results)
        return of_quick(found) if self.asked.get("quick") else found


def seeds_of(claim: Claim, quick: bool, seed: int) -> list[int]:
    """The seeds that a run measures each case with."""
    count = claim.seeds[0] if quick else claim.seeds[1]
    return [seed * _APART + number for number in range(count)]


def measurements(claim: Claim, quick: bool) -> int:
    """How many a whole run has."""
    return len(claim.cases(quick)) * len(seeds_of(claim, quick, 0))


def run_claim(
    claim: Claim,
    text: LabText,
    folder: Path,
    *,
    quick: bool = False,
    seed: int = 0,
    device: str | None = None,
    tell: Tell = lambda done, total, what: None,
    stop: Callable[[], bool] = lambda: False,
) -> Run:
    """Measure a claim; what the folder holds of the same run already is not measured again.

    The cases of one seed are measured one after the other, then those of the next, so that a run that was stopped
    has all cases, of fewer seeds.

    Args:
        claim: which.
        text: it is run on.
        folder: that keeps NAME.jsonl.
        quick: fewer and smaller cases, for minutes.
        seed: of the run; runs of different seeds share no random number.
        device: where models run; None = the CPU.
        tell: the progress.
        stop: asked between measurements and training steps whether to end; what was measured is kept.

    Raises:
        OutputError: the folder holds another run, or cannot be written.
        ModelError: a case whose numbers are none, a model that cannot be fetched, or a device that cannot be used.
    """
    checked_device(device)
    asked = _asked(claim, text, quick, seed, device)
    kept = Kept(folder / f"{claim.name}.jsonl", asked)
    missing, total = _missing(claim, quick, seed, kept.rows), measurements(claim, quick)
    at = total - len(missing)
    now = ""

    def under_way(what: str) -> None:
        tell(at, total, f"{now}: {what}")

    bench = Bench(text, quick=quick, device=device, tell=under_way, stop=stop)
    for case, one in missing:
        if stop():
            break
        now = _named(claim, case, one)
        tell(at, total, now)
        began = time.perf_counter()
        try:
            numbers = claim.measure(bench, case, one)
        except Stopped:
            break
        _check(claim, case, one, numbers)
        kept.add(Row(dict(case), one, dict(numbers), time.perf_counter() - began))
        at += 1
    return Run(claim, Results(kept.rows), asked, at == total)


def read_run(claim: Claim, folder: Path) -> Run:
    """What a folder holds of a claim.

    Raises:
        OutputError: nothing, or something else.
    """
    asked, rows = read_rows(folder / f"{claim.name}.jsonl")
    missing = _missing(claim, bool(asked.get("quick")), int(asked.get("seed", 0)), rows)
    return Run(claim, Results(rows), asked, not missing)


def _missing(claim: Claim, quick: bool, seed: int, rows: Sequence[Row]) -> list[tuple[Case, int]]:
    """What of a whole run is not measured yet, seed by seed."""
    done = {key_of(row.case, row.seed) for row in rows}
    cases: Sequence[Case] = claim.cases(quick)
    todo = [(case, one) for one in seeds_of(claim, quick, seed) for case in cases]
    return [(case, one) for case, one in todo if key_of(case, one) not in done]


def _named(claim: Claim, case: Case, seed: int) -> str:
    said = ", ".join(f"{name} {value}" for name, value in case.items())
    return f"{claim.name}, {said}, seed {seed}" if said else f"{claim.name}, seed {seed}"


def _check(claim: Claim, case: Case, seed: int, numbers: Any) -> None:
    """Every number a claim gives is one of its quantities."""
    known = {quantity.name for quantity in claim.quantities}
    strange = [name for name in numbers if name not in known]
    if strange or not numbers:
        raise ModelError(
            f"{_named(claim, case, seed)} gave {', '.join(strange) or 'nothing'}, and the claim measures "
            f"{', '.join(sorted(known))}; add it to its quantities"
        )


def _asked(
    claim: Claim, text: LabText, quick: bool, seed: int, device: str | None
) -> dict[str, Any]:
    return {
        "claim": claim.name,
        "row": claim.row,
        "quick": quick,
        "seed": seed,
        "text": text.name,
        "text_sha256": text.stamp,
        "headwise": __version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "device": device or "cpu",
        "threads": torch.get_num_threads(),
    }
