"""What profiles, roles and importances add to a page: colourings of the grid, and evidence of each head."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headwise.names import ConfigError, HeadId, ModelError
from headwise.see.record import Record
from headwise.see.roles.role import Role, Roles
from headwise.show.grid import grid_of_roles
from headwise.show.page.cases import cases_of, has_rule
from headwise.show.page.colouring import kinds_told, number, numbers

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["Table", "load_table", "model_of", "told_table"]

Table = Any
"""A profile or an importance (xarray Datasets over layer and head), or Roles."""

_ENDS = ("_low", "_high", "_count", "_error", "_first", "_second")
"""What stands beside a number of a table, and is no colouring of its own."""

_BESIDE = ("standard_error", "rows")


def load_table(path: str | Path) -> Table:
    """Read a profile, roles or an importance that headwise saved as netCDF, whichever it is.

    Raises:
        ModelError: the file is missing, or none of these.
    """
    from headwise.cut.ranking.files import load_importance
    from headwise.see.profile.files import load_profile
    from headwise.see.roles.files import load_roles

    loaders: list[Callable[[Path], Table]] = [load_profile, load_roles, load_importance]
    for load in loaders:
        try:
            return load(Path(path))
        except ModelError as error:
            if "is not" not in str(error):
                line = str(error).replace("as a profile", "as a profile, roles or an importance")
                raise ModelError(line) from None
    raise ModelError(
        f"{path} is no profile, no roles and no importance of this version of headwise; save one as .nc first"
    )


def model_of(table: Table) -> str:
    """The model that a table is of.

    Raises:
        ConfigError: it is no table of heads.
    """
    if isinstance(table, Roles):
        return table.model
    if not {"layer", "head"} <= set(getattr(table, "dims", ())) or "model" not in table.attrs:
        raise ConfigError(
            f"tables takes profiles, roles and importances, came {type(table).__name__}; "
            "make one with hw.profile, hw.roles or hw.importance"
        )
    return str(table.attrs["model"])


def told_table(
    table: Table, record: Record
) -> tuple[list[dict[str, Any]], dict[str, list[dict[str, Any]]]]:
    """Colourings of the grid, and of each head what the viewer shows as evidence, with cases of the record."""
    if isinstance(table, Roles):
        return [_of_roles(table)], _claims(table, record)
    importance = "importance" in table.data_vars
    kind = "importance" if importance else "profile"
    columns = list(_columns(table))
    colourings = []
    for name in columns:
        about = table[name].attrs
        unit = str(about.get("units", "1"))
        values = dict(_values(table, table[name].values))
        share = unit == "1" and not importance and _within_1(table[name].values)
        title = _words(name) if importance else f"{_words(name)} (profile)"
        of = f"{kind}.{name}" if not importance else name
        says = str(about.get("long_name", name))
        one = numbers(of, title, says, "" if unit == "1" else unit, values, share=share)
        one |= {"group": kind, "short": _words(name)}
        if one["values"]:
            colourings.append(one)
    return colourings, _measured(table, columns, kind)


def _columns(table: xr.Dataset) -> Iterator[str]:
    for name, variable in table.data_vars.items():
        plain = variable.dims == ("layer", "head") and str(name) not in _BESIDE
        if plain and not str(name).endswith(_ENDS):
            yield str(name)


def _values(table: xr.Dataset, values: np.ndarray) -> Iterator[tuple[str, float]]:
    for i, layer in enumerate(table["layer"].values):
        for j, head in enumerate(table["head"].values):
            if math.isfinite(values[i, j]):
                yield f"{layer}.{head}", float(values[i, j])


def _within_1(values: np.ndarray) -> bool:
    seen = values[np.isfinite(values)]
    return bool(seen.size) and bool(seen.min() >= 0 and seen.max() <= 1)


def _measured(table: xr.Dataset, columns: list[str], kind: str) -> dict[str, list[dict[str, Any]]]:
    """One block of lines for each head: every number with its interval or standard error."""
    lines: dict[str, list[str]] = {}
    sure: dict[str, dict[str, str]] = {}
    for name in columns:
        low, high = (_beside(table, f"{name}{end}") for end in ("_low", "_high"))
        error = _beside(table, "standard_error") if kind == "importance" else {}
        unit = str(table[name].attrs.get("units", "1"))
        for head, x in _values(table, table[name].values):
            line = f"{_words(name)} {x:.3g}" + ("" if unit == "1" else f" {unit}")
            beside = f"{low[head]:.3g} to {high[head]:.3g}" if head in low and head in high else ""
            if head in error:
                beside += f"{', ' if beside else ''}± {error[head]:.2g}"
            of = name if kind == "importance" else f"{kind}.{name}"
            if beside:
                sure.setdefault(head, {})[of] = beside
            lines.setdefault(head, []).append(f"{line} ({beside})" if beside else line)
    told = {"title": _title(table, kind), "cases": [], "group": kind}
    return {
        head: [{**told, "lines": held, "sure": sure.get(head, {})}] for head, held in lines.items()
    }


def _beside(table: xr.Dataset, name: str) -> dict[str, float]:
    return dict(_values(table, table[name].values)) if name in table.data_vars else {}


def _title(table: xr.Dataset, kind: str) -> str:
    texts = table.attrs.get("texts")
    over = "" if texts is None else f" over {int(texts):,} text{'' if int(texts) == 1 else 's'}"
    if kind == "importance":
        by = table.attrs.get("method", "an unknown method")
        return f"Importance by {by}{over}; beside it standard errors"
    return f"Profile{over}; beside it 95 % intervals"


def _of_roles(roles: Roles) -> dict[str, Any]:
    grid = grid_of_roles(roles)
    names = [kind.does for kind in grid.kinds]
    cells = {
        str(cell.id): [names.index(cell.kind.does), *_told_role(roles, cell.id)]
        for cell in grid.cells
    }
    return {
        "name": "role",
        "group": "roles",
        "title": "Role over a corpus",
        "says": "the role that is most above its baseline, with its score; paler: a lower score",
        "kinds": kinds_told(grid.kinds),
        "values": cells,
    }


def _told_role(roles: Roles, head: HeadId) -> tuple[Any, ...]:
    """The score of the role that a head is coloured by; of one without a role what it is best at, in words."""
    main = roles.main(head)
    if main is not None:
        return (number(main.score),)
    best = next(iter(roles.of(head)), None)
    return (0.0,) if best is None else (0.0, f"no role: best {_below(best)}")


def _below(role: Role) -> str:
    return f"{_words(role.probe)} {role.score:.3f}, below its bar"


def _claims(roles: Roles, record: Record) -> dict[str, list[dict[str, Any]]]:
    own = set(record.heads())
    claimed = [role for role in roles.claimed if role.head in own]
    pairs = [(role.head, role.probe) for role in claimed if has_rule(role.probe)]
    cases = cases_of(record, pairs)
    found: dict[HeadId, list[dict[str, Any]]] = {}
    for role in claimed:
        here = cases.get((role.head, role.probe))
        block = {"lines": [*_lines(role), _said_of(here)], "cases": here or []}
        title = f"Role: {_words(role.probe)}"
        found.setdefault(role.head, []).append({"title": title, "group": "roles", **block})
    for head in (head for head in roles.heads if head in own and head not in found):
        for best in roles.of(head)[:1]:
            lines = [f"best: {_below(best)}", *_lines(best)[1:]]
            found[head] = [{"title": "No role", "group": "roles", "lines": lines, "cases": []}]
    return {str(head): claims for head, claims in found.items()}


def _said_of(cases: list[Any] | None) -> str:
    """What stands above the cases in the text shown, or why there is none."""
    if cases is None:
        return "no cases here: its rule comes from annotations, which this text does not have"
    return "strongest in this text:" if cases else "this text has no case of it"


def _lines(role: Role) -> list[str]:
    kind = "mean attention to the keys named" if role.by == "mass" else "share of hits"
    interval = ""
    if math.isfinite(role.low):
        interval = f", 95 % interval {role.low:.3f} to {role.high:.3f}"
    return [
        role.says or _words(role.probe),
        f"score {role.score:.3f}: {kind}{interval}",
        f"baseline {role.baseline:.3f} ({role.baseline_is})",
        f"{role.cases:,} cases in {role.texts:,} texts",
    ]


def _words(name: str) -> str:
    return name.replace("_", " ")
