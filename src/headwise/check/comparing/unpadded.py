"""A row padded in a batch of unequal lengths, against the row alone.

Where a model counts positions from the start of the row and cannot be told them, padding on the left only shifts
them: a shift is told from a pollution by what stands at the padding, and by padding on the right.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Shaped
from torch import Tensor

from headwise.check.comparing.exact import Runner, runner_of
from headwise.check.comparing.sides import Draw, Locate, Side, Sides
from headwise.check.comparing.verdict import Asking, Pair, compared, gap
from headwise.check.reading.given import Given
from headwise.check.running.subject import Subject
from headwise.check.telling.report import Outcome

__all__ = ["check_unpadded"]

_SHIFTED = (
    "skipped: absolute positions cannot be given, so padding on the left shifts them "
    "(what stands at the padding does not come in)"
)


def check_unpadded(subject: Subject, draw: Draw, *, locate: Locate | None = None) -> list[Outcome]:
    """Whether a padded row gives what it gives alone: padded on the right, on the left, and in the source.

    Args:
        subject: what is audited.
        draw: an input for each number.
        locate: names the module in which both ways part.
    """
    cases = [side for side in ("right", "left") if _can(subject, side)]
    if "source_padding" in subject.takes and draw(0).source is not None:
        cases.append("source")
    if not cases:
        return [Outcome("unpadded", "", "skipped", "it cannot be told of padding")]
    outcomes: dict[str, Outcome] = {}
    for case in cases:
        padded = _Padded(runner_of(subject, _shaped(draw(0), case)), draw, case)
        outcome = compared(
            "unpadded",
            case,
            padded.pair,
            "the padded row and the row alone",
            Asking(locate, padded.sides, padded.hint, subject.large),
        )
        right = outcomes.get("right")
        sound = right is not None and right.verdict == "clean"
        if case == "left" and outcome.bad and sound and _shift(subject, padded):
            outcome = Outcome("unpadded", case, "skipped", _SHIFTED.removeprefix("skipped: "))
        outcomes[case] = outcome
    return list(outcomes.values())


@dataclass(frozen=True, eq=False)
class _Padded:
    """The first row of each input, shortened, alone and padded beside the second."""

    runner: Runner
    draw: Draw
    case: str

    def pair(self, salt: int) -> Pair:
        """Both outputs of the row's own positions."""
        alone, other = self.alone(salt), self.alone(salt + 10)
        one = self.runner.run(alone)
        moves = float(gap(one, self.runner.run(other)).max())
        at = torch.ones(one.shape[:2], dtype=torch.bool, device=one.device)
        padded = self.own(self.runner.run(self.padded(salt)))
        noise = self.runner.noise(alone, one, float(gap(one, padded).max()))
        return Pair(salt, one, padded, at, moves, noise)

    def alone(self, salt: int) -> Given:
        """The row alone, told that nothing is padding."""
        given = self.draw(salt).row(0)
        if self.case == "source":
            assert given.source is not None
            source = given.source[:, : _kept(given.source)]
            return replace(given, source=source, source_real=_all_real(source))
        text = given.text[:, : _kept(given.text)]
        return replace(given, text=text, real=_all_real(text))

    def padded(self, salt: int, filler: int = 0) -> Given:
        """The row padded, beside a whole one; another filler puts something else at the padding."""
        given = self.draw(salt)
        other = None if filler == 0 else self.draw(salt + filler)
        if self.case == "source":
            assert given.source is not None
            fill = None if other is None else other.source
            source, real = self._filled(given.source, fill)
            return replace(given, source=source, source_real=real)
        text, real = self._filled(given.text, None if other is None else other.text)
        return replace(given, text=text, real=real)

    def own(self, output: Tensor) -> Tensor:
        """The outputs of the padded row at its own positions."""
        if self.case == "source":
            return output[:1]
        return output[:1, self._start : self._start + _kept(output)]

    def content_comes_in(self, salt: int, least: float) -> bool:
        """Whether what stands at the padding moves the row's own outputs."""
        runs = [self.own(self.runner.run(self.padded(salt, filler))) for filler in (20, 30)]
        return not float(gap(*runs).max()) <= least

    def sides(self, pair: Pair, at: Bool[Tensor, "batch position"]) -> Sides:
        """Both ways again, on copies of their own."""
        one, other = self.runner.subject.fresh(), self.runner.subject.fresh()
        alone, padded = self.alone(pair.salt), self.padded(pair.salt)
        within = self.runner.within
        return Sides(
            Side(one, lambda: within(lambda: one.call(alone)), (alone.length,)),
            Side(
                other,
                lambda: within(lambda: other.call(padded)),
                (padded.length,),
                batch=padded.batch,
                row=0,
                start=0 if self.case == "source" else self._start,
            ),
            at,
            pair.tolerance,
        )

    def hint(self, pair: Pair) -> str:
        """Whether what stands at the padding comes in."""
        comes = self.content_comes_in(pair.salt, pair.sure)
        return (
            "; what stands at the padding comes in"
            if comes
            else "; what stands there does not matter"
        )

    @property
    def _start(self) -> int:
        given = self.draw(0)
        return given.length - _kept(given.text) if self.case == "left" else 0

    def _filled(
        self,
        text: Shaped[Tensor, "batch position *d"],
        fill: Shaped[Tensor, "batch position *d"] | None,
    ) -> tuple[Tensor, Tensor]:
        kept, length = _kept(text), text.shape[1]
        start = length - kept if self.case == "left" else 0
        new = text.clone()
        new[0] = _filler(self.runner.subject, text) if fill is None else fill[1]
        new[0, start : start + kept] = text[0, :kept]
        real = _all_real(text)
        real[0] = False
        real[0, start : start + kept] = True
        return new, real


def _shift(subject: Subject, padded: _Padded) -> bool:
    """Whether padding on the left can only have shifted positions."""
    if "positions" in subject.takes:
        return False
    pair = padded.pair(0)
    return not padded.content_comes_in(0, pair.sure)


def _can(subject: Subject, side: str) -> bool:
    return "padding" in subject.takes and side in subject.signature.sides


def _shaped(given: Given, case: str) -> Given:
    """An input with a mask, for a first run."""
    if case == "source":
        return given
    return replace(given, real=_all_real(given.text))


def _kept(text: Tensor) -> int:
    """How many positions the short row has, of those of a whole one."""
    return text.shape[1] - max(1, text.shape[1] // 3)


def _all_real(text: Tensor) -> Bool[Tensor, "batch position"]:
    return torch.ones(text.shape[:2], dtype=torch.bool, device=text.device)


def _filler(subject: Subject, text: Tensor) -> Tensor:
    """What stands at padding: the id that the model's config names, from which some count positions; or 0."""
    named = getattr(getattr(subject.module, "config", None), "pad_token_id", None)
    filler = named if isinstance(named, int) and named >= 0 and not text.is_floating_point() else 0
    return torch.full((), filler, dtype=text.dtype, device=text.device)
