"""An archive installed into an empty environment, and the main job run there.

The environment is a new venv; HOME is empty, nothing of headwise, Python or Hugging Face is set, the folder
is empty, and models do not come from the network: `mini` comes along in the package.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from outcome import Outcome, failed, passed

DROPPED = ("PYTHON", "HEADWISE", "HF_", "XDG_", "VIRTUAL_ENV", "CONDA", "CC", "CXX", "CMAKE")
NO_COMPILER = {"CC": "false", "CXX": "false"}
INSTALL_LIMIT, JOB_LIMIT = 3600, 1800


@dataclass(frozen=True)
class Place:
    """An empty environment.

    Attributes:
        folder: Where its venv, its home and its desk lie.
        downloads: Pip's cache, which the installs of one run share.
        extra: Variables that are set besides.
    """

    folder: Path
    downloads: Path
    extra: dict[str, str] = field(default_factory=dict)

    @property
    def binaries(self) -> Path:
        """Where the commands of the venv lie."""
        return self.folder / "venv" / ("Scripts" if os.name == "nt" else "bin")

    @property
    def desk(self) -> Path:
        """The folder in which jobs run."""
        return self.folder / "desk"

    def environment(self) -> dict[str, str]:
        """The variables of this run without those that could let something in from outside."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(DROPPED)}
        home = str(self.folder / "home")
        own = {"HOME": home, "USERPROFILE": home, "PIP_CACHE_DIR": str(self.downloads)}
        return {**kept, **own, "HF_HUB_OFFLINE": "1", **self.extra}

    def run(self, *command: str, limit: int = JOB_LIMIT) -> subprocess.CompletedProcess[str]:
        """Run a command at the desk."""
        return subprocess.run(
            [str(self.binaries / command[0]), *command[1:]],
            cwd=self.desk,
            env=self.environment(),
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=limit,
            check=False,
        )


@dataclass(frozen=True)
class Job:
    """A command line, what it shows, and what looks whether it did.

    `judge` takes the command's output and the folder, and gives what was found, or raises ValueError.
    """

    what: str
    command: tuple[str, ...]
    judge: Callable[[str, Path], str]


def made(folder: Path, downloads: Path, **extra: str) -> Place:
    """A new, empty environment in `folder`."""
    place = Place(folder, downloads, extra)
    for part in (place.desk, folder / "home", downloads):
        part.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "venv", str(folder / "venv")], check=True)
    return place


def installed(place: Place, archive: Path, constraints: Path, *options: str) -> Outcome:
    """Install an archive by pip, with the tested versions."""
    what, start = f"{archive.name} installs", time.monotonic()
    command = ("python", "-m", "pip", "install", "--constraint", str(constraints), *options)
    try:
        done = place.run(*command, str(archive), limit=INSTALL_LIMIT)
    except subprocess.TimeoutExpired:
        return failed(what, f"not done after {INSTALL_LIMIT // 60} minutes")
    if done.returncode:
        return failed(what, last_line(done.stderr) or f"pip ended with {done.returncode}")
    return passed(what, f"{time.monotonic() - start:.0f} s")


def job_outcomes(place: Place, jobs: tuple[Job, ...]) -> Iterator[Outcome]:
    """Run the jobs one after the other; each builds on what those before it left."""
    for job in jobs:
        yield job_outcome(place, job)


def job_outcome(place: Place, job: Job) -> Outcome:
    """Run one job."""
    try:
        done = place.run(*job.command)
    except subprocess.TimeoutExpired:
        return failed(job.what, f"not done after {JOB_LIMIT // 60} minutes")
    except OSError as error:
        return failed(job.what, f"{job.command[0]} cannot be run: {error.strerror}")
    if done.returncode or "Traceback" in done.stderr:
        return failed(job.what, f"exit code {done.returncode}: {last_line(done.stderr)}")
    try:
        return passed(job.what, job.judge(done.stdout, place.desk))
    except (ValueError, OSError) as error:
        return failed(job.what, str(error))


def last_line(text: str) -> str:
    """The last line that says something."""
    lines = [line for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.lower().startswith("error")]
    return (errors or lines or [""])[-1].strip()
