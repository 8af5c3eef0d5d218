"""prune: heads cut for good, named, by their scores, or ranked on texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

from headwise.cut.census import census
from headwise.cut.losses import LossFunction
from headwise.cut.pruning.outputs import NewOutput
from headwise.cut.pruning.planning import Budget, Scores, check_keep, scores_of, to_cut
from headwise.cut.pruning.recipe import STEPS, Recipe, Scoring, cut_on_texts, new_outputs
from headwise.cut.pruning.surgery import cut_heads, refuse_uncuttable
from headwise.cut.pruning.units import Unit, check_unit, check_whole
from headwise.cut.ranking.methods import MethodName
from headwise.cut.selecting import Heads, selected
from headwise.cut.telling import Progress, lines
from headwise.hub.load import Model
from headwise.hub.report import say
from headwise.names import ConfigError, HeadId, LayerId, TextError
from headwise.see.texts.batches import Batch
from headwise.see.texts.given import Texts, batches_in
from headwise.see.texts.refusing import check_model

__all__ = ["Fold", "Ranking", "prune"]

Fold = Literal["mean", "zero"]

Ranking = Literal["joint"] | MethodName
"""What ranks heads on texts: what they cost together, or a method of `importance`."""


def prune(
    model: Model,
    heads: Heads | None = None,
    *,
    scores: Scores | None = None,
    keep: float | None = None,
    unit: Unit = "head",
    budget: Budget = "heads",
    texts: Texts | None = None,
    fold: Fold | None = None,
    refit: bool = False,
    method: Ranking | None = None,
    steps: int | None = None,
    loss: LossFunction | None = None,
    seed: int = 0,
    inplace: bool = False,
    quiet: bool = False,
    progress: Progress | None = None,
) -> Model:
    """Cut heads out of a model for good: smaller matrices in q, k, v, o and their biases.

        smaller = hw.prune(model, "18.6, 17.*")
        smaller = hw.prune(model, scores=hw.importance(model, texts), keep=0.8)
        smaller = hw.prune(model, texts=texts, keep=0.5, refit=True)

    Named heads and heads by scores are cut as they are: the model gives what it gives with these heads at 0
    (`ablate`), which is proved each time on a short input to 1e-5 of its largest output; a model that cannot be cut
    so is refused, and left as it was. With texts, something is given back of them: their mean results go into the
    bias of W_O, or W_O is refitted. A KV head goes with the last query head that reads it; a layer without heads
    adds its bias alone. Positions, head_dim and the scale of the scores stay; heads keep the ids they had.

    Given texts and keep alone, heads are ranked by what they cost together: of what was tried on SmolLM2 this lost
    least (benchmarks/cutting.py). With steps, what is left is ranked again after each; Ctrl-C ends the cut after
    the last whole step. `path_of` tells how a model was cut.

    Args:
        model: from `load`.
        heads: the ones to cut, as `ablate` takes them; also every head of a layer, or of the model.
        scores: instead, the importance of every head, of which the least goes first.
        keep: with scores or texts, the share of the budget that stays at most, 0 < keep <= 1.
        unit: what is cut as one: "head", a query head; "group", a KV head with all query heads that read it;
            "layer". Heads that are named must be whole units.
        budget: what keep is a share of: "heads"; "parameters" of the whole model; "cache", the bytes of keys and
            values per token; "time" of a pass, measured.
        texts: whatever `profile` takes: to rank on, where neither heads nor scores are given, and to give back on.
        fold: "mean": the mean results over the texts of heads that are cut are folded into the bias of W_O (one is
            added where there is none); "zero": nothing is. None = "mean" where there are texts.
        refit: refit W_O on the texts by ridge regression, so that the heads that stay give back what they can tell
            of those that are cut; folds the means too.
        method: what ranks on texts: "joint", what heads cost together; or a method of `importance`. None = "joint".
        steps: rank, cut some, rank again, so many times. None = 1.
        loss: a function of the model's output and inputs that ranks; None = of the next token.
        seed: of the labels that "joint" draws from the model.
        inplace: change the model given; else a copy is cut.
        quiet: no progress on stderr.
        progress: called as progress(steps done, steps in all, how it stands), in place of lines on stderr.

    Raises:
        HeadError: a head that is not there, or a unit that is named in part.
        ConfigError: a share, a unit, a budget, a method or scores that cannot be.
        TextError: no texts where some are needed, or one that cannot be read.
        ModelError: a model that cannot be cut; it is as it was.
    """
    check_model(model, "prune")
    check_unit(unit)
    _check_given(heads, scores, texts, method, steps)
    _check_fold(fold, refit, texts)
    refuse_uncuttable(model)
    given_back: Fold = fold or ("mean" if texts is not None else "zero")
    if heads is None and scores is None:
        assert texts is not None
        share = check_keep(keep, budget, unit)
        scoring = None if method is None or method == "joint" else _by(method, loss)
        count = STEPS if steps is None else steps
        recipe = Recipe(share, unit, budget, given_back, refit, count, seed=seed)
        target = model if inplace else model.copied()
        shown = progress or lines("prune", quiet=quiet)
        path = cut_on_texts(target, texts, recipe, scoring=scoring, loss=loss, progress=shown)
        if path.stopped:
            say(f"prune: stopped after step {len(path.steps)} of {path.planned}", quiet=quiet)
        return target
    gone = _named(model, heads, keep, unit) if heads is not None else ()
    if scores is not None:
        share = check_keep(keep, budget, unit)
        gone = to_cut(model, scores_of(model, scores), share, unit, budget)
    if not gone:  # all of the budget stays
        return model if inplace else model.copied()
    outputs: Mapping[LayerId, NewOutput] = {}
    if texts is not None:
        batches = list(batches_in(model, texts, None, None, "prune"))
        outputs = new_outputs(model, gone, batches, fold=given_back, refit=refit)
    return cut_heads(model, list(gone), outputs, inplace=inplace)


def _by(method: MethodName, loss: LossFunction | None) -> Scoring:
    """Scores by a method of `importance`, taken anew of what is left."""
    from headwise.cut.ranking.importance import importance

    def scoring(model: Model, batches: Sequence[Batch]) -> tuple[Mapping[HeadId, float], float]:
        texts = [batch.inputs for batch in batches]
        table = importance(model, texts, method, loss=loss, quiet=True)
        return scores_of(model, table), float(table.attrs.get("mean_loss", float("nan")))

    return scoring


def _check_given(
    heads: Heads | None,
    scores: Scores | None,
    texts: Texts | None,
    method: str | None,
    steps: int | None,
) -> None:
    """Refuse what does not go together.

    Raises:
        ConfigError: with what to give.
    """
    if heads is not None and scores is not None:
        raise ConfigError(
            "prune takes heads, or scores and keep, or texts and keep; give one of them"
        )
    if heads is None and scores is None:
        if texts is None:
            raise ConfigError(
                "prune takes heads, or scores and keep, or texts and keep; give one of them"
            )
        if steps is not None and steps < 1:
            raise ConfigError(f"steps must be at least 1, came {steps!r}")
        return
    for name, value in (("method", method), ("steps", steps if steps != 1 else None)):
        if value is not None:
            raise ConfigError(
                f"{name}={value!r} ranks on texts, but the heads to cut are given; leave out one of both"
            )


def _check_fold(fold: str | None, refit: bool, texts: Texts | None) -> None:
    """Refuse what cannot be given back.

    Raises:
        ConfigError: another fold.
        TextError: no texts.
    """
    if fold not in (None, "mean", "zero"):
        raise ConfigError(f'fold={fold!r} is not known; use "mean" or "zero"')
    if texts is None and (fold == "mean" or refit):
        what = "refit=True" if refit else 'fold="mean"'
        raise TextError(f"{what} needs texts; give texts=")


def _named(model: Model, heads: Heads, keep: float | None, unit: Unit) -> tuple[HeadId, ...]:
    """The heads that are named, whole units.

    Raises:
        ConfigError: a share beside.
        HeadError: a unit in part, or a head that is not there.
    """
    if keep is not None:
        raise ConfigError("keep goes with scores or texts; of heads that are named all are cut")
    gone = selected(census(model), heads)
    check_whole(model, gone, unit)
    return gone
