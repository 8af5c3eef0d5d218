"""Circuits are what dense matrices of the vocabulary and the stream give, and planted heads score as they must."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from see_help import sharp

import headwise as hw
from headwise.hub.weights import weights_of
from headwise.names import ModelError
from headwise.nn import Decoder, Encoder, TransformerConfig
from headwise.see.circuits.products import random_composition

sys.path.append(str(Path(__file__).parents[1] / "hub"))
from tiny_models import build, inputs_of


def decoder(**fields) -> hw.Model:
    torch.manual_seed(0)
    config = TransformerConfig(
        **{
            "vocab_size": 40,
            "d_model": 24,
            "num_layers": 3,
            "num_heads": 4,
            "num_kv_heads": 2,
            "d_ff": 32,
            "norm": "rms",
            **fields,
        }
    )
    model = sharp(hw.load(Decoder(config).eval()))
    with torch.no_grad():
        for part in model.module.modules():
            if isinstance(part, torch.nn.RMSNorm | torch.nn.LayerNorm):
                part.weight.uniform_(0.5, 2)
    return model


def own_weights(model: hw.Model, i: int) -> list[torch.Tensor]:
    """W_Q, W_K, W_V and W_O of each query head of a layer of ours, the gain of its norm folded in, by its names."""
    block = model.module.blocks[i]
    a, gain = block.attention, block.attention_norm.weight
    w = (a.w_qkv.weight * gain).T.double()
    parts = w.split([a.num_heads * a.head_dim, *[a.num_kv_heads * a.head_dim] * 2], dim=1)
    parts = [x.unflatten(1, (-1, a.head_dim)).transpose(0, 1) for x in parts]
    per = a.num_heads // a.num_kv_heads
    q, k, v = parts[0], *(x.repeat_interleave(per, 0) for x in parts[1:])
    o = a.w_o.weight.T.double().unflatten(0, (a.num_heads, a.head_dim))
    return [q.detach(), k.detach(), v.detach(), o.detach()]


def test_copying_and_norms_are_what_dense_matrices_give() -> None:
    model = decoder()
    table = hw.circuits(model)
    embed = model.module.embedding.tokens.weight.double().detach()
    final = model.module.final_norm.weight.double().detach()
    for i in range(3):
        q, k, v, o = own_weights(model, i)
        for h in range(4):
            full = embed @ v[h] @ o[h] @ (final[:, None] * embed.T)
            values = torch.linalg.eigvals(full)
            wanted = float(values.sum().real / values.abs().sum())
            at = table.sel(layer=i, head=h)
            assert float(at.copying) == pytest.approx(wanted, abs=1e-4)
            assert float(at.ov_norm) == pytest.approx(float((v[h] @ o[h]).norm()), rel=1e-4)
            assert float(at.qk_norm) == pytest.approx(float((q[h] @ k[h].T).norm()), rel=1e-4)


def test_composition_is_what_dense_matrices_give() -> None:
    model = decoder()
    table = hw.circuits(model)
    (baseline,) = table.attrs["baseline"].values()
    for i, j in ((0, 1), (0, 2), (1, 2)):
        _, _, v, o = own_weights(model, i)
        q, k, v2, o2 = own_weights(model, j)
        for g, h in np.ndindex(4, 4):
            writes = v[g] @ o[g]
            reads = {"q": q[h] @ k[h].T, "k": k[h] @ q[h].T, "v": v2[h] @ o2[h]}
            for kind, read in reads.items():
                wanted = float((writes @ read).norm() / (writes.norm() * read.norm())) - baseline
                score = table[f"{kind}_composition"].sel(head_from=f"{i}.{g}", head_to=f"{j}.{h}")
                assert float(score) == pytest.approx(wanted, abs=1e-5)
    for kind in "qkv":
        scores = table[f"{kind}_composition"]
        assert scores.sel(head_from="1.0", head_to="1.1").isnull()
        assert scores.sel(head_from="2.0", head_to="1.1").isnull()
        assert int(scores.notnull().sum()) == 3 * 16


def test_the_baseline_is_what_dense_random_matrices_give() -> None:
    torch.manual_seed(5)
    scores = []
    for _ in range(200):
        a, b = torch.randn(30, 4) @ torch.randn(4, 20), torch.randn(20, 6) @ torch.randn(6, 25)
        scores.append(float((a @ b).norm() / (a.norm() * b.norm())))
    assert random_composition(30, 4, 20, 6, 25) == pytest.approx(np.mean(scores), rel=0.05)


def planted(sign: float) -> hw.Model:
    """A model whose every W_V W_O is the identity times a sign on the channels of the head."""
    model = decoder(num_heads=3, num_kv_heads=3, tie_embeddings=True)
    with torch.no_grad():
        for part in model.module.modules():
            if isinstance(part, torch.nn.RMSNorm | torch.nn.LayerNorm):
                part.weight.fill_(1)
        for block in model.module.blocks:
            block.attention.w_qkv.weight[48:] = torch.eye(24)
            block.attention.w_o.weight.copy_(sign * torch.eye(24))
    return model


def test_a_planted_copying_head_scores_1_and_an_anti_copying_one_minus_1() -> None:
    np.testing.assert_allclose(hw.circuits(planted(1.0)).copying, 1, atol=1e-5)
    np.testing.assert_allclose(hw.circuits(planted(-1.0)).copying, -1, atol=1e-5)


def test_a_planted_pair_composes_by_keys_alone() -> None:
    """Head 0.0 writes to channels that only the keys of head 1.0 read."""
    model = decoder(num_heads=3, num_kv_heads=3, num_layers=2)
    first, second = (block.attention for block in model.module.blocks)
    with torch.no_grad():
        first.w_o.weight[:, :8] = 0
        first.w_o.weight[:8, :8] = torch.eye(8)
        second.w_qkv.weight.view(9, 8, 24)[[0, 6], :, :8] = 0  # queries and values of 1.0
        second.w_qkv.weight.view(9, 8, 24)[3, :, 8:] = 0  # its keys
    table = hw.circuits(model).sel(head_from="0.0", head_to="1.0")
    chance = next(iter(hw.circuits(model).attrs["baseline"].values()))
    assert float(table.k_composition) > 0.1
    assert float(table.q_composition) == pytest.approx(-chance, abs=1e-6)
    assert float(table.v_composition) == pytest.approx(-chance, abs=1e-6)


def test_a_table_says_what_positions_allow() -> None:
    assert "distance 0" in hw.circuits(decoder()).attrs["positions"]
    learned = hw.circuits(decoder(positions="learned")).attrs["positions"]
    assert "at every distance" in learned
    assert "distance 0" not in learned
    bloom = hw.circuits(hw.load(build("bloom")), inputs_of("bloom"))
    assert "ALiBi" in bloom.attrs["positions"]


def test_with_a_norm_of_each_head_the_qk_circuit_is_not_available() -> None:
    table = hw.circuits(hw.load(build("qwen3")), inputs_of("qwen3"))
    assert table.qk_norm.isnull().all()
    assert table.q_composition.isnull().all()
    assert table.copying.notnull().all()
    assert int(table.v_composition.notnull().sum()) > 0
    assert table.attrs["not_available"].startswith("all layers: no QK circuit, as no linear map")
    assert table.attrs["positions"] == "no layer has a QK circuit"


def test_values_of_a_latent_have_no_ov_circuit() -> None:
    table = hw.circuits(hw.load(build("deepseek-v3")), inputs_of("deepseek-v3"))
    assert table.ov_norm.isnull().all()
    assert "narrower than the stream" in table.attrs["not_available"]


def test_an_encoder_is_measured_against_its_own_embedding() -> None:
    torch.manual_seed(0)
    config = TransformerConfig(vocab_size=40, d_model=24, num_layers=2, num_heads=4, d_ff=32)
    table = hw.circuits(sharp(hw.load(Encoder(config).eval())))
    assert "transposed" in table.attrs["copying_through"]
    assert table.copying.notnull().all()


def test_streams_of_an_encoder_decoder_meet_where_they_do() -> None:
    table = hw.circuits(hw.load(build("bart")), inputs_of("bart"))

    def known(kind: str, one: str, other: str) -> bool:
        at = {"head_from": f"{one}.0", "head_to": f"{other}.0"}
        return bool(table[f"{kind}_composition"].sel(at).notnull())

    assert known("q", "encoder.0", "encoder.1")
    assert not known("q", "encoder.0", "decoder.1")
    assert known("k", "encoder.1", "cross.0")
    assert known("v", "encoder.1", "cross.0")
    assert not known("q", "encoder.1", "cross.0")
    assert known("q", "decoder.0", "cross.0")
    assert not known("k", "decoder.0", "cross.0")
    assert known("k", "cross.0", "decoder.1")
    assert table.copying.notnull().all()


def test_a_layer_that_runs_several_times_has_a_row_for_each() -> None:
    table = hw.circuits(hw.load(build("albert")), inputs_of("albert"))
    assert table.sizes["layer"] == build("albert").config.num_hidden_layers
    assert table.ov_norm.notnull().all()
    assert "layers 1 to 2: the gain of the norm right before" in table.attrs["norms"]


def test_an_embedding_of_another_width_has_no_copying_and_says_so() -> None:
    table = hw.circuits(hw.load(build("albert")), inputs_of("albert"))
    assert table.copying.isnull().all()
    wide = build("albert").config.hidden_size
    says = f"all layers: no copying, as W_E is 16 wide and what the heads read {wide}: another map"
    assert table.attrs["not_available"].startswith(says)
    assert "not_available" not in hw.circuits(decoder()).attrs


def test_pairs_are_left_out_where_they_are_not_asked_for() -> None:
    assert set(hw.circuits(decoder(), composition=False).data_vars) == {
        "copying",
        "ov_norm",
        "qk_norm",
    }


def test_a_model_that_reads_no_ids_is_refused_in_one_line() -> None:
    with pytest.raises(
        ModelError, match=r"reads input_features, not text.*hw\.circuits\(model, \{'input"
    ):
        hw.circuits(hw.load(build("whisper")))
    with pytest.raises(ModelError, match="reads input_features, not text"):
        hw.circuits(hw.load(build("whisper")), "a text")


def test_what_is_no_model_is_refused(unchecked: None) -> None:
    with pytest.raises(ModelError, match="takes a model from load"):
        hw.circuits("smollm2")


@pytest.mark.models
def test_induction_heads_of_a_real_model_read_the_previous_token_head_by_their_keys() -> None:
    table = hw.circuits(hw.load("smollm2"))
    scores = table.k_composition
    for head in ("18.6", "17.3", "17.4"):
        from_earlier = scores.sel(head_to=head).dropna("head_from")
        place = int((from_earlier > from_earlier.sel(head_from="16.0")).sum())
        assert place <= 1, head
        assert float(from_earlier.sel(head_from="16.0")) > 0.1 > float(from_earlier.median()) + 0.08


@pytest.mark.models
def test_weights_of_a_real_encoder() -> None:
    model = hw.load("minilm")
    table = hw.circuits(model)
    assert "not_available" not in table.attrs
    assert table.attrs["verified"] < 1e-5
    batch = {"input_ids": torch.randint(1000, 2000, (2, 5))}
    assert all(not layer.missing for layer in weights_of(model, batch).layers)
