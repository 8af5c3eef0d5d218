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
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import torch

from harness import Row, machine, row, timed, write
from headwise.core import kernel
from headwise.hub.get import get
from headwise.hub.load import Model, load
from headwise.see import probes
from headwise.see.profile.profiler import Profiler
from headwise.see.texts.batches import Batch
from headwise.see.texts.corpus import Corpus
from headwise.see.texts.packing import packed

BAR, BAR_OF_WORDS = 1.05, 1.3
WORDS = "the same and every relation both ways"
ABOUT = (
    "# A corpus profiled against plain forward passes\n\n"
    "SmolLM2, all built-in statistics of its 270 heads; then the probes of words too: every relation that the file "
    "has 50 times or more, both ways; reference: the same batches through transformers' model with "
    "`scaled_dot_product_attention`, no logits."
)
PLAIN = "plain"
Call = Callable[[], object]


def plain(model: Model, batch: Batch) -> Call:
    """The model alone on one batch."""

    def call() -> None:
        with torch.no_grad():
            model.module(**batch.inputs, use_cache=False)

    return call


def rounds(
    model: Model,
    batches: Sequence[Batch],
    profilers: Mapping[str, Profiler],
    count: int,
    threads: int,
) -> dict[str, list[float]]:
    """Seconds of `count` rounds over all batches: plain, and by each profiler."""
    for profiler in profilers.values():
        profiler.add(batches[0])
    shuffle = random.Random(0).shuffle
    spent: dict[str, list[float]] = {name: [] for name in (PLAIN, *profilers)}
    for _ in range(count):
        totals = dict.fromkeys(spent, 0.0)
        for batch in batches:
            calls: list[tuple[str, Call]] = [(PLAIN, plain(model, batch))]
            calls += [(name, partial(profiler.add, batch)) for name, profiler in profilers.items()]
            shuffle(calls)
            for name, call in calls:
                totals[name] += timed(call, threads)()
        for name, seconds in totals.items():
            spent[name].append(seconds)
    return spent


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
    ours = f"headwise, {kernel.status().path}"
    profilers, bars = {ours: Profiler(model)}, {ours: BAR}
    if options.file.name.endswith((".conllu", ".conllu.gz")):
        every = [*probes.BUILT_IN, *probes.relations(options.file)]
        profilers[WORDS], bars[WORDS] = Profiler(model, probes=every), BAR_OF_WORDS
    spent = rounds(model, batches, profilers, options.rounds, options.threads)
    reference = spent.pop(PLAIN)
    case = f"{len(texts)} sentences, {tokens} tokens, {len(batches)} batches"
    rows: list[Row] = [
        row(
            case,
            name,
            [a / b for a, b in zip(seconds, reference, strict=True)],
            seconds,
            bars[name],
        )
        for name, seconds in spent.items()
    ]
    speeds = [tokens / min(seconds) for seconds in (spent[ours], reference)]
    about = (
        f"{ABOUT} Tokens per second, best round: profiled {speeds[0]:.0f}, plain {speeds[1]:.0f}."
    )
    name = "corpus" if options.threads == 1 else f"corpus-{options.threads}-threads"
    write(name, about, rows, machine(options.threads))


if __name__ == "__main__":
    main()
