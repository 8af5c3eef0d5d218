"""C1: without 1 / sqrt(d_k) the softmax saturates.

    softmax(q k^T / sqrt(d_k)) v

If the entries of q and k are independent, with mean 0 and variance 1, then q k^T = sum_i q_i k_i is a sum of d_k
terms of variance 1: its standard deviation is sqrt(d_k), and dividing by that makes it 1 at any head_dim (Vaswani
et al. 2017, section 3.2.1). Here: rows with the factor and without (a factor of 1), on fresh weights that give such
q and k, in trained models from which it is taken away, and in trainings.
"""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.core.attention import attend
from headwise.core.scores import Scores, mix
from headwise.cut.ablating.applying import applied
from headwise.cut.losses import blocks, loss
from headwise.lab.bench import Bench
from headwise.lab.claim import Claim, Finding, Line, Panel, Quantity, Verdict
from headwise.lab.judging import both, verdict
from headwise.lab.lines import bars, over
from headwise.lab.results import Case, Results
from headwise.lab.starting import GPT2
from headwise.lab.words import LOSS, Words
from headwise.nn import Decoder, MultiHeadAttention

DIMS = (8, 16, 32, 64, 128, 256)
WIDTH, HEADS, ROWS = 256, 4, 4
TRAINED = ("mini", "smollm2")
TRAINING = {"num_heads": 2, "head_dim": 128}


QUANTITIES = (
    Quantity("evenness", Words("evenness of a row", "行的均匀度")),
    Quantity("largest", Words("largest weight", "最大权重")),
    Quantity("gradient", Words("gradient at the scores, typical row", "分数处的梯度(典型行)")),
    Quantity("gradient_q", Words("gradient at q, typical row", "q 处的梯度(典型行)")),
    Quantity("loss", LOSS),
)


def cases(quick: bool) -> list[Case]:
    """Head sizes with fresh weights; trained models; two starts of a training; each with the factor and without."""
    fresh: list[Case] = [{"of": "fresh weights", "head_dim": dim} for dim in DIMS]
    trained: list[Case] = [{"of": name} for name in (TRAINED[:1] if quick else TRAINED)]
    starts: list[Case] = [{"of": "training", "start": start} for start in ("unit", "small")]
    return [{**case, "factor": on} for case in fresh + trained + starts for on in ("on", "off")]


def measure(bench: Bench, case: Case, seed: int) -> Mapping[str, float]:
    """One of the three, with the factor 1 / sqrt(head_dim) or with 1."""
    if case["of"] == "fresh weights":
        return fresh(bench, int(case["head_dim"]), case["factor"] == "on", seed)
    if case["of"] == "training":
        return trained_anew(bench, str(case["start"]), case["factor"] == "on", seed)
    return trained(bench, str(case["of"]), case["factor"] == "on", seed)


def fresh(bench: Bench, head_dim: int, on: bool, seed: int) -> Mapping[str, float]:
    """Rows of real tokens whose embeddings and projections are fresh, so that q, k, v have variance 1."""
    torch.manual_seed(seed)
    vectors = torch.randn(bench.tokenizer.get_vocab_size(), WIDTH)
    x = vectors[bench.rows(ROWS, seed).cpu()]
    maps = torch.randn(3, HEADS, WIDTH, head_dim) / math.sqrt(WIDTH)
    q, k, v = torch.einsum("bnd,phde->pbhne", x, maps)
    q.requires_grad_()
    bias = torch.zeros(ROWS, HEADS, x.shape[1], x.shape[1], requires_grad=True)
    scale = 1 / math.sqrt(head_dim) if on else 1.0
    z, pattern = attend(q, k, v, scale=scale, bias=bias, return_pattern=True)
    # the gradient of a weight is then of size 1, whatever head_dim is
    (z * torch.randn_like(z) / math.sqrt(head_dim)).sum().backward()
    assert bias.grad is not None
    assert q.grad is not None
    of_scores, of_q = bias.grad.norm(dim=-1), q.grad.norm(dim=-1)
    return {
        **shape_of(pattern, torch.full(x.shape[1:2], x.shape[1])),
        "gradient": float(of_scores.median()),
        "gradient_q": float(of_q.median()),
    }


def shape_of(
    pattern: Float[Tensor, "batch head query key"], visible: Int[Tensor, " query"]
) -> dict[str, float]:
    """How even rows are (entropy over that of equal weights), and their largest weight; but for the first."""
    pattern = pattern.detach()
    entropy = torch.special.entr(pattern).sum(-1)[:, :, 1:] / visible[1:].log()
    return {
        "evenness": float(entropy.mean()),
        "largest": float(pattern.amax(-1)[:, :, 1:].mean()),
    }


def trained(bench: Bench, name: str, on: bool, seed: int) -> Mapping[str, float]:
    """A trained model's rows, and its loss, with the factor in every head or without."""
    model = bench.model(name)
    found: list[dict[str, float]] = []

    def edit(scores: Scores, v: Tensor, z: Tensor) -> Tensor:
        factor = 1.0 if on else math.sqrt(scores.q.shape[-1])
        pattern = dataclasses.replace(scores, scale=scores.scale * factor).rows()
        found.append(shape_of(pattern, torch.arange(1, pattern.shape[-1] + 1)))
        return mix(pattern, v)

    paragraphs = random.Random(seed).sample(bench.text.held_out, 40)
    with applied(model, {layer.id: edit for layer in model.anatomy.layers}):
        lost = loss(model, blocks(model, paragraphs, 128)[:4]).mean
    means = {key: float(np.mean([one[key] for one in found])) for key in found[0]}
    return {**means, "loss": lost}


def trained_anew(bench: Bench, start: str, on: bool, seed: int) -> Mapping[str, float]:
    """The lab's model with large heads: its loss, from q and k of variance 1 or from GPT-2's start (0.02)."""
    module = bench.decoder(seed, **TRAINING, attention_scale=None if on else 1.0)
    if start == "unit":
        to_unit(module)
    steps = bench.steps // 6
    return {"loss": bench.learn(module, seed, steps=steps).held_out}


def to_unit(module: Decoder) -> None:
    """Lengthen W_Q and W_K from a standard deviation of 0.02 to 1 / sqrt(d_model), as Vaswani et al. reckon."""
    for part in module.modules():
        if isinstance(part, MultiHeadAttention):
            rows = (part.num_heads + part.num_kv_heads) * part.head_dim
            part.w_qkv.weight.data[:rows] /= GPT2 * math.sqrt(part.d_model)


def judge(results: Results) -> Verdict:
    """Core: one key has more than half of a row without the factor, and not with it. Further: models are worse."""
    low, high = min(DIMS), max(DIMS)
    on, off = ({"of": "fresh weights", "head_dim": high, "factor": way} for way in ("on", "off"))
    has, lacks = results.mean("largest", **on), results.mean("largest", **off)
    same = results.ratio("evenness", on, {**on, "head_dim": low})
    slope = results.ratio("gradient", off, on)
    lacks_says = Words(
        f"largest weight at head_dim {high} without", f"head_dim {high} 无缩放时的最大权重"
    )
    slope_says = Words(
        "gradient at the scores, without over with", "分数处的梯度,无缩放与有缩放之比"
    )
    same_says = Words(f"evenness with, {high} over {low}", f"有缩放时的均匀度,{high} 与 {low} 之比")
    core = (
        Finding("without", lacks_says, lacks, lacks.above(0.5)),
        Finding("with", Words("the same with the factor", "有缩放时"), has, has.below(0.5)),
        Finding("gradient", slope_says, slope, slope.below(0.5)),
        Finding("evenness", same_says, same, both(same.above(0.9), same.below(1.1))),
    )
    return verdict(
        core,
        [cost_of(results, case) for case in _pairs(results)],
        holds=Words(
            "Without the factor the softmax saturates, and every model loses by it",
            "没有缩放,softmax 就会饱和,每个模型都因此变差",
        ),
        up_to=Words(
            "Without the factor the softmax saturates, but not every model loses by it",
            "没有缩放,softmax 会饱和,但并非每个模型都因此变差",
        ),
        fails=Words("The softmax does not saturate as claimed", "softmax 并没有如论断那样饱和"),
    )


def cost_of(results: Results, case: Case) -> Finding:
    """What a model loses by going without the factor."""
    more = results.difference("loss", {**case, "factor": "off"}, {**case, "factor": "on"})
    name = _name(case)
    says = Words(
        f"nats per token lost without it, {name.en}", f"{name.zh}:没有缩放多出的损失,nats/token"
    )
    return Finding(f"loss {name.en}", says, more, more.above(0.0))


def _pairs(results: Results) -> list[Case]:
    """The cases that have a loss, without their factor."""
    cases = [c for c in results.cases(factor="on") if c["of"] != "fresh weights"]
    return [{name: c[name] for name in c if name != "factor"} for c in cases]


def _name(case: Case) -> Words:
    if case["of"] != "training":
        return Words(str(case["of"]), str(case["of"]))
    unit = case["start"] == "unit"
    return Words(
        f"trained from {'unit' if unit else 'small'} q, k",
        f"从{'方差为 1' if unit else '很小'}的 q、k 开始训练",
    )


def panels(results: Results) -> list[Panel]:
    """Evenness and gradient against head_dim; losses."""
    ways = {"on": Words("with 1/sqrt(d_k)", "有 1/sqrt(d_k)"), "off": Words("without", "无")}
    dim, pairs = Words("head_dim", "head_dim"), _pairs(results)

    def against_dim(quantity: str) -> list[Line]:
        fresh = {"of": "fresh weights"}
        return [over(results, ways[w], quantity, "head_dim", factor=w, **fresh) for w in ways]

    costs = [bars(results, ways[w], "loss", [{**c, "factor": w} for c in pairs]) for w in ways]
    labels = {one.name: one.label for one in QUANTITIES}
    return [
        Panel(against_dim("evenness"), dim, labels["evenness"], log_x=True),
        Panel(against_dim("gradient"), dim, labels["gradient"], log_x=True, log_y=True),
        Panel(costs, Words("model", "模型"), labels["loss"], ticks=[_name(c) for c in pairs]),
    ]


def facts(results: Results) -> dict[str, str]:
    """Figures for the lesson."""
    fresh = {"of": "fresh weights"}
    high = max(DIMS)
    on, off = ({**fresh, "head_dim": high, "factor": way} for way in ("on", "off"))
    past = [
        int(d)
        for d in DIMS
        if results.mean("largest", **fresh, head_dim=d, factor="off").mean > 0.5
    ]
    said = {
        "gpt2": str(GPT2),
        "high": str(high),
        "even_on": results.mean("evenness", **on).told(2),
        "even_off": results.mean("evenness", **off).told(2),
        "past_half_en": f"head_dim {min(past)}" if past else "none of these sizes",
        "past_half_zh": f"head_dim {min(past)}" if past else "其中没有一个大小",
        "gradient": results.ratio("gradient", off, on).told(3),
        "gradient_q": results.ratio("gradient_q", off, on).told(2),
        "root": f"{math.sqrt(high):.0f}",
    }
    for name in (*TRAINED, "unit", "small"):
        case: Case = {"of": name} if name in TRAINED else {"of": "training", "start": name}
        said[f"more_{name}"] = cost_of(results, case).value.told(2)
        for way in ("on", "off"):
            said[f"{name}_{way}"] = results.mean("loss", **case, factor=way).told(2)
            said[f"{name}_largest_{way}"] = results.mean("largest", **case, factor=way).told(2)
    return said


CLAIM = Claim(
    name="scale",
    row="C1",
    title=Words("Why the scores are divided by sqrt(d_k)", "为什么要除以 sqrt(d_k)"),
    says=Words(
        "Attention is softmax(QK^T / sqrt(d_k)) V; without 1 / sqrt(d_k) the softmax saturates.",
        "注意力是 softmax(QK^T / sqrt(d_k)) V;没有 1 / sqrt(d_k),softmax 就会饱和。",
    ),
    formula=r"\mathrm{Attention}(Q,K,V)=\mathrm{softmax}\left(\frac{QK^\top}{\sqrt{d_k}}\right)V",
    asks=Words(
        "How even rows are and which gradient reaches the scores, against head_dim, with and without the factor; "
        "what trained models lose without it; trainings without it.",
        "随 head_dim 变化,有无缩放时各行的均匀度与分数处的梯度;训练好的模型去掉缩放后的损失;不带缩放的训练。",
    ),
    cases=cases,
    seeds=(2, 3),
    measure=measure,
    quantities=QUANTITIES,
    judge=judge,
    panels=panels,
    sources=("Vaswani et al. 2017, Attention Is All You Need, section 3.2.1",),
    facts=facts,
)
