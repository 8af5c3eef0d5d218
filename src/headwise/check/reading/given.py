"""What a model under audit is given: one input at one shape, drawn so that nothing in it hides a leak."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int, Shaped
from torch import Tensor

__all__ = ["COPIED", "SHORTEST", "Given", "Source", "positions_of"]

COPIED = -1
"""The number of the draw that copies another position."""

SHORTEST = 6
"""Positions that a text needs for earlier and later ones to be told apart."""


@dataclass(frozen=True, eq=False)
class Given:
    """One input. What a model does not take is left out on the way in.

    Attributes:
        text: ids [batch, position] or vectors [batch, position, d_model]; in an encoder-decoder what the decoder
            reads.
        real: False = padding; None = all is real.
        documents: the document of each position, where a row packs several; None = one.
        source: what the encoder reads, ids or vectors (or features), None without one.
        source_real: False = padding in the source.
    """

    text: Shaped[Tensor, "batch position *d_model"]
    real: Bool[Tensor, "batch position"] | None = None
    documents: Int[Tensor, "batch position"] | None = None
    source: Shaped[Tensor, "batch source *d_source"] | None = None
    source_real: Bool[Tensor, "batch source"] | None = None

    @property
    def batch(self) -> int:
        """How many rows."""
        return self.text.shape[0]

    @property
    def length(self) -> int:
        """How many positions."""
        return self.text.shape[1]

    def repeated(self, rows: int) -> Given:
        """The same rows again and again, `rows` times."""
        return self._each(lambda x: torch.cat([x] * rows))

    def row(self, row: int) -> Given:
        """One row alone."""
        return self._each(lambda x: x[row : row + 1])

    def edited(
        self, row: int, position: int, value: Shaped[Tensor, "*d_model"], *, source: bool = False
    ) -> Given:
        """The same with another id or vector at one place of the text, or of the source."""
        old = self.source if source else self.text
        assert old is not None
        new = old.clone()
        new[row, position] = value
        return replace(self, source=new) if source else replace(self, text=new)

    def to(self, device: torch.device | str, dtype: torch.dtype) -> Given:
        """On a device; vectors in a dtype."""

        def moved(x: Tensor) -> Tensor:
            return x.to(device, dtype) if x.is_floating_point() else x.to(device)

        return self._each(moved)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Given:
        rest = (self.real, self.documents, self.source, self.source_real)
        return Given(change(self.text), *(None if x is None else change(x) for x in rest))


@dataclass(frozen=True)
class Source:
    """Where inputs come from: what ids or vectors may be drawn.

    Attributes:
        ids: the ids that may be drawn; None where vectors are read.
        width: channels of a vector; None where ids are read.
        seed: of the draws.
    """

    ids: Int[Tensor, " id"] | None
    width: int | None
    seed: int

    def draw(self, rows: int, length: int, *, salt: int = 0) -> Tensor:
        """Ids [rows, length] that are all different where there are enough, or vectors [rows, length, width]."""
        generator = torch.Generator().manual_seed(1_000_003 * self.seed + salt)
        if self.ids is None:
            return torch.randn(rows, length, self.width or 1, generator=generator).double()
        wanted = rows * length
        order = torch.randperm(len(self.ids), generator=generator)
        times = -(-wanted // len(self.ids))
        return self.ids[order.repeat(times)[:wanted]].view(rows, length)

    def another(self, text: Tensor, *, salt: int) -> Tensor:
        """For each position of a row [position(, d_model)] a value that it is replaced by, found nowhere in it.

        With salt=COPIED it is one that stands at another position of the row.
        """
        length = text.shape[0]
        if salt == COPIED:
            return text.roll(-(length // 3 + 1), 0)
        drawn = self.draw(1, length + text.numel(), salt=salt + 7)[0]
        if self.ids is None:
            return 2 * drawn[:length].to(text)
        fresh = drawn[~torch.isin(drawn, text.cpu())]
        if not len(fresh):  # a vocabulary as small as the text: any other id
            fresh = self.ids
        other = fresh[torch.arange(length) % len(fresh)].to(text)
        turned = fresh.roll(1)[torch.arange(length) % len(fresh)].to(text)
        return torch.where(other == text, turned, other)


def positions_of(given: Given) -> Int[Tensor, "batch position"]:
    """The position of each token among the real ones of its row or document, 0 at padding."""
    shape = given.text.shape[:2]
    real = torch.ones(shape, dtype=torch.long) if given.real is None else given.real.long().cpu()
    counted = real.cumsum(-1) - 1
    if given.documents is not None:
        ids = given.documents.cpu()
        starts = torch.ones(shape, dtype=torch.bool)
        starts[:, 1:] = ids[:, 1:] != ids[:, :-1]
        counted = counted - torch.where(starts, counted, 0).cummax(-1).values
    return counted.clamp_min(0).to(given.text.device)
