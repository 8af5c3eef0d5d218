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

__all__ = ["HIDDEN", "LAYOUT", "READ", "Product", "shifted"]

HIDDEN = -9e3
"""A score this low, or lower, hides the key: e^-9000 is 0 in every dtype. Masks of -1e4 are in use."""


@dataclass(frozen=True, eq=False)
class Product:
    """softcap(scale * q k^T) + the biases where all masks allow, hidden elsewhere; `normal` = after the softmax.

    q [..., query, dim], k [..., key, dim]; `lead` are the axes before query and key, to which those of q, k,
    the masks and the biases broadcast. `heads` is what batch and heads are where they are one axis. `holes` are cells that were multiplied by 0 and not hidden yet (GPT).
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
        """Of the tensor: lead, query, key; key, query where it is turned."""
        cells = (self.q.shape[-2], self.k.shape[-2])
        return (*self.lead, *(reversed(cells) if self.turned else cells))

    def allowed(self) -> Tensor | None:
        """Where all masks allow; None = everywhere."""
        found: Tensor | None = None
        for mask in self.masks:
            found = mask if found is None else found & mask
        return found


Arguments = tuple[Any, ...]
Read = Callable[[Product, Tensor, Arguments, dict[str, Any], Tensor], Product | None]
"""read(product, its tensor, args, kwargs, the new tensor) -> what the new tensor holds."""


def _kept(p: Product, x: Tensor, args: Arguments, kwargs: dict[str, Any], out: Tensor) -> Product:
    return p


def _scaled(p: Product, factor: float) -> Product | None:
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


def _times(
    p: Product, x: Tensor, args: Arguments, kwargs: dict[str, Any], out: Tensor
) -> Product | None:
    other = _other(x, args, kwargs)
    factor = _number(other)
    if factor is not None:
        return _scaled(p, factor)
    if not isinstance(other, Tensor):
        return None
    if bool((other == 1).all()):
        return p
    if p.normal:
        return None
    if other.shape[-1] == 1:
        return _times_rows(p, other)
    if p.masks or p.holes is not None or not bool(((other == 0) | (other == 1)).all()):
        return None
    return replace(p, holes=other == 0)


def _times_rows(p: Product, factor: Tensor) -> Product | None:
    """One factor for each head or query: it may as well stand on the queries."""
    if p.softcap is not None or (p.masks and not bool((factor > 0).all())):
        return None
    return replace(p, q=p.q * factor, biases=tuple(bias * factor for bias in p.biases))


def _divided(
    p: Product, x: Tensor, args: Arguments, kwargs: dict[str, Any], out: Tensor
) -> Product | None:
    if not args or args[0] is not x or kwargs.get("rounding_mode"):
        return None
    other = _other(x, args, kwargs)
    inverse = 1 / other if isinstance(other, Tensor | int | float) else None
    return None if inverse is None else _times(p, x, (x, inverse), {}, out)


def _plus(
    p: Product, x: Tensor, args: Arguments, kwargs: dict[str, Any], out: Tensor
) -> Product | None:
    other, factor = _other(x, args, kwargs), kwargs.get("alpha", 1)
    if p.normal or other is None or (factor != 1 and args[0] is not x):
        return None
    return shifted(p, other if factor == 1 else other * factor)


def _minus(
    p: Product, x: Tensor, args: Arguments, kwargs: dict[str, Any], out: Tensor
) -> Product | None:
    other = _other(x, args, kwargs)
    if p.normal or other is None or not args or args[0] is not x:
        return None
    return shifted(p, -1 * kwargs.get("alpha", 1) * other)


def shifted(p: Product, other: Any) -> Product:
    """With something added: what of it hides keys is a mask, the rest a bias."""
    if not isinstance(other, Tensor):
        other = torch.as_tensor(other, dtype=p.q.dtype, device=p.q.device)
    allowed = other > HIDDEN
    masks, biases = p.masks, p.biases
    rest = other
    if not bool(allowed.all()):
        masks = (*masks, allowed)
        rest = other.masked_fill(~allowed, 0.0)
    if bool(rest.any()):
        biases = (*biases, rest)
    return _filled(replace(p, masks=masks, biases=biases))


def _filled(p: Product) -> Product:
    """Without holes where the masks hide them all."""
    allowed = p.allowed()
    if p.holes is None or allowed is None or bool((p.holes & allowed).any()):
        return p
    return replace(p, holes=None)


def _hidden(p: Product, keep: Tensor, value: Any) -> Product | None:
    """Kept where `keep`, and the value elsewhere."""
    low = value if not isinstance(value, Tensor) else float(value.max()) if value.numel() else None
    if not isinstance(low, int | float):
        return None
    if not p.normal:
        return _filled(replace(p, masks=(*p.masks, keep))) if low <= HIDDEN else None
    allowed = p.allowed()  # hidden once more after the softmax: nothing may change by that
    shown = ~keep if allowed is None else ~keep & allowed
    zero = low == 0 and not (isinstance(value, Tensor) and bool(value.any()))
    return p if zero and not bool(shown.any()) else None


def _masked_fill(
    p: Product, x: Tensor, args: Arguments, kwargs: dict[str, Any], out: Tensor
) -> Product | None:
    given = dict(zip(("input", "mask", "value"), args, strict=False)) | kwargs
    mask = given.get("mask")
    if given.get("input", x) is not x or not isinstance(mask, Tensor):
        return None
    return _hidden(p, ~mask.bool(), given.get("value"))


def _where(
    p: Product, x: Tensor, args: Arguments, kwargs: dict[str, Any], out: Tensor
) -> Product | None:
    given = dict(zip(("condition", "input", "other"), args, strict=False)) | kwargs
    if isinstance(x, Tensor) and len(args) == 3 and args[0] is x:  # x.where(condition, other)
        given = {"condition": args[1], "input": x, "other": args[2]}
    condition = given.get("condition")
    if not isinstance(condition, Tensor) or condition.dtype is not torch.bool:
        return None
    if given.get("input") is x:
        return _hidden(p, condition, given.get("other"))
    return _hidden(p, ~condition, given.get("input")) if given.get("other") is x else None


def _unchanged(
    p: Product, x: Tensor, args: Arguments, kwargs: dict[str, Any], out: Tensor
) -> Product | None:
    """Where it changed no number but hidden ones (a clamp that nothing reached)."""
    if out is x:
        return None
    same = (out == x) | ((x <= HIDDEN) & (out <= HIDDEN))
    if p.normal:
        same = same | (x.isnan() & (out == 0))
    return p if bool(same.all()) else None


def _softmax(
    p: Product, x: Tensor, args: Arguments, kwargs: dict[str, Any], out: Tensor
) -> Product | None:
    dim = kwargs.get("dim", args[1] if len(args) > 1 else None)
    if p.normal or p.holes is not None or dim not in (-1, x.dim() - 1):
        return None
    return replace(p, normal=True)


def _dropout(
    p: Product, x: Tensor, args: Arguments, kwargs: dict[str, Any], out: Tensor
) -> Product | None:
    given = dict(zip(("input", "p", "training"), args, strict=False)) | kwargs
    if not given.get("training", True) or given.get("p", 0.5) == 0:
        return p
    return replace(p, dropped=True) if p.normal else None


def _capped(
    p: Product, x: Tensor, args: Arguments, kwargs: dict[str, Any], out: Tensor
) -> Product | None:
    plain = not (p.normal or p.masks or p.biases or p.softcap is not None)
    return replace(p, softcap=1.0) if plain else None


def _reshaped(
    p: Product, x: Tensor, args: Arguments, kwargs: dict[str, Any], out: Tensor
) -> Product | None:
    """Other axes before query and key, in the same order."""
    lead, cells = tuple(out.shape[:-2]), p.shape[-2:]
    if p.turned or out.dim() < 2 or tuple(out.shape[-2:]) != cells or out.numel() != x.numel():
        return None
    if lead == p.lead:
        return p
    heads = (lead[0], lead[1]) if len(lead) == 2 and len(p.lead) == 1 else p.heads
    if len(p.lead) == 2 and len(lead) == 1:
        heads = (p.lead[0], p.lead[1])
    return replace(_mapped(p, lambda t: t.reshape(*lead, *t.shape[-2:])), lead=lead, heads=heads)


def _permuted(
    p: Product, x: Tensor, args: Arguments, kwargs: dict[str, Any], out: Tensor
) -> Product | None:
    """Axes before query and key in another order, or query and key swapped."""
    where = torch.arange(x.dim())
    dims = args[1] if len(args) == 2 and not isinstance(args[1], int) else args[1:]
    dims = tuple(kwargs.values()) or tuple(dims)
    order = where[list(dims)].tolist() if len(dims) == x.dim() else where.tolist()
    if len(dims) == 2 and x.dim() > 2:
        a, b = where[list(dims)].tolist()
        order[a], order[b] = b, a
    last = where.tolist()[-2:]
    if sorted(order[-2:]) != last:
        return None
    if order[-2:] != last:
        p, order = replace(p, turned=not p.turned), [*order[:-2], *last]
    if order == where.tolist():
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


def _number(x: Any) -> float | None:
    if isinstance(x, Tensor):
        return float(x) if x.numel() == 1 else None
    return float(x) if isinstance(x, int | float) else None


def _other(x: Tensor, args: Arguments, kwargs: dict[str, Any]) -> Any:
    """The operand that is not x."""
    rest = [
        a for a in (*args, *(v for k, v in kwargs.items() if k in ("input", "other"))) if a is not x
    ]
    return rest[0] if len(rest) == 1 else None


def _table(*entries: tuple[str, Read]) -> dict[str, Read]:
    return {name: read for names, read in entries for name in names.split()}


READ: dict[str, Read] = _table(
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
    ("view reshape view_as reshape_as unsqueeze squeeze flatten unflatten", _reshaped),
    ("permute transpose swapaxes swapdims", _permuted),
)
"""How each torch function is read, by its name without the underscores of in-place and operator variants."""

LAYOUT = {_reshaped, _permuted}
"""Those whose result has another shape."""
