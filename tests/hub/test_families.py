"""Every family of the table: its heads are what its own eager attention gives, and a meter changes nothing."""

from __future__ import annotations

import pytest
import torch
from tiny_models import (
    CAUSAL,
    ENCODERS,
    REFUSED,
    SEQ2SEQ,
    TABLE,
    assert_record_is,
    build,
    eager_of,
    eager_weights,
    ids_of,
    inputs_of,
    padded,
)

import headwise as hw
from headwise.core.scores import Scores
from headwise.core.streaming import Statistics, Wanted, measure
from headwise.core.taps import Tap, tapped
from headwise.names import ModelError

LENGTHS = (9, 4, 6)
WORST = 2e-5


@pytest.mark.parametrize("attention", [None, "eager"])
@pytest.mark.parametrize("name", TABLE)
def test_every_head_equals_eager(name: str, attention: str | None) -> None:
    inputs = inputs_of(name)
    (record,) = hw.look(hw.load(build(name, attention)), inputs)
    eager = eager_of(name, inputs)
    assert_record_is(record, eager, 0, atol=WORST)
    assert record.verified < WORST
    sharp = [float(w.max()) * w.shape[-1] for layers in eager.values() for w in layers]
    assert max(sharp) > 2  # heads that look somewhere


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("name", [*CAUSAL, *ENCODERS])
def test_padding_gives_what_each_sequence_gives_alone(name: str, side: str) -> None:
    rows = ids_of(*LENGTHS)
    records = hw.look(hw.load(build(name)), padded(rows, side))
    eager = build(name)
    assert [len(record.tokens) for record in records] == list(LENGTHS)
    for row, record in zip(rows, records, strict=True):
        assert [token.id for token in record.tokens] == row.tolist()
        assert_record_is(record, eager_weights(eager, {"input_ids": row[None]}), 0, atol=WORST)
        assert record.verified < WORST


@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("name", SEQ2SEQ)
def test_padded_encoder_decoders(name: str, side: str) -> None:
    sources, targets = ids_of(*LENGTHS), ids_of(3, 6, 5, seed=4)
    batch = padded(sources, side)
    goal = padded(targets, "right")
    batch |= {f"decoder_{key}": value for key, value in goal.items()}
    records = hw.look(hw.load(build(name)), batch)
    eager = build(name)
    for source, target, record in zip(sources, targets, records, strict=True):
        alone = {"input_ids": source[None], "decoder_input_ids": target[None]}
        assert_record_is(record, eager_weights(eager, alone), 0, atol=WORST)
        cross = record.layers[hw.HeadId("cross", 0, 0).layer_id]
        assert [t.id for t in cross.queries.tokens] == target.tolist()
        assert [t.id for t in cross.keys.tokens] == source.tolist()
        assert record.verified < WORST


@pytest.mark.parametrize("name", TABLE)
def test_a_meter_on_every_layer_changes_nothing(name: str) -> None:
    """What profiles are made by: statistics of each layer, and the output the model gives by itself."""
    inputs = inputs_of(name)
    loaded = hw.load(build(name))
    found: dict[str, Statistics] = {}

    def meter(path: str):
        def run(scores: Scores, v: torch.Tensor) -> torch.Tensor:
            z, found[path] = measure(scores, v, Wanted(received=True, top=3, pool=4))
            return z

        return run

    plain = loaded.run(inputs)
    layers = loaded.anatomy.layers
    with loaded.open(), tapped({layer.module: Tap(meter=meter(layer.path)) for layer in layers}):
        metered = loaded.run(inputs)
    for mine, own in zip(metered.to_tuple(), plain.to_tuple(), strict=True):
        if isinstance(own, torch.Tensor):
            size = max(1.0, float(own.abs().max()))
            torch.testing.assert_close(mine / size, own / size, atol=1e-5, rtol=0)
    assert set(found) == {layer.path for layer in layers}
    for statistics in found.values():
        assert (statistics.largest > 0).all()
        assert statistics.received is not None
        assert statistics.top_weights is not None
        rows = statistics.entropy.shape[2]
        assert (statistics.received.sum(2) < rows + 1e-3).all()
        torch.testing.assert_close(statistics.top_weights[..., 0], statistics.largest)


@pytest.mark.parametrize("name", REFUSED)
def test_a_class_of_the_older_style_is_refused_by_name(name: str) -> None:
    model = build(name)
    with pytest.raises(
        ModelError, match=rf"{type(model).__name__} cannot be looked into.*use a model class"
    ):
        hw.load(model)
