"""headwise mask: the map of who reaches whom, and masks that cannot be read."""

from __future__ import annotations

from pathlib import Path

import pytest


def test_the_map_says_after_how_many_layers(cli) -> None:
    answer = cli("mask", "causal & window(2)", "--length", "4", "--layers", "2")
    assert answer.code == 0
    rows = [line.split() for line in answer.out.splitlines()[2:6]]
    assert rows == [
        ["0", "0", "1", "0"],
        ["1", "1", "0", "2", "1"],
        ["2", "2", "1", "0", "3", "2"],
        ["3", "2", "1", "0", "3", "2"],
    ]


def test_masks_take_turns(cli) -> None:
    answer = cli("mask", "window(1)", "causal", "--length", "3", "--layers", "3")
    assert " 2 2 2 0" in answer.out
    assert "nothing more is reached after layer 2" in " ".join(answer.out.split())


def test_a_long_sequence_shows_its_last_positions(cli) -> None:
    answer = cli("mask", "causal", "--length", "300")
    assert "to 299 of 300 are shown" in " ".join(answer.out.split())
    assert all(len(line) <= 80 for line in answer.out.splitlines())


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_a_picture(cli, tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"reach.{suffix}"
    assert cli("mask", "causal | prefix(3)", f"--{suffix}", str(path)).code == 0
    data = path.read_bytes()
    assert data.startswith(b"\x89PNG" if suffix == "png" else b"<?xml")
    assert suffix == "png" or b"causal | prefix(3)" in data


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("causal & windw(4)", "there is no mask 'windw'"),
        ("causal &", "the text ends where a mask is wanted"),
        ("documents([0, 1])", "2"),
    ],
)
def test_a_mask_that_cannot_be_is_told_in_words(cli, text: str, why: str) -> None:
    answer = cli("mask", text, "--length", "12")
    assert answer.code == 1
    assert why in answer.err
    assert "Traceback" not in answer.err


def test_a_decoder_and_its_encoder(cli, tmp_path: Path) -> None:
    where = [tmp_path / name for name in ("reach.html", "reach.png")]
    answer = cli(
        *("mask", "causal", "--length", "3", "--layers", "2", "--encoder", "window(1, ahead=1)"),
        *("--encoder-layers", "1", "--cross", "window(1)", "--source-length", "5"),
        *("--page", where[0], "--png", where[1]),
    )
    assert answer.code == 0
    above, below = answer.out.split("from the encoder\n")
    assert "causal; encoder window(1, ahead=1); across window(1)" in above
    rows = [line.split() for line in below.splitlines()[1:4]]
    assert rows == [["0", "1", "1", "2"], ["1", "2", "1", "1", "3"], ["2", "2", "2", "1", "1", "4"]]
    assert all(path.stat().st_size > 5000 for path in where)
    assert answer.err.count("wrote") == 2


def test_a_cached_step_shows_the_rows_that_it_computes(cli) -> None:
    whole = cli("mask", "causal & window(3)", "--length", "9", "--layers", "3")
    step = cli("mask", "causal & window(3)", "--length", "9", "--layers", "3", "--cached", "7")
    rows = [line for line in whole.out.splitlines() if line.startswith((" 7 ", " 8 "))]
    assert len(rows) == 2
    assert step.out.splitlines()[2:4] == rows
    assert "the first 7 come out of a cache" in " ".join(step.out.split())


def test_layers_past_nine_have_letters_that_are_told(cli) -> None:
    answer = cli("mask", "causal & window(2)", "--length", "40", "--layers", "38")
    assert "a to z: 10 to 35, +: more" in " ".join(answer.out.split())
    assert "a to b: 10 to 11" in " ".join(
        cli("mask", "causal & window(2)", "--layers", "38").out.split()
    )


@pytest.mark.parametrize(
    ("more", "why"),
    [
        (["--cached", "12"], "leaves nothing of --length 12"),
        (["--page", "reach.txt"], "its name must end in .html"),
        (["--page", "no/folder/reach.html"], "the page cannot be written"),
        (["--encoder", "windw(2)"], "there is no mask 'windw'"),
        (["--cross", "documents([0])"], "covers 1 keys"),
    ],
)
def test_what_cannot_be_asked_is_told_in_words(cli, more: list[str], why: str) -> None:
    answer = cli("mask", "causal", *more)
    assert answer.code in (1, 2)
    assert why in answer.err
