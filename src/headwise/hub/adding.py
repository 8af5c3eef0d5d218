"""What attention and the feed-forward network of a block add to the residual stream.

They are found by what they do: those of the block's vectors that, each times one number (1 in most models), sum up
to what the stream has more after the block than before. So a norm behind the attention (Gemma's, OLMo 2's),
branches side by side (NeoX) and scaled residuals (Granite) come out right. Where the norm stands in the stream
itself (BERT), the stream is normed after each addition: then these are what is added before the norm.

Not covered: what is mixed from several streams (hyper-connections) and gains of a branch that differ by channel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.hub.stream import BlockRun, PartCall
from headwise.names import ModelError

__all__ = ["Added", "added_by"]

_LOOKED = 256
"""So many positions tell which vectors are added."""

_FITS = 1e-4
"""The sum is right to so much of the stream's length, or to the rounding of its dtype."""


@dataclass(frozen=True, eq=False)
class Added:
    """What one block adds at each position of one text.

    Attributes:
        before: the stream before it.
        parts: what its attention, in a decoder its cross-attention, and its feed-forward network add.
        after: the stream after it: before + the sum of the parts, unless `normed`.
        normed: whether a norm in the stream itself follows each addition.
    """

    before: Float[Tensor, "position d_model"]
    parts: tuple[Float[Tensor, "position d_model"], ...]
    after: Float[Tensor, "position d_model"]
    normed: bool


def added_by(run: BlockRun) -> Added:
    """What the parts of a block added in one run on one text.

    Raises:
        ModelError: no vectors of the block sum up to what it adds.
    """
    width = run.after.shape[-1]
    before, after = run.before.reshape(-1, width), run.after.reshape(-1, width)
    calls = [call for call in run.calls if call.made.numel() == after.numel()]
    choices = _choices(run, calls, width)
    if all(choices):
        for find in (_summed, _normed):
            found = find(before, after, choices, calls)
            if found is not None:
                return found
    raise ModelError(
        f"what attention and the feed-forward network of layer {run.id} add cannot be told: no vectors of its "
        f"block ({type(run.block.module).__name__}) sum up to what the stream has more after it"
    )


def _choices(run: BlockRun, calls: Sequence[PartCall], width: int) -> list[list[Tensor]]:
    """For each part the vectors that may be what it adds, those that were made last first."""
    attention: list[list[Tensor]] = []
    taken: set[int] = set()
    for path in run.block.attention:
        mine: list[Tensor] = []
        for at, call in enumerate(calls):
            within = call.path == path or call.path.startswith(f"{path}.")
            if within or (call.given is not None and any(_same(call.given, x) for x in mine)):
                mine.append(call.made.reshape(-1, width))
                taken.add(at)
        attention.append(mine[::-1])
    rest = [call.made.reshape(-1, width) for at, call in enumerate(calls) if at not in taken]
    return [*attention, rest[::-1]]


def _summed(
    before: Tensor, after: Tensor, choices: list[list[Tensor]], calls: Sequence[PartCall]
) -> Added | None:
    """The parts whose multiples sum up to the difference."""
    some = _some(len(before))
    grown = (after - before)[some].double().flatten()
    flat = [[x[some].double().flatten() for x in each] for each in choices]
    every = [x for each in flat for x in each]
    gram = torch.stack([*every, grown])
    gram = gram @ gram.T
    places = _places([len(each) for each in flat])
    best, chosen, scales = torch.inf, places[0], torch.ones(len(choices))
    for place in places:
        fitted = _fit(gram, place)
        left = _left(gram, place, fitted)
        if left < best * 0.99:
            best, chosen, scales = left, place, fitted
    if not best <= _limit(after) * float(after[some].double().norm()):
        return None
    scales = torch.where((scales - 1).abs() < 1e-3, 1.0, scales)
    flat_choices = [x for each in choices for x in each]
    parts = tuple(flat_choices[i] * s for i, s in zip(chosen, scales.tolist(), strict=True))
    return Added(before, parts, after, normed=False)


def _normed(
    before: Tensor, after: Tensor, choices: list[list[Tensor]], calls: Sequence[PartCall]
) -> Added | None:
    """The parts of a block that norms the stream after each addition."""
    width = after.shape[-1]
    norms = [call for call in calls if call.given is not None and _is_norm(call)]
    if not norms or not any(_close(call.made.reshape(-1, width), after) for call in norms):
        return None
    streams = [before, *(call.made.reshape(-1, width) for call in norms)]
    parts = []
    for each in choices:
        sums = product(each, streams, norms)
        part = next((x for x, stream, norm in sums if _close(stream + x, _read(norm, width))), None)
        if part is None:
            return None
        parts.append(part)
    return Added(before, tuple(parts), after, normed=True)


def _places(counts: list[int]) -> list[tuple[int, ...]]:
    """Every choice of one vector for each part, as places among all of them."""
    starts = [sum(counts[:i]) for i in range(len(counts))]
    return list(product(*(range(s, s + n) for s, n in zip(starts, counts, strict=True))))


def _fit(gram: Tensor, place: tuple[int, ...]) -> Tensor:
    """The multiples of some vectors that come nearest to the last one."""
    at = torch.tensor(place)
    scales: Tensor = torch.linalg.pinv(gram[at][:, at], hermitian=True) @ gram[at, -1]
    return scales


def _left(gram: Tensor, place: tuple[int, ...], scales: Tensor) -> float:
    """The length of what these multiples leave of the last vector."""
    at = torch.tensor([*place, len(gram) - 1])
    weights = torch.cat([-scales, torch.ones(1, dtype=scales.dtype)])
    return float((weights @ gram[at][:, at] @ weights).clamp_min(0).sqrt())


def _some(positions: int) -> Tensor:
    return torch.linspace(0, positions - 1, min(positions, _LOOKED)).round().long()


def _limit(x: Tensor) -> float:
    return max(_FITS, 4 * torch.finfo(x.dtype).eps)


def _close(one: Tensor, other: Tensor) -> bool:
    some = _some(len(one))
    difference = (one[some].float() - other[some].float()).norm()
    return bool(difference <= _limit(one) * other[some].float().norm())


def _same(given: Tensor, made: Tensor) -> bool:
    return given.numel() == made.numel() and torch.equal(given.reshape(made.shape), made)


def _is_norm(call: PartCall) -> bool:
    weight = call.module._parameters.get("weight")
    return weight is not None and weight.dim() == 1


def _read(norm: PartCall, width: int) -> Tensor:
    assert norm.given is not None
    return norm.given.reshape(-1, width)
