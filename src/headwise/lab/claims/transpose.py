"""C2: heads are one more axis, and no loop over them is needed; without the transpose they are mixed.

    head_i = Attention(x W_Q^i, x W_K^i, x W_V^i),   out = concat(head_1 .. head_h) W_O

The split of x W_Q into heads is a reshape and a transpose. It is made right, and wrong in the three ways that are
easy to write, on the trained weights of a layer, and a small model learns with each.
"""

from __future__ import annotations

import copy

import numpy as np
import torch
from torch import Tensor, nn

from headwise.core import masks
from headwise.core.attention import attend
from headwise.core.masks import Mask
from headwise.cut.losses import blocks
from headwise.lab.bench import Bench
from headwise.lab.claim import Claim, Panel, Quantity, Verdict
from headwise.lab.judging import above, below
from headwise.lab.lines import bars
from headwise.lab.results import Case, Results
from headwise.lab.words import LOSS, NONE, Words
from headwise.nn import MultiHeadAttention
from headwise.nn.positions import Rotary, rotate

STEPS = 150
"""Of a training: enough for a model that mixes its positions to leave behind one that does not."""
WAYS = ("right", "left out", "half", "at once")
WRONG = WAYS[1:]


def split(x: Tensor, heads: int, how: str) -> Tensor:
    """[batch, position, d] as the heads' [batch, head, position, head_dim], or what a mistake makes of it."""
    batch, length, d = x.shape
    if how == "right":
        return x.reshape(batch, length, heads, d // heads).transpose(1, 2)
    if how == "at once":  # the right shape, and other numbers in it
        return x.reshape(batch, heads, length, d // heads)
    return x.reshape(batch, length, heads, d // heads)  # the transpose is forgotten


def merge(z: Tensor, shape: torch.Size, how: str) -> Tensor:
    """Back to [batch, position, d]; "half" forgets the transpose in `split` alone."""
    return (z.transpose(1, 2) if how in ("right", "half") else z).reshape(shape)


def multi_head(q: Tensor, k: Tensor, v: Tensor, heads: int, how: str) -> Tensor:
    """The outputs of all heads side by side, before W_O, under a causal mask where one fits."""
    q_heads, k_heads, v_heads = (split(x, heads, how) for x in (q, k, v))
    return merge(attend(q_heads, k_heads, v_heads, _mask(how)), q.shape, how)


def _mask(how: str) -> Mask | None:
    """Without the transpose the scores are [head, head], and a mask of positions does not fit on them."""
    return masks.causal() if how in ("right", "at once") else None


def measure(bench: Bench, case: Case, seed: int) -> dict[str, float]:
    """The checks on a trained layer, and what a small model learns that is split so."""
    how, rng = str(case["split"]), np.random.default_rng(seed)
    layer, x = _layer(bench, rng)
    z, loop = _heads(layer, x, how), _loop(layer, x)
    head = int(rng.integers(layer.num_heads))
    change = _heads(_poked(layer, head, seed), x, how) - z
    each = change.unflatten(-1, (layer.num_heads, -1)).abs().amax((0, 1, 3))
    others = each[torch.arange(layer.num_heads) != head]
    outputs = _out(layer, change).abs().amax((0, 1))
    later = x.clone()
    later[:, -1] = x[:, 0]
    future = (_heads(layer, later, how) - z)[:, :-1].norm() / z[:, :-1].norm()
    return {
        "loop": float((_out(layer, z - loop)).abs().max() / _out(layer, loop).abs().max()),
        "others": _share(others),
        "mixed": _share(outputs),
        "future": float(future),
        "loss": bench.learn(_model(bench, seed, how), seed, steps=STEPS).held_out,
    }


def _share(x: Tensor) -> float:
    """How many of them moved by more than rounding."""
    return float((x > 1e-6).float().mean())


def _layer(bench: Bench, rng: np.random.Generator) -> tuple[MultiHeadAttention, Tensor]:
    """A layer of the trained mini, and what it reads of two rows of text."""
    model = bench.model("mini")
    layer = model.anatomy.layers[1].module
    assert isinstance(layer, MultiHeadAttention)
    texts = list(bench.text.held_out)
    rng.shuffle(texts)
    read: list[Tensor] = []
    hook = layer.register_forward_pre_hook(lambda module, given: read.append(given[0]))
    try:
        model.run({"input_ids": blocks(model, texts[:20], 32)[:2]})
    finally:
        hook.remove()
    return layer, read[0]


def _poked(layer: MultiHeadAttention, head: int, seed: int) -> MultiHeadAttention:
    """The same with other W_Q, W_K and W_V of one head."""
    poked = copy.deepcopy(layer)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        rows = _by_head(poked.w_qkv.weight, layer)[:, head]
        rows += 0.1 * torch.randn(rows.shape, generator=generator).to(rows.device)
    return poked


def _by_head(parameter: Tensor, layer: MultiHeadAttention) -> Tensor:
    """[3, head, head_dim, ...]: of W_Q, W_K and W_V the rows of each head."""
    return parameter.reshape(3, layer.num_heads, layer.head_dim, *parameter.shape[1:])


@torch.no_grad()
def _out(layer: MultiHeadAttention, z: Tensor) -> Tensor:
    return nn.functional.linear(z, layer.w_o.weight)


@torch.no_grad()
def _heads(layer: MultiHeadAttention, x: Tensor, how: str) -> Tensor:
    q, k, v = layer.w_qkv(x).chunk(3, -1)
    return multi_head(q, k, v, layer.num_heads, how)


@torch.no_grad()
def _loop(layer: MultiHeadAttention, x: Tensor) -> Tensor:
    """Head by head, each with its own W_Q, W_K and W_V, as the formula has it."""
    w, b = (_by_head(part, layer) for part in (layer.w_qkv.weight, layer.w_qkv.bias))
    hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool, device=x.device).triu(1)
    found = []
    for head in range(layer.num_heads):
        q, k, v = (x @ w[part, head].T + b[part, head] for part in range(3))
        scores = q @ k.transpose(-1, -2) / layer.head_dim**0.5
        found.append(scores.masked_fill(hidden, float("-inf")).softmax(-1) @ v)
    return torch.cat(found, -1)


class _Split(nn.Module):
    """An attention of the small model with its heads split in one of the ways."""

    def __init__(self, inner: MultiHeadAttention, how: str) -> None:
        super().__init__()
        self.inner, self.how = inner, how

    def forward(self, x: Tensor, mask: Mask | None, *, rotary: Rotary, **others: object) -> Tensor:
        heads = self.inner.num_heads
        q, k, v = self.inner.w_qkv(x).chunk(3, -1)
        q, k = (merge(rotate(split(y, heads, "right"), rotary), y.shape, "right") for y in (q, k))
        out: Tensor = self.inner.w_o(multi_head(q, k, v, heads, self.how))
        return out


def _model(bench: Bench, seed: int, how: str) -> nn.Module:
    """The small model, whose queries and keys are turned by their positions before they are split so."""
    model = bench.decoder(seed)
    for block in model.blocks:
        assert isinstance(block.attention, MultiHeadAttention)
        block.attention = _Split(block.attention, how)
    return model


def cases(quick: bool) -> list[Case]:
    """The ways to split."""
    return [{"split": way} for way in WAYS]


def judge(results: Results) -> Verdict:
    """Whether the split gives the loop's numbers, and whether each mistake mixes heads."""
    loop, alone, mixed, future = (
        results.mean(name, split="right") for name in ("loop", "others", "mixed", "future")
    )
    cost = results.difference("loss", {"split": "left out"}, {"split": "right"})
    caught = [
        above(
            f"caught {way}",
            f"the other heads that move, {LABELS[way].en}",
            f"随之变化的其他头,{LABELS[way].zh}",
            results.mean("others", split=way),
            0.01,
        )
        for way in WRONG
    ]
    findings = (
        below(
            "loop",
            "largest difference from a loop over heads, relative",
            "与逐头循环的最大相对差",
            loop,
            1e-6,
        ),
        below(
            "independent",
            "share of the other heads that move with one head's weights",
            "改动一个头的权重时,其他头中随之变化的比例",
            alone,
            0.01,
        ),
        above(
            "mixed",
            "share of the outputs after W_O that move",
            "W_O 之后随之变化的输出的比例",
            mixed,
            0.5,
        ),
        below(
            "future",
            "how far a later token moves earlier ones",
            "后面的 token 使前面移动的幅度",
            future,
            1e-4,
        ),
        *caught,
        above("cost", "nats per token lost, left out", "忘记转置时多出的损失,nats/token", cost),
    )
    says = Words(
        "Without a loop the heads come out as in one, to rounding. Each mistake lets one head into the others. "
        "The trap: a model that splits wrong trains all the same, to {trap} where the right one has {right}.",
        "不用循环,各个头的结果与循环一致,只差舍入。每一种错误都会让一个头混进其他头。"
        "陷阱在于:拆错的模型照样能训练,损失为 {trap},而正确的是 {right}。",
    )
    ends = {"trap": "left out", "right": "right"}
    losses = {name: results.mean("loss", split=way).told(2) for name, way in ends.items()}
    return Verdict.of(findings, says.filled(**losses))


def panels(results: Results) -> list[Panel]:
    """What moves with one head's weights, and the loss of a model of each split."""
    ticks, ways = [LABELS[way] for way in WAYS], [{"split": way} for way in WAYS]
    moves = [
        bars(results, Words("other heads that move", "随之变化的其他头"), "others", ways),
        bars(results, Words("pull of a later token", "后面 token 的影响"), "future", ways),
    ]
    share = Words("share, or relative change", "比例或相对变化")
    loss = bars(results, LOSS, "loss", ways)
    return [Panel(moves, NONE, share, ticks=ticks), Panel([loss], NONE, LOSS, ticks=ticks)]


def facts(results: Results) -> dict[str, str]:
    """The figures that the lesson speaks of."""
    names = {"left out": "left", "half": "half", "at once": "once", "right": "right"}
    said = {"mixed": results.mean("mixed", split="right").told(2), "steps": str(STEPS)}
    for way, short in names.items():
        for quantity, digits in (("others", 2), ("future", 3), ("loss", 2), ("loop", 3)):
            said[f"{quantity}_{short}"] = results.mean(quantity, split=way).told(digits)
        lost = results.difference("loss", {"split": way}, {"split": "right"})
        said[f"cost_{short}"] = lost.told(2)
    return said


LABELS = {
    "split": Words("split", "拆分"),
    "right": Words("right", "正确"),
    "left out": Words("no transpose", "没有转置"),
    "half": Words("none in split", "拆时没有"),
    "at once": Words("one reshape", "一次 reshape"),
}

CLAIM = Claim(
    name="transpose",
    row="C2",
    title=Words("Heads are one more axis", "头只是多出来的一个维度"),
    says=Words(
        "There is no loop over heads: they are one more axis. The transpose "
        "that brings it before the positions is "
        "not optional; without it heads that should each mind their own business are mixed. They are independent "
        "until W_O, which mixes them.",
        "在张量眼里,“头”不过是多出来的一个维度,整段代码没有一处显式的循环。split_heads 里那一步 transpose "
        "不是可有可无的;省掉它,等于让本该各管各的食客互相串味。算注意力这一步各头是独立的,到了 W_O 才重新混合。",
    ),
    formula=r"\mathrm{head}_i = \mathrm{Attention}(x W_Q^i,\ x W_K^i,\ x W_V^i), \qquad "
    r"\mathrm{out} = \mathrm{Concat}(\mathrm{head}_1, \dots, \mathrm{head}_h)\, W_O",
    asks=Words(
        "On a trained layer reading text: how far the result is from a "
        "loop over heads, which heads move when the "
        "weights of one are changed, and whether a later token moves earlier ones; for the right split and three "
        "wrong ones. And what a small model learns with each.",
        "在读取文本的训练好的一层上:结果与逐头循环相差多少;改动一个头的权重时哪些头会变化;"
        "后面的 token 是否影响前面的 token。"
        "正确的拆分与三种错误的拆分都测,再看小模型用每一种能学到什么。",
    ),
    cases=cases,
    seeds=(2, 3),
    measure=measure,
    quantities=(
        Quantity("loop", Words("from the loop", "与循环之差")),
        Quantity("others", Words("other heads moved", "变化的其他头"), 2),
        Quantity("mixed", Words("moved after W_O", "W_O 后变化的"), 2),
        Quantity("future", Words("pull of a later token", "后面 token 的影响")),
        Quantity("loss", LOSS),
    ),
    judge=judge,
    panels=panels,
    sources=("Vaswani et al. 2017, Attention Is All You Need, section 3.2.2",),
    facts=facts,
    labels=LABELS,
)
