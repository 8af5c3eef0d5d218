"""headwise generate: what a model writes, on the terminal, as JSON, broken off and refused."""

from __future__ import annotations

import signal
from pathlib import Path

import pytest
from cli_help import Cli, run, start

import headwise as hw

TEXT = "a cat sat"


def test_it_writes_what_the_library_does(cli: Cli, folder: Path, tmp_path: Path) -> None:
    model = hw.load(folder, quiet=True)
    wanted = hw.generate(model, TEXT, 20)
    assert cli("generate", TEXT, "--model", folder, "-n", 20).out == wanted + "\n"  # type: ignore[arg-type]
    drawn = hw.generate(model, TEXT, 20, temperature=0.9, top_k=50, top_p=0.9, seed=3)
    options = ("--temperature", "0.9", "--top-k", "50", "--top-p", "0.9", "--seed", "3")
    answer = cli("generate", TEXT, "-m", folder, "--max-new-tokens", "20", *options)
    assert answer.out == f"{drawn}\n"
    assert drawn != wanted
    with hw.ablate(model, ["0.1", "1.2"]):
        other = hw.generate(model, TEXT, 20)
    answer = cli("generate", TEXT, "-m", folder, "-n", "20", "--without", "0.1", "--without", "1.2")
    assert answer.out == f"{other}\n"
    assert other != wanted
    prompt = tmp_path / "prompt.txt"
    prompt.write_text(TEXT + "\n", encoding="utf-8")
    assert cli("generate", "-f", prompt, "-m", folder, "-n", "20").out == f"{wanted}\n"


def test_several_texts_and_stop_strings_as_json(cli: Cli, folder: Path, tmp_path: Path) -> None:
    model = hw.load(folder, quiet=True)
    texts = [TEXT, "the dog"]
    whole = hw.generate(model, texts, 20)
    stop = whole[1][4:6]
    wanted = hw.generate(model, texts, 20, stop=stop)
    out = tmp_path / "out.json"
    answer = cli("generate", *texts, "-m", folder, "-n", "20", "--stop", stop, "--json", out)
    assert answer.out == f"[1] {TEXT}\n{wanted[0]}\n\n[2] the dog\n{wanted[1]}\n"
    assert f"wrote {out}" in answer.err
    data = cli("generate", *texts, "-m", folder, "-n", "20", "--stop", stop, "--json", "-").data
    assert [one["written"] for one in data["texts"]] == wanted
    assert data["texts"][1]["ended"] == "stop"
    assert data["texts"][0]["ended"] in ("stop", "length")
    assert data["stop"] == [stop]
    assert data["texts"][0]["tokens"] <= 20


def test_the_standard_input(folder: Path) -> None:
    wanted = hw.generate(hw.load(folder, quiet=True), TEXT, 8)
    answer = run("generate", "-", "-m", folder, "-n", "8", given=TEXT.encode() + b"\n")
    assert answer == (0, f"{wanted}\n", answer.err)


def test_ctrl_c_keeps_what_was_written(folder: Path) -> None:
    process = start("generate", TEXT, "-m", folder, "-n", "7000")
    assert process.stdout is not None
    begun = process.stdout.read(10)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.decode().splitlines()[-1] == "headwise: interrupted"
    assert b"Traceback" not in err
    told = (begun + out).decode()
    assert told.endswith("\n")
    whole = hw.generate(hw.load(folder, quiet=True), TEXT, min(len(told), 60))
    assert whole[:8] == told[:8]


@pytest.mark.parametrize(
    ("arguments", "message", "code"),
    [
        ((), "give a text", 2),
        (("",), "the text is empty", 1),
        (("--file", "nowhere.txt"), "nowhere.txt cannot be read", 1),
        (("x", "--top-k", "5"), "--top-k limits what is drawn; give a --temperature", 2),
        (("x", "--top-p", "1.2", "--temperature", "1"), "1.2 is not in the range", 2),
        (("x", "--temperature", "-1"), "-1.0 is not in the range", 2),
        (("x", "-n", "0"), "0 is not in the range", 2),
        (("x", "--stop", ""), "--stop takes at least one character", 2),
        (("x", "--without", "5"), "'5' is no head id", 2),
        (("x", "--without", "9.1"), "9.1 is not there: the layers are 0 to 1", 1),
        (("a " * 9000,), "nothing fits after it", 1),
        (("x", "--json", "/nowhere/x.json"), "the JSON cannot be written", 1),
    ],
)
def test_a_mistake_is_one_line(
    cli: Cli, folder: Path, arguments: tuple[str, ...], message: str, code: int
) -> None:
    answer = cli("generate", *arguments, "--model", folder)
    assert answer.code == code
    assert answer.out == ""
    assert message in answer.err
    if code == 1:
        assert len(answer.err.strip().splitlines()) == 1
