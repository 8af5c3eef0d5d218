"""A model, cut or not, as one ONNX file: the whole answer to a batch, without a cache.

torch.onnx makes the graph; onnxruntime then runs it on the same input, and it must answer as the model does.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headwise.cut.example import example
from headwise.files import check_writable, replacing
from headwise.hub.load import Model, evaluating
from headwise.names import ModelError, OutputError
from headwise.see.texts.refusing import check_model

__all__ = ["Exported", "export_onnx"]

_NEEDS = ("onnx", "onnxscript", "onnxruntime")

_MOST_BYTES = 2_000_000_000
"""What one ONNX file can hold."""

_MOST_OFF = 1e-3
"""How far the graph may be from the model, as a share of its largest number."""


@dataclass(frozen=True)
class Exported:
    """A model as an ONNX file.

    Attributes:
        path: where it is.
        inputs: the shapes it takes, by transformers' names; a word where any size goes.
        output: the name of what it gives.
        off: how far onnxruntime's answer was from the model's, as a share of the largest number in that.
    """

    path: Path
    inputs: Mapping[str, tuple[int | str, ...]]
    output: str
    off: float


def export_onnx(
    model: Model, path: str | Path, inputs: Mapping[str, Tensor] | None = None
) -> Exported:
    """Write a model as an ONNX file, and run it to see that it answers the same.

    Args:
        model: from `load`, cut or not.
        path: where the file goes; an old one stays as it was where anything fails.
        inputs: a batch named as transformers does, of what the graph is to take; None = made up.

    Raises:
        OutputError: packages that are not there, a path that cannot be written, or a model too large for one file.
        ModelError: a model that cannot be made a graph, or whose graph answers otherwise.
    """
    check_model(model, "export_onnx")
    path = Path(path).expanduser()
    _check(model, path)
    given = {k: v for k, v in example(model, inputs).items() if isinstance(v, Tensor)}
    answers = _Answers(model, tuple(given))
    with evaluating(model.module), torch.no_grad(), _quiet():
        wanted = answers(*given.values())
        program = _graph(model, answers, given)
        with replacing(path, "the ONNX file") as place:
            program.save(place, external_data=False)
            shapes, found = _run(model, place, given)
            off = _off(found, wanted)
            if not off <= _MOST_OFF:
                raise ModelError(
                    f"the graph of {model.name} answers otherwise than it does, {off:.1e} off; nothing is written"
                )
    return Exported(path, shapes, answers.output, off)


class _Answers(nn.Module):
    """A model that takes tensors in the order of some names, and gives its logits or hidden states alone."""

    def __init__(self, model: Model, names: tuple[str, ...]) -> None:
        super().__init__()
        self.module = model.module
        self.model = model
        self.names = names
        self.output = "last_hidden_state"

    def forward(self, *given: Tensor) -> Tensor:
        """The answer."""
        made = self.model.outputs(dict(zip(self.names, given, strict=True)))
        if isinstance(made, Tensor):
            return made
        logits = getattr(made, "logits", None)
        if logits is not None:
            self.output = "logits"
        found: Tensor = made.last_hidden_state if logits is None else logits
        return found


def _check(model: Model, path: Path) -> None:
    lacking = [name for name in _NEEDS if find_spec(name) is None]
    if lacking:
        raise OutputError(
            f"an ONNX file cannot be written without {', '.join(lacking)}; pip install 'headwise[onnx]'"
        )
    check_writable(path, "the ONNX file")
    size = sum(p.nbytes for p in model.module.parameters())
    if size > _MOST_BYTES:
        raise OutputError(
            f"{model.name} has {size / 1e9:.1f} GB of weights, and one ONNX file holds {_MOST_BYTES / 1e9:.0f}; "
            "load it with dtype='float16'"
        )


def _graph(model: Model, answers: _Answers, given: Mapping[str, Tensor]) -> Any:
    free = tuple(dict.fromkeys(range(x.dim()), torch.export.Dim.AUTO) for x in given.values())
    try:
        return torch.onnx.export(
            answers,
            tuple(given.values()),
            input_names=list(given),
            output_names=[answers.output],
            dynamic_shapes=(free,),
            dynamo=True,
            verbose=False,
        )
    except Exception as error:  # the exporter raises whatever a model's code made it meet
        raise ModelError(
            f"{model.name} cannot be written as ONNX: torch.onnx stops at {_cause(error)}"
        ) from error


def _cause(error: BaseException) -> str:
    """The first line of what an error came from."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0].strip() if lines else 'no word'}"


def _run(
    model: Model, path: Path, given: Mapping[str, Tensor]
) -> tuple[dict[str, tuple[int | str, ...]], Tensor]:
    """The shapes that the graph takes, and its answer."""
    import onnxruntime

    try:
        session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
        taken = {x.name: tuple(x.shape) for x in session.get_inputs()}
        (found,) = session.run(None, {name: given[name].cpu().numpy() for name in taken})
    except Exception as error:
        raise ModelError(
            f"the graph of {model.name} does not run: onnxruntime stops at {_cause(error)}"
        ) from error
    return taken, torch.from_numpy(found)


def _off(found: Tensor, wanted: Tensor) -> float:
    wanted = wanted.detach().cpu().float()
    if found.shape != wanted.shape:
        return float("inf")
    return float((found.float() - wanted).abs().max() / wanted.abs().max().clamp(min=1e-30))


@contextmanager
def _quiet() -> Iterator[None]:
    """Without what the exporter logs of packages that it does not need."""
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)
