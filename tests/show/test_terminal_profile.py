"""The table of a profile: its caption says what stands below it, at every width and number of texts."""

from __future__ import annotations

import math

import pytest
from rich.console import Console

from headwise.names import HeadId
from headwise.see.profile.striking import Best, Ranking
from headwise.show.terminal_profile import profile_table

HITS = "then its hits (share of queries whose most attended key it is)"


def table(width: int, within: float = 0.012) -> tuple[str, list[str]]:
    """The caption of the probes as one line, and the lines that name a head."""
    heads = [HeadId.parse(name) for name in ("16.0", "1.2", "11.10")]
    bests = tuple(
        Best(head, value, within, 0.971)
        for head, value in zip(heads, (0.74, 0.65, 0.12), strict=True)
    )
    others = tuple(Best(head, 0.5, within) for head in heads)
    rankings = [Ranking("previous", bests, True), Ranking("result_share", others, False)]
    console = Console(width=width)
    with console.capture() as capture:
        console.print(profile_table(rankings, width=width, colour=False))
    shown = capture.get().splitlines()
    assert all(len(line) <= width for line in shown)
    end = next(i for i, line in enumerate(shown) if line.startswith("previous "))
    return " ".join(shown[:end]), [line for line in shown if "16.0" in line]


def test_the_caption_defines_what_is_shown() -> None:
    caption, (row, other) = table(80)
    assert caption == f"mean attention to the key the probe names ± 95 % interval, {HITS}:"
    assert row.split()[:5] == ["previous", "16.0", ".74", "±.01", "97%"]
    assert other.split()[:4] == ["result_share", "16.0", ".50", "±.01"]


def test_a_share_is_told_to_be_of_a_sample() -> None:
    console = Console(width=200)
    ranking = Ranking("result_share", (Best(HeadId.parse("1.0"), 0.5, 0.1),), False)
    with console.capture() as capture:
        console.print(profile_table([ranking], width=200, colour=False))
    assert "(share of what the layer adds, measured on a sample of the queries):" in capture.get()


@pytest.mark.parametrize(
    ("width", "interval", "hits"), [(36, True, True), (34, True, False), (26, False, False)]
)
def test_a_narrow_terminal_has_less_and_says_less(width: int, interval: bool, hits: bool) -> None:
    caption, (row, _) = table(width)
    assert ("±" in caption, "hits" in caption) == (interval, hits)
    assert ("±.01" in row, "97%" in row) == (interval, hits)
    assert ".74" in row


def test_too_few_texts_have_no_intervals() -> None:
    caption, (row, _) = table(80, math.nan)
    assert caption == (
        f"mean attention to the key the probe names (too few texts for intervals), {HITS}:"
    )
    assert row.split()[:4] == ["previous", "16.0", ".74", "97%"]
    assert "±" not in row
