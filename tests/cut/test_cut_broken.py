"""What was cut of a model, read from a file that somebody changed."""

from __future__ import annotations

import copy

import pytest

from headwise.cut.pruning.record import Cut
from headwise.names import ConfigError

KEPT = {"heads": [0, 2, 3], "groups": [1, 2], "kv_heads": [0, 1], "num_heads": 4, "num_kv_heads": 2}


@pytest.mark.parametrize(
    "change",
    [
        {"heads": [0, 0, 0]},
        {"heads": [0, 2, 900]},
        {"heads": [0, -1, 3]},
        {"groups": [1, 1]},
        {"groups": [3]},
        {"groups": [0, 3]},
        {"kv_heads": [0, 7]},
        {"num_heads": "four"},
    ],
)
def test_heads_that_cannot_be_are_refused(change: dict[str, object]) -> None:
    held = {"kept": {"attention": copy.deepcopy(KEPT)}, "shapes": {}, "numbers": {}}
    assert Cut.from_dict(held).kept["attention"].heads == (0, 2, 3)
    held["kept"]["attention"] |= change
    with pytest.raises(ConfigError, match=r"cannot be read .*save it anew"):
        Cut.from_dict(held)
