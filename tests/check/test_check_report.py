"""An audit as it is printed: what is wrong, where it enters, and what it looks like."""

from __future__ import annotations

import torch
from torch import Tensor, nn

import headwise as hw
from headwise.check.telling.report import Audit, Outcome


def test_each_leak_says_where_it_enters_and_what_it_looks_like() -> None:
    leak = Outcome(
        "future", "train", "leak", "it moves", 0.3, module="mix", kind="Mix", advice="Shift."
    )
    differs = Outcome("cached", "", "differs", "it differs", 0.3, advice="Carry on.")
    unknown = Outcome("rows", "", "unknown", "it raised")
    clean = Outcome("padding", "left", "clean", "nothing moved")
    audit = Audit("toy", (differs, leak, unknown, clean), "causal", 8, 1, "float64", "given", 0)
    assert str(audit).splitlines() == [
        "toy: not clean (causal, 8 positions, float64)",
        "  future (train): leak: it moves",
        "    enters in mix (Mix); Shift.",
        "  cached: differs: it differs",
        "    Carry on.",
        "  rows: unknown: it raised",
    ]


class Both(nn.Module):
    def __init__(self, *, both: bool) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed = nn.Embedding(64, 8)
        self.recur = nn.GRU(8, 8, batch_first=True, bidirectional=both)

    def forward(self, ids: Tensor) -> Tensor:
        out: Tensor = self.recur(self.embed(ids))[0]
        return out


def test_a_recurrence_that_runs_both_ways_is_told() -> None:
    said = str(hw.audit(Both(both=True), length=9, dimensions=["future"]))
    assert "enters in recur (GRU); looks like a recurrence that runs both ways" in said
    assert hw.audit(Both(both=False), length=9, dimensions=["future"]).clean
