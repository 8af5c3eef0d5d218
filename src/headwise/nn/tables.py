"""Checkpoints into our own blocks, by the tables in `headwise.nn.families`.

    model = load_checkpoint(Path("folder with config.json and *.safetensors"))

A config field or a weight that no table knows is an error by name, and so is a weight that is
missing: a model that loads here computes what the checkpoint's authors meant. transformers is not
imported.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from headwise.names import ConfigError, ModelError
from headwise.nn.config import TransformerConfig
from headwise.nn.families import FAMILIES
from headwise.nn.families.table import HARMLESS, REQUIRED, Family, Field, Weight

__all__ = ["config_from", "known_family", "load_checkpoint"]

HfConfig = Mapping[str, Any]
Stored = Callable[[], Tensor]
"""Reads one stored tensor."""

_LAYER = re.compile(r"^blocks\.(\d+)\.")


def known_family(hf_config: HfConfig) -> bool:
    """Is there a table for this config.json's model_type?"""
    return hf_config.get("model_type") in FAMILIES


def config_from(hf_config: HfConfig) -> tuple[type[nn.Module], TransformerConfig]:
    """Our class and configuration for a config.json of transformers (4 or 5).

    Raises:
        ConfigError: a family, a field or a value that no table knows, by name.
    """
    family = family_of(hf_config)
    given = dict(_flat(hf_config, family))
    read = {name for source in family.fields.values() for name in source.names}
    for name, value in given.items():
        _check_field(family, name, value, read)
    values = {ours: _value(family, source, given) for ours, source in family.fields.items()}
    return family.model, TransformerConfig(**values, **family.fixed)


def load_checkpoint(
    folder: Path | str,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
    *,
    config: HfConfig | None = None,
    prepare: Callable[[nn.Module], None] | None = None,
) -> nn.Module:
    """The model in a folder of transformers' form, in our own blocks, in eval mode.

    Args:
        folder: holds config.json and *.safetensors, in one file or several with their index.
        device: where to put it; None = the CPU.
        dtype: of the weights; None = as they are stored.
        config: what config.json says, where that is not to be read as it stands.
        prepare: makes the model that was built, without weights yet, what the weights are of.

    Raises:
        ConfigError: a field or weight unknown, missing or of the wrong shape.
        ModelError: files that are not there or cannot be read.
    """
    folder = Path(folder)
    hf_config = _read_json(folder / "config.json") if config is None else config
    model_class, ours = config_from(hf_config)
    model = empty(model_class, ours)
    if prepare is not None:
        prepare(model)
    weights = _read_weights(folder, family_of(hf_config), model, ours.tie_embeddings)
    placed = {name: tensor.to(device=device, dtype=dtype) for name, tensor in weights}
    model.load_state_dict(placed, assign=True)
    return model.eval()


def empty(model_class: Callable[..., nn.Module], config: Any, **further: Any) -> nn.Module:
    """A model without weights, on the meta device: what its class makes of a configuration."""
    with torch.device("meta"), _NoStart():
        return model_class(config, **further)


def family_of(hf_config: HfConfig) -> Family:
    """The table of a config.json's model_type.

    Raises:
        ConfigError: there is none.
    """
    model_type = hf_config.get("model_type")
    if model_type not in FAMILIES:
        raise ConfigError(
            f"model_type={model_type!r} has no table in headwise.nn; known are "
            f"{', '.join(FAMILIES)} (other models of transformers load with headwise.load)"
        )
    return FAMILIES[model_type]


class _NoStart(TorchFunctionMode):
    """Leaves out every filling in place: on the meta device it would fill nothing, slowly."""

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name = getattr(func, "__name__", "")
        if name.endswith("_") and not name.endswith("__"):
            return args[0] if args else kwargs["tensor"]
        return func(*args, **kwargs)


# ---- configuration


def _flat(hf_config: HfConfig, family: Family) -> Iterator[tuple[str, Any]]:
    """The fields that matter, nested tables opened up: rope_parameters.rope_theta."""
    for name, value in hf_config.items():
        if name in HARMLESS or name in family.harmless:
            continue
        if isinstance(value, Mapping):
            yield from ((f"{name}.{inner}", below) for inner, below in value.items())
        else:
            yield name, value


def _check_field(family: Family, name: str, value: Any, read: set[str]) -> None:
    if name in family.allowed:
        if value not in family.allowed[name]:
            known = " or ".join(map(repr, family.allowed[name]))
            raise ConfigError(
                f"{name}={value!r} is not supported for model_type={family.model_type!r}, "
                f"only {known}; load it with transformers instead"
            )
    elif name not in read:
        raise ConfigError(
            f"config field {name}={value!r} is not known for model_type={family.model_type!r}; "
            "if it changes nothing, take it out of config.json, else load it with transformers"
        )


def _value(family: Family, source: Field, given: Mapping[str, Any]) -> Any:
    """What the checkpoint says for one field of ours, in our words."""
    found = {name: given[name] for name in source.names if given.get(name) is not None}
    if len(set(map(repr, found.values()))) > 1:
        said = ", ".join(f"{name}={value!r}" for name, value in found.items())
        raise ConfigError(f"config.json contradicts itself: {said}; leave the right one")
    if not found:
        if source.default is REQUIRED:
            raise ConfigError(
                f"config.json lacks {source.names[0]}, which model_type={family.model_type!r} needs"
            )
        return source.default
    name, value = next(iter(found.items()))
    if source.values is None:
        return value
    if value not in source.values:
        raise ConfigError(
            f"{name}={value!r} is not supported for model_type={family.model_type!r}; "
            f"known are {', '.join(source.values)}"
        )
    return source.values[value]


# ---- weights


def _read_weights(
    folder: Path, family: Family, model: nn.Module, tied: bool
) -> Iterator[tuple[str, Tensor]]:
    """Our weights, one by one, and then a check that nothing of theirs is left over."""
    with ExitStack() as files:
        theirs = _open_weights(folder, family, files)
        left = set(theirs)
        for ours, parameter in model.state_dict().items():
            weight, names = source_of(family, ours)
            tensor = _gather(ours, weight, names, theirs)
            if tensor.shape != parameter.shape:
                raise ConfigError(
                    f"{' + '.join(names)} gives {list(tensor.shape)}, config.json asks for "
                    f"{list(parameter.shape)} ({ours}); the files do not belong together"
                )
            left.difference_update(names)
            yield ours, tensor
        _check_left_over(family, left, tied)


def _open_weights(folder: Path, family: Family, files: ExitStack) -> dict[str, Stored]:
    """Their weight names, without the family's prefix -> a function that reads the tensor."""
    theirs: dict[str, Stored] = {}
    for path in weight_files(folder):
        try:
            opened = files.enter_context(safe_open(path, framework="pt"))
        except (OSError, SafetensorError) as error:
            raise ModelError(
                f"{path} cannot be read as safetensors ({error}); get it again"
            ) from error
        for name in opened.keys():  # noqa: SIM118  (safe_open is no mapping)
            theirs[clean(name, family)] = partial(opened.get_tensor, name)
    return theirs


def weight_files(folder: Path) -> list[Path]:
    """The *.safetensors files of a checkpoint.

    Raises:
        ModelError: there is none.
    """
    index = folder / "model.safetensors.index.json"
    if index.exists():
        names = sorted(set(_read_json(index)["weight_map"].values()))
        return [folder / name for name in names]
    single = folder / "model.safetensors"
    found = [single] if single.exists() else sorted(folder.glob("*.safetensors"))
    if not found:
        raise ModelError(
            f"{folder} holds no *.safetensors file; save the model with save_pretrained"
        )
    return found


def clean(name: str, family: Family) -> str:
    """Their name without the prefix some classes add, old endings brought up to date."""
    name = name.removeprefix(family.prefix)
    for old, new in family.old_endings.items():
        if name.endswith(old):
            return name.removesuffix(old) + new
    return name


def source_of(family: Family, ours: str) -> tuple[Weight, list[str]]:
    """The table's line for a weight of ours, and their names for this layer."""
    layer = _LAYER.match(ours)
    weight = family.weights.get(_LAYER.sub("blocks.{i}.", ours))
    if weight is None:
        raise ConfigError(f"{ours} has no place in the table of model_type={family.model_type!r}")
    return weight, [name.format(i=layer[1]) if layer else name for name in weight.names]


def _gather(ours: str, weight: Weight, names: list[str], theirs: Mapping[str, Stored]) -> Tensor:
    missing = [name for name in names if name not in theirs]
    if missing:
        raise ConfigError(f"the checkpoint lacks the weight {', '.join(missing)} (for {ours})")
    return weight.transform([theirs[name]() for name in names])


def _check_left_over(family: Family, left: set[str], tied: bool) -> None:
    unused = list(family.unused)
    if tied and "unembed.weight" in family.weights:  # a copy that the tie makes needless
        unused += family.weights["unembed.weight"].names
    unknown = sorted(name for name in left if not any(fnmatchcase(name, p) for p in unused))
    if unknown:
        more = f" and {len(unknown) - 5} more" if len(unknown) > 5 else ""
        raise ConfigError(
            f"the checkpoint has weights that are not known for model_type={family.model_type!r}: "
            f"{', '.join(unknown[:5])}{more}; load it with transformers instead"
        )


def _read_json(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelError(f"{path} is not there; a model folder holds config.json") from error
    except ValueError as error:
        raise ModelError(f"{path} is not JSON ({error})") from error
    if not isinstance(content, dict):
        raise ModelError(f"{path} holds no table of fields")
    return content
