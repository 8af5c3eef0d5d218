"""Read a model's module from a folder: in our own blocks where a table is for it, else in transformers' class."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from headwise.hub.report import say
from headwise.names import ConfigError, HeadwiseError, ModelError
from headwise.nn import EncoderDecoder, config_from, known_family
from headwise.nn.fields import family_of

__all__ = ["Prepare", "from_transformers", "hushed", "prepared", "read_config", "unfit"]


@dataclass(frozen=True)
class Prepare:
    """What was cut of a stored model.

    Attributes:
        cut: makes the module that was built, without weights yet, what the weights are of.
        own: whether it is for a module of our blocks; None = for any.
        plain: the config says the cut too, and this but which heads were there.
    """

    cut: Callable[[nn.Module], None]
    own: bool | None = None
    plain: bool = False


_READERS = {
    "headwise": "headwise.cut.saving.field",
    "pruned_heads": "headwise.cut.saving.pruned_heads",
}
"""Fields of a config.json that say what was cut, and who reads them: rooms above, imported when one comes."""


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


def prepared(config: Mapping[str, Any]) -> tuple[dict[str, Any], Prepare | None]:
    """The config of the model before it was cut, and what cuts it; None where nothing was cut.

    Raises:
        ConfigError: a cut that cannot be read.
    """
    left = {name: value for name, value in config.items() if name not in _READERS}
    said = [name for name in _READERS if config.get(name)]
    if not said:
        return left, None
    if len(said) > 1:
        raise ConfigError(
            f"config.json says twice what was cut, in {' and in '.join(said)}; leave the right one"
        )
    reader: Any = importlib.import_module(_READERS[said[0]])
    found: Prepare = reader.prepare(config[said[0]])
    return left, found


def unfit(folder: Path, config: Mapping[str, Any], prepare: Prepare | None = None) -> str | None:
    """Why a checkpoint does not run in our blocks: "" where nothing is to be said, None where it does.

    What reads one thing and writes another runs in transformers, whose processors prepare both; our blocks have it
    by headwise.nn.load_checkpoint, and what was cut in our blocks stays in them.
    """
    if not known_family(config) or not any(folder.glob("*.safetensors")):
        return ""
    here = prepare is not None and prepare.own
    if issubclass(family_of(config).model, EncoderDecoder) and not here:
        return ""
    try:
        config_from(config)
    except ConfigError as error:
        return str(error)
    return None


def from_transformers(
    name: str,
    folder: Path,
    config: Mapping[str, Any],
    dtype: torch.dtype | None,
    why: str,
    prepare: Prepare | None = None,
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
        prepare: what was cut of it; None = nothing.
        quiet: say nothing on stderr.

    Raises:
        ModelError: transformers cannot load it.
    """
    cut = None if prepare is None or (prepare.own and prepare.plain) else prepare.cut
    if cut is not None and prepare is not None and prepare.own:
        raise ModelError(
            f"{folder} was cut in headwise's own blocks, not in transformers'; load it with headwise.load"
        )
    try:
        with hushed():
            module, report = _loaded(folder, config, dtype or "auto", cut)
    except HeadwiseError:
        raise
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


def _loaded(
    folder: Path,
    config: Mapping[str, Any],
    dtype: torch.dtype | str,
    cut: Callable[[nn.Module], None] | None,
) -> tuple[Any, dict[str, Any]]:
    """The module, and transformers' report of the weights."""
    import transformers

    names = config.get("architectures") or []
    named = getattr(transformers, names[0], None) if names else None
    found: tuple[Any, dict[str, Any]]
    if cut is None:
        found = (named or transformers.AutoModel).from_pretrained(
            folder, dtype=dtype, output_loading_info=True
        )
        return found
    parsed = transformers.AutoConfig.from_pretrained(folder)
    for name in _READERS:
        parsed.__dict__.pop(name, None)
    cls: Any = named or transformers.AutoModel._model_mapping[type(parsed)]
    found = _cutting(cls, cut).from_pretrained(
        folder, config=parsed, dtype=dtype, output_loading_info=True
    )
    return found


def _cutting(cls: type[Any], cut: Callable[[nn.Module], None]) -> type[Any]:
    """The class, whose modules are cut as soon as they are built: then transformers loads them as ever."""

    def build(self: Any, *args: Any, **kwargs: Any) -> None:
        cls.__init__(self, *args, **kwargs)
        self.__class__ = cls
        cut(self)

    return type(cls.__name__, (cls,), {"__init__": build, "__module__": cls.__module__})


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
