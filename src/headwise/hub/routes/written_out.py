"""Attention written out by hand: modules whose forward computes softmax(q k^T) v by itself, in torch functions.

They are found by their code (`code`), whatever their family or name. While a model is open, the forward of each
that has a tap is followed (`following`): from the product of queries and keys to the product with the values,
whose result a gate or a meter may change. What cannot be followed is refused in one line, and so is a layer
whose result, recomputed from what was read, is not the module's own.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

from torch import nn

from headwise.core.taps import tap_of
from headwise.hub.routes.following import Following, Session

__all__ = ["followed"]

_NAME = "_headwise_followed"


@contextmanager
def followed(modules: Sequence[nn.Module]) -> Iterator[None]:
    """Follow the attention of these modules, none within another, for their taps, for the time of the `with`.

    Within another `followed` of the same modules it does nothing.
    """
    session = Session()
    with ExitStack() as stack:
        for module in modules:
            if _NAME not in module.__dict__:
                stack.enter_context(_wrapped(module, session))
        yield


@contextmanager
def _wrapped(module: nn.Module, session: Session) -> Iterator[None]:
    """With a forward that is followed where there is a tap; the one the module has is put back afterwards."""
    before = module.__dict__.get("forward")
    plain = module.forward

    @functools.wraps(plain)
    def forward(*args: Any, **kwargs: Any) -> Any:
        tap = tap_of(module)
        if tap is None:
            return plain(*args, **kwargs)
        following = Following(module, tap, session, (*args, *kwargs.values()))
        with following:
            out = plain(*args, **kwargs)
        following.end()
        return out

    module.__dict__[_NAME] = True
    module.__dict__["forward"] = forward
    try:
        yield
    finally:
        del module.__dict__[_NAME], module.__dict__["forward"]
        if before is not None:
            module.__dict__["forward"] = before
