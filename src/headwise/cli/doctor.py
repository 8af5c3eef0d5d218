"""headwise doctor: what this installation runs on, in lines for a bug report."""

from __future__ import annotations

import os
import platform
from collections.abc import Iterator
from importlib import metadata

import click

from headwise import __version__


@click.command(short_help="Which kernel, libraries and devices are in use.")
def doctor() -> None:
    """Say which kernel, libraries and devices are in use, and where models are kept."""
    width = max(len(name) for name, _ in _lines())
    for name, said in _lines():
        click.echo(f"{name:<{width}}  {said}")


def _lines() -> Iterator[tuple[str, str]]:
    from headwise.core import kernel
    from headwise.hub.cache import models_folder
    from headwise.names import ConfigError

    yield "headwise", f"{__version__}, Python {platform.python_version()}, {platform.platform()}"
    try:
        status = kernel.status()
        yield "statistics by", f"{_named(status.path)}: {status.why}"
    except ConfigError as error:
        yield "statistics by", f"nothing: {error}"
    yield "kernel", _kernel()
    yield "torch", _torch()
    yield "devices", ", ".join(_devices())
    for package in ("transformers", "tokenizers", "safetensors"):
        yield package, _version(package)
    yield "mini", _mini()
    yield "models", f"{models_folder()} ({'there' if models_folder().is_dir() else 'empty so far'})"
    if os.environ.get(kernel.VARIABLE):
        yield kernel.VARIABLE, os.environ[kernel.VARIABLE]


def _mini() -> str:
    """Whether the model of the package is there, and how large its folder is."""
    from headwise.hub.get import get
    from headwise.names import ModelError

    try:
        folder = get("mini")
    except ModelError as error:
        return str(error)
    size = sum(file.stat().st_size for file in folder.iterdir())
    return f"in the package, {size / 1e6:.1f} MB: {folder}"


def _named(path: str) -> str:
    return "plain torch" if path == "portable" else f"the compiled kernel ({path})"


def _kernel() -> str:
    """Whether the compiled kernel is there, and what it and this CPU can do."""
    from headwise.core import kernel

    module, why = kernel.module_or_why()
    if module is None:
        return why
    built, here = module.sets(False), module.sets(True)
    threads = "torch's" if module.shares_openmp() else "its own"
    return (
        f"built for {', '.join(built) or 'no set of instructions'}; "
        f"this CPU runs {', '.join(here) or 'none of them'}; threads are {threads}"
    )


def _torch() -> str:
    import torch

    return f"{torch.__version__}, {torch.get_num_threads()} threads of {os.cpu_count()} cores"


def _devices() -> Iterator[str]:
    import torch

    yield "cpu"
    for i in range(torch.cuda.device_count()):
        yield f"cuda:{i} ({torch.cuda.get_device_name(i)})"
    if torch.backends.mps.is_available():
        yield "mps"


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "not installed"


__all__ = ["doctor"]
