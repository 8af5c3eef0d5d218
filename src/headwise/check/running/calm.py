"""What makes two runs of a model the same: random numbers from one seed, dropout off, experts in a loop.

And what changes a copy of it: another dtype, weights drawn wide.
"""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

__all__ = [
    "NoDropout",
    "copy_of",
    "eager_experts",
    "in_mode",
    "quietly",
    "seeded",
    "widen",
    "without_dropout",
]

WIDE = 0.35
"""Spread of weights drawn wide, in a matrix of few columns; wide ones have less, so that sums stay in reach."""

_DROPS = ("drop", "survival")


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Every random number within is the same each time, and none outside is changed."""
    states = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed % 2**32)
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])


def copy_of(module: nn.Module, *, weights: bool = False) -> nn.Module | None:
    """A copy with a state of its own; it shares the parameters unless these are to be copied too.

    None where the module cannot be copied.
    """
    memo: dict[int, Any] = {} if weights else {id(p): p for p in module.parameters()}
    try:
        return copy.deepcopy(module, memo)
    except Exception:  # whatever a module's own way to be copied raises
        return None


@contextmanager
def in_mode(module: nn.Module, training: bool) -> Iterator[None]:
    """In train or eval mode for the time of the `with`; each part goes back to the mode it was in."""
    before = [(part, part.training) for part in module.modules()]
    module.train(training)
    try:
        yield
    finally:
        for part, mode in before:
            part.training = mode


def eager_experts(module: nn.Module) -> None:
    """Have experts run one after another where that can be chosen: grouped products depend on all tokens."""
    choose = getattr(module, "set_experts_implementation", None)
    if callable(choose):
        try:
            choose("eager")
        except (ValueError, AttributeError, ImportError):
            return


def without_dropout(module: nn.Module) -> None:
    """Set every rate of dropout of a copy to 0: of its modules, their numbers, and its config."""
    for part in module.modules():
        _stop(part)
        config = getattr(part, "config", None)
        if config is not None and hasattr(config, "__dict__"):
            _stop(config)


def _stop(holder: Any) -> None:
    if isinstance(holder, nn.modules.dropout._DropoutNd):
        holder.p = 0.0
    for name, value in list(vars(holder).items()):
        if any(word in name for word in _DROPS) and isinstance(value, float) and 0 < value < 1:
            try:
                setattr(holder, name, 0.0)
            except (AttributeError, TypeError, ValueError):
                continue


class NoDropout(TorchFunctionMode):
    """Within it dropout written as a function drops nothing."""

    _DROPPING = (F.dropout, F.dropout1d, F.dropout2d, F.dropout3d, F.alpha_dropout, torch.dropout)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func in self._DROPPING:
            return args[0] if args else kwargs["input"]
        if "dropout_p" in kwargs:
            kwargs["dropout_p"] = 0.0
        return func(*args, **kwargs)


def widen(module: nn.Module, seed: int) -> None:
    """Draw the weights of a copy anew, wide: default initialisation hides leaks by a factor of a million.

    Matrices and embeddings are drawn; vectors (gains, biases, decays) and what is not trained (sinusoidal tables)
    stay, but biases and vectors of zeros are drawn small. The row of an embedding that stands for padding stays 0.
    """
    generator = torch.Generator().manual_seed(seed)

    def drawn(x: Tensor, spread: float) -> Tensor:
        return torch.randn(x.shape, generator=generator).mul(spread).to(x)

    fixed = {id(p) for part in module.modules() if _is_table(part) for p in part.parameters(False)}
    with torch.no_grad():
        for parameter in module.parameters():
            if not parameter.is_floating_point() or id(parameter) in fixed:
                continue
            if parameter.dim() > 1:
                columns = parameter.shape[-1]
                parameter.copy_(drawn(parameter, WIDE * min(1.0, math.sqrt(64 / columns))))
            elif not bool(parameter.any()):
                parameter.copy_(drawn(parameter, 0.1))
        for part in module.modules():
            if isinstance(part, nn.Embedding) and part.padding_idx is not None:
                part.weight[part.padding_idx] = 0


def _is_table(part: nn.Module) -> bool:
    return "Sinus" in type(part).__name__ or any(
        not p.requires_grad for p in part.parameters(False)
    )


def quietly(call: Callable[[], Any]) -> Any:
    """What a call returns, without what it warns of."""
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return call()
