"""What profiles, roles and neurons share on disk: a kind for each ending, netCDF with a mark, and plain JSON.

In JSON a number that is none is null, and text of a path that is no UTF-8 is JSON's own escape.
"""

from __future__ import annotations

import io
import json
import math
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import xarray as xr

from headwise.files import check_ending, replacing
from headwise.names import ModelError

__all__ = ["from_netcdf", "plain", "save_as", "to_csv", "to_json", "to_netcdf", "to_parquet"]

T = TypeVar("T")

_VERSION = 1
_AS_JSON = "as_json"
_DIGITS = 7
_PACKED = 4
"""How hard netCDF is compressed."""


def save_as(
    held: T, path: str | Path, writers: Mapping[str, Callable[[T], bytes]], what: str
) -> None:
    """Write what the ending of the path says, so that a failure leaves an old file as it was.

    Args:
        held: what to write.
        path: where.
        writers: by ending, what makes the bytes of the file.
        what: the result, as the errors call it: `the profile`.

    Raises:
        OutputError: the file cannot be written, or its name has none of the endings.
    """
    path = Path(path)
    check_ending(path, writers)
    data = writers[path.suffix.lower()](held)
    with replacing(path, what) as place:
        place.write_bytes(data)


def to_netcdf(held: xr.Dataset, mark: str, packed: int = _PACKED) -> bytes:
    """A Dataset with whatever attrs as netCDF that says by its mark what it is."""
    simple = {k: v for k, v in held.attrs.items() if isinstance(v, str | int | float)}
    simple = {name: value for name, value in simple.items() if not isinstance(value, bool)}
    encoded = {name: value for name, value in held.attrs.items() if name not in simple}
    attrs = simple | {name: json.dumps(plain(value)) for name, value in encoded.items()}
    attrs |= {_AS_JSON: json.dumps(list(encoded)), mark: _VERSION}
    marked = held.copy()
    marked.attrs = attrs
    packing = {
        name: {"zlib": True, "complevel": packed}
        for name, v in marked.data_vars.items()
        if v.ndim > 2
    }
    return bytes(marked.to_netcdf(engine="h5netcdf", encoding=packing))


def from_netcdf(path: str | Path, mark: str, what: str) -> xr.Dataset:
    """Read what `to_netcdf` gave.

    Raises:
        ModelError: the file is missing, or has another mark.
    """
    try:
        with open(path, "rb"):  # says plainly why where it cannot
            pass
        held = xr.load_dataset(path, engine="h5netcdf")
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        why = getattr(error, "strerror", None) or "it is no netCDF file, or a part of one"
        raise ModelError(f"{path} cannot be read as {what} in netCDF: {why}") from None
    if held.attrs.pop(mark, None) != _VERSION:
        raise ModelError(f"{path} is not {what} of this version of headwise; make it again")
    for name in json.loads(held.attrs.pop(_AS_JSON)):
        held.attrs[name] = json.loads(held.attrs[name])
    return held


def to_csv(frame: pd.DataFrame) -> bytes:
    """A table as CSV, the same on every system."""
    text: str = frame.to_csv(index=False, lineterminator="\n")
    return text.encode()


def to_parquet(frame: pd.DataFrame, attrs: Mapping[Hashable, Any]) -> bytes:
    """A table as Parquet, with what there is to say of it."""
    frame.attrs = {str(name): plain(value) for name, value in attrs.items()}
    into = io.BytesIO()
    frame.to_parquet(into, engine="pyarrow", index=False)
    return into.getvalue()


def to_json(held: Mapping[str, Any], indent: int | None = None) -> bytes:
    """Plain values as JSON; without an indent on one line, but for each thing with an id on its own."""
    separators = (",", ":") if indent is None else None
    text = json.dumps(
        held, ensure_ascii=False, allow_nan=False, indent=indent, separators=separators
    )
    if indent is None:
        text = text.replace('{"id":', '\n{"id":')
    return (text + "\n").encode("utf-8", "backslashreplace")


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
