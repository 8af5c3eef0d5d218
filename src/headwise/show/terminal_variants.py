"""One model with several numbers of heads beside each other: what stays, and what does not."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from headwise.check.counting.varying import Variant
from headwise.show.cells import fit, print_lines, sentence
from headwise.show.terminal_ledger import flops_said
from headwise.show.words import bytes_said

__all__ = ["variants_table"]

_HEADS = ("h", "h_kv", "d_k", "parameters", "Q, K, V", "W_O", "forward", "scores", "cache", "kept")


def variants_table(name: str, variants: Sequence[Variant], *, width: int) -> RenderableType:
    """A row for each number of heads, and in words what differs.

    Args:
        name: of the model.
        variants: from `hw.ledgers`.
        width: cells of a line.
    """
    made = [one for one in variants if one.ledger is not None]
    rows = [_HEADS, *(_row(one) for one in made)]
    sizes = [max(map(cell_len, column)) for column in zip(*rows, strict=True)]
    while sum(sizes) + 2 * len(sizes) - 2 > width and len(sizes) > 4:
        sizes, rows = sizes[:-1], [row[:-1] for row in rows]
    first = made[0].ledger
    assert first is not None
    read = f" of {first.sizes.length:,} positions" if first.sizes.length else ""
    rows_said = f"{first.sizes.batch} row{'' if first.sizes.batch == 1 else 's'}"
    lines = sentence(f"{name}, {first.dtype}: {rows_said}{read}", width)
    lines.append(Text())
    for row in rows:
        cells = [f"{part:>{size}}" for part, size in zip(row, sizes, strict=True)]
        lines.append(Text(fit("  ".join(cells), width).rstrip()))
    lines.append(Text())
    for one in variants:
        if one.ledger is None:
            kv = "" if one.num_kv_heads is None else f", h_kv = {one.num_kv_heads}"
            lines += sentence(f"h = {one.num_heads}{kv} cannot be: {one.refused}", width)
    lines += sentence(_said(made), width)
    return print_lines(lines)


def _row(one: Variant) -> tuple[str, ...]:
    assert one.ledger is not None
    ledger = one.ledger
    shared = "" if one.num_kv_heads is None else str(one.num_kv_heads)
    inner = sum(ledger.part(part)["parameters"] for part in ("q", "k", "v", "shared"))
    scores = ledger.part("scores")["flops_forward"] + ledger.part("mix")["flops_forward"]
    return (
        str(one.num_heads),
        shared,
        "" if one.head_dim is None else str(one.head_dim),
        f"{ledger.parameters:,}",
        f"{inner:,}",
        f"{ledger.part('o')['parameters']:,}",
        flops_said(ledger.flops_forward),
        flops_said(scores),
        bytes_said(ledger.cache_bytes) if ledger.cached else "none",
        bytes_said(ledger.activation_bytes),
    )


def _said(made: Sequence[Variant]) -> str:
    """What is the same in all, in a sentence."""
    ledgers = [one.ledger for one in made if one.ledger is not None]
    same = []
    for name, values in (
        ("parameters", {ledger.parameters for ledger in ledgers}),
        ("FLOPs", {ledger.flops_forward for ledger in ledgers}),
        ("cache", {ledger.cache_bytes for ledger in ledgers}),
    ):
        if len(values) == 1:
            same.append(name)
    if len(ledgers) < 2:
        return "scores: the products with n x n in them; kept: what autograd holds for the backward pass"
    told = (
        f"the same for all: {', '.join(same)}" if same else "parameters, FLOPs and cache all differ"
    )
    return f"{told}; scores: the products with n x n in them; kept: what autograd holds for the backward pass"
