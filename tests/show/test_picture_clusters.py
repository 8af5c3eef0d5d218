"""Heads on a plane and as a tree: every one there, coloured by its group."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import to_hex

from headwise.names import ShapeError
from headwise.see.clusters.grouping import tree
from headwise.show.picture_clusters import draw_plane, draw_tree

IDS = ["0.0", "0.1", "1.0", "1.1"]
GROUPS = {"0.0": "previous", "0.1": "previous", "1.0": "induction"}


def test_each_head_is_a_point_in_the_colour_of_its_group() -> None:
    places = np.array([[0, 0], [1, 0.5], [4, 3], [3, 3.0]])
    figure = draw_plane(IDS, places, GROUPS, caption="heads")
    (axes,) = figure.axes
    (points,) = axes.collections
    np.testing.assert_array_equal(points.get_offsets(), places)
    shades = [to_hex(colour) for colour in points.get_facecolors()]
    assert shades[0] == shades[1] != shades[2]
    assert len(set(shades)) == 3
    assert {text.get_text() for text in axes.texts} == set(IDS)
    (legend,) = figure.legends
    assert {text.get_text() for text in legend.get_texts()} == {"previous (2)", "induction (1)"}


def test_names_that_would_cover_each_other_are_left_out() -> None:
    figure = draw_plane(IDS, np.array([[0, 0], [1, 1], [0, 0], [0, 0.0]]), GROUPS, caption="heads")
    assert [text.get_text() for text in figure.axes[0].texts] == ["0.0", "0.1"]


def test_the_tree_names_every_head_in_the_order_of_its_leaves() -> None:
    places = np.array([0, 5, 0.2, 5.1])
    values = (places[:, None] - places) ** 2
    apart = xr.DataArray(values, dims=("head_a", "head_b"), coords={"head_a": IDS, "head_b": IDS})
    made = tree(apart)
    (axes,) = draw_tree(made, GROUPS, caption="heads").axes
    labels = axes.get_yticklabels()
    assert [label.get_text() for label in labels] == list(made.ids)
    colours = {label.get_text(): label.get_color() for label in labels}
    assert colours["0.0"] == colours["0.1"] != colours["1.0"]
    joined = sorted(max(x for x, _ in line) for line in axes.collections[0].get_segments())
    np.testing.assert_allclose(joined, sorted(made.links[:, 2]))


def test_places_that_do_not_fit_are_one_line() -> None:
    with pytest.raises(ShapeError, match="4 heads came with places of shape"):
        draw_plane(IDS, np.zeros((3, 2)), {}, caption="")
