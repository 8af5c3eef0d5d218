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
from headwise.hub.kept import Kept
from headwise.hub.reading import Prepare
from headwise.hub.report import say
from headwise.names import ConfigError
from headwise.nn import MultiHeadAttention
from headwise.nn.own import OWN

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
    apply = partial(_name_heads if plain else apply_cut, cut=cut)
    return Prepare(apply, str(field.get("class")) in OWN, plain)


def _name_heads(module: nn.Module, cut: Cut) -> None:
    """Say which heads a model kept whose config says how many; transformers hands the field on to new models."""
    try:
        fits = all(_fits(module.get_submodule(path), kept) for path, kept in cut.kept.items())
    except AttributeError:  # no such module
        fits = False
    if fits:
        apply_cut(module, cut)
    else:
        say(
            f'the field "{FIELD}" of config.json is of a model with other heads and is left out; heads are '
            "counted from 0",
            quiet=False,
        )


def _fits(part: nn.Module, kept: Kept) -> bool:
    """Whether an attention module has as many heads as were kept, as far as it says."""
    config = getattr(part, "config", None)
    said = [getattr(config, name, None) for name in ("num_attention_heads", "num_key_value_heads")]
    if isinstance(part, MultiHeadAttention):
        said = [part.num_heads, part.num_kv_heads]
    came = (len(kept.heads), len(kept.kv_heads))
    return all(number in (None, wanted) for number, wanted in zip(said, came, strict=True))
