"""Distances of heads are the Jensen-Shannon divergence of their rows, and group heads that look alike."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from scipy.spatial.distance import jensenshannon

import headwise as hw
from headwise.names import ConfigError, ShapeError
from headwise.see.clusters import measuring
from headwise.see.clusters.grouping import plane, streams_of, table_of, tree
from headwise.see.clusters.measuring import divergence
from headwise.see.profile.files import save_profile

sys.path.append(str(Path(__file__).parents[1] / "hub"))
from tiny_models import build

TEXTS = ["one two one two", "a longer text than that, and more", "bb", "so it goes"]


def naive(model: hw.Model, texts: list[str], stream: str = "") -> tuple[list[str], np.ndarray]:
    """Every row of every two heads, one at a time."""
    records = hw.look(model, texts)
    ids = [head for head in records[0].heads() if head.stream == stream]
    found, rows = np.zeros((len(ids), len(ids))), 0
    for record in records:
        weights = [record.weights(head) for head in ids]
        rows += len(weights[0])
        for a, one in enumerate(weights):
            for b, other in enumerate(weights):
                for p, q in zip(one, other, strict=True):
                    found[a, b] += jensenshannon(p, q) ** 2
    return [str(id) for id in ids], found / rows


def test_they_are_what_a_double_loop_gives(bytes_model) -> None:
    found = hw.distances(bytes_model, TEXTS)
    ids, wanted = naive(bytes_model, TEXTS)
    assert list(found.head_a.values) == ids
    np.testing.assert_allclose(found, np.nan_to_num(wanted), atol=2e-6)
    assert found.attrs["units"] == "nats"
    assert found.attrs["rows"] == found.attrs["tokens"] == sum(map(len, TEXTS))
    assert found.attrs["texts"] == len(TEXTS)


def test_identical_heads_are_0_and_disjoint_ones_ln_2_apart() -> None:
    eye = np.eye(3, dtype=np.float32)
    found = divergence(np.stack([eye, eye, np.roll(eye, 1, 1)]))
    np.testing.assert_allclose(found / 3, math.log(2) * np.array([[0, 0, 1], [0, 0, 1], [1, 1, 0]]))


def test_the_root_is_a_distance(bytes_model) -> None:
    found = hw.distances(bytes_model, TEXTS)
    np.testing.assert_allclose(found, found.T)
    np.testing.assert_allclose(np.diagonal(found), 0)
    roots = np.sqrt(found.values)
    ways = roots[:, :, None] + roots[None]  # from a over b to c
    assert (roots[:, None] <= ways + 1e-6).all()


def test_a_sample_is_the_same_for_all_heads_and_for_a_seed(bytes_model) -> None:
    some = hw.distances(bytes_model, TEXTS, rows=9, seed=3)
    assert some.attrs["rows"] == 9
    assert some.attrs["tokens"] == sum(map(len, TEXTS))
    np.testing.assert_array_equal(some, hw.distances(bytes_model, iter(TEXTS), rows=9, seed=3))
    assert not np.allclose(some, hw.distances(bytes_model, TEXTS, rows=9, seed=4))


def test_many_small_parts_give_what_one_gives(bytes_model, monkeypatch) -> None:
    whole = hw.distances(bytes_model, TEXTS)
    monkeypatch.setattr(measuring, "_MOST_NUMBERS", 1)
    np.testing.assert_allclose(hw.distances(bytes_model, TEXTS), whole, atol=1e-6)


def test_streams_of_an_encoder_decoder_are_compared_apart() -> None:
    model = hw.load(build("bart"))
    batch = {
        "input_ids": torch.randint(3, 40, (2, 6)),
        "decoder_input_ids": torch.randint(3, 40, (2, 4)),
    }
    found = hw.distances(model, batch)
    rows = {name: n for name, n in found.attrs.items() if name.startswith("rows")}
    assert rows == {"rows_encoder": 12, "rows_decoder": 8, "rows_cross": 8}
    assert found.attrs["tokens"] == 20
    assert streams_of(found) == ["encoder", "decoder", "cross"]
    between = found.sel(head_a="encoder.0.0", head_b="cross.0.0")
    assert np.isnan(between)
    records = hw.look(model, batch)
    for stream in ("encoder", "cross"):
        one, other = f"{stream}.0.1", f"{stream}.1.0"
        rows = [zip(r.weights(one), r.weights(other), strict=True) for r in records]
        wanted = np.mean([jensenshannon(p, q) ** 2 for pairs in rows for p, q in pairs])
        np.testing.assert_allclose(found.sel(head_a=one, head_b=other), wanted, atol=1e-6)
    groups = hw.clusters(found, 2)
    assert len(set(groups.values.tolist())) == 6


def table(values: np.ndarray) -> xr.DataArray:
    ids = [f"0.{i}" for i in range(len(values))]
    return xr.DataArray(values, dims=("head_a", "head_b"), coords={"head_a": ids, "head_b": ids})


def test_heads_that_look_alike_are_in_one_cluster() -> None:
    places = np.array([0, 0.1, 5, 5.1, 0.2])
    found = table((places[:, None] - places) ** 2)
    groups = hw.clusters(found, 2)
    assert groups.sel(head="0.0") == groups.sel(head="0.1") == groups.sel(head="0.4")
    assert groups.sel(head="0.2") == groups.sel(head="0.3") != groups.sel(head="0.0")
    order = tree(found).ids
    assert {frozenset(order[:2]), frozenset(order[-2:])} & {frozenset(["0.2", "0.3"])}


def test_clusters_are_numbered_from_the_largest() -> None:
    places = np.array([9, 9.1, 0, 0.1, 0.2, 20, 30])
    groups = hw.clusters(table((places[:, None] - places) ** 2), 4)
    assert groups.values.tolist() == [2, 2, 1, 1, 1, 3, 4]
    assert len(set(hw.clusters(table((places[:, None] - places) ** 2)).values.tolist())) == 7


def test_distances_and_clusters_are_written_and_read_back(bytes_model, tmp_path) -> None:
    found = hw.distances(bytes_model, TEXTS, rows=9)
    found.to_netcdf(tmp_path / "apart.nc")
    back = xr.load_dataarray(tmp_path / "apart.nc")
    np.testing.assert_array_equal(back, found)
    assert back.attrs["rows"] == 9
    save_profile(table_of(found, hw.clusters(found, 2)), tmp_path / "c.nc")
    held = hw.load_profile(tmp_path / "c.nc")
    np.testing.assert_array_equal(held["divergence"], found)
    assert held["cluster"].dtype.kind == "i"


def test_a_head_that_is_not_there_has_no_cluster() -> None:
    apart = table(np.zeros((3, 3))).assign_coords(
        head_a=["0.0", "0.1", "1.0"], head_b=["0.0", "0.1", "1.0"]
    )
    held = table_of(apart, hw.clusters(apart, 1))["cluster"]
    assert held.values.tolist() == [[1, 1], [1, -1]]
    assert "-1: no such head" in held.attrs["long_name"]


def test_the_plane_keeps_distances_that_a_plane_holds() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(7, 2))
    apart = np.linalg.norm(points[:, None] - points, axis=-1)
    _, places, share = plane(table(apart**2))
    np.testing.assert_allclose(np.linalg.norm(places[:, None] - places, axis=-1), apart, atol=1e-8)
    assert share == pytest.approx(1)


def test_wrong_arguments_are_one_line(bytes_model) -> None:
    with pytest.raises(ConfigError, match="rows must be a whole number from 1"):
        hw.distances(bytes_model, TEXTS, rows=0)
    with pytest.raises(ConfigError, match="count must be"):
        hw.clusters(table(np.zeros((2, 2))), 0)
    with pytest.raises(ConfigError, match="there are 2 heads, so at most 2 clusters; came count=3"):
        hw.clusters(table(np.zeros((2, 2))), 3)
    with pytest.raises(ShapeError, match="no heads of stream 'cross'"):
        tree(table(np.zeros((2, 2))), "cross")


@pytest.mark.models
def test_previous_token_heads_of_a_real_model_are_near_each_other() -> None:
    texts = [
        "The cat sat on the mat because it was tired.",
        "One must go on, they said, and so on and so on.",
        "Never before had she seen so many birds in the garden.",
    ]
    found = hw.distances(hw.load("smollm2"), texts)
    together = float(found.sel(head_a="16.0", head_b="11.1"))
    for head in ("18.6", "17.3", "17.4"):
        assert together < float(found.sel(head_a="16.0", head_b=head)) / 2
        assert together < float(found.sel(head_a="11.1", head_b=head)) / 2
    groups = hw.clusters(found)
    assert groups.sel(head="16.0") == groups.sel(head="11.1")
    assert groups.sel(head="18.6") == groups.sel(head="17.3") != groups.sel(head="16.0")
