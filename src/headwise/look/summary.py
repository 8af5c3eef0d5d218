"""What each head does most on one text."""

from __future__ import annotations

from dataclasses import dataclass

from headwise.names import HeadId

DOES = ("previous", "self", "first", "same token", "spread", "other")


@dataclass(frozen=True)
class Cell:
    """One cell of a pattern: the query token at `query` looks at the key token at `key` with `weight`."""

    query: int
    key: int
    weight: float


@dataclass(frozen=True)
class HeadSummary:
    """One head on one text.

    `does` is one of DOES, `mass` the mean attention that backs it, `masses` the same for every rule,
    `top` its strongest cells other than first token, self and previous, strongest first.
    """

    id: HeadId
    kv_group: int
    does: str
    mass: float
    masses: dict[str, float]
    top: tuple[Cell, ...]
