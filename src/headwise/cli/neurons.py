"""headwise neurons: the contexts in a corpus that fire each neuron."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import click

from headwise.names import NeuronId, OutputError
from headwise.see.texts.corpus import Corpus


@dataclass(frozen=True)
class NeuronRequest:
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


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path, allow_dash=True))
@click.option(
    "-m",
    "--model",
    default="smollm2",
    show_default=True,
    help="A known name, a hub id, a folder or a .gguf file.",
)
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
@click.option(
    "-o",
    "--out",
    type=click.Path(path_type=Path),
    help="Write .nc (every neuron; hw.load_neurons reads it back) or .json (those shown).",
)
@click.option("--lines", is_flag=True, help="Plain text: each line is a text, not the whole file.")
@click.option("--field", metavar="NAME", help="JSON lines: the field that holds the text [text].")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Read at most N texts.")
@click.option(
    "--target",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="For an encoder-decoder: a file with what its decoder reads for each text.",
)
@click.option(
    "--everywhere", is_flag=True, help="Count special tokens and the first token of a text too."
)
@click.option(
    "--context",
    type=click.IntRange(3),
    metavar="N",
    help="Cut longer texts into pieces of at most N tokens. [what the model reads]",
)
@click.option("--device", help="Where to run, for instance cpu, cuda or mps.")
@click.option("--dtype", help="float32, bfloat16 or float16.")
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
        _check_layer(layer)
    corpus = Corpus(files, lines, field, limit)
    targets = None if target is None else Corpus((target,), lines, field, limit)
    for one in (corpus, targets):
        if one is not None:
            one.check()
    ids = tuple(dict.fromkeys(map(NeuronId.parse, neurons)))
    request = NeuronRequest(
        corpus, targets, model, ids, layers, count, top, everywhere, context, out, device, dtype
    )
    _check_out(out)
    from headwise.cli.contexts import run

    return run(request)


def _check_layer(layer: str) -> None:
    """Refuse what can be no layer before a model is loaded."""
    number = layer.rpartition(".")[2]
    if not (number.isascii() and number.isdecimal()) or layer.count(".") > 1:
        raise click.UsageError(f"{layer!r} is no layer; write it as 12 or decoder.0")


def _check_out(out: Path | None) -> None:
    """Refuse a result that cannot be written before a model is loaded."""
    if out is None:
        if sys.__stdout__ is None:
            raise OutputError(
                "the neurons cannot be shown: the standard output is closed; give -o FILE"
            )
        return
    from headwise.files import check_writable
    from headwise.see.neurons.files import check_kind

    check_kind(out)
    check_writable(out, "the neurons")
