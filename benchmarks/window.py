"""A window of 256 keys against causal attention of the same length: linear against quadratic.

12 heads of 64, float32, batch 1, no compile; attend(q, k, v, masks.window(256)) against causal
scaled_dot_product_attention. Before it is timed the window is checked against its own dense mask in float64,
output and gradients. The peak is the memory torch's CPU allocator held during one call beyond its inputs.

    python benchmarks/window.py [--threads 1] [--seconds 20]
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from harness import Plan, Row, compare, machine, timed, write
from headwise import attend
from headwise.core import masks

os.environ.setdefault("KINETO_LOG_LEVEL", "5")  # the profiler's own start and stop lines
WIDTH, HEADS, HEAD_DIM = 256, 12, 64
BARS = {16384: 0.10}
LENGTHS = (4096, 16384)
MIB = 2**20
ABOUT = (
    f"# window({WIDTH}) against causal scaled_dot_product_attention\n\n"
    f"{HEADS} heads of {HEAD_DIM}, batch 1, float32, no compile. `peak` rows are MiB, not ms."
)
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def window(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """headwise's chunked window."""
    return attend(q, k, v, masks.window(WIDTH))


def causal(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The reference: torch's fused causal attention."""
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def dense(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    """The window as torch alone has it: a dense boolean mask."""
    seen = masks.window(WIDTH).dense(q.shape[-2], k.shape[-2])
    return F.scaled_dot_product_attention(q, k, v, attn_mask=seen)


def inputs(length: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    """q, k and v with gradients."""
    torch.manual_seed(length)
    return [
        torch.randn(1, HEADS, length, HEAD_DIM, dtype=dtype, requires_grad=True) for _ in range(3)
    ]


def check(length: int = 2048) -> float:
    """Largest difference from the dense window in output and gradients, float64."""
    results = []
    for function in (window, dense):
        qkv = inputs(length, torch.float64)
        z = function(*qkv)
        z.pow(2).sum().backward()
        results.append([z.detach(), *(x.grad for x in qkv)])
    worst = max(float((a - b).abs().max()) for a, b in zip(*results, strict=True))
    assert worst < 1e-10, f"the window differs from its dense mask by {worst}"
    return worst


def forward(function: Attend, qkv: list[Tensor]) -> Callable[[], object]:
    """One forward without gradients."""

    def call() -> None:
        with torch.no_grad():
            function(*qkv)

    return call


def both(function: Attend, qkv: list[Tensor]) -> Callable[[], object]:
    """One forward and backward, gradients of q, k and v."""
    grad = torch.randn_like(qkv[0])

    def call() -> None:
        torch.autograd.grad(function(*qkv), qkv, grad)

    return call


def peak(call: Callable[[], object]) -> float:
    """MiB that torch's CPU allocator held at most during the call, beyond what was there before."""
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        call()
    held, most = 0, 0
    for event in seen.profiler.kineto_results.events():
        if event.name() == "[memory]":
            held += event.nbytes()
            most = max(most, held)
    return most / MIB


def peaks(label: str, runs: dict[str, Callable[[], object]]) -> list[Row]:
    """One row for the memory: it is exact, so one round is enough."""
    held = {name: peak(call) for name, call in runs.items()}
    ratio = held["headwise"] / held["causal"]
    row = Row(f"peak, {label}", "headwise", ratio, ratio, ratio, ratio, ratio, 1, held["headwise"])
    return [row]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20.0, help="per case")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    worst = check()
    rows: list[Row] = []
    for length in LENGTHS:
        qkv = inputs(length)
        for mode, wrap in (("forward", forward), ("forward+backward", both)):
            calls = {"causal": wrap(causal, qkv), "headwise": wrap(window, qkv)}
            label = f"{mode}, n {length}"
            bar = {"headwise": BARS[length]} if length in BARS else {}
            runs = {name: timed(call, options.threads) for name, call in calls.items()}
            slow = length > LENGTHS[0]  # the reference takes half a minute there: fewer, no control
            plan = Plan(seconds=options.seconds, least=3, warm=int(not slow), again=not slow)
            rows += compare(label, runs, "causal", bar, plan) + peaks(label, calls)
            print(*(f"{r.case} {r.contender} {r.ratio:.3f}" for r in rows[-3:]), sep="\n")
    about = f"{ABOUT} Largest difference from the dense window at n 2048, float64: {worst:.1e}."
    name = "window" if options.threads == 1 else f"window-{options.threads}-threads"
    write(name, about, rows, machine(options.threads))


if __name__ == "__main__":
    main()
