"""Replay: a pass of a model run again from one attention layer on, with what came before taken from a record.

Whatever a module gave before an attention layer attended cannot depend on that layer. So one pass is recorded, and
in a further pass with that layer's heads changed every module that had ended by then answers from the record: the
blocks below, and the projections of the layer itself. No family is known here: which modules hold attention, and in
which order they run, is seen in the recorded pass. Several changes of a layer run side by side, as copies of the
batch.

A model in which something passes from one part to another in other ways than as arguments and results (a cache, an
attribute) would be replayed wrongly; `leaving` compares before it relies on it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import wraps
from typing import Any

from torch import Tensor, nn
from torch.utils import _pytree as trees

from headwise.core.attention import Edit
from headwise.core.scores import Scores
from headwise.core.taps import Tap, tapped
from headwise.cut.census import Run, census
from headwise.hub.load import Model
from headwise.names import LayerId, ModelError

__all__ = ["Recording", "Replayer", "copies"]


@dataclass(eq=False)
class _Call:
    """One call of a module in a pass: in whose call, when it ended, what it gave, and which calls were in it."""

    key: tuple[int, int]
    parent: _Call | None
    end: float = float("inf")
    output: Any = None
    inside: Counter[int] = field(default_factory=Counter)


@dataclass(eq=False)
class Recording:
    """A pass that can be replayed.

    Attributes:
        size: rows of the batch.
        result: what the pass gave.
    """

    size: int
    result: Any = None
    calls: list[_Call] = field(default_factory=list)
    moments: dict[LayerId, int] = field(default_factory=dict)

    def before(self, id: LayerId) -> dict[tuple[int, int], _Call]:
        """The calls that had ended when this layer attended, the outermost ones."""
        moment = self.moments[id]
        return {
            call.key: call
            for call in self.calls
            if call.end < moment and (call.parent is None or call.parent.end > moment)
        }


class Replayer:
    """Records passes of a model and runs them again from a layer on, within `with replayer.ready():`.

    Args:
        model: from `load`.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self._census = census(model)
        self._parts = _parts(model)
        self._counts: Counter[int] = Counter()
        self._recording: Recording | None = None
        self._open: list[_Call] = []
        self._clock = 0
        self._answers: Mapping[tuple[int, int], _Call] = {}
        self._size = self._copies = 1
        self._edit: tuple[Run, Edit] | None = None
        self._fired = False

    @contextmanager
    def ready(self, run: Run | None = None) -> Iterator[None]:
        """The context in which passes are recorded, or replayed from this layer on."""
        layers = self._model.anatomy.layers if run is None else (run.layer,)
        taps = {x.module: Tap(edit=self._attending(x.module)) for x in layers}
        with ExitStack() as stack:
            stack.enter_context(self._model.open())
            stack.enter_context(tapped(taps))
            for part in self._parts:
                stack.enter_context(_replaced(part, "forward", self._called(part)))
            yield

    def record(self, size: int, call: Callable[[], Any]) -> Recording:
        """Run a pass of `size` rows and keep what is needed to replay it; `call` makes the pass."""
        self._recording, self._open, self._clock = Recording(size), [], 0
        self._counts.clear()
        found = self._recording
        try:
            found.result = call()
        finally:
            self._recording = None
        needed = {id(one) for run in found.moments for one in found.before(run).values()}
        for one in found.calls:
            if id(one) not in needed:
                one.output = None
        return found

    def replay(
        self, recording: Recording, run: Run, edit: Edit, number: int, call: Callable[[], Any]
    ) -> Any:
        """Run the pass again with `number` copies of its rows, one after the other, and this edit at a layer.

        Args:
            recording: of the pass.
            run: the layer.
            edit: gets and gives the head outputs of all copies.
            number: how many copies.
            call: makes the pass, with so many copies of its inputs.

        Raises:
            ModelError: the layer did not run this time.
        """
        self._counts.clear()
        self._answers, self._copies = recording.before(run.id), number
        self._size, self._edit, self._fired = recording.size, (run, edit), False
        try:
            result = call()
        finally:
            self._answers, self._edit = {}, None
        if not self._fired:
            raise ModelError(f"layer {run.id} did not run when its pass was replayed")
        return result

    def _called(self, part: nn.Module) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """What stands in for the forward of a part."""

        def around(own: Callable[..., Any]) -> Callable[..., Any]:
            @wraps(own)
            def forward(*args: Any, **kwargs: Any) -> Any:
                key = (id(part), self._counts[id(part)])
                self._counts[id(part)] += 1
                if key in self._answers:
                    return self._answer(self._answers[key])
                if self._recording is None:
                    return own(*args, **kwargs)
                return self._recorded(key, lambda: own(*args, **kwargs))

            return forward

        return around

    def _answer(self, call: _Call) -> Any:
        """What the call gave, as if it and all calls in it had run."""
        self._counts.update(call.inside)
        return copies(call.output, self._size, self._copies)

    def _recorded(self, key: tuple[int, int], call: Callable[[], Any]) -> Any:
        assert self._recording is not None
        one = _Call(key, self._open[-1] if self._open else None)
        self._open.append(one)
        before = self._counts.copy()
        output = call()
        one.inside = self._counts - before
        self._open.pop()
        self._clock += 1
        one.end, one.output = self._clock, copies(output, 0, 1)
        self._recording.calls.append(one)
        return output

    def _attending(self, module: nn.Module) -> Edit:
        runs = self._census.of(module)

        def edit(scores: Scores, v: Tensor, z: Tensor) -> Tensor:
            number = (
                self._counts[id(module)] - 1
            )  # of this call; those that were answered count too
            if self._recording is not None:
                self._clock += 1
                self._recording.moments.setdefault(runs[number].id, self._clock)
            if self._edit is None or runs[number] is not self._edit[0]:
                return z
            self._fired = True
            return self._edit[1](scores, v, z)

        return edit


def copies(x: Any, size: int, number: int) -> Any:
    """Whatever a module gave or is given with `number` copies of its rows; a tensor of other rows once.

    Args:
        x: tensors, and anything that holds them.
        size: rows of the batch.
        number: how many copies; with 1, what is given back is a copy all the same.
    """

    def one(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return x
        many = number > 1 and x.dim() > 0 and x.shape[0] == size
        return x.repeat(number, *[1] * (x.dim() - 1)) if many else x.clone()

    return trees.tree_map(one, x)


def _parts(model: Model) -> list[nn.Module]:
    """What may answer from a record: modules that hold attention, attention itself, and the maps in it."""
    attention = {layer.module for layer in model.anatomy.layers}
    found: dict[nn.Module, None] = {}
    for module in model.module.modules():
        holds = any(part in attention for part in module.modules())
        if holds and module is not model.module:
            found[module] = None
    for module in attention:
        found[module] = None
        found |= {part: None for part in module.modules() if isinstance(part, nn.Linear)}
    return [part for part in found if type(part).forward is not nn.Module.forward]


@contextmanager
def _replaced(
    owner: object, name: str, around: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> Iterator[None]:
    """A method of one object replaced for the time of the `with`."""
    own = vars(owner).get(name)
    setattr(owner, name, around(getattr(owner, name)))
    try:
        yield
    finally:
        if own is None:
            delattr(owner, name)
        else:
            setattr(owner, name, own)
