"""What the command line costs before it does anything: CPU seconds of short-lived processes.

Help, mistakes in the arguments and no arguments against bare python; a whole `headwise look` on the
default model against importing torch. The bar is a difference in seconds, not a ratio; the processes
run interleaved in random order and the CPU seconds (user + system) come from the kernel.

    python benchmarks/startup.py [--rounds 20] [--look-rounds 5]

HEADWISE_CACHE says where the converted default model lies; without one, the first run fetches it.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median

from harness import interval, machine, save

CLI = [sys.executable, "-c", "from headwise.cli import main; main()"]
TEXT = "The animal didn't cross the street because it was too tired"
BAR = 0.15
LIGHT = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "headwise --help": [*CLI, "--help"],
    "headwise look --help": [*CLI, "look", "--help"],
    "headwise look --bad": [*CLI, "look", "--bad"],
    "headwise look TEXT --head nine": [*CLI, "look", "a text", "--head", "nine"],
    "headwise": CLI,
}
HEAVY = {
    'python -c "import torch"': [sys.executable, "-c", "import torch"],
    "headwise look TEXT": [*CLI, "look", TEXT],
    "headwise look TEXT --json -": [*CLI, "look", TEXT, "--json", "-"],
}
ABOUT = (
    "# Start of the command line\n\n"
    f"CPU seconds (user + system) more than the first process of each group; bar {BAR} s for the first group."
)

# as installed: the warm round leaves compiled modules behind, which this variable would forbid
_SETTLED = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@dataclass(frozen=True)
class Extra:
    """A command: its CPU seconds, and how many more than the reference of the same round."""

    command: str
    reference: str
    cpu: float
    extra: float
    low: float
    high: float
    rounds: int
    bar: float | None


def spent(command: Sequence[str]) -> float:
    """CPU seconds of one run of the command."""
    child = subprocess.Popen(
        command, env=_SETTLED, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    assert child.returncode in (0, 2), f"{command} ended with {child.returncode}"
    return usage.ru_utime + usage.ru_stime


def measure(commands: Mapping[str, Sequence[str]], rounds: int, bar: float | None) -> list[Extra]:
    """Run the commands in interleaved rounds of random order; one warm round is not counted."""
    order, shuffle = list(commands), random.Random(0).shuffle
    cpu: dict[str, list[float]] = {name: [] for name in commands}
    for turn in range(rounds + 1):
        shuffle(order)
        for name in order:
            seconds = spent(commands[name])
            if turn:
                cpu[name].append(seconds)
    reference = next(iter(commands))
    extras = []
    for name in [n for n in commands if n != reference]:
        more = [a - b for a, b in zip(cpu[name], cpu[reference], strict=True)]
        extras.append(
            Extra(name, reference, median(cpu[name]), median(more), *interval(more), rounds, bar)
        )
    return extras


def table(extras: Sequence[Extra]) -> list[str]:
    """The extras as Markdown lines."""
    lines = ["| command | CPU s | more than | by s | 95 % | rounds | bar |"]
    lines.append("|---|---|---|---|---|---|---|")
    for e in extras:
        bar = "" if e.bar is None else f"{e.bar:g} {'met' if e.extra <= e.bar else 'missed'}"
        lines.append(
            f"| `{e.command}` | {e.cpu:.3f} | `{e.reference}` | {e.extra:.3f} "
            f"| {e.low:.3f} - {e.high:.3f} | {e.rounds} | {bar} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--look-rounds", type=int, default=5, help="0 = leave the model out")
    options = parser.parse_args()
    extras = measure(LIGHT, options.rounds, BAR)
    if options.look_rounds:
        extras += measure(HEAVY, options.look_rounds, None)
    save("startup", ABOUT, [asdict(e) for e in extras], table(extras), machine(threads=1))


if __name__ == "__main__":
    main()
