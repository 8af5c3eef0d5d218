"""C6: more heads are not always better, and one is too few.

    head_i = softmax(q_i k_i^T / sqrt(d_k)) v_i,   d_k = d_model / h

At a fixed d_model the number of heads h and their size d_k are traded against each other: the parameters are the
same at every h. One head has one pattern for all it must look at. Many heads have little to choose by: the scores
q_i k_i^T are a matrix of rank d_k, and at d_k = 1 every query ranks the keys in one order, or in its reverse.
Vaswani et al. (2017) tried h = 1 to 32 in table 3, row A. Here: one small model, with the same parameters, fresh
weights, text and steps for every h of a seed.

It reads bytes, in one block. To guess the next letter, several letters before it must be read, each as itself:
there is something to look at for more than one head, and no second block to make up for those that are missing. The
same is measured with word pieces, of which one tells most of what so short a training learns.

Positions are RoPE, which a short training learns soonest. It turns pairs of channels within a head, so h also
changes how position is told. The control, sinusoids added to the stream, treats all h alike and works at d_k = 1;
it learns in so short a training only from matrices that start larger, with larger steps.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from headwise.lab.bench import RATE, Bench
from headwise.lab.claim import Claim, Finding, Line, Panel, Quantity, Verdict
from headwise.lab.estimates import Estimate, estimate
from headwise.lab.judging import above, verdict
from headwise.lab.results import Case, Results
from headwise.lab.starting import widened
from headwise.lab.words import LOSS, Words
from headwise.nn import Decoder

HEADS = (1, 2, 4, 8, 16, 32)
ALIKE = (1, 8, 64)
"""Numbers of heads with sinusoids."""
PIECES = (1, 8)
SINUSOIDAL_RATE = 0.02
"""Matrices that start larger need larger steps."""
VASWANI = {1: 5.29, 4: 5.00, 8: 4.92, 16: 4.91, 32: 5.01}
"""Perplexity by the number of heads: Vaswani et al. 2017, table 3, rows base and A (d_model = 512)."""


def cases(quick: bool) -> list[Case]:
    """Numbers of heads reading bytes, by RoPE and by sinusoids, and reading pieces; quick: fewer."""
    if quick:
        return [letters(heads) for heads in (1, 8, 32)]
    by_rope = [letters(heads) for heads in HEADS]
    by_sinusoids = [letters(heads, "sinusoidal") for heads in ALIKE]
    return by_rope + by_sinusoids + [pieces(heads) for heads in PIECES]


def letters(heads: int, positions: str = "rope") -> Case:
    """So many heads, reading bytes."""
    return {"tokens": "bytes", "positions": positions, "heads": heads}


def pieces(heads: int) -> Case:
    """So many heads, reading pieces of words."""
    return {"tokens": "pieces", "positions": "rope", "heads": heads}


def measure(bench: Bench, case: Case, seed: int) -> Mapping[str, float]:
    """The loss of a training with so many heads."""
    bench = bench.letters if case["tokens"] == "bytes" else bench
    module = built(bench, case, seed)
    learnt = bench.learn(
        module, seed, rate=RATE if case["positions"] == "rope" else SINUSOIDAL_RATE
    )
    return {
        "head_dim": module.config.head_dim,
        "parameters": sum(weight.numel() for weight in module.parameters()),
        "loss": learnt.held_out,
        "training": float(np.mean(learnt.losses[-50:])),
    }


def built(bench: Bench, case: Case, seed: int) -> Decoder:
    """One block with so many heads; its fresh weights are the same for all."""
    heads, positions = int(case["heads"]), case["positions"]
    module = bench.decoder(seed, num_heads=heads, num_layers=1, positions=positions)
    return module if positions == "rope" else widened(module, module.config.d_model)


def over_best(results: Results, heads: int) -> Estimate:
    """How much more loss a number of heads has than the best other one; below 0 where it is itself the best.

    The best of several that are equally good is partly luck, and would look better than it is. So no seed chooses
    what it is compared with: that is the number of heads whose mean is lowest over the other seeds.
    """
    losses = {h: results.values("loss", **letters(h)) for h in tried(results)}
    seeds = sorted(set.intersection(*(set(by_seed) for by_seed in losses.values())))
    over = []
    for seed in seeds if len(seeds) > 1 and len(losses) > 1 else ():
        means = {
            h: sum(by[s] for s in seeds if s != seed) for h, by in losses.items() if h != heads
        }
        best = min(means, key=lambda h: means[h])
        over.append(losses[heads][seed] - losses[best][seed])
    return estimate(over)


def tried(results: Results) -> list[int]:
    """The numbers of heads that read bytes by RoPE."""
    return [int(heads) for heads in results.settings("heads", tokens="bytes", positions="rope")]


def judge(results: Results) -> Verdict:
    """Both ends lose against the best number of heads."""
    core = [
        above(
            name,
            f"loss of h = {heads} over the best other h, nats per token",
            f"h = {heads} 比其余最佳 h 多出的损失,nats/token",
            over_best(results, heads),
        )
        for name, heads in (("too few", min(tried(results))), ("too many", max(tried(results))))
    ]
    best = best_of(results)
    found = verdict(
        core,
        holds=Words(
            f"Both ends lose against the best other number of heads, which lies at h = {best}",
            f"两端都不如其余最佳的头数,最佳在 h = {best}",
        ),
        fails=Words(
            f"Not both ends lose against the best other number of heads; the best lies at h = {best}",
            f"并非两端都不如其余最佳的头数;最佳在 h = {best}",
        ),
    )
    return replace(found, findings=(*core, *told(results)))


def told(results: Results) -> list[Finding]:
    """Differences that the verdict does not rest on, of the cases that there are."""
    en, zh = "by sinusoids, loss of h = {} over h = 8", "用正弦位置时,h = {} 比 h = 8 多出的损失"
    few, many = ((en.format(h), zh.format(h)) for h in (min(ALIKE), max(ALIKE)))
    found = [
        above("too few, alike", *few, alike(results, min(ALIKE))),
        above("too many, alike", *many, alike(results, max(ALIKE))),
        above(
            "too few, pieces",
            "reading word pieces, loss of h = 1 over h = 8",
            "读词片时,h = 1 比 h = 8 多出的损失",
            in_pieces(results),
        ),
    ]
    return [one for one in found if one.value.count]


def alike(results: Results, heads: int) -> Estimate:
    """How much more loss a number of heads has than 8, by sinusoids."""
    one, other = letters(heads, "sinusoidal"), letters(8, "sinusoidal")
    return results.difference("loss", one, other)


def in_pieces(results: Results) -> Estimate:
    """How much more loss one head has than 8, reading pieces."""
    return results.difference("loss", pieces(1), pieces(8))


def best_of(results: Results) -> str:
    """The numbers of heads whose loss is not above the best's as far as these seeds can tell: "4, 8"."""
    lowest = min(tried(results), key=lambda h: results.mean("loss", **letters(h)).mean)
    as_good = [
        h for h in tried(results) if h == lowest or over_best(results, h).above(0) is not True
    ]
    return ", ".join(map(str, as_good))


def panels(results: Results) -> list[Panel]:
    """The loss against h, and what is lost against the best h beside the paper's row A."""
    x = tried(results)
    means = [results.mean("loss", **letters(h)) for h in x]
    over = [over_best(results, h) for h in x]
    paper = np.log(np.array(list(VASWANI.values())) / min(VASWANI.values()))
    row = Words("Vaswani et al. 2017, table 3 row A", "Vaswani 等 2017,表 3 A 行")
    here = [
        Line.of(Words("here", "本实验"), x, over),
        Line(row, np.array(list(VASWANI), float), paper),
    ]
    label = Words("heads h", "头数 h")
    lost = Words("loss over the best other h, nats", "比其余最佳 h 多出的损失,nats")
    level = (Words("the best other", "其余最佳"), 0.0)
    return [
        Panel([Line.of(LOSS, x, means)], label, LOSS, log_x=True),
        Panel(here, label, lost, log_x=True, levels=[level]),
    ]


def facts(results: Results) -> dict[str, str]:
    """For the lesson."""
    said = {
        "least_dim": f"{results.mean('head_dim', **letters(max(tried(results)))).mean:.0f}",
        "pieces": in_pieces(results).told(),
        "best": best_of(results),
        "parameters": f"{results.mean('parameters', tokens='bytes').mean:,.0f}",
        "seeds": str(len(results.values("loss"))),
    }
    for end, of in (("few", min), ("many", max)):
        heads, over = of(tried(results)), over_best(results, of(tried(results)))
        said |= {
            end: str(heads),
            f"over_{end}": over.told(),
            f"percent_{end}": percent(math.expm1(over.mean)),
            f"paper_{end}": percent(VASWANI[of(VASWANI)] / min(VASWANI.values()) - 1),
            f"alike_{end}": alike(results, of(ALIKE)).told(),
        }
    return said | {f"paper_h{h}": f"{perplexity:.2f}" for h, perplexity in VASWANI.items()}


def percent(share: float) -> str:
    """`7.7 %`."""
    return f"{100 * share:.1f} %"


CLAIM = Claim(
    name="heads",
    row="C6",
    title=Words("How many heads", "要多少个头"),
    says=Words(
        "More heads are not always better: at a fixed d each gets d_k = d/h channels, and too many heads leave "
        "each too few to tell what is relevant; too few heads have too few points of view.",
        "头不是越多越好:总维度 d 固定时,每个头只分到 d_k = d/h 维,头太多则维度太低,放不下有意义的相关性度量;"
        "头太少又回到视角单一的老问题。",
    ),
    formula=r"\mathrm{head}_i = \mathrm{softmax}\!\left(\frac{q_i k_i^{\top}}{\sqrt{d_k}}\right) v_i, "
    r"\qquad d_k = \frac{d}{h}",
    asks=Words(
        "One block that reads bytes is trained with h = 1 to 32 heads at the same d, so with the same parameters, "
        "fresh weights, text, order and steps; the loss on held-out text is compared seed by seed.",
        "同一个读字节的单层解码器在同样的 d 下以 h = 1 到 32 个头训练,参数量、初始权重、文本、次序和步数都相同;"
        "逐个种子比较它们在未训练过的文本上的损失。",
    ),
    cases=cases,
    seeds=(2, 5),
    measure=measure,
    quantities=(
        Quantity("head_dim", Words("d_k", "d_k"), 0),
        Quantity("parameters", Words("parameters", "参数量"), 0),
        Quantity("loss", LOSS),
        Quantity("training", Words("loss in training, last 50 steps", "训练损失,最后 50 步")),
    ),
    judge=judge,
    panels=panels,
    sources=(
        "Vaswani et al. 2017, Attention Is All You Need, table 3 row A",
        "Michel et al. 2019, Are Sixteen Heads Really Better than One?",
    ),
    facts=facts,
)
