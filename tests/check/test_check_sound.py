"""No sound model is accused, whatever its weights are."""

from __future__ import annotations

import pytest
from zoo import SOUND
from zoo_parts import Sound

import headwise as hw

MANY, FEW = range(20), range(3)


@pytest.mark.parametrize("model", SOUND, ids=str)
def test_a_sound_model_is_not_accused(model: Sound) -> None:
    for seed in MANY if model.cheap else FEW:
        audit = hw.audit(model.build(seed), seed=seed, **model.call)
        assert audit.clean, f"seed {seed}:\n{audit}"
        assert audit["rows"].verdict == "clean", f"seed {seed}:\n{audit}"
        future = "skipped" if model.full else "clean"
        assert audit["future"].verdict == future, f"seed {seed}:\n{audit}"


def test_the_zoo_holds_enough_sound_models() -> None:
    assert len({model.name for model in SOUND}) == len(SOUND) >= 36
