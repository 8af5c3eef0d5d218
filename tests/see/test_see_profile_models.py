"""Profiles of real models: heads known by an independent measurement, and every number against the records."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from profile_help import assert_maps_are, assert_table_is

import headwise as hw
from headwise.see.profile.profiler import Profiler

pytestmark = pytest.mark.models

SENTENCES = [
    "The animal didn't cross the street because it was too tired.",
    "A cat, a dog and a cat.",
]


@pytest.fixture(scope="module")
def smollm2() -> hw.Model:
    return hw.load("smollm2", quiet=True)


def of(table, name: str, head: str) -> float:
    id = hw.HeadId.parse(head)
    return float(table[name][id.layer, id.head])


def test_known_induction_and_duplicate_token_heads(smollm2: hw.Model) -> None:
    rows = hw.probes.repeated_tokens(64, model=smollm2, rows=8)
    table = hw.profile(smollm2, rows, pool=0, positions=0)
    for head, mass in {
        "18.6": 0.91,
        "17.3": 0.81,
        "17.4": 0.78,
        "17.5": 0.60,
        "18.7": 0.60,
    }.items():
        assert of(table, "induction", head) == pytest.approx(mass, abs=0.05)
        assert of(table, "induction_low", head) < mass < of(table, "induction_high", head) + 0.05
    for head, mass in {"14.3": 0.78, "8.0": 0.74}.items():
        assert of(table, "same_token", head) == pytest.approx(mass, abs=0.05)
    best = table.induction.stack(at=("layer", "head"))
    assert best.at[int(best.values.argmax())].item() == (18, 6)


def test_known_previous_token_heads(smollm2: hw.Model) -> None:
    licence = (Path(__file__).parents[2] / "LICENSE").read_text(encoding="utf-8")
    table = hw.profile(smollm2, licence[:5000], context=400, pool=0, positions=0)
    assert table.attrs["pieces"] > 2
    for head, mass in {"16.0": 0.78, "11.1": 0.64, "1.2": 0.58, "2.1": 0.55}.items():
        assert of(table, "previous", head) == pytest.approx(mass, abs=0.05)


def test_every_number_of_smollm2_is_what_the_records_give(smollm2: hw.Model) -> None:
    table = hw.profile(smollm2, SENTENCES, pool=5, positions=9)
    records = hw.look(smollm2, SENTENCES)
    assert_table_is(table, records, top=8, atol=2e-4)
    assert_maps_are(table, records)
    assert table.attrs["verified"] < 1e-4
    assert table.kv_group[0].values.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    np.testing.assert_allclose(table.result_share.sum("head"), 1, atol=1e-4)


def test_an_encoder_in_two_languages() -> None:
    e5 = hw.load("e5-small", quiet=True)
    texts = ["小明把书还给了图书馆,因为它到期了。", "The book was due."]
    table = hw.profile(e5, texts, pool=5, positions=9)
    assert_table_is(table, hw.look(e5, texts), top=8, atol=2e-4)
    np.testing.assert_allclose(table.result_share.sum("head"), 1, atol=1e-4)


def test_one_layer_that_runs_twelve_times() -> None:
    model = hw.load("rxnmapper", quiet=True)
    texts = ["CC(=O)Cl.OCC>>CC(=O)OCC", "CCO"]
    table = hw.profile(model, texts, pool=3, positions=4)
    assert table.layer.values.tolist() == list(range(12))
    records = hw.look(model, texts)
    assert_table_is(table, records, top=8, atol=2e-4)
    assert_maps_are(table, records)
    np.testing.assert_allclose(table.result_share.sum("head"), 1, atol=1e-4)
    assert float(table.result_norm[0, 0]) != pytest.approx(float(table.result_norm[5, 0]), rel=1e-3)


def test_whisper_is_profiled_where_it_listens_and_writes() -> None:
    model = hw.load("whisper-tiny-en", quiet=True)
    time = torch.arange(3000) / 100
    sound = torch.stack([torch.sin(2 * time * (1 + i / 10)) for i in range(80)])[None]
    table = hw.profile(model, {"input_features": sound}, pool=4, positions=3)
    assert {"encoder.0", "decoder.3", "cross.2"} <= set(table.layer.values.tolist())
    assert table.attrs["verified"] < 1e-4
    np.testing.assert_allclose(table.result_share.sum("head"), 1, atol=1e-4)
    assert np.isnan(table.distance.sel(layer="cross.0")).all()
    assert np.isfinite(table["first"].sel(layer="cross.0")).all()


def test_the_later_batches_run_as_the_first_did(smollm2: hw.Model) -> None:
    from headwise.see.texts.packing import packed

    profiler = Profiler(smollm2)
    for _ in range(2):
        profiler.add(next(packed(smollm2, SENTENCES)))
    twice, once = profiler.dataset(), hw.profile(smollm2, SENTENCES)
    np.testing.assert_allclose(twice.entropy, once.entropy, rtol=1e-6)
    np.testing.assert_allclose(twice.result_norm, once.result_norm, rtol=1e-6)
    assert profiler.texts == 4
