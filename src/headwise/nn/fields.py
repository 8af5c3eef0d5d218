"""Configurations by the tables in `headwise.nn.families`: a config.json of transformers into ours, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any

from torch import nn

from headwise.names import ConfigError
from headwise.nn.config import TransformerConfig
from headwise.nn.families import FAMILIES
from headwise.nn.families.table import HARMLESS, REQUIRED, Derived, Family, Field

__all__ = ["HfConfig", "config_from", "family_of", "known_family", "said_by"]

HfConfig = Mapping[str, Any]


def known_family(hf_config: HfConfig) -> bool:
    """Is there a table for this config.json's model_type?"""
    return hf_config.get("model_type") in FAMILIES


def family_of(hf_config: HfConfig) -> Family:
    """The table of a config.json's model_type.

    Raises:
        ConfigError: there is none.
    """
    model_type = hf_config.get("model_type")
    if model_type not in FAMILIES:
        raise ConfigError(
            f"model_type={model_type!r} has no table in headwise.nn; known are "
            f"{', '.join(FAMILIES)} (other models of transformers load with headwise.load)"
        )
    family = FAMILIES[model_type]
    weights = dict(family.weights)
    for name, by_value in family.variants.items():
        weights |= by_value.get(hf_config.get(name), {})
    return replace(family, weights=weights) if family.variants else family


def config_from(hf_config: HfConfig) -> tuple[type[nn.Module], TransformerConfig]:
    """Our class and configuration for a config.json of transformers (4 or 5).

    Raises:
        ConfigError: a family, a field or a value that no table knows, by name.
    """
    family = family_of(hf_config)
    read = {name for source in family.fields.values() for name in source.names}
    given = dict(_flat(hf_config, family, read))
    for name, value in given.items():
        _check_field(family, name, value, read)
    values = {ours: _value(family, source, given) for ours, source in family.fields.items()}
    return family.model, TransformerConfig(**values, **family.fixed)


def said_by(family: Family, model: type[nn.Module], config: TransformerConfig) -> dict[str, Any]:
    """The config.json by which a family says one of our models: `config_from` of it is that model.

    Raises:
        ConfigError: the family has no such model, and what is different.
    """
    if model is not family.model:
        raise ConfigError(f"its class is {model.__name__}, and {family.model.__name__} there")
    said: dict[str, Any] = {"model_type": family.model_type}
    for name, value in {**family.written, **_written(family, config)}.items():
        outer, dot, inner = name.partition(".")
        if dot:
            said.setdefault(outer, {})[inner] = value
        else:
            said[name] = value
    _, again = config_from(said)
    for field in fields(config):
        ours, theirs = getattr(config, field.name), getattr(again, field.name)
        if ours != theirs:
            raise ConfigError(f"{field.name}={ours!r}, and {theirs!r} there")
    refused = family.refuses(config)
    if refused:
        raise ConfigError(refused)
    return said


def _written(family: Family, config: TransformerConfig) -> dict[str, Any]:
    """Their fields, flat, for each of ours that the family's table has."""
    said: dict[str, Any] = {}
    for ours, source in family.fields.items():
        if isinstance(source, Derived):
            said.update(source.write(config))
            continue
        value = getattr(config, ours)
        if source.values is not None:
            known = [theirs for theirs, same in source.values.items() if same == value]
            if not known:
                raise ConfigError(f"{ours}={value!r}, for which it has no word")
            value = known[0]
        said.setdefault(source.names[0], value)
    return said


def _flat(hf_config: HfConfig, family: Family, read: set[str]) -> Iterator[tuple[str, Any]]:
    """The fields that matter, nested tables opened up: rope_parameters.rope_theta."""
    for name, value in hf_config.items():
        if name not in read and (name in HARMLESS or name in family.harmless):
            continue
        if isinstance(value, Mapping):
            yield from ((f"{name}.{inner}", below) for inner, below in value.items())
        else:
            yield name, value


def _check_field(family: Family, name: str, value: Any, read: set[str]) -> None:
    if name in family.allowed:
        if value not in family.allowed[name]:
            known = " or ".join(map(repr, family.allowed[name]))
            raise ConfigError(
                f"{name}={value!r} is not supported for model_type={family.model_type!r}, "
                f"only {known}; load it with transformers instead"
            )
    elif name not in read:
        near = get_close_matches(name, [*read, *family.allowed], n=1)
        raise ConfigError(
            f"config field {name}={value!r} is not known for model_type={family.model_type!r}; "
            + (f"did you mean {near[0]}? " if near else "")
            + "if it changes nothing, take it out of config.json, else load it with transformers"
        )


def _value(family: Family, source: Field | Derived, given: Mapping[str, Any]) -> Any:
    """What the checkpoint says for one field of ours, in our words."""
    if isinstance(source, Derived):
        return source.read(given)
    if source.null and any(name in given and given[name] is None for name in source.names):
        return None
    found = {name: given[name] for name in source.names if given.get(name) is not None}
    if len(set(map(repr, found.values()))) > 1:
        said = ", ".join(f"{name}={value!r}" for name, value in found.items())
        raise ConfigError(f"config.json contradicts itself: {said}; leave the right one")
    if not found:
        if source.default is REQUIRED:
            raise ConfigError(
                f"config.json lacks {source.names[0]}, which model_type={family.model_type!r} needs"
            )
        return source.default
    name, value = next(iter(found.items()))
    if source.values is None:
        return value
    if value not in source.values:
        raise ConfigError(
            f"{name}={value!r} is not supported for model_type={family.model_type!r}; "
            f"known are {', '.join(source.values)}"
        )
    return source.values[value]
