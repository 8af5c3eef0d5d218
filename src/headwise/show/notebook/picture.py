"""A picture of a record for those who see no live viewer: the grid of heads beside the most telling maps."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from headwise.names import HeadId
from headwise.see.record import Record
from headwise.see.summary import HeadSummary
from headwise.see.telling import telling
from headwise.show.grid import grid_of_summaries
from headwise.show.pictures import HeadPicture, draw_grid, draw_maps

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["picture_of"]

_DPI = 84
_FEW, _MOST = 24, 128
"""Tokens up to which four maps are drawn, and one; the labels of longer texts could not be read."""


def picture_of(
    record: Record, summaries: Sequence[HeadSummary], note: str = ""
) -> tuple[bytes, str]:
    """A PNG, and what it shows in words.

    Args:
        record: of one text.
        summaries: what each of its heads does most.
        note: a line for the caption.
    """
    caption = f"{record.model}. Text: {_short(record.text)}"
    found = (
        telling(record, summaries, 4 if len(record.tokens) <= _FEW else 1)
        if len(record.tokens) <= _MOST
        else []
    )
    titles = {
        summary.id: f"{summary.id}  {summary.does} {summary.mass:.2f}" for summary, _ in found
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a glyph no font has: the widget has fonts of its own
        figures = [
            draw_grid(
                grid_of_summaries(summaries), caption=f"{caption}. {note}" if note else caption
            )
        ]
        if titles:
            maps = [_map(record, id, title) for id, title in titles.items()]
            figures.append(draw_maps(maps, caption=caption))
        image = _beside([_drawn(figure) for figure in figures])
    says = f"Heads of {record.model} on “{_short(record.text)}”, coloured by what each does most"
    if titles:
        says += "; maps of " + ", ".join(map(str, titles))
    return image, says


def _map(record: Record, id: HeadId, title: str) -> HeadPicture:
    layer = record.layer_of(id)
    pattern = np.where(record.visible(id), record.weights(id), np.nan)
    rows, columns = ([token.label for token in side.tokens] for side in (layer.queries, layer.keys))
    return HeadPicture(title, pattern, rows, columns)


def _drawn(figure: Figure) -> Any:
    from PIL import Image

    data = io.BytesIO()
    figure.savefig(data, format="png", dpi=_DPI)
    return Image.open(data).convert("RGB")


def _beside(images: list[Any]) -> bytes:
    """One beside the other, on white."""
    from PIL import Image

    size = sum(image.width for image in images), max(image.height for image in images)
    whole = Image.new("RGB", size, "white")
    left = 0
    for image in images:
        whole.paste(image, (left, 0))
        left += image.width
    data = io.BytesIO()
    whole.save(data, format="png", optimize=True)
    return data.getvalue()


def _short(text: str) -> str:
    plain = " ".join(text.split())
    return plain if len(plain) <= 160 else f"{plain[:159]}…"
