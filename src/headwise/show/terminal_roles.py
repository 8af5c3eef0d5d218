"""Roles on a terminal: for each probe its best heads with the evidence, and all that is known of one head."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from headwise.names import HeadId
from headwise.see.roles.cases import Example
from headwise.see.roles.reasons import why_none
from headwise.show.cells import clusters, fit, fitting, flow, print_lines
from headwise.show.labels import one_line

if TYPE_CHECKING:
    import xarray as xr

    from headwise.see.roles.role import Role, Roles

__all__ = ["head_page", "roles_table"]

_INDENT = 2
_MEASURES = {"mass": "attention", "hits": "top-1 accuracy"}
_STATISTICS = {
    "entropy": "entropy, nats",
    "distance": "distance, tokens",
    "largest": "largest weight",
    "result_share": "share of what its layer adds",
}
_AT = 6
"""Where the text around an example begins."""

_PER_CELL = 8
"""Characters that are looked at for a cell of text: marks of no width take none."""


def roles_table(roles: Roles, *, top: int, width: int, colour: bool) -> RenderableType:
    """For each probe (and stack) its definition, its baseline, and its best heads, claimed ones with `*`.

    Args:
        roles: from `roles`.
        top: how many heads of each.
        width: cells of a line.
        colour: whether roles may be shown in bold.
    """
    lines: list[Text] = []
    for name in roles.probes:
        told = [(s, roles.best(name, top, s)) for s in roles.streams]
        some = [(s, best) for s, best in told if best]
        for stream, best in some:
            lines += _heading(best[0], stream if len(roles.streams) > 1 else "", width)
            why = why_none(roles, name, stream)
            lines += _indented(_words(why), width, gap=1) if why else []
            lines += _heads(best, width, colour)
    lines.append(Text())
    lines += flow(_words(_rule(roles)), width, gap=1)
    return print_lines(lines)


def _rule(roles: Roles) -> str:
    """How the numbers are to be read."""
    halves = roles.evidence.attrs["halves"][0]
    return (
        "score [95 % interval], * a role: better than the baseline beyond chance, "
        f"{_count(roles.tried, 'pair')} of probe and head tried, so that sure, the low end of the interval "
        "widened for them, is above it; heads chosen and put in order on one half of the texts "
        f"(up to {halves[0]:,} with a case), all numbers from the other (up to {halves[1]:,})"
    )


def head_page(
    roles: Roles,
    profile: xr.Dataset,
    head: str | HeadId,
    examples: Mapping[str, Sequence[Example]],
    *,
    width: int,
) -> RenderableType:
    """One head: its statistics, its score on each probe with the evidence, and its strongest cases.

    Args:
        roles: from `roles`.
        profile: the table of the texts.
        head: which.
        examples: for names of probes its cases; "" = its strongest links anywhere.
        width: cells of a line.

    Raises:
        HeadError: no head of this model.
    """
    id = HeadId.parse(head)
    found = roles.of(id)
    main = roles.main(id)
    row = profile.isel(layer=[str(x) for x in profile["layer"].values].index(str(id.layer_id)))
    row = row.sel(head=id.head)
    title = [f"{id}"] if main is None else [f"{id}", main.probe]
    group = int(row["kv_group"])
    if group != id.head:
        title.append(f"(KV group {group})")
    lines = flow([Text(part, style="bold") for part in title], width, gap=2)
    lines += [Text(), *flow(list(_statistics(row)), width, gap=3), Text()]
    lines += flow(
        _words(
            "on each probe, * a role: score [95 % interval] sure = its low end with all that were tried"
        ),
        width,
        gap=1,
    )
    names = max((len(role.probe) for role in found), default=0)
    for role in found:
        star = Text(f"{'*' if role.claimed else ' '} {role.probe:<{names}}")
        rest = (
            f"{_MEASURES[role.by]} {_number(role.score)} {_interval(role)}{_sure(role)}, "
            f"baseline {_number(role.baseline)} ({role.baseline_is}), {_count(role.cases, 'case')}"
        )
        lines += flow([star, *_words(rest)], width, indent=4, gap=1)
    for name, cases in examples.items():
        what = f"strongest cases of {name}" if name else "strongest links (at least 3 tokens apart)"
        lines += [Text(), *flow(_words(f"{what}; [what looks]"), width, gap=1)]
        lines += [line for one in cases for line in _example(one, width)]
    return print_lines(lines)


def _heading(role: Role, stream: str, width: int) -> list[Text]:
    """The probe in words, how it is measured and what it is held against."""
    name = f"{role.probe} ({stream})" if stream else role.probe
    says = f": {one_line(role.says)}" if role.says else ""
    words = (
        f"{says}; {_MEASURES[role.by]}, baseline {_number(role.baseline)} ({role.baseline_is}), "
        f"{_count(role.cases, 'case')} in {_count(role.texts, 'text')}"
    )
    ahead = f", {role.unseen:,} more may not be seen" if role.unseen else ""
    pieces = _words(f"{name}{words}{ahead}")
    pieces[0].stylize("bold")
    return flow(pieces, width, gap=1)


def _heads(best: Sequence[Role], width: int, colour: bool) -> list[Text]:
    found = []
    for role in best:
        style = "bold" if colour and role.claimed else ""
        star = "*" if role.claimed else ""
        sure = "" if role.claimed or not role.score > role.baseline else _sure(role)
        found.append(
            Text(f"{role.head} {_number(role.score)}{star} {_interval(role)}{sure}", style=style)
        )
    return _indented(found, width, gap=3)


def _indented(pieces: Sequence[Text], width: int, gap: int) -> list[Text]:
    lines = flow(pieces, width - _INDENT, gap=gap)
    return [Text(" " * _INDENT).append_text(line) for line in lines]


def _statistics(row: xr.Dataset) -> Iterator[Text]:
    for name, says in _STATISTICS.items():
        if name in row and not math.isnan(float(row[name])):
            low, high = (float(row[f"{name}_{end}"]) for end in ("low", "high"))
            interval = "" if math.isnan(low) else f" [{_number(low)}, {_number(high)}]"
            yield Text(f"{says} {_number(float(row[name]))}{interval}")
    if "received" in row and not math.isnan(float(row["received"][0])):
        yield Text(f"received by the first token {_number(float(row['received'][0]))}")


def _example(one: Example, width: int) -> list[Text]:
    """What looks at what and how much, then the text around it."""
    keys = " / ".join(map(one_line, one.keys))
    rest = f" ({one_line(one.instead)} {_number(one.instead_mass)})" if one.instead else ""
    looks = f"{_number(one.mass)} {one_line(one.query)} → {keys}{rest}"
    lines = flow([Text(" " * _INDENT + looks)], width)
    around = _around(one, width - _AT)
    return [*lines, *flow([Text(" " * _AT + around)], width)] if around else lines


def _around(one: Example, width: int) -> str:
    """The text around what looks, which stands in brackets; "" where it is no part of the text."""
    inside = one.text[one.start : one.end]
    start = one.start + len(inside) - len(inside.lstrip())
    if not inside.strip():
        return ""
    looks = f"[{one_line(inside.strip())}]"
    side = max(0, (width - cell_len(looks)) // 2)
    reach = _PER_CELL * max(1, width)  # of a long text no more is looked at
    before, after = one.text[max(0, start - reach) : start], one.text[one.end : one.end + reach]
    before = _last(one_line(before), side) if before.strip() else ""
    room = width - cell_len(looks) - cell_len(before)
    return f"{before}{looks}{fit(one_line(after), room).rstrip() if after.strip() else ''}"


def _last(text: str, width: int) -> str:
    """The end of the text that fits into so many cells, after `…` where it is cut."""
    parts = clusters(text)
    if sum(map(cell_len, parts)) <= width:
        return text
    kept = fitting(parts[::-1], width - 1)
    return "…" + "".join(parts[len(parts) - kept :])


def _interval(role: Role) -> str:
    if math.isnan(role.low):
        return "[too few texts]"
    return f"[{_number(role.low)}, {_number(role.high)}]"


def _sure(role: Role) -> str:
    """The low end that decides, where there is one."""
    return "" if math.isnan(role.sure) else f" sure {_number(role.sure)}"


def _number(value: float) -> str:
    """As .78, 1.00, 13.4 or 1234."""
    if abs(value) < 0.995:
        return f"{value:.2f}".replace("0.", ".", 1)
    return f"{value:.2f}" if value < 9.995 else f"{value:.1f}" if value < 99.95 else f"{value:.0f}"


def _count(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _words(text: str, style: str = "") -> list[Text]:
    return [Text(word, style=style) for word in text.split()]
