"""Save a model as a folder that transformers reads, or that `headwise.load` reads where it was cut unevenly."""

from __future__ import annotations

import errno
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from safetensors import SafetensorError
from torch import Tensor, nn

from headwise.cut.saving.beside import write_beside
from headwise.cut.saving.forms import form_of
from headwise.files import check_folder, replacing_folder
from headwise.hub.load import Model
from headwise.names import ModelError, OutputError
from headwise.see.texts.refusing import check_model

__all__ = ["Saved", "save"]

_WEIGHTS = ("*.safetensors", "*.safetensors.index.json", "*.bin", "*.bin.index.json")
"""What an old checkpoint may hold that the new one does not."""


@dataclass(frozen=True)
class Saved:
    """A model on disk.

    Attributes:
        folder: where it is.
        why: it takes `headwise.load` to read it; "" where transformers' from_pretrained does.
    """

    folder: Path
    why: str

    @property
    def plain(self) -> bool:
        """Whether transformers reads it with nothing of ours installed."""
        return not self.why


def save(model: Model, folder: str | Path, *, max_shard_size: int | str = "5GB") -> Saved:
    """Save a model, cut or not: config.json, *.safetensors, and its tokenizer's files.

    Args:
        model: from `load`.
        folder: where it goes; made where it is not there. An old checkpoint is replaced when all is written, and
            stays as it was where that fails; a folder that holds anything else is left alone.
        max_shard_size: of a file of weights, in bytes or as transformers writes it ("5GB").

    Raises:
        ModelError: a module that cannot be built again.
        OutputError: a folder that cannot be written, and why.
    """
    check_model(model, "save")
    folder = Path(folder).expanduser()
    _check_place(folder)
    form = form_of(model)
    state = _state(model.module)
    _check_built(form.build(), state, model.name)
    with replacing_folder(folder, "the model", _WEIGHTS) as place, _disk_errors():
        write_beside(model, place)
        form.write(place, state, max_shard_size)
    return Saved(folder, form.why)


def _check_place(folder: Path) -> None:
    """Refuse, before any work, a folder that is no checkpoint's."""
    check_folder(folder, "the model")
    if (folder / "config.json").exists() and not any(any(folder.glob(x)) for x in _WEIGHTS):
        raise OutputError(
            f"the model cannot be written to {folder}: it holds a config.json and no weights, so it is no "
            "checkpoint's; choose another path"
        )


def _state(module: nn.Module) -> dict[str, Tensor]:
    return {name: tensor.detach() for name, tensor in module.state_dict().items()}


def _check_built(built: nn.Module, state: Mapping[str, Tensor], name: str) -> None:
    """Refuse a module whose weights are not those that its config says."""
    wanted = {weight: list(tensor.shape) for weight, tensor in built.state_dict().items()}
    came = {weight: list(tensor.shape) for weight, tensor in state.items()}
    for weight in sorted({*wanted, *came}):
        if wanted.get(weight) != came.get(weight):
            has, asks = came.get(weight, "nothing"), wanted.get(weight, "nothing")
            raise ModelError(
                f"{name} cannot be saved so that it loads again: {weight} is {has}, and its config makes it "
                f"{asks}; change a model's shapes with headwise.prune or headwise.regroup alone"
            )


@contextmanager
def _disk_errors() -> Iterator[None]:
    """safetensors has an error of its own for a full disk and the like."""
    try:
        yield
    except SafetensorError as error:
        full = "No space left" in str(error)
        line = str(error).strip().splitlines()[0]
        raise OSError(
            errno.ENOSPC if full else errno.EIO, "No space left on device" if full else line
        ) from error
