from __future__ import annotations

import io
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console, RenderableType

from headwise.names import HeadId, ShapeError
from headwise.see.summary import DOES, HeadSummary
from headwise.show.cells import vertical
from headwise.show.grid import KINDS, grid_of_summaries
from headwise.show.labels import one_line
from headwise.show.terminal import Stack, WordRow, head_grid, head_map, headline, word_table
from headwise.show.terminal_map import pool

CHINESE = [*list("小明把书还给了图书馆"), ",", "因为它", "到期", "了", "。"]
ODD = [
    "[bold]x",
    "👩‍👩‍👧",
    "a\nb",
    "❤️",
    "e\u0301t",
    "\x1b[31mred",
    "",
    " ",
    "\u200b",
    "书本很重要吗",
]
LABELS = st.lists(st.one_of(st.text(max_size=12), st.sampled_from(CHINESE + ODD)), min_size=1)


def printed(shown: RenderableType, width: int, *, terminal: bool = False) -> list[str]:
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=terminal,
        color_system="truecolor" if terminal else None,
        _environ={},
    )
    console.print(shown)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue().split("\n")[:-1]


def plain_of(lines: list[str]) -> list[str]:
    return [re.sub(r"\x1b\[[0-9;]*m", "", line) for line in lines]


def summary(head: HeadId, does: str, mass: float = 0.8, kv_group: int | None = None) -> HeadSummary:
    return HeadSummary(head, head.head if kv_group is None else kv_group, does, mass, {}, ())


def grid_of(layers: int, heads: int, kv: int, stream: str = "") -> list[HeadSummary]:
    return [
        summary(HeadId(stream, layer, head), DOES[(layer + head) % 6], kv_group=head * kv // heads)
        for layer in range(layers)
        for head in range(heads)
    ]


def grid_cells(lines: list[str]) -> str:
    """The codes of the cells, row by row, without labels, separators and blanks."""
    rows = [line for line in lines if re.match(r" *(?:\w+\.)?\d+ [^0-9]*$", line)]
    return "".join(re.sub(r"^ *(?:\w+\.)?\d+ |[ │]", "", row) for row in rows)


@given(labels=LABELS, width=st.integers(24, 200), colour=st.booleans())
@settings(deadline=None, max_examples=150)
def test_no_line_of_a_map_is_wider_than_asked(labels: list[str], width: int, colour: bool) -> None:
    pattern = np.full((len(labels), len(labels)), 0.5)
    shown = head_map(pattern, labels, labels, title="".join(labels), width=width, colour=colour)
    # printed far wider than asked: nothing is cut by the console instead of by us
    for line in plain_of(printed(shown, 1000, terminal=colour)):
        assert cell_len(line) <= width


@given(labels=LABELS, width=st.integers(24, 120))
@settings(deadline=None)
def test_no_line_of_a_word_table_or_headline_is_wider(labels: list[str], width: int) -> None:
    row = WordRow(HeadId("cross", 10, 11), tuple((label, 0.25) for label in labels), 0.5)
    table = word_table([row], word=labels[0], width=width, colour=False)
    top = headline(labels[0], [Stack("", 30, 9, 3)], labels, 1e-6, width=width)
    for line in printed(table, 1000) + printed(top, 1000):
        assert cell_len(line) <= width


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("shape", [(30, 9, 3), (12, 12, 12), (2, 32, 8), (4, 64, 8), (48, 96, 8)])
def test_the_grid_fits_and_shows_every_head_once(shape: tuple[int, int, int], width: int) -> None:
    summaries = grid_of(*shape)
    lines = printed(head_grid(grid_of_summaries(summaries), width=width, colour=False), 1000)
    assert max(map(cell_len, lines)) <= width
    cells = grid_cells(lines)
    assert len(cells) == len(summaries)
    for does in DOES:
        assert cells.count(KINDS[does].strong) == sum(s.does == does for s in summaries)


def test_one_block_shows_the_heads_in_order() -> None:
    summaries = grid_of(3, 12, 12)
    cells = grid_cells(printed(head_grid(grid_of_summaries(summaries), width=80, colour=False), 80))
    assert cells == "".join(KINDS[s.does].strong for s in summaries)


def test_a_grid_too_wide_says_which_heads_a_block_holds() -> None:
    text = "\n".join(
        printed(head_grid(grid_of_summaries(grid_of(2, 96, 8)), width=80, colour=False), 80)
    )
    assert "heads 0 to 47 of 96" in text
    assert "heads 48 to 95 of 96" in text


def test_a_weak_head_has_the_small_letter_and_a_missing_head_is_blank() -> None:
    summaries = [
        summary(HeadId("", 0, 0), "previous", 0.9),
        summary(HeadId("", 0, 2), "first", 0.2),
    ]
    lines = printed(head_grid(grid_of_summaries(summaries), width=80, colour=False), 80)
    row = next(line for line in lines if line.startswith("    0 "))
    assert row == "    0  P     f"


def test_the_legend_counts_heads_and_kv_groups_are_parted() -> None:
    lines = printed(head_grid(grid_of_summaries(grid_of(2, 6, 2)), width=80, colour=False), 80)
    assert "previous 2" in " ".join(lines)
    assert sum(line.count("│") for line in lines) == 4
    assert not any(
        "│" in line
        for line in printed(
            head_grid(grid_of_summaries(grid_of(2, 6, 6)), width=80, colour=False), 80
        )
    )


def test_the_streams_of_an_encoder_decoder_have_rows_of_their_own() -> None:
    summaries = [s for stream in ("encoder", "decoder", "cross") for s in grid_of(4, 6, 6, stream)]
    lines = printed(head_grid(grid_of_summaries(summaries), width=80, colour=False), 80)
    for stream in ("encoder", "decoder", "cross"):
        assert sum(line.strip().startswith(f"{stream}.") for line in lines) == 4


def test_plain_output_has_no_escape_codes_and_colour_says_the_same_text() -> None:
    pattern = np.tril(np.full((10, 10), 0.3))
    for make in (
        lambda colour: head_grid(grid_of_summaries(grid_of(4, 6, 2)), width=80, colour=colour),
        lambda colour: head_map(pattern, ODD, ODD, title="t", width=80, colour=colour),
        lambda colour: word_table(
            [WordRow(HeadId("", 1, 2), (("it", 0.5),), 0.1)], word="it", width=80, colour=colour
        ),
    ):
        assert "\x1b" not in "".join(printed(make(False), 80, terminal=True))
        assert "\x1b[" in "".join(printed(make(True), 80, terminal=True))
        assert "\x1b" not in "".join(printed(make(True), 80))


@given(st.integers(1, 30), st.integers(1, 30), st.integers(1, 7), st.integers(0, 1))
def test_pooling_keeps_the_maximum(rows: int, columns: int, by: int, axis: int) -> None:
    pattern = np.random.default_rng(rows * columns).random((rows, columns))
    pattern[np.triu_indices(rows, 1, columns)] = np.nan
    pooled = pool(pattern, by, axis=axis)
    for place in range(pooled.shape[axis]):
        part = np.take(pattern, range(place * by, min(place * by + by, pattern.shape[axis])), axis)
        got = np.take(pooled, place, axis)
        for other in range(len(got)):
            among = np.take(part, other, 1 - axis)
            seen = among[~np.isnan(among)]
            assert np.isnan(got[other]) if seen.size == 0 else got[other] == seen.max()


def test_a_map_too_wide_says_how_it_was_pooled_and_keeps_the_strong_cell() -> None:
    pattern = np.zeros((200, 200))
    pattern[101, 7] = 1.0
    labels = [f"word{place}" for place in range(200)]
    lines = printed(head_map(pattern, labels, labels, title="1.2", width=80, colour=False), 80)
    assert "columns pooled by 6 and rows pooled by 5: the maximum is shown" in " ".join(lines)
    strong = [line for line in lines if "██" in line and line.startswith("word")]
    assert len(strong) == 1
    assert strong[0].startswith("word100 · ██")


def test_what_may_not_be_seen_is_blank_and_zero_is_not() -> None:
    pattern = np.array([[1.0, np.nan], [0.0, 1.0]])
    lines = printed(
        head_map(pattern, ["ab", "cd"], ["x", "y"], title="", width=40, colour=False), 40
    )
    assert "ab ██" in lines
    assert "cd · ██" in lines
    assert "blank: may not be seen" in " ".join(lines)


def test_columns_stand_under_their_labels_in_chinese() -> None:
    labels = ["图书馆", "a", "还"]
    lines = printed(head_map(np.eye(3), labels, labels, title="", width=40, colour=False), 40)
    assert "       馆a 还" in lines
    assert "图书馆 ██· ·" in lines


def test_a_faint_map_has_a_scale_of_its_own_in_the_legend() -> None:
    pattern = np.full((4, 30), 1 / 30)
    lines = printed(
        head_map(pattern, list("abcd"), ["k"] * 30, title="", width=80, colour=False), 80
    )
    assert "▓▓" * 30 in lines[2]
    assert "▓▓ 0.02 to 0.035" in " ".join(lines)


def test_labels_are_never_read_as_markup() -> None:
    text = "\n".join(
        printed(
            head_map(np.ones((1, 1)), ["[red]"], ["k"], title="[b]", width=40, colour=False), 40
        )
    )
    assert "[red] ██" in text
    assert text.startswith("[b]")


@pytest.mark.parametrize(
    ("label", "shown"),
    [("a\nb", "a⏎b"), ("\x1b[1m", "␛[1m"), (" ", "␣"), ("", "∅"), ("\u200b", "∅"), ("书 ", "书 ")],
)
def test_labels_show_what_is_invisible(label: str, shown: str) -> None:
    assert one_line(label) == shown


def test_upright_labels_stand_on_the_last_line_and_are_cut_at_the_height() -> None:
    assert vertical(["ab", "图书馆", "e\u0301"], 2, 3) == ["  图  ", "a 书  ", "b 馆e\u0301 "]
    assert vertical(["abcd"], 1, 3) == ["a", "b", "⋮"]
    assert vertical(["图"], 1, 3) == ["□"]


def test_labels_that_do_not_fit_the_pattern_are_refused() -> None:
    with pytest.raises(ShapeError, match=r"\(2, 2\).*1 query labels"):
        head_map(np.ones((2, 2)), ["a"], ["a", "b"], title="", width=40, colour=False)


def test_the_word_table_keeps_the_first_token_apart() -> None:
    rows = [
        WordRow(HeadId("", 13, 8), (("animal", 0.75), ("street", 0.1)), 0.04),
        WordRow(HeadId("", 21, 6), (("street", 0.56),), 0.34),
    ]
    lines = printed(word_table(rows, word="it", width=80, colour=False), 80)
    assert "first token apart" in lines[0]
    assert re.fullmatch(r"13\.8  0\.04   █+▌? +animal 0\.75  street 0\.10", lines[2])
    assert re.fullmatch(r"21\.6  0\.34   █+▌? +street 0\.56", lines[3])


def test_the_headline_names_everything() -> None:
    shown = headline("SmolLM2", [Stack("", 30, 9, 3)], ["The", "cat"], 3.2e-6, width=80)
    text = " ".join(printed(shown, 80))
    assert "SmolLM2: 30 layers x 9 heads (3 KV heads)" in text
    assert "2 tokens:  The  cat" in text
    assert "verified: recomputed head outputs within 3.2e-06 of the model's own" in text
