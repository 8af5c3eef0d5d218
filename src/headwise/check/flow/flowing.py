"""flow: edits each token of a text, and measures after each block whose stream it moves."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from headwise.check.flow.flow import Flow
from headwise.check.reading.given import Source
from headwise.check.reading.vocabulary import first_table, vocabulary_of
from headwise.check.running.subject import subject_of
from headwise.core.reach import Reach
from headwise.hub.load import Model
from headwise.hub.stream import Block, BlockRun, blocks_of, watched_blocks
from headwise.names import HeadError, LayerId, ModelError, TextError
from headwise.see.looking import look
from headwise.see.reaching import reach_of
from headwise.see.record import Record, Side
from headwise.see.residual import one_text
from headwise.see.texts.batches import Batch

__all__ = ["flow"]

_KEYS = 64
"""So many tokens of a long text are edited."""

_READ = 32_768
"""With so many tokens read in all, where all keys can be fewer and still tell something."""

_TOGETHER = 1024
"""So many tokens run at once, in rows of one text."""

_SURE = 8.0
"""So many times what rounding was seen to move, and no less than that of a number."""


def flow(
    model: Model,
    text: str | Mapping[str, Any],
    *,
    target: str | None = None,
    stream: str | None = None,
    keys: Sequence[int] | None = None,
    draws: int = 2,
    seed: int = 0,
    record: Record | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Flow:
    """How far an edit of each token moves the residual stream at each token after each block, in float32.

    Each edit is a row of a batch beside rows with others, and one without any: what moves there, and what a row
    moves by its place in the batch, is rounding. Beside it stands what the masks allow, layer by layer (`reach`).
    It is one text, and a small leak may hide in rounding: the audit looks harder for less.

    Args:
        model: from `load`; one in half precision is copied in float32.
        text: a text, or a transformers batch of one row with input_ids.
        target: for an encoder-decoder, what the decoder reads; None = what the model itself writes.
        stream: of an encoder-decoder "encoder", "decoder" or "cross", from the encoder's text to the decoder;
            None = the first.
        keys: which tokens are edited; None = all of up to 64, else evenly spread ones.
        draws: with how many other tokens each is replaced.
        seed: of these.
        record: of the same text, where one is at hand.
        progress: called as progress(edits done, edits in all).

    Returns:
        A Flow: `moved` over (layer, query, key tried), as a share of the stream's length, and `leaks`.

    Raises:
        TextError: a text that is empty or too long, a key that is not in it.
        ModelError: a model without token ids, or whose blocks cannot be told.
        HeadError: no stream of this model.
    """
    started = time.perf_counter()
    batch = one_text(model, text, target, "flow")
    record = look(model, batch.inputs)[0] if record is None else record
    wide = _in_float32(model)
    blocks = blocks_of(wide, batch.inputs)
    asked = _asked(blocks, batch, stream)
    edits = _edits(wide, batch, asked, keys, draws, seed)
    bench = _Bench(wide, batch, tuple(b for b in blocks if b.id.stream == asked.looks), edits)
    moved, floor = bench.measured(progress)
    layers = tuple(sorted(bench.seen))
    return Flow(
        model.name,
        asked.name,
        layers,
        asked.queries,
        asked.keys,
        edits.tried,
        moved,
        floor,
        _first(reach_of(record), asked),
        draws,
        time.perf_counter() - started,
    )


@dataclass(frozen=True)
class _Asked:
    """Which text is edited, and which stream is looked at."""

    name: str
    looks: str
    ids: str
    queries: Side
    keys: Side


@dataclass(frozen=True, eq=False)
class _Edits:
    """Which tokens are replaced, and by what."""

    name: str
    tried: tuple[int, ...]
    others: Int[Tensor, "draw position"]


def _in_float32(model: Model) -> Model:
    kinds = {p.dtype for p in model.module.parameters() if p.is_floating_point()}
    return model if kinds <= {torch.float32, torch.float64} else model.copied(torch.float32)


def _asked(blocks: Sequence[Block], batch: Batch, stream: str | None) -> _Asked:
    streams = list(dict.fromkeys(block.id.stream for block in blocks))
    both = batch.targets is not None and "decoder" in streams
    known = [*streams, *(["cross"] if both and "encoder" in streams else [])]
    name = streams[0] if stream is None else stream
    if name not in known:
        raise HeadError(
            f"there is no stream {name!r}: the model's are {', '.join(map(repr, known))}"
        )
    looks = "decoder" if name == "cross" else name
    of_target = both and name == "decoder"
    ids = "decoder_input_ids" if of_target else "input_ids"
    if not isinstance(batch.inputs.get(ids), Tensor):
        other = f"; take another stream of {', '.join(map(repr, known))}" if len(known) > 1 else ""
        raise ModelError(
            f"flow replaces token ids, and the input has no {ids}, only {', '.join(batch.inputs)}{other}"
        )
    source, sides = batch.sources[0], batch.targets
    target = None if sides is None else sides[0]
    queries = target if looks == "decoder" and both else source
    edited = target if of_target else source
    assert queries is not None
    assert edited is not None
    return _Asked(name, looks, ids, queries, edited)


def _edits(
    model: Model, batch: Batch, asked: _Asked, keys: Sequence[int] | None, draws: int, seed: int
) -> _Edits:
    row = batch.inputs[asked.ids][0].cpu()
    length = len(row)
    subject = subject_of(model)
    ids = vocabulary_of(subject, length)
    ids = first_table(subject) if ids is None else ids
    source = Source(ids, None, seed)
    others = torch.stack([source.another(row, salt=draw) for draw in range(max(1, draws))])
    if keys is None:
        most = min(_KEYS, max(8, _READ // (length * max(1, draws))))
        tried = torch.linspace(0, length - 1, min(length, most)).round().long().tolist()
    else:
        tried = list(dict.fromkeys(int(key) for key in keys))
    wrong = [key for key in tried if not 0 <= key < length]
    if wrong or not tried:
        raise TextError(f"keys must be tokens from 0 to {length - 1}, came {wrong or 'none'}")
    return _Edits(asked.ids, tuple(tried), others)


def _first(reach: Reach, asked: _Asked) -> Int[np.ndarray, "query key"]:
    """After how many layers each key may be in each query."""
    if asked.name == "cross":
        assert reach.memory is not None
        return reach.memory[0].numpy()
    own = reach.encoder if asked.name == "encoder" and reach.encoder is not None else reach
    return own.first[0].numpy()


@dataclass(eq=False)
class _Bench:
    """Runs rows of one text, each with an edit, and keeps how far each moves the stream."""

    model: Model
    batch: Batch
    blocks: tuple[Block, ...]
    edits: _Edits
    seen: dict[LayerId, Tensor] = field(default_factory=dict)
    """After each block the stream of the last run, [row, position, d_model]."""
    rows: int = 0

    def measured(
        self, progress: Callable[[int, int], None] | None
    ) -> tuple[Float[np.ndarray, "layer query tried"], Float[np.ndarray, " layer"]]:
        """How far each edit moves each query after each block, and how far rounding does."""
        todo = [(k, d) for d in range(len(self.edits.others)) for k in range(len(self.edits.tried))]
        rows = self._together(len(todo))
        plain = self._run([None] * rows)
        lengths = {id: x[0].norm(dim=-1).clamp_min(1e-30) for id, x in plain.items()}
        layers = sorted(plain)
        queries = plain[layers[0]].shape[1]
        moved = np.zeros((len(layers), queries, len(self.edits.tried)))
        rounding = np.full(len(layers), float(torch.finfo(torch.float32).eps))
        for start in range(0, len(todo), rows - 1):
            some: list[tuple[int, int] | None] = [*todo[start : start + rows - 1]]
            some += [None] * (rows - len(some))
            edited = self._run(some)
            for at, id in enumerate(layers):
                change = (edited[id] - plain[id]).norm(dim=-1) / lengths[id]
                change = change.nan_to_num(nan=torch.inf, posinf=torch.inf)
                rounding[at] = max(rounding[at], float(change[-1].max()))
                for row, edit in enumerate(some):
                    if edit is not None:
                        column = moved[at, :, edit[0]]
                        np.maximum(column, change[row].double().cpu().numpy(), out=column)
            if progress is not None:
                progress(min(start + rows - 1, len(todo)), len(todo))
        return moved, _SURE * rounding

    def _together(self, edits: int) -> int:
        """How many rows run together, one without an edit; never as many as there are positions."""
        length = int(self.batch.inputs[self.edits.name].shape[1])
        rows = min(edits, max(1, _TOGETHER // length)) + 1
        return rows + 1 if rows == length else rows

    def _run(self, edits: Sequence[tuple[int, int] | None]) -> dict[LayerId, Tensor]:
        """The stream after each block, of the text with each of these edits."""
        self.rows = len(edits)
        inputs = {name: _repeated(x, self.rows) for name, x in self.batch.inputs.items()}
        ids = inputs[self.edits.name]
        for row, edit in enumerate(edits):
            if edit is not None:
                key = self.edits.tried[edit[0]]
                ids[row, key] = self.edits.others[edit[1], key]
        self.seen = {}
        with watched_blocks(self.model, self.blocks, self._see):
            self.model.run(inputs)
        return self.seen

    def _see(self, run: BlockRun) -> None:
        x = run.after
        rows_first = x.shape[0] == self.rows
        self.seen[run.id] = x.clone() if rows_first else x.transpose(0, 1).clone()


def _repeated(x: Any, rows: int) -> Any:
    if not isinstance(x, Tensor) or x.shape[:1] != (1,):
        return x
    return x.repeat(rows, *[1] * (x.dim() - 1))
