"""What a server was started with: which models, where it listens, and who may ask."""

from __future__ import annotations

import ipaddress
import secrets
import socket
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from headwise.hub.catalogue import CATALOGUE, DEFAULT
from headwise.names import ConfigError, ModelError

__all__ = ["Settings", "listening", "offered"]

SENTENCE = "The animal didn't cross the street because it was too tired"


@dataclass(frozen=True)
class Settings:
    """What a server was started with.

    Attributes:
        models: what may be asked for by name, each as `load` takes it; the first is the one shown first.
        token: that every request must bring; None = none, on this machine alone.
        device, dtype: as `load` takes them.
        text: what is shown first.
        most_bytes: a request's body may hold.
        kept_bytes: scenes may hold, together.
    """

    models: Mapping[str, str | Path]
    token: str | None = None
    device: str | None = None
    dtype: str | None = None
    text: str = SENTENCE
    most_bytes: int = 1_000_000
    kept_bytes: int = 2_000_000_000


def offered(names: Iterable[str], folder: Path | None) -> tuple[dict[str, str | Path], Path | None]:
    """The models that may be asked for: those named, those of a folder, those of the catalogue that read text.

    A model is asked for by one of these names, and by nothing else; what a folder holds is looked at once, and
    links that lead out of it are left out.

    Raises:
        ModelError: a folder that is none, or in which no model is.
    """
    found: dict[str, str | Path] = {}
    for name in names:
        found[_short(name, found)] = name
    if folder is not None:
        held = dict(_held(folder))
        if not held:
            raise ModelError(
                f"no model is in {folder}; give a folder of folders that each hold a config.json, or of .gguf files"
            )
        for name, path in held.items():
            taken = name in found or name in CATALOGUE
            found[f"{folder.name}/{name}" if taken else name] = path
    readable = [name for name, entry in CATALOGUE.items() if entry.reads == "input_ids"]
    first = [] if found else [DEFAULT]
    return {**found, **{name: name for name in [*first, *readable] if name not in found}}, folder


def _short(name: str, taken: Mapping[str, object]) -> str:
    """What a model is asked for by: of one on this machine the last part of its path."""
    path = Path(name).expanduser()
    short = path.name if path.exists() else name
    return name if not short or short in taken or (short != name and short in CATALOGUE) else short


def _held(folder: Path) -> Iterable[tuple[str, Path]]:
    if not folder.is_dir():
        raise ModelError(f"there is no folder {folder}; --models takes a folder of models")
    for path in sorted(folder.iterdir()):
        kind = path.suffix == ".gguf" or (path / "config.json").is_file()
        if kind and within(path, folder):
            yield path.name, path


def within(path: Path, folder: Path) -> bool:
    """Whether a path, links followed, is in a folder."""
    return path.resolve().is_relative_to(folder.resolve())


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a server that listens there."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def fresh_token(host: str) -> str | None:
    """A token where others can reach the server; None on this machine alone."""
    return None if is_loopback(host) else secrets.token_urlsafe(24)


def listening(host: str, port: int) -> socket.socket:
    """A socket that listens there; port 0 = any free one.

    Raises:
        ConfigError: a host that is none of this machine, or a port that is taken.
    """
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        why = error.strerror or str(error)
        raise ConfigError(
            f"{host} port {port} cannot be listened on: {why}; give another --port, or --port 0 for any free one"
        ) from None
