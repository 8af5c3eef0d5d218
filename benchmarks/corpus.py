"""A corpus of sentences profiled against the plain forward passes over the same batches.

SmolLM2 with its trained weights over the sentences of a CoNLL-U file, batched and padded as `headwise profile` does
it. The reference is the same batches through transformers' model with scaled_dot_product_attention and no logits; a
round is the whole corpus, taken batch by batch in turns.

    python benchmarks/corpus.py FILE [--threads 1] [--rounds 5]

The sentences are not part of this repository: the committed figures are of the 1,000 English ones of Parallel
Universal Dependencies (en_pud.conllu).
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from harness import Row, machine, row, timed, write
from headwise.core import kernel
from headwise.hub.get import get
from headwise.hub.load import Model, load
from headwise.see.profile.profiler import Profiler
from headwise.see.texts.batches import Batch
from headwise.see.texts.corpus import Corpus
from headwise.see.texts.packing import packed

BAR = 1.05
ABOUT = (
    "# A corpus profiled against plain forward passes\n\n"
    "SmolLM2, all built-in statistics of its 270 heads; reference: the same batches through transformers' model "
    "with `scaled_dot_product_attention`, no logits."
)
Call = Callable[[], object]


def plain(model: Model, batch: Batch) -> Call:
    """The model alone on one batch."""

    def call() -> None:
        with torch.no_grad():
            model.module(**batch.inputs, use_cache=False)

    return call


def rounds(
    model: Model, batches: Sequence[Batch], count: int, threads: int
) -> tuple[list[float], list[float]]:
    """Seconds of `count` rounds over all batches: plain, and profiled."""
    profiler = Profiler(model)
    profiler.add(batches[0])
    shuffle = random.Random(0).shuffle
    spent: dict[str, list[float]] = {"plain": [], "profile": []}
    for _ in range(count):
        totals = dict.fromkeys(spent, 0.0)
        for batch in batches:
            calls = [("plain", plain(model, batch)), ("profile", lambda b=batch: profiler.add(b))]
            shuffle(calls)
            for name, call in calls:
                totals[name] += timed(call, threads)()
        for name, seconds in totals.items():
            spent[name].append(seconds)
    return spent["plain"], spent["profile"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=int, default=1000)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    from transformers import LlamaModel

    known = load("smollm2")
    module = LlamaModel.from_pretrained(get("smollm2"), dtype=torch.float32).eval()
    model = Model(known.name, module, known.tokenizer, True, known.max_length)
    texts = list(Corpus([options.file], limit=options.limit).texts())
    batches = list(packed(model, texts))
    tokens = sum(batch.tokens or 0 for batch in batches)
    reference, ours = rounds(model, batches, options.rounds, options.threads)
    ratios = [a / b for a, b in zip(ours, reference, strict=True)]
    case = f"{len(texts)} sentences, {tokens} tokens, {len(batches)} batches"
    rows: list[Row] = [row(case, f"headwise, {kernel.status().path}", ratios, ours, BAR)]
    speeds = [tokens / min(seconds) for seconds in (ours, reference)]
    about = (
        f"{ABOUT} Tokens per second, best round: profiled {speeds[0]:.0f}, plain {speeds[1]:.0f}."
    )
    name = "corpus" if options.threads == 1 else f"corpus-{options.threads}-threads"
    write(name, about, rows, machine(options.threads))


if __name__ == "__main__":
    main()
