"""Relations of CoNLL-U files: what they name, and every fault in one line with its file and place."""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path

import pytest
from see_help import cut_into, named_by

import headwise as hw
from headwise.names import ConfigError, TextError
from headwise.see.probes import relation, relations, treebank


def row(id: str, form: str, head: str = "0", label: str = "root", misc: str = "_") -> str:
    return "\t".join([id, form, "_", "_", "_", "_", head, label, "_", misc])


CAT = [
    "# text = The cat didn't run.",
    row("1", "The", "2", "det"),
    row("2", "cat", "5", "nsubj"),
    row("3-4", "didn't", "_", "_"),
    row("3", "did", "5", "aux"),
    row("4", "n't", "5", "advmod"),
    row("4.1", "ever", "_", "_"),
    row("5", "run", "0", "root", "SpaceAfter=No"),
    row("6", ".", "5", "punct"),
    "",
]
BOOK = [
    "# text = 小明因为它还书",
    row("1", "小明", "4", "nsubj", "SpaceAfter=No"),
    row("2", "因为", "3", "case", "SpaceAfter=No"),
    row("3", "它", "4", "obl", "SpaceAfter=No"),
    row("4", "还", "0", "root", "SpaceAfter=No"),
    row("5", "书", "4", "obj"),
    "",
]
GOOD = [*CAT, *BOOK]


def put(folder: Path, *lines: str, name: str = "a.conllu") -> Path:
    path = folder / name
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def faults(path: Path) -> tuple[str, ...]:
    return treebank(path, warn=False).faults


def test_a_treebank_tells_its_texts_and_relations(tmp_path: Path) -> None:
    bank = treebank(put(tmp_path, *GOOD, "# only a comment", "", *CAT))
    assert bank.texts == ("The cat didn't run.", "小明因为它还书")
    assert bank.faults == ()
    assert bank.labels == {
        "nsubj": 2, "det": 1, "aux": 1, "advmod": 1, "punct": 1, "case": 1, "obl": 1, "obj": 1,
    }  # fmt: skip
    assert next(iter(bank.labels)) == "nsubj"


def test_a_relation_both_ways(tmp_path: Path) -> None:
    bank = treebank(put(tmp_path, *GOOD))
    side = cut_into("The cat didn't run.", "The", " c", "at", " did", "n't", " run", ".", "[SEP]")
    assert named_by(relation(bank, "nsubj"), side) == {"cat": ["run"]}
    assert named_by(relation(bank, "nsubj", to="dependent"), side) == {"run": ["cat"]}
    assert named_by(relation(bank, "advmod"), side) == {"n't": ["run"]}
    ranges = ((1, 2), (2, 4), (4, 5), (5, 6), (6, 7), (7, 8))
    assert relation(bank, "nsubj").units(side, side) == (ranges, ranges)


def test_links_within_merged_pieces_are_no_case(tmp_path: Path) -> None:
    bank = treebank(put(tmp_path, *GOOD))
    side = cut_into("小明因为它还书", "小", "明", "因为它", "还", "书")
    assert named_by(relation(bank, "case"), side) == {}
    assert named_by(relation(bank, "obl"), side) == {"因为它": ["还"]}
    assert named_by(relation(bank, "nsubj", to="dependent"), side) == {"还": ["小明"]}
    merged = cut_into("小明因为它还书", "小明因为它还书")
    assert all(named_by(probe, merged) == {} for probe in relations(bank, 1))


def test_all_dependents_are_named(tmp_path: Path) -> None:
    lines = [
        row("1", "a", "3", "conj"),
        row("2", "b", "3", "conj", "SpaceAfter=No"),
        row("3", "c"),
    ]
    bank = treebank(put(tmp_path, *lines))
    assert bank.texts == ("a bc",)  # made of the words, for want of a text
    side = cut_into("a bc", "a", " b", "c")
    assert named_by(relation(bank, "conj", to="dependent"), side) == {"c": ["a", "b"]}


def test_the_first_token_and_unknown_texts_have_no_case(tmp_path: Path) -> None:
    bank = treebank(put(tmp_path, *GOOD))
    text = "The cat didn't run."
    side = cut_into(text, "The", " cat", " didn't", " run", ".", special=False)
    assert named_by(relation(bank, "det"), side) == {}
    assert named_by(relation(bank, "nsubj"), side) == {"cat": ["run"]}
    other = cut_into("The cat ran.", "The", " cat", " ran", ".")
    assert relation(bank, "nsubj").units(other, other) == ((), ())
    spaced = cut_into(f"\n{text} ", "The", " cat", " didn't", " run", ".")
    assert named_by(relation(bank, "nsubj"), spaced) == {"cat": ["run"]}


def test_a_word_made_of_others_shares_its_characters(tmp_path: Path) -> None:
    lines = [
        "# text = du pain",
        row("1-2", "du", "_", "_"),
        row("1", "de", "3", "case"),
        row("2", "le", "3", "det"),
        row("3", "pain"),
    ]
    bank = treebank(put(tmp_path, *lines))
    side = cut_into("du pain", "d", "u", " pain")
    assert named_by(relation(bank, "case"), side) == {"du": ["pain"]}
    assert named_by(relation(bank, "det"), side) == {"du": ["pain"]}


def test_the_probes_of_a_treebank_share_their_units(tmp_path: Path) -> None:
    bank = treebank(put(tmp_path, *GOOD))
    found = relations(bank, least=1)
    assert [probe.name for probe in found[:3]] == [
        "nsubj_to_head",
        "nsubj_to_dependent",
        "det_to_head",
    ]
    assert len(found) == 16
    assert all(probe.units is bank.units and probe.by == "hits" and probe.fixed for probe in found)
    assert len(relations(bank, least=2)) == 2
    with pytest.raises(ConfigError, match=r"no relation of .*a\.conllu has 3 links \(at most 2\)"):
        relations(bank, least=3)


def test_names_and_subtypes(tmp_path: Path) -> None:
    path = put(tmp_path, row("1", "a", "2", "nsubj:pass"), row("2", "b", "3", "x'y"), row("3", "c"))
    assert relation(path, "nsubj:pass").name == "nsubj:pass_to_head"
    assert relation(path, "x'y", to="dependent").name == "x_y_to_dependent"
    with pytest.raises(
        ConfigError,
        match=r"a\.conllu has no relation 'nsubj' .*never occurs.*there are: nsubj:pass, x'y",
    ):
        relation(path, "nsubj")


def test_what_relation_refuses(tmp_path: Path) -> None:
    path = put(tmp_path, *GOOD)
    with pytest.raises(
        ConfigError, match=r"no relation 'root' .a root has no head.; there are: nsubj, "
    ):
        relation(path, "root")


@pytest.mark.usefixtures("unchecked")
def test_a_wrong_way_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="to must be 'head' or 'dependent', came 'child'"):
        relation(put(tmp_path, *GOOD), "nsubj", to="child")


@pytest.mark.parametrize(
    ("lines", "line", "wanted"),
    [
        (["1\ta\t_\t_\t_\t_\t0\troot\t_"], 1, "10 columns split by tabs are needed, came 9"),
        (["1\ta\t_\t_\t_\t_\t0\troot\t_\t_\t_"], 1, "needed, came 11"),
        (["1  a  _  _  _  _  0  root  _  _"], 1, "needed, came 1"),
        ([row("1", "a"), row("3", "b", "1", "x")], 2, "id '3' does not count on; 2 is"),
        ([row("2", "a")], 1, "the id '2' does not count on; 1 is next"),
        ([row("x", "a")], 1, "the id 'x' does not count on"),
        ([row("1", "a", "2", "det")], 1, "the head 2 is none of its 1 words"),
        ([row("1", "a"), row("2", "b", "2", "det")], 2, "word 2 is its own head"),
        ([row("1", "a", "2", "x"), row("2", "b", "1", "x")], 1, "no word has the head 0"),
        (
            [row("1", "a"), row("2", "b", "3", "x"), row("3", "c", "4", "x"), row("4", "d", "3", "x")],
            3,
            "the heads go round in a circle: 3 to 4 to 3",
        ),
        ([row("1", "a", "-1", "det")], 1, "the head must be a word's number or 0, came '-1'"),
        ([row("1", "a", "_", "det")], 1, "came '_'"),
        ([row("1", " ")], 1, "word 1 has no form"),
        (["# text = a c", row("1", "a"), row("2", "b", "1", "x")], 3, "the word 'b' is not"),
        (["# text = a", row("1", "a"), row("2", "b", "1", "x")], 3, "goes on with 'its end'"),
        (["# text = a b", row("1", "a")], 2, "goes on after the last word: 'b'"),
        ([row("1-x", "ab", "_", "_")], 1, "the id '1-x' is no range of words"),
        ([row("1-2", "ab", "_", "_"), row("1", "a")], 2, "word 2 of a multiword token"),
        ([CAT[0], row("1", "The cat didn't run.")], 2, "text of line 11 again, with another tree"),
    ],
)  # fmt: skip
def test_a_fault_leaves_out_its_sentence(
    tmp_path: Path, lines: list[str], line: int, wanted: str
) -> None:
    before = ["# a comment", *BOOK, "# another", ""]
    path = put(tmp_path, *before, *CAT, *lines, "", row("1", "x"))
    found = faults(path)
    at = len(before) + len(CAT) + line
    if "again" in wanted:
        at -= line - 1
    assert found == (found[0],)
    assert found[0].startswith(f"{path}, line {at}: ")
    assert wanted in found[0]
    assert found[0].endswith("; the sentence is left out")
    assert treebank(path, warn=False).texts == ("小明因为它还书", "The cat didn't run.", "x")


def test_a_long_chain_of_heads_is_a_tree(tmp_path: Path) -> None:
    """Whichever way it runs: each word's head is the next, or the one before; two roots are no fault."""
    ahead = [row(str(i), "a", str((i + 1) % 40), "x") for i in range(1, 40)]
    back = [row(str(i), "b", str(i - 1), "x") for i in range(1, 40)]
    path = put(tmp_path, *ahead, "", *back, "", row("1", "c"), row("2", "d"))
    assert faults(path) == ()
    assert treebank(path).labels == {"x": 76}


def test_faults_are_never_silent(tmp_path: Path) -> None:
    path = put(tmp_path, "broken", "", "broken", "", *GOOD)
    with pytest.warns(
        UserWarning, match=r"a\.conllu, line 1: 10 columns .* \(and 1 more, see"
    ) as seen:
        relation(path, "nsubj")
    assert len(seen) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(faults(path)) == 2
        treebank(put(tmp_path, *GOOD))


def test_files_that_hold_no_sentence(tmp_path: Path) -> None:
    with pytest.raises(TextError, match=r"^no sentence in .*a\.conllu$"):
        treebank(put(tmp_path, ""))
    with pytest.raises(TextError, match=r"no sentence in .*: .*line 1: 10 columns"):
        treebank(put(tmp_path, "broken"))
    with pytest.raises(TextError, match="cannot be read: No such file"):
        treebank(tmp_path / "missing.conllu")
    path = tmp_path / "b.conllu"
    path.write_bytes("\n".join(GOOD).encode() + b"\n# text = \xff\n")
    with pytest.raises(TextError, match=r"b\.conllu, line 18, is not UTF-8 text"):
        treebank(path)


def test_packed_and_windows_files(tmp_path: Path) -> None:
    path = tmp_path / "a.conllu.gz"
    path.write_bytes(gzip.compress("\r\n".join(["\ufeff# one", *GOOD]).encode()))
    assert treebank(path).texts == ("The cat didn't run.", "小明因为它还书")
    assert treebank(path).faults == ()


def test_what_tokens_leave_of_the_links(tmp_path: Path, bytes_model: hw.Model) -> None:
    found = treebank(put(tmp_path, *GOOD)).coverage(bytes_model)
    assert (found.links, found.seen, found.merged, found.lost) == (9, 9, 0, 0)
    shared = row("2-3", "du", "_", "_"), row("2", "de"), row("3", "le", "2", "dep")
    found = treebank(put(tmp_path, row("1", "T", "2", "det"), *shared)).coverage(bytes_model)
    assert (found.links, found.seen, found.merged, found.lost) == (2, 0, 1, 1)
