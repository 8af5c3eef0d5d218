"""A fresh model from a configuration: a mapping, or a TOML or JSON file."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from headwise.names import ConfigError
from headwise.nn.fields import config_from
from headwise.nn.own import OWN_TYPE, made_of

__all__ = ["build", "read_configuration"]


def build(config: Mapping[str, Any] | str | Path) -> nn.Module:
    """A model with random weights, the same for the same seed of torch, in training mode.

        build({"class": "Decoder", "vocab_size": 100, "d_model": 64, "num_layers": 2, "num_heads": 4})

    Args:
        config: the fields of a TransformerConfig beside `class` ("Encoder", "Decoder" or
            "EncoderDecoder"), or those of a config.json of transformers whose model_type has a
            table; or the path of a TOML or JSON file with either, by itself or in a table [model].

    Raises:
        ConfigError: a file that cannot be read, a field that is not known, missing, or cannot be.
    """
    if isinstance(config, str | Path):
        path = Path(config)
        try:
            return build(read_configuration(path))
        except ConfigError as error:
            raise error if str(path) in str(error) else ConfigError(f"{path}: {error}") from None
    if not isinstance(config, Mapping):
        raise ConfigError(f"a configuration is a mapping or a path, came {config!r}")
    if config.get("model_type") in (None, OWN_TYPE):
        kind, made, further = made_of(config)
        return kind(made, **further)
    kind, made = config_from(config)
    return kind(made)


def read_configuration(path: Path) -> dict[str, Any]:
    """The fields of a TOML or JSON file, those of its table [model] where it has one.

    Raises:
        ConfigError: a file that is not there, or is neither.
    """
    read = {".toml": tomllib.loads, ".json": json.loads}.get(path.suffix.lower())
    if read is None:
        raise ConfigError(
            f"{path} says no kind of file; a configuration's name ends in .toml or .json"
        )
    try:
        content = read(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}; check the path") from None
    except ValueError as error:
        raise ConfigError(f"{path} is not {path.suffix[1:].upper()}: {error}") from None
    if not isinstance(content, dict):
        raise ConfigError(f"{path} holds no table of fields; it must say name and value of each")
    inner = content.get("model")
    return inner if isinstance(inner, dict) else content
