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
import json
import random
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from headwise.cut.ranking.importance import importance
from torch import Tensor

from harness import RESULTS, machine, save
from headwise.cut.ablating.ablating import ablate
from headwise.cut.census import census
from headwise.cut.learning.learning import learn_gates
from headwise.cut.losses import blocks, losses_of
from headwise.cut.pruning.recipe import Recipe, cut_on_texts
from headwise.hub.load import Model, load
from headwise.names import HeadId
from headwise.see.texts.given import batches_in

HEADS, SHARES = 270, (54, 135)
ROWS = 4  # blocks in a batch
ABOUT = (
    "# What SmolLM2 loses when heads go\n\n"
    "Loss on the half of the sentences that was not looked at, no training after the cut; `zero`: heads at 0, "
    "`mean`: their mean results folded into the bias, `refit`: W_O refitted by ridge regression. The ratio is to "
    "the gate gradient of the same split; errors are standard errors over blocks, of differences."
)
REFERENCE = "gate"
BARS = {"mean": (0.50, 0.45), "refit": (0.35, 0.25)}
MOST = {"refit": (0.05, 0.27)}


@dataclass(frozen=True)
class Row:
    """A cut of so many heads, and what it cost."""

    split: str
    method: str
    given_back: str
    seed: int
    dtype: str
    removed: int
    base: float
    rise: float
    standard_error: float
    by_block: tuple[float, ...]
    seconds: float
    ratio: float = float("nan")
    ratio_error: float = float("nan")

    @property
    def key(self) -> tuple[object, ...]:
        return (self.split, self.method, self.given_back, self.seed, self.removed)


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
        table = importance(case.model, texts, method, quiet=True)["importance"]
        heads = census(case.model).heads
        worth = {h: float(table.sel(layer=str(h.layer_id), head=h.head)) for h in heads}
        return ordered(case, sorted(heads, key=worth.__getitem__), how)

    return run


def by_chance(case: Case, seed: int) -> Found:
    heads = list(census(case.model).heads)
    random.Random(seed).shuffle(heads)
    return ordered(case, heads, "zero")


def learned(case: Case, seed: int) -> Found:
    """Gates trained for each share by itself."""
    for removed in SHARES:
        found = learn_gates(
            case.model, case.batches(), keep=1 - removed / HEADS, steps=120, seed=seed, quiet=True
        )
        with ablate(case.model, list(found.closed), how="mean", texts=case.batches()):
            yield removed, case.rise(case.model)


def cut(recipe: Recipe) -> Callable[[Case, int], Found]:
    """The recipe, in steps that pass through every share."""

    def run(case: Case, seed: int) -> Found:
        model = replace(case.model, module=copy.deepcopy(case.model.module))
        found: list[tuple[int, Tensor]] = []

        def look(done: int, total: int, what: str) -> None:
            removed = HEADS - len(census(model).heads)
            if removed in SHARES:
                found.append((removed, case.rise(model)))

        own = replace(recipe, keep=1 - SHARES[-1] / HEADS, seed=seed)
        cut_on_texts(model, case.batches(), own, progress=look)
        found.append((SHARES[-1], case.rise(model)))
        yield from found

    return run


def single(refit: bool) -> Callable[[Case, int], Found]:
    """Heads that cost least together, each share in one step."""

    def run(case: Case, seed: int) -> Found:
        for removed in SHARES:
            model = replace(case.model, module=copy.deepcopy(case.model.module))
            recipe = Recipe(keep=1 - removed / HEADS, refit=refit, seed=seed)
            cut_on_texts(model, case.batches(), recipe)
            yield removed, case.rise(model)

    return run


METHODS: Mapping[str, tuple[str, Callable[[Case, int], Found]]] = {
    "gate": ("zero", scored("gate", "zero")),
    "joint": ("mean", cut(Recipe(0.5, steps=5))),
    "joint, refitted": ("refit", cut(Recipe(0.5, steps=5, refit=True))),
    "joint, one step": ("mean", single(refit=False)),
    "joint, one step, refitted": ("refit", single(refit=True)),
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
        print(f"{case.name} {method} {seed}: {removed} gone, rise {row.rise:.4f} +- {error:.4f}")
        rows.append(row)
    return rows


def compared(rows: list[Row]) -> list[Row]:
    """With the ratio to the reference of the same split and share, and its error over blocks."""
    reference = {(r.split, r.removed): torch.tensor(r.by_block) for r in rows if r.method == "gate"}
    found = []
    for row in rows:
        against = reference.get((row.split, row.removed))
        if against is not None and len(against) == len(row.by_block):
            mine = torch.tensor(row.by_block)
            ratio = (mine.mean() / against.mean()).item()
            off = (mine - ratio * against).std() / len(mine) ** 0.5 / against.mean()
            row = replace(row, ratio=ratio, ratio_error=abs(off.item()))
        found.append(row)
    return found


def table(rows: list[Row]) -> list[str]:
    lines = [
        "| split | method | given back | runs | 20 % gone: rise | ratio | 50 % gone: rise | ratio | bar |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    order = list(METHODS)
    keys = dict.fromkeys(
        (r.split, r.method) for r in sorted(rows, key=lambda r: order.index(r.method))
    )
    for split, method in sorted(keys, key=lambda key: ["first", "second", "odd"].index(key[0])):
        own = [r for r in rows if (r.split, r.method) == (split, method)]
        cells, ratios = [], []
        for removed in SHARES:
            some = [r for r in own if r.removed == removed]
            if not some:
                cells += ["", ""]
                continue
            rise, ratio = (statistics.mean(getattr(r, x) for r in some) for x in ("rise", "ratio"))
            errors = (max(getattr(r, x) for r in some) for x in ("standard_error", "ratio_error"))
            cells += [f"{v:.3f} +- {e:.3f}" for v, e in zip((rise, ratio), errors, strict=True)]
            ratios.append((rise, ratio))
        given_back = own[0].given_back
        lines.append(
            f"| {split} | {method} | {given_back} | {len({r.seed for r in own})} | "
            + " | ".join(cells)
            + f" | {verdict(split, given_back, ratios)} |"
        )
    return lines


def verdict(split: str, given_back: str, found: Sequence[tuple[float, float]]) -> str:
    if given_back not in BARS or split != "first" or len(found) < len(SHARES):
        return ""
    most = MOST.get(given_back, (float("inf"),) * len(SHARES))
    limits = zip(found, BARS[given_back], most, strict=True)
    met = all(ratio <= bar and rise <= top for (rise, ratio), bar, top in limits)
    return " and ".join(f"{bar:g}" for bar in BARS[given_back]) + (" met" if met else " missed")


def kept() -> list[Row]:
    file = RESULTS / "cutting.json"
    if not file.exists():
        return []
    rows = json.loads(file.read_text())["rows"]
    return [Row(**{**row, "by_block": tuple(row["by_block"])}) for row in rows]


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
                    save("cutting", ABOUT, [asdict(r) for r in rows], table(rows), facts)


if __name__ == "__main__":
    main()
