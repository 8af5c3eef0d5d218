"""What an audit puts in: what the caller gave, or ids and vectors drawn from what the model can read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headwise.check.given import Given, Source
from headwise.check.subject import Subject
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


def drawn(
    subject: Subject, inputs: Tensor | Mapping[str, Any] | None, length: int | None, seed: int
) -> Drawn:
    """The input of an audit.

    Args:
        subject: that will read it.
        inputs: as the caller gave them: ids [batch, position], vectors [batch, position, d_model] or [position,
            d_model], or tensors by name; None = drawn. The first row is used.
        length: of what is drawn.
        seed: of what is drawn.

    Raises:
        ModelError: what the model reads cannot be told.
        ShapeError: inputs that are neither ids nor vectors.
    """
    text, source = _taken(subject, inputs)
    if text is not None and length is not None and length != text.shape[1]:
        raise ShapeError(
            f"inputs has {text.shape[1]} positions and length={length}; give one of them"
        )
    if text is not None:
        from_text = _from(subject, text, seed)
    else:
        wanted = length or _length(subject)
        from_text, text = _found(subject, wanted, seed, source)
    if source is None and "source" in subject.takes:
        source = _source(subject, text, from_text)
    memory = None if source is None else _from(subject, source, seed)
    return Drawn(Given(text, source=source), from_text, memory)


def _taken(
    subject: Subject, inputs: Tensor | Mapping[str, Any] | None
) -> tuple[Tensor | None, Tensor | None]:
    """The text and the source that the caller gave, a row each."""
    if inputs is None:
        return None, None
    signature = subject.signature
    if isinstance(inputs, Tensor):
        return _row(inputs), None
    text = inputs.get(signature.text)
    source = None if signature.source is None else inputs.get(signature.source)
    return None if text is None else _row(text), None if source is None else _row(source)


def _row(x: Any) -> Tensor:
    if isinstance(x, Tensor) and x.dim() == 1 and not x.is_floating_point():
        x = x[None]
    if isinstance(x, Tensor) and x.dim() == 2 and x.is_floating_point():
        x = x[None]
    if not isinstance(x, Tensor) or x.dim() < 2 or x.shape[1] < 4:
        came = f"{list(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
        raise ShapeError(
            "inputs must be ids [batch, position] or vectors [batch, position, d_model] of at least 4 "
            f"positions, came {came}"
        )
    return x[:1]


def _from(subject: Subject, text: Tensor, seed: int) -> Source:
    if text.is_floating_point():
        return Source(None, text.shape[-1], seed)
    vocabulary = _vocabulary(subject)
    ids = torch.arange(int(text.max()) + 1) if vocabulary is None else vocabulary
    return Source(ids, None, seed)


def _found(
    subject: Subject, length: int, seed: int, source: Tensor | None
) -> tuple[Source, Tensor]:
    """What the model can read: ids of its vocabulary, or vectors of a width that it takes."""
    ids = _vocabulary(subject)
    if ids is not None:
        origin = Source(ids, None, seed)
        return origin, origin.draw(1, length)
    if subject.module is not None:
        for width in _widths(subject.module):
            origin = Source(None, width, seed)
            text = origin.draw(1, length)
            held = text if "source" in subject.takes and source is None else source
            if _runs(lambda g: subject.run(g), Given(text, source=held)):
                return origin, text
    raise ModelError(
        f"what {subject.name} reads cannot be told; pass inputs=, a tensor of ids [batch, position] or of "
        "vectors [batch, position, d_model]"
    )


def _runs(run: Callable[[Given], Any], given: Given) -> bool:
    try:
        run(given)
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


def _vocabulary(subject: Subject) -> Tensor | None:
    """The ids that can be drawn: all but the special ones; None where the model has no table of them."""
    module = subject.module
    config = getattr(module, "config", None)
    size = _size(module, config)
    if size is None:
        return None
    ids = torch.arange(size)
    keep = ~torch.isin(ids, torch.tensor(sorted(_special(module, config)), dtype=torch.long))
    return ids[keep] if int(keep.sum()) >= 2 else ids


def _size(module: nn.Module | None, config: Any) -> int | None:
    for holder in (config, getattr(config, "text_config", None), module):
        value = getattr(holder, "vocab_size", None)
        if isinstance(value, int) and value > 1:
            return value
    tables = [] if module is None else [m for m in module.modules() if isinstance(m, nn.Embedding)]
    return tables[0].num_embeddings if tables else None


def _special(module: nn.Module | None, config: Any) -> set[int]:
    found: set[int] = set()
    for name, value in vars(config).items() if hasattr(config, "__dict__") else ():
        if name.endswith(("token_id", "token_ids", "token_index")):
            values = value if isinstance(value, list | tuple) else [value]
            found |= {v for v in values if isinstance(v, int) and v >= 0}
    parts = () if module is None else module.modules()
    return found | {
        p.padding_idx for p in parts if isinstance(p, nn.Embedding) and p.padding_idx is not None
    }


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
    return next((n for n in near if 4 < n <= limit and n not in sizes), wanted)


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
