"""Taps: how an instrument gets at the attention of a module while it runs.

A tap is put on an attention module for the time of a `with`, and the module (ours, or one of transformers
through the bridge) hands it to `attend`. A module without a tap pays one attribute look-up.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from torch import Tensor, nn

from headwise.core.attention import Meter, Observer

_NAME = "_headwise_tap"


@dataclass(frozen=True, eq=False)
class Tap:
    """What an instrument wants of one attention module.

    observers see each call; the gate multiplies the head outputs before W_O; the meter computes them, and
    statistics on the way.
    """

    observers: tuple[Observer, ...] = ()
    gate: Tensor | None = None
    meter: Meter | None = None


def tap_of(module: nn.Module) -> Tap | None:
    """The tap on this module, if any."""
    return module.__dict__.get(_NAME)


@contextmanager
def tapped(taps: Mapping[nn.Module, Tap]) -> Iterator[None]:
    """Put taps on modules; taken off again at the end, whatever happens."""
    before = {module: tap_of(module) for module in taps}
    try:
        for module, tap in taps.items():
            module.__dict__[_NAME] = tap
        yield
    finally:
        for module, old in before.items():
            if old is None:
                module.__dict__.pop(_NAME, None)
            else:
                module.__dict__[_NAME] = old
