"""A profile is what the records of its texts say, however they are batched, padded, split or taken up again."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch
from profile_help import TEXTS, assert_maps_are, assert_same, assert_table_is
from torch import nn

import headwise as hw
from headwise.core.streaming import Block
from headwise.names import ConfigError, ModelError
from headwise.see.profile.profiler import Profiler
from headwise.see.texts.batches import from_inputs
from headwise.see.texts.packing import packed
from headwise.see.texts.tokens import tokenize


def ids_of(model: hw.Model, text: str) -> torch.Tensor:
    return torch.tensor([token.id for token in tokenize(model.tokenizer, text)])


def profiler_of(model: hw.Model, texts: list[str], **settings) -> Profiler:
    profiler = Profiler(model, **settings)
    for batch in packed(model, texts):
        profiler.add(batch)
    return profiler


@pytest.mark.parametrize("name", ["bytes_model", "encoder_model"])
def test_every_number_is_what_the_records_give(name: str, request) -> None:
    model = request.getfixturevalue(name)
    table = hw.profile(model, TEXTS, top=3, pool=4, positions=7)
    records = hw.look(model, TEXTS)
    assert_table_is(table, records, top=3)
    assert_maps_are(table, records)
    assert table.attrs["verified"] < 1e-5
    assert (table.attrs["texts"], table.attrs["tokens"]) == (5, sum(map(len, TEXTS)))
    assert table.sizes["layer"] == 2


def test_the_groups_of_a_model_of_grouped_heads(bytes_model: hw.Model) -> None:
    table = hw.profile(bytes_model, "one two")
    assert table.kv_group.values.tolist() == [[0, 0, 0, 1, 1, 1]] * 2
    assert table.layer.values.tolist() == [0, 1]


def head_results(model: hw.Model, text: str) -> list[torch.Tensor]:
    """Of each layer what each head adds, [query, head, d_model], from the inputs of its w_o."""
    found = []

    def keep(module: nn.Linear, inputs: tuple[torch.Tensor, ...]) -> None:
        z = inputs[0][0].double()
        by_head = module.weight.double().T.unflatten(0, (-1, model.module.config.head_dim))
        found.append(torch.einsum("qhd,hdm->qhm", z.unflatten(-1, by_head.shape[:2]), by_head))

    hooks = [x.module.w_o.register_forward_pre_hook(keep) for x in model.anatomy.layers]
    model.run({"input_ids": ids_of(model, text)[None]})
    for hook in hooks:
        hook.remove()
    return found


def test_results_are_those_of_each_head_through_w_o(bytes_model: hw.Model) -> None:
    text = TEXTS[0] * 4  # 176 tokens: five samples, the middles of five equal stretches
    for layer in bytes_model.anatomy.layers:
        assert layer.module.w_o.bias is not None
        nn.init.normal_(layer.module.w_o.bias)  # of no head, and left out
    table = hw.profile(bytes_model, text)
    n = len(text)
    at = [int((i + 0.5) * n / 5) for i in range(5)]
    assert float(table.result_norm_count[0, 0]) == 5
    for layer, results in enumerate(head_results(bytes_model, text)):
        taken = results[at]
        whole = taken.sum(1, keepdim=True)
        shares = (taken * whole).sum(-1) / whole.square().sum(-1)
        np.testing.assert_allclose(table.result_norm[layer], taken.norm(dim=-1).mean(0), rtol=1e-4)
        np.testing.assert_allclose(table.result_share[layer], shares.mean(0), atol=1e-4)
    np.testing.assert_allclose(table.result_share.sum("head"), 1, atol=1e-5)


def test_results_are_taken_on_every_query_of_a_short_text(bytes_model: hw.Model) -> None:
    table = hw.profile(bytes_model, ["abcd", "ab", "a"])
    assert (table.result_norm_count == 7).all()
    taken = torch.cat([head_results(bytes_model, text)[1] for text in ("abcd", "ab", "a")])
    np.testing.assert_allclose(table.result_norm[1], taken.norm(dim=-1).mean(0), rtol=1e-4)


def test_how_texts_are_batched_changes_nothing(bytes_model: hw.Model) -> None:
    table = hw.profile(bytes_model, TEXTS)
    one_by_one = Profiler(bytes_model)
    for text in reversed(TEXTS):
        one_by_one.add(next(packed(bytes_model, [text])))
    assert_same(table, one_by_one.dataset())
    assert_same(table, hw.profile(bytes_model, iter(TEXTS)))
    rows = [ids_of(bytes_model, text) for text in TEXTS]
    assert_same(table, hw.profile(bytes_model, rows))


@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_counts_nowhere(bytes_model: hw.Model, side: str) -> None:
    rows = [ids_of(bytes_model, text) for text in TEXTS]
    longest = max(map(len, rows))
    ids = torch.zeros(len(rows), longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for i, row in enumerate(rows):
        where = slice(0, len(row)) if side == "right" else slice(longest - len(row), None)
        ids[i, where], mask[i, where] = row, 1
    padded = hw.profile(bytes_model, {"input_ids": ids, "attention_mask": mask})
    assert_same(hw.profile(bytes_model, TEXTS), padded)
    assert padded.attrs["tokens"] == sum(map(len, rows))


def test_layers_reduced_alone_or_together_give_the_same(bytes_model, monkeypatch) -> None:
    together = hw.profile(bytes_model, TEXTS)
    monkeypatch.setattr("headwise.see.profile.meter._MOST_NUMBERS", 1)
    assert_same(together, hw.profile(bytes_model, TEXTS), rtol=1e-12, atol=1e-12)


def test_two_halves_are_the_whole(bytes_model: hw.Model) -> None:
    whole = profiler_of(bytes_model, TEXTS)
    one, other = profiler_of(bytes_model, TEXTS[:2]), profiler_of(bytes_model, TEXTS[2:])
    one.merge(other.state())
    assert_same(whole.dataset(), one.dataset())
    assert (one.texts, one.tokens) == (whole.texts, whole.tokens) == (5, sum(map(len, TEXTS)))
    empty = Profiler(bytes_model)
    empty.merge(whole.state())
    assert_same(whole.dataset(), empty.dataset(), rtol=0, atol=0)


def test_a_saved_state_is_gone_on_from(bytes_model: hw.Model) -> None:
    first = profiler_of(bytes_model, TEXTS[:2])
    place = io.BytesIO()
    np.savez(place, **first.state())
    place.seek(0)
    later = Profiler(bytes_model)
    with np.load(place) as saved:
        later.restore(dict(saved))
    for batch in packed(bytes_model, TEXTS[2:]):
        later.add(batch)
    assert_same(profiler_of(bytes_model, TEXTS).dataset(), later.dataset())
    assert later.texts == 5


@pytest.mark.parametrize("settings", [{"top": 3}, {"pool": 2}, {"probes": ["self"]}])
def test_a_state_of_other_settings_is_refused(bytes_model: hw.Model, settings) -> None:
    state = profiler_of(bytes_model, TEXTS[:1], **settings).state()
    with pytest.raises(ConfigError, match=f"made with {next(iter(settings))}"):
        Profiler(bytes_model).restore(state)
    with pytest.raises(ConfigError, match=f"made with {next(iter(settings))}"):
        Profiler(bytes_model).merge(state)


def test_a_state_of_another_model_is_refused(bytes_model, encoder_model) -> None:
    state = profiler_of(encoder_model, TEXTS[:1]).state()
    with pytest.raises(ConfigError, match="made with model = Encoder, this one has Decoder"):
        Profiler(bytes_model).restore(state)
    with pytest.raises(ConfigError, match="no state of a profile"):
        Profiler(bytes_model).restore({"sum": np.zeros(3)})


def test_a_pass_that_is_broken_off_counts_nothing(bytes_model: hw.Model) -> None:
    profiler = profiler_of(bytes_model, TEXTS[:2])
    before = profiler.dataset()
    last = bytes_model.anatomy.layers[-1].module

    def stop(*_) -> None:
        raise KeyboardInterrupt

    hook = last.register_forward_hook(stop)
    with pytest.raises(KeyboardInterrupt):
        profiler.add(next(packed(bytes_model, TEXTS[2:])))
    hook.remove()
    assert_same(before, profiler.dataset(), rtol=0, atol=0)
    assert profiler.texts == 2
    profiler.add(next(packed(bytes_model, TEXTS[2:])))
    assert_same(profiler_of(bytes_model, TEXTS).dataset(), profiler.dataset())


def test_a_nan_in_the_weights_is_named(bytes_model: hw.Model) -> None:
    profiler = profiler_of(bytes_model, TEXTS[:2])
    before = profiler.dataset()
    attention = bytes_model.anatomy.layers[1].module
    with torch.no_grad():
        attention.w_qkv.weight[4 * attention.head_dim] = torch.nan  # of query head 4
    with pytest.raises(ModelError, match=r"head 1\.4 of Decoder gives NaN .* 'a' and 2 more texts"):
        profiler.add(next(packed(bytes_model, TEXTS[2:])))
    assert_same(before, profiler.dataset(), rtol=0, atol=0)
    with pytest.raises(ModelError, match=r"head 1\.4"):
        hw.profile(bytes_model, TEXTS)


def test_a_nan_in_the_values_is_named_too(bytes_model: hw.Model) -> None:
    attention = bytes_model.anatomy.layers[0].module
    with torch.no_grad():
        attention.w_qkv.weight[-1] = torch.nan  # a value of the second KV head: heads 3 to 5
    with pytest.raises(ModelError, match=r"head 0\.3 of Decoder gives NaN"):
        hw.profile(bytes_model, TEXTS)


def test_a_probe_of_ones_own(bytes_model: hw.Model) -> None:
    def two_before(queries, keys):
        return [q - 2 if q > 1 else -1 for q in range(len(queries.tokens))]

    table = hw.profile(bytes_model, TEXTS, probes=[hw.probes.Probe("two_before", two_before)])
    diagonals = [np.diagonal(r.weights("1.2"), -2) for r in hw.look(bytes_model, TEXTS)]
    masses = np.concatenate(diagonals)
    assert float(table.two_before[1, 2]) == pytest.approx(masses.mean(), abs=1e-5)
    assert float(table.two_before_count[1, 2]) == len(masses)
    assert "previous" not in table


def test_a_function_of_ones_own(bytes_model: hw.Model) -> None:
    def even_keys(block: Block) -> torch.Tensor:
        mass = block.pattern[..., block.key % 2 == 0].sum(-1)
        return mass.masked_fill(block.query % 3 == 0, torch.nan)  # each third row left out

    table = hw.profile(bytes_model, TEXTS, functions={"even_keys": even_keys})
    rows = [
        record.weights("0.5")[:, ::2].sum(1)[np.arange(len(record.tokens)) % 3 > 0]
        for record in hw.look(bytes_model, TEXTS)
    ]
    values = np.concatenate(rows)
    assert float(table.even_keys[0, 5]) == pytest.approx(values.mean(), abs=1e-5)
    assert float(table.even_keys_count[0, 5]) == len(values)


def test_nothing_asked_for_leaves_the_rows(bytes_model: hw.Model) -> None:
    table = hw.profile(bytes_model, TEXTS, probes=(), top=0, pool=0, positions=0)
    whole = hw.profile(bytes_model, TEXTS)
    assert {"top", "previous", "pooled", "received"}.isdisjoint(table.data_vars)
    assert "position" not in table.dims
    for name in ("entropy", "evenness", "distance", "largest", "result_norm", "entropy_high"):
        np.testing.assert_allclose(table[name], whole[name], rtol=1e-6)


def test_padding_that_cannot_be_moved_is_refused(bytes_model: hw.Model) -> None:
    inputs = {
        "input_ids": torch.tensor([[0, 5, 6]]),
        "attention_mask": torch.tensor([[0, 1, 1]]),
        "position_ids": torch.tensor([[0, 0, 1]]),
    }
    with pytest.raises(hw.HeadwiseError, match="padding before its tokens"):
        Profiler(bytes_model).add(from_inputs(bytes_model, inputs))
