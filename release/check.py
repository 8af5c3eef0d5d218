"""Builds a wheel and an sdist and checks whether they could be released: python release/check.py.

One line for each check, exit code 1 if any fails. Needs the extra `release`, and a network for pip: each archive
is installed into an empty environment (about 1.5 GB, removed afterwards) and runs the main job there, the sdist a
second time with no compiler. Takes some minutes.

    python release/check.py                      # what must hold on the day
    python release/check.py --rehearse           # before: date, clean tree and free tag are told, and do not count
    python release/check.py --archives-only      # nothing is installed; a minute
    python release/check.py --keep dist          # the archives, where all is well
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from archives import sdist_outcomes, wheel_outcomes
from installing import NO_COMPILER, installed, job_outcomes, last_line, made
from jobs import jobs
from outcome import Outcome, failed, passed
from state import project_version, state_outcomes, tracked

ROOT = Path(__file__).resolve().parents[1]
COMPILERS = ("c++", "g++", "clang++", "cl")


def has_compiler() -> bool:
    """Whether a C++ compiler is there."""
    return bool(os.environ.get("CXX")) or any(map(shutil.which, COMPILERS))


def outcomes(work: Path, rehearse: bool, archives_only: bool) -> Iterator[Outcome]:
    """All checks, in order; what cannot be checked because something before it failed is left out."""
    for outcome in state_outcomes(ROOT):
        on_the_day = not outcome.what.startswith("pyproject.toml")
        yield replace(outcome, waived=not outcome.ok and rehearse and on_the_day)
    built = build(work / "dist")
    yield built
    if not built.ok:
        return
    (wheel,), (sdist,) = (list((work / "dist").glob(end)) for end in ("*.whl", "*.tar.gz"))
    yield from archive_outcomes(wheel, sdist)
    if not archives_only:
        yield from install_outcomes(work, wheel, sdist)


def build(into: Path) -> Outcome:
    """Build the sdist, and the wheel from it: what comes out shows that the sdist holds all it takes."""
    what = "the sdist builds, and the wheel from the sdist"
    command = [sys.executable, "-m", "build", "--outdir", str(into), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return failed(what, last_line(done.stderr) or last_line(done.stdout))
    return passed(
        what, ", ".join(f"{p.name} {p.stat().st_size / 1e6:.1f} MB" for p in into.iterdir())
    )


def archive_outcomes(wheel: Path, sdist: Path) -> Iterator[Outcome]:
    """What is in the archives, and whether an index takes what they say of themselves."""
    files = tracked(ROOT)
    yield from wheel_outcomes(wheel, files, has_compiler())
    yield from sdist_outcomes(sdist, files)
    command = [sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    what = "the metadata is read and rendered by twine"
    yield (
        passed(what) if done.returncode == 0 else failed(what, last_line(done.stdout + done.stderr))
    )


def install_outcomes(work: Path, wheel: Path, sdist: Path) -> Iterator[Outcome]:
    """Each archive in an empty environment of its own, then the sdist again where nothing compiles."""
    version, constraints, downloads = project_version(ROOT), ROOT / "constraints.txt", work / "pip"
    for name, archive, kernel in (
        ("wheel", wheel, has_compiler()),
        ("sdist", sdist, has_compiler()),
        ("sdist without a compiler", sdist, False),
    ):
        extra = {} if kernel or archive is wheel else NO_COMPILER
        place = made(work / name.replace(" ", "-"), downloads, **extra)
        fresh = () if archive is wheel else ("--no-binary", "headwise")
        yield titled(name, installed(place, archive, constraints, *fresh))
        for outcome in job_outcomes(place, jobs(version, kernel)):
            yield titled(name, outcome)
        shutil.rmtree(place.folder)


def titled(name: str, outcome: Outcome) -> Outcome:
    """The outcome with the name of its environment before it."""
    return replace(outcome, what=f"{name}: {outcome.what}")


def told(found: Iterable[Outcome]) -> int:
    """Print each outcome as it comes; the exit code."""
    against = 0
    for outcome in found:
        print(outcome, flush=True)
        against += outcome.counts_against
    print("nothing speaks against a release" if not against else f"{against} failed")
    return int(against > 0)


def main() -> int:
    """Read the arguments and check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rehearse", action="store_true", help="date, tree and tag do not count")
    parser.add_argument("--archives-only", action="store_true", help="install nothing")
    parser.add_argument("--keep", type=Path, help="folder for the archives, where nothing failed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="headwise-release-") as folder:
        work = Path(folder)
        code = told(outcomes(work, options.rehearse, options.archives_only))
        if options.keep and not code:
            shutil.copytree(work / "dist", options.keep, dirs_exist_ok=True)
    return code


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("release/check.py: interrupted")
