"""hw.audit over every causal language model class of the installed transformers: python benchmarks/sweep.

Each type is built tiny from its own config (shrink.py), its weights drawn wide, and audited in its own process.
A run that was stopped goes on where it was. The table says what every class does in every dimension, and why where
it is not clean (explained.py); docs/en/findings.md has the reports.

    python benchmarks/sweep [--only llama,gpt2] [--dimensions future,cached] [--again] [--seconds 240] [--seed 0]
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import warnings
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import torch  # noqa: E402
import transformers  # noqa: E402
from one import Row, renewed, row_of  # noqa: E402
from shrink import TYPES  # noqa: E402
from table import about, done, lines, short  # noqa: E402

from harness import RESULTS, machine, save  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default="", help="types, with commas")
    parser.add_argument("--dimensions", default="", help="those looked at, with commas")
    parser.add_argument("--again", action="store_true", help="run types that have a row already")
    parser.add_argument("--seconds", type=float, default=240.0, help="of one type at most")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    transformers.logging.set_verbosity(logging.CRITICAL)
    torch.set_num_threads(1)
    release = transformers.__version__
    name = f"sweep-{release}"
    rows = _rows(RESULTS / f"{name}.json")
    wanted = options.only.split(",") if options.only else list(TYPES)
    dimensions = options.dimensions.split(",") if options.dimensions else None
    todo = [kind for kind in wanted if options.again or not done(rows.get(kind, {}), dimensions)]
    for count, kind in enumerate(todo, 1):
        new = row_of(kind, options.seconds, options.seed, dimensions)
        rows[kind] = renewed(rows.get(kind, {}), new)
        print(f"{count}/{len(todo)} {short(rows[kind])}", flush=True)
        _keep(RESULTS / f"{name}.json", rows)
    held = [rows[kind] for kind in TYPES if kind in rows]
    facts = machine(threads=1) | {"transformers": release}
    save(name, about(held, release), held, lines(held, release), facts)


def _rows(path: Path) -> dict[str, Row]:
    """The rows that an earlier run left."""
    if not path.exists():
        return {}
    held: list[dict[str, Any]] = json.loads(path.read_text())["rows"]
    return {row["type"]: row for row in held}


def _keep(path: Path, rows: dict[str, Row]) -> None:
    path.write_text(json.dumps({"rows": [rows[kind] for kind in rows]}, indent=1) + "\n")


if __name__ == "__main__":
    main()
