"""What is cut as one: a query head, a KV head with all query heads that read it, or a layer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, get_args

from headwise.cut.census import Run, census
from headwise.hub.load import Model
from headwise.names import ConfigError, HeadError, HeadId

__all__ = ["Unit", "check_unit", "check_whole", "units_of"]

Unit = Literal["head", "group", "layer"]


def check_unit(unit: str) -> None:
    """Refuse a unit that is not known.

    Raises:
        ConfigError: it is none of the three.
    """
    if unit not in get_args(Unit):
        raise ConfigError(f"unit={unit!r} is not known; use one of {', '.join(get_args(Unit))}")


def units_of(model: Model, unit: Unit) -> list[tuple[HeadId, ...]]:
    """The heads of each unit, in the order of the model; those of a module that runs several times in all runs.

    Args:
        model: from `load`.
        unit: "head": one query head; "group": a KV head with the query heads that read it; "layer": all of a layer.
    """
    found: list[tuple[HeadId, ...]] = []
    census_of = census(model)
    for layer in model.anatomy.layers:
        runs = census_of.of(layer.module)
        for heads in _units(runs[0], unit) if runs else ():
            found.append(tuple(run.id.head(head) for run in runs for head in heads))
    places = {id: place for place, id in enumerate(census_of.heads)}
    return sorted(found, key=lambda heads: places[heads[0]])


def check_whole(model: Model, heads: tuple[HeadId, ...], unit: Unit) -> None:
    """Refuse heads that are not whole units.

    Raises:
        HeadError: a unit that is named in part, with the heads that are not.
    """
    named = set(heads)
    for own in units_of(model, unit):
        missing = [id for id in own if id not in named]
        if missing and len(missing) < len(own):
            some = ", ".join(map(str, missing[:4])) + (", ..." if len(missing) > 4 else "")
            wanted = {"group": "KV groups", "layer": "layers"}
            if unit == "head":
                raise HeadError(
                    f"the layers {own[0].layer_id} to {own[-1].layer_id} are one module that runs {len(own)} "
                    f"times, so a head can only be cut in all of them; name it as *.{own[0].head}"
                )
            raise HeadError(
                f"only whole {wanted[unit]} are cut here, and of {own[0]} to {own[-1]} are missing: {some}; "
                'name these too, or use unit="head"'
            )


def _units(run: Run, unit: Unit) -> Iterator[tuple[int, ...]]:
    if unit == "layer":
        yield run.heads
    elif unit == "head":
        yield from ((head,) for head in run.heads)
    else:
        place = 0
        for number in run.groups:
            yield run.heads[place : place + number]
            place += number
