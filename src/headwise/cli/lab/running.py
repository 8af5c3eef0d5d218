"""What `headwise lab CLAIM` does once its arguments are read: run the claims, show and write what came out."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console, RenderableType

from headwise.cli.lab.command import LabRequest
from headwise.cli.lab.folders import runs_of
from headwise.cli.look.as_json import write_json
from headwise.cli.printing import glyphs_told, print_out, say
from headwise.cli.progress import StepProgress
from headwise.cli.stopping import Stopping
from headwise.lab.claim import Claim
from headwise.lab.claims import CLAIMS, claim_of
from headwise.lab.keeping import held
from headwise.lab.running import Run, measurements, run_claim
from headwise.lab.text import read_text
from headwise.show.lab.as_json import run_json
from headwise.show.lab.terminal import claim_shown, run_shown
from headwise.show.lab.writing import check_ours, write_index, write_report

__all__ = ["run"]

_FOLDER = Path("lab")
_SAYS = "headwise: stopping after the training step that runs; Ctrl-C again stops at once"


def run(request: LabRequest) -> int:
    """Run claims; the exit code."""
    claims = _asked(request.names)
    folder = _FOLDER if request.out is None else request.out
    check_ours(folder, [claim.name for claim in claims])
    text = read_text(request.texts)
    done: dict[str, Any] = {}
    counts = [measurements(claim, request.quick) for claim in claims]
    with held(folder), Stopping(_SAYS) as stop:
        for number, claim in enumerate(claims):
            _show(request, claim_shown(claim, request.language))
            with StepProgress(sum(counts)) as steps:
                found = run_claim(
                    claim,
                    text,
                    folder,
                    quick=request.quick,
                    seed=request.seed,
                    device=request.device,
                    tell=partial(_tell, steps, sum(counts[:number])),
                    stop=lambda: bool(stop.asked),
                )
            if not found.whole:
                return _stopped(found, counts[number], stop.code)
            done[claim.name] = _put(request, found, folder)
    if request.json is not None:
        write_json({"folder": str(folder), "claims": done}, request.json)
    return 0


def _tell(steps: StepProgress, before: int, done: int, total: int, what: str) -> None:
    steps.at(before + done, what)


def _put(request: LabRequest, found: Run, folder: Path) -> dict[str, Any]:
    """Show what came out, write its reports, and give it as JSON has it."""
    _show(request, run_shown(found, request.language, Console().width))
    with glyphs_told():
        written = write_report(found, folder, request.language)
    write_index(folder, runs_of(folder), request.language)
    say(f"wrote {', '.join(str(path) for path in written)}")
    return run_json(found, request.language)


def _asked(names: tuple[str, ...]) -> list[Claim]:
    wanted = list(CLAIMS) if "all" in names else names
    found = [claim_of(name) for name in wanted]
    return list({claim.name: claim for claim in found}.values())


def _stopped(found: Run, of: int, code: int) -> int:
    kept = f"{found.claim.name} has {len(found.results.rows)} of {of} measurements"
    say(f"headwise: stopped; {kept}, and the same command goes on from there")
    return code


def _show(request: LabRequest, shown: RenderableType) -> None:
    if str(request.json) != "-":
        print_out(lambda console, colour: console.print(shown))
