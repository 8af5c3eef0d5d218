"""Foreign formats: each module turns one into a Hugging Face folder in float32.

A module has one public function, `convert(source, target)`: it reads the file or folder `source`
and writes config.json, model.safetensors and the tokenizer's files into the empty folder `target`.
The modules are imported only when a conversion is due.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr
from importlib import import_module
from io import StringIO
from pathlib import Path
from typing import cast

__all__ = ["VERSIONS", "convert", "stamp"]

Converter = Callable[[Path, Path], None]

# Raise a format's number when its converter writes something else than before: folders in caches
# that carry an older number are then converted again.
VERSIONS = {"folder": 1, "gguf": 1, "e5_pack": 1, "ctranslate2": 1, "smiles_albert": 1}


def stamp(name: str) -> str:
    """The mark a converted folder carries, for instance `gguf 1`."""
    return f"{name} {VERSIONS[name]}"


def convert(name: str, source: Path, target: Path) -> None:
    """Convert `source`, of the format `name`, into the empty folder `target`."""
    module = import_module(f"{__name__}.{name}")
    if name == "folder":  # the one format that needs no transformers
        cast(Converter, module.convert)(source, target)
        return
    with _transformers_silent():
        cast(Converter, module.convert)(source, target)


@contextmanager
def _transformers_silent() -> Iterator[None]:
    """Hold back the bars and warnings of transformers: the person sees one line of ours.

    One of its bars knows no switch, so stderr is put aside as well.
    """
    from transformers.utils import logging

    verbosity, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()  # type: ignore[no-untyped-call]
    logging.disable_progress_bar()  # type: ignore[no-untyped-call]
    try:
        with redirect_stderr(StringIO()):
            yield
    finally:
        logging.set_verbosity(verbosity)
        if bars:
            logging.enable_progress_bar()  # type: ignore[no-untyped-call]
