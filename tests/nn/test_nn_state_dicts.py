"""The names and shapes of what a model holds stay as they are: a checkpoint of today loads tomorrow."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from torch.testing import assert_close

from headwise.nn import Decoder, Encoder, EncoderDecoder, TransformerConfig, load_checkpoint

OLD = Path(__file__).parent / "old_checkpoints"
SIZES = {
    "vocab_size": 10,
    "d_model": 8,
    "num_layers": 1,
    "num_heads": 4,
    "num_kv_heads": 2,
    "d_ff": 12,
    "max_length": 16,
}
BLOCK = """
    attention.w_qkv.weight 16 8
    attention.w_qkv.bias 16
    attention.w_o.weight 8 8
    attention.w_o.bias 8
    attention_norm.weight 8
    attention_norm.bias 8
    {cross}
    ffn.w_in.weight 12 8
    ffn.w_in.bias 12
    ffn.w_out.weight 8 12
    ffn.w_out.bias 8
    ffn_norm.weight 8
    ffn_norm.bias 8
"""
CROSS = """
    cross_attention.w_qkv.weight 16 8
    cross_attention.w_qkv.bias 16
    cross_attention.w_o.weight 8 8
    cross_attention.w_o.bias 8
    cross_norm.weight 8
    cross_norm.bias 8
"""
ENCODER = """
    embedding.tokens.weight 10 8
    embedding.positions.weight 16 8
    embedding.segments.weight 2 8
    embedding.norm.weight 8
    embedding.norm.bias 8
    {blocks}
    final_norm.weight 8
    final_norm.bias 8
    head.bias 10
    head.dense.weight 8 8
    head.dense.bias 8
    head.norm.weight 8
    head.norm.bias 8
"""
DECODER = """
    embedding.tokens.weight 10 8
    blocks.0.attention.w_qkv.weight 16 8
    blocks.0.attention.w_o.weight 8 8
    blocks.0.attention.q_norm.weight 2
    blocks.0.attention.k_norm.weight 2
    blocks.0.attention_norm.weight 8
    blocks.0.ffn.w_in.weight 24 8
    blocks.0.ffn.w_out.weight 8 12
    blocks.0.ffn_norm.weight 8
    final_norm.weight 8
    unembed.weight 10 8
"""
ENCODER_DECODER = """
    encoder.relative.weight 6 4
    {encoder}
    decoder.output_bias 10
    decoder.embedding.tokens.weight 10 8
    decoder.relative.weight 6 4
    {decoder}
"""


def encoder() -> Encoder:
    config = {"positions": "learned", "token_types": 2, "embedding_norm": True}
    return Encoder(TransformerConfig(**SIZES, **config, masked_head=True))


def decoder() -> Decoder:
    no_bias = {"attention_bias": False, "attention_out_bias": False, "ffn_bias": False}
    config = {"activation": "swiglu", "norm": "rms", "tie_embeddings": False, "qk_norm": True}
    return Decoder(TransformerConfig(**SIZES, **config, **no_bias))


def encoder_decoder() -> EncoderDecoder:
    config = {"positions": "relative", "relative_buckets": 6, "final_norm": False}
    return EncoderDecoder(
        TransformerConfig(**SIZES, **config, share_embeddings=True, output_bias=True)
    )


def lines(table: str, under: str = "") -> list[str]:
    return [under + line.strip() for line in table.splitlines() if line.strip()]


def blocks(under: str, cross: str = "") -> str:
    return "\n".join(lines(BLOCK.format(cross=cross), under + "blocks.0."))


NAMES = {
    encoder: lines(ENCODER.format(blocks=blocks(""))),
    decoder: lines(DECODER),
    encoder_decoder: lines(
        ENCODER_DECODER.format(encoder=blocks("encoder."), decoder=blocks("decoder.", CROSS))
    ),
}
every_class = pytest.mark.parametrize("make", NAMES)


def answer(model: torch.nn.Module) -> torch.Tensor:
    ids = torch.arange(12).view(2, 6) % 10
    out: torch.Tensor = model(ids, ids) if isinstance(model, EncoderDecoder) else model(ids)
    return out


@every_class
def test_names_and_shapes_are_golden(make):
    held = make().state_dict()
    assert [" ".join(map(str, (name, *x.shape))) for name, x in held.items()] == NAMES[make]


@every_class
def test_loading_is_strict(make):
    model, state = make(), make().state_dict()
    missing = dict(state)
    name, value = missing.popitem()
    with pytest.raises(RuntimeError, match=name):
        model.load_state_dict(missing)
    with pytest.raises(RuntimeError, match="more"):
        model.load_state_dict({**state, "more": value})
    with pytest.raises(RuntimeError, match=name):
        model.load_state_dict({**state, name: torch.zeros(*value.shape, 2)})


@every_class
def test_copies_pickles_and_meta_models_are_the_same_and_apart(make):
    model = make().eval()
    wanted = answer(model)
    with torch.device("meta"):
        empty = make()
    assert all(p.is_meta for p in empty.parameters())
    empty.load_state_dict({k: v.clone() for k, v in model.state_dict().items()}, assign=True)
    fresh = make()
    fresh.load_state_dict(model.state_dict())
    twins = [copy.deepcopy(model), pickle.loads(pickle.dumps(model)), empty, fresh]
    for twin in twins:
        assert_close(answer(twin.eval()), wanted, atol=0, rtol=0)
        assert sum(p.numel() for p in twin.parameters()) == sum(
            p.numel() for p in model.parameters()
        )
        with torch.no_grad():
            for parameter in twin.parameters():
                parameter.zero_()
    assert_close(answer(model), wanted, atol=0, rtol=0)


@every_class
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
def test_every_number_takes_the_dtype_and_comes_back(make, dtype):
    model = make().eval()
    moved = copy.deepcopy(model).to(dtype)
    assert {x.dtype for x in moved.state_dict().values()} == {dtype}
    assert answer(moved).dtype is dtype
    model.load_state_dict(moved.state_dict())
    assert {x.dtype for x in model.state_dict().values()} == {torch.float32}
    assert_close(answer(model), answer(moved.float()), atol=0, rtol=0)


@pytest.mark.parametrize("folder", sorted(OLD.iterdir()), ids=lambda folder: folder.name)
def test_a_checkpoint_of_a_version_before_loads(folder):
    model = load_checkpoint(folder).eval()
    wanted = load_file(folder / "answer" / "answer.safetensors")["answer"]
    assert_close(answer(model), wanted, atol=1e-6, rtol=1e-5)
