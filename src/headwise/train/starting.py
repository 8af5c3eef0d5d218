"""hw.fit: a model trained on texts, from a configuration; and the same run taken up again."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import tokenizers

from headwise.cut.pruning.record import cut_of
from headwise.cut.telling import Progress, lines
from headwise.files import check_folder
from headwise.hub.load import load
from headwise.hub.report import say
from headwise.names import ConfigError, ModelError, OutputError
from headwise.train.checkpoints import checkpoints
from headwise.train.data import byte_bpe, tokenizer_of
from headwise.train.fitting import fit as fit_feed
from headwise.train.making import CLASSES, longest, made
from headwise.train.processes import Processes, joined
from headwise.train.recipe import Plan, Recipe, read_plan
from headwise.train.run import Run, check_fresh, read_asked
from headwise.train.sources import (
    Given,
    Sources,
    check_stamp,
    feeds_of,
    gathered,
    left_out,
)

__all__ = ["fit", "resume"]

_SPECIAL = {
    "causal": ("<|endoftext|>",),
    "masked": ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"),
    "pairs": ("<|endoftext|>",),
}
"""Special tokens of a tokenizer that is made."""


def fit(
    texts: Given,
    config: str | Path | Mapping[str, Any] | Plan,
    folder: str | Path,
    *,
    held_out: Given | None = None,
    tokenizer: str | tokenizers.Tokenizer | None = None,
    init: str | None = None,
    by: str = "file",
    field: str | None = None,
    device: str | None = None,
    shards: bool | None = None,
    tensor_parallel: int = 1,
    resume: bool = False,
    stop: Callable[[], bool] | None = None,
    quiet: bool = False,
    progress: Progress | None = None,
) -> Run:
    """Train a model on texts, so that it can be killed at any moment and taken up again.

        run = hw.fit([Path("book.txt")], "recipe.toml", "run")
        model = hw.load("run")

    Args:
        texts: texts, or files (as `Path`); of the objective "pairs" pairs of a source and a target, or their files.
        config: the path of a TOML file with [model], [train] and [tokenizer]; "small" or "mini", which ship with
            headwise; what such a file says, as a mapping ({"model": {"d_model": 96, ...}, "train": {...}}); or a
            `headwise.train.Plan`.
        folder: of the run: it holds the model when it is done (`headwise.train.run`).
        held_out: texts whose loss is looked at; None = the recipe's share of `texts`.
        tokenizer: a model or file that has one; None = as the configuration says, else one made from the texts.
        init: a model of our blocks whose weights it starts from, and whose tokenizer it reads with.
        by: what one document of a file is: the "file", a "line" or a "paragraph".
        field: JSON lines: the field that holds the text.
        device: where it runs; None = a GPU where there is one.
        shards: each process holds a share of the weights alone (FSDP).
        tensor_parallel: over how many processes each layer's heads are split.
        resume: go on with the run in the folder.
        stop: asked after each step whether to end it.
        quiet: no progress on stderr.
        progress: called as progress(steps done, steps in all, how it stands), in place of lines on stderr.

    Raises:
        ConfigError: a configuration that cannot be built, or does not fit the tokenizer or the run.
        TextError: texts that cannot be read, are too few, or have changed since the run began.
        ModelError: a loss that is no number; the last good checkpoint is kept.
        OutputError: a folder that cannot be written.
    """
    plan = config if isinstance(config, Plan) else read_plan(config)
    folder, recipe = Path(folder), plan.recipe
    before = read_asked(folder) if resume else _free(folder)
    accelerator = joined(device)
    silent = quiet or not Processes(accelerator).leads
    told = progress or lines("fit", quiet=silent)

    def tell(what: str) -> None:
        told(0, recipe.steps, what)

    sources = gathered(texts, held_out, recipe, by, field, tell)
    if resume:
        check_stamp(before.get("texts", {}), sources.stamp)
    if init is not None and Path(init).exists():
        init = str(Path(init).absolute())
    stands = resume and bool(checkpoints(folder / "checkpoints"))
    if (
        init is not None and stands
    ):  # the checkpoint has all weights of the model that run.toml says
        plan = replace(plan, model=before["model"])
        plan = _of_context(plan, before["train"].get("context", recipe.context))
    start = None if init is None or stands else _loaded(init)
    if start is not None:
        plan = _of_context(plan, min(recipe.context, longest(start.module)))
    recipe = plan.recipe
    named = tokenizer if tokenizer is not None else plan.tokenizer
    read = _tokenizer(named, start, folder, sources, recipe, Processes(accelerator), tell)
    module = made(plan, read, start)
    feed, held = feeds_of(sources, read, recipe, tell)
    for line in (*sources.told, *left_out(feed, held)):
        say(f"fit: {line}", quiet=silent)
    asked = {
        "tokenizer": {
            "from": named if isinstance(named, str) else None,
            "sha256": hashlib.sha256(read.to_str().encode()).hexdigest(),
        },
        "texts": sources.stamp,
        "start": {"init": init},
    }
    return fit_feed(
        module,
        feed,
        held,
        recipe,
        folder,
        tokenizer=read,
        accelerator=accelerator,
        shards=shards,
        tensor_parallel=tensor_parallel,
        asked=asked,
        resume=resume,
        stop=stop,
        quiet=quiet,
        progress=progress,
    )


def resume(
    folder: str | Path,
    *,
    device: str | None = None,
    stop: Callable[[], bool] | None = None,
    quiet: bool = False,
    progress: Progress | None = None,
) -> Run:
    """Go on with a run of files, with what its run.toml says.

    Args:
        folder: of the run.
        device, stop, quiet, progress: as `fit` takes them.

    Raises:
        OutputError: no run, or one whose checkpoints are all damaged.
        TextError: a text that is gone or has changed.
        ConfigError: it was begun from texts in memory.
    """
    asked = read_asked(Path(folder))
    texts, start = asked.get("texts", {}), asked.get("start", {})
    if "files" not in texts:
        raise ConfigError(
            f"the run in {folder} was begun from texts in memory; call headwise.fit with them again and resume=True"
        )
    held = texts.get("held_out_files")
    return fit(
        _paths(folder, texts["files"]),
        Plan(model=asked["model"], recipe=Recipe.of(asked["train"])),
        folder,
        held_out=None if held is None else _paths(folder, held),
        tokenizer=asked.get("tokenizer", {}).get("from"),
        init=start.get("init"),
        by=texts.get("by", "file"),
        field=texts.get("field"),
        device=device,
        shards=start.get("shards"),
        tensor_parallel=start.get("tensor_parallel", 1),
        resume=True,
        stop=stop,
        quiet=quiet,
        progress=progress,
    )


def _free(folder: Path) -> dict[str, Any]:
    """Refuse a folder that no run can be begun in, before anything is read; make none.

    Raises:
        OutputError: it holds something, or cannot be made.
    """
    check_folder(folder, "the run")
    if folder.is_dir():
        check_fresh(folder)
    return {}


def _paths(folder: str | Path, files: Any) -> list[Path]:
    """What run.toml says of files.

    Raises:
        OutputError: something that is no list of names.
    """
    if not isinstance(files, list) or not all(isinstance(one, str) for one in files):
        raise OutputError(
            f"run.toml in {folder} is damaged: {str(files)[:40]} is no list of files; put the old one back, or "
            "start another run"
        )
    return list(map(Path, files))


def _loaded(init: str) -> Any:
    """A model of our blocks, whole."""
    model = load(init, dtype="float32")
    if not isinstance(model.module, tuple(CLASSES.values())):
        raise ModelError(
            f"{init} runs in transformers, and training is of models of headwise.nn; start from one of those"
        )
    if cut_of(model.module) is not None:
        raise ModelError(f"{init} has heads cut; headwise heal tunes such a model")
    return model


def _of_context(plan: Plan, context: int) -> Plan:
    """With rows of so many tokens, where nobody said how many."""
    said = plan.context is not None or plan.recipe.context != Recipe.context
    return plan if said else replace(plan, recipe=replace(plan.recipe, context=context))


def _tokenizer(
    named: str | tokenizers.Tokenizer | None,
    start: Any,
    folder: Path,
    sources: Sources,
    recipe: Recipe,
    processes: Processes,
    tell: Callable[[str], None],
) -> tokenizers.Tokenizer:
    """The one that was asked for; that of the model it starts from; that of the run; a new one."""
    if isinstance(named, tokenizers.Tokenizer):
        return named
    own = folder / "tokenizer.json"
    if own.is_file():
        return tokenizer_of(own)
    if named is not None:
        return tokenizer_of(named)
    if start is not None and start.tokenizer is not None:
        return start.tokenizer  # type: ignore[no-any-return]
    made: list[str] = []

    def make() -> None:
        tell("making a tokenizer")
        made.append(byte_bpe(sources.texts, recipe.vocab_size, _SPECIAL[recipe.objective]).to_str())

    processes.together(make)
    return tokenizers.Tokenizer.from_str(processes.everyone(made)[0][0])
