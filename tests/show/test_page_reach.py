"""The page of a reach: it holds what reach says, stands alone, and tells the same paths in a browser."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path

import pytest
import torch

from browser_help import opened
from headwise.core import masks
from headwise.core.reach import Reach
from headwise.show.page.reach import reach_page, save_page
from headwise.show.reach_words import ReachWords

LENGTH, SOURCE = 12, 7
OWN = ("causal & window(3)", "causal & window(2) | prefix(1)", "causal & window(3)")
ACROSS = ("window(2)", "window(2)", "window(1)")
ENCODER = ("window(1, ahead=1)", "window(1, ahead=1)")


def some(cached: int = 0) -> tuple[Reach, ReachWords]:
    own, across, encoder = (
        [masks.read(text) for text in texts] for texts in (OWN, ACROSS, ENCODER)
    )
    memory = masks.reach(encoder, length=SOURCE)
    past = masks.reach(own, length=cached, cross=across, memory=memory) if cached else None
    found = masks.reach(own, length=LENGTH, cross=across, memory=memory, past=past)
    return found, ReachWords(OWN, ACROSS, ENCODER)


def data_of(text: str) -> dict:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


def unpacked(rows: list[list[int]]) -> list[list[int]]:
    return [
        [value for value, times in zip(row[::2], row[1::2], strict=True) for _ in range(times)]
        for row in rows
    ]


def test_the_page_holds_what_reach_says() -> None:
    found, words = some(cached=4)
    data = data_of(reach_page(found, words))
    assert (data["length"], data["start"], data["source_length"]) == (LENGTH, 4, SOURCE)
    assert found.memory is not None
    assert found.encoder is not None
    for name, first, seen in (
        ("own", found.first, found.seen),
        ("across", found.memory, found.across),
        ("encoder", found.encoder.first, found.encoder.seen),
    ):
        assert unpacked(data[name]["first"]) == first[0].tolist()
        kept = [unpacked(mask) for mask in data[name]["masks"]]
        assert [kept[turn] for turn in data[name]["turns"]] == [
            one[0].long().tolist() for one in seen
        ]
    assert len(data["own"]["masks"]) == 2
    assert [(one["where"], one["text"], one["layers"]) for one in data["masks"]] == [
        ("decoder, layers 1, 3", OWN[0], [1, 3]),
        ("decoder, layer 2", OWN[1], [2]),
        ("across, layers 1, 2", ACROSS[0], [1, 2]),
        ("across, layer 3", ACROSS[2], [3]),
        ("encoder, all 2 layers", ENCODER[0], []),
    ]


def test_the_page_asks_nothing_of_a_network_and_holds_any_text() -> None:
    found = masks.reach(masks.causal(), length=3)
    words = ReachWords(("因果 </script><script>alert(1)</script> & <b>",))
    text = reach_page(found, words)
    assert data_of(text)["masks"][0]["text"] == words.own[0]
    assert text.count("</script>") == 2
    assert "<title>因果 &lt;/script&gt;" in text
    assert not re.findall(r"""<[^>]+(?:src|href)=["'](?!data:)|url\(|@import""", text)
    assert '<meta charset="utf-8">' in text


def test_a_page_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "页.html"
    save_page(reach_page(masks.reach(masks.causal(), length=3), ReachWords(("二",))), path)
    assert "二" in path.read_text(encoding="utf-8")


def text_in(dom: str, name: str) -> str:
    """The text of the element of a class, without its tags."""
    found = re.search(rf'<(\w+)[^>]*\bclass="{name}"[^>]*>(.*?)</\1>', dom, re.DOTALL)
    assert found is not None, name
    return html.unescape(re.sub(r"<[^>]+>", " ", found[2])).strip()


def told(found: Reach, query: int, key: int, memory: bool) -> str:
    """What the page says of one pair, from the path that reach names."""
    first = found.memory if memory else found.first
    assert first is not None
    name = f"Position {key} of the encoder" if memory else f"Position {key}"
    path = found.path(query, key, memory=memory)
    if path is None:
        return f"{name} never reaches position {query}: no path opens in {found.layers} layers."
    if not path:
        return f"Position {query} holds its own input from the start."
    where = {"self": "layer", "cross": "across in layer", "encoder": "encoder layer"}
    steps = "".join(f" → {hop.query} ({where[hop.stream]} {hop.layer})" for hop in path)
    opens = int(first[0, query, key])
    return f"{name} reaches position {query} from layer {opens} on. A path: {key}{steps}."


@pytest.mark.parametrize(
    ("query", "key", "memory"),
    [
        (11, 6, False),
        (11, 7, False),
        (9, 9, False),
        (3, 8, False),
        (10, 0, False),
        (7, 3, True),
        (8, 2, True),
        (0, 6, True),
    ],
)
def test_a_browser_tells_the_path_that_reach_names(
    tmp_path: Path, query: int, key: int, memory: bool
) -> None:
    found, words = some()
    save_page(reach_page(found, words), tmp_path / "reach.html")
    place = f"q={query}&k={key}&memory={int(memory)}"
    dom = opened(tmp_path / "reach.html", place, tmp_path / "profile")
    assert text_in(dom, "hw-reach-says") == told(found, query, key, memory)


@pytest.mark.parametrize("cached", [0, 5])
def test_a_browser_counts_the_context_after_each_layer(tmp_path: Path, cached: int) -> None:
    found, words = some(cached)
    save_page(reach_page(found, words), tmp_path / "reach.html")
    dom = opened(tmp_path / "reach.html", "layer=2&table=1", tmp_path / "profile")
    assert "2 of 3 layers" in text_in(dom, "hw-reach-now")
    body = re.search(r"<tbody>(.*?)</tbody>", dom, re.DOTALL)
    assert body is not None
    rows = [
        list(map(int, re.findall(r"<td>(\d+)</td>", row))) for row in body[1].split("</tr>")[:-1]
    ]
    reached = found.after(2)[0, cached:]
    wanted = torch.stack(
        [
            torch.arange(cached, LENGTH),
            found.context(2)[0, cached:],
            found.back(2)[0, cached:],
            reached.sum(0)[cached:],
            found.context(2, memory=True)[0, cached:],
        ],
        1,
    )
    assert rows == wanted.tolist()


@pytest.mark.parametrize("length", [1, 12, 200])
def test_a_browser_draws_any_length(tmp_path: Path, length: int) -> None:
    found = masks.reach([masks.causal() & masks.window(4), masks.causal()] * 3, length=length)
    save_page(reach_page(found, ReachWords(("local", "global") * 3)), tmp_path / "reach.html")
    dom = opened(tmp_path / "reach.html", "layer=1", tmp_path / "profile")
    assert f"Position {length - 1}: after 1 of 6 layers" in text_in(dom, "hw-reach-says")
    assert min(4, length) == int(found.context(1)[0, -1])
    assert f"the input of {min(4, length)} position" in text_in(dom, "hw-reach-says")
    sizes = re.findall(
        r'<canvas[^>]*data-map="(?:reach|paths)"[^>]*width="(\d+)" height="(\d+)"', dom
    )
    assert len(sizes) == 2
    assert all(int(wide) > length and int(high) > 10 for wide, high in sizes)
