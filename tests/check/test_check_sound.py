"""No sound model is accused, whatever its weights are."""

from __future__ import annotations

import pytest
from zoo import SOUND
from zoo_parts import Sound

import headwise as hw

MANY, FEW = range(1, 3), range(1, 2)


@pytest.mark.parametrize("model", SOUND, ids=str)
def test_a_sound_model_is_not_accused(model: Sound) -> None:
    audit = hw.audit(model.build(0), **model.call)
    assert audit.clean, str(audit)
    assert audit["rows"].verdict == "clean"
    assert audit["future"].verdict == ("skipped" if model.full else "clean")


@pytest.mark.parametrize("model", SOUND, ids=str)
def test_a_sound_model_is_not_accused_with_other_weights(model: Sound) -> None:
    """The dimensions that are told by how large an influence is; ways to run agree or not at any weights."""
    held = {name: value for name, value in model.call.items() if name != "dimensions"}
    for seed in MANY if model.cheap else FEW:
        audit = hw.audit(model.build(seed), dimensions=["future", "memory"], seed=seed, **held)
        assert not audit.leaks, f"seed {seed}:\n{audit}"
        assert not audit.unknown, f"seed {seed}:\n{audit}"


def test_the_zoo_holds_enough_sound_models() -> None:
    assert len({model.name for model in SOUND}) == len(SOUND) >= 36
