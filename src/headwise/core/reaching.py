"""How reach is computed: layer by layer, through the masks, beside a past and an encoder.

A cache keeps what positions had when they were computed: `reach` goes on from a past as a model does from a cache.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headwise.core.masks import Mask
from headwise.core.reach import NEVER, Reach
from headwise.names import MaskError

__all__ = ["reach"]


def reach(
    mask: Mask | Sequence[Mask],
    layers: int | None = None,
    *,
    length: int,
    cross: Mask | Sequence[Mask] | None = None,
    memory: Reach | None = None,
    past: Reach | None = None,
) -> Reach:
    """Whose input can be in whose output, after how many layers.

    Heads that have masks of their own count together: what one of them sees is seen.

    Args:
        mask: of every layer, or one for each layer, the first first (local and global layers in turn).
        layers: how many; None = as many as masks are given.
        length: positions of the sequence, those of the past included.
        cross: of a decoder's cross-attention, from its positions to the encoder's; one, or one for each layer. Each
            layer attends to its own positions first, then across.
        memory: the encoder's own reach, with `cross`.
        past: the reach of the positions that a cache holds. They stay what they were: only the positions after them
            are computed, each layer attending to what the past had there.

    Raises:
        MaskError: no mask, a number of masks that is not that of the layers, one of another length, cross without
            memory, or a past that this cannot go on from.
    """
    steps = _steps(mask, layers, "mask")
    if (cross is None) != (memory is None):
        raise MaskError(
            "cross and memory go together: the mask to the encoder, and the encoder's reach"
        )
    if not isinstance(length, int) or length < 1:
        raise MaskError(f"length must be a whole number from 1, came {length!r}")
    start = 0 if past is None else _start(past, length, len(steps), cross is not None)
    seen = _dense(steps, length, length, start)
    own = torch.eye(length, dtype=torch.bool)[None, start:]
    first = _opened(seen, own, past)
    rows = _grown(() if past is None else past.seen, seen)
    whole = first if past is None else _under(past.first, first, NEVER)
    if cross is None or memory is None:
        return Reach(whole, len(steps), rows, start=start)
    source = memory.after()
    across = _dense(_steps(cross, len(steps), "cross"), length, source.shape[1], start)
    nothing = torch.zeros(1, length - start, source.shape[2], dtype=torch.bool)
    brought = [_through(step, source) for step in across]
    of_memory = _opened(seen, nothing, past, brought)
    if past is not None and past.memory is not None:
        of_memory = _under(past.memory, of_memory, NEVER)
    across = _grown(() if past is None else past.across, across)
    return Reach(whole, len(steps), rows, of_memory, across, memory, start)


def _start(past: Reach, length: int, layers: int, crosses: bool) -> int:
    """The first position that the past does not hold."""
    start = past.first.shape[1]
    if start >= length:
        raise MaskError(f"the past holds {start} positions; length={length} must be more than that")
    if past.layers != layers:
        raise MaskError(f"the past has {past.layers} layers, came masks for {layers}; give as many")
    if (past.memory is not None) != crosses:
        raise MaskError("the past and what goes on from it both have an encoder, or neither")
    return start


def _steps(mask: Mask | Sequence[Mask], layers: int | None, name: str) -> list[Mask]:
    if isinstance(mask, Mask):
        count = 1 if layers is None else layers
        if not isinstance(count, int) or count < 1:
            raise MaskError(f"layers must be a whole number from 1, came {count!r}")
        return [mask] * count
    masks = list(mask) if isinstance(mask, Sequence) else []
    wrong = [x for x in masks if not isinstance(x, Mask)]
    if not masks or wrong:
        came = type(wrong[0]).__name__ if wrong else type(mask).__name__ if not masks else ""
        raise MaskError(f"{name} takes a mask or a list of masks, one for each layer, came {came}")
    if layers is not None and layers != len(masks):
        raise MaskError(
            f"{name} holds {len(masks)} masks for {layers} layers; give one, or one for each layer"
        )
    return masks


def _dense(steps: list[Mask], length: int, keys: int, start: int) -> tuple[Tensor, ...]:
    """What the positions from `start` on see in each layer, of any head; equal masks share a tensor."""
    made = {id(step): step.dense(length - start, keys, start).any(1) for step in steps}
    return tuple(made[id(step)] for step in steps)


def _opened(
    seen: Sequence[Bool[Tensor, "_ query position"]],
    reached: Bool[Tensor, "_ query source"],
    past: Reach | None,
    brought: Sequence[Bool[Tensor, "_ query source"]] | None = None,
) -> Int[Tensor, "batch query source"]:
    """From which layer on each source reaches each query.

    Args:
        seen: who attends to whom in each layer.
        reached: what reaches the queries before the first layer.
        past: the positions before them; after each layer they have what they had then.
        brought: what each layer brings from the encoder, where the sources are the encoder's positions.
    """
    first = torch.where(reached, 0, NEVER)
    settled: Tensor | None = None
    for layer, step in enumerate(seen, 1):
        if step is settled and past is None and brought is None:
            continue  # the same step again brings nothing new
        held = reached
        if past is not None:
            held = _under(past.after(layer - 1, memory=brought is not None), reached, False)
        reached = reached | _through(step, held)
        if brought is not None:
            reached = reached | brought[layer - 1]
        settled = step if torch.equal(held, reached) else None
        first = first.where((first >= 0) | ~reached, layer)
    return first


def _grown(past: Sequence[Tensor], seen: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Each layer's rows under those of the past."""
    if not past:
        return tuple(seen)
    return tuple(_under(before, now, False) for before, now in zip(past, seen, strict=True))


def _under(
    past: Bool[Tensor, "_ past past_source"] | Int[Tensor, "_ past past_source"],
    rows: Bool[Tensor, "_ query source"] | Int[Tensor, "_ query source"],
    fill: int | bool,
) -> Tensor:
    """The rows below those of the past, which knew fewer sources."""
    batch = max(past.shape[0], rows.shape[0])
    wide = torch.nn.functional.pad(past, (0, rows.shape[2] - past.shape[2]), value=fill)
    return torch.cat([wide.expand(batch, -1, -1), rows.expand(batch, -1, -1)], 1)


_RUNS = 8
"""Up to so many runs of keys in every row, sums along the keys are faster than a product."""


def _through(
    seen: Bool[Tensor, "_ query key"], reached: Bool[Tensor, "_ key source"]
) -> Bool[Tensor, "_ query source"]:
    """Whether a query sees some key that a source reaches; exact, since sums of ones are."""
    runs = _runs(seen) if seen.shape[0] == reached.shape[0] == 1 and seen.shape[2] else None
    if runs is None:
        return (seen.float() @ reached.float()) > 0
    counts = torch.nn.functional.pad(reached[0].cumsum(0, dtype=torch.int32), (0, 0, 1, 0))
    found = torch.zeros(seen.shape[1], reached.shape[2], dtype=torch.bool, device=seen.device)
    for starts, ends in runs:
        found |= counts[ends] > counts[starts]
    return found[None]


def _runs(
    seen: Bool[Tensor, "1 query key"],
) -> list[tuple[Int[Tensor, " query"], Int[Tensor, " query"]]] | None:
    """The runs of keys that each query sees, as starts and ends (exclusive); None where some see many."""
    steps = torch.nn.functional.pad(seen[0].to(torch.int8), (1, 1)).diff(dim=1)
    counts = (steps == 1).sum(1)
    most = int(counts.max()) if len(counts) else 0
    if most > _RUNS:
        return None
    ends = [torch.zeros(most, len(counts), dtype=torch.long, device=seen.device) for _ in "ab"]
    for sign, into in zip((1, -1), ends, strict=True):
        at = (steps == sign).nonzero()
        rank = torch.arange(len(at), device=seen.device) - (counts.cumsum(0) - counts)[at[:, 0]]
        into[rank, at[:, 0]] = at[:, 1]
    return list(zip(*ends, strict=True))
