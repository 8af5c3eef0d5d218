"""Taps: how an instrument gets at the attention of a module while it runs.

A tap is put on an attention module for the time of a `with`, and the module (ours, or one of transformers
through the bridge) hands it to `attend`. A module without a tap pays one attribute look-up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor, nn

from headwise.core.attention import Edit, Meter, Observer
from headwise.core.scores import Scores

_NAME = "_headwise_tap"


@dataclass(frozen=True, eq=False)
class Tap:
    """What an instrument wants of one attention module.

    observers see each call; the meter computes the head outputs, and statistics on the way; what the edit makes
    of them goes on in their place, times the gate, to W_O.
    """

    observers: tuple[Observer, ...] = ()
    gate: Tensor | None = None
    meter: Meter | None = None
    edit: Edit | None = None

    def within(self, outer: Tap | None) -> Tap:
        """Both taps in one: what the outer one changes of the head outputs stays changed."""
        if outer is None:
            return self
        gates = [gate for gate in (outer.gate, self.gate) if gate is not None]
        return Tap(
            outer.observers + self.observers,
            gates[0] * gates[1] if len(gates) == 2 else next(iter(gates), None),
            self.meter or outer.meter,
            _both(outer.edit, self.edit),
        )


def tap_of(module: nn.Module) -> Tap | None:
    """The tap on this module, if any."""
    return module.__dict__.get(_NAME)


def _both(first: Edit | None, then: Edit | None) -> Edit | None:
    if first is None or then is None:
        return first or then

    def edit(scores: Scores, v: Tensor, z: Tensor) -> Tensor:
        return then(scores, v, first(scores, v, z))

    return edit


@contextmanager
def tapped(taps: Mapping[nn.Module, Tap]) -> Iterator[None]:
    """Put taps on modules, beside those that are there; taken off again at the end, whatever happens."""
    before = {module: tap_of(module) for module in taps}
    try:
        for module, tap in taps.items():
            module.__dict__[_NAME] = tap.within(before[module])
        yield
    finally:
        for module, old in before.items():
            if old is None:
                module.__dict__.pop(_NAME, None)
            else:
                module.__dict__[_NAME] = old
