"""Coreference: GAP's tables and spans in JSON lines, what they name, and every fault with its file and line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from see_help import cut_into, named_by

import headwise as hw
from headwise.names import TextError
from headwise.see.probes import coreference, mentions

ANN = "Ann Lee told Eva that she won."
HEADER = [
    "ID",
    "Text",
    "Pronoun",
    "Pronoun-offset",
    "A",
    "A-offset",
    "A-coref",
    "B",
    "B-offset",
    "B-coref",
    "URL",
]
ROW = ["d-1", ANN, "she", "22", "Ann Lee", "0", "TRUE", "Eva", "13", "FALSE", "http"]
BOOK = "小明说他还了书，因为书到期了"


def table(folder: Path, *rows: list[str], name: str = "gap.tsv") -> Path:
    path = folder / name
    path.write_text("".join("\t".join(row) + "\n" for row in (HEADER, *rows)), encoding="utf-8")
    return path


def changed(**columns: str) -> list[str]:
    row = dict(zip(HEADER, ROW, strict=True))
    return list((row | {name.replace("_", "-"): value for name, value in columns.items()}).values())


def put(folder: Path, *entries: Any) -> Path:
    path = folder / "a.jsonl"
    lines = (x if isinstance(x, str) else json.dumps(x, ensure_ascii=False) for x in entries)
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def span(text: str, part: str, nth: int = 0) -> list[int]:
    at = -1
    for _ in range(nth + 1):
        at = text.index(part, at + 1)
    return [at, at + len(part)]


def test_the_pronoun_looks_at_any_word_of_the_right_name(tmp_path: Path) -> None:
    probe = coreference(table(tmp_path, ROW))
    assert (probe.name, probe.by, probe.across) == ("coreference", "hits", False)
    side = cut_into(ANN, "Ann", " Le", "e", " told", " Eva", " that", " she", " won", ".")
    assert named_by(probe, side) == {"she": ["Ann", "Lee"]}
    assert len(probe.units(side, side)[1]) == 8


def test_of_the_candidates_only_the_names_are_units(tmp_path: Path) -> None:
    probe = coreference(table(tmp_path, ROW), candidates=True)
    assert probe.name == "coreference:candidates"
    side = cut_into(ANN, "Ann", " Le", "e", " told", " Eva", " that", " she", " won", ".")
    assert probe.units(side, side) == (((7, 8),), ((1, 4), (5, 6)))
    assert named_by(probe, side) == {"she": ["Ann Lee"]}
    bare = cut_into(ANN, "Ann", " Lee", " told", " Eva", " that", " she", " won.", special=False)
    assert probe.units(bare, bare) == (((5, 6),), ((1, 2), (3, 4)))  # the first token is of none


def test_a_name_within_a_longer_word_is_a_word_of_its_own(tmp_path: Path) -> None:
    text = "Ann's dog saw her."
    row = changed(
        Text=text, Pronoun="her", Pronoun_offset="14", A="Ann", A_offset="0", B="dog", B_offset="6"
    )
    probe = coreference(table(tmp_path, row))
    side = cut_into(text, "Ann", "'s", " dog", " saw", " her", ".")
    assert named_by(probe, side) == {"her": ["Ann"]}
    merged = cut_into(text, "Ann's", " dog", " saw", " her", ".")
    assert named_by(probe, merged) == {"her": ["Ann's"]}


def test_rows_without_a_right_name_are_texts_without_a_case(tmp_path: Path) -> None:
    other = "Bob met Tom and he left."
    row = changed(
        Text=other,
        Pronoun="he",
        Pronoun_offset="16",
        A="Bob",
        A_coref="FALSE",
        B="Tom",
        B_offset="8",
    )
    found = mentions(table(tmp_path, row, ROW))
    assert found.texts == (other, ANN)
    assert (found.cases, found.faults) == (1, ())
    side = cut_into(other, "Bob", " met", " Tom", " and", " he", " left", ".")
    assert named_by(found.words, side) == {}


def test_two_rows_of_one_text_add_up(tmp_path: Path) -> None:
    text = "Ann told Eva that she saw her."
    rows = [
        changed(Text=text, Pronoun="she", Pronoun_offset="18", A="Ann", B="Eva", B_offset="9"),
        changed(Text=text, Pronoun="her", Pronoun_offset="26", A="Ann", B="Eva", B_offset="9"),
    ]
    rows[1][6], rows[1][9] = "false", "true"
    found = mentions(table(tmp_path, *rows))
    side = cut_into(text, "Ann", " told", " Eva", " that", " she", " saw", " her", ".")
    for probe in (found.words, found.candidates):
        assert named_by(probe, side) == {"she": ["Ann"], "her": ["Eva"]}
    assert found.texts == (text,)
    assert found.cases == 2


@pytest.mark.parametrize(
    ("row", "wanted"),
    [
        (ROW[:-1], "11 columns are needed, came 10"),
        (changed(Pronoun_offset="21"), "Pronoun 'she' is not at character 21 of the text: ' sh' is there"),
        (changed(A_offset="9999"), "A 'Ann Lee' is not at character 9999 of the text: 'nothing' is there"),
        (changed(B_offset="-1"), "B-offset must be a whole number, came '-1'"),
        (changed(B=""), "B '' is not at character 13"),
        (changed(A_coref="yes"), "A-coref must be TRUE or FALSE, came 'yes'"),
    ],
)  # fmt: skip
def test_a_wrong_row_is_left_out(tmp_path: Path, row: list[str], wanted: str) -> None:
    path = table(tmp_path, row, ROW)
    with pytest.warns(UserWarning, match=r"gap\.tsv, line 2: .*; it is left out$"):
        found = mentions(path)
    assert found.faults[0].startswith(f"{path}, line 2: {wanted}")
    assert found.cases == 1


def test_every_later_mention_looks_at_the_earlier_ones() -> None:
    clusters = [
        [span(BOOK, "他"), span(BOOK, "小明")],
        [span(BOOK, "书", 1), span(BOOK, "书")],
        [span(BOOK, "期")],
    ]
    found = mentions({"text": BOOK, "clusters": clusters})
    assert found.cases == 2
    side = cut_into(BOOK, "小", "明", "说", "他", "还了", "书", "，", "因为书", "到期", "了")
    assert named_by(found.words, side) == {"他": ["小", "明"], "因为书": ["书"]}
    assert named_by(found.candidates, side) == {"他": ["小明"], "因为书": ["书"]}


def test_the_last_word_of_a_mention_looks() -> None:
    text = "The old man sat. The man slept. He woke."
    cluster = [span(text, "The old man"), span(text, "The man"), span(text, "He")]
    side = cut_into(text, *text.replace(".", " .").split())
    assert named_by(coreference({"text": text, "clusters": [cluster]}), side) == {
        "man": ["The", "old", "man"],
        "He": ["The", "old", "man", "The", "man"],
    }


def test_a_mention_within_another_is_not_before_it() -> None:
    text = "her dog barked at her"
    cluster = [span(text, "her dog"), span(text, "her"), span(text, "her", 1)]
    side = cut_into(text, "her", " dog", " barked", " at", " her")
    found = mentions({"text": text, "clusters": [cluster]})
    assert found.cases == 1
    assert named_by(found.words, side) == {"her": ["her", "dog"]}


def test_links_name_what_looks_at_what(tmp_path: Path) -> None:
    text = "  He said Bob won."
    links = [{"from": span(text, "He"), "to": [span(text, "Bob")]}, {"from": [10, 11], "to": []}]
    probe = coreference(put(tmp_path, {"text": text, "links": links}))
    side = cut_into(text, "He", " said", " Bob", " won", ".")
    assert named_by(probe, side) == {"He": ["Bob"]}
    bare = cut_into(text.strip(), "He", " said", " Bob", " won", ".")
    assert named_by(probe, bare) == {"He": ["Bob"]}


@pytest.mark.parametrize(
    ("entry", "wanted"),
    [
        ("{", "cannot be read as JSON"),
        ("3", "an object is needed, came a number"),
        ({"body": "a"}, "a text 'text' is needed, its fields are 'body'"),
        ({"text": " ", "links": []}, "a text 'text' is needed, came a text"),
        ('{"text": "a \\ud83d", "links": []}', "'text' holds \\ud83d, half of a character"),
        ({"text": "a b"}, "a list 'links' is needed, its fields are 'text'"),
        ({"text": "a b", "clusters": 3}, "a list 'clusters' is needed, came a number"),
        ({"text": "a b", "clusters": [3]}, "a cluster must be a list of spans [start, end], came a number"),
        ({"text": "a b", "clusters": [[[0]]]}, "a span [start, end] is needed, came [0]"),
        ({"text": "a b", "clusters": [[[0, True]]]}, "a span [start, end] is needed, came [0, True]"),
        ({"text": "a b", "clusters": [[[0, 1], [2, 4]]]}, "[2, 4] is not within the text's 3 characters"),
        ({"text": "a b", "clusters": [[[-1, 1]]]}, "[-1, 1] is not within"),
        ({"text": "a b", "clusters": [[[1, 1]]]}, "[1, 1] is not within"),
        ({"text": "a b", "clusters": [[[1, 2]]]}, "the span [1, 2] holds nothing but space"),
        ({"text": "a b", "links": [[0, 1]]}, 'a link must be {"from": [start, end], "to": '),
        ({"text": "a b", "links": [{"from": [0, 1], "to": 3}]}, "what a link is to must be a list"),
    ],
)  # fmt: skip
def test_a_wrong_entry_is_left_out(tmp_path: Path, entry: Any, wanted: str) -> None:
    good = {"text": "a b a", "clusters": [[[0, 1], [4, 5]]]}
    path = put(tmp_path, good, "", entry, good)
    found = mentions(path, warn=False)
    assert len(found.faults) == 1
    assert found.faults[0].startswith(f"{path}, line 3")
    assert wanted in found.faults[0]
    assert found.faults[0].endswith("; it is left out")
    assert found.texts == ("a b a",)


def test_entries_given_from_python_are_named_by_their_number() -> None:
    good = {"text": "a b a", "clusters": [[[0, 1], [4, 5]]]}
    with pytest.warns(UserWarning, match=r"^entry 2: a text 'text' is needed"):
        assert mentions([good, {}]).cases == 1
    with pytest.raises(TextError, match="no text with mentions in the mentions: entry 1: a text"):
        mentions({})


def test_files_of_another_kind(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("Text\tPronoun\n")
    with pytest.raises(
        TextError, match=r"neither JSON lines nor a table of GAP's: .* no column 'Pronoun-offset'"
    ):
        mentions(path)
    path.write_text("")
    with pytest.raises(TextError, match="its first line has no column 'Text'"):
        mentions(path)
    with pytest.raises(TextError, match=r"no text with mentions in .*gap\.tsv"):
        mentions(table(tmp_path))
    path.write_bytes(table(tmp_path, ROW).read_bytes() + b"\xff\n")
    with pytest.raises(TextError, match=r"a\.tsv, line 3, is not UTF-8"):
        mentions(path)


def test_packed_files_and_json_of_another_name(tmp_path: Path) -> None:
    path = tmp_path / "gap.tsv.gz"
    path.write_bytes(gzip.compress(table(tmp_path, ROW).read_bytes()))
    assert mentions(path).cases == 1
    other = put(tmp_path, {"text": "a b a", "clusters": [[[0, 1], [4, 5]]]}).rename(tmp_path / "x")
    assert mentions(other).cases == 1


def test_what_tokens_leave_of_the_links(tmp_path: Path, bytes_model: hw.Model) -> None:
    found = mentions(table(tmp_path, ROW)).coverage(bytes_model)
    assert (found.links, found.seen, found.merged, found.lost) == (2, 2, 0, 0)


def test_a_mention_at_the_end_of_another_has_none_before_it() -> None:
    text = "my own dog"
    entry = {"text": text, "clusters": [[span(text, "my own dog"), span(text, "dog")]]}
    assert mentions(entry).cases == 0


def test_a_printed_annotation_holds_no_texts() -> None:
    text = "Ann said that she saw her."
    found = mentions({"text": text, "clusters": [[[0, 3], [14, 17]]]})
    assert found.texts == (text,)
    assert repr(found) == "Mentions(name='the mentions', cases=1, faults=())"
