"""headwise profile: corpora in, tables out, and every mistake told in one line before or after the run."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from cli_help import Answer, Cli, run

import headwise as hw
from headwise.see.profile.files import KINDS

TEXTS = [
    "It is a cat at a mat.",
    "It sat. It sat.",
    "小明把书还给了图书馆。",
    "A bat, a hat, a cat.",
]


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    path = tmp_path / "texts.jsonl"
    lines = [json.dumps({"text": text, "n": i}, ensure_ascii=False) for i, text in enumerate(TEXTS)]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def told(answer: Answer) -> str:
    """The one line of an error."""
    assert answer.code == 1
    (line,) = answer.err.strip().splitlines()
    assert line.startswith("headwise: ")
    return line


def test_the_table_on_a_terminal(cli: Cli, folder: Path, corpus: Path) -> None:
    answer = cli("profile", corpus, "--model", folder)
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0].endswith("2 layers x 6 heads (2 KV heads)")
    assert lines[1].startswith("4 texts, ")
    assert max(map(len, lines)) <= 80
    table = hw.profile(hw.load(folder), TEXTS)
    best = float(table["previous"].max())
    (row,) = [line for line in lines if line.startswith("previous ")]
    head = table["previous"].stack(id=("layer", "head")).idxmax().item()
    assert row.split()[1:3] == [f"{head[0]}.{head[1]}", f"{best:.2f}".removeprefix("0")]
    assert "next " in answer.out
    assert "(too few texts for intervals)" in " ".join(answer.out.split())
    assert "±" not in answer.out
    (longer := corpus.with_name("more.jsonl")).write_text(f'{corpus.read_text()}\n"It sat."\n')
    assert "±" in cli("profile", longer, "--model", folder).out
    (line,) = answer.err.splitlines()
    assert f"{table.attrs['tokens']:,} tokens in " in line
    assert "portable (plain torch): " in line
    assert re.search(r"; recomputed head outputs within \d\.\de-\d\d of the model's own$", line)


def test_every_kind_of_result(cli: Cli, folder: Path, corpus: Path, tmp_path: Path) -> None:
    expected = hw.profile(hw.load(folder), TEXTS, probes=["previous", "first"], pool=4)
    for kind in KINDS:
        out = tmp_path / f"heads{kind}"
        options = ("--probe", "previous", "--probe", "first", "--pool", "4", "-o", out)
        answer = cli("profile", corpus, "--model", folder, *options)
        assert answer.code == 0
        left = kind in (".csv", ".parquet")
        assert f"wrote {out}" in answer.err
        assert ("without received, received_count, pooled, pooled_max" in answer.err) == left
        assert list(tmp_path.glob("*.partial")) == []
    back = hw.load_profile(tmp_path / "heads.nc")
    assert back.drop_attrs().equals(expected.drop_attrs())
    assert (back.attrs["texts"], back.attrs["tokens"]) == (4, expected.attrs["tokens"])
    flat = expected["previous"].values.reshape(-1)
    for frame in (
        pd.read_csv(tmp_path / "heads.csv"),
        pd.read_parquet(tmp_path / "heads.parquet"),
        pd.DataFrame(json.loads((tmp_path / "heads.json").read_text())["heads"]),
    ):
        np.testing.assert_allclose(frame["previous"], flat, rtol=1e-6)
        assert frame["kv_group"].tolist() == [0, 0, 0, 1, 1, 1] * 2
    assert "self" not in back


def test_a_text_longer_than_the_context_is_cut(cli: Cli, folder: Path, tmp_path: Path) -> None:
    path, out = tmp_path / "story.txt", tmp_path / "heads.nc"
    path.write_text("b" * 100)
    answer = cli("profile", path, "--model", folder, "--context", "30", "-o", out)
    assert answer.out.splitlines()[1] == "1 text in 4 pieces, 100 tokens"
    back = hw.load_profile(out)
    assert (back.attrs["texts"], back.attrs["pieces"]) == (1, 4)
    assert float(back["distance"].max()) < 30
    line = told(cli("profile", path, "--model", folder, "--context", "9000"))
    assert "context must be from 1 to 8000" in line


@pytest.mark.parametrize(
    ("content", "options", "wanted"),
    [
        (b"", [], "no text in"),
        (b"\n\n", ["--lines"], "no text in"),
        (b"\x7fELF\x02\0\0", [], "a.txt is not text (byte 5 is 0)"),
        (b"a\xe9", ["--lines"], "a.txt is not UTF-8 text (byte 1 is 0xe9)"),
        (b"text", ["--probe", "previus"], "there is no probe 'previus'; there are previous, next"),
        (b"text", ["--probe", "induction_random"], "headwise roles FILES --probe induction_random"),
        (b"text", ["--target", "{folder}/tokenizer.json"], "leave --target out"),
        (b"text", ["-o", "heads.xls"], "must end in one of .nc, .csv, .parquet, .json"),
        (
            b"text",
            ["-o", "missing/heads.nc"],
            "cannot be written to missing/heads.nc: No such file",
        ),
        (b"text", ["--context", "2"], "2 tokens leave nothing to look at; give at least 3"),
        (b"text", ["-o", "a.nc", "-o", "b.nc"], "it was given more than once"),
        (b"text", ["-o", "/dev/full"], "'/dev/full' says no kind of table"),
        (b"\xff\xfea\0", [], "a.txt begins like UTF-16; convert it to UTF-8 first"),
        (b"\xfe\xff\0a", ["--lines"], "a.txt begins like UTF-16; convert it to UTF-8 first"),
        (b"text", ["--resume"], "--resume goes with -o"),
    ],
)
def test_mistakes(
    cli: Cli, folder: Path, tmp_path: Path, content: bytes, options: list[str], wanted: str
) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes(content)
    options = [option.replace("{folder}", str(folder)) for option in options]
    answer = cli("profile", path, "--model", folder, *options)
    assert answer.code in (1, 2)
    assert wanted in answer.err
    assert answer.out == ""
    assert len(answer.err.strip().splitlines()) <= (1 if answer.code == 1 else 4)


def test_files_are_looked_at_before_the_model(cli: Cli, tmp_path: Path) -> None:
    """The model is missing too, but what is told is the file."""
    good = tmp_path / "good.txt"
    good.write_text("text")
    for path, wanted in ((tmp_path / "no.txt", "No such file"), (tmp_path, "is a folder")):
        assert wanted in told(cli("profile", good, path, "--model", "no/such/folder"))
    late = tmp_path / "late.jsonl"
    late.write_text('{"body": "x"}\n')
    line = told(cli("profile", late, "--model", "no/such/folder"))
    assert "late.jsonl, line 1 has no field 'text'; its fields are 'body'" in line


def test_a_fault_in_the_middle_keeps_what_is_before_it(
    cli: Cli, folder: Path, corpus: Path, tmp_path: Path
) -> None:
    whole = corpus.read_text(encoding="utf-8").splitlines()
    out = tmp_path / "heads.nc"
    corpus.write_text("\n".join([*whole[:3], '{"texxt": 1}', *whole[3:]]), encoding="utf-8")
    line = told(cli("profile", corpus, "--model", folder, "-o", out))
    assert f"{corpus}, line 4 has no field 'text'" in line
    assert "3 texts, " in line
    assert f"are done and in {out}" in line
    expected = hw.profile(hw.load(folder), TEXTS[:3])
    assert hw.load_profile(out).drop_attrs().equals(expected.drop_attrs())


def test_numbers_that_are_none_are_told_with_their_head(
    cli: Cli, folder: Path, corpus: Path, tmp_path: Path
) -> None:
    import safetensors.torch

    broken = tmp_path / "broken"
    broken.mkdir()
    for path in folder.iterdir():
        (broken / path.name).write_bytes(path.read_bytes())
    weights = safetensors.torch.load_file(broken / "model.safetensors")
    weights["model.layers.1.self_attn.q_proj.weight"][3 * 4] = float("nan")
    safetensors.torch.save_file(weights, broken / "model.safetensors", metadata={"format": "pt"})
    out = tmp_path / "heads.nc"
    line = told(cli("profile", corpus, "--model", broken, "-o", out))
    assert "head 1.3 of" in line
    assert not out.exists()


def test_the_standard_input(folder: Path) -> None:
    answer = run("profile", "-", "--lines", "--model", folder, given="It is.\n\n小明\n".encode())
    assert (answer.code, answer.out.splitlines()[1][:7]) == (0, "2 texts")
    assert run("profile", "-", "--model", folder).code == 1


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_device(cli: Cli, folder: Path, corpus: Path, tmp_path: Path) -> None:
    out = tmp_path / "heads.csv"
    out.symlink_to("/dev/full")
    answer = cli("profile", corpus, "--model", folder, "-o", out)
    assert answer.code == 1
    assert f"the profile cannot be written to {out}: No space left on device" in answer.err
    assert list(tmp_path.glob("*.partial")) == []


def test_a_full_disk_keeps_the_run(
    cli: Cli, folder: Path, corpus: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result does not fit, what is needed to go on does: nothing is computed twice."""
    out, plain = tmp_path / "heads.nc", Path.write_bytes
    out.write_text("old")

    def full(path: Path, data: bytes) -> int:
        if data.startswith(b"\x89HDF"):
            plain(path, data[:99])
            raise OSError(28, "No space left on device")
        return plain(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "write_bytes", full)
        line = cli("profile", corpus, "--model", folder, "-o", out).err.strip().splitlines()[-1]
    assert "No space left on device" in line
    assert f"the run is kept in {out}.partial" in line
    assert out.read_text() == "old"
    monkeypatch.setattr(
        "headwise.see.profile.profiler.Profiler.add", None
    )  # a second run would fail
    answer = cli("profile", corpus, "--model", folder, "-o", out, "--resume")
    assert answer.code == 0
    assert hw.load_profile(out).attrs["texts"] == 4
    assert not Path(f"{out}.partial").exists()


@pytest.mark.models
def test_a_real_model(cli: Cli, tmp_path: Path) -> None:
    path, out = tmp_path / "story.txt", tmp_path / "heads.nc"
    path.write_text(
        "The animal didn't cross the street because it was too tired.\n"
        "小明把书还给了图书馆,因为它到期了。\nThe capital of France is Paris, and of Italy it is Rome.\n",
        encoding="utf-8",
    )
    answer = cli("profile", path, "--lines", "-o", out)
    assert answer.code == 0
    (row,) = [line for line in answer.out.splitlines() if line.startswith("previous ")]
    assert row.split()[1] == "16.0"
    back = hw.load_profile(out)
    assert dict(back.sizes)["layer"] == 30
    assert float(back["previous"].sel(layer=16, head=0)) > 0.6
    assert 0 < back.attrs["verified"] < 1e-4
