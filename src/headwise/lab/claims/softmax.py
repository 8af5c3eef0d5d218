"""C15: the mask is added before the softmax, so that the visible weights still sum to 1.

    A = softmax(S + M),  M = -inf where a key may not be seen;  zeroing softmax(S) afterwards sums to less than 1.

Real models, each trained with the mask before, are run on text with the head outputs of every layer made anew in
four ways. What does not sum to 1 is one thing; that a row's softmax has seen the hidden keys is the other.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from types import SimpleNamespace

import numpy as np
import torch
from torch import Tensor

from headwise.core import masks
from headwise.core.attention import attend
from headwise.core.scores import Scores, mix
from headwise.cut.ablating.applying import applied
from headwise.cut.census import census
from headwise.cut.losses import blocks, loss
from headwise.hub.load import Model
from headwise.lab.bench import Bench
from headwise.lab.claim import Claim, Finding, Line, Panel, Quantity, Verdict
from headwise.lab.estimates import Estimate
from headwise.lab.judging import above, below
from headwise.lab.results import Case, Results
from headwise.lab.words import LOSS, NONE, Words

LENGTH, ROWS = 64, 6
AT = (1, 4, 16, 64)
"""Positions of a row, counted from 1, at which the sum of the weights is told."""
WAYS = ("attend", "before", "after", "divided")


def measure(bench: Bench, case: Case, seed: int) -> dict[str, float]:
    """A model's loss, and what its rows of weights come to, with the mask put in one way."""
    model, how = bench.model(str(case["model"])), str(case["mask"])
    texts = list(bench.text.held_out)
    np.random.default_rng(seed).shuffle(texts)
    rows = blocks(model, texts[:60], LENGTH)[:ROWS]
    seen = SimpleNamespace(sums=[], moved=[], blind=[])
    edits = {run.id: partial(_edit, how, seen) for run in census(model).runs}
    with applied(model, edits), torch.no_grad():
        found = {"loss": loss(model, rows).mean, "leak": _leak(model, rows[:2], seed)}
    sums = torch.stack(seen.sums).mean(0)
    found |= {f"sum{at}": float(sums[at - 1]) for at in AT}
    return found | {"moved": float(np.mean(seen.moved)), "blind": seen.blind[0]}


def weights(scores: Scores, how: str) -> Tensor:
    """The pattern [batch, head, query, key] of one attention call."""
    if how == "attend":
        return scores.rows()
    keys = scores.k.repeat_interleave(scores.q.shape[1] // scores.k.shape[1], 1)
    s = scores.scale * scores.q @ keys.transpose(-1, -2)
    visible = scores.allowed(0, scores.shape[2])
    assert visible is not None
    if how == "before":  # as the textbooks write it
        return s.masked_fill(~visible, float("-inf")).softmax(-1)
    after = s.softmax(-1) * visible
    return after / after.sum(-1, keepdim=True) if how == "divided" else after


def _edit(how: str, seen: SimpleNamespace, scores: Scores, v: Tensor, z: Tensor) -> Tensor:
    """The head outputs of a layer by these weights; `seen` keeps what they come to."""
    pattern = weights(scores, how)
    made = mix(pattern, v)
    seen.sums.append(pattern.sum(-1).mean((0, 1))[:LENGTH])
    seen.moved.append(float((made - z).norm() / z.norm()))
    if not seen.blind:  # the first layer tells
        seen.blind.append(_blind(scores, v, how))
    return made


def _blind(scores: Scores, v: Tensor, how: str) -> float:
    """The share of NaNs in the outputs of two rows that may see nothing, of padding before the text."""
    assert scores.mask is not None
    padding = torch.zeros(scores.shape[0], scores.shape[3], dtype=torch.bool)
    padding[:, :2] = True
    closed = replace(scores, mask=scores.mask & masks.padding(key_padding_mask=padding))
    call = {**closed.call, "query_offset": 0}
    z = attend(v=v, **call) if how == "attend" else mix(weights(closed, how), v)
    return float(z[:, :, :2].isnan().float().mean())


def _leak(model: Model, rows: Tensor, seed: int) -> float:
    """How far another last token moves the logits of the tokens before it, relative to their size."""
    other = rows.clone()
    change = 1 + np.random.default_rng(seed).integers(100, size=len(rows))
    other[:, -1] = (rows[:, -1] + torch.from_numpy(change)) % int(rows.max() + 1)
    one, two = (_logits(model, ids) for ids in (rows, other))
    return float((one - two).norm() / one.norm())


def _logits(model: Model, ids: Tensor) -> Tensor:
    output = model.outputs({"input_ids": ids})
    logits: Tensor = getattr(output, "logits", output)
    return logits[:, :-1].float()


def cases(quick: bool) -> list[Case]:
    """The ways to put the mask in, in each model."""
    models = ("mini",) if quick else ("mini", "smollm2")
    return [{"model": model, "mask": way} for model in models for way in WAYS]


def judge(results: Results) -> Verdict:
    """Whether the rows still sum to 1 before and not after, and what that costs a model."""
    findings = [
        finding for model in results.settings("model") for finding in _of(results, str(model))
    ]
    costs = ", ".join(_cost(results, str(m)).told(2) for m in results.settings("model"))
    says = Words(
        "With the mask after the softmax the weights of a row sum to less than 1, the loss rises by {costs} nats "
        "per token, and earlier tokens feel a later one through the divisor.",
        "把掩码放在 softmax 之后,一行权重之和小于 1,每个 token 的损失上升 {costs} nats,"
        "而且前面的 token 会通过分母感到后面的 token。",
    ).filled(costs=costs)
    return Verdict.of(findings, says)


def _of(results: Results, model: str) -> list[Finding]:
    def mean(quantity: str, way: str) -> Estimate:
        return results.mean(quantity, model=model, mask=way)

    kept = mean("sum4", "before")
    says = Words(
        f"{model}: sum of the weights at position 4, mask before the softmax",
        f"{model}:掩码在 softmax 之前时,第 4 个位置的权重之和",
    )
    return [
        Finding(f"{model} sum before", says, kept, abs(kept.mean - 1) < 1e-4),
        below(
            f"{model} sum after",
            f"{model}: the same, mask after the softmax",
            f"{model}:掩码在 softmax 之后时的权重之和",
            mean("sum4", "after"),
            0.99,
        ),
        above(
            f"{model} cost",
            f"{model}: rise of the loss, nats per token",
            f"{model}:损失的上升,nats/token",
            _cost(results, model),
        ),
        above(
            f"{model} leak",
            f"{model}: how far another last token moves the logits before it, mask after",
            f"{model}:掩码在之后时,改换最后一个 token 使前面的 logits 移动的幅度",
            mean("leak", "after"),
            mean("leak", "before").mean + 1e-4,
        ),
    ]


def _cost(results: Results, model: str, way: str = "after") -> Estimate:
    """How much more a model loses in a way than with the mask before, on the same texts."""
    one, before = ({"model": model, "mask": mask} for mask in (way, "before"))
    return results.difference("loss", one, before)


def panels(results: Results) -> list[Panel]:
    """The sum of a row by its position, and the loss of each way."""
    models = [str(model) for model in results.settings("model")]
    ticks = [LABELS.get(way, Words(way, way)) for way in WAYS]
    sums, rises = [], []
    for model in models:
        name, after = Words(model, model), {"model": model, "mask": "after"}
        sums.append(Line.of(name, AT, [results.mean(f"sum{at}", **after) for at in AT]))
        rises.append(Line.of(name, range(len(WAYS)), [_cost(results, model, way) for way in WAYS]))
    whole = (Words("mask before the softmax", "掩码在 softmax 之前"), 1.0)
    place = Words("position in the row", "行中的位置")
    of_sums = Words("sum of the weights, mask after", "掩码在之后时的权重之和")
    rise = Words("rise of the loss, nats per token", "损失的上升,nats/token")
    return [
        Panel(sums, place, of_sums, log_x=True, levels=[whole]),
        Panel(rises, NONE, rise, ticks=ticks),
    ]


def facts(results: Results) -> dict[str, str]:
    """Of mini, which every run has."""

    def told(quantity: str, way: str, digits: int = 3) -> str:
        return results.mean(quantity, model="mini", mask=way).told(digits)

    return {
        "first": told("sum1", "after"),
        "fourth": told("sum4", "after"),
        "cost": _cost(results, "mini").told(2),
        "divided": told("moved", "divided"),
        "leak_before": told("leak", "before"),
        "leak_after": told("leak", "after"),
        "leak_divided": told("leak", "divided"),
        "nan_bare": told("blind", "before", 0),
        "nan_attend": told("blind", "attend", 0),
    }


LABELS = {
    "model": Words("model", "模型"),
    "mask": Words("mask", "掩码"),
    "before": Words("-inf before", "之前加 -inf"),
    "after": Words("0 after", "之后置零"),
    "divided": Words("0 after, divided", "之后置零再归一"),
}

CLAIM = Claim(
    name="softmax",
    row="C15",
    title=Words("The mask before the softmax", "掩码加在 softmax 之前"),
    says=Words(
        "The mask takes forbidden positions out before the weights are normalised. That is better than zeroing "
        "after the softmax, because the weights that are left still sum to 1.",
        "mask 在注意力分配前就把非法位置剔除出概率归一化。这比 softmax 后再置零更合理,"
        "因为这样剩余可见位置的权重仍然保持总和为 1。",
    ),
    formula=r"A = \mathrm{softmax}(S + M), \qquad M_{ij} \in \{0, -\infty\}",
    asks=Words(
        "Trained models run on text with the mask put in four ways: what the rows of weights sum to, how far the "
        "head outputs move, what the loss becomes, whether a later token is felt by earlier ones, and what a row "
        "gives that may see nothing.",
        "让训练好的模型在真实文本上运行,掩码以四种方式加入:每行权重之和、头输出移动多少、"
        "损失变成多少、后面的 token 是否影响前面的 token,"
        "以及什么都看不到的行会得到什么。",
    ),
    cases=cases,
    seeds=(5, 6),
    measure=measure,
    quantities=(
        *(Quantity(f"sum{at}", Words(f"sum at {at}", f"位置 {at} 之和")) for at in AT),
        Quantity("moved", Words("outputs moved", "输出移动")),
        Quantity("loss", LOSS),
        Quantity("leak", Words("felt before", "前面感到")),
        Quantity("blind", Words("NaN where nothing is seen", "看不到时的 NaN"), 0),
    ),
    judge=judge,
    panels=panels,
    sources=("Vaswani et al. 2017, Attention Is All You Need, section 3.2.3",),
    facts=facts,
    labels=LABELS,
)
