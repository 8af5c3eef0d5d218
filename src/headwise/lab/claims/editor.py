"""C9: W_O is the editor: it mixes what the heads found, and takes more from the useful ones.

    MultiHead(X) = Concat(z_1, .., z_h) W_O = sum_h z_h W_O^h       W_O^h: the rows of W_O that read head h

So W_O is h matrices, one for each head, and what head h adds to the stream is z_h W_O^h. Two claims are in the
sentence. Mixing: without W_O each head writes into channels of its own. Choosing: a head that is of use, by what
the loss rises without it, should add more than one that is not, and more than its own z is large.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from scipy.stats import spearmanr
from torch import Tensor, nn

from headwise.core.scores import Scores
from headwise.core.taps import Tap, tapped
from headwise.cut.losses import blocks
from headwise.cut.ranking.importance import importance
from headwise.hub.load import Model, load
from headwise.lab.bench import CONTEXT, Bench
from headwise.lab.claim import Claim, Line, Panel, Quantity, Verdict
from headwise.lab.judging import above, verdict
from headwise.lab.results import Case, Results
from headwise.lab.words import Words
from headwise.see.profile.profiling import profile

__all__ = ["CLAIM"]

LEARNED: Case = {"model": "trained here", "w_o": "learned"}
_FIXED: Case = {"model": "trained here", "w_o": "fixed, orthogonal"}
_NONE: Case = {"model": "trained here", "w_o": "none"}
_MINI: Case = {"model": "mini", "w_o": "learned"}


def measure(bench: Bench, case: Case, seed: int) -> dict[str, float]:
    """Train with a W_O that is learned, fixed or missing; of those that are learned see whom they take from."""
    if case["model"] == "mini":
        model = bench.model("mini")
        rows = blocks(model, " ".join(bench.text.held_out), CONTEXT)
        start = 16 * (seed % 100)
        return taken(model, rows[start : start + 16])
    decoder = bench.decoder(seed)
    for number, block in enumerate(decoder.blocks):
        attention: Any = block.attention
        if case["w_o"] == "none":
            attention.w_o = nn.Identity()
        elif case["w_o"] != "learned":
            attention.w_o.weight.requires_grad_(False)
            chance = torch.Generator().manual_seed(seed + number)
            with torch.no_grad():  # of the length that a learned one starts with
                weight = attention.w_o.weight
                square = torch.linalg.qr(torch.randn(weight.shape, generator=chance))[0]
                weight.copy_(square * weight.std() * len(square) ** 0.5)
    loss = {"loss": bench.learn(decoder, seed).held_out}
    if case["w_o"] != "learned":
        return loss
    return loss | taken(load(decoder, quiet=True), bench.rows(16, seed))


def taken(model: Model, rows: Tensor) -> dict[str, float]:
    """Rank correlations over all heads of their use with the lengths of z and of the result, and their ratio."""
    use = importance(model, rows, "leave-one-out", quiet=True)["importance"].values.ravel()
    result = profile(model, rows)["result_norm"].values.ravel()
    z = lengths(model, rows)
    return {
        "use_z": float(spearmanr(use, z).statistic),
        "use_result": float(spearmanr(use, result).statistic),
        "use_gain": float(spearmanr(use, result / z).statistic),
        "share": float(np.sort(result)[-len(result) // 4 :].sum() / result.sum()),
    }


def lengths(model: Model, rows: Tensor) -> Float[np.ndarray, " head"]:
    """The mean length of each head's z, before W_O."""
    found: list[Tensor] = []

    def see(scores: Scores, v: Tensor, z: Tensor) -> None:
        found.append(z.norm(dim=-1).mean((0, 2)))

    with torch.no_grad(), tapped({x.module: Tap((see,)) for x in model.anatomy.layers}):
        model.outputs(model.placed({"input_ids": rows}))
    return torch.cat(found).double().cpu().numpy()


def judge(results: Results) -> Verdict:
    """It holds where the loss is worse without W_O, and useful heads add more, here and in mini."""
    none, fixed = (results.difference("loss", case, LEARNED) for case in (_NONE, _FIXED))
    here, mini = (results.mean("use_result", **case) for case in (LEARNED, _MINI))
    gain, gain_mini = (results.mean("use_gain", **case) for case in (LEARNED, _MINI))
    use = "rank correlation of a head's use with", "头的用处与"
    same = "the same in mini", "mini 中同样的量"
    core = (
        above(
            "none",
            "nats per token lost without W_O",
            "没有 W_O 多损失的nats/token",
            none,
            digits=4,
        ),
        above("result", f"{use[0]} what it adds", f"{use[1]}它写入量的秩相关", here, digits=2),
        above("result_mini", *same, mini, digits=2),
    )
    further = (
        above(
            "fixed",
            "nats per token lost with a W_O of chance",
            "W_O 固定为随机正交矩阵时多损失的nats/token",
            fixed,
            digits=4,
        ),
        above(
            "gain",
            f"{use[0]} how much W_O makes of its z",
            f"{use[1]} W_O 对其 z 的放大倍数的秩相关",
            gain,
            digits=2,
        ),
        above("gain_mini", *same, gain_mini, digits=2),
    )
    return verdict(
        core,
        further,
        holds=Words(
            "W_O mixes, and makes more of the heads that are of use",
            "W_O 混合各头,并对有用的头取得更多",
        ),
        up_to=Words(
            "W_O mixes, and useful heads add more, but not all of that is W_O's doing",
            "W_O 混合各头,有用的头写入更多,但并非全是 W_O 所为",
        ),
        fails=Words("W_O is not the editor it is said to be", "W_O 并不像所说的那样是主编"),
        shown=3,
    )


def panels(results: Results) -> list[Panel]:
    """What W_O is worth, and whom it takes from."""
    trained = (LEARNED, _FIXED, _NONE)
    loss = Line.of(
        Words("held-out loss", "留出损失"), [0, 1, 2], [results.mean("loss", **x) for x in trained]
    )
    kinds = ("use_z", "use_result", "use_gain")
    names = {"trained here": Words("trained here", "此处训练"), "mini": Words("mini", "mini")}
    lines = [
        Line.of(names[str(x["model"])], [0, 1, 2], [results.mean(kind, **x) for kind in kinds])
        for x in (LEARNED, _MINI)
    ]
    return [
        Panel(
            [loss],
            Words("W_O", "W_O"),
            Words("nats per token", "nats / token"),
            ticks=[Words("learned", "学得"), Words("of chance", "随机"), Words("none", "无")],
        ),
        Panel(
            lines,
            Words("of a head", "头的"),
            Words("rank correlation with its use", "与用处的秩相关"),
            ticks=[
                Words("length of z", "z 的长度"),
                Words("what it adds", "写入量"),
                Words("their ratio", "两者之比"),
            ],
            levels=[(Words("none", "无相关"), 0.0)],
        ),
    ]


CLAIM = Claim(
    name="editor",
    row="C9",
    title=Words("W_O, the editor", "主编 W_O"),
    says=Words(
        "W_O is the editor: it mixes the heads and takes more from the useful ones.",
        "W_O 是主编:它把各头的结论揉成一份,对有用的头取得多,对噪声大的头取得少。",
    ),
    formula=r"\mathrm{MultiHead}(X) = \sum_h z_h W_O^h",
    asks=Words(
        "The same model with a W_O that is learned, fixed at random, or missing; and over the heads of trained "
        "models the rank correlation of a head's use (loss without it) with what it adds to the stream.",
        "同一模型分别用学得的、随机固定的、以及没有的 W_O 训练;"
        "并在训练好的模型上,看头的用处(去掉它损失升多少)与它写入残差流的量的秩相关。",
    ),
    cases=lambda quick: [LEARNED, _FIXED, _NONE, _MINI],
    seeds=(2, 5),
    measure=measure,
    quantities=(
        Quantity("loss", Words("held-out loss", "留出损失")),
        Quantity("use_z", Words("use ~ z", "用处 ~ z"), 2),
        Quantity("use_result", Words("use ~ result", "用处 ~ 写入量"), 2),
        Quantity("use_gain", Words("use ~ gain of W_O", "用处 ~ W_O 放大"), 2),
        Quantity("share", Words("share of the top quarter", "前四分之一的头所占写入量"), 2),
    ),
    judge=judge,
    panels=panels,
    sources=("Vaswani et al. 2017, section 3.2.2", "Michel et al. 2019, section 3"),
    facts=lambda results: {
        "learned": results.mean("loss", **LEARNED).told(),
        "fixed": results.mean("loss", **_FIXED).told(),
        "none": results.mean("loss", **_NONE).told(),
        "share": results.mean("share", **LEARNED).told(2),
        "share_mini": results.mean("share", **_MINI).told(2),
    },
)
