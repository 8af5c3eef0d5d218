"""The same model with other numbers of heads: its configuration with another h, d_model as it is, d_k = d / h."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path
from typing import Any

from torch import nn

from headwise.check.counting.building import (
    Asked,
    built,
    dtype_said,
    fields_of,
    parsed,
    runs_in_our_blocks,
    wrapped,
)
from headwise.check.counting.counting import ledger_of
from headwise.check.counting.ledger import Ledger
from headwise.hub.load import Model
from headwise.hub.reading import prepared
from headwise.names import ConfigError
from headwise.nn import TransformerConfig, config_from
from headwise.nn.bare import empty
from headwise.nn.own import is_own, made_of

__all__ = ["Variant", "ledgers"]


Progress = Callable[[int, int, str], None]


@dataclass(frozen=True, eq=False)
class Variant:
    """One number of heads: the ledger of the model that has it, or why there is none.

    Attributes:
        num_heads, num_kv_heads, head_dim: of every layer; None = as the configuration fills it in.
        refused: why no model can have them; "" where one can.
    """

    num_heads: int
    num_kv_heads: int | None
    head_dim: int | None
    ledger: Ledger | None
    refused: str = ""


@dataclass(frozen=True)
class _Wanted:
    heads: int
    kv_heads: int | None
    head_dim: int | None


def ledgers(
    config: Asked,
    heads: Sequence[int] = (),
    kv_heads: Sequence[int] = (),
    *,
    head_dim: int | None = None,
    length: int | None = None,
    batch: int = 1,
    target_length: int | None = None,
    dtype: str | None = None,
    progress: Progress | None = None,
) -> list[Variant]:
    """Ledgers of one configuration with other numbers of heads, all else as it is.

    A query has d_model / num_heads channels, unless head_dim says another number. Where heads share keys and
    values, as many share each pair as before, unless kv_heads says how many pairs there are.

    Args:
        config: a configuration, or a name or path of one, as `ledger` takes it; no module.
        heads: numbers of query heads; () = as it has.
        kv_heads: numbers of KV heads, each with each of `heads`.
        head_dim: channels of each query; None = d_model / num_heads.
        length, batch, target_length, dtype: as in `ledger`.
        progress: called before each with how many are done, how many there are, and which it is.

    Raises:
        ConfigError: a number that is no count, or none of the models can be; one that cannot is a `Variant` that
            says why.
        ModelError: a module, whose heads are what they are.
    """
    for name, values in (("heads", heads), ("kv_heads", kv_heads)):
        wrong = [x for x in values if isinstance(x, bool) or not isinstance(x, int) or x < 1]
        if wrong:
            raise ConfigError(f"{name} must be whole numbers of 1 or more, came {wrong[0]!r}")
    vary = _vary(config)
    said = dtype or vary.dtype
    found: list[Variant] = []
    asked = list(product(heads or (vary.heads,), kv_heads or (None,)))
    for done, (count, kv) in enumerate(asked):
        if progress is not None:
            progress(done, len(asked), f"{count} heads")
        try:
            given, model = vary.made(_Wanted(count, kv, head_dim))
        except ConfigError as error:
            found.append(Variant(count, kv, head_dim, None, str(error)))
            continue
        made = ledger_of(model, said, length, batch, target_length)
        found.append(Variant(given.heads, given.kv_heads, given.head_dim, made))
    if all(one.ledger is None for one in found):
        raise ConfigError(found[0].refused)
    return found


@dataclass(frozen=True, eq=False)
class _Ours:
    """A configuration of our blocks."""

    cls: Any
    config: TransformerConfig
    further: dict[str, Any]
    dtype: str
    name: str

    @property
    def heads(self) -> int:
        return self.config.num_heads

    def made(self, wanted: _Wanted) -> tuple[_Wanted, Model]:
        old = self.config
        dim = wanted.head_dim or _share(old.d_model, wanted.heads)
        kv = wanted.kv_heads or _shared(wanted.heads, old.num_heads, old.num_kv_heads)
        new = replace(old, num_heads=wanted.heads, num_kv_heads=kv, head_dim=dim)
        module = empty(self.cls, new, **self.further)
        return _Wanted(wanted.heads, kv, dim), wrapped(module, self.name)


@dataclass(frozen=True, eq=False)
class _Foreign:
    """A configuration of transformers."""

    config: Any
    dtype: str
    name: str

    @property
    def heads(self) -> int:
        return int(self.config.get_text_config().num_attention_heads)

    def made(self, wanted: _Wanted) -> tuple[_Wanted, Model]:
        config = copy.deepcopy(self.config)
        inner = config.get_text_config()
        width = inner.hidden_size
        dim = wanted.head_dim or _share(width, wanted.heads)
        kv = None
        if _has(inner, "num_key_value_heads"):
            kv = wanted.kv_heads or _shared(wanted.heads, self.heads, inner.num_key_value_heads)
        elif wanted.kv_heads not in (None, wanted.heads):
            raise ConfigError(
                f"{self.name} has no num_key_value_heads, came kv_heads={wanted.kv_heads}; leave them out"
            )
        if kv is not None and wanted.heads % kv:
            raise ConfigError(
                f"num_heads={wanted.heads} is not a multiple of num_kv_heads={kv}; "
                f"use num_kv_heads={wanted.heads} for plain multi-head attention"
            )
        free = _has(inner, "head_dim")
        if not free and dim * wanted.heads != width:
            raise ConfigError(
                f"{type(inner).__name__} has no head_dim, so d_model={width} must be num_heads x d_k, "
                f"came {wanted.heads} x {dim}"
            )
        names = ["num_attention_heads", "encoder_attention_heads", "decoder_attention_heads"]
        values = dict.fromkeys(names, wanted.heads) | {"num_key_value_heads": kv, "head_dim": dim}
        for name, value in values.items():
            if _has(inner, name) and value is not None:
                setattr(inner, name, value)
        return _Wanted(wanted.heads, kv, dim), wrapped(built(config), self.name)


def _vary(asked: Asked) -> _Ours | _Foreign:
    if isinstance(asked, TransformerConfig):
        module = wrapped_of(asked)
        return _Ours(type(module), asked, {}, "float32", "TransformerConfig")
    if isinstance(asked, Model | nn.Module):
        raise ConfigError("the heads of a module are what they are; give its configuration or name")
    if not isinstance(asked, str | Path | dict):
        return _Foreign(asked, dtype_said(asked.to_dict(), None), asked.model_type)
    name, said, folder = fields_of(asked)
    config, cut = prepared(said)
    if cut is not None:
        raise ConfigError(
            f"heads of {name} were cut, and differ by layer; give the model it was before"
        )
    dtype = dtype_said(said, folder)
    if is_own(config):
        return _Ours(*made_of(config), dtype, name)
    if runs_in_our_blocks(config):
        cls, ours = config_from(config)
        return _Ours(cls, ours, {}, dtype, name)
    return _Foreign(parsed(name, config), dtype, name)


def wrapped_of(config: TransformerConfig) -> nn.Module:
    """The model without weights that a configuration of ours is taken for."""
    from headwise.check.counting.building import model_of

    return model_of(config)[0].module


def _share(width: int, heads: int) -> int:
    if width % heads:
        raise ConfigError(
            f"d_model={width} is not a multiple of num_heads={heads}; give head_dim (any size works)"
        )
    return width // heads


def _shared(heads: int, before: int, kv_before: int) -> int:
    """The KV heads by which as many query heads share each as before."""
    if heads * kv_before % before:
        raise ConfigError(
            f"num_heads={heads} cannot share KV heads as {before} did {kv_before}; give kv_heads"
        )
    return heads * kv_before // before


def _has(config: Any, name: str) -> bool:
    return name in config.to_dict() or name in config.attribute_map
