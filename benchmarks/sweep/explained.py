"""Why a class is not clean in a dimension, as read in its code; docs/findings.md says more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

WHY: Mapping[str, Mapping[str, str]] = {}


def explained(row: Mapping[str, Any], dimension: str) -> str:
    """The reason that is on record, or that there is none yet."""
    return WHY.get(row["type"], {}).get(dimension, "NOT EXPLAINED YET")
