"""With the weights asked for against without, and each attention implementation against the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jaxtyping import Bool
from torch import Tensor

from headwise.check.comparing.exact import Runner, runner_of
from headwise.check.comparing.pieces import hidden_left, real_of
from headwise.check.comparing.sides import Draw, Locate, Side, Sides
from headwise.check.comparing.verdict import Asking, Pair, compared, gap
from headwise.check.running.subject import IMPLEMENTATIONS, Subject
from headwise.check.telling.report import Outcome

__all__ = ["check_weights"]


def check_weights(subject: Subject, draw: Draw, *, locate: Locate | None = None) -> list[Outcome]:
    """Whether asking for weights, or another attention implementation, changes what comes out.

    Args:
        subject: what is audited.
        draw: an input for each number.
        locate: names the module in which both ways part.
    """
    chosen = [name for name in IMPLEMENTATIONS if subject.can_choose(name)]
    base = {"attention": chosen[0]} if chosen else {}
    ways: dict[str, tuple[dict[str, Any], str]] = {}
    if "weights" in subject.takes:
        ways["asked"] = ({**base, "weights": True}, "with and without the weights asked for")
    for name in chosen[1:]:
        ways[name] = ({"attention": name}, f"{chosen[0]} and {name} attention")
    if not ways:
        says = "it cannot be asked for weights, and has one way to attend"
        return [Outcome("weights", "", "skipped", says)]
    outcomes = []
    for case, (how, words) in ways.items():
        for title, drawn in _inputs(subject, draw, case).items():
            runner = runner_of(subject, drawn(0))
            both = _Both(runner, drawn, base, how)
            outcomes.append(
                compared(
                    "weights",
                    title,
                    both.pair,
                    words,
                    Asking(locate, both.sides, brief=subject.large),
                )
            )
    return outcomes


@dataclass(frozen=True, eq=False)
class _Both:
    """Two ways to run the same input."""

    runner: Runner
    draw: Draw
    one: Mapping[str, Any] = field(default_factory=dict)
    other: Mapping[str, Any] = field(default_factory=dict)

    def pair(self, salt: int) -> Pair:
        """Both outputs."""
        given = self.draw(salt)
        one = self.runner.run(given, **self.one)
        other = self.runner.run(given, **self.other)
        at = real_of(given).to(one.device)
        moved = gap(one, self.runner.run(self.draw(salt + 10), **self.one)).where(at, 0.0)
        apart = float(gap(one, other).where(at, 0.0).max())
        noise = self.runner.noise(given, one, apart, **self.one)
        return Pair(salt, one, other, at, float(moved.max()), noise)

    def sides(self, pair: Pair, at: Bool[Tensor, "batch position"]) -> Sides:
        """Both ways again, on copies of their own."""
        return Sides(self._side(pair, self.one), self._side(pair, self.other), at, pair.tolerance)

    def _side(self, pair: Pair, how: Mapping[str, Any]) -> Side:
        given = self.draw(pair.salt)
        copy = self.runner.subject.fresh()
        if "attention" in how:
            copy.choose(how["attention"])
        asked = copy.signature.weights(bool(how.get("weights")))
        within = self.runner.within
        return Side(copy, lambda: within(lambda: copy.call(given, asked)), (given.length,))


def _inputs(subject: Subject, draw: Draw, case: str) -> dict[str, Draw]:
    """The input as it is, and padded where the model can be told."""
    found: dict[str, Draw] = {case: draw}
    if "padding" in subject.takes and "left" in subject.signature.sides:
        found[f"{case}, padded"] = lambda salt: hidden_left(draw(salt))
    return found
