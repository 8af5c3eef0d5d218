"""Saving: transformers loads what our blocks wrote, a round trip keeps every bit; what fits no family says why."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch
from family_help import ALL, DECODERS, checkpoint, config, weights
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from torch.testing import assert_close
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM

import headwise as hw
from headwise.names import ModelError, OutputError
from headwise.nn import (
    Decoder,
    Encoder,
    build,
    checkpoint_config,
    config_from,
    load_checkpoint,
    save_checkpoint,
    why_unfit,
)

OF_LLAMA = {"norm": "rms", "activation": "swiglu", "attention_bias": False}
OF_LLAMA |= {"attention_out_bias": False, "ffn_bias": False}


def assert_same(model: torch.nn.Module, other: torch.nn.Module) -> None:
    assert type(model) is type(other)
    assert model.config == other.config
    state, held = model.state_dict(), other.state_dict()
    assert state.keys() == held.keys()
    assert all(torch.equal(state[name], held[name]) for name in held)


@torch.no_grad()
@pytest.mark.parametrize("name", ALL)
def test_transformers_loads_what_we_wrote(tmp_path, name):
    theirs, before = checkpoint(name, tmp_path / "before")
    model = load_checkpoint(before)
    said = save_checkpoint(model, tmp_path / "after")
    assert said == theirs.config.model_type or (name, said) == ("mistral", "llama")
    auto = AutoModelForCausalLM if name in DECODERS else AutoModelForMaskedLM
    auto = AutoModel if name == "bert" else auto
    again, report = auto.from_pretrained(tmp_path / "after", output_loading_info=True)
    missing = {key for key in report["missing_keys"] if "pooler" not in key}
    assert not missing
    assert not report["unexpected_keys"]
    ids = torch.randint(0, 31, (2, 9))
    assert torch.equal(again.eval()(ids)[0], theirs(ids)[0])
    assert_same(load_checkpoint(tmp_path / "after"), model)


@pytest.mark.parametrize("name", [name for name in ALL if name not in ("bert", "mistral")])
def test_a_round_trip_writes_the_same_names_and_bits(tmp_path, name):
    _, before = checkpoint(name, tmp_path / "before")
    save_checkpoint(load_checkpoint(before), tmp_path / "after")
    now, then = weights(tmp_path / "after"), weights(before)
    assert now.keys() == then.keys()
    assert all(torch.equal(now[key], then[key]) for key in then)
    assert config_from(config(tmp_path / "after")) == config_from(config(before))


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize(
    ("fields", "model_type"),
    [
        (OF_LLAMA, "llama"),
        ({**OF_LLAMA, "window": 5}, "mistral"),
        ({**OF_LLAMA, "d_model": 20, "head_dim": 8}, "mistral"),
        ({**OF_LLAMA, "attention_bias": True}, "qwen2"),
        ({**OF_LLAMA, "qk_norm": True, "head_dim": 10}, "qwen3"),
        ({**OF_LLAMA, "rope_scaling": {"kind": "linear", "factor": 3.0}}, "llama"),
        ({"positions": "learned", "num_kv_heads": None}, "gpt2"),
    ],
)
@torch.no_grad()
def test_a_fresh_model_is_of_the_family_that_has_it(tmp_path, tiny, fields, model_type, tied):
    made = dataclasses.asdict(tiny(num_kv_heads=2)) | {"head_dim": None} | fields
    model = build({**made, "class": "Decoder", "tie_embeddings": tied}).eval()
    assert save_checkpoint(model, tmp_path / "model") == model_type
    assert why_unfit(model) == {}
    theirs = AutoModelForCausalLM.from_pretrained(tmp_path / "model")
    ids = torch.randint(0, 31, (2, 9))
    assert_close(theirs(ids).logits, model(ids), atol=1e-5, rtol=1e-5)
    assert_same(load_checkpoint(tmp_path / "model"), model)
    assert hw.load(tmp_path / "model", quiet=True).module.config == model.config


@pytest.mark.parametrize(
    ("kind", "fields", "family", "why"),
    [
        ("Decoder", {"positions": "alibi"}, "gpt2", "num_kv_heads=2, and 6 there"),
        ("Decoder", {**OF_LLAMA, "norm_eps": 1e-3, "dropout": 0.1}, "llama", "dropout=0.1"),
        ("Decoder", {**OF_LLAMA, "activation": "relu"}, "qwen3", "activation='relu', for which"),
        ("Encoder", {"positions": "rope"}, "bert", "num_kv_heads=2"),
        ("Encoder", {}, "llama", "its class is Encoder, and Decoder there"),
        ("EncoderDecoder", {"positions": "sinusoidal"}, "gpt2", "its class is EncoderDecoder"),
    ],
)
def test_what_fits_no_family_is_saved_in_our_own_form(tmp_path, tiny, kind, fields, family, why):
    model = build({**dataclasses.asdict(tiny(**fields)), "class": kind}).eval()
    assert save_checkpoint(model, tmp_path / "own") == "headwise"
    assert why in why_unfit(model)[family]
    assert_same(load_checkpoint(tmp_path / "own"), model)
    assert_same(hw.load(tmp_path / "own", quiet=True).module, model)


def test_a_decoder_with_a_memory_of_its_own_keeps_it(tmp_path, tiny):
    model = Decoder(tiny(**OF_LLAMA), cross=True).eval()
    assert save_checkpoint(model, tmp_path / "own") == "headwise"
    again = load_checkpoint(tmp_path / "own")
    assert again.cross
    assert_same(again, model)


@pytest.mark.parametrize("window", [None, 5])
def test_a_reader_of_qwen_that_knows_no_layer_types_finds_the_same_window(tiny, window):
    model = Decoder(tiny(**OF_LLAMA, qk_norm=True, window=window))
    said = checkpoint_config(model)
    assert said.pop("layer_types") == ["sliding_attention" if window else "full_attention"] * 2
    assert config_from(said) == (Decoder, model.config)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_dtype_is_kept_and_said(tmp_path, tiny, dtype):
    model = Decoder(tiny(**OF_LLAMA)).to(dtype)
    save_checkpoint(model, tmp_path / "model")
    assert config(tmp_path / "model")["dtype"] == str(dtype).removeprefix("torch.")
    assert AutoModel.from_pretrained(tmp_path / "model").dtype == dtype
    assert_same(load_checkpoint(tmp_path / "model"), model)


def test_the_tokenizer_goes_along_and_its_special_tokens_are_said(tmp_path, tiny):
    words = {"<|endoftext|>": 4, "the": 1, "cat": 2}
    tokenizer = Tokenizer(WordLevel(words, unk_token="the"))
    folder = tmp_path / "model"
    for made, ids in ((tiny(**OF_LLAMA), (4, 4)), (tiny(positions="alibi"), (4, 4))):
        save_checkpoint(Decoder(made), folder, tokenizer=tokenizer)
        said = config(folder)
        assert (said["bos_token_id"], said["eos_token_id"]) == ids
        loaded = hw.load(folder, quiet=True)
        assert loaded.tokenizer.encode("cat").ids == [2]
        assert loaded.config["eos_token_id"] == 4


def test_other_files_of_the_folder_stay(tmp_path, tiny):
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "log.csv").write_text("step,loss\n")
    (folder / "checkpoints").mkdir()
    for _ in range(2):
        save_checkpoint(Decoder(tiny()), folder)
    held = {path.name for path in folder.iterdir()}
    assert held == {"log.csv", "checkpoints", "config.json", "model.safetensors"}


def test_what_cannot_be_saved_is_refused_before_anything_is_written(tmp_path, tiny):
    decoder = Decoder(tiny())
    decoder.blocks[0].attention.w_o = torch.nn.Linear(24, 24, bias=False)
    with pytest.raises(ModelError, match=r"w_o\.bias is nothing.*\[24\].*with headwise\.save"):
        save_checkpoint(decoder, tmp_path / "model")
    with pytest.raises(ModelError, match=r"Linear is none of Encoder, Decoder, EncoderDecoder"):
        save_checkpoint(torch.nn.Linear(2, 2), tmp_path / "model")
    assert not (tmp_path / "model").exists()
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="it is a file"):
        save_checkpoint(Encoder(tiny()), tmp_path / "file")
    (tmp_path / "old").mkdir()
    (tmp_path / "old" / "pytorch_model.bin").write_text("")
    with pytest.raises(OutputError, match=r"it holds pytorch_model\.bin"):
        save_checkpoint(Encoder(tiny()), tmp_path / "old")


def test_the_config_survives_json_and_build(tiny):
    for fields in (
        {"qk_norm": True, "rope_scaling": {"kind": "yarn", "factor": 2.0, "original_length": 8}},
        {"masked_head": True, "positions": "learned"},
    ):
        model = Encoder(tiny(**fields))
        again = build(json.loads(json.dumps(checkpoint_config(model))))
        assert again.config == model.config
        assert again.state_dict().keys() == model.state_dict().keys()


@torch.no_grad()
@pytest.mark.models
def test_smollm2_round_trip(tmp_path: Path):
    from headwise.hub.get import get

    model = load_checkpoint(get("smollm2"))
    assert save_checkpoint(model, tmp_path / "again") == "llama"
    again, report = AutoModelForCausalLM.from_pretrained(
        tmp_path / "again", output_loading_info=True
    )
    assert not report["missing_keys"]
    theirs = AutoModelForCausalLM.from_pretrained(get("smollm2"))
    ids = torch.randint(0, 49000, (1, 12))
    assert torch.equal(again(ids).logits, theirs(ids).logits)
    assert_same(load_checkpoint(tmp_path / "again"), model)
