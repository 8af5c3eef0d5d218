"""Refusing what cannot be read, in the words of the function or command that was called."""

from __future__ import annotations

from headwise.hub.load import Model
from headwise.names import ModelError, TextError

__all__ = ["check_model", "check_reads", "check_reads_text", "check_target"]

_THROUGH = {"roles": "roles(hw.profile(model, {}))"}
"""Functions that are given other things than texts by way of another."""


def check_model(model: object, call: str) -> None:
    """Refuse what is no Model.

    Raises:
        ModelError: it is none.
    """
    if not isinstance(model, Model):
        raise ModelError(
            f"{call} takes a model from load(...), came {type(model).__name__}; "
            "wrap a module of yours as load(module, tokenizer=...)"
        )


def check_reads(name: str, reads: str, call: str) -> None:
    """Refuse a model that reads no text.

    Args:
        name: of the model.
        reads: what it is given, by transformers' name.
        call: the function of headwise that takes that, for instance "profile".

    Raises:
        ModelError: it reads something else.
    """
    if reads != "input_ids":
        how = _THROUGH.get(call, f"{call}(model, {{}})").format(f"{{{reads!r}: ...}}")
        raise ModelError(f"{name} reads {reads}, not text; pass them from Python: hw.{how}")


def check_reads_text(model: Model, call: str) -> None:
    """Refuse a model that reads no text, or has no tokenizer to read it with.

    Raises:
        ModelError: it reads something else, or has no tokenizer.
    """
    check_reads(model.name, getattr(model.module, "main_input_name", "input_ids"), call)
    if model.tokenizer is None:
        raise ModelError(
            f"{model.name} has no tokenizer; load(module, tokenizer=...) or pass a batch of input_ids"
        )


def check_target(model: Model, target: object, named: str = "the target") -> None:
    """Refuse a target for a model that has no decoder beside an encoder.

    Raises:
        TextError: the model writes nothing else than it reads.
    """
    if target is not None and not model.encoder_decoder:
        raise TextError(f"{model.name} reads one text and writes no other; leave {named} out")
