"""headwise look --html with tables, flow and neurons, and what leaves an older page as it was."""

from __future__ import annotations

import base64
import json
import re
import signal
import time
import zlib
from pathlib import Path
from typing import Any

import pytest
from cli_help import SENTENCE, Cli, start

TEXT = "a cat sat on it"
LINES = [SENTENCE, TEXT, "it sat", "a cat", "on it it", "a a a"]


def read(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The index of a page, and its chunks inflated."""
    text = path.read_text(encoding="utf-8")
    index = re.search(r'<script type="application/json" id="index">(.*?)</script>', text)
    assert index is not None
    chunks = re.findall(r'data-chunk="([^"]*)">([^<]*)</script>', text)
    return json.loads(index[1]), {name: zlib.decompress(base64.b64decode(x)) for name, x in chunks}


@pytest.fixture(scope="module")
def tables(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A profile, roles and an importance of the model, as the commands save them."""
    made = tmp_path_factory.mktemp("tables")
    lines = made / "lines.txt"
    lines.write_text("\n".join(LINES))
    found = {}
    for command in ("profile", "roles", "rank"):
        found[command] = made / f"{command}.nc"
        more = ("--lines", "--model", folder, "-o", found[command])
        process = start(command, lines, *more)
        _, err = process.communicate(timeout=200)
        assert process.returncode == 0, err.decode()
    return found


def test_flow_and_neurons_are_told_of_every_scene(cli: Cli, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    more = ("--flow", "--ffn", "--without", "0.*", "--beside", "it it")
    answer = cli("look", TEXT, "--model", folder, *more, "--html", path)
    assert answer.code == 0, answer.err
    index, chunks = read(path)
    assert [scene["told"] for scene in index["scenes"]] == [["reach", "flow", "fires"]] * 3
    first = index["scenes"][0]
    off = [head for head in first["heads"] if head.startswith("0.")]
    assert [scene["off"] for scene in index["scenes"]] == [[], off, []]
    flows = [json.loads(chunks[f"{i}/flow"])["flows"][0]["moved"] for i in range(3)]
    assert len(set(map(str, flows))) == 3, (
        "of the heads at zero, and of the other text, as they are"
    )
    fires = [json.loads(chunks[f"{i}/fires"]) for i in range(3)]
    assert fires[0]["streams"][0]["attention"] != fires[1]["streams"][0]["attention"]


def test_what_was_not_asked_for_is_not_there(cli: Cli, folder: Path, tmp_path: Path) -> None:
    path = tmp_path / "page.html"
    assert cli("look", TEXT, "--model", folder, "--html", path).code == 0
    index, chunks = read(path)
    assert index["scenes"][0]["told"] == ["reach"]
    assert not [name for name in chunks if name.endswith(("flow", "fires"))]


def test_profile_roles_and_importance_together(
    cli: Cli, folder: Path, tmp_path: Path, tables: dict[str, Path]
) -> None:
    path = tmp_path / "page.html"
    given = [part for table in tables.values() for part in ("--with", table)]
    answer = cli("look", TEXT, "--model", folder, *given, "--html", path)
    assert answer.code == 0, answer.err
    (scene,) = read(path)[0]["scenes"]
    names = [one["name"] for one in scene["colourings"]]
    assert {"profile.entropy", "role", "importance"} <= set(names)
    titles = {
        block["title"].split()[0] for blocks in scene["evidence"].values() for block in blocks
    }
    assert {"Profile", "Importance"} <= titles
    for blocks in scene["evidence"].values():
        for block in blocks:
            assert all(case["weight"] > 0 for case in block["cases"])


def test_a_table_of_another_model_is_refused(
    cli: Cli, folder: Path, tmp_path: Path, tables: dict[str, Path]
) -> None:
    import xarray as xr

    from headwise.see.profile.files import load_profile, save_profile

    other, path = tmp_path / "other.nc", tmp_path / "page.html"
    table: xr.Dataset = load_profile(tables["profile"])
    save_profile(table.assign_attrs(model="somebody/else"), other)
    answer = cli("look", TEXT, "--model", folder, "--with", other, "--html", path)
    assert answer.code != 0
    line = " ".join(answer.err.split())
    assert "a table is of somebody/else" in line
    assert "give tables of the models shown" in line
    assert not path.exists()


@pytest.mark.parametrize("content", [b"", b"not a table", b"CDF\x01" + b"\0" * 60])
def test_a_file_that_is_no_table_is_refused(
    cli: Cli, folder: Path, tmp_path: Path, content: bytes
) -> None:
    wrong, path = tmp_path / "wrong.nc", tmp_path / "page.html"
    wrong.write_bytes(content)
    answer = cli("look", TEXT, "--model", folder, "--with", wrong, "--html", path)
    assert answer.code != 0
    assert "wrong.nc" in answer.err
    assert answer.err.strip().count("\n") == 0
    assert not path.exists()


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--head", "9.9"), "9.9"),
        (("--head", "x"), "x"),
        (("--layer", "9"), "9"),
        (("--word", "dog"), "dog"),
        (("--without", "x"), "x"),
        (("--beside", ""), "empty"),
        (("--beside-model", "./nothing-here"), "nothing-here"),
    ],
)
def test_a_mistake_leaves_an_older_page(
    cli: Cli, folder: Path, tmp_path: Path, more: tuple[str, ...], says: str
) -> None:
    path = tmp_path / "page.html"
    path.write_text("older")
    answer = cli("look", TEXT, "--model", folder, *more, "--html", path)
    assert answer.code != 0
    assert says in answer.err
    assert path.read_text() == "older"
    assert [part.name for part in tmp_path.iterdir()] == ["page.html"]


def test_an_empty_file_and_a_folder_in_the_way_are_refused(
    cli: Cli, folder: Path, tmp_path: Path
) -> None:
    empty, path, held = tmp_path / "empty.txt", tmp_path / "page.html", tmp_path / "held.html"
    empty.write_text(" \n")
    held.mkdir()
    answer = cli("look", "--file", empty, "--model", folder, "--html", path)
    assert answer.code != 0
    assert "is empty" in answer.err
    assert not path.exists()
    answer = cli("look", TEXT, "--model", "./no-such-model", "--html", held)
    assert answer.code != 0
    assert "held.html" in answer.err
    assert "no-such-model" not in answer.err
    assert not list(held.iterdir())


def test_an_interrupt_while_it_is_written_leaves_the_older_page(
    folder: Path, tmp_path: Path
) -> None:
    path = tmp_path / "page.html"
    path.write_text("older")
    process = start("look", TEXT * 150, "--model", folder, "--html", path)
    end = time.monotonic() + 100
    while len(list(tmp_path.iterdir())) < 2 and process.poll() is None and time.monotonic() < end:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=100)
    assert process.returncode, "it was done before it was interrupted"
    assert b"Traceback" not in err
    assert path.read_text() == "older"
    assert [part.name for part in tmp_path.iterdir()] == ["page.html"]


def test_a_page_by_words_opens_by_words(cli: Cli, folder: Path, tmp_path: Path) -> None:
    for more, unit in (((), None), (("--words",), "words")):
        path = tmp_path / f"{unit}.html"
        assert cli("look", TEXT, "--model", folder, *more, "--html", path).code == 0
        assert read(path)[0]["start"].get("unit") == unit
