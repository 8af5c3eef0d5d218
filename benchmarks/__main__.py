"""All benchmarks one after the other, then their tables into README.md: python benchmarks [CORPUS].

CORPUS is the file of sentences for corpus.py, which is left out without one. `python benchmarks peers` runs
headwise beside other tools alone, and writes the tables of docs/en/why.md and docs/zh-CN/why.md.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from harness import RESULTS

HERE = Path(__file__).parent
PARTS = (
    "blocks",
    "generation",
    "window",
    "startup",
    "kernel",
    "heads",
    "halved",
    "training",
    "page",
    "frames",
)
TABLES = (
    "heads",
    "heads-memory",
    "corpus",
    "kernel-avx512",
    "kernel-avx2",
    "blocks",
    "generation",
    "window",
    "startup",
    "training",
    "page",
    "frames",
    "halved",
    "healing",
    "cutting",
    "importance",
)
MARK = "<!-- tables: written by python benchmarks -->\n"


def main() -> None:
    if sys.argv[1:2] == ["peers"]:
        command = [sys.executable, str(HERE / "peers"), *sys.argv[2:]]
        sys.exit(subprocess.run(command, check=False).returncode)
    for part in PARTS:
        subprocess.run([sys.executable, str(HERE / f"{part}.py")], check=True)
    if len(sys.argv) > 1:
        subprocess.run([sys.executable, str(HERE / "corpus.py"), sys.argv[1]], check=True)
    fill()


def fill() -> None:
    """Replace what stands in README.md below the mark by the tables of results/."""
    readme = HERE / "README.md"
    above, mark, _ = readme.read_text().partition(MARK)
    assert mark, f"{readme} has lost its line {MARK!r}"
    tables = [(RESULTS / f"{part}.md").read_text().replace("# ", "### ", 1) for part in TABLES]
    readme.write_text(above + mark + "\n" + "\n".join(tables))


if __name__ == "__main__":
    main()
