"""ablate: heads replaced for a while, by zero, their mean, another of their outputs or an even look."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from zlib import crc32

import torch
from torch import Tensor

from headwise.core.attention import Edit
from headwise.cut.ablating.applying import Fired, applied
from headwise.cut.ablating.gathering import mean_outputs, output_pool
from headwise.cut.ablating.standing_in import (
    How,
    StandIn,
    check_how,
    constant,
    gated,
    resampled,
    uniform,
)
from headwise.cut.census import Run, census
from headwise.cut.selecting import Heads, selected
from headwise.hub.load import Model
from headwise.hub.report import say
from headwise.names import ConfigError, HeadId, LayerId, TextError
from headwise.see.texts.given import Texts
from headwise.see.texts.refusing import check_model

__all__ = ["Ablation", "ablate", "factors_of", "stand_ins"]


@dataclass(frozen=True, eq=False)
class Ablation:
    """An ablation in force.

    Attributes:
        heads: the heads that are replaced.
        how: by what.
        factors: for each head how much of it is left; 0 = nothing.
        fired: how often each layer has run with it.
    """

    heads: tuple[HeadId, ...]
    how: str
    factors: Mapping[HeadId, float]
    fired: Fired


@contextmanager
def ablate(
    model: Model,
    heads: Heads | Mapping[str | HeadId, float],
    how: How = "zero",
    *,
    texts: Texts | None = None,
    factor: float = 0.0,
    seed: int = 0,
    inputs: Mapping[str, Any] | None = None,
) -> Iterator[Ablation]:
    """Replace heads in every pass of the model within the `with`; afterwards it is as it was.

        with hw.ablate(model, "18.6, 17.*"):
            record = hw.look(model, text)

    It works on whatever `look` works on, with any attention implementation, with a cache and in training, from
    wherever the module is called. Ablations within one another add up. A head goes on as r + factor * (z - r),
    with z its output before W_O and r what stands in.

    Args:
        model: from `load`.
        heads: ids, ranges such as "18.*", "*.2" and "18.0-3", several, or a file of them (`pathlib.Path`); or a
            mapping from these to the factor of each.
        how: what stands in: "zero"; "mean", the head's mean output over `texts` (mean ablation); "resample", its
            output at another token of `texts`, drawn anew each time (Chan et al. 2022); "uniform", the mean of the
            values it may see.
        texts: for "mean" and "resample", whatever `profile` takes.
        factor: how much of each head is left; 1 = all of it.
        seed: of the draws of "resample".
        inputs: a batch to count the model's heads with, where none can be made up for it.

    Raises:
        HeadError: an id that is none, or that the model does not have.
        ConfigError: another `how`.
        TextError: no texts for "mean" or "resample".
        ModelError: at the end, if no pass ran the layers within the `with`; of some that did not, stderr tells.
    """
    check_model(model, "ablate")
    check_how(how)
    found = census(model, inputs)
    factors: dict[HeadId, float] = {}
    pairs = heads.items() if isinstance(heads, Mapping) else [(heads, factor)]
    for names, left in factors_of(pairs):
        factors |= dict.fromkeys(selected(found, names), left)
    stands = stand_ins(model, how, texts, seed)
    edits: dict[LayerId, Edit] = {}
    for run in found.runs:
        numbers = [factors.get(run.id.head(head), 1.0) for head in run.heads]
        if any(run.id.head(head) in factors for head in run.heads):
            edits[run.id] = gated(run.layer.module, torch.tensor(numbers), stands(run))
    with applied(model, edits) as fired:
        yield Ablation(tuple(id for id in found.heads if id in factors), how, factors, fired)
    still = [str(id) for id in edits if id not in fired.times]
    if still:
        say(f"ablate: the layers {', '.join(still)} did not run within the `with`", quiet=False)


def stand_ins(model: Model, how: How, texts: Texts | None, seed: int) -> _StandIns:
    """What stands in for the heads of each layer.

    Raises:
        TextError: no texts where some are needed.
    """
    if how in ("mean", "resample") and texts is None:
        raise TextError(f'how="{how}" needs texts whose head outputs stand in; give texts=...')
    means: Mapping[LayerId, Tensor] = {}
    pools: Mapping[LayerId, Tensor] = {}
    if how == "mean" and texts is not None:
        means = mean_outputs(model, texts)
    if how == "resample" and texts is not None:
        pools = output_pool(model, texts, seed)
    return _StandIns(how, means, pools, seed)


@dataclass(frozen=True, eq=False)
class _StandIns:
    """Makes what stands in for the heads of a layer."""

    how: How
    means: Mapping[LayerId, Tensor]
    pools: Mapping[LayerId, Tensor]
    seed: int

    def __call__(self, run: Run) -> StandIn | None:
        if self.how == "zero":
            return None
        if self.how == "uniform":
            return uniform
        if self.how == "mean":
            return constant(run.layer.module, self.means[run.id])
        own = crc32(f"{self.seed} {run.id}".encode())  # the same in every process
        return resampled(run.layer.module, self.pools[run.id], own)


def factors_of(pairs: Iterable[tuple[Heads, object]]) -> list[tuple[Heads, float]]:
    """Heads, and how much of them is left, as numbers.

    Raises:
        ConfigError: a factor that is no number.
    """
    found = []
    for names, left in pairs:
        if isinstance(left, bool) or not isinstance(left, int | float) or not math.isfinite(left):
            raise ConfigError(
                f"the factor of {names} must be a number, came {left!r}; 0 = all of it is replaced"
            )
        found.append((names, float(left)))
    return found
