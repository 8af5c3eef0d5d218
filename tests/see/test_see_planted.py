"""Heads that are what they are by construction score 1, and no other head scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from planted import PLANTED, VERBS, planted, treebank

import headwise as hw


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[xr.Dataset]:
    """The planted model on a treebank, and on tokens that repeat, each once in each half of a row."""
    path: Path = tmp_path_factory.mktemp("planted") / "toy.conllu"
    path.write_text(treebank(60))
    model = planted()
    bank = hw.probes.treebank(path)
    probes = [*hw.probes.BUILT_IN, *hw.probes.relations(bank, least=1)]
    some = {word: i for word, i in model.module.words.items() if word not in (*VERBS, "<unk>")}
    words = torch.tensor(sorted(some.values()))
    random = torch.Generator().manual_seed(0)
    rows = [
        words[torch.randperm(len(words), generator=random)[: 12 + i % 9]].repeat(2)
        for i in range(40)
    ]
    return [
        hw.profile(model, bank.texts, probes=probes, pool=0),
        hw.profile(model, rows, probes=hw.probes.ON_REPEATED, pool=0),
    ]


def scores(tables: list[xr.Dataset], name: str, what: str) -> dict[str, np.ndarray]:
    """A number of both halves for each head."""
    (table,) = [t for t in tables if name in t.probe.values]
    at = table[f"probe_{what}"].sel(probe=name)
    return {
        f"{layer}.{head}": at.sel(layer=layer, head=head).values
        for layer in table["layer"].values
        for head in table["head"].values
    }


@pytest.mark.parametrize("name", PLANTED)
@pytest.mark.parametrize("what", ["mass", "hits"])
def test_a_planted_head_scores_one_and_the_others_nothing(tables, name: str, what: str) -> None:
    for head, values in scores(tables, name, what).items():
        alike = {"first": {"0.1", "1.2"}}.get(name, {PLANTED[name]})
        assert values == pytest.approx([1.0, 1.0] if head in alike else [0.0, 0.0], abs=1e-6), head


def test_no_fixed_offset_does_what_the_planted_heads_of_content_do(tables) -> None:
    for name in ("nsubj_to_dependent", "induction_random"):
        (table,) = [t for t in tables if name in t.probe.values]
        assert (table.probe_offset_share.sel(probe=name) < 0.7).all()
        assert (table.probe_count.sel(probe=name) >= 15).all()


def test_a_relation_whose_head_lies_ahead_is_counted_apart(tables) -> None:
    at = tables[0].sel(probe="nsubj_to_head")
    assert (at.probe_count == 0).all()
    assert (at.probe_unseen > 0).all()


def test_the_planted_heads_are_claimed_and_no_other_is(tables) -> None:
    found = hw.roles(tables)
    held = {(role.probe, str(role.head)) for role in found.claimed if role.probe in PLANTED}
    assert held == {*((probe, head) for probe, head in PLANTED.items()), ("first", "1.2")}
    assert str(found.best("induction_random", 1)[0].head) == "1.0"
