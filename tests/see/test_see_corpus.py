"""Files as texts: every kind, read one at a time, and each fault in one line with its file and place."""

from __future__ import annotations

import gzip
import io
import json
import subprocess
import sys
from pathlib import Path

import pytest

from headwise.names import TextError
from headwise.see.texts.corpus import Corpus

CHINESE = "小明把书还给了图书馆。"


def put(path: Path, *lines: object) -> Path:
    text = "".join((x if isinstance(x, str) else json.dumps(x)) + "\n" for x in lines)
    path.write_text(text, encoding="utf-8")
    return path


def texts(*files: Path, **how: object) -> list[str]:
    corpus = Corpus(files, **how)  # type: ignore[arg-type]
    corpus.check()
    return list(corpus.texts())


def fault(*files: Path, **how: object) -> str:
    with pytest.raises(TextError) as error:
        texts(*files, **how)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_a_plain_file_is_one_document(tmp_path: Path) -> None:
    one, two = put(tmp_path / "a.txt", "One.", "", CHINESE), put(tmp_path / "b", "Two.")
    assert texts(one, two) == [f"One.\n\n{CHINESE}", "Two."]


def test_lines(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(f"\ufeffOne.\r\n\r\n  \n{CHINESE}\nlast".encode())
    assert texts(path, lines=True) == ["One.", CHINESE, "last"]
    assert Corpus((path,), lines=True).count() == 3
    assert Corpus((path,)).count() == 1


def test_json_lines(tmp_path: Path) -> None:
    path = put(tmp_path / "a.jsonl", {"text": "One.", "n": 1}, "", '"Two."', {"text": CHINESE})
    assert texts(path) == ["One.", "Two.", CHINESE]
    assert Corpus((path,)).count() == 3
    assert texts(put(tmp_path / "b.ndjson", {"body": "x"}), field="body") == ["x"]


def test_conllu(tmp_path: Path) -> None:
    path = put(
        tmp_path / "a.conllu",
        "# sent_id = 1",
        f"# text = {CHINESE}",
        "# text_en = no",
        "1\t小明\t_",
        "",
        "# text = Two words",
    )
    assert texts(path) == [CHINESE, "Two words"]
    assert Corpus((path,)).count() == 2


def test_packed_files(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(b'{"text": "One."}\n"Two."\n'))
    assert texts(path) == ["One.", "Two."]
    assert Corpus((path,)).count() is None
    path.write_bytes(gzip.compress(b'"One."\n' * 99)[:-9])
    assert "cannot be unpacked" in fault(path)
    path.write_bytes(b"no gzip")
    assert "cannot be unpacked" in fault(path)


@pytest.mark.parametrize(("how", "wanted"), [({}, ["a\nb"]), ({"lines": True}, ["a", "b"])])
def test_the_standard_input(
    monkeypatch: pytest.MonkeyPatch, how: dict[str, object], wanted: list[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"a\nb\n")))
    assert texts(Path("-"), **how) == wanted
    monkeypatch.setattr("sys.stdin", None)
    assert "is closed" in fault(Path("-"))


def test_json_on_the_standard_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b'{"t": "a"}\n')))
    assert texts(Path("-"), field="t") == ["a"]


def test_no_more_is_read_than_asked_for(tmp_path: Path) -> None:
    path = put(tmp_path / "a.jsonl", '"One."', '"Two."', "broken")
    assert texts(path, limit=2) == ["One.", "Two."]
    assert Corpus((path,), limit=2).count() == 2
    found = Corpus((path,)).texts()
    assert [next(found), next(found)] == ["One.", "Two."]
    with pytest.raises(TextError, match=r"a\.jsonl, line 3 cannot be read as JSON: .*character 1"):
        next(found)


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ('{"text": "a"', "line 1 cannot be read as JSON"),
        ('{"body": "a", "id": 3}', "has no field 'text'; its fields are 'body', 'id'"),
        ("{}", "its fields are none"),
        ('{"text": null}', "holds null, not a text"),
        ('{"text": ["a"]}', "holds a list, not a text"),
        ("3", "holds a number; an object or a string is needed"),
        ('"a \\ud83d"', "holds \\ud83d, half of a character"),
        ("[" * 100_000, "nested too deep"),
        ("9" * 9999, "cannot be read as JSON"),
    ],
)
def test_json_faults(tmp_path: Path, line: str, wanted: str) -> None:
    found = fault(put(tmp_path / "a.jsonl", line))
    assert "a.jsonl, line 1" in found
    assert wanted in found


def test_what_is_no_text_is_named_by_its_byte(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(b"\x89PNG\r\n")
    assert "(byte 0 is 0x89)" in fault(path)
    path.write_bytes(b"ab\0c")
    assert "(byte 2 is 0)" in fault(path)
    path.write_bytes(CHINESE.encode("gbk"))
    assert "is not UTF-8 text (byte 2 is" in fault(path)
    path.write_bytes("é".encode()[:1])
    assert "(byte 0 is 0xc3)" in fault(path)


def test_a_wrong_byte_late_is_found_when_it_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(
        "é".encode() * 40_000 + b"\nb\xff\n"
    )  # a character across the first block's end
    Corpus((path,)).check()
    assert "(byte 80002 is 0xff)" in fault(path)
    assert "a.txt, line 2, is not UTF-8 text (byte 80002" in fault(path, lines=True)
    path.write_bytes(b"a" + "é".encode() * 40_000)
    assert len(texts(path)[0]) == 40_001


@pytest.mark.parametrize("content", ["", "\n \n", "\ufeff"])
def test_an_empty_corpus(tmp_path: Path, content: str) -> None:
    path = tmp_path / "a.txt"
    path.write_text(content, encoding="utf-8")
    assert fault(path, path) == f"no text in {path}, {path}"
    assert "no text in" in fault(path, lines=True)


def test_paths_that_are_no_files(tmp_path: Path) -> None:
    assert "is a folder; give its files" in fault(tmp_path)
    assert "missing.txt cannot be read: No such file" in fault(tmp_path / "missing.txt")
    assert "cannot be read: embedded null" in fault(tmp_path / "a\0b")


def test_reading_files_needs_no_torch() -> None:
    code = "import headwise.see.texts.corpus, sys; print([m for m in ('torch', 'numpy') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
