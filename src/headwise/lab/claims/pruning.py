"""C11: some heads can be pruned after training with little loss, yet were useful during it.

    rise(S) = loss with the heads of S cut - loss with all of them

"Little" needs a measure: here a tenth of what it costs to cut every head. "Useful during training" is held against
a model that never had these heads: as small from the start, trained on as many tokens as the pruned one saw, those
of a short tuning after the cut included.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from headwise.cut.losses import blocks, loss
from headwise.cut.pruning.pruning import prune
from headwise.hub.load import Model, load
from headwise.lab.bench import CONTEXT, RATE, Bench
from headwise.lab.claim import Claim, Kind, Line, Panel, Quantity, Verdict
from headwise.lab.estimates import Estimate, estimate
from headwise.lab.judging import above, below
from headwise.lab.results import Case, Results
from headwise.lab.words import LOSS, Words

__all__ = ["CLAIM"]

HEADS = 16
"""Two layers of 8."""

LITTLE = 0.1
"""Of what cutting all heads costs: a rise below it is called little."""

_LEFT = (16, 12, 8, 4, 0)
_TUNING = 0.2
"""Of the steps of the training, after a cut."""


def measure(bench: Bench, case: Case, seed: int) -> dict[str, float]:
    """Cut a trained model to so many heads, and tune it; or train one that has no more from the start."""
    left = int(case["heads"])
    if case["model"] == "mini":
        return of_mini(bench, left, seed)
    if case["start"] == "small":
        small = bench.decoder(seed, num_heads=left // 2, head_dim=8)
        return {"loss": bench.learn(small, seed, steps=round(bench.steps * (1 + _TUNING))).held_out}
    model = load(bench.once(f"pruning {seed}", lambda: trained(bench, seed)), quiet=True)
    if left == HEADS:
        return {"loss": bench.loss(model.module)}
    rows = _train_rows(bench, seed)
    cut = prune(model, texts=rows, keep=left / HEADS, quiet=True) if left else without(model)
    numbers = {"loss": bench.loss(cut.module)}
    if left:
        chance = torch.Generator().manual_seed(seed)
        drawn = [
            f"{i // 8}.{i % 8}" for i in torch.randperm(HEADS, generator=chance)[left:].tolist()
        ]
        numbers["random"] = bench.loss(prune(model, drawn, texts=rows, quiet=True).module)
        steps = round(bench.steps * _TUNING)
        numbers["tuned"] = bench.learn(cut.module, seed + 1, steps=steps, rate=RATE / 4).held_out
    return numbers


def trained(bench: Bench, seed: int) -> nn.Module:
    """A model with all its heads."""
    decoder = bench.decoder(seed, num_heads=HEADS // 2)
    bench.learn(decoder, seed)
    return decoder


def without(model: Model) -> Model:
    """The model without any head."""
    return prune(model, [f"{layer.id}.*" for layer in model.anatomy.layers], quiet=True)


def of_mini(bench: Bench, left: int, seed: int) -> dict[str, float]:
    """headwise's own trained model, cut by other rows than it is measured on."""
    model = bench.model("mini")
    rows = blocks(model, " ".join(bench.text.held_out), CONTEXT)
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    ranks, held = rows[order[:64]], rows[order[64:320]]
    if left == HEADS:
        return {"loss": loss(model, held).mean}
    cut = prune(model, texts=ranks, keep=left / HEADS, quiet=True) if left else without(model)
    return {"loss": loss(cut, held).mean}


def _train_rows(bench: Bench, seed: int) -> Tensor:
    return torch.cat([bench.feed(seed).batch(step).inputs["ids"] for step in range(1, 9)])


def _case(model: str, start: str, heads: int) -> Case:
    return {"model": model, "start": start, "heads": heads}


def _cases(quick: bool) -> Sequence[Case]:
    here = [_case("trained here", "whole", left) for left in _LEFT]
    small = [_case("trained here", "small", left) for left in _LEFT[1:-1]]
    return [*here, *small, *(_case("mini", "whole", left) for left in _LEFT)]


def share(results: Results, model: str, left: int) -> list[float]:
    """The rise with so many heads left, as a share of that with none, for each seed."""
    whole, cut, none = (
        results.values("loss", **_case(model, "whole", heads)) for heads in (HEADS, left, 0)
    )
    return [(cut[s] - whole[s]) / (none[s] - whole[s]) for s in whole if s in cut and s in none]


def judge(results: Results) -> Verdict:
    """It holds up to the share of heads whose loss is a little, and where cutting beats never having had them."""
    shares = {
        (model, left): estimate(share(results, model, left))
        for model in ("trained here", "mini")
        for left in _LEFT[1:-1]
    }
    findings = [
        below(
            f"rise_{model.split()[0]}_{left}",
            f"rise with {left} of {HEADS} heads left in {_IN[model].en}, as a share of that with none",
            f"{_IN[model].zh}剩 {left}/{HEADS} 个头时,损失升高占全部去掉时的比例",
            found,
            LITTLE,
        )
        for (model, left), found in shares.items()
    ] + [
        above(
            f"small_{left}",
            f"nats per token that a model of {left} heads from the start loses against one cut to {left} and tuned",
            f"一开始就只有 {left} 个头的模型,比剪到 {left} 个头再微调的模型多损失的nats/token",
            _gained(results, left),
            digits=4,
        )
        for left in _LEFT[1:-1]
    ]
    few = [left for left in _LEFT[1:-1] if shares["trained here", left].below(LITTLE)]
    real = [left for left in _LEFT[1:-1] if shares["mini", left].below(LITTLE)]
    useful = [f.holds for f in findings if f.name.startswith("small")]
    most = f"{1 - min(few) / HEADS:.0%}" if few else "0%"
    mini = f"{1 - min(real) / HEADS:.0%}" if real else "0%"
    gained = _gained(results, _LEFT[2]).told()
    open_still: Kind = "not settled" if None in [f.holds for f in findings] else "fails here"
    kind: Kind = "holds up to" if few and any(useful) else open_still
    says = Words(
        f"Up to {most} of the heads of the model trained here ({mini} of mini's) can go for less than a tenth of "
        f"what all of them are worth; a model with half of the heads from the start ends {gained} nats per token "
        "above one that had them all and was cut and tuned.",
        f"此处训练的模型最多可剪去 {most} 的头(mini 为 {mini}),"
        "代价不到全部头价值的十分之一;一开始就只有一半头的模型,"
        f"比先有全部头、再剪枝微调的模型,每个 token 高出 {gained} nats。",
    )
    return Verdict(kind, says, tuple(findings))


def _gained(results: Results, left: int) -> Estimate:
    """What a small model loses against the one that was cut to its size and tuned, on as many tokens."""
    small = results.values("loss", **_case("trained here", "small", left))
    tuned = results.values("tuned", **_case("trained here", "whole", left))
    return estimate([small[seed] - tuned[seed] for seed in small if seed in tuned])


def panels(results: Results) -> list[Panel]:
    """Loss against heads that are left."""
    left = [float(x) for x in _LEFT]
    here = [
        ("loss", "whole", Words("cut, ranked together", "剪枝(联合排序)")),
        ("random", "whole", Words("cut at random", "随机剪枝")),
        ("tuned", "whole", Words("cut and tuned", "剪枝后微调")),
        ("loss", "small", Words("small from the start", "一开始就小")),
    ]
    lines = []
    for quantity, start, name in here:
        found = [results.mean(quantity, **_case("trained here", start, x)) for x in _LEFT]
        kept = [(x, one) for x, one in zip(left, found, strict=True) if one.count]
        lines.append(Line.of(name, [x for x, _ in kept], [one for _, one in kept]))
    mini = [results.mean("loss", **_case("mini", "whole", x)) for x in _LEFT]
    label = Words("heads left of 16", "剩下的头(共 16)")
    of_mini = Line.of(Words("mini, cut", "mini,剪枝"), left, mini)
    return [Panel(lines, label, LOSS), Panel([of_mini], label, LOSS)]


_IN = {
    "trained here": Words("the model trained here", "此处训练的模型"),
    "mini": Words("mini", "mini "),
}

CLAIM = Claim(
    name="pruning",
    row="C11",
    title=Words("Heads that can be cut, and were of use", "可以剪掉、却曾有用的头"),
    says=Words(
        "Some heads can be pruned after training with little loss, yet they were useful during it.",
        "训练好的模型里部分头剪掉后损失不大,但这不等于它们在训练中没有用。",
    ),
    formula=r"\Delta(S) = L(\text{without } S) - L",
    asks=Words(
        "A trained model is cut to ever fewer heads (ranked together, and at random) and tuned; beside it, models "
        "that had no more heads from the start, trained on as many tokens; and mini.",
        "把训练好的模型逐步剪到更少的头(联合排序与随机),再微调;对照是一开始就只有这么多头、"
        "训练同样多 token 的模型;以及 mini。",
    ),
    cases=_cases,
    seeds=(1, 4),
    measure=measure,
    quantities=(
        Quantity("loss", LOSS),
        Quantity("random", Words("cut at random", "随机剪枝")),
        Quantity("tuned", Words("cut and tuned", "剪枝后微调")),
    ),
    judge=judge,
    panels=panels,
    sources=("Michel et al. 2019, section 4", "Voita et al. 2019, section 6"),
    facts=lambda results: {
        "whole": results.mean("loss", **_case("trained here", "whole", HEADS)).told(),
        "none": results.mean("loss", **_case("trained here", "whole", 0)).told(),
        **{
            f"{name}_{left}": results.mean(quantity, **_case("trained here", start, left)).told()
            for left in _LEFT[1:-1]
            for name, quantity, start in (
                ("cut", "loss", "whole"),
                ("random", "random", "whole"),
                ("tuned", "tuned", "whole"),
                ("small", "loss", "small"),
            )
        },
    },
)
