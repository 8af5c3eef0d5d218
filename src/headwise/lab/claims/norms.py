"""C21: where the norm stands in a block: Post-LN as in 2017, Pre-LN as today.

    Post-LN  x = norm(x + attention(x)),  x = norm(x + ffn(x))
    Pre-LN   x = x + attention(norm(x)),  x = x + ffn(norm(x)),  and one more norm at the end

Xiong et al. 2020: with Glorot's weights, the gradient of the last W2 at the start is O(d sqrt(ln d)) in Post-LN,
however deep the model. In Pre-LN it is O(d sqrt(ln d / L)): it falls as 1 / sqrt(L). So Post-LN's first steps are
too large, and it needs a warm-up; Pre-LN can do without. Here: these gradients by depth, and trainings.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import nn

from headwise.lab.bench import Bench
from headwise.lab.claim import Claim, Line, Panel, Quantity, Verdict
from headwise.lab.estimates import Estimate, estimate
from headwise.lab.judging import above, below, verdict
from headwise.lab.lines import bars, over
from headwise.lab.results import Case, Results
from headwise.lab.starting import GPT2
from headwise.lab.words import LOSS, Words
from headwise.nn import Decoder, FeedForward
from headwise.train.objectives import loss_of

DEPTHS = (4, 12, 24)
WHERE = (0, 25, 50, 75, 100)
"""Percent of the way from the first layer to the last."""
NEARER = (min(DEPTHS) / max(DEPTHS)) ** 0.25
"""Halfway, as a ratio, between what stays as it is (1) and what falls as 1 / sqrt(L)."""
LEARN = {"num_layers": 12, "d_model": 32, "num_heads": 4}
STEPS, RATE = 100, 3e-3
PLACES = {"pre": Words("Pre-LN", "Pre-LN"), "post": Words("Post-LN", "Post-LN")}

QUANTITIES = (
    *(
        Quantity(f"at {part}", Words(f"gradient of W2, {part} % deep", f"W2 的梯度,深度 {part} %"))
        for part in WHERE
    ),
    Quantity("loss", LOSS),
)


def cases(quick: bool) -> list[Case]:
    """Depths at the start; trainings with a warm-up and without. Each with both norms."""
    starts: list[Case] = [{"of": "start", "layers": depth} for depth in DEPTHS]
    warmups: list[Case] = [{"of": "training", "warmup": share} for share in (0.2, 0.0)]
    return [{**case, "norm": place} for case in starts + warmups for place in PLACES]


def measure(bench: Bench, case: Case, seed: int) -> Mapping[str, float]:
    """Gradients of a fresh model on the first rows of the text, or the held-out loss after a training."""
    if case["of"] == "training":
        module = fresh(bench, seed, str(case["norm"]), **LEARN)
        warmup = float(case["warmup"])
        steps = STEPS // 2 if bench.quick else STEPS
        learnt = bench.learn(module, seed, steps=steps, rate=RATE, warmup=warmup)
        return {"loss": learnt.held_out}
    module = fresh(bench, seed, str(case["norm"]), num_layers=int(case["layers"]), num_heads=4)
    total, count = loss_of(module, bench.feed(seed).batch(1).to(bench.device))
    (total / count).backward()
    networks = [part for part in module.modules() if isinstance(part, FeedForward)]
    norms = [float(gradient(network.w_out).norm()) for network in networks]
    return {f"at {part}": norms[round(part / 100 * (len(norms) - 1))] for part in WHERE}


def fresh(bench: Bench, seed: int, place: str, **sizes: int) -> Decoder:
    """A decoder that starts as in 2017: Glorot's weights, vectors of variance 1 into the first block."""
    pre = place == "pre"
    module = bench.decoder(
        seed, norm_position=place, final_norm=pre, scale_embeddings=True, **sizes
    )
    for part in module.modules():
        if isinstance(part, nn.Linear):
            nn.init.xavier_normal_(part.weight)
        elif isinstance(part, nn.Embedding):
            nn.init.normal_(part.weight, std=part.embedding_dim**-0.5)
    return module


def gradient(layer: nn.Linear) -> torch.Tensor:
    """Of its weight."""
    assert layer.weight.grad is not None
    return layer.weight.grad


def judge(results: Results) -> Verdict:
    """Core: the last layer's gradient, against depth and between the norms. Further: who needs the warm-up."""
    least, deep = min(DEPTHS), max(DEPTHS)
    between = results.ratio("at 100", start(deep, "post"), start(deep, "pre"))
    need = {place: needs(results, place) for place in PLACES}
    more = estimate([need["post"][seed] - need["pre"][seed] for seed in need["pre"]])
    en, zh = (
        f"last layer's gradient at {deep} layers over {least}",
        f"{deep} 层与 {least} 层时最后一层梯度之比",
    )
    core = (
        below("falls pre", f"{en}, Pre-LN", f"Pre-LN:{zh}", shrinking(results, "pre"), NEARER),
        above("falls post", f"{en}, Post-LN", f"Post-LN:{zh}", shrinking(results, "post"), NEARER),
        above(
            "post over pre",
            f"Post-LN over Pre-LN at {deep} layers",
            f"{deep} 层时 Post-LN 与 Pre-LN 之比",
            between,
            1.0,
        ),
    )
    further = (
        above(
            "warmup",
            "nats per token that Post-LN loses without a warm-up",
            "没有预热时 Post-LN 多出的损失,nats/token",
            estimate(list(need["post"].values())),
        ),
        above(
            "warmup post less pre",
            "the same less what Pre-LN loses",
            "再减去 Pre-LN 多出的损失",
            more,
        ),
        above(
            "lag",
            "nats per token that Post-LN is behind Pre-LN after the same training, with a warm-up",
            "同样训练、有预热时 Post-LN 落后于 Pre-LN 的损失,nats/token",
            lag(results),
        ),
    )
    return verdict(
        core,
        further,
        holds=Words(
            "Pre-LN's last gradient shrinks with depth, Post-LN's does not, and Post-LN needs the warm-up more and "
            "is behind with it",
            "Pre-LN 最后一层的梯度随深度减小,Post-LN 的不会,而且 Post-LN 更需要预热,有预热时也落后",
        ),
        up_to=Words(
            "The gradients are as claimed, but not all that should follow for training shows in these trainings",
            "梯度与论断一致,但由此推出的训练上的结论在这些训练里没有全部显现",
        ),
        fails=Words("The gradients are not as claimed", "梯度与论断不符"),
    )


def start(layers: int, place: str) -> Case:
    """The case of a fresh model."""
    return {"of": "start", "layers": layers, "norm": place}


def run(place: str, warmup: float) -> Case:
    """The case of a training."""
    return {"of": "training", "warmup": warmup, "norm": place}


def needs(results: Results, place: str) -> dict[int, float]:
    """What is lost without a warm-up, by seed."""
    without, having = (results.values("loss", **run(place, share)) for share in (0.0, 0.2))
    return {seed: without[seed] - having[seed] for seed in having if seed in without}


def lag(results: Results) -> Estimate:
    """How far Post-LN is behind Pre-LN, both trained with a warm-up."""
    return results.difference("loss", run("post", 0.2), run("pre", 0.2))


def shrinking(results: Results, place: str) -> Estimate:
    """The last layer's gradient in the deepest model over that in the shallowest."""
    return results.ratio("at 100", start(max(DEPTHS), place), start(min(DEPTHS), place))


def panels(results: Results) -> list[Panel]:
    """Gradients along the depth of the deepest model; of the last layer against depth; losses."""
    norm = Words("gradient of W2 at the start", "起点处 W2 的梯度")

    def along(place: str) -> Line:
        case = start(max(DEPTHS), place)
        return Line.of(PLACES[place], WHERE, [results.mean(f"at {w}", **case) for w in WHERE])

    deep = [over(results, PLACES[p], "at 100", "layers", of="start", norm=p) for p in PLACES]
    shares = {
        0.2: Words("warm-up over 20 % of the steps", "预热占 20 % 的步数"),
        0.0: Words("none", "无预热"),
    }
    lost = [bars(results, shares[w], "loss", [run(p, w) for p in PLACES]) for w in shares]
    return [
        Panel(
            [along(p) for p in PLACES],
            Words(f"depth, % of {max(DEPTHS)} layers", f"深度({max(DEPTHS)} 层的 %)"),
            norm,
            log_y=True,
        ),
        Panel(deep, Words("layers", "层数"), norm, log_x=True, log_y=True),
        Panel(lost, Words("norm", "归一化"), LOSS, ticks=list(PLACES.values())),
    ]


def facts(results: Results) -> dict[str, str]:
    """Figures for the lesson."""
    least, deep = min(DEPTHS), max(DEPTHS)
    said = {
        "lag": lag(results).told(2),
        "gpt2": str(GPT2),
        "least": str(least),
        "deep": str(deep),
        "root": f"{math.sqrt(least / deep):.2f}",
    }
    for place in PLACES:
        said[f"falls_{place}"] = shrinking(results, place).told(2)
        said[f"first_{place}"] = results.mean("at 0", **start(deep, place)).told(2)
        said[f"last_{place}"] = results.mean("at 100", **start(deep, place)).told(2)
        said[f"need_{place}"] = estimate(list(needs(results, place).values())).told(2)
        for name, share in (("warm", 0.2), ("cold", 0.0)):
            said[f"{place}_{name}"] = results.mean("loss", **run(place, share)).told(2)
    return said


CLAIM = Claim(
    name="norms",
    row="C21",
    title=Words("Pre-LN and Post-LN", "Pre-LN 与 Post-LN"),
    says=Words(
        "A block is attention and FFN, each with a residual and a LayerNorm; whether the norm comes first (Pre-LN) "
        "or last (Post-LN) decides how gradients reach the layers.",
        "一个 block 是注意力和 FFN,各带残差和 LayerNorm;归一化在前(Pre-LN)还是在后(Post-LN),"
        "决定梯度如何到达各层。",
    ),
    formula=r"\text{Post: } x=\mathrm{LN}(x+F(x)) \qquad \text{Pre: } x=x+F(\mathrm{LN}(x))",
    asks=Words(
        "The gradient of each layer's W2 at the start, at several depths; the loss of trainings with and without a "
        "warm-up.",
        "不同深度下起点处各层 W2 的梯度;有预热和无预热的训练的损失。",
    ),
    cases=cases,
    seeds=(2, 4),
    measure=measure,
    quantities=QUANTITIES,
    judge=judge,
    panels=panels,
    sources=("Xiong et al. 2020, On Layer Normalization in the Transformer Architecture",),
    facts=facts,
)
