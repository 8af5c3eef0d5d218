"""Profiles on disk: netCDF holds everything and is read back; CSV, Parquet and JSON are for other programs.

CSV and Parquet have one row per head and one column per statistic; statistics of further axes (positions,
cells of a map) are in netCDF and JSON. In JSON a number that is none is null.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from headwise.files import replacing
from headwise.names import ModelError, OutputError

__all__ = [
    "KINDS",
    "check_kind",
    "from_netcdf",
    "left_out",
    "load_profile",
    "plain",
    "save_profile",
    "to_netcdf",
]

_VERSION = 1
_MARK = "headwise_profile"
_AS_JSON = "as_json"
_HEAD = ("layer", "head")
_DIGITS = 7


def check_kind(path: Path) -> None:
    """Refuse a name whose ending says no kind of table.

    Raises:
        OutputError: it does not end in .nc, .csv, .parquet or .json.
    """
    if path.suffix.lower() not in _WRITERS:
        kinds = ", ".join(_WRITERS)
        raise OutputError(
            f"{str(path)!r} says no kind of table; its name must end in one of {kinds}"
        )


def save_profile(profile: xr.Dataset, path: str | Path) -> None:
    """Write a profile to a .nc, .csv, .parquet or .json file, so that a failure leaves an old file as it was.

    Raises:
        OutputError: the file cannot be written, or its name says no kind of table.
    """
    path = Path(path)
    check_kind(path)
    data = _WRITERS[path.suffix.lower()](profile)
    with replacing(path, "the profile") as place:
        place.write_bytes(data)


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


def to_netcdf(held: xr.Dataset, mark: str) -> bytes:
    """A Dataset with whatever attrs as netCDF that says by its mark what it is."""
    simple = {k: v for k, v in held.attrs.items() if isinstance(v, str | int | float)}
    simple = {name: value for name, value in simple.items() if not isinstance(value, bool)}
    encoded = {name: value for name, value in held.attrs.items() if name not in simple}
    attrs = simple | {name: json.dumps(plain(value)) for name, value in encoded.items()}
    attrs |= {_AS_JSON: json.dumps(list(encoded)), mark: _VERSION}
    marked = held.copy()
    marked.attrs = attrs
    packing = {
        name: {"zlib": True, "complevel": 4} for name, v in marked.data_vars.items() if v.ndim > 2
    }
    return bytes(marked.to_netcdf(engine="h5netcdf", encoding=packing))


def from_netcdf(path: str | Path, mark: str, what: str) -> xr.Dataset:
    """Read what `to_netcdf` gave.

    Raises:
        ModelError: the file is missing, or has another mark.
    """
    try:
        held = xr.load_dataset(path, engine="h5netcdf")
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or str(error).strip().partition("\n")[0]
        raise ModelError(f"{path} cannot be read as {what} in netCDF: {why}") from None
    if held.attrs.pop(mark, None) != _VERSION:
        raise ModelError(f"{path} is not {what} of this version of headwise; make it again")
    for name in json.loads(held.attrs.pop(_AS_JSON)):
        held.attrs[name] = json.loads(held.attrs[name])
    return held


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
    text: str = table(profile).to_csv(index=False, lineterminator="\n")
    return text.encode()


def _parquet(profile: xr.Dataset) -> bytes:
    frame = table(profile)
    frame.attrs = {str(name): plain(value) for name, value in profile.attrs.items()}
    into = io.BytesIO()
    frame.to_parquet(into, engine="pyarrow", index=False)
    return into.getvalue()


def _json(profile: xr.Dataset) -> bytes:
    """`heads`: a list of objects, each a head with all its statistics; `coords` names the further axes."""
    frame = table(profile)
    heads: list[dict[str, Any]] = [
        {"id": _id(row), **{str(name): plain(value) for name, value in row.items()}}
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
    text = json.dumps(found, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return (text.replace('{"id":', '\n{"id":') + "\n").encode("utf-8", "backslashreplace")


def _id(row: Mapping[Any, Any]) -> str:
    place = f"{row['layer']}.{row['head']}"
    return f"{row['stream']}.{place}" if row["stream"] else place


def plain(value: Any) -> Any:
    """What JSON can hold: lists for arrays, null for NaN and infinity, seven digits."""
    if isinstance(value, np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


_WRITERS: dict[str, Callable[[xr.Dataset], bytes]] = {
    ".nc": _netcdf,
    ".csv": _csv,
    ".parquet": _parquet,
    ".json": _json,
}

KINDS = tuple(_WRITERS)
"""The endings of names that say a kind of table."""
