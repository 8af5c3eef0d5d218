"""How much of the budget stays where --keep was asked for, and why that is less."""

from __future__ import annotations

from collections.abc import Sequence

from headwise.cli.prune.command import PruneRequest
from headwise.cut.pruning.clocking import Clock
from headwise.cut.pruning.sizes import Sizing
from headwise.cut.pruning.units import units_of
from headwise.hub.load import Model
from headwise.names import HeadId
from headwise.show.terminal_cut import Size

__all__ = ["reached_words", "time_size"]

_FAR = 0.03
"""By so much of the budget less than was asked for, it is said why."""

_WHOLE = {"head": "query heads", "group": "KV heads with their query heads", "layer": "layers"}
_BUDGETS = {"heads": "heads", "parameters": "parameters", "cache": "cache"}


def time_size(request: PruneRequest, model: Model, made: Model) -> list[Size]:
    """The seconds of a pass before and after, where --budget is time; measured in turns, anew after the cut."""
    if request.settings.get("budget") != "time":
        return []
    return [Size("time of a pass", *Clock(model).beside(made), of="seconds")]


def reached_words(
    request: PruneRequest, model: Model, cut: Sequence[HeadId], sizes: Sequence[Size]
) -> str:
    """A sentence of what stays of the budget and why it is not the share asked for; "" where it is, about."""
    if request.keep is None or not cut:
        return ""
    budget = request.settings.get("budget", "heads")
    if budget == "time":
        (time,) = [size for size in sizes if size.of == "seconds"]
        return _of_time(time.after / time.before, request.keep, request.unit)
    sizing = Sizing(model, budget == "parameters")
    whole = getattr(sizing.without(()), budget)
    stays = getattr(sizing.without(cut), budget) / whole
    if request.keep - stays <= _FAR:
        return ""
    more = _next(model, cut, request.unit, sizing, budget) / whole
    return (
        f"at most {request.keep:.0%} of the {_BUDGETS[budget]} were to stay, and {stays:.0%} do: "
        f"{_WHOLE[request.unit]} go whole, and one fewer would leave {more:.0%}"
    )


def _next(model: Model, cut: Sequence[HeadId], unit: str, sizing: Sizing, budget: str) -> float:
    """The least of the budget that stays where one of the units cut is left."""
    gone = set(cut)
    units = [set(heads) for heads in units_of(model, unit) if gone.issuperset(heads)]  # type: ignore[arg-type]
    left = [getattr(sizing.without(gone - heads), budget) for heads in units]
    now = getattr(sizing.without(gone), budget)
    return float(min((one for one in left if one > now), default=now))


def _of_time(ratio: float, keep: float, unit: str) -> str:
    told = f"a pass takes {ratio:.2f} x the time that it took, measured in turns"
    if keep - ratio > _FAR:
        return f"{told}; {keep:.2f} x was asked for: {_WHOLE[unit]} go whole, and times vary between runs"
    if ratio - keep > _FAR:
        return (
            f"{told}; {keep:.2f} x was asked for, which it took when the heads were chosen: times vary between "
            "runs, and headwise time tells them with an interval"
        )
    return told
