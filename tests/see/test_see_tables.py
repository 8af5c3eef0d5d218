"""Profiles on disk: every kind read back by the programs that read it, and failures that lose nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import headwise as hw
from headwise.names import ModelError, OutputError
from headwise.see.profile.files import left_out, save_profile

KINDS = (".nc", ".csv", ".parquet", ".json")


@pytest.fixture(params=["one stack", "three stacks"])
def profile(request: pytest.FixtureRequest) -> xr.Dataset:
    """Two layers of three heads, one of which is missing."""
    layers = [0, 1] if request.param == "one stack" else ["encoder.0", "cross.0"]
    generator = np.random.default_rng(0)
    entropy = generator.random((2, 3))
    entropy[1, 2] = np.nan
    head = ("layer", "head")
    return xr.Dataset(
        {
            "entropy": (head, entropy, {"units": "nats"}),
            "received": ((*head, "position"), generator.random((2, 3, 4))),
            "pooled": ((*head, "query_cell", "key_cell"), generator.random((2, 3, 2, 2))),
            "tokens_of": (("layer",), np.array([5, 6])),
        },
        coords={
            "kv_group": (head, np.array([[0, 0, 1]] * 2)),
            "layer": layers,
            "head": [0, 1, 2],
            "position": [0, 1, 2, 3],
        },
        attrs={
            "model": "小模型",
            "texts": 3,
            "verified": 1e-7,
            "probes": ["first", "next"],
            "all": True,
        },
    )


@pytest.fixture
def rows(profile: xr.Dataset) -> list[tuple[str, int, int]]:
    cut = [str(layer).rpartition(".") for layer in profile["layer"].values.tolist()]
    return [(stream, int(n), head) for stream, _, n in cut for head in range(3)]


def test_netcdf_holds_everything(profile: xr.Dataset, tmp_path: Path) -> None:
    save_profile(profile, tmp_path / "a.nc")
    back = hw.load_profile(tmp_path / "a.nc")
    xr.testing.assert_equal(back, profile)
    assert back.attrs == profile.attrs
    assert back["entropy"].attrs == {"units": "nats"}
    assert back["layer"].values.tolist() == profile["layer"].values.tolist()
    assert xr.load_dataset(tmp_path / "a.nc", engine="h5netcdf").attrs["model"] == "小模型"


@pytest.mark.parametrize(("kind", "read"), [(".csv", pd.read_csv), (".parquet", pd.read_parquet)])
def test_tables_have_one_row_per_head(
    profile: xr.Dataset, rows: list[tuple[str, int, int]], tmp_path: Path, kind: str, read: object
) -> None:
    path = tmp_path / f"a{kind}"
    save_profile(profile, path)
    frame = read(path)  # type: ignore[operator]
    assert list(frame) == ["stream", "layer", "head", "kv_group", "entropy"]
    streams = frame["stream"].astype(object).fillna("")
    found = zip(streams, frame["layer"], frame["head"], strict=True)
    assert list(found) == rows
    np.testing.assert_array_equal(frame["entropy"], profile["entropy"].values.reshape(-1))
    assert left_out(profile, path) == ["received", "pooled", "tokens_of"]
    assert not left_out(profile, tmp_path / "a.nc")


def test_parquet_says_what_was_profiled(profile: xr.Dataset, tmp_path: Path) -> None:
    save_profile(profile, tmp_path / "a.parquet")
    assert pd.read_parquet(tmp_path / "a.parquet").attrs == profile.attrs


def test_json_is_a_list_of_heads(
    profile: xr.Dataset, rows: list[tuple[str, int, int]], tmp_path: Path
) -> None:
    save_profile(profile, tmp_path / "a.json")
    found = json.loads((tmp_path / "a.json").read_text(encoding="utf-8"))
    assert found["about"] == profile.attrs
    assert found["coords"] == {"position": [0, 1, 2, 3]}
    assert found["others"]["tokens_of"] == {"dims": ["layer"], "values": [5, 6]}
    assert [(h["stream"], h["layer"], h["head"]) for h in found["heads"]] == rows
    last = found["heads"][-1]
    assert (last["entropy"], last["kv_group"]) == (None, 1)
    assert last["id"].endswith(f"{rows[-1][1]}.2")
    np.testing.assert_allclose(last["pooled"], profile["pooled"].values[1, 2], rtol=1e-6)
    np.testing.assert_allclose(last["received"], profile["received"].values[1, 2], rtol=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_an_older_file_stays_where_the_disk_is_full(
    profile: xr.Dataset, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"a{kind}"
    path.write_text("old")

    def full(self: Path, data: bytes) -> None:
        self.touch()
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(OutputError, match=r"the profile cannot be written to .*No space left"):
        save_profile(profile, path)
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize("kind", KINDS)
def test_a_full_device(profile: xr.Dataset, tmp_path: Path, kind: str) -> None:
    path = tmp_path / f"a{kind}"
    path.symlink_to("/dev/full")
    with pytest.raises(OutputError, match="No space left on device"):
        save_profile(profile, path)


@pytest.mark.parametrize("name", ["a", "a.txt", "nc", ".nc", "a.nc.partial"])
def test_a_name_of_no_kind(profile: xr.Dataset, tmp_path: Path, name: str) -> None:
    with pytest.raises(OutputError, match=r"must end in one of \.nc, \.csv, \.parquet, \.json"):
        save_profile(profile, tmp_path / name)
    assert not list(tmp_path.iterdir())


def test_what_is_no_profile(profile: xr.Dataset, tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="No such file"):
        hw.load_profile(tmp_path / "missing.nc")
    (tmp_path / "a.nc").write_text("no netCDF")
    with pytest.raises(ModelError, match=r"a\.nc cannot be read as a profile") as error:
        hw.load_profile(tmp_path / "a.nc")
    assert "\n" not in str(error.value)
    xr.Dataset({"x": ("y", [1, 2])}).to_netcdf(tmp_path / "b.nc", engine="h5netcdf")
    with pytest.raises(ModelError, match=r"b\.nc is not a profile"):
        hw.load_profile(tmp_path / "b.nc")
