"""Every planted fault is told, under the dimension it belongs to, and its module is named."""

from __future__ import annotations

import pytest
from zoo import FAULTS
from zoo_parts import Fault

import headwise as hw

SEEDS = (0, 1, 2)


@pytest.mark.parametrize("fault", FAULTS, ids=str)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_planted_fault_is_told_and_its_module_named(fault: Fault, seed: int) -> None:
    dimensions = None if seed == 0 else [fault.dimension]  # once as people call it, with all
    model = fault.build(seed)
    audit = hw.audit(model, dimensions=dimensions, seed=seed, **fault.call)
    assert not audit.clean
    found = [outcome for outcome in audit.leaks if outcome.dimension == fault.dimension]
    assert found, f"nothing under {fault.dimension}:\n{audit}"
    named = [(outcome.title, outcome.module) for outcome in found]
    assert all(fault.names(module) for _, module in named), f"{named}, not {fault.module}"
    assert all(outcome.advice for outcome in found), str(audit)


def test_the_zoo_holds_faults_of_every_dimension() -> None:
    told = {fault.dimension for fault in FAULTS}
    assert told == {
        *("future", "padding", "documents", "rows", "memory"),
        *("cached", "chunked", "unpadded", "weights", "training"),
    }
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 36
