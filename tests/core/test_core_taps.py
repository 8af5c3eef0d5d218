from __future__ import annotations

import copy
import pickle

import pytest
import torch
from torch import nn

from headwise.core.taps import Tap, tap_of, tapped


def test_a_tap_is_there_for_the_time_of_a_with():
    module, other = nn.Linear(1, 1), nn.Linear(1, 1)
    outer, inner = Tap(gate=torch.ones(2)), Tap(observers=(print,))
    assert tap_of(module) is None
    with tapped({module: outer}):
        assert tap_of(module) is outer
        assert tap_of(other) is None
        with tapped({module: inner, other: inner}):
            assert tap_of(module) is tap_of(other) is inner
        assert tap_of(module) is outer
        assert tap_of(other) is None
    assert tap_of(module) is None
    assert vars(module).keys() == vars(nn.Linear(1, 1)).keys()


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
