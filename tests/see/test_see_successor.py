"""The successor probe: what counts as an item of a series, and which earlier one it follows."""

from __future__ import annotations

import pytest
from see_help import cut_into

from headwise.see.probes import successor
from headwise.see.record import Side
from headwise.see.texts.tokens import tokens_of_ids


def followed(side: Side) -> dict[str, str]:
    """From each item the item it follows, by what the tokens say."""
    found = successor.targets(side, side, True).tolist()
    return {
        side.tokens[q].text.strip(): side.tokens[k].text.strip()
        for q, k in enumerate(found)
        if k >= 0
    }


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("On Monday and on Tuesday .", {"Tuesday": "Monday"}),
        ("SUNDAY , MONDAY", {"MONDAY": "SUNDAY"}),
        ("Sunday monday", {}),  # no day is written so
        ("January March April", {"April": "March"}),
        ("April May June", {"May": "April", "June": "May"}),
        ("Apr May Jun", {"May": "Apr", "Jun": "May"}),
        ("December January", {"January": "December"}),
        ("they march in april", {}),
        ("one , Two three", {"Two": "one", "three": "Two"}),
        ("twenty zero one", {"one": "zero"}),  # numbers do not go round
        ("first the second", {"second": "first"}),
        ("3 4 4 5", {"4": "3", "5": "4"}),
        ("99 100", {"100": "99"}),
        ("a B b C", {"b": "a", "C": "B"}),
        ("z a", {}),
        ("Tuesday Monday", {}),
        ("one 2 second", {}),  # each of another series
    ],
)
def test_an_item_follows_the_one_before_it(text: str, wanted: dict[str, str]) -> None:
    assert followed(cut_into(text, *text.split())) == wanted


@pytest.mark.parametrize(
    ("text", "pieces", "wanted"),
    [
        ("一、二、三", "一、二、三", {"二": "一", "三": "二"}),
        ("从星期一到星期二", ["从", "星期一", "到", "星期二"], {"星期二": "星期一"}),
        ("周日和周一", ["周日", "和", "周一"], {"周一": "周日"}),
        ("十二月，一月", ["十二月", "，", "一月"], {"一月": "十二月"}),
        ("第一是书，第二是笔", ["第一", "是", "书", "，", "第二", "是笔"], {"第二": "第一"}),
        ("甲和乙", "甲和乙", {"乙": "甲"}),
        ("一和十二", "一和十二", {}),  # a part of twelve
    ],
)
def test_chinese_series(text: str, pieces: list[str], wanted: dict[str, str]) -> None:
    assert followed(cut_into(text, *pieces)) == wanted


def test_the_last_earlier_item_is_named() -> None:
    side = cut_into("1 1 x 2 2", "1", " 1", " x", " 2", " 2")
    assert successor.targets(side, side, True).tolist() == [-1, -1, -1, -1, 2, 2]


@pytest.mark.parametrize(
    ("text", "pieces"),
    [
        ("12", ["1", "2"]),
        ("abc", ["a", "b", "c"]),
        ("one twofold", ["one", " two", "fold"]),
        ("1 2nd", ["1", " 2", "nd"]),
        ("1 [two", ["1", "[two"]),  # a special token
        ("1 2345678901", ["1", " 2345678901"]),
    ],
)
def test_a_part_of_a_word_is_no_item(text: str, pieces: list[str]) -> None:
    assert followed(cut_into(text, *pieces)) == {}


def test_ids_that_stand_for_themselves_are_no_numbers() -> None:
    side = Side(*tokens_of_ids(None, [5, 6, 7]))
    assert followed(side) == {}


def test_marks_beside_an_item_do_not_hide_it() -> None:
    side = cut_into("(1) (2) 3年", "(", "1", ")", " (", "2", ")", " 3", "年")
    assert followed(side) == {"2": "1", "3": "2"}
