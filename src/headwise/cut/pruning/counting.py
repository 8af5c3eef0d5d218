"""Numbers that attention modules keep of their heads: what their attributes are called, and what they count.

An attribute is changed where its name is here and its value is what it should count; whether that was right is told
by running the model (`verifying`).
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import FunctionType
from typing import Any

from torch import nn

__all__ = ["Counts", "counts_something", "numbers_of"]

_NAMES: Mapping[str, str] = {
    **dict.fromkeys(
        ("num_heads", "num_attention_heads", "n_heads", "n_head", "nhead", "heads"), "heads"
    ),
    **dict.fromkeys(
        ("num_key_value_heads", "num_kv_heads", "n_kv_heads", "kv_n_heads", "kv_heads"), "kv_heads"
    ),
    **dict.fromkeys(("num_key_value_groups", "num_groups", "n_rep"), "groups"),
    **dict.fromkeys(
        ("all_head_size", "inner_dim", "split_size", "attention_dim", "inner_attn_dim", "q_size"),
        "width",
    ),
    **dict.fromkeys(("embed_dim", "hidden_size", "d_model", "emb_dim", "dim", "n_embd"), "width"),
    **dict.fromkeys(("kv_size", "kv_dim", "kv_width"), "kv_width"),
}
"""What an attribute counts: query heads, KV heads, query heads per KV head, or the channels of all heads."""


@dataclass(frozen=True)
class Counts:
    """What there is of heads in a layer."""

    heads: int
    kv_heads: int
    groups: int
    head_dim: int

    @property
    def width(self) -> int:
        """Channels of all query heads."""
        return self.heads * self.head_dim

    @property
    def kv_width(self) -> int:
        """Channels of all keys."""
        return self.kv_heads * self.head_dim


def counts_something(attribute: str) -> bool:
    """Whether an attribute, `config.x` of one that is read off the config, is of those that change with heads."""
    return attribute.removeprefix("config.") in _NAMES


def numbers_of(
    module: nn.Module, before: Counts, after: Counts, all_heads: bool = False
) -> dict[str, int]:
    """The attributes of an attention module that change with its heads, with their numbers after.

    Args:
        module: the attention module.
        before, after: what it has of heads.
        all_heads: it makes a bias for all heads, also of other layers, so its number of heads stays.

    Returns:
        By attribute; `config.x` where its forward reads a number off the config.
    """
    found: dict[str, int] = {}
    for name, home, value in _held(module):
        counts = _NAMES[name]
        if value != getattr(before, counts) or (all_heads and counts == "heads"):
            continue
        if counts in ("width", "kv_width") and name not in words_of(type(module)):
            continue  # its forward does not read it: what it is made of, which stays
        found[home + name] = getattr(after, counts)
    return {name: number for name, number in found.items() if number != _now(module, name)}


def _held(module: nn.Module) -> Iterator[tuple[str, str, object]]:
    """The names of the table that the module has, or that its forward reads off its config."""
    config, kind = getattr(module, "config", None), type(module)
    words = words_of(kind)
    for name in _NAMES:
        if name in module.__dict__:
            yield name, "", module.__dict__[name]
        elif "config" in words and name in words and hasattr(config, name):
            yield name, "config.", getattr(config, name)


def _now(module: nn.Module, name: str) -> object:
    home, _, attribute = name.rpartition(".")
    return getattr(getattr(module, home) if home else module, attribute)


def words_of(cls: Any) -> frozenset[str]:
    """Every name that the code of a class uses, but for how it is made."""
    return _words(cls)


@cache
def _words(cls: Any) -> frozenset[str]:
    words: set[str] = set()
    for base in cls.__mro__:
        if base.__module__.startswith("torch.") or base is object:
            continue
        for name, function in vars(base).items():
            function = getattr(function, "__func__", function)
            if isinstance(function, FunctionType) and name != "__init__":
                words.update(inspect.unwrap(function).__code__.co_names)
    return frozenset(words)
