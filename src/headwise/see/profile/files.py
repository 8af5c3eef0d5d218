"""Profiles on disk: netCDF holds everything and is read back; CSV, Parquet and JSON are for other programs.

CSV and Parquet have one row per head and one column per statistic; statistics of further axes (positions,
cells of a map) are in netCDF and JSON. In JSON a number that is none is null.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

from headwise.see.tables import from_netcdf, plain, save_as, to_csv, to_json, to_netcdf, to_parquet

__all__ = ["KINDS", "left_out", "load_profile", "save_profile", "table"]

_MARK = "headwise_profile"
_HEAD = ("layer", "head")


def save_profile(profile: xr.Dataset, path: str | Path, what: str = "the profile") -> None:
    """Write a profile to a .nc, .csv, .parquet or .json file, so that a failure leaves an old file as it was.

    Raises:
        OutputError: the file cannot be written, or its name says no kind of table.
    """
    save_as(profile, path, _WRITERS, what)


def left_out(profile: xr.Dataset, path: Path) -> list[str]:
    """The variables that this kind of file has no place for."""
    if path.suffix.lower() not in (".csv", ".parquet"):
        return []
    return [str(name) for name, variable in profile.data_vars.items() if variable.dims != _HEAD]


def load_profile(path: str | Path) -> xr.Dataset:
    """Read a profile that was written as netCDF (.nc), all of it.

    Raises:
        ModelError: the file is missing or no profile.
    """
    return from_netcdf(path, _MARK, "a profile")


def table(profile: xr.Dataset) -> pd.DataFrame:
    """One row per head: stream, layer, head, and every statistic with one number per head."""
    held = {**profile.coords, **profile.data_vars}
    kept = [str(name) for name, variable in held.items() if variable.dims == _HEAD]
    columns: dict[str, Any] = {name: [] for name in ("stream", "layer", "head")}
    for layer in profile["layer"].values.tolist():
        stream, _, number = str(layer).rpartition(".")
        for head in profile["head"].values.tolist():
            for name, value in zip(columns, (stream, int(number), int(head)), strict=True):
                columns[name].append(value)
    columns |= {name: profile[name].values.reshape(-1) for name in kept}
    return pd.DataFrame(columns)


def _netcdf(profile: xr.Dataset) -> bytes:
    return to_netcdf(profile, _MARK)


def _csv(profile: xr.Dataset) -> bytes:
    return to_csv(table(profile))


def _parquet(profile: xr.Dataset) -> bytes:
    return to_parquet(table(profile), profile.attrs)


def _json(profile: xr.Dataset) -> bytes:
    """`heads`: a list of objects, each a head with all its statistics; `coords` names the further axes."""
    frame = table(profile)
    heads: list[dict[str, Any]] = [
        {"id": id_of(row), **{str(name): plain(value) for name, value in row.items()}}
        for row in frame.to_dict("records")
    ]
    others: dict[str, Any] = {}
    for name, variable in profile.data_vars.items():
        if variable.dims[:2] != _HEAD:
            others[str(name)] = {"dims": list(variable.dims), "values": plain(variable.values)}
        elif variable.ndim > 2:
            values = variable.values.reshape(len(heads), *variable.shape[2:])
            for head, value in zip(heads, values, strict=True):
                head[str(name)] = plain(value)
    coords = {n: c for n, c in profile.coords.items() if n not in _HEAD and c.dims != _HEAD}
    found = {
        "about": {str(name): plain(value) for name, value in profile.attrs.items()},
        "coords": {str(name): plain(value.values) for name, value in coords.items()},
        "heads": heads,
    }
    if others:
        found["others"] = others
    return to_json(found)


def id_of(row: Mapping[Any, Any]) -> str:
    """The id of the head that a row of `table` is of."""
    place = f"{row['layer']}.{row['head']}"
    return f"{row['stream']}.{place}" if row["stream"] else place


_WRITERS: dict[str, Callable[[xr.Dataset], bytes]] = {
    ".nc": _netcdf,
    ".csv": _csv,
    ".parquet": _parquet,
    ".json": _json,
}

KINDS = tuple(_WRITERS)
"""The endings of names that say a kind of table."""
