"""The influence of each position on each output, measured twice: by edits at equal shape, and by gradients.

Edits see what has no gradient (routing, top-k, state); gradients see what is too small to show in values. Outputs
are projected on random directions before a gradient is taken, so that no sum over channels cancels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headwise.check.measuring.noise import Noise, noise_of
from headwise.check.measuring.nudge import Nudge
from headwise.check.reading.given import Given, Source

__all__ = ["Bench", "Sizes"]

Runs = Callable[[Given, Nudge | None], Float[Tensor, "batch position channel"]]

T = TypeVar("T")

_SHAKEN = 1e3
"""By so many times the rounding weights are moved, where a gradient is tried again."""

_TOGETHER = 24
"""So many rows run at once."""


@dataclass(frozen=True, eq=False)
class Sizes:
    """How large an influence is: [query, key], NaN where it was not measured."""

    values: Float[Tensor, "query key"]
    by: str

    def at(self, pairs: Tensor) -> float:
        """The largest among these pairs, 0 where none was measured."""
        held = self.values[pairs]
        held = held[~held.isnan()]
        return float(held.max()) if held.numel() else 0.0


@dataclass(frozen=True, eq=False)
class Bench:
    """One input of a model, run in one way, with one of its rows edited and looked at.

    Attributes:
        run: the model, in this way.
        given: the input; all rows stay as they are but for what is edited.
        source: where replacements come from.
        row: which row is edited.
        looked: which rows' outputs are looked at, one after the other; None = the edited row's.
        of_source: whether the encoder's text is edited, not the decoder's.
        fine: how the dtype of the run rounds, relative.
        together: so many rows run at once; as many as the input has = each edit runs alone.
    """

    run: Runs
    given: Given
    source: Source
    row: int = 0
    looked: tuple[int, ...] | None = None
    of_source: bool = False
    fine: float = torch.finfo(torch.float64).eps
    together: int = _TOGETHER
    _plain_runs: dict[int, Tensor] = field(default_factory=dict, init=False)

    @cached_property
    def noise(self) -> Noise:
        """How far rounding moves this input."""
        return noise_of(self._plain, self.fine)

    def _plain(self, nudge: Nudge | None) -> Float[Tensor, "1 query channel"]:
        return self._seen(self.run(self.given, nudge), 0)[None]

    def _seen(
        self, out: Float[Tensor, "row position channel"], copy: int
    ) -> Float[Tensor, "query channel"]:
        """What is looked at, in one of the copies of the input."""
        start = copy * self.given.batch
        return torch.cat([out[start + row] for row in self._looked])

    @property
    def _looked(self) -> tuple[int, ...]:
        return (self.row,) if self.looked is None else self.looked

    @property
    def queries(self) -> int:
        """How many outputs are looked at."""
        return len(self._looked) * self.given.length

    def at(self, queries: Bool[Tensor, " query"]) -> Bool[Tensor, "batch position"]:
        """Where in the batch these queries are."""
        found = torch.zeros(self.given.batch, self.given.length, dtype=torch.bool)
        for row, of_row in zip(self._looked, queries.split(self.given.length), strict=True):
            found[row] = of_row
        return found

    @property
    def base(self) -> Tensor:
        """The row that is edited [position(, d_model)]."""
        text = self.given.source if self.of_source else self.given.text
        assert text is not None
        return text[self.row]

    def edits(self, keys: Sequence[int], draws: Sequence[int]) -> Sizes:
        """The largest change of each query's output by an edit at each key, over several draws.

        Args:
            keys: positions to edit.
            draws: the numbers of the replacements that each is tried with.
        """
        sizes = torch.full((self.queries, self.base.shape[0]), torch.nan, dtype=torch.float64)
        todo = [(key, draw) for draw in draws for key in keys]
        for some in self._in_turns(todo):
            for (key, _), change in zip(some, self._changes(some), strict=True):
                size = change.abs().amax(-1)
                sizes[:, key] = torch.maximum(sizes[:, key].nan_to_num(0.0), size)
                sizes[:, key] = torch.where(size.isnan(), torch.inf, sizes[:, key])
        return Sizes(sizes, "edit")

    def change(
        self, key: int, draw: int, nudge: Nudge | None = None
    ) -> Float[Tensor, "query channel"]:
        """The change of all outputs by one edit, in a batch of as many rows as edits run in, no other edited."""
        return self._changes([(key, draw), *[None] * (self.copies - 1)], nudge)[0]

    def strongest(self, query: int, key: int, draws: Sequence[int]) -> int:
        """The draw of an edit at a key that moves a query most."""
        return max(draws, key=lambda draw: float(self.change(key, draw)[query].abs().max()))

    @property
    def copies(self) -> int:
        """How many edits run together."""
        return max(1, self.together // self.given.batch)

    def edited(self, edits: Sequence[tuple[int, int] | None]) -> Given:
        """The rows of the input once for each edit (key, draw), each with its edit; None leaves them."""
        given = self.given.repeated(len(edits))
        for i, edit in enumerate(edits):
            if edit is None:
                continue
            key, draw = edit
            value = self.source.another(self.base, salt=draw)[key]
            given = given.edited(i * self.given.batch + self.row, key, value, source=self.of_source)
        return given

    def _changes(
        self, edits: Sequence[tuple[int, int] | None], nudge: Nudge | None = None
    ) -> list[Float[Tensor, "query channel"]]:
        """The change by each edit, against a run of the same shape without any."""
        plain = self._unedited(len(edits), nudge)
        moved = self.run(self.edited(edits), nudge and nudge.again())
        return [self._seen(moved, i) - self._seen(plain, i) for i in range(len(edits))]

    def _unedited(self, copies: int, nudge: Nudge | None) -> Tensor:
        """The input so many times; without a nudge it is run once for each number."""
        if nudge is not None:
            return self.run(self.given.repeated(copies), nudge.again())
        if copies not in self._plain_runs:
            self._plain_runs[copies] = self.run(self.given.repeated(copies), None)
        return self._plain_runs[copies]

    def plain(self) -> Float[Tensor, "query channel"]:
        """The outputs looked at, nothing edited."""
        return self._seen(self._unedited(1, None), 0)

    def changes(self, sets: Sequence[Bool[Tensor, " key"]]) -> list[Float[Tensor, " query"]]:
        """The largest change of each query's output with all positions of a set edited at once, for each set."""
        value = self.source.another(self.base, salt=0)
        found: list[Tensor] = []
        for some in self._in_turns(sets):
            given = self.given.repeated(len(some))
            for i, keys in enumerate(some):
                for key in keys.nonzero().flatten().tolist():
                    row = i * self.given.batch + self.row
                    given = given.edited(row, key, value[key], source=self.of_source)
            plain, moved = self._unedited(len(some), None), self.run(given, None)
            differences = (self._seen(moved, i) - self._seen(plain, i) for i in range(len(some)))
            found += [difference.abs().amax(-1).cpu() for difference in differences]
        return found

    def silent(self, blocks: Sequence[tuple[Bool[Tensor, " query"], Bool[Tensor, " key"]]]) -> bool:
        """Whether no gradient leads from any block's outputs to its positions; True where none can be taken."""
        for some in self._in_turns(blocks):
            nudge = Nudge(gradient=True, source=self.of_source)
            out = self.run(self.given.repeated(len(some)), nudge)
            if not out.requires_grad or not nudge.places:
                return True
            total = sum(
                (self._seen(out, i)[queries] * self._directions(out)[queries].to(out.device)).sum()
                for i, (queries, _) in enumerate(some)
            )
            found = torch.autograd.grad(total, nudge.places, allow_unused=True)  # type: ignore[arg-type]
            for i, (_, keys) in enumerate(some):
                row = self.row + i * self.given.batch
                held = [g[row][keys.to(g.device)] for g in found if g is not None]
                if any(bool((g != 0).any()) for g in held):
                    return False
        return True

    def _in_turns(self, items: Sequence[T]) -> Iterator[Sequence[T]]:
        """So many as run together."""
        return (items[at : at + self.copies] for at in range(0, len(items), self.copies))

    def _directions(self, out: Tensor) -> Float[Tensor, "query channel"]:
        generator = torch.Generator().manual_seed(3)
        shape = (self.queries, out.shape[-1])
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    def gradients(self, queries: Sequence[int]) -> Sizes | None:
        """The size of the gradient of each query's output to each position; None where none can be taken."""
        sizes = torch.full((self.queries, self.base.shape[0]), torch.nan, dtype=torch.float64)
        for some in self._in_turns(list(queries)):
            found = self._gradients(some)
            if found is None:
                return None
            for query, gradient in zip(some, found, strict=True):
                sizes[query] = gradient.norm(dim=-1)
        return Sizes(sizes, "gradient")

    def gradient(
        self, query: int, seed: int = 0, jitter: float = 0.0
    ) -> Float[Tensor, "key channel"] | None:
        """The gradient of one query's output, in a batch of as many rows as run together, under a jitter."""
        found = self._gradients([query, *[None] * (self.copies - 1)], seed, jitter)
        return None if found is None else found[0]

    def _gradients(
        self, queries: Sequence[int | None], seed: int = 0, jitter: float = 0.0
    ) -> list[Float[Tensor, "key channel"]] | None:
        shaken = min(_SHAKEN * jitter, 1e-3)
        nudge = Nudge(jitter, gradient=True, seed=seed, source=self.of_source, shaken=shaken)
        out = self.run(self.given.repeated(len(queries)), nudge)
        if not out.requires_grad or not nudge.places:
            return None
        direction = _direction(out.shape[-1], seed, jitter).to(out.device)
        chosen = [self._seen(out, i)[q] for i, q in enumerate(queries) if q is not None]
        total = (torch.stack(chosen) @ direction).sum()
        found = torch.autograd.grad(total, nudge.places, allow_unused=True)
        held = [g for g in found if g is not None]
        if not held:
            return None
        rows = [self.row + i * self.given.batch for i in range(len(queries))]
        return [torch.cat([g[row].double() for g in held], dim=-1).cpu() for row in rows]


def _direction(channels: int, seed: int, jitter: float) -> Float[Tensor, " channel"]:
    """A random direction; jittered, also in its size, so that what rounding leaves is rounded anew."""
    generator = torch.Generator().manual_seed(1)
    direction = torch.randn(channels, generator=generator, dtype=torch.float64)
    if not jitter:
        return direction
    noise = torch.Generator().manual_seed(100 + seed)
    jittered = torch.randn(channels, generator=noise, dtype=torch.float64)
    return direction * (1 + 0.0837 * seed) * (1 + jitter * jittered)
