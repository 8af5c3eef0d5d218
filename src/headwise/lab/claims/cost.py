"""C5: more heads are nearly free in time; the length of the sequence, n^2, is what costs.

With d_k = d / h the products of all heads together are those of one large head: projections take 8 n d^2
operations, scores and their use 4 n^2 d, whatever h is. So by counting, heads cost nothing, and twice the length
costs two to four times as much. What counting leaves out: there are h softmaxes of n^2 numbers, and products of
matrices with a short side (d_k = 12 at h = 64) run slower. Here: the time of a layer with d = 768 against h, and
against n, always in turns with what it is compared with.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping

import torch

from headwise.core.attention import attend
from headwise.cut.timing.rounds import interleaved
from headwise.cut.timing.spread import spread
from headwise.lab.bench import Bench
from headwise.lab.claim import Claim, Finding, Panel, Quantity, Verdict
from headwise.lab.estimates import Estimate
from headwise.lab.judging import below, verdict
from headwise.lab.lines import over
from headwise.lab.results import Case, Results
from headwise.lab.words import Words
from headwise.nn import MultiHeadAttention

WIDTH, HEADS, LENGTH = 768, 12, 256
COUNTS = (4, 12, 16, 32, 64)
LENGTHS = (256, 512, 1024, 2048, 4096)
LONGEST_PATTERN = 2048
ROUNDS = 9
NEARLY_FREE = 1.1
"""Up to a tenth more time."""
PARTS = {
    "layer": Words("layer, forward", "一层,前向"),
    "training": Words("layer, forward and backward", "一层,前向加反向"),
    "patterns": Words("attention alone, patterns kept", "只有注意力,保留全部权重"),
}

QUANTITIES = (
    Quantity("ratio", Words("time over that compared with", "与所比者的时间之比")),
    Quantity("exponent", Words("exponent of n", "n 的指数"), 2),
)


def cases(quick: bool) -> list[Case]:
    """Numbers of heads, each against one head; lengths, each against half of it."""
    counts = (12, 64) if quick else COUNTS
    lengths = (256, 1024) if quick else LENGTHS
    heads: list[Case] = [{"part": p, "heads": count} for p in PARTS for count in counts]
    return heads + [
        {"part": part, "length": length}
        for part in PARTS
        for length in lengths
        if part != "patterns" or length <= LONGEST_PATTERN
    ]


def measure(bench: Bench, case: Case, seed: int) -> Mapping[str, float]:
    """The median, over rounds, of its time over that of what it is compared with in the same round."""
    torch.manual_seed(seed)
    part = str(case["part"])
    if "heads" in case:
        one, other = (timed(bench, part, count, LENGTH) for count in (int(case["heads"]), 1))
    else:
        length = int(case["length"])
        one, other = (timed(bench, part, HEADS, n) for n in (length, length // 2))
    ones, others = interleaved([one, other], 3 if bench.quick else ROUNDS, seed)
    ratio = spread([a / b for a, b in zip(ones, others, strict=True)]).median
    return {"ratio": ratio} if "heads" in case else {"ratio": ratio, "exponent": math.log2(ratio)}


def timed(bench: Bench, part: str, heads: int, length: int) -> Callable[[], float]:
    """A call that does a part once and gives its seconds."""
    layer = MultiHeadAttention(WIDTH, heads).to(bench.device)
    x = torch.randn(1, length, WIDTH, device=bench.device)
    parts = x.view(1, length, heads, -1).transpose(1, 2)

    def work() -> None:
        with torch.set_grad_enabled(part == "training"):
            if part == "patterns":
                attend(parts, parts, parts, return_pattern=True)
                return
            out = layer(x)
        if part == "training":
            out.sum().backward()

    def call() -> float:
        began = time.perf_counter()
        work()
        if bench.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began

    return call


def judge(results: Results) -> Verdict:
    """Core: 12 heads within a tenth of one, and time nearer n^2 than n at the longest. Further: 64 heads too."""
    longest = max(int(n) for n in results.settings("length", part="layer"))
    most = max(int(h) for h in results.settings("heads", part="layer"))
    power = results.mean("exponent", part="layer", length=longest)
    core = [
        _heads(results, "layer", HEADS),
        Finding(
            "exponent",
            Words(
                f"exponent of n from {longest // 2} to {longest}",
                f"n 从 {longest // 2} 到 {longest} 的指数",
            ),
            power,
            squared(power, longest),
            2,
        ),
    ]
    free = free_to(results, "layer")
    return verdict(
        core,
        [_heads(results, part, most) for part in PARTS],
        holds=Words(
            f"Up to {most} heads cost at most a tenth more than one, and length costs more than in proportion",
            f"直到 {most} 个头,时间最多比一个头多十分之一;长度的代价超过正比",
        ),
        up_to=Words(
            f"Heads are nearly free up to {free} and not at {most}, and length costs more than in proportion",
            f"头数到 {free} 为止几乎免费,到 {most} 则不是;长度的代价超过正比",
        ),
        fails=Words(
            "Time does not go as claimed on this machine", "在这台机器上时间并不如论断所说"
        ),
    )


def squared(power: Estimate, length: int) -> bool | None:
    """Whether time goes nearer to n^2 than to n.

    Up to n = 2 d the projections, which go with n, are the larger part by counting: an exponent near 1 says nothing
    about what long sequences cost.
    """
    found = power.above(1.5)
    return found if found or length > 2 * WIDTH else None


def _heads(results: Results, part: str, count: int) -> Finding:
    """How much longer a part takes with so many heads than with one."""
    return below(
        f"{count} heads, {part}",
        f"time with {count} heads over one, {PARTS[part].en}",
        f"{PARTS[part].zh}:{count} 个头与一个头的时间之比",
        results.mean("ratio", part=part, heads=count),
        NEARLY_FREE,
        2,
    )


def free_to(results: Results, part: str) -> int:
    """The most heads up to which no number of heads costs more than a tenth on average; 1 = none."""
    free = 1
    for count in sorted(int(h) for h in results.settings("heads", part=part)):
        if results.mean("ratio", part=part, heads=count).mean > NEARLY_FREE:
            break
        free = count
    return free


def panels(results: Results) -> list[Panel]:
    """Time against heads; the exponent against length."""
    return [
        Panel(
            [over(results, PARTS[part], "ratio", "heads", part=part) for part in PARTS],
            Words(f"heads h, d = {WIDTH}, n = {LENGTH}", f"头数 h,d = {WIDTH},n = {LENGTH}"),
            Words("time over that of one head", "与一个头的时间之比"),
            log_x=True,
            levels=[(Words("a tenth more", "多十分之一"), NEARLY_FREE)],
        ),
        Panel(
            [over(results, PARTS[part], "exponent", "length", part=part) for part in PARTS],
            Words(f"length n, d = {WIDTH}, h = {HEADS}", f"长度 n,d = {WIDTH},h = {HEADS}"),
            Words("exponent of n, from n/2 to n", "n 的指数(从 n/2 到 n)"),
            log_x=True,
            levels=[(Words("n", "n"), 1.0), (Words("n^2", "n^2"), 2.0)],
        ),
    ]


def facts(results: Results) -> dict[str, str]:
    """Figures for the lesson."""
    said = {"width": str(WIDTH), "heads": str(HEADS), "length": str(LENGTH)}
    for part in PARTS:
        said[f"free_{part}"] = str(free_to(results, part))
        for count in (HEADS, max(COUNTS)):
            found = results.mean("ratio", part=part, heads=count)
            said[f"{part}_{count}"] = found.told(2)
        lengths = sorted(int(n) for n in results.settings("length", part=part))
        for name, length in (("short", lengths[0]), ("long", lengths[-1])) if lengths else ():
            said[f"{part}_{name}"] = results.mean("exponent", part=part, length=length).told(2)
            said[f"{name}_n_{part}"] = str(length)
    return said


CLAIM = Claim(
    name="cost",
    row="C5",
    title=Words("What heads and length cost", "头数与长度的代价"),
    says=Words(
        "More heads are nearly free in time; the length of the sequence, n^2, is what costs.",
        "头数增加几乎不花时间;真正影响速度的是序列长度 n(注意力是 n^2 量级)。",
    ),
    formula=r"h \times \left(d \times \tfrac{d}{h}\right) = d \times d, \qquad 8 n d^2 + 4 n^2 d",
    asks=Words(
        "The time of an attention layer against the number of heads at the same width, and against the length.",
        "宽度不变时,一层注意力的时间随头数的变化,以及随长度的变化。",
    ),
    cases=cases,
    seeds=(2, 5),
    measure=measure,
    quantities=QUANTITIES,
    judge=judge,
    panels=panels,
    sources=("Vaswani et al. 2017, Attention Is All You Need, section 3.2.2 and table 1",),
    facts=facts,
)
