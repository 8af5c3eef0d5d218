"""In which form a model is stored: what its config.json says, what is built from it, how weights are written."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from headwise.hub.load import Model
from headwise.hub.reading import hushed
from headwise.hub.report import say
from headwise.names import ModelError
from headwise.nn import known_family
from headwise.nn.bare import empty
from headwise.nn.families.table import Derived, Field
from headwise.nn.fields import config_from, family_of
from headwise.nn.own import OWN, empty_own
from headwise.nn.saving import checkpoint_config
from headwise.nn.stored import left_out, stored
from headwise.nn.writing import write_json, write_shards

__all__ = ["Form", "Heads", "form_of"]


def form_of(model: Model) -> Form:
    """The form in which a model is stored.

    Raises:
        ModelError: a module that cannot be built again.
    """
    module = model.module
    if model.foreign and hasattr(module, "save_pretrained"):
        import transformers

        if getattr(transformers, type(module).__name__, None) is not type(module):
            raise ModelError(
                f"{model.name} is a {type(module).__name__}, which is no class of transformers itself, so no "
                "headwise.load builds it again; save it with its own save_pretrained"
            )
        return InTransformers(module, copy.deepcopy(module.config))
    if type(module) in OWN.values():
        read = model.config
        if read is not None and known_family(read):
            return InFamily(module, dict(read), model.folder, model.name)
        said = checkpoint_config(module)
        return InFamily(module, said, None, model.name) if known_family(said) else InOwnWords(said)
    raise ModelError(
        f"{model.name} is a {type(module).__name__}, which no config.json can build again; keep its "
        "weights with torch.save(model.module.state_dict(), path) and build it in your own code"
    )


@dataclass(frozen=True)
class Heads:
    """How many heads every layer has, and their size; None = what the config says."""

    num_heads: int | None
    num_kv_heads: int | None
    head_dim: int | None

    def in_our_words(self, biases: bool) -> dict[str, Any]:
        """As fields of a TransformerConfig."""
        said = {name: value for name, value in vars(self).items() if value is not None}
        return {**said, "attention_bias": True, "attention_out_bias": True} if biases else said

    def in_theirs(self, biases: bool) -> dict[str, Any]:
        """In transformers' words, for which a config may have others (attribute_map)."""
        ours = self.in_our_words(biases)
        return {theirs: ours[name] for name, theirs in _THEIRS.items() if name in ours}


_THEIRS = {
    "num_heads": "num_attention_heads",
    "num_kv_heads": "num_key_value_heads",
    "head_dim": "head_dim",
    "attention_bias": "attention_bias",
}


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

    def with_heads(self, heads: Heads, biases: bool) -> InTransformers | None:
        """The form of a model with other numbers of heads; None where the config has no field for them."""
        config = copy.deepcopy(self.config)
        of_text = config.get_text_config()
        try:
            for name, value in heads.in_theirs(biases).items():
                setattr(of_text, name, value)
        except (AttributeError, ValueError, TypeError):  # a number that is made of others
            return None
        return InTransformers(self.module, config)

    def refused(self) -> str:
        """What transformers says against the config when it reads it; "" where nothing."""
        return _line_of(lambda: type(self.config).from_dict(self.config.to_dict()))

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


def _said_by(source: Field | Derived) -> tuple[str, ...]:
    """Their fields that say one of ours: a number of heads that both stacks have is said for each."""
    return source.names if isinstance(source, Derived) else source.names[:1]


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

    def with_heads(self, heads: Heads, biases: bool) -> InFamily | None:
        """The form of a model with other numbers of heads; None where the family has no field for them."""
        fields = family_of(self.config).fields
        said = {
            name: value
            for ours, value in heads.in_our_words(biases).items()
            if ours in fields
            for name in _said_by(fields[ours])
        }
        return replace(self, config={**self.config, **said})

    def refused(self) -> str:
        """What transformers says against the config when it reads it; "" where nothing."""
        from transformers import AutoConfig

        return _line_of(lambda: AutoConfig.for_model(**self.config))

    def write(self, folder: Path, state: Mapping[str, Tensor], max_shard_size: int | str) -> None:
        """With the weights that our blocks leave out (a pooler), where they can still be read."""
        config = with_dtype(self.config, state)
        weights = stored(self.module, self.config, state)
        dtype = next(iter(weights.values())).dtype
        for name, tensor in self._left_out().items():
            weights[name] = tensor.to(dtype) if tensor.is_floating_point() else tensor
        write_json(folder / "config.json", config)
        write_shards(folder, weights, max_shard_size)

    def _left_out(self) -> dict[str, Tensor]:
        if self.folder is None:
            return {}
        try:
            return left_out(self.folder, self.config, self.module)
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

    def with_heads(self, heads: Heads, biases: bool) -> InOwnWords | None:
        """The form of a model with other numbers of heads; None where a bias goes by which heads there were."""
        if self.config["positions"] == "alibi":
            return None
        return InOwnWords({**self.config, **heads.in_our_words(biases)})

    def refused(self) -> str:
        """Nothing: transformers does not read it."""
        return ""

    def write(self, folder: Path, state: Mapping[str, Tensor], max_shard_size: int | str) -> None:
        """By our own names."""
        write_json(folder / "config.json", self.config)
        write_shards(folder, dict(state), max_shard_size)


Form = InTransformers | InFamily | InOwnWords
"""How a model is stored: `config`, what `build` makes of it without weights, how to `write` it; `why` is why
transformers cannot read it even uncut ("" where it can)."""


def _line_of(read: Callable[[], Any]) -> str:
    """The line of what is raised; "" where nothing is."""
    try:
        with hushed():
            read()
    except Exception as error:  # a validator's, of whatever class
        return (str(error).strip().splitlines() or [type(error).__name__])[-1].strip()
    return ""


def with_dtype(config: Mapping[str, Any], state: Mapping[str, Tensor]) -> dict[str, Any]:
    """A config that says the dtype of the weights, where it says one."""
    dtype = str(next(x for x in state.values() if x.is_floating_point()).dtype)
    said = {name for name in ("dtype", "torch_dtype") if config.get(name) is not None}
    return {**config, **dict.fromkeys(said, dtype.removeprefix("torch."))}
