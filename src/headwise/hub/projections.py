"""The input maps of an attention layer, W_Q, W_K and W_V, found by what they give.

While the model runs, W_V is the linear map whose output, cut by heads, is the values of the attention call; so for
queries and keys. RoPE turns nothing at the first position, so there they still are what their map gave, and further
on their length is; where neither holds (a norm of each head lies between), the layer has no such map.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.hub.listening import Calls, LinearCall

__all__ = ["Projection", "Sought", "projection"]

ROLES = ("queries", "keys", "values")

_NEARLY = 64
"""How many roundings a map's output may be from what attention was given, at the largest number."""

_NEAR = 24
"""Among how many maps that ran last a map is looked for whose channels are in an order of its own."""


@dataclass(frozen=True, eq=False)
class Projection:
    """W_Q, W_K or W_V of one layer: head h's queries (keys, values) are x @ weight[h] + bias[h].

    `path` is the map's in the model; a factor of the model on what it gives is in the weight. `turned` says that
    the model turns them by their position (RoPE), and that this is what comes before. `off` is the largest
    difference of what the map gives from what attention was given, where it was compared.
    """

    path: str
    weight: Float[Tensor, "head d_in dim"]
    bias: Float[Tensor, "head dim"] | None
    turned: bool
    off: float
    given: Tensor
    """What the map read in the pass in which it was found."""


@dataclass(frozen=True, eq=False)
class Sought:
    """Queries, keys or values of a call, [batch, head, position, dim], and which of the three."""

    role: str
    x: Float[Tensor, "batch head position dim"]
    num_heads: int
    num_kv_heads: int

    @property
    def rows(self) -> Float[Tensor, "batch position width"]:
        """Heads side by side, as a linear map gives them."""
        return self.x.transpose(1, 2).flatten(2)


def projection(
    sought: Sought, calls: Calls, since: int, path: str, module: object
) -> Projection | None:
    """The linear map that made queries, keys or values; None where none did.

    Args:
        sought: what to find the map of.
        calls: of the pass, up to this attention call.
        since: how many linear maps had run when the layer before attended.
        path: of the attention module.
        module: the attention module.
    """
    assert isinstance(module, torch.nn.Module)
    own = [*calls.maps(since), *calls.not_called(path, module)]
    for call in [*own, *calls.maps()]:
        for columns in _layouts(sought, call.made.shape[-1]):
            found = _fits(sought, call, columns)
            if found is not None:
                return found
    for call in own[:_NEAR]:
        columns_found = _matched(sought, call)
        if columns_found is not None:
            found = _fits(sought, call, columns_found)
            if found is not None:
                return found
    return None


def _layouts(sought: Sought, width: int) -> Iterator[Tensor]:
    """The usual places, [head, dim], of a role's channels in an output of that width."""
    _, heads, _, dim = sought.x.shape
    query, kv = sought.num_heads, sought.num_kv_heads
    role = ROLES.index(sought.role)
    channel = torch.arange(dim)
    if width == heads * dim:
        yield torch.arange(heads)[:, None] * dim + channel
        return
    if width == (query + 2 * kv) * dim:
        start = (0, query, query + kv)[role]  # all queries, all keys, all values
        yield (torch.arange(heads) + start)[:, None] * dim + channel
        per, head = query // kv, torch.arange(heads)
        unit = (
            head // per if role == 0 else head
        )  # for each KV head its queries, its key, its value
        within = head % per if role == 0 else torch.full_like(head, per + role - 1)
        yield (unit * (per + 2) + within)[:, None] * dim + channel
    if width == 2 * kv * dim and role:
        yield (torch.arange(heads) + (role - 1) * kv)[:, None] * dim + channel
        yield (torch.arange(heads) * 2 + role - 1)[:, None] * dim + channel


def _fits(sought: Sought, call: LinearCall, columns: Tensor) -> Projection | None:
    """The projection of these channels of a map, if they are what is sought, at the first position at least."""
    made = _as_rows(call.made, sought.rows)
    if made is None or made.dtype != sought.x.dtype:
        return None
    _, heads, _, dim = sought.x.shape
    wanted = sought.rows.float()
    columns = columns.to(made.device)
    came = made[..., columns.flatten()].float()
    factor = _factor(came[:, 0], wanted[:, 0])
    if factor is None:
        return None
    came = came * factor
    eps = max(torch.finfo(dtype).eps for dtype in (made.dtype, wanted.dtype))
    room = _NEARLY * eps * max(float(wanted.abs().max()), 1e-30)
    off = (came - wanted).abs()
    if float(off[:, 0].max()) > room:
        return None
    turned = float(off.max()) > room
    if turned:
        lengths = [x.unflatten(-1, (heads, dim)).norm(dim=-1) for x in (came, wanted)]
        if sought.role == "values" or float((lengths[0] - lengths[1]).abs().max()) > room * dim:
            return None
        off = off[:, :1]
    weight = call.weight[:, columns.flatten().to(call.weight.device)].detach() * factor
    weight = weight.unflatten(1, (heads, dim)).transpose(0, 1)
    bias = None
    if call.bias is not None:
        bias = call.bias[columns.to(call.bias.device)].detach() * factor
    return Projection(call.path, weight, bias, turned, float(off.max()), call.given)


def _as_rows(made: Tensor, like: Tensor) -> Tensor | None:
    """A map's output as [batch, position, channel]; None where it is of other tokens."""
    batch, positions, _ = like.shape
    if made.dim() == 3 and made.shape[:2] == (batch, positions):
        return made
    if made.dim() == 3 and made.shape[:2] == (positions, batch):  # torch's, position first
        return made.transpose(0, 1)
    if made.numel() == batch * positions * made.shape[-1]:
        return made.reshape(batch, positions, made.shape[-1])
    return None


def _factor(came: Tensor, wanted: Tensor) -> float | None:
    """The number a model multiplies a map's output with: 1 in most; None where there is no such number."""
    if torch.equal(came, wanted):
        return 1.0
    length = float((came * came).sum())
    factor = float((came * wanted).sum()) / length if length > 0 else 0.0
    if factor <= 0:
        return None
    return 1.0 if abs(factor - 1) < 1e-5 else factor


def _matched(sought: Sought, call: LinearCall) -> Tensor | None:
    """Which of a map's channels each one sought equals, [head, dim], in any order; None where one has none."""
    made = _as_rows(call.made, sought.rows)
    if made is None or made.dtype != sought.x.dtype:
        return None
    places: dict[bytes, int] = {}
    for channel, numbers in enumerate(_columns(made)):
        places.setdefault(numbers, channel)
    found = [places.get(numbers) for numbers in _columns(sought.rows)]
    if None in found:
        return None
    _, heads, _, dim = sought.x.shape
    return torch.tensor(found).view(heads, dim)


def _columns(rows: Tensor) -> list[bytes]:
    """Each channel's numbers at the first position of every text, and where it is one text at the last too."""
    kept = rows[:, 0] if rows.shape[0] > 1 else rows[0]
    return [column.tobytes() for column in (kept.float() + 0.0).T.contiguous().cpu().numpy()]
