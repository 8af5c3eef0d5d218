"""What a flow is: who moves whom after each layer, measured, beside what the masks allow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float, Int

from headwise.names import LayerId
from headwise.see.record import Side

__all__ = ["Flow", "Leak"]


class Leak(NamedTuple):
    """A token that moves another where no path through the masks leads from it."""

    layer: LayerId
    query: int
    key: int
    moved: float


@dataclass(frozen=True, eq=False)
class Flow:
    """How far an edit of each token moves the residual stream at each token after each block. Made by `flow`.

    Attributes:
        model: its name.
        stream: "" or, in an encoder-decoder, "encoder", "decoder" or "cross" (the encoder's text is edited, the
            decoder's stream is looked at).
        layers: the blocks after which it was measured, in order.
        queries: the text whose stream is looked at.
        keys: the text that is edited.
        tried: the tokens of `keys` that were edited.
        moved: length of the largest change of the stream, as a share of the stream's own length there.
        floor: what rounding may move after each block: a smaller number is told from none.
        first: after how many layers the masks let each key into each query: 0 for a token itself, -1 never.
        draws: with how many other tokens each was replaced, one after the other.
        took: seconds.
    """

    model: str
    stream: str
    layers: tuple[LayerId, ...]
    queries: Side
    keys: Side
    tried: tuple[int, ...]
    moved: Float[np.ndarray, "layer query tried"]
    floor: Float[np.ndarray, " layer"]
    first: Int[np.ndarray, "query key"]
    draws: int
    took: float

    def __repr__(self) -> str:
        return f"Flow({self.model!r}, {len(self.layers)} layers, {self.says})"

    @property
    def allowed(self) -> Bool[np.ndarray, "layer query tried"]:
        """Whether a path through the masks of the layers up to each one leads from a key to a query."""
        first = self.first[:, list(self.tried)]
        after = np.arange(1, len(self.layers) + 1)[:, None, None]
        found: np.ndarray = (first >= 0) & (first <= after)
        return found

    @property
    def flows(self) -> Bool[np.ndarray, "layer query tried"]:
        """Whether an edit moved more than rounding does."""
        found: np.ndarray = self.moved > self.floor[:, None, None]
        return found

    @property
    def leaks(self) -> list[Leak]:
        """What flows where no path through the masks leads, the first layer first, there the largest first."""
        found = np.argwhere(self.flows & ~self.allowed)
        leaks = [
            Leak(self.layers[at], int(q), self.tried[k], float(self.moved[at, q, k]))
            for at, q, k in found
        ]
        order = {id: at for at, id in enumerate(self.layers)}
        return sorted(leaks, key=lambda leak: (order[leak.layer], -leak.moved))

    @property
    def clean(self) -> bool:
        """Whether nothing flows where the masks let nothing through."""
        return not bool((self.flows & ~self.allowed).any())

    @property
    def says(self) -> str:
        """What was tried, and what came out, in a sentence."""
        keys, length = len(self.tried), len(self.keys.tokens)
        which = f"all {keys} tokens were" if keys == length else f"{keys} of {length} tokens were"
        found = np.argwhere(self.flows & ~self.allowed)
        if not len(found):
            return f"{which} edited; nothing flows where the masks let nothing through"
        layer = self.layers[int(found[:, 0].min())]
        pairs = len({(int(q), int(k)) for _, q, k in found})
        told = "1 pair of tokens" if pairs == 1 else f"{pairs} pairs of tokens"
        return f"{which} edited; {told} let something through that the masks do not, from layer {layer} on"

    def as_dict(self, most: int = 200) -> dict[str, Any]:
        """As JSON takes it, without `moved` and `first`: facts, and at most so many leaks."""
        leaks = self.leaks
        return {
            "model": self.model,
            "stream": self.stream,
            "layers": [str(id) for id in self.layers],
            "tried": list(self.tried),
            "floor": [float(f"{x:.2e}") for x in self.floor],
            "leaks": [
                [str(one.layer), one.query, one.key, float(f"{one.moved:.3g}")]
                for one in leaks[:most]
            ],
            "num_leaks": len(leaks),
            "clean": self.clean,
            "draws": self.draws,
            "took": round(self.took, 1),
            "says": self.says,
        }
