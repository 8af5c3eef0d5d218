"""What `headwise audit` is pointed at: a model by name, or one of the user's own, and what it is given to read."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from headwise.check.auditing import audit
from headwise.cli.audit.command import AuditRequest
from headwise.cli.audit.factory import is_factory, made
from headwise.cli.printing import say
from headwise.core import masks
from headwise.hub.load import Model, load_in_transformers
from headwise.names import MaskError, ModelError
from headwise.see.texts.tokens import tokenize

__all__ = ["Target", "target_of"]


@dataclass(frozen=True)
class Target:
    """What is audited, how, and what its positions are called where they are those of a text."""

    model: Any
    arguments: dict[str, Any]
    labels: tuple[str, ...] | None = None


def target_of(request: AuditRequest) -> Target:
    """Load or make it, and put together what `audit` is asked.

    Raises:
        HeadwiseError: it cannot be had, a mask that cannot be read, or a text that it cannot read.
    """
    read = [masks.read(text) for text in request.masks]
    if request.layers is not None and request.layers < len(read):
        raise MaskError(
            f"{len(read)} masks came for {request.layers} layer{'s' * (request.layers > 1)}; "
            "give at most one --mask for each"
        )
    if is_factory(request.target):
        if request.text is not None:
            raise ModelError(
                f"{request.target} has no tokenizer, so it reads no --text; return its inputs from the "
                'factory, as in: return model, {"inputs": ids}'
            )
        model, own = made(request.target)
        _check_arguments(own, request.target)
        if request.device is not None:
            model = _moved(model, request.device)
        target = Target(model, own)
    else:
        target = _loaded(request)
    arguments = target.arguments | _asked(request)
    if read:
        arguments["mask"] = read[0] if len(read) == 1 else read
    return Target(target.model, arguments, target.labels)


def _loaded(request: AuditRequest) -> Target:
    """A model by name, in transformers, since that is where people run it."""
    model = load_in_transformers(request.target, request.device)
    import transformers

    kind = type(model.module).__name__
    say(f"headwise: {request.target} runs as {kind} of transformers {transformers.__version__}")
    if request.text is None:
        return Target(model, {})
    if model.tokenizer is None:
        raise ModelError(f"{request.target} has no tokenizer, so it reads no --text")
    tokens = tokenize(model.tokenizer, request.text)
    ids = torch.tensor([[token.id for token in tokens]])
    return Target(model, {"inputs": ids}, tuple(token.label for token in tokens))


def _asked(request: AuditRequest) -> dict[str, Any]:
    """What was said on the command line, which holds beside what a factory said."""
    said = {
        "layers": request.layers,
        "length": request.length,
        "dimensions": list(request.dimensions) or None,
        "seed": request.seed,
        "draws": request.draws,
        "dtype": None if request.dtype is None else getattr(torch, request.dtype),
    }
    return {name: value for name, value in said.items() if value is not None}


def _check_arguments(own: dict[str, Any], target: str) -> None:
    known = [name for name in inspect.signature(audit).parameters if name not in ("model", "seen")]
    wrong = [str(name) for name in own if name not in known]
    if wrong:
        raise ModelError(
            f"{target}() returned the argument {wrong[0]!r}, which audit does not take; it takes "
            f"{', '.join(known)}"
        )


def _moved(model: Any, device: str) -> Any:
    module = model.module if isinstance(model, Model) else model
    if not isinstance(module, nn.Module):
        raise ModelError(
            f"--device moves modules, and the factory gave {type(model).__name__}; leave it out"
        )
    try:
        module.to(device)
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        line = str(error).strip().partition("\n")[0]
        raise ModelError(f"the device {device!r} cannot be used: {line}") from None
    return model
