"""SmolLM2 with the least important heads cut, tuned for a few steps, beside the uncut model tuned alike.

Heads are ranked once by gate gradients (Michel et al. 2019), on a part of the texts that are tuned on, the first
500 sentences of the corpus. Losses are of the last sentences, in nats per token. Not speed.

    python benchmarks/healing.py en_pud.conllu [--steps 20] [--batch 2] [--shares 0.2,0.5]
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

import torch

import headwise as hw
from harness import machine, save
from headwise.cut.census import census
from headwise.cut.healing.healed import Healed
from headwise.cut.healing.healing import heal
from headwise.cut.pruning.surgery import cut_heads

CALIBRATION = 500
ABOUT = (
    "# Healing beside the same tuning of the uncut model\n\n"
    "SmolLM2 (270 heads), the least important heads cut by one gate gradient. Losses are of held-out text, in nats "
    "per token. `rise` is how much more the cut model loses than the uncut one, before both are tuned and after: "
    "what both gain by getting used to the text is in neither; `mended` is the share of the rise that is gone."
)


def sentences(path: Path) -> list[str]:
    lines = path.read_text(encoding="utf-8").splitlines()
    return [line[len("# text = ") :] for line in lines if line.startswith("# text = ")]


def least(model: hw.Model, texts: torch.Tensor, share: float) -> list[str]:
    """The heads that matter least, so many of all."""
    scores = hw.importance(model, texts, method="gate", quiet=True)["importance"]
    heads = sorted(census(model).heads, key=lambda id: float(scores[id.layer, id.head]))
    return [str(id) for id in heads[: round(share * len(heads))]]


def row(share: float, found: Healed) -> dict[str, object]:
    control = found.control
    assert control is not None
    told = {"cut": share, "gap_before": found.gap_before, "gap_after": found.gap_after}
    for name, one in (("cut model", found), ("uncut model", control)):
        assert one.before is not None
        assert one.after is not None
        told |= {f"{name} before": one.before.mean, f"{name} after": one.after.mean}
    return {**told, "mended": found.mended, "curve": found.held_out, "losses": found.losses}


def table(rows: list[dict[str, object]]) -> list[str]:
    names = ("cut model before", "cut model after", "uncut model before", "uncut model after")
    lines = [f"| heads cut | {' | '.join(names)} | rise before | rise after | mended |"]
    lines.append("|---" * (len(names) + 4) + "|")
    for r in rows:
        cells = [f"{r['cut']:.0%}", *(f"{r[name]:.3f}" for name in names)]
        cells += [f"{r['gap_before']:.3f}", f"{r['gap_after']:.3f}", f"{r['mended']:.0%}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("corpus", type=Path)
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--held", type=int, default=12, help="held-out blocks")
    parser.add_argument("--ranked", type=int, default=16, help="blocks that heads are ranked on")
    parser.add_argument("--shares", default="0.2,0.5")
    options = parser.parse_args()
    torch.set_num_threads(1)
    model, texts = hw.load("smollm2", quiet=True), sentences(options.corpus)
    tuned = hw.blocks(model, texts[:CALIBRATION], options.length)
    held = hw.blocks(model, texts[CALIBRATION:], options.length)[-options.held :]
    shares = [float(share) for share in options.shares.split(",")]
    cuts = {
        share: cut_heads(model, least(model, tuned[: options.ranked], share)) for share in shares
    }
    asked = {"steps": options.steps, "batch": options.batch, "warmup": 4, "every": 10}
    control = heal(model, tuned, held_out=held, **asked)
    rows = []
    for share, cut in cuts.items():
        found = replace(heal(cut, tuned, held_out=held, **asked), control=control)
        rows.append(row(share, found))
        print(table(rows)[-1], flush=True)
    facts = machine(1) | {"steps": options.steps, "rows_of_each": options.batch}
    facts |= {"tokens_of_a_row": options.length, "held_out_rows": len(held)}
    save("healing", ABOUT, rows, table(rows), facts)


if __name__ == "__main__":
    main()
