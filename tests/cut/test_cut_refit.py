"""What heads that are cut leave behind: means folded into the bias, and W_O refitted on texts."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from headwise.cut.ablating.ablating import ablate
from headwise.cut.ablating.gathering import mean_outputs
from headwise.cut.pruning.folding import folded, losing, output_maps
from headwise.cut.pruning.refitting import Products, refitted
from headwise.hub.load import load
from headwise.names import ConfigError, HeadId, LayerId, TextError
from headwise.nn import Decoder, TransformerConfig
from headwise.see.texts.given import batches_in

HEADS = (HeadId("", 0, 2), HeadId("", 1, 0), HeadId("", 1, 3))
IDS = torch.randint(0, 31, (6, 20), generator=torch.Generator().manual_seed(1))


def tiny(**fields):
    torch.manual_seed(0)
    base = {"vocab_size": 31, "d_model": 24, "num_layers": 2, "num_heads": 4, "d_ff": 40}
    module = Decoder(TransformerConfig(**{**base, "max_length": 32, **fields})).eval()
    with torch.no_grad():
        for p in module.parameters():
            p.add_(torch.randn_like(p) * 0.2)
    return load(module)


def texts(model):
    return batches_in(model, IDS, None, None, "prune")


def logits(model):
    with torch.no_grad():
        return model.module(IDS)


def put(model, outputs, heads):
    """Give a model of ours new output maps, with the heads that are cut at 0."""
    for id, new in outputs.items():
        w_o = model.module.blocks[id.layer].attention.w_o
        with torch.no_grad():
            if new.weight is not None:
                w_o.weight.copy_(new.weight.flatten(0, 1).T)
            for head in heads:
                if head.layer == id.layer:
                    w_o.weight[:, head.head * 6 : head.head * 6 + 6] = 0
            w_o.bias += new.bias


def test_folded_means_are_mean_ablation():
    model = tiny()
    means = mean_outputs(model, IDS)
    with ablate(model, list(HEADS), how="mean", texts=IDS):
        wanted = logits(model)
    outputs = folded(model, HEADS, means)
    assert set(outputs) == {LayerId("", 0), LayerId("", 1)}
    assert all(new.weight is None for new in outputs.values())
    put(model, outputs, HEADS)
    torch.testing.assert_close(logits(model), wanted, atol=1e-5, rtol=1e-5)


def test_nothing_cut_is_nothing_new():
    model = tiny()
    assert refitted(model, (), texts(model)) == {}
    assert folded(model, (), {}) == {}


def test_the_copy_of_a_head_takes_its_place_exactly():
    model = tiny()
    attention = model.module.blocks[1].attention
    with torch.no_grad():
        for part in (0, 24, 48):  # queries, keys, values
            for x in (attention.w_qkv.weight, attention.w_qkv.bias):
                x[part + 18 : part + 24] = x[part : part + 6]
    wanted = logits(model)
    cut = (HeadId("", 1, 3),)
    outputs = refitted(model, cut, texts(model), ridge=0.0)
    put(model, outputs, cut)
    torch.testing.assert_close(logits(model), wanted, atol=2e-4, rtol=2e-4)


def test_it_adds_nearer_to_what_was_than_folding_does():
    model = tiny()
    added = {}

    def run(name):
        w_o = model.module.blocks[0].attention.w_o
        handle = w_o.register_forward_hook(lambda m, x, y: added.update({name: y}))
        logits(model)
        handle.remove()

    cut = (HeadId("", 0, 2), HeadId("", 0, 3))
    state = {name: x.clone() for name, x in model.module.state_dict().items()}
    run("whole")
    new = {"folded": folded(model, cut, mean_outputs(model, IDS))}
    new["refitted"] = refitted(model, cut, texts(model))
    new["held"] = refitted(model, cut, texts(model), ridge=1e6)
    off = {}
    for name, outputs in new.items():
        put(model, outputs, cut)
        run(name)
        off[name] = float((added[name] - added["whole"]).square().mean())
        model.module.load_state_dict(state)
    assert off["refitted"] < 0.9 * off["folded"]
    assert off["held"] == pytest.approx(
        off["folded"], rel=1e-3
    )  # a ridge that high leaves the constant


@pytest.mark.parametrize("ridge", [0.0, 0.03])
def test_told_is_what_least_squares_says(ridge):
    draw = np.random.default_rng(0)
    x = draw.normal(size=(50, 7)) @ draw.normal(size=(7, 7)) + draw.normal(size=7)
    products = Products.none(7)
    for part in torch.tensor(x).float().split(13):
        products.add(part)
    known, wanted = [0, 2, 5, 6], [3, 1]
    mean = np.square(x).sum(0).mean()
    rows = np.concatenate([x[:, known], np.ones((50, 1))], 1)
    held = np.concatenate([np.sqrt(ridge * mean) * np.eye(4), np.zeros((4, 1))], 1)
    rows, goal = np.concatenate([rows, held]), np.concatenate([x[:, wanted], np.zeros((4, 2))])
    by_numpy = np.linalg.lstsq(rows, goal, rcond=None)[0]
    np.testing.assert_allclose(products.told(wanted, known, ridge), by_numpy, atol=1e-4)
    assert products.tokens == 50


def test_a_layer_that_loses_all_keeps_its_mean():
    model = tiny()
    cut = tuple(HeadId("", 0, head) for head in range(4))
    new = refitted(model, cut, texts(model))[LayerId("", 0)]
    mean = folded(model, cut, mean_outputs(model, IDS))[LayerId("", 0)]
    torch.testing.assert_close(new.bias, mean.bias, atol=1e-5, rtol=1e-4)


def test_output_maps_are_the_models_own():
    model = tiny()
    maps = output_maps(model)
    for i, block in enumerate(model.module.blocks):
        weight = maps[LayerId("", i)].weight
        torch.testing.assert_close(weight.flatten(0, 1).T, block.attention.w_o.weight)
    (first, second) = losing(model, HEADS)
    assert (first.gone, first.kept) == ((2,), (0, 1, 3))
    assert (second.gone, second.kept) == ((0, 3), (1, 2))


def test_what_means_nothing_is_refused():
    model = tiny()
    with pytest.raises(ConfigError, match="ridge"):
        refitted(model, HEADS, texts(model), ridge=-1.0)
    with pytest.raises(TextError, match="no token"):
        refitted(model, HEADS, [])
