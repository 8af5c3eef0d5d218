"""The form of a model of our blocks that is of no family: its TransformerConfig as fields, beside its class.

{"model_type": "headwise", "class": "Decoder", "vocab_size": 100, ...}
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, asdict, fields
from typing import Any

from torch import nn

from headwise.names import ConfigError
from headwise.nn.bare import empty
from headwise.nn.config import TransformerConfig, check_names
from headwise.nn.models import Decoder, Encoder, EncoderDecoder

__all__ = ["OWN", "OWN_TYPE", "config_of", "empty_own", "is_own", "made_of"]

OWN: dict[str, type[nn.Module]] = {
    "Encoder": Encoder,
    "Decoder": Decoder,
    "EncoderDecoder": EncoderDecoder,
}
"""The classes that a configuration can name."""

OWN_TYPE = "headwise"
"""The model_type of a config.json in this form."""

_BESIDE = {
    *(f"{name}_token_id" for name in ("bos", "eos", "pad", "unk", "cls", "sep", "mask")),
    "decoder_start_token_id",
    *("architectures", "dtype", "tokenizer_class", "transformers_version"),
}
"""Fields of a config.json that no module is made of."""


def is_own(config: Mapping[str, Any]) -> bool:
    """Whether a config.json is of a model of our own blocks."""
    return config.get("model_type") == OWN_TYPE


def config_of(module: nn.Module) -> dict[str, Any]:
    """What config.json says of a model of ours, in our own words."""
    own: Any = module
    said = {"model_type": OWN_TYPE, "class": type(module).__name__, **asdict(own.config)}
    return {**said, "cross": True} if getattr(module, "cross", False) else said


def made_of(
    config: Mapping[str, Any],
) -> tuple[type[nn.Module], TransformerConfig, dict[str, Any]]:
    """The class, the configuration and the further arguments that a table of fields says.

    Raises:
        ConfigError: a class or a field that is not known, is missing, or cannot be.
    """
    named = [field.name for field in fields(TransformerConfig)]
    given = {name: value for name, value in config.items() if name not in _BESIDE}
    given.pop("model_type", None)
    kind = given.pop("class", None)
    if kind is None:
        raise ConfigError(f"the configuration lacks class; give one of {', '.join(OWN)}")
    if kind not in OWN:
        raise ConfigError(f"class={kind!r} is no class of headwise.nn; use one of {', '.join(OWN)}")
    cross = given.pop("cross", False)
    if cross and kind != "Decoder":
        raise ConfigError(f"cross={cross!r} came with class={kind!r}; only a Decoder has it")
    check_names(given, named)
    needed = [field.name for field in fields(TransformerConfig) if field.default is MISSING]
    lacking = [name for name in needed if given.get(name) is None]
    if lacking:
        raise ConfigError(f"the configuration lacks {', '.join(lacking)}; give each a number")
    return OWN[kind], TransformerConfig(**given), {"cross": True} if cross else {}


def empty_own(config: Mapping[str, Any]) -> nn.Module:
    """The model that a config.json of ours says, without weights.

    Raises:
        ConfigError: a class or a field that is not known, or that cannot be.
    """
    kind, made, further = made_of(config)
    return empty(kind, made, **further)
