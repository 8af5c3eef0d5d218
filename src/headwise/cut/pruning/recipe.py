"""The recipe of a cut on texts: which heads go, in how many steps, and what is given back of them.

The default is what lost least on SmolLM2 in benchmarks/cutting.py.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from headwise.cut.ablating.gathering import mean_outputs
from headwise.cut.losses import LossFunction
from headwise.cut.pruning.folding import folded
from headwise.cut.pruning.iterating import Path, Ranked, in_steps, mark_path
from headwise.cut.pruning.jointly import pairs_of
from headwise.cut.pruning.outputs import NewOutput
from headwise.cut.pruning.planning import Budget, Order, to_cut
from headwise.cut.pruning.refitting import refitted
from headwise.cut.pruning.sizes import sizes_of
from headwise.cut.pruning.surgery import cut_heads
from headwise.cut.pruning.units import Unit
from headwise.cut.telling import Progress
from headwise.hub.load import Model
from headwise.names import HeadId, LayerId
from headwise.see.texts.batches import Batch
from headwise.see.texts.given import Texts, batches_in

__all__ = ["STEPS", "Recipe", "Scoring", "cut_on_texts", "new_outputs"]

STEPS = 1
"""In how many steps heads go where nothing is said."""

Scoring = Callable[[Model, Sequence[Batch]], tuple[Mapping[HeadId, float], float]]
"""Gives the importance of every head of a model as it is, and the mean loss."""


@dataclass(frozen=True)
class Recipe:
    """How a model is cut on texts.

    Attributes:
        keep: the share of the budget that stays.
        unit: what is cut as one.
        budget: what keep is a share of.
        fold: "mean": the mean results of heads that are cut go into the bias; "zero": nothing is given back.
        refit: whether W_O is refitted, which folds the means too.
        steps: in how many steps.
        draws: how often the texts are taken once more with labels the model draws.
        seed: of the draws.
    """

    keep: float
    unit: Unit = "head"
    budget: Budget = "heads"
    fold: str = "mean"
    refit: bool = False
    steps: int = 1
    draws: int = 1
    seed: int = 0


def cut_on_texts(
    model: Model,
    texts: Texts,
    recipe: Recipe,
    *,
    scoring: Scoring | None = None,
    loss: LossFunction | None = None,
    progress: Progress | None = None,
) -> Path:
    """Cut a model in place, ranking its heads on texts.

    Args:
        model: from `load`; it is changed, whole step by whole step.
        texts: whatever `profile` takes.
        recipe: how.
        scoring: what ranks the heads; None = what they cost together (`jointly`).
        loss: a function of the model's output and inputs; None = of the next token.
        progress: called as progress(steps done, steps in all, how it stands).

    Raises:
        HeadwiseError: as the rankings, the budgets and the surgery do.
    """
    batches = list(batches_in(model, texts, None, None, "prune"))
    whole = _size(model, recipe.budget)

    def rank(model: Model, share: float) -> Ranked:
        order, mean = _ranked(model, batches, recipe, scoring, loss)
        left = 1 - share * (1 - recipe.keep)  # of the whole budget, after this step
        keep = min(1.0, left * whole / _size(model, recipe.budget))
        if recipe.budget == "time":
            keep = left / (1 - (share - 1 / recipe.steps) * (1 - recipe.keep))
        return Ranked(to_cut(model, order, keep, recipe.unit, recipe.budget), mean)

    def given_back(model: Model, heads: Sequence[HeadId]) -> Mapping[LayerId, NewOutput]:
        return new_outputs(model, heads, batches, fold=recipe.fold, refit=recipe.refit)

    def cut(model: Model, heads: Sequence[HeadId], outputs: Mapping[LayerId, NewOutput]) -> object:
        return cut_heads(model, list(heads), outputs, inplace=True)

    path = in_steps(model, recipe.steps, rank, given_back, cut, progress=progress)
    mark_path(model.module, path)
    return path


def new_outputs(
    model: Model,
    heads: Sequence[HeadId],
    batches: Sequence[Batch],
    *,
    fold: str = "mean",
    refit: bool = False,
) -> Mapping[LayerId, NewOutput]:
    """What is given back of heads that are cut.

    Args:
        model: before the cut.
        heads: that will be cut.
        batches: of the texts.
        fold: "mean" or "zero".
        refit: whether W_O is refitted, which gives back the means too.
    """
    if refit:
        return refitted(model, heads, batches)
    if fold == "mean":
        return folded(model, heads, mean_outputs(model, [batch.inputs for batch in batches]))
    return {}


def _ranked(
    model: Model,
    batches: Sequence[Batch],
    recipe: Recipe,
    scoring: Scoring | None,
    loss: LossFunction | None,
) -> tuple[Mapping[HeadId, float] | Order, float]:
    """Scores of heads, or the order in which units go; and the mean loss."""
    if scoring is not None:
        return scoring(model, batches)
    mean = recipe.refit or recipe.fold == "mean"
    means = mean_outputs(model, [batch.inputs for batch in batches]) if mean else None
    pairs = pairs_of(
        model, lambda: batches, means=means, loss=loss, draws=recipe.draws, seed=recipe.seed
    )
    return pairs.order, pairs.loss


def _size(model: Model, budget: Budget) -> float:
    """How much of a budget a model takes; of time, 1."""
    return 1.0 if budget == "time" else float(getattr(sizes_of(model), budget))
