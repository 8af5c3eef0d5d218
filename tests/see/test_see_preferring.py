"""Which of two words a word rather looks at: against the patterns, in English and Chinese."""

from __future__ import annotations

import pytest

import headwise as hw
from headwise.names import TextError
from headwise.see.preferring import Preference, preferences
from headwise.see.wording import places_of

SENTENCE = "The animal didn't cross the street because it was too tired"
CHINESE = "小明把书还给了图书馆,因为它到期了。"


@pytest.mark.models
def test_smollm2_has_heads_for_each_side() -> None:
    record = hw.look(hw.load("smollm2", quiet=True), SENTENCE)
    (place,) = places_of(record, "it")
    found = preferences(record, place, "animal", "street")
    assert len(found) == 270
    assert str(found[0].head) == "13.8"
    assert found[0].prefers_one
    assert not found[0].prefers_other
    assert str(found[-1].head) == "21.6"
    assert found[-1].prefers_other
    for each in (found[0], found[-1], found[100]):
        row = record.pattern(str(each.head), words=True).sel(query="it")
        assert each.one == pytest.approx(float(row.sel(key="animal")), abs=1e-6)
        assert each.other == pytest.approx(float(row.sel(key="street")), abs=1e-6)


@pytest.mark.models
def test_chinese_words_of_several_tokens_are_summed() -> None:
    record = hw.look(hw.load("e5-small", quiet=True), CHINESE)
    (place,) = places_of(record, "它")
    assert place.note is not None  # its token holds 因为 too
    found = preferences(record, place, "书", "图书馆")
    assert len(found) == 144
    keys = [token.text.strip() for token in record.tokens]
    weights = record.weights(found[0].head)
    book, library = keys.index("书"), keys.index("图书馆")
    assert found[0].one == pytest.approx(weights[place.word.first, book], abs=1e-6)
    assert found[0].other == pytest.approx(weights[place.word.first, library], abs=1e-6)


@pytest.mark.models
def test_words_that_cannot_be_told_apart_are_refused() -> None:
    record = hw.look(hw.load("mini", quiet=True), SENTENCE)
    (place,) = places_of(record, "it")
    with pytest.raises(TextError, match="share the token"):
        preferences(record, place, "animal", "anim")
    with pytest.raises(TextError, match="'dog' is not in the text"):
        preferences(record, place, "animal", "dog")


@pytest.mark.parametrize(
    ("one", "other", "prefers"),
    [
        (0.3, 0.1, (True, False)),
        (0.1, 0.3, (False, True)),
        (0.09, 0.0, (False, False)),
        (0.3, 0.2, (False, False)),
    ],
)
def test_a_preference_is_clear_or_none(
    one: float, other: float, prefers: tuple[bool, bool]
) -> None:
    found = Preference(hw.HeadId.parse("0.1"), one, other)
    assert (found.prefers_one, found.prefers_other) == prefers
