"""The lab as JSON: claims, runs, and whether two runs agree."""

from __future__ import annotations

import math
from typing import Any

from headwise.lab.agreeing import Agreement
from headwise.lab.claim import Claim, Finding
from headwise.lab.estimates import Estimate
from headwise.lab.running import Run
from headwise.lab.words import Language

__all__ = ["agreement_json", "claim_json", "run_json"]


def claim_json(claim: Claim, language: Language) -> dict[str, Any]:
    """What a claim says."""
    return {
        "name": claim.name,
        "row": claim.row,
        "title": claim.title.of(language),
        "says": claim.says.of(language),
        "formula": claim.formula,
    }


def run_json(run: Run, language: Language) -> dict[str, Any]:
    """A run: its verdict where it is whole, what was asked for, and every case with its means."""
    found = claim_json(run.claim, language) | {"whole": run.whole, "asked": run.asked}
    if run.whole:
        verdict = run.verdict()
        found["verdict"] = verdict.kind
        found["verdict_says"] = verdict.says.of(language)
        found["findings"] = [_finding(one, language) for one in verdict.findings]
    quantities = [quantity.name for quantity in run.claim.quantities]
    found["cases"] = [
        dict(case) | {name: _estimate(run.results.mean(name, **case)) for name in quantities}
        for case in run.results.cases()
    ]
    return found


def agreement_json(one: Run, other: Run, found: Agreement) -> dict[str, Any]:
    """Both verdicts, and each figure in both."""
    pairs = {
        a.name: [_estimate(a.value), _estimate(b.value), a.name not in found.differing]
        for a, b in found.pairs
    }
    return {
        "agree": found.agree,
        "verdicts": [one.verdict().kind, other.verdict().kind],
        "seeds": [one.asked.get("seed"), other.asked.get("seed")],
        "figures": {
            name: {"one": a, "other": b, "agree": same} for name, (a, b, same) in pairs.items()
        },
        "differing": list(found.differing),
    }


def _finding(one: Finding, language: Language) -> dict[str, Any]:
    return {
        "name": one.name,
        "says": one.says.of(language),
        **_estimate(one.value),
        "holds": one.holds,
    }


def _estimate(value: Estimate) -> dict[str, Any]:
    ends = {"mean": value.mean, "low": value.low, "high": value.high}
    return {name: x if math.isfinite(x) else None for name, x in ends.items()} | {
        "seeds": value.count
    }
