"""What `headwise neurons` does once its arguments are read: run the model over the corpus, save, show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from rich.console import Console

from headwise.cli.neurons.command import NeuronsRequest
from headwise.cli.printing import counted, print_out, say
from headwise.cli.progress import RunProgress
from headwise.cli.reading import begun, out_of_memory, reading_model
from headwise.cli.stopping import Stopping
from headwise.hub.load import Model
from headwise.hub.networks import FeedForwards
from headwise.names import HeadwiseError, LayerId, NeuronId, OutputError
from headwise.see.neurons.found import Neurons
from headwise.see.neurons.gathering import NeuronGatherer
from headwise.see.neurons.lens import Lens, lens_of
from headwise.see.neurons.snippets import Context
from headwise.see.neurons.strongest import POSITIVE_NEGATIVE
from headwise.see.texts.packing import packed
from headwise.show.terminal_neurons import ContextLine, NeuronHead, neuron_contexts, number

__all__ = ["run"]

_RAISED = 8


def run(request: NeuronsRequest) -> int:
    """Gather, save and show; the exit code.

    Raises:
        HeadwiseError: what stopped it; what was read before is shown and kept.
    """
    texts = begun(request.corpus.texts())
    model = reading_model(
        request,
        call="neurons",
        targets=None if request.targets is None else "--target",
    )
    gatherer = NeuronGatherer(
        model, top=request.top, everywhere=request.everywhere, context=request.context
    )
    with Stopping() as stopping:
        problem = _through(request, gatherer, texts, stopping)
    if problem is not None and not gatherer.texts:
        raise problem
    result = gatherer.result()
    chosen = _chosen(request, result)
    assert gatherer.networks is not None  # found by the first batch
    if request.out is not None:
        try:
            result.save(request.out, [id for id, _ in chosen])
        except OutputError:
            _print(replace(request, out=None), result, model, gatherer.networks, chosen)
            raise
    _print(request, result, model, gatherer.networks, chosen)
    kept = f"; wrote {request.out}" if request.out is not None else ""
    if problem is not None:
        what = f"{_texts(gatherer.texts)} before it {'is' if gatherer.texts == 1 else 'are'} shown{kept}"
        raise type(problem)(f"{problem}; {what}") from None
    if stopping.asked:
        say(f"headwise: interrupted after {_texts(gatherer.texts)}{kept}")
        return stopping.code
    if kept:
        say(kept[2:])
    return 0


def _texts(count: int) -> str:
    return f"{count:,} text{'' if count == 1 else 's'}"


def _through(
    request: NeuronsRequest, gatherer: NeuronGatherer, texts: Iterator[str], stopping: Stopping
) -> HeadwiseError | None:
    """Read the corpus to its end, or until it is stopped; what went wrong on the way."""
    targets = None if request.targets is None else request.targets.texts()
    total = request.corpus.count()
    try:
        batches = packed(
            gatherer.model, texts, targets=targets, context=request.context, call="neurons"
        )
        with RunProgress(total, 0, 0, True) as progress:
            for batch in batches:
                before = gatherer.texts, gatherer.tokens
                if gatherer.networks is None:
                    _check(request, gatherer.find(batch))
                gatherer.add(batch)
                done = gatherer.texts - before[0]
                progress.add(done, gatherer.tokens - before[1], done)
                if stopping.asked:
                    break
    except torch.OutOfMemoryError as error:
        return out_of_memory(error)
    except HeadwiseError as error:
        return error
    return None


def _check(request: NeuronsRequest, networks: FeedForwards) -> None:
    """Refuse neurons and layers that the model does not have before the corpus is read."""
    for id in request.neurons:
        networks.network_of(id)
    for layer in request.layers:
        networks.layer(LayerId.parse(layer))


def _chosen(request: NeuronsRequest, result: Neurons) -> list[tuple[NeuronId, str]]:
    """The neurons to show, each with the side to show."""
    if request.neurons:
        return [(id, side) for id in request.neurons for side in POSITIVE_NEGATIVE]
    layers = [LayerId.parse(layer) for layer in request.layers] or None
    return result.telling(request.count, layers)


def _print(
    request: NeuronsRequest,
    result: Neurons,
    model: Model,
    networks: FeedForwards,
    chosen: Sequence[tuple[NeuronId, str]],
) -> None:
    last = networks.networks[-1]
    lens = lens_of(model, last.weight.shape[1])

    def show(console: Console, colour: bool) -> None:
        about = result.table.attrs
        console.print(networks.known, markup=False)
        if networks.left_out:
            console.print(networks.left_out, markup=False)
        console.print(f"{counted(result.table)}; counted: {about['counted']}", markup=False)
        for id, side in chosen:
            lines = [_line(context) for context in result.contexts(id, side)]
            head = _head(result, networks, lens if id.stream == last.id.stream else None, id, side)
            console.print()
            console.print(neuron_contexts(head, lines, width=console.width, colour=colour))
        if not chosen:
            console.print("no neuron has enough contexts to be told; give more text, or --neuron")

    print_out(show, request.out)


def _head(
    result: Neurons, networks: FeedForwards, lens: Lens | None, id: NeuronId, side: str
) -> NeuronHead:
    place = result.at(id)
    layer, neuron, which = place["layer"], place["neuron"], POSITIVE_NEGATIVE.index(side)
    table = result.table
    rate = float(table["rate"].values[which, layer, neuron])
    peak = float(table["peak"].values[which, layer, neuron])
    sparsity = float(table["sparsity"].values[layer, neuron])
    facts = [f"{side} on {rate:.1%} of tokens", f"sparsity {sparsity:.2f}"]
    if peak > 0:
        facts.append(f"its weakest context here at {number(peak)} x its rms")
    raises = None
    if lens is not None:
        row = networks.network_of(id).weight[id.neuron]
        raises = lens.raised(row if side == "positive" else -row, _RAISED)
    return NeuronHead(str(id), tuple(facts), raises)


def _line(context: Context) -> ContextLine:
    """A context with the space that its token carries outside of it."""
    token, before, after = context.token, context.before, context.after
    if token.part is None and token.text.strip():
        before += " " * (len(token.text) - len(token.text.lstrip(" ")))
        after = " " * (len(token.text) - len(token.text.rstrip(" "))) + after
    return ContextLine(context.activation, before, token.label, after)
