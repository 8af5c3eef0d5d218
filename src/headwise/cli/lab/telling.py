"""What `headwise lab` shows without running: the claims, how two folders of runs agree, the course of one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console

from headwise.cli.lab.command import LabRequest
from headwise.cli.lab.folders import all_claims, runs_of, whole_runs
from headwise.cli.look.as_json import write_json
from headwise.cli.printing import glyphs_told, print_out, say
from headwise.files import check_writable
from headwise.lab.agreeing import agreement
from headwise.lab.running import Run
from headwise.names import OutputError
from headwise.show.lab.as_json import agreement_json, claim_json, run_json
from headwise.show.lab.course import course_text
from headwise.show.lab.picture import draw_run
from headwise.show.lab.tables import compared_table, verdicts_table
from headwise.show.lab.terminal import agreement_shown, table_shown
from headwise.show.lab.writing import write_text
from headwise.show.pictures import save

__all__ = ["tell"]


def tell(request: LabRequest) -> int:
    """List, compare, or write the course; the exit code."""
    if request.compare is not None:
        return _compare(request, *request.compare)
    if request.course is not None:
        return _course(request, request.course)
    return _list(request)


def _list(request: LabRequest) -> int:
    claims = all_claims()
    runs = {} if request.out is None else runs_of(request.out)
    found = [claim_json(claim, request.language) for claim in claims]
    for one in found:
        if one["name"] in runs:
            one |= run_json(runs[one["name"]], request.language)
    table = verdicts_table(claims, runs, request.language)
    _put(
        request, {"claims": found}, lambda console: console.print(table_shown(table, console.width))
    )
    return 0


def _compare(request: LabRequest, one: Path, other: Path) -> int:
    first, second = whole_runs(one), whole_runs(other)
    both = [name for name in first if name in second]
    if not both:
        raise OutputError(f"{one} and {other} hold no whole run of the same claim; run one in both")
    found = {name: agreement(first[name], second[name]) for name in both}

    def show(console: Console) -> None:
        for name in both:
            table = compared_table(found[name], (one, other), request.language)
            runs = first[name], second[name]
            console.print(
                agreement_shown(*runs, found[name], table, request.language, console.width)
            )

    told = {name: agreement_json(first[name], second[name], found[name]) for name in both}
    agree = all(one.agree for one in found.values())
    _put(request, {"agree": agree, "claims": told}, show)
    differing = [name for name in both if not found[name].agree]
    alone = sorted(set(first) ^ set(second))
    if alone:
        say(f"only in one of the folders: {', '.join(alone)}")
    say(
        f"{len(both)} claims, "
        + (f"differing: {', '.join(differing)}" if differing else "all agree")
    )
    return 0 if agree else 1


def _course(request: LabRequest, folder: Path) -> int:
    assert request.out is not None
    check_writable(request.out, "the course")
    runs = whole_runs(folder)
    second = None if request.second is None else whole_runs(request.second)
    text = course_text(runs, request.language, second=second)
    pictures = request.out.parent / "pictures"
    _draw(runs, pictures, request)
    write_text(request.out, text)
    say(f"wrote {request.out} ({len(runs)} lessons) and {pictures}")
    return 0


def _draw(runs: dict[str, Run], pictures: Path, request: LabRequest) -> None:
    try:
        pictures.mkdir(exist_ok=True)
    except OSError as error:
        raise OutputError(f"{pictures} cannot be made: {error.strerror or error}") from error
    with glyphs_told():
        for name, run in runs.items():
            save(draw_run(run, request.language), pictures / f"{name}.svg")


def _put(request: LabRequest, found: dict[str, Any], show: Callable[[Console], None]) -> None:
    """As JSON where it was asked for, and on the terminal unless the JSON goes there."""
    if request.json is not None:
        write_json(found, request.json)
    if str(request.json) != "-":
        print_out(lambda console, colour: show(console))
