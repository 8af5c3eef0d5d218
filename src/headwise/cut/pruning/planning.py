"""Which heads go: the least important units, until what is left fits the budget."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast, get_args

import xarray as xr

from headwise.cut.census import census
from headwise.cut.pruning.clocking import Clock
from headwise.cut.pruning.record import cut_of
from headwise.cut.pruning.sizes import Sizes, Sizing
from headwise.cut.pruning.units import Unit, check_unit, units_of
from headwise.hub.load import Model
from headwise.hub.report import say
from headwise.names import ConfigError, HeadError, HeadId

__all__ = ["Budget", "Order", "Scores", "check_keep", "scores_of", "to_cut"]

Budget = Literal["heads", "parameters", "cache", "time"]

Scores = xr.Dataset | xr.DataArray | Mapping[Any, float]
"""A table from `importance` (its variable of that name), one variable of [layer, head], or a number for each id."""

Order = Callable[[Sequence[tuple[HeadId, ...]], Sequence[float]], Sequence[int]]
"""order(units, what each saves): the places of units, those that go first at the front."""


def check_keep(keep: float | None, budget: str, unit: str) -> float:
    """Refuse a share, a budget or a unit that cannot be.

    Raises:
        ConfigError: with what to use instead.
    """
    check_unit(unit)
    if budget not in get_args(Budget):
        known = ", ".join(get_args(Budget))
        raise ConfigError(f"budget={budget!r} is not known; use one of {known}")
    if isinstance(keep, bool) or not isinstance(keep, int | float) or not 0 < keep <= 1:
        raise ConfigError(
            f"keep must be a share, 0 < keep <= 1, came {keep!r}; keep=0.8 cuts the least important fifth"
        )
    return float(keep)


def to_cut(
    model: Model,
    scores: Mapping[HeadId, float] | Order,
    keep: float,
    unit: Unit = "head",
    budget: Budget = "heads",
) -> tuple[HeadId, ...]:
    """The heads to cut, the least important first, so that at most a share of the budget stays.

    Units go by their scores' sum for what they save of the budget, ties in the order of the model.

    Args:
        model: from `load`.
        scores: of every head it has, more = more important; or what puts units in order.
        keep: the share of the budget that stays at most, 0 < keep <= 1.
        unit: what is cut as one.
        budget: heads; parameters of the whole model; cache, bytes of keys and values per token; time of a pass.

    Raises:
        ConfigError: a budget that cannot be met.
    """
    if keep == 1:
        return ()
    sizing = Sizing(model, budget == "parameters")
    saved = _saving(sizing, budget)
    units = units_of(model, unit)
    saves = {heads: saved(heads) for heads in units}
    useful = [heads for heads in units if saves[heads]]  # an encoder's heads cost no cache
    if not useful:
        raise ConfigError(_useless(model, budget, unit))
    costs = [saves[heads] for heads in useful]
    places = scores(useful, costs) if callable(scores) else _cheapest(useful, costs, scores)
    order = [useful[i] for i in places]
    if budget == "time":
        return Clock(model).until(order, keep)
    return _until(model, order, keep, budget, sizing)


def _cheapest(
    units: Sequence[tuple[HeadId, ...]], costs: Sequence[float], scores: Mapping[HeadId, float]
) -> list[int]:
    """The places of units by the sum of their scores for what they save."""
    worth = [
        sum(scores[id] for id in heads) / cost for heads, cost in zip(units, costs, strict=True)
    ]
    return sorted(range(len(units)), key=worth.__getitem__)


def _until(
    model: Model,
    order: list[tuple[HeadId, ...]],
    keep: float,
    budget: Budget,
    sizing: Sizing,
) -> tuple[HeadId, ...]:
    """Units in order, until what is left fits."""
    whole = getattr(sizing.without(()), budget)
    most = keep * whole * (1 + 1e-9)
    if budget == "heads" and most < 1:
        raise ConfigError(f"keep={keep} of the {whole} heads of {model.name} is less than one")
    gone: list[HeadId] = []
    for heads in order:
        if getattr(sizing.without(gone), budget) <= most:
            return tuple(gone)
        gone += heads
    left = getattr(sizing.without(gone), budget)
    if left > most:
        raise ConfigError(
            f"keep={keep} of the {budget} of {model.name} cannot be reached by cutting heads: without any head "
            f"that counts {left / whole:.3f} is left"
        )
    return tuple(gone)


def _saving(sizing: Sizing, budget: Budget) -> Callable[[tuple[HeadId, ...]], float]:
    """What cutting some heads saves of a budget; of time, what it saves of heads."""
    kind = "heads" if budget == "time" else budget
    whole: Sizes = sizing.without(())
    return lambda heads: float(getattr(whole, kind) - getattr(sizing.without(heads), kind))


def _useless(model: Model, budget: Budget, unit: Unit) -> str:
    if budget == "cache" and unit == "head":
        return (
            f"cutting a query head of {model.name} frees no cache while another reads its KV head; "
            'use unit="group" or unit="layer"'
        )
    return f"cutting heads of {model.name} saves none of its {budget}; use another budget"


def scores_of(model: Model, scores: Scores) -> dict[HeadId, float]:
    """A number for every head that the model has.

    Raises:
        ConfigError: scores of another form, of another model, or with no number for a head.
    """
    given = _by_id(scores)
    named = scores.attrs.get("model") if isinstance(scores, xr.Dataset) else None
    if named is not None and Path(str(named)).name != Path(model.name).name:
        say(f"prune: the scores are of {named}, and {model.name} is cut by them", quiet=False)
    heads = census(model).heads
    other = [id for id, value in given.items() if id not in set(heads) and not math.isnan(value)]
    if other and cut_of(model.module) is None:
        raise ConfigError(
            f"the scores speak of head {other[0]}, which {model.name} has not; they are of another model"
        )
    missing = [id for id in heads if math.isnan(given.get(id, math.nan))]
    if missing:
        some = ", ".join(map(str, missing[:4])) + (", ..." if len(missing) > 4 else "")
        raise ConfigError(
            f"the scores have no number (or NaN) for {len(missing)} of the {len(heads)} heads of {model.name}: "
            f"{some}; rank all of them"
        )
    return {id: given[id] for id in heads}


def _by_id(scores: Scores) -> dict[HeadId, float]:
    if isinstance(scores, xr.Dataset):
        if "importance" not in scores:
            raise ConfigError(
                f"scores must hold the variable importance, came {', '.join(map(str, scores.data_vars))}; "
                "give one of its variables, as table.entropy"
            )
        scores = scores["importance"]
    if isinstance(scores, xr.DataArray):
        if set(scores.dims) != {"layer", "head"}:
            raise ConfigError(
                f"scores must be [layer, head], came [{', '.join(map(str, scores.dims))}]"
            )
        table = scores.transpose("layer", "head")
        return {
            HeadId.parse(f"{layer}.{head}"): float(value)
            for layer, row in zip(table["layer"].values, table.values, strict=True)
            for head, value in zip(table["head"].values, row, strict=True)
        }
    if not isinstance(scores, Mapping):
        raise ConfigError(f"scores must be a table of importance, came {type(scores).__name__}")
    try:
        return {HeadId.parse(id): float(scores[id]) for id in cast(Iterable[Any], scores)}
    except HeadError as error:
        raise ConfigError(f"scores must be by head: {error}") from None
