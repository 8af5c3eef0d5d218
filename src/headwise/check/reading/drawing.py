"""What an audit puts in: what the caller gave, or ids and vectors drawn from what the model can read."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headwise.check.reading.features import features_of
from headwise.check.reading.given import SHORTEST, Given, Source
from headwise.check.reading.inputs import Taken
from headwise.check.reading.vocabulary import first_table, vocabulary_of
from headwise.check.running.subject import Subject
from headwise.names import ModelError, ShapeError

__all__ = ["Drawn", "drawn"]

_LENGTH = 23
"""Positions where nothing asks for more."""

_LONGEST = 192
_REACHES = ("window", "chunk", "block", "topk", "top_k", "bucket", "stride", "compress", "ratio")
"""Words in the names of config fields that say how far something reaches."""


@dataclass(frozen=True, eq=False)
class Drawn:
    """One row of input, and where replacements come from.

    Attributes:
        given: one row.
        text: where replacements of its text come from.
        memory: the same of what the encoder reads; None without one.
    """

    given: Given
    text: Source
    memory: Source | None


def drawn(subject: Subject, put: Taken, length: int | None, seed: int) -> Drawn:
    """The input of an audit.

    Args:
        subject: that will read it.
        put: what the caller gave; the rest is drawn.
        length: of what is drawn.
        seed: of what is drawn.

    Raises:
        ModelError: what the model reads cannot be told.
        ShapeError: a length that is not that of the inputs.
    """
    text, source = put.text, put.source
    held = put.length if text is None else text.shape[1]
    if None not in (held, length) and held != length:
        raise ShapeError(f"inputs has {held} positions and length={length}; give one of them")
    if source is None and subject.signature.foreign and subject.signature.source != "input_ids":
        source = features_of(subject)
    if text is None:
        from_text, text = _found(subject, length or held or _length(subject), seed, source)
    else:
        from_text = _from(subject, text, seed, source)
    if source is None and "source" in subject.takes:
        source = _source(subject, text, from_text)
    return Drawn(Given(text, source=source), from_text, _memory(subject, source, seed))


def _memory(subject: Subject, source: Tensor | None, seed: int) -> Source | None:
    """Where replacements of the source come from; None for features, which no position of a text counts."""
    features = subject.signature.foreign and subject.signature.source != "input_ids"
    return None if source is None or features else _from(subject, source, seed, source)


def _from(subject: Subject, text: Tensor, seed: int, source: Tensor | None) -> Source:
    if text.is_floating_point():
        return Source(None, text.shape[-1], seed)
    ids = vocabulary_of(subject, text.shape[1], source)
    ids = first_table(subject) if ids is None else ids
    if ids is None or int(text.max()) >= int(ids.max()) + 1:
        ids = torch.arange(max(2, int(text.max()) + 1))
    return Source(ids, None, seed)


def _found(
    subject: Subject, length: int, seed: int, source: Tensor | None
) -> tuple[Source, Tensor]:
    """What the model can read: ids of its vocabulary, or vectors of a width that it takes."""
    ids = vocabulary_of(subject, length, source)
    for width in _widths(subject.module) if ids is None and subject.module is not None else ():
        origin = Source(None, width, seed)
        text = origin.draw(1, length)
        held = text if "source" in subject.takes and source is None else source
        if _runs(subject, Given(text, source=held)):
            return origin, text
    ids = first_table(subject) if ids is None else ids
    if ids is None:
        raise ModelError(
            f"what {subject.name} reads cannot be told; pass inputs=, a tensor of ids [batch, position] or of "
            "vectors [batch, position, d_model]"
        )
    origin = Source(ids, None, seed)
    return origin, origin.draw(1, length)


def _runs(subject: Subject, given: Given) -> bool:
    try:
        subject.run(given)
    except Exception:  # whatever a model raises on an input that is not its own
        return False
    return True


def _widths(module: nn.Module) -> Iterator[int]:
    """Widths of vectors that a module may read, the likely ones first."""
    seen: set[int] = set()
    for part in module.modules():
        for name in (
            "d_model",
            "embed_dim",
            "input_size",
            "in_features",
            "in_channels",
            "normalized_shape",
        ):
            value = getattr(part, name, None)
            value = value[-1] if isinstance(value, tuple) and value else value
            if isinstance(value, int) and value > 0 and value not in seen:
                seen.add(value)
                yield value


def _length(subject: Subject) -> int:
    """Positions beyond every window, chunk and block of the config, equal to no other size of the model."""
    config = getattr(subject.module, "config", None)
    numbers = _numbers(config)
    reaches = [
        n
        for name, n in numbers
        if any(word in name for word in _REACHES) and 1 < n <= _LONGEST // 2
    ]
    text = getattr(config, "text_config", config)
    own = vars(text).items() if hasattr(text, "__dict__") else ()
    most = [
        n
        for name, n in own
        if isinstance(n, int)
        and name in ("max_position_embeddings", "n_positions", "max_length")
        and n > 4
    ]
    wanted = max([_LENGTH, *(2 * n + 3 for n in reaches)])
    limit = min(most, default=10**9)
    return _apart(subject, min(wanted, limit), limit)


def _apart(subject: Subject, wanted: int, limit: int = 10**9) -> int:
    """The next length up to the limit that no other size of the model equals."""
    module = subject.module
    sizes = {n for _, n in _numbers(getattr(module, "config", None))}
    sizes |= {n for p in module.parameters() for n in p.shape} if module is not None else set()
    sizes |= {m * n for n in tuple(sizes) if n < 64 for m in (2, 3)}
    near = [wanted + step for d in range(12) for step in (d, -d)]
    return next((n for n in near if SHORTEST <= n <= limit and n not in sizes), wanted)


def _numbers(config: Any) -> list[tuple[str, int]]:
    """The whole numbers of a config and of those within it, by name."""
    held = vars(config).items() if hasattr(config, "__dict__") else ()
    found = [(k, v) for k, v in held if isinstance(v, int) and not isinstance(v, bool)]
    for _, value in held:
        if hasattr(value, "__dict__") and hasattr(value, "to_dict"):
            found += _numbers(value)
    return found


def _source(subject: Subject, text: Tensor, origin: Source) -> Tensor:
    """Something for the encoder to read, of another length than the text."""
    signature = subject.signature
    if signature.foreign and signature.source != "input_ids":
        raise ModelError(
            f"{subject.name} reads {signature.source}, which is not drawn here; pass inputs= with an example "
            f'of it, {{"{signature.source}": ..., "{signature.text}": ...}}'
        )
    return origin.draw(1, _apart(subject, text.shape[1] + 6), salt=21)
