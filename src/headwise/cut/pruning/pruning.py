"""prune: heads cut for good, named or by their scores."""

from __future__ import annotations

import copy
from dataclasses import replace

from headwise.cut.census import census
from headwise.cut.pruning.planning import Budget, Scores, check_keep, scores_of, to_cut
from headwise.cut.pruning.surgery import cut_heads, refuse_uncuttable
from headwise.cut.pruning.units import Unit, check_unit, check_whole
from headwise.cut.selecting import Heads, selected
from headwise.hub.load import Model
from headwise.names import ConfigError, HeadId
from headwise.see.texts.refusing import check_model

__all__ = ["prune"]


def prune(
    model: Model,
    heads: Heads | None = None,
    *,
    scores: Scores | None = None,
    keep: float | None = None,
    unit: Unit = "head",
    budget: Budget = "heads",
    inplace: bool = False,
) -> Model:
    """Cut heads out of a model for good: smaller matrices in q, k, v, o and their biases.

        smaller = hw.prune(model, "18.6, 17.*")
        smaller = hw.prune(model, scores=hw.importance(model, texts), keep=0.8)

    The model gives what it gives with these heads at 0 (`ablate`), which is proved each time on a short input to
    1e-5 of its largest output; a model that cannot be cut so is refused, and left as it was. A KV head goes with
    the last query head that reads it; a layer without heads adds its bias alone. Positions, head_dim and the scale
    of the scores stay; heads keep the ids they had.

    Args:
        model: from `load`.
        heads: the ones to cut, as `ablate` takes them; also every head of a layer, or of the model.
        scores: instead, the importance of every head, of which the least goes first.
        keep: with scores, the share of the budget that stays at most, 0 < keep <= 1.
        unit: what is cut as one: "head", a query head; "group", a KV head with all query heads that read it;
            "layer". Heads that are named must be whole units.
        budget: what keep is a share of: "heads"; "parameters" of the whole model; "cache", the bytes of keys and
            values per token; "time" of a pass, measured.
        inplace: change the model given; else a copy is cut.

    Raises:
        HeadError: a head that is not there, or a unit that is named in part.
        ConfigError: a share, a unit, a budget or scores that cannot be.
        ModelError: a model that cannot be cut; it is as it was.
    """
    check_model(model, "prune")
    check_unit(unit)
    if (heads is None) == (scores is None):
        raise ConfigError("prune takes heads, or scores and keep; give one of both")
    refuse_uncuttable(model)
    gone = _named(model, heads, keep, unit) if heads is not None else ()
    if scores is not None:
        share = check_keep(keep, budget, unit)
        gone = to_cut(model, scores_of(model, scores), share, unit, budget)
    if not gone:  # all of the budget stays
        return model if inplace else replace(model, module=copy.deepcopy(model.module))
    return cut_heads(model, list(gone), inplace=inplace)


def _named(model: Model, heads: Heads, keep: float | None, unit: Unit) -> tuple[HeadId, ...]:
    """The heads that are named, whole units.

    Raises:
        ConfigError: a share beside.
        HeadError: a unit in part, or a head that is not there.
    """
    if keep is not None:
        raise ConfigError("keep goes with scores; of heads that are named all are cut")
    gone = selected(census(model), heads)
    check_whole(model, gone, unit)
    return gone
