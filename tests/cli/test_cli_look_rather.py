"""headwise look --word it --rather animal street: who prefers which, and no one."""

from __future__ import annotations

import pytest
from cli_help import SENTENCE, Cli

pytestmark = pytest.mark.models
CHINESE = "小明把书还给了图书馆,因为它到期了。"


def test_each_side_is_named(cli: Cli) -> None:
    answer = cli("look", SENTENCE, "--word", "it", "--rather", "animal", "street")
    assert answer.code == 0
    first, second = answer.out.split("it looks rather at animal than at street in")[1].split(
        "it looks rather at street than at animal in"
    )
    assert first.split("):")[1].splitlines()[1].split()[:2] == ["13.8", "0.75"]
    assert second.split("):")[1].splitlines()[1].split()[:2] == ["21.6", "0.56"]
    assert "at least 0.1 of the row, and 2 times" in second


def test_it_says_so_where_no_head_prefers_the_book(cli: Cli) -> None:
    asked = ("--model", "e5-small", "--word", "它", "--rather", "书", "图书馆")
    answer = cli("look", CHINESE, *asked)
    assert answer.code == 0
    assert "looks rather at 书 than at 图书馆 in" in answer.out
    assert "hold more than it" in answer.out  # 因为它 is one token there


def test_json_has_both_weights_of_every_head(cli: Cli) -> None:
    asked = ("--model", "mini", "--word", "it", "--rather", "animal", "street", "--json", "-")
    (place,) = cli("look", SENTENCE, *asked).data["word"]
    rather = place["rather"]
    assert (rather["one"], rather["other"], len(rather["heads"])) == ("animal", "street", 16)
    gains = [one - other for _, one, other in rather["heads"]]
    assert gains == sorted(gains, reverse=True)


def test_mistakes_are_one_line(cli: Cli) -> None:
    answer = cli("look", SENTENCE, "--rather", "animal", "street")
    assert answer.code == 2
    assert "--rather goes with --word" in answer.err
    asked = ("--model", "mini", "--word", "it", "--rather", "animal", "dog")
    answer = cli("look", SENTENCE, *asked)
    assert answer.code == 1
    assert "'dog' is not in the text" in answer.err
