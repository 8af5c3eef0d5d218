"""The field of a config.json that says what was cut of a model.

    "headwise": {"version": 1, "class": "Decoder", "cut": {...}}

The class is that of the module whose parts the cut names. Where a config says the cut by its own fields, what is
left is which heads each layer kept.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from torch import nn

from headwise.cut.pruning.record import Cut, apply_cut
from headwise.hub.own import OWN
from headwise.hub.reading import Prepare
from headwise.names import ConfigError

__all__ = ["FIELD", "field_of", "prepare"]

FIELD = "headwise"
"""The name of the field."""

_VERSION = 1


def field_of(cut: Cut, module: nn.Module) -> dict[str, Any]:
    """What the field holds for a cut of a module."""
    return {"version": _VERSION, "class": type(module).__name__, "cut": cut.as_dict()}


def prepare(field: Any) -> Prepare:
    """What cuts a model that was built from the rest of the config.

    Raises:
        ConfigError: a field of another form, or of a later version.
    """
    version = field.get("version") if isinstance(field, dict) else None
    if isinstance(version, bool) or not isinstance(version, int) or "cut" not in field:
        raise ConfigError(
            f'the field "{FIELD}" of config.json cannot be read: it holds {str(field)[:60]!r}, not a version and '
            "a cut; save the model anew"
        )
    if version != _VERSION:
        raise ConfigError(
            f"the model was saved by another headwise, in version {version}; this one reads version "
            f"{_VERSION}: update headwise"
        )
    cut = Cut.from_dict(field["cut"])
    plain = not cut.shapes and not cut.numbers
    return Prepare(partial(apply_cut, cut=cut), str(field.get("class")) in OWN, plain)
