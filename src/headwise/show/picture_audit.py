"""An audit as a figure: what may be seen beside what is, for each leak, its cells outlined."""

from __future__ import annotations

import math
from collections.abc import Sequence

import matplotlib as mpl
import numpy as np
import torch
from jaxtyping import Bool, Float
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.colors import LinearSegmentedColormap, ListedColormap, LogNorm
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from torch import Tensor

from headwise.check.telling.report import Audit, Outcome
from headwise.names import ShapeError
from headwise.show.audit_cells import leaking, limit_of, maps_of
from headwise.show.fonts import families_for
from headwise.show.labels import one_line
from headwise.show.palette import hex_of, weight_shade
from headwise.show.picture_labels import label_axis
from headwise.show.picture_style import FONT, add_caption, hatch, hatched, new_figure, settle, style

__all__ = ["draw_audit", "pictured"]

_MOST = 3
"""Leaks that one figure holds."""
_INCHES = 2.6
_LEAK = "#d55e00"
_ALLOWED = weight_shade(0.45)
_UNTRIED = "#dddddd"
_EDGE = "#999999"
_LOWEST = 1e-16
_NUMBERS = 12
"""So many positions are named at most, where they are numbers."""
_STEPS = (1, 2, 5, *(part * 10**ten for ten in range(1, 7) for part in (1, 2, 5)))
_VECTOR_LIMIT = 4096
"""Maps of more cells than this are kept as an image inside the SVG, not as shapes."""


def pictured(audit: Audit) -> list[Outcome]:
    """The outcomes that are drawn: the leaks that hold a map, else the first clean one that does."""
    mapped = [o for o in audit.leaks if maps_of(o) is not None and o.verdict == "leak"]
    clean = [o for o in audit.checked if not o.bad and maps_of(o) is not None]
    return mapped[:_MOST] or clean[:1]


def draw_audit(audit: Audit, *, caption: str = "", labels: Sequence[str] | None = None) -> Figure:
    """Declared against measured: rows see, columns are seen; darker is a stronger influence, on a log scale.

    Args:
        audit: from `hw.audit`.
        caption: facts beside those of the audit.
        labels: of the positions, where a text was read.

    Raises:
        ShapeError: the audit holds no map.

    Warns:
        MissingGlyphWarning: a label has characters that no font of this machine draws.
    """
    outcomes = pictured(audit)
    if not outcomes:
        raise ShapeError(
            f"{audit.name}: no outcome holds a map to draw; audit the dimension future, padding or documents"
        )
    texts = [audit.name, audit.declared, caption, *(labels or ())]
    with mpl.rc_context(style(families_for(map(one_line, texts)))):
        return _figure(audit, outcomes, caption, labels)


def _figure(
    audit: Audit, outcomes: Sequence[Outcome], caption: str, labels: Sequence[str] | None
) -> Figure:
    wanted = _panels(outcomes)
    rows = -(-len(wanted) // 2)
    figure = new_figure(2 * _INCHES + 1.5, rows * (_INCHES + 0.5) + 0.75, "compressed")
    panels = figure.subplots(rows, 2, squeeze=False).ravel().tolist()
    for spare in panels[len(wanted) :]:
        spare.remove()
    panels = panels[: len(wanted)]
    norm = _norm(outcomes)
    mesh = None
    for axes, (outcome, declared) in zip(panels, wanted, strict=True):
        maps = maps_of(outcome)
        assert maps is not None  # else it were not pictured
        if declared:
            _declared(axes, maps[0])
            title = f"declared: {audit.declared}" if audit.declared else "declared"
        else:
            mesh = _measured(axes, outcome, *maps, norm)
            title = f"measured: {outcome.title}"
        axes.set_title(one_line(title), parse_math=False)
        _frame(axes, _names(outcome, maps[0].shape, labels))
    if mesh is not None and any(map(_coloured, outcomes)):  # else nothing is to be read off it
        bar = figure.colorbar(mesh, ax=panels, shrink=0.8, aspect=22 * rows)
        bar.set_label("influence, relative to the largest allowed")
        bar.outline.set_linewidth(0.5)
    _key(figure, outcomes)
    add_caption(figure, _caption(audit, outcomes, caption))
    settle(figure)
    return figure


def _panels(outcomes: Sequence[Outcome]) -> list[tuple[Outcome, bool]]:
    """What each panel shows: an outcome as it is declared (True), once where several are alike, and as measured."""
    found: list[tuple[Outcome, bool]] = []
    for outcome in outcomes:
        drawn = [one.allowed for one, declared in found if declared]
        if not any(_alike(outcome.allowed, allowed) for allowed in drawn):
            found.append((outcome, True))
        found.append((outcome, False))
    return found


def _alike(one: Tensor | None, other: Tensor | None) -> bool:
    return one is not None and other is not None and torch.equal(one.cpu(), other.cpu())


def _norm(outcomes: Sequence[Outcome]) -> LogNorm:
    """From a power of ten below all that is drawn to one above."""
    drawn = [m[1][m[1] > limit_of(o)] for o in outcomes if (m := maps_of(o)) is not None]
    values = np.concatenate([x[np.isfinite(x)] for x in drawn])
    low = max(float(values.min()), _LOWEST) if values.size else 0.1
    high = max(float(values.max()), 1.0) if values.size else 1.0
    bottom = 10.0 ** min(math.floor(math.log10(low) + 1e-9), -1)
    return LogNorm(bottom, 10.0 ** math.ceil(math.log10(high) - 1e-9))


def _declared(axes: Axes, allowed: Bool[np.ndarray, "query key"]) -> None:
    shown = np.ma.masked_where(~allowed, np.ones_like(allowed, dtype=float))
    _mesh(axes, shown, ListedColormap([hex_of(_ALLOWED)]), None)
    hatch(axes)


def _measured(
    axes: Axes,
    outcome: Outcome,
    allowed: Bool[np.ndarray, "query key"],
    measured: Float[np.ndarray, "query key"],
    norm: LogNorm,
) -> QuadMesh:
    scale = LinearSegmentedColormap.from_list(
        "headwise", [hex_of(weight_shade(part)) for part in np.linspace(0.12, 1, 65)]
    )
    nothing = np.ma.masked_where(~np.isnan(measured), np.ones_like(measured))
    _mesh(axes, nothing, ListedColormap([_UNTRIED]), None)
    seen = np.nan_to_num(measured, nan=0.0) > limit_of(outcome)
    mesh = _mesh(axes, np.ma.masked_where(~seen, measured), scale, norm)
    edges = _outline(leaking(outcome, allowed, measured))
    axes.add_collection(LineCollection(edges, colors=_LEAK, linewidths=1.1, capstyle="projecting"))
    return mesh


def _mesh(
    axes: Axes,
    shown: np.ma.MaskedArray,
    scale: ListedColormap | LinearSegmentedColormap,
    norm: LogNorm | None,
) -> QuadMesh:
    many = shown.size > _VECTOR_LIMIT
    mesh: QuadMesh = axes.pcolormesh(
        shown,
        cmap=scale,
        norm=norm,
        rasterized=many,
        edgecolors="none" if many else "white",
        linewidth=0.0 if many else 0.3,
    )
    return mesh


def _outline(cells: Bool[np.ndarray, "query key"]) -> list[list[tuple[float, float]]]:
    """The borders between cells that leak and all others, as pieces of lines."""
    framed = np.pad(cells, 1)
    across = np.argwhere(framed[:-1, 1:-1] != framed[1:, 1:-1])
    upright = np.argwhere(framed[1:-1, :-1] != framed[1:-1, 1:])
    flat = [[(float(x), float(y)), (float(x + 1), float(y))] for y, x in across.tolist()]
    return flat + [[(float(x), float(y)), (float(x), float(y + 1))] for y, x in upright.tolist()]


def _names(
    outcome: Outcome, shape: tuple[int, ...], labels: Sequence[str] | None
) -> tuple[Sequence[str], Sequence[str]]:
    """The positions of both axes: tokens where they are those of the text, else numbers."""
    if labels is not None and outcome.dimension == "future" and shape == (len(labels),) * 2:
        return labels, labels
    return [str(q) for q in range(shape[0])], [str(k) for k in range(shape[1])]


def _frame(axes: Axes, names: tuple[Sequence[str], Sequence[str]]) -> None:
    queries, keys = names
    axes.set_aspect("equal")
    axes.set_xlim(0, len(keys))
    axes.set_ylim(len(queries), 0)
    for axis, name, labels in (
        (axes.xaxis, "position that is seen", keys),
        (axes.yaxis, "position that sees", queries),
    ):
        label_axis(axis, name, labels, _INCHES / len(labels))
        if labels[-1] == str(len(labels) - 1):  # numbers: some say which the others are
            step = next(s for s in _STEPS if len(labels) / s <= _NUMBERS)
            axis.set_ticks([n + 0.5 for n in range(0, len(labels), step)], labels=labels[::step])
            axis.set_label_text(name)


def _key(figure: Figure, outcomes: Sequence[Outcome]) -> None:
    """What the grounds and the outline mean, above the panels."""
    signs: list[Patch | Line2D] = [
        Patch(facecolor=hex_of(_ALLOWED), label="may be seen"),
        hatched("may not be seen"),
    ]
    maps = [m for o in outcomes if (m := maps_of(o)) is not None]
    if any(np.isnan(measured).any() for _, measured in maps):
        signs.append(Patch(facecolor=_UNTRIED, label="not measured"))
    if any(_white(outcome) for outcome in outcomes):
        signs.append(Patch(facecolor="white", edgecolor=_EDGE, linewidth=0.6, label="no influence"))
    if any(outcome.bad for outcome in outcomes):
        signs.append(Patch(facecolor="none", edgecolor=_LEAK, linewidth=1.1, label="leaks"))
    figure.legend(
        handles=signs,
        loc="outside upper left",
        ncols=len(signs),
        frameon=False,
        fontsize=FONT,
        borderaxespad=0.2,
        handlelength=1.4,
        columnspacing=1.6,
    )


def _coloured(outcome: Outcome) -> bool:
    """Whether something was measured that has an influence."""
    maps = maps_of(outcome)
    return maps is not None and bool((maps[1] > limit_of(outcome)).any())


def _white(outcome: Outcome) -> bool:
    """Whether something was measured that has no influence."""
    maps = maps_of(outcome)
    return maps is not None and bool((maps[1] <= limit_of(outcome)).any())


def _caption(audit: Audit, outcomes: Sequence[Outcome], caption: str) -> str:
    told = [
        f"{o.title}: {o.verdict}"
        + (f", strength {o.strength:.2g}" if o.bad else "")
        + (f", in {o.place}" if o.place else "")
        for o in outcomes
    ]
    left = len([o for o in audit.leaks if o not in outcomes])
    more = f" {left} more {'is' if left == 1 else 'are'} not drawn." if left else ""
    limits = ", ".join(sorted({f"{limit_of(o):.1g}" for o in outcomes}))
    facts = f"{audit.length} positions, {audit.dtype}, weights {audit.weights}, seed {audit.seed}"
    return f"{audit.name}. {'; '.join(told)}.{more} White: nothing above {limits}. {facts}." + (
        f" {caption}" if caption else ""
    )
