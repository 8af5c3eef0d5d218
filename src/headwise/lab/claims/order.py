"""C22: attention is blind to order until positions tell it.

    z_i = sum_j softmax_j(q_i k_j^T / sqrt(d_k)) v_j

The sum runs over a set: shuffle the tokens and every token still gets the same z. So in an encoder without
positions "the cat chases the dog" and "the dog chases the cat", or 猫追狗 and 狗追猫, give every word the same
vector. A causal mask breaks that: token i is the sum over the first i tokens, and which those are is order.

Measured is how far the last token's output moves when the tokens before it are shuffled: of a real encoder, with
positions and with one for all tokens, and of the lab's decoder trained with each kind of positions and with none.
The trainings are then read on twice the length they were trained on (Press et al. 2022).
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from headwise.lab.bench import Bench
from headwise.lab.claim import Claim, Line, Panel, Quantity, Verdict
from headwise.lab.estimates import Estimate, estimate
from headwise.lab.judging import above, below, verdict
from headwise.lab.lines import bars
from headwise.lab.results import Case, Results
from headwise.lab.starting import widened
from headwise.lab.words import LOSS, NONE, Words
from headwise.nn import Decoder

ENCODER = "e5-small"
POSITIONS = ("none", "sinusoidal", "learned", "rope", "alibi")
ZH = {"none": "无", "sinusoidal": "正弦", "learned": "可学习", "rope": "RoPE", "alibi": "ALiBi"}
STEPS_SHARE = 2 / 3
"""Of the lab's steps: there are many cases."""
RATE = 0.02
"""Matrices that start larger need larger steps; at the lab's rate sinusoids are learnt too late to tell."""
PAIRS = {
    "english": ("The cat chases the dog.", "The dog chases the cat."),
    "chinese": ("猫追狗", "狗追猫"),
}
ROUNDING = 1e-4
"""Of a vector's length: what float32 leaves of sums in another order, over the blocks of a model."""


def read(positions: str) -> Case:
    """The real encoder, with its own positions ("learned") or one for all tokens ("none")."""
    return {"model": ENCODER, "positions": positions, "blocks": 12}


def trained(positions: str, blocks: int = 2) -> Case:
    """A training of the lab's decoder."""
    return {"model": "decoder", "positions": positions, "blocks": blocks}


def cases(quick: bool) -> list[Case]:
    """Both; quick: three kinds of positions. A decoder of one block without positions is the odd one out."""
    kinds = ("none", "learned", "rope") if quick else POSITIONS
    return [read("none"), read("learned"), trained("none", 1), *map(trained, kinds)]


def measure(bench: Bench, case: Case, seed: int) -> Mapping[str, float]:
    """What order moves in the model of the case; of a training also its losses."""
    if case["model"] == ENCODER:
        return encoder(bench, str(case["positions"]), seed)
    length = bench.rows(1).shape[1]
    module = bench.decoder(
        seed,
        positions=case["positions"],
        num_layers=int(case["blocks"]),
        max_length=2 * length,
    )
    steps = round(bench.steps * STEPS_SHARE)
    widened(module, module.config.d_model)
    loss = bench.learn(module, seed, steps=steps, rate=RATE).held_out
    return {
        "loss": loss,
        **losses(bench, module, length),
        "moved": moved(module, bench.rows(32, seed), seed),
    }


def encoder(bench: Bench, positions: str, seed: int) -> dict[str, float]:
    """What order moves in the real encoder: in held-out paragraphs, and in the two pairs of sentences."""
    model = bench.model(ENCODER)
    module: Any = model.module
    tokenizer: Any = model.tokenizer
    table = module.embedding.positions.weight
    kept = table.detach().clone()
    numbers = {}
    try:
        if positions == "none":
            table.data[:] = kept[0]
        texts = random.Random(seed).sample(bench.text.held_out, 12)
        rows = [torch.tensor([tokenizer.encode(text).ids[:64]]) for text in texts]
        numbers["moved"] = float(np.mean([moved(module, row, seed) for row in rows]))
        for name, pair in PAIRS.items():
            one, other = (torch.tensor([tokenizer.encode(text).ids]) for text in pair)
            numbers[name] = apart(last(module, one), last(module, other))
    finally:
        table.data[:] = kept
    return numbers


def moved(module: nn.Module, rows: Int[Tensor, "row position"], seed: int) -> float:
    """How far the last token's output moves when those before it are shuffled, as a share of its length."""
    chance = torch.Generator().manual_seed(seed)
    order = torch.randperm(rows.shape[1] - 1, generator=chance)
    shuffled = torch.cat((rows[:, order], rows[:, -1:]), dim=1)
    return apart(last(module, rows), last(module, shuffled))


@torch.no_grad()
def last(module: nn.Module, ids: Int[Tensor, "row position"]) -> Float[Tensor, "row d_model"]:
    """The last token's output, before it is turned into logits."""
    out: Tensor = module.hidden(ids) if isinstance(module, Decoder) else module(ids)
    return out[:, -1]


def apart(one: Float[Tensor, "row d_model"], other: Float[Tensor, "row d_model"]) -> float:
    """The distance of two vectors over the first one's length, as a mean over rows."""
    return float(((one - other).norm(dim=-1) / one.norm(dim=-1)).mean())


@torch.no_grad()
def losses(bench: Bench, module: Decoder, length: int) -> dict[str, float]:
    """Of held-out paragraphs twice as long as the rows trained on: the first half, and the second half read behind
    the first and by itself.
    """
    ids = long_rows(bench, 2 * length + 1)
    whole = _each(module, ids)
    alone = _each(module, ids[:, length:])
    return {
        "within": float(whole[:, :length].mean()),
        "beyond": float(whole[:, length:].mean()),
        "alone": float(alone.mean()),
    }


def long_rows(bench: Bench, length: int) -> Int[Tensor, "row position"]:
    """The first tokens of every held-out paragraph that has so many."""
    read = [bench.tokenizer.encode(text).ids for text in bench.text.held_out]
    return torch.tensor([ids[:length] for ids in read if len(ids) >= length])


def _each(module: Decoder, ids: Int[Tensor, "row position"]) -> Float[Tensor, "row target"]:
    """The loss of every token but the first, nats."""
    logits = module(ids[:, :-1])
    return cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")


def judge(results: Results) -> Verdict:
    """An encoder without positions is blind, and positions open its eyes; decoders are the bound."""
    blind, seeing, decoder = (
        results.mean("moved", **case) for case in (read("none"), read("learned"), trained("none"))
    )
    costs = results.difference("loss", trained("none"), trained("rope"))
    core = (
        below(
            "encoder without",
            "shuffling moves the output of an encoder without positions by, as a share of its length",
            "打乱词序使没有位置的编码器的输出变化,占其长度",
            blind,
            ROUNDING,
            7,
        ),
        above("encoder with", "with its positions by", "有位置时变化", seeing, ROUNDING),
    )
    further = (
        below(
            "decoder without",
            "that of a causal decoder of two blocks without positions by",
            "没有位置的两层因果解码器的输出变化",
            decoder,
            ROUNDING,
        ),
        above("loss without", "its loss over that with RoPE", "它比用 RoPE 多出的损失", costs),
    )
    return verdict(
        core,
        further,
        holds=Words(
            "Attention is blind to order until positions tell it",
            "没有位置编码,注意力就分不出次序",
        ),
        up_to=Words(
            f"Attention without a mask is blind to order; a causal mask tells it, and moves a decoder without "
            f"positions by {decoder.told()}",
            f"没有掩码的注意力分不出次序;因果掩码会透露次序,使没有位置的解码器变化 {decoder.told()}",
        ),
        fails=Words("Attention is not as blind as claimed", "注意力并不像论断所说的那样分不出次序"),
    )


def panels(results: Results) -> list[Panel]:
    """The losses of each kind of positions, and what a context longer than in training changes."""
    kinds = [str(case["positions"]) for case in results.cases(model="decoder", blocks=2)]
    ticks = [Words(kind, ZH[kind]) for kind in kinds]
    within = bars(results, Words("trained length", "训练长度内"), "loss", list(map(trained, kinds)))
    change = Words("change by the longer context, nats per token", "更长上文带来的变化,nats/token")
    longer = Line.of(
        Words("twice the length", "两倍长度"),
        range(len(kinds)),
        [gained(results, kind) for kind in kinds],
    )
    level = (Words("no change", "无变化"), 0.0)
    return [
        Panel([within], NONE, LOSS, ticks=ticks),
        Panel([longer], NONE, change, ticks=ticks, levels=[level]),
    ]


def gained(results: Results, positions: str) -> Estimate:
    """The loss of tokens beyond the trained length, read behind all before them, less that read by themselves."""
    case = trained(positions)
    behind, alone = results.values("beyond", **case), results.values("alone", **case)
    return estimate([behind[seed] - alone[seed] for seed in behind])


def facts(results: Results) -> dict[str, str]:
    """For the lesson."""
    found = {"seeds": str(len(results.values("moved"))), "encoder": ENCODER}
    for name in PAIRS:
        found[f"{name}_none"] = f"{results.mean(name, **read('none')).mean:.1e}"
        found[f"{name}_learned"] = f"{results.mean(name, **read('learned')).mean:.2f}"
    found["one_block"] = f"{results.mean('moved', **trained('none', 1)).mean:.1e}"
    found["two_blocks"] = results.mean("moved", **trained("none")).told(2)
    for kind in POSITIONS:
        found[f"over_{kind}"] = results.difference("loss", trained(kind), trained("rope")).told()
        found[f"longer_{kind}"] = gained(results, kind).told()
    return found


CLAIM = Claim(
    name="order",
    row="C22",
    title=Words("Order", "词序"),
    says=Words(
        'Attention does not care about the order of words: to attention alone, "cat chases dog" and "dog chases '
        'cat" are the same. Positions put order back in.',
        "注意力根本不在乎词的顺序！“猫追狗”和“狗追猫”,在纯注意力眼里几乎一样;位置编码把“语序”重新塞回去。",
    ),
    formula=r"z_{\pi(i)}(x_\pi) = z_i(x) \quad \text{for every order } \pi",
    asks=Words(
        "The tokens before the last one are shuffled, and how far the last one's output moves is measured: in a "
        "real encoder with its positions and with none, and in decoders trained with five kinds of positions, "
        "whose loss is also measured on texts of twice the trained length.",
        "打乱最后一个 token 之前的 token,看它的输出移动多少:在真实的编码器里,"
        "有位置与没有位置;在用五种位置训练的解码器里。"
        "后者还在两倍于训练长度的文本上测量损失。",
    ),
    cases=cases,
    seeds=(2, 4),
    measure=measure,
    quantities=(
        Quantity("moved", Words("shuffling moves the last output by", "打乱后末位输出变化"), 6),
        Quantity("english", Words("cat and dog swapped", "英文 cat、dog 对调"), 6),
        Quantity("chinese", Words("猫 and 狗 swapped", "猫、狗对调"), 6),
        Quantity("loss", LOSS),
        Quantity("within", Words("of long paragraphs, first half", "长段落的前一半")),
        Quantity("beyond", Words("second half, behind the first", "后一半,接在前一半之后")),
        Quantity("alone", Words("second half, by itself", "后一半,单独读")),
    ),
    judge=judge,
    panels=panels,
    sources=(
        "Vaswani et al. 2017, Attention Is All You Need, section 3.5",
        "Su et al. 2021, RoFormer: Enhanced Transformer with Rotary Position Embedding",
        "Press et al. 2022, Train Short, Test Long: Attention with Linear Biases",
        "Kazemnejad et al. 2023, The Impact of Positional Encoding on Length Generalization in Transformers",
    ),
    facts=facts,
)
