"""C19: attention alone only mixes; the FFN adds the non-linearity at each position that a block needs.

    z_i = sum_j a_ij v_j        a head gives a weighted mean of values: with softmax weights, a point between them

Means of means come ever closer to each other. Dong et al. (2021) prove that a stack of attention without skips and
FFN brings all positions to one vector, doubly exponentially in the depth; the residual stream and the FFN work
against it. res(X) = |X - 1 x^T| / |X| with the best x (the mean over positions) is 0 where all positions are equal.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from headwise.lab.bench import Bench
from headwise.lab.claim import Claim, Line, Panel, Quantity, Verdict
from headwise.lab.estimates import Estimate
from headwise.lab.judging import above, below, verdict
from headwise.lab.lines import bars
from headwise.lab.results import Case, Results
from headwise.lab.words import LOSS, Words
from headwise.nn import Decoder
from headwise.nn.block import Block, Surroundings

__all__ = ["CLAIM"]

DEPTH = 12
"""Layers of the fresh model that the distance to rank one is followed through."""

WHOLE: Case = {"attention": "yes", "ffn": "yes", "residual": "yes", "layers": 2}
_PARTS = (
    WHOLE,
    {**WHOLE, "ffn": "no"},
    {**WHOLE, "ffn": "no", "layers": 6},
    {**WHOLE, "attention": "no"},
    {**WHOLE, "residual": "no"},
    {**WHOLE, "ffn": "no", "residual": "no"},
)
_NO_FFN, _DEEP, _NO_ATTENTION, _NO_SKIP, _ALONE = _PARTS[1:]


class Part(nn.Module):
    """A pre-norm block of which some parts are left out."""

    def __init__(self, block: Block, case: Case) -> None:
        super().__init__()
        self.attention = block.attention if case["attention"] == "yes" else None
        self.attention_norm = block.attention_norm
        self.ffn = block.ffn if case["ffn"] == "yes" else None
        self.ffn_norm = block.ffn_norm
        self.residual = case["residual"] == "yes"

    def forward(self, x: Tensor, around: Surroundings) -> Tensor:
        """The stream after what is left of the block."""
        if self.attention is not None:
            y = self.attention(self.attention_norm(x), around.mask, rotary=around.rotary)
            x = x + y if self.residual else y
        if self.ffn is not None:
            y = self.ffn(self.ffn_norm(x))
            x = x + y if self.residual else y
        return x


def made(bench: Bench, case: Case, seed: int, layers: int) -> Decoder:
    """A fresh decoder of such blocks; whole ones of a seed start from the same weights."""
    decoder = bench.decoder(seed, num_layers=layers)
    for number, block in enumerate(decoder.blocks):
        assert isinstance(block, Block)
        decoder.blocks[number] = Part(block, case)
    return decoder


def measure(bench: Bench, case: Case, seed: int) -> dict[str, float]:
    """How far the positions stay apart through a fresh deep model and a trained one, and the trained one's loss."""
    rows = bench.rows(8, seed)
    fresh = apart(made(bench, case, seed, DEPTH), rows)
    decoder = made(bench, case, seed, int(case["layers"]))
    loss = bench.learn(decoder, seed).held_out
    return {"loss": loss, "trained": apart(decoder, rows)[-1]} | {
        f"after_{layer}": x for layer, x in enumerate(fresh)
    }


@torch.no_grad()
def apart(decoder: Decoder, rows: Tensor) -> list[float]:
    """res(X) of the embeddings and after each block, the mean over rows: 0 = all positions are equal."""
    found: list[Tensor] = []
    hooks = [decoder.blocks[0].register_forward_pre_hook(lambda _, given: found.append(given[0]))]
    hooks += [
        b.register_forward_hook(lambda *given: found.append(given[2])) for b in decoder.blocks
    ]
    try:
        decoder.eval()(rows)
    finally:
        for hook in hooks:
            hook.remove()
    return [_distance(x.double()) for x in found]


def _distance(x: Tensor) -> float:
    centred = x - x.mean(1, keepdim=True)
    return float((centred.flatten(1).norm(dim=1) / x.flatten(1).norm(dim=1)).mean())


def judge(results: Results) -> Verdict:
    """Core: attention alone collapses, and each part is worth something. Further: at equal parameters too."""
    sunk = results.ratio(f"after_{DEPTH}", _ALONE, WHOLE)
    core = (
        below(
            "alone",
            f"distance to rank one after {DEPTH} fresh layers of attention alone, over the whole model's",
            f"{DEPTH} 层未训练的纯注意力之后,到秩一的距离与完整模型之比",
            sunk,
            0.5,
            4,
        ),
        above(
            "no_ffn",
            "nats per token lost without the FFN",
            "去掉 FFN 多损失的nats/token",
            more(results, _NO_FFN),
        ),
        above(
            "no_attention",
            "nats per token lost without attention",
            "去掉注意力多损失的nats/token",
            more(results, _NO_ATTENTION),
        ),
        above(
            "bare",
            "nats per token lost without FFN and residual",
            "同时去掉 FFN 与残差多损失的nats/token",
            more(results, _ALONE),
        ),
    )
    deep = above(
        "deep",
        "nats per token lost without the FFN, in three times the layers: as many parameters as the whole model",
        "去掉 FFN 而层数加到三倍、参数量与完整模型相同时,多损失的nats/token",
        more(results, _DEEP),
    )
    return verdict(
        core,
        [deep],
        holds=Words(
            "Attention alone brings the positions together, and no part can go, at equal parameters either",
            "只有注意力时各位置趋于相同,哪一部分都不能去掉,参数量相同时也一样",
        ),
        up_to=Words(
            "Attention alone brings the positions together, but at equal parameters more layers do as well",
            "只有注意力时各位置趋于相同,但参数量相同时,更多的注意力层可以补上 FFN",
        ),
        fails=Words(
            "Attention alone does not fall short as claimed", "纯注意力并没有如论断那样不足"
        ),
    )


def more(results: Results, case: Case) -> Estimate:
    """How much more loss such a model has than the whole one."""
    return results.difference("loss", case, WHOLE)


def panels(results: Results) -> list[Panel]:
    """The distance to rank one by depth, and the losses."""
    named = [(case, _name(case)) for case in _PARTS if case != _DEEP]
    layers = list(range(DEPTH + 1))
    lines = [
        Line.of(name, layers, [results.mean(f"after_{x}", **case) for x in layers])
        for case, name in named
    ]
    losses = bars(results, LOSS, "loss", _PARTS)
    depth = Words("layers, fresh weights", "层数(未训练)")
    ticks = [_name(case) for case in _PARTS]
    return [
        Panel(lines, depth, Words("distance to rank one", "到秩一的距离"), log_y=True),
        Panel([losses], Words("trained", "训练后"), LOSS, ticks=ticks),
    ]


def _name(case: Case) -> Words:
    """What is left of the block."""
    if case == WHOLE:
        return Words("whole", "完整")
    if case == _DEEP:
        return Words("no FFN, 6 layers", "无 FFN,6 层")
    left_out = [name for name in ("attention", "ffn", "residual") if case[name] == "no"]
    en = {"attention": "attention", "ffn": "FFN", "residual": "residual"}
    zh = {"attention": "注意力", "ffn": "FFN", "residual": "残差"}
    return Words(
        "no " + ", no ".join(en[x] for x in left_out), "无" + "、无".join(zh[x] for x in left_out)
    )


CLAIM = Claim(
    name="mixing",
    row="C19",
    title=Words("Why attention needs the FFN", "注意力之后为什么还要 FFN"),
    says=Words(
        "Attention alone only mixes; the FFN adds the non-linearity at each position that the block needs.",
        "注意力只做混合;FFN 补上逐位置的非线性加工,缺了它模型只是“上下文混合系统”。",
    ),
    formula=r"o_i = \sum_j a_{ij} v_j,\qquad \mathrm{res}(X) = X - \mathbf 1 x^\top",
    asks=Words(
        "Blocks without FFN, attention or residual stream: how far apart the positions stay layer by layer, and "
        "what the same training comes to.",
        "分别去掉 FFN、注意力、残差:逐层看各位置还相距多远,再看同样的训练各得到多大损失。",
    ),
    cases=lambda quick: _PARTS,
    seeds=(2, 4),
    measure=measure,
    quantities=(
        Quantity("loss", LOSS),
        Quantity("trained", Words("apart after training", "训练后相距"), 2),
        *(
            Quantity(f"after_{x}", Words(f"apart, layer {x}", f"第 {x} 层后相距"), 4)
            for x in range(DEPTH + 1)
        ),
    ),
    judge=judge,
    panels=panels,
    sources=("Dong, Cordonnier, Loukas 2021, Attention is not all you need, theorem 1",),
    facts=lambda results: {
        f"{name}_{quantity}": results.mean(quantity, **case).told(3)
        for name, case in (
            ("whole", WHOLE),
            ("no_ffn", _NO_FFN),
            ("deep", _DEEP),
            ("no_attention", _NO_ATTENTION),
            ("no_residual", _NO_SKIP),
            ("alone", _ALONE),
        )
        for quantity in ("loss", "trained", f"after_{DEPTH}")
    },
)
