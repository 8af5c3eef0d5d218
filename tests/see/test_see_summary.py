"""What each head does most, its telling links, and what one word looks at."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import headwise as hw
from headwise.core import masks
from headwise.names import LayerId, TextError
from headwise.see.record import LayerRecord, Record
from headwise.see.summary import DOES, summarise
from headwise.see.telling import telling
from headwise.see.texts.tokens import Token
from headwise.see.wording import looks_of, places_of

Make = Callable[..., LayerRecord]
WORDS = ["a", "b", "a", "c", "d", "b", "a", "e"]
N = len(WORDS)


def looking_at(key: Callable[[int], int | None], sharp: float = 0.9) -> list[list[float]]:
    """A pattern that gives `sharp` to one key of each query, the rest shared by all keys it may see."""
    rows = np.tri(N) / np.arange(1, N + 1)[:, None]
    for q in range(N):
        k = key(q)
        if k is not None:
            rows[q] = rows[q] * (1 - sharp)
            rows[q, k] += sharp
    return rows.tolist()


def earlier_same(q: int) -> int | None:
    return max((k for k in range(q) if WORDS[k] == WORDS[q]), default=None)


PATTERNS = {
    "previous": looking_at(lambda q: q - 1 if q else None),
    "self": looking_at(lambda q: q),
    "first": looking_at(lambda q: 0),
    "same token": looking_at(earlier_same),
    "spread": looking_at(lambda q: None),
    "other": looking_at(lambda q: max(0, q - 2) if q > 2 else None),
}


def record_of(*layers: LayerRecord) -> Record:
    return Record("made", {layer.id: layer for layer in layers})


@pytest.mark.parametrize("does", PATTERNS)
def test_each_rule_is_found(layer_of: Make, does: str) -> None:
    layer = layer_of([PATTERNS[does]], WORDS, mask=masks.causal())
    (summary,) = summarise(record_of(layer))
    assert summary.does == does
    assert summary.mass > 0.7 or does == "other"
    assert set(summary.masses) == set(DOES[:4])


def test_heads_keep_their_places(layer_of: Make) -> None:
    order = list(PATTERNS)
    layer = layer_of([PATTERNS[does] for does in order], WORDS, mask=masks.causal())
    summaries = summarise(record_of(layer))
    assert [s.does for s in summaries] == order
    assert [str(s.id) for s in summaries] == [f"0.{h}" for h in range(6)]


def test_masses_by_hand(layer_of: Make) -> None:
    """Rows where two rules name one key are left out of both: row 1's previous is the first token."""
    pattern = [[1, 0, 0, 0], [0.6, 0.4, 0, 0], [0.1, 0.7, 0.2, 0], [0.2, 0, 0.5, 0.3]]
    layer = layer_of([pattern], ["a", "b", "c", "b"], mask=masks.causal())
    (summary,) = summarise(record_of(layer))
    assert summary.masses["previous"] == pytest.approx((0.7 + 0.5) / 2)
    assert summary.masses["self"] == pytest.approx((0.4 + 0.2 + 0.3) / 3)
    assert summary.masses["first"] == pytest.approx((0.1 + 0.2) / 2)
    assert summary.masses["same token"] == pytest.approx(0.0, abs=1e-6)
    assert (summary.does, summary.mass) == ("previous", pytest.approx(0.6))


def test_spread_is_the_entropy_over_what_may_be_seen(layer_of: Make) -> None:
    (summary,) = summarise(record_of(layer_of([PATTERNS["spread"]], WORDS, mask=masks.causal())))
    assert summary.mass == pytest.approx(1, abs=1e-5)  # even over what each row may see
    rows = np.array([[0.25] * 4, [0.25] * 4, [0.1, 0.2, 0.3, 0.4], [0.4, 0.3, 0.2, 0.1]])
    (summary,) = summarise(record_of(layer_of([rows.tolist()], list("abcd"))))
    evenness = -(rows * np.log(rows)).sum(1) / np.log(4)
    assert summary.does == "spread"
    assert summary.mass == pytest.approx(evenness.mean(), abs=1e-5)


def test_a_long_text_in_blocks_is_summarised_the_same(
    layer_of: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = record_of(layer_of(list(PATTERNS.values()), WORDS, mask=masks.causal()))
    whole = summarise(record)
    monkeypatch.setattr("headwise.core.scores.BLOCK_CELLS", 6 * N * 3)
    assert len(list(record.layers[LayerId("", 0)].scores.blocks())) == 3
    for one, other in zip(summarise(record), whole, strict=True):
        assert one.does == other.does
        assert [c.weight for c in one.top] == pytest.approx([c.weight for c in other.top])
        weights = record.weights(one.id)
        assert all(weights[c.query, c.key] == pytest.approx(c.weight) for c in one.top)
        assert one.masses == pytest.approx(other.masses)


def test_masses_and_links_of_a_random_model(bytes_model: hw.Model) -> None:
    for text in ("the cat sat on the mat", "x", "xy", "它很累"):
        record = hw.look(bytes_model, text)
        for summary in summarise(record, top=2):
            assert summary.does in DOES
            assert 0 <= summary.mass <= 1 + 1e-6
            assert all(0 <= mass <= 1 + 1e-6 for mass in summary.masses.values())
            assert len(summary.top) <= 2
            weights = record.weights(summary.id)
            for cell in summary.top:
                assert weights[cell.query, cell.key] == pytest.approx(cell.weight)
                assert cell.key != 0


def test_top_links_are_the_strongest_far_words(layer_of: Make) -> None:
    tokens = ["[S]", "a", ".", "b", "c", "d", "e", "f"]
    pattern = np.full((N, N), 1e-6)
    strong = {(7, 2): 0.22, (7, 6): 0.25, (7, 1): 0.3, (6, 3): 0.4, (5, 1): 0.2}
    for cell, weight in strong.items():
        pattern[cell] = weight
    pattern[:, 0] += 1 - pattern.sum(1)
    layer = layer_of([pattern.tolist()], tokens)
    (summary,) = summarise(record_of(layer), top=3)
    assert [(c.query, c.key) for c in summary.top] == [(6, 3), (7, 1), (5, 1)]


def test_positions_that_are_no_tokens(layer_of: Make) -> None:
    """Patches have a previous and a self and links, but none is the same token as another."""
    from dataclasses import replace

    patches = tuple(Token(-1, str(i), 0, 0, special=True) for i in range(N))
    layer = layer_of([PATTERNS["previous"]], WORDS)
    side = replace(layer.queries, text="", tokens=patches)
    (summary,) = summarise(record_of(replace(layer, queries=side, keys=side)))
    assert summary.does == "previous"
    assert summary.masses["same token"] == 0
    assert summary.top


def test_cross_attention_knows_only_the_first(layer_of: Make) -> None:
    pattern = [[0.05, 0.9, 0.05], [0.05, 0.05, 0.9]]
    cross = LayerId("cross", 0)
    layer = layer_of([pattern], ["x", "y"], keys=["a", "b", "c"], id=cross)
    (summary,) = summarise(record_of(layer))
    assert summary.does == "other"
    assert summary.masses["previous"] == summary.masses["self"] == 0
    same_text = layer_of([PATTERNS["self"]], WORDS, id=cross)
    (summary,) = summarise(record_of(same_text))
    assert summary.masses["self"] == 0  # another text, though the words are the same


def test_means_are_those_of_the_statistics_of_rows(bytes_model: hw.Model) -> None:
    record = hw.look(bytes_model, "it sat at it, at it")
    rows = record.statistics()
    for summary in summarise(record):
        at = {"layer": summary.id.layer, "head": summary.id.head}
        for name in ("entropy", "distance", "largest"):
            mean = float(rows[name].isel(at).mean())
            assert summary.means[name] == pytest.approx(mean, rel=1e-4)
        first = record.weights(summary.id)[:, 0].mean()
        assert summary.means["to_first"] == pytest.approx(first, rel=1e-4)


def test_progress_of_a_summary(bytes_model: hw.Model) -> None:
    seen: list[Any] = []
    summarise(hw.look(bytes_model, "ab"), progress=lambda *at: seen.append(at))
    assert seen == [(1, 2), (2, 2)]


def test_the_telling_head_is_the_one_whose_link_others_do_not_share(layer_of: Make) -> None:
    """Five heads share a strong link; one alone has a weaker one, and comes first."""
    shared = looking_at(lambda q: 1 if q == 7 else 0, 0.9)
    alone = looking_at(lambda q: 3 if q == 6 else 0, 0.6)
    layer = layer_of([shared] * 5 + [alone], list("abcdefgh"), mask=masks.causal())
    record = record_of(layer)
    found = telling(record, summarise(record), 3)
    (first, cell), *_ = found
    assert str(first.id) == "0.5"
    assert (cell.query, cell.key) == (6, 3)
    assert cell.weight == pytest.approx(0.6 + 0.4 / 7, abs=1e-4)
    assert len({summary.id for summary, _ in found}) == 3
    assert telling(record, summarise(record), 0) == []


def test_nothing_is_telling_in_one_token(layer_of: Make) -> None:
    record = record_of(layer_of([[[1.0]]], ["a"]))
    assert telling(record, summarise(record), 3) == []


def word_looks(record: Record, wanted: str, **how: bool) -> dict[str, Any]:
    (place,) = places_of(record, wanted)
    return {str(look.head): look for look in looks_of(record, place, **how)}


def test_what_a_word_looks_at(layer_of: Make) -> None:
    near = [[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.5, 0.3, 0.2, 0], [0.4, 0.2, 0.1, 0.3]]
    far = [[1, 0, 0, 0], [0.5, 0.5, 0, 0], [0.5, 0.3, 0.2, 0], [0.1, 0.1, 0.7, 0.1]]
    record = record_of(layer_of([near, far], ["w", "x", "y", "z"], mask=masks.causal()))
    looks = word_looks(record, "z")
    assert list(looks) == ["0.1", "0.0"]  # the strongest look first
    assert [name for name, _ in looks["0.0"].looks_at] == ["z", "x", "y"]
    assert dict(looks["0.0"].looks_at) == pytest.approx({"z": 0.3, "x": 0.2, "y": 0.1})
    assert looks["0.0"].first == pytest.approx(0.4)
    assert looks["0.0"].strength == pytest.approx(0.2)  # not the 0.3 on itself
    shares = word_looks(record, "z", renormalise=True)["0.0"]
    assert dict(shares.looks_at) == pytest.approx({"z": 0.5, "x": 1 / 3, "y": 1 / 6})
    assert shares.first == pytest.approx(0.4)  # stays what it was


def test_the_first_word_itself_has_no_sink(layer_of: Make) -> None:
    record = record_of(layer_of([[[1, 0], [0.5, 0.5]]], ["w", "x"], mask=masks.causal()))
    look = word_looks(record, "w")["0.0"]
    assert look.first is None
    assert dict(look.looks_at) == pytest.approx({"w": 1.0}, abs=1e-6)


def test_a_word_of_several_tokens_looks_with_their_mean(bytes_model: hw.Model) -> None:
    record = hw.look(bytes_model, "a bc def")
    look = word_looks(record, "bc")["1.3"]
    by_words = record.pattern("1.3", words=True)
    assert dict(look.looks_at)["bc"] == pytest.approx(float(by_words[1, 1]))
    assert look.first == pytest.approx(float(by_words[1, 0]))
    assert "def" not in dict(look.looks_at)  # it lies ahead


def test_only_heads_that_read_the_words_text_are_asked() -> None:
    from headwise.nn import EncoderDecoder, TransformerConfig

    torch.manual_seed(0)
    config = TransformerConfig(vocab_size=30, d_model=24, num_layers=1, num_heads=4, d_ff=32)
    ids = {"input_ids": torch.tensor([[5, 6, 7]]), "decoder_input_ids": torch.tensor([[1, 9]])}
    (record,) = hw.look(hw.load(EncoderDecoder(config)), ids)
    assert set(word_looks(record, "6")) == {f"encoder.0.{h}" for h in range(4)}
    written = word_looks(record, "9")
    assert set(written) == {f"{stream}.0.{h}" for stream in ("decoder", "cross") for h in range(4)}
    assert set(dict(written["cross.0.1"].looks_at)) == {"5", "6", "7"}
    with pytest.raises(TextError, match="'8' is not in the text"):
        places_of(record, "8")
