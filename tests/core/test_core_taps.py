from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

from headwise.core.attention import attend
from headwise.core.taps import Tap, tap_of, tapped


def test_a_tap_is_there_for_the_time_of_a_with():
    module, other = nn.Linear(1, 1), nn.Linear(1, 1)
    outer, inner = Tap(gate=torch.ones(2)), Tap(observers=(print,))
    assert tap_of(module) is None
    with tapped({module: outer}):
        assert tap_of(module) is outer
        assert tap_of(other) is None
        with tapped({module: inner, other: inner}):
            both = tap_of(module)
            assert both is not None
            assert both.gate is outer.gate
            assert both.observers == inner.observers
            assert tap_of(other) is inner
        assert tap_of(module) is outer
        assert tap_of(other) is None
    assert tap_of(module) is None
    assert vars(module).keys() == vars(nn.Linear(1, 1)).keys()


def test_taps_within_taps_add_up():
    """The outer edit comes first, gates multiply, observers of both see the call."""
    module, called = nn.Linear(1, 1), []
    outer = Tap(
        (lambda *_: called.append("outer"),), torch.tensor([2.0]), None, lambda s, v, z: z + 1
    )
    inner = Tap(
        (lambda *_: called.append("inner"),), torch.tensor([5.0]), None, lambda s, v, z: z * 3
    )
    with tapped({module: outer}), tapped({module: inner}):
        tap = tap_of(module)
    assert tap is not None
    q = torch.zeros(1, 1, 2, 4)
    v = torch.ones(1, 1, 2, 4)
    z = attend(q, q, v, observers=tap.observers, gate=tap.gate, edit=tap.edit)
    assert called == ["outer", "inner"]
    assert torch.equal(z, torch.full_like(v, (1 + 1) * 3 * 10))


def test_a_tap_goes_when_the_pass_fails():
    module = nn.Linear(1, 1)
    with pytest.raises(ZeroDivisionError), tapped({module: Tap()}):
        1 / 0  # noqa: B018
    assert tap_of(module) is None


def test_a_tapped_module_is_still_a_module():
    module = nn.Linear(1, 1)
    with tapped({module: Tap(gate=torch.ones(2))}):
        assert module.state_dict().keys() == {"weight", "bias"}
        assert list(module.children()) == []
        copy.deepcopy(module)
    pickle.loads(pickle.dumps(module))
