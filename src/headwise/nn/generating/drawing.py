"""Which token comes next: the likeliest, or one drawn among the likely ones.

Temperature, top-k and top-p act in this order and mean what they mean in transformers. Not covered: beams,
penalties.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.names import ConfigError, ModelError, ShapeError

__all__ = ["Drawing", "check_whole", "generators_for"]

_COLDEST = 1e-20
"""At temperatures below, the likeliest token alone can come, and what is divided by them grows too large."""


@dataclass(frozen=True)
class Drawing:
    """How the next token is chosen.

    Args:
        temperature: what the logits are divided by before one is drawn; 0 = the likeliest token, nothing drawn.
        top_k: draw among the k likeliest (and what ties with the last of them); None = among all.
        top_p: of these, draw among the likeliest that make up this probability (Holtzman et al. 2020);
            None = among all.

    Raises:
        ConfigError: a value that cannot be, or a limit where nothing is drawn.
    """

    temperature: float = 0.0
    top_k: int | None = None
    top_p: float | None = None

    def __post_init__(self) -> None:
        if not (self.temperature >= 0 and math.isfinite(self.temperature)):
            raise ConfigError(
                f"temperature must be 0 (the likeliest token) or more, came {self.temperature}"
            )
        check_whole("top_k", self.top_k, "; for all tokens leave it out")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise ConfigError(f"top_p must be above 0 and at most 1, came {self.top_p}")
        for name in ("top_k", "top_p"):
            if getattr(self, name) is not None and self.temperature == 0:
                raise ConfigError(
                    f"{name}={getattr(self, name)} limits what is drawn, and temperature=0 draws nothing; "
                    "give a temperature, for instance 1.0"
                )

    @property
    def draws(self) -> bool:
        """Whether chance has a part in it."""
        return self.temperature > 0

    def limited(
        self, logits: Float[Tensor, "batch vocab_size"]
    ) -> Float[Tensor, "batch vocab_size"]:
        """The logits that are drawn from, -inf where a token is left out."""
        logits = logits.float() / self.temperature
        if self.top_k is not None:
            least = logits.topk(min(self.top_k, logits.shape[-1])).values[:, -1:]
            logits = logits.masked_fill(logits < least, -torch.inf)
        if self.top_p is not None and self.top_p < 1:
            ordered, order = logits.sort(-1)
            out = ordered.softmax(-1).cumsum(-1) <= 1 - self.top_p
            out[:, -1] = False
            logits = logits.masked_fill(out.scatter(-1, order, out), -torch.inf)
        return logits

    def next(
        self, logits: Float[Tensor, "batch vocab_size"], generators: Sequence[torch.Generator]
    ) -> Int[Tensor, " batch"]:
        """The next token of every row.

        Args:
            logits: of the last position.
            generators: of each row, whose token takes one number of it; not looked at where nothing is drawn.

        Raises:
            ModelError: logits that are not numbers.
        """
        largest, likeliest = logits.max(-1)
        if not bool(largest.isfinite().all()):
            raise ModelError(
                f"the model's logits are {largest[~largest.isfinite()][0].item()}, so no token can be chosen; "
                "check its weights, or use another dtype"
            )
        if self.temperature < _COLDEST:
            return likeliest
        reached = self.limited(logits).softmax(-1).double().cumsum(-1)
        reached = reached / reached[:, -1:]
        drawn = [
            torch.rand(1, generator=g, device=g.device, dtype=torch.float64) for g in generators
        ]
        at = torch.stack([number.to(logits.device) for number in drawn])
        return torch.searchsorted(reached, at, right=True)[:, 0]


def check_whole(name: str, value: int | None, more: str = "") -> None:
    """Refuse a number that is not 1, 2, 3 and so on; None = not given.

    Raises:
        ConfigError: such a one.
    """
    if value is None or (isinstance(value, Integral) and value >= 1):
        return
    if isinstance(value, Integral):
        raise ConfigError(f"{name} must be at least 1, came {value}{more}")
    raise ConfigError(f"{name} must be a whole number, came {value!r}{more}")


def generators_for(
    rows: int, generator: torch.Generator | Sequence[torch.Generator] | None
) -> list[torch.Generator]:
    """A generator of each row's own, so that what one row draws does not depend on the others.

    Args:
        rows: how many.
        generator: one, of which each row in turn takes its seed (None = torch's own); or one for each row.

    Raises:
        ShapeError: generators for another number of rows.
    """
    if isinstance(generator, Sequence):
        if len(generator) != rows:
            raise ShapeError(f"{len(generator)} generators came for {rows} rows; give one for each")
        return list(generator)
    device = None if generator is None else generator.device
    seeds = torch.randint(2**62, (rows,), generator=generator, device=device)
    return [torch.Generator().manual_seed(seed) for seed in seeds.tolist()]
