"""What `headwise audit` does once its arguments are read: audit dimension by dimension, show, write, draw."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from headwise.check.auditing import audit
from headwise.check.telling.advice import advised
from headwise.check.telling.report import DIMENSIONS, Audit, Outcome
from headwise.check.telling.stopped import Stopped
from headwise.cli.audit.command import COULD_NOT, AuditRequest
from headwise.cli.audit.factory import from_here, where_raised
from headwise.cli.audit.target import Target, target_of
from headwise.cli.audit.wording import as_options, in_options
from headwise.cli.look.as_json import write_json
from headwise.cli.printing import glyphs_told, print_out, say
from headwise.cli.progress import StepProgress
from headwise.names import HeadwiseError, ModelError, OutputError
from headwise.show.terminal_audit import audit_report

__all__ = ["run"]

_INTERRUPTED = 130


def run(request: AuditRequest) -> int:
    """Audit and tell; the exit code.

    Raises:
        HeadwiseError: what stopped it before anything was found.
    """
    with from_here(), redirect_stdout(sys.stderr):  # what a model prints is no result
        target = target_of(request)
        found, problem = _through(request, target)
    if not found and problem is not None:
        raise problem
    found = list(map(in_options, found))
    code = _tell(request, found, target.labels)
    if isinstance(problem, KeyboardInterrupt):
        say("headwise: interrupted; what was found before is shown")
        return _INTERRUPTED
    if problem is not None:
        say(f"headwise: {problem}; what was found before is shown")
        return COULD_NOT
    return code


def _through(
    request: AuditRequest, target: Target
) -> tuple[list[Audit], HeadwiseError | KeyboardInterrupt | None]:
    """What was found with each kind of weights, and what stopped it before its end."""
    kinds = ("given", "wide") if request.weights == "both" else (request.weights,)
    found: list[Audit] = []
    for kind in kinds:
        outcomes: list[Outcome] = []
        own = {} if kind is None else {"weights": kind}
        try:
            found.append(_audited(target, own, outcomes))
        except (HeadwiseError, KeyboardInterrupt) as error:
            if outcomes:
                found.append(_part(request, target, kind, outcomes))
            return found, error
    return found, None


def _audited(target: Target, own: dict[str, Any], outcomes: list[Outcome]) -> Audit:
    """One audit, its outcomes gathered as they are found; whatever the model raises is told in one line.

    Raises:
        HeadwiseError: why it could not run.
    """
    arguments = target.arguments | own
    asked = [name for name in DIMENSIONS if name in (arguments.get("dimensions") or DIMENSIONS)]
    with StepProgress(len(asked)) as progress:
        progress.at(0, asked[0] if asked else "the model")

        def seen(outcome: Outcome) -> None:
            """All cases of a dimension come at its end, so that the next one runs by then."""
            outcomes.append(outcome)
            done = 1 + asked.index(outcome.dimension) if outcome.dimension in asked else 0
            what = asked[done] if done < len(asked) else "the end"
            progress.at(done, f"{what}, after {outcome.title}: {outcome.verdict}")

        try:
            return audit(target.model, seen=seen, **arguments)
        except HeadwiseError as error:
            raise type(error)(as_options(str(error))) from None
        except torch.OutOfMemoryError as error:
            line = str(error).strip().partition("\n")[0]
            raise ModelError(f"{line}; a smaller --length or --dtype float32 needs less") from None
        except (Exception, SystemExit) as error:  # whatever a model of the user's raises
            raise ModelError(f"it could not be audited: {where_raised(error)}") from error


def _part(
    request: AuditRequest, target: Target, kind: str | None, outcomes: Sequence[Outcome]
) -> Stopped:
    """What was found of an audit that came to no end."""
    maps = [outcome.allowed for outcome in outcomes if outcome.allowed is not None]
    declared = ", then ".join(request.masks)
    return Stopped(
        name=request.target,
        outcomes=advised(outcomes, declared=declared),
        declared=declared,
        length=maps[0].shape[0] if maps else target.arguments.get("length", 0),
        layers=request.layers,
        dtype=request.dtype or "",
        weights=str(kind or target.arguments.get("weights", "given")),
        seed=target.arguments.get("seed", 0),
        notes=("it was stopped before its end: other dimensions were not checked",),
    )


def _tell(request: AuditRequest, found: Sequence[Audit], labels: Sequence[str] | None) -> int:
    """Show, write and draw what was found; the exit code of the worst."""
    if request.json is not None:
        with _answered():
            write_json(_held(request, found), request.json)
    if str(request.json) != "-":
        for one in found:
            _print(one, labels)
    if request.json is not None and str(request.json) != "-":
        say(f"wrote {request.json}")
    for path in request.pictures:
        _draw(path, found, labels)
    codes = {one.code for one in found}
    return next(code for code in (1, COULD_NOT, 0) if code in codes)


def _held(request: AuditRequest, found: Sequence[Audit]) -> dict[str, Any]:
    """What is written as JSON: the audit, or with both kinds of weights all of them."""
    held = [one.as_dict() for one in found]
    if request.weights != "both":
        return held[0]
    stopped = len(found) < 2 or any(isinstance(one, Stopped) for one in found)
    if stopped:
        return {"clean": None, "stopped": True, "audits": held}
    return {"clean": all(one.clean for one in found), "audits": held}


@contextmanager
def _answered() -> Iterator[None]:
    """A standard output that takes no more is told in one line, with the exit code of no answer."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for what the buffer holds
        raise OutputError(f"the JSON cannot be written: {error.strerror or error}") from None


def _print(one: Audit, labels: Sequence[str] | None) -> None:
    def show(console: Console, colour: bool) -> None:
        console.print(audit_report(one, width=console.width, colour=colour, labels=labels))

    print_out(show)


def _draw(path: Path, found: Sequence[Audit], labels: Sequence[str] | None) -> None:
    """The worst of what was found as a picture, where it holds a map."""
    from headwise.show.picture_audit import draw_audit, pictured
    from headwise.show.pictures import save

    mapped = [one for one in found if pictured(one)]
    if not mapped:
        say(f"headwise: {path} is not drawn: no outcome holds a map of positions")
        return
    worst = next((one for one in mapped if one.leaks), mapped[0])
    with glyphs_told():
        save(draw_audit(worst, labels=labels), path)
    others = [f"weights {one.weights}" for one in mapped if one is not worst]
    left = f" (weights {worst.weights}; {', '.join(others)} not drawn)" if others else ""
    say(f"wrote {path}{left}")
