"""A whole training step against a plain transformers loop: forward, loss, backward, clipping, AdamW.

GPT-2's form with the very same start in every contender, dropout 0, made-up ids; the losses of the first
steps are compared first. Weights stay in float32; bfloat16 is autocast's.

    python benchmarks/training.py [--threads 1] [--seconds 60] [--only 0.8M] [--compiled]
"""

from __future__ import annotations

import argparse
import logging
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import GPT2Config, GPT2LMHeadModel

from harness import Plan, Row, compare, machine, timed, write
from headwise.nn import Decoder, load_checkpoint

VOCABULARY = 65
RATE, CLIP, IGNORED = 1e-3, 1.0, -100
REFERENCE = "transformers float32"
FIRST = 3
ABOUT = (
    "# A training step against a plain transformers loop\n\n"
    "Reference: `GPT2LMHeadModel(ids, labels=ids)`, `backward`, `clip_grad_norm_`, `torch.optim.AdamW` in float32, "
    f"vocabulary {VOCABULARY}, no dropout. The same weights in all, the same losses over the first {FIRST} steps. "
    "Ratio < 1 is faster than the reference, 1 / ratio is tokens per second over its tokens per second."
)

Step = Callable[[], Tensor]
"""One whole step; gives the loss."""


@dataclass(frozen=True)
class Size:
    """One case: a model's shape, the rows of a step, the multiple of the reference's tokens per second asked."""

    name: str
    layers: int
    heads: int
    d_model: int
    block: int
    rows: int
    times: float

    @property
    def label(self) -> str:
        """What --only begins and the table shows."""
        shape = f"{self.layers} x {self.heads} x {self.d_model}"
        return f"{self.name} ({shape}), block {self.block}, batch {self.rows}"


SIZES = (
    Size("0.8M", 4, 4, 128, 64, 12, times=1.35),
    Size("10.8M", 6, 6, 384, 256, 8, times=1.8),
)


def reference(size: Size) -> GPT2LMHeadModel:
    """transformers' GPT-2 of this size, in training."""
    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=VOCABULARY,
        n_positions=size.block,
        n_embd=size.d_model,
        n_layer=size.layers,
        n_head=size.heads,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        use_cache=False,
        bos_token_id=0,
        eos_token_id=0,
    )
    model = GPT2LMHeadModel(config)
    model.train()
    return model


def ours(of: GPT2LMHeadModel) -> Decoder:
    """The same model in blocks of headwise."""
    with tempfile.TemporaryDirectory() as folder:
        of.save_pretrained(folder)
        module = load_checkpoint(folder)
    assert isinstance(module, Decoder)
    return module.train()


def their_step(module: GPT2LMHeadModel, ids: Tensor, narrow: bool) -> Step:
    """A plain loop over transformers' model."""
    optimizer = torch.optim.AdamW(module.parameters(), lr=RATE)

    def step() -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            loss: Tensor = module(ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), CLIP)
        optimizer.step()
        return loss

    return step


def our_step(module: nn.Module, ids: Tensor, narrow: bool) -> Step:
    """The step that `headwise train` takes: flat logits, one loss over them, fused AdamW."""
    optimizer = torch.optim.AdamW(module.parameters(), lr=RATE, fused=True)
    goal = F.pad(ids[:, 1:], (0, 1), value=IGNORED).flatten()

    def step() -> Tensor:
        with torch.autocast("cpu", torch.bfloat16, enabled=narrow):
            logits = module(ids)
        loss = F.cross_entropy(logits.flatten(0, 1).float(), goal, ignore_index=IGNORED)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), CLIP)
        optimizer.step()
        return loss

    return step


def contenders(size: Size, with_compiled: bool) -> dict[str, Step]:
    """Every contender from the same weights, its first losses compared with the reference's."""
    start = reference(size)
    ids = torch.randint(0, VOCABULARY, (size.rows, size.block))
    made: dict[str, Step] = {}
    for narrow, dtype in ((False, "float32"), (True, "bfloat16")):
        theirs = reference(size)
        theirs.load_state_dict(start.state_dict())
        made[f"transformers {dtype}"] = their_step(theirs, ids, narrow)
        made[f"headwise {dtype}"] = our_step(ours(start), ids, narrow)
        if with_compiled:
            module = ours(start)
            module.compile(fullgraph=True)
            made[f"headwise {dtype}, compiled"] = our_step(module, ids, narrow)
    losses = {name: [float(step().detach()) for _ in range(FIRST)] for name, step in made.items()}
    for name, came in losses.items():
        off = 2e-2 if "bfloat16" in name else 1e-4
        torch.testing.assert_close(came, losses[REFERENCE], atol=off, rtol=0, msg=name)
    return made


def case(size: Size, threads: int, seconds: float, with_compiled: bool) -> list[Row]:
    """All contenders at one size."""
    runs = {name: timed(step, threads) for name, step in contenders(size, with_compiled).items()}
    plan = Plan(seconds=seconds, least=11, warm=1)
    bars = {"headwise bfloat16": round(1 / size.times, 3)}
    rows = compare(size.label, runs, REFERENCE, bars, plan)
    tokens = size.rows * size.block
    for row in rows:
        print(
            f"{row.case}: {row.contender} {1 / row.ratio:.2f} x, {1e3 * tokens / row.median_ms:.0f} tokens/s"
        )
    return [replace(row, contender=f"{row.contender} ({1 / row.ratio:.2f} x)") for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--only", default="")
    parser.add_argument("--compiled", action="store_true", help="compiled contenders too")
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    torch.set_num_threads(arguments.threads)
    rows: list[Row] = []
    for size in SIZES:
        if size.label.startswith(arguments.only):
            rows += case(size, arguments.threads, arguments.seconds, arguments.compiled)
    if not arguments.only:
        write("training", ABOUT, rows, machine(arguments.threads))


if __name__ == "__main__":
    main()
