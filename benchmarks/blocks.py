"""The attention module against its own parts: packed nn.Linear + scaled_dot_product_attention + nn.Linear.

d_model 768, 12 heads of 64, float32, the very same weights in every contender but x-transformers;
outputs are compared first. Forward is eval under no_grad; forward+backward is train with dropout 0,
gradients of the weights and of x.

    python benchmarks/blocks.py [--threads 1] [--seconds 6] [--only SUBSTRING]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harness import Plan, Row, compare, machine, timed, write
from headwise.core import masks
from headwise.nn import MultiHeadAttention

D_MODEL, HEADS, HEAD_DIM = 768, 12, 64
BAR = 1.03
RIVALS = ("torch.nn.MultiheadAttention", "x-transformers")
ABOUT = (
    "# Attention modules against their own parts\n\n"
    "Reference: packed `nn.Linear` + `scaled_dot_product_attention` + `nn.Linear`; "
    f"d_model {D_MODEL}, {HEADS} heads, float32. Ratio < 1 is faster than the reference."
)


@dataclass(frozen=True)
class Shape:
    """One case."""

    batch: int
    length: int
    is_causal: bool
    kv_heads: int
    backward: bool

    @property
    def label(self) -> str:
        """What --only searches and the table shows."""
        mode = "forward+backward" if self.backward else "forward"
        groups = "" if self.kv_heads == HEADS else f" {HEADS}/{self.kv_heads}"
        kind = "causal" if self.is_causal else "full"
        return f"{mode}, {kind}{groups}, batch {self.batch}, n {self.length}"


CASES = [
    Shape(batch, length, is_causal, kv_heads, backward)
    for batch, lengths, kv_heads, kinds in (
        (1, (128, 512, 2048), HEADS, (False, True)),
        (8, (128, 512), HEADS, (False, True)),
        (1, (128, 512, 2048), 4, (True,)),
    )
    for length in lengths
    for is_causal in kinds
    for backward in (False, True)
]


class Parts(nn.Module):
    """The reference: the fewest torch calls that are a self-attention module."""

    def __init__(self, kv_heads: int) -> None:
        super().__init__()
        self.kv_heads = kv_heads
        self.w_qkv = nn.Linear(D_MODEL, (HEADS + 2 * kv_heads) * HEAD_DIM)
        self.w_o = nn.Linear(D_MODEL, D_MODEL)

    def forward(self, x: Tensor, is_causal: bool) -> Tensor:
        batch, length, _ = x.shape
        sizes = [HEADS * HEAD_DIM, self.kv_heads * HEAD_DIM, self.kv_heads * HEAD_DIM]
        q, k, v = (
            part.view(batch, length, -1, HEAD_DIM).transpose(1, 2)
            for part in self.w_qkv(x).split(sizes, dim=-1)
        )
        z = F.scaled_dot_product_attention(
            q, k, v, is_causal=is_causal, enable_gqa=self.kv_heads != HEADS
        )
        return self.w_o(z.transpose(1, 2).reshape(batch, length, D_MODEL))


def ours(parts: Parts, is_causal: bool) -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
    """headwise's module on the very weights of the reference, so that memory and caches are the same too."""
    module = MultiHeadAttention(D_MODEL, HEADS, parts.kv_heads)
    module.w_qkv, module.w_o = parts.w_qkv, parts.w_o
    mask = masks.causal() if is_causal else None
    return module, lambda x: module(x, mask)


def torch_module(parts: Parts, is_causal: bool) -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
    """torch.nn.MultiheadAttention, without its weights."""
    module = nn.MultiheadAttention(D_MODEL, HEADS, batch_first=True)
    module.in_proj_weight, module.in_proj_bias = parts.w_qkv.weight, parts.w_qkv.bias
    module.out_proj.weight, module.out_proj.bias = parts.w_o.weight, parts.w_o.bias

    def run(x: Tensor) -> Tensor:
        seen = nn.Transformer.generate_square_subsequent_mask(x.shape[1]) if is_causal else None
        out: Tensor = module(x, x, x, need_weights=False, attn_mask=seen, is_causal=is_causal)[0]
        return out

    return module, run


def x_transformers(parts: Parts, is_causal: bool) -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
    """x-transformers' Attention; it has no biases, so its output is not compared."""
    from x_transformers.x_transformers import Attention

    module = Attention(dim=D_MODEL, heads=HEADS, dim_head=HEAD_DIM, flash=True, causal=is_causal)
    return module, lambda x: module(x)


def forward(module: nn.Module, run: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[], object]:
    """One forward in eval, without gradients."""
    module.eval()

    def call() -> None:
        with torch.no_grad():
            run(x)

    return call


def both(module: nn.Module, run: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[], object]:
    """One forward and backward in train, gradients cleared."""
    module.train()
    x = x.clone().requires_grad_()
    grad = torch.randn_like(x)

    def call() -> None:
        run(x).backward(grad)
        x.grad = None
        module.zero_grad(set_to_none=True)

    return call


def case(shape: Shape, threads: int, seconds: float) -> list[Row]:
    """All contenders at one shape."""
    torch.manual_seed(0)
    is_causal, length, batch = shape.is_causal, shape.length, shape.batch
    parts = Parts(shape.kv_heads)
    made = {"headwise": ours(parts, is_causal)}
    if shape.kv_heads == HEADS:  # the others have no grouped queries with a packed projection
        made["torch.nn.MultiheadAttention"] = torch_module(parts, is_causal)
        made["x-transformers"] = x_transformers(parts, is_causal)
    x = torch.randn(batch, length, D_MODEL)
    made = {"reference": (parts, lambda x: parts(x, is_causal)), **made}
    for name, (module, run) in made.items():
        if name != "x-transformers":
            module.eval()
            torch.testing.assert_close(run(x), parts(x, is_causal), atol=1e-4, rtol=1e-4)
    wrap = both if shape.backward else forward
    calls = max(1, 384 // (batch * length * (3 if shape.backward else 1)))
    runs = {
        name: timed(wrap(module, run, x), threads, calls) for name, (module, run) in made.items()
    }
    plan = Plan(seconds=seconds, rare=tuple(name for name in runs if name in RIVALS))
    return compare(shape.label, runs, "reference", {"headwise": BAR}, plan)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=6.0, help="per case")
    parser.add_argument("--only", default="", help="cases whose label holds this; nothing written")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    rows: list[Row] = []
    for shape in CASES:
        if options.only in shape.label:
            new = case(shape, options.threads, options.seconds)
            rows += new
            for r in new:
                print(f"{r.case}: {r.contender} {r.ratio:.3f} ({r.low:.3f}-{r.high:.3f})")
    if not options.only:
        name = "blocks" if options.threads == 1 else f"blocks-{options.threads}-threads"
        write(name, ABOUT, rows, machine(options.threads))


if __name__ == "__main__":
    main()
