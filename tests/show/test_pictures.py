from __future__ import annotations

import html
import io
import itertools
import os
import re
import warnings
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from matplotlib import font_manager
from matplotlib.figure import Figure
from matplotlib.font_manager import FontEntry
from matplotlib.image import imread
from rich.color import Color, ColorSystem

from headwise.names import HeadId, OutputError, ShapeError
from headwise.see.summary import DOES, HeadSummary
from headwise.show.fonts import MissingGlyphWarning, families_for
from headwise.show.grid import KINDS, grid_of_summaries
from headwise.show.palette import PAPER, hex_of, kind_shade, scale_top, weight_shade
from headwise.show.picture_labels import width_of, wrapped
from headwise.show.pictures import DPI, HeadPicture, draw_grid, draw_maps, save

WORDS = ["The", "animal", "$sl$ept", "there"]


def picture(labels: list[str], title: str = "18.6") -> HeadPicture:
    pattern = np.tril(np.random.default_rng(0).dirichlet(np.ones(len(labels)), len(labels)))
    pattern[np.triu_indices(len(labels), 1)] = np.nan
    return HeadPicture(title, pattern, labels, labels)


def svg_of(figure: Figure, folder: Path) -> str:
    save(figure, folder / "picture.svg")
    return (folder / "picture.svg").read_text(encoding="utf-8")


def texts_of(svg: str) -> list[str]:
    """What stands in the text elements: comments and shapes do not count."""
    return [html.unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg)]


def summaries(layers: int, heads: int, stream: str = "") -> list[HeadSummary]:
    return [
        HeadSummary(HeadId(stream, layer, head), head // 2, DOES[(layer + head) % 6], 0.7, {}, ())
        for layer in range(layers)
        for head in range(heads)
    ]


def dejavu() -> list[FontEntry]:
    return [font for font in font_manager.fontManager.ttflist if font.name == "DejaVu Sans"]


def test_the_svg_holds_labels_title_and_caption_as_text(tmp_path: Path) -> None:
    svg = svg_of(draw_maps([picture(WORDS)], caption="model <x>, $1 for nothing hidden"), tmp_path)
    for text in ("animal", "$sl$ept", "18.6", "attention weight", "may not be seen"):
        assert text in texts_of(svg)
    assert "model <x>, $1 for nothing hidden" in " ".join(texts_of(svg))


@pytest.mark.filterwarnings("ignore::headwise.show.fonts.MissingGlyphWarning")
def test_the_svg_holds_chinese_labels_as_text(tmp_path: Path) -> None:
    labels = ["小明", "把", "书", "还给了", "图书馆", "a\nb"]
    svg = svg_of(draw_maps([picture(labels)], caption="小明把书还给了图书馆。"), tmp_path)
    for text in (*labels[:5], "a⏎b", "小明把书还给了图书馆。"):
        assert text in texts_of(svg)


def test_a_strong_cell_is_darker_than_a_weak_one_in_the_png(tmp_path: Path) -> None:
    pattern = np.array([[0.95, 0.05], [0.1, 0.9]])
    figure = draw_maps([HeadPicture("0.0", pattern, ["a", "b"], ["a", "b"])], caption="c")
    save(figure, tmp_path / "p.png")
    image = imread(tmp_path / "p.png")
    assert image.shape[0] == pytest.approx(figure.get_figheight() * DPI, abs=2)
    axes = figure.axes[0]

    def darkness(query: int, key: int) -> float:
        x, y = axes.transData.transform((key + 0.5, query + 0.5)) * DPI / figure.dpi
        return 1 - float(image[image.shape[0] - 1 - int(y), int(x), :3].mean())

    heights = [axes.transData.transform((0, query))[1] for query in (0, 1)]
    assert heights[0] > heights[1], "the first query is the top row"
    assert darkness(0, 0) > darkness(1, 1) > darkness(1, 0) > darkness(0, 1)
    assert darkness(0, 0) > 0.6


def test_every_token_is_named_where_there_is_room_and_every_kth_where_not() -> None:
    few = draw_maps([picture([f"w{i}" for i in range(16)])], caption="c").axes[0]
    many = draw_maps([picture([f"w{i}" for i in range(200)])], caption="c").axes[0]
    assert [label.get_text() for label in few.get_yticklabels()] == [f"w{i}" for i in range(16)]
    shown = [label.get_text() for label in many.get_yticklabels()]
    step = 200 / len(shown)
    assert 2 <= step <= 5
    assert shown[1] == f"w{round(step)}"
    assert many.get_ylabel() == f"token that looks (1 in {round(step)} named)"


@pytest.mark.parametrize("count", [3, 16, 64, 200])
def test_labels_do_not_run_into_each_other(count: int) -> None:
    figure = draw_maps([picture([f"word{i}" for i in range(count)])], caption="c")
    figure.draw_without_rendering()
    for axis, side in ((figure.axes[0].yaxis, "y"), (figure.axes[0].xaxis, "x")):
        boxes = [label.get_window_extent() for label in axis.get_ticklabels()]
        spans = sorted((getattr(box, f"{side}0"), getattr(box, f"{side}1")) for box in boxes)
        assert all(end <= start + 1 for (_, end), (start, _) in itertools.pairwise(spans))


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("labels", [["a"], ["שלום", "לעולם", "יפה"], ["w"] * 12, ["w"] * 90])
def test_nothing_is_cut_and_the_legend_stands_above_the_last_map(
    labels: list[str], count: int, tmp_path: Path
) -> None:
    figure = draw_maps([picture(labels, f"{head}.0") for head in range(count)], caption="c")
    save(figure, tmp_path / "p.png")
    image = imread(tmp_path / "p.png")
    for edge in (image[:3], image[-3:], image[:, :3], image[:, -3:]):
        assert edge.min() == 1.0, "nothing reaches the edge"
    legends = [axes.get_legend() for axes in figure.axes if axes.get_legend() is not None]
    assert len(legends) == (len(labels) > 1)
    figure.draw_without_rendering()
    for legend in legends:
        axes, inch = legend.axes, figure.dpi
        key, title = legend.get_window_extent(), axes.title.get_window_extent()
        assert key.x1 == pytest.approx(axes.bbox.x1, abs=0.02 * inch)
        assert title.y1 <= key.y0 <= title.y1 + 0.2 * inch


@pytest.mark.parametrize("shape", [(1, 1), (3, 3), (12, 12), (3, 12), (12, 3)])
def test_the_colour_bar_stands_as_high_as_the_map_beside_it(shape: tuple[int, int]) -> None:
    head = HeadPicture("0.0", np.full(shape, 0.5), ["q"] * shape[0], ["k"] * shape[1])
    figure = draw_maps([head], caption="c")
    figure.draw_without_rendering()
    axes, bar = (one.bbox for one in figure.axes)
    assert bar.height == pytest.approx(axes.height, rel=0.05)
    assert 0 < bar.x0 - axes.x1 < 0.3 * figure.dpi


def test_several_heads_share_one_scale_and_stand_in_their_own_panels(tmp_path: Path) -> None:
    heads = [picture(WORDS, title) for title in ("13.8", "21.6", "16.0", "18.6", "0.1")]
    figure = draw_maps(heads, caption="c")
    panels = [axes for axes in figure.axes if axes.get_title() and axes.get_visible()]
    assert [axes.get_title() for axes in panels] == ["13.8", "21.6", "16.0", "18.6", "0.1"]
    assert len({axes.collections[0].get_clim() for axes in panels}) == 1


def test_the_grid_paints_every_head_once_and_counts_the_kinds(tmp_path: Path) -> None:
    given = summaries(4, 6, "encoder") + summaries(3, 6, "cross")[:-1]
    figure = draw_grid(grid_of_summaries(given), caption="c")
    arrays = [axes.collections[0].get_array().reshape(-1, 4) for axes in figure.axes]
    seen = [
        tuple(round(255 * part) for part in colour[:3])
        for colour in np.concatenate(arrays)
        if colour[3] > 0
    ]
    assert len(seen) == len(given)
    for does in DOES:
        shade = kind_shade(KINDS[does], 0.7)
        assert seen.count(shade) == sum(one.does == does for one in given)
    svg = svg_of(figure, tmp_path)
    for text in ("encoder", "cross", "no such head", "P previous (7)"):
        assert text in texts_of(svg)


def test_first_is_quiet_and_no_other_kind_is_taken_for_it() -> None:
    """It is nearest to the paper, and lighter than all: this holds in grey and for any eye."""

    def light(shade: tuple[int, int, int]) -> float:
        return float(np.dot(shade, (0.299, 0.587, 0.114)))

    def indexed(shade: tuple[int, int, int]) -> Color:
        return Color.from_rgb(*shade).downgrade(ColorSystem.EIGHT_BIT)

    def far(shade: tuple[int, int, int]) -> float:
        return float(np.linalg.norm(np.subtract(PAPER, shade)))

    masses = np.linspace(1 / 3, 1, 50)
    first = [kind_shade(KINDS["first"], mass) for mass in masses]
    for does in set(DOES) - {"first"}:
        others = [kind_shade(KINDS[does], mass) for mass in masses]
        assert max(map(far, first)) < min(map(far, others))
        assert min(map(light, first)) > max(map(light, others)) + 15
        assert not set(map(indexed, first)) & set(map(indexed, others))
    for shade in map(indexed, first):
        red, green, blue = shade.get_truecolor()
        assert red == green > blue, "ivory, never the grey of other or the rose of spread"


def test_drawing_changes_no_global_setting() -> None:
    before = dict(mpl.rcParams)
    draw_maps([picture(WORDS)], caption="c")
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf", "PNG"])
def test_saving_writes_the_format_of_the_suffix(tmp_path: Path, suffix: str) -> None:
    starts = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}
    save(draw_maps([picture(WORDS)], caption="c"), tmp_path / f"p.{suffix}")
    assert (tmp_path / f"p.{suffix}").read_bytes().startswith(starts[suffix.lower()])
    assert [path.name for path in tmp_path.iterdir()] == [f"p.{suffix}"]


def test_the_same_picture_is_the_same_file(tmp_path: Path) -> None:
    first, second = (svg_of(draw_maps([picture(WORDS)], caption="c"), tmp_path) for _ in range(2))
    assert first == second


def test_a_bad_suffix_or_folder_is_one_clear_line(tmp_path: Path) -> None:
    figure = draw_maps([picture(WORDS)], caption="c")
    with pytest.raises(OutputError, match=r"\.png, \.svg or \.pdf"):
        save(figure, tmp_path / "p.jpg")
    with pytest.raises(OutputError, match="No such file or directory"):
        save(figure, tmp_path / "nowhere" / "p.png")
    (tmp_path / "folder.png").mkdir()
    with pytest.raises(OutputError, match="cannot write"):
        save(figure, tmp_path / "folder.png")
    assert [path.name for path in tmp_path.iterdir()] == ["folder.png"]


def test_a_failure_keeps_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    figure = draw_maps([picture(WORDS)], caption="c")
    target = tmp_path / "p.png"
    target.write_text("old")

    def full(name: str, **_: object) -> None:
        Path(name).write_text("half")
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(figure, "savefig", full)
    with pytest.raises(OutputError, match="No space left"):
        save(figure, target)
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["p.png"]


def test_a_file_is_replaced_whole_never_written_into(tmp_path: Path) -> None:
    target = tmp_path / "p.svg"
    target.write_text("old")
    with target.open() as reader:
        save(draw_maps([picture(WORDS)], caption="c"), target)
        assert reader.read() == "old"
    assert target.read_text().startswith("<?xml")


def test_missing_glyphs_are_told_once_with_what_to_install() -> None:
    with pytest.warns(MissingGlyphWarning, match="图.*placeholder signs.*fonts-noto-cjk") as told:
        families = families_for(["The", "图书馆", "书"], fonts=dejavu())
    assert len(told) == 1
    assert families == ["DejaVu Sans", "sans-serif"]


def test_drawing_without_a_chinese_font_warns_once_and_still_draws(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(font_manager.fontManager, "ttflist", dejavu())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        figure = draw_maps([picture(["图书馆", "it"])], caption="小明")
        save(figure, tmp_path / "p.png")
    assert [one.category for one in told] == [MissingGlyphWarning]
    assert (tmp_path / "p.png").stat().st_size > 1000


def test_no_font_at_all_is_a_warning_too() -> None:
    with pytest.warns(MissingGlyphWarning):
        assert families_for(["it"], fonts=[]) == ["sans-serif"]


def test_plain_latin_needs_no_other_font_and_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert families_for(["The animal\n", "\u200d"], fonts=dejavu()) == [
            "DejaVu Sans",
            "sans-serif",
        ]


def test_simplified_chinese_takes_the_simplified_face_of_a_collection() -> None:
    names = {font.name for font in font_manager.fontManager.ttflist}
    if "Noto Sans CJK SC" not in names:
        pytest.skip("no Noto Sans CJK on this machine")
    families = families_for(["图书馆"])
    assert "Noto Sans CJK SC" in families
    assert "Noto Sans CJK JP" not in families


def test_unfit_labels_and_empty_input_are_refused() -> None:
    with pytest.raises(ShapeError, match="1 query labels"):
        draw_maps([HeadPicture("0.0", np.ones((2, 2)), ["a"], ["a", "b"])], caption="c")
    with pytest.raises(ShapeError, match="no head to draw"):
        draw_maps([], caption="c")
    with pytest.raises(ShapeError, match="no heads to draw"):
        draw_grid(grid_of_summaries([]), caption="c")


def test_weights_only_grow_darker_and_the_scale_holds_them() -> None:
    greys = [sum(weight_shade(part)) for part in np.linspace(0, 1, 50)]
    assert all(left > right for left, right in itertools.pairwise(greys))
    assert scale_top(np.array([np.nan, 0.3])) == 0.5
    assert scale_top(np.array([np.nan])) == 0.01
    assert scale_top(np.array([0.9])) == 1.0
    for largest, top in ((1.2, 1.5), (13.8, 15), (15.0, 15), (21.0, 30), (64.0, 80), (950.0, 1000)):
        assert scale_top(np.array([0, largest])) == pytest.approx(top)
    assert hex_of((0, 114, 178)) == "#0072b2"


def test_captions_wrap_at_their_width() -> None:
    text = "小明把书还给了图书馆,因为它到期了。 and the cat slept"
    lines = wrapped(text, 12).split("\n")
    assert all(width_of(line) <= 12 for line in lines)
    assert "".join(lines).replace(" ", "") == text.replace(" ", "")


def test_a_picture_can_be_drawn_to_memory() -> None:
    buffer = io.BytesIO()
    draw_grid(grid_of_summaries(summaries(2, 4)), caption="c").savefig(buffer, format="png")
    assert buffer.getvalue().startswith(b"\x89PNG")
