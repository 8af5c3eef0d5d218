"""Cutting in steps: heads are ranked again in between, and Ctrl-C keeps the steps done."""

from __future__ import annotations

import pytest
import torch

from headwise.cut.census import census
from headwise.cut.pruning.iterating import Ranked, in_steps
from headwise.cut.pruning.surgery import cut_heads
from headwise.hub.load import load
from headwise.names import ConfigError, HeadId
from headwise.nn import Decoder, TransformerConfig


def tiny():
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=31, d_model=24, num_layers=2, num_heads=4, d_ff=40, max_length=32
    )
    return load(Decoder(config).eval())


def first_left(model, share):
    """As many of the 6 heads that are to go as the share says, the last of those that are left first."""
    left = census(model).heads
    count = len(left) - 8 + round(6 * share)
    return Ranked(left[::-1][:count], loss=10 - len(left))


def cut(model, heads, outputs):
    cut_heads(model, list(heads), outputs, inplace=True)


def run(model, steps, **options):
    return in_steps(model, steps, first_left, lambda model, heads: {}, cut, **options)


def test_each_step_sees_what_the_last_one_left():
    model = tiny()
    path = run(model, 3)
    assert [len(step.heads) for step in path.steps] == [2, 2, 2]
    assert path.curve == ((0, 2), (2, 4), (4, 6))
    assert path.heads == tuple(HeadId("", i // 4, i % 4) for i in range(7, 1, -1))
    assert census(model).heads == (HeadId("", 0, 0), HeadId("", 0, 1))
    assert not path.stopped


@pytest.mark.parametrize("where", ["rank", "progress"])
def test_ctrl_c_keeps_the_last_whole_step(where):
    model = tiny()
    said = []

    def progress(done, total, what):
        said.append((done, total))
        if where == "progress" and done == 2:
            raise KeyboardInterrupt

    def rank(model, share):
        if where == "rank" and share == 1:
            raise KeyboardInterrupt
        return first_left(model, share)

    path = in_steps(model, 3, rank, lambda model, heads: {}, cut, progress=progress)
    assert path.stopped
    assert len(path.heads) == 4
    assert len(census(model).heads) == 4
    assert said == [(0, 3), (1, 3), (2, 3)]


def test_ctrl_c_before_the_first_step_goes_on_up():
    model = tiny()

    def rank(model, share):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        in_steps(model, 3, rank, lambda model, heads: {}, cut)
    assert len(census(model).heads) == 8


def test_no_step_is_refused():
    with pytest.raises(ConfigError, match="steps"):
        run(tiny(), 0)
