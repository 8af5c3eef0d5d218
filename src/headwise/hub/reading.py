"""Read a model's module from a folder: in our own blocks where a table is for it, else in transformers' class."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headwise.hub.report import say
from headwise.names import ConfigError, ModelError
from headwise.nn import config_from, known_family

__all__ = ["class_in_transformers", "from_transformers", "hushed", "read_config", "unfit"]

Prepare = Callable[[nn.Module], None]
"""Makes a model that was built, without weights yet, what the weights are of."""


def read_config(folder: Path) -> dict[str, Any]:
    """The fields of a folder's config.json.

    Raises:
        ModelError: it is missing, or no table of fields.
    """
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ModelError(f"{folder / 'config.json'} cannot be read: {error}") from None
    if not isinstance(config, dict):
        raise ModelError(f"{folder / 'config.json'} holds no model configuration")
    return config


def unfit(folder: Path, config: Mapping[str, Any]) -> str | None:
    """Why a checkpoint does not run in our blocks: "" where no table is for it, None where it does."""
    if not known_family(config) or not any(folder.glob("*.safetensors")):
        return ""
    try:
        config_from(config)
    except ConfigError as error:
        return str(error)
    return None


def class_in_transformers(config: Mapping[str, Any], parsed: Any) -> type[Any]:
    """The class that transformers runs a model in.

    Args:
        config: what config.json says.
        parsed: the same as transformers' configuration object.
    """
    import transformers

    names = config.get("architectures") or []
    named: type[Any] | None = getattr(transformers, names[0], None) if names else None
    mapping: Any = transformers.AutoModel._model_mapping
    return named or mapping[type(parsed)]


def from_transformers(
    name: str,
    folder: Path,
    config: Mapping[str, Any],
    dtype: torch.dtype | None,
    why: str,
    *,
    quiet: bool,
) -> Any:
    """The model as the class its config names, or AutoModel's.

    Args:
        name: as errors call it.
        folder: that holds it.
        config: what its config.json says.
        dtype: of the weights; None = as they are stored.
        why: it does not run in our blocks; "" where nothing is to be said.
        quiet: say nothing on stderr.

    Raises:
        ModelError: transformers cannot load it.
    """
    import transformers

    names = config.get("architectures") or []
    cls = getattr(transformers, names[0], None) if names else None
    try:
        with hushed():
            module, report = (cls or transformers.AutoModel).from_pretrained(
                folder, dtype=dtype or "auto", output_loading_info=True
            )
    except Exception as error:  # transformers raises whatever a config or a file made it meet
        line = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        ours = f" (and not our blocks: {why})" if why else ""
        raise ModelError(f"transformers cannot load {folder}: {line}{ours}") from error
    if why:
        say(f"{name} runs in transformers, not in our blocks: {why}", quiet=quiet)
    missing = sorted(report["missing_keys"])
    if missing:
        some = ", ".join(missing[:3]) + (", ..." if len(missing) > 3 else "")
        say(f"{len(missing)} weights of {name} are not saved and start random: {some}", quiet=quiet)
    return module


@contextmanager
def hushed() -> Iterator[None]:
    """Without transformers' warnings and bars for the time of the `with`."""
    import transformers

    logging: Any = transformers.utils.logging
    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()
