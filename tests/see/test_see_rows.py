"""The strongest keys and the rows' numbers of a record are those of its patterns."""

from __future__ import annotations

import numpy as np
import pytest
from see_help import byte_tokenizer

import headwise as hw
from headwise.core.scores import Scores
from headwise.names import ConfigError, HeadError
from headwise.nn import EncoderDecoder, TransformerConfig

TEXT = "the cat sat, the cat ran"


def expected(weights: np.ndarray, may: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
    """Keys and weights of each row by sorting it whole."""
    shown = np.where(may, weights, -1.0)
    order = np.argsort(-shown, axis=1, kind="stable")[:, :top]
    values = np.take_along_axis(shown, order, 1)
    return np.where(values < 0, -1, order), values.clip(0)


@pytest.mark.parametrize("name", ["bytes_model", "encoder_model"])
def test_the_strongest_keys_are_those_of_the_pattern(name: str, request) -> None:
    record = hw.look(request.getfixturevalue(name), TEXT)
    n = len(record.tokens)
    far = np.abs(np.arange(n)[:, None] - np.arange(n)) >= 2
    letters = np.array([token.text.isalpha() for token in record.tokens])
    for head in ("0.1", "1.3"):
        weights, visible = record.weights(head), record.visible(head)
        for settings, may in (
            ({}, visible),
            ({"apart": 2}, visible & far),
            ({"eligible": letters}, visible & letters),
        ):
            found = record.strongest(head, top=3, **settings)
            keys, values = expected(weights, may, 3)
            np.testing.assert_allclose(found.weight, values, atol=1e-5)
            named = found.key.values
            assert ((named < 0) == (keys < 0)).all()
            at = np.take_along_axis(weights, named.clip(0), 1)
            np.testing.assert_allclose(np.where(named < 0, 0, at), values, atol=1e-5)
    texts = [["" if k < 0 else record.tokens[k].text for k in row] for row in found.key.values]
    assert found.key_text.values.tolist() == texts
    assert found["query"].values.tolist() == [token.text for token in record.tokens]
    assert found["rank"].values.tolist() == [1, 2, 3]
    assert found.attrs["head"] == "1.3"


def test_no_more_keys_than_there_are(bytes_model) -> None:
    found = hw.look(bytes_model, "abc").strongest("0.0", top=50)
    assert found.sizes == {"query": 3, "rank": 3}
    assert (found.key[0].values == [0, -1, -1]).all()


@pytest.mark.parametrize("name", ["bytes_model", "encoder_model"])
def test_rows_have_the_numbers_of_the_pattern(name: str, request) -> None:
    record = hw.look(request.getfixturevalue(name), TEXT)
    table = record.statistics()
    n = len(record.tokens)
    far = np.abs(np.arange(n)[:, None] - np.arange(n))
    for head in record.heads():
        weights = record.weights(head)
        row = table.sel(layer=head.layer, head=head.head)
        logs = np.log(weights, where=weights > 0, out=np.zeros_like(weights))
        np.testing.assert_allclose(row.entropy, -(weights * logs).sum(1), atol=1e-4)
        np.testing.assert_allclose(row.distance, (weights * far).sum(1), atol=1e-4)
        np.testing.assert_allclose(row.largest, weights.max(1), atol=1e-5)
        np.testing.assert_array_equal(row.visible, record.visible(head).sum(1))


def test_each_stream_has_its_rows() -> None:
    config = TransformerConfig(vocab_size=257, d_model=24, num_layers=2, num_heads=4, d_ff=32)
    model = hw.load(EncoderDecoder(config), tokenizer=byte_tokenizer())
    record = hw.look(model, "one two", target="eins")
    for stream, queries in ((None, 7), ("encoder", 7), ("decoder", 4), ("cross", 4)):
        table = record.statistics(stream)
        assert table.sizes == {"layer": 2, "head": 4, "query": queries}
        assert table.layer.values.tolist() == [f"{stream or 'encoder'}.{i}" for i in (0, 1)]
        assert np.isnan(table.distance).all() == (stream == "cross")
        largest = record.weights(f"{stream or 'encoder'}.1.2").max(1)
        np.testing.assert_allclose(table.largest[1, 2], largest, atol=1e-5)
    found = record.strongest("cross.0.1", top=2)
    assert set(found.key_text.values.ravel().tolist()) <= set("one two")


def test_no_pattern_is_ever_whole(bytes_model, monkeypatch) -> None:
    record = hw.look(bytes_model, TEXT)

    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a pattern was unfolded")

    monkeypatch.setattr(Scores, "rows", refused)
    record.strongest("0.0")
    record.statistics()


@pytest.mark.usefixtures("unchecked")
def test_what_is_not_there_is_refused(bytes_model) -> None:
    record = hw.look(bytes_model, "abc")
    for settings, message in (
        ({"top": 0}, "top must be a whole number from 1, came 0"),
        ({"apart": -1}, "apart must be a whole number from 0, came -1"),
        ({"eligible": [True]}, r"each of the 3 keys, came \[1\] of bool"),
        ({"eligible": [1, 0, 1]}, r"each of the 3 keys, came \[3\] of int64"),
    ):
        with pytest.raises(ConfigError, match=message):
            record.strongest("0.0", **settings)
    with pytest.raises(HeadError, match="no head 9"):
        record.strongest("9.0")
    with pytest.raises(HeadError, match="no stream 'cross': the model's are ''"):
        record.statistics("cross")
