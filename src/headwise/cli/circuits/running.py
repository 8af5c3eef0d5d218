"""What `headwise circuits` does once its arguments are read: find the weights, save, show."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import xarray as xr
from jaxtyping import Float
from rich.console import Console
from rich.text import Text

from headwise.cli.circuits.command import CircuitsRequest
from headwise.cli.printing import print_out, say, without
from headwise.cli.reading import reading_model
from headwise.names import HeadError, HeadId
from headwise.see.circuits.scores import circuits
from headwise.see.profile.files import left_out, save_profile
from headwise.show.cells import flow, print_lines

__all__ = ["run"]

_TOP = 8
_INDENT = 4
_KINDS = {"q_composition": "queries", "k_composition": "keys", "v_composition": "values"}


def run(request: CircuitsRequest) -> None:
    """Score the heads of a model, and show who copies and who reads whom."""
    asked = [str(HeadId.parse(head)) for head in request.heads]
    table = circuits(reading_model(request, call="circuits"), request.text)
    known = [str(id) for id in table["head_from"].values]
    for head in asked:
        if head not in known:
            raise HeadError(f"there is no head {head}: the heads are {_spans(known)}")
    if request.out is not None:
        save_profile(table, request.out, "the circuits")
    heads = f"{len(known)} head{'' if len(known) == 1 else 's'}"
    lines = [_words(f"{table.attrs['model']}: {heads}, by their weights"), _BLANK]
    lines += _circuit_lines(table) if not asked else _head_lines(table, asked)
    said = ("copying_through", "positions", "norms", "left_out", "not_available")
    lines += [_BLANK, *(_words(f"{n}: {table.attrs[n]}") for n in said if n in table.attrs)]

    def show(console: Console, colour: bool) -> None:
        console.print(print_lines([part for line in lines for part in line.wrapped(console.width)]))

    print_out(show, request.out)
    if request.out is not None:
        say(f"wrote {request.out}{without(left_out(table, request.out))}")


def _spans(heads: Sequence[str]) -> str:
    """From which to which head there are, for each stream."""
    streams = groupby(heads, key=lambda head: HeadId.parse(head).stream)
    runs = [list(some) for _, some in streams]
    return ", ".join(f"{run[0]} to {run[-1]}" for run in runs)


@dataclass(frozen=True)
class _Line:
    """What stands at the start of a line, and the pieces after it, which are wrapped below each other."""

    lead: str
    pieces: tuple[str, ...]
    gap: int = 3

    def wrapped(self, width: int) -> list[Text]:
        """On lines of this width; a start that would take half of it has a line of its own."""
        pieces, apart = [Text(piece) for piece in self.pieces], len(self.lead) > width // 2
        indent = _INDENT if apart else len(self.lead)
        first, *others = flow(pieces, width, indent=indent, gap=self.gap)
        if apart:
            return [Text(self.lead), Text(" " * indent).append_text(first), *others]
        return [Text(self.lead).append_text(first), *others]


def _words(line: str) -> _Line:
    first, *words = line.split(" ")
    return _Line("", (first, *words), gap=1)


_BLANK = _Line("", ())


def _circuit_lines(table: xr.Dataset) -> list[_Line]:
    ids = [str(id) for id in table["head_from"].values]
    copying = _by_id(table, "copying")
    lines = [_words("copying (1: raises the logits of what is looked at, -1: lowers them)")]
    for says, sign in (("most", -1), ("least", 1)):
        order = sorted(
            (id for id in ids if np.isfinite(copying[id])), key=lambda id: sign * copying[id]
        )
        told = tuple(f"{id} {copying[id]:+.2f}" for id in order[:_TOP])
        lines.append(_Line(f"  {says:<5}  ", told or ("none: not_available, below, says why",)))
    for name, reads in _KINDS.items():
        what = f"{name} (the later head's {reads} read what the earlier one writes; 0 = chance)"
        pairs = [
            f"{a} > {b} {x:+.3f}{f' (and {more} more alike)' * (more > 0)}"
            for a, b, x, more in _best_pairs(table[name].values, ids)
        ]
        lines += [_BLANK, _words(what), _Line("  ", tuple(pairs) or ("none",))]
    return lines


def _best_pairs(
    values: Float[np.ndarray, "head_from head_to"], ids: Sequence[str]
) -> list[tuple[str, str, float, int]]:
    """The pairs that compose most, each with how many more there are of the same two heads in layers of one weight.

    A layer that runs several times (ALBERT) has its weights under several ids: of its pairs the first is told.
    """
    flat = np.where(np.isfinite(values), values, -np.inf).ravel()
    found: dict[tuple[int, int, str], list[int]] = {}
    for i in np.argsort(-flat, kind="stable").tolist():
        one, other = (HeadId.parse(ids[x]) for x in divmod(i, len(ids)))
        alike = (one.head, other.head, f"{flat[i]:.7f}")
        if not np.isfinite(flat[i]) or (alike not in found and len(found) == _TOP):
            break
        found.setdefault(alike, []).append(i)
    firsts = [(min(places), len(places) - 1) for places in found.values()]
    return [(ids[i // len(ids)], ids[i % len(ids)], float(flat[i]), more) for i, more in firsts]


def _head_lines(table: xr.Dataset, heads: Sequence[str]) -> list[_Line]:
    lines: list[_Line] = []
    numbers = {name: _by_id(table, name) for name in ("copying", "ov_norm", "qk_norm")}
    for head in heads:
        told = tuple(f"{name} {found[head]:.3g}" for name, found in numbers.items())
        lines.append(_Line(f"{head}  ", told, gap=2))
        for name, reads in _KINDS.items():
            before = table[name].sel(head_to=head).dropna("head_from")
            after = table[name].sel(head_from=head).dropna("head_to")
            lines.append(_Line(f"  its {reads:<7} read  ", _strongest(before)))
            lines.append(_Line(f"  {reads:<7} of reading it  ", _strongest(after)))
    return lines


def _strongest(scores: xr.DataArray) -> tuple[str, ...]:
    (dim,) = scores.dims
    order = np.argsort(-scores.values, kind="stable")[:5]
    return tuple(f"{scores[dim].values[i]} {scores.values[i]:+.3f}" for i in order) or ("none",)


def _by_id(table: xr.Dataset, name: str) -> dict[str, float]:
    return {
        f"{layer}.{head}": float(value)
        for layer, row in zip(table["layer"].values, table[name].values, strict=True)
        for head, value in zip(table["head"].values, row, strict=True)
    }
