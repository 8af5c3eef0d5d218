"""Mistakes on the command line: one line that says what was wrong, no traceback, exit code 1 or 2."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from cli_help import COMMAND, Cli, environment, run, start

USAGE, MISTAKE, INTERRUPTED = 2, 1, 130


def assert_one_line(answer, message: str) -> None:
    """Nothing on stdout, and on stderr nothing but our one line."""
    assert answer.code == MISTAKE
    assert answer.out == ""
    lines = answer.err.strip().splitlines()
    assert len(lines) == 1, answer.err
    assert lines[0].startswith("headwise: ")
    assert message in lines[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--head", "99.1"), "there is no head 99.1: the model's layers are 0 to 1"),
        (("--head", "1.9"), "there is no head 1.9: layer 1 has the heads 1.0 to 1.5"),
        (("--head", "cross.0.1"), "there is no head cross.0.1"),
        (("--layer", "7"), "there is no layer 7: the model's layers are 0 to 1"),
        (("--layer", "cross.0"), "the model's layers are 0 to 1"),
        (("--word", "dog"), "'dog' is not in the text; its words are: a, cat"),
        (("--word", "狗"), "'狗' is not in the text"),
        (("--device", "nonsense"), "the device 'nonsense' cannot be used"),
        (("--device", "meta"), "the device 'meta' cannot be used"),
        (("--dtype", "nonsense"), "'nonsense' is no dtype for weights"),
        (("--dtype", "int8"), "'int8' is no dtype for weights"),
        (("--dtype", "float8_e4m3fn"), "'float8_e4m3fn' is no dtype for weights"),
        (("--target", "x"), "reads one text and writes no other"),
    ],
)
def test_a_wrong_value(cli: Cli, folder: Path, arguments: tuple[str, ...], message: str) -> None:
    assert_one_line(cli("look", "a cat", "--model", folder, *arguments), message)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "give a text"),
        (("text", "--file", "x"), "give a text"),
        (("text", "--bad"), "No such option"),
        (("text", "more"), "unexpected extra argument"),
        (("text", "--head", "abc"), "'abc' is no head id; write it as 18.6 or cross.18.6"),
        (("text", "--head", "18"), "'18' is no head id"),
        (("text", "--head", "-1.2"), "'-1.2' is no head id"),
        (("text", "--layer", "x"), "'x' is no layer id; write it as 18 or cross.18"),
        (("text", "--layer", "²"), "'²' is no layer id"),
        (("text", "--layer", "1.2"), "'1.2' is no layer id; write it as 18 or cross.18"),
        (("text", "--layer", "١"), "'١' is no layer id"),
        (("text", "--head", "١.٢"), "'١.٢' is no head id"),
        (("text", "--head", "1.1.1"), "'1.1.1' is no head id"),
        (("text", "--renormalise"), "--renormalise goes with --word"),
        (("text", "--top", "-1"), "--top"),
    ],
)
def test_a_wrong_use(cli: Cli, arguments: tuple[str, ...], message: str) -> None:
    answer = cli("look", *arguments)
    assert answer.code == USAGE
    assert answer.out == ""
    assert "Usage: headwise look" in answer.err
    assert message in " ".join(answer.err.split())


def test_an_unknown_command(cli: Cli) -> None:
    answer = cli("loook")
    assert (answer.code, answer.out) == (USAGE, "")
    assert "No such command 'loook'" in answer.err


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty; give at least one word"),
        (b" \n\t\n", "is empty; give at least one word"),
        (b"\x89PNG\r\n\x1a\n\x00\xff", "is not UTF-8 text (byte 0)"),
        (None, "cannot be read: No such file or directory"),
    ],
)
def test_a_file_that_is_no_text(
    cli: Cli, folder: Path, tmp_path: Path, content: bytes | None, message: str
) -> None:
    path = tmp_path / "text"
    if content is not None:
        path.write_bytes(content)
    answer = cli("look", "--file", path, "--model", folder)
    assert_one_line(answer, f"{path} {message}")


def test_a_folder_is_no_text(cli: Cli, folder: Path, tmp_path: Path) -> None:
    assert_one_line(cli("look", "--file", tmp_path, "--model", folder), "cannot be read: Is a dir")


@pytest.mark.parametrize("text", ["", " "])
def test_an_empty_text(cli: Cli, folder: Path, text: str) -> None:
    assert_one_line(cli("look", text, "--model", folder), "the text is empty")


def test_an_empty_stdin(folder: Path) -> None:
    assert_one_line(run("look", "-", "--model", folder), "the standard input is empty")


def test_an_argument_that_is_no_utf8(folder: Path) -> None:
    command = [*map(os.fsencode, COMMAND), b"look", b"a\xff", b"--model", os.fsencode(folder)]
    done = subprocess.run(command, capture_output=True, env=environment(), timeout=120)
    assert done.returncode == MISTAKE
    assert done.stderr.decode().strip() == (
        "headwise: the text is not UTF-8 (character 1); convert it to UTF-8 first"
    )


def test_a_text_longer_than_the_context(cli: Cli, folder: Path) -> None:
    answer = cli("look", "it " * 10_000, "--model", folder)
    assert_one_line(answer, "the text is 10001 tokens long")
    assert "reads at most 8000" in answer.err


@pytest.mark.parametrize("model", ["/no/such/folder", "./nothing.gguf"])
def test_a_model_that_is_not_there(cli: Cli, model: str) -> None:
    answer = cli("look", "text", "--model", model)
    assert (answer.code, answer.out) == (MISTAKE, "")
    assert model.removeprefix("./") in answer.err
    assert len(answer.err.strip().splitlines()) == 1


def test_a_folder_that_holds_no_model(cli: Cli, tmp_path: Path) -> None:
    assert_one_line(cli("look", "text", "--model", tmp_path), "config.json")
    (tmp_path / "config.json").write_text("[]")
    (tmp_path / "model.safetensors").write_bytes(b"")
    assert_one_line(cli("look", "text", "--model", tmp_path), "holds no model configuration")


def test_a_model_that_cannot_be_looked_into(cli: Cli, folder: Path, tmp_path: Path) -> None:
    from transformers import SqueezeBertConfig, SqueezeBertModel

    config = SqueezeBertConfig(
        vocab_size=260,
        hidden_size=16,
        embedding_size=16,
        num_hidden_layers=1,
        num_attention_heads=4,
    )
    SqueezeBertModel(config).save_pretrained(tmp_path)
    (tmp_path / "tokenizer.json").write_bytes((folder / "tokenizer.json").read_bytes())
    cli.capsys.readouterr()
    answer = cli("look", "text", "--model", tmp_path)
    assert_one_line(answer, "SqueezeBertModel cannot be looked into")


@pytest.mark.parametrize(
    ("option", "name"),
    [
        ("--png", "missing/x.png"),
        ("--svg", "missing/x.svg"),
        ("--json", "missing/x.json"),
        ("--json", "."),
        ("--png", "x.jpg"),
        ("--svg", "/dev/null/x.svg"),
        ("--json", "/dev/null/x.json"),
    ],
)
def test_a_result_that_cannot_be_written(
    cli: Cli, folder: Path, tmp_path: Path, option: str, name: str
) -> None:
    answer = cli("look", "a cat", "--model", folder, option, tmp_path / name)
    assert answer.code == MISTAKE
    line = answer.err.strip().splitlines()[-1]
    assert line.startswith("headwise: ")
    assert "cannot" in line
    assert list(tmp_path.iterdir()) == []


def test_a_failed_write_keeps_the_old_file(
    cli: Cli, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "out.json"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("headwise.files.os.replace", full)
    answer = cli("look", "a cat", "--model", folder, "--json", path)
    assert answer.code == MISTAKE
    assert "No space left on device" in answer.err
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["out.json"]


def test_a_reader_that_goes_away(folder: Path) -> None:
    """`headwise look ... | head -1`: no traceback, whatever is still to be written."""
    process = start("look", "it a " * 200, "--model", folder, "--layer", "0", "--layer", "1")
    assert process.stdout is not None
    assert process.stderr is not None
    first = process.stdout.readline()
    process.stdout.close()
    err = process.stderr.read()
    process.wait(timeout=120)
    process.stderr.close()
    assert first.strip()
    assert err == b""
    assert process.returncode in (0, 1)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("how", [("--json", "-"), ()])
def test_a_full_disk_behind_stdout(folder: Path, how: tuple[str, ...]) -> None:
    with open("/dev/full", "wb") as full:
        process = start("look", "a cat", "--model", folder, *how, stdout=full)
        _, err = process.communicate(timeout=120)
    assert process.returncode == MISTAKE
    assert err.decode().strip().splitlines()[-1] == (
        "headwise: the output cannot be written: No space left on device"
    )
    assert b"Traceback" not in err
    assert b"Exception" not in err


def heed_ctrl_c() -> None:
    """As at a terminal, also where the tests run with SIGINT ignored, which a child inherits."""
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_ctrl_c_in_the_middle_of_a_look(folder: Path) -> None:
    code = (
        "import sys, headwise.see.looking as looking\n"
        "recording = looking.recording\n"
        "def said(*a, **k):\n"
        "    print('looking', flush=True)\n"
        "    return recording(*a, **k)\n"
        "looking.recording = said\n"
        "from headwise.cli import main; main()"
    )
    command = [sys.executable, "-c", code, "look", "--file", "-", "--model", str(folder)]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen(command, env=environment(), preexec_fn=heed_ctrl_c, **pipes)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"it " * 7000)
    process.stdin.close()
    process.stdin = None
    assert process.stdout.readline() == b"looking\n"
    time.sleep(0.3)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == INTERRUPTED
    assert err.decode().strip() == "headwise: interrupted"
    assert out == b""


HELP = (
    ("--help",),
    ("look", "--help"),
    ("--version",),
    ("look", "--bad"),
    ("look",),
    ("look", "text", "--head", "abc"),
)


@pytest.mark.parametrize("arguments", HELP, ids=" ".join)
def test_help_and_wrong_use_import_nothing_heavy(arguments: tuple[str, ...]) -> None:
    code = (
        "import sys\n"
        "from headwise.cli import main\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    heavy = {'torch', 'numpy', 'transformers', 'matplotlib', 'rich', 'xarray'}\n"
        "    print('HEAVY', sorted(heavy & set(sys.modules)), file=sys.stderr)\n"
    )
    command = [sys.executable, "-c", code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment(), timeout=60)
    assert done.stderr.splitlines()[-1] == "HEAVY []"
    wrong = arguments not in HELP[:3]
    assert done.returncode == (USAGE if wrong else 0)
    assert ("Usage: headwise look" in done.stderr) == wrong


def test_help_names_every_option(cli: Cli) -> None:
    out = cli("look", "--help").out
    named = "file model word head layer words renormalise top target png svg json device dtype"
    for option in named.split():
        assert f"--{option}" in out
