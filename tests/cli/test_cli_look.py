"""headwise look: what it shows and writes, on a small model of our own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from cli_help import Cli, run

import headwise as hw

TEXT = "a cat at it"


def test_json_alone_on_stdout(folder: Path) -> None:
    answer = run("look", TEXT, "--model", folder, "--json", "-")
    found = answer.data
    assert answer.code == 0
    assert found["model"] == str(folder)
    assert found["text"] == TEXT
    assert all(TEXT[t["start"] : t["end"]] == t["text"] for t in found["tokens"])
    assert [t["text"] for t in found["tokens"]] == ["a", " ", "c", "at", " a", "t", " it"]
    assert [h["id"] for h in found["heads"]] == [f"{i}.{h}" for i in range(2) for h in range(6)]
    for head in found["heads"]:
        assert set(head) >= {"id", "does", "mass", "top"}
        assert 0 <= head["mass"] <= 1
        assert head["kv_group"] == int(head["id"][2]) // 3
        assert all(0 < cell["key"] < 7 and 0 <= cell["weight"] <= 1 for cell in head["top"])
    assert found["verified"] <= 1e-4
    assert "patterns" not in found
    assert "word" not in found


def test_json_of_chosen_heads_and_a_word(cli: Cli, folder: Path) -> None:
    chosen = ["--head", "1.3", "--head", "0.0", "--word", "it", "--json", "-"]
    found = cli("look", TEXT, "--model", folder, *chosen).data
    assert list(found["patterns"]) == ["1.3", "0.0"]
    assert all(len(row) == 7 for row in found["patterns"]["1.3"])
    assert all(sum(row) == pytest.approx(1, abs=1e-4) for row in found["patterns"]["1.3"])
    (place,) = found["word"]
    assert (place["text"], place["start"], place["end"], place["note"]) == ("it", 9, 11, None)
    assert len(place["looks"]) == 12
    look = next(x for x in place["looks"] if x["head"] == "1.3")
    total = look["first"] + sum(weight for _, weight in look["looks_at"])
    assert total == pytest.approx(1, abs=1e-4)


def test_json_into_a_file_and_the_picture_beside(cli: Cli, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "out.json"
    answer = cli("look", TEXT, "--model", folder, "--json", path)
    assert answer.code == 0
    assert f"{folder}" in answer.out.replace("\n", "")
    assert '"heads"' in path.read_text()
    assert [p.name for p in tmp_path.iterdir()] == ["out.json"]


def test_the_terminal_view_without_a_terminal(cli: Cli, folder: Path) -> None:
    answer = cli("look", TEXT, "--model", folder, "--top", "1")
    assert answer.code == 0
    assert "\x1b" not in answer.out + answer.err
    assert "2 layers" in answer.out
    assert re.search(r"recomputed head outputs within \d\.\de-\d\d of the", answer.out)
    assert "previous" in answer.out


def test_a_word_s_table(cli: Cli, folder: Path) -> None:
    answer = cli("look", TEXT, "--model", folder, "--word", "it")
    assert "it looks at" in answer.out
    assert "nothing renormalised" in " ".join(answer.out.split())
    assert "(12 of 12 heads)" in answer.out
    again = cli("look", TEXT, "--model", folder, "--word", "it", "--renormalise")
    assert "the rest renormalised to 1" in " ".join(again.out.split())


def test_a_chinese_word(cli: Cli, folder: Path) -> None:
    answer = cli("look", "它很累。", "--model", folder, "--word", "累")
    assert answer.code == 0
    assert "累 looks at" in answer.out
    assert "很" in answer.out


def test_a_word_that_stands_twice(cli: Cli, folder: Path) -> None:
    answer = cli("look", "it a it", "--model", folder, "--word", "it")
    assert "it (1 of 2) looks at" in answer.out
    assert "it (2 of 2) looks at" in answer.out


def test_a_word_that_is_part_of_another_says_so(cli: Cli, folder: Path) -> None:
    answer = cli("look", "a cat", "--model", folder, "--word", "ca")
    assert "the tokens of 'ca' hold more than it: 'cat'" in answer.out


def test_heads_and_layers_are_shown_once_each(cli: Cli, folder: Path) -> None:
    answer = cli("look", TEXT, "--model", folder, "--head", "1.2", "--layer", "1", "--head", "0.5")
    titles = re.findall(r"^(\d\.\d)  ", answer.out, re.MULTILINE)
    shown = [t for t in titles if t in {f"{i}.{h}" for i in range(2) for h in range(6)}]
    assert shown == ["1.2", "0.5", "1.0", "1.1", "1.3", "1.4", "1.5"]
    assert "(KV group 1)" in answer.out


def test_maps_by_words(cli: Cli, folder: Path) -> None:
    answer = cli("look", "a cat", "--model", folder, "--head", "1.2", "--words")
    assert "to a word: the sum over its tokens" in answer.out


@pytest.mark.parametrize("text", ["a", "it", "aa", "书", "a\tb\n", "[bold]x[/]", "\u200d"])
def test_short_and_strange_texts(cli: Cli, folder: Path, text: str) -> None:
    answer = cli("look", text, "--model", folder)
    assert answer.code == 0, answer.err
    assert "verified" in answer.out


def test_markup_in_a_text_is_text(cli: Cli, folder: Path) -> None:
    answer = cli("look", "a [red] b", "--model", folder, "--word", "red")
    assert answer.code == 0
    assert "red looks at" in answer.out
    note = cli("look", "xa[/i]", "--model", folder, "--word", "a[/i]")
    assert note.code == 0, note.err
    assert "the tokens of 'a[/i]' hold more than it: 'xa[/i]'" in note.out


@pytest.mark.parametrize("suffix", ["png", "svg"])
@pytest.mark.parametrize("chosen", [(), ("--head", "1.2")])
def test_pictures(
    cli: Cli, folder: Path, tmp_path: Path, suffix: str, chosen: tuple[str, ...]
) -> None:
    path = tmp_path / f"maps.{suffix}"
    answer = cli("look", TEXT, "--model", folder, f"--{suffix}", path, "--top", "1", *chosen)
    assert answer.code == 0
    assert f"wrote {path}" in answer.err.replace("\n", "")
    start = {"png": b"\x89PNG", "svg": b"<?xml"}[suffix]
    assert path.read_bytes().startswith(start)
    assert path.stat().st_size > 5000


def test_both_pictures_and_the_grid(cli: Cli, folder: Path, tmp_path: Path) -> None:
    png, svg = tmp_path / "a.png", tmp_path / "b.svg"
    answer = cli("look", TEXT, "--model", folder, "--png", png, "--svg", svg, "--top", "0")
    assert answer.code == 0
    assert png.stat().st_size > 5000
    assert svg.stat().st_size > 5000


def test_a_text_from_a_file(cli: Cli, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "story.txt"
    path.write_bytes("\ufeffit 书\n".encode())
    found = cli("look", "--file", path, "--model", folder, "--json", "-").data
    assert found["text"] == "it 书"


@pytest.mark.parametrize("arguments", [["-"], ["--file", "-"]])
def test_a_text_from_stdin(folder: Path, arguments: list[str]) -> None:
    answer = run("look", *arguments, "--model", folder, "--json", "-", given=b"it at\n")
    assert answer.data["text"] == "it at"


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float64"])
def test_dtypes(cli: Cli, folder: Path, dtype: str) -> None:
    found = cli("look", TEXT, "--model", folder, "--dtype", dtype, "--json", "-").data
    assert len(found["heads"]) == 12
    limit = {"bfloat16": 0.1, "float16": 0.02, "float64": 1e-6}[dtype]
    assert 0 <= found["verified"] < limit


def test_device_cpu(cli: Cli, folder: Path) -> None:
    assert cli("look", TEXT, "--model", folder, "--device", "cpu").code == 0


def test_the_title_of_a_map_by_words_names_a_cell_of_the_map(cli: Cli, folder: Path) -> None:
    answer = cli("look", "some cat or other", "--model", folder, "--words", "--top", "1")
    title = re.search(r"^(\d\.\d)  .*  (\S+) → (\S+) (\d\.\d\d)$", answer.out, flags=re.MULTILINE)
    assert title is not None
    head, looks, seen, weight = title.groups()
    pattern = hw.look(hw.load(folder), "some cat or other").pattern(head, words=True)
    assert float(pattern.sel(query=looks, key=seen)) == pytest.approx(float(weight), abs=0.006)
