"""Audits made by hand, for what shows them."""

from __future__ import annotations

import math
from dataclasses import replace

import torch

from headwise.check.telling.report import Audit, Outcome


def maps(length: int, *leaks: tuple[int, int], tried: int = 0) -> dict[str, torch.Tensor]:
    """A causal map in which these pairs leak; from row `tried` on, all was measured."""
    allowed = torch.ones(length, length, dtype=torch.bool).tril()
    far = torch.arange(length)[:, None] - torch.arange(length)
    measured = torch.where(allowed, 0.7 ** far.double().abs(), 0.0)
    for place, (q, k) in enumerate(leaks):
        measured[q, k] = 0.02 / (place + 1)
    measured[:tried] = math.nan
    return {"allowed": allowed, "measured": measured}


def leak(length: int = 8, **more: object) -> Outcome:
    pairs = ((3, 5), (2, 6))
    found = Outcome(
        "future",
        "sdpa",
        "leak",
        "an edit at position 5 moves position 3",
        strength=0.02,
        floor=1e-16,
        smallest=3e-13,
        module="model.layers.1.self_attn",
        kind="LlamaAttention",
        pairs=pairs,
        advice="the window may be one too wide",
        **maps(length, *pairs),
    )
    return replace(found, **more)  # type: ignore[arg-type]


CLEAN = Outcome("future", "eager", "clean", "nothing moved", floor=1e-16, smallest=2e-13, **maps(8))
DIFFERS = Outcome(
    "cached",
    "",
    "differs",
    "token by token differs from the whole",
    strength=0.3,
    floor=1e-16,
    smallest=1e-12,
    module="",
    kind="Toy",
    pairs=((4, 4), (5, 5)),
)
UNKNOWN = Outcome("rows", "train", "unknown", "the edited row itself did not move")
SKIPPED = Outcome("memory", "", "skipped", "there is no encoder")


def audit(*outcomes: Outcome, **more: object) -> Audit:
    found = Audit("工具/toy", outcomes, "causal()", 8, 2, "float64", "given", 0)
    return replace(found, **more)  # type: ignore[arg-type]
