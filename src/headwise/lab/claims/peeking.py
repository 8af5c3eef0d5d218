"""C14: with the causal mask position t sees only the prefix; without it, training peeks at the answer.

    mask for n = 4, row = the position that looks, 1 = may be seen:   1 0 0 0
                                                                      1 1 0 0
                                                                      1 1 1 0
                                                                      1 1 1 1

The goal of position t is the token at t + 1, which stands in the row itself. A model that may look there learns
to copy it, and its training loss says nothing about the language. What it can do shows when the next token is not
there yet: when it generates. `audit` finds such a model without its training data.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from headwise.check.auditing import audit
from headwise.lab.bench import CONTEXT, Bench, Stopped
from headwise.lab.claim import Claim, Finding, Line, Panel, Quantity, Verdict
from headwise.lab.estimates import Estimate
from headwise.lab.results import Case, Results
from headwise.lab.words import Words
from headwise.nn import Decoder

__all__ = ["CLAIM"]

SHANNON = 0.6
"""Bits per letter: Shannon's (1951) lower bound for people who guess "
"English with 100 letters before their eyes."""

_WRITTEN = 24
"""Tokens that are generated after each prefix."""

_WITH: Case = {"mask": "causal"}
_WITHOUT: Case = {"mask": "none"}


def measure(bench: Bench, case: Case, seed: int) -> dict[str, float]:
    """Train with the mask or without; then let the model predict what is not there yet, write, and be audited."""
    decoder = bench.decoder(seed)
    decoder.causal = case["mask"] == "causal"
    learnt = bench.learn(decoder, seed)
    rows = bench.rows(8 if bench.quick else 32, seed)
    return {
        "training": float(learnt.losses[-20:].mean()),
        "bits": bits_per_letter(bench, learnt.held_out),
        "truth": true_loss(bench, decoder, rows),
        "known": known_words(bench, written(bench, decoder, rows, seed)),
        "leak": float(len(audit(decoder, dimensions="future", length=12, draws=1).leaks) > 0),
    }


@torch.no_grad()
def true_loss(bench: Bench, decoder: Decoder, rows: Tensor) -> float:
    """Nats per token where each row ends before the token that is predicted: nothing to peek at."""
    losses = []
    for end in range(8, CONTEXT, 8):
        if bench.stop():
            raise Stopped
        logits = decoder(rows[:, :end])[:, -1]
        losses.append(torch.nn.functional.cross_entropy(logits.float(), rows[:, end]))
    return float(torch.stack(losses).mean())


@torch.no_grad()
def written(bench: Bench, decoder: Decoder, rows: Tensor, seed: int) -> list[str]:
    """What the model writes after the first half of each row, drawn token by token."""
    ids, chance = rows[:, : CONTEXT // 2], torch.Generator().manual_seed(seed)
    for _ in range(_WRITTEN):
        likely = decoder(ids)[:, -1].softmax(-1).cpu()
        ids = torch.cat([ids, torch.multinomial(likely, 1, generator=chance).to(ids.device)], 1)
    return [bench.tokenizer.decode(row) for row in ids[:, CONTEXT // 2 :].tolist()]


def known_words(bench: Bench, texts: list[str]) -> float:
    """The share of whole words in these texts that stand in the text the model was trained on."""
    known = bench.once("words", lambda: set(" ".join(bench.text.train).split()))
    words = [word for text in texts for word in text.split()[1:-1]]
    return sum(word in known for word in words) / max(len(words), 1)


def bits_per_letter(bench: Bench, loss: float) -> float:
    """A held-out loss in nats per token as bits per letter."""
    letters = sum(map(len, bench.text.held_out))
    return loss * bench.held_out.tokens / letters / math.log(2)


_SAYS = {
    "bits_without": Words(
        "bits per letter of held-out text without the mask", "不加掩码时,留出文本上每个字母的比特数"
    ),
    "bits_with": Words("the same with the mask", "加掩码时同样的量"),
    "truth": Words(
        "nats per token that the model without the mask loses more where the answer is not there yet",
        "答案尚未出现时,无掩码模型每个 token 多损失的 nats",
    ),
    "words": Words("share of real words that it writes less", "它写出的真词所占比例少了多少"),
    "named": Words(
        "share of the models without the mask that audit names", "audit 点名的无掩码模型所占比例"
    ),
    "cleared": Words(
        "share of the models with it that audit names", "audit 点名的有掩码模型所占比例"
    ),
}


def judge(results: Results) -> Verdict:
    """It holds where the peeking model is below what can be, predicts and writes worse, and audit names it."""
    bits, fair = results.mean("bits", **_WITHOUT), results.mean("bits", **_WITH)
    worse = results.difference("truth", _WITHOUT, _WITH)
    words = results.difference("known", _WITH, _WITHOUT)
    named, cleared = results.mean("leak", **_WITHOUT), results.mean("leak", **_WITH)
    said = (
        ("bits_without", bits, bits.below(SHANNON)),
        ("bits_with", fair, fair.above(SHANNON)),
        ("truth", worse, worse.above(0)),
        ("words", words, words.above(0)),
        ("named", named, _all(named, 1.0)),
        ("cleared", cleared, _all(cleared, 0.0)),
    )
    findings = tuple(Finding(name, _SAYS[name], value, told) for name, value, told in said)
    says = Words(
        "Without the mask the loss falls to {bits} bits per letter, which "
        "no honest model of English reaches ({bound} "
        "is the lower bound for people); where the answer is not there yet "
        "it loses {worse} nats per token more than "
        "the honest model, and audit names every such model and no other.",
        "不加掩码,损失降到每个字母 {bits} 比特,任何诚实的英语模型都到不了(人的下界是 {bound});"
        "答案尚未出现时,它每个 token 比诚实模型多损失 {worse} nats;audit 点名了每一个这样的模型,且没有误点。",
    ).filled(bits=bits.told(), bound=SHANNON, worse=worse.told())
    return Verdict.of(findings, says)


def _all(share: Estimate, wanted: float) -> bool | None:
    """Whether a share is the same on every seed, and is this."""
    return None if not share.count else share.mean == wanted


def panels(results: Results) -> list[Panel]:
    """What training shows, beside what is true."""
    ticks = [Words("causal mask", "因果掩码"), Words("no mask", "无掩码")]
    lines = []
    for quantity in QUANTITIES[:3:2]:
        found = [results.mean(quantity.name, **case) for case in (_WITH, _WITHOUT)]
        lines.append(Line.of(quantity.label, [0, 1], found))
    return [
        Panel(
            lines,
            Words("trained with", "训练时"),
            Words("nats per token", "nats / token"),
            ticks=ticks,
        )
    ]


QUANTITIES = (
    Quantity("training", Words("training loss", "训练损失")),
    Quantity("bits", Words("held-out bits per letter", "留出文本 比特/字母")),
    Quantity("truth", Words("true next-token loss", "真实的下一 token 损失")),
    Quantity("known", Words("real words written", "写出的真词比例")),
    Quantity("leak", Words("audit names it", "audit 点名"), 1),
)

CLAIM = Claim(
    name="peeking",
    row="C14",
    title=Words("The causal mask, and training without it", "因果掩码,以及没有它的训练"),
    says=Words(
        "A decoder needs the causal mask: position t may see only the prefix;"
        " without it training peeks at the answer.",
        "Decoder 必须有因果掩码:第 t 个位置只能看前缀;不加掩码,训练时就会“偷看答案”。",
    ),
    formula=r"\hat S = S + M,\quad M_{ij} = -\infty \text{ for } j > i",
    asks=Words(
        "The same model is trained with and without the mask; its training loss is held against the loss of "
        "predicting a token that is not there yet, against what it writes, and against what audit says.",
        "同一模型分别在有、无掩码下训练;把训练损失与“预测尚未出现的 token”的损失、"
        "它写出的文字、以及 audit 的结论放在一起看。",
    ),
    cases=lambda quick: [_WITH, _WITHOUT],
    seeds=(2, 5),
    measure=measure,
    quantities=QUANTITIES,
    judge=judge,
    panels=panels,
    sources=(
        "Vaswani et al. 2017, section 3.2.3",
        "Shannon 1951, Prediction and entropy of printed English, table I (bounds at 100 letters)",
    ),
    facts=lambda results: {
        "training_without": results.mean("training", **_WITHOUT).told(),
        "training_with": results.mean("training", **_WITH).told(),
        "truth_without": results.mean("truth", **_WITHOUT).told(),
        "truth_with": results.mean("truth", **_WITH).told(),
        "known_without": results.mean("known", **_WITHOUT).told(2),
        "known_with": results.mean("known", **_WITH).told(2),
        "bound": str(SHANNON),
    },
)
