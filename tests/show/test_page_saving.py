"""save_page: one file that holds the records, whole or not at all, and of a size one can send."""

from __future__ import annotations

import base64
import json
import re
import zlib
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from page_help import changed, small, unpacked

import headwise as hw
from headwise.names import ConfigError, HeadError, HeadId, OutputError
from headwise.show.page import document, starting
from headwise.show.page.bundle import state_names
from headwise.show.page.saving import scenes_of

ELEMENT = re.compile(r'<script type="([^"]+)"([^>]*)>(.*?)</script>', re.DOTALL)
SIZES = [(64, 0.0, 1.5), (1024, 0.02, 15.0)]


def read(path: Path) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The index of a page and its chunks, as a browser finds them."""
    index, chunks = {}, {}
    for kind, attributes, text in ELEMENT.findall(path.read_text(encoding="utf-8")):
        if kind == "application/json":
            index = json.loads(text)
        elif kind == "application/octet-stream":
            (name,) = re.findall(r'data-chunk="([^"]+)"', attributes)
            chunks[name] = base64.b64decode(text)
    return index, chunks


def written(record: hw.Record, text: str) -> hw.Record:
    """The record as if it were of another text."""
    layers = {
        id: replace(
            layer, queries=replace(layer.queries, text=text), keys=replace(layer.keys, text=text)
        )
        for id, layer in record.layers.items()
    }
    return replace(record, layers=layers)


def test_a_file_holds_every_head_of_every_record(tmp_path: Path) -> None:
    records = [small(), changed(small(30))]
    seen: list[tuple[int, int]] = []
    path = tmp_path / "page.html"
    hw.save_page(records, path, progress=lambda *done: seen.append(done))
    index, chunks = read(path)
    assert len(index["scenes"]) == 2
    for number, record in enumerate(records):
        for id in record.heads():
            found, _, _ = unpacked(chunks[f"{number}/{id}"])
            np.testing.assert_allclose(np.nan_to_num(found), record.weights(id), atol=5e-4)
    assert not any("mean/" in name for name in chunks)  # the viewer works them out
    assert {"0/reach", "1/reach"} <= set(chunks)
    assert seen == [(i, len(chunks)) for i in range(1, len(chunks) + 1)]


def test_markup_in_a_text_ends_no_script(tmp_path: Path) -> None:
    text = 'a </script><script>alert(1)</script> <!-- "&\u2028 敏捷的狐狸 \ud800' + "x" * 200
    hw.save_page(written(small(), text), tmp_path / "page.html")
    index, chunks = read(tmp_path / "page.html")
    assert index["scenes"][0]["text"] == text.replace("\ud800", "?")
    assert len(chunks) == 8 + 1  # heads, and the reach of the masks
    title = re.search("<title>(.*?)</title>", (tmp_path / "page.html").read_text(encoding="utf-8"))
    assert title is not None
    assert title[1].startswith("a &lt;/script&gt;")


@pytest.mark.parametrize("name", ["page.txt", "page", "page.html.png"])
def test_another_ending_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(OutputError, match=r"it must end in \.html or \.htm"):
        hw.save_page(small(), tmp_path / name)


def test_a_path_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="No such file or directory"):
        hw.save_page(small(), tmp_path / "none" / "page.html")
    (tmp_path / "folder.html").mkdir()
    with pytest.raises(OutputError, match="it is a folder"):
        hw.save_page(small(), tmp_path / "folder.html")


@pytest.mark.parametrize("failure", [KeyboardInterrupt, OSError(28, "No space left on device")])
def test_a_failure_leaves_the_old_file(tmp_path: Path, failure: Any) -> None:
    path = tmp_path / "page.html"
    path.write_text("old")

    def stop(done: int, total: int) -> None:
        if done == total // 2:
            raise failure

    expected = KeyboardInterrupt if failure is KeyboardInterrupt else OutputError
    with pytest.raises(expected):
        hw.save_page(small(), path, progress=stop)
    assert path.read_text() == "old"
    assert [part.name for part in tmp_path.iterdir()] == ["page.html"]


def test_no_chunk_is_made_before_it_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    (scene,) = scenes_of([small()])
    made: list[str] = []
    chunk = type(scene).chunk
    monkeypatch.setattr(
        type(scene), "chunk", lambda self, key: made.append(key) or chunk(self, key)
    )
    parts = document.document([scene])
    while not made:
        next(parts)
    assert len(made) == 1


@pytest.mark.parametrize(
    ("start", "error", "says"),
    [
        ({"hed": "0.1"}, ConfigError, "start has no 'hed'; its names are scene, head, tab"),
        ({"head": "9.9"}, HeadError, "there is no layer 9|there is no head 9.9"),
        ({"scene": 3}, ConfigError, "start 'scene' takes a text from 0 to 0, came 3"),
        ({"scene": True}, ConfigError, "came True"),
        ({"scene": None}, ConfigError, "came None"),
        ({"head": None}, ConfigError, "'head' takes a head like '0.0', came None"),
        ({"head": "x"}, HeadError, "head id"),
        ({"head": "mean/7"}, HeadError, "no mean 'mean/7': mean/0, mean/1, mean/ are there"),
        ({"query": float("nan")}, ConfigError, "'query' takes a number from 0, or None, came nan"),
        ({"key": -1}, ConfigError, "came -1"),
        ({"layer": "1"}, ConfigError, "came '1'"),
        ({"zoom": object()}, ConfigError, "'zoom' takes .*, came a object"),
        ({"zoom": 5}, ConfigError, "came 5"),
        ({"zoom": [0, 2, 3]}, ConfigError, r"came \[0, 2, 3\]"),
        ({"zoom": [2, 2, 0, 3]}, ConfigError, "'zoom' takes"),
        ({"withHead": 5}, ConfigError, "'withHead' takes a head like '0.0', came 5"),
        ({"withHead": "9.9"}, HeadError, "9"),
        ({"withScene": 1}, ConfigError, "'withScene' takes a text from 0 to 0"),
        ({"pinned": 1}, ConfigError, "True or False"),
        ({"tab": "maps"}, ConfigError, "'tab' takes map, lines, compare"),
        ({"unit": ["words"]}, ConfigError, "'unit' takes tokens, words, came"),
        ({"colour": 3}, ConfigError, "came 3"),
        (["head"], ConfigError, "start takes names and values"),
        (0, ConfigError, "start takes names and values"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_a_wrong_start_is_refused(
    tmp_path: Path, start: dict[str, Any], error: type[Exception], says: str
) -> None:
    for show in (partial(hw.save_page, path=tmp_path / "page.html"), hw.view):
        with pytest.raises(error, match=None if show is hw.view else says) as told:
            show(small(), start=start)
        assert "\n" not in str(told.value)


def test_every_name_of_a_view_is_checked() -> None:
    assert set(starting._KINDS) == set(state_names())
    (scene,) = scenes_of([small()])
    numbers = {"query": np.int64(3), "zoom": (0, np.int64(2), 0, 3), "head": HeadId.parse("1.2")}
    found = starting.checked_start([scene], {**numbers, "withScene": None, "pinned": True})
    assert json.loads(json.dumps(found)) == {
        "query": 3, "zoom": [0, 2, 0, 3], "head": "1.2", "withScene": None, "pinned": True,
    }  # fmt: skip


def test_a_start_is_what_the_view_starts_with(tmp_path: Path) -> None:
    hw.save_page(small(), tmp_path / "p.htm", start={"head": "mean/1", "colour": "entropy"})
    assert read(tmp_path / "p.htm")[0]["start"] == {"head": "mean/1", "colour": "entropy"}


@pytest.mark.usefixtures("unchecked")
def test_what_is_no_record_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="at least one, came none"):
        hw.save_page([], tmp_path / "page.html")
    with pytest.raises(ConfigError, match="came str"):
        hw.save_page(["a text"], tmp_path / "page.html")  # type: ignore[list-item]


def test_titles_tell_scenes_apart() -> None:
    one, other = written(small(), "a cat"), replace(written(small(), "a dog"), model="another")
    text = written(small(), "x" * 200)

    def titles(*records: hw.Record, notes: list[str] | None = None) -> list[str]:
        return [scene.title for scene in scenes_of(list(records), notes=notes)]

    found = titles(one, other, notes=["", "without 0.1"])
    assert found == [f"{one.model} · a cat", "without 0.1 · another · a dog"]
    assert titles(one, one, notes=["", "without 0.1"]) == [
        "unchanged · a cat",
        "without 0.1 · a cat",
    ]
    assert titles(text, one)[0] == "x" * 39 + "…"


@pytest.mark.models
@pytest.mark.parametrize(("length", "least", "most"), SIZES)
def test_a_page_of_smollm2_can_be_sent(
    tmp_path: Path, length: int, least: float, most: float
) -> None:
    model = hw.load("smollm2")
    words = "The cat that the dogs chased, in 1984, didn't cross the street because it was tired. "
    ids = torch.tensor([model.tokenizer.encode(words * 90).ids[:length]])
    (record,) = hw.look(model, {"input_ids": ids})
    path = tmp_path / "page.html"
    hw.save_page(record, path)
    assert path.stat().st_size < most * 1e6
    index, chunks = read(path)
    assert index["scenes"][0]["least"] <= least
    means = 30 + 1 if index["scenes"][0]["least"] > 0 else 0
    assert len(chunks) == 270 + means + 1  # and the reach of its masks
    for head in ("0.0", "18.6"):
        found, rest, _ = unpacked(chunks[f"0/{head}"])
        np.testing.assert_allclose(np.nan_to_num(found).sum(1) + rest, 1, atol=0.02)
        exact, kept = record.weights(head), ~np.isnan(found)
        np.testing.assert_allclose(found[kept], exact[kept], atol=5e-4)
    assert not means or zlib.decompress(chunks["0/mean/"])
