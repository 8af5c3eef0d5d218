"""What `headwise time` does once its arguments are read: run both models in turns, and show the ratios."""

from __future__ import annotations

from rich.console import Console

from headwise.cli.look.as_json import write_json
from headwise.cli.printing import print_out, say
from headwise.cli.progress import StepProgress
from headwise.cli.time.command import TimeRequest
from headwise.cut.timing.timing import timing
from headwise.hub.load import load
from headwise.see.tables import plain
from headwise.show.terminal_timing import timing_table

__all__ = ["run"]


def run(request: TimeRequest) -> None:
    """Time one model, or the second against the first."""
    a = load(request.a, request.device, request.dtype)
    b = None if request.b is None else load(request.b, request.device, request.dtype)
    with StepProgress(len(request.batches) * len(request.lengths)) as steps:
        found = timing(
            a,
            b,
            batches=request.batches,
            lengths=request.lengths,
            phases=request.phases,  # type: ignore[arg-type]
            rounds=request.rounds,
            threads=request.threads,
            seed=request.seed,
            progress=lambda done, _, what: steps.at(done, what),
        )
    if request.json is not None:
        write_json(plain(found.as_dict()), request.json)
    if str(request.json) != "-":

        def show(console: Console, colour: bool) -> None:
            console.print(timing_table(found, width=console.width, colour=colour))

        print_out(show)
        if request.json is not None:
            say(f"wrote {request.json}")
