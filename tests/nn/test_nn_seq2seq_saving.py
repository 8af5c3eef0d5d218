"""Encoder-decoders written back: transformers loads them, and nothing changes on the way."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from seq2seq_help import FAMILIES, made, saved, sources, targets, theirs_alone
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch.testing import assert_close

import headwise as hw
from headwise.names import ConfigError
from headwise.nn import (
    Encoder,
    EncoderDecoder,
    TransformerConfig,
    build,
    load_checkpoint,
    save_checkpoint,
    why_unfit,
)
from headwise.nn.stored import stored

every_family = pytest.mark.parametrize("name", FAMILIES)


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return load_file(folder / "model.safetensors")


def told(folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return config


def edit(folder: Path, **fields: Any) -> Path:
    (folder / "config.json").write_text(json.dumps(told(folder) | fields))
    return folder


def same(ours: dict[str, torch.Tensor], theirs: dict[str, torch.Tensor]) -> None:
    assert set(ours) == set(theirs)
    for name, tensor in ours.items():
        assert torch.equal(tensor, theirs[name]), name


@every_family
def test_weights_come_back_bit_for_bit(tmp_path: Path, name: str) -> None:
    theirs = made(name)
    folder = saved(theirs, tmp_path)
    state = dict(stored(load_checkpoint(folder), told(folder)))
    assert state
    kept = weights(folder)
    if name == "bart bare":
        assert not any(x.startswith("model.") or x == "final_logits_bias" for x in state)
    same(state, {n: w for n, w in kept.items() if "embed_positions" not in n or n in state})


@torch.no_grad()
@every_family
def test_transformers_loads_what_is_saved(tmp_path: Path, name: str) -> None:
    theirs = made(name)
    ours = load_checkpoint(saved(theirs, tmp_path / "theirs"))
    assert save_checkpoint(ours, tmp_path / "ours") == name.split()[0]
    again = load_checkpoint(tmp_path / "ours")
    assert again.config == ours.config
    same(again.state_dict(), ours.state_dict())
    kind = told(tmp_path / "ours")["architectures"][0]
    loaded, report = getattr(transformers, kind).from_pretrained(
        tmp_path / "ours", output_loading_info=True
    )
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    source, target = sources(name)[0], targets()[0]
    states, logits = theirs_alone(loaded.eval(), source, target)
    assert_close(ours.encode(source), states, atol=1e-5, rtol=1e-5)
    assert_close(ours(source, target), logits, atol=1e-5, rtol=1e-5)


@every_family
def test_a_fresh_one_is_built_and_saved(tmp_path: Path, name: str) -> None:
    theirs = made(name)
    folder = saved(theirs, tmp_path / "theirs")
    config = load_checkpoint(folder).config
    said = json.loads(json.dumps({"class": "EncoderDecoder", **asdict(config)}))
    built = build(said)
    assert isinstance(built, EncoderDecoder)
    assert built.config == config
    assert build(told(folder)).config == config
    assert save_checkpoint(built, tmp_path / "ours") == name.split()[0]
    same(load_checkpoint(tmp_path / "ours").state_dict(), built.state_dict())


def test_a_configuration_of_no_family_is_saved_in_our_own_form(tmp_path: Path) -> None:
    config = replace(load_checkpoint(saved(made("t5"), tmp_path / "a")).config, norm="layer")
    model = EncoderDecoder(config)
    assert save_checkpoint(model, tmp_path / "b") == "headwise"
    same(load_checkpoint(tmp_path / "b").state_dict(), model.state_dict())


def test_text_with_an_encoder_of_its_own_is_not_whisper(tmp_path: Path) -> None:
    sizes = {"vocab_size": 31, "d_model": 24, "num_layers": 1, "num_heads": 2}
    config = TransformerConfig(**sizes, positions="learned", max_length=32)
    model = EncoderDecoder(config)
    assert "has no place in the table of model_type='whisper'" in why_unfit(model)["whisper"]
    assert save_checkpoint(model, tmp_path) == "headwise"
    same(load_checkpoint(tmp_path).state_dict(), model.state_dict())


def test_what_a_decoder_starts_from_is_said(tmp_path: Path) -> None:
    tokenizer = Tokenizer(WordLevel({"</s>": 4, "the": 1}, unk_token="the"))
    for name in ("t5", "marian"):
        model = load_checkpoint(saved(made(name), tmp_path / name))
        for given, start in (({}, 4), ({"start": 7}, 7)):
            save_checkpoint(model, tmp_path / "ours", tokenizer=tokenizer, **given)
            assert told(tmp_path / "ours")["decoder_start_token_id"] == start
    with pytest.raises(ConfigError, match="start=31 is no token of vocab_size=31"):
        save_checkpoint(model, tmp_path / "ours", start=31)
    with pytest.raises(ConfigError, match="start=1 came with Encoder"):
        save_checkpoint(Encoder(model.encoder.config), tmp_path / "ours", start=1)


def test_a_shared_table_that_is_exchanged_is_read_by_both() -> None:
    sizes = {"vocab_size": 31, "d_model": 24, "num_layers": 1, "num_heads": 2}
    model = EncoderDecoder(TransformerConfig(**sizes, share_embeddings=True)).eval()
    source = sources("bart")[0]
    before, names = model.encode(source), model.state_dict().keys()
    model.decoder.embedding.tokens = torch.nn.Embedding(31, 24)
    assert model.encoder.embedding.tokens is model.decoder.embedding.tokens
    assert (model.encode(source) - before).abs().max() > 0.1
    assert model.state_dict().keys() == names


@torch.no_grad()
@pytest.mark.parametrize("said", [{"tie_word_embeddings": False}, {"scale_decoder_outputs": False}])
def test_t5_of_version_1_1_ties_what_its_weights_tie(tmp_path: Path, said: dict[str, Any]) -> None:
    """Its old config says "not tied"; what transformers 5 saves of it says "tied", beside an output of its own."""
    folder = saved(made("t5 gated"), tmp_path)
    config = told(folder)
    del config["scale_decoder_outputs"]
    (folder / "config.json").write_text(json.dumps(config | said))
    kept = weights(folder)
    output = torch.randn(31, 24)
    save_file(kept | {"lm_head.weight": output}, folder / "model.safetensors", {"format": "pt"})
    theirs = transformers.T5ForConditionalGeneration.from_pretrained(folder).eval()
    ours = load_checkpoint(folder)
    assert torch.equal(ours.decoder.unembed.weight, output)
    source, target = sources("t5")[0], targets()[0]
    _, expected = theirs_alone(theirs, source, target)
    assert_close(ours(source, target), expected, atol=1e-5, rtol=1e-5)
    assert save_checkpoint(ours, tmp_path / "ours") == "t5"
    again = transformers.T5ForConditionalGeneration.from_pretrained(tmp_path / "ours").eval()
    assert_close(theirs_alone(again, source, target)[1], expected, atol=1e-5, rtol=1e-5)
    copied = kept | {"lm_head.weight": kept["shared.weight"].clone()}
    save_file(copied, folder / "model.safetensors", {"format": "pt"})
    assert load_checkpoint(folder).decoder.unembed is None


def test_copies_of_a_shared_table_are_left_out_where_they_are_the_same(tmp_path: Path) -> None:
    folder = saved(made("bart"), tmp_path)
    path, kept = folder / "model.safetensors", weights(folder)
    table = kept["model.shared.weight"]
    copies = {
        "model.encoder.embed_tokens.weight": table.clone(),
        "model.decoder.embed_tokens.weight": table.clone(),
        "lm_head.weight": table.clone(),
    }
    save_file(kept | copies, path)
    same(dict(stored(load_checkpoint(folder), told(folder))), kept)
    for name in copies:
        save_file(kept | copies | {name: table + 1}, path)
        with pytest.raises(ConfigError, match=r"is not the same as shared\.weight, and our"):
            load_checkpoint(folder)


def test_an_output_bias_that_is_not_stored_is_0(tmp_path: Path) -> None:
    folder = saved(made("marian"), tmp_path)
    kept = weights(folder)
    del kept["final_logits_bias"]
    save_file(kept, folder / "model.safetensors")
    bias = load_checkpoint(folder, dtype=torch.bfloat16).decoder.output_bias
    assert not bias.any()
    assert bias.dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("name", "fields", "says"),
    [
        ("bart", {"decoder_ffn_dim": 48}, "encoder_ffn_dim=40 and decoder_ffn_dim=48 are not"),
        ("bart", {"decoder_attention_heads": 3}, "our encoder and decoder have one num_heads"),
        ("bart", {"encoder_attention_heads": None}, "config.json lacks encoder_attention_heads"),
        ("bart", {"num_attention_heads": 3}, "and num_attention_heads=3 are not supported"),
        ("whisper", {"num_key_value_heads": 3}, "and num_key_value_heads=3 are not supported"),
        ("marian", {"num_attention_heads": 3}, "and num_attention_heads=3 are not supported"),
        ("bart", {"add_final_layer_norm": True}, "add_final_layer_norm=True is not supported"),
        ("bart", {"tie_word_embeddings": False}, "tie_word_embeddings=False is not supported"),
        ("bart", {"normalize_before": True}, "normalize_before=True is not supported"),
        ("mbart", {"logit_scale": 2.0}, "config field logit_scale=2.0 is not known for"),
        ("marian", {"decoder_vocab_size": 30}, "our encoder and decoder have one vocab_size"),
        ("whisper", {"is_encoder_decoder": False}, "is_encoder_decoder=False is not supported"),
        ("t5", {"feed_forward_proj": "gated-relu"}, "feed_forward_proj='gated-relu' is not"),
        ("t5", {"dense_act_fn": "gelu"}, "feed_forward_proj='relu' makes dense_act_fn='relu'"),
        ("t5 gated", {"dense_act_fn": "gelu"}, "makes dense_act_fn='gelu_new', and it says 'gelu'"),
        ("t5 gated", {"is_gated_act": False}, "makes is_gated_act=True, and it says False"),
        ("t5", {"relative_attention_max_distance": 4}, "relative_max_distance=4 must be greater"),
    ],
)
def test_config_fields_are_refused_by_name(
    tmp_path: Path, name: str, fields: dict[str, Any], says: str
) -> None:
    folder = edit(saved(made(name), tmp_path), **fields)
    with pytest.raises(ConfigError) as error:
        load_checkpoint(folder)
    assert says in str(error.value)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"features": -1}, "features=-1 is not a count; use a whole number of 0 or more"),
        ({"features": 8, "share_embeddings": True}, "share_embeddings=True came with features=8"),
        ({"relative_buckets": 3}, "relative_buckets=3 is not a count"),
        ({"attention_scale": 0.0}, "attention_scale=0.0 must be greater than 0"),
        (
            {"sinusoids": "thirds"},
            "sinusoids='thirds' is not known; use one of interleaved, halves",
        ),
        ({"encoder_max_length": 0}, "encoder_max_length=0 is not a count"),
    ],
)
def test_fields_that_cannot_be_are_named(fields: dict[str, Any], says: str) -> None:
    sizes = {"vocab_size": 31, "d_model": 24, "num_layers": 1, "num_heads": 2}
    with pytest.raises(ConfigError) as error:
        TransformerConfig(**{**sizes, **fields})
    assert says in str(error.value)


@torch.no_grad()
@pytest.mark.parametrize("name", ["bart", "t5"])
def test_loaded_by_name_it_runs_in_transformers_unless_it_was_cut_in_our_blocks(
    tmp_path: Path, name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    theirs = made(name)
    folder = saved(theirs, tmp_path / "theirs")
    assert type(hw.load(folder).module) is type(theirs)
    assert "our blocks" not in capsys.readouterr().err
    ours = hw.load(load_checkpoint(folder), quiet=True)
    every = [
        f"{x}.{i}" for x, n in (("encoder", 2), ("decoder", 3), ("cross", 3)) for i in range(n)
    ]
    source, target = sources(name)[0], targets()[0]
    for heads in (["encoder.0.1", "cross.1.3"], [f"{layer}.4" for layer in every]):
        cut = hw.prune(ours, heads=heads)
        place = tmp_path / f"cut-{len(heads)}"
        hw.save(cut, place)
        again = hw.load(place, quiet=True).module
        assert isinstance(again, EncoderDecoder)
        assert_close(again(source, target), cut.module(source, target), atol=1e-6, rtol=1e-6)
