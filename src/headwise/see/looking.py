"""look: run a model on texts and record what every head looks at."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar, overload

from torch import Tensor

from headwise.core.masks import Mask
from headwise.core.recognise import recognise
from headwise.core.scores import Scores
from headwise.core.taps import Tap, tapped
from headwise.hub.anatomy import Layer
from headwise.hub.kept import heads_left, naming_of
from headwise.hub.load import Model
from headwise.hub.outputs import OutputMap, OutputWatch, watching
from headwise.hub.shards import Shard, shard_of, whole
from headwise.names import LayerId, ModelError, TextError
from headwise.see.circuits.norms import NO_MAP, Grams, Lengths
from headwise.see.record import LayerRecord, Record, verify
from headwise.see.texts.batches import Batch, batches_of, from_inputs
from headwise.see.texts.refusing import check_model, check_target

Progress = Callable[[int, int], None]
T = TypeVar("T", Mask, Tensor)


@overload
def look(
    model: Model, inputs: str, *, target: str | None = None, progress: Progress | None = None
) -> Record: ...
@overload
def look(
    model: Model,
    inputs: list[str] | tuple[str, ...] | Mapping[str, Any],
    *,
    target: Sequence[str] | None = None,
    progress: Progress | None = None,
) -> list[Record]: ...
def look(
    model: Model,
    inputs: str | list[str] | tuple[str, ...] | Mapping[str, Any],
    *,
    target: str | Sequence[str] | None = None,
    progress: Progress | None = None,
) -> Record | list[Record]:
    """Record what every head of a model looks at in one text, or in each of several.

    Args:
        model: from `load`.
        inputs: a text; a list of texts; or a transformers batch (input_ids and attention_mask, on any side,
            and whatever else the model takes). Padding is left out of the records.
        target: for an encoder-decoder, what the decoder reads (as many as texts); None = what the model itself
            writes, greedily.
        progress: called as progress(layers done, layers in all) for each pass.

    Returns:
        One Record for a text, a list of them for several.

    Raises:
        TextError: a text that is empty or longer than the model's context.
        ModelError: a model without a tokenizer given text, or one none of whose heads fired.
    """
    check_model(model, "look")
    if not isinstance(inputs, str | list | tuple | Mapping):
        raise TextError(
            f"look takes a text, a list of texts or a batch, came {type(inputs).__name__}"
        )
    check_target(model, target)
    if isinstance(inputs, Mapping):
        return _look_at(model, from_inputs(model, inputs), progress)
    texts = [inputs] if isinstance(inputs, str) else list(inputs)
    targets = [target] if isinstance(target, str) else None if target is None else list(target)
    if targets is not None and len(targets) != len(texts):
        raise TextError(f"there are {len(texts)} texts and {len(targets)} targets; give one each")
    records: list[Record] = []
    for batch in batches_of(model, texts, targets):
        records.extend(_look_at(model, batch, progress))
    return records[0] if isinstance(inputs, str) else records


@dataclass(eq=False)
class Recorder:
    """Observes the attention layers of one pass and cuts each call into one LayerRecord per text."""

    batch: Batch
    progress: Progress | None
    total: int
    watch: OutputWatch
    grams: Grams
    parts: list[dict[LayerId, LayerRecord]] = field(default_factory=list)
    values: list[Tensor] = field(default_factory=list)
    runs: int = 0
    cuts: dict[tuple[int, str, int], tuple[Mask | Tensor, Any]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.parts = [{} for _ in range(self.batch.size)]

    def observer(self, layer: Layer) -> Callable[[Scores, Tensor, Tensor], None]:
        """The observer of one layer; one that runs again in the pass takes the next free number (shared layers)."""

        def observe(scores: Scores, v: Tensor, z: Tensor) -> None:
            own_z, shard = z, shard_of(layer.module, scores.shape[1])
            scores, v, z = whole(layer.module, scores, v, z)
            id = run_id(layer, self.parts[0])
            self.runs += 1
            refuse_split(id, scores, self.batch)
            self.values = []
            names = naming_of(layer.module, z.shape[1], scores.k.shape[1])
            for i, part in enumerate(self.parts):
                part[id] = replace(self._cut(id, i, scores, v, z), names=names)
            self.watch.expect(own_z, lambda output: self._found(id, output, shard))
            if self.progress is not None:
                self.progress(min(self.runs, self.total), self.total)

        return observe

    def _found(self, id: LayerId, output: OutputMap, shard: Shard | None) -> None:
        """The output map of a layer was found."""
        gram = self.grams.of(output)
        gram = gram if shard is None else shard.gather(gram, 0)
        for part, v in zip(self.parts, self.values, strict=True):
            part[id] = replace(part[id], lengths=Lengths(v, gram), no_lengths="")

    def _cut(self, id: LayerId, i: int, scores: Scores, v: Tensor, z: Tensor) -> LayerRecord:
        """The part of text i, without padding."""
        _, _, queries, keys = scores.shape
        query_side, query_keep = self.batch.side(id.stream, i, queries, looks=True)
        key_side, key_keep = self.batch.side(id.stream, i, keys, looks=False)
        one = slice(i, i + 1)
        whole = bool(query_keep.all()) and bool(key_keep.all())
        q_at, k_at = _indices(query_keep, scores.q), _indices(key_keep, scores.k)
        mask, bias = scores.mask, scores.bias
        if mask is not None and not (whole and self.batch.size == 1):
            dense = partial(mask.dense, queries, keys, scores.query_offset, scores.q.device)
            mask = self._once(
                mask,
                id.stream,
                i,
                lambda: recognise(_part(dense(), i, q_at, k_at), len(k_at) - len(q_at)),
            )
        if bias is not None:
            whole_bias = bias.detach()
            bias = self._once(bias, id.stream, i, lambda: _part(whole_bias, i, q_at, k_at))
        mine = replace(
            scores,
            q=scores.q[one][:, :, q_at].detach(),
            k=scores.k[one][:, :, k_at].detach(),
            mask=mask,
            bias=bias,
            sink=None if scores.sink is None else scores.sink.detach().clone(),
            query_offset=len(k_at) - len(q_at),
        )
        mine_v = v[one][:, :, k_at].detach()
        self.values.append(mine_v)
        off = verify(mine, mine_v, z[one][:, :, q_at])
        return LayerRecord(id, mine, query_side, key_side, off, no_lengths=NO_MAP)

    def _once(self, source: T, stream: str, i: int, make: Callable[[], T]) -> T:
        """What `make` gives, made once where many layers share one mask or bias."""
        key = (id(source), stream, i)
        known = self.cuts.get(key)
        if known is None:  # the source is kept with it, so that its id stays its own
            known = self.cuts[key] = (source, make())
        made: T = known[1]
        return made


def run_id(layer: Layer, done: Container[LayerId]) -> LayerId:
    """The id of this run of a layer: the next free one where it runs again in the pass (shared layers)."""
    return layer.id.free(done)


def refuse_split(id: LayerId, scores: Scores, batch: Batch) -> None:
    """Raise ModelError where a layer attends within parts of a text."""
    if scores.shape[0] != batch.size:
        raise ModelError(
            f"layer {id} splits the batch of {batch.size} into {scores.shape[0]}; "
            "ids must be read as [batch, position] (torch.nn reads so with batch_first=True), and "
            "models that attend within windows of an image cannot be looked into yet"
        )


def refuse_silence(model: Model, runs: int) -> None:
    """Raise ModelError where no attention layer ran."""
    if not runs and not any(heads_left(layer.module) for layer in model.anatomy.layers):
        raise ModelError(f"{model.name} has no head left: all were cut")
    if not runs:
        raise ModelError(
            f"no head of {model.name} fired: its attention layers ({len(model.anatomy.layers)} found) "
            "did not run on this input"
        )


@contextmanager
def recording(model: Model, batch: Batch, progress: Progress | None = None) -> Iterator[Recorder]:
    """Record every attention layer that runs within the `with`."""
    layers = model.anatomy.layers
    with ExitStack() as stack:
        watch = stack.enter_context(watching(model.module))
        recorder = Recorder(batch, progress, len(layers), watch, Grams(model.module))
        taps = {layer.module: Tap(observers=(recorder.observer(layer),)) for layer in layers}
        stack.enter_context(model.open())
        stack.enter_context(tapped(taps))
        yield recorder


def _look_at(model: Model, batch: Batch, progress: Progress | None) -> list[Record]:
    with recording(model, batch, progress) as recorder:
        model.run(batch.inputs)
    refuse_silence(model, recorder.runs)
    streams = model.anatomy.streams
    order = sorted(recorder.parts[0], key=lambda id: (streams.index(id.stream), id.layer))
    return [Record(model.name, {id: part[id] for id in order}) for part in recorder.parts]


def _part(x: Tensor, i: int, q_at: Tensor, k_at: Tensor) -> Tensor:
    """Of [#batch, #head, #query, #key] one text's, at some queries and keys; axes of size 1 left as they are."""
    x = x[i : i + 1] if x.shape[0] > 1 else x
    x = x[:, :, q_at] if x.shape[2] > 1 else x
    return x[..., k_at] if x.shape[3] > 1 else x


def _indices(keep: Tensor, like: Tensor) -> Tensor:
    return keep.nonzero()[:, 0].to(like.device)
