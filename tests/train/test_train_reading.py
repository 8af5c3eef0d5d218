"""Documents and pairs out of files, and what is wrong with a file in one line."""

from __future__ import annotations

import gzip
import json

import polib
import pytest

from headwise.names import ConfigError, HeadwiseError, TextError
from headwise.nn.building import read_configuration
from headwise.train.data import read_documents, read_pairs
from headwise.train.recipe import read_plan

TEXT = "第一段\nof two lines\n\n\n  second paragraph  \n \r\nthird\n"


def put(folder, name, content):
    path = folder / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_a_file_is_a_document_and_so_are_its_lines_or_paragraphs(tmp_path):
    path = put(tmp_path, "a.txt", TEXT)
    assert read_documents([path]) == [TEXT.removesuffix("\n")]
    assert read_documents([path], by="line") == [
        "第一段",
        "of two lines",
        "  second paragraph  ",
        "third",
    ]
    assert read_documents([path, path], by="paragraph")[:4] == [
        "第一段\nof two lines",
        "  second paragraph  ",
        "third",
        "第一段\nof two lines",
    ]


def test_what_windows_puts_before_a_text_goes_and_its_line_ends_stay(tmp_path):
    path = put(tmp_path, "a.txt", "\ufeffone\r\ntwo \ufeff\r\n\r\nthree\r\n")
    assert read_documents([path]) == ["one\r\ntwo \ufeff\r\n\r\nthree"]
    assert read_documents([path], by="line") == ["one", "two \ufeff", "three"]
    assert read_documents([path], by="paragraph") == ["one\r\ntwo \ufeff", "three"]
    assert read_pairs([put(tmp_path, "a.tsv", "\ufeffone\t一\r\n")]) == [("one", "一")]
    recipe = put(tmp_path, "a.toml", "\ufeff[model]\nd_model = 8\n[train]\nsteps = 7\n")
    assert read_plan(recipe).recipe.steps == 7
    assert read_configuration(recipe) == {"d_model": 8}


def test_json_lines_and_packed_files_are_read_beside_plain_ones(tmp_path):
    lines = "\n".join(json.dumps(one) for one in ({"body": "one"}, {"body": " "}, {"body": "二"}))
    paths = [put(tmp_path, "a.jsonl", lines), put(tmp_path, "b.txt.gz", gzip.compress(b"three\n"))]
    assert read_documents(paths, field="body") == ["one", "二", "three"]


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"abc\n\xff\n", "is not UTF-8 text (byte 4 is 0xff)"),
        (b"a" * 100_000 + b"\xe4\xbd", "is not UTF-8 text (byte 100000 is 0xe4)"),
        (b"", "no text in"),
        (b"a\0b", "is not text (byte 1 is 0)"),
    ],
)
@pytest.mark.parametrize("by", ["file", "line", "paragraph"])
def test_a_file_that_is_no_text_is_named_with_the_byte(tmp_path, content, says, by):
    path = put(tmp_path, "bad.txt", content)
    with pytest.raises(TextError) as refused:
        read_documents([path], by=by)
    assert str(path) in str(refused.value)
    assert says.split(" (byte 1")[0] in str(refused.value)
    assert says.rsplit("(", 1)[-1] in str(refused.value)


@pytest.mark.parametrize("read", [read_documents, read_pairs])
def test_what_is_not_there_or_a_folder_is_refused(tmp_path, read):
    for path, says in ((tmp_path / "no.tsv", "No such file"), (tmp_path, "is a folder")):
        with pytest.raises(TextError, match=says):
            read([path])


@pytest.mark.usefixtures("unchecked")
def test_documents_are_of_a_known_kind(tmp_path):
    with pytest.raises(ConfigError, match="by='word' is not known; use one of file, line"):
        read_documents([put(tmp_path, "a.txt", TEXT)], by="word")


def test_pairs_come_in_columns_json_and_lines(tmp_path):
    wanted = [("one", "一"), ("two", "二")]
    columns = put(tmp_path, "a.tsv", "one\t一\tnote\n\n \tx\ntwo \t 二\n")
    objects = put(
        tmp_path, "a.jsonl", "\n".join(json.dumps({"source": s, "target": t}) for s, t in wanted)
    )
    named = put(tmp_path, "b.jsonl", "\n".join(json.dumps({"en": s, "zh": t}) for s, t in wanted))
    source = put(tmp_path, "a.en", "one\nnothing\ntwo\n")
    target = put(tmp_path, "a.zh", "一\n\n二\n")
    for paths in ([columns], [objects], [source, target]):
        assert read_pairs(paths) == wanted
    assert read_pairs([named], fields=("en", "zh")) == wanted
    assert read_pairs([named], fields=("zh", "en")) == [(t, s) for s, t in wanted]
    assert read_pairs([source, columns, target]) == wanted * 2


def catalogue():
    made = polib.POFile()
    made.metadata = {"Content-Type": "text/plain; charset=UTF-8"}
    made += [
        polib.POEntry(msgid="_Open", msgstr="打开(_O)"),
        polib.POEntry(msgid="untranslated", msgstr=""),
        polib.POEntry(msgid="doubtful", msgstr="可疑", flags=["fuzzy"]),
        polib.POEntry(msgid="old", msgstr="旧", obsolete=True),
        polib.POEntry(
            msgid="%d file", msgid_plural="%d files", msgstr_plural={0: "%d 个", 1: "%d 个们"}
        ),
        polib.POEntry(msgid="May", msgctxt="month", msgstr="五月"),
    ]
    return made


@pytest.mark.parametrize("kind", ["po", "mo"])
def test_catalogues_give_what_is_translated(tmp_path, kind):
    path = tmp_path / f"a.{kind}"
    made = catalogue()
    (made.save if kind == "po" else made.save_as_mofile)(str(path))
    assert set(read_pairs([path])) == {
        ("_Open", "打开(_O)"),
        ("%d file", "%d 个"),
        ("%d files", "%d 个们"),
        ("May", "五月"),
    }


@pytest.mark.parametrize(
    ("name", "content", "error", "says"),
    [
        ("a.tsv", "one\t一\nalone\n", TextError, "a.tsv, line 2 has no tab"),
        ("a.tsv", b"one\t\xff\n", TextError, "a.tsv is not UTF-8 text (byte 4 is 0xff)"),
        ("a.tsv", "\t\n", TextError, "no pair in"),
        (
            "a.jsonl",
            '{"source": "a"}',
            TextError,
            "'target' holds no text; its fields are 'source'",
        ),
        ("a.jsonl", "[1]", TextError, "line 1 holds a list"),
        ("a.jsonl", "{", TextError, "line 1 cannot be read as JSON"),
        ("a.txt", "alone", ConfigError, "a.txt has no other file beside it"),
        ("a.mo", b"nothing", TextError, "a.mo cannot be read as a catalogue"),
        ("a.mo", b"\xde\x12\x04\x95\0", TextError, "a.mo cannot be read as a catalogue"),
        ("a.po", 'msgid "a"\nnonsense\n', TextError, "a.po cannot be read as a catalogue"),
        ("a.po", b'msgid "a"\nmsgstr "\xff"\n', TextError, "a.po is not utf-8 text"),
    ],
)
def test_pairs_that_cannot_be_read_are_told_in_one_line(tmp_path, name, content, error, says):
    path = put(tmp_path, name, content)
    with pytest.raises(HeadwiseError) as refused:
        read_pairs([path])
    assert isinstance(refused.value, error)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_lines_that_belong_together_are_as_many(tmp_path):
    paths = [put(tmp_path, "a.en", "one\ntwo\n"), put(tmp_path, "a.zh", "一\n")]
    with pytest.raises(TextError, match=r"a\.en has 2 lines and .*a\.zh 1; lines"):
        read_pairs(paths)
