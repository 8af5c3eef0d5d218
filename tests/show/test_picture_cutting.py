"""Importances as cells, losses as lines: every number where it belongs, missing heads hatched, text as text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr
from matplotlib.collections import PolyCollection, QuadMesh
from matplotlib.figure import Figure

from headwise.names import ShapeError
from headwise.show.palette import SHADES
from headwise.show.picture_curves import Curve, Level, draw_curves
from headwise.show.picture_importance import draw_importance
from headwise.show.pictures import save
from headwise.show.ranked import grid_of_ranked, ranked_heads
from headwise.show.terminal import head_grid

VALUES = np.array([[0.5, 0.01, 0.02, 0.03], [0.001, np.nan, 0.25, 0.04]])
GROUPS = np.array([[0, 0, 1, 1]] * 2)


def table(values: np.ndarray = VALUES, layers: list[object] | None = None) -> xr.Dataset:
    dims = ("layer", "head")
    coords = {
        "layer": np.arange(len(values)) if layers is None else layers,
        "head": np.arange(values.shape[1]),
        "kv_group": (dims, np.tile(np.arange(values.shape[1]) // 2, (len(values), 1))),
    }
    data = {"importance": (dims, values), "standard_error": (dims, np.abs(values) / 10)}
    return xr.Dataset(data, coords=coords)


def drawn(figure: Figure) -> QuadMesh:
    (mesh,) = [one for one in figure.axes[0].collections if isinstance(one, QuadMesh)]
    return mesh


def test_heads_come_in_order_and_missing_ones_are_left_out() -> None:
    heads = ranked_heads(table())
    assert [str(one.id) for one in heads] == ["0.0", "1.2", "1.3", "0.3", "0.2", "0.1", "1.0"]
    assert heads[0].error == pytest.approx(0.05)
    assert [one.kv_group for one in heads] == [0, 1, 1, 1, 1, 0, 0]


def test_each_cell_has_the_colour_of_its_number_and_the_missing_one_none() -> None:
    figure = draw_importance(ranked_heads(table()), caption="heads", says="importance (nats)")
    values = np.ma.getdata(drawn(figure).get_array()).reshape(2, 4)
    np.testing.assert_array_equal(values, VALUES)
    assert drawn(figure).get_array().mask.reshape(2, 4)[1, 1]
    colours = drawn(figure).to_rgba(np.array([0.001, 0.01, 0.04, 0.25, 0.5]))
    greys = colours[:, :3].sum(1)
    assert all(greys[:-1] > greys[1:]), "darker is more"
    assert greys[0] - greys[1] > 0.05, "small numbers are told apart too"
    bars = [line.get_xdata()[0] for line in figure.axes[0].lines]
    assert bars == [2], "a bar where the KV group changes"
    (legend,) = figure.legends
    assert legend.get_texts()[0].get_text() == "no such head (cut, or none there)"
    full = np.where(np.isnan(VALUES), 0.1, VALUES)
    assert not draw_importance(ranked_heads(table(full)), caption="", says="x").legends


def test_what_is_below_zero_has_another_hue_and_zero_is_paper() -> None:
    values = np.array([[0.5, -0.5, 0.0, 0.1]])
    figure = draw_importance(ranked_heads(table(values)), caption="", says="loss (nats)")
    above, below, zero = drawn(figure).to_rgba(np.array([0.5, -0.5, 0.0]))[:, :3]
    assert above[2] > above[0] + 0.2, "blue"
    assert below[0] > below[2] + 0.2, "orange"
    assert min(zero) > 0.95
    ticks = [text.get_text() for text in figure.axes[1].get_yticklabels()]
    assert "-0.5" in ticks
    assert "0.5" in ticks


def test_streams_have_a_panel_each_in_the_order_of_the_table() -> None:
    layers = ["encoder.0", "encoder.1", "decoder.0", "decoder.1", "cross.0", "cross.1"]
    heads = ranked_heads(table(np.tile(VALUES, (3, 1)), layers))
    figure = draw_importance(heads, caption="小明", says="importance (nats)")
    assert [axes.get_title() for axes in figure.axes[:3]] == ["encoder", "decoder", "cross"]


def test_the_grid_on_a_terminal_shades_by_order() -> None:
    from rich.console import Console

    values = np.arange(1.0, 41).reshape(10, 4)
    values[3, 3] = -1
    values[4, 0] = np.nan
    grid = grid_of_ranked(ranked_heads(table(values)), "importance")
    codes = {str(cell.id): cell.code for cell in grid.cells}
    assert codes["9.3"] == codes["9.0"] == SHADES[-1]
    assert codes["0.0"] == SHADES[0]
    assert codes["3.3"] == "-"
    assert "4.0" not in codes
    counts = grid.counts()
    assert sum(counts.values()) == 39
    assert counts["top tenth, from 37.00:"] == 4
    console = Console(width=60, highlight=False, color_system=None)
    with console.capture() as capture:
        console.print(head_grid(grid, width=60, colour=False))
    lines = capture.get().splitlines()
    (row,) = [line for line in lines if line.strip().startswith("4 ")]
    assert row.split("│")[0].strip("4 ") in SHADES, "one head of the group is there"
    assert max(map(len, lines)) <= 60


def curves() -> list[Curve]:
    x = np.array([0, 0.1, 0.5])
    y = np.array([3.6, 3.7, 4.4])
    return [Curve("our_way $x$", x, y), Curve("随机", x, y + 1, y + 0.8, y + 1.3)]


def test_lines_bands_and_levels_are_where_the_numbers_are(tmp_path: Path) -> None:
    figure = draw_curves(
        curves(), [Level("as it is", 3.6)], xlabel="heads removed", ylabel="loss (nats)",
        caption="smollm2", percent=True,
    )  # fmt: skip
    (axes,) = figure.axes
    ours, others, level = axes.lines
    np.testing.assert_array_equal(ours.get_ydata(), curves()[0].y)
    np.testing.assert_array_equal(others.get_xdata(), curves()[1].x)
    assert set(level.get_ydata()) == {3.6}
    (band,) = [one for one in axes.collections if isinstance(one, PolyCollection)]
    heights = band.get_paths()[0].vertices[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((4.4, 5.7))
    save(figure, tmp_path / "c.svg")
    svg = (tmp_path / "c.svg").read_text(encoding="utf-8")
    for text in ("随机", "our_way $x$", "as it is", "50 %", "heads removed", "loss (nats)"):
        assert text in svg, text
    looks = {(line.get_color(), line.get_linestyle(), line.get_marker()) for line in axes.lines[:2]}
    assert len({look[0] for look in looks}) == len({look[2] for look in looks}) == 2


def test_what_cannot_be_drawn_is_one_line() -> None:
    with pytest.raises(ShapeError, match="no heads to draw"):
        draw_importance([], caption="", says="x")
    with pytest.raises(ShapeError, match="no line to draw"):
        draw_curves([], xlabel="", ylabel="", caption="")
    with pytest.raises(ShapeError, match="3 in x, 2 in y"):
        draw_curves([Curve("a", np.arange(3.0), np.arange(2.0))], xlabel="", ylabel="", caption="")
