"""headwise beside the tools people know: python benchmarks peers, or python benchmarks/peers.

Tries the same things with each (tries.py: what came, with the text of the error where it failed), each tool in a
process of its own, then times what several do (speed.py), and writes the tables of docs/en/why.md and
docs/zh-CN/why.md. What other benchmarks have measured is taken from their results.

    python benchmarks peers [--tools nnsight,headwise] [--seconds 20] [--only tries|speed|pages]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import asdict
from importlib.metadata import version
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent)]

import pages  # noqa: E402
import speed  # noqa: E402
import torch  # noqa: E402
from tries import HEADWISE, PACKAGES, QUESTIONS, TRIES, Answer, answered  # noqa: E402

from harness import RESULTS, Row, machine, save, write  # noqa: E402

LIMIT = 900
ABOUT = (
    "# headwise beside other tools: what came of trying\n\n"
    "SmolLM2 with its trained weights in float32, the sentences of the README. `yes`: it did it, and the figure is "
    "how near it came; `no`: what it said or did in place of it."
)
SPEED = (
    "# Patterns and zeroed heads beside other tools\n\n"
    "GPT-2 small's shape, random weights, float32, batch 1. Reference: the forward pass with "
    "`scaled_dot_product_attention`, of patterns without logits (TransformerLens makes them all the same), of "
    "zeroed heads with them. `headwise, record` makes rows when asked."
)


def tool_rows(tool: str) -> list[dict[str, object]]:
    """The answers of one tool, from a process of its own; what hangs is an answer too."""
    command = [sys.executable, str(HERE), "--tool", tool]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=True)
        out = done.stdout
    except subprocess.TimeoutExpired as late:
        out = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
    except subprocess.CalledProcessError as error:
        sys.exit(error.stderr)
    rows = [json.loads(line[1:]) for line in out.splitlines() if line.startswith("@")]
    answers = {row["question"] for row in rows}
    for question, name, _ in TRIES:
        if name == tool and question not in answers:
            rows.append(
                asdict(Answer(question, tool, False, f"not done after {LIMIT // 60} minutes"))
            )
    return rows


def try_all(tools: list[str]) -> None:
    """Try the tools, keep what is known of the others, and write results/peers.json and .md after each."""
    kept = RESULTS / "peers.json"
    rows = json.loads(kept.read_text())["rows"] if kept.exists() else []
    order, names = list(QUESTIONS), [HEADWISE, *PACKAGES]
    for tool in tools:
        rows = [row for row in rows if row["tool"] != tool] + tool_rows(tool)
        rows.sort(key=lambda row: (order.index(row["question"]), names.index(row["tool"])))
        save("peers", ABOUT, rows, table(rows), facts())


def table(rows: list[dict[str, object]]) -> list[str]:
    """The answers as the lines of a Markdown table."""
    lines = ["| question | tool | | what came |", "|---|---|---|---|"]
    for row in rows:
        said, answer = str(row["said"]).replace("|", "/"), "yes" if row["yes"] else "no"
        lines.append(
            f"| {QUESTIONS[str(row['question'])][0]} | {row['tool']} | {answer} | {said} |"
        )
    return lines


def time_all(lengths: list[int], seconds: float) -> None:
    """Time the cases, keep the rows of others, and write results/peers-speed.json and .md after each case."""
    kept = RESULTS / "peers-speed.json"
    old = json.loads(kept.read_text())["rows"] if kept.exists() else []
    rows = {(row["case"], row["contender"]): Row(**row) for row in old}
    for new in speed.measured(lengths, seconds):
        rows |= {(row.case, row.contender): row for row in new}
        write("peers-speed", SPEED, list(rows.values()), facts())


def facts() -> dict[str, object]:
    """The machine and the versions."""
    packages = {name: version(package) for name, package in PACKAGES.items()}
    return {**machine(1), "transformers": version("transformers"), **packages}


def run_tool(tool: str) -> None:
    """Print the answers of one tool, a line for each."""
    import seeing  # noqa: F401

    import cutting  # noqa: F401

    torch.set_num_threads(1)
    for question, name, function in TRIES:
        if name == tool:
            print("@" + json.dumps(asdict(answered(question, name, function))), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tools", default=",".join([HEADWISE, *PACKAGES]), help="with commas")
    parser.add_argument("--seconds", type=float, default=20.0, help="of each case that is timed")
    parser.add_argument("--lengths", default="256,1024", help="of what is timed, with commas")
    parser.add_argument("--only", choices=("tries", "speed", "pages"))
    parser.add_argument("--tool", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.tool:
        return run_tool(options.tool)
    if options.only in (None, "tries"):
        try_all(options.tools.split(","))
    if options.only in (None, "speed"):
        time_all([int(n) for n in options.lengths.split(",")], options.seconds)
    return pages.fill() if options.only in (None, "pages") else None


if __name__ == "__main__":
    main()
