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
