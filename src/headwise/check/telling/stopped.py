"""An audit that came to no end: what was found before, and nothing that is not known then."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from headwise.check.telling.report import Audit

__all__ = ["Stopped"]


@dataclass(frozen=True, eq=False)
class Stopped(Audit):
    """What was found before it was stopped; never clean. `declared` and `dtype` are empty where not known."""

    @property
    def clean(self) -> bool:
        """Never: what was not checked may leak."""
        return False

    def as_dict(self) -> dict[str, Any]:
        """As JSON takes it: `clean` is null, `stopped` true, and what is not known is left out."""
        empty = ("declared", "length", "layers", "dtype")
        held = {k: v for k, v in super().as_dict().items() if v or k not in empty}
        return held | {"clean": None, "stopped": True}
