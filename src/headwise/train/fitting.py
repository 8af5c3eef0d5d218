"""The loop of training: steps that a kill cannot spoil, and that go on bit for bit where the last checkpoint was.

The rows of a step are named by its number, so a checkpoint holds weights, moments, schedule, random numbers and the
step, and nothing of the texts. The log is cut back to the checkpoint's step when a run goes on.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import tokenizers
from torch import nn

from headwise.cut.telling import Progress, lines
from headwise.hub.report import say
from headwise.names import ConfigError
from headwise.train.course import Course, described
from headwise.train.data import Feed
from headwise.train.disk import Lock, put_text
from headwise.train.precision import precision
from headwise.train.processes import Processes, asks_for_shards, joined
from headwise.train.randomness import seed_all
from headwise.train.recipe import Recipe
from headwise.train.run import Run, check_fresh, differing, read_asked, write_asked

__all__ = ["fit"]


def fit(
    module: nn.Module,
    feed: Feed,
    held_out: Feed | None,
    recipe: Recipe,
    folder: Path | str,
    *,
    tokenizer: tokenizers.Tokenizer | None = None,
    accelerator: Any = None,
    shards: bool | None = None,
    tensor_parallel: int = 1,
    asked: Mapping[str, Mapping[str, Any]] | None = None,
    resume: bool = False,
    stop: Callable[[], bool] | None = None,
    quiet: bool = False,
    progress: Progress | None = None,
) -> Run:
    """Train a model on a feed, in place; hw.fit is this over texts.

    Killed at any moment, it goes on with `resume` to the same weights and losses, bit for bit, on the same machine,
    threads and number of processes. Several processes (torchrun, accelerate launch) share the rows of a step, and
    come to what one alone would, to rounding. Seeds the random numbers of python, numpy and torch.

    Args:
        module: an Encoder, Decoder or EncoderDecoder of `headwise.nn`; of a resumed run any weights of it.
        feed: the rows of each step.
        held_out: rows that are looked at every `evaluate_every` steps and at the end; None = none.
        recipe: how it is trained.
        folder: of the run (`headwise.train.run`); made where it is not there.
        tokenizer: is saved beside the model.
        accelerator: of accelerate; None = one is made.
        shards: whether each process holds a share of the weights alone (FSDP); None = as accelerate's configuration
            says.
        tensor_parallel: over how many processes each layer's heads are split (`nn.parallel.by_heads`); what is left
            of the processes share the rows.
        asked: what else run.toml says, by tables.
        resume: go on with the run in the folder, from its newest checkpoint; from the start where it has none yet.
        stop: asked after each step whether to end it; a checkpoint is written then.
        quiet: no progress on stderr.
        progress: called as progress(steps done, steps in all, how it stands), in place of lines on stderr.

    Raises:
        ConfigError: a resumed run that was asked for otherwise; fewer rows than processes and parts.
        ModelError: a loss or gradients that are no number: the last good checkpoint is kept.
        OutputError: a folder that holds something else, that another process trains in, or that cannot be written
            (a full disk).
    """
    folder = Path(folder)
    accelerator = joined() if accelerator is None else accelerator
    mixed = recipe.dtype == "auto" and accelerator.mixed_precision == "bf16"
    dtype, why = precision("bfloat16" if mixed else recipe.dtype, accelerator.device)
    sharded = asks_for_shards() if shards is None else shards
    processes = Processes(accelerator, sharded, dtype, tensor_parallel)
    _check_rows(feed, held_out, recipe, processes)
    tables = {"model": described(module), "train": recipe.as_dict(), **(asked or {})}
    start = {**tables.pop("start", {}), "shards": shards, "tensor_parallel": tensor_parallel}
    tables["start"] = start  # the last of run.toml: where it stands, all does
    lock = Lock(folder)
    silent = quiet or not processes.leads
    with processes.alive(), closing(lock):
        processes.together(lambda: _begin(folder, tables, resume, lock))
        processes.together(lambda: _keep_tokenizer(folder, tokenizer))
        say(f"fit: {_about(module, processes, why)}", quiet=silent)
        if recipe.warmup >= recipe.steps:
            say(
                f"fit: warmup={recipe.warmup} of {recipe.steps} steps: the rate never gets to its height",
                quiet=silent,
            )
        seed_all(recipe.seed + processes.share)
        course = Course(module, feed, held_out, recipe, folder, processes)
        course.progress = progress or lines("fit", quiet=silent)
        if resume:
            course.resume(lambda line: say(f"fit: {line}", quiet=silent))
        before = course.done
        stopped = course.run(stop or (lambda: False))
        course.finish(tokenizer)
    return Run(module, tuple(course.lines), folder, stopped, before)


def _begin(folder: Path, tables: Mapping[str, Mapping[str, Any]], resume: bool, lock: Lock) -> None:
    """Make the folder of a new run, or see that it is that of this one; hold it."""
    if resume:
        differing(read_asked(folder), tables)
        lock.take()
        return
    check_fresh(folder)
    lock.take()
    check_fresh(folder)  # nobody began here while the lock was waited for
    write_asked(folder, tables)


def _keep_tokenizer(folder: Path, tokenizer: tokenizers.Tokenizer | None) -> None:
    """Put the tokenizer there before the first step: a run that goes on reads with the same."""
    if tokenizer is None or (folder / "tokenizer.json").exists():
        return
    put_text(folder / "tokenizer.json", tokenizer.to_str(pretty=True), "the tokenizer")


def _about(module: nn.Module, processes: Processes, why: str) -> str:
    count = sum(p.numel() for p in module.parameters())
    several = f" in {processes.size} processes" if processes.size > 1 else ""
    split = f", split by heads over {processes.heads}" if processes.heads > 1 else ""
    shards = ", weights in shards" if not processes.whole and processes.shares > 1 else ""
    return f"{count:,} parameters on {processes.device.type}{several}{split}{shards}, {why}"


def _check_rows(feed: Feed, held_out: Feed | None, recipe: Recipe, processes: Processes) -> None:
    """Refuse steps of which some process or part would have no row."""
    if feed.rows != recipe.rows:
        raise ConfigError(
            f"the feed has {feed.rows} rows a step, and the recipe rows={recipe.rows}"
        )
    if held_out is not None and not held_out.count:
        raise ConfigError("the held-out feed has no row; leave it out, or give it text")
    if feed.rows < processes.shares * recipe.accumulate:
        raise ConfigError(
            f"rows={feed.rows} of a step are fewer than {processes.shares} processes of accumulate="
            f"{recipe.accumulate} parts; use rows={processes.shares * recipe.accumulate} or more"
        )
