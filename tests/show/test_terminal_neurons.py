"""Contexts and firing neurons on lines of a given width, whatever the text holds."""

from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console, RenderableType

from headwise.show.terminal_neurons import (
    ContextLine,
    FireRow,
    NeuronHead,
    fires_table,
    neuron_contexts,
    number,
)

TEXTS = st.text(st.sampled_from("ab 书图\n\t\u0301\u200d🙂é[]\ufffd"), max_size=90)


def printed(what: RenderableType, width: int) -> list[str]:
    file = io.StringIO()
    Console(file=file, width=width, color_system=None, highlight=False).print(what)
    return file.getvalue().splitlines()


@given(TEXTS, TEXTS, st.text("ab书·2", min_size=1, max_size=8), st.integers(30, 100))
def test_a_context_is_one_line_with_its_token_in_brackets(
    before: str, after: str, token: str, width: int
) -> None:
    head = NeuronHead("0.3", ("positive on 1.0% of tokens",), ("the", "书"))
    line = ContextLine(-3.5, before, token, after)
    lines = printed(neuron_contexts(head, [line, line], width=width, colour=False), width)
    assert all(cell_len(line) <= width for line in lines)
    assert [f"[{token}]" in line for line in lines[-2:]] == [True, True]
    assert lines[-1].startswith("  -3.50  ")


def test_as_much_text_as_fits_around_the_token() -> None:
    head = NeuronHead("0.3", ("rare",), None)
    (_, line) = printed(
        neuron_contexts(
            head, [ContextLine(1.0, "一二三四五六七八九十" * 3, "它", "后" * 30)], width=40, colour=False
        ),
        40,
    )  # fmt: skip
    assert line.startswith("  1.00  …")
    assert line.endswith("…")
    assert 37 <= cell_len(line) <= 40
    whole = ContextLine(1.0, "one ", "two", " three")
    assert printed(neuron_contexts(head, [whole], width=40, colour=False), 40)[1] == (
        "  1.00  one [two] three"
    )


def test_the_token_is_bold_where_there_is_colour() -> None:
    file = io.StringIO()
    console = Console(file=file, width=60, force_terminal=True, color_system="standard")
    context = ContextLine(1.0, "one ", "two", " three")
    console.print(
        neuron_contexts(NeuronHead("0.3", ("x",), None), [context], width=60, colour=True)
    )
    assert "\x1b[1m[two]\x1b[0m" in file.getvalue()


@given(st.integers(52, 100), st.text("ab书", min_size=1, max_size=30))
def test_a_table_of_firing_neurons_keeps_its_columns(width: int, label: str) -> None:
    row = FireRow("12.345", -98.654, 1234.5, -0.031, ("the", "书", "x" * 50))
    lines = printed(fires_table([(label, [row, row]), ("q", [])], width=width, colour=False), width)
    assert all(cell_len(line) <= width for line in lines)
    assert len(lines) == 4
    assert "-98.7" in lines[1]
    assert "-0.03" in lines[1]
    assert lines[2].startswith(" ")
    assert "no neuron" in lines[3]


def test_a_model_without_an_unembedding_has_no_column_for_what_is_raised() -> None:
    row = FireRow("0.3", 1.0, 1.0, 0.5, None)
    lines = printed(fires_table([("a", [row])], width=80, colour=False), 80)
    assert "raises" not in lines[0]


@pytest.mark.parametrize(
    ("x", "shown"), [(0.004, "0.00"), (1.234, "1.23"), (-13.44, "-13.4"), (1234.6, "1235")]
)
def test_numbers_have_three_digits(x: float, shown: str) -> None:
    assert number(x) == shown
