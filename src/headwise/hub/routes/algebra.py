"""The algebra of attention that is written out by hand: what a value on the way from q k^T to softmax(...) v is.

A `Product` says of one tensor, in terms of the queries and keys it was made from, what it holds: the scores, or
the pattern. Each function here reads one torch function that made a new tensor of it, and answers with what
that tensor holds, or None where it is something else.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

__all__ = ["Call", "Product", "read", "shifted"]

HIDDEN = -9e3
"""A score this low, or lower, hides the key: e^-9000 is 0 in every dtype. Masks of -1e4 are in use."""


@dataclass(frozen=True, eq=False)
class Product:
    """softcap(scale * q k^T) + the biases where all masks allow, hidden elsewhere; `normal` = after the softmax.

    Attributes:
        q: [..., query, dim].
        k: [..., key, dim].
        lead: the axes before query and key, to which those of q, k, masks and biases broadcast.
        holes: cells that were multiplied by 0 and are not hidden yet (the first GPT hides so).
        normal: whether the softmax was taken.
        dropped: whether some of its weights were dropped then.
        heads: batch and heads, where `lead` has them in one axis and they are known.
        turned: whether the tensor is [..., key, query].
    """

    q: Tensor
    k: Tensor
    lead: tuple[int, ...]
    scale: float = 1.0
    softcap: float | None = None
    masks: tuple[Tensor, ...] = ()
    biases: tuple[Tensor, ...] = ()
    holes: Tensor | None = None
    normal: bool = False
    dropped: bool = False
    heads: tuple[int, int] | None = None
    turned: bool = False

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the tensor."""
        cells = (self.q.shape[-2], self.k.shape[-2])
        return (*self.lead, *(reversed(cells) if self.turned else cells))

    @property
    def allowed(self) -> Tensor | None:
        """Where all masks allow; None = everywhere."""
        found: Tensor | None = None
        for mask in self.masks:
            found = mask if found is None else found & mask
        return found


@dataclass(frozen=True, eq=False)
class Call:
    """A torch function, by its name without the underscores of its variants, that made `out` from x and others."""

    name: str
    x: Tensor
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    out: Tensor

    def given(self, *names: str) -> dict[str, Any]:
        """The arguments by name, those given by place under these names."""
        return dict(zip(names, self.args, strict=False)) | self.kwargs

    @property
    def first(self) -> bool:
        """Whether x is the first argument."""
        return bool(self.args) and self.args[0] is self.x

    @property
    def other(self) -> Any:
        """The one operand that is not x; None where there is none, or more."""
        named = (self.kwargs[name] for name in ("input", "other") if name in self.kwargs)
        rest = [a for a in (*self.args, *named) if a is not self.x]
        return rest[0] if len(rest) == 1 else None


def read(p: Product, call: Call) -> Product | None:
    """What the result of this call holds, where its x holds p; None where it is not understood."""
    reader = _LAYOUT.get(call.name)
    if reader is None and tuple(call.out.shape) == p.shape and not p.turned:
        reader = _VALUES.get(call.name)
    return None if reader is None else reader(p, call)


def shifted(p: Product, other: Any) -> Product:
    """With something added: what of it hides keys is a mask, the rest a bias."""
    if not isinstance(other, Tensor):
        other = torch.as_tensor(other, dtype=p.q.dtype, device=p.q.device)
    allowed = other > HIDDEN
    masks, biases = p.masks, p.biases
    if not bool(allowed.all()):
        masks = (*masks, allowed)
        other = other.masked_fill(~allowed, 0.0)
    if bool(other.any()):
        biases = (*biases, other)
    return _filled(replace(p, masks=masks, biases=biases))


def _kept(p: Product, call: Call) -> Product | None:
    return p


def _times(p: Product, call: Call) -> Product | None:
    return _scaled(p, call.other)


def _divided(p: Product, call: Call) -> Product | None:
    other = call.other
    plain = call.first and not call.kwargs.get("rounding_mode")
    return _scaled(p, 1 / other) if plain and isinstance(other, Tensor | int | float) else None


def _scaled(p: Product, factor: Any) -> Product | None:
    if isinstance(factor, Tensor) and factor.numel() > 1:
        return _scaled_by_tensor(p, factor)
    if not isinstance(factor, Tensor | int | float):
        return None
    factor = float(factor)
    if factor == 1:
        return p
    if p.normal or (factor <= 0 and (p.masks or p.softcap is not None)):
        return None
    return replace(
        p,
        scale=p.scale * factor,
        softcap=None if p.softcap is None else p.softcap * factor,
        biases=tuple(bias * factor for bias in p.biases),
    )


def _scaled_by_tensor(p: Product, factor: Tensor) -> Product | None:
    if bool((factor == 1).all()):
        return p
    if p.normal:
        return None
    if factor.shape[-1] == 1:  # one for each head or query, which may as well stand on the queries
        if p.softcap is not None or (p.masks and not bool((factor > 0).all())):
            return None
        return replace(p, q=p.q * factor, biases=tuple(bias * factor for bias in p.biases))
    is_mask = bool(((factor == 0) | (factor == 1)).all())
    return replace(p, holes=factor == 0) if is_mask and not p.masks and p.holes is None else None


def _plus(p: Product, call: Call) -> Product | None:
    factor = call.kwargs.get("alpha", 1)
    if p.normal or call.other is None or (factor != 1 and not call.first):
        return None
    return shifted(p, call.other if factor == 1 else call.other * factor)


def _minus(p: Product, call: Call) -> Product | None:
    if p.normal or call.other is None or not call.first:
        return None
    return shifted(p, -call.kwargs.get("alpha", 1) * call.other)


def _filled(p: Product) -> Product:
    """Without holes where the masks hide them all."""
    allowed = p.allowed
    if p.holes is None or allowed is None or bool((p.holes & allowed).any()):
        return p
    return replace(p, holes=None)


def _masked_fill(p: Product, call: Call) -> Product | None:
    given = call.given("input", "mask", "value")
    mask = given.get("mask")
    return _hidden(p, ~mask.bool(), given.get("value")) if isinstance(mask, Tensor) else None


def _where(p: Product, call: Call) -> Product | None:
    given = call.given("condition", "input", "other")
    if call.first and len(call.args) == 3:  # x.where(condition, other)
        given = {"condition": call.args[1], "input": call.x, "other": call.args[2]}
    condition = given.get("condition")
    if not isinstance(condition, Tensor) or condition.dtype is not torch.bool:
        return None
    if given.get("input") is call.x:
        return _hidden(p, condition, given.get("other"))
    return _hidden(p, ~condition, given.get("input"))


def _hidden(p: Product, keep: Tensor, value: Any) -> Product | None:
    """Kept where `keep`, and the value elsewhere."""
    values = torch.as_tensor(value)
    if not p.normal:
        low = bool((values <= HIDDEN).all())
        return _filled(replace(p, masks=(*p.masks, keep))) if low else None
    allowed = p.allowed  # hidden once more after the softmax: nothing may change by that
    shown = ~keep if allowed is None else ~keep & allowed
    return None if bool(values.any()) or bool(shown.any()) else p


def _unchanged(p: Product, call: Call) -> Product | None:
    """Where it changed no number but hidden ones (a clamp that nothing reached)."""
    x, out = call.x, call.out
    if out is x:
        return None
    same = (out == x) | ((x <= HIDDEN) & (out <= HIDDEN))
    if p.normal:
        same = same | (x.isnan() & (out == 0))
    return p if bool(same.all()) else None


def _softmax(p: Product, call: Call) -> Product | None:
    dim = call.given("input", "dim").get("dim")
    over_keys = dim in (-1, call.x.dim() - 1)
    return replace(p, normal=True) if over_keys and not p.normal and p.holes is None else None


def _dropout(p: Product, call: Call) -> Product | None:
    given = call.given("input", "p", "training")
    if not given.get("training", True) or given.get("p", 0.5) == 0:
        return p
    return replace(p, dropped=True) if p.normal else None


def _capped(p: Product, call: Call) -> Product | None:
    plain = not (p.normal or p.masks or p.biases or p.holes is not None or p.softcap is not None)
    return replace(p, softcap=1.0) if plain else None


def _reshaped(p: Product, call: Call) -> Product | None:
    """Other axes before query and key, in the same order."""
    out = call.out
    if p.turned or out.dim() < 2 or tuple(out.shape[-2:]) != p.shape[-2:]:
        return None
    lead = tuple(out.shape[:-2])
    if lead == p.lead or out.numel() != call.x.numel():
        return p if lead == p.lead else None
    heads = p.heads
    for two, one in ((lead, p.lead), (p.lead, lead)):
        if len(two) == 2 and len(one) == 1:
            heads = (two[0], two[1])
    return replace(_mapped(p, lambda t: t.reshape(*lead, *t.shape[-2:])), lead=lead, heads=heads)


def _permuted(p: Product, call: Call) -> Product | None:
    """Axes before query and key in another order, or query and key swapped."""
    axes = list(range(call.x.dim()))
    given = tuple(call.kwargs.values()) or call.args[1:]
    dims = [axes[i] for i in (given if isinstance(given[0], int) else given[0])]
    order = dims if len(dims) == len(axes) else list(axes)
    if call.name != "permute":
        order[dims[0]], order[dims[1]] = dims[1], dims[0]
    if sorted(order[-2:]) != axes[-2:]:
        return None
    if order[-2:] != axes[-2:]:
        p, order = replace(p, turned=not p.turned), [*order[:-2], *axes[-2:]]
    if order == axes:
        return p
    lead = tuple(p.lead[i] for i in order[:-2])
    return replace(_mapped(p, lambda t: t.permute(order)), lead=lead, heads=None)


def _mapped(p: Product, change: Callable[[Tensor], Tensor]) -> Product:
    """With everything it is made of brought to its full leading axes and changed alike."""

    def one(t: Tensor) -> Tensor:
        last = (1,) * (2 - t.dim()) + tuple(t.shape)[-2:]
        return change(t.expand(*p.lead, *last))

    return replace(
        p,
        q=one(p.q),
        k=one(p.k),
        masks=tuple(map(one, p.masks)),
        biases=tuple(map(one, p.biases)),
        holes=None if p.holes is None else one(p.holes),
    )


_Read = Callable[[Product, Call], Product | None]


def _table(*entries: tuple[str, _Read]) -> dict[str, _Read]:
    return {name: reader for names, reader in entries for name in names.split()}


_LAYOUT = _table(
    ("view reshape view_as reshape_as unsqueeze squeeze flatten unflatten", _reshaped),
    ("permute transpose swapaxes swapdims", _permuted),
)
_VALUES = _table(
    ("to float double half bfloat16 type type_as contiguous clone detach data alias", _kept),
    ("mul multiply imul", _times),
    ("div divide true_divide truediv", _divided),
    ("add iadd radd", _plus),
    ("sub subtract isub", _minus),
    ("masked_fill", _masked_fill),
    ("where", _where),
    ("max maximum clamp clamp_min clamp_max clip nan_to_num", _unchanged),
    ("softmax", _softmax),
    ("dropout", _dropout),
    ("tanh", _capped),
)
