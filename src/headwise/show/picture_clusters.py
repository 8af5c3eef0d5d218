"""Heads on a plane, near each other where they look alike, and the tree that joins them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
from jaxtyping import Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from headwise.names import ShapeError
from headwise.see.clusters.grouping import Tree
from headwise.show.fonts import families_for
from headwise.show.picture_style import FONT, add_caption, new_figure, style

__all__ = ["draw_plane", "draw_tree"]

_COLOURS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195", "#8c6d31"),
    *("#4d4d4d", "#b2182b", "#1b7837", "#2166ac"),
)
"""After Okabe and Ito (2008), then darker ones; used again from the start where there are more groups."""

_OTHER = "#b0b0b0"
_INCHES = 6.5
_LEAF = 0.1
"""Inches of a leaf of the tree."""


def draw_plane(
    ids: Sequence[str],
    places: Float[np.ndarray, "head 2"],
    groups: Mapping[str, str],
    *,
    caption: str,
) -> Figure:
    """Each head at its place, named where there is room, coloured by its group.

    Args:
        ids: the heads.
        places: from `plane`.
        groups: the cluster or role of a head; a head without is grey.
        caption: the facts below the picture.

    Raises:
        ShapeError: no head, or not a place for each.
    """
    if not ids or places.shape != (len(ids), 2):
        raise ShapeError(
            f"{len(ids)} heads came with places of shape {places.shape}; give one each"
        )
    colours = _colours(ids, groups)
    names = list(colours)
    with mpl.rc_context(style(families_for([caption, *names]))):
        wide, high = np.ptp(places, axis=0)
        figure = new_figure(_INCHES, 1.2 + _INCHES * float(np.clip(high / (wide or 1), 0.4, 1.2)))
        axes = figure.subplots()
        shades = [colours.get(groups.get(id, ""), _OTHER) for id in ids]
        axes.scatter(places[:, 0], places[:, 1], s=14, c=shades, linewidths=0)
        axes.set_aspect("equal", adjustable="datalim")
        axes.set_xticks([])
        axes.set_yticks([])
        counts = {name: sum(groups.get(id) == name for id in ids) for name in names}
        handles = [
            Line2D([], [], marker="o", ls="", ms=4, color=colours[n], label=f"{n} ({counts[n]})")
            for n in names
        ]
        if handles:
            figure.legend(
                handles=handles, loc="outside upper center", ncols=min(4, len(names)), frameon=False
            )
        add_caption(figure, caption)
        figure.draw_without_rendering()
        _name(axes, ids, places, shades)
    return figure


def draw_tree(tree: Tree, groups: Mapping[str, str], *, caption: str) -> Figure:
    """The heads joined pair by pair, nearest first; names are coloured by their group.

    Args:
        tree: from `tree`.
        groups, caption: as for `draw_plane`.
    """
    from scipy.cluster.hierarchy import dendrogram

    drawn = dendrogram(tree.links, no_plot=True)
    colours = _colours(tree.ids, groups)
    with mpl.rc_context(style(families_for([caption]))):
        figure = new_figure(_INCHES, 1.2 + _LEAF * len(tree.ids))
        axes = figure.subplots()
        lines = [
            list(zip(far, at, strict=True))
            for far, at in zip(drawn["dcoord"], drawn["icoord"], strict=True)
        ]
        axes.add_collection(LineCollection(lines, colors="#4d4d4d", linewidths=0.6))
        leaves = 5 + 10 * np.arange(len(tree.ids))
        axes.set_ylim(0, 10 * len(tree.ids))
        axes.set_xlim(1.03 * float(tree.links[:, 2].max()) or 1.0, 0)
        axes.yaxis.tick_right()
        axes.set_yticks(leaves, labels=list(tree.ids), fontsize=FONT - 2)
        for label, id in zip(axes.get_yticklabels(), tree.ids, strict=True):
            label.set_color(colours.get(groups.get(id, ""), "#191919"))
        axes.tick_params(length=0)
        axes.set_xlabel("root of the mean Jensen-Shannon divergence (nats)")
        for side in ("top", "left", "right"):
            axes.spines[side].set_visible(False)
        add_caption(figure, caption)
    return figure


def _colours(ids: Sequence[str], groups: Mapping[str, str]) -> dict[str, str]:
    """A colour for each group, cluster 2 before cluster 10."""
    names = {groups[id] for id in ids if id in groups}
    ordered = sorted(names, key=lambda name: (len(name), name))
    return {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(ordered)}


def _name(
    axes: Axes, ids: Sequence[str], places: Float[np.ndarray, "head 2"], colours: Sequence[str]
) -> None:
    """Names beside the points, in order, each where it covers no earlier name."""
    shown = axes.transData.transform(places).tolist()
    width, height = FONT * 0.5, FONT * 0.95
    dots = axes.figure.dpi / 72
    taken: list[tuple[float, float, float, float]] = []
    for id, (x, y), place, colour in zip(ids, shown, places, colours, strict=True):
        box = (x + 2 * dots, y, x + (2 + width * len(id)) * dots, y + height * dots)
        if any(_meet(box, other) for other in taken):
            continue
        taken.append(box)
        axes.annotate(
            id, place, (2, 0), textcoords="offset points", fontsize=FONT - 2, color=colour
        )


def _meet(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
