"""What heads cost together: the pairs' matrix, the order in which heads go, and labels the model draws."""

from __future__ import annotations

import itertools

import pytest
import torch

from headwise.cut.ablating.gates import Gates
from headwise.cut.ablating.gathering import mean_outputs
from headwise.cut.losses import losses_of
from headwise.cut.pruning.jointly import Pairs, pairs_of, sampled_labels
from headwise.hub.load import load
from headwise.names import HeadId, ModelError
from headwise.nn import Decoder, TransformerConfig
from headwise.see.texts.given import batches_in
from team_help import forked

IDS = torch.randint(0, 31, (5, 16), generator=torch.Generator().manual_seed(1))
HEADS = tuple(HeadId("", 0, head) for head in range(4))


def tiny():
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=31, d_model=24, num_layers=2, num_heads=4, d_ff=40, max_length=32
    )
    return load(Decoder(config).eval())


def pairs(model, **options):
    return pairs_of(model, lambda: batches_in(model, IDS, None, None, "prune"), **options)


def slopes(count=200):
    return torch.randn(count, 4, generator=torch.Generator().manual_seed(0)).double()


def made(rows):
    found = Pairs.none(HEADS)
    for part in rows.split(37):
        found.add(part)
    return found


def test_a_set_costs_the_mean_square_of_its_sum():
    rows = slopes()
    found = made(rows)
    weights = 1 / rows.norm(dim=1)
    for size in (1, 2, 3):
        for some in itertools.combinations(range(4), size):
            wanted = (weights * rows[:, list(some)].sum(1).square()).mean()
            assert found.cost([HEADS[i] for i in some]) == pytest.approx(wanted.item())
    assert found.tokens == 200


def test_heads_that_cancel_go_together():
    rows = slopes()
    rows[:, 0] = 3 * rows[:, 0]
    rows[:, 1] = -rows[:, 0]  # each matters most, both together nothing
    found = made(rows)
    first = found.order(budget=2)
    assert set(first) == {2, 3}
    assert found.cost(HEADS[:2]) == pytest.approx(0, abs=1e-9)
    assert found.order([HEADS[:2], HEADS[2:3], HEADS[3:]], budget=1) == (0,)


def test_the_order_is_the_greedy_one():
    heads = [HeadId("", 0, head) for head in range(12)]
    draw = torch.Generator().manual_seed(0)
    found = Pairs.none(heads)
    found.add(torch.randn(300, 12, generator=draw) @ torch.randn(12, 12, generator=draw))
    order, left = [], list(range(12))
    while left:
        costs = [found.cost([heads[i] for i in [*order, j]]) for j in left]
        order.append(left.pop(costs.index(min(costs))))
    assert list(found.order()) == order


def test_units_go_by_their_cost_for_the_price():
    found, units = made(slopes()), [HEADS[:2], HEADS[2:]]
    assert found.order(units, prices=[1e6, 1.0], budget=1) == (0,)
    assert found.order(units, prices=[1.0, 1e6], budget=1) == (1,)


def test_tokens_without_slopes_do_not_count_and_no_numbers_are_refused():
    rows = torch.cat([slopes(50), torch.zeros(20, 4).double()])
    found = made(rows)
    assert found.tokens == 50
    torch.testing.assert_close(found.matrix, made(slopes(50)).matrix)
    with pytest.raises(ModelError, match="no numbers"):
        found.add(torch.full((1, 4), torch.nan))


@pytest.mark.parametrize("how", ["zero", "mean"])
def test_slopes_are_those_of_gates(how):
    """Summed over the tokens of a text they are the gradient of one gate for each head."""
    model = tiny()
    means = mean_outputs(model, IDS) if how == "mean" else None
    one = IDS[:1]
    taken = []
    whole = Pairs.add
    batch = next(batches_in(model, one, None, None, "prune"))
    gates = Gates(model, how=how, texts=IDS)
    with gates.applied():
        losses_of(model, batch).total.backward()

    def add(self, rows):
        taken.append(rows)
        whole(self, rows)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Pairs, "add", add)
        pairs_of(model, lambda: [batch], means=means, draws=0)
    torch.testing.assert_close(taken[0].sum(0), gates.value.grad, atol=1e-5, rtol=1e-4)


def test_drawn_labels_follow_the_model():
    logits = torch.tensor([2.0, 0.0, -1.0, 0.5]).expand(1, 4001, 4)
    values = sampled_labels(3)(logits, {"input_ids": torch.zeros(1, 4001, dtype=torch.long)})
    logs = logits[0, 0].log_softmax(0)
    assert values.shape == (1, 4000)
    assert values.mean().item() == pytest.approx(-(logs.exp() * logs).sum().item(), abs=0.03)
    mask = torch.ones(1, 4001, dtype=torch.long)
    mask[:, 100:] = 0
    padded = sampled_labels(3)(logits, {"input_ids": mask, "attention_mask": mask})
    assert padded[:, 99:].abs().max() == 0
    assert torch.equal(padded[:, :99], values[:, :99])


def test_draws_add_tokens_and_the_loss_is_that_of_the_text():
    model = tiny()
    plain, drawn = pairs(model, draws=0), pairs(model, draws=2)
    assert drawn.tokens == 3 * plain.tokens == 3 * 5 * 15
    assert drawn.loss == pytest.approx(plain.loss)
    assert not torch.allclose(drawn.matrix, plain.matrix)
    assert torch.equal(drawn.matrix, pairs(model, draws=2).matrix)


def test_several_processes_find_what_one_does():
    model = tiny()
    rows = [{"input_ids": row[None]} for row in IDS]

    def job(team=None):
        batches = list(batches_in(model, rows, None, None, "prune"))
        found = pairs_of(model, lambda: batches, draws=1)
        return found.matrix.tolist(), found.tokens, found.loss

    matrix, tokens, loss = job()
    for told in forked(2, job):
        torch.testing.assert_close(torch.tensor(told[0]), torch.tensor(matrix))
        assert told[1:] == (tokens, pytest.approx(loss))
