"""Edits in force: what stands in for the head outputs of some layers, for the time of a `with`.

Every verb that changes heads for a while (ablation, gates, importance) goes through `applied`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from torch import Tensor, nn

from headwise.core.attention import Edit
from headwise.core.scores import Scores
from headwise.core.taps import Tap, tapped
from headwise.cut.census import Run, census
from headwise.hub.load import Model
from headwise.hub.shards import shard_of
from headwise.names import LayerId, ModelError

__all__ = ["Fired", "applied", "own_heads"]


@dataclass(eq=False)
class Fired:
    """How often each edited layer has run."""

    times: Counter[LayerId] = field(default_factory=Counter)

    def __bool__(self) -> bool:
        return bool(self.times)


@contextmanager
def applied(model: Model, edits: Mapping[LayerId, Edit]) -> Iterator[Fired]:
    """Let edits change the head outputs of these layers in every pass of the model within the `with`.

    It works wherever the module is called from (its own forward, `generate`, a training step), with whatever
    attention implementation, in every thread, and within another `applied`, whose edits come first. Gradient
    checkpointing of transformers is off meanwhile, as a layer that runs once more in a backward pass after the
    `with` would run without its edit; where checkpoints are a module's own, call backward within.

    Args:
        model: from `load`.
        edits: for each run of a layer what gives the head outputs that go on, as edit(scores, v, z) with
            z [batch, head, query, v_dim]; of a model whose heads are split over processes, those of this one
            (`own_heads`).

    Raises:
        ModelError: at the end, if none of these layers ran (and nothing else was raised).
    """
    found = census(model)
    fired = Fired()
    with ExitStack() as stack:
        stack.enter_context(model.open())
        stack.enter_context(_kept_whole(model.module))
        counting = _Counting(fired)
        for module in found.begins:
            stack.callback(module.register_forward_pre_hook(counting.begin).remove)
        taps = {
            layer.module: Tap(edit=counting.edit(found.of(layer.module), edits))
            for layer in model.anatomy.layers
            if any(run.id in edits for run in found.of(layer.module))
        }
        stack.enter_context(tapped(taps))
        yield fired
    if not fired:
        layers = ", ".join(map(str, edits))
        raise ModelError(
            f"nothing was changed: no pass of {model.name} ran its layers {layers} within the `with`; call the "
            "model, model.module or a verb of headwise there"
        )


@contextmanager
def _kept_whole(module: nn.Module) -> Iterator[None]:
    """Without gradient checkpointing of transformers."""
    name = "gradient_checkpointing"
    parts = [part for part in module.modules() if getattr(part, name, False) is True]
    try:
        for part in parts:
            setattr(part, name, False)
        yield
    finally:
        for part in parts:
            setattr(part, name, True)


class _Counting:
    """Which run of a layer this is: counted where a module runs several times in a pass."""

    def __init__(self, fired: Fired) -> None:
        self._fired = fired
        self._ran: Counter[int] = Counter()

    def begin(self, module: nn.Module, _: object) -> None:
        """A pass begins."""
        self._ran.clear()

    def edit(self, runs: tuple[Run, ...], edits: Mapping[LayerId, Edit]) -> Edit:
        """The edit of the run that is under way."""
        key = id(runs[0].layer.module)

        def edit(scores: Scores, v: Tensor, z: Tensor) -> Tensor:
            run = runs[self._ran[key] % len(runs)]
            self._ran[key] += 1
            own = edits.get(run.id)
            if own is None:
                return z
            self._fired.times[run.id] += 1
            return own(scores, v, z)

        return edit


def own_heads(module: nn.Module, x: Tensor, heads: int) -> Tensor:
    """Of a tensor over all heads of a layer [head, ...], those of the `heads` heads of this process."""
    shard = shard_of(module, heads)
    if shard is None:
        return x
    mine = shard.global_heads(heads)
    return x[mine.start : mine.stop]
