"""What the probes of units ask of one batch: views of its texts, and cases in them."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import torch
from jaxtyping import Int
from torch import Tensor

from headwise.core.units import Cases
from headwise.see.probes.probe import Probe, Ranges
from headwise.see.record import Side

__all__ = ["Linked", "Linking"]


@dataclass(frozen=True, eq=False)
class Linked:
    """The cases of one batch, in the order of `Cases`.

    Attributes:
        cases: what to measure.
        probe: whose case it is, as its number among the probes asked for.
        text: the row of the batch.
        offset: how many units each named one is from the unit that looks; meaningless where there is none.
        behind: how many units begin before the one that looks.
        ahead: how many there are from it to the last.
    """

    cases: Cases
    probe: Int[Tensor, " case"]
    text: Int[Tensor, " case"]
    offset: Int[Tensor, "case named"]
    behind: Int[Tensor, " case"]
    ahead: Int[Tensor, " case"]

    def to(self, device: torch.device) -> Linked:
        """The same on a device."""
        moved = (
            x.to(device) for x in (self.probe, self.text, self.offset, self.behind, self.ahead)
        )
        return Linked(self.cases.to(device), *moved)


@dataclass(eq=False)
class Linking:
    """Gathers the cases of a batch, text after text.

    Args:
        probes: of units, with their numbers.
        keys: how many keys the calls have, padding included.
    """

    probes: Sequence[tuple[int, Probe]]
    keys: int
    batch_of: list[int] = field(default_factory=list)
    views: list[Ranges] = field(default_factory=list)
    rows: dict[tuple[int, int], tuple[int, int, int]] = field(default_factory=dict)
    cases: list[tuple[int, int, int, tuple[int, ...]]] = field(default_factory=list)

    def add(self, text: int, queries: Side, keys: Side, own_text: bool) -> None:
        """The cases of one text: a row of the batch and its two sides."""
        probes = [(p, probe) for p, probe in self.probes if own_text or probe.across]
        for units in dict.fromkeys(probe.units for _, probe in probes):
            ranges = ((), ()) if units is None else units(queries, keys)
            if not len(ranges[0]) or not len(ranges[1]):
                continue
            view, before = len(self.views), len(self.cases)
            for p, probe in probes:
                if probe.units is units:
                    self._of_probe(p, view, probe.links(queries, keys, ranges), ranges)
            if len(self.cases) > before:
                self.batch_of.append(text)
                self.views.append(ranges[1])

    def _of_probe(
        self,
        p: int,
        view: int,
        links: Iterable[tuple[int, ...]],
        ranges: tuple[Ranges, Ranges],
    ) -> None:
        for unit, named in enumerate(links):
            if not named:
                continue
            if (view, unit) not in self.rows:
                first, last = ranges[0][unit]
                place = bisect_left(ranges[1], (first, first))  # how many keys begin before
                self.rows[view, unit] = first, last, place
            self.cases.append((p, view, unit, named))

    def linked(self) -> Linked | None:
        """All of them; None where there is none."""
        if not self.cases:
            return None
        order = sorted(self.rows, key=lambda row: self.rows[row][0])
        row_of = {row: i for i, row in enumerate(order)}
        first, last, place = torch.tensor([self.rows[row] for row in order]).unbind(1)
        probe, view, _ = torch.tensor([case[:3] for case in self.cases]).unbind(1)
        row = torch.tensor([row_of[case[1], case[2]] for case in self.cases])
        named = torch.nn.utils.rnn.pad_sequence(
            [torch.tensor(case[3]) for case in self.cases], batch_first=True, padding_value=-1
        )
        batch_of, sizes = torch.tensor(self.batch_of), torch.tensor([len(v) for v in self.views])
        own = [
            at if at < len(keys) and tuple(keys[at]) == (a, z) else -1
            for (a, z, at), keys in ((self.rows[r], self.views[r[0]]) for r in order)
        ]
        cases = Cases(
            batch_of,
            self._unit_of_key(),
            int(sizes.max()),
            torch.tensor([view for view, _ in order]),
            first,
            last - first,
            torch.tensor(own),
            row,
            named,
        )
        at = place[row]
        offset, ahead = named - at[:, None], sizes[view] - 1 - at
        return Linked(cases, probe, batch_of[view], offset, at, ahead)

    def _unit_of_key(self) -> Tensor:
        units = torch.full((len(self.views), self.keys), max(map(len, self.views)))
        for row, ranges in zip(units, self.views, strict=True):
            for i, (first, last) in enumerate(ranges):
                row[first:last] = i
        return units
