"""What was counted beside what the closed forms give, for layers whose sizes were seen."""

from __future__ import annotations

from headwise.check.counting.formulas import Form, attention, feed_forward
from headwise.check.counting.ledger import Ledger
from headwise.check.counting.stages import Stage, Stages
from headwise.names import LayerId

__all__ = ["against_formulas", "forms_of"]

Compared = list[tuple[str, tuple[int, int], Form]]
"""A part, its weights (without biases) and forward FLOPs of a sequence as counted, and what the forms give."""


def against_formulas(ledger: Ledger) -> list[tuple[LayerId, Compared]]:
    """For the first layer of each kind its parts, counted and by formula."""
    found: list[tuple[LayerId, Compared]] = []
    seen: list[tuple[str, tuple[Stage, ...]]] = []
    for stages in ledger.stages:
        kind = (stages.id.stream, stages.stages)
        if kind in seen:
            continue
        seen.append(kind)
        compared = []
        for part, form in forms_of(stages).items():
            held = ledger.table.sel(place=str(stages.id), part=part)
            flops = int(held["flops_forward"]) // ledger.sizes.batch
            compared.append((part, (int(held["weights"]), flops), form))
        found.append((stages.id, compared))
    return found


def forms_of(stages: Stages) -> dict[str, Form]:
    """What the closed forms give for one layer, from the sizes of its shapes."""
    held = {stage.name: stage for stage in stages.stages if stage.name in ("q", "k", "v", "z")}
    flat = [stage for stage in stages.stages if stage.name in ("input", "o")]
    forms: dict[str, Form] = {}
    if len(held) == 4 and flat:
        q, k, v = held["q"], held["k"], held["v"]
        forms = attention(flat[0].columns, q.times, k.times, q.columns, v.columns, q.rows, k.rows)
    by_name = {stage.name: stage for stage in stages.stages}
    into = [stage.columns for stage in stages.stages if stage.name == "w1"]
    if "hidden" in by_name and len(into) <= 2:
        hidden, read = by_name["hidden"], by_name["ffn_input"]
        if sum(into) % hidden.columns == 0:
            maps = 1 + sum(into) // hidden.columns
            forms["ffn"] = feed_forward(read.columns, hidden.columns, read.rows, maps)
    return forms
