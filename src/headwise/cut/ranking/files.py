"""Importances on disk: netCDF holds everything and is read back; CSV, Parquet and JSON are for other programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import xarray as xr

from headwise.see.profile.files import id_of, table
from headwise.see.tables import from_netcdf, plain, save_as, to_csv, to_json, to_netcdf, to_parquet

__all__ = ["KINDS", "load_importance", "save_importance"]

_MARK = "headwise_importance"


def save_importance(importance: xr.Dataset, path: str | Path) -> None:
    """Write an importance to a .nc, .csv, .parquet or .json file, so that a failure leaves an old file as it was.

    Raises:
        OutputError: the file cannot be written, or its name says no kind of table.
    """
    save_as(importance, path, _WRITERS, "the importance")


def load_importance(path: str | Path) -> xr.Dataset:
    """Read an importance that was written as netCDF (.nc), all of it.

    Raises:
        ModelError: the file is missing or no importance.
    """
    return from_netcdf(path, _MARK, "an importance")


def _netcdf(importance: xr.Dataset) -> bytes:
    return to_netcdf(importance, _MARK)


def _csv(importance: xr.Dataset) -> bytes:
    return to_csv(table(importance))


def _parquet(importance: xr.Dataset) -> bytes:
    return to_parquet(table(importance), importance.attrs)


def _json(importance: xr.Dataset) -> bytes:
    """`about`: what was measured; `heads`: a list of objects, each a head with all its numbers."""
    heads: list[dict[str, Any]] = [
        {"id": id_of(row), **{str(name): plain(value) for name, value in row.items()}}
        for row in table(importance).to_dict("records")
    ]
    about = {str(name): plain(value) for name, value in importance.attrs.items()}
    return to_json({"about": about, "heads": heads})


_WRITERS: dict[str, Callable[[xr.Dataset], bytes]] = {
    ".nc": _netcdf,
    ".csv": _csv,
    ".parquet": _parquet,
    ".json": _json,
}

KINDS = tuple(_WRITERS)
"""The endings of names that say a kind of table."""
