"""Learned gates: their distribution, their gradients, and that training them closes what does nothing."""

from __future__ import annotations

import pytest
import torch

from headwise.cut.learning.hard_concrete import HardConcrete, hard_concrete, odds_open
from headwise.cut.learning.learning import learn_gates
from headwise.cut.learning.pressure import Pressure
from headwise.hub.load import load
from headwise.names import ConfigError, HeadId
from headwise.nn import Decoder, TransformerConfig
from team_help import forked

USELESS = (HeadId("", 0, 1), HeadId("", 1, 3))


def tiny(**fields):
    torch.manual_seed(0)
    base = {
        "vocab_size": 31,
        "d_model": 24,
        "num_layers": 2,
        "num_heads": 4,
        "d_ff": 40,
        "max_length": 32,
    }
    return load(Decoder(TransformerConfig(**{**base, **fields})).eval())


def batches(count=4):
    draw = torch.Generator().manual_seed(1)
    return [{"input_ids": torch.randint(0, 31, (2, 12), generator=draw)} for _ in range(count)]


def planted():
    """A model of which two heads do nothing, and a loss that misses what the others do."""
    model = tiny()
    with torch.no_grad():
        for block in model.module.blocks:
            block.attention.w_o.weight.mul_(30)
        for head in USELESS:
            columns = slice(head.head * 6, head.head * 6 + 6)
            model.module.blocks[head.layer].attention.w_o.weight[:, columns] = 0

    whole = Decoder(model.module.config).eval()
    whole.load_state_dict(model.module.state_dict())

    def loss(output, inputs):
        with torch.no_grad():
            goal = whole(inputs["input_ids"])
        return (output - goal).square().sum(-1)

    return model, loss


def test_odds_are_how_often_gates_open():
    log_alpha = torch.tensor([-4.0, -1.0, 0.0, 2.0])
    draws = torch.rand(20_000, 4, generator=torch.Generator().manual_seed(0))
    drawn = torch.stack([hard_concrete(log_alpha, draw) for draw in draws])
    assert drawn.min() == 0
    assert drawn.max() == 1
    torch.testing.assert_close(
        (drawn > 0).float().mean(0), odds_open(log_alpha), atol=0.015, rtol=0
    )


def test_expected_open_sums_the_odds_with_gradients():
    gates = HardConcrete(tiny(), how="zero", start=0.5)
    gates.expected_open().backward()
    p = torch.sigmoid(0.5 + 2 / 3 * torch.tensor(11.0).log())
    assert gates.expected_open().item() == pytest.approx(8 * float(p), abs=1e-4)
    torch.testing.assert_close(gates.value.grad, (p * (1 - p)).expand(8))


def test_gates_are_drawn_anew_in_training_and_sharp_after():
    gates = HardConcrete(tiny(), how="zero", start=0.0)
    assert not torch.equal(gates(), gates())
    gates.draw_from(3)
    first = gates()
    gates.draw_from(3)
    assert torch.equal(gates(), first)
    gates.eval()
    assert torch.equal(gates(), torch.full((8,), 0.5))


def test_gradients_flow_through_the_model():
    model, loss = planted()
    gates = HardConcrete(model, how="zero", start=0.0)
    batch = batches(1)[0]
    with gates.applied():
        loss(model.outputs(batch), batch).sum().backward()
    useless = [gates.heads.index(head) for head in USELESS]
    assert gates.value.grad[useless].abs().max() == 0
    assert (gates.value.grad != 0).sum() >= 3


@pytest.mark.parametrize("how", ["zero", "mean"])
def test_planted_useless_heads_close(how):
    model, loss = planted()
    before = {name: x.clone() for name, x in model.module.state_dict().items()}
    learned = learn_gates(
        model, batches(), keep=0.75, how=how, steps=80, loss=loss, learning_rate=0.2, quiet=True
    )
    assert set(learned.closed) == set(USELESS)
    assert learned.wanted == 6
    assert not learned.stopped
    assert abs(learned.open[-1] - 6) < 1
    assert len(learned.loss) == len(learned.open) == 80
    for name, x in model.module.state_dict().items():
        assert torch.equal(x, before[name])
    assert all(p.requires_grad for p in model.module.parameters())


def test_several_processes_learn_what_one_does():
    model, loss = planted()

    def job(team=None):
        arguments = {
            "keep": 0.5,
            "how": "zero",
            "steps": 6,
            "batches": 3,
            "loss": loss,
            "quiet": True,
        }
        return learn_gates(model, batches(), **arguments).log_alpha.tolist()

    alone = job()
    assert all(abs(one - 2) > 1e-3 for one in alone)
    for told in forked(2, job):
        assert told == pytest.approx(alone, abs=1e-6)


def test_ctrl_c_keeps_the_steps_done():
    model, loss = planted()

    def progress(done, total, what):
        if done == 3:
            raise KeyboardInterrupt

    learned = learn_gates(
        model, batches(), keep=0.5, how="zero", steps=9, loss=loss, progress=progress
    )
    assert learned.stopped
    assert len(learned.loss) == 3
    assert all(p.requires_grad for p in model.module.parameters())


def test_pressure_rises_until_the_gap_is_gone():
    pressure = Pressure(10, 4, 5, rate=0.5)
    assert [pressure.goal(step) for step in (0, 4, 50)] == pytest.approx([8.8, 4.0, 4.0])
    assert float(pressure.penalty(torch.tensor(9.0), 50)) == 0
    pressure.rise()
    high = float(pressure.penalty(torch.tensor(9.0), 50))
    assert high == pytest.approx(0.25 * 0.5 + 0.125 * 0.25)
    assert float(pressure.penalty(torch.tensor(2.0), 50)) < 0


@pytest.mark.parametrize(
    "fields",
    [{"keep": 0.0}, {"keep": 1.5}, {"steps": 0}, {"batches": 0}, {"learning_rate": 0.0}],
)
def test_numbers_that_mean_nothing_are_refused(fields):
    with pytest.raises(ConfigError, match=next(iter(fields))):
        learn_gates(tiny(), batches(), **{"keep": 0.5, **fields})
