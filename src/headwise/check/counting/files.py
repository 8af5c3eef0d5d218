"""Ledgers on disk: netCDF holds the table; CSV, Parquet and JSON are for other programs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from headwise.check.counting.ledger import Ledger
from headwise.see.tables import plain, save_as, to_csv, to_json, to_netcdf, to_parquet

__all__ = ["KINDS", "save_ledger"]


def save_ledger(ledger: Ledger, path: str | Path) -> None:
    """Write a ledger to a .nc, .csv, .parquet or .json file, so that a failure leaves an old file as it was.

    Raises:
        OutputError: the file cannot be written, or its name says no kind of table.
    """
    save_as(ledger, path, _WRITERS, "the ledger")


_WRITERS: dict[str, Callable[[Any], bytes]] = {
    ".nc": lambda ledger: to_netcdf(ledger.table, "headwise_ledger"),
    ".csv": lambda ledger: to_csv(ledger.frame()),
    ".parquet": lambda ledger: to_parquet(ledger.frame(), ledger.table.attrs),
    ".json": lambda ledger: to_json(plain(ledger.as_dict()), indent=1),
}

KINDS = tuple(_WRITERS)
"""The endings of names that say a kind of table."""
