"""The model of a run: made as its configuration says, or taken over, and checked against what it is to learn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import tokenizers
import torch
from torch import nn

from headwise.names import ConfigError
from headwise.nn import Decoder, Encoder, EncoderDecoder, build
from headwise.nn.fields import config_from
from headwise.nn.own import OWN_TYPE
from headwise.train.course import described
from headwise.train.data import check_vocabulary
from headwise.train.recipe import Plan, Recipe

__all__ = ["CLASSES", "longest", "made"]

CLASSES: dict[str, type[nn.Module]] = {
    "causal": Decoder,
    "masked": Encoder,
    "pairs": EncoderDecoder,
}
"""What each objective trains."""


def made(plan: Plan, tokenizer: tokenizers.Tokenizer, start: Any) -> nn.Module:
    """The model that is trained, with its weights of the start.

    Args:
        plan: what was asked for.
        tokenizer: that it reads with.
        start: a loaded model whose weights it starts from; None = fresh ones.

    Raises:
        ConfigError: a model that cannot be built, is another than `start`, or does not fit the objective, the
            tokenizer or the context.
    """
    recipe = plan.recipe
    if start is not None:
        module: nn.Module = start.module
        _check_said(plan, module, None if start.tokenizer is None else tokenizer)
    else:
        if not plan.model:
            raise ConfigError(
                "the configuration has no [model]; write its fields, or start from a model with init"
            )
        said = dict(plan.model)
        said.setdefault("vocab_size", tokenizer.get_vocab_size(with_added_tokens=True))
        if "model_type" not in said:
            said.setdefault("class", CLASSES[recipe.objective].__name__)
            said.setdefault("max_length", recipe.context)
            if recipe.objective == "masked" and said["class"] == Encoder.__name__:
                said.setdefault("masked_head", True)
        torch.manual_seed(recipe.seed)
        module = _built(said)
    _check_module(module, tokenizer, recipe)
    return module


def _built(said: Mapping[str, Any]) -> nn.Module:
    """A fresh model, refused in one line where there is no room for it."""
    try:
        return build(said)
    except (
        RuntimeError,
        MemoryError,
        OverflowError,
        TypeError,
    ) as error:  # a TypeError: of too large sizes
        why = str(error).strip().partition("\n")[0]
        raise ConfigError(
            f"the model that [model] asks for cannot be made: {why}; ask for a smaller one"
        ) from error


def _check_said(plan: Plan, module: nn.Module, tokenizer: tokenizers.Tokenizer | None) -> None:
    """Refuse a configuration that asks for another model than the one whose weights are taken.

    Args:
        plan: the configuration.
        module: that it starts from.
        tokenizer: that is taken over too; None = one was made as the configuration says.
    """
    own, said = described(module), dict(plan.model)
    if said.get("model_type") not in (None, OWN_TYPE):
        kind, config = config_from(said)
        said = {"class": kind.__name__, **asdict(config)}
    said.pop("model_type", None)
    for name, value in said.items():
        if name not in own or value != own[name]:
            has = f"{name}={own[name]!r}" if name in own else f"no {name}"
            raise ConfigError(
                f"[model] says {name}={value!r}, and the model it starts from has {has}; leave [model] out"
            )
    if tokenizer is None:
        return
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    if plan.vocab_size not in (None, size):
        raise ConfigError(
            f"[tokenizer] says vocab_size={plan.vocab_size}, and the tokenizer it reads with has {size:,} tokens; "
            "leave it out"
        )


def _check_module(module: Any, tokenizer: tokenizers.Tokenizer, recipe: Recipe) -> None:
    wanted, config = CLASSES[recipe.objective], module.config
    if not isinstance(module, wanted):
        raise ConfigError(
            f"objective={recipe.objective!r} trains class {wanted.__name__!r}, and the model is of class "
            f"{type(module).__name__!r}; change one of the two"
        )
    check_vocabulary(tokenizer, config.vocab_size)
    if (most := longest(module)) < recipe.context:
        raise ConfigError(
            f"context={recipe.context} tokens do not fit into max_length={most} of the model, which reads and "
            f"writes no more when it is saved; use context={most}, or a model of that max_length"
        )


def longest(module: Any) -> int:
    """How many tokens a model reads at most, of source and target the smaller number."""
    config = module.config
    both = (config.max_length, config.encoder_max_length)
    return int(min(both) if isinstance(module, EncoderDecoder) else config.max_length)
