"""Models whose key/value heads are the same but for their bases, for the tests of regroup."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

import headwise as hw
from headwise.nn import Decoder, TransformerConfig

SIZES = {
    "vocab_size": 90,
    "d_model": 32,
    "num_layers": 2,
    "num_heads": 8,
    "head_dim": 8,
    "max_length": 64,
}


def made(kind: Any = Decoder, **fields: Any) -> hw.Model:
    """A small model of ours whose heads look somewhere, its biases not 0."""
    torch.manual_seed(0)
    model = hw.load(kind(TransformerConfig(**{**SIZES, **fields})).double())
    with torch.no_grad():
        for p in model.module.parameters():
            p.normal_(0, 0.3) if p.dim() > 1 else p.add_(torch.randn_like(p) * 0.1)
    return model


def spread_out(model: hw.Model, order: tuple[int, ...], turned: bool, plain: bool = False) -> None:
    """Make all KV heads of ours copies of the first ones, in bases of their own; what the model gives stays.

    Args:
        order: for each KV head of which of the first it is a copy.
        turned: keys are turned by positions, in pairs half a head apart.
        plain: in the same basis.
    """
    draw = torch.Generator().manual_seed(1)
    for layer in model.anatomy.layers:
        attention: Any = layer.module
        heads, kv, dim = attention.num_heads, attention.num_kv_heads, attention.head_dim
        rows = attention.w_qkv.weight.data
        packed = torch.cat([rows, attention.w_qkv.bias.data[:, None]], 1)
        parts = packed.unflatten(0, (-1, dim)).split([heads, kv, kv])
        q, k, v = (part.clone() for part in parts)
        o = attention.w_o.weight.data.T.unflatten(0, (heads, dim)).clone()
        each = heads // kv
        for j, first in enumerate(order):
            to_k, to_v = (torch.eye(dim, dtype=q.dtype) for _ in range(2))
            if not plain:
                to_k = (
                    pair_map(dim, draw) if turned else torch.randn(dim, dim, generator=draw).to(q)
                )
                to_v = torch.randn(dim, dim, generator=draw).to(q)
            k[j], v[j] = to_k @ parts[1][first], to_v @ parts[2][first]
            mine = slice(j * each, (j + 1) * each)
            q[mine] = torch.linalg.inv(to_k).T @ q[mine]
            o[mine] = torch.linalg.inv(to_v).T @ o[mine]
        packed = torch.cat([q, k, v]).flatten(0, 1)
        attention.w_qkv.weight.data.copy_(packed[:, :-1])
        attention.w_qkv.bias.data.copy_(packed[:, -1])
        attention.w_o.weight.data.copy_(o.flatten(0, 1).T)


def pair_map(dim: int, draw: torch.Generator) -> Tensor:
    """A map that turns and scales pairs of channels half a head apart."""
    angle, size = torch.rand(2, dim // 2, generator=draw, dtype=torch.float64)
    a, b = (torch.diag((0.5 + size) * f(6.28 * angle)) for f in (torch.cos, torch.sin))
    return torch.cat([torch.cat([a, -b], 1), torch.cat([b, a], 1)])


def ids_of(batch: int = 3, length: int = 12, seed: int = 5) -> Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.randint(SIZES["vocab_size"], (batch, length), generator=draw)


def answers(model: hw.Model) -> Tensor:
    """What the model gives on some ids."""
    inputs = {"input_ids": ids_of()}
    if model.encoder_decoder:
        inputs["decoder_input_ids"] = ids_of(length=7, seed=6)
    with torch.no_grad():
        out = model.outputs(inputs)
    out = getattr(out, "logits", out)
    return getattr(out, "last_hidden_state", out)
