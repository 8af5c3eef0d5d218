"""What ranking heads costs: by gates against a plain training step, by leaving each out against as many forwards.

SmolLM2 with its trained weights on blocks of 256 tokens of a CoNLL-U file.

    python benchmarks/importance.py FILE [--threads 1] [--rounds 9] [--blocks 2] [--part gates|leaving]

Gates: the reference is one forward and one backward pass with the gradients of all parameters, of the same model on
the same blocks. Leaving out: the reference is, for each of the 270 heads, a whole forward with the head ablated and
its loss; layer by layer in turns in one run, so its rounds are the layers, and `all heads` is the ratio of the
sums, with the pass that is recorded and the check that passes can be replayed on the side of headwise.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

import headwise as hw
from harness import Measure, Plan, Row, compare, machine, row, timed, write
from headwise.cut.ablating.gathering import mean_outputs
from headwise.cut.census import census
from headwise.cut.losses import losses_of
from headwise.cut.ranking.gradients import gradients_of
from headwise.cut.ranking.leaving import LeavingOut
from headwise.see.texts.batches import Batch
from headwise.see.texts.corpus import Corpus
from headwise.see.texts.given import batches_in

BAR_OF_GATES, BAR_OF_LEAVING = 1.15, 0.6
ABOUT = (
    "# What ranking heads costs\n\n"
    "SmolLM2's 270 heads. Gates: against one forward and backward pass with the parameters' gradients. "
    "Leaving out: against 270 whole forwards with one head ablated each."
)
PLAIN = "plain forward and backward"


def trained(model: hw.Model, batch: Batch) -> None:
    """A forward and a backward pass as in training."""
    model.module.zero_grad(set_to_none=True)
    losses_of(model, batch).total.backward()


def gates(model: hw.Model, ids: Tensor, threads: int, rounds: int) -> list[Row]:
    batch = next(iter(batches_in(model, ids, None, None, "importance")))
    means = mean_outputs(model, ids)
    calls = {
        PLAIN: partial(trained, model, batch),
        "gates": partial(gradients_of, model, batch),
        "gates, per token": partial(gradients_of, model, batch, per="token"),
        "gates to the mean": partial(gradients_of, model, batch, means=means),
    }
    runs: dict[str, Measure] = {name: timed(call, threads) for name, call in calls.items()}
    bars = dict.fromkeys([name for name in calls if name != PLAIN], BAR_OF_GATES)
    plan = Plan(seconds=1.0, least=rounds, most=rounds)
    return compare(f"gates, {ids.numel()} tokens", runs, PLAIN, bars, plan)


class Turns:
    """Each layer's heads left out by headwise, then by whole forwards: seconds of both."""

    def __init__(self, model: hw.Model, ids: Tensor, threads: int) -> None:
        self.ours: list[float] = []
        self.plain: list[float] = []
        self.worst = 0.0
        self.losses: list[float] = []
        self._model, self._ids = model, ids
        self._clock = time.process_time if threads == 1 else time.perf_counter
        self._layers = list(census(model).runs)
        self._left = 0
        self._since = self._clock()

    def reached(self, texts: float) -> None:
        """So many texts' worth of heads are done."""
        done = round(texts / len(self._ids) * len(census(self._model).heads))
        while self._layers and done >= self._left + len(self._layers[0].heads):
            run = self._layers.pop(0)
            self._left += len(run.heads)
            now = self._clock()
            self.ours.append(now - self._since)
            for head in run.heads:
                with hw.ablate(self._model, run.id.head(head)):
                    self.losses.append(hw.loss(self._model, self._ids).mean)
            self._since = self._clock()
            self.plain.append(self._since - now)


def leaving(model: hw.Model, ids: Tensor, threads: int) -> list[Row]:
    batch = next(iter(batches_in(model, ids, None, None, "importance")))
    base = hw.loss(model, ids)
    turns = Turns(model, ids, threads)
    found = LeavingOut(model, census(model).heads, reached=turns.reached)(batch)
    rises = torch.from_numpy(found.scores.sum(0) / found.counts.sum())
    off = float((rises - (torch.tensor(turns.losses) - base.mean)).abs().max())
    case = f"leaving out, {ids.numel()} tokens (largest difference of a head's score {off:.1e})"
    each = [a / b for a, b in zip(turns.ours, turns.plain, strict=True)]
    every = sum(turns.ours) / sum(turns.plain)
    rows = [row(case, "all heads", [every], [sum(turns.ours)], BAR_OF_LEAVING)]
    third = len(each) // 3
    for name, part in (("lowest", slice(0, third)), ("highest", slice(-third, None))):
        rows.append(row(case, f"the {name} {third} layers", each[part], turns.ours[part], None))
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", type=Path)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--blocks", type=int, default=2)
    parser.add_argument("--part", choices=("gates", "leaving"), default=None)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    model = hw.load("smollm2")
    ids = hw.blocks(model, list(Corpus([options.file], limit=100).texts()))[: options.blocks]
    rows: list[Row] = []
    if options.part != "leaving":
        rows += gates(model, ids, options.threads, options.rounds)
    if options.part != "gates":
        rows += leaving(model, ids, options.threads)
    name = "importance" if options.part is None else f"importance-{options.part}"
    write(name, ABOUT, rows, machine(options.threads))


if __name__ == "__main__":
    main()
