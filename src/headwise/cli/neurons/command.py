"""headwise neurons: the contexts in a corpus that fire each neuron."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import click

from headwise.cli.options import (
    check_id,
    check_out,
    corpora,
    corpus_options,
    device_options,
    files_argument,
    model_option,
    out_option,
)
from headwise.names import NeuronId
from headwise.see.texts.corpus import Corpus


@dataclass(frozen=True)
class NeuronsRequest:
    """What was asked for on the command line."""

    corpus: Corpus
    targets: Corpus | None
    model: str
    neurons: tuple[NeuronId, ...]
    layers: tuple[str, ...]
    count: int
    top: int
    everywhere: bool
    context: int | None
    out: Path | None
    device: str | None
    dtype: str | None


@click.command(short_help="What fires the neurons beside the heads.")
@files_argument()
@model_option
@click.option(
    "--neuron",
    "neurons",
    multiple=True,
    metavar="ID",
    help="Show this neuron, for instance 12.345; repeatable. [the most telling ones]",
)
@click.option(
    "--layer",
    "layers",
    multiple=True,
    metavar="N",
    help="Choose the most telling neurons of this layer, for instance 12 or decoder.0; repeatable.",
)
@click.option(
    "--count",
    default=8,
    show_default=True,
    type=click.IntRange(0, 1000),
    help="How many of the most telling neurons to show.",
)
@click.option(
    "--top",
    default=8,
    show_default=True,
    type=click.IntRange(1, 100),
    help="How many contexts of each neuron to keep.",
)
@out_option("Write .nc (every neuron; hw.load_neurons reads it back) or .json (those shown).")
@corpus_options
@click.option(
    "--everywhere", is_flag=True, help="Count special tokens and the first token of a text too."
)
@device_options
def neurons(
    files: tuple[Path, ...],
    model: str,
    neurons: tuple[str, ...],
    layers: tuple[str, ...],
    count: int,
    top: int,
    out: Path | None,
    lines: bool,
    field: str | None,
    limit: int | None,
    target: Path | None,
    everywhere: bool,
    context: int | None,
    device: str | None,
    dtype: str | None,
) -> int:
    """What fires the neurons of a model's feed-forward networks: the strongest contexts in the texts of FILES.

    Each context is a line of text with the token at which the neuron fired in brackets. Shown are the neurons asked
    for, else those whose contexts all stand out most. Files are read as by `headwise profile`. Ctrl-C stops after
    the batch that runs, and shows and keeps what was read until then.

    \b
    headwise neurons story.txt
    headwise neurons en_pud.conllu --neuron 0.972 --neuron 29.1520
    headwise neurons corpus.jsonl --layer 12 --top 20 -o neurons.nc
    """
    if neurons and layers:
        raise click.UsageError("--neuron names neurons, and --layer has them chosen; leave one out")
    for layer in layers:
        check_id(layer, parts=1, example="12", stream="decoder")
    ids = tuple(dict.fromkeys(map(NeuronId.parse, neurons)))
    corpus, targets = corpora(files, lines, field, limit, target)
    from headwise.see.neurons.files import KINDS

    check_out(out, KINDS, "the neurons")
    from headwise.cli.neurons.running import run

    return run(
        NeuronsRequest(
            corpus, targets, model, ids, layers, count, top, everywhere, context, out, device, dtype
        )
    )
