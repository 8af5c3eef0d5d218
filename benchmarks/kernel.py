"""The compiled kernel against scaled_dot_product_attention: plain, and with all statistics of every row.

12 heads of 64 (9 query and 3 KV heads at n 16384), batch 1, no gradients. `plain` is attention alone, `all` keeps
the entropy, distance, largest weight, 3 probes, the 8 strongest keys, a 32 x 32 map and what each key receives. The
reference is sdpa with the same mask in the form `attend` would give it. The first tables hold flat rows (random),
`sharp` ones a few large weights as trained models have. Which set of instructions runs: HEADWISE_KERNEL.

    python benchmarks/kernel.py [--threads 1] [--seconds 5]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from harness import Plan, Row, compare, machine, timed, write
from headwise.core import kernel, masks
from headwise.core.masks import Mask
from headwise.core.scores import Scores
from headwise.core.streaming import Wanted, measure

DIM = 64
LENGTHS = (64, 128, 192, 256, 512, 1024, 4096, 16384)
BARS = {1024: 1.0, 4096: 1.0, 16384: 1.0}
Reference = Callable[[Tensor, Tensor, Tensor], Tensor]


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """torch's fused causal attention."""
    grouped = q.shape[1] != k.shape[1]
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=grouped)


def whole(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """torch's fused attention of all to all."""
    return F.scaled_dot_product_attention(q, k, v)


def wanted_of(batch: int, length: int) -> Wanted:
    """All the built-in statistics."""
    probes = torch.randint(-1, length, (batch, 3, length))
    return Wanted(probes=probes, top=8, pool=32, received=True)


def case(
    label: str,
    length: int,
    options: argparse.Namespace,
    reference: Reference = causal,
    mask: Mask | None = None,
    batch: int = 1,
    heads: tuple[int, int] = (12, 12),
    dtype: torch.dtype = torch.float32,
    sharp: float = 1.0,
) -> list[Row]:
    """One comparison; q, k and v lie in memory as a model's packed projection leaves them."""
    torch.manual_seed(length)
    q, k, v = (
        torch.randn(batch, length, count, DIM).to(dtype).transpose(1, 2)
        for count in (heads[0], heads[1], heads[1])
    )
    q = q * sharp
    scores = Scores(q, k, mask, DIM**-0.5)
    wanted = wanted_of(batch, length)
    calls = {
        "sdpa": lambda: reference(q, k, v),
        "plain": lambda: kernel.attention(scores, v),
        "all": lambda: measure(scores, v, wanted, path="kernel"),
    }
    runs = {name: timed(call, options.threads) for name, call in calls.items()}
    bars = {"all": BARS[length]} if length in BARS and reference is causal else {}
    plan = Plan(seconds=options.seconds, least=3, again=length <= 4096)
    with torch.no_grad():
        rows = compare(label, runs, "sdpa", bars, plan)
    print(*(f"{r.case} {r.contender} {r.ratio:.3f}" for r in rows), sep="\n", flush=True)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=5.0, help="per case")
    parser.add_argument("--most", type=int, default=16384, help="longest sequence")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    path = kernel.status().path
    rows: list[Row] = []
    for length in (n for n in LENGTHS if n <= options.most):
        heads = (9, 3) if length == 16384 else (12, 12)
        rows += case(f"causal, n {length}", length, options, mask=masks.causal(), heads=heads)
    for length in (256, 1024):
        long = {"mask": masks.causal()}
        rows += case(f"causal, n {length}, sharp", length, options, sharp=8.0, **long)
        half = torch.bfloat16
        rows += case(f"causal, n {length}, bfloat16", length, options, dtype=half, **long)
    for length in (256, 512, 1024):
        rows += case(f"full, n {length}", length, options, reference=whole)
    rows += case("causal, 32 x n 24", 24, options, mask=masks.causal(), batch=32)
    about = f"# The compiled kernel ({path}) against scaled_dot_product_attention\n\n" + (
        "12 heads of 64 (9 query and 3 KV heads at n 16384), float32 where not said. `plain` is attention "
        "alone, `all` with every statistic: 3 probes, top 8, a 32 x 32 map, what keys receive."
    )
    name = f"kernel-{path}" + ("" if options.threads == 1 else f"-{options.threads}-threads")
    write(name, about, rows, machine(options.threads))


if __name__ == "__main__":
    main()
