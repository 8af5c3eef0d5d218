"""What rows hold on keys that can be set apart is all told: kept cells and the others, by tokens and by words."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from page_help import changed, dense, small, unpacked, unpacked_apart

import headwise as hw
from headwise.core import masks
from headwise.names import ConfigError
from headwise.show.page import keeping
from headwise.show.page.apart import SETS, apart_keys
from headwise.show.page.keeping import kept_heads, mean_of
from headwise.show.page.saving import LONGEST, scenes_of
from headwise.show.page.scene import Scene

LEAST = 0.06
TEXT = "Don't stop: the animal, which was (too) tired, did not cross. " * 3


@pytest.fixture(scope="module")
def record() -> hw.Record:
    """A decoder whose first word is of several tokens, with separators of one and of more."""
    import tiny_help

    return hw.look(tiny_help.decoder(), TEXT)


def sets_of(side: object) -> np.ndarray:
    """The same sets from the words' own account."""
    tokens, words = side.tokens, side.words  # type: ignore[attr-defined]
    alone = [t.special or not any(map(str.isalnum, t.text)) for t in tokens]
    found = np.zeros((4, len(tokens)), dtype=bool)
    found[0, 0] = True
    for at, token in enumerate(alone):
        found[1, at] = token and at > 0
    for i, word in enumerate(words):
        for at in range(word.first, word.last):
            found[2, at] = i == 0
            found[3, at] = i > 0 and all(alone[word.first : word.last])
    return found


def test_the_sets_are_those_of_tokens_and_of_words(record: hw.Record) -> None:
    layer = next(iter(record.layers.values()))
    found = apart_keys(layer)
    assert len(found) == len(SETS)
    assert np.array_equal(found, sets_of(record.sides[0]))
    assert found[2].sum() > 1
    assert found[3].sum() > 0


@pytest.mark.parametrize("way", ["streamed", "blocks"])
def test_the_rest_on_each_set_is_the_record_s(
    record: hw.Record, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = next(iter(record.layers.values()))
    streamed = keeping.streamed(layer, LEAST, 8)
    assert streamed is not None
    monkeypatch.setattr(keeping, "streamed", lambda *_: streamed if way == "streamed" else None)
    monkeypatch.setattr(keeping, "BLOCK_CELLS", 4 * len(record.tokens) * 7)
    sets = sets_of(record.sides[0])
    for head, kept in enumerate(kept_heads(layer, LEAST, 8)):
        exact = record.weights(f"0.{head}")
        beside = np.where(dense(kept) > 0, 0, exact)
        assert kept.apart is not None
        np.testing.assert_allclose(kept.apart, sets @ beside.T, atol=2e-6)
        assert kept.apart.max() > 0.05
        assert (kept.apart <= kept.rest + 1e-6).all()


def test_means_tell_it_too(record: hw.Record) -> None:
    scene, sets = Scene(record, least=LEAST), sets_of(record.sides[0])
    for name, heads in (("mean/1", [f"1.{h}" for h in range(4)]), ("mean/", record.heads())):
        exact = np.mean([record.weights(head) for head in heads], axis=0)
        found, _, _ = unpacked(scene.chunk(name))
        on_sets = sets @ np.nan_to_num(found).T + unpacked_apart(scene.chunk(name))
        np.testing.assert_allclose(on_sets, sets @ exact.T, atol=4e-3)
        assert np.abs(sets @ np.nan_to_num(found).T - sets @ exact.T).max() > 0.05


def test_a_text_looked_at_by_another_has_no_first_token() -> None:
    import tiny_help

    record = hw.look(tiny_help.encoder_decoder(), TEXT[:60], target="Das Tier.")
    cross = next(layer for id, layer in record.layers.items() if id.stream == "cross")
    own = next(layer for id, layer in record.layers.items() if id.stream == "encoder")
    found = apart_keys(cross)
    assert not found[0].any()
    assert not found[2].any()
    assert found[1, 0]  # <s>
    assert apart_keys(own)[0, 0]
    assert not apart_keys(own)[1, 0]


def test_rows_that_are_no_numbers_are_told_as_such() -> None:
    record = small()
    id, layer = next(iter(record.layers.items()))
    q = layer.scores.q.clone()
    q[0, 1, 7] = float("nan")
    broken = replace(layer, scores=replace(layer.scores, q=q), verified=float("nan"))
    scene = Scene(replace(record, layers={**record.layers, id: broken}))
    for least in (0.0, LEAST):
        scene = replace(scene, least=least)
        for key in ("0.1", *(["mean/0", "mean/"] if least else [])):
            found, rest, _ = unpacked(scene.chunk(key))
            assert np.flatnonzero(np.isnan(rest)).tolist() == [7]
            assert np.isnan(found[7]).all()
            assert not np.isnan(found[8, :9]).all()
        assert not np.isnan(unpacked(scene.chunk("0.0"))[1]).any()


def test_a_stack_s_mean_weighs_layers_by_their_heads() -> None:
    record = changed(small(), mask=masks.causal())
    first, *others = record.layers.items()
    id, layer = first
    scores = replace(layer.scores, q=layer.scores.q[:, :1], k=layer.scores.k[:, :1])
    fewer = replace(record, layers={id: replace(layer, scores=scores, names=None), **dict(others)})
    assert len(fewer.heads()) == 5
    exact = np.mean([fewer.weights(head) for head in fewer.heads()], axis=0)
    for least in (0.0, 1e-6):
        found = dense(Scene(fewer, least=least)._mean(""))
        np.testing.assert_allclose(found, exact, atol=1e-5)
    parts = [
        mean_of(kept_heads(x, 0.0, 8), [1.0] * x.num_heads, 0.0) for x in fewer.layers.values()
    ]
    assert np.abs(dense(mean_of(parts, [1, 1], 0.0)) - exact).max() > 0.005


def test_a_sink_is_named_where_there_is_one() -> None:
    record = small()
    sunk = changed(record, sink=torch.zeros(4))
    told = [Scene(one).index["streams"][0]["layers"][0] for one in (record, sunk)]
    assert [one.get("sink", False) for one in told] == [False, True]


def test_a_text_that_two_bytes_cannot_number_is_refused() -> None:
    record = small()
    id, layer = next(iter(record.layers.items()))
    many = replace(layer.keys, tokens=layer.keys.tokens[:1] * (LONGEST + 1))
    long = replace(record, layers={id: replace(layer, keys=many)})
    with pytest.raises(ConfigError, match=r"at most 65,535 tokens a side, came one of 65,536"):
        scenes_of([long])
