"""What `headwise circuits` and `headwise clusters` do once their arguments are read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr
from rich.console import Console

from headwise.hub.load import load
from headwise.names import HeadError, HeadId
from headwise.see.circuits.scores import circuits
from headwise.see.clusters.grouping import clusters, plane, streams_of, table_of, tree
from headwise.see.clusters.measuring import distances
from headwise.see.profile.files import left_out, save_profile
from headwise.see.texts.corpus import Corpus

__all__ = ["Compared", "show_circuits", "show_clusters"]

_TOP = 8
_KINDS = {"q_composition": "queries", "k_composition": "keys", "v_composition": "values"}


@dataclass(frozen=True)
class Compared:
    """What was asked of `headwise clusters`."""

    corpus: Corpus
    model: str
    count: int
    rows: int
    seed: int
    stream: str | None
    tree: bool
    pictures: tuple[Path, ...]
    out: Path | None
    context: int | None
    device: str | None
    dtype: str | None


def show_circuits(
    name: str,
    heads: Sequence[str],
    text: str | None,
    out: Path | None,
    device: str | None,
    dtype: str | None,
) -> None:
    """Score the heads of a model, and show who copies and who reads whom."""
    asked = [str(HeadId.parse(head)) for head in heads]
    table = circuits(load(name, device, dtype), text)
    known = [str(id) for id in table["head_from"].values]
    for head in asked:
        if head not in known:
            raise HeadError(f"there is no head {head}: the heads are {known[0]} to {known[-1]}")
    console = Console(highlight=False, soft_wrap=True)
    lines = [f"{table.attrs['model']}: {len(known)} heads, by their weights", ""]
    lines += _circuit_lines(table) if not asked else _head_lines(table, asked)
    said = ("copying_through", "positions", "norms", "left_out", "not_available")
    lines += [
        "",
        *(f"{said_of}: {table.attrs[said_of]}" for said_of in said if said_of in table.attrs),
    ]
    for line in lines:
        console.print(line, markup=False)
    _save(table, out)


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


def show_clusters(asked: Compared) -> None:
    """Compare the heads over a corpus, and show which look alike."""
    model = load(asked.model, asked.device, asked.dtype)
    texts = list(asked.corpus.texts())
    apart = distances(model, texts, asked.rows, asked.seed, context=asked.context)
    groups = clusters(apart, asked.count)
    console = Console(highlight=False, soft_wrap=True)
    rows = ", ".join(f"{n:,}" for n in dict.fromkeys(apart.attrs["rows"].values()))
    console.print(f"{model.name}: {groups.size} heads, what they look at from {rows} tokens")
    for number in range(1, int(groups.max()) + 1):
        ids = [str(id) for id in groups["head"].values[groups.values == number]]
        within = apart.sel(head_a=ids, head_b=ids).values
        mean = within.sum() / max(len(ids) * (len(ids) - 1), 1)
        console.print(f"{number}  {len(ids)} heads, {mean:.3f} nats apart: {' '.join(ids)}")
    _save(table_of(apart, groups), asked.out)
    if asked.pictures:
        _draw(asked, apart, groups, model.name)


def _draw(asked: Compared, apart: xr.DataArray, groups: xr.DataArray, name: str) -> None:
    from headwise.show.picture_clusters import draw_plane, draw_tree
    from headwise.show.pictures import save

    stream = asked.stream or streams_of(apart)[0]
    labels = {
        str(id): f"cluster {number}"
        for id, number in zip(groups["head"].values, groups.values, strict=True)
    }
    said = f"{name}{f', {stream}' if stream else ''}. Heads by the Jensen-Shannon distance of their rows"
    if asked.tree:
        figure = draw_tree(tree(apart, stream), labels, caption=f"{said}, average linkage.")
    else:
        ids, places, share = plane(apart, stream)
        facts = f"{said}, classical scaling: two axes hold {share:.0%} of the squared distances."
        figure = draw_plane(ids, places, labels, caption=facts)
    for path in asked.pictures:
        save(figure, path)
        Console(stderr=True, highlight=False).print(f"wrote {path}", markup=False)


def _save(table: xr.Dataset, out: Path | None) -> None:
    if out is None:
        return
    save_profile(table, out)
    left = left_out(table, out)
    without = f" (without {', '.join(left)}: those are in .nc and .json)" if left else ""
    Console(stderr=True, highlight=False).print(f"wrote {out}{without}", markup=False)
