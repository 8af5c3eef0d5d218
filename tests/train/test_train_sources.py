"""What a run reads: texts of one kind, files that can be read again, and nothing of what is held out trained on."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from train_help import letters

import headwise as hw
from headwise.names import ConfigError, OutputError, TextError
from headwise.train.data import split_documents
from headwise.train.recipe import Recipe
from headwise.train.sources import feeds_of, gathered
from headwise.train.starting import resume

TEXT = "".join(f"{n} men went to mow a meadow, {n - 1} men and their dogs.\n" for n in range(2, 90))
CONFIG = {
    "model": {"d_model": 16, "num_layers": 1, "num_heads": 2},
    "train": {"context": 16, "rows": 4, "steps": 2, "dtype": "float32", "held_out": 0.1},
    "tokenizer": {"vocab_size": 270},
}


def test_one_text_by_itself_is_one_text():
    recipe = Recipe(held_out=0)
    assert gathered(TEXT, "held", recipe).train == [TEXT]
    assert gathered([TEXT], "held", recipe).held_out == ["held"]


def test_one_file_by_itself_is_read(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text(TEXT)
    assert gathered(path, None, Recipe(held_out=0)).texts == [TEXT.removesuffix("\n")]


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("objective", "texts", "said"),
    [
        ("causal", [Path("a.txt"), "a string"], "1 of the 2 texts given are files and the others"),
        ("causal", ["a", "b \ud800"], r"text 2 holds .ud800, half of a character"),
        ("causal", [("a", "b")], r"is not a text or a Path"),
        ("pairs", ["ab"], "'ab' is not a pair of a source and a target"),
    ],
)
def test_texts_of_two_kinds_are_refused(objective, texts, said):
    with pytest.raises(TextError, match=said):
        gathered(texts, None, Recipe(objective=objective))


def test_nothing_of_what_is_held_out_is_trained_on():
    documents = [f"text {n} of many" for n in range(40)]
    found = gathered(documents, None, Recipe(held_out=0.2))
    assert found.held_out
    assert not set(found.train) & set(found.held_out)
    assert sorted(found.train + found.held_out) == sorted(documents)


def test_the_held_out_rows_repeat_nothing_and_as_many_are_hidden_as_was_said():
    texts, held = ["abcdefgh" * 40], ["hgfedcba" * 40]
    asked = Recipe(context=16, rows=2, repeats=0.5)
    feed, other = feeds_of(gathered(texts, held, asked), letters(), asked)
    assert feed.count == 2 * other.count
    asked = Recipe(objective="masked", context=16, rows=2, mask_share=0.5)
    for feed in feeds_of(gathered(texts, held, asked), letters(("[SEP]", "[MASK]")), asked):
        assert feed.batch(1).tokens in range(14, 17)


def test_pairs_that_are_too_long_are_counted(capsys, tmp_path):
    pairs = [(f"{n} men", f"{n} Maenner") for n in range(40)]
    long = [(f"{n} " + "abcdefghijklmnop" * 9, "x") for n in range(7)]
    config = {**CONFIG, "train": {**CONFIG["train"], "objective": "pairs", "context": 32}}
    hw.fit(pairs + long, config, tmp_path / "run", held_out=[*pairs[:2], *long[:1]])
    said = capsys.readouterr().err
    assert "7 of 47 pairs are left out, longer than the context" in said
    assert "1 of 3 held-out pairs are left out" in said
    assert "3 of the 3 held-out texts are trained on too" in said


@pytest.mark.parametrize("held", [False, True])
def test_pipes_are_refused_at_once(tmp_path, held):
    os.mkfifo(tmp_path / "pipe")
    texts, other = [TEXT], [tmp_path / "pipe"]
    if not held:
        texts, other = other, texts
    with pytest.raises(TextError, match=r"reads none from .*pipe; give files"):
        gathered(texts, other, Recipe())


def test_a_name_that_is_not_utf8_is_refused(tmp_path):
    path = os.fsencode(tmp_path) + b"/n\xff.txt"
    Path(os.fsdecode(path)).write_text(TEXT)
    with pytest.raises(TextError, match=r"the name of '.*' is not UTF-8; rename the file"):
        gathered([Path(os.fsdecode(path))], None, Recipe())


def test_a_byte_of_zero_is_refused_wherever_it_stands(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("a line\n" * 20000 + "\0x")
    for by in ("file", "line"):
        with pytest.raises(TextError, match=r"a.txt is not text \(byte 140000 is 0\)"):
            gathered([path], None, Recipe(), by)


def test_a_held_out_file_is_known_again_when_a_run_goes_on(tmp_path):
    book, held, folder = tmp_path / "a.txt", tmp_path / "held.txt", tmp_path / "run"
    book.write_text(TEXT)
    held.write_text(TEXT[::-1])
    whole = hw.fit([book], CONFIG, folder, held_out=[held], quiet=True)
    assert resume(folder, quiet=True).held_out == whole.held_out
    held.write_text(TEXT[::-1] + "more")
    with pytest.raises(TextError, match=r"held.txt is not what the run was begun with"):
        resume(folder, quiet=True)
    asked = folder / "run.toml"
    asked.write_text(asked.read_text().replace("\nfiles = [", "\nfiles = 3 # ["))
    with pytest.raises(OutputError, match=r"run.toml in .* is damaged: 3 is no list of files"):
        resume(folder, quiet=True)


def test_whole_documents_far_below_the_share_are_not_all_that_is_held_out():
    documents = [TEXT, TEXT.upper(), "tiny"]
    kept, held = split_documents(documents, 0.1)
    assert 0.05 * sum(map(len, documents)) < sum(map(len, held)) <= 0.1 * sum(map(len, documents))
    assert sum(map(len, kept + held)) == sum(map(len, documents))


def test_a_text_that_says_the_same_again_is_told_so():
    with pytest.raises(TextError, match=r"of 1,000 blocks .* 1 are different, and equal ones stay"):
        split_documents(["abc def, " * 10000], 0.01)
    few = gathered(["abc def, " * 10000 + "x" * 10], None, Recipe(held_out=0.01))
    assert few.told[0].startswith("10 of 90,010 characters are held out, far fewer than 1.0%")
    assert not gathered([TEXT], None, Recipe(held_out=0.1)).told


def test_a_folder_that_is_not_free_is_refused_before_anything_is_read(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    for folder in (tmp_path, tmp_path / "notes.txt", tmp_path / "a" / "b"):
        with pytest.raises(OutputError, match=r"notes.txt|No such file"):
            hw.fit([Path("nowhere.txt")], CONFIG, folder, quiet=True)
    assert [one.name for one in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"model": {"d_model": 32}}, r"\[model\] says d_model=32, .* has d_model=16"),
        ({"model": {"class": "Encoder"}}, r"\[model\] says class='Encoder'"),
        ({"tokenizer": {"vocab_size": 999}}, r"\[tokenizer\] says vocab_size=999, .* has 270"),
    ],
)
def test_a_start_from_another_model_than_the_configuration_says_is_refused(tmp_path, table, said):
    hw.fit([TEXT], CONFIG, tmp_path / "first", quiet=True)
    with pytest.raises(ConfigError, match=said):
        hw.fit(
            [TEXT],
            {"train": CONFIG["train"], **table},
            tmp_path / "run",
            init=str(tmp_path / "first"),
            quiet=True,
        )
    again = hw.fit([TEXT], CONFIG, tmp_path / "run", init=str(tmp_path / "first"), quiet=True)
    assert again.steps == 2
