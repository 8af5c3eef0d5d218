"""Qwen2, Qwen3, Mistral and scaled rope: every block and the logits as in transformers, whole and step by step."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from family_help import NEW, checkpoint, edit, outputs_of, positions_of, weights
from safetensors.torch import save_file
from torch.testing import assert_close
from transformers import Qwen2Config

from headwise.names import ConfigError
from headwise.nn import (
    Decoder,
    RopeScaling,
    checkpoint_config,
    config_from,
    load_checkpoint,
    rotary,
)


@torch.no_grad()
@pytest.mark.parametrize("name", NEW)
def test_decoder_is_the_one_of_transformers(tmp_path, batch, name):
    ids, padding, alone = batch
    theirs, folder = checkpoint(name, tmp_path)
    ours = load_checkpoint(folder)
    assert isinstance(ours, Decoder)
    kept = {"attention_mask": (~padding).long(), "position_ids": positions_of(padding)}
    expected, their_layers = outputs_of(theirs, theirs.model.layers, lambda m: m(ids, **kept))
    logits, our_layers = outputs_of(ours, ours.blocks, lambda m: m(ids, padding))
    assert len(our_layers) == 2
    for a, b in zip(our_layers, their_layers, strict=True):
        assert_close(a[~padding], b[~padding], atol=1e-5, rtol=1e-5)
    assert_close(logits[~padding], expected.logits[~padding], atol=1e-5, rtol=1e-5)
    for row, sequence in enumerate(alone):
        single = theirs(sequence).logits[0]
        assert_close(logits[row][~padding[row]], single, atol=1e-5, rtol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("name", NEW)
def test_cached_steps_are_those_of_transformers(tmp_path, name):
    theirs, folder = checkpoint(name, tmp_path)
    ours = load_checkpoint(folder)
    ids, at = torch.randint(0, 31, (2, 9)), 0
    cache, held = ours.new_cache(), None
    for step in (4, 1, 1, 3):
        part = ids[:, at : at + step]
        expected = theirs(part, cache=held, use_cache=True)
        held, at = expected.cache, at + step
        assert_close(ours(part, cache=cache), expected.logits, atol=1e-5, rtol=1e-5)
    assert_close(ours(ids)[:, -3:], expected.logits, atol=1e-5, rtol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("name", ["qwen2 window", "mistral window", "mistral tied llama3"])
def test_a_window_hides_what_is_before_it(tmp_path, name):
    ours = load_checkpoint(checkpoint(name, tmp_path)[1])
    free = Decoder(dataclasses.replace(ours.config, window=None)).eval()
    free.load_state_dict(ours.state_dict())
    ids = torch.randint(0, 31, (1, 9))
    window = ours.config.window
    assert_close(ours(ids)[:, :window], free(ids)[:, :window])
    assert (ours(ids)[:, window:] - free(ids)[:, window:]).abs().max() > 1e-3


def test_fields_that_are_not_there_are_those_of_transformers():
    given = {"model_type": "qwen2", "vocab_size": 31, "hidden_size": 24, "num_hidden_layers": 2}
    given |= {
        "num_key_value_heads": 2,
        "num_attention_heads": 6,
        "intermediate_size": 40,
        "max_position_embeddings": 64,
    }
    _, config = config_from(given | {"use_sliding_window": True, "max_window_layers": 0})
    assert config.window == Qwen2Config(use_sliding_window=True).sliding_window
    _, config = config_from(given | {"rope_scaling": {"type": "yarn", "factor": 4.0}})
    assert config.rope_scaling.original_length == 64
    untruncated = {"type": "yarn", "factor": 4.0, "truncate": None}
    assert not config_from(given | {"rope_scaling": untruncated})[1].rope_scaling.truncate


@pytest.mark.parametrize("name", ["llama tied biases", "gpt2", "bert head"])
def test_an_output_matrix_that_is_not_the_tied_one_is_refused(tmp_path, name):
    """transformers reads both and ties nothing; equal copies are one."""
    theirs, folder = checkpoint(name, tmp_path)
    output = "cls.predictions.decoder.weight" if name == "bert head" else "lm_head.weight"
    table = theirs.get_input_embeddings().weight.detach()
    for copy in (table.clone(), table + 1):
        held = weights(folder) | {output: copy}
        save_file(held, folder / "model.safetensors", {"format": "pt"})
        if torch.equal(copy, table):
            assert_close(load_checkpoint(folder).embedding.tokens.weight, table)
    with pytest.raises(ConfigError, match=rf"{output} is not the same as .*_?e.*weight, and our"):
        load_checkpoint(folder)
    if name == "bert head":  # without the head there is no output
        assert load_checkpoint(edit(folder, architectures=["BertModel"])).head is None


def test_both_dropouts_of_gpt2_are_written(tiny):
    sizes = {"positions": "learned", "num_kv_heads": None, "dropout": 0.2}
    said = checkpoint_config(Decoder(tiny(**sizes)))
    assert (said["model_type"], said["resid_pdrop"], said["embd_pdrop"]) == ("gpt2", 0.2, 0.2)


def test_config_json_of_transformers_4(tmp_path):
    _, folder = checkpoint("llama llama3", tmp_path)
    now = load_checkpoint(folder)
    scaling = {"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0}
    scaling |= {"high_freq_factor": 4.0, "original_max_position_embeddings": 16}
    old = edit(folder, rope_parameters=None, rope_scaling=scaling, rope_theta=50.0)
    assert load_checkpoint(old).config == now.config
    old = edit(folder, rope_scaling={"type": "linear", "factor": 2.5})
    assert load_checkpoint(old).config.rope_scaling == RopeScaling(kind="linear", factor=2.5)


def test_published_config_json_files():
    shared = {"hidden_act": "silu", "vocab_size": 151936, "num_hidden_layers": 24}
    shared |= {"hidden_size": 896, "intermediate_size": 4864, "num_attention_heads": 14}
    shared |= {"num_key_value_heads": 2, "rope_theta": 1000000.0, "tie_word_embeddings": True}
    shared |= {"use_sliding_window": False, "sliding_window": 32768, "rms_norm_eps": 1e-06}
    qwen2 = {"model_type": "qwen2", "max_window_layers": 21, "max_position_embeddings": 32768}
    _, config = config_from({**shared, **qwen2})
    assert (config.window, config.head_dim, config.rope_theta) == (None, 64, 1000000.0)
    assert (config.attention_bias, config.attention_out_bias) == (True, False)
    qwen3 = {"model_type": "qwen3", "head_dim": 128, "attention_bias": False, "rope_scaling": None}
    qwen3 |= {"max_window_layers": 28, "sliding_window": None, "max_position_embeddings": 40960}
    _, config = config_from({**shared, **qwen3})
    assert (config.window, config.head_dim, config.qk_norm) == (None, 128, True)
    mistral = {k: v for k, v in shared.items() if k != "use_sliding_window"}
    mistral |= {"model_type": "mistral", "sliding_window": 4096, "max_position_embeddings": 32768}
    assert config_from(mistral)[1].window == 4096
    del mistral["sliding_window"]
    assert config_from(mistral)[1].window == 4096
    assert config_from({**mistral, "sliding_window": None})[1].window is None


@pytest.mark.parametrize(
    ("name", "fields", "says"),
    [
        ("qwen2", {"colour": 1}, "config field colour=1 is not known for model_type='qwen2'"),
        ("qwen3", {"slidin_window": 1}, "did you mean sliding_window?"),
        ("mistral", {"attention_bias": True}, "config field attention_bias=True is not known"),
        (
            "qwen2",
            {"layer_types": ["full_attention", "sliding_attention"]},
            "of some layers alone is not supported",
        ),
        ("qwen3", {"layer_types": ["chunked_attention"] * 2}, "of some layers alone"),
        ("qwen2", {"rope_parameters": {"rope_type": "longrope"}}, "rope_type='longrope' is not"),
        (
            "qwen3",
            {"rope_parameters": {"rope_type": "linear", "rope_theta": 5.0}},
            "config.json lacks rope's factor",
        ),
        (
            "qwen3",
            {"layer_types": ["full_attention"]},
            "layer_types names 1 layers, and num_hidden",
        ),
        ("qwen2", {"use_sliding_window": True, "sliding_window": True}, "sliding_window=True are"),
        (
            "llama yarn",
            {
                "rope_parameters": {
                    "rope_type": "yarn",
                    "factor": 4.0,
                    "mscale": 0.7,
                    "mscale_all_dim": 0.5,
                }
            },
            "rope's mscale is not supported",
        ),
        ("llama", {"rope_interleaved": True}, "rope_interleaved=True is not supported"),
        ("llama", {"partial_rotary_factor": 0.5}, "partial_rotary_factor=0.5 is not supported"),
        ("qwen3", {"head_dim": 7}, "head_dim=7 is odd"),
    ],
)
def test_what_our_blocks_do_not_compute_is_named(tmp_path, name, fields, says):
    folder = edit(checkpoint(name, tmp_path)[1], **fields)
    with pytest.raises(ConfigError) as error:
        load_checkpoint(folder)
    assert says in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", ["qwen2", "qwen3", "mistral window"])
def test_a_weight_that_is_missing_is_named(tmp_path, name):
    from safetensors.torch import load_file, save_file

    path = checkpoint(name, tmp_path)[1] / "model.safetensors"
    held = load_file(path)
    for left_out in held:
        save_file({n: w for n, w in held.items() if n != left_out}, path)
        with pytest.raises(ConfigError, match="the checkpoint lacks the weight"):
            load_checkpoint(tmp_path)


def test_rotary_without_and_with_scaling_agree_where_it_does_nothing():
    positions = torch.arange(9)[None]
    plain = rotary(positions, 8, 50.0)
    for scaling in (
        RopeScaling(kind="linear", factor=1),
        RopeScaling(kind="llama3", factor=1, original_length=16),
        RopeScaling(kind="yarn", factor=1, original_length=16),
    ):
        for a, b in zip(rotary(positions, 8, 50.0, scaling=scaling), plain, strict=True):
            assert_close(a, b)
