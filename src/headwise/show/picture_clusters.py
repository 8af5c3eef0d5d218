"""Heads on a plane, near each other where they look alike, and the tree that joins them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

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
from headwise.show.picture_names import name_points
from headwise.show.picture_style import FONT, add_caption, new_figure, style

__all__ = ["draw_plane", "draw_tree"]

_COLOURS = (
    *("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195", "#8c6d31"),
    *("#4d4d4d", "#b2182b", "#1b7837", "#2166ac"),
)
"""After Okabe and Ito (2008), then darker ones; used again from the start where there are more groups."""

_OTHER = "#b0b0b0"
_INCHES = 6.5
_PAGE = 9.0
"""Inches that a tree takes, where its leaves are no thinner for that than can be read."""
_LEAVES = (0.065, 0.1)
"""Inches of a leaf of the tree, at least and at most."""
_FAR = 0.05
"""At most this share of the heads may be put at the edge for being far from all others."""


def draw_plane(
    ids: Sequence[str],
    places: Float[np.ndarray, "head 2"],
    groups: Mapping[str, str],
    *,
    caption: str,
) -> Figure:
    """Each head at its place, named where there is room, coloured by its group.

    A few heads that lie far from all others are drawn as triangles at the edge, so that the others have room.

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
    spans = [_span(places[:, 0]), _span(places[:, 1])]
    low, high = np.array(spans).T
    shown = places.clip(low, high)
    far = (shown != places).any(1)
    if far.any():
        told = (f"{ids[i]} at ({places[i, 0]:.2f}, {places[i, 1]:.2f})" for i in far.nonzero()[0])
        caption += f" Triangles lie further out: {', '.join(told)}."
    with mpl.rc_context(style(families_for([caption, *colours]))):
        width, height = high - low
        figure = new_figure(_INCHES, 1.4 + _INCHES * float(np.clip(height / (width or 1), 0.4, 1)))
        axes = figure.subplots()
        shades = [colours.get(groups.get(id, ""), _OTHER) for id in ids]
        for which, marker, size in ((~far, "o", 14), (far, "^", 20)):
            some = [shade for shade, one in zip(shades, which, strict=True) if one]
            if some:
                axes.scatter(
                    shown[which, 0], shown[which, 1], s=size, c=some, linewidths=0, marker=marker
                )
        _scale(axes)
        _legend(figure, ids, groups, colours)
        add_caption(figure, caption)
        figure.draw_without_rendering()
        name_points(axes, ids, shown, shades)
    return figure


def draw_tree(tree: Tree, groups: Mapping[str, str], *, caption: str) -> Figure:
    """The heads joined pair by pair, nearest first; groups coloured, with what joins their heads, and named beside.

    Args:
        tree: from `tree`.
        groups, caption: as for `draw_plane`.
    """
    from scipy.cluster.hierarchy import dendrogram

    colours = _colours(tree.ids, groups)
    shades = _link_colours(tree, groups, colours)
    drawn = dendrogram(tree.links, no_plot=True, link_color_func=lambda k: shades[k])
    count = len(tree.ids)
    leaf = float(np.clip(_PAGE / count, *_LEAVES))
    with mpl.rc_context(style(families_for([caption, *colours]))):
        figure = new_figure(_INCHES, 1.2 + leaf * count)
        axes = figure.subplots()
        lines = [
            list(zip(far, at, strict=True))
            for far, at in zip(drawn["dcoord"], drawn["icoord"], strict=True)
        ]
        axes.add_collection(LineCollection(lines, colors=drawn["color_list"], linewidths=0.7))
        axes.set_ylim(10 * count, 0)
        axes.set_xlim(1.03 * float(tree.links[:, 2].max()) or 1.0, 0)
        axes.yaxis.tick_right()
        size = min(FONT - 2, 0.85 * 72 * leaf)
        axes.set_yticks(5 + 10 * np.arange(count), labels=list(tree.ids), fontsize=size)
        for label, id in zip(axes.get_yticklabels(), tree.ids, strict=True):
            label.set_color(colours.get(groups.get(id, ""), "#191919"))
        axes.tick_params(axis="y", length=0)
        axes.tick_params(axis="x", length=2, width=0.6)
        axes.set_xlabel("root of the mean Jensen-Shannon divergence (nats)")
        for side in ("top", "left", "right"):
            axes.spines[side].set_visible(False)
        _name_groups(axes, tree.ids, groups, colours, size)
        add_caption(figure, caption)
    return figure


def _span(values: Float[np.ndarray, " head"]) -> tuple[float, float]:
    """From where to where an axis goes: over all heads, but a few beyond a gap wider than a third of the rest."""
    ordered = np.sort(values)
    few = int(_FAR * len(values))
    low, high = 0, len(values) - 1
    for _ in range(few):
        inner = ordered[high - 1] - ordered[low + 1] if high - low > 2 else 0.0
        if ordered[low + 1] - ordered[low] > inner / 3 > 0:
            low += 1
        elif ordered[high] - ordered[high - 1] > inner / 3 > 0:
            high -= 1
    room = 0.08 * (ordered[high] - ordered[low])
    cut = (low > 0, high < len(values) - 1)
    return (
        float(ordered[low] - room) if cut[0] else float(ordered[0]),
        float(ordered[high] + room) if cut[1] else float(ordered[-1]),
    )


def _scale(axes: Axes) -> None:
    """One scale for both axes, in the unit of the distances."""
    axes.set_aspect("equal", adjustable="datalim")
    axes.set_xlabel("first axis (root of nats)")
    axes.set_ylabel("second axis (root of nats)")
    axes.tick_params(length=2, width=0.6)
    axes.locator_params(nbins=6)


def _legend(
    figure: Figure, ids: Sequence[str], groups: Mapping[str, str], colours: Mapping[str, str]
) -> None:
    """Each group with its colour and how many heads it has."""
    counts = {name: sum(groups.get(id) == name for id in ids) for name in colours}
    look: dict[str, Any] = {"marker": "o", "ls": "", "ms": 4}
    handles = [Line2D([], [], color=colours[n], label=f"{n} ({counts[n]})", **look) for n in counts]
    if handles:
        columns = min(4, len(handles))
        figure.legend(handles=handles, loc="outside upper center", ncols=columns, frameon=False)


def _link_colours(tree: Tree, groups: Mapping[str, str], colours: Mapping[str, str]) -> list[str]:
    """The colour of each leaf and link in their first order: of the group that all its heads are of, else dark."""
    leaves = _first_order(tree)
    held: list[str | None] = [groups.get(id) for id in leaves]
    for one, other, *_ in tree.links:
        names = {held[int(one)], held[int(other)]}
        held.append(names.pop() if len(names) == 1 else None)
    return ["#4d4d4d" if name is None else colours[name] for name in held]


def _first_order(tree: Tree) -> list[str]:
    """The heads in the order that the links count them in."""
    from scipy.cluster.hierarchy import leaves_list

    found = [""] * len(tree.ids)
    for id, at in zip(tree.ids, leaves_list(tree.links).tolist(), strict=True):
        found[at] = id
    return found


def _name_groups(
    axes: Axes,
    ids: Sequence[str],
    groups: Mapping[str, str],
    colours: Mapping[str, str],
    size: float,
) -> None:
    """A bar with the name of the group beside each run of leaves of one group."""
    across = axes.get_yaxis_transform()
    beside = 1 + (max(map(len, ids)) * 0.6 * size + 6) / 72 / _INCHES
    start = 0
    for name, run in groupby(groups.get(id) for id in ids):
        stop = start + len(list(run))
        if name is not None:
            ends = [10 * start + 1, 10 * stop - 1]
            look: dict[str, Any] = {"color": colours[name], "clip_on": False}
            axes.plot([beside, beside], ends, transform=across, lw=1.5, **look)
            letters = min(FONT - 1, size * (stop - start))
            place = beside + 0.012, sum(ends) / 2
            axes.text(*place, name, va="center", fontsize=letters, transform=across, **look)
        start = stop


def _colours(ids: Sequence[str], groups: Mapping[str, str]) -> dict[str, str]:
    """A colour for each group, cluster 2 before cluster 10."""
    names = {groups[id] for id in ids if id in groups}
    ordered = sorted(names, key=lambda name: (len(name), name))
    return {name: _COLOURS[i % len(_COLOURS)] for i, name in enumerate(ordered)}
