"""Writing on: headwise's generate against transformers' own, on the same random weights.

GPT-2 small's shape (12 layers of 12 heads, 768, vocabulary 50257), greedy, 128 new tokens after 128. transformers
runs GPT2LMHeadModel with sdpa and its default cache; the tokens are compared first in float32.

    python benchmarks/generation.py [--threads 1] [--seconds 120] [--only SUBSTRING]
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
import transformers
from torch import Tensor, nn

from harness import Plan, Row, compare, machine, timed, write
from headwise.nn import Decoder, generate, load_checkpoint

PROMPT, NEW, VOCABULARY = 128, 128, 50257
BARS = {torch.float32: 1 / 1.0, torch.bfloat16: 1 / 1.3}
"""headwise's time, as a multiple of transformers'."""

ABOUT = (
    "# Writing on against transformers\n\n"
    f"Reference: `GPT2LMHeadModel.generate` (sdpa, its default cache); GPT-2 small's shape, random weights, "
    f"{NEW} new tokens after {PROMPT}, greedy. Ratio < 1 is faster than the reference: 0.769 is 1.3 times as fast."
)


@dataclass(frozen=True)
class Case:
    """One precision and number of rows."""

    dtype: torch.dtype
    batch: int

    @property
    def label(self) -> str:
        """What --only searches and the table shows."""
        return f"{str(self.dtype).removeprefix('torch.')}, batch {self.batch}"


CASES = [Case(dtype, batch=1) for dtype in BARS]


def models() -> tuple[nn.Module, Decoder]:
    """The same weights in transformers' GPT-2 and in our blocks."""
    torch.manual_seed(0)
    config = transformers.GPT2Config(attn_implementation="sdpa")
    theirs = transformers.GPT2LMHeadModel(config).eval()
    with tempfile.TemporaryDirectory() as folder:
        theirs.save_pretrained(folder)
        ours = load_checkpoint(Path(folder))
    assert isinstance(ours, Decoder)
    return theirs, ours


def by_transformers(module: nn.Module, ids: Tensor) -> Callable[[], Tensor]:
    mask = torch.ones_like(ids)
    return lambda: module.generate(
        input_ids=ids,
        attention_mask=mask,
        max_new_tokens=NEW,
        do_sample=False,
        eos_token_id=None,
        pad_token_id=0,
        use_cache=True,
    )


def case(case: Case, theirs: nn.Module, ours: Decoder, threads: int, seconds: float) -> list[Row]:
    """Both contenders at one precision."""
    theirs, ours = theirs.to(case.dtype), ours.to(case.dtype)
    ids = torch.randint(
        0, VOCABULARY, (case.batch, PROMPT), generator=torch.Generator().manual_seed(1)
    )
    reference = by_transformers(theirs, ids)
    written = reference()
    assert written.shape == (case.batch, PROMPT + NEW)
    if case.dtype is torch.float32:
        assert torch.equal(generate(ours, ids, NEW), written), "the tokens are not the same"
    contenders = {
        "transformers": timed(reference, threads),
        "headwise": timed(lambda: generate(ours, ids, NEW), threads),
    }
    bars = {"headwise": BARS[case.dtype]}
    plan = Plan(seconds=seconds, least=6, warm=0, again=False)
    return compare(case.label, contenders, "transformers", bars, plan)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--only", default="")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    facts = machine(options.threads) | {"transformers": transformers.__version__}
    theirs, ours = models()
    rows = [
        row
        for one in CASES
        if options.only in one.label
        for row in case(one, theirs, ours, options.threads, options.seconds)
    ]
    if options.only:
        print(rows)
    else:
        write("generation", ABOUT, rows, facts)


if __name__ == "__main__":
    main()
