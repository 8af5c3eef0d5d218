"""What an audit did not look at, and should be told of: further outputs, arguments nobody gave, axes turned."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import nn

from headwise.check.reading.arguments import FILLED, Signature
from headwise.check.reading.given import Given
from headwise.check.reading.picking import aside
from headwise.check.running.caching import is_cache
from headwise.check.running.subject import Subject

__all__ = ["noted"]


def noted(subject: Subject, given: Given, inputs: Any) -> list[str]:
    """A line for each thing that was left aside, in modules and functions that are not of transformers.

    Args:
        subject: as it is audited.
        given: what it is run on.
        inputs: as the caller gave them, by name or not.
    """
    named = inputs if isinstance(inputs, Mapping) else {}
    lines = list(_own(subject, named))
    if subject.signature.foreign:
        return lines
    lines += _not_given(subject)
    if subject.output is None:
        lines += _outputs(subject, given)
    return lines + _turned(subject.module)


def _own(subject: Subject, named: Mapping[str, Any]) -> Iterator[str]:
    """Named inputs that the audit says itself; padding is no loss, since the real tokens were taken."""
    dropped = [n for n in named if n in FILLED and n not in subject.others and "mask" not in n]
    if dropped:
        yield f"{', '.join(dropped)} of inputs was left out: an audit fills it itself"


def _not_given(subject: Subject) -> list[str]:
    """Arguments that may change what it sees, and that nothing was passed for."""
    signature: Signature = subject.signature
    own = {signature.text, signature.source, *FILLED, *subject.others}
    left = [
        name
        for name in signature.names
        if name in signature.empty and name not in own and not is_cache(name)
    ]
    words = "which were not given; pass them" if len(left) > 1 else "which was not given; pass it"
    return [f"it takes {', '.join(left)}, {words} in inputs="] if left else []


def _outputs(subject: Subject, given: Given) -> list[str]:
    try:
        with torch.no_grad():
            out = subject.fresh().raw(given)
        name, left = aside(out, given)
    except Exception:  # it will be told as the outcome of every dimension
        return []
    if not left:
        return []
    return [
        f"of what it returns only {name} was looked at, not {', '.join(left)}; pass output=, which picks it"
    ]


def _turned(module: nn.Module | None) -> list[str]:
    """Parts that read [position, batch, d_model] within a module that says nothing of it."""
    if module is None or type(module).__module__.startswith("torch.nn."):
        return []
    kinds = (nn.MultiheadAttention, nn.RNNBase)
    if all(p.batch_first for p in module.modules() if isinstance(p, kinds)):
        return []
    return [
        "it holds modules with batch_first=False; if it reads [position, batch], wrap it so that it reads "
        "[batch, position]"
    ]
