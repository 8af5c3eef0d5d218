"""A ledger on a terminal: totals in words, then a row for each part, layers that are equal told once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from headwise.check.counting.compared import against_formulas
from headwise.check.counting.formulas import FLOPS, PARAMETERS
from headwise.check.counting.ledger import Ledger
from headwise.check.counting.stages import Stage, Stages
from headwise.names import LayerId
from headwise.show.cells import fit, print_lines, sentence
from headwise.show.words import bytes_said

__all__ = ["flops_said", "ledger_table", "shapes_table"]

_NAMES: Mapping[str, str] = {
    "q": "Q",
    "k": "K",
    "v": "V",
    "shared": "Q, K, V shared",
    "scores": "scores",
    "mix": "mix",
    "o": "W_O",
    "ffn": "FFN",
    "norm": "norms",
    "embedding": "embeddings",
    "output": "output",
    "other": "other",
    "cache": "cache",
}
_COLUMNS = ("parameters", "flops_forward", "flops_backward", "activation_bytes", "cache_bytes")
_HEADS = ("parameters", "forward", "backward", "kept", "cache")
_BY_HEAD = ("q", "k", "v", "pattern", "z")
_STAGES: Mapping[str, str] = {
    "input": "in",
    "q": "Q",
    "k": "K",
    "v": "V",
    "pattern": "pattern",
    "z": "head outputs",
    "concat": "concat",
    "o": "after W_O",
    "ffn_input": "FFN in",
    "w1": "after W_1",
    "hidden": "FFN hidden",
    "w2": "after W_2",
}


def ledger_table(
    ledger: Ledger, *, width: int, every: bool = False, formulas: bool = False
) -> RenderableType:
    """The totals, and a row for each part of each layer.

    Args:
        ledger: from `hw.ledger`.
        width: cells of a line.
        every: show every layer by itself.
        formulas: show what the closed forms give beside.
    """
    lines: list[Text] = []
    for line in _totals(ledger):
        lines += sentence(line, width)
    lines += [Text(), *_rows(ledger, width, every)]
    if formulas:
        lines += [Text(), *_formulas(ledger, width)]
    lines.append(Text())
    for line in _notes(ledger):
        lines += sentence(line, width)
    return print_lines(lines)


def shapes_table(ledger: Ledger, *, width: int, every: bool = False) -> RenderableType:
    """The shapes that a row passes through in each layer, those of equal layers once."""
    lines = [Text()]
    kinds: list[tuple[list[LayerId], Stages]] = []
    for stages in ledger.stages:
        alike = kinds and not every and _alike(kinds[-1][1], stages)
        if alike:
            kinds[-1][0].append(stages.id)
        else:
            kinds.append(([stages.id], stages))
    for ids, stages in kinds:
        lines += sentence(f"{_spanned(list(map(str, ids)))}: shapes of one sequence", width)
        rows = [(_STAGES[s.name], _shape(s)) for s in stages.stages]
        size = max((len(name) for name, _ in rows), default=0)
        lines += [Text(fit(f"  {name:<{size}}  {shape}", width).rstrip()) for name, shape in rows]
        lines.append(Text())
    depth = len({str(stages.id) for stages in ledger.stages})
    heads = sorted({s.times for one in ledger.stages for s in one.stages if s.name == "q"})
    if heads:
        broad = f"{heads[0]}" if len(heads) == 1 else f"{heads[0]} to {heads[-1]}"
        lines += sentence(
            f"heads are the breadth ({broad} side by side in a layer), layers the depth ({depth} in turn)",
            width,
        )
    return print_lines(lines)


def flops_said(count: float) -> str:
    """FLOPs in units, as 155.8 GFLOP."""
    for ten, unit in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= ten:
            return f"{count / ten:.1f} {unit}FLOP"
    return f"{count:.0f} FLOP"


def _totals(ledger: Ledger) -> list[str]:
    sizes = ledger.sizes
    rows = f"{sizes.batch} row{'' if sizes.batch == 1 else 's'}"
    read = f" of {sizes.length:,} positions" if sizes.length else ""
    if sizes.target:
        read += f", {'and ' if read else ''}{sizes.target:,} of a target"
    lines = [f"{ledger.name} ({ledger.kind}), {ledger.dtype}: {rows}{read}"]
    size = int(ledger.parameters) * _itemsize(ledger.dtype)
    tied = "; " + "; ".join(f"{where or 'the output'} is {what}" for where, what in ledger.tied)
    lines.append(
        f"{ledger.parameters:,} parameters ({bytes_said(size)}){tied + ', counted once' if ledger.tied else ''}"
    )
    for name, count in (("forward", ledger.flops_forward), ("backward", ledger.flops_backward)):
        one = count / sizes.batch
        token = f", {flops_said(one / sizes.tokens)} a token" if sizes.tokens else ""
        lines.append(f"{name}: {flops_said(one)} a sequence{token}")
    if ledger.cached:
        per = ledger.cache_bytes / max(1, sizes.batch * sizes.tokens)
        lines.append(f"cache: {bytes_said(ledger.cache_bytes)}, {bytes_said(round(per))} a token")
    else:
        lines.append("cache: none")
    lines.append(
        f"activations: {bytes_said(ledger.activation_bytes)} kept for the backward pass; a plain forward pass "
        f"holds {bytes_said(ledger.peak_bytes)} at most beside the weights"
    )
    return lines


def _notes(ledger: Ledger) -> list[str]:
    return [
        "FLOPs are those of matrix products, convolutions and attention over the batch, 2 for a multiply-add; all "
        "n x n scores are counted, those too that a mask leaves out; norms and activations are not. Kept: bytes "
        f"that autograd holds for the backward pass, without dropout. Counted {ledger.how}."
    ]


@dataclass(frozen=True)
class _Group:
    places: list[str]
    counts: np.ndarray


def _groups(ledger: Ledger, every: bool) -> list[_Group]:
    """Places that cost the same, one after another."""
    table = ledger.table
    grid = np.stack([table[name].values for name in _COLUMNS], axis=-1)
    groups: list[_Group] = []
    for place, counts in zip(table["place"].values, grid, strict=True):
        last = groups[-1] if groups else None
        may = last is not None and str(place) != "outside" and not every
        if may and last is not None and _equal(last, str(place), counts):
            last.places.append(str(place))
            continue
        groups.append(_Group([str(place)], counts))
    return groups


def _equal(group: _Group, place: str, counts: np.ndarray) -> bool:
    return _stream(group.places[-1]) == _stream(place) and np.array_equal(group.counts, counts)


def _stream(place: str) -> str:
    return place.rpartition(".")[0]


def _rows(ledger: Ledger, width: int, every: bool) -> list[Text]:
    parts = [str(part) for part in ledger.table["part"].values]
    rows: list[tuple[str, ...]] = [("", *_HEADS)]
    for group in _groups(ledger, every):
        each = ", each" if len(group.places) > 1 else ""
        rows.append((_spanned(group.places) + each, *[""] * len(_HEADS)))
        for part, counts in zip(parts, group.counts, strict=True):
            if counts.any():
                rows.append((f"  {_NAMES[part]}", *_cells(counts)))
    totals = np.array([getattr(ledger, name) for name in _COLUMNS])
    rows.append(("all", *_cells(totals)))
    sizes = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    while sum(sizes) + 2 * len(sizes) - 2 > width and len(sizes) > 2:
        sizes, rows = sizes[:-1], [row[:-1] for row in rows]
    lines = []
    for row in rows:
        cells = [f"{row[0]:<{sizes[0]}}"]
        cells += [f"{part:>{size}}" for part, size in zip(row[1:], sizes[1:], strict=True)]
        lines.append(Text(fit("  ".join(cells), width).rstrip()))
    return lines


def _cells(counts: Sequence[int] | np.ndarray) -> list[str]:
    parameters, forward, backward, kept, cache = (int(x) for x in counts)
    return [
        f"{parameters:,}" if parameters else "",
        flops_said(forward) if forward else "",
        flops_said(backward) if backward else "",
        bytes_said(kept) if kept else "",
        bytes_said(cache) if cache else "",
    ]


def _spanned(places: list[str]) -> str:
    if places == ["outside"]:
        return "outside the layers"
    if len(places) == 1:
        return f"layer {places[0]}"
    return f"layers {places[0]} to {places[-1]}"


def _formulas(ledger: Ledger, width: int) -> list[Text]:
    """For the parts of the first layer of each kind: the count, the closed form, and what it gives."""
    rows = [("", "weights", "formula", "FLOPs", "formula", "")]
    for id, compared in against_formulas(ledger):
        rows.append((f"layer {id}", "", "", "", "", ""))
        for part, held, form in compared:
            same = held == (form.parameters, form.flops)
            weights, flops = f"{held[0]:,}", f"{held[1]:,}"
            told = "=" if same else f"gives {form.parameters:,}, {form.flops:,}"
            rows.append((f"  {_NAMES[part]}", weights, PARAMETERS[part], flops, FLOPS[part], told))
    sizes = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for row in rows:
        cells = [
            f"{x:{'>' if i in (1, 3) else '<'}{n}}"
            for i, (x, n) in enumerate(zip(row, sizes, strict=True))
        ]
        lines.append(Text(fit("  ".join(cells), width).rstrip()))
    return lines


def _shape(stage: Stage) -> str:
    own = f"{stage.rows:,} x {stage.columns:,}"
    return own if stage.name not in _BY_HEAD else f"{stage.times} times {own}"


def _alike(one: Stages, other: Stages) -> bool:
    return one.id.stream == other.id.stream and one.stages == other.stages


def _itemsize(dtype: str) -> int:
    return {"float64": 8, "float32": 4}.get(dtype, 2)
