"""Heads on a plane and as a tree: every one there, coloured by its group, with a scale and names that are free."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.transforms import Bbox

from headwise.names import ShapeError
from headwise.see.clusters.grouping import Tree, tree
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


def test_both_axes_have_one_scale_and_its_unit() -> None:
    (axes,) = draw_plane(IDS, np.eye(4)[:, :2], GROUPS, caption="heads").axes
    assert axes.get_aspect() == 1
    assert "root of nats" in axes.get_xlabel()
    assert "root of nats" in axes.get_ylabel()
    assert len(axes.get_xticks()) > 2


def boxes(axes: Axes) -> list[Bbox]:
    """Of the digits of the names, then of the points, a little smaller than they are."""
    dots = axes.figure.dpi / 72
    names = []
    for text in axes.texts:
        low = axes.transData.transform(text.xy)[1] + text.xyann[1] * dots
        wide = text.get_window_extent()
        names.append(Bbox([[wide.x0, low], [wide.x1, low + 0.7 * text.get_fontsize() * dots]]))
    points = [
        Bbox.from_bounds(x - dots, y - dots, 2 * dots, 2 * dots)
        for points in axes.collections
        for x, y in axes.transData.transform(points.get_offsets())
    ]
    return [*(box.padded(-0.3) for box in names), *points]


def test_names_cover_no_name_and_no_point() -> None:
    rng = np.random.default_rng(0)
    ids = [f"{i}.{h}" for i in range(20) for h in range(6)]
    (axes,) = draw_plane(ids, rng.normal(size=(len(ids), 2)), {}, caption="heads").axes
    found = boxes(axes)
    named = len(axes.texts)
    assert len(ids) / 2 < named <= len(ids)
    for i, box in enumerate(found[:named]):
        assert not any(box.overlaps(other) for other in found[i + 1 :])


def test_a_name_without_room_is_left_out() -> None:
    many = [f"0.{h}" for h in range(20)]
    figure = draw_plane(many, np.array([[0, 0]] * 19 + [[1, 1.0]]), GROUPS, caption="heads")
    names = [text.get_text() for text in figure.axes[0].texts]
    assert names[0] == "0.0"
    assert "0.19" in names
    assert len(names) < 12


def test_one_head_far_from_all_others_does_not_take_their_room() -> None:
    places = np.random.default_rng(0).normal(size=(40, 2))
    places[7] = [2, 60]
    ids = [f"0.{h}" for h in range(40)]
    figure = draw_plane(ids, places, {}, caption="heads")
    (axes,) = figure.axes
    assert axes.get_ylim()[1] < 10
    near, far = axes.collections
    assert len(near.get_offsets()) == 39
    assert len(far.get_offsets()) == 1
    assert "Triangles lie further out: 0.7 at (2.00, 60.00)." in figure.get_supxlabel()
    assert "Triangles" not in draw_plane(ids[:7], places[:7], {}, caption="heads").get_supxlabel()


def made() -> Tree:
    places = np.array([0, 5, 0.2, 5.1])
    values = (places[:, None] - places) ** 2
    apart = xr.DataArray(values, dims=("head_a", "head_b"), coords={"head_a": IDS, "head_b": IDS})
    return tree(apart)


def test_the_tree_names_every_head_in_the_order_of_its_leaves() -> None:
    (axes,) = draw_tree(made(), GROUPS, caption="heads").axes
    labels = axes.get_yticklabels()
    assert [label.get_text() for label in labels] == list(made().ids)
    colours = {label.get_text(): label.get_color() for label in labels}
    assert colours["0.0"] == colours["0.1"] != colours["1.0"]
    joined = sorted(max(x for x, _ in line) for line in axes.collections[0].get_segments())
    np.testing.assert_allclose(joined, sorted(made().links[:, 2]))


def test_the_tree_says_which_cluster_is_which() -> None:
    groups = {"0.0": "cluster 2", "1.0": "cluster 2", "0.1": "cluster 1", "1.1": "cluster 1"}
    (axes,) = draw_tree(made(), groups, caption="heads").axes
    named = {text.get_text(): (text.get_color(), text.get_position()[1]) for text in axes.texts}
    assert set(named) == {"cluster 1", "cluster 2"}
    shades = {label.get_text(): label.get_color() for label in axes.get_yticklabels()}
    heights = {label.get_text(): label.get_position()[1] for label in axes.get_yticklabels()}
    for id, name in groups.items():
        assert named[name][0] == shades[id]
        assert abs(heights[id] - named[name][1]) <= 5
    (links,) = axes.collections
    drawn = {
        round(max(x for x, _ in line), 6): to_hex(colour)
        for line, colour in zip(links.get_segments(), links.get_colors(), strict=True)
    }
    assert drawn[0.2] == shades["0.0"]
    assert drawn[0.1] == shades["0.1"]
    assert drawn[max(drawn)] not in shades.values()


def test_places_that_do_not_fit_are_one_line() -> None:
    with pytest.raises(ShapeError, match="4 heads came with places of shape"):
        draw_plane(IDS, np.zeros((3, 2)), {}, caption="")
