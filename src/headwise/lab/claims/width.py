"""C18: the feed-forward network d -> d_ff -> d: what its width is worth, and that no position sees another in it.

    FFN(x) = W_2 s(W_1 x + b_1) + b_2

It has 2 d d_ff weights beside the 4 d^2 of attention: at d_ff = 4 d two thirds of a block. So a wider one is also a
larger model, and the width is held against three things: no network at all, narrower ones, and models of exactly as
many weights that spend them on more blocks instead, since L (4 d^2 + 2 d d_ff) is the same for

    L = 1, d_ff = 10 d;    L = 2, d_ff = 4 d;    L = 3, d_ff = 2 d;    L = 4, d_ff = d

A gated network (SwiGLU) has three matrices, so that at 2/3 of the width it has the weights of a plain one (Shazeer
2020).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headwise.lab.bench import Bench
from headwise.lab.claim import Claim, Finding, Line, Panel, Quantity, Verdict
from headwise.lab.estimates import Estimate, estimate
from headwise.lab.judging import above, verdict
from headwise.lab.results import Case, Results
from headwise.lab.words import LOSS, Words
from headwise.nn import Decoder
from headwise.nn.block import Block

STEPS_SHARE = 2 / 3
"""Of the lab's steps: there are many cases."""
SHAZEER = {"relu": 1.997, "swiglu": 1.944}
"""Log-perplexity of T5-base's FFN at equal weights: Shazeer 2020, table 1."""


def of(width: float, layers: int = 2, activation: str = "gelu") -> Case:
    """A case: d_ff as a multiple of d_model."""
    return {"activation": activation, "layers": layers, "d_ff / d": width}


NONE, NARROW, WIDE, WIDER = of(0), of(1), of(4), of(8)
DEEP = of(1, layers=4)
GATED = of(8 / 3, activation="swiglu")
TRADES = (of(10, layers=1), WIDE, of(2, layers=3), DEEP)


def cases(quick: bool) -> list[Case]:
    """Widths of one kind, other kinds at the weights of 4 d, and other depths at the weights of 2 blocks of 4 d."""
    if quick:
        return [NONE, NARROW, WIDE, GATED, DEEP]
    widths = [NONE, NARROW, WIDE, WIDER]
    return [*widths, of(4, activation="relu"), GATED, *(case for case in TRADES if case != WIDE)]


def measure(bench: Bench, case: Case, seed: int) -> Mapping[str, float]:
    """The loss of a training with such networks, and what one position's change does to the others in them."""
    module = built(bench, case, seed)
    steps = round(bench.steps * STEPS_SHARE)
    loss = bench.learn(module, seed, steps=steps).held_out
    numbers = {"parameters": sum(weight.numel() for weight in module.parameters()), "loss": loss}
    if case["d_ff / d"]:
        x = module.embedding(bench.rows(4, seed), torch.arange(bench.rows(1).shape[1])[None])
        block = module.blocks[0]
        assert isinstance(block, Block)
        numbers["own"], numbers["others"] = moved(block.ffn, x, seed)
    return numbers


def built(bench: Bench, case: Case, seed: int) -> Decoder:
    """The lab's model with such feed-forward networks; of width 0 it has none."""
    layers, width = int(case["layers"]), float(case["d_ff / d"])
    d_ff = round(width * bench.config().d_model)
    module = bench.decoder(
        seed, num_layers=layers, d_ff=max(d_ff, 1), activation=case["activation"]
    )
    if not d_ff:
        for block in module.blocks:
            block.ffn, block.ffn_norm = Nothing(), nn.Identity()
    return module


class Nothing(nn.Module):
    """Adds nothing to the stream."""

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """Zeros."""
        return torch.zeros_like(x)


@torch.no_grad()
def moved(
    ffn: nn.Module, x: Float[Tensor, "batch position d_model"], seed: int
) -> tuple[float, float]:
    """How far the outputs move when one position's input is replaced: its own, and the furthest of the others."""
    position = int(torch.randint(x.shape[1], (), generator=torch.Generator().manual_seed(seed)))
    changed = x.clone()
    changed[:, position] = x[:, position].flip(-1)
    change = (ffn(changed) - ffn(x)).abs().amax(dim=(0, 2))
    own = float(change[position])
    change[position] = 0
    return own, float(change.max())


def judge(results: Results) -> Verdict:
    """It is needed, width pays, no position sees another; and at equal weights width holds against depth."""

    others = [row.numbers["others"] for row in results.rows if "others" in row.numbers]
    core = (
        above(
            "without",
            "nats per token lost without the network, against d_ff = 4 d",
            "没有 FFN 比 d_ff = 4d 多出的损失,nats/token",
            over(results, NONE, WIDE),
        ),
        above(
            "narrow",
            "with d_ff = d against 4 d",
            "d_ff = d 比 d_ff = 4d 多出的损失",
            over(results, NARROW, WIDE),
        ),
        Finding(
            "other positions",
            Words("the furthest that another position moved", "其他位置的最大变化"),
            estimate(others),
            max(others) == 0 if others else None,
            digits=1,
        ),
    )
    depth = above(
        "depth instead",
        "with 4 blocks of d_ff = d against 2 of 4 d, at equal weights",
        "同样的权重数下,4 层 d_ff = d 比 2 层 d_ff = 4d 多出的损失",
        over(results, DEEP, WIDE),
    )
    return verdict(
        core,
        [depth],
        holds=Words(
            "The network is needed, its width pays, also against depth, and no position sees another in it",
            "FFN 不可缺少,加宽有用,比加深更有用,而且位置之间互不相看",
        ),
        up_to=Words(
            "The network is needed, its width pays, and no position sees another in it; the same weights in more "
            "blocks do better",
            "FFN 不可缺少,加宽有用,位置之间互不相看;但同样多的权重用在更多层上更好",
        ),
        fails=Words("The network is not as claimed", "FFN 并不如论断所说"),
        shown=3,
    )


def over(results: Results, one: Case, other: Case) -> Estimate:
    """How much more loss one case has than another."""
    return results.difference("loss", one, other)


def panels(results: Results) -> list[Panel]:
    """Loss against weights: by width, by kind and by depth."""
    known = [dict(case) for case in results.cases()]
    widths = [case for case in known if case["layers"] == 2 and case["activation"] == "gelu"]
    kinds = [case for case in known if case["activation"] != "gelu"]
    trades = [case for case in map(dict, TRADES) if case in known]
    of_widths = [_line(Words("2 blocks, GELU", "2 层,GELU"), results, widths, "parameters")]
    for kind in kinds:
        name = str(kind["activation"])
        of_widths.append(_line(Words(name, name), results, [kind], "parameters"))
    names = [f"{case['layers']} x {case['d_ff / d']:g} d" for case in trades]
    ticks = [Words(name, name) for name in names]
    equal = _line(Words("equal weights", "权重数相同"), results, trades)
    return [
        Panel(of_widths, Words("parameters", "参数量"), LOSS),
        Panel([equal], Words("blocks x d_ff", "层数 x d_ff"), LOSS, ticks=ticks),
    ]


def _line(name: Words, results: Results, shown: Sequence[Case], along: str = "") -> Line:
    """The loss of cases along a quantity, or one after the other."""
    x = [results.mean(along, **case).mean if along else i for i, case in enumerate(shown)]
    return Line.of(name, x, [results.mean("loss", **case) for case in shown])


def facts(results: Results) -> dict[str, str]:
    """For the lesson."""
    return {
        "without": over(results, NONE, WIDE).told(),
        "narrow": over(results, NARROW, WIDE).told(),
        "wider": over(results, WIDER, WIDE).told(),
        "gated": over(results, GATED, WIDE).told(),
        "relu": over(results, of(4, activation="relu"), WIDE).told(),
        "deep": over(results, DEEP, WIDE).told(),
        "middle": over(results, of(2, layers=3), WIDE).told(),
        "shallow": over(results, of(10, layers=1), WIDE).told(),
        **{f"shazeer_{kind}": f"{told:.3f}" for kind, told in SHAZEER.items()},
        "shazeer": f"{SHAZEER['swiglu'] - SHAZEER['relu']:.3f}",
        "seeds": str(len(results.values("loss"))),
    }


CLAIM = Claim(
    name="width",
    row="C18",
    title=Words("How wide a feed-forward network", "FFN 要多宽"),
    says=Words(
        "The feed-forward network goes up to d_ff channels, often 4 d, and back down, to express more; it does the "
        "same to every position, and no position sees another in it.",
        "FFN 先升维再降维(d_ff 往往是 d 的 4 倍),以提升表示能力;它对每个位置做同一套变换,位置之间互不相看。",
    ),
    formula=r"\mathrm{FFN}(x) = W_2\,\sigma(W_1 x + b_1) + b_2",
    asks=Words(
        "The lab's decoder is trained with networks of d_ff = 0 to 8 d, with ReLU and SwiGLU at the weights of "
        "4 d, and with the same weights spent on fewer or more blocks; then the input of one position is "
        "replaced.",
        "实验室的解码器分别以 d_ff = 0 到 8d 训练,以 4d 的权重数换成 ReLU 和 SwiGLU,"
        "再把同样多的权重用在更少或更多的层上;"
        "最后替换一个训练好的 FFN 的某个位置的输入,看其他位置是否变化。",
    ),
    cases=cases,
    seeds=(2, 3),
    measure=measure,
    quantities=(
        Quantity("parameters", Words("parameters", "参数量"), 0),
        Quantity("loss", LOSS),
        Quantity("own", Words("its own output moves by", "自己的输出变化"), 3),
        Quantity("others", Words("any other by at most", "其他位置最多变化"), 3),
    ),
    judge=judge,
    panels=panels,
    sources=(
        "Vaswani et al. 2017, Attention Is All You Need, section 3.3 and table 3",
        "Shazeer 2020, GLU Variants Improve Transformer, table 1",
    ),
    facts=facts,
)
