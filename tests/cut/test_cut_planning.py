"""prune: which heads go, by units and budgets, and what is refused."""

from __future__ import annotations

import math
import re

import numpy as np
import pytest
import torch
import xarray as xr
from cut_help import answers, build, inputs_of, off
from torch import nn

import headwise as hw
from headwise.cut.census import census
from headwise.cut.pruning import clocking
from headwise.cut.pruning.planning import scores_of, to_cut
from headwise.cut.pruning.sizes import sizes_of
from headwise.cut.pruning.surgery import cut_heads
from headwise.cut.pruning.units import units_of
from headwise.names import ConfigError, HeadError, HeadId, ModelError


@pytest.fixture
def model() -> hw.Model:
    """Two layers of six heads on two KV heads."""
    return hw.load(build("llama"), quiet=True)


def drawn(model: hw.Model, seed: int = 0) -> dict[HeadId, float]:
    draw = np.random.default_rng(seed)
    return {id: float(draw.random()) for id in census(model).heads}


def kept(model: hw.Model) -> list[tuple[int, ...]]:
    return [run.heads for run in census(model).runs]


def test_heads_named_are_the_ones_that_go(model: hw.Model) -> None:
    cut, inputs = hw.prune(model, "0.1, 1.0-2"), inputs_of("llama")
    assert kept(cut) == [(0, 2, 3, 4, 5), (3, 4, 5)]
    with hw.ablate(model, "0.1, 1.0-2"):
        assert off(answers(cut, inputs), answers(model, inputs)) < 1e-5


def test_a_model_is_shown_in_one_line(model: hw.Model) -> None:
    size = sum(p.numel() for p in model.module.parameters())
    told = f"{type(model.module).__name__}, 2 attention layers x 6 heads, {size:,} parameters)"
    assert repr(model) == f"Model({model.name!r}, {told}"
    assert "2 attention layers x 3 to 5 heads" in repr(hw.prune(model, "0.1, 1.0-2"))
    assert "Identity, 0 attention layers" in repr(hw.Model("none", nn.Identity(), None, False))


@pytest.mark.parametrize("keep", [0.25, 0.5, 0.75, 0.9])
def test_the_least_heads_go_until_the_share_is_met(model: hw.Model, keep: float) -> None:
    scores = drawn(model)
    cut = hw.prune(model, scores=scores, keep=keep)
    stays = sorted(scores, key=scores.__getitem__, reverse=True)[: int(keep * 12)]
    assert set(census(cut).heads) == set(stays)


def test_a_group_goes_with_its_kv_head_and_a_layer_whole(model: hw.Model) -> None:
    scores = drawn(model)
    groups = hw.prune(model, scores=scores, keep=0.5, unit="group")
    sums = {heads: sum(scores[id] for id in heads) for heads in units_of(model, "group")}
    stays = sorted(sums, key=sums.__getitem__)[2:]
    assert set(census(groups).heads) == {id for heads in stays for id in heads}
    assert sizes_of(groups).kv_heads == 2
    layers = hw.prune(model, scores=scores, keep=0.5, unit="layer")
    assert len(census(layers).runs) == 1


@pytest.mark.parametrize(("budget", "unit"), [("parameters", "head"), ("cache", "group")])
@pytest.mark.parametrize("name", ["llama", "gpt2", "phi3", "t5"])
def test_a_budget_is_kept_and_one_head_more_would_not(name: str, budget: str, unit: str) -> None:
    model = hw.load(build(name), quiet=True)
    scores = drawn(model)
    gone = to_cut(model, scores, 0.9, unit, budget)
    units = units_of(model, unit)
    fits = hw.prune(model, list(gone), unit=unit)
    whole = getattr(sizes_of(model), budget)
    assert getattr(sizes_of(fits), budget) <= 0.9 * whole
    last = next(heads for heads in units if gone[-1] in heads)
    more = [id for id in gone if id not in last]
    left = whole if not more else getattr(sizes_of(hw.prune(model, more, unit=unit)), budget)
    assert left > 0.9 * whole


def test_the_sizes_are_those_of_the_cache_and_the_weights(model: hw.Model) -> None:
    cut = hw.prune(model, "0.0-3, 1.4")
    ids = torch.arange(3, 10)[None]
    with torch.no_grad():
        layers = cut.module(ids, use_cache=True).past_key_values.layers
    held = sum(x.numel() * x.element_size() for layer in layers for x in (layer.keys, layer.values))
    sizes = sizes_of(cut)
    assert sizes.cache * ids.shape[1] == held
    assert (sizes.heads, sizes.kv_heads) == (7, 3)
    assert sizes.parameters == sum(p.numel() for p in cut.module.parameters())


def test_of_the_time_the_fewest_heads_go_that_save_it(model: hw.Model, monkeypatch) -> None:
    monkeypatch.setattr(clocking.Clock, "ratio", lambda self, heads: 1 - len(heads) / 20)
    gone = to_cut(model, drawn(model), 0.72, "head", "time")
    assert len(gone) == 6
    with pytest.raises(ConfigError, match=r"keep=0.3 of the time .* cannot be reached"):
        to_cut(model, drawn(model), 0.3, "head", "time")


def test_a_clock_takes_turns_with_what_is_cut(model: hw.Model) -> None:
    ratio = clocking.Clock(model).ratio(list(census(model).heads))
    assert 0 < ratio < math.inf


def test_a_table_is_read_by_layer_and_head(model: hw.Model) -> None:
    values = np.random.default_rng(1).random((2, 6))
    at = {"layer": [0, 1], "head": range(6)}
    table = xr.Dataset({"importance": (("layer", "head"), values)}, coords=at)
    assert scores_of(model, table)[HeadId("", 1, 4)] == values[1, 4]
    assert scores_of(model, table.importance.T) == scores_of(model, table)
    streams = hw.load(build("t5"), quiet=True)
    names = ["encoder.0", "encoder.1", "decoder.0", "decoder.1", "cross.0", "cross.1"]
    values = np.random.default_rng(2).random((6, 4))
    wide = xr.DataArray(values, coords={"layer": names, "head": range(4)}, dims=("layer", "head"))
    assert scores_of(streams, wide)[HeadId("cross", 1, 2)] == values[5, 2]


def test_scores_of_the_whole_model_rank_what_is_left(model: hw.Model) -> None:
    scores = drawn(model)
    cut = hw.prune(model, scores=scores, keep=0.75)
    again = hw.prune(cut, scores=scores, keep=2 / 3)
    assert set(census(again).heads) == set(census(hw.prune(model, scores=scores, keep=0.5)).heads)


def test_all_of_the_budget_is_a_copy(model: hw.Model) -> None:
    cut = hw.prune(model, scores=drawn(model), keep=1)
    assert cut is not model
    assert cut.module is not model.module
    assert kept(cut) == kept(model)


def test_every_head_of_a_model_may_go(model: hw.Model) -> None:
    cut, inputs = hw.prune(model, "*"), inputs_of("llama")
    assert sizes_of(cut).heads == 0
    with hw.ablate(model, "*"):
        assert off(answers(cut, inputs), answers(model, inputs)) < 1e-5


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        ({}, ConfigError, "prune takes heads, or scores and keep"),
        ({"heads": "0.1", "scores": {}}, ConfigError, "prune takes heads, or scores and keep"),
        ({"heads": "0.1", "keep": 0.5}, ConfigError, "keep goes with scores"),
        ({"heads": "0.9"}, HeadError, "layer 0 has the heads 0 to 5"),
        ({"heads": "0.1", "unit": "group"}, HeadError, "are missing: 0.0, 0.2"),
        ({"heads": "1.0-4", "unit": "layer"}, HeadError, "are missing: 1.5"),
        ({"heads": "0.1", "unit": "pair"}, ConfigError, "unit='pair' is not known"),
        ({"scores": "all"}, ConfigError, "keep must be a share, 0 < keep <= 1, came None"),
        ({"scores": "all", "keep": 0}, ConfigError, "keep must be a share"),
        ({"scores": "all", "keep": 1.5}, ConfigError, "keep must be a share"),
        ({"scores": "all", "keep": math.nan}, ConfigError, "keep must be a share"),
        ({"scores": "all", "keep": 0.05}, ConfigError, "is less than one"),
        ({"scores": "all", "keep": 0.5, "budget": "heat"}, ConfigError, "budget='heat' is not"),
        ({"scores": "all", "keep": 0.5, "budget": "cache"}, ConfigError, 'use unit="group"'),
        ({"scores": "all", "keep": 0.1, "budget": "parameters"}, ConfigError, "cannot be reached"),
        ({"scores": "nan", "keep": 0.5}, ConfigError, "no number (or NaN) for 1 of the 12"),
        ({"scores": "less", "keep": 0.5}, ConfigError, "for 1 of the 12 heads"),
        ({"scores": "other", "keep": 0.5}, ConfigError, "they are of another model"),
        ({"scores": {"x": 1.0}, "keep": 0.5}, ConfigError, "scores must be by head"),
        ({"scores": 3, "keep": 0.5}, ConfigError, "scores must be a table of importance"),
        ({"scores": xr.Dataset(), "keep": 0.5}, ConfigError, "must hold the variable importance"),
        ({"scores": xr.DataArray([1.0]), "keep": 0.5}, ConfigError, "must be [layer, head]"),
    ],
    ids=str,
)
@pytest.mark.usefixtures("unchecked")
def test_what_cannot_be_is_said_in_one_line(model: hw.Model, given, error, says: str) -> None:
    known = {"all": drawn(model), "less": drawn(model), "nan": drawn(model), "other": drawn(model)}
    known["less"].pop(HeadId("", 1, 3))
    known["nan"][HeadId("", 1, 3)] = math.nan
    known["other"][HeadId("", 9, 3)] = 0.5
    scores = given.get("scores")
    given = {**given, "scores": known.get(scores, scores) if isinstance(scores, str) else scores}
    before = answers(model, inputs_of("llama"))
    with pytest.raises(error, match=re.escape(says)) as raised:
        hw.prune(model, **{name: value for name, value in given.items() if value is not None})
    assert "\n" not in str(raised.value)
    assert off(answers(model, inputs_of("llama")), before) == 0


def test_a_shared_layer_is_cut_in_all_runs_or_not(model: hw.Model) -> None:
    albert = hw.load(build("albert"), quiet=True)
    with pytest.raises(HeadError, match=r"one module that runs 3 times, .* name it as \*\.2"):
        cut_heads(albert, "1.2")
    with pytest.raises(HeadError, match=r"one module that runs 3 times, .* name it as \*\.2"):
        hw.prune(albert, "1.2")
    cut = hw.prune(albert, "*.2")
    assert kept(cut) == [(0, 1, 3)] * 3
    assert units_of(albert, "head")[2] == tuple(HeadId("", layer, 2) for layer in range(3))


def test_what_is_no_model_or_is_packed_is_refused(model: hw.Model, monkeypatch) -> None:
    with pytest.raises(ModelError, match="prune takes a model from load"):
        hw.prune.__wrapped__(nn.Linear(2, 2), "0.1")
    model.module.model.layers[0].mlp.up_proj.weight = nn.Parameter(
        torch.zeros(2, 2, dtype=torch.int8), requires_grad=False
    )
    with pytest.raises(ModelError, match="its weights are packed"):
        hw.prune(model, "0.1")
