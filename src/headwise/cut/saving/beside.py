"""What stands beside the weights of a model: its tokenizer, how it generates, how it pools."""

from __future__ import annotations

import shutil
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from headwise.hub.load import Model
from headwise.nn.writing import tokenizer_config, write_json, write_tokenizer

__all__ = ["write_beside"]

_SMALL = (
    *("*token*", "vocab*", "merges.txt", "*.model", "*.tiktoken", "*.jinja", "normalizer.json"),
    *("generation_config.json", "*processor_config.json", "LICENSE*", "additional_chat_templates"),
    *("modules.json", "*sentence*.json", "[0-9]_*"),
)
"""Patterns of what a cut does not change; [0-9]_* are the folders of sentence-transformers."""


def write_beside(model: Model, folder: Path) -> None:
    """Put into a folder what belongs to a model beside its config.json and its weights.

    Args:
        model: read from a folder: what is copied from there; else its tokenizer is written.
        folder: where it goes.
    """
    source = model.folder
    found = [] if source is None or not source.is_dir() else sorted(source.iterdir())
    for path in found:
        if not any(fnmatchcase(path.name, pattern) for pattern in _SMALL):
            continue
        if path.is_dir():
            shutil.copytree(path, folder / path.name)
        else:
            shutil.copyfile(path, folder / path.name)
    if model.tokenizer is not None and not any(folder.glob("*token*")):
        given: Any = model.given
        of_transformers = hasattr(given, "save_pretrained")
        held = given if of_transformers else getattr(model.tokenizer, "tokenizer", model.tokenizer)
        write_tokenizer(held, folder, *_of(model))
    said = folder / "tokenizer_config.json"
    if (folder / "tokenizer.json").is_file() and not said.exists():
        write_json(said, tokenizer_config(model.tokenizer, *_of(model)))


def _of(model: Model) -> tuple[str, int | None]:
    return (model.config or {}).get("model_type", ""), model.max_length
