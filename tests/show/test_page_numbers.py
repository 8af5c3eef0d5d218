"""The numbers beside the map are the record's: a head's standing, one token's row and column, what is apart."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from browser_help import open_page
from headwise.show.page.scene import Scene

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from headwise.see.record import Record

LISTED = 6
HEAD, QUERY, KEY = "1.3", 7, 2


def said(text: str) -> float:
    """A number as the page writes it."""
    return 0.0005 if text.startswith("<") else float(text)


def lines(page: Page, within: str) -> list[tuple[str, float]]:
    """Names and numbers of a list of bars, without the marks that keep a text's direction."""
    found = page.locator(f".hw-of-token {within} li")
    names = found.locator(".hw-part-name").all_text_contents()
    values = found.locator(".hw-part-said").all_text_contents()
    return [
        (re.sub("[\u2068\u2069]", "", name), said(value))
        for name, value in zip(names, values, strict=True)
    ]


def close(x: float, exact: float) -> bool:
    """Whether a number is one as far as the page tells it: three digits after the point, from .1 on two."""
    return abs(x - exact) <= (0.0011 if exact < 0.1 else 0.0061)


def row_of(page: Page) -> list[tuple[str, float]]:
    return lines(page, ".hw-row")


def shown(page: Page) -> None:
    page.wait_for_selector(".hw-of-token h3")


@pytest.mark.parametrize("least", [0.0, 0.3])
def test_a_token_s_row_adds_up_to_the_record_s(
    browser: Browser,
    page_file: Callable[..., Path],
    tiny_records: dict[str, Record],
    least: float,
) -> None:
    record = tiny_records["decoder"]
    exact, side = record.weights(HEAD)[QUERY], record.sides[0]
    path = page_file(record, least=least)
    with open_page(browser, path, f"head={HEAD}&query={QUERY}&key={KEY}") as page:
        shown(page)
        found = row_of(page)
    first = [value for name, value in found if name == "first token"]
    apart = {name for name, _ in found if name == "first token" or "separator" in name}
    links = [one for one in found if one[0] not in apart and "together" not in one[0]]
    alone = {
        i for i, t in enumerate(side.tokens) if t.special or not any(c.isalnum() for c in t.text)
    }
    eligible = [k for k in range(1, QUERY + 1) if k not in alone and exact[k] >= max(least, 5e-7)]
    strongest = sorted(eligible, key=lambda k: -exact[k])[:LISTED]
    assert [name for name, _ in links] == [side.tokens[k].label for k in strongest]
    assert all(close(x, exact[k]) for (_, x), k in zip(links, strongest, strict=True))
    assert len(first) == 1  # whether its cell was kept or not
    assert all(close(x, exact[0]) for x in first)
    assert abs(sum(x for _, x in found) - 1) < 0.02
    others = [name for name, _ in found if "together" in name]
    wanted = QUERY + 1 - len(strongest) - 1 - len(alone & set(range(1, QUERY + 1)))
    assert others == ([] if not wanted else [f"{wanted} other{'s' * (wanted > 1)} together"])


def test_a_token_s_column_is_the_record_s(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record]
) -> None:
    record = tiny_records["decoder"]
    exact, tokens = record.weights(HEAD)[:, KEY], record.tokens
    with open_page(browser, page_file(record), f"head={HEAD}&query={QUERY}&key={KEY}") as page:
        shown(page)
        found = lines(page, ".hw-column")
    order = sorted(range(KEY, len(exact)), key=lambda q: -exact[q])
    links, rest = found[:LISTED], found[LISTED:]
    assert [name for name, _ in links] == [tokens[q].label for q in order[:LISTED]]
    assert all(close(x, exact[q]) for (_, x), q in zip(links, order, strict=False))
    (others,) = rest
    assert others[0] == f"{len(order) - LISTED} others together"
    assert close(others[1], exact[order[LISTED:]].sum())


def test_by_words_the_row_is_that_of_the_words(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record]
) -> None:
    record = tiny_records["mixed"]
    head = str(record.heads()[1])
    exact = record.pattern(head, words=True).values
    words = record.sides[0].words
    at = len(words) - 2
    with open_page(
        browser, page_file(record), f"head={head}&unit=words&query={words[at].first}"
    ) as page:
        shown(page)
        found = dict(row_of(page))
    for i, word in enumerate(words):
        if word.text in found and [w.text for w in words].count(word.text) == 1:
            assert close(found[word.text], exact[at, i])
    assert len(found) >= 3


@pytest.mark.parametrize(("way", "word"), [("hidden", "hidden"), ("renormalised", "left out")])
def test_what_is_set_apart_is_told(
    browser: Browser,
    page_file: Callable[..., Path],
    tiny_records: dict[str, Record],
    way: str,
    word: str,
) -> None:
    record = tiny_records["decoder"]
    exact = record.weights(HEAD)[QUERY]
    with open_page(
        browser, page_file(record), f"head={HEAD}&query={QUERY}&key=0&first={way}"
    ) as page:
        shown(page)
        found = row_of(page)
        assert "set apart" in page.locator(".hw-of-token").inner_text()
    (first,) = [value for name, value in found if name == f"first token, {word}"]
    assert close(first, exact[0])
    (top,) = [value for _, value in found[:1]]
    scale = 1 if way == "hidden" else 1 / (1 - exact[0])
    assert close(top, exact[1 : QUERY + 1].max() * scale)


def test_a_head_s_place_among_all_is_counted(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record]
) -> None:
    record = tiny_records["decoder"]
    entropy = record.statistics()["entropy"].values.mean(-1)
    layer, head = map(int, HEAD.split("."))
    place = int((entropy > entropy[layer, head]).sum()) + 1
    ordinal = {1: "1st", 2: "2nd", 3: "3rd"}.get(place, f"{place}th")
    with open_page(browser, page_file(record), f"head={HEAD}") as page:
        line = page.locator(".hw-of-head .hw-ranked", has_text="Entropy")
        assert line.locator(".hw-part-more").inner_text() == ordinal
        assert float(line.locator(".hw-part-said").inner_text()) == pytest.approx(
            entropy[layer, head], rel=0.01
        )
        title = page.locator(".hw-of-head h2").inner_text()
        assert title == f"Head {HEAD} (KV group {record.layer_of(record.heads()[7]).kv_group(3)})"
        page.locator(".hw-numbers-link").first.click()
        page.wait_for_function("location.hash.includes('head=1.2')")


def test_a_link_clicked_is_pinned(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record]
) -> None:
    record = tiny_records["decoder"]
    top = Scene(record).index["heads"][HEAD]["top"][0]
    with open_page(browser, page_file(record), f"head={HEAD}") as page:
        page.locator(".hw-of-head .hw-bars button").first.click()
        shown(page)
        wanted = f"query={top[0]}&key={top[1]}"
        page.wait_for_function("(part) => location.hash.includes(part)", arg=wanted)
        name = page.locator(".hw-of-token h3").first.inner_text()
        assert record.tokens[top[0]].label in name
        assert page.locator(".hw-of-token .hw-chosen").count() >= 1


def test_evidence_is_shown_where_there_is_some_and_missed_where_not(
    browser: Browser, page_file: Callable[..., Path], tiny_records: dict[str, Record]
) -> None:
    scene = Scene(tiny_records["decoder"])
    with open_page(browser, page_file(scene), f"head={HEAD}") as page:
        assert "No corpus numbers" in page.locator(".hw-evidence").inner_text()
    text = "<i>The dog</i> that chased 狗"
    at = text.index("chased")
    case = {"text": text, "before": at, "query": "chased", "key": [3, 10], "weight": 0.8}
    claim = {"title": "Role: subject", "lines": ["0.41 share of hits"], "cases": [case]}
    scene.index["evidence"][HEAD] = [claim]
    with open_page(browser, page_file(scene), f"head={HEAD}") as page:
        found = page.locator(".hw-evidence")
        assert "Role: subject" in found.inner_text()
        assert found.locator("i").count() == 0
        assert found.locator("mark").all_inner_texts() == ["The dog", "chased"]
        assert np.isclose(said(found.locator("li p").first.inner_text().split()[-1]), 0.8)


@pytest.mark.parametrize(
    ("scope", "words"),
    [("layer", "mean over the heads of layer 1"), ("all", "mean over all heads")],
)
def test_they_tell_what_the_strip_tells(
    browser: Browser,
    page_file: Callable[..., Path],
    tiny_records: dict[str, Record],
    scope: str,
    words: str,
) -> None:
    record = tiny_records["encoder"]
    layers = [1] if scope == "layer" else [0, 1]
    mean = np.mean([record.weights(f"{at}.{head}") for at in layers for head in range(4)], axis=0)
    hash = f"head={HEAD}&query={QUERY}&scope={scope}"
    with open_page(browser, page_file(record), hash) as page:
        page.locator(".hw-of-scope").get_by_text(words).wait_for()
        row = row_of(page)
        strip = page.locator(".hw-strip-line .hw-gives").inner_text()
    first = next(value for name, value in row if name == "first token")
    assert close(first, float(mean[QUERY, 0]))
    strongest = row[0][1]
    assert any(close(strongest, float(x)) for x in np.sort(mean[QUERY])[-4:])
    assert words in strip
