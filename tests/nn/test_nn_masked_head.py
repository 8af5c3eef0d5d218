"""BERT's head for hidden words: the logits of BertForMaskedLM, both ways."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from family_help import checkpoint, config, edit, positions_of, weights
from safetensors.torch import save_file
from torch.testing import assert_close
from transformers import BertConfig, BertForMaskedLM, BertForPreTraining

import headwise as hw
from headwise.names import ConfigError
from headwise.nn import Encoder, load_checkpoint, save_checkpoint

SMALL = {"vocab_size": 31, "hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6}
SMALL |= {"intermediate_size": 40, "max_position_embeddings": 32, "initializer_range": 0.3}
HEAD = {"head.bias", "head.dense.bias", "head.dense.weight", "head.norm.bias", "head.norm.weight"}


def shaken(model, folder: Path):
    """Saved, its biases and norms away from 0 and 1."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder)
    return model.eval()


@torch.no_grad()
@pytest.mark.parametrize("act", ["gelu", "relu", "gelu_new"])
def test_logits_are_those_of_transformers(tmp_path, batch, act):
    ids, padding, alone = batch
    theirs = shaken(BertForMaskedLM(BertConfig(**SMALL, hidden_act=act)), tmp_path)
    ours = load_checkpoint(tmp_path)
    assert isinstance(ours, Encoder)
    assert ours.config.masked_head
    kept = {"attention_mask": (~padding).long(), "position_ids": positions_of(padding)}
    expected = theirs(ids, **kept, output_hidden_states=True)
    hidden = ours(ids, padding)
    last = expected.hidden_states[-1]
    assert_close(hidden[~padding], last[~padding], atol=1e-5, rtol=1e-5)
    assert_close(ours.logits(hidden)[~padding], expected.logits[~padding], atol=1e-5, rtol=1e-5)
    for row, sequence in enumerate(alone):
        single = theirs(sequence).logits[0]
        assert_close(ours.logits(hidden)[row][~padding[row]], single, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_the_head_among_others(tmp_path):
    theirs = shaken(BertForPreTraining(BertConfig(**SMALL)), tmp_path)
    ids = torch.randint(0, 31, (2, 9))
    ours = load_checkpoint(tmp_path)
    assert_close(ours.logits(ours(ids)), theirs(ids).prediction_logits, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_a_checkpoint_without_a_head_is_as_it_was(tmp_path):
    theirs, folder = checkpoint("bert", tmp_path)
    ours = load_checkpoint(folder)
    assert not ours.config.masked_head
    assert ours.head is None
    ids = torch.randint(0, 31, (2, 9))
    hidden = ours(ids)
    assert_close(hidden, theirs(ids).last_hidden_state, atol=1e-5, rtol=1e-5)
    assert_close(ours.logits(hidden), hidden @ ours.embedding.tokens.weight.T)
    unsaid = load_checkpoint(edit(folder, architectures=["BertForTokenClassification"]))
    assert unsaid.head is None


@torch.no_grad()
def test_the_head_and_the_output_matrix_are_trained_and_saved(tmp_path, tiny):
    made = tiny(
        masked_head=True,
        positions="learned",
        num_kv_heads=6,
        norm_position="post",
        final_norm=False,
        embedding_norm=True,
        norm_eps=1e-12,
        token_types=2,
    )
    model = Encoder(made)
    assert {name for name in model.state_dict() if name.startswith("head.")} == HEAD
    ids = torch.randint(0, 31, (2, 9))
    with torch.enable_grad():
        model.logits(model(ids)).logsumexp(-1).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.1)
    assert save_checkpoint(model.eval(), tmp_path / "new") == "bert"
    assert config(tmp_path / "new")["architectures"] == ["BertForMaskedLM"]
    theirs = BertForMaskedLM.from_pretrained(tmp_path / "new").eval()
    assert_close(theirs(ids).logits, model.logits(model(ids)), atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_an_output_matrix_of_its_own(tmp_path, tiny):
    model = Encoder(tiny(masked_head=True, tie_embeddings=False)).eval()
    assert model.unembed is not None
    assert save_checkpoint(model, tmp_path / "own") == "headwise"
    again = load_checkpoint(tmp_path / "own")
    ids = torch.randint(0, 31, (2, 9))
    assert torch.equal(again.logits(again(ids)), model.logits(model(ids)))
    _, folder = checkpoint("bert head", tmp_path / "bert")
    with pytest.raises(ConfigError, match="tie_word_embeddings=False is not supported"):
        load_checkpoint(edit(folder, tie_word_embeddings=False))


@torch.no_grad()
def test_what_a_trained_model_saves_is_what_it_learned(tmp_path):
    """Copies of tied weights that the old checkpoint holds do not come back."""
    _, folder = checkpoint("bert head", tmp_path / "old")
    held = weights(folder)
    copies = {
        "cls.predictions.decoder.weight": held["bert.embeddings.word_embeddings.weight"].clone(),
        "cls.predictions.decoder.bias": held["cls.predictions.bias"].clone(),
        "bert.pooler.dense.weight": torch.ones(24, 24),
        "bert.pooler.dense.bias": torch.ones(24),
    }
    save_file({**held, **copies}, folder / "model.safetensors", metadata={"format": "pt"})
    model = hw.load(folder, quiet=True)
    for parameter in model.module.parameters():
        parameter.add_(0.1)
    hw.save(model, tmp_path / "new")
    assert weights(tmp_path / "new").keys() == held.keys() | {
        "bert.pooler.dense.weight",
        "bert.pooler.dense.bias",
    }
    theirs = BertForMaskedLM.from_pretrained(tmp_path / "new").eval()
    ids = torch.randint(0, 31, (1, 9))
    ours = model.module
    assert_close(theirs(ids).logits, ours.logits(ours(ids)), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("model_type", ["albert", "roberta"])
def test_relatives_stay_in_transformers(tmp_path, model_type):
    import transformers

    config = transformers.AutoConfig.for_model(model_type, **SMALL, pad_token_id=1)
    transformers.AutoModelForMaskedLM.from_config(config).save_pretrained(tmp_path)
    assert hw.load(tmp_path, quiet=True).foreign


@torch.no_grad()
@pytest.mark.models
def test_rxnmapper_stays_in_transformers():
    assert hw.load("rxnmapper", quiet=True).foreign
