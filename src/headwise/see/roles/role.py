"""What flows out of `roles`: the evidence of every head for every probe, and which of it makes a role."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from headwise.names import ConfigError, HeadError, HeadId, spans

if TYPE_CHECKING:
    import pandas as pd
    import xarray as xr

__all__ = ["QUIET", "Role", "Roles"]

QUIET = ("first", "separator", "delimiter")
"""Sinks: roles that most heads have, told like others and shown only where a head has no role beside them."""


@dataclass(frozen=True)
class Role:
    """One head on one probe, with the evidence for it, of the reporting half of the texts.

    Attributes:
        head: which.
        probe: by name.
        score: its mean attention to the keys named, or its share of hits, as `by` says.
        low: of the 95 % interval of the score; NaN with fewer than 5 texts.
        high: of the same.
        sure: the low end of the interval widened for all that were tried; a role where it is above the baseline.
        baseline: the largest score of a rule that takes no knowledge of the text.
        baseline_is: which rule: "uniform", "offset -1", "the first", "the last", or another the probe has.
        mass: mean attention to the keys named.
        hits: share of cases whose most attended key is one of them.
        cases: how many queries count.
        unseen: how many do not, since what they should look at may not be seen (it lies ahead, in a causal model).
        texts: with a case.
        claimed: whether it is a role.
        by: "mass" or "hits": what the score is.
        says: the probe's rule in words.
    """

    head: HeadId
    probe: str
    score: float
    low: float
    high: float
    sure: float
    baseline: float
    baseline_is: str
    mass: float
    hits: float
    cases: int
    unseen: int
    texts: int
    claimed: bool
    by: str
    says: str

    @property
    def above(self) -> float:
        """How far the score is above the baseline, as a share of how far it could be."""
        return (self.score - self.baseline) / (1 - self.baseline) if self.baseline < 1 else 0.0


@dataclass(frozen=True, eq=False)
class Roles:
    """What every head is, with the evidence. Made by `roles`.

    Attributes:
        evidence: Dataset over (probe, layer, head): a variable for each number of a `Role`, and `chosen`, the
            score in the half of the texts by which heads are chosen; `attrs` hold the model, `tried` (how many
            pairs of probe and head were tested), `level` and the rules in words.
    """

    evidence: xr.Dataset

    def __repr__(self) -> str:
        attrs = self.evidence.attrs
        return f"Roles({attrs['model']!r}, {len(self.claimed)} claimed of {attrs['tried']} tried)"

    @property
    def model(self) -> str:
        """The model's name."""
        return str(self.evidence.attrs["model"])

    @property
    def tried(self) -> int:
        """How many pairs of probe and head were tested."""
        return int(self.evidence.attrs["tried"])

    @property
    def notes(self) -> tuple[str, ...]:
        """What kept probes from being judged, a line each."""
        return tuple(self.evidence.attrs["notes"])

    @property
    def probes(self) -> list[str]:
        """Names of the probes, in the order of the tables."""
        return [str(name) for name in self.evidence["probe"].values]

    @property
    def streams(self) -> list[str]:
        """The model's stacks; [""] where it has one."""
        return list(dict.fromkeys(id.stream for id in self.heads))

    @cached_property
    def heads(self) -> list[HeadId]:
        """All heads, in order."""
        return [self._id(i, h) for i, h in np.argwhere(self._there).tolist()]

    @cached_property
    def claimed(self) -> list[Role]:
        """All roles: of each probe in its order, the heads that beat the baseline most first."""
        found = [self._role(*at) for at in np.argwhere(self.evidence["claimed"].values).tolist()]
        order = {name: i for i, name in enumerate(self.probes)}
        return sorted(found, key=lambda role: (order[role.probe], -role.above))

    def best(self, probe: str, n: int = 3, stream: str | None = None) -> list[Role]:
        """The n heads with most score on a probe in the half that chooses, as the other half reports them.

        Args:
            probe: by name.
            n: how many at most.
            stream: of an encoder-decoder, "encoder", "decoder" or "cross"; None = all.

        Raises:
            ConfigError: no such probe, or no such stream.
        """
        at = self._probe(probe)
        if stream is not None and stream not in self.streams:
            streams = ", ".join(map(repr, self.streams))
            raise ConfigError(f"{self.model} has no stream {stream!r}; there are {streams}")
        chosen = self.evidence["chosen"].values[at]
        scores = self.evidence["score"].values[at]
        by = np.where(np.isnan(chosen), -1.0, chosen)
        order = [divmod(int(i), by.shape[1]) for i in np.argsort(-by, axis=None, kind="stable")]
        known = (place for place in order if not math.isnan(scores[place]))
        wanted = [p for p in known if stream is None or self._id(*p).stream == stream]
        return [self._role(at, *place) for place in wanted[: max(0, n)]]

    def of(self, head: str | HeadId) -> list[Role]:
        """All that is known of one head: its score on each probe, the most above its baseline first.

        Raises:
            HeadError: not a head id, or not a head of this model.
        """
        place = self._place(head)
        known = ~np.isnan(self.evidence["score"].values[(slice(None), *place)])
        found = [self._role(int(at), *place) for at in np.flatnonzero(known)]
        return sorted(found, key=lambda role: (not role.claimed, -role.above))

    def main(self, head: str | HeadId) -> Role | None:
        """The role a picture shows: of those claimed the one most above its baseline, a sink's only where alone.

        Raises:
            HeadError: not a head id, or not a head of this model.
        """
        self._place(head)
        return self._main.get(HeadId.parse(head))

    def to_dataset(self) -> xr.Dataset:
        """The evidence."""
        return self.evidence

    def table(self) -> pd.DataFrame:
        """One row for each probe and head with a case."""
        from headwise.see.roles.files import table

        return table(self)

    def save(self, path: str | Path) -> None:
        """Write to a .csv (every pair of probe and head), .json, .md (the best head of each) or .nc file (all).

        Raises:
            OutputError: the file cannot be written, or its name says no kind of table.
        """
        from headwise.see.roles.files import save_roles

        save_roles(self, path)

    def pairs(self) -> Iterator[Role]:
        """Every probe and head with a case."""
        for at in np.argwhere(~np.isnan(self.evidence["score"].values)).tolist():
            yield self._role(*at)

    @cached_property
    def _main(self) -> dict[HeadId, Role]:
        found: dict[HeadId, Role] = {}
        for role in sorted(self.claimed, key=lambda r: (r.probe not in QUIET, r.above)):
            found[role.head] = role  # the last one stays
        return found

    @cached_property
    def _there(self) -> np.ndarray:
        there: np.ndarray = self.evidence["kv_group"].values >= 0
        return there

    def _id(self, layer: int, head: int) -> HeadId:
        return HeadId.parse(f"{self._held['layer'][layer]}.{head}")

    def _place(self, head: str | HeadId) -> tuple[int, int]:
        id = HeadId.parse(head)
        layers = [str(layer) for layer in self.evidence["layer"].values]
        if str(id.layer_id) not in layers:
            raise HeadError(
                f"there is no head {id}: the heads of {self.model} are {spans(self.heads)}"
            )
        layer = layers.index(str(id.layer_id))
        own = np.flatnonzero(self._there[layer])
        if id.head not in own:
            raise HeadError(
                f"there is no head {id}: layer {id.layer_id} has the heads {id.layer_id.head(int(own[0]))} "
                f"to {id.layer_id.head(int(own[-1]))}"
            )
        return layer, id.head

    def _probe(self, name: str) -> int:
        if name not in self.probes:
            raise ConfigError(f"there is no probe {name!r}; there are {', '.join(self.probes)}")
        return self.probes.index(name)

    def _role(self, probe: int, layer: int, head: int) -> Role:
        at, held = (probe, layer, head), self._held
        number: dict[str, Any] = {name: float(held[name][at]) for name in _NUMBERS}
        number |= {name: int(held[name][at]) for name in _COUNTS}
        return Role(
            head=self._id(layer, head),
            probe=str(held["probe"][probe]),
            **number,
            baseline_is=str(held["baseline_is"][at]),
            claimed=bool(held["claimed"][at]),
            by=str(held["by"][probe]),
            says=str(held["says"][probe]),
        )

    @cached_property
    def _held(self) -> dict[str, np.ndarray]:
        """The evidence as plain arrays, which are read many times."""
        return {str(name): values.values for name, values in self.evidence.variables.items()}


_NUMBERS = ("score", "low", "high", "sure", "baseline", "mass", "hits")
_COUNTS = ("cases", "unseen", "texts")
