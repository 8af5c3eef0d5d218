"""An audit as a figure: what is drawn, where leaks are outlined, and files that open."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import audit_help as made
import numpy as np
import pytest
from matplotlib.collections import LineCollection, QuadMesh
from matplotlib.figure import Figure
from PIL import Image

from headwise.names import ShapeError
from headwise.show.picture_audit import draw_audit, pictured
from headwise.show.pictures import save

ALL = made.audit(made.leak(), made.CLEAN, made.DIFFERS, made.UNKNOWN, made.SKIPPED)


def outlines(figure: Figure, panel: int) -> set[tuple[tuple[float, float], ...]]:
    (lines,) = [c for c in figure.axes[panel].collections if isinstance(c, LineCollection)]
    return {tuple(map(tuple, segment.tolist())) for segment in lines.get_segments()}


def sides(query: int, key: int) -> set[tuple[tuple[float, float], ...]]:
    x, y = float(key), float(query)
    return {
        ((x, y), (x + 1, y)),
        ((x, y + 1), (x + 1, y + 1)),
        ((x, y), (x, y + 1)),
        ((x + 1, y), (x + 1, y + 1)),
    }


def test_leaking_cells_are_outlined_and_no_others() -> None:
    assert outlines(draw_audit(ALL), 1) == sides(3, 5) | sides(2, 6)
    noisy = replace(made.CLEAN, measured=made.maps(8, (0, 7))["measured"])
    assert outlines(draw_audit(made.audit(noisy)), 1) == set()
    two = made.leak(pairs=((2, 4), (2, 5)), **made.maps(8, (2, 4), (2, 5)))
    assert outlines(draw_audit(made.audit(two)), 1) == sides(2, 4) ^ sides(2, 5)


def test_both_panels_show_what_they_are() -> None:
    figure = draw_audit(ALL)
    left, right = figure.axes[:2]
    assert left.get_title() == "declared: causal()"
    assert right.get_title() == "measured: future (sdpa)"
    (declared,) = [c for c in left.collections if isinstance(c, QuadMesh)]
    assert np.array_equal(~declared.get_array().mask, ALL.outcomes[0].allowed.numpy())
    measured = [c for c in right.collections if isinstance(c, QuadMesh)][-1].get_array()
    wanted = ALL.outcomes[0].measured.numpy()
    assert np.array_equal(~measured.mask, wanted > 0)
    assert np.allclose(measured.compressed(), wanted[wanted > 0])
    assert left.get_ylim() == (8, 0)
    words = " ".join(figure._supxlabel.get_text().split())  # type: ignore[attr-defined]
    assert "future (sdpa): leak, strength 0.02, in model.layers.1.self_attn (LlamaAtt" in words
    assert "1 more is not drawn" in words


def test_what_was_not_measured_is_told() -> None:
    maps = made.maps(8, (3, 5), tried=2)
    figure = draw_audit(made.audit(made.leak(pairs=((3, 5),), **maps)))
    untried = next(c for c in figure.axes[1].collections if isinstance(c, QuadMesh)).get_array()
    assert np.array_equal(~untried.mask, np.isnan(maps["measured"].numpy()))
    told = [text.get_text() for text in figure.legends[0].get_texts()]
    assert told == ["may be seen", "may not be seen", "not measured", "no influence", "leaks"]
    clean = draw_audit(made.audit(made.CLEAN)).legends[0].get_texts()
    assert [text.get_text() for text in clean] == ["may be seen", "may not be seen", "no influence"]


def test_each_leak_has_a_row_up_to_three() -> None:
    audit = made.audit(*[made.leak() for _ in range(5)], made.CLEAN)
    assert len(pictured(audit)) == 3
    figure = draw_audit(audit)
    titles = [axes.get_title() for axes in figure.axes[:-1]]  # the last is the bar
    assert titles == ["declared: causal()", *["measured: future (sdpa)"] * 3]
    assert "2 more are not drawn" in " ".join(figure._supxlabel.get_text().split())  # type: ignore[attr-defined]


def test_what_is_declared_otherwise_is_drawn_again() -> None:
    other = made.maps(8)["allowed"].clone()
    other[7, 0] = False
    audit = made.audit(made.leak(), replace(made.leak(dimension="padding"), allowed=other))
    titles = [axes.get_title().partition(":")[0] for axes in draw_audit(audit).axes[:-1]]
    assert titles == ["declared", "measured"] * 2


def test_a_bar_that_nobody_needs_is_not_there() -> None:
    nothing = replace(made.CLEAN, measured=made.maps(8)["measured"] * 0)
    assert len(draw_audit(made.audit(nothing)).axes) == 2
    assert len(draw_audit(made.audit(made.CLEAN)).axes) == 3


def test_nothing_to_draw_is_told() -> None:
    with pytest.raises(ShapeError, match="no outcome holds a map"):
        draw_audit(made.audit(made.DIFFERS, made.SKIPPED))


@pytest.mark.parametrize("length", [1, 2, 8, 100])
@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_files_open(tmp_path: Path, length: int, suffix: str) -> None:
    audit = made.audit(made.leak(pairs=(), **made.maps(length)))
    path = tmp_path / f"audit.{suffix}"
    save(draw_audit(audit), path)
    if suffix == "png":
        with Image.open(path) as image:
            image.load()
            assert min(image.size) > 300
            assert len(image.convert("RGB").resize((60, 60)).getcolors(3600)) > 3
    else:
        words = "".join(ElementTree.parse(path).getroot().itertext())
        assert "declared: causal()" in words
        assert "position that sees" in words


def test_tokens_name_the_positions_of_a_text() -> None:
    labels = ["小明", "把", "书", "还", "给", "了", "图书馆", "$x$"]
    axes = draw_audit(made.audit(made.leak()), labels=labels).axes[1]
    assert [text.get_text() for text in axes.get_yticklabels()] == labels
    padded = draw_audit(made.audit(made.leak(dimension="padding")), labels=labels).axes[1]
    assert padded.get_yticklabels()[3].get_text() == "3"
