"""Models of our own blocks that came from no checkpoint: their TransformerConfig as a config.json, and back.

{"model_type": "headwise", "class": "Decoder", "vocab_size": 100, ...}
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from headwise.names import ConfigError, ModelError
from headwise.nn import Decoder, Encoder, EncoderDecoder, TransformerConfig
from headwise.nn.tables import empty, weight_files

__all__ = ["OWN", "config_of", "empty_own", "is_own", "load_own"]

OWN: dict[str, type[nn.Module]] = {
    "Encoder": Encoder,
    "Decoder": Decoder,
    "EncoderDecoder": EncoderDecoder,
}
"""The classes that a config.json can name."""

_TYPE = "headwise"


def is_own(config: Mapping[str, Any]) -> bool:
    """Whether a config.json is of a model of our own blocks."""
    return config.get("model_type") == _TYPE


def config_of(module: nn.Module) -> dict[str, Any]:
    """What config.json says of a model of ours."""
    own: Any = module
    said = {"model_type": _TYPE, "class": type(module).__name__, **asdict(own.config)}
    return {**said, "cross": True} if getattr(module, "cross", False) else said


def empty_own(config: Mapping[str, Any]) -> nn.Module:
    """The model that a config.json of ours says, without weights.

    Raises:
        ConfigError: a class or a field that is not known, or that cannot be.
    """
    named = {field.name for field in fields(TransformerConfig)}
    given = {name: value for name, value in config.items() if name not in ("model_type", "class")}
    cross = {"cross": True} if given.pop("cross", False) else {}
    unknown = sorted(set(given) - named)
    if config.get("class") not in OWN or unknown:
        what = f"class={config.get('class')!r}" if config.get("class") not in OWN else unknown[0]
        raise ConfigError(
            f"config.json of a headwise model has {what}, which this version does not know; "
            f"classes are {', '.join(OWN)}, fields those of headwise.nn.TransformerConfig"
        )
    missing = sorted({"vocab_size", "d_model", "num_layers", "num_heads"} - set(given))
    if missing:
        raise ConfigError(
            f"config.json of a headwise model lacks {', '.join(missing)}; save it again"
        )
    return empty(OWN[config["class"]], TransformerConfig(**given), **cross)


def load_own(
    folder: Path,
    config: Mapping[str, Any],
    device: torch.device | None,
    dtype: torch.dtype | None,
    prepare: Callable[[nn.Module], None] | None = None,
) -> nn.Module:
    """A model of our own blocks from a folder, in eval mode.

    Args:
        folder: that holds config.json and *.safetensors.
        config: what config.json says.
        device: where to put it; None = the CPU.
        dtype: of the weights; None = as they are stored.
        prepare: makes the model that was built, without weights yet, what the weights are of.

    Raises:
        ConfigError: weights that are not those of the config.
        ModelError: files that cannot be read.
    """
    module = empty_own(config)
    if prepare is not None:
        prepare(module)
    weights = _read_weights(folder)
    _check_fit(weights, module)
    placed = {name: tensor.to(device=device, dtype=dtype) for name, tensor in weights.items()}
    module.load_state_dict(placed, assign=True)
    return module.eval()


def _read_weights(folder: Path) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = {}
    for path in weight_files(folder):
        try:
            weights |= load_file(path)
        except (OSError, SafetensorError) as error:
            raise ModelError(
                f"{path} cannot be read as safetensors ({error}); get it again"
            ) from error
    return weights


def _check_fit(weights: Mapping[str, Tensor], module: nn.Module) -> None:
    """Refuse weights that are not those of the module."""
    wanted = {name: list(tensor.shape) for name, tensor in module.state_dict().items()}
    came = {name: list(tensor.shape) for name, tensor in weights.items()}
    for name in sorted({*wanted, *came}):
        if wanted.get(name) != came.get(name):
            has, asks = came.get(name, "nothing"), wanted.get(name, "nothing")
            raise ConfigError(
                f"the checkpoint has {has} for {name}, config.json asks for {asks}; "
                "the files do not belong together"
            )
