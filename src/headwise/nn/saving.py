"""Save a model of our blocks: as a checkpoint of transformers where a family's table says it, else in our own form.

save_checkpoint(model, "folder", tokenizer=tokenizer)      # -> "llama", or "headwise"
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from torch import Tensor, nn

from headwise.files import check_folder, replacing
from headwise.names import ConfigError, ModelError, OutputError
from headwise.nn.bare import empty
from headwise.nn.families import FAMILIES
from headwise.nn.fields import config_from, family_of, known_family, said_by
from headwise.nn.models import EncoderDecoder
from headwise.nn.own import OWN, config_of, empty_own
from headwise.nn.stored import stored
from headwise.nn.tables import source_of
from headwise.nn.writing import special_ids, write_json, write_tokenizer, write_weights

__all__ = ["checkpoint_config", "save_checkpoint", "why_unfit", "write_model"]

_OTHERS = ("model.safetensors.index.json", "pytorch_model.bin", "pytorch_model.bin.index.json")
"""Weights that would be read instead of ours, or beside them."""


def save_checkpoint(
    model: nn.Module, folder: Path | str, *, tokenizer: Any = None, start: int | None = None
) -> str:
    """Write config.json, model.safetensors and tokenizer.json into a folder.

    Each file is replaced whole or left as it was, config.json last. Other files stay.

    Args:
        model: an Encoder, a Decoder or an EncoderDecoder that was not cut (headwise.save takes those).
        folder: where they go; made where it is not there.
        tokenizer: of the tokenizers library or of transformers; its special tokens go into config.json.
        start: id that an EncoderDecoder's decoder starts from (decoder_start_token_id); None = the
            tokenizer's end token, as `headwise.train` has it.

    Returns:
        The model_type written: that of the first family of transformers that has such a model,
        "headwise" where none has (`why_unfit` says why).

    Raises:
        ConfigError: a start that is no token of an EncoderDecoder.
        ModelError: a module of another class, one that is not what its configuration says, or one that is
            split over processes.
        OutputError: a folder that cannot be written, that holds a run, or, without `tokenizer`, the tokenizer of a
            model with more ids.
    """
    folder = Path(folder).expanduser()
    _check_fits(folder, model, tokenizer)
    return write_model(model, folder, tokenizer, start)


def write_model(
    model: nn.Module, folder: Path, tokenizer: Any = None, start: int | None = None
) -> str:
    """As `save_checkpoint`, also into the folder of a run: its own model.

    Raises:
        As `save_checkpoint`.
    """
    _check_whole(model)
    config, state = checkpoint_config(model), model.state_dict()
    _check_uncut(model, config, state)
    weights = stored(model, config, state) if known_family(config) else state
    dtype = next(x.dtype for x in state.values() if x.is_floating_point())
    special = {**special_ids(tokenizer), **_start_of(model, tokenizer, start)}
    said = {**config, **special, "dtype": str(dtype).removeprefix("torch.")}
    _check_place(folder)
    try:
        folder.mkdir(exist_ok=True)
    except OSError as error:
        raise OutputError(
            f"{folder} cannot be made: {error.strerror}; choose another path"
        ) from None
    if tokenizer is not None:
        own: Any = model
        write_tokenizer(tokenizer, folder, said["model_type"], own.config.max_length)
    with replacing(folder / "model.safetensors", "the model") as place:
        write_weights(place, {name: tensor.detach() for name, tensor in weights.items()})
    with replacing(folder / "config.json", "the model") as place:
        write_json(place, said)
    model_type: str = said["model_type"]
    return model_type


def checkpoint_config(model: nn.Module) -> dict[str, Any]:
    """What config.json says of a model: in the words of a family where one has it, else in ours.

    Raises:
        ModelError: a module of another class than Encoder, Decoder and EncoderDecoder.
    """
    said, _ = _tried(model)
    return config_of(model) if said is None else said


def why_unfit(model: nn.Module) -> dict[str, str]:
    """Why a model is of no family of transformers that has a table: its model_type -> what is different.

    Empty where one fits.
    """
    said, reasons = _tried(model)
    return reasons if said is None else {}


def _tried(model: nn.Module) -> tuple[dict[str, Any] | None, dict[str, str]]:
    """The config.json of the first family that has such a model; and why others have it not."""
    if type(model) not in OWN.values():
        raise ModelError(
            f"{type(model).__name__} is none of {', '.join(OWN)}, so no config.json builds it again; keep its "
            "weights with torch.save(module.state_dict(), path) and build it in your own code"
        )
    own: Any = model
    reasons = {}
    for name, family in FAMILIES.items():
        try:
            if getattr(model, "cross", False):
                raise ConfigError("its decoder attends to a memory by itself")
            said = said_by(family, type(model), own.config)
            for weight in own.state_dict():
                source_of(family_of(said), weight)
            return said, {}
        except ConfigError as error:
            reasons[name] = str(error)
    return None, reasons


def _start_of(model: nn.Module, tokenizer: Any, start: int | None) -> dict[str, int]:
    """What config.json says of the token that a decoder beside an encoder starts from."""
    if not isinstance(model, EncoderDecoder):
        if start is None:
            return {}
        raise ConfigError(
            f"start={start!r} came with {type(model).__name__}, which starts from no token of its own; leave it out"
        )
    start = special_ids(tokenizer).get("eos_token_id") if start is None else start
    if start is None:
        return {}
    if not 0 <= start < model.config.vocab_size:
        raise ConfigError(
            f"start={start} is no token of vocab_size={model.config.vocab_size}; give the id of one"
        )
    return {"decoder_start_token_id": start}


def _check_whole(model: nn.Module) -> None:
    if any(hasattr(part, "total_heads") for part in model.modules()):
        raise ModelError(
            f"{type(model).__name__} is split over processes; save one that is not, which took "
            "headwise.nn.parallel.full_state(model) with load_state_dict"
        )


def _check_uncut(model: nn.Module, config: Mapping[str, Any], state: Mapping[str, Tensor]) -> None:
    """Refuse a model that its configuration does not build."""
    built = empty(*config_from(config)) if known_family(config) else empty_own(config)
    wanted = {name: list(tensor.shape) for name, tensor in built.state_dict().items()}
    came = {name: list(tensor.shape) for name, tensor in state.items()}
    for name in sorted({*wanted, *came}):
        if wanted.get(name) != came.get(name):
            has, asks = came.get(name, "nothing"), wanted.get(name, "nothing")
            raise ModelError(
                f"{name} is {has}, and the model's configuration makes it {asks}; save a model that was cut "
                "with headwise.save"
            )


def _check_fits(folder: Path, model: nn.Module, tokenizer: Any) -> None:
    """Refuse a folder that would hold files of two models."""
    if (folder / "run.toml").exists():
        raise OutputError(
            f"the model cannot be written to {folder}: it holds a run, with checkpoints and a tokenizer "
            "of its own; choose another path"
        )
    old, own = folder / "tokenizer.json", cast(Any, model)
    if tokenizer is not None or not old.is_file() or not hasattr(model, "config"):
        return
    has, reads = _ids_of(old), own.config.vocab_size
    if has > reads:
        raise OutputError(
            f"the model cannot be written to {folder}: the tokenizer.json there has {has:,} ids, and the model "
            f"vocab_size={reads:,}; give tokenizer=, or choose another path"
        )


def _ids_of(path: Path) -> int:
    """How many ids a tokenizer.json has; 0 where it cannot be read."""
    from tokenizers import Tokenizer

    try:
        vocabulary = Tokenizer.from_file(str(path)).get_vocab(with_added_tokens=True)
    except Exception:  # the library raises bare Exception
        return 0
    return max(vocabulary.values(), default=-1) + 1


def _check_place(folder: Path) -> None:
    check_folder(folder, "the model")
    for name in _OTHERS:
        if (folder / name).exists():
            raise OutputError(
                f"the model cannot be written to {folder}: it holds {name}, weights of another; choose another path"
            )
