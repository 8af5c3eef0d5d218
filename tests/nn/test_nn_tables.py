from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from family_help import BERT, GPT2, LIKE_LLAMA, edit, outputs_of, positions_of
from safetensors.torch import load_file, save_file
from torch.testing import assert_close
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    GPT2Model,
    LlamaConfig,
    LlamaForCausalLM,
    LlamaModel,
)

from headwise.names import ConfigError, ModelError
from headwise.nn import Decoder, Encoder, config_from, known_family, load_checkpoint


def llama(kind=LlamaForCausalLM, **fields):
    return kind(LlamaConfig(**{**LIKE_LLAMA, **fields}))


def bert(kind=BertModel, **fields):
    return kind(BertConfig(**{**BERT, **fields}))


def gpt2(kind=GPT2LMHeadModel, **fields):
    return kind(GPT2Config(**{**GPT2, **fields}))


DECODERS = {
    "llama MHA": (llama, {"num_key_value_heads": 6}),
    "llama GQA": (llama, {}),
    "llama MQA": (llama, {"num_key_value_heads": 1}),
    "llama tied": (llama, {"tie_word_embeddings": True}),
    "llama head_dim": (llama, {"head_dim": 10}),
    "llama biases": (llama, {"attention_bias": True, "mlp_bias": True}),
    "llama geglu": (llama, {"hidden_act": "gelu", "rms_norm_eps": 0.1}),
    "llama theta": (llama, {"rope_parameters": {"rope_type": "default", "rope_theta": 50.0}}),
    "gpt2": (gpt2, {}),
    "gpt2 untied": (gpt2, {"tie_word_embeddings": False}),
    "gpt2 d_ff": (gpt2, {"n_inner": 20, "activation_function": "relu"}),
    "gpt2 eps": (gpt2, {"layer_norm_epsilon": 0.1}),
}
ENCODERS = {
    "bert": {},
    "bert relu": {"hidden_act": "relu"},
    "bert gelu_new": {"hidden_act": "gelu_new"},
    "bert eps": {"layer_norm_eps": 0.1, "type_vocab_size": 3},
}


def shaken(model):
    """Biases and norms away from 0 and 1, so that one left out shows."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.eval()


def saved(model, folder: Path) -> Path:
    model.save_pretrained(folder)
    return folder


@torch.no_grad()
@pytest.mark.parametrize("name", DECODERS)
def test_decoder_is_the_one_of_transformers(tmp_path, batch, name):
    ids, padding, alone = batch
    make, fields = DECODERS[name]
    theirs = shaken(make(**fields))
    ours = load_checkpoint(saved(theirs, tmp_path))
    assert isinstance(ours, Decoder)
    their_blocks = theirs.model.layers if make is llama else theirs.transformer.h
    kept = {"attention_mask": (~padding).long(), "position_ids": positions_of(padding)}
    expected, their_layers = outputs_of(
        theirs, their_blocks, lambda m: m(ids, **kept, output_hidden_states=True)
    )
    logits, our_layers = outputs_of(ours, ours.blocks, lambda m: m(ids, padding))
    assert len(our_layers) == 2
    for a, b in zip(our_layers, their_layers, strict=True):
        assert_close(a[~padding], b[~padding], atol=1e-5, rtol=1e-5)
    hidden = ours.hidden(ids, padding)
    assert_close(hidden[~padding], expected.hidden_states[-1][~padding], atol=1e-5, rtol=1e-5)
    assert_close(logits[~padding], expected.logits[~padding], atol=1e-5, rtol=1e-5)
    for row, sequence in enumerate(alone):
        single = theirs(sequence).logits[0]
        assert_close(logits[row][~padding[row]], single, atol=1e-5, rtol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize("name", ENCODERS)
def test_encoder_is_the_one_of_transformers(tmp_path, batch, name):
    ids, padding, alone = batch
    theirs = shaken(bert(**ENCODERS[name]))
    ours = load_checkpoint(saved(theirs, tmp_path))
    assert isinstance(ours, Encoder)
    token_types = torch.randint(0, 2, ids.shape)
    kept = {"attention_mask": (~padding).long(), "position_ids": positions_of(padding)}
    expected, their_layers = outputs_of(
        theirs, theirs.encoder.layer, lambda m: m(ids, **kept, token_type_ids=token_types)
    )
    hidden, our_layers = outputs_of(ours, ours.blocks, lambda m: m(ids, padding, token_types))
    for a, b in zip(our_layers, their_layers, strict=True):
        assert_close(a[~padding], b[~padding], atol=1e-5, rtol=1e-5)
    assert_close(hidden[~padding], expected.last_hidden_state[~padding], atol=1e-5, rtol=1e-5)
    untyped = ours(ids, padding)
    for row, sequence in enumerate(alone):
        single = theirs(sequence).last_hidden_state[0]
        assert_close(untyped[row][~padding[row]], single, atol=1e-5, rtol=1e-5)


@torch.no_grad()
@pytest.mark.parametrize(
    ("make", "kind"), [(llama, LlamaModel), (gpt2, GPT2Model), (bert, BertForMaskedLM)]
)
def test_prefix_or_none(tmp_path, make, kind):
    ids = torch.randint(0, 31, (2, 6))
    theirs = shaken(make(kind, **({} if make is bert else {"tie_word_embeddings": True})))
    ours = load_checkpoint(saved(theirs, tmp_path))
    bare = theirs.bert if make is bert else theirs
    got = ours(ids) if make is bert else ours.hidden(ids)
    assert_close(got, bare(ids).last_hidden_state, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_shards(tmp_path):
    theirs = shaken(llama())
    theirs.save_pretrained(tmp_path, max_shard_size="8KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    ids = torch.randint(0, 31, (2, 6))
    assert_close(load_checkpoint(tmp_path)(ids), theirs(ids).logits, atol=1e-5, rtol=1e-5)


def test_dtype_and_mode(tmp_path):
    folder = saved(llama(), tmp_path)
    as_stored, half = load_checkpoint(folder), load_checkpoint(folder, dtype=torch.bfloat16)
    assert {p.dtype for p in as_stored.parameters()} == {torch.float32}
    assert {p.dtype for p in half.parameters()} == {torch.bfloat16}
    assert not as_stored.training
    assert all(p.requires_grad and p.device.type == "cpu" for p in as_stored.parameters())
    logits = half(torch.tensor([[1, 2, 3]]))
    assert logits.dtype == torch.bfloat16


def test_old_config_json_of_smollm2():
    model, config = config_from(
        {
            "architectures": ["LlamaForCausalLM"],
            "attention_bias": False,
            "hidden_act": "silu",
            "hidden_size": 576,
            "intermediate_size": 1536,
            "is_llama_config": True,
            "max_position_embeddings": 8192,
            "mlp_bias": False,
            "model_type": "llama",
            "num_attention_heads": 9,
            "num_hidden_layers": 30,
            "num_key_value_heads": 3,
            "pretraining_tp": 1,
            "rms_norm_eps": 1e-05,
            "rope_interleaved": False,
            "rope_scaling": None,
            "rope_theta": 100000,
            "tie_word_embeddings": True,
            "torch_dtype": "bfloat16",
            "transformers.js_config": {"kv_cache_dtype": {"q4f16": "float16"}},
            "transformers_version": "4.42.3",
            "use_cache": True,
            "vocab_size": 49152,
        }
    )
    assert model is Decoder
    assert (config.num_heads, config.num_kv_heads, config.head_dim) == (9, 3, 64)
    assert (config.rope_theta, config.activation, config.norm) == (100000, "swiglu", "rms")


def test_old_weights_of_bert(tmp_path):
    theirs = shaken(bert())
    folder = saved(theirs, tmp_path)
    weights = load_file(folder / "model.safetensors")
    renamed = {
        "bert."
        + n.replace("LayerNorm.weight", "LayerNorm.gamma").replace(
            "LayerNorm.bias", "LayerNorm.beta"
        ): w
        for n, w in weights.items()
    }
    save_file(renamed, folder / "model.safetensors")
    ids = torch.randint(0, 31, (2, 6))
    expected = theirs(ids).last_hidden_state
    assert_close(load_checkpoint(folder)(ids), expected, atol=1e-5, rtol=1e-5)


def test_known_family():
    assert known_family({"model_type": "llama"})
    assert known_family({"model_type": "bert"})
    assert known_family({"model_type": "gpt2"})
    assert not known_family({"model_type": "falcon"})
    assert not known_family({})
    with pytest.raises(ConfigError, match=r"model_type='falcon' has no table .* llama, qwen2, "):
        config_from({"model_type": "falcon"})


@pytest.mark.parametrize(
    ("make", "fields", "says"),
    [
        (llama, {"logit_scale": 2.0}, "config field logit_scale=2.0 is not known for"),
        (gpt2, {"logit_scale": 2.0}, "config field logit_scale=2.0 is not known for"),
        (bert, {"logit_scale": 2.0}, "config field logit_scale=2.0 is not known for"),
        (llama, {"pretraining_tp": 2}, "pretraining_tp=2 is not supported"),
        (
            llama,
            {"rope_parameters": {"rope_type": "llama3", "factor": 8.0}},
            "config.json lacks rope's low_freq_factor, which rope_type='llama3' needs",
        ),
        (llama, {"rope_scaling": {"type": "linear"}}, "rope_type is 'default' and 'linear'"),
        (
            llama,
            {"rope_parameters": {"rope_type": "dynamic", "factor": 8.0}},
            "rope_type='dynamic' is not supported, only default, linear, llama3, yarn",
        ),
        (llama, {"rope_theta": 7.0}, "rope_parameters.rope_theta=10000.0, rope_theta=7.0"),
        (llama, {"hidden_act": "relu"}, "hidden_act='relu' is not supported"),
        (llama, {"hidden_size": None}, "config.json lacks hidden_size"),
        (bert, {"position_embedding_type": "relative_key"}, "position_embedding_type='relative"),
        (bert, {"is_decoder": True}, "is_decoder=True is not supported"),
        (bert, {"pruned_heads": {"0": [1]}}, "pruned_heads.0=[1]"),
        (gpt2, {"scale_attn_by_inverse_layer_idx": True}, "scale_attn_by_inverse_layer_idx=True"),
        (gpt2, {"n_head": 5}, "d_model=24 is not a multiple of num_heads=5"),
    ],
)
def test_config_fields_are_refused_by_name(tmp_path, make, fields, says):
    folder = edit(saved(make(), tmp_path), **fields)
    with pytest.raises(ConfigError) as error:
        load_checkpoint(folder)
    assert says in str(error.value)


@pytest.mark.parametrize("make", [llama, gpt2, bert])
def test_weights_are_refused_by_name(tmp_path, make):
    folder = saved(make(), tmp_path)
    path = folder / "model.safetensors"
    weights = load_file(path)

    def fails(changed, says):
        save_file(changed, path)
        with pytest.raises(ConfigError) as error:
            load_checkpoint(folder)
        assert says in str(error.value)

    fails({**weights, "extra.weight": torch.ones(2)}, "not known for model_type=")
    fails({**weights, "extra.weight": torch.ones(2)}, ": extra.weight; load it")
    left_out = ("pooler.", "lm_head.")
    for name in weights:
        if name.startswith(left_out):
            continue
        rest = {n: w for n, w in weights.items() if n != name}
        bare = name.removeprefix("model.").removeprefix("transformer.")
        fails(rest, f"the checkpoint lacks the weight {bare} (for ")
    name, weight = next((n, w) for n, w in weights.items() if w.dim() == 2 and "pool" not in n)
    fails({**weights, name: torch.cat((weight, weight))}, "the files do not belong together")


def test_weights_left_out_on_purpose(tmp_path):
    folder = saved(gpt2(), tmp_path)
    path = folder / "model.safetensors"
    weights = load_file(path)
    mask = torch.ones(1, 1, 32, 32).tril()
    more = {f"transformer.h.{i}.attn.bias": mask.clone() for i in range(2)}
    save_file(
        {**weights, **more, "lm_head.weight": weights["transformer.wte.weight"].clone()}, path
    )
    assert isinstance(load_checkpoint(folder), Decoder)


def test_files_that_are_not_there_are_named(tmp_path):
    with pytest.raises(ModelError, match=r"config\.json is not there"):
        load_checkpoint(tmp_path)
    folder = saved(llama(), tmp_path)
    (folder / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(ModelError, match="cannot be read as safetensors"):
        load_checkpoint(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(ModelError, match=r"holds no \*\.safetensors"):
        load_checkpoint(folder)
    (folder / "config.json").write_text("{")
    with pytest.raises(ModelError, match="is not JSON"):
        load_checkpoint(folder)


def test_loading_imports_no_transformers(tmp_path):
    folder = saved(llama(), tmp_path)
    code = (
        "import sys; from headwise.nn import load_checkpoint; "
        f"load_checkpoint({str(folder)!r}); "
        "print([m for m in ('transformers', 'torch._dynamo') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
