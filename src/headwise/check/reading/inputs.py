"""What the caller gave as inputs, read: the text and the source, one row each, and what goes in beside them.

What an audit itself fills (padding, positions, documents, weights, caches) is never taken from the caller: it
would say of one row what is asked of another. Of padding that was given, what it leaves of the row is the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from headwise.check.reading.arguments import DOCUMENTS, FILLED, HIDING, POSITIONS, REAL, Signature
from headwise.check.reading.beside import Row
from headwise.check.reading.given import SHORTEST
from headwise.names import ModelError, ShapeError

__all__ = ["Taken", "named_of", "taken"]

_TOKENIZER = (
    "input_ids",
    "attention_mask",
    "token_type_ids",
    "special_tokens_mask",
    "offset_mapping",
    "length",
    "overflow_to_sample_mapping",
    "overflowing_tokens",
    "num_truncated_tokens",
)
"""What tokenizers return beside the ids, whether or not a model takes it."""

_NAME = "inputs must be ids [batch, position] or vectors [batch, position, d_model]"


@dataclass(frozen=True, eq=False)
class Taken:
    """What the caller gave.

    Attributes:
        text: one row; None = drawn.
        source: one row of what an encoder reads; None = drawn, where there is one.
        others: by name, what is neither: a `Row` where it has a row for each row of the text.
        length: positions that the others ask for, where no text was given.
    """

    text: Tensor | None = None
    source: Tensor | None = None
    others: Mapping[str, Any] = field(default_factory=dict)
    length: int | None = None


def named_of(inputs: Any) -> dict[str, Any] | Tensor | None:
    """Inputs by name, or one tensor: lists of numbers and arrays of numpy are made tensors.

    Raises:
        ShapeError: neither.
    """
    if inputs is None:
        return None
    if isinstance(inputs, Mapping):
        wrong = [name for name in inputs if not isinstance(name, str)]
        if wrong or not inputs:
            came = f"the key {wrong[0]!r}" if wrong else "an empty one"
            raise ShapeError(f"inputs by name must map names to tensors, came {came}")
        return {
            name: _tensor(x) if _numbers(x) else x for name, x in inputs.items() if x is not None
        }
    found = _tensor(inputs) if isinstance(inputs, Tensor) or _numbers(inputs) else None
    if found is None:
        raise ShapeError(f"{_NAME}, or tensors by name, came {type(inputs).__name__}")
    return found


def taken(
    signature: Signature, inputs: Mapping[str, Any] | Tensor | None, *, packed: bool = False
) -> Taken:
    """What is text, what is source, and what goes in beside them.

    Args:
        signature: of what will read it.
        inputs: of `named_of`.
        packed: whether the caller declares a mask, which may be that of documents given here.

    Raises:
        ModelError: a name that nothing takes.
        ShapeError: a text that is neither ids nor vectors, or too short.
    """
    if inputs is None:
        return Taken()
    if isinstance(inputs, Tensor):
        return Taken(_row(inputs))
    named = _renamed(signature, inputs)
    _check_names(signature, named)
    given, source = named.pop(signature.text, None), _popped(named, signature.source)
    text = None if given is None else _shaped(given)
    real = None if text is None else _real(named, _real_names(signature, "text"), text)
    rows, length = _shape(named) if text is None else text.shape[:2]
    left_out = FILLED.difference((*DOCUMENTS, *POSITIONS) if packed else ())
    others = {
        name: _other(x, rows, length, real)
        for name, x in named.items()
        if name not in left_out and (name in signature.names or signature.open)
    }
    return Taken(
        None if text is None else _row(_first_row(text, real)),
        None if source is None else _source(named, signature, source),
        others,
        length if text is None else None,
    )


def _numbers(x: Any) -> bool:
    if isinstance(x, str | bytes | Tensor):
        return False
    return hasattr(x, "__array__") or (isinstance(x, Sequence) and len(x) > 0)


def _tensor(x: Any) -> Tensor:
    try:
        return x if isinstance(x, Tensor) else torch.as_tensor(x)
    except (TypeError, ValueError, RuntimeError):
        raise ShapeError(
            f"{_NAME}; this {type(x).__name__} is no even table of numbers: pass a text's ids, or pad them"
        ) from None


def _renamed(signature: Signature, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The same, its text under the name that it goes in by."""
    named = dict(inputs)
    if signature.text in named:
        return named
    prefix = "decoder_" if signature.text.startswith("decoder_") else ""
    for name in (f"{prefix}inputs_embeds", "input_ids"):
        foreign = signature.foreign and name == f"{prefix}inputs_embeds"
        if name in named and (foreign or not (signature.foreign or name in signature.names)):
            named[signature.text] = named.pop(name)
            break
    return named


def _check_names(signature: Signature, named: Mapping[str, Any]) -> None:
    known = (*signature.names, signature.text, signature.source, *_TOKENIZER)
    wrong = [name for name in named if name not in known]
    if wrong and (signature.foreign or not signature.open):
        raise ModelError(
            f"nothing takes {', '.join(wrong)} of inputs; forward takes {', '.join(signature.names)}"
        )


def _popped(named: dict[str, Any], name: str | None) -> Any:
    return None if name is None else named.pop(name, None)


def _real_names(signature: Signature, of: str) -> tuple[str, ...]:
    """Names under which padding of the text comes; of the source in an encoder-decoder."""
    two = signature.source is not None
    if two and of == "text":
        return ("decoder_attention_mask",)
    return (*REAL, *(name for name in HIDING if name.endswith("padding_mask")))


def _real(named: Mapping[str, Any], names: tuple[str, ...], x: Tensor) -> Tensor | None:
    """Which positions of the first row are real; None = all, or nobody says."""
    for name in names:
        mask = named.get(name)
        if isinstance(mask, Tensor) and mask.shape == x.shape[:2]:
            real = mask[0] == 0 if name.endswith("padding_mask") else mask[0] != 0
            return None if bool(real.all()) else real.to(x.device)
    return None


def _source(named: Mapping[str, Any], signature: Signature, source: Any) -> Tensor:
    if not isinstance(source, Tensor) or source.dim() < 2 or source.dtype is torch.bool:
        raise ShapeError(
            f"{signature.source} must be a tensor [batch, position, ...], came {_came(source)}"
        )
    real = _real(named, _real_names(signature, "source"), source)
    return _first_row(source, real)


def _first_row(x: Tensor, real: Tensor | None) -> Tensor:
    row: Tensor = x[:1]
    return row if real is None else row[:, real]


def _other(x: Any, rows: int, length: int | None, real: Tensor | None) -> Any:
    """One row of it where it has a row for each of the text; only what is real, as of the text."""
    if not isinstance(x, Tensor) or x.dim() == 0 or x.shape[0] != rows:
        return x
    if rows == 1 and x.dim() == 1 and x.is_floating_point():
        return x  # a number for all rows, such as a temperature
    along = x.dim() > 1 and x.shape[1] == length
    value = x[:1, real.to(x.device)] if along and real is not None else x[:1]
    return Row(value, value.shape[1] if along else None)


def _shape(named: Mapping[str, Any]) -> tuple[int, int | None]:
    """Rows and positions of a text that was not given, as ids beside it say, such as labels."""
    ids = [x for x in named.values() if isinstance(x, Tensor) and x.dim() == 2]
    shapes = {tuple(x.shape) for x in ids if not x.is_floating_point() and x.shape[1] >= SHORTEST}
    rows, length = shapes.pop() if len(shapes) == 1 else (1, None)
    return rows, length


def _shaped(x: Any) -> Tensor:
    """A text as it was given, as ids [batch, position] or vectors [batch, position, d_model]."""
    if isinstance(x, Tensor) and x.dtype is not torch.bool and not x.is_complex():
        if x.dim() == (2 if x.is_floating_point() else 1):
            x = x[None]
        text: Tensor = x if x.is_floating_point() else x.long()
        if text.dim() == (3 if text.is_floating_point() else 2) and text.numel():
            return text
    raise ShapeError(f"{_NAME}, came {_came(x)}")


def _row(x: Any) -> Tensor:
    text = _shaped(x)
    if text.shape[1] < SHORTEST:
        raise ShapeError(
            f"inputs must hold at least {SHORTEST} positions that are not padding, came {text.shape[1]}; "
            "pass a longer text"
        )
    return _first_row(text, None)


def _came(x: Any) -> str:
    return f"{list(x.shape)} of {x.dtype}" if isinstance(x, Tensor) else type(x).__name__
