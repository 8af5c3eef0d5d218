"""Attention written out by hand: modules whose forward computes softmax(q k^T) v by itself, in torch functions.

Found by their code, whatever their family or name. While a model is open, the forward of each such module that has
a tap runs under a TorchFunctionMode, which follows the values from the product of queries and keys to the
product with the values (`algebra`, `products`), tells the observers both, and lets a gate or a meter have the
result. A value it cannot follow is refused in one line, and so is a layer whose result, recomputed from what
was read, is not the module's own.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from headwise.core.attention import spread
from headwise.core.masks import Mask
from headwise.core.recognise import recognise
from headwise.core.scores import Scores, mix
from headwise.core.taps import Tap, tap_of
from headwise.hub.algebra import LAYOUT, READ, Product, shifted
from headwise.hub.products import Mixed, fused, mixed, operands, product
from headwise.hub.shards import local_gate
from headwise.names import ModelError

__all__ = ["followed"]

_NAME = "_headwise_followed"
_OFF = 1e-3
"""How far z recomputed in float32 may be from the module's own, as a share of its largest; halves get 50 times."""


@contextmanager
def followed(modules: Sequence[nn.Module], others: Sequence[nn.Module] = ()) -> Iterator[None]:
    """Follow the attention of these modules for their taps, for the time of the `with`.

    What runs within `others` (attention that is seen in another way) is not followed. Within another `followed` of
    the same modules it does nothing.
    """
    session = _Session()
    with ExitStack() as stack:
        for module in (*modules, *others):
            if _NAME not in module.__dict__:
                stack.enter_context(_wrapped(module, session, follow=module in modules))
        yield


@dataclass(eq=False)
class _Session:
    """One `followed` in force: masks already read, layers already checked, and whose forward runs innermost."""

    masks: dict[tuple[int, ...], tuple[tuple[Tensor, ...], Mask | None]] = field(
        default_factory=dict
    )
    checked: set[int] = field(default_factory=set)
    inputs: dict[int, Tensor] = field(default_factory=dict)
    running: list[_Following | None] = field(default_factory=list)

    def mask(self, sources: tuple[Tensor, ...], cells: Tensor | None) -> Mask | None:
        """The mask of these sources, whose cells are [batch, head, query, key]; None where all may be seen."""
        if cells is None:
            return None
        key = (*map(id, sources), *cells.shape)
        if key not in self.masks:  # the sources are kept with it, so that their ids stay their own
            offset = cells.shape[-1] - cells.shape[-2]
            mask = None if bool(cells.all()) else recognise(cells, offset)
            self.masks[key] = (sources, mask)
        return self.masks[key][1]


@contextmanager
def _wrapped(module: nn.Module, session: _Session, *, follow: bool) -> Iterator[None]:
    before = module.__dict__.get("forward")
    plain = module.forward

    @functools.wraps(plain)
    def forward(*args: Any, **kwargs: Any) -> Any:
        tap = tap_of(module) if follow else None
        if not follow and not session.running:
            return plain(*args, **kwargs)
        following = None if tap is None else _Following(module, tap, session, (args, kwargs))
        if following is not None:
            following.refuse_pieces()
        session.running.append(following)
        try:
            if following is None:
                return plain(*args, **kwargs)
            with following:
                out = plain(*args, **kwargs)
            following.end()
            return out
        finally:
            session.running.pop()

    try:
        module.__dict__[_NAME] = True
        module.__dict__["forward"] = forward
        yield
    finally:
        module.__dict__.pop(_NAME, None)
        module.__dict__.pop("forward", None)
        if before is not None:
            module.__dict__["forward"] = before


@dataclass(frozen=True)
class _Lost:
    """A value that came of scores or a pattern by a function that is not read."""

    function: str
    normal: bool


class _Following(TorchFunctionMode):
    """Follows one forward of one module."""

    def __init__(self, module: nn.Module, tap: Tap, session: _Session, call: Any) -> None:
        super().__init__()
        self.module, self.tap, self.session, self.call = module, tap, session, call
        self.values: dict[int, tuple[Tensor, Product | _Lost]] = {}
        self.folds: dict[int, tuple[Tensor, tuple[int, int]]] = {}
        self.done: Product | None = None
        self.last = ""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if self.session.running[-1] is not self:
            return func(*args, **kwargs)
        name = _name(func)
        if name == "scaled_dot_product_attention":
            found = fused(args, kwargs)
            out = func(*args, **kwargs)
            return out if found is None else self._complete(found, out)
        if (pair := operands(name, args, kwargs)) is not None:
            return self._multiplied(name, pair, func, args, kwargs)
        mine = self._mine(args, kwargs)
        out = func(*args, **kwargs)
        self._fold(args, out)
        if mine:
            self._read(name, mine, args, kwargs, out)
        elif name in ("softmax", "multi_head_attention_forward"):
            self.last = f"{name} of what is no product of queries and keys"
        return out

    def end(self) -> None:
        """The forward is over."""
        if self.done is None and self.last:
            raise self._refusal(self.last)

    def refuse_pieces(self) -> None:
        """Refuse a further run on another part of the tensor that the run before was on part of."""
        x = next((x for x in self._inputs()), None)
        last = self.session.inputs.get(id(self.module))
        if x is None:
            return
        self.session.inputs[id(self.module)] = x
        same = (
            last is not None and last.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        )
        if same and last is not None and last.storage_offset() != x.storage_offset():
            raise ModelError(
                f"{type(self.module).__name__} attends within pieces of its input, which cannot be looked into "
                "yet; pass a shorter one"
            )

    def _mine(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Tensor]:
        """The arguments that are followed, whether read or lost."""
        flat = [*args, *kwargs.values()]
        flat += [x for many in flat if isinstance(many, list | tuple) for x in many]
        return [x for x in flat if isinstance(x, Tensor) and id(x) in self.values]

    def _read(
        self, name: str, mine: list[Tensor], args: tuple[Any, ...], kwargs: Any, out: Any
    ) -> None:
        """What the result of a function of followed values holds."""
        held = [(x, self.values[id(x)][1]) for x in mine]
        if name == "setitem":
            out = args[0]
        outs = [
            x for x in (out if isinstance(out, tuple | list) else [out]) if isinstance(x, Tensor)
        ]
        known = [(x, p) for x, p in held if isinstance(p, Product)]
        now: Product | None = None
        reader = READ.get(name)
        if known and reader is not None and isinstance(out, Tensor):
            x, p = known[0]
            if reader in LAYOUT or (tuple(out.shape) == p.shape and not p.turned):
                now = reader(p, x, args, kwargs, out)
        for made in outs:
            normal = any(p.normal for _, p in held)
            earlier = next((p.function for _, p in held if isinstance(p, _Lost)), name)
            self.values[id(made)] = (made, now or _Lost(earlier, normal))
        if name == "softmax" and now is None:
            earlier = next((p.function for _, p in held if isinstance(p, _Lost)), None)
            raise self._refusal(earlier or "softmax over another axis than the keys")
        if now is not None and now.normal:
            self.last = "the pattern is not multiplied with values"

    def _multiplied(
        self, name: str, pair: tuple[Any, Any], func: Any, args: tuple[Any, ...], kwargs: Any
    ) -> Any:
        out = func(*args, **kwargs)
        if not all(isinstance(x, Tensor) for x in pair):
            return out
        states = [self.values.get(id(x), (x, None))[1] for x in pair]
        for i, state in enumerate(states):
            if state is None or not state.normal:
                continue
            if isinstance(state, _Lost):
                if self.done is not None:
                    return out
                raise self._refusal(state.function)
            other = states[1 - i]
            found = mixed(name, state, pair, i, args)
            if found is None or (other is not None and other.normal):
                raise self._refusal(f"{name} of the pattern with other than values")
            return self._complete(found, out)
        made = product(name, *pair, args, kwargs)
        if made is not None and tuple(out.shape) == made.shape:
            heads = self.folds.get(id(pair[0])) or self.folds.get(id(pair[1]))
            made = replace(made, heads=None if heads is None else heads[1])
            self.values[id(out)] = (out, made)
        return out

    def _fold(self, args: tuple[Any, ...], out: Any) -> None:
        """Keep what batch and heads are where a function makes one axis of them, or keeps that axis."""
        x = args[0] if args else None
        if not isinstance(x, Tensor) or not isinstance(out, Tensor) or out.dim() != 3:
            return
        if x.dim() == 4 and out.numel() == x.numel() and out.shape[0] == x.shape[0] * x.shape[1]:
            self.folds[id(out)] = (out, (x.shape[0], x.shape[1]))
        elif id(x) in self.folds and out.shape[0] == x.shape[0]:
            self.folds[id(out)] = (out, self.folds[id(x)][1])

    def _complete(self, found: Mixed, out: Tensor) -> Tensor:
        """The attention is whole: show it, and gate or replace its result."""
        p = found.pattern
        if self.done is not None:
            return self._again(found, out)
        self.done = p
        batch, heads = self._heads(p, found.v)
        z = out.permute(found.order)
        shape = z.shape
        z = z.reshape(batch, heads, *shape[-2:])
        scores = self._scores(p, batch, heads)
        v = _four(found.v, batch, heads, full=True)
        v = v.expand(batch, scores.k.shape[1], *v.shape[-2:]) if v.shape[1] == 1 else v
        if scores.k.shape[1] != v.shape[1]:
            scores = replace(scores, k=scores.k.expand(-1, v.shape[1], -1, -1))
        self._check(scores, v, z, p)
        z = self._told(scores, v, z, dropped=p.dropped)
        back = [found.order.index(i) for i in range(out.dim())]
        return out if z is None else z.reshape(shape).permute(back).to(out.dtype)

    def _told(self, scores: Scores, v: Tensor, z: Tensor, *, dropped: bool) -> Tensor | None:
        """Show the call to the tap; what it makes of z, None where that stays."""
        made: Tensor | None = None
        if self.tap.meter is not None:
            with torch.no_grad():
                metered = self.tap.meter(scores, v)
            if not dropped and not (torch.is_grad_enabled() and z.requires_grad):
                made = metered
        for observer in self.tap.observers:
            observer(scores, v, z if made is None else made)
        gate = local_gate(self.module, self.tap.gate, z.shape[1])
        if gate is None:
            return made
        z = z if made is None else made
        return z * spread(gate, z)

    def _again(self, found: Mixed, out: Tensor) -> Tensor:
        raise ModelError(
            f"{type(self.module).__name__} attends more than once in one forward, which cannot be looked into "
            "yet; give each attention a module of its own"
        )

    def _heads(self, p: Product, v: Tensor) -> tuple[int, int]:
        """Batch and heads of the axes before query and key."""
        if len(p.lead) == 2:
            return p.lead[0], p.lead[1]
        if len(p.lead) == 1 and p.heads is not None:
            return p.heads
        if len(p.lead) == 1:
            (both,) = p.lead
            for x in self._inputs():
                batch, width = x.shape[0], x.shape[-1]
                if both == batch or (both % batch == 0 and both // batch * v.shape[-1] == width):
                    return batch, both // batch
        raise self._refusal(f"scores of the shape {list(p.shape)}, where heads cannot be told")

    def _inputs(self) -> Iterator[Tensor]:
        args, kwargs = self.call
        for x in (*args, *kwargs.values()):
            if isinstance(x, Tensor) and x.dim() > 2 and x.is_floating_point():
                yield x

    def _scores(self, p: Product, batch: int, heads: int) -> Scores:
        queries, keys = p.shape[-2:]
        allowed = None
        for cells in p.masks:
            four = _four(cells, batch, heads).expand(-1, -1, queries, keys)
            allowed = four if allowed is None else allowed & four
        if allowed is not None and bool((allowed == allowed[:, :1]).all()):
            allowed = allowed[:, :1]
        bias = None
        for part in p.biases:
            four = _four(part, batch, heads)
            bias = four if bias is None else bias + four
        if bias is not None:
            bias = bias.expand(*bias.shape[:-1], keys)
        q = _four(p.q, batch, heads, full=True).expand(-1, heads, -1, -1)
        k = _four(p.k, batch, heads, full=True)
        mask = self.session.mask(p.masks, allowed)
        return Scores(q, k, mask, p.scale, bias, p.softcap, None, keys - queries)

    def _check(self, scores: Scores, v: Tensor, z: Tensor, p: Product) -> None:
        """Once for each layer: what was read gives what the module computed."""
        if id(self.module) in self.session.checked or p.dropped:
            return
        self.session.checked.add(id(self.module))
        off, size = 0.0, 1e-6
        with torch.no_grad():
            for start, stop in scores.blocks():
                rows = scores.rows(start, stop)
                own = z[:, :, start:stop].to(rows.dtype)
                own = own.masked_fill(rows.sum(-1, keepdim=True) == 0, 0.0)  # rows without a key
                apart = (mix(rows, v.to(rows.dtype)) - own).abs()
                if apart.numel():
                    off, size = max(off, float(apart.max())), max(size, float(own.abs().max()))
        if off > _OFF * size * (1 if z.element_size() > 2 else 50):
            raise ModelError(
                f"{type(self.module).__name__} cannot be looked into: what was read of its attention gives head "
                f"outputs that are {off:.1g} from its own; it does something between q k^T and v that is not seen"
            )

    def _refusal(self, function: str) -> ModelError:
        return ModelError(
            f"{type(self.module).__name__} cannot be looked into: between q k^T and the product with v it uses "
            f"what headwise does not follow ({function}); write it as in docs/models.md"
        )


def _four(x: Tensor, batch: int, heads: int, *, full: bool = False) -> Tensor:
    """[..., query, key or dim] that broadcasts to the leading axes, as [#batch, #head, ...]; full = all of the batch."""
    while x.dim() < 3:
        x = x[None]
    if x.dim() == 3 and x.shape[0] == batch * heads and heads * batch > 1:
        x = x.reshape(batch, heads, *x.shape[-2:])
    elif x.dim() == 3:
        x = x[None]
    return x.expand(batch, *x.shape[1:]) if full else x


def _name(func: Any) -> str:
    """Of a torch function, without the underscores of in-place and operator variants."""
    name = str(getattr(func, "__name__", func))
    if name == "__get__":
        return str(getattr(func.__self__, "__name__", name))
    return name.strip("_")
