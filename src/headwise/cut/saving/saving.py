"""Save a model as a folder that transformers reads, or that `headwise.load` reads where it was cut unevenly."""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from glob import escape
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from headwise.cut.pruning.record import Cut, apply_cut, cut_of
from headwise.cut.saving.beside import write_beside
from headwise.cut.saving.field import FIELD, field_of
from headwise.cut.saving.forms import Form, form_of
from headwise.cut.saving.plain import in_plain_words
from headwise.files import check_folder, replacing_folder
from headwise.hub.load import Model
from headwise.hub.shards import of_ours
from headwise.names import ModelError, OutputError
from headwise.nn.writing import disk_errors, write_json
from headwise.see.texts.refusing import check_model

__all__ = ["Saved", "save"]

_WEIGHTS = (
    *("model.safetensors", "model-[0-9]*-of-[0-9]*.safetensors", "model.safetensors.index.json"),
    *("pytorch_model.bin", "pytorch_model-[0-9]*-of-[0-9]*.bin", "pytorch_model.bin.index.json"),
)
"""How transformers calls the weights of a model; others (of adapters, optimizers) are not the model's."""

_TEXT = (
    *("tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json"),
    *("vocab.json", "vocab.txt", "merges.txt", "spiece.model", "sentencepiece.bpe.model"),
    *("tokenizer.model", "chat_template.jinja", "generation_config.json"),
)
"""How transformers calls the files of a tokenizer, and how a model generates."""


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
            stays as it was where that fails; a folder that holds anything else (notes, an optimizer's state, an
            adapter) is left alone.
        max_shard_size: of a file of weights, in bytes or as transformers writes it ("5GB").

    Raises:
        ModelError: a module that cannot be built again.
        OutputError: a folder that cannot be written, and why.
    """
    check_model(model, "save")
    folder = Path(folder).expanduser()
    _check_place(folder)
    stated = _stated(model)
    with replacing_folder(folder, "the model", _old(folder)) as place, disk_errors():
        write_beside(model, place)
        stated.form.write(place, stated.weights, max_shard_size)
        if stated.cut is not None:
            _add_field(place / "config.json", field_of(stated.cut, model.module))
    return Saved(folder, stated.why)


@dataclass(frozen=True, eq=False)
class _Stated:
    """What is written: the form, its weights, what config.json says of the cut, why headwise must read it."""

    form: Form
    weights: Mapping[str, Tensor]
    cut: Cut | None
    why: str


def _stated(model: Model) -> _Stated:
    module, cut = model.module, cut_of(model.module)
    if any(of_ours(part) for part in module.modules()):
        raise ModelError(
            f"{model.name} is split over processes; save one that is not, which took "
            "headwise.nn.parallel.full_state(module) with load_state_dict"
        )
    form = form_of(model)
    weights = {name: tensor.detach() for name, tensor in module.state_dict().items()}
    if cut is None:
        _check_built(form.build(), weights, model.name)
        return _Stated(form, weights, None, form.why)
    plain = in_plain_words(form, model, cut)
    if not isinstance(plain, str):
        said, zeros = plain
        return _Stated(said, {**weights, **zeros}, Cut(cut.kept, {}, {}), said.why)
    built = form.build()
    apply_cut(built, cut)
    _check_built(built, weights, model.name)
    return _Stated(form, weights, cut, form.why or plain)


def _old(folder: Path) -> tuple[str, ...]:
    """Patterns of what an old checkpoint may hold that the new one does not: names of its own, or in its index."""
    named: set[str] = set()
    for index in folder.glob("*.index.json"):
        with suppress(OSError, ValueError, TypeError, KeyError, AttributeError):
            held = json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()
            named |= {x for x in map(str, held) if x.endswith((".safetensors", ".bin"))}
    return (*_WEIGHTS, *_TEXT, *(escape(name) for name in sorted(named)))


def _add_field(path: Path, field: dict[str, Any]) -> None:
    said = json.loads(path.read_text(encoding="utf-8"))
    write_json(path, {**said, FIELD: field})


def _check_place(folder: Path) -> None:
    """Refuse, before any work, a folder that is no checkpoint's."""
    check_folder(folder, "the model")
    if (folder / "config.json").exists() and not any(any(folder.glob(x)) for x in _WEIGHTS):
        raise OutputError(
            f"the model cannot be written to {folder}: it holds a config.json and no weights, so it is no "
            "checkpoint's; choose another path"
        )


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
