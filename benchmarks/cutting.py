"""What SmolLM2 loses when heads go: ways to choose them, and what is given back of them, on held-out text.

Heads are ranked, means folded and W_O refitted on one half of a treebank's sentences (joined by newlines, in blocks
of 256 tokens); the rise of the loss is measured on the other, with no training after the cut. The reference of each
split is the gate gradient (Michel et al. 2019: the mean over rows of its size, no layer normalised), its heads at
0. Standard errors are over blocks, of differences and ratios of the same blocks.

    python benchmarks/cutting.py FILE [--splits first,second,odd] [--methods "joint;random"] [--float32]

Every row is kept in results/cutting.json as soon as it is there; a run goes on where the last one was stopped, and
`--again` measures anew what it is asked for. FILE is en_pud.conllu of Parallel Universal Dependencies.
"""

from __future__ import annotations

import argparse
import copy
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from cutting_rows import ABOUT, SHARES, Row, compared, kept, table
from harness import machine, save
from headwise.cut.ablating.ablating import ablate
from headwise.cut.ablating.gathering import mean_outputs
from headwise.cut.census import census
from headwise.cut.learning.learning import learn_gates
from headwise.cut.losses import blocks, losses_of
from headwise.cut.pruning.jointly import Pairs, pairs_of
from headwise.cut.pruning.planning import scores_of
from headwise.cut.pruning.recipe import Recipe, cut_on_texts, new_outputs
from headwise.cut.pruning.surgery import cut_heads
from headwise.cut.ranking.importance import importance
from headwise.hub.load import Model, load
from headwise.names import HeadId
from headwise.see.texts.batches import Batch
from headwise.see.texts.given import batches_in

HEADS = 270
AGAIN = 2  # more rankings between the first share and the second
ROWS = 4  # blocks in a batch


@dataclass
class Case:
    """A model, the half it is ranked on and the half it is measured on."""

    name: str
    model: Model
    calibration: Tensor
    held_out: Tensor
    base: Tensor

    def batches(self, rows: int = ROWS) -> list[Mapping[str, Tensor]]:
        return [{"input_ids": part} for part in self.calibration.split(rows)]

    def whole_batches(self) -> list[Batch]:
        return list(batches_in(self.model, self.batches(), None, None, "prune"))

    @cached_property
    def pairs(self) -> Pairs:
        """What heads of the whole model cost together."""
        means = mean_outputs(self.model, self.batches())
        return pairs_of(self.model, self.whole_batches, means=means)

    def rise(self, model: Model) -> Tensor:
        """By block."""
        return losses(model, self.held_out) - self.base


Found = Iterator[tuple[int, Tensor]]
"""Heads removed, and the rise by block."""


def losses(model: Model, ids: Tensor) -> Tensor:
    """The mean loss of each block."""
    found = []
    with torch.no_grad():
        for part in ids.split(ROWS):
            for batch in batches_in(model, part, None, None, "loss"):
                one = losses_of(model, batch)
                found.append(one.of_rows.double() / one.counts)
    return torch.cat(found)


def ordered(case: Case, heads: Sequence[HeadId], how: str) -> Found:
    """The first of these heads gone."""
    texts = case.batches() if how == "mean" else None
    for removed in SHARES:
        with ablate(case.model, list(heads[:removed]), how=how, texts=texts):
            yield removed, case.rise(case.model)


def scored(method: str, how: str, tokens: int | None = None) -> Callable[[Case, int], Found]:
    """Heads by their importance, the least first."""

    def run(case: Case, seed: int) -> Found:
        texts = case.batches()
        if tokens is not None:
            texts = [{"input_ids": case.calibration[: tokens // 256]}]
        worth = scores_of(case.model, importance(case.model, texts, method, quiet=True))
        return ordered(case, sorted(worth, key=worth.__getitem__), how)

    return run


def by_chance(case: Case, seed: int) -> Found:
    heads = list(census(case.model).heads)
    random.Random(seed).shuffle(heads)
    return ordered(case, heads, "zero")


def learned(case: Case, seed: int) -> Found:
    """Gates trained for each share by itself."""
    for removed in SHARES:
        keep = 1 - removed / HEADS
        texts = case.batches(2)
        found = learn_gates(case.model, texts, keep=keep, steps=80, seed=seed, quiet=True)
        with ablate(case.model, list(found.closed), how="mean", texts=case.batches()):
            yield removed, case.rise(case.model)


def copied(model: Model) -> Model:
    return replace(model, module=copy.deepcopy(model.module))


def without(case: Case, removed: int, refit: bool) -> Model:
    """The model without the heads that cost least together, in one step."""
    order = case.pairs.order(budget=removed)
    gone = [case.pairs.heads[i] for i in order]
    found = new_outputs(case.model, gone, case.whole_batches(), fold="mean", refit=refit)
    return cut_heads(case.model, gone, found)


def single(refit: bool) -> Callable[[Case, int], Found]:
    """Each share in one step."""

    def run(case: Case, seed: int) -> Found:
        for removed in SHARES:
            yield removed, case.rise(without(case, removed, refit))

    return run


def stepwise(refit: bool) -> Callable[[Case, int], Found]:
    """The first share in one step, ranked again for the second, in `AGAIN` steps more."""

    def run(case: Case, seed: int) -> Found:
        first, last = SHARES
        model = without(case, first, refit)
        yield first, case.rise(model)
        keep = (HEADS - last) / (HEADS - first)
        recipe = Recipe(keep, refit=refit, steps=AGAIN, seed=seed)
        cut_on_texts(model, case.batches(), recipe)
        yield last, case.rise(model)

    return run


METHODS: Mapping[str, tuple[str, Callable[[Case, int], Found]]] = {
    "gate": ("zero", scored("gate", "zero")),
    "joint, one step": ("mean", single(refit=False)),
    "joint, one step, refitted": ("refit", single(refit=True)),
    "joint, refitted": ("refit", stepwise(refit=True)),
    "joint": ("mean", stepwise(refit=False)),
    "random": ("zero", by_chance),
    "fisher": ("zero", scored("fisher", "zero")),
    "taylor": ("zero", scored("taylor", "zero")),
    "mean-gate": ("mean", scored("mean-gate", "mean")),
    "mean-fisher": ("mean", scored("mean-fisher", "mean")),
    "leave-one-out": ("zero", scored("leave-one-out", "zero", tokens=512)),
    "mean-ablation": ("mean", scored("mean-ablation", "mean", tokens=512)),
    "learned gates": ("mean", learned),
}


def sentences(file: Path) -> list[str]:
    lines = file.read_text(encoding="utf-8").splitlines()
    return [line[9:].strip() for line in lines if line.startswith("# text = ")]


def halves(texts: list[str], split: str) -> tuple[list[str], list[str]]:
    """The sentences that are looked at, and those held out."""
    half = len(texts) // 2
    return {
        "first": (texts[:half], texts[half:]),
        "second": (texts[half:], texts[:half]),
        "odd": (texts[::2], texts[1::2]),
    }[split]


def case_of(model: Model, file: Path, split: str, limit: int | None) -> Case:
    seen, held_out = (blocks(model, part)[:limit] for part in halves(sentences(file), split))
    return Case(split, model, seen, held_out, losses(model, held_out))


def measured(case: Case, method: str, seed: int, dtype: str) -> list[Row]:
    given_back, run = METHODS[method]
    rows, start = [], time.perf_counter()
    for removed, rise in run(case, seed):
        error = (rise.std() / len(rise) ** 0.5).item()
        row = Row(
            case.name,
            method,
            given_back,
            seed,
            dtype,
            removed,
            case.base.mean().item(),
            rise.mean().item(),
            error,
            tuple(round(x, 5) for x in rise.tolist()),
            round(time.perf_counter() - start, 1),
        )
        print(
            f"{case.name} {method} {seed}: {removed} gone, rise {row.rise:.4f} +- {error:.4f}",
            flush=True,
        )
        rows.append(row)
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--splits", default="first,second,odd")
    parser.add_argument("--methods", default=";".join(METHODS), help="apart by ;")
    parser.add_argument("--seeds", type=int, default=1, help="how often methods that draw are run")
    parser.add_argument("--float32", action="store_true", help="slower; else bfloat16")
    parser.add_argument("--limit", type=int, help="blocks of each half; nothing is written")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--again", action="store_true")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    dtype = "float32" if options.float32 else "bfloat16"
    model = load("smollm2", dtype=dtype, quiet=True)
    rows = [] if options.limit else kept()
    for split in options.splits.split(","):
        case = case_of(model, options.file, split, options.limit)
        print(f"{split}: {len(case.calibration)} blocks, base {case.base.mean():.4f}")
        for method in options.methods.split(";"):
            for seed in range(5 if method == "random" else options.seeds):
                known = [r for r in rows if (r.split, r.method, r.seed) == (split, method, seed)]
                if len(known) == len(SHARES) and not options.again:
                    continue
                rows = [r for r in rows if r not in known] + measured(case, method, seed, dtype)
                rows = compared(rows)
                if not options.limit:
                    facts = machine(options.threads)
                    save(
                        "cutting",
                        ABOUT,
                        [asdict(r) for r in rows],
                        table(rows, list(METHODS)),
                        facts,
                    )


if __name__ == "__main__":
    main()
