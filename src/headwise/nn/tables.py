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
from dataclasses import replace
from fnmatch import fnmatchcase
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from headwise.names import ConfigError, ModelError
from headwise.nn.bare import empty
from headwise.nn.config import TransformerConfig
from headwise.nn.families.table import Family, Weight
from headwise.nn.fields import HfConfig, config_from, family_of, known_family
from headwise.nn.own import empty_own, is_own

__all__ = ["config_from", "empty", "family_of", "known_family", "load_checkpoint", "weight_files"]

Stored = Callable[[], Tensor]
"""Reads one stored tensor."""

_LAYER = re.compile(r"\bblocks\.(\d+)\.")


def load_checkpoint(
    folder: Path | str,
    device: torch.device | str | None = None,
    dtype: torch.dtype | None = None,
    *,
    config: HfConfig | None = None,
    prepare: Callable[[nn.Module], None] | None = None,
) -> nn.Module:
    """The model in a folder of transformers' form, or of our own, in our own blocks, in eval mode.

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
    own = is_own(hf_config)
    model = empty_own(hf_config) if own else empty(*_config_of(folder, hf_config))
    if prepare is not None:
        prepare(model)
    weights = _own_weights(folder, model) if own else _weights(folder, family_of(hf_config), model)
    placed = {name: tensor.to(device=device, dtype=dtype) for name, tensor in weights}
    model.load_state_dict(placed, assign=True)
    return model.eval()


def _config_of(folder: Path, hf_config: HfConfig) -> tuple[type[nn.Module], TransformerConfig]:
    """The class and configuration of a checkpoint; where its weights say what is tied, as they do."""
    kind, config = config_from(hf_config)
    family = family_of(hf_config)
    if not family.output:
        return kind, config
    _, names = source_of(family, "decoder.embedding.tokens.weight")
    with ExitStack() as files:
        theirs = _open_weights(folder, partial(clean, family=family), files)
        found = [theirs[name]() for name in (family.output, *names) if name in theirs]
    alone = len(found) == 2 and not torch.equal(*found)
    return kind, replace(config, tie_embeddings=not alone)


def _own_weights(folder: Path, model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The weights of a checkpoint in our own form, all of them and no others."""
    wanted = {name: list(tensor.shape) for name, tensor in model.state_dict().items()}
    with ExitStack() as files:
        held = {name: read() for name, read in _open_weights(folder, str, files).items()}
    came = {name: list(tensor.shape) for name, tensor in held.items()}
    for name in sorted({*wanted, *came}):
        if wanted.get(name) != came.get(name):
            has, asks = came.get(name, "nothing"), wanted.get(name, "nothing")
            raise ConfigError(
                f"the checkpoint has {has} for {name}, config.json asks for {asks}; "
                "the files do not belong together"
            )
    yield from held.items()


def _weights(folder: Path, family: Family, model: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Our weights, one by one, and then a check that nothing of theirs is left over."""
    with ExitStack() as files:
        theirs = _open_weights(folder, partial(clean, family=family), files)
        left = set(theirs)
        sources = {name for ours in model.state_dict() for name in source_of(family, ours)[1]}
        twins = _twins_in(family, model)
        dtype = torch.get_default_dtype()
        for ours, parameter in model.state_dict().items():
            weight, names = source_of(family, ours)
            if weight.optional and not any(name in theirs for name in names):
                yield ours, torch.zeros(parameter.shape, dtype=dtype)
                continue
            tensor = _gather(ours, weight, names, theirs)
            dtype = tensor.dtype
            copies = [name for name in twins.get(ours, ()) if name in left - sources]
            _check_twins(family, ours, tensor, {name: theirs[name] for name in copies})
            if tensor.shape != parameter.shape:
                raise ConfigError(
                    f"{' + '.join(names)} gives {list(tensor.shape)}, config.json asks for "
                    f"{list(parameter.shape)} ({ours}); the files do not belong together"
                )
            left.difference_update(names)
            yield ours, tensor
        _check_left_over(family, left, copies_in(family, model))


def _open_weights(folder: Path, named: Callable[[str], str], files: ExitStack) -> dict[str, Stored]:
    """The names of stored weights, as they are called here -> a function that reads the tensor."""
    theirs: dict[str, Stored] = {}
    for path in weight_files(folder):
        try:
            opened = files.enter_context(safe_open(path, framework="pt"))
        except (OSError, SafetensorError) as error:
            raise ModelError(
                f"{path} cannot be read as safetensors ({error}); get it again"
            ) from error
        for name in opened.keys():  # noqa: SIM118  (safe_open is no mapping)
            theirs[named(name)] = partial(opened.get_tensor, name)
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
    layer = _LAYER.search(ours)
    weight = family.weights.get(_LAYER.sub("blocks.{i}.", ours))
    if weight is None:
        raise ConfigError(f"{ours} has no place in the table of model_type={family.model_type!r}")
    return weight, [name.format(i=layer[1]) if layer else name for name in weight.names]


def _gather(ours: str, weight: Weight, names: list[str], theirs: Mapping[str, Stored]) -> Tensor:
    missing = [name for name in names if name not in theirs]
    if missing:
        raise ConfigError(f"the checkpoint lacks the weight {', '.join(missing)} (for {ours})")
    return weight.transform([theirs[name]() for name in names])


def _check_twins(family: Family, ours: str, tensor: Tensor, theirs: Mapping[str, Stored]) -> None:
    """Refuse what should be the same as a weight of ours and is not: the tie was undone."""
    for name, read in theirs.items():
        if not torch.equal(read().to(tensor.dtype), tensor):
            raise ConfigError(
                f"{name} is not the same as {family.weights[ours].names[0]}, and our blocks hold "
                "one for both; load it with transformers instead"
            )


def _twins_in(family: Family, model: nn.Module) -> Mapping[str, list[str]]:
    """The twins of each weight, without those that are copies only in a model with another weight."""
    held = model.state_dict().keys()
    others = {name for ours, names in family.copies.items() if ours not in held for name in names}
    return {
        ours: [name for name in names if name not in others]
        for ours, names in family.twins.items()
        if ours in held
    }


def copies_in(family: Family, model: nn.Module) -> tuple[str, ...]:
    """Patterns of stored weights that say again what a weight of the model says: ties."""
    config: Any = model.config
    tied = config.tie_embeddings and "unembed.weight" in family.weights
    held = model.state_dict().keys()
    copies = [name for ours, names in family.copies.items() if ours in held for name in names]
    copies += [name for names in _twins_in(family, model).values() for name in names]
    copies += [family.output] if config.tie_embeddings and family.output else []
    return (*copies, *(family.weights["unembed.weight"].names if tied else ()))


def _check_left_over(family: Family, left: set[str], copies: tuple[str, ...]) -> None:
    unused = (*family.unused, *copies)
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
