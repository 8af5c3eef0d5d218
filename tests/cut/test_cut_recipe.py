"""The recipe of a cut on texts: which heads go, when, and what is given back."""

from __future__ import annotations

import pytest
import torch

from headwise.cut.ablating.ablating import ablate
from headwise.cut.census import census
from headwise.cut.pruning.jointly import pairs_of
from headwise.cut.pruning.recipe import Recipe, cut_on_texts
from headwise.hub.load import load
from headwise.names import HeadId
from headwise.nn import Decoder, TransformerConfig
from headwise.see.texts.given import batches_in

IDS = torch.randint(0, 31, (5, 16), generator=torch.Generator().manual_seed(1))


def tiny(**fields):
    torch.manual_seed(0)
    base = {"vocab_size": 31, "d_model": 24, "num_layers": 2, "num_heads": 4, "d_ff": 40}
    return load(Decoder(TransformerConfig(**{**base, "max_length": 32, **fields})).eval())


def logits(model):
    with torch.no_grad():
        return model.module(IDS)


def test_one_step_is_the_joint_order_with_means_folded():
    model, whole = tiny(), tiny()
    path = cut_on_texts(model, IDS, Recipe(keep=0.5, draws=0))
    with ablate(whole, list(path.heads), how="mean", texts=IDS):
        wanted = logits(whole)
    torch.testing.assert_close(logits(model), wanted, atol=1e-5, rtol=1e-5)
    assert len(path.heads) == 4
    assert set(census(model).heads) == set(census(whole).heads) - set(path.heads)


def test_zero_folds_nothing():
    model, whole = tiny(), tiny()
    path = cut_on_texts(model, IDS, Recipe(keep=0.75, fold="zero", draws=0))
    batches = list(batches_in(whole, IDS, None, None, "prune"))
    order = pairs_of(whole, lambda: batches, draws=0).order()
    assert path.heads == tuple(census(whole).heads[i] for i in order[:2])
    with ablate(whole, list(path.heads)):
        wanted = logits(whole)
    torch.testing.assert_close(logits(model), wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("refit", [False, True])
def test_steps_rank_what_is_left(refit):
    model = tiny()
    path = cut_on_texts(model, IDS, Recipe(keep=0.5, steps=3, refit=refit, draws=1))
    assert [len(step.heads) for step in path.steps] == [2, 1, 1]
    assert len(census(model).heads) == 4
    first, second = tiny(), tiny()
    one = cut_on_texts(first, IDS, Recipe(keep=6 / 8, refit=refit))
    assert one.heads == path.heads[:2]
    cut_on_texts(second, IDS, Recipe(keep=6 / 8, refit=refit))
    assert path.steps[1].loss == pytest.approx(
        cut_on_texts(second, IDS, Recipe(keep=1.0)).steps[0].loss, abs=1e-5
    )


def test_refitting_gives_back_more_than_folding():
    off = {}
    whole = logits(tiny())
    for refit in (False, True):
        model = tiny()
        cut_on_texts(model, IDS, Recipe(keep=0.5, refit=refit))
        off[refit] = (logits(model) - whole).square().mean().item()
    assert off[True] < 0.9 * off[False]


@pytest.mark.parametrize("budget", ["parameters", "cache"])
def test_units_and_budgets_of_other_kinds(budget):
    model = tiny(num_kv_heads=2)
    recipe = Recipe(keep=0.75 if budget == "cache" else 0.95, unit="group", budget=budget, steps=2)
    path = cut_on_texts(model, IDS, recipe)
    gone = {(head.layer, head.head // 2) for head in path.heads}
    assert len(path.heads) == 2 * len(gone) > 0


def test_scores_of_another_kind_rank_each_step():
    seen = []

    def scoring(model, batches):
        seen.append(len(census(model).heads))
        return {head: -head.layer - head.head / 10 for head in census(model).heads}, 1.5

    model = tiny()
    path = cut_on_texts(model, IDS, Recipe(keep=0.5, steps=2), scoring=scoring)
    assert path.heads == tuple(HeadId("", 1, head) for head in (3, 2, 1, 0))
    assert seen == [8, 6]
    assert path.curve == ((0, 1.5), (2, 1.5))
