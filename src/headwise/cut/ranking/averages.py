"""The mean output of every head over batches, which several processes may share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import torch

from headwise.cut.ablating.gathering import OutputSums, each_output
from headwise.cut.census import census
from headwise.cut.ranking.gradients import Means
from headwise.hub.load import Model
from headwise.see.profile import running
from headwise.see.profile.together import Team
from headwise.see.texts.batches import Batch

__all__ = ["averages"]


def averages(model: Model, batches: Iterable[Batch], team: Team) -> Means:
    """The mean of each head's output before W_O over all tokens that are no padding, the same on each process."""
    run = running.Run(_Sums(model), team)
    run.through(batches)
    sums, _ = running.united(team, run.sums.state(), run.done, frozenset(), lambda: _Sums(model))
    return sums.means


class _Sums:
    """Sums of head outputs, and how many tokens they are of."""

    def __init__(self, model: Model) -> None:
        self._model, self._held = model, OutputSums()

    def add(self, batch: Batch) -> None:
        each_output(self._model, iter([batch]), self._held.take)

    def state(self) -> dict[str, np.ndarray | str]:
        found: dict[str, np.ndarray | str] = {}
        for id, total in self._held.sums.items():
            found[f"{id}/sum"] = total.numpy()
            found[f"{id}/count"] = np.array(self._held.counts[id])
        return found

    def merge(self, other_state: Mapping[str, np.ndarray | str]) -> None:
        for run in census(self._model).runs:
            if f"{run.id}/sum" in other_state:
                total = torch.from_numpy(np.asarray(other_state[f"{run.id}/sum"]))
                self._held.add(run.id, total, int(other_state[f"{run.id}/count"]))

    @property
    def means(self) -> Means:
        return self._held.means
