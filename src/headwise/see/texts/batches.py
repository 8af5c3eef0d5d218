"""Batches: texts or ready inputs as what a model is called with, and which positions are whose tokens.

Texts are padded on the right, whatever side a model was trained with: then every real token has the positions it
has alone, for absolute and relative positions alike, and padding is left out of the record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import torch
from torch import Tensor

from headwise.hub.calling import PADDING, TARGET_PADDING, batch_axis, standard_names, takes
from headwise.hub.load import Model
from headwise.names import ModelError, TextError
from headwise.see.record import Side
from headwise.see.texts.refusing import check_reads_text
from headwise.see.texts.tokens import Token, tokenize, tokens_of_ids
from headwise.see.texts.writing import real_of, written_by

MOST_TOKENS = 4096
"""How many tokens, padding included, one batch may hold (one text may always be longer)."""

_PER_TOKEN = ("input_ids", "token_type_ids", "mm_token_type_ids")
"""Inputs with one number for each token, which move with the tokens when padding is packed."""

_NO_TEXT = re.compile(r"vision|visual|image|pixel|audio|speech", re.IGNORECASE)
"""Towers whose positions are no tokens, however many there are."""

_OTHER_NAMES = {"ids": "input_ids", "source_ids": "input_ids", "target_ids": "decoder_input_ids"}


class Cut(NamedTuple):
    """That a row is a piece of a longer text: a number that tells texts apart, and how many pieces it has."""

    text: int
    pieces: int


@dataclass(frozen=True, eq=False)
class Batch:
    """What the model is called with, and for each text the tokens of its sources and targets.

    `sources` and `targets` hold for each text its tokens, `source_keep` and `target_keep` which positions of the
    padded row they are at. Targets are None outside encoder-decoders. Where rows are parts of longer texts,
    `begun` says how many texts begin here (None = as many as rows) and `cuts` which row is of which (None = each is
    a text of its own); `skipped` how many empty ones were left out.
    """

    inputs: Mapping[str, Any]
    size: int
    sources: Sequence[Side | None]
    source_keep: Sequence[Tensor | None]
    targets: Sequence[Side] | None = None
    target_keep: Sequence[Tensor] | None = None
    begun: int | None = None
    skipped: int = 0
    cuts: Sequence[Cut | None] | None = None
    _numbered: dict[tuple[str, int], Side] = field(default_factory=dict)

    @property
    def tokens(self) -> int | None:
        """How many tokens it holds, of sources and targets, padding left out; None where it has none."""
        sides = [*self.sources, *(self.targets or ())]
        if all(side is None for side in sides):
            return None
        return sum(len(side.tokens) for side in sides if side is not None)

    def side(self, stream: str, i: int, length: int, *, looks: bool) -> tuple[Side, Tensor]:
        """The side of text i in this stream, and which of `length` positions are its real tokens."""
        found, keep = self._text_of(stream, i, looks=looks)
        if keep is not None and not bool(keep[length:].any()):
            keep = keep[:length]  # torch cuts off what is padding in every row
        if found is None or keep is None or len(keep) != length:
            return self._positions(stream, length), torch.ones(length, dtype=torch.bool)
        return found, keep

    def _text_of(self, stream: str, i: int, *, looks: bool) -> tuple[Side | None, Tensor | None]:
        if _NO_TEXT.search(stream):
            return None, None
        if self.targets is not None and self.target_keep is not None:
            if stream == "decoder" or (stream == "cross" and looks):
                return self.targets[i], self.target_keep[i]
        elif stream == "cross" and not looks:  # a memory that came ready-made
            return None, None
        return self.sources[i], self.source_keep[i]

    def _positions(self, stream: str, length: int) -> Side:
        """Positions as tokens, where a stream's positions are no tokens (audio frames, image patches)."""
        key = (stream, length)
        if key not in self._numbered:
            tokens = tuple(Token(-1, str(i), 0, 0, special=True) for i in range(length))
            self._numbered[key] = Side("", tokens)
        return self._numbered[key]


def batches_of(
    model: Model, texts: Sequence[str], targets: Sequence[str] | None, call: str = "look"
) -> Iterator[Batch]:
    """The texts in order, as many at a time as fit; refused in the words of the function called."""
    check_reads_text(model, call)
    sides = [_side(model, text, model.max_length) for text in texts]
    most = model.max_target_length
    goals = None if targets is None else [_side(model, text, most) for text in targets]
    start = 0
    for stop in range(1, len(sides) + 1):
        longest = max(len(side.tokens) for side in sides[start : stop + 1])
        if stop == len(sides) or longest * (stop + 1 - start) > MOST_TOKENS:
            part = None if goals is None else goals[start:stop]
            yield padded(model, sides[start:stop], part)
            start = stop


def from_inputs(model: Model, inputs: Mapping[str, Any]) -> Batch:
    """A transformers batch; rows of ids are packed to the right-padded form unless positions come along.

    The names of our own blocks' arguments serve as well.
    """
    inputs = {_OTHER_NAMES.get(name, name): value for name, value in inputs.items()}
    if not model.foreign:
        inputs = standard_names(model.module, inputs, model.encoder_decoder)
        if "input_ids" not in inputs:
            return _of_vectors(model, inputs)
    ids, mask = inputs.get("input_ids"), inputs.get("attention_mask")
    _check_ids(ids, mask)
    if ids is None or "position_ids" in inputs:
        return _as_given(model, inputs)
    keep = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask != 0
    if keep.shape != ids.shape:
        return _as_given(model, inputs)
    _check_length(model, int(keep.sum(1).max()), model.max_length)
    if not bool(keep.any(1).all()):
        raise TextError("a row of the batch is all padding; leave it out")
    packed = {
        name: _packed(value, keep) if name in _PER_TOKEN else value
        for name, value in inputs.items()
    }
    lengths = keep.sum(1)
    moved = torch.arange(int(lengths.max()), device=keep.device) < lengths[:, None]
    packed["attention_mask"] = moved.long()
    sides = [_side_of_ids(model, row[kept]) for row, kept in zip(ids, keep, strict=True)]
    return _with_target(model, Batch(packed, len(sides), sides, list(moved.cpu())))


def _side(model: Model, text: str, most: int | None) -> Side:
    assert model.tokenizer is not None
    tokens = tokenize(model.tokenizer, text)
    _check_length(model, len(tokens), most)
    return Side(text, tokens)


def _check_length(model: Model, length: int, most: int | None) -> None:
    if most is not None and length > most:
        raise TextError(
            f"the text is {length} tokens long, {model.name} reads at most {most}; "
            "cut the text or take a model of a longer context"
        )


def _check_ids(ids: Any, mask: Any) -> None:
    for name, x in (("input_ids", ids), ("attention_mask", mask)):
        if x is not None and not isinstance(x, Tensor):
            raise TextError(
                f'{name} must be a tensor, came {type(x).__name__}; tokenize with return_tensors="pt"'
            )
    if ids is not None and (ids.dim() != 2 or ids.is_floating_point() or not ids.numel()):
        raise TextError(
            f"input_ids must be whole numbers [batch, position], came {list(ids.shape)} of {ids.dtype}"
        )


def _side_of_ids(model: Model, ids: Tensor) -> Side:
    return Side(*tokens_of_ids(model.tokenizer, ids.tolist()))


def padded(model: Model, sides: Sequence[Side], targets: Sequence[Side] | None) -> Batch:
    """One batch of these texts, padded on the right."""
    ids, keep = _rows(sides)
    inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": keep.long()}
    batch = Batch(inputs, len(sides), sides, list(keep))
    if targets is None:
        return _with_target(model, batch)
    rows, kept = _rows(targets)
    inputs |= {"decoder_input_ids": rows, "decoder_attention_mask": kept.long()}
    return Batch(inputs, len(sides), sides, list(keep), targets, list(kept))


def _rows(sides: Sequence[Side]) -> tuple[Tensor, Tensor]:
    rows = [torch.tensor([token.id for token in side.tokens]) for side in sides]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    lengths = torch.tensor([len(row) for row in rows])
    return ids, torch.arange(ids.shape[1]) < lengths[:, None]


def _packed(x: Tensor, keep: Tensor) -> Tensor:
    rows = [row[kept] for row, kept in zip(x, keep, strict=True)]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def _as_given(model: Model, inputs: Mapping[str, Any]) -> Batch:
    """Inputs we must not touch: padding is still left out, where attention_mask tells it."""
    first = next((v for v in inputs.values() if isinstance(v, Tensor)), None)
    if first is None:
        raise ModelError("the batch holds no tensor; pass input_ids or what the model takes")
    ids, mask = inputs.get("input_ids"), inputs.get("attention_mask")
    size = int(first.shape[0])
    sides: list[Side | None] = [None] * size
    keep: list[Tensor | None] = [None] * size
    if ids is not None:
        real = torch.ones_like(ids, dtype=torch.bool)
        if mask is not None and mask.shape == ids.shape:
            real = mask.bool()
        sides = [_side_of_ids(model, row[kept]) for row, kept in zip(ids, real, strict=True)]
        keep = list(real.cpu())
    return _with_target(model, Batch(inputs, size, sides, keep))


def _of_vectors(model: Model, inputs: Mapping[str, Any]) -> Batch:
    """A batch of vectors of a module of one's own: its positions that are no padding are the tokens, numbered."""
    names = takes(model.module)
    x = inputs.get(names[0]) if names else None
    if not isinstance(x, Tensor):
        return _as_given(model, inputs)
    axis = batch_axis(model.module, x)
    size = 1 if axis is None else int(x.shape[axis])
    paddings = PADDING if model.encoder_decoder else (*PADDING, *TARGET_PADDING)
    sources = _positions_of(x, axis, [inputs.get(name) for name in paddings])
    if not all(bool(row.any()) for row in sources[1]):
        raise TextError("a row of the batch is all padding; leave it out")
    if not model.encoder_decoder or not isinstance(y := inputs.get(names[1]), Tensor):
        return Batch(inputs, size, *sources)
    targets = _positions_of(y, axis, [inputs.get(name) for name in TARGET_PADDING])
    return Batch(inputs, size, *sources, *targets)


def _positions_of(
    x: Tensor, axis: int | None, paddings: Sequence[Any]
) -> tuple[list[Side], list[Tensor]]:
    """For each sequence its positions that are no padding, numbered as in x, and which these are."""
    size, length = (1, x.shape[0]) if axis is None else (x.shape[axis], x.shape[1 - axis])
    keep = torch.ones(size, length, dtype=torch.bool)
    hidden = next((mask for mask in paddings if mask is not None), None)
    if isinstance(hidden, Tensor) and hidden.numel() == keep.numel():
        hidden = hidden if hidden.dtype is torch.bool else hidden.isneginf()
        keep = ~hidden.cpu().view(size, length)
    tokens = [Token(-1, str(i), 0, 0, special=True) for i in range(length)]
    sides = [
        Side("", tuple(t for t, real in zip(tokens, row, strict=True) if real)) for row in keep
    ]
    return sides, list(keep)


def _with_target(model: Model, batch: Batch) -> Batch:
    """The batch with the decoder's tokens, for an encoder-decoder: the ones given, or written greedily."""
    if not model.encoder_decoder:
        return batch
    inputs = dict(batch.inputs)
    ids = inputs.get("decoder_input_ids")
    if ids is None:
        ids, real = written_by(model, inputs)
        inputs |= {"decoder_input_ids": ids}
        if real is not None:
            inputs["decoder_attention_mask"] = real.long()
    mask = inputs.get("decoder_attention_mask")
    keep = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask != 0
    if mask is None and batch.size > 1:
        keep = real_of(model, ids)
        inputs["decoder_attention_mask"] = keep.long()
    sides = [_side_of_ids(model, row[kept]) for row, kept in zip(ids, keep, strict=True)]
    return Batch(inputs, batch.size, batch.sources, batch.source_keep, sides, list(keep.cpu()))
