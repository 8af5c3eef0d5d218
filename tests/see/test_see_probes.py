"""Probes: the keys they name, on texts by hand, and what is refused."""

from __future__ import annotations

import pytest
import torch
from see_help import side_of

import headwise as hw
from headwise.names import ConfigError
from headwise.see import probes
from headwise.see.probes import Probe

TOKENS = ["[C]", "the", "cat", ",", "the", "the", "cat", ".", "ran", "[S]"]
NAMED = {
    "previous": [-1, -1, 1, 2, 3, 4, 5, 6, 7, 8],
    "next": [1, 2, 3, 4, 5, 6, 7, 8, 9, -1],
    "self": [-1, 1, 2, 3, 4, 5, 6, 7, 8, 9],
    "first": [-1, -1, 0, 0, 0, 0, 0, 0, 0, 0],
    "separator": [9, 9, 9, 9, 9, 9, 9, 9, 9, -1],
    "delimiter": [-1, -1, -1, -1, 3, 3, 3, 3, 7, 7],
    "same_token": [-1, -1, -1, -1, 1, 4, 2, -1, -1, -1],
    "induction": [-1, -1, -1, -1, 2, -1, 3, -1, -1, -1],
    "successor": [-1, -1, -1, -1, -1, -1, -1, -1, -1, -1],
}


@pytest.mark.parametrize("name", NAMED)
def test_what_each_probe_names(name: str) -> None:
    side = side_of(TOKENS)
    assert probes.named(name).targets(side, side, True).tolist() == NAMED[name]


def test_every_built_in_probe_is_tested_and_said_in_words() -> None:
    assert [probe.name for probe in hw.probes.BUILT_IN] == list(NAMED)
    assert all(getattr(hw.probes, name) is probes.named(name) for name in NAMED)
    assert all(probe.says for probe in probes.BUILT_IN)


def test_only_special_tokens_separate_and_only_marks_delimit() -> None:
    side = side_of([",", "a", ".", "b", "c,", "。", "d", "[S]", "e", "！？"])
    assert probes.delimiter.targets(side, side, True).tolist() == [-1, -1, -1, 2, 2, 2, 5, 5, 5, 5]
    assert probes.separator.targets(side, side, True).tolist() == [7] * 7 + [-1, 7, 7]
    alone = side_of(["a", ".", "b"])
    assert probes.separator.targets(alone, alone, True).tolist() == [-1, -1, -1]
    first = side_of(["[C]", "a"])
    assert probes.separator.targets(first, first, True).tolist() == [-1, -1]


def test_between_two_texts_only_the_first_key_means_anything() -> None:
    queries, keys = side_of(["a", "b", "c"]), side_of(["a", "x"])
    for probe in probes.BUILT_IN:
        wanted = [0, 0, 0] if probe.name == "first" else [-1, -1, -1]
        assert probe.targets(queries, keys, False).tolist() == wanted


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (lambda q, k: [0], r"'own' must give one whole number per query, 3 here, came \[1\]"),
        (lambda q, k: [0.0, 1.0, 2.0], "whole number per query, 3 here, came .* torch.float32"),
        (lambda q, k: [0, 1, 3], "must name keys from 0 to 2, or -1 for none, came 0 to 3"),
        (lambda q, k: [0, -2, 1], "came -2 to 1"),
        (lambda q, k: ["a", "b", "c"], "must give one whole number per query"),
        (lambda q, k: None, "must give one whole number per query"),
    ],
)
def test_a_rule_that_names_no_key_is_refused(rule, message: str) -> None:
    side = side_of(["a", "b", "c"])
    with pytest.raises(ConfigError, match=message):
        Probe("own", rule).targets(side, side, True)


@pytest.mark.parametrize("name", ["", " "])
def test_a_probe_needs_a_name(name: str) -> None:
    with pytest.raises(ConfigError, match=f"a probe needs a name, came '{name}'"):
        probes.Probe(name, lambda queries, keys: [])


def test_an_unknown_probe_is_answered_with_the_known_ones() -> None:
    with pytest.raises(
        ConfigError, match="no probe 'nxt'; there are previous, next, self, first, "
    ):
        probes.named("nxt")


def test_repeated_tokens_are_random_text_twice(bytes_model: hw.Model) -> None:
    rows = probes.repeated_tokens(20, 3, model=bytes_model, rows=5)
    assert rows.shape == (5, 40)
    assert torch.equal(rows[:, :20], rows[:, 20:])
    assert torch.equal(rows, probes.repeated_tokens(20, 3, model=bytes_model, rows=5))
    assert not torch.equal(rows, probes.repeated_tokens(20, 4, model=bytes_model, rows=5))
    special = bytes_model.tokenizer.token_to_id("<s>")
    many = probes.repeated_tokens(2000, model=bytes_model, rows=1)
    assert special not in many
    texts = {bytes_model.tokenizer.decode([i]) for i in many.unique().tolist()}
    assert "\ufffd" not in texts  # no byte that is no character by itself
    assert len(texts) > 90
    with pytest.raises(ConfigError, match="at least 1"):
        probes.repeated_tokens(0, model=bytes_model)


def test_repeated_tokens_of_varying_length(bytes_model: hw.Model) -> None:
    rows = probes.repeated_tokens((3, 9), 1, model=bytes_model, rows=40)
    assert {len(row) for row in rows} == {2 * n for n in range(3, 10)}
    assert all(torch.equal(row[: len(row) // 2], row[len(row) // 2 :]) for row in rows)
    again = probes.repeated_tokens((3, 9), 1, model=bytes_model, rows=40)
    assert all(map(torch.equal, rows, again))
    assert [len(row) for row in probes.repeated_tokens((4, 4), model=bytes_model, rows=2)] == [8, 8]
    with pytest.raises(ConfigError, match=r"at least 1, came \(0, 4\)"):
        probes.repeated_tokens((0, 4), model=bytes_model)
    table = hw.profile(bytes_model, rows, probes=probes.ON_REPEATED, pool=0, positions=0)
    assert {"induction_random", "induction_random_hits", "same_token_random"} <= set(table)
    assert int(table.induction_random_count[0, 0]) >= sum(len(row) // 2 - 1 for row in rows)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("length", [(9, 3), (3,), 2.5, "ab", (2.5, 3)])
def test_a_length_that_is_none_is_refused(bytes_model: hw.Model, length: object) -> None:
    with pytest.raises(ConfigError, match=r"length must be a whole number or .least, most., came"):
        probes.repeated_tokens(length, model=bytes_model)


def test_probes_on_repeated_tokens_have_the_rules_of_any_text() -> None:
    assert [probe.name for probe in probes.ON_REPEATED] == ["induction_random", "same_token_random"]
    side = side_of(["a", "b", "a", "b"])
    for probe, plain in zip(probes.ON_REPEATED, ["induction", "same_token"], strict=True):
        assert probe.targets(side, side, True).equal(probes.named(plain).targets(side, side, True))
