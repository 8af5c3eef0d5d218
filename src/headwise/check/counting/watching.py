"""Watch a model run: what each operation cost, where in the model it ran, and which weights it multiplied with.

The operations are seen below autograd, so that the count is of what ran and not of what a module's name promises. A
tensor carries marks of the maps (weights) that made it, from which it is told whose queries, keys and values they
are. An operation of the backward pass belongs to the one of the forward pass whose node of autograd it runs in.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from headwise.check.counting.operations import (
    attends,
    attention_flops,
    flops_of,
    grouped,
    operands,
    tensors_in,
    turned,
    width_of,
)
from headwise.check.counting.placing import Places, Run
from headwise.hub.outputs import is_linear

__all__ = ["Operation", "Watch"]

_DEVICE = torch.ops.prim.device.default

_sequence: Any = torch.autograd._get_sequence_nr  # type: ignore[attr-defined]
"""The number that the next node of autograd gets."""

SCORES, MIXED = "scores", "mixed"
"""Marks of a tensor: made of scores, or a head output."""

Mark = Any


@dataclass(eq=False)
class Operation:
    """One operation that costs something, or that autograd keeps something for.

    Attributes:
        path: of the module in which it ran.
        attention, block: the runs of an attention layer and a block it is within; None = outside.
        after: how many blocks had begun.
        weight: the name of the parameter it multiplies with; None for a product of two results.
        role: of a product in attention: "scores" or "mix"; else "".
        given, made: the shapes of what it read beside the weight, and made.
        marks: of what it read: the maps in the same attention, and whether head outputs.
        flops: forward, backward; of fused attention `split` says the scores' share.
    """

    path: str
    attention: Run | None
    block: Run | None
    after: int
    weight: str | None = None
    role: str = ""
    given: tuple[int, ...] = ()
    made: tuple[int, ...] = ()
    marks: frozenset[Mark] = frozenset()
    flops: int = 0
    backward: int = 0
    split: float = 0.0
    scored: frozenset[int] = frozenset()
    """Storages of queries and keys, of fused attention."""
    width: int = 0
    """Channels that a map makes."""
    piece: tuple[int, int] = (0, 0)
    """Where in its weight a map reads from, and how many numbers."""
    noted: bool = False


@dataclass(eq=False)
class _Storage:
    """What is known of one piece of memory."""

    size: int
    block: Run | None
    marks: frozenset[Mark] = frozenset()


@dataclass(eq=False)
class _Frame:
    path: str
    module: nn.Module | None
    attention: Run | None
    block: Run | None


class Watch(TorchDispatchMode):
    """Watches a model within the `with`; `saved` and the peak are of what is made there.

    Args:
        module: that runs.
        places: of its attention layers and blocks.
        fake: whether tensors hold no values.
    """

    def __init__(self, module: nn.Module, places: Places, fake: bool) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.module, self.places, self.fake = module, places, fake
        self.operations: list[Operation] = []
        self.attended: list[Run] = []
        self.first_used: dict[str, int] = {}
        self.saved: dict[int, tuple[Operation, int]] = {}
        """By storage: the operation that autograd first kept it for, and its bytes."""
        self.kept: dict[int, tuple[Operation, int]] = {}
        """What was still saved when the forward pass was over."""
        self.around: set[int] = set()
        """Storages that were made outside of the blocks."""
        self.held = self.peak = 0
        self._weights = {
            x.untyped_storage()._cdata: name
            for name, x in (*module.named_buffers(), *module.named_parameters())
        }
        self._parameters = {name for name, _ in module.named_parameters()}
        self._known: dict[int, _Storage] = {}
        self._nodes: dict[int, Operation] = {}
        self._stack = [_Frame("", None, None, None)]
        self._begun = 0

    @contextmanager
    def watching(self) -> Iterator[Watch]:
        """See the modules of the model run within the `with`, the operations, and what autograd keeps."""
        keep = torch.autograd.graph.saved_tensors_hooks(self._keep, lambda x: x)
        with ExitStack() as stack:
            for path, module in self.module.named_modules():
                before = module.register_forward_pre_hook(partial(self._enter, path))
                after = module.register_forward_hook(self._leave, always_call=True)
                stack.callback(before.remove)
                stack.callback(after.remove)
            stack.enter_context(keep)
            stack.enter_context(self)
            yield self

    def marks_of(self, x: Tensor) -> frozenset[Mark]:
        """The marks that a tensor carries."""
        known = self._known.get(x.untyped_storage()._cdata)
        return frozenset() if known is None else known.marks

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Run the operation and note it."""
        kwargs = kwargs or {}
        if func is _DEVICE:
            return func(*args, **kwargs)
        out = grouped(func, args, kwargs) if self.fake else None
        if out is None:
            out = func(*args, **kwargs)
        node = torch._C._current_autograd_node()
        if node is not None:
            self._backward(node, flops_of(func, args, kwargs, out))
        else:
            self._forward(func, args, kwargs, out)
        return out

    def _backward(self, node: Any, flops: int) -> None:
        if not flops:
            return
        done = self._nodes[node._sequence_nr()]
        if not done.flops and not done.backward:  # its forward pass was a copy or a view
            self.operations.append(done)
        done.backward += flops

    def _forward(self, func: Any, args: Any, kwargs: Mapping[str, Any], out: Any) -> None:
        done = self._node()
        if done.noted:  # the node of autograd is of an operation before
            done = self._new()
        done.noted = True
        given = list(tensors_in((args, kwargs)))
        for x in given:
            name = self._weights.get(x.untyped_storage()._cdata)
            if name is not None:
                self.first_used.setdefault(name, self._begun)
        done.flops = flops_of(func, args, kwargs, out)
        marks = self._marks(done, func, args, given, out)
        if done.flops:
            self.operations.append(done)
        for x in tensors_in(out):
            self._hold(x, marks)

    def _marks(
        self, done: Operation, func: Any, args: Any, given: list[Tensor], out: Any
    ) -> frozenset[Mark]:
        """The marks of what an operation makes."""
        if attends(func):
            q, k, v = args[:3]
            return self._fused(done, q, k, v, out[0])
        pair = operands(func, args)
        if pair is None:
            marks = self._kept(frozenset[Mark]().union(*map(self.marks_of, given)))
            if (SCORES, done.attention) in marks:
                done.role = "scores"
            return marks
        done.made = tuple(out.shape)
        place = self._map(done, *pair)
        if place is not None:
            weight, read = pair[place], pair[1 - place]
            done.given, done.width = tuple(read.shape), width_of(func, place, out)
            done.piece = (int(weight.storage_offset()), weight.numel())
            done.marks = self._kept(self.marks_of(read))
            mixed = next((m for m in done.marks if isinstance(m, tuple) and m[0] == MIXED), None)
            if mixed is not None and mixed[1].output is None:
                mixed[1].output = done
                return frozenset([done])
            scope = (done.attention, done.block)
            same = {m for m in done.marks if isinstance(m, Operation)}
            return frozenset([done, *(m for m in same if (m.attention, m.block) == scope)])
        return self._product(done, *pair, out)

    def _map(self, done: Operation, one: Tensor, other: Tensor) -> int | None:
        """Which of two factors is a weight; None where both are results."""
        for place, x in ((1, other), (0, one)):
            name = self._weights.get(x.untyped_storage()._cdata)
            if name in self._parameters:
                done.weight = name
                return place
        module = self._stack[-1].module
        if module is not None and is_linear(module):  # a weight made of others
            done.weight = f"{done.path}.weight".lstrip(".")
            return 1
        return None

    def _product(self, done: Operation, one: Tensor, other: Tensor, out: Tensor) -> frozenset[Mark]:
        run = done.attention
        marks = [self._kept(self.marks_of(x)) for x in (one, other)]
        if run is None:
            return marks[0] | marks[1]
        scored = [any(isinstance(m, tuple) and m == (SCORES, run) for m in own) for own in marks]
        if any(scored):
            done.role = "mix"
            values = marks[1] if scored[0] else marks[0]
            run.note("v", values, (other if scored[0] else one).shape)
            run.mixed(tuple(out.shape))
            self._attended(run)
            return frozenset([(MIXED, run)])
        done.role = "scores"
        shapes = tuple(one.shape), turned(other.shape)
        if run.roles(marks[0]) == {"k"} and run.roles(marks[1]) != {"k"}:
            marks, shapes = marks[::-1], (turned(other.shape), tuple(one.shape))
        run.note("q", marks[0], shapes[0])
        run.note("k", marks[1], shapes[1])
        return frozenset([(SCORES, run)])

    def _fused(
        self, done: Operation, q: Tensor, k: Tensor, v: Tensor, z: Tensor
    ) -> frozenset[Mark]:
        scores, mix = attention_flops(q, k, v)
        done.role, done.split = "fused", scores / max(1, scores + mix)
        done.scored = frozenset(x.untyped_storage()._cdata for x in (q, k))
        run = done.attention
        if run is None:
            return frozenset()
        for role, x in (("q", q), ("k", k), ("v", v)):
            run.note(role, self._kept(self.marks_of(x)), x.shape)
        run.mixed(tuple(z.shape))
        self._attended(run)
        return frozenset([(MIXED, run)])

    def _attended(self, run: Run) -> None:
        if run not in self.attended:
            self.attended.append(run)

    def _kept(self, marks: frozenset[Mark]) -> frozenset[Mark]:
        """Without the marks of maps in attention and blocks that are over."""
        frame = self._stack[-1]
        return frozenset(
            m
            for m in marks
            if (isinstance(m, tuple) and (m[0] == MIXED or m[1] is frame.attention))
            or (isinstance(m, Operation) and self._near(m, frame))
        )

    @staticmethod
    def _near(made: Operation, frame: _Frame) -> bool:
        if made.attention is not None:
            return made.attention is frame.attention
        return made.block is not None and made.block is frame.block

    def _hold(self, x: Tensor, marks: frozenset[Mark]) -> None:
        """Note the memory of a result, and what it was made of."""
        storage = x.untyped_storage()
        key = storage._cdata
        if key in self._weights:
            return
        known = self._known.get(key)
        if known is not None:
            if not marks <= known.marks:
                known.marks |= marks
            return
        size = storage.nbytes()
        self._known[key] = _Storage(size, self._stack[-1].block, marks)
        self.held += size
        self.peak = max(self.peak, self.held)
        weakref.finalize(storage, self._free, key)

    def _free(self, key: int) -> None:
        known = self._known.pop(key, None)
        if known is not None:
            self.held -= known.size
        self.saved.pop(key, None)

    def _keep(self, x: Tensor) -> Tensor:
        """Autograd keeps a tensor: the memory counts once, for what kept it first; weights do not."""
        storage = x.untyped_storage()
        key = storage._cdata
        if key not in self._weights and key not in self.saved:
            known = self._known.get(key)
            if known is not None and known.block is None:
                self.around.add(key)
            self.saved[key] = (self._node(), storage.nbytes())
        return x

    def _node(self) -> Operation:
        """The operation of the node of autograd that was made last: what is kept for it comes before it runs."""
        number = _sequence() - 1
        if number not in self._nodes:
            self._nodes[number] = self._new()
        return self._nodes[number]

    def _new(self) -> Operation:
        frame = self._stack[-1]
        return Operation(frame.path, frame.attention, frame.block, self._begun)

    def _enter(self, path: str, module: nn.Module, inputs: Any) -> None:
        frame = self._stack[-1]
        attention = self.places.attends(module, path) or frame.attention
        block = self.places.begins(module, path) or frame.block
        self._begun += block is not frame.block
        self._stack.append(_Frame(path, module, attention, block))

    def _leave(self, module: nn.Module, inputs: Any, out: Any) -> None:
        self._stack.pop()
