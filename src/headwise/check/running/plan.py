"""What all checks of one audit share: the subject, what may be seen, what is edited, and how it is run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headwise.check.measuring.influence import Runs
from headwise.check.reading.given import Given, Source
from headwise.check.running.subject import IMPLEMENTATIONS, Subject
from headwise.core.masks import Mask

__all__ = ["Plan", "Way", "ways"]


@dataclass(frozen=True)
class Way:
    """One way to run a model, whose information must flow as in any other."""

    training: bool = False
    weights: bool = False
    attention: str | None = None

    @property
    def title(self) -> str:
        """In a few words; "" for the plain way."""
        said = ["train"] if self.training else []
        said += ["with weights"] if self.weights else []
        return ", ".join(said + ([self.attention] if self.attention else []))

    def runs(self, subject: Subject, *, fresh: bool = True) -> Runs:
        """The subject, run in this way; on a fresh copy each time, or always on this very one."""
        return lambda given, nudge: subject.run(
            given,
            training=self.training,
            weights=self.weights,
            attention=self.attention,
            nudge=nudge,
            fresh=fresh,
        )


def ways(subject: Subject) -> Iterator[Way]:
    """The plain way, then each other in which the model can be run."""
    yield Way()
    if subject.module is not None and subject.fresh().own:
        yield Way(training=True)
    if "weights" in subject.takes:
        yield Way(weights=True)
    if subject.signature.foreign:
        module = subject.module
        now = getattr(getattr(module, "config", None), "_attn_implementation", None)
        for other in IMPLEMENTATIONS:
            if other != now and subject.can_choose(other):
                yield Way(attention=other)


@dataclass(frozen=True, eq=False)
class Plan:
    """What the checks of one audit share.

    Attributes:
        subject: what is audited, prepared.
        coarse: the same in its own dtype, for what cannot be told in float64.
        given: one row of input.
        draws_from: where the text's replacements come from.
        memory_from: the same of the encoder's text; None without one, or where it is not ids or vectors.
        allowed: whose input may be in whose output.
        windows: the mask of each layer that the model's config names; empty without windows.
        opens: after how many layers a path is open, -1 never; None where layers make no difference.
        keys: positions that are edited.
        queries: positions whose gradients are taken.
        blocks: of how many blocks of forbidden pairs a quick look looks at most.
        draws: replacements each edit is tried with.
        seed: of what is drawn.
        longer: the same for a longer text; None where the text was given.
    """

    subject: Subject
    coarse: Subject | None
    given: Given
    draws_from: Source
    memory_from: Source | None
    allowed: Bool[Tensor, "query key"]
    windows: tuple[Mask, ...]
    opens: Int[Tensor, "query key"] | None
    keys: tuple[int, ...]
    queries: tuple[int, ...]
    blocks: int
    draws: int
    seed: int
    longer: Plan | None = None

    @property
    def length(self) -> int:
        """Positions of the text."""
        return self.given.length

    @property
    def causal(self) -> bool:
        """Whether nothing later may be seen."""
        return not bool(self.allowed.triu(1).any())

    def two_rows(self, number: int) -> Given:
        """Two rows of input, others for each number; the audit's own row is the first of number 0."""
        text, source = self.given.text, self.given.source
        drawn = self.draws_from.draw(2, self.length, salt=31 + number).to(text)
        if number == 0:
            drawn = torch.cat([text, drawn[1:]])
        if source is not None and self.memory_from is not None:
            source = self.memory_from.draw(2, source.shape[1], salt=61 + number).to(source)
        elif source is not None:
            source = torch.cat([source, source])
        return Given(drawn, source=source)

    def few(self, positions: tuple[int, ...], most: int = 4) -> tuple[int, ...]:
        """A few of these positions, first and last among them."""
        return spread(positions, most)


def spread(positions: tuple[int, ...], most: int) -> tuple[int, ...]:
    """At most so many of these positions, evenly, the first and the last among them."""
    if len(positions) <= most:
        return positions
    picks = torch.linspace(0, len(positions) - 1, most).round().long().tolist()
    return tuple(positions[i] for i in picks)
