"""A model from its configuration alone: its modules on the meta device, without weights or memory."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import nn

from headwise.hub.catalogue import CATALOGUE
from headwise.hub.get import get
from headwise.hub.load import Model, load
from headwise.hub.reading import hushed, prepared, read_config
from headwise.hub.remote import config_of_hub
from headwise.names import ConfigError, HeadwiseError, ModelError
from headwise.nn import Decoder, EncoderDecoder, TransformerConfig, config_from, known_family
from headwise.nn.bare import empty
from headwise.nn.fields import family_of
from headwise.nn.own import empty_own, is_own

__all__ = [
    "Asked",
    "built",
    "dtype_said",
    "fields_of",
    "model_of",
    "parsed",
    "runs_in_our_blocks",
    "wrapped",
]

Asked = Any
"""A Model, a module, a configuration of ours or of transformers, its fields, or a name or path of one."""

_JUNK = ("_", "transformers_version", "torch_dtype", "auto_map", "task_specific_params")


def model_of(asked: Asked, quiet: bool = True) -> tuple[Model, str]:
    """The model that is asked for, without weights where it is not one already, and its dtype.

    Raises:
        ModelError: nothing of that name, or a model that cannot be looked into.
        ConfigError: a configuration that cannot be.
    """
    if isinstance(asked, Model):
        return asked, _dtype_of(asked.module)
    if isinstance(asked, nn.Module):
        return load(asked, quiet=quiet), _dtype_of(asked)
    if isinstance(asked, TransformerConfig):
        return wrapped(empty(_class_of(asked), asked), "TransformerConfig"), "float32"
    if isinstance(asked, str | Path | Mapping):
        name, said, folder = fields_of(asked, quiet)
        module = _of_fields(name, said)
        return wrapped(module, name), dtype_said(said, folder)
    if hasattr(asked, "to_dict") and hasattr(asked, "model_type"):
        said = asked.to_dict()
        return wrapped(built(asked), said["model_type"]), dtype_said(said, None)
    raise ModelError(
        f"ledger takes a model, a configuration, or a name or path of one, came {type(asked).__name__}"
    )


def fields_of(asked: str | Path | Mapping[str, Any], quiet: bool = True) -> Any:
    """The name of a configuration, its fields, and the folder with its weights (None = there is none).

    Raises:
        ModelError: nothing of that name, or a file that holds no configuration.
    """
    if isinstance(asked, Mapping):
        return str(asked.get("model_type", "config")), dict(asked), None
    name, path = str(asked), Path(asked).expanduser()
    if isinstance(asked, str) and name.strip().lower() in CATALOGUE:
        folder = get(asked, quiet=quiet)
        return name.strip().lower(), read_config(folder), folder
    if path.is_file() and path.suffix != ".gguf":
        return (
            path.stem if path.stem != "config" else path.parent.name or name,
            _of_file(path),
            None,
        )
    if path.is_dir() and (path / "config.json").is_file():
        return name, read_config(path), path
    if path.exists() or path.suffix in (".gguf", ".json") or isinstance(asked, Path):
        if path.suffix == ".json" and not path.exists():
            raise ModelError(
                f"there is no file {name!r}; pass a config.json, a folder or a model's name"
            )
        folder = get(asked, quiet=quiet)
        return name, read_config(folder), folder
    return name, config_of_hub(name), None


def _of_file(path: Path) -> dict[str, Any]:
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ModelError(f"{path} cannot be read as a configuration: {error}") from None
    if not text.strip():
        raise ModelError(f"{path} is empty; it should hold the fields of a config.json")
    try:
        said = json.loads(text)
    except ValueError as error:
        raise ModelError(f"{path} is not JSON: {error}") from None
    if not isinstance(said, dict) or not ("model_type" in said or "class" in said):
        raise ModelError(
            f"{path} is no model configuration: it should be a table of fields, with model_type among them"
        )
    return {"model_type": "headwise", **said} if "model_type" not in said else said


def _of_fields(name: str, said: Mapping[str, Any]) -> nn.Module:
    config, prepare = prepared(said)
    cut = None if prepare is None else prepare.cut
    if is_own(config):
        module = empty_own(config)
    elif runs_in_our_blocks(config) and (prepare is None or prepare.own is not False):
        module = empty(*config_from(config))
    else:
        module = built(parsed(name, config))
    if cut is not None:
        cut(module)
    return module


def runs_in_our_blocks(config: Mapping[str, Any]) -> bool:
    """Whether `load` would run it in our blocks."""
    if not known_family(config) or issubclass(family_of(config).model, EncoderDecoder):
        return False
    try:
        config_from(config)
    except ConfigError as error:
        if "is not known" in str(error) and "did you mean" in str(error):
            raise  # a slip of the pen
        return False
    return True


def parsed(name: str, said: Mapping[str, Any]) -> Any:
    """The fields as a configuration of transformers."""
    import transformers

    kind: Any = said.get("model_type")
    configurations: Any = transformers.models.auto.configuration_auto
    known = configurations.CONFIG_MAPPING_NAMES
    if kind not in known:
        near = get_close_matches(str(kind), list(known), n=1)
        hint = f"did you mean {near[0]!r}?" if near else "give one that transformers has"
        raise ConfigError(f"model_type={kind!r} of {name} is not known to transformers; {hint}")
    given = {k: v for k, v in said.items() if k != "model_type"}
    try:
        with hushed():
            cls = type(transformers.AutoConfig.for_model(kind))
            _check_fields(cls, given)
            return cls.from_dict(given)
    except HeadwiseError:
        raise
    except Exception as error:  # a config class raises whatever a value made it meet
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        raise ConfigError(f"the configuration of {name} cannot be: {' '.join(lines[:2])}") from None


def _check_fields(cls: Any, given: Mapping[str, Any]) -> None:
    """Refuse a field that no configuration of this class has, where it is nearly the name of one."""
    if not is_dataclass(cls):
        return
    turned: Any = cls
    known = {field.name for field in fields(cls)} | set(turned.attribute_map)
    for name in given:
        if name in known or name.startswith(_JUNK):
            continue
        near = get_close_matches(name, known, n=1, cutoff=0.85)
        if near:
            raise ConfigError(f"config field {name} is not known; did you mean {near[0]}?")


def built(config: Any) -> nn.Module:
    """The class that a configuration names, or that it is most often used with, on the meta device."""
    import transformers

    auto = transformers.models.auto.modeling_auto
    names = getattr(config, "architectures", None) or []
    cls: Any = getattr(transformers, names[0], None) if names else None
    masked = config.model_type in auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    if cls is None and config.model_type in auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and not masked:
        cls = transformers.AutoModelForCausalLM
    if cls is None and config.is_encoder_decoder:
        seq2seq = config.model_type in auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES
        cls = transformers.AutoModelForSeq2SeqLM if seq2seq else None
    cls = cls or transformers.AutoModel
    build = getattr(cls, "_from_config", None) or cls.from_config
    try:
        with hushed(), torch.device("meta"):
            module: nn.Module = build(config, dtype=torch.float32)
    except Exception as error:  # a class raises whatever a configuration made it meet
        line = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ConfigError(
            f"no {config.model_type} can be built of this configuration: {line}"
        ) from None
    return module


def _class_of(config: TransformerConfig) -> type[nn.Module]:
    both = (
        config.features or config.share_embeddings or config.num_decoder_layers != config.num_layers
    )
    return EncoderDecoder if both else Decoder


def wrapped(module: nn.Module, name: str) -> Model:
    """A module without weights as a model of this name."""
    model = load(module.eval(), quiet=True)
    return Model(name, model.module, None, model.foreign, model.max_length)


def dtype_said(said: Mapping[str, Any], folder: Path | None) -> str:
    """The dtype that weights have in a folder, or that a configuration says."""
    dtype = said.get("dtype") or said.get("torch_dtype") or "float32"
    return _stored_dtype(folder) or str(dtype).removeprefix("torch.")


def _stored_dtype(folder: Path | None) -> str | None:
    """The dtype of most weights that a folder holds; None where none can be told."""
    files = [] if folder is None else sorted(folder.glob("*.safetensors"))
    if not files:
        return None
    with safe_open(files[0], framework="pt") as held:
        kinds = [held.get_slice(name).get_dtype() for name in held.keys()]  # noqa: SIM118
    names = {"F32": "float32", "BF16": "bfloat16", "F16": "float16", "F64": "float64"}
    found = [names[kind] for kind in kinds if kind in names]
    return max(set(found), key=found.count) if found else None


def _dtype_of(module: nn.Module) -> str:
    weights = (p for p in module.parameters() if p.is_floating_point())
    first = next(weights, None)
    return "float32" if first is None else str(first.dtype).removeprefix("torch.")
