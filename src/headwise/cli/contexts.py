"""What `headwise neurons` does once its arguments are read: run the model over the corpus, save, show."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain

from rich.console import Console

from headwise.cli.keeping import say
from headwise.cli.neurons import NeuronRequest
from headwise.cli.progress import RunProgress
from headwise.cli.stopping import Stopping
from headwise.hub.catalogue import CATALOGUE
from headwise.hub.load import Model, load
from headwise.hub.networks import FeedForwards
from headwise.names import HeadwiseError, LayerId, NeuronId, TextError
from headwise.see.neurons.found import Neurons
from headwise.see.neurons.gathering import NeuronGatherer
from headwise.see.neurons.lens import Lens, lens_of
from headwise.see.neurons.snippets import Context
from headwise.see.neurons.strongest import POSITIVE_NEGATIVE
from headwise.see.texts.packing import packed
from headwise.see.texts.tokens import check_reads
from headwise.show.terminal_neurons import ContextLine, NeuronHead, neuron_contexts, number

__all__ = ["run"]

_RAISED = 8


def run(request: NeuronRequest) -> int:
    """Gather, save and show; the exit code.

    Raises:
        HeadwiseError: what stopped it; what was read before is shown and kept.
    """
    texts = request.corpus.texts()
    texts = chain([next(texts)], texts)  # an empty corpus is told before a model is loaded
    known = CATALOGUE.get(request.model)
    if known is not None:
        check_reads(request.model, known.reads, "neurons")
    model = load(request.model, request.device, request.dtype)
    if request.targets is not None and not model.encoder_decoder:
        raise TextError(f"{model.name} reads one text and writes no other; leave --target out")
    gatherer = NeuronGatherer(
        model, top=request.top, everywhere=request.everywhere, context=request.context
    )
    says = "headwise: stopping after the batch that runs; Ctrl-C again stops at once"
    with Stopping(says) as stopping:
        problem = _through(request, gatherer, texts, stopping)
    if problem is not None and not gatherer.texts:
        raise problem
    result = gatherer.result()
    chosen = _chosen(request, result)
    if request.out is not None:
        result.save(request.out, [id for id, _ in chosen])
    _print(result, model, gatherer.networks, chosen)
    kept = f"; wrote {request.out}" if request.out is not None else ""
    if problem is not None:
        what = f"{gatherer.texts:,} texts before it are shown{kept}"
        raise type(problem)(f"{problem}; {what}") from None
    if stopping.asked:
        say(f"headwise: interrupted after {gatherer.texts:,} texts{kept}")
        return stopping.code
    if kept:
        say(kept[2:])
    return 0


def _through(
    request: NeuronRequest, gatherer: NeuronGatherer, texts: chain[str], stopping: Stopping
) -> HeadwiseError | None:
    """Read the corpus to its end, or until it is stopped; what went wrong on the way."""
    targets = None if request.targets is None else request.targets.texts()
    total = request.corpus.count()
    try:
        batches = packed(gatherer.model, texts, targets=targets, context=request.context)
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
    except HeadwiseError as error:
        return error
    return None


def _check(request: NeuronRequest, networks: FeedForwards) -> None:
    """Refuse neurons and layers that the model does not have before the corpus is read."""
    for id in request.neurons:
        networks.network_of(id)
    for layer in request.layers:
        networks.layer(_layer(layer))


def _layer(name: str) -> LayerId:
    stream, _, layer = name.rpartition(".")
    return LayerId(stream, int(layer))


def _chosen(request: NeuronRequest, result: Neurons) -> list[tuple[NeuronId, str]]:
    """The neurons to show, each with the side to show."""
    if request.neurons:
        return [(id, side) for id in request.neurons for side in POSITIVE_NEGATIVE]
    layers = [_layer(layer) for layer in request.layers] or None
    return result.telling(request.count, layers)


def _print(
    result: Neurons,
    model: Model,
    networks: FeedForwards | None,
    chosen: Sequence[tuple[NeuronId, str]],
) -> None:
    assert networks is not None
    console = Console(highlight=False)
    width, colour = console.width, console.is_terminal and not console.no_color
    about = result.table.attrs
    console.print(networks.known, markup=False)
    if networks.left_out:
        console.print(networks.left_out, markup=False)
    console.print(
        f"{about['texts']:,} texts, {about['tokens']:,} tokens; counted: {about['counted']}",
        markup=False,
    )
    last = networks.networks[-1]
    lens = lens_of(model, last.weight.shape[1])
    for id, side in chosen:
        contexts = result.contexts(id, side)
        head = _head(result, networks, lens if id.stream == last.id.stream else None, id, side)
        console.print()
        lines = [_line(context) for context in contexts]
        console.print(neuron_contexts(head, lines, width=width, colour=colour))
    if not chosen:
        console.print("no neuron has enough contexts to be told; give more text, or --neuron")


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
