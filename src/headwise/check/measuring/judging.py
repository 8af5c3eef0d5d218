"""Whether what was measured is an influence or rounding.

Exactly nothing is nothing, and what is many times the noise is no noise. Between them an influence is one if it is
the same each time the input is jittered by as much as rounding: noise points elsewhere each time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from headwise.check.measuring.influence import Bench, Sizes
from headwise.check.measuring.nudge import Nudge
from headwise.check.reading.given import COPIED

__all__ = ["Judgement", "judge"]

_PAIRS = 12
_SEEDS = (11, 12, 13, 14)
_ALIKE = 0.9
"""Cosine of two differences that are the same."""

_FEW = 6
"""With fewer numbers that differ, a cosine says nothing."""

_NOTHING = 1e-290
"""Below this a number of float64 is what is left of an underflow."""


@dataclass(frozen=True, eq=False)
class Judgement:
    """What one bench shows.

    Attributes:
        told: False where it could not be told; `why` says why.
        leak: whether something forbidden has an influence.
        strength: the largest forbidden influence, relative to the largest allowed.
        floor: what rounding moves, on that scale.
        smallest: what would have been called an influence.
        by: "edit" or "gradient", of the strength.
        pairs: (query, key) of forbidden influences, strongest first; the first twelve.
        count: how many there are, and of how many that were measured.
        measured: relative influence [query, key], NaN where not measured.
    """

    told: bool
    leak: bool = False
    why: str = ""
    strength: float = 0.0
    floor: float = 0.0
    smallest: float = math.nan
    by: str = ""
    pairs: tuple[tuple[int, int], ...] = ()
    count: tuple[int, int] = (0, 0)
    measured: Float[Tensor, "query key"] | None = None


def judge(
    bench: Bench,
    forbidden: Bool[Tensor, "query key"],
    control: Bool[Tensor, "query key"],
    *,
    keys: Sequence[int],
    queries: Sequence[int],
    draws: int = 1,
) -> Judgement:
    """Measure a bench by edits and by gradients, and say whether something forbidden has an influence.

    Args:
        bench: what is measured.
        forbidden: pairs that must have no influence.
        control: pairs of which each edited key must move some; what they show is what strength is relative to.
        keys: which positions are edited.
        queries: of which outputs gradients are taken.
        draws: how many replacements each edit is tried with.
    """
    noise = bench.noise
    if not math.isfinite(noise.scale) or not math.isfinite(noise.floor):
        return Judgement(False, why="the output holds NaN or infinity")
    edited = bench.edits(keys, range(draws))
    if bool(edited.values.isinf().any()):
        return Judgement(False, why="an edit makes the output NaN or infinite")
    still = _still(edited, control, keys, noise.floor)
    if still:
        return Judgement(False, why=still)
    by_edit = _by_edits(bench, edited, forbidden, control, range(draws), noise.sure)
    if by_edit.leak:
        return by_edit
    by_gradient = _by_gradients(bench, forbidden, control, queries)
    if by_gradient is not None and by_gradient.leak:
        return by_gradient
    if draws < 2:
        return by_edit
    copied = bench.edits(
        keys, [COPIED]
    )  # a token that the text holds already: what asks whether two are equal
    by_copy = _by_edits(bench, copied, forbidden, control, [COPIED], math.inf)
    return by_copy if by_copy.leak else by_edit


def _by_edits(
    bench: Bench,
    edited: Sizes,
    forbidden: Bool[Tensor, "query key"],
    control: Bool[Tensor, "query key"],
    draws: Sequence[int],
    sure: float,
) -> Judgement:
    noise = bench.noise

    def alone(query: int, key: int) -> float:
        return max(float(bench.change(key, draw)[query].abs().max()) for draw in draws)

    def again(query: int, key: int) -> list[Tensor]:
        draw = bench.strongest(query, key, draws)
        changes = [bench.change(key, draw, Nudge(noise.eps, seed=seed)) for seed in _SEEDS]
        return [change[forbidden[:, key]].double().cpu().flatten() for change in changes]

    return _judged(
        edited,
        forbidden,
        control,
        least=noise.least,
        floor=noise.floor,
        sure=sure,
        alone=alone,
        again=again,
    )


def _by_gradients(
    bench: Bench,
    forbidden: Bool[Tensor, "query key"],
    control: Bool[Tensor, "query key"],
    queries: Sequence[int],
) -> Judgement | None:
    """None where gradients say nothing: they are infinite, or reach nothing (ids that go in as one-hot rows)."""
    gradients = bench.gradients(queries)
    most = 0.0 if gradients is None else gradients.at(control)
    if gradients is None or not most > 0.0:
        return None
    if not bool(gradients.values.nan_to_num(0.0).isfinite().all()):
        return None
    eps = bench.noise.eps

    def alone(query: int, key: int) -> float:
        gradient = bench.gradient(query)
        return 0.0 if gradient is None else float(gradient[key].norm())

    def again(query: int, key: int) -> list[Tensor]:
        found = (bench.gradient(query, seed, eps) for seed in _SEEDS)
        return [gradient[forbidden[query]].flatten() for gradient in found if gradient is not None]

    return _judged(
        gradients,
        forbidden,
        control,
        least=_NOTHING,
        floor=eps * most,
        sure=1e3 * eps * most,
        alone=alone,
        again=again,
    )


def _judged(
    sizes: Sizes,
    forbidden: Bool[Tensor, "query key"],
    control: Bool[Tensor, "query key"],
    *,
    least: float,
    floor: float,
    sure: float,
    alone: Callable[[int, int], float],
    again: Callable[[int, int], list[Tensor]],
) -> Judgement:
    most = sizes.at(control)
    measured = sizes.values / most
    found = Judgement(
        True, floor=floor / most, smallest=least / most, by=sizes.by, measured=measured
    )
    candidates = sizes.values.where(forbidden & ~sizes.values.isnan(), 0.0)
    for query, key in _strongest(candidates, least)[:3]:
        value = alone(query, key)
        if value < least:
            continue  # other rows did it, which is told apart
        if value >= sure or _reproducible(again(query, key)):
            shown = max(
                least, sure if value >= sure else 1e-3 * value
            )  # a faint one shows its like
            looked_at = int((forbidden & ~sizes.values.isnan()).sum())
            return Judgement(
                True,
                leak=True,
                strength=value / most,
                floor=found.floor,
                smallest=found.smallest,
                by=sizes.by,
                pairs=tuple(_strongest(candidates, shown)[:_PAIRS]),
                count=(int((candidates >= shown).sum()), looked_at),
                measured=measured,
            )
    return found


def _still(edited: Sizes, control: Tensor, keys: Sequence[int], floor: float) -> str:
    """Which edited positions move nothing that they may; "" where all move something."""
    moved = edited.values.where(control, 0.0).nan_to_num(0.0).amax(0)
    dead = [key for key in keys if bool(control[:, key].any()) and float(moved[key]) <= floor]
    if not dead or len(dead) < len([k for k in keys if bool(control[:, k].any())]):
        return ""
    return "editing the input moves no output at all: the audit would see no leak either"


def _strongest(sizes: Float[Tensor, "query key"], least: float) -> list[tuple[int, int]]:
    """The pairs of at least this size, strongest first."""
    flat = sizes.flatten()
    order = flat.argsort(descending=True, stable=True)
    width = sizes.shape[1]
    return [divmod(int(at), width) for at in order[:64] if float(flat[at]) >= max(least, 1e-320)]


def _reproducible(vectors: Sequence[Tensor]) -> bool:
    """Whether all point the same way, in more numbers than agree by chance."""
    if any(int((v != 0).sum()) < _FEW for v in vectors):
        return False
    units = [v / v.abs().max() for v in vectors]
    units = [v / v.norm() for v in units]
    pairs = [(a, b) for i, a in enumerate(units) for b in units[i + 1 :]]
    return bool(pairs) and all(float(a @ b) >= _ALIKE for a, b in pairs)
