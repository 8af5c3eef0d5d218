"""What `headwise roles` does once its arguments are read: measure, judge, save, show."""

from __future__ import annotations

from pathlib import Path

import xarray as xr
from rich.console import Console
from rich.text import Text

from headwise.cli.printing import counted, print_out, say, stacks_of
from headwise.cli.reading import begun, reading_model
from headwise.cli.roles.command import RolesRequest
from headwise.cli.roles.gathering import Gathered, gather
from headwise.cli.roles.measuring import Measuring
from headwise.cli.stopping import Stopping
from headwise.hub.load import Model
from headwise.names import ConfigError, HeadId, OutputError
from headwise.see.probes import Probe
from headwise.see.roles.claims import ADVICE
from headwise.see.roles.claims import roles as judge
from headwise.see.roles.examples import Example, Finder
from headwise.see.roles.files import save_roles
from headwise.see.roles.role import Roles
from headwise.see.texts.packing import packed
from headwise.show.cells import flow, print_lines
from headwise.show.grid import grid_of_roles
from headwise.show.terminal import head_grid, stack_words
from headwise.show.terminal_roles import head_page, roles_table

_FAULTS = 40
"""How many entries of annotations that cannot be used are told, each in a line."""

_EXAMPLES = 3
"""Of how many of a head's roles examples are looked for."""


def run(request: RolesRequest) -> int:
    """Measure every probe, and say what the heads are; the exit code."""
    gathered = gather(request)
    _tell(gathered)
    first = next(begun(gathered.texts()))
    model = reading_model(
        request,
        call="roles",
        targets=None if gathered.targets is None else "--target or --align",
    )
    if request.head is not None:
        _check_head(model, HeadId.parse(request.head), first, request.context)
    with Stopping() as stop:
        measuring = Measuring(model, request, gathered, stop)
        profile = measuring.profile()
        repeated = measuring.repeated()
        found = _judged(measuring, profile, repeated)
        examples = _examples(measuring, found)
    found.evidence.attrs["notes"] = [*measuring.notes, *found.notes]
    _save(request, found, profile)
    _print(request, found, profile, repeated, examples)
    for path in request.pictures:
        _draw(path, found, profile)
    done = counted(profile)
    if stop.asked:
        kept = f" and in {request.out}" if request.out else ""
        say(f"headwise: interrupted; {done} are done and judged{kept}")
        return stop.code
    wrote = f"; wrote {request.out}" if request.out else ""
    off = profile.attrs["verified"]
    say(
        f"{measuring.speed:,.0f} tokens/s, recomputed head outputs within {off:.1e} of the model's own{wrote}"
    )
    return 0


def _tell(gathered: Gathered) -> None:
    """What of the annotations cannot be used."""
    for fault in gathered.faults[:_FAULTS]:
        say(f"headwise: {fault}")
    more = len(gathered.faults) - _FAULTS
    if more > 0:
        say(f"headwise: {more:,} more {'is' if more == 1 else 'are'} left out")


def _judged(measuring: Measuring, profile: xr.Dataset, repeated: xr.Dataset | None) -> Roles:
    """What the heads are by all that was measured.

    Raises:
        ConfigError: only probes of random tokens were asked for, and those could not be run.
    """
    tables = [profile] if measuring.gathered.probes else []
    tables += [] if repeated is None else [repeated]
    if not tables:
        why = measuring.notes or ["stopped before the random tokens were run"]
        raise ConfigError(f"{why[0]}; nothing else was asked for")
    return judge(tables)


def _check_head(model: Model, head: HeadId, text: str, context: int | None) -> None:
    """Refuse a head that the model has not, before it reads everything: on the start of a text."""
    finder = Finder(model, head, [None], 1)
    finder.add(next(packed(model, [text[:200]], context=context, call="roles")))


def _examples(measuring: Measuring, found: Roles) -> dict[str, list[Example]]:
    """For the head asked for, by probe its strongest cases in the texts; "" holds its strongest links anywhere."""
    request = measuring.request
    if request.head is None:
        return {}
    if measuring.stop.asked:
        measuring.notes.append(
            f"interrupted before the strongest cases of {request.head} were looked for"
        )
        return {}
    of = {probe.name: probe for probe in measuring.gathered.probes}
    names = [role.probe for role in found.of(request.head) if role.claimed and role.probe in of]
    probes: list[Probe | None] = [of[name] for name in names[:_EXAMPLES]]
    finder = Finder(measuring.model, HeadId.parse(request.head), [*probes, None], request.top)
    measuring.examples(finder)
    if measuring.stop.asked:
        measuring.notes.append(
            f"interrupted while the strongest cases of {request.head} were looked for: those shown are of a "
            "part of the texts"
        )
    held = zip([*names[:_EXAMPLES], ""], finder.best(), strict=True)
    return {name: examples for name, examples in held if examples}


def _save(request: RolesRequest, found: Roles, profile: xr.Dataset) -> None:
    """Write the table; where it cannot be, what was found is shown first."""
    if request.out is None:
        return
    try:
        save_roles(found, request.out)
    except OutputError:
        _print(request, found, profile, None, {})
        raise


def _print(
    request: RolesRequest,
    found: Roles,
    profile: xr.Dataset,
    repeated: xr.Dataset | None,
    examples: dict[str, list[Example]],
) -> None:
    notes = [_with_hint(note, request) for note in found.notes]

    def show(console: Console, colour: bool) -> None:
        width = console.width
        stacks = ", ".join(stack_words(stack) for stack in stacks_of(profile))
        console.print(f"{found.model}: {stacks}", markup=False)
        rows = "" if repeated is None else f"; {repeated.attrs['texts']} rows of random tokens"
        console.print(f"{counted(profile)}{rows}", markup=False)
        console.print()
        if request.head is not None:
            console.print(head_page(found, profile, request.head, examples, width=width))
        else:
            console.print(roles_table(found, top=request.top, width=width, colour=colour))
            console.print()
            console.print(head_grid(grid_of_roles(found), width=width, colour=colour))
        if notes:
            console.print()
        for note in notes:
            console.print(print_lines(flow([Text(word) for word in note.split()], width, gap=1)))

    print_out(show, request.out)


def _with_hint(note: str, request: RolesRequest) -> str:
    """A note on too few texts, with what makes one file many."""
    whole_files = request.corpus.files and not request.corpus.lines
    hint = " (--lines reads each line of a file as one)"
    return note + hint if whole_files and note.endswith(ADVICE) else note


def _draw(path: Path, found: Roles, profile: xr.Dataset) -> None:
    from headwise.show.pictures import draw_grid, save

    level = found.evidence.attrs["level"]
    caption = (
        f"{found.model}. {counted(profile)}. A head has the role it is most above the baseline in, on texts it was "
        f"not chosen by; {found.tried:,} pairs of probe and head tried, level {level:g} for all together."
    )
    save(draw_grid(grid_of_roles(found), caption=caption), path)
    say(f"wrote {path}")
