"""The rows of what cuts cost: compared with the reference of their split, as a table, and kept."""

from __future__ import annotations

import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from harness import RESULTS

SHARES = (54, 135)  # of 270 heads
ABOUT = (
    "# What SmolLM2 loses when heads go\n\n"
    "Loss on the half of the sentences that was not looked at, no training after the cut; `zero`: heads at 0, "
    "`mean`: their mean results folded into the bias, `refit`: W_O refitted by ridge regression. The ratio is to "
    "the gate gradient of the same split; errors are standard errors over blocks, of differences."
)
REFERENCE = "gate"
BARS = {"mean": (0.50, 0.45), "refit": (0.35, 0.25)}
MOST = {"refit": (0.05, 0.27)}


@dataclass(frozen=True)
class Row:
    """A cut of so many heads, and what it cost."""

    split: str
    method: str
    given_back: str
    seed: int
    dtype: str
    removed: int
    base: float
    rise: float
    standard_error: float
    by_block: tuple[float, ...]
    seconds: float
    ratio: float = float("nan")
    ratio_error: float = float("nan")


def compared(rows: list[Row]) -> list[Row]:
    """With the ratio to the reference of the same split and share, and its error over blocks."""
    reference = {
        (r.split, r.removed): torch.tensor(r.by_block) for r in rows if r.method == REFERENCE
    }
    found = []
    for row in rows:
        against = reference.get((row.split, row.removed))
        if against is not None and len(against) == len(row.by_block):
            mine = torch.tensor(row.by_block)
            ratio = (mine.mean() / against.mean()).item()
            off = (mine - ratio * against).std() / len(mine) ** 0.5 / against.mean()
            row = replace(row, ratio=ratio, ratio_error=abs(off.item()))
        found.append(row)
    return found


def table(rows: list[Row], order: Sequence[str]) -> list[str]:
    """One line for each split and method, methods in this order."""
    lines = [
        "| split | method | given back | runs | 20 % gone: rise | ratio | 50 % gone: rise | ratio | bar |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    keys = dict.fromkeys(
        (r.split, r.method) for r in sorted(rows, key=lambda r: order.index(r.method))
    )
    for split, method in sorted(keys, key=lambda key: ["first", "second", "odd"].index(key[0])):
        own = [r for r in rows if (r.split, r.method) == (split, method)]
        cells, ratios = [], []
        for removed in SHARES:
            some = [r for r in own if r.removed == removed]
            if not some:
                cells += ["", ""]
                continue
            rise, ratio = (statistics.mean(getattr(r, x) for r in some) for x in ("rise", "ratio"))
            errors = (max(getattr(r, x) for r in some) for x in ("standard_error", "ratio_error"))
            cells += [f"{v:.3f} +- {e:.3f}" for v, e in zip((rise, ratio), errors, strict=True)]
            ratios.append((rise, ratio))
        given_back = own[0].given_back
        lines.append(
            f"| {split} | {method} | {given_back} | {len({r.seed for r in own})} | "
            + " | ".join(cells)
            + f" | {verdict(split, own[0], ratios)} |"
        )
    return lines


def verdict(split: str, row: Row, found: Sequence[tuple[float, float]]) -> str:
    """Whether the recipe of `prune` meets the bars of its kind, at both shares."""
    given_back = row.given_back
    if not row.method.startswith("joint") or split != "first" or len(found) < len(SHARES):
        return ""
    most = MOST.get(given_back, (float("inf"),) * len(SHARES))
    limits = zip(found, BARS[given_back], most, strict=True)
    met = all(ratio <= bar and rise <= top for (rise, ratio), bar, top in limits)
    return " and ".join(f"{bar:g}" for bar in BARS[given_back]) + (" met" if met else " missed")


def kept() -> list[Row]:
    file = RESULTS / "cutting.json"
    if not file.exists():
        return []
    rows = json.loads(file.read_text())["rows"]
    return [Row(**{**row, "by_block": tuple(row["by_block"])}) for row in rows]
