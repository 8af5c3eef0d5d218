"""A nudge to the embedded text: a jitter as large as rounding, and a place to which gradients are read.

The embedding of the text is found by what is looked up: torch's embedding function, called with its ids.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from headwise.check.reading.given import Given

__all__ = ["Nudge"]


class Nudge(TorchFunctionMode):
    """Adds a small noise to the embedded text of a run, and keeps what gradients are read to.

    Args:
        jitter: size of the noise relative to each number; 0 = none.
        gradient: whether gradients are kept.
        seed: of the noise.
        source: whether the encoder's text is meant, not the decoder's.
        place: what is added and gradients are read to, made before the run; None = made in it.
        shaken: size of a noise on the weights, relative to each: what rounding leaves of them, a kernel's transform
            for instance, is the same in every run of the same weights.

    Attributes:
        places: the tensors that were added, [batch, position, d_model] each; empty where no embedding was seen.
    """

    def __init__(
        self,
        jitter: float = 0.0,
        *,
        gradient: bool = False,
        seed: int = 0,
        source: bool = False,
        place: Float[Tensor, "batch position d_model"] | None = None,
        shaken: float = 0.0,
    ) -> None:
        super().__init__()
        self.gradient = gradient
        self.places: list[Float[Tensor, "batch position d_model"]] = []
        self._place = place
        self._jitter = jitter
        self._shaken = shaken
        self._seed = seed
        self._source = source
        self._ids: Tensor | None = None
        self._generator = torch.Generator().manual_seed(seed)

    def again(self) -> Nudge:
        """The same nudge for another run."""
        return Nudge(self._jitter, gradient=self.gradient, seed=self._seed, source=self._source)

    def entering(self, given: Given) -> Given:
        """The input, with the nudge where it is vectors."""
        text = given.source if self._source else given.text
        self.places.clear()
        assert text is not None
        if not text.is_floating_point():
            self._ids = text
            return given
        moved = self._moved(text)
        return replace(given, source=moved) if self._source else replace(given, text=moved)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if self._shaken and getattr(func, "__name__", "") not in ("__get__", "__set__"):
            args = tuple(self._shaking(x) if isinstance(x, nn.Parameter) else x for x in args)
        out = func(*args, **(kwargs or {}))
        if func is not F.embedding or self._ids is None:
            return out
        ids = args[0] if args else (kwargs or {}).get("input")
        if not isinstance(ids, Tensor) or ids.shape != self._ids.shape:
            return out
        return self._moved(out) if torch.equal(ids, self._ids) else out

    def _shaking(self, x: Tensor) -> Tensor:
        if not x.is_floating_point():
            return x
        noise = torch.randn(x.shape, generator=self._generator, dtype=torch.float64)
        return (x.detach().double() * (1 + self._shaken * noise.to(x.device))).to(x.dtype)

    def _moved(self, x: Tensor) -> Tensor:
        if self._jitter:
            noise = torch.randn(x.shape, generator=self._generator, dtype=torch.float64)
            x = x + (x.detach().double().abs() * self._jitter * noise.to(x.device)).to(x.dtype)
        if not self.gradient:
            return x
        place = self._place
        if place is None:
            place = torch.zeros_like(x, requires_grad=True)
        if place.shape != x.shape:
            return x
        self.places.append(place)
        return x + place
