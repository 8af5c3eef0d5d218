"""The repository before a release: one version everywhere, a clean tree, a tag that is free."""

from __future__ import annotations

import ast
import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

from outcome import Outcome, failed, passed

ENTRY = re.compile(r"^## (?P<version>\S+) \((?P<date>[^)]*)\)$", re.MULTILINE)
DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


def state_outcomes(root: Path) -> Iterator[Outcome]:
    """What is told of the repository at `root`."""
    version = project_version(root)
    yield versions_outcome(root, version)
    yield date_outcome(root)
    yield clean_outcome(root)
    yield tag_outcome(root, version)


def project_version(root: Path) -> str:
    """The version that pyproject.toml gives."""
    return tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"][
        "version"
    ]


def package_version(root: Path) -> str:
    """What `__version__` is set to in the package, which is not imported."""
    tree = ast.parse((root / "src/headwise/__init__.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and [ast.unparse(t) for t in node.targets] == [
            "__version__"
        ]:
            return str(ast.literal_eval(node.value))
    return "none"


def changelog_entry(root: Path) -> tuple[str, str]:
    """Version and date of the changelog's top entry."""
    found = ENTRY.search((root / "CHANGELOG.md").read_text(encoding="utf-8"))
    return (found["version"], found["date"]) if found else ("none", "none")


def versions_outcome(root: Path, version: str) -> Outcome:
    """Whether pyproject.toml, `__version__` and CHANGELOG.md give one version."""
    what = "pyproject.toml, __version__ and CHANGELOG.md give one version"
    package, (logged, _) = package_version(root), changelog_entry(root)
    if package == logged == version:
        return passed(what, version)
    return failed(what, f"pyproject.toml {version}, __version__ {package}, CHANGELOG.md {logged}")


def date_outcome(root: Path) -> Outcome:
    """Whether the changelog's top entry has its date."""
    what = "CHANGELOG.md dates its top entry"
    version, date = changelog_entry(root)
    if DATE.fullmatch(date):
        return passed(what, date)
    return failed(what, f"{version} is ({date}); write the day, as in (2026-01-31)")


def clean_outcome(root: Path) -> Outcome:
    """Whether what lies in the tree is what is committed."""
    what = "the tree is clean"
    changed = git(root, "status", "--porcelain").splitlines()
    if not changed:
        return passed(what, git(root, "rev-parse", "--short=12", "HEAD"))
    return failed(
        what, f"{len(changed)} changed or not tracked, as {changed[0].split()[-1]}; commit first"
    )


def tag_outcome(root: Path, version: str) -> Outcome:
    """Whether the version's tag is free."""
    what = f"the tag v{version} is free"
    at = git(root, "tag", "--list", f"v{version}")
    return failed(what, "it is taken; raise the version") if at else passed(what)


def tracked(root: Path) -> list[str]:
    """The files that git tracks, relative to the root."""
    return [name for name in git(root, "ls-files", "-z").split("\0") if name]


def git(root: Path, *arguments: str) -> str:
    """What git answers in `root`."""
    done = subprocess.run(
        ["git", *arguments], cwd=root, capture_output=True, text=True, encoding="utf-8", check=True
    )
    return done.stdout.strip()
