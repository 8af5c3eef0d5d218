"""Following one forward of a module that writes attention out by hand, function by function.

`Following` is a TorchFunctionMode: torch hands it each function the forward calls. It keeps what the tensors on the
way hold (`algebra`), meets the products (`products`), and shows the whole to the tap of the module (`reading`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from headwise.core.attention import spread
from headwise.core.taps import Tap
from headwise.hub.routes.algebra import Call, Product, read
from headwise.hub.routes.products import Mixed, fused, mixed, operands, product
from headwise.hub.routes.reading import Reading, heads_of, off, read_whole
from headwise.hub.shards import local_gate
from headwise.names import ModelError

__all__ = ["Following", "Session"]

_OFF = 1e-3
"""How far recomputed head outputs may be from the module's own in float32, as a share of the largest."""

_OFF_HALF = 5e-2
"""The same in half precision."""


@dataclass(eq=False)
class Session:
    """Attention being followed: layers already checked, and what each last ran on."""

    checked: set[int] = field(default_factory=set)
    inputs: dict[int, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class _Lost:
    """A value that came of scores or of a pattern (`normal`) by a function that is not read."""

    function: str
    normal: bool


class Following(TorchFunctionMode):
    """Follows one forward of one module that was called with these arguments.

    Raises, while the forward runs:
        ModelError: it attends in a way that is not understood, more than once, or within pieces of its input.
    """

    def __init__(
        self, module: nn.Module, tap: Tap, session: Session, called: tuple[Any, ...]
    ) -> None:
        super().__init__()
        self.module, self.tap, self.session = module, tap, session
        self.inputs = [
            x for x in called if isinstance(x, Tensor) and x.dim() > 2 and x.is_floating_point()
        ]
        self.values: dict[int, tuple[Tensor, Product | _Lost]] = {}  # with it, so that its id stays
        self.folds: dict[int, tuple[Tensor, tuple[int, int]]] = {}
        self.done = False
        self.open_end = ""
        self._refuse_pieces()

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run the function, and keep what its result holds."""
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        name = _name(func)
        if name == "scaled_dot_product_attention":
            whole = fused(args, kwargs)
            return out if whole is None else self._complete(whole, out)
        pair = operands(name, args, kwargs)
        if pair is not None and isinstance(pair[0], Tensor) and isinstance(pair[1], Tensor):
            return self._multiplied(name, pair, args, kwargs, out)
        self._fold(args, out)
        held = self._held(args, kwargs)
        if held:
            self._step(name, held, args, kwargs, args[0] if name == "setitem" else out)
        elif name == "softmax" and "Attention" in type(self.module).__name__:
            self.open_end = "softmax of what is no product of queries and keys"
        return out

    def end(self) -> None:
        """The forward is over.

        Raises:
            ModelError: it took a softmax, and there was no attention that is understood.
        """
        if not self.done and self.open_end:
            raise self._refusal(self.open_end)

    def _held(self, args: tuple[Any, ...], kwargs: Any) -> list[tuple[Tensor, Product | _Lost]]:
        """The arguments that are followed, and what they hold."""
        flat = [*args, *kwargs.values()]
        flat += [x for many in flat if isinstance(many, list | tuple) for x in many]
        return [self.values[id(x)] for x in flat if isinstance(x, Tensor) and id(x) in self.values]

    def _step(
        self,
        name: str,
        held: list[tuple[Tensor, Product | _Lost]],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        out: Any,
    ) -> None:
        """A function of followed values."""
        known = next(((x, p) for x, p in held if isinstance(p, Product)), None)
        lost = next((p for _, p in held if isinstance(p, _Lost)), None)
        now: Product | None = None
        if known is not None and isinstance(out, Tensor):
            now = read(known[1], Call(name, known[0], args, kwargs, out))
        if name == "softmax" and now is None:
            zeroed = known is not None and known[1].holes is not None
            why = "of scores that are 0 in places" if zeroed else "over another axis than the keys"
            raise self._refusal(lost.function if lost else f"softmax {why}")
        where = lost.function if lost is not None and known is None else name
        holds = now or _Lost(where, any(p.normal for _, p in held))
        for made in out if isinstance(out, tuple | list) else [out]:
            if isinstance(made, Tensor):
                self.values[id(made)] = (made, holds)
        if now is not None and now.normal:
            self.open_end = "the pattern is not multiplied with values"

    def _multiplied(
        self,
        name: str,
        pair: tuple[Tensor, Tensor],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        out: Tensor,
    ) -> Tensor:
        """A product of two tensors: of queries and keys, of a pattern and values, or of others."""
        states = [self.values.get(id(x), (x, None))[1] for x in pair]
        normal = [i for i, state in enumerate(states) if state is not None and state.normal]
        if normal and not (self.done and isinstance(states[normal[0]], _Lost)):
            return self._mixed(name, pair, states, normal, args, out)
        made = None if normal else product(name, *pair, args, kwargs)
        if made is not None and tuple(out.shape) == made.shape:
            fold = self.folds.get(id(pair[0])) or self.folds.get(id(pair[1]))
            made = replace(made, heads=None if fold is None else fold[1])
            self.values[id(out)] = (out, made)
        return out

    def _mixed(
        self,
        name: str,
        pair: tuple[Tensor, Tensor],
        states: list[Product | _Lost | None],
        normal: list[int],
        args: tuple[Any, ...],
        out: Tensor,
    ) -> Tensor:
        at = normal[0]
        pattern = states[at]
        if isinstance(pattern, _Lost):
            raise self._refusal(pattern.function)
        whole = None
        if pattern is not None and len(normal) == 1:
            whole = mixed(name, pattern, pair, at, args)
        if whole is None:
            raise self._refusal(f"{name} of the pattern with other than values")
        return self._complete(whole, out)

    def _fold(self, args: tuple[Any, ...], out: Any) -> None:
        """Keep what batch and heads are where a function makes one axis of them, or keeps that axis."""
        x = args[0] if args else None
        if not isinstance(x, Tensor) or not isinstance(out, Tensor) or out.dim() != 3:
            return
        if x.dim() == 4 and out.numel() == x.numel() and out.shape[0] == x.shape[0] * x.shape[1]:
            self.folds[id(out)] = (out, (x.shape[0], x.shape[1]))
        elif id(x) in self.folds and out.shape[0] == x.shape[0]:
            self.folds[id(out)] = (out, self.folds[id(x)][1])

    def _complete(self, whole: Mixed, out: Tensor) -> Tensor:
        """The attention is whole: show it to the tap; what the module goes on with."""
        name = type(self.module).__name__
        if self.done:
            raise ModelError(
                f"{name} attends more than once in one forward, which cannot be looked into yet; give each "
                "attention a module of its own"
            )
        self.done = True
        both = heads_of(whole.pattern, whole.v.shape[-1], self.inputs)
        if both is None:
            shape = list(whole.pattern.shape)
            raise self._refusal(f"scores of the shape {shape}, in which heads cannot be told")
        reading = read_whole(whole, out, *both)
        if id(self.module) not in self.session.checked and not whole.pattern.dropped:
            self.session.checked.add(id(self.module))
            self._check(off(reading), out)
        z = self._told(reading, dropped=whole.pattern.dropped)
        return out if z is None else reading.back(z)

    def _told(self, reading: Reading, *, dropped: bool) -> Tensor | None:
        """What the tap makes of z; None where it stays."""
        scores, v, z = reading.scores, reading.v, reading.z
        made: Tensor | None = None
        if self.tap.meter is not None:
            with torch.no_grad():
                metered = self.tap.meter(scores, v)
            if not dropped and not (torch.is_grad_enabled() and z.requires_grad):
                made = z = metered
        for observer in self.tap.observers:
            observer(scores, v, z)
        if self.tap.edit is not None:
            made = z = self.tap.edit(scores, v, z)
        gate = local_gate(self.module, self.tap.gate, z.shape[1])
        return made if gate is None else z * spread(gate, z)

    def _check(self, apart: float, out: Tensor) -> None:
        """Once for each layer: what was read gives what the module computed."""
        if apart > (_OFF if out.element_size() > 2 else _OFF_HALF):
            raise ModelError(
                f"{type(self.module).__name__} cannot be looked into: what was read of its attention gives head "
                f"outputs that are {apart:.1%} from its own; it does something between q k^T and v that is not seen"
            )

    def _refuse_pieces(self) -> None:
        """Refuse a further run on another part of the tensor of which the run before was on a part."""
        if not self.inputs:
            return
        x, last = self.inputs[0], self.session.inputs.get(id(self.module))
        self.session.inputs[id(self.module)] = x
        if last is None or last.storage_offset() == x.storage_offset():
            return
        if last.untyped_storage().data_ptr() == x.untyped_storage().data_ptr():
            raise ModelError(
                f"{type(self.module).__name__} attends within pieces of its input, which cannot be looked into "
                "yet; pass a shorter one"
            )

    def _refusal(self, function: str) -> ModelError:
        return ModelError(
            f"{type(self.module).__name__} cannot be looked into: between q k^T and the product with v it uses "
            f"what headwise does not follow ({function}); docs/en/models.md says what it does"
        )


def _name(func: Any) -> str:
    """Of a torch function or attribute, without the underscores of in-place and operator variants."""
    name = str(getattr(func, "__name__", func))
    if name == "__get__":
        return str(getattr(func.__self__, "__name__", name))
    return name.strip("_")
