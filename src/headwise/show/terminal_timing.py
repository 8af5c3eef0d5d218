"""A timing on a terminal: a line for each phase, batch and length, and in words whether there is a gain."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from headwise.cut.timing.result import Case, Timed, Timing
from headwise.show.cells import fit, print_lines, sentence
from headwise.show.labels import one_line
from headwise.show.words import bytes_said, seconds_said, sized

__all__ = ["timing_table"]

_INTERVAL = "95 % interval"
_FEW = "range"
_LEAST = 6
"""Rounds below which the interval is the range."""


def timing_table(timing: Timing, *, width: int, colour: bool) -> RenderableType:
    """The models, each case with its times and the ratio, and what that means.

    Args:
        timing: from `timing`.
        width: cells of a line.
        colour: whether a gain is shown in bold.
    """
    models = [one for one in (timing.a, timing.b) if one is not None]
    lines = [
        line for one, name in zip(models, "AB", strict=False) for line in _model(one, name, width)
    ]
    lines += [Text(), *_table(timing, width, colour), Text()]
    lines += sentence(_how(timing), width)
    if timing.b is not None:
        lines += sentence(_verdict(timing), width)
    return print_lines(lines)


def _model(one: Timed, name: str, width: int) -> list[Text]:
    told = f"{sized(one.parameters)} parameters, {bytes_said(one.weight_bytes)}"
    return sentence(f"{name}  {one_line(one.name)}: {told}", width)


def _table(timing: Timing, width: int, colour: bool) -> list[Text]:
    two = timing.b is not None
    heads = ["phase", "batch", "length", "A", *(["B", "B / A", ""] if two else []), "cache"]
    rows = [_cells(case, two) for case in timing.cases]
    sizes = [max(map(cell_len, column)) for column in zip(heads, *rows, strict=True)]
    if not any(row[-1] for row in rows) or sum(sizes) + 2 * len(sizes) - 2 > width:
        heads, sizes, rows = heads[:-1], sizes[:-1], [row[:-1] for row in rows]
    lines = []
    for case, row in zip((None, *timing.cases), (heads, *rows), strict=True):
        cells = [
            f"{part:<{size}}" if i in (0, 6) else f"{part:>{size}}"
            for i, (part, size) in enumerate(zip(row, sizes, strict=True))
        ]
        told = "  ".join(cells).rstrip()
        bold = colour and case is not None and case.gain == "faster"
        lines.append(Text(fit(told, min(width, cell_len(told))), "bold" if bold else ""))
    return lines


def _cells(case: Case, two: bool) -> list[str]:
    length = "" if case.length is None else f"{case.length:,}"
    cells = [case.phase, str(case.batch), length, seconds_said(case.a.median)]
    if two:
        assert case.b is not None
        gain = {"none": "no gain", None: ""}.get(case.gain, str(case.gain))
        cells += [seconds_said(case.b.median), str(case.ratio), gain]
    return [*cells, _cache(case)]


def _cache(case: Case) -> str:
    """The bytes of the cache, or with two models the second's share of the first's."""
    held = [size for size in case.cache_bytes if size is not None]
    if len(held) == 2:
        return f"{held[1] / held[0]:.2f} x" if held[0] else ""
    return bytes_said(held[0]) if held else ""


def _how(timing: Timing) -> str:
    interval = _INTERVAL if timing.rounds >= _LEAST else f"{_FEW} (of fewer than {_LEAST} rounds)"
    clock = "time that the process computed" if timing.clock == "cpu" else "wall clock"
    threads = f", {timing.threads} thread{'' if timing.threads == 1 else 's'}"
    where = f"{timing.device}{threads if timing.device == 'cpu' else ''}, {timing.dtype}"
    times = "medians of the time of a pass (decode: of one token)"
    ratio = f", and of B's / A's in one round with its {interval}" if timing.b is not None else ""
    return f"{times}{ratio}; {timing.rounds} rounds, {clock}, {where}"


def _verdict(timing: Timing) -> str:
    """The gains in a sentence."""
    faster = [case for case in timing.cases if case.gain == "faster"]
    slower = [case for case in timing.cases if case.gain == "slower"]
    others = len(timing.cases) - len(faster) - len(slower)
    if not faster:
        told = "B is no faster than A in any of these cases"
        return told + (f", and slower in {_listed(slower)}" if slower else "")
    told = f"B is faster in {_listed(faster)}"
    told += f", slower in {_listed(slower)}" if slower else ""
    return told + (f"; no gain in the other {others}" if others else "")


def _listed(cases: Sequence[Case]) -> str:
    told = []
    for case in cases:
        assert case.ratio is not None
        length = "" if case.length is None else f", length {case.length:,}"
        told.append(f"{case.phase} (batch {case.batch}{length}: {case.ratio.median:.2f} x)")
    return ", ".join(told)
