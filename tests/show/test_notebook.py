"""The viewer in a notebook: run in a kernel, saved with its data, shown from there alone, and with a kernel."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import headwise as hw
from browser_help import axe, open_page
from headwise.names import ConfigError, HeadError
from headwise.show.notebook import data, showing, still
from headwise.show.page.saving import scenes_of
from headwise.show.page.scene import Scene

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from headwise.see.record import Record

notebook_help = pytest.importorskip("notebook_help", reason="nbclient is missing")
pytest.importorskip("anywidget", reason="anywidget is missing")

READY = "() => globalThis.ready && document.querySelector('[data-head]')"
INK = """() => [...document.querySelectorAll(".hw-stage canvas")].some((one) => one.width && one.height &&
  new Set(new Uint32Array(one.getContext("2d").getImageData(0, 0, one.width, one.height).data.buffer)).size > 4)"""


@pytest.fixture(scope="module")
def book(tiny_records: dict[str, Record], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A notebook that shows a record, sets the head, and prints what it observes."""
    path = tmp_path_factory.mktemp("records") / "decoder.safetensors"
    tiny_records["decoder"].save(path)
    return notebook_help.run_notebook(
        f"import headwise as hw\nrecord = hw.load_record({str(path)!r})",
        'shown = record.show(start={"tab": "map"})\nshown',
        "seen = []\n"
        "shown.observe(lambda change: seen.append(change.new['head']), 'state')\n"
        "shown.state['head'] = '1.2'\n"
        "print(seen, shown.state['head'], shown.state['tab'])",
    )


def current(page: Page) -> str:
    return str(page.locator('[data-head][aria-current="true"]').first.get_attribute("data-head"))


def test_a_run_notebook_holds_the_index_and_all_cells(
    book: Any, tiny_records: dict[str, Record]
) -> None:
    assert book.cells[2].outputs[0]["text"].strip() == "['1.2'] 1.2 map"
    saved = notebook_help.saved_widget(book, 1)
    (scene,) = scenes_of([tiny_records["decoder"]], told=[{"reach": {}}])
    assert saved["state"]["index"]["scenes"][0] == json.loads(json.dumps(scene.index))
    assert set(saved["state"]["places"]) == {f"0/{key}" for key in scene.keys}
    assert [one["path"] for one in saved["buffers"]] == [["chunks"]]
    assert saved["state"]["state"]["head"] == "1.2"


def test_a_saved_notebook_is_shown_without_a_kernel(
    book: Any, browser: Browser, tmp_path: Path, shot: Callable[..., Path]
) -> None:
    path = notebook_help.front_end(notebook_help.saved_widget(book, 1), tmp_path)
    with open_page(browser, path) as page:
        page.wait_for_function(READY)
        page.wait_for_function(INK)
        assert current(page) == "1.2"
        page.locator('[data-head="2.1"]').first.click()
        page.wait_for_function("() => model.get('state').head === '2.1' && model.saves > 1")
        page.evaluate("model.set('state', { ...model.get('state'), head: '0.3', unknown: 1 })")
        page.wait_for_function(
            "() => document.querySelector('[data-head=\"0.3\"][aria-current=true]') !== null"
        )
        assert not axe(page, "#cell")
        shot(page, "saved")
        page.evaluate("end()")
        assert page.evaluate("model.listening()") == 0


@pytest.mark.parametrize(("ground", "theme"), [("#111318", "dark"), ("#fdfdfd", "light")])
def test_the_colours_are_those_of_the_notebook(
    book: Any,
    browser: Browser,
    tmp_path: Path,
    shot: Callable[..., Path],
    ground: str,
    theme: str,
) -> None:
    path = notebook_help.front_end(notebook_help.saved_widget(book, 1), tmp_path, ground)
    other = "light" if theme == "dark" else "dark"
    with open_page(browser, path, color_scheme=other) as page:
        page.wait_for_function(READY)
        paint = "getComputedStyle(document.querySelector('.headwise')).getPropertyValue('--dark')"
        assert page.evaluate(paint).strip() == ("1" if theme == "dark" else "0")
        shot(page, theme)


def test_of_a_long_text_the_kernel_gives_the_cells(
    browser: Browser,
    tiny_records: dict[str, Record],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from headwise.show.notebook import widget as home

    monkeypatch.setattr(home, "chunks_of", lambda scenes: data.chunks_of(scenes, most=2000))
    shown = hw.view([tiny_records["encoder"], tiny_records["decoder"]])
    assert (shown.chunks, shown.places) == (b"", {})
    kernel = notebook_help.Kernel(shown)
    path = notebook_help.front_end(notebook_help.saved_of(shown), tmp_path)
    with open_page(browser, "about:blank") as page:
        page.expose_function("toKernel", kernel)
        page.goto(path.as_uri())
        page.wait_for_function(READY)
        page.wait_for_function(INK)
        page.locator('[data-head="1.1"]').first.click()
        page.wait_for_function("() => model.get('state').head === '1.1'")
    keys = [(one["what"], one["scene"], one["key"]) for one in kernel.asked if "key" in one]
    assert ("chunk", 0, "1.1") in keys


def test_the_kernel_answers_what_there_is_and_refuses_the_rest(
    tiny_records: dict[str, Record],
) -> None:
    scene = Scene(tiny_records["decoder"])
    assert data.answer([scene], {"what": "chunk", "scene": 0, "key": "1.2"}) == scene.chunk("1.2")
    rows = {"what": "rows", "scene": 0, "head": "1.2", "from": 2, "to": 5}
    assert data.answer([scene], rows) == scene.rows("1.2", 2, 5)
    for wrong, why in (
        ({"what": "chunk", "scene": 1, "key": "1.2"}, "no text 1"),
        ({"what": "chunk", "scene": 0, "key": "9.9"}, "no cells of '9.9'"),
        ({**rows, "to": 1}, "rows 2 to 1"),
        ({**rows, "to": 999}, "rows 2 to 999"),
        ({"what": "files", "scene": 0}, "not known here"),
    ):
        with pytest.raises((ConfigError, HeadError), match=why):
            data.answer([scene], wrong)
        kernel = notebook_help.Kernel(hw.view(tiny_records["decoder"]))
        told = kernel({**wrong, "id": "7"})
        assert told["told"]["id"] == "7"
        assert why in told["told"]["error"]
        assert not told["buffers"]


def test_a_view_knows_its_names_and_heads(tiny_records: dict[str, Record]) -> None:
    record = tiny_records["decoder"]
    with pytest.raises(ConfigError, match="a view has no 'haed'; its names are scene, head, tab"):
        record.show(start={"haed": "1.2"})
    with pytest.raises(HeadError, match=r"no (head|layer) 9"):
        record.show(start={"head": "9.9"})
    with pytest.raises(ConfigError, match="at least one, came none"):
        hw.view([])
    shown = record.show()
    with pytest.raises(HeadError, match=r"no (head|layer) 9"):
        shown.state["head"] = "9.9"
    shown.state.update(head="1.1", query=3)
    assert (shown.state["head"], shown.state["query"]) == ("1.1", 3)
    shown.set_state({"state": {**shown.state, "head": "0.1"}})  # as a front end does
    shown.state["tab"] = "lines"
    assert (shown.state["head"], shown.state["tab"]) == ("0.1", "lines")


def test_a_mean_of_a_short_text_is_shown_and_answered(tiny_records: dict[str, Record]) -> None:
    scene = Scene(tiny_records["decoder"])
    for mean in ("mean/0", "mean/"):
        assert hw.view(scene.record, start={"head": mean}).state["head"] == mean
        asked = {"what": "chunk", "scene": 0, "key": mean}
        assert data.answer([scene], asked) == scene.chunk(mean)
    with pytest.raises(HeadError, match="no mean 'mean/9': mean/0, mean/1, mean/2, mean/ are"):
        hw.view(scene.record, start={"head": "mean/9"})


def test_the_state_does_all_that_it_can_and_refuses_the_rest(
    tiny_records: dict[str, Record],
) -> None:
    shown = tiny_records["decoder"].show(start={"head": "1.1"})
    seen: list[dict[str, Any]] = []
    shown.observe(lambda change: seen.append(dict(change.new)), "state")
    old = shown.state
    shown.state |= {"head": "1.2", "tab": "lines"}
    assert seen[-1] == {"head": "1.2", "tab": "lines"}
    assert shown.state.setdefault("unit", "words") == "words"
    assert shown.state.setdefault("unit", "tokens") == "words"
    assert seen[-1] == {"head": "1.2", "tab": "lines", "unit": "words"}
    old["query"] = 3  # of the head that is shown now
    assert seen[-1] == {"head": "1.2", "tab": "lines", "unit": "words", "query": 3}
    for take in (
        lambda: shown.state.pop("head"),
        lambda: shown.state.popitem(),
        lambda: shown.state.clear(),
        lambda: shown.state.__delitem__("head"),
    ):
        with pytest.raises(ConfigError, match="nothing can be taken out"):
            take()
    with pytest.raises(ConfigError, match="'zoom' takes"):
        shown.state |= {"zoom": 5}
    assert len(seen) == 3
    assert dict(shown.state) == seen[-1]


@pytest.mark.parametrize(
    ("height", "css"),
    [(400, "400px"), (62.5, "62.5px"), ("60vh", "60vh"), ("", ""), ("300px", "300px")],
)
def test_a_height_is_pixels_or_css(tiny_records: dict[str, Record], height: Any, css: str) -> None:
    assert hw.view(tiny_records["decoder"], height=height).height == css


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    "height", ["400", "high", 0, -3, float("nan"), True, None, "1px;color:red"]
)
def test_no_height_is_refused(tiny_records: dict[str, Record], height: Any) -> None:
    with pytest.raises(ConfigError, match="height takes pixels"):
        hw.view(tiny_records["decoder"], height=height)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("given", [None, 3, "a text", [None], []])
def test_what_is_no_record_is_not_shown(given: Any) -> None:
    with pytest.raises(ConfigError, match=r"takes records from hw\.look"):
        hw.view(given)


def test_readers_without_scripts_get_a_picture_with_words(tiny_records: dict[str, Record]) -> None:
    bundle, told = hw.view(tiny_records["encoder-decoder"])._repr_mimebundle_()
    assert bundle["image/png"].startswith(b"\x89PNG")
    assert notebook_help.VIEW in bundle
    assert "text/html" not in bundle  # some readers would prefer it, and strip what it holds
    assert told["image/png"]["alt"].startswith(
        "Heads of BartForConditionalGeneration on “The animal"
    )


def test_without_anywidget_the_page_is_in_a_frame(
    browser: Browser,
    tiny_records: dict[str, Record],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    shot: Callable[..., Path],
) -> None:
    monkeypatch.setattr(showing, "find_spec", lambda name: None)
    monkeypatch.setitem(sys.modules, "anywidget", None)
    shown = tiny_records["mixed"].show(start={"head": "1.3"}, height="500px")
    bundle, told = shown._repr_mimebundle_()
    assert bundle["image/png"].startswith(b"\x89PNG")
    assert told["image/png"]["alt"]
    assert "pip install 'headwise[notebook]'" in bundle["text/plain"]
    path = tmp_path / "cell.html"
    head = '<!doctype html><html lang="en"><meta charset="utf-8"><title>cell</title>'
    path.write_text(f'{head}<link rel="icon" href="data:,">{bundle["text/html"]}', "utf-8")
    with open_page(browser, path) as page:
        frame = page.frame_locator("iframe")
        frame.locator('[data-head="1.3"][aria-current="true"]').first.wait_for()
        frame.locator('[data-head="2.0"]').first.click()
        frame.locator('[data-head="2.0"][aria-current="true"]').first.wait_for()
        shot(page, "frame")


def test_a_long_page_is_not_put_into_a_frame(
    tiny_records: dict[str, Record], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(still, "_FRAMED", 1000)
    shown = still.Still([Scene(tiny_records["encoder"])], {})
    assert set(shown._repr_mimebundle_()[0]) == {"image/png", "text/plain"}
