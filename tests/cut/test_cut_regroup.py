"""regroup: exact where the pooled heads are the same, also in bases of their own; ids, sizes and refusals."""

from __future__ import annotations

import pytest
import torch
from regroup_help import answers, ids_of, made, spread_out
from torch.testing import assert_close

import headwise as hw
from headwise.cut.census import census
from headwise.cut.pruning.record import cut_of
from headwise.cut.regrouping.aligning import shared_map, shared_pairs
from headwise.cut.regrouping.maps import maps_of
from headwise.cut.regrouping.moments import gathered, made_up
from headwise.cut.regrouping.regrouping import regroup
from headwise.hub.kept import kept_of
from headwise.names import ConfigError, LayerId, ModelError
from headwise.nn import Decoder, Encoder, EncoderDecoder, TransformerConfig

HOWS = ["aligned", "mean", "first", "random"]
NEIGHBOURS = (0, 0, 0, 0, 4, 4, 4, 4)


@pytest.mark.parametrize("how", HOWS)
def test_the_same_heads_are_pooled_exactly(how):
    model = made()
    spread_out(model, NEIGHBOURS, turned=True, plain=True)
    found = regroup(model, 2, how)
    assert_close(answers(found), answers(model), atol=1e-9, rtol=0)


@pytest.mark.parametrize(
    ("kind", "positions"),
    [
        (Decoder, "rope"),
        (Decoder, "learned"),
        (Decoder, "alibi"),
        (Encoder, "rope"),
        (Encoder, "none"),
        (EncoderDecoder, "rope"),
    ],
)
def test_heads_in_bases_of_their_own_are_pooled_exactly_when_aligned(kind, positions):
    """Of an encoder-decoder its cross-attention's keys are turned by nothing, whatever the positions."""
    model = made(kind, positions=positions)
    spread_out(model, NEIGHBOURS, turned=positions == "rope")
    wanted = answers(model)
    assert_close(answers(regroup(model, 2)), wanted, atol=1e-7, rtol=0)
    for how in HOWS[1:]:
        assert float((answers(regroup(model, 2, how)) - wanted).abs().max()) > 1e-2


def test_grouped_queries_are_regrouped_too():
    model = made(num_kv_heads=4)
    spread_out(model, (0, 0, 2, 2), turned=True)
    found = regroup(model, 2)
    assert_close(answers(found), answers(model), atol=1e-7, rtol=0)
    assert found.module.blocks[0].attention.w_qkv.weight.shape == ((8 + 2 * 2) * 8, 32)


def test_fewer_heads_than_there_are_kinds_lose_something():
    model = made()
    spread_out(model, NEIGHBOURS, turned=True)
    assert float((answers(regroup(model, 1)) - answers(model)).abs().max()) > 1e-2


@pytest.mark.parametrize("positions", ["rope", "learned"])
def test_with_texts_heads_that_are_alike_are_found(positions):
    model = made(positions=positions)
    spread_out(model, (0, 1, 0, 1, 1, 0, 0, 1), turned=positions == "rope")
    found = regroup(model, 2, texts=ids_of(8, 40, seed=9))
    assert_close(answers(found), answers(model), atol=1e-7, rtol=0)
    assert set(found.regrouping.groups.values()) == {((0, 2, 5, 6), (1, 3, 4, 7))}
    run = census(found).runs[0]
    assert run.heads == (0, 2, 5, 6, 1, 3, 4, 7)
    assert kept_of(found.module.blocks[0].attention).kv_heads == (0, 1)
    assert float((answers(regroup(model, 2)) - answers(model)).abs().max()) > 1e-2


def test_ids_of_heads_go_with_them():
    """Head 5 ablated by its id is head 5 of the model before, wherever it stands now."""
    model = made()
    spread_out(model, (0, 1, 0, 1, 1, 0, 0, 1), turned=True)
    found = regroup(model, 2, texts=ids_of(8, 40, seed=9))
    for head in ("0.5", "1.1"):
        with hw.ablate(model, head):
            wanted = answers(model)
        with hw.ablate(found, head):
            assert_close(answers(found), wanted, atol=1e-7, rtol=0)


def test_heads_with_a_bias_of_their_own_stay_where_they_are():
    model = made(positions="alibi")
    spread_out(model, (0, 1, 0, 1, 1, 0, 0, 1), turned=False)
    found = regroup(model, 2, texts=ids_of(8, 40, seed=9))
    assert set(found.regrouping.groups.values()) == {((0, 1, 2, 3), (4, 5, 6, 7))}


def test_the_mean_is_that_of_keys_and_values():
    """Ainslie et al. 2023: W_K and W_V of a group are averaged, all else stays."""
    model = made()
    found = regroup(model, 4, "mean")
    before, after = (m.module.blocks[1].attention for m in (model, found))
    q, k, v = before.w_qkv.weight.unflatten(0, (24, 8)).split([8, 8, 8])
    wanted = torch.cat([q, *(x.unflatten(0, (4, 2)).mean(1) for x in (k, v))]).flatten(0, 1)
    assert_close(after.w_qkv.weight, wanted)
    b = before.w_qkv.bias.view(3, 8, 8)[1].view(4, 2, 8).mean(1).flatten()
    assert_close(after.w_qkv.bias[64:96], b)
    assert torch.equal(after.w_o.weight, before.w_o.weight)


def test_first_and_random_take_one_of_each_group():
    model = made()
    k = model.module.blocks[0].attention.w_qkv.weight.view(3, 8, 8, 32)[1]

    def chosen(how, seed=0):
        found = regroup(model, 2, how, seed=seed).module.blocks[0].attention.w_qkv.weight
        mine = found[64:80].view(2, 8, 32)
        return tuple(next(j for j in range(8) if torch.equal(k[j], x)) for x in mine)

    assert chosen("first") == (0, 4)
    draws = {chosen("random", seed) for seed in range(8)}
    assert len(draws) > 2
    assert all(a < 4 <= b for a, b in draws)
    assert chosen("random", 3) == chosen("random", 3)


def test_the_model_given_stays_as_it_is_unless_in_place():
    model = made()
    before = {name: x.clone() for name, x in model.module.state_dict().items()}
    found = regroup(model, 2)
    assert found.module is not model.module
    assert all(torch.equal(x, before[name]) for name, x in model.module.state_dict().items())
    assert regroup(model, 2, inplace=True).module is model.module
    assert_close(answers(model), answers(found))
    assert census(model).runs[0].num_kv_heads == 2


def test_a_cache_of_fewer_heads_gives_what_one_pass_gives():
    found = regroup(made(), 2)
    ids = ids_of(2, 10)
    with torch.no_grad():
        cache = found.module.new_cache(10)
        steps = [found.module(ids[:, i : i + 1], cache=cache) for i in range(10)]
        assert_close(torch.cat(steps, 1), found.module(ids))
    assert cache.layers[0].held()[0].shape == (2, 2, 10, 8)


def test_what_it_cost_is_told():
    model, ids = made(), ids_of(4, 20)
    told = regroup(model, 2, texts=ids).regrouping
    assert told.loss_before == hw.loss(model, ids)
    assert told.loss_after == hw.loss(regroup(model, 2, texts=ids), ids)
    assert (told.before_bytes, told.after_bytes) == (2 * 8 * 16 * 8, 2 * 2 * 16 * 8)
    assert told.as_dict()["after"] == {"0": 2, "1": 2}
    assert regroup(model, 2).regrouping.loss_before is None
    own = regroup(made(Encoder), 2, texts=ids, loss=lambda out, inputs: out.square().mean((1, 2)))
    assert own.regrouping.loss_after.texts == 4
    assert regroup(made(Encoder), 2, texts=ids).regrouping.loss_after is None


def test_bases_are_nearly_turned_ones():
    """So that keys, values and queries stay as large as they were: the maps back have mean square 1."""
    draw = torch.Generator().manual_seed(0)
    weights = torch.randn(3, 20, 6, generator=draw, dtype=torch.float64)
    some = torch.randn(3, 6, 6, generator=draw, dtype=torch.float64)
    x = torch.randn(50, 20, generator=draw, dtype=torch.float64)
    found = shared_map(weights, some @ some.mT, x.T @ x)
    assert_close((found.back @ found.back.mT).mean(0), torch.eye(6, dtype=torch.float64))
    numbers = torch.view_as_complex(weights.unflatten(-1, (3, 2)).contiguous())
    _, back = shared_pairs(numbers, some.square()[..., 0, :3], x.T @ x)
    assert_close(back.abs().square().mean(0), torch.ones(3, dtype=torch.float64))


def test_moments_are_of_what_each_map_reads():
    """Queries of a decoder's stream, keys of the memory in cross-attention; padding left out."""
    model = made(EncoderDecoder)
    seen = {}
    attention = model.module.decoder.blocks[1].cross_attention
    attention.register_forward_pre_hook(
        lambda m, args, kwargs: seen.update(q=args[0], k=kwargs["memory"]), with_kwargs=True
    )
    batch = {"input_ids": ids_of(2, 9), "decoder_input_ids": ids_of(2, 6)}
    batch["attention_mask"] = torch.tensor([[1] * 9, [1] * 5 + [0] * 4])
    found = gathered(model, maps_of(model), batch)[LayerId("cross", 1)]
    rows = torch.cat([seen["k"][0], seen["k"][1, :5]])
    assert_close(found.keys[:-1, :-1], rows.T @ rows / 14, atol=2e-2, rtol=1e-2)
    assert_close(found.keys[-1, :-1], rows.mean(0), atol=1e-5, rtol=1e-4)
    assert_close(found.queries[-1, :-1], seen["q"].flatten(0, 1).mean(0), atol=1e-5, rtol=1e-4)


def test_without_texts_ids_are_drawn():
    """Enough to show every direction, the same for one seed; of both texts of an encoder-decoder."""
    given = made_up(made(), 0)
    assert given["input_ids"].shape == (8, 64)
    assert 80 < len(given["input_ids"].unique()) <= 90
    assert torch.equal(given["input_ids"], made_up(made(), 0)["input_ids"])
    assert not torch.equal(given["input_ids"], made_up(made(), 1)["input_ids"])
    assert set(made_up(made(EncoderDecoder), 0)) == {"input_ids", "decoder_input_ids"}


def test_the_record_says_what_became_of_the_tensors():
    found = regroup(made(), 2)
    cut = cut_of(found.module)
    shapes = {name: tuple(x.shape) for name, x in found.module.state_dict().items()}
    assert {name: shapes[name] for name in cut.shapes} == cut.shapes
    assert set(cut.kept) == {"blocks.0.attention", "blocks.1.attention"}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("number", "how", "says"),
    [
        (3, "mean", "num_kv_heads=3 does not divide the 8 KV heads of layer 0.*use 1, 2, 4, 8"),
        (0, "mean", "num_kv_heads=0 is not a count"),
        (2.0, "mean", "num_kv_heads=2.0 is not a count"),
        (2, "best", "how='best' is not known; use one of aligned, mean, first, random"),
    ],
)
def test_what_cannot_be_is_refused(number, how, says):
    with pytest.raises(ConfigError, match=says):
        regroup(made(), number, how)


def test_a_model_with_a_norm_per_head_is_refused_in_words():
    from transformers import GPT2Config, GPT2LMHeadModel

    model = hw.load(GPT2LMHeadModel(GPT2Config(n_embd=32, n_layer=1, n_head=4, vocab_size=90)))
    with pytest.raises(ModelError, match=r"GPT2Attention\) has no number of key/value heads"):
        regroup(model, 2)


@pytest.mark.usefixtures("unchecked")
def test_what_is_no_model_is_refused():
    with pytest.raises(ModelError, match="regroup takes a model"):
        regroup(Decoder(TransformerConfig(vocab_size=9, d_model=8, num_layers=1, num_heads=2)), 1)
