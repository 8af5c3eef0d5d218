"""RoPE stretched to longer texts than a model was first trained on: by position, by Llama 3's rule, by YaRN."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal, get_args

import torch
from jaxtyping import Float
from torch import Tensor

from headwise.names import ConfigError

__all__ = ["RopeScaling", "attention_factor", "inverse_wavelengths"]

Kind = Literal["linear", "llama3", "yarn"]


@dataclass(frozen=True, kw_only=True)
class RopeScaling:
    """How the frequencies of RoPE are stretched; the names are those of config.json.

    Args:
        kind: "linear" divides every position by `factor`; "llama3" (Llama 3.1) and "yarn" (Peng et
            al. 2023) divide the slow frequencies alone and blend between slow and fast.
        factor: how many times longer the texts become.
        original_length: tokens of the texts the model was first trained on ("llama3", "yarn").
        low_freq_factor, high_freq_factor: turns within the original length below which a frequency
            is slow, above which it is fast ("llama3").
        beta_fast, beta_slow: turns within the original length above which a frequency is fast,
            below which it is slow ("yarn").
        attention_factor: times cos and sin ("yarn"); None = 0.1 ln(factor) + 1, and 1 for factors below 1.
        truncate: round the bounds between fast and slow outwards to whole channels ("yarn").

    Raises:
        ConfigError: a kind that is not known, or numbers that cannot be.
    """

    kind: Kind
    factor: float | int
    original_length: int | None = None
    low_freq_factor: float | int = 1.0
    high_freq_factor: float | int = 4.0
    beta_fast: float | int = 32.0
    beta_slow: float | int = 1.0
    attention_factor: float | int | None = None
    truncate: bool = True

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            known = ", ".join(get_args(Kind))
            raise ConfigError(
                f"rope_scaling.kind={self.kind!r} is not known; use one of {known}, or no rope_scaling"
            )
        for name in ("factor", "low_freq_factor", "high_freq_factor", "beta_fast", "beta_slow"):
            self._check_number(name)
        if self.attention_factor is not None:
            self._check_number("attention_factor")
        if not isinstance(self.truncate, bool):
            raise ConfigError(
                f"rope_scaling.truncate={self.truncate!r} is not true or false; write one of them"
            )
        if self.kind != "linear" and not _is_count(self.original_length):
            raise ConfigError(
                f"rope_scaling.original_length={self.original_length} must be the number of tokens that the "
                f"model was first trained on, for kind={self.kind!r}"
            )
        if self.kind == "llama3" and not 0 < self.low_freq_factor < self.high_freq_factor:
            raise ConfigError(
                f"rope_scaling.low_freq_factor={self.low_freq_factor} must be above 0 and below "
                f"high_freq_factor={self.high_freq_factor}"
            )

    def _check_number(self, name: str) -> None:
        """A float from now on: transformers refuses some whole numbers."""
        value = getattr(self, name)
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not 0 < value < math.inf:
            raise ConfigError(f"rope_scaling.{name}={value!r} is no number above 0; give one")
        object.__setattr__(self, name, float(value))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value > 0


def inverse_wavelengths(
    head_dim: int,
    theta: float,
    scaling: RopeScaling | None = None,
    device: torch.device | None = None,
    dtype: torch.dtype = torch.float32,
) -> Float[Tensor, " half_head_dim"]:
    """Radians per position by which each pair of channels turns: theta^(-2i / head_dim), scaled."""
    even = torch.arange(0, head_dim, 2, device=device, dtype=torch.int64).to(dtype)
    turns = theta ** (even / head_dim)
    if scaling is None:
        return 1.0 / turns
    if scaling.kind == "linear":
        return 1.0 / turns / scaling.factor
    return (
        _llama3(1.0 / turns, scaling) if scaling.kind == "llama3" else _yarn(turns, theta, scaling)
    )


def attention_factor(scaling: RopeScaling | None) -> float:
    """What cos and sin are multiplied by."""
    if scaling is None or scaling.kind != "yarn":
        return 1.0
    if scaling.attention_factor is not None:
        return scaling.attention_factor
    return 0.1 * math.log(max(scaling.factor, 1.0)) + 1.0


def _llama3(fast: Tensor, scaling: RopeScaling) -> Tensor:
    """Fast frequencies as they are, slow ones divided, those between blended by their turns."""
    assert scaling.original_length is not None
    low, high = scaling.low_freq_factor, scaling.high_freq_factor
    turns = scaling.original_length / (2 * math.pi / fast)
    share = ((turns - low) / (high - low)).clamp(0, 1)
    return (1 - share) * fast / scaling.factor + share * fast


def _yarn(turns: Tensor, theta: float, scaling: RopeScaling) -> Tensor:
    """The same by channels: a ramp between the channel of beta_fast turns and that of beta_slow."""
    head_dim = 2 * len(turns)

    def channel(rotations: float) -> float:
        assert scaling.original_length is not None
        length = scaling.original_length / (rotations * 2 * math.pi)
        return head_dim * math.log(length) / (2 * math.log(theta))

    low, high = channel(scaling.beta_fast), channel(scaling.beta_slow)
    if scaling.truncate:
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, head_dim - 1)
    if low == high:
        high += 0.001
    at = torch.arange(len(turns), device=turns.device, dtype=turns.dtype)
    slow = ((at - low) / (high - low)).clamp(0, 1)
    return slow / (scaling.factor * turns) + (1 - slow) / turns
