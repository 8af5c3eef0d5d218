"""The index of a scene says what the record says: texts, masks, streams, what the grid is coloured by."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace

import numpy as np
import pytest
import torch
from page_help import changed, small, unpacked

import headwise as hw
from headwise.core import masks
from headwise.names import HeadError
from headwise.show.page.scene import Scene, right_to_left


def seen_by(mask: dict, queries: int, keys: int) -> np.ndarray:
    """Who may attend, as the viewer reads it."""
    found = np.zeros((queries, keys), bool)
    for q in range(queries):
        if "band" in mask:
            back, ahead = mask["band"]
            at = q + keys - queries
            low = 0 if back is None else max(0, at - back)
            found[q, low : keys if ahead is None else at + ahead + 1] = True
        else:
            runs = mask["rows"][q]
            for start, length in zip(runs[::2], runs[1::2], strict=True):
                found[q, start : start + length] = True
    return found


@pytest.mark.parametrize(
    ("mask", "band"),
    [
        (masks.causal(), [None, 0]),
        (masks.window(4), [3, 0]),
        (None, [None, None]),
        (masks.tensor(torch.ones(40, 40).tril().bool()), [None, 0]),
        (masks.causal() & masks.documents([0] * 15 + [1] * 25), None),
        (masks.tensor(torch.rand(40, 40, generator=torch.Generator().manual_seed(0)) < 0.4), None),
    ],
)
def test_a_mask_is_told_as_it_is(mask: masks.Mask | None, band: list | None) -> None:
    record = changed(small(), mask=mask)
    index = Scene(record).index
    assert len(index["masks"]) == 1
    assert {layer["mask"] for layer in index["streams"][0]["layers"]} == {0}
    assert index["masks"][0].get("band") == band
    assert np.array_equal(seen_by(index["masks"][0], 40, 40), record.visible("1.2"))


def test_layers_with_masks_of_their_own_name_them() -> None:
    record = small()
    first, second = record.layers
    layer = record.layers[second]
    local = replace(layer, scores=replace(layer.scores, mask=masks.window(3)))
    index = Scene(replace(record, layers={first: record.layers[first], second: local})).index
    assert [layer["mask"] for layer in index["streams"][0]["layers"]] == [0, 1]
    assert index["masks"] == [{"band": [None, 0]}, {"band": [2, 0]}]


def test_the_index_is_strict_json_and_its_numbers_are_the_record_s() -> None:
    record = small()
    index = json.loads(json.dumps(Scene(record).index, allow_nan=False))
    heads = [str(id) for id in record.heads()]
    assert list(index["heads"]) == heads
    by_name = {one["name"]: one for one in index["colourings"]}
    assert next(iter(by_name)) == "does"
    assert set(by_name["does"]["values"]) == set(heads)
    exact = record.weights("1.2")
    values = {name: by_name[name]["values"]["1.2"] for name in ("largest", "to_first", "distance")}
    distance = np.abs(np.subtract.outer(np.arange(40), np.arange(40)))
    assert values["largest"] == pytest.approx(exact.max(1).mean(), abs=1e-3)
    assert values["to_first"] == pytest.approx(exact[:, 0].mean(), abs=1e-3)
    assert values["distance"] == pytest.approx((exact * distance).sum(1).mean(), rel=1e-3)
    entropy = record.statistics()["entropy"].values[1, 2].mean()
    assert by_name["entropy"]["values"]["1.2"] == pytest.approx(entropy, rel=1e-3)
    assert by_name["entropy"]["high"] >= max(by_name["entropy"]["values"].values())


def test_an_encoder_decoder_has_three_streams_over_two_texts() -> None:
    torch.manual_seed(0)
    config = hw.nn.TransformerConfig(
        vocab_size=50, num_layers=2, num_decoder_layers=3, num_heads=2, d_model=16
    )
    model = hw.load(hw.nn.EncoderDecoder(config))
    ids = {"input_ids": torch.randint(50, (1, 9)), "decoder_input_ids": torch.randint(50, (1, 5))}
    (record,) = hw.look(model, ids)
    scene = Scene(record)
    index = scene.index
    assert [side["name"] for side in index["sides"]] == ["source", "target"]
    streams = {stream["name"]: stream for stream in index["streams"]}
    assert {n: (s["queries"], s["keys"]) for n, s in streams.items()} == {
        "encoder": (0, 0),
        "decoder": (1, 1),
        "cross": (1, 0),
    }
    assert len(streams["cross"]["layers"]) == 3
    found, _, _ = unpacked(scene.chunk("mean/cross"))
    exact = [record.weights(str(id)) for id in record.heads() if id.stream == "cross"]
    np.testing.assert_allclose(found, np.mean(exact, axis=0), atol=1e-3)
    distance = next(one for one in index["colourings"] if one["name"] == "distance")
    assert not any(head.startswith("cross") for head in distance["values"])
    assert all(unpacked(scene.chunk(key)) for key in scene.keys if key not in index["told"])


def test_heads_cut_away_keep_their_ids() -> None:
    torch.manual_seed(0)
    config = hw.nn.TransformerConfig(vocab_size=50, num_layers=2, num_heads=4, d_model=32)
    from headwise.cut.pruning.surgery import cut_heads

    model = cut_heads(hw.load(hw.nn.Decoder(config)), ["0.1", "1.3", "1.0"])
    (record,) = hw.look(model, {"input_ids": torch.randint(50, (1, 12))})
    record = changed(record)
    scene = Scene(record)
    layers = scene.index["streams"][0]["layers"]
    assert [layer["heads"] for layer in layers] == [[0, 2, 3], [1, 2]]
    assert [layer["total"] for layer in layers] == [4, 4]
    assert "0.1" not in scene.index["heads"]
    found, _, _ = unpacked(scene.chunk("1.2"))
    np.testing.assert_allclose(np.nan_to_num(found), record.weights("1.2"), atol=5e-4)
    stack, _, _ = unpacked(scene.chunk("mean/"))
    exact = np.mean([record.weights(str(id)) for id in record.heads()], axis=0)
    np.testing.assert_allclose(np.nan_to_num(stack), exact, atol=6e-4)
    with pytest.raises(HeadError, match=r"0\.1"):
        scene.chunk("0.1")


def test_what_is_told_is_made_when_asked_for() -> None:
    calls = []

    def made() -> dict[str, int]:
        calls.append(1)
        return {"x": 1}

    scene = Scene(small(), told={"fires": made, "flow": [2]})
    assert scene.index["told"] == ["reach", "fires", "flow"]
    assert scene.keys[-2:] == ["fires", "flow"]
    assert not calls
    assert json.loads(zlib.decompress(scene.chunk("fires"))) == {"x": 1}
    assert json.loads(zlib.decompress(scene.chunk("flow"))) == [2]
    assert len(calls) == 1


def test_a_mean_of_what_is_not_there_is_refused() -> None:
    with pytest.raises(HeadError, match="there is no mean of '7': 0, 1 have one"):
        Scene(small()).chunk("mean/7")


@pytest.mark.parametrize(
    ("text", "rtl"), [("שלום abc", True), ("12 مرحبا", True), ("a שלום", False), ("1, 2", False)]
)
def test_the_direction_of_a_text_is_that_of_its_first_letter(text: str, rtl: bool) -> None:
    assert right_to_left(text) is rtl
