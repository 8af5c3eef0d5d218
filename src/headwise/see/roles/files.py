"""Roles on disk: netCDF holds all and is read back; JSON, CSV and Markdown are for others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import pandas as pd

from headwise.names import HeadId
from headwise.see.roles.reasons import why_none
from headwise.see.roles.role import Role, Roles
from headwise.see.tables import from_netcdf, plain, save_as, to_csv, to_json, to_netcdf

__all__ = ["KINDS", "as_json", "as_markdown", "load_roles", "save_roles", "table"]

_MARK = "headwise_roles"
_BEST = 10
"""How many heads of each probe JSON lists."""


def save_roles(roles: Roles, path: str | Path) -> None:
    """Write roles to a .csv, .json, .md or .nc file, so that a failure leaves an old file as it was.

    Raises:
        OutputError: the file cannot be written, or its name says no kind of table.
    """
    save_as(roles, path, _WRITERS, "the table of roles")


def load_roles(path: str | Path) -> Roles:
    """Read roles that were written as netCDF (.nc).

    Raises:
        ModelError: the file is missing, or holds no roles.
    """
    found = from_netcdf(path, _MARK, "roles")
    for name in ("claimed", "tested"):
        found[name] = found[name].astype(bool)
    return Roles(found)


def table(roles: Roles) -> pd.DataFrame:
    """One row for each probe and head with a case: stream, layer and head, then the other fields of a Role."""
    names = [part.name for part in fields(Role) if part.name != "head"]
    rows = [{**_place(role.head), **_row(role), "head": role.head.head} for role in roles.pairs()]
    return pd.DataFrame(rows, columns=["stream", "layer", "head", *names])


def _place(head: HeadId) -> dict[str, Any]:
    return {"stream": head.stream, "layer": head.layer}


def as_json(roles: Roles) -> dict[str, Any]:
    """`about` (model, level, tried, rule, notes), `probes` (each with its best heads) and `heads` (their roles).

    A number that is none is null. `shown` is the role a picture gives the head.
    """
    probes = [
        {
            "probe": name,
            "stream": stream,
            "says": best[0].says if best else str(roles.evidence["says"].sel(probe=name).values),
            "by": str(roles.evidence["by"].sel(probe=name).values),
            "of": str(roles.evidence["level"].sel(probe=name).values),
            "best": [plain(_row(role)) for role in best],
        }
        for name, stream, best in _each(roles, _BEST)
    ]
    held: dict[str, list[dict[str, Any]]] = {}
    for role in roles.claimed:
        held.setdefault(str(role.head), []).append(plain(_row(role)))
    heads = []
    for id in roles.heads:
        shown = roles.main(id)
        heads.append(
            {
                "id": str(id),
                "shown": None if shown is None else shown.probe,
                "roles": held.get(str(id), []),
            }
        )
    about = {str(name): plain(value) for name, value in roles.evidence.attrs.items()}
    return {"about": about, "probes": probes, "heads": heads}


def as_markdown(roles: Roles) -> str:
    """A table like Clark et al.'s (2019, table 1): for each probe its best head, and what it was held against."""
    lines = [
        f"# Roles of the heads of {roles.model}",
        "",
        "| relation | head | score | is | baseline | 95 % interval | sure | cases | texts | a role |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for name, stream, best in _each(roles, 1):
        lines += [_line(role, why_none(roles, name, stream)) for role in best] or [
            f"| {_cell(name)} |  |  |  |  |  |  | 0 | 0 | no |"
        ]
    lines += ["", *_definitions(roles), ""]
    attrs = roles.evidence.attrs
    lines += [
        f"Pairs of probe and head tried: {roles.tried:,}, level {attrs['level']:g}; {attrs['rule']}. "
        f"{_said(attrs)}"
    ]
    return "\n".join([*lines, *(f"\n{note}." for note in roles.notes)]) + "\n"


def _each(roles: Roles, n: int) -> Iterator[tuple[str, str, list[Role]]]:
    """Each probe and stream with its best heads; a stream that a probe means nothing in is left out."""
    for name in roles.probes:
        found = [(stream, roles.best(name, n, stream)) for stream in roles.streams]
        told = [pair for pair in found if pair[1]] or found[:1]
        yield from ((name, stream, best) for stream, best in told)


def _line(role: Role, why: str) -> str:
    sure = "" if role.sure != role.sure else f"{role.sure:.3f}"
    interval = "too few texts" if role.low != role.low else f"{role.low:.3f} to {role.high:.3f}"
    kind = "attention" if role.by == "mass" else "accuracy"
    cells = (
        _cell(role.probe),
        str(role.head),
        f"{role.score:.3f}",
        kind,
        f"{role.baseline:.3f} ({role.baseline_is})",
        interval,
        sure,
        f"{role.cases:,}",
        f"{role.texts:,}",
        "yes" if role.claimed else f"no: {why}" if why else "no",
    )
    return "| " + " | ".join(cells) + " |"


def _said(attrs: Mapping[str, Any]) -> str:
    """How the halves and the column `sure` are to be read."""
    chosen, reported = attrs["halves"][0]
    return (
        f"Texts with a case: up to {chosen:,} in the choosing half, up to {reported:,} in the reporting half. "
        "`sure` is the low end of the interval widened for all that were tried."
    )


def _definitions(roles: Roles) -> list[str]:
    says = roles.evidence["says"].values.tolist()
    return [
        f"- {_cell(name)}: {_cell(str(s) or name)}"
        for name, s in zip(roles.probes, says, strict=True)
    ]


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def _row(role: Role) -> dict[str, Any]:
    return {part.name: getattr(role, part.name) for part in fields(role)} | {"head": str(role.head)}


def _csv(roles: Roles) -> bytes:
    return to_csv(table(roles))


def _json(roles: Roles) -> bytes:
    return to_json(as_json(roles), indent=1)


def _markdown(roles: Roles) -> bytes:
    return as_markdown(roles).encode("utf-8", "backslashreplace")


def _netcdf(roles: Roles) -> bytes:
    return to_netcdf(roles.evidence, _MARK)


_WRITERS: dict[str, Callable[[Roles], bytes]] = {
    ".csv": _csv,
    ".json": _json,
    ".md": _markdown,
    ".nc": _netcdf,
}

KINDS = tuple(_WRITERS)
"""The endings of names that say a kind of table."""
