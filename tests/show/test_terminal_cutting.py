"""What cutting says on a terminal: numbers that can be read, orders that are settled or not, losses by share."""

from __future__ import annotations

import math

import pytest
from rich.console import Console, RenderableType

from headwise.names import HeadId
from headwise.show.ranked import Ranked, grid_of_cut
from headwise.show.terminal import head_grid
from headwise.show.terminal_cut import Point, Size, curve_table, sizes_table
from headwise.show.terminal_rank import Compared, Settled, compared_table, rank_page
from headwise.show.words import bytes_said, figure, heads_said, signed, sized


def shown(table: RenderableType, width: int = 80) -> list[str]:
    console = Console(width=width, highlight=False, color_system=None)
    with console.capture() as capture:
        console.print(table)
    lines = capture.get().splitlines()
    assert max(map(len, lines)) <= width
    return lines


@pytest.mark.parametrize(
    ("x", "told"),
    [
        (0.0, ".000"), (3.6491, "3.649"), (0.5, ".500"), (0.0329, ".0329"), (0.00631, ".00631"),
        (0.00012, "1.2e-4"), (12.345, "12.35"), (123.4, "123.4"), (1234.5, "1,234"),
        (-0.05, "-.0500"), (-0.5, "-.500"), (math.nan, "nan"),
    ],
)  # fmt: skip
def test_numbers_have_three_or_four_digits(x: float, told: str) -> None:
    assert figure(x) == told
    assert signed(0.5) == "+.500"
    assert signed(-0.5) == "-.500"


def test_counts_bytes_and_heads_in_words() -> None:
    assert [sized(n) for n in (17, 12_345, 134_515_008)] == ["17", "12.3 k", "134.5 M"]
    assert [bytes_said(n) for n in (96, 23040, 3 << 20)] == ["96 B", "22.5 KiB", "3.0 MiB"]
    heads = [HeadId("", 1, h) for h in (5, 3, 4, 0)] + [HeadId("cross", 0, 2)]
    assert heads_said(heads) == "1.0, 1.3-5, cross.0.2"


HEADS = [
    Ranked(HeadId("", layer, head), head // 2, 1.0 / (1 + layer * 4 + head), 0.01, layer * 4 + head)
    for layer in range(3)
    for head in range(4)
]


def page(settled: Settled, heads: list[Ranked] = HEADS) -> str:
    lines = shown(rank_page(heads, settled, "importance (nats)", top=2, width=80, colour=False))
    return " ".join(" ".join(lines).split())


def test_the_strongest_and_weakest_heads_are_listed_with_their_errors() -> None:
    told = page(Settled(0.99, 100, 80))
    assert "strongest 0.0 1.000 ± .0100 0.1 .500 ± .0100" in told
    assert "weakest 2.3 .0833 ± .0100 2.2 .0909 ± .0100" in told
    alone = [Ranked(one.id, one.kv_group, one.value, math.nan, one.place) for one in HEADS]
    assert "±" not in page(Settled(0.99, 100, 80), alone)


def test_whether_the_order_is_settled_is_said_plainly() -> None:
    assert "rank correlation 0.990, which is settled" in page(Settled(0.99, 100, 80))
    told = page(Settled(0.5, 100, 1234))
    assert "0.500; about 1,234 texts would settle it (here 100)" in told
    assert "settled" not in told
    assert "more texts would settle it" in page(Settled(0.5, 100, None))
    told = page(Settled(math.nan, 1, None))
    assert "too few texts to tell" in told
    assert "--lines or --blocks N makes several" in told
    assert "--context" not in told  # pieces of one text stay one text


def test_methods_by_methods() -> None:
    names = ("gate", "leave-one-out")
    alike = {("gate", "gate"): 1.0, ("leave-one-out", "leave-one-out"): 1.0}
    alike |= {("gate", "leave-one-out"): -0.23, ("leave-one-out", "gate"): -0.23}
    found = Compared(
        names, {"gate": 0.9, "leave-one-out": math.nan}, dict.fromkeys(names, 1.5), alike
    )
    lines = shown(compared_table(found, width=80))
    (gate,) = [line for line in lines if line.startswith(" 1 ")]
    (exact,) = [line for line in lines if line.startswith(" 2 ")]
    assert lines[-1] == "seconds: gate 1.500, leave-one-out 1.500"
    assert gate.split() == ["1", "gate", ".90", "1.00", "-.23"]
    assert exact.split() == ["2", "leave-one-out", "-.23", "1.00"]


def test_sizes_have_what_is_left() -> None:
    sizes = [
        Size("query heads", 12, 8),
        Size("cache per token", 4096, 1024, of="bytes"),
        Size("x", 0, 0),
    ]
    lines = [line.split() for line in shown(sizes_table(sizes, width=80))[2:]]
    assert lines[0] == ["query", "heads", "12", "8", "66.7%"]
    assert lines[1] == ["cache", "per", "token", "4.0", "KiB", "1.0", "KiB", "25.0%"]
    assert lines[2] == ["x", "0", "0"]


def test_losses_by_share_and_way() -> None:
    points = [
        Point("this cut", 0.1, 3.7), Point("this cut", 0.5, 4.0), Point("random heads", 0.1, 4.2, 4.0, 4.5),
        Point("random heads", 0.5, 7.0, 6.0, 8.0),
    ]  # fmt: skip
    lines = shown(curve_table(points, width=80))
    assert lines[1].split() == ["removed", "this", "cut", "random", "heads"]
    assert lines[2].split() == ["10.0%", "3.700", "4.200", "[4.000,", "4.500]"]
    assert lines[3].split() == ["50.0%", "4.000", "7.000", "[6.000,", "8.000]"]


def test_the_grid_of_a_cut_tells_kept_cut_and_gone() -> None:
    ids = [HeadId("", layer, head) for layer in range(2) for head in range(4)]
    groups = {id: id.head // 2 for id in ids}
    grid = grid_of_cut([ids[0], *ids[3:]], [ids[1]], groups)
    lines = shown(head_grid(grid, width=80, colour=False))
    assert "    0  o  x │    o" in lines
    assert grid.counts() == {"kept": 6, "cut": 1}
