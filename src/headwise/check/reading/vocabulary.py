"""Which ids a model reads: those of the table that it looks its text up in."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Int
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from headwise.check.reading.given import Given
from headwise.check.running.subject import Subject

__all__ = ["first_table", "vocabulary_of"]

Ids = Int[Tensor, " id"]

_TRIED = (1, 0, 1, 1, 0, 1, 0, 0, 0, 1, 1)
"""Ids that every table has, in an order that neither positions nor kinds of tokens have."""


def vocabulary_of(subject: Subject, length: int, source: Tensor | None = None) -> Ids | None:
    """The ids that can be drawn: all but the special ones; None where no table of them is known or looked up.

    Args:
        subject: as its config says; without one it is called on a text of small ids.
        length: of that text.
        source: what its encoder reads then; None = the same text.
    """
    config = getattr(subject.module, "config", None)
    size = _said(subject.module, config) or _looked_up(subject, length, source)
    return None if size is None else _drawable(subject.module, size)


def first_table(subject: Subject) -> Ids | None:
    """The ids of the first table that a module holds, whatever it is for; None without one."""
    parts = () if subject.module is None else subject.module.modules()
    size = next((m.num_embeddings for m in parts if isinstance(m, nn.Embedding)), None)
    return None if size is None else _drawable(subject.module, size)


def _said(module: nn.Module | None, config: Any) -> int | None:
    for holder in (config, getattr(config, "text_config", None), module):
        value = getattr(holder, "vocab_size", None)
        if isinstance(value, int) and value > 1:
            return value
    return None


class _LookUps(TorchFunctionMode):
    """The sizes of the tables that this text is looked up in."""

    def __init__(self, text: Tensor) -> None:
        super().__init__()
        self._text = text.flatten()
        self.sizes: list[int] = []

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        named = kwargs or {}
        if func is F.embedding:
            self._note(*(named.get(name, x) for name, x in _paired(args)))
        elif func is Tensor.__getitem__ and isinstance(args[0], nn.Parameter):
            self._note(args[1], args[0])
        return func(*args, **named)

    def _note(self, ids: Any, table: Any) -> None:
        same = isinstance(ids, Tensor) and ids.numel() == self._text.numel()
        if same and isinstance(table, Tensor) and not ids.is_floating_point():
            with torch._C.DisableTorchFunction():
                if torch.equal(ids.flatten().cpu(), self._text):
                    self.sizes.append(table.shape[0])


def _paired(args: tuple[Any, ...]) -> list[tuple[str, Any]]:
    """The first two arguments of F.embedding, by name."""
    return list(zip(("input", "weight"), (*args, None, None), strict=False))


def _looked_up(subject: Subject, length: int, source: Tensor | None) -> int | None:
    """The rows of the smallest table that a text of small ids is looked up in; None where there is none."""
    row = torch.tensor([_TRIED]).repeat(1, -(-length // len(_TRIED)))[:, :length]
    held = row if source is None and "source" in subject.takes else source
    mode = _LookUps(row)
    try:
        with mode:
            subject.run(Given(row, source=held))
    except Exception:  # whatever a model raises on what is not its own: what it looked up is known
        pass
    return min((size for size in mode.sizes if size > 1), default=None)


def _drawable(module: nn.Module | None, size: int) -> Ids:
    ids = torch.arange(size)
    special = _special(module, getattr(module, "config", None))
    keep = ~torch.isin(ids, torch.tensor(sorted(special), dtype=torch.long))
    return ids[keep] if int(keep.sum()) >= 2 else ids


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
