"""Every planted fault is told, under the dimension it belongs to, and its module is named."""

from __future__ import annotations

import pytest
from zoo import FAULTS
from zoo_parts import Fault

import headwise as hw
from headwise.check.telling.report import COMPARISONS, DIMENSIONS

SEEDS = (0, 1)

LOOKS_LIKE = {
    "window one too wide": "window off by one",
    "prefix not declared": "prefix",
    "one diagonal too many": "diagonal is off by one",
    "chunks that see their whole": "chunks of 4",
    "labels shifted twice": "labels shifted twice",
    "instance norm over time": "a norm",
    "mean of the text added": "taken over all positions at once",
    "-50 in the gradient alone": "finite mask value",
    "padding ignored": "padding mask",
    "mask dropped for the weights": "one of both ways to attend is not given",
    "batch norm, rows": "batch statistics",
    "memory_key_padding_mask forgotten": "cross-attention is not",
    "prefix that unmasks padding": "after the padding",
    "eager attention without mask": "eager attention is not given",
    "rotary position off by one": "positions off by one",
}
"""Faults of the commonest kinds, and what is said of them."""


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_planted_fault_is_told_and_its_module_named(fault: Fault, seed: int) -> None:
    dimensions = None if seed == 0 else [fault.dimension]  # once as people call it, with all
    audit = hw.audit(fault.build(seed), dimensions=dimensions, seed=seed, **fault.call)
    assert not audit.clean
    found = [outcome for outcome in audit.leaks if outcome.dimension == fault.dimension]
    assert found, f"nothing under {fault.dimension}:\n{audit}"
    named = [(outcome.title, outcome.module) for outcome in found]
    assert all(fault.names(module) for _, module in named), f"{named}, not {fault.module}"
    verdict = "differs" if fault.dimension in COMPARISONS else "leak"
    assert {outcome.verdict for outcome in found} == {verdict}


@pytest.mark.parametrize("name", LOOKS_LIKE)
def test_a_common_fault_is_told_by_its_looks(name: str) -> None:
    fault = next(fault for fault in FAULTS if fault.name == name)
    audit = hw.audit(fault.build(0), dimensions=[fault.dimension], **fault.call)
    said = [outcome.advice for outcome in audit.leaks if outcome.dimension == fault.dimension]
    assert any(LOOKS_LIKE[name] in advice for advice in said), said


def test_the_zoo_holds_faults_of_every_dimension() -> None:
    assert {fault.dimension for fault in FAULTS} == set(DIMENSIONS)
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 36
