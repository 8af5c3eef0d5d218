"""The viewer's arithmetic on the bytes of a page, run in a browser: set apart, hidden, renormalised, by words."""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from page_help import changed, small

import headwise as hw
from headwise.see.texts.words import to_words
from headwise.show.page.apart import apart_keys
from headwise.show.page.bundle import script
from headwise.show.page.scene import Scene

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

TEXT = "Don't stop: the animal, which was (too) tired, did not cross. " * 3
HEADS = ("0.1", "1.2", "2.3")
WAYS = ("shown", "hidden", "renormalised")
KINDS = ("first", "separator")
LEFT = 0.01

RUN = """async ([codes, data, units, keysOf, ways, sunk]) => {
  const [c, s] = await Promise.all(codes.map((code) => import(`data:text/javascript;base64,${code}`)));
  const bytes = Uint8Array.from(atob(data), (x) => x.charCodeAt(0)), raw = c.readCells(bytes);
  const cells = units ? c.toWords(raw, units, units) : raw, found = s.setApart(cells, keysOf, ways, sunk);
  const upTo = (length) => Array.from({ length }, (_, i) => i), plain = (x) => x && Array.from(x);
  const dense = upTo(cells.queries).map((q) => upTo(cells.keys).map((k) => found.cells.at(q, k)));
  const { others, othersRest, sink, apart, short, shortCount } = found;
  return { dense, rest: plain(found.cells.rest), others: plain(others), othersRest: plain(othersRest),
    sink: plain(sink), apart: [plain(apart.first), plain(apart.separator)], short: plain(short), shortCount };
}"""


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(offline=True)
    yield context.new_page()
    context.close()


@pytest.fixture(scope="module")
def record() -> hw.Record:
    import tiny_help

    return hw.look(tiny_help.decoder(), TEXT)


def run(page: Page, scene: Scene, head: str, unit: str, ways: dict[str, str]) -> dict[str, Any]:
    """What the viewer makes of a head: numbers by name, NaN where a cell was not kept."""
    layer = next(iter(scene.record.layers.values()))
    side, sets = layer.keys, sets_of(layer, unit)
    units = [[w.text, w.first, w.last] for w in side.words] if unit == "words" else None
    keys = {kind: np.flatnonzero(own).tolist() for kind, own in zip(KINDS, sets, strict=True)}
    codes = [base64.b64encode(script(name).encode()).decode() for name in MODULES]
    data = base64.b64encode(zlib.decompress(scene.chunk(head))).decode()
    sunk = layer.scores.sink is not None
    found = page.evaluate(RUN, [codes, data, units, keys, ways, sunk])
    return {name: None if x is None else np.array(x, dtype=float) for name, x in found.items()}


MODULES = ("data/cells.js", "data/setapart.js")


def sets_of(layer: Any, unit: str) -> np.ndarray:
    """Which units are the first one and which are separators."""
    tokens = apart_keys(layer)
    if unit == "tokens":
        return tokens[:2]
    return tokens[2:][:, [word.first for word in layer.keys.words]]


def exact_of(record: hw.Record, head: str, unit: str) -> np.ndarray:
    heads = [head] if not head.startswith("mean/") else [f"{head[5:]}.{h}" for h in range(4)]
    exact = np.mean([record.weights(one) for one in heads], axis=0)
    words = record.sides[0].words
    return to_words(exact, words, words) if unit == "words" else exact


def expected(exact: np.ndarray, sets: np.ndarray, ways: dict[str, str]) -> tuple[np.ndarray, Any]:
    """The pattern as it should be shown, and which rows have too little left."""
    shown, had = exact.copy(), exact.sum(1)
    apart = dict(zip(KINDS, sets, strict=True))
    of = {
        way: sum((exact[:, apart[k]].sum(1) for k in KINDS if ways[k] == way), 0 * had)
        for way in WAYS
    }
    for kind in KINDS:
        if ways[kind] != "shown":
            shown[:, apart[kind]] = 0
    left = had - of["hidden"] - of["renormalised"]
    short = (of["renormalised"] > 0) & (left < LEFT)
    scaled = (of["renormalised"] > 0) & ~short
    shown[scaled] *= ((had - of["hidden"]) / np.maximum(left, 1e-9))[scaled, None]
    return shown, short


@pytest.mark.parametrize("unit", ["tokens", "words"])
@pytest.mark.parametrize("least", [0.0, 0.06])
@pytest.mark.parametrize("first", WAYS)
@pytest.mark.parametrize("separator", WAYS)
def test_rows_add_up_whatever_is_set_apart(
    page: Page, record: hw.Record, unit: str, least: float, first: str, separator: str
) -> None:
    ways = {"first": first, "separator": separator}
    layer, scene = next(iter(record.layers.values())), Scene(record, least=least, side=8)
    sets = sets_of(layer, unit)
    for head in (*HEADS, *(["mean/1"] if least else [])):
        exact = exact_of(record, head, unit)
        found = run(page, scene, head, unit, ways)
        np.testing.assert_allclose(found["apart"], sets @ exact.T, atol=6e-3)
        others = exact[:, ~sets.any(0)].sum(1)
        np.testing.assert_allclose(found["others"], others, atol=8e-3)
        want, short = expected(exact, sets, ways)
        assert np.array_equal(found["short"] > 0, short)
        assert found["shortCount"] == short.sum()
        kept = np.nan_to_num(found["dense"])
        scale = np.maximum(1, want.sum(1) / np.maximum(others, LEFT))
        np.testing.assert_allclose(
            (kept.sum(1) + found["rest"] - want.sum(1)) / scale, 0, atol=8e-3
        )
        assert ((kept - want) / scale[:, None] < 2e-3).all()
        if not least or (unit == "tokens" and head in HEADS):
            there = ~np.isnan(found["dense"])
            np.testing.assert_allclose(((kept - want) / scale[:, None])[there], 0, atol=2e-3)
        own = np.where(sets.any(0), 0, kept).sum(1) + found["othersRest"]
        np.testing.assert_allclose((own - want[:, ~sets.any(0)].sum(1)) / scale, 0, atol=1.2e-2)


def test_of_almost_nothing_no_row_is_made(page: Page) -> None:
    record = changed(small(), scale=1.0)
    layers = {}
    for id, layer in record.layers.items():
        bias = torch.zeros(1, 1, 1, 40)
        bias[..., 0] = 4.6  # a hundred times the weight of another
        q = layer.scores.q * 0.02
        q[:, :, 20:] = 0
        layers[id] = replace(layer, scores=replace(layer.scores, q=q, bias=bias))
    record = replace(record, layers=layers)
    exact = record.weights("0.1")
    ways = {"first": "renormalised", "separator": "shown"}
    found = run(page, Scene(record), "0.1", "tokens", ways)
    left = exact[:, 1:].sum(1)
    assert (left[:2] < LEFT).all()
    assert (left[3:] > LEFT).all()
    assert found["short"].tolist() == (left < LEFT).tolist()
    kept = np.nan_to_num(found["dense"])
    np.testing.assert_allclose(kept[1, 1:], exact[1, 1:], atol=1e-4)
    np.testing.assert_allclose(kept[3:].sum(1), 1, atol=5e-3)
    want = exact[3:, 1:] / left[3:, None]
    np.testing.assert_allclose(kept[3:, 1:], want, atol=0.02)


@pytest.mark.parametrize("unit", ["tokens", "words"])
@pytest.mark.parametrize("least", [0.0, 0.05])
def test_what_a_learned_sink_takes_is_what_rows_lack(page: Page, unit: str, least: float) -> None:
    record = changed(small(), sink=torch.tensor([1.0, -1.0, 3.0, 0.0]))
    for head in ("0.0", "1.2"):
        exact = exact_of(record, head, unit)
        lacks = 1 - exact.sum(1)
        found = run(
            page, Scene(record, least=least, side=8), head, unit, dict.fromkeys(KINDS, "shown")
        )
        named = found["sink"] > 0
        assert named.mean() > 0.8
        np.testing.assert_allclose(found["sink"][named], lacks[named], atol=8e-3)
        assert lacks[~named].max(initial=0) < 0.01
        others = exact[:, ~sets_of(next(iter(record.layers.values())), unit).any(0)].sum(1)
        np.testing.assert_allclose(found["others"], others, atol=8e-3)
    plain = run(page, Scene(small()), "0.0", unit, dict.fromkeys(KINDS, "shown"))
    assert plain["sink"] is None


@pytest.mark.parametrize("unit", ["tokens", "words"])
def test_rows_that_are_no_numbers_stay_none(page: Page, record: hw.Record, unit: str) -> None:
    id, layer = next(iter(record.layers.items()))
    q = layer.scores.q.clone()
    q[0, 1, 7] = float("nan")
    broken = replace(layer, scores=replace(layer.scores, q=q))
    scene = Scene(replace(record, layers={**record.layers, id: broken}))
    found = run(page, scene, "0.1", unit, {"first": "renormalised", "separator": "hidden"})
    at = 7 if unit == "tokens" else next(i for i, w in enumerate(layer.queries.words) if w.last > 7)
    assert np.flatnonzero(np.isnan(found["others"])).tolist() == [at]
    assert np.isnan(found["apart"][:, at]).all()
    assert found["rest"][at] == 0


def test_damaged_bytes_are_refused_at_once(page: Page, record: hw.Record) -> None:
    code = base64.b64encode(script("data/cells.js").encode()).decode()
    whole = zlib.decompress(Scene(record, least=0.05, side=8).chunk("0.1"))
    many = b"\xff" * 4
    cases = [whole[:20], whole[:-1], whole + b"x", b"", many + whole[4:]]
    cases += [whole[:at] + many + whole[at + 4 :] for at in (8, 12)]
    cases += [whole[:4] + b"\x03\0\0\0" + whole[8:], whole[:28] + b"\xff" + whole[29:]]
    run = """async ([code, data]) => {
      const { readCells } = await import(`data:text/javascript;base64,${code}`);
      try {
        readCells(Uint8Array.from(atob(data), (x) => x.charCodeAt(0)));
        return "read";
      } catch (error) { return error.message; }
    }"""
    assert page.evaluate(run, [code, base64.b64encode(whole).decode()]) == "read"
    for data in cases:
        said = page.evaluate(run, [code, base64.b64encode(data).decode()])
        assert said in (
            "bytes are missing",
            "bytes are missing, or too many",
            "rows have other cells than there are",
            "a cell lies beyond the keys",
        )
