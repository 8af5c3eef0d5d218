"""A text read through the cache, against the same text read at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool
from torch import Tensor

from headwise.check.comparing.exact import Runner, runner_of
from headwise.check.comparing.pieces import cut, hidden_left, read_pieces, real_of, way_through
from headwise.check.comparing.sides import Draw, Locate, Side, Sides
from headwise.check.comparing.verdict import Asking, Pair, compared, first_line, gap
from headwise.check.reading.given import Given, positions_of
from headwise.check.running.caching import Way
from headwise.check.running.subject import Subject
from headwise.check.telling.report import Outcome
from headwise.names import ModelError

__all__ = ["through_cache"]

Sizes = Callable[[int, int], Sequence[int]]
"""How a text of so many positions is cut, of which the first so many may be padding: that comes in one piece with
what follows, as a prompt does, for no decoder is given padding alone."""


def through_cache(
    dimension: str,
    words: str,
    sizes: Sizes,
    subject: Subject,
    draw: Draw,
    *,
    causal: bool,
    locate: Locate | None,
) -> list[Outcome]:
    """The outcomes of reading pieces of these sizes: of texts alone, and with padding on the left.

    Args:
        dimension: the dimension.
        words: what is compared, in words.
        sizes: how the text is cut.
        subject: what is audited.
        draw: an input for each number.
        causal: whether the declared mask hides what comes later; where it does not, no cache can do.
        locate: names the module in which both ways part.
    """
    if not causal:
        says = "what is declared sees later positions, which a cache has not read yet"
        return [Outcome(dimension, "", "skipped", says)]
    given = draw(0)
    runner = runner_of(subject, given)
    try:
        way = runner.within(lambda: way_through(subject, given))
    except ModelError as error:
        return [Outcome(dimension, "", "skipped", str(error))]
    except Exception as error:  # a model raises whatever it met
        return [Outcome(dimension, "", "unknown", f"its cache raised {first_line(error)}")]
    readings = {"": _Reading(runner, way, sizes, draw)}
    if "padding" in subject.takes and "left" in subject.signature.sides:
        readings["left"] = _Reading(runner, way, sizes, lambda salt: hidden_left(draw(salt)))
    return [
        compared(dimension, case, x.pair, words, Asking(locate, x.sides, x.hint, subject.large))
        for case, x in readings.items()
    ]


@dataclass(frozen=True, eq=False)
class _Reading:
    """One way to read: in these pieces, of these texts."""

    runner: Runner
    way: Way
    sizes: Sizes
    draw: Draw

    def pair(self, salt: int) -> Pair:
        """What is given at once and in pieces, and whether it depends on what was read before."""
        given = self.draw(salt)
        whole = self.runner.run(given)
        moved = gap(whole, self.runner.run(self._others_before(salt)))
        at = real_of(given).to(whole.device)
        pieces = self._pieces(given)
        noise = self.runner.noise(given, whole, float(gap(whole, pieces).where(at, 0.0).max()))
        still = ""
        if float(moved[:, -1].max()) <= noise.sure:
            still = "the last output does not depend on what comes before it, so no cache is tested"
        moves = float(moved.where(at, 0.0).max())
        return Pair(salt, whole, pieces, at, moves, noise, still)

    def sides(self, pair: Pair, at: Bool[Tensor, "batch position"]) -> Sides:
        """Both ways again, on copies of their own."""
        given = self.draw(pair.salt)
        one, other = self.runner.subject.fresh(), self.runner.subject.fresh()
        sizes = self._sizes(given)
        within = self.runner.within
        return Sides(
            Side(one, lambda: within(lambda: one.call(given)), (given.length,)),
            Side(
                other,
                lambda: within(lambda: read_pieces(other, given, self.way, sizes)),
                sizes,
            ),
            at,
            pair.tolerance,
        )

    def hint(self, pair: Pair) -> str:
        """What a further run tells about a difference."""
        moved = gap(pair.other, self._pieces(self._others_before(pair.salt)))[:, -1]
        if float(moved.max()) <= pair.sure:
            names = " or ".join(self.way.names)
            return f"; nothing that was read before comes in: {names} is handed over and not used"
        given = self.draw(pair.salt)
        if "positions" in self.runner.subject.takes and given.real is None:
            told = gap(pair.one, self._pieces(given, told=True)).where(pair.at, 0.0)
            if float(told.max()) <= pair.sure:
                return "; told the positions it agrees: it counts them wrongly from its cache"
        half = given.length // 2
        start = gap(self.runner.run(cut(given, 0, half)), pair.one[:, :half])
        if float(start.where(pair.at[:, :half], 0.0).max()) > pair.sure:
            return (
                "; read at once, a shorter text differs too: later positions or its length come in"
            )
        return ""

    def _sizes(self, given: Given) -> tuple[int, ...]:
        return tuple(self.sizes(given.length, int((~real_of(given)).sum(-1).max())))

    def _others_before(self, salt: int) -> Given:
        """The same last position after another text."""
        given, other = self.draw(salt), self.draw(salt + 10)
        return replace(given, text=torch.cat((other.text[:, :-1], given.text[:, -1:]), dim=1))

    def _pieces(self, given: Given, *, told: bool = False) -> Tensor:
        copy = self.runner.subject.fresh()
        if told:
            named = {"position_ids": positions_of(given)}
            copy = replace(copy, others={**copy.others, **named})
        sizes = self._sizes(given)
        out: Tensor = self.runner.within(lambda: read_pieces(copy, given, self.way, sizes))
        return out
