from __future__ import annotations

import json

import pytest
import torch

from headwise.hub.formats import convert
from headwise.names import ModelError


def folders(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.mkdir()
    target.mkdir()
    return source, target


def write_gguf(path, model, rule):
    """A llama GGUF in float32 with a byte-level vocabulary of single bytes and two merges."""
    from gguf import GGUFWriter
    from transformers.convert_slow_tokenizer import bytes_to_unicode

    c = model.config
    writer = GGUFWriter(path, "llama")
    writer.add_context_length(64)
    writer.add_embedding_length(c.hidden_size)
    writer.add_block_count(c.num_hidden_layers)
    writer.add_feed_forward_length(c.intermediate_size)
    writer.add_head_count(c.num_attention_heads)
    writer.add_head_count_kv(c.num_key_value_heads)
    writer.add_rope_dimension_count(c.head_dim)
    writer.add_rope_freq_base(10000.0)
    writer.add_layer_norm_rms_eps(c.rms_norm_eps)
    writer.add_vocab_size(c.vocab_size)
    tokens = ["<end>", *bytes_to_unicode().values(), "ĠĠ", "12"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre(rule)
    writer.add_token_list(tokens)
    writer.add_token_types([3] + [1] * (len(tokens) - 1))
    writer.add_token_merges(["Ġ Ġ", "1 2"])
    writer.add_eos_token_id(0)
    writer.add_bos_token_id(0)
    writer.add_add_bos_token(False)
    for name, array in gguf_weights(model):
        writer.add_tensor(name, array)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def gguf_weights(model):
    c = model.config
    state = {name: t.detach().numpy() for name, t in model.state_dict().items()}

    def interleaved(weights, heads):  # llama.cpp rotates neighbours, transformers halves
        halves = weights.reshape(heads, 2, c.head_dim // 2, -1)
        return halves.swapaxes(1, 2).reshape(weights.shape).copy()

    yield "token_embd.weight", state["model.embed_tokens.weight"]
    yield "output_norm.weight", state["model.norm.weight"]
    names = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm"}
    names |= {"self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output"}
    names |= {"mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
    for i in range(c.num_hidden_layers):
        prefix = f"model.layers.{i}."
        q, k = (state[prefix + f"self_attn.{p}_proj.weight"] for p in "qk")
        yield f"blk.{i}.attn_q.weight", interleaved(q, c.num_attention_heads)
        yield f"blk.{i}.attn_k.weight", interleaved(k, c.num_key_value_heads)
        for ours, theirs in names.items():
            yield f"blk.{i}.{theirs}.weight", state[f"{prefix}{ours}.weight"]


@pytest.fixture
def llama():
    from transformers import LlamaConfig, LlamaForCausalLM

    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 259}
    config = LlamaConfig(**sizes, max_position_embeddings=64, tie_word_embeddings=True)
    torch.manual_seed(0)
    return LlamaForCausalLM(config).eval()


def test_gguf_gives_the_model_it_was_made_from(tmp_path, llama, monkeypatch):
    from safetensors import safe_open
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from headwise.hub.get import get

    monkeypatch.setenv("HEADWISE_CACHE", str(tmp_path / "cache"))
    write_gguf(tmp_path / "tiny one.gguf", llama, "smollm")
    folder = get(tmp_path / "tiny one.gguf", quiet=True)
    assert folder.name.startswith("tiny_one-")
    assert get(tmp_path / "tiny one.gguf", quiet=True) == folder

    again = AutoModelForCausalLM.from_pretrained(folder).eval()
    ids = torch.tensor([[5, 6, 7, 8]])
    with torch.no_grad():
        torch.testing.assert_close(again(ids).logits, llama(ids).logits)
    assert again.config.tie_word_embeddings
    assert "quantization_config" not in json.loads((folder / "config.json").read_text())
    with safe_open(folder / "model.safetensors", "pt") as file:
        assert "lm_head.weight" not in file.keys()  # noqa: SIM118  tied: stored once

    tokenizer = AutoTokenizer.from_pretrained(folder)
    assert tokenizer.tokenize("x  12") == ["x", "ĠĠ", "1", "2"]  # digits alone, no prefix space
    assert tokenizer("12").input_ids == tokenizer("12", add_special_tokens=False).input_ids
    assert tokenizer.model_max_length == 64


def test_gguf_with_gpt2_splits_keeps_them(tmp_path, llama):
    from transformers import AutoTokenizer

    source, target = folders(tmp_path)
    write_gguf(source / "a.gguf", llama, "gpt-2")
    convert("gguf", source / "a.gguf", target)
    assert AutoTokenizer.from_pretrained(target).tokenize("x  12") == ["x", "Ġ", "Ġ", "12"]


def test_gguf_with_an_unknown_splitting_rule_is_refused(tmp_path, llama):
    source, target = folders(tmp_path)
    write_gguf(source / "a.gguf", llama, "of-tomorrow")
    with pytest.raises(ModelError, match="splitting rule 'of-tomorrow' is not known"):
        convert("gguf", source / "a.gguf", target)
