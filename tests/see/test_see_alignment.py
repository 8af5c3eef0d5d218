"""Word alignment: targets against source words and positions, even pace, and every fault."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from see_help import cut_into, named_by

from headwise.names import TextError
from headwise.see.probes import aligned, alignment
from headwise.see.record import Side
from headwise.see.texts.tokens import Token

SOURCE, TARGET = "小明还书了", "Ming returned the book."
LINKS = [[[0, 4], [0, 2]], [[5, 13], [2, 3]], [[5, 13], [4, 5]], [[18, 22], [3, 4]]]
PAIR = {"source": SOURCE, "target": TARGET, "links": LINKS}
SPEECH = {"target": " one two", "spans": [[0, 4, 0, 3], [4, 8, 3, 9]]}


def positions(count: int) -> Side:
    return Side("", tuple(Token(-1, str(i), 0, 0, special=True) for i in range(count)))


def speech(text: str = " one two") -> Side:
    return cut_into(text, "[en]", " one", " tw", "o", "[end]")


def put(folder: Path, *entries: Any) -> Path:
    path = folder / "a.jsonl"
    lines = (x if isinstance(x, str) else json.dumps(x) for x in entries)
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_target_words_look_at_source_words(tmp_path: Path) -> None:
    probe = alignment(put(tmp_path, PAIR))
    assert (probe.name, probe.across, probe.by, probe.fixed) == ("alignment", True, "hits", False)
    queries = cut_into(TARGET, "M", "ing", " returned", " the", " book", ".")
    keys = cut_into(SOURCE, "小", "明", "还", "书了", "[end]")
    assert named_by(probe, queries, keys) == {
        "Ming": ["小", "明"],
        "returned": ["还", "书了"],
        "book": ["书了"],
    }
    assert probe.units(queries, keys)[1] == ((1, 2), (2, 3), (3, 4), (4, 5))


def test_ahead_a_word_is_looked_for_from_where_it_is_predicted() -> None:
    """Predicted by the first token, M, ing and the: the first position is left out."""
    probe = aligned([PAIR], ahead=True).probe
    queries = cut_into(TARGET, "M", "ing", " returned", " the", " book", ".")
    keys = cut_into(SOURCE, "小", "明", "还", "书了", "[end]")
    ranges = probe.units(queries, keys)
    assert ranges == (((1, 2), (2, 3), (4, 5)), ((1, 2), (2, 3), (3, 4), (4, 5)))
    assert probe.links(queries, keys, ranges) == [(0, 1), (2, 3), (3,)]
    assert "what predicts a word of the target looks at what the word is aligned with" in probe.says
    assert aligned([PAIR], ahead=True).even_pace == aligned([PAIR]).even_pace


def test_target_words_look_at_positions(tmp_path: Path) -> None:
    probe = alignment(put(tmp_path, SPEECH))
    found = named_by(probe, speech(), positions(12))
    assert found == {"one": ["0", "1", "2"], "two": ["3", "4", "5", "6", "7", "8"]}
    assert len(probe.units(speech(), positions(12))[1]) == 12
    assert named_by(probe, cut_into("one two", "one", " two"), positions(5))["two"] == [
        "3",
        "4",
    ]  # audio that was cut


def test_other_texts_and_a_text_with_itself_have_no_units() -> None:
    probe = alignment([PAIR, SPEECH])
    queries, keys = cut_into(TARGET, "Ming", " book"), cut_into(SOURCE, "小明", "书")
    for sides in [(queries, queries), (keys, keys), (keys, queries), (queries, positions(9)),
                  (speech(), speech()), (speech(), keys), (positions(9), positions(9)),
                  (cut_into("else", "else"), keys)]:  # fmt: skip
        assert probe.units(*sides) == ((), ())
        assert probe.links(*sides, ((), ())) == []
    assert probe.links(queries, keys, probe.units(queries, keys)) == [(0,), (1,)]


def test_one_target_of_two_sources() -> None:
    other = {"source": "书还明小", "target": TARGET, "links": [[[0, 4], [2, 4]]]}
    found = aligned([PAIR, other])
    assert found.texts == (TARGET, TARGET)
    assert found.sources == (SOURCE, "书还明小")
    queries = cut_into(TARGET, "Ming", " returned", " the", " book")
    keys = cut_into("书还明小", "书", "还", "明", "小")
    assert named_by(found.probe, queries, keys) == {"Ming": ["明", "小"]}


def test_even_pace() -> None:
    """Of `one two` the middle of `one` is at 1.5 of 7, of ` two` at 5: positions 1.9 and 6.4 of 9."""
    assert aligned(SPEECH).even_pace == 1.0
    assert aligned({**SPEECH, "spans": [[0, 4, 0, 1], [4, 8, 1, 9]]}).even_pace == 0.5
    crossed = {"source": "a b", "target": "x y", "links": [[[0, 1], [2, 3]], [[2, 3], [0, 1]]]}
    assert aligned(crossed).even_pace == 0.0
    one = {"source": "abcd", "target": "wxyz", "links": [[[0, 1], [3, 4]]]}
    assert aligned(one).even_pace == 0.0  # of texts the whole is mapped, not the one link to itself
    assert aligned({**one, "links": [[[3, 4], [3, 4]]]}).even_pace == 1.0
    assert aligned(SPEECH).sources == (None,)
    assert aligned(SPEECH).texts == (" one two",)
    nothing = aligned([SPEECH, {"target": "x", "spans": []}])
    assert nothing.even_pace == 1.0


@pytest.mark.parametrize(
    ("entry", "wanted"),
    [
        ("{", "cannot be read as JSON"),
        ({"spans": []}, "a text 'target' is needed, its fields are 'spans'"),
        ({"target": "a"}, "a text 'source' is needed"),
        ({"target": "a", "source": "b"}, "a list 'links' is needed"),
        ({"target": "a", "source": "b", "links": [[[0, 1]]]}, "a link is [the target's span, the source's span]"),
        ({"target": "a", "source": "b", "links": [[[0, 1], [0, 2]]]}, "[0, 2] is not within the text's 1"),
        ({"target": "a", "spans": [[0, 1, 2]]}, "[start, end, first position, last position] is needed"),
        ({"target": "a", "spans": [[0, 1, 2.5, 3]]}, "last position] is needed, came [0, 1, 2.5, 3]"),
        ({"target": "a", "spans": [[0, 1, 3, 3]]}, "the positions 3 to 3 are none"),
        ({"target": "a", "spans": [[0, 1, -1, 3]]}, "the positions -1 to 3 are none"),
        ({"target": "a", "spans": [[0, 2, 0, 3]]}, "[0, 2] is not within the text's 1 characters"),
        ({"target": "one two", "spans": [[0, 3, 0, 3]]}, "the same texts came before with another alignment"),
    ],
)  # fmt: skip
def test_a_wrong_entry_is_left_out(tmp_path: Path, entry: Any, wanted: str) -> None:
    path = put(tmp_path, SPEECH, entry, PAIR)
    with pytest.warns(UserWarning, match=r"a\.jsonl, line 2.*; it is left out$"):
        found = aligned(path)
    assert len(found.faults) == 1
    assert wanted in found.faults[0]
    assert found.texts == (" one two", TARGET)


def test_nothing_aligned(tmp_path: Path) -> None:
    with pytest.raises(TextError, match=r"no alignment in .*a\.jsonl: .*line 1 cannot be read"):
        aligned(put(tmp_path, "{"))
    with pytest.raises(TextError, match=r"no alignment in the alignment$"):
        aligned([])


def test_a_part_of_a_source_word_can_be_aligned() -> None:
    entry = {"source": "don't", "target": "x not", "links": [[[2, 5], [2, 5]]]}
    queries, keys = cut_into("x not", "x", " not"), cut_into("don't", "do", "n't")
    assert named_by(alignment(entry), queries, keys) == {"not": ["n't"]}
