"""prune with texts: ranking on them, and giving back on them what named heads added."""

from __future__ import annotations

import pytest
import torch

from headwise.cut.ablating.ablating import ablate
from headwise.cut.census import census
from headwise.cut.pruning.iterating import path_of
from headwise.cut.pruning.pruning import prune
from headwise.cut.pruning.recipe import STEPS, Recipe, cut_on_texts
from headwise.hub.load import load
from headwise.names import ConfigError, TextError
from headwise.nn import Decoder, TransformerConfig

IDS = torch.randint(0, 31, (5, 16), generator=torch.Generator().manual_seed(1))


def tiny():
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=31, d_model=24, num_layers=2, num_heads=4, d_ff=40, max_length=32
    )
    return load(Decoder(config).eval())


def logits(model):
    with torch.no_grad():
        return model.module(IDS)


def test_texts_and_keep_follow_the_default_recipe():
    model, other = tiny(), tiny()
    before = logits(model)
    smaller = prune(model, texts=IDS, keep=0.5, quiet=True)
    path = cut_on_texts(other, IDS, Recipe(keep=0.5, steps=STEPS))
    assert path_of(smaller.module).heads == path.heads
    torch.testing.assert_close(logits(smaller), logits(other))
    assert torch.equal(logits(model), before)
    assert path_of(model.module) is None
    assert prune(model, texts=IDS, keep=0.5, inplace=True, quiet=True) is model
    assert len(census(model).heads) == 4


@pytest.mark.parametrize("fold", [None, "mean", "zero"])
def test_named_heads_leave_their_means_where_there_are_texts(fold):
    model = tiny()
    smaller = prune(model, "0.1, 1.*", texts=IDS, fold=fold)
    with ablate(model, "0.1, 1.*", how=fold or "mean", texts=IDS):
        wanted = logits(model)
    torch.testing.assert_close(logits(smaller), wanted, atol=1e-5, rtol=1e-5)


def test_heads_by_scores_can_be_refitted():
    model = tiny()
    scores = {head: head.head - 10 * head.layer for head in census(model).heads}
    off = {}
    for refit in (False, True):
        smaller = prune(model, scores=scores, keep=0.75, texts=IDS, refit=refit)
        assert [str(head) for head in census(smaller).heads if head.layer] == ["1.2", "1.3"]
        off[refit] = (logits(smaller) - logits(model)).square().mean().item()
    assert off[True] < 0.9 * off[False]


def test_a_step_that_is_interrupted_leaves_the_ones_before(capsys):
    def progress(done, total, what):
        if done == 2:
            raise KeyboardInterrupt

    smaller = prune(tiny(), texts=IDS, keep=0.5, steps=4, progress=progress)
    assert len(census(smaller).heads) == 6
    assert path_of(smaller.module).stopped
    assert "stopped after step 2 of 4" in capsys.readouterr().err


def test_all_of_it_stays_at_a_share_of_one():
    model = tiny()
    for options in ({"scores": dict.fromkeys(census(model).heads, 0.0)}, {"texts": IDS}):
        smaller = prune(model, keep=1, quiet=True, **options)
        assert smaller is not model
        assert torch.equal(logits(smaller), logits(model))


@pytest.mark.parametrize(
    ("error", "options"),
    [
        (ConfigError, {}),
        (ConfigError, {"keep": 0.5}),
        (ConfigError, {"heads": "0.1", "scores": {}}),
        (ConfigError, {"texts": IDS}),
        (ConfigError, {"texts": IDS, "keep": 0}),
        (ConfigError, {"texts": IDS, "keep": 1.5}),
        (ConfigError, {"texts": IDS, "keep": 0.5, "steps": 0}),
        (ConfigError, {"texts": IDS, "keep": 0.5, "fold": "median"}),
        (ConfigError, {"heads": "0.1", "texts": IDS, "method": "joint"}),
        (ConfigError, {"heads": "0.1", "texts": IDS, "steps": 3}),
        (TextError, {"heads": "0.1", "refit": True}),
        (TextError, {"heads": "0.1", "fold": "mean"}),
        (TextError, {"texts": [], "keep": 0.5}),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_what_does_not_go_together_is_refused(error, options):
    model = tiny()
    with pytest.raises(error):
        prune(model, quiet=True, **options)
    assert len(census(model).heads) == 8
