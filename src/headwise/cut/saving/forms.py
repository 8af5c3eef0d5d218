"""In which form a model is stored: what its config.json says, what is built from it, how weights are written."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from headwise.cut.saving.weights import write_json, write_weights
from headwise.hub.load import Model
from headwise.hub.own import OWN, config_of, empty_own
from headwise.hub.reading import hushed
from headwise.hub.report import say
from headwise.names import ModelError
from headwise.nn import known_family
from headwise.nn.stored import left_out, stored
from headwise.nn.tables import config_from, empty

__all__ = ["Form", "form_of"]


def form_of(model: Model) -> Form:
    """The form in which a model is stored.

    Raises:
        ModelError: a module that cannot be built again.
    """
    module = model.module
    if model.foreign and hasattr(module, "save_pretrained"):
        return InTransformers(module, copy.deepcopy(module.config))
    if type(module) in OWN.values():
        config = model.config
        if config is not None and known_family(config):
            return InFamily(module, dict(config), model.folder, model.name)
        return InOwnWords(config_of(module))
    raise ModelError(
        f"{model.name} is a {type(module).__name__}, which no config.json can build again; keep its "
        "weights with torch.save(model.module.state_dict(), path) and build it in your own code"
    )


@dataclass(frozen=True, eq=False)
class InTransformers:
    """A model in a class of transformers, which writes itself."""

    module: Any
    config: Any
    why = ""

    def build(self) -> nn.Module:
        """The class from the config, without weights."""
        built: nn.Module = empty(type(self.module), self.config)
        return built

    def write(self, folder: Path, state: Mapping[str, Tensor], max_shard_size: int | str) -> None:
        """As save_pretrained does, with tied weights, the class's own names and the way to generate."""
        before = self.module.config
        self.module.config = self.config  # save_pretrained notes the class and the dtype on it
        try:
            with hushed():
                self.module.save_pretrained(
                    folder, state_dict=dict(state), max_shard_size=max_shard_size
                )
        finally:
            self.module.config = before


@dataclass(frozen=True, eq=False)
class InFamily:
    """A model of a family of transformers in our blocks: written by transformers' names."""

    module: nn.Module
    config: dict[str, Any]
    folder: Path | None
    name: str
    why = ""

    def build(self) -> nn.Module:
        """Our blocks, without weights."""
        return empty(*config_from(self.config))

    def write(self, folder: Path, state: Mapping[str, Tensor], max_shard_size: int | str) -> None:
        """With the weights that our blocks leave out (a pooler), where they can still be read."""
        config = with_dtype(self.config, state)
        weights = stored(self.module, self.config, state)
        dtype = next(iter(weights.values())).dtype
        for name, tensor in self._left_out().items():
            weights[name] = tensor.to(dtype) if tensor.is_floating_point() else tensor
        write_json(folder / "config.json", config)
        write_weights(folder, weights, max_shard_size)

    def _left_out(self) -> dict[str, Tensor]:
        if self.folder is None:
            return {}
        try:
            return left_out(self.folder, self.config)
        except (OSError, ModelError):
            say(
                f"{self.name}: {self.folder} is gone, and with it what our blocks do not run",
                quiet=False,
            )
            return {}


@dataclass(frozen=True, eq=False)
class InOwnWords:
    """A model of our blocks that came from no checkpoint: its TransformerConfig is written."""

    config: dict[str, Any]
    why = "it is of headwise's own blocks, and of no family of transformers"

    def build(self) -> nn.Module:
        """Our blocks, without weights."""
        return empty_own(self.config)

    def write(self, folder: Path, state: Mapping[str, Tensor], max_shard_size: int | str) -> None:
        """By our own names."""
        write_json(folder / "config.json", self.config)
        write_weights(folder, dict(state), max_shard_size)


Form = InTransformers | InFamily | InOwnWords
"""How a model is stored: `config`, what `build` makes of it without weights, how to `write` it; `why` is why
transformers cannot read it even uncut ("" where it can)."""


def with_dtype(config: Mapping[str, Any], state: Mapping[str, Tensor]) -> dict[str, Any]:
    """A config that says the dtype of the weights, where it says one."""
    dtype = str(next(x for x in state.values() if x.is_floating_point()).dtype)
    said = {name for name in ("dtype", "torch_dtype") if config.get(name) is not None}
    return {**config, **dict.fromkeys(said, dtype.removeprefix("torch."))}
