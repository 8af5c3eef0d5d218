"""A tiny configuration of any type of transformers, by its fields' names and its own defaults."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import torch
import transformers
from extra import EXTRA
from fields import SMALL
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

TYPES: dict[str, str] = dict(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES)
"""Every causal language model of the installed transformers: type -> class."""

_LISTS = ("layer_types", "layers_block_type", "mlp_layer_types")
_TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "sep_token_id": 3}


def model_class(kind: str) -> Any:
    """The causal language model of this type."""
    return getattr(transformers, TYPES[kind])


def config_class(kind: str) -> Any:
    """The configuration that the type's model takes: its own, or that of its text part."""
    own, taken = CONFIG_MAPPING[kind], model_class(kind).config_class
    return own if issubclass(own, taken) else taken


def tiny(kind: str) -> Any:
    """The tiny configuration of this type."""
    return config_class(kind)(**_fields(config_class(kind), EXTRA.get(kind, {})))


def build(kind: str, dtype: torch.dtype = torch.float32) -> Any:
    """A tiny model of this type, with the weights that its class draws, in eval mode."""
    torch.manual_seed(0)
    return model_class(kind)._from_config(tiny(kind), dtype=dtype).eval()


def kinds_of_layers(config: Any) -> list[str]:
    """The kinds of layers that a configuration names, in their order; how many where it names none."""
    text = config.get_text_config(decoder=True)
    names = [
        getattr(text, name, None) for name in ("layer_types", "layers_block_type", "attn_layers")
    ]
    found = next((list(map(str, n)) for n in names if n), None)
    return found or [f"{getattr(text, 'num_hidden_layers', '?')} alike"]


def _fields(cls: Any, extra: Mapping[str, Any]) -> dict[str, Any]:
    """The fields in which the tiny configuration of a class differs from its default."""
    default, taken = cls().to_dict(), inspect.signature(cls.__init__).parameters
    small = {name: _smaller(name, value) for name, value in default.items() if name in taken}
    small = {name: value for name, value in small.items() if value is not default[name]}
    if "is_decoder" in taken:
        small["is_decoder"] = True
    small |= _latent(default, small) | _per_layer(default, extra)
    for name, part in cls.sub_configs.items():
        if isinstance(default.get(name), dict):
            small[name] = _part(part, default[name], extra.get(name, {}))
    return {**small, **{name: extra[name] for name in extra if name not in cls.sub_configs}}


def _part(cls: Any, default: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a configuration within another."""
    kind = default.get("model_type")
    own = CONFIG_MAPPING[kind] if cls is transformers.AutoConfig else cls
    return {"model_type": kind, **_fields(own, extra)}


def _smaller(name: str, value: Any) -> Any:
    """A size or token id as a tiny model has it; everything else as it is."""
    if name in _TOKENS and value is not None:
        return value if isinstance(value, int) and value <= 3 else _TOKENS[name]
    whole = isinstance(value, int) and not isinstance(value, bool)
    return min(value, SMALL[name]) if whole and name in SMALL else value


def _latent(default: Mapping[str, Any], small: Mapping[str, Any]) -> dict[str, Any]:
    """Where keys come from one latent, every head has its own, and head_dim may be the part with positions."""
    fields: dict[str, Any] = {}
    rotary = default.get("qk_rope_head_dim")
    if rotary is not None and default.get("head_dim") == rotary:
        fields["head_dim"] = small["qk_rope_head_dim"]
    heads = default.get("num_attention_heads")
    if "kv_lora_rank" in default and default.get("num_key_value_heads") == heads:
        fields["num_key_value_heads"] = small["num_attention_heads"]
    return fields


def _per_layer(default: Mapping[str, Any], extra: Mapping[str, Any]) -> dict[str, Any]:
    """The lists with one entry for each layer, cut to the first that differ, or to as many as extra has."""
    depth = default.get("num_hidden_layers")
    lists = {
        name: value
        for name, value in default.items()
        if isinstance(value, list) and len(value) == depth and name not in extra
    }
    given = next((len(extra[name]) for name in _LISTS if name in extra), None)
    given = extra.get("num_hidden_layers", given)
    if not lists and given is None:
        return {}
    rows = list(zip(*lists.values(), strict=True)) or [()]
    chosen = _first_of_each(rows)[:given]
    chosen += [rows[-1]] * ((given or 2) - len(chosen))
    cut = {name: [_smaller(name, row[at]) for row in chosen] for at, name in enumerate(lists)}
    return {"num_hidden_layers": len(chosen), **cut}


def _first_of_each(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The rows that hold a value which no row before them has in that column."""
    seen: set[tuple[int, str]] = set()
    chosen = []
    for row in rows:
        new = {(column, str(value)) for column, value in enumerate(row)} - seen
        if new:
            chosen.append(row)
        seen |= new
    return chosen
