"""Each head left out in turn: how much the loss of each row rises, exactly.

The model runs once with all heads, and then once for each, of which only what comes after the head is computed anew
(`replaying`): all heads of a layer side by side where memory allows, and without the logits ever in memory at once
(`unembedding`). Both are compared with the model itself on a short input first; where they differ, the model runs
whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils import _pytree as trees

from headwise.core.attention import Edit
from headwise.core.scores import Scores
from headwise.core.taps import tap_of
from headwise.cut.ablating.applying import applied
from headwise.cut.ablating.standing_in import constant
from headwise.cut.census import Run, census
from headwise.cut.example import example
from headwise.cut.losses import LossFunction, goals, losses_of
from headwise.cut.ranking.gradients import Means, between, still
from headwise.cut.ranking.replaying import Recording, Replayer, copies
from headwise.cut.ranking.scores import Measured
from headwise.cut.ranking.unembedding import Unembedding, negative_logs, unembedding_of
from headwise.hub.load import Model
from headwise.names import HeadId, LayerId
from headwise.see.texts.batches import Batch, from_inputs

__all__ = ["LeavingOut"]

_TOKENS = {"cpu": 4096}
_MORE = 32768
"""How many tokens run side by side on a CPU, and elsewhere."""

_AGREES = 1e-4
"""How far apart, relative to the largest loss, a replayed pass and a whole one may be."""


class LeavingOut:
    """Measures a batch: the loss of each row without each head, less that with all.

    Args:
        model: from `load`.
        heads: the ones to leave out.
        loss: as `importance` takes it.
        means: what stands in; None = zero.
        reached: told how many texts' worth of the batch is done.

    Attributes:
        computed: how, in words.
    """

    def __init__(
        self,
        model: Model,
        heads: Sequence[HeadId],
        *,
        loss: LossFunction | None = None,
        means: Means | None = None,
        reached: Callable[[float], None] = lambda texts: None,
    ) -> None:
        self._model, self._loss, self._means, self._reached = model, loss, means, reached
        self._heads = set(heads)
        self._replayer = Replayer(model)
        self._unembedding = unembedding_of(model) if loss is None else None
        self._whole: set[LayerId] | None = None
        self._why = ""

    @property
    def computed(self) -> str:
        """How the heads were left out, in words."""
        whole = self._whole or set()
        layers = [str(run.id) for run in census(self._model).runs if run.id in whole]
        if not layers:
            return "what comes after each head was computed anew, and what comes before it once"
        some = "every layer" if len(layers) == len(census(self._model).runs) else ", ".join(layers)
        return f"the whole model ran for each head of {some}{self._why}"

    def __call__(self, batch: Batch) -> Measured:
        """The scores of a batch."""
        with still(self._model.module), torch.no_grad():
            if self._whole is None:
                self._whole = self._compared(batch)
            return self._measured(batch)

    def _measured(self, batch: Batch) -> Measured:
        found = census(self._model)
        inputs = self._model.placed(batch.inputs)
        recording = self._recorded(batch, inputs)
        base, counts = recording.result
        scores = np.full((len(counts), len(found.heads)), np.nan)
        places = {id: i for i, id in enumerate(found.heads)}
        todo = [(run, part) for run in found.runs for part in self._parts(run, batch)]
        done, every = 0, sum(len(part) for _, part in todo)
        try:
            for run, part in todo:
                rows = self._without(batch, inputs, recording, run, part)
                at = [places[run.id.head(head)] for head in part]
                scores[:, at] = (rows.double() - base.double()).T.cpu().numpy()
                done += len(part)
                self._reached(batch.size * done / every)
        except KeyboardInterrupt:
            pass
        losses = base.double().cpu().numpy()
        return Measured(scores, losses, counts.cpu().numpy(), done == every)

    def _recorded(self, batch: Batch, inputs: dict[str, Any]) -> Recording:
        """A pass with all heads."""
        if len(self._whole or ()) == len(census(self._model).runs):
            return Recording(batch.size, self._rows(batch, inputs))
        with self._replayer.ready():
            return self._replayer.record(batch.size, lambda: self._rows(batch, inputs))

    def _parts(self, run: Run, batch: Batch) -> list[tuple[int, ...]]:
        """The heads of a layer, as many at a time as run side by side."""
        heads = tuple(head for head in run.heads if run.id.head(head) in self._heads)
        alone = self._loss is not None or run.id in (self._whole or ())
        tokens = max(x.shape[:2].numel() for x in batch.inputs.values() if isinstance(x, Tensor))
        room = _TOKENS.get(self._model.device.type, _MORE)
        number = 1 if alone else max(1, room // max(1, tokens))
        return [heads[i : i + number] for i in range(0, len(heads), number)]

    def _without(
        self,
        batch: Batch,
        inputs: dict[str, Any],
        recording: Recording,
        run: Run,
        heads: Sequence[int],
    ) -> Tensor:
        """The summed losses of the rows without each of these heads, [head, row]."""
        edit = self._edit(run, heads, batch.size)
        if run.id in (self._whole or ()):
            with applied(self._model, {run.id: edit}):
                return self._rows(batch, inputs)[0][None]
        many = copies(inputs, batch.size, len(heads))
        with self._replayer.ready(run):
            rows, _ = self._replayer.replay(
                recording, run, edit, len(heads), lambda: self._rows(batch, many)
            )
        by_head: Tensor = rows.unflatten(0, (len(heads), -1))
        return by_head

    def _edit(self, run: Run, heads: Sequence[int], size: int) -> Edit:
        """The edit that leaves out the first of these heads in the first copy of the rows, and so on."""
        stand_in = None if self._means is None else constant(run.layer.module, self._means[run.id])

        def edit(scores: Scores, v: Tensor, z: Tensor) -> Tensor:
            gate = z.new_ones(len(heads), len(run.heads))
            gate[range(len(heads)), [run.index(head) for head in heads]] = 0
            gate = gate.repeat_interleave(z.shape[0] // len(heads), 0)[..., None]
            return between(run.layer.module, scores, v, z, gate, stand_in)

        return edit

    def _rows(self, batch: Batch, inputs: dict[str, Any]) -> tuple[Tensor, Tensor]:
        """The summed loss of each row, and how many losses that is."""
        if self._unembedding is None:
            found = losses_of(self._model, replace(batch, inputs=inputs), self._loss)
            return found.of_rows, found.counts
        return _deferred(self._model, self._unembedding, inputs)

    def _compared(self, batch: Batch) -> set[LayerId]:
        """The layers whose passes cannot be replayed, seen on a short input, or the batch where there is none."""
        found = census(self._model)
        every = {run.id for run in found.runs}
        if found.begins and any(tap_of(layer.module) for layer in self._model.anatomy.layers):
            self._why = ": an ablation around this changes layers that run several times"
            return every
        batch = self._short() or batch
        inputs = self._model.placed(batch.inputs)
        self._check_unembedding(batch, inputs)
        try:
            with self._replayer.ready():
                recording = self._replayer.record(batch.size, lambda: self._witness(batch, inputs))
        except Exception as error:  # whatever a model does when its parts are wrapped
            self._why = f": its passes cannot be recorded ({type(error).__name__})"
            return every
        bad = {run.id for run in found.runs if not self._replays(batch, inputs, recording, run)}
        if bad:
            self._why = ", since replaying its passes gave something else"
        return bad

    def _short(self) -> Batch | None:
        """A short input of two rows the model runs on; None where none can be made up."""
        try:
            whole = from_inputs(self._model, example(self._model))
            few = {name: _first(x, whole.size) for name, x in whole.inputs.items()}
            batch = from_inputs(self._model, few)
            self._model.run(batch.inputs)
        except Exception:  # whatever a model does with made-up inputs
            return None
        return batch

    def _witness(self, batch: Batch, inputs: dict[str, Any]) -> Tensor:
        """What is compared: the losses of the rows, or with a loss of one's own all that the model gives."""
        if self._loss is None:
            return self._rows(batch, inputs)[0]
        given = trees.tree_leaves(self._model.outputs(inputs))
        return torch.cat([x.float().flatten() for x in given if _is_float(x)])

    def _check_unembedding(self, batch: Batch, inputs: dict[str, Any]) -> None:
        """Give up the logits in pieces where they are not those of the model."""
        if self._unembedding is None:
            return
        try:
            rows = self._rows(batch, inputs)[0]
            plain = losses_of(self._model, replace(batch, inputs=inputs)).of_rows
        except Exception:  # whatever a model does with logits of no width
            rows = plain = torch.full((1,), torch.nan)
        if not _agree(rows, plain):
            self._unembedding = None

    def _replays(
        self, batch: Batch, inputs: dict[str, Any], recording: Recording, run: Run
    ) -> bool:
        """Whether two copies replayed from a layer on, with nothing changed, give what the model gives."""
        number = 1 if self._loss is not None else 2
        many = copies(inputs, batch.size, number)
        try:
            with self._replayer.ready(run):
                came = self._replayer.replay(
                    recording, run, _as_it_is, number, lambda: self._witness(batch, many)
                )
        except Exception:  # whatever a model does when a part of it answers from a record
            return False
        return _agree(came, recording.result.repeat(number))


def _as_it_is(scores: Scores, v: Tensor, z: Tensor) -> Tensor:
    return z


def _first(x: Any, size: int) -> Any:
    """Of what has `size` rows the first two."""
    return x[:2] if isinstance(x, Tensor) and x.dim() and x.shape[0] == size else x


def _is_float(x: Any) -> bool:
    return isinstance(x, Tensor) and x.is_floating_point()


def _agree(a: Tensor, b: Tensor) -> bool:
    return a.shape == b.shape and bool(
        (a - b).abs().max() <= _AGREES * b.abs().max().clamp(min=1e-3)
    )


def _deferred(
    model: Model, unembedding: Unembedding, inputs: dict[str, Any]
) -> tuple[Tensor, Tensor]:
    """The losses of the next token by row, without logits in memory."""
    with unembedding.put_off() as held:
        model.outputs(inputs)
    goal, counted = goals(inputs)
    values = torch.zeros(goal.shape, device=goal.device)
    values[counted] = negative_logs(unembedding, held[-1][:, :-1][counted], goal[counted])
    return values.sum(1), counted.sum(1)
