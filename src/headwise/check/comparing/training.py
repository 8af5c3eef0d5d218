"""In train mode, with every dropout at 0, against eval mode: where training draws no numbers of its own.

Some models jitter their routing in training, or leave out layers at random. So runs in train mode that draw other
numbers are held against each other: what these move is the floor.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from headwise.check.comparing.exact import Runner, runner_of
from headwise.check.comparing.sides import Draw, Locate, Side, Sides
from headwise.check.comparing.verdict import Asking, Pair, compared, first_line, gap
from headwise.check.running.calm import without_dropout
from headwise.check.running.subject import Subject
from headwise.check.telling.report import Outcome

__all__ = ["check_training"]

_STIRRED = (1, 2, 3)
_CLEARLY = 8.0
"""A difference so many times what random numbers move is none of theirs."""


def check_training(subject: Subject, draw: Draw, *, locate: Locate | None = None) -> list[Outcome]:
    """Whether train mode gives what eval mode gives, dropout apart.

    Args:
        subject: what is audited.
        draw: an input for each number.
        locate: names the module in which both ways part.
    """
    if subject.module is None:
        return [Outcome("training", "", "skipped", "a function has no train mode")]
    if not subject.fresh().own:
        says = "it cannot be copied, so its dropout cannot be turned off"
        return [Outcome("training", "", "skipped", says)]
    modes = _Modes(runner_of(subject, draw(0)), draw)
    words = "in train mode without dropout and in eval mode"
    outcome = compared(
        "training", "", modes.pair, words, Asking(locate, modes.sides, modes.hint, subject.large)
    )
    return [_explained(outcome, modes) if outcome.bad else outcome]


def _explained(outcome: Outcome, modes: _Modes) -> Outcome:
    """A difference, or what excuses it: random numbers, or rates of dropout that eval mode makes up for."""
    try:
        pair = modes.pair(0)
        shaken, drawn = modes.random(0, training=False)
        if shaken > pair.sure:
            return replace(
                outcome, says=f"{outcome.says}; eval mode draws random numbers ({drawn})"
            )
        moved, drawn = modes.random(0, training=True)
        if moved > pair.sure and pair.largest < _CLEARLY * moved:
            part = moved / pair.moves if pair.moves else moved
            says = f"train mode draws random numbers ({drawn}), which move the output by {part:.1g}"
            return Outcome("training", "", "skipped", says)
        if float(gap(modes.undropped(0), pair.other).max()) <= pair.sure:
            says = "eval mode makes up for what dropout takes: with every rate 0 both modes agree"
            return replace(
                outcome, verdict="clean", says=says, strength=0.0, module=None, kind="", pairs=()
            )
    except Exception as error:  # a model raises whatever it met
        return Outcome("training", "", "unknown", f"run again it raised {first_line(error)}")
    return outcome


@dataclass(frozen=True, eq=False)
class _Modes:
    """The same input in eval and in train mode."""

    runner: Runner
    draw: Draw

    def pair(self, salt: int) -> Pair:
        """Both outputs."""
        given = self.draw(salt)
        one = self.runner.run(given)
        other = self.runner.run(given, training=True)
        moved = gap(one, self.runner.run(self.draw(salt + 10)))
        at = torch.ones(one.shape[:2], dtype=torch.bool, device=one.device)
        noise = self.runner.noise(given, one, float(gap(one, other).max()))
        return Pair(salt, one, other, at, float(moved.max()), noise)

    def undropped(self, salt: int) -> Tensor:
        """The output in eval mode with every rate of dropout 0."""
        copy = self.runner.subject.fresh()
        assert copy.module is not None
        without_dropout(copy.module)
        out: Tensor = self.runner.within(lambda: copy.call(self.draw(salt)))
        return out

    def random(self, salt: int, *, training: bool) -> tuple[float, str]:
        """How far other random numbers move the output, and what draws them."""
        given = self.draw(salt)
        first = self.runner.run(given, training=training)
        moved, names = 0.0, set()
        for times in _STIRRED:
            with Stirred(times) as stirred:
                again = self.runner.run(given, training=training)
            moved = max(moved, float(gap(first, again).max()))
            names |= stirred.names
        return moved, ", ".join(sorted(names))

    def sides(self, pair: Pair, at: Bool[Tensor, "batch position"]) -> Sides:
        """Both modes again, on copies of their own."""
        return Sides(self._side(pair, False), self._side(pair, True), at, pair.tolerance)

    def hint(self, pair: Pair) -> str:
        """Whether a norm takes its numbers from the batch."""
        parts = self.runner.subject.module.named_modules() if self.runner.subject.module else ()
        norms = [path for path, part in parts if isinstance(part, nn.modules.batchnorm._BatchNorm)]
        if not norms:
            return ""
        return f"; {norms[0]} normalises by the statistics of the batch in training"

    def _side(self, pair: Pair, training: bool) -> Side:
        given = self.draw(pair.salt)
        copy = self.runner.subject.fresh()
        within = self.runner.within
        call = lambda: within(lambda: copy.call(given, training=training))  # noqa: E731
        return Side(copy, call, (given.length,))


class Stirred(TorchDispatchMode):
    """Draws some random numbers before each that is drawn within, so that these are others.

    Attributes:
        names: of what drew them.
    """

    def __init__(self, times: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: set[str] = set()
        self._times = times

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        name = func.overloadpacket.__name__
        if torch.Tag.nondeterministic_seeded in func.tags and "attention" not in name:
            self.names.add(name.rstrip("_"))
            torch.rand(self._times)
        return func(*args, **(kwargs or {}))
