"""Rollout is the product of the layers' dense matrices, and says what it does with sinks and two texts."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import headwise as hw
from headwise.core import masks
from headwise.names import ConfigError, HeadError

sys.path.append(str(Path(__file__).parents[1] / "hub"))
from tiny_models import build, inputs_of

TEXT = "one two one two three, and so on"


def mean_of(record: hw.Record, stream: str, i: int) -> np.ndarray:
    id = hw.names.LayerId(stream, i)
    layer = record.layer(id)
    return np.mean([record.weights(id.head(h)) for h in range(layer.num_heads)], 0)


def dense(record: hw.Record, layers, residual: float = 0.5, stream: str = "") -> np.ndarray:
    found = np.eye(mean_of(record, stream, 0).shape[0])
    for i in layers:
        w = mean_of(record, stream, i)
        found = ((1 - residual) * w + residual * np.eye(len(w))) @ found
    return found


@pytest.mark.parametrize("residual", [0.0, 0.3, 0.5, 1.0])
def test_it_is_the_product_of_the_layers(bytes_model, residual: float) -> None:
    record = hw.look(bytes_model, TEXT)
    found = hw.rollout(record, residual)
    np.testing.assert_allclose(found, dense(record, range(2), residual), atol=1e-6)
    np.testing.assert_allclose(found.sum("key"), 1, atol=1e-9)
    assert found.dims == ("query", "key")
    assert "Abnar" in found.attrs["rule"]


def test_layers_are_a_slice(bytes_model) -> None:
    record = hw.look(bytes_model, TEXT)
    np.testing.assert_allclose(
        hw.rollout(record, layers=slice(1, None)), dense(record, [1]), atol=1e-6
    )
    with pytest.raises(HeadError, match="no layer is left"):
        hw.rollout(record, layers=slice(5, 6))


def test_the_first_token_is_left_out_where_that_is_asked_for(bytes_model) -> None:
    record = hw.look(bytes_model, TEXT)
    plain, found = hw.rollout(record), hw.rollout(record, without_first=True)
    w = [mean_of(record, "", i) for i in range(2)]
    for one in w:
        one[1:, 0] = 0
        one[1:] /= one[1:].sum(1, keepdims=True)
    half = [(one + np.eye(len(one))) / 2 for one in w]
    np.testing.assert_allclose(found, half[1] @ half[0], atol=1e-6)
    np.testing.assert_allclose(found[1:, 0], 0, atol=1e-12)
    assert float(plain[1:, 0].min()) > 0
    assert "first token were left out" in found.attrs["rule"]
    assert "first token" not in plain.attrs["rule"]


def test_a_row_that_sees_nothing_keeps_itself(layer_of) -> None:
    allowed = torch.tensor([[0, 0, 0], [1, 1, 0], [1, 1, 1]], dtype=torch.bool)
    layer = layer_of(
        [[[1, 0, 0], [0.5, 0.5, 0], [0, 0, 1]]], list("abc"), mask=masks.tensor(allowed)
    )
    found = hw.rollout(hw.Record("m", {layer.id: layer}))
    np.testing.assert_allclose(found, [[1, 0, 0], [0.25, 0.75, 0], [0, 0, 1]], atol=1e-6)
    alone = hw.rollout(hw.Record("m", {layer.id: layer}), 0.0)
    np.testing.assert_allclose(alone[0], [1, 0, 0], atol=1e-6)


def test_an_encoder_decoder_is_rolled_out_by_stream() -> None:
    record = hw.look(hw.load(build("bart")), inputs_of("bart"))[0]
    encoder, decoder = hw.rollout(record), hw.rollout(record, stream="decoder")
    np.testing.assert_allclose(encoder, dense(record, range(2), stream="encoder"), atol=1e-6)
    np.testing.assert_allclose(decoder, dense(record, range(2), stream="decoder"), atol=1e-6)
    cross = hw.rollout(record, stream="cross")
    found = np.zeros(cross.shape)
    for i in range(2):
        found = dense(record, [i], stream="decoder") @ found
        found = 0.5 * found + 0.5 * mean_of(record, "cross", i) @ encoder.values
    np.testing.assert_allclose(cross, found, atol=1e-6)
    assert (cross.sum("key") < 1).all()
    assert "cross-attention" in cross.attrs["rule"]
    assert "left out" in decoder.attrs["rule"]


def test_wrong_arguments_are_one_line(bytes_model) -> None:
    record = hw.look(bytes_model, TEXT)
    with pytest.raises(ConfigError, match="residual must be a share"):
        hw.rollout(record, 1.5)
    with pytest.raises(
        HeadError, match="there is no stream 'cross'; the streams of this record are ''"
    ):
        hw.rollout(record, stream="cross")


def test_what_is_no_record_or_no_slice_is_one_line(bytes_model, unchecked: None) -> None:
    record = hw.look(bytes_model, TEXT)
    with pytest.raises(ConfigError, match=r"layers must be a slice, as slice\(0, 6\).*came 3"):
        hw.rollout(record, layers=3)
    with pytest.raises(ConfigError, match="takes the record of one text, came list"):
        hw.rollout([record])
