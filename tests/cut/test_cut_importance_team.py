"""importance over several processes: the same table as one gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from importance_help import small_decoder

from headwise.cut.ranking.importance import importance
from headwise.see.profile.together import Team
from team_help import forked

ROWS = [
    {"input_ids": torch.randint(1, 50, (2, 9 + i), generator=torch.Generator().manual_seed(i))}
    for i in range(3)
]


def ranked(method: Any, per: Any = "row") -> dict[str, Any]:
    torch.set_num_threads(1)
    found = importance(small_decoder(), ROWS, method, per=per, quiet=True)
    return {**{str(name): x.values for name, x in found.items()}, "attrs": found.attrs}


@pytest.mark.parametrize(
    ("method", "per"), [("gate", "token"), ("mean-taylor2", "row"), ("leave-one-out", "row")]
)
def test_two_processes_find_what_one_finds(method: str, per: str) -> None:
    """Also with one batch more for one of them."""
    alone = ranked(method, per)
    assert alone["attrs"]["texts"] == 6
    for found in forked(2, lambda team: ranked(method, per)):
        assert found is not None
        for name, wanted in alone.items():
            if name != "attrs":
                np.testing.assert_allclose(found[name], wanted, rtol=1e-6, atol=1e-6, err_msg=name)
        assert found["attrs"] == pytest.approx(alone["attrs"])


def test_an_interrupt_of_one_ends_all() -> None:
    def stopping(team: Team) -> Any:
        def stop(texts: float, total: int | None, tokens: int) -> None:
            if team.rank == 1 and texts > 1:
                raise KeyboardInterrupt

        found = importance(small_decoder(), ROWS, "leave-one-out", progress=stop, quiet=True)
        return found.attrs["stopped"], found["rows"].values, found["importance"].values

    ends = forked(2, stopping)
    assert all("interrupted" in end[0] for end in ends)
    np.testing.assert_array_equal(ends[0][2], ends[1][2])
    rows = ends[0][1]
    assert rows[0].min() == 4  # two texts of each process
    assert rows[2].max() == 2  # those of the one that was not stopped
