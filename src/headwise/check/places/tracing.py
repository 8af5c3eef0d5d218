"""What every module of a model read and gave, position by position.

`trace` runs anything that runs the model, with hooks on every module, and keeps the tensors that count positions.
Hooks of the module's own, and those that others put on it, count as part of the module. Functions without a module
belong to the module that calls them. What torch.compile made is run as it was written.

Not covered: a scripted module takes no hooks, and a `forward` called for itself passes them by; both count as part
of the module around. Nothing is seen of other processes.
"""

from __future__ import annotations

import sys
import weakref
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from headwise.check.places.placing import leaves, placed
from headwise.names import ModelError, ShapeError
from headwise.nn.modes import uncompiled

__all__ = ["Called", "Trace", "trace"]

Placed = Mapping[str, Tensor]
"""Tensors by their place in arguments or output (`args.0`, `kwargs.attention_mask.bias`)."""


@dataclass(frozen=True, eq=False)
class Called:
    """One call of one module: what it read and gave, and the calls inside it.

    Attributes:
        path: of the module, as named_modules has it; "" is the traced module itself.
        kind: the name of its class.
        occurrence: how often it had been called before (shared layers are called often).
        inputs: floats and whole numbers, [batch, position, rest] or [batch, query, key, rest].
        outputs: floats, likewise.
        inside: the calls made by this one, in order.
    """

    path: str
    kind: str
    occurrence: int
    inputs: Placed
    outputs: Placed
    inside: tuple[Called, ...]


@dataclass(frozen=True, eq=False)
class Trace:
    """All calls of one run. Made by `trace`."""

    calls: tuple[Called, ...]
    length: int
    batch: int

    def ended(self) -> Iterator[Called]:
        """Every call, in the order the modules ended."""
        yield from _ended(self.calls)


def trace(
    module: nn.Module,
    call: Callable[[], object],
    length: int,
    batch: int = 1,
    join: Sequence[int] | None = None,
    *,
    attached: bool = False,
) -> Trace:
    """Run `call` and keep what the modules inside `module` read and gave.

    Args:
        module: where to look; its path is "".
        call: runs it, once or several times.
        length: positions; nothing else in the model may have this size.
        batch: rows.
        join: the lengths of the pieces where each call of the module reads the next piece of one sequence; the
            pieces' tensors are joined along the positions.
        attached: keep the tensors' gradients; else detached copies.

    Raises:
        ShapeError: a length that is the batch's, or pieces that are not the length in sum.
        ModelError: the call ran no module, or none that reads or gives anything of this length.
    """
    if length == batch and length > 1:
        raise ShapeError(f"length={length} is that of the batch; take another, to tell them apart")
    if join is not None and (sum(join) != length or min(join) < 1):
        raise ShapeError(f"join={list(join)} must be lengths from 1 that make {length} in sum")
    recorder = _Recorder(length, batch, join, attached)
    module = uncompiled(module)
    with recorder.on(module), _as_code():
        call()
    found = Trace(recorder.found(), length, batch)
    if not any(c.inputs or c.outputs for c in found.ended()):
        what = "ran no module of it" if not found.calls else f"read and gave nothing of {length}"
        raise ModelError(
            f"no position to be seen in {type(module).__name__}: the call {what}; pass a call that runs "
            "this module, and the length it reads"
        )
    return found


@dataclass
class _Open:
    """A call that has begun."""

    path: str
    kind: str
    length: int
    piece: int
    occurrence: int
    inputs: dict[str, Tensor]
    outputs: dict[str, Tensor] = field(default_factory=dict)
    inside: list[_Open] = field(default_factory=list)


class _Recorder:
    """Hooks, and what they saw."""

    def __init__(self, length: int, batch: int, join: Sequence[int] | None, attached: bool) -> None:
        self.length, self.batch, self.join, self.attached = length, batch, join, attached
        self.running: list[_Open] = []
        self.outermost: list[_Open] = []
        self.begun: Counter[str] = Counter()
        self.counted: Counter[tuple[int, str]] = Counter()
        self.copies: dict[int, tuple[weakref.ref[Tensor], object, Tensor | None]] = {}

    @contextmanager
    def on(self, module: nn.Module) -> Iterator[None]:
        """Hooks on every module, until the end of the block whatever happens in it."""
        with ExitStack() as hooks:
            for path, part in module.named_modules():
                if not hasattr(part, "_orig_mod") and not isinstance(part, torch.jit.ScriptModule):
                    self._hook(part, _clean(path), hooks)
            yield

    def _hook(self, part: nn.Module, path: str, hooks: ExitStack) -> None:
        kind = type(part).__name__

        def before(_: nn.Module, args: Any, kwargs: Any) -> None:
            self._begin(path, kind, args, kwargs)

        def after(_: nn.Module, args: Any, output: Any) -> None:
            self._end(output)

        first = part.register_forward_pre_hook(before, prepend=True, with_kwargs=True)
        hooks.callback(first.remove)
        hooks.callback(part.register_forward_hook(after, always_call=True).remove)

    def _begin(self, path: str, kind: str, args: Any, kwargs: Any) -> None:
        if self.running:
            piece, length = self.running[0].piece, self.running[0].length
        else:
            piece = self.begun[path] if self.join is not None else 0
            length = self._length_of(piece)
            self.begun[path] += 1
        occurrence = self.counted[piece, path]
        self.counted[piece, path] += 1
        inputs = {
            place: kept
            for place, x in leaves({"args": args, "kwargs": kwargs})
            if x.dtype is not torch.bool and (kept := self._keep(x, length)) is not None
            if not _is_mask(kept)
        }
        begun = _Open(path, kind, length, piece, occurrence, inputs)
        (self.running[-1].inside if self.running else self.outermost).append(begun)
        self.running.append(begun)

    def _end(self, output: Any) -> None:
        ended = self.running.pop()
        for place, x in leaves(output, "output"):
            if x.is_floating_point() and (kept := self._keep(x, ended.length)) is not None:
                ended.outputs[place] = kept

    def _length_of(self, piece: int) -> int:
        if self.join is None:
            return self.length
        return self.join[piece] if piece < len(self.join) else -1

    def _keep(self, x: Tensor, length: int) -> Tensor | None:
        """A copy by position; one for a tensor that goes from module to module unchanged."""
        state = (length, None if x.is_inference() else x._version)
        known = self.copies.get(id(x))
        if known is not None and known[0]() is x and known[1] == state and not x.is_inference():
            return known[2]
        view = placed(x if self.attached else x.detach(), length, self.batch)
        kept = None if view is None else view.clone()
        self.copies[id(x)] = weakref.ref(x), state, kept
        return kept

    def found(self) -> tuple[Called, ...]:
        pieces = 1 if self.join is None else len(self.join)
        return _merged(self.outermost, pieces)


def _merged(calls: Sequence[_Open], pieces: int) -> tuple[Called, ...]:
    """The calls of each module over all pieces as one, in the order in which they first came."""
    groups: dict[tuple[str, int], list[_Open]] = {}
    for call in calls:
        groups.setdefault((call.path, call.occurrence), []).append(call)
    return tuple(_joined(group, pieces) for group in groups.values())


def _joined(group: list[_Open], pieces: int) -> Called:
    first = group[0]
    whole = len(group) == pieces
    inputs = _along([call.inputs for call in group]) if whole else {}
    outputs = _along([call.outputs for call in group]) if whole else {}
    inside = _merged([inner for call in group for inner in call.inside], pieces)
    return Called(first.path, first.kind, first.occurrence, inputs, outputs, inside)


def _along(pieces: list[dict[str, Tensor]]) -> dict[str, Tensor]:
    """Tensors of pieces joined along the positions, where all pieces have them with the same rest."""
    if len(pieces) == 1:
        return pieces[0]
    joined = {}
    for place in pieces[0]:
        parts = [piece[place] for piece in pieces if place in piece]
        alike = len(parts) == len(pieces) and {part.dim() for part in parts} == {3}
        if alike and len({part.shape[2] for part in parts}) == 1:
            joined[place] = torch.cat(parts, 1)
    return joined


def _is_mask(x: Tensor) -> bool:
    """Whether what counts positions twice has two values only; a mask is used by position, and not passed on."""
    return x.dim() == 4 and x.detach().unique().numel() <= 2


def _ended(calls: Sequence[Called]) -> Iterator[Called]:
    for call in calls:
        yield from _ended(call.inside)
        yield call


def _as_code() -> AbstractContextManager[object]:
    """What torch.compile made is run as it was written; what makes it is slow to import, so only where it is."""
    compiling = "torch._dynamo" in sys.modules
    return torch.compiler.set_stance("force_eager") if compiling else nullcontext()


def _clean(path: str) -> str:
    """The path without the wrappers that torch.compile puts around inner modules."""
    return ".".join(name for name in path.split(".") if name != "_orig_mod")
