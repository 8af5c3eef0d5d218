"""The page of a text (`hw.save_page`): its size beside BertViz's for the same patterns, and the time to write it.

SmolLM2 (270 heads), the beginning of this repository's README at 64, 256 and 1,024 tokens. BertViz 1.4.1's
`model_view(..., html_action="return")` gets the record's own patterns, in a process of its own with so much memory;
it loads its scripts from the network besides. Times are CPU seconds over those of one forward pass.

    python benchmarks/page.py [--lengths 64,256,1024] [--seconds 60] [--memory 8]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import torch

import headwise as hw
from harness import machine, save
from headwise.see.texts.tokens import tokenize

BARS = {64: 1.5, 1024: 15.0}
LIMIT = 20 * 60
ABOUT = (
    "# The page of a text beside BertViz's\n\n"
    "SmolLM2 (270 heads). MB of the file that `hw.save_page` writes, and of what BertViz 1.4.1's `model_view` "
    "returns for the same patterns; one layer of the 30 where it cannot give all. `least`: cells of at least this "
    "weight are kept one by one, the others pooled. `over a pass`: CPU seconds to write the page over those of one "
    "forward pass of the model on this text (the least of some of each, in turn); `of BertViz` that of its call."
)


def text_of(model: hw.Model, tokens: int) -> str:
    """The beginning of the README, of so many tokens."""
    whole = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    whole *= 8
    return whole[: tokenize(model.tokenizer, whole)[tokens - 1].end]


def spent(function) -> float:
    start = time.process_time()
    function()
    return time.process_time() - start


def measured(model: hw.Model, tokens: int, seconds: float, memory: int) -> dict[str, object]:
    text = text_of(model, tokens)
    record = hw.look(model, text)
    ids = torch.tensor([[token.id for token in record.tokens]])

    def forward() -> None:
        with torch.no_grad():
            model.module(ids)

    with tempfile.TemporaryDirectory() as folder:
        page, held = Path(folder) / "page.html", Path(folder) / "record.safetensors"
        writes, passes, end = [], [], time.perf_counter() + seconds
        while len(writes) < 3 or time.perf_counter() < end:
            passes.append(spent(forward))
            writes.append(spent(lambda: hw.save_page(record, page)))
        size = page.stat().st_size / 1e6
        least = page.read_text(encoding="utf-8").split('"least":')[1].split("}")[0]
        record.save(held)
        theirs, one, cost, why = bertviz(held, memory)
    return {
        "tokens": len(record.tokens),
        "page": size,
        "least": float(least),
        "bar": BARS.get(tokens),
        "bertviz": theirs,
        "bertviz_layer": one,
        "bertviz_why": why,
        "over_pass": min(writes) / min(passes),
        "bertviz_over_pass": None if cost is None else cost / min(passes),
        "pass_seconds": min(passes),
    }


def bertviz(held: Path, memory: int) -> tuple[float | None, float, float | None, str]:
    """MB of all layers and of one, CPU seconds of all, and why there is none."""
    one, _, _ = child(held, memory, "0")
    whole, cost, why = child(held, memory, "")
    assert one is not None
    return whole, one, cost, why


def child(held: Path, memory: int, layers: str) -> tuple[float | None, float | None, str]:
    command = [sys.executable, __file__, "--record", str(held), "--layers", layers]
    command += ["--memory", str(memory)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT, check=False)
    except subprocess.TimeoutExpired:
        return None, None, f"not done after {LIMIT // 60} minutes"
    if done.returncode:
        if "MemoryError" not in done.stderr and done.returncode != -9:
            raise RuntimeError(done.stderr)
        return None, None, f"out of {memory} GiB of memory"
    size, cost = map(float, done.stdout.split())
    return size, cost, ""


def their_view(held: Path, layers: str, memory: int) -> None:
    """What BertViz makes of a record: its MB and CPU seconds."""
    from bertviz import model_view

    torch.set_num_threads(1)
    resource.setrlimit(resource.RLIMIT_AS, (memory << 30, memory << 30))
    record = hw.load_record(held)
    attention = [layer.scores.rows().contiguous() for layer in record.layers.values()]
    tokens = [token.text for token in record.tokens]
    chosen = [int(n) for n in layers.split(",")] if layers else None
    start = time.process_time()
    found = model_view(attention, tokens, include_layers=chosen, html_action="return")
    cost = time.process_time() - start
    print(len(found.data.encode()) / 1e6, cost)


def table(rows: list[dict[str, object]]) -> list[str]:
    names = "tokens | page, MB | least | bar, MB | BertViz, MB | over a pass | of BertViz"
    lines = [f"| {names} |", "|---" * 7 + "|"]
    for r in rows:
        theirs = f"{r['bertviz']:.1f}" if r["bertviz"] else f"{r['bertviz_why']}; "
        if not r["bertviz"]:
            theirs += f"one layer {r['bertviz_layer']:.0f}"
        cost = r["bertviz_over_pass"]
        lines.append(
            f"| {r['tokens']:,} | {r['page']:.2f} | {r['least']:g} | {r['bar'] or ''} | {theirs} "
            f"| {r['over_pass']:.1f} | {'' if cost is None else f'{cost:.1f}'} |"
        )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lengths", default="64,256,1024")
    parser.add_argument("--seconds", type=float, default=60.0, help="per length")
    parser.add_argument("--memory", type=int, default=8, help="GiB that BertViz may have")
    parser.add_argument("--record", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--layers", default="", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.record is not None:
        their_view(options.record, options.layers, options.memory)
        return
    torch.set_num_threads(1)
    model = hw.load("smollm2")
    lengths = [int(n) for n in options.lengths.split(",")]
    rows = [measured(model, n, options.seconds, options.memory) for n in lengths]
    save("page", ABOUT, rows, table(rows), machine(1))


if __name__ == "__main__":
    main()
