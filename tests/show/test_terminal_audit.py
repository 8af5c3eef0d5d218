"""An audit on a terminal: every verdict, each leak's place and positions, and the map cell by cell."""

from __future__ import annotations

from dataclasses import replace

import audit_help as made
import pytest
from rich.cells import cell_len
from rich.console import Console

from headwise.check.telling.report import Audit
from headwise.check.telling.stopped import Stopped
from headwise.show.terminal_audit import audit_report, conclusion

ALL = made.audit(made.leak(), made.CLEAN, made.DIFFERS, made.UNKNOWN, made.SKIPPED)
CHINESE = ["小明", "把", "书", "还", "给", "了", "图书馆", "。"]


def shown(audit: Audit, width: int = 80, colour: bool = False, **more: object) -> list[str]:
    console = Console(width=width, force_terminal=colour, color_system="truecolor", highlight=False)
    with console.capture() as capture:
        console.print(audit_report(audit, width=width, colour=colour, **more))  # type: ignore[arg-type]
    return capture.get().splitlines()


def grid(lines: list[str], rows: int, margin: int) -> list[str]:
    """The map's rows, without their labels."""
    start = next(i for i, line in enumerate(lines) if line.strip().startswith("0 1 2")) + 1
    return [line[margin:] for line in lines[start : start + rows]]


@pytest.mark.parametrize("width", [40, 60, 80, 132])
@pytest.mark.parametrize("labels", [None, CHINESE])
def test_lines_fit_and_nothing_is_lost(width: int, labels: list[str] | None) -> None:
    lines = shown(ALL, width, labels=labels)
    assert all(cell_len(line) <= width for line in lines)
    words = " ".join(" ".join(lines).split())
    for outcome in ALL.outcomes:
        assert outcome.title in words
        assert outcome.verdict.replace("skipped", "not checked") in words
    for said in (
        "model.layers.1.self_attn (LlamaAttention)",
        "the window may be one too wide",
        "Toy itself",
        "the edited row itself did not move",
        "there is no encoder",
        "工具/toy: 1 leak; 1 inconsistency; 1 could not be told",
        "declared: causal() over 2 layers; 8 positions, float64, weights given, seed 0",
        "strength 0.02; rounding alone moves 1e-16; the smallest that would have been seen: 3e-13",
        "differs at position 4, 5",
    ):
        assert said in words


def test_the_table_holds_the_numbers() -> None:
    lines = shown(ALL)
    row = {line[:14].strip(): line.split() for line in lines[3:12]}
    assert row["future (sdpa)"][2:5] == ["leak", "0.02", "3e-13"]
    assert row["future (eager)"][2:] == ["clean", "0", "2e-13"]
    assert "not checked: memory (there is no encoder)" in lines
    assert row["rows (train)"][2:4] == ["unknown", "the"]


def test_the_map_shows_each_cell_as_what_it_is() -> None:
    maps = made.maps(8, (3, 5), (2, 6), tried=2)
    maps["measured"][7, 0] = 0.0
    lines = shown(made.audit(made.leak(**maps)))
    rows = grid(lines, 8, 4)
    cells = [[row.ljust(16)[2 * k] for k in range(8)] for row in rows]
    for q in range(8):
        for k in range(8):
            wanted = "?" if q < 2 else "▓" if k <= q else " "
            wanted = "X" if (q, k) in ((3, 5), (2, 6)) else "░" if (q, k) == (7, 0) else wanted
            assert cells[q][k] == wanted, (q, k)
    words = " ".join(" ".join(lines).split())
    for said in ("X may not be seen, and is", "░ may be seen, and was not", "? not tried"):
        assert said in words


def test_pairs_come_strongest_first_with_their_tokens() -> None:
    words = " ".join(" ".join(shown(made.audit(made.leak()))).split())
    assert "position 3 sees 5, 2 sees 6" in words
    words = " ".join(" ".join(shown(made.audit(made.leak()), labels=CHINESE)).split())
    assert "position 3 还 sees 5 了, 2 书 sees 6 图书馆" in words
    padded = made.leak(dimension="padding")  # whose positions are not those of the text
    assert "3 sees 5" in " ".join(shown(made.audit(padded), labels=CHINESE))
    longer = made.leak(12)  # tried at another length too
    assert "3 sees 5" in " ".join(shown(made.audit(longer), labels=CHINESE))
    many = tuple((0, k) for k in range(1, 13))
    words = " ".join(" ".join(shown(made.audit(made.leak(pairs=many)))).split())
    assert "0 sees 7, 0 sees 8, ...; the strongest of them" in words
    words = " ".join(" ".join(shown(made.audit(made.leak(pairs=many[:8])))).split())
    assert "0 sees 8 the window" in words  # where all are shown


def test_a_long_map_keeps_a_leak_of_one_cell() -> None:
    maps = made.maps(100, (60, 70), (2, 97))
    lines = shown(made.audit(made.leak(pairs=((60, 70),), **maps), length=100))
    cells = [(y, x) for y, line in enumerate(lines) for x, c in enumerate(line) if c == "X"]
    drawn = [line for line in lines if "X" in line and "may" not in line]
    assert [line.split()[0] for line in drawn] == ["0", "60"]
    assert len(cells) == 3  # with the legend's
    assert "4 rows and 4 columns in one cell" in " ".join(" ".join(lines).split())


def test_how_many_positions_were_tried() -> None:
    maps = made.maps(8, (3, 5))
    assert "tried at" not in " ".join(shown(made.audit(made.leak(**maps))))
    maps["measured"][:, ::2] = float("nan")
    words = " ".join(" ".join(shown(made.audit(made.leak(**maps), made.CLEAN))).split())
    assert "tried at 4 of the 7 positions that count: future (sdpa) future (sdpa):" in words
    rows = made.maps(8, (3, 5), tried=2)
    words = " ".join(" ".join(shown(made.audit(made.leak(**rows)))).split())
    assert "tried at 5 of the 7 positions that count" in words


def test_one_layer_is_one_layer() -> None:
    assert "over 1 layer;" in shown(made.audit(made.CLEAN, layers=1))[1]


def test_what_is_below_rounding_says_why() -> None:
    words = " ".join(" ".join(shown(made.audit(made.leak(floor=1e-12)))).split())
    assert "would have been seen: 3e-13, as a leak comes again alike" in words


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ((made.CLEAN,), "stopped; nothing bad so far"),
        ((made.leak(), made.CLEAN), "stopped; 1 leak, so far"),
        ((made.UNKNOWN,), "stopped; 1 could not be told, so far"),
    ],
)
def test_a_stopped_audit_is_not_clean(outcomes: tuple[object, ...], said: str) -> None:
    audit = Stopped("toy", outcomes, "", 0, None, "", "given", 3)  # type: ignore[arg-type]
    assert shown(audit)[:2] == [f"toy: {said}", "weights given, seed 3"]
    held = audit.as_dict()
    assert (audit.clean, held["clean"], held["stopped"]) == (False, None, True)
    assert not {"declared", "dtype", "length", "layers"} & set(held)


def test_each_dimension_has_one_map() -> None:
    train = made.leak(case="train")
    lines = shown(made.audit(made.leak(), train, made.leak(dimension="padding")))
    assert sum(line.strip().startswith("0 1 2") for line in lines) == 2
    assert "future (train): leak" in " ".join(lines)


@pytest.mark.parametrize(
    ("outcomes", "said"),
    [
        ((made.CLEAN,), "clean"),
        ((made.leak(), made.leak(case="train")), "1 leak, in 2 ways to run"),
        ((made.leak(), made.leak(dimension="padding", case="left")), "2 leaks"),
        (
            [made.leak(dimension="padding", case=side) for side in ("left", "right")],
            "1 leak, in 2 cases",
        ),
        ((made.DIFFERS, made.DIFFERS), "1 inconsistency, in 2 cases"),
        ((made.DIFFERS, replace(made.DIFFERS, dimension="chunked")), "2 inconsistencies"),
        ((made.UNKNOWN, made.CLEAN), "1 could not be told"),
        ((made.SKIPPED,), "nothing was checked"),
        ((), "nothing was checked"),
    ],
)
def test_the_conclusion(outcomes: tuple[object, ...], said: str) -> None:
    audit = made.audit(*outcomes)  # type: ignore[arg-type]
    assert conclusion(audit) == said
    assert f": {said}" in shown(audit)[0]


def test_colour_adds_nothing_but_colour() -> None:
    import re

    coloured = [re.sub(r"\x1b\[[\d;]*m", "", line).rstrip() for line in shown(ALL, colour=True)]
    assert coloured == [line.rstrip() for line in shown(ALL)]


def test_notes_are_told() -> None:
    words = " ".join(shown(made.audit(made.CLEAN, notes=("float64 gave NaN: float32 ran",))))
    assert "float64 gave NaN: float32 ran" in words
