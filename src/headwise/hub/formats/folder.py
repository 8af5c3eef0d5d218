"""A folder that is in the Hugging Face layout already: copied as it is."""

from __future__ import annotations

import shutil
from pathlib import Path

__all__ = ["convert"]


def convert(source: Path, target: Path) -> None:
    """Copy every file of `source` into `target`."""
    shutil.copytree(source, target, dirs_exist_ok=True)
