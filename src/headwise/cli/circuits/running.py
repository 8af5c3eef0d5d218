"""What `headwise circuits` does once its arguments are read: find the weights, save, show."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import xarray as xr
from rich.console import Console

from headwise.cli.circuits.command import CircuitsRequest
from headwise.cli.printing import print_out, say, without
from headwise.hub.load import load
from headwise.names import HeadError, HeadId
from headwise.see.circuits.scores import circuits
from headwise.see.profile.files import left_out, save_profile

__all__ = ["run"]

_TOP = 8
_KINDS = {"q_composition": "queries", "k_composition": "keys", "v_composition": "values"}


def run(request: CircuitsRequest) -> None:
    """Score the heads of a model, and show who copies and who reads whom."""
    asked = [str(HeadId.parse(head)) for head in request.heads]
    table = circuits(load(request.model, request.device, request.dtype), request.text)
    known = [str(id) for id in table["head_from"].values]
    for head in asked:
        if head not in known:
            raise HeadError(f"there is no head {head}: the heads are {known[0]} to {known[-1]}")
    if request.out is not None:
        save_profile(table, request.out, "the circuits")
    lines = [f"{table.attrs['model']}: {len(known)} heads, by their weights", ""]
    lines += _circuit_lines(table) if not asked else _head_lines(table, asked)
    said = ("copying_through", "positions", "norms", "left_out", "not_available")
    lines += ["", *(f"{name}: {table.attrs[name]}" for name in said if name in table.attrs)]

    def show(console: Console, colour: bool) -> None:
        for line in lines:
            console.print(line, markup=False, soft_wrap=True)

    print_out(show, request.out)
    if request.out is not None:
        say(f"wrote {request.out}{without(left_out(table, request.out))}")


def _circuit_lines(table: xr.Dataset) -> list[str]:
    ids = [str(id) for id in table["head_from"].values]
    copying = _by_id(table, "copying")
    lines = ["copying (1: raises the logits of what is looked at, -1: lowers them)"]
    for says, sign in (("most", -1), ("least", 1)):
        order = sorted(
            (id for id in ids if np.isfinite(copying[id])), key=lambda id: sign * copying[id]
        )
        told = "   ".join(f"{id} {copying[id]:+.2f}" for id in order[:_TOP])
        lines.append(f"  {says:<5}  {told or 'none'}")
    for name, reads in _KINDS.items():
        lines += [
            "",
            f"{name} (the later head's {reads} read what the earlier one writes; 0 = chance)",
        ]
        values = table[name].values
        flat = np.where(np.isfinite(values), values, -np.inf).ravel()
        best = [i for i in np.argsort(-flat, kind="stable")[:_TOP] if np.isfinite(flat[i])]
        pairs = [(ids[i // len(ids)], ids[i % len(ids)], flat[i]) for i in best]
        lines.append("  " + ("   ".join(f"{a} > {b} {x:+.3f}" for a, b, x in pairs) or "none"))
    return lines


def _head_lines(table: xr.Dataset, heads: Sequence[str]) -> list[str]:
    lines: list[str] = []
    numbers = {name: _by_id(table, name) for name in ("copying", "ov_norm", "qk_norm")}
    for head in heads:
        told = "  ".join(f"{name} {found[head]:.3g}" for name, found in numbers.items())
        lines.append(f"{head}  {told}")
        for name, reads in _KINDS.items():
            before = table[name].sel(head_to=head).dropna("head_from")
            after = table[name].sel(head_from=head).dropna("head_to")
            lines.append(f"  its {reads:<7} read  {_strongest(before)}")
            lines.append(f"  {reads:<7} of reading it  {_strongest(after)}")
    return lines


def _strongest(scores: xr.DataArray) -> str:
    (dim,) = scores.dims
    order = np.argsort(-scores.values, kind="stable")[:5]
    return "   ".join(f"{scores[dim].values[i]} {scores.values[i]:+.3f}" for i in order) or "none"


def _by_id(table: xr.Dataset, name: str) -> dict[str, float]:
    return {
        f"{layer}.{head}": float(value)
        for layer, row in zip(table["layer"].values, table[name].values, strict=True)
        for head, value in zip(table["head"].values, row, strict=True)
    }
