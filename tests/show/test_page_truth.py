"""What the page says in words of rows that are not simply whole: no numbers, a learned sink, too little left."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch

import headwise as hw
from browser_help import open_page

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from headwise.see.record import Record

Files = Callable[..., Path]
Records = dict[str, Any]
HEAD, QUERY, KEY = "1.3", 7, 2
LONG = "Don't stop: the animal, which was (too) tired, did not cross. " * 3


def with_scores(record: Record, change: Callable[[Any], dict[str, Any]]) -> Record:
    layers = {
        id: replace(layer, scores=replace(layer.scores, **change(layer.scores)))
        for id, layer in record.layers.items()
    }
    return replace(record, layers=layers)


def readouts(page: Page) -> dict[str, str]:
    """What the map, the strip and the numbers say of the token that is asked about."""
    page.wait_for_selector(".hw-of-token h3")
    page.wait_for_selector(".hw-map canvas[data-shows]")
    page.wait_for_timeout(150)
    names = {"map": ".hw-map-read", "strip": ".hw-strip-line", "numbers": ".hw-of-token"}
    return {name: page.locator(where).inner_text() for name, where in names.items()}


def number_after(words: str, text: str) -> float:
    found = re.search(words + r"\D*?(\d?\.\d+)", text)
    assert found is not None, (words, text)
    return float(found[1])


@pytest.mark.parametrize("unit", ["tokens", "words"])
def test_weights_that_are_none_are_said_to_be_none(
    browser: Browser, page_file: Files, tiny_records: Records, unit: str
) -> None:
    record = tiny_records["decoder"]
    q = next(iter(record.layers.values())).scores.q.clone()
    q[:, :, QUERY] = float("nan")
    broken = with_scores(record, lambda _: {"q": q})
    place = f"head={HEAD}&query={QUERY}&key={KEY}&pinned=1&unit={unit}"
    for least in (0.0, 0.1):
        for scope in ("head", "layer"):
            path = page_file(broken, least=least)
            with open_page(browser, path, f"{place}&scope={scope}") as page:
                for name, text in readouts(page).items():
                    assert "no number" in text, (name, text)
                    assert ".000" not in text
                    assert "of its row" not in text
    with open_page(browser, page_file(record), place) as page:
        assert not any("no number" in text for text in readouts(page).values())


@pytest.mark.parametrize("unit", ["tokens", "words"])
def test_a_learned_sink_is_named_with_what_it_takes(
    browser: Browser, page_file: Files, tiny_records: Records, unit: str
) -> None:
    record = with_scores(tiny_records["encoder"], lambda _: {"sink": torch.full((4,), 4.0)})
    exact = record.pattern(HEAD, words=unit == "words").values
    words = record.sides[0].words
    units = (
        [(w.first, w.last) for w in words]
        if unit == "words"
        else [(i, i + 1) for i in range(len(exact))]
    )
    q = int((exact.sum(1) * (np.arange(len(exact)) > 1)).argsort()[len(exact) // 2])
    lacks = 1 - exact[q].sum()
    assert 0.1 < lacks < 0.95
    place = f"head={HEAD}&query={units[q][0]}&key={units[2][0]}&pinned=1&unit={unit}"
    with open_page(browser, page_file(record), place) as page:
        found = readouts(page)
        for name, text in found.items():
            assert abs(number_after("a learned sink takes", text) - lacks) < 0.01, (name, text)
        parts = page.locator(".hw-gives .hw-part").all_inner_texts()
        assert sum(float(text.split()[-1].lstrip("<")) for text in parts) == pytest.approx(
            1, abs=0.02
        )
        rows = page.locator(".hw-of-token .hw-row .hw-part-said").all_inner_texts()
        total = sum(number_after("", text) for text in rows)
        assert total == pytest.approx(1, abs=0.03)
    with open_page(browser, page_file(tiny_records["encoder"]), place) as page:
        assert not any("sink" in text for text in readouts(page).values())


def test_of_too_little_no_row_is_made(
    browser: Browser, page_file: Files, tiny_records: Records
) -> None:
    bias = torch.zeros(1, 1, 1, 13)
    bias[..., 0] = 12.0
    record = with_scores(
        tiny_records["decoder"], lambda scores: {"q": scores.q * 0.02, "bias": bias}
    )
    exact = record.weights(HEAD)
    assert (exact[:, 1:].sum(1) < 0.01).all()
    place = f"head={HEAD}&query={QUERY}&key={KEY}&pinned=1&first=renormalised"
    with open_page(browser, page_file(record), place) as page:
        for name, text in readouts(page).items():
            assert "too little of this row is left to renormalise" in text, (name, text)
        assert "<.001" in page.locator(".hw-map-read").inner_text()
        line = page.locator(".hw-map-apart").inner_text()
        assert "too little is left in 13 rows to renormalise: shown as they are" in line
        assert "scaled to what the row had" in line


@pytest.mark.parametrize("unit", ["tokens", "words"])
def test_lines_of_a_layer_tell_what_its_heads_hold_apart(
    browser: Browser, page_file: Files, unit: str
) -> None:
    import tiny_help

    record = hw.look(tiny_help.decoder(), LONG)
    means = [record.pattern(f"1.{h}", words=unit == "words").values[:, 0].mean() for h in range(4)]
    assert max(means) - min(means) > 0.02
    place = f"head=1.2&tab=lines&scope=layer&unit={unit}&first=hidden"
    for least in (0.0, 0.1):
        with open_page(browser, page_file(record, least=least), place) as page:
            page.wait_for_selector(".hw-lines canvas[data-shows='1.0 1.1 1.2 1.3']")
            says = page.locator(".hw-lines-says")
            assert number_after("first token hidden: it holds", says.inner_text()) == pytest.approx(
                np.mean(means), abs=0.006
            )
            for at in (0, 1):
                page.locator(".hw-lines-heads button").nth(at).click()
            page.wait_for_timeout(100)
            assert number_after("first token hidden: it holds", says.inner_text()) == pytest.approx(
                np.mean(means[2:]), abs=0.006
            )


@pytest.mark.parametrize("unit", ["tokens", "words"])
def test_far_links_are_those_that_are_shown(
    browser: Browser, page_file: Files, tiny_records: Records, unit: str
) -> None:
    record = tiny_records["encoder"]
    exact, side = record.pattern("1.1", words=unit == "words").values, record.sides[0]
    apart = [
        not any(map(str.isalnum, x.text)) or x.special
        for x in (side.words if unit == "words" else side.tokens)
    ]
    keys = np.array([i > 0 and not own for i, own in enumerate(apart)])
    for way in ("shown", "renormalised"):
        weights = exact / (1 if way == "shown" else 1 - exact[:, :1])
        far = np.abs(np.subtract.outer(np.arange(len(exact)), np.arange(len(exact)))) >= 3
        best = np.sort(np.where(far & keys, weights, 0), axis=None)[::-1][:3]
        with open_page(browser, page_file(record), f"head=1.1&unit={unit}&first={way}") as page:
            page.wait_for_selector("text=Strongest far links")
            part = page.locator(".hw-of-head", has=page.get_by_text("Strongest far links"))
            said = [float(x) for x in part.locator(".hw-part-said").all_inner_texts()[-3:]]
            np.testing.assert_allclose(said, best, atol=0.0065)
            title = part.get_by_text("Strongest far links").inner_text()
            assert ("by words" in title) == (unit == "words")
            assert ("renormalised" in title) == (way == "renormalised")
