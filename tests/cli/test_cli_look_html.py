"""headwise look --html: a page of what was asked for, and what is refused before a model is loaded."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from cli_help import SENTENCE, Cli, start

TEXT = "a cat sat on it"


def index_of(path: Path) -> dict[str, Any]:
    text = path.read_text(encoding="utf-8")
    found = re.search(r'<script type="application/json" id="index">(.*?)</script>', text)
    assert found is not None
    return json.loads(found[1])


def test_a_page_of_the_text(cli: Cli, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    answer = cli("look", TEXT, "--model", folder, "--html", path)
    assert answer.code == 0
    assert re.search(r"wrote \S*page\.html \(\d+\.\d MB\)$", answer.err.strip())
    assert "12 heads" in answer.out or "2 layers" in answer.out
    index = index_of(path)
    (scene,) = index["scenes"]
    assert scene["text"] == TEXT
    assert len(scene["heads"]) == 12
    assert index["start"].get("head", "0.0") in scene["heads"]
    assert (
        path.read_text(encoding="utf-8").count("data-chunk=") == 12 + 1
    )  # and the reach of its masks


def test_a_head_and_a_word_say_where_it_opens(cli: Cli, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    arguments = ("--word", "cat", "--head", "1.4", "--html", path)
    assert cli("look", TEXT, "--model", folder, *arguments).code == 0
    index = index_of(path)
    tokens = [token[0] for token in index["scenes"][0]["sides"][0]["tokens"]]
    assert index["start"]["head"] == "1.4"
    assert index["start"]["pinned"]
    assert "c" in tokens[index["start"]["query"]]


def test_what_is_compared_stands_beside(cli: Cli, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    more = ("--without", "0.1,1.*", "--beside", "它很累。", "--beside-model", folder)
    answer = cli("look", TEXT, "--model", folder, *more, "--html", path)
    assert answer.code == 0, answer.err
    first, without, beside, other = index_of(path)["scenes"]
    assert [first["note"], without["note"], beside["note"]] == ["", "without 0.1,1.*", ""]
    assert beside["text"] == "它很累。"
    assert first["text"] == without["text"] == other["text"] == TEXT
    assert len({scene["title"] for scene in (first, without, beside)}) == 3
    assert without["verified"] < 1e-3
    # what comes after the heads at zero has changed, what comes before has not
    assert first["heads"]["0.0"] == without["heads"]["0.0"]
    assert first["heads"]["1.0"] != without["heads"]["1.0"]


def test_a_table_colours_the_heads(cli: Cli, folder: Path, tmp_path: Path) -> None:
    lines, table, path = (tmp_path / name for name in ("texts.txt", "profile.nc", "page.html"))
    lines.write_text("\n".join([SENTENCE, TEXT, "it sat", "a cat", "on it it", "a a a"]))
    made = cli("profile", lines, "--lines", "--model", folder, "-o", table)
    assert made.code == 0, made.err
    answer = cli("look", TEXT, "--model", folder, "--with", table, "--html", path)
    assert answer.code == 0, answer.err
    (scene,) = index_of(path)["scenes"]
    assert "profile.entropy" in [one["name"] for one in scene["colourings"]]
    assert len(scene["evidence"]) == 12


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--html", "page.txt"), "must end in .html or .htm"),
        (("--html", "none/page.html"), "No such file or directory"),
        (
            ("--html", "page.html", "--with", "none.nc"),
            "none.nc cannot be read as a profile, roles",
        ),
        (("--beside", "b"), "--beside goes with --html"),
        (("--beside-model", "b"), "--beside-model goes with --html"),
        (("--without", "0.1"), "--without goes with --html"),
        (("--with", "b.nc"), "--with goes with --html"),
    ],
)
def test_what_cannot_be_is_refused_before_a_model_is_looked_for(
    cli: Cli,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: tuple[str, ...],
    says: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = cli("look", TEXT, "--model", "./no-such-model", *arguments)
    assert answer.code != 0
    assert says in " ".join(answer.err.split())
    assert "no-such-model" not in answer.err
    assert not list(tmp_path.iterdir())


def test_heads_that_are_not_there_leave_no_file(cli: Cli, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    answer = cli("look", TEXT, "--model", folder, "--without", "7.1", "--html", path)
    assert answer.code != 0
    assert "7.1" in answer.err
    assert not path.exists()


def test_json_on_the_standard_output_stays_json(cli: Cli, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    answer = cli("look", TEXT, "--model", folder, "--json", "-", "--html", path)
    assert answer.data["text"] == TEXT
    assert path.exists()


def test_an_interrupt_leaves_no_half_file(folder: Path, tmp_path: Path) -> None:
    import signal
    import time

    path = tmp_path / "page.html"
    process = start("look", TEXT * 150, "--model", folder, "--html", path)
    end = time.monotonic() + 100
    while not list(tmp_path.iterdir()) and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=100)
    assert b"Traceback" not in err
    left = [part.name for part in tmp_path.iterdir()]
    assert left == ([] if process.returncode else ["page.html"])
    assert process.returncode, "it was done before it was interrupted"
