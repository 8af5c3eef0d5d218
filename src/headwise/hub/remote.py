"""Models of the Hugging Face hub, through huggingface_hub and its own cache."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from headwise.names import ModelError

__all__ = ["config_of_hub", "snapshot"]

_WANTED = ["*.json", "*.safetensors", "tokenizer*", "*.model", "*.txt", "*.jinja"]
_UNWANTED = ["*/*", "consolidated*", "*.onnx"]  # other layouts of the same weights


def snapshot(name: str, choices: str, *, quiet: bool) -> Path:
    """The folder of the hub model `name`: what its safetensors and tokenizer need, no more.

    Only where a model has no safetensors are its *.bin files fetched. With no network a model
    that was fetched before still comes from the hub's cache.

    Args:
        name: a hub id, for instance `gpt2` or `Qwen/Qwen3-0.6B`.
        choices: what else could be asked for, for the message.
        quiet: show no progress.

    Raises:
        ModelError: no such model, no access to it, or no network.
    """
    from huggingface_hub import errors as hub
    from huggingface_hub import snapshot_download

    def download(*weights: str) -> Path:
        patterns = [*_WANTED, *weights]
        return Path(snapshot_download(name, allow_patterns=patterns, ignore_patterns=_UNWANTED))

    try:
        with _bars(quiet=quiet):
            folder = download()
            if not any(folder.glob("*.safetensors")):
                folder = download("pytorch_model*.bin")
            return folder
    except hub.GatedRepoError as error:
        raise ModelError(
            f"the hub model {name!r} asks for a licence to be accepted: accept it on its page, "
            "then run `hf auth login`"
        ) from error
    except (hub.RepositoryNotFoundError, hub.HFValidationError) as error:
        raise ModelError(f"there is no model {name!r}; {choices}") from error
    except Exception as error:  # the hub's transport library, and so its errors, changes
        raise ModelError(
            f"{name!r} could not be had from the Hugging Face hub ({_reason(error)}); "
            f"check the network and the disk; {choices}"
        ) from error


def config_of_hub(name: str) -> dict[str, Any]:
    """What the config.json of a hub model says, fetched alone.

    Args:
        name: a hub id.

    Raises:
        ModelError: no such model, no access to it, or no network.
    """
    from huggingface_hub import hf_hub_download

    try:
        with _bars(quiet=True):
            path = Path(hf_hub_download(name, "config.json"))
        said: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return said
    except Exception as error:  # the hub's transport library, and so its errors, changes
        raise ModelError(
            f"{name!r} is no known name, file or folder, and its config.json could not be had from the Hugging "
            f"Face hub ({_reason(error)})"
        ) from error


def _reason(error: Exception) -> str:
    if isinstance(error, FileNotFoundError):  # LocalEntryNotFoundError: not online, not cached
        return "not reached, and not in its cache"
    return (str(error).strip() or type(error).__name__).splitlines()[0]


@contextmanager
def _bars(*, quiet: bool) -> Iterator[None]:
    """Hold the hub's own progress bars back where nobody sees them."""
    from huggingface_hub.utils.tqdm import (
        are_progress_bars_disabled,
        disable_progress_bars,
        enable_progress_bars,
    )

    if (not quiet and sys.stderr.isatty()) or are_progress_bars_disabled():
        yield
        return
    disable_progress_bars()
    try:
        yield
    finally:
        enable_progress_bars()
