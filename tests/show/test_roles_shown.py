"""Roles as grids, tables and pages: the same letters and colours everywhere, and no line too wide."""

from __future__ import annotations

import io
import re
import sys
import tracemalloc
from pathlib import Path

import pytest
from rich.cells import cell_len
from rich.console import Console, RenderableType

import headwise as hw
from headwise.see.roles.cases import Example
from headwise.show.cells import fit
from headwise.show.grid import ROLE_KINDS, grid_of_roles, kind_of_probe
from headwise.show.pictures import draw_grid, save
from headwise.show.terminal import head_grid
from headwise.show.terminal_roles import _example, head_page, roles_table

sys.path.append(str(Path(__file__).parents[1] / "see"))

from evidence_help import evidence, one_head


def printed(shown: RenderableType, width: int = 1000) -> str:
    console = Console(file=io.StringIO(), width=width, _environ={})
    console.print(shown)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


@pytest.fixture
def roles() -> hw.Roles:
    return hw.roles(
        evidence(
            {
                "first": {"mass": 0.95, "fixed": False},
                "previous": {"mass": one_head(0.9), "fixed": False, "says": "the one before"},
                "nsubj:pass_to_head": {"by": "hits", "hits": one_head(0.5, head=1), "unseen": 7},
                "obj_to_dependent": {"by": "hits", "hits": 0.1},
            }
        )
    )


def test_every_probe_has_its_kind() -> None:
    kinds = {
        "previous": "previous",
        "same_token_random": "same token",
        "induction_random": "induction",
        "induction": "induction",
        "delimiter": "separator",
        "nsubj:pass_to_head": "relation, to the head",
        "first_to_dependent": "relation, to a dependent",
        "coreference": "coreference",
        "alignment": "alignment",
        "last_comma": "other probe",
        "": "other probe",
    }
    assert {name: kind_of_probe(name).does for name in kinds} == kinds


def test_no_two_kinds_look_alike() -> None:
    kinds = list(ROLE_KINDS.values())
    assert len({kind.strong for kind in kinds}) == len(kinds)
    colours = [kind.colour for kind in kinds]
    apart = min(
        sum((a - b) ** 2 for a, b in zip(one, other, strict=True)) ** 0.5
        for i, one in enumerate(colours)
        for other in colours[:i]
    )
    assert apart > 20


def test_the_grid_shows_a_role_beside_the_sink(roles: hw.Roles) -> None:
    grid = grid_of_roles(roles)
    assert [cell.code for cell in grid.cells] == ["P", "r", "F", "F", "F", "F"]
    assert [cell.mass for cell in grid.cells][:2] == pytest.approx([0.875, 0.375])
    shown = printed(head_grid(grid, width=80, colour=False))
    assert "P p previous 1" in shown
    assert "R r relation, to the head 1" in shown
    assert "F f first 4" in shown
    assert "same token" not in shown


def test_the_table_says_baseline_cases_and_claims(roles: hw.Roles) -> None:
    shown = printed(roles_table(roles, top=2, width=1000, colour=False))
    assert (
        "previous: the one before; attention, baseline .20 (uniform), 400 cases in 40 texts"
        in shown
    )
    assert re.search(r"0\.0 \.90\* \[\.88, \.92\] +0\.1 \.10 \[", shown)
    assert (
        "nsubj:pass_to_head; top-1 accuracy, baseline .20 (uniform), 400 cases in 40 texts, 7 more"
        in shown
    )
    part = shown[shown.index("obj_to_dependent") :]
    assert "no head beats its baseline in the choosing half" in part
    assert shown.count("no head beats its baseline") == 1
    assert f"{roles.tried} pairs of probe and head tried" in shown
    assert (
        "order on one half of the texts (up to 40 with a case), all numbers from the other (up to 40)"
        in shown
    )
    assert "sure ." not in shown  # of a role, or below the baseline


def test_what_seems_a_role_and_is_none_shows_what_is_sure() -> None:
    """Above the baseline with its plain interval, not with the one widened for all six that were tried."""
    unsure = {"by": "hits", "hits": 0.5, "hits_error": 0.1, "count": 1, "texts": [[[1]], [[40]]]}
    found = hw.roles(evidence({"p": unsure}))
    assert found.best("p")[0].low > 0.2
    shown = printed(roles_table(found, top=1, width=1000, colour=False))
    assert "none beyond chance with all 6 tried" in shown
    sure = f"{found.best('p')[0].sure:.2f}".lstrip("0")
    assert re.search(rf"0\.0 \.50 \[\.30, \.70\] sure {re.escape(sure)}", shown)
    assert ", 1 case in 40 texts" in shown
    assert "(up to 1 with a case), all numbers from the other (up to 40)" in shown


def test_a_title_has_no_gaps(roles: hw.Roles) -> None:
    table = evidence({"first": {"mass": 0.9}})
    table["kv_group"] = (("layer", "head"), table["kv_group"].values // 2)
    shown = printed(head_page(roles, table, "0.1", {}, width=80))
    assert shown.splitlines()[0] == "0.1  nsubj:pass_to_head  (KV group 0)"
    assert re.search(
        r"nsubj:pass_to_head top-1 accuracy \.50 \[\.48, \.52\] sure \.\d\d, base", shown
    )


def test_a_long_text_is_shown_around_the_case() -> None:
    """Of half a million characters on one line: what is near the word alone is looked at."""
    text = "字 b" * 250_000 + " here " + "c 字" * 250_000
    at = text.index("here")
    one = Example(text, at, at + 4, "here", ("b",), 0.9, True, "c", 0.05)
    tracemalloc.start()
    line = next(x for x in _example(one, 40) if "[here]" in x.plain)
    assert tracemalloc.get_traced_memory()[1] < 200_000
    tracemalloc.stop()
    assert line.cell_len <= 40
    assert re.fullmatch(r" {6}…[字b ]+\[here\] [字c ]+…", line.plain)


def test_fitting_a_long_label_takes_one_look_at_each_character(monkeypatch) -> None:
    asked = 0

    def counting(text: str) -> int:
        nonlocal asked
        asked += 1
        return cell_len(text)

    monkeypatch.setattr("headwise.show.cells.cell_len", counting)
    assert fit("字" * 2000, 9) == "字字字字…"
    assert asked < 5 * 2000
    assert [fit("字a", 1), fit("字a", 0), fit("a", 3), fit("字a", 3)] == ["…", "", "a  ", "字a"]


def test_streams_are_named() -> None:
    table = evidence({"first": {"mass": 0.9}}, names=["encoder.0", "cross.0"])
    shown = printed(roles_table(hw.roles(table), top=1, width=80, colour=False))
    assert "first (encoder); " in shown
    assert "first (cross); " in shown


CHINESE = "小明把书还给了图书馆,因为它到期了。" * 4


@pytest.mark.parametrize("width", [24, 40, 80, 200])
def test_no_line_is_wider_than_asked(roles: hw.Roles, width: int) -> None:
    cases = [
        Example(CHINESE, 31, 32, "它", ("书", "图书馆"), 0.9, True, "了", 0.05),
        Example("one\ntwo three", 3, 7, "two", ("one",), 0.4, False, "three", 0.5),
        Example("", 0, 0, "<s>", ("<s>",), 1.0, True, "", 0.0),
    ]
    profile = evidence({"first": {"mass": 0.9}})
    pages = [
        roles_table(roles, top=9, width=width, colour=False),
        head_page(roles, profile, "0.1", {"first": cases, "": cases}, width=width),
    ]
    for page in pages:
        assert max(cell_len(line) for line in printed(page).splitlines()) <= width
    if width == 80:
        shown = printed(pages[1])
        assert "0.1  nsubj:pass_to_head" in shown
        assert ".90 它 → 书 / 图书馆 (了 .05)" in shown
        assert re.search(r"…\S+\[它\]到期", shown)
        assert "one⏎[two] three" in shown


def test_the_picture_has_a_legend_of_the_roles_there_are(roles: hw.Roles, tmp_path: Path) -> None:
    save(draw_grid(grid_of_roles(roles), caption="c"), tmp_path / "r.svg")
    svg = (tmp_path / "r.svg").read_text(encoding="utf-8")
    for told in ("P previous (1)", "R relation, to the head (1)", "F first (4)"):
        assert told in svg
    assert "induction" not in svg
