"""A model's parts as they are, to be put back where a cut turns out not to be exact."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn

__all__ = ["put_back_on_error"]


@contextmanager
def put_back_on_error(model: nn.Module) -> Iterator[None]:
    """Put a model back as it was if anything is raised within the `with`.

    Its modules must not be trained meanwhile: the tensors themselves are not copied.
    """
    before = [(part, type(part), _copied(part.__dict__)) for part in model.modules()]
    try:
        yield
    except BaseException:
        for part, cls, attributes in before:
            part.__class__ = cls
            part.__dict__.clear()
            part.__dict__.update(attributes)
        raise


def _copied(attributes: dict[str, Any]) -> dict[str, Any]:
    """The attributes, with the tables of parameters, modules and hooks copied."""
    return {
        name: value.copy() if isinstance(value, dict) else value
        for name, value in attributes.items()
    }
