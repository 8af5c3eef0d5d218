"""importance by gradients at gates: identities that hold whatever the weights are."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from importance_help import ROWS, score, scores, small_decoder, waves
from torch import Tensor

import headwise as hw
from headwise.cut.ablating.gathering import mean_outputs
from headwise.cut.census import census
from headwise.cut.ranking.gradients import each_gradient, gradients_of
from headwise.cut.ranking.importance import importance
from headwise.names import LayerId, ModelError
from headwise.nn import Encoder, MultiHeadAttention, TransformerConfig
from headwise.see.texts.given import batches_in

STEP = 1e-2


@pytest.fixture
def decoder() -> hw.Model:
    return small_decoder()


def slope(model: hw.Model, id: object, **how: object) -> float:
    """The derivative of the mean loss by a head's gate, by a difference in double precision."""
    losses = []
    for factor in (1 + STEP, 1 - STEP):
        with hw.ablate(model, str(id), factor=factor, **how):  # type: ignore[arg-type]
            losses.append(hw.loss(model, ROWS).mean)
    return (losses[0] - losses[1]) / (2 * STEP)


def test_taylor_is_the_slope_of_the_loss_along_the_gate(decoder: hw.Model) -> None:
    decoder.module.double()
    found = scores(importance(decoder, ROWS, "taylor", quiet=True), decoder)
    slopes = [-slope(decoder, id) for id in census(decoder).heads]
    np.testing.assert_allclose(found, slopes, atol=3e-4)
    assert np.abs(found).max() > 0.05


def test_mean_taylor_is_the_slope_towards_the_mean(decoder: hw.Model) -> None:
    decoder.module.double()
    found = scores(importance(decoder, ROWS, "mean-taylor", quiet=True), decoder)
    slopes = [-slope(decoder, id, how="mean", texts=ROWS) for id in census(decoder).heads]
    np.testing.assert_allclose(found, slopes, atol=3e-4)
    zero = scores(importance(decoder, ROWS, "taylor", quiet=True), decoder)
    assert np.abs(found - zero).max() > 0.01


def test_a_small_step_of_all_gates_together_adds_up(decoder: hw.Model) -> None:
    decoder.module.double()
    found = scores(importance(decoder, ROWS, "taylor", quiet=True), decoder)
    assert -slope(decoder, "*") == pytest.approx(found.sum(), abs=2e-3)


def test_methods_are_what_their_formulas_say(decoder: hw.Model) -> None:
    """From gradients taken row by row with a plain `Gates`."""
    gates = hw.Gates(decoder)
    each = []
    for row in ROWS:
        with gates.applied():
            logits = decoder.module(row[None])
            F.cross_entropy(logits[0, :-1], row[1:], reduction="sum").backward()
        assert gates.value.grad is not None
        each.append(gates.value.grad.double().numpy().copy())
        gates.value.grad = None
    g, n = np.stack(each), ROWS[:, 1:].numel()
    wanted = {
        "gate": np.abs(g).sum(0) / n,
        "fisher": (g**2).sum(0) / n,
        "taylor": -g.sum(0) / n,
    }
    for method, numbers in wanted.items():
        found = scores(importance(decoder, ROWS, method, quiet=True), decoder)  # type: ignore[arg-type]
        np.testing.assert_allclose(found, numbers, rtol=1e-3, atol=1e-6, err_msg=method)


def test_the_gradients_of_tokens_sum_to_those_of_rows(decoder: hw.Model) -> None:
    (batch,) = batches_in(decoder, ROWS, None, None)
    rows, tokens = gradients_of(decoder, batch), gradients_of(decoder, batch, per="token")
    for run in census(decoder).runs:
        assert tokens.gates[run.id].shape == (6, 4, 12)
        torch.testing.assert_close(
            tokens.gates[run.id].sum(2), rows.gates[run.id], rtol=1e-4, atol=1e-5
        )
    by_token = scores(importance(decoder, ROWS, "fisher", per="token", quiet=True), decoder)
    squares = torch.cat([x.square().sum((0, 2)) for x in tokens.gates.values()]).numpy()
    np.testing.assert_allclose(by_token, squares / ROWS[:, 1:].numel(), rtol=1e-4)
    taylor = [
        scores(importance(decoder, ROWS, "taylor", per=per, quiet=True), decoder)  # type: ignore[arg-type]
        for per in ("row", "token")
    ]
    np.testing.assert_allclose(*taylor, rtol=1e-3, atol=1e-6)
    second = scores(importance(decoder, ROWS, "taylor2", quiet=True), decoder)  # per token anyway
    np.testing.assert_allclose(second, taylor[0] + by_token / 2, rtol=1e-3, atol=1e-6)


def test_a_head_that_writes_nothing_has_none(decoder: hw.Model) -> None:
    attention = decoder.anatomy.layers[1].module
    assert isinstance(attention, MultiHeadAttention)
    with torch.no_grad():
        attention.w_o.weight[:, 12:18] = 0  # head 2 of 6 numbers each
    for method in ("gate", "fisher", "taylor2", "mean-fisher", "leave-one-out", "mean-ablation"):
        found = importance(decoder, ROWS, method, quiet=True)  # type: ignore[arg-type]
        assert score(found, "1.2") == pytest.approx(0, abs=1e-7), method
        assert abs(score(found, "1.1")) > 1e-4, method


def test_copies_of_a_head_are_worth_the_same() -> None:
    model = small_decoder(num_kv_heads=4)
    attention = model.anatomy.layers[1].module
    assert isinstance(attention, MultiHeadAttention)
    with torch.no_grad():
        for first in (0, 24, 48):  # queries, keys and values of heads 0 and 3
            attention.w_qkv.weight[first + 18 : first + 24] = attention.w_qkv.weight[
                first : first + 6
            ]
        attention.w_qkv.bias.zero_()
        attention.w_o.weight[:, 18:24] = attention.w_o.weight[:, :6]
    for method in ("gate", "mean-fisher", "taylor", "leave-one-out"):
        found = importance(model, ROWS, method, quiet=True)  # type: ignore[arg-type]
        assert score(found, "1.0") == pytest.approx(score(found, "1.3"), rel=1e-3), method
        assert score(found, "1.0") != pytest.approx(score(found, "1.1"), rel=1e-2), method


def test_padding_counts_for_nothing(decoder: hw.Model) -> None:
    """Rows of unequal lengths give what each gives alone, weighted by its tokens."""
    lengths = [5, 12, 8]
    texts = [row[:n] for row, n in zip(ROWS, lengths, strict=False)]
    found = scores(importance(decoder, texts, "taylor", quiet=True), decoder)
    alone = [
        (n - 1) * scores(importance(decoder, row[None], "taylor", quiet=True), decoder)
        for row, n in zip(texts, lengths, strict=True)
    ]
    np.testing.assert_allclose(found, sum(alone) / (sum(lengths) - 3), rtol=1e-3, atol=1e-6)


def test_the_model_is_as_it_was(decoder: hw.Model) -> None:
    first = next(decoder.module.parameters())
    first.requires_grad_(False)
    decoder.module.train()
    decoder.module.blocks[1].eval()  # type: ignore[index, union-attr]
    modes = [part.training for part in decoder.module.modules()]
    needs = [p.requires_grad for p in decoder.module.parameters()]
    importance(decoder, ROWS, "mean-fisher", quiet=True)
    with pytest.raises(RuntimeError, match="fails"):
        importance(decoder, ROWS, loss=failing, quiet=True)
    assert [part.training for part in decoder.module.modules()] == modes
    assert [p.requires_grad for p in decoder.module.parameters()] == needs
    assert all(p.grad is None for p in decoder.module.parameters())


def failing(output: object, inputs: object) -> Tensor:
    raise RuntimeError("the loss fails")


def test_no_parameter_needs_a_gradient_on_the_way(decoder: hw.Model) -> None:
    seen = []

    def loss(output: Tensor, inputs: object) -> Tensor:
        seen.append(any(p.requires_grad for p in decoder.module.parameters()))
        return output.float().logsumexp(-1).mean(1)

    importance(decoder, ROWS, loss=loss, quiet=True)
    assert seen == [False]


def test_dropout_only_when_asked() -> None:
    model = small_decoder(dropout=0.5)
    model.module.train()
    plain = [scores(importance(model, ROWS, quiet=True), model) for _ in range(2)]
    np.testing.assert_array_equal(*plain)
    torch.manual_seed(0)
    drawn = [scores(importance(model, ROWS, dropout=True, quiet=True), model) for _ in range(2)]
    assert np.abs(drawn[0] - drawn[1]).max() > 1e-3


def test_it_works_where_gradients_are_off(decoder: hw.Model) -> None:
    wanted = scores(importance(decoder, ROWS, quiet=True), decoder)
    with torch.no_grad():
        found = scores(importance(decoder, ROWS, quiet=True), decoder)
    np.testing.assert_array_equal(found, wanted)


def test_a_loss_of_one_number_is_one_row(decoder: hw.Model) -> None:
    """The whole batch's mean, as a training loop has it."""

    def loss(output: Tensor, inputs: dict[str, Tensor]) -> Tensor:
        ids = inputs["input_ids"]
        return F.cross_entropy(output[:, :-1].flatten(0, 1), ids[:, 1:].flatten())

    own = importance(decoder, ROWS, "taylor", loss=loss, quiet=True)
    wanted = importance(decoder, ROWS, "taylor", quiet=True)
    np.testing.assert_allclose(scores(own, decoder), scores(wanted, decoder), rtol=1e-3, atol=1e-6)
    assert own.attrs["rows"] == 1
    assert np.isnan(scores(own, decoder, "standard_error")).all()


def test_an_encoder_with_a_loss_of_ones_own() -> None:
    torch.manual_seed(0)
    config = TransformerConfig(vocab_size=50, d_model=24, num_layers=2, num_heads=4, d_ff=32)
    model = hw.load(Encoder(config))
    with pytest.raises(ModelError, match="give loss="):
        importance(model, ROWS, quiet=True)
    found = importance(model, ROWS, "gate", loss=waves, quiet=True)
    assert found.attrs["loss"] == "waves"
    assert (scores(found, model) > 0).all()


def test_a_loss_without_a_gradient_is_refused(decoder: hw.Model) -> None:
    with pytest.raises(ModelError, match="does not depend on its heads"):
        importance(decoder, ROWS, loss=lambda o, i: o.detach().mean((1, 2)), quiet=True)


def test_each_gradient_gives_the_losses_too(decoder: hw.Model) -> None:
    means = mean_outputs(decoder, ROWS)
    (found,) = each_gradient(decoder, batches_in(decoder, ROWS, None, None), means=means)
    total = float(found.losses.sum() / found.counts.sum())
    assert total == pytest.approx(hw.loss(decoder, ROWS).mean, rel=1e-5)
    assert found.gates[LayerId("", 2)].shape == (6, 4)
