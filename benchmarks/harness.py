"""Interleaved ratios: the one way the benchmarks of headwise measure.

On a shared machine absolute times say little, so every case names a reference, and a round runs all its
contenders once, in random order, right after each other. A row is the median over the rounds of
time / time of the reference in the same round, with its 95 % interval from order statistics. The
reference runs a second time in a round under the name `reference again`: its ratio is what the noise
alone does. With one thread the clock is CPU seconds of this process, with more it is the wall clock.
"""

from __future__ import annotations

import gc
import json
import math
import os
import platform
import random
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

RESULTS = Path(__file__).parent / "results"
AGAIN = "reference again"

Measure = Callable[[], float]
"""Runs a contender once and gives what it cost, in seconds (or any unit the case names)."""


@dataclass(frozen=True)
class Row:
    """One contender of one case: what it cost, as a multiple of the reference."""

    case: str
    contender: str
    ratio: float
    low: float
    high: float
    least: float
    most: float
    rounds: int
    median_ms: float
    bar: float | None = None

    @property
    def verdict(self) -> str:
        """Whether the median meets the bar, and whether the whole interval lies on that side of it."""
        if self.bar is None:
            return ""
        if self.ratio <= self.bar:
            return "met" if self.high <= self.bar else "met by the median"
        return "missed" if self.low > self.bar else "missed by the median"


@dataclass(frozen=True)
class Plan:
    """How long a case is measured: rounds until `seconds` are over, but at least and at most so many.

    `again` says whether the reference runs twice in a round; give it up only where it takes many seconds.
    The contenders in `rare` run in every third round only.
    """

    seconds: float = 10.0
    least: int = 9
    most: int = 200
    warm: int = 1
    seed: int = 0
    again: bool = True
    rare: tuple[str, ...] = ()


def timed(function: Callable[[], object], threads: int, calls: int = 1) -> Measure:
    """A measure of `calls` calls in a row, per call."""
    clock = time.process_time if threads == 1 else time.perf_counter

    def measure() -> float:
        start = clock()
        for _ in range(calls):
            function()
        return (clock() - start) / calls

    return measure


def compare(
    case: str,
    contenders: Mapping[str, Measure],
    reference: str,
    bars: Mapping[str, float],
    plan: Plan,
) -> list[Row]:
    """Measure the contenders in interleaved rounds of random order; one row each, the reference twice."""
    runs = {**contenders, **({AGAIN: contenders[reference]} if plan.again else {})}
    for _ in range(plan.warm):
        for measure in runs.values():
            measure()
    times: dict[str, list[float]] = {name: [] for name in runs}
    ratios: dict[str, list[float]] = {name: [] for name in runs}
    order, shuffle = list(runs), random.Random(plan.seed).shuffle
    gc.collect()
    gc.disable()
    end = time.perf_counter() + plan.seconds
    done = 0
    while done < plan.least or (done < plan.most and time.perf_counter() < end):
        shuffle(order)
        spent = {name: runs[name]() for name in order if done % 3 == 0 or name not in plan.rare}
        for name, seconds in spent.items():
            times[name].append(seconds)
            ratios[name].append(seconds / spent[reference])
        done += 1
    gc.enable()
    return [
        row(case, name, ratios[name], times[name], bars.get(name))
        for name in runs
        if name != reference
    ]


def row(
    case: str, name: str, ratios: Sequence[float], spent: Sequence[float], bar: float | None
) -> Row:
    """The row of one contender from its ratios, round by round."""
    low, high = interval(ratios)
    return Row(
        case=case,
        contender=name,
        ratio=statistics.median(ratios),
        low=low,
        high=high,
        least=min(ratios),
        most=max(ratios),
        rounds=len(ratios),
        median_ms=1e3 * statistics.median(spent),
        bar=bar,
    )


def interval(values: Sequence[float], level: float = 0.95) -> tuple[float, float]:
    """Distribution-free interval of the median: the widest pair of order statistics outside which it lies
    with at most (1 - level) / 2 on each side; with fewer than 6 values the range, which promises less."""
    ordered, n = sorted(values), len(values)
    tail, below = 0.0, 0
    while below < n // 2:
        tail += math.comb(n, below) / 2**n
        if tail > (1 - level) / 2:
            break
        below += 1
    at = max(below - 1, 0)
    return ordered[at], ordered[n - 1 - at]


def machine(threads: int) -> dict[str, object]:
    """What the figures were measured on."""
    import torch

    return {
        "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "commit": _git("rev-parse", "--short=12", "HEAD"),
        "changed_since": bool(_git("status", "--porcelain", "--", "src", "benchmarks/*.py")),
        "cpu": _cpu(),
        "cores": os.cpu_count(),
        "threads": threads,
        "load": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "torch": torch.__version__,
    }


def write(name: str, about: str, rows: Sequence[Row], facts: Mapping[str, object]) -> None:
    """Write the rows as results/<name>.json and .md, and print them."""
    save(name, about, [asdict(r) for r in rows], table(rows), facts)


def save(
    name: str,
    about: str,
    rows: Sequence[Mapping[str, object]],
    lines: Sequence[str],
    facts: Mapping[str, object],
) -> None:
    """Write results/<name>.json from the rows and results/<name>.md from the table's lines."""
    RESULTS.mkdir(exist_ok=True)
    data = {"about": about, "machine": facts, "rows": rows}
    (RESULTS / f"{name}.json").write_text(json.dumps(data, indent=1) + "\n")
    said = ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in facts.items())
    text = "\n".join([about, "", f"Measured: {said}.", "", *lines]) + "\n"
    (RESULTS / f"{name}.md").write_text(text)
    print(text)


def table(rows: Sequence[Row]) -> list[str]:
    """The rows as the lines of a Markdown table."""
    lines = [
        "| case | contender | ratio | 95 % | min - max | rounds | median ms | bar |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for r in rows:
        bar = "" if r.bar is None else f"{r.bar:g} {r.verdict}"
        lines.append(
            f"| {r.case} | {r.contender} | {r.ratio:.3f} | {r.low:.3f} - {r.high:.3f} "
            f"| {r.least:.3f} - {r.most:.3f} | {r.rounds} | {r.median_ms:.2f} | {bar} |"
        )
    return lines


def _cpu() -> str:
    """Name of the CPU, with the widest vector instructions where the system tells."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    wide = "avx512" if any("avx512f" in line for line in lines) else "no avx512"
    return f"{names[0] if names else platform.machine()} ({wide})"


def _git(*arguments: str) -> str:
    """Answer of git about this repository, empty where there is none."""
    where = Path(__file__).parent.parent
    done = subprocess.run(["git", *arguments], cwd=where, capture_output=True, text=True)
    return done.stdout.strip()
