"""A reach as a figure: the bar offers the layers at which paths open, and no others."""

from __future__ import annotations

import pytest

from headwise import masks
from headwise.core.masks import Mask
from headwise.show.picture_reach import reach_figure


@pytest.mark.parametrize(
    ("mask", "layers", "ticks"),
    [
        (masks.causal(), 6, [0, 1]),
        (masks.causal() & masks.window(4), 6, [0, 1, 2, 3, 4]),
        (masks.causal() & masks.window(1), 3, [0]),
        (masks.causal() & masks.window(2), 20, [0, 2, 4, 6, 8, 10]),
    ],
)
def test_the_bar_holds_the_layers_that_cells_have(
    mask: Mask, layers: int, ticks: list[int]
) -> None:
    reach = masks.reach(mask, layers, length=12)
    figure = reach_figure(reach, "")
    bar = figure.axes[-1]
    assert bar.get_ylabel() == "after how many layers a path is open"
    assert [int(tick) for tick in bar.get_yticks()] == ticks
    assert bar.get_ylim() == (-0.5, int(reach.first.max()) + 0.5)
