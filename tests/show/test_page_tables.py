"""Tables of a model colour the grid of its heads, with the evidence beside."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from page_help import small

import headwise as hw
from headwise.cut.ranking.files import save_importance
from headwise.names import ConfigError, ModelError
from headwise.see.profile.files import save_profile
from headwise.see.roles.role import Roles
from headwise.show.page.saving import scenes_of
from headwise.show.page.scene import Scene
from headwise.show.page.tables import load_table


@pytest.fixture(scope="module")
def model() -> hw.Model:
    torch.manual_seed(0)
    config = hw.nn.TransformerConfig(
        vocab_size=50, num_layers=2, num_heads=4, num_kv_heads=2, d_model=32, d_ff=64
    )
    return hw.load(hw.nn.Decoder(config))


@pytest.fixture(scope="module")
def texts() -> list[torch.Tensor]:
    return [torch.randint(50, (40,), generator=torch.Generator().manual_seed(i)) for i in range(8)]


@pytest.fixture(scope="module")
def profile(model: hw.Model, texts: list[torch.Tensor]) -> xr.Dataset:
    return hw.profile(model, texts)


def shown(model: hw.Model, *tables: object) -> dict:
    (record,) = hw.look(model, {"input_ids": torch.arange(40)[None]})
    (scene,) = scenes_of([record], tables=tables)
    return json.loads(json.dumps(scene.index, allow_nan=False))


def test_a_profile_s_numbers_colour_the_grid(model: hw.Model, profile: xr.Dataset) -> None:
    index = shown(model, profile)
    by_name = {one["name"]: one for one in index["colourings"]}
    entropy = by_name["profile.entropy"]
    assert entropy["unit"] == "nats"
    for layer, head in ((0, 0), (1, 3)):
        want = float(profile["entropy"][layer, head])
        assert entropy["values"][f"{layer}.{head}"] == pytest.approx(want, rel=1e-3)
    assert not any(name.endswith(("_low", "_high", "_count", "_error")) for name in by_name)
    assert by_name["profile.result_share"]["diverging"] is bool((profile["result_share"] < 0).any())
    (block,) = index["evidence"]["1.3"]
    assert block["title"] == "Profile over 8 texts; beside it 95 % intervals"
    x, low, high = (float(profile[f"entropy{end}"][1, 3]) for end in ("", "_low", "_high"))
    assert f"entropy {x:.3g} nats ({low:.3g} to {high:.3g})" in block["lines"]


def test_a_role_stands_with_its_evidence(model: hw.Model, profile: xr.Dataset) -> None:
    roles = hw.roles(profile)
    evidence = roles.evidence.copy(deep=True)
    evidence["claimed"][roles.probes.index("previous"), 1, 2] = True
    index = shown(model, Roles(evidence))
    role = next(one for one in index["colourings"] if one["name"] == "role")
    kinds = [kind["name"] for kind in role["kinds"]]
    assert kinds[role["values"]["1.2"][0]] == "previous"
    assert kinds[role["values"]["0.0"][0]] == "no role"
    assert role["values"]["1.2"][1] == pytest.approx(Roles(evidence).main("1.2").score, abs=1e-3)
    best = Roles(evidence).of("0.0")[0]
    said = f"{best.probe.replace('_', ' ')} {best.score:.3f}, below its bar"
    assert role["values"]["0.0"][2] == f"no role: best {said}"
    (none,) = index["evidence"]["0.0"]
    assert (none["title"], none["lines"][0]) == ("No role", f"best: {said}")
    assert f"baseline {best.baseline:.3f} ({best.baseline_is})" in none["lines"]
    assert [block["title"] for block in index["evidence"]["1.2"]] == ["Role: previous"]
    lines = " ".join(index["evidence"]["1.2"][0]["lines"])
    (told,) = [one for one in Roles(evidence).of("1.2") if one.probe == "previous"]
    assert f"score {told.score:.3f}: mean attention" in lines
    assert f"baseline {told.baseline:.3f} ({told.baseline_is})" in lines
    assert f"{told.cases:,} cases in {told.texts:,} texts" in lines


def test_an_importance_stands_with_its_standard_error(
    model: hw.Model, texts: list[torch.Tensor]
) -> None:
    found = hw.importance(model, texts, method="gate", quiet=True)
    found["importance"][0, 1] = np.nan
    found["importance"][0, 2] = -0.5
    index = shown(model, found)
    colouring = next(one for one in index["colourings"] if one["name"] == "importance")
    assert "0.1" not in colouring["values"]
    assert colouring["diverging"]
    assert colouring["low"] == -colouring["high"]
    assert colouring["high"] == pytest.approx(float(np.abs(found["importance"]).max()), rel=1e-3)
    (line,) = index["evidence"]["1.1"][0]["lines"]
    assert line.endswith(f"± {float(found['standard_error'][1, 1]):.2g})")


def test_a_table_colours_the_scenes_of_its_model_alone(
    model: hw.Model, profile: xr.Dataset
) -> None:
    (own,) = hw.look(model, {"input_ids": torch.arange(12)[None]})
    scenes = scenes_of([own, replace(small(), model="another")], tables=[profile])
    assert [bool(scene.index["evidence"]) for scene in scenes] == [True, False]
    with pytest.raises(ConfigError, match=r"a table is of .*, and the page shows another"):
        scenes_of([replace(own, model="another")], tables=[profile])


def test_heads_that_the_record_lacks_are_left_out(model: hw.Model, profile: xr.Dataset) -> None:
    (record,) = hw.look(model, {"input_ids": torch.arange(12)[None]})
    first = next(iter(record.layers))
    part = replace(record, layers={first: record.layers[first]})
    index = Scene(part, tables=[profile]).index
    assert set(index["evidence"]) == {"0.0", "0.1", "0.2", "0.3"}
    assert all(len(one["values"]) <= 4 for one in index["colourings"])


def test_a_file_is_read_as_what_it_is(
    model: hw.Model, profile: xr.Dataset, texts: list[torch.Tensor], tmp_path: Path
) -> None:
    save_profile(profile, tmp_path / "profile.nc")
    hw.roles(profile).save(tmp_path / "roles.nc")
    found = hw.importance(model, texts, method="gate", quiet=True)
    save_importance(found, tmp_path / "importance.nc")
    assert "entropy" in load_table(tmp_path / "profile.nc")
    assert isinstance(load_table(tmp_path / "roles.nc"), Roles)
    assert "importance" in load_table(tmp_path / "importance.nc")
    xr.Dataset({"x": ("y", [1.0])}).to_netcdf(tmp_path / "other.nc", engine="h5netcdf")
    with pytest.raises(ModelError, match="is no profile, no roles and no importance"):
        load_table(tmp_path / "other.nc")
    (tmp_path / "text.nc").write_text("no table")
    with pytest.raises(ModelError, match="cannot be read as a profile, roles or an importance"):
        load_table(tmp_path / "text.nc")
    with pytest.raises(ModelError, match="No such file"):
        load_table(tmp_path / "none.nc")


def test_what_is_no_table_is_refused(model: hw.Model) -> None:
    with pytest.raises(ConfigError, match="takes profiles, roles and importances, came dict"):
        shown(model, {})
