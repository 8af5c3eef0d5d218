"""A model that was regrouped, and what it cost: the loss before and after, and the bytes of its cache."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from headwise.cut.losses import Loss
from headwise.hub.load import Model
from headwise.names import LayerId

__all__ = ["Regrouped", "Regrouping"]


@dataclass(frozen=True)
class Regrouping:
    """What was done to a model's key/value heads.

    Attributes:
        how: "aligned", "mean", "first" or "random".
        before, after: KV heads of each layer, by the layer.
        groups: of each layer, which of the KV heads it had share one now.
        before_bytes, after_bytes: of keys and values in the cache, for each token.
        loss_before, loss_after: over the texts; None where none were given, or the model predicts no token.
    """

    how: str
    before: Mapping[LayerId, int]
    after: Mapping[LayerId, int]
    groups: Mapping[LayerId, tuple[tuple[int, ...], ...]]
    before_bytes: int
    after_bytes: int
    loss_before: Loss | None = None
    loss_after: Loss | None = None

    def as_dict(self) -> Mapping[str, Any]:
        """All of it as plain data."""
        plain = {name: getattr(self, name) for name in ("how", "before_bytes", "after_bytes")}
        for name in ("before", "after"):
            plain[name] = {str(id): number for id, number in getattr(self, name).items()}
        plain["groups"] = {str(id): [list(g) for g in held] for id, held in self.groups.items()}
        for name in ("loss_before", "loss_after"):
            loss = getattr(self, name)
            plain[name] = None if loss is None else asdict(loss)
        return plain


@dataclass(frozen=True, eq=False)
class Regrouped(Model):
    """A `Model` with fewer key/value heads.

    Attributes:
        regrouping: what was done, and what it cost.
    """

    regrouping: Regrouping | None = field(default=None)
