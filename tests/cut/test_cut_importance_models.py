"""importance of trained models: a language model, encoders with losses of one's own, speech to text."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from importance_help import naive, score, scores
from torch import Tensor

import headwise as hw
from headwise.cut.census import census
from headwise.cut.ranking.importance import importance
from headwise.cut.ranking.settling import spearman

pytestmark = pytest.mark.models

TEXTS = [
    "The animal didn't cross the street because it was too tired.",
    "In the beginning the king spoke to his people, and the people heard the king.",
    "She put the book on the table, and later he took the book from the table.",
]
ONCE = "what comes before it once"


def test_smollm2() -> None:
    """The induction heads matter most for a text that repeats itself."""
    model = hw.load("smollm2", quiet=True)
    draw = torch.Generator().manual_seed(0)
    half = torch.randint(1000, 40000, (2, 24), generator=draw)
    ids = torch.cat([half, half], 1)

    def second(output: Tensor, inputs: dict[str, Tensor]) -> Tensor:
        goal = inputs["input_ids"][:, 25:]
        values = F.cross_entropy(output[:, 24:-1].flatten(0, 1), goal.flatten(), reduction="none")
        return values.view(goal.shape)

    gates = importance(model, ids, "gate", loss=second, quiet=True)
    best = sorted(census(model).heads, key=lambda id: -score(gates, id))[:40]
    known = {"18.6", "17.3", "17.4", "17.5", "16.0"}
    assert len(known & {str(id) for id in best}) >= 3

    heads = ["0.3", "16.0", "18.6", "29.8"]
    found = importance(model, TEXTS, "leave-one-out", heads=heads, quiet=True)
    wanted = naive(model, TEXTS, heads)
    np.testing.assert_allclose([score(found, id) for id in heads], wanted, atol=1e-5)
    assert found.attrs["computed"].endswith(ONCE)


def nearness(output: Any, inputs: Any) -> Tensor:
    """How far the mean vectors of the texts are from one another."""
    hidden = getattr(output, "last_hidden_state", output)
    mask = inputs["attention_mask"][..., None].to(hidden.dtype)
    mean = F.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)
    return 1 - mean @ mean.mean(0)


def test_minilm() -> None:
    model = hw.load("minilm", quiet=True)
    taylor = scores(importance(model, TEXTS, "taylor", loss=nearness, quiet=True), model)
    found = importance(model, TEXTS, "leave-one-out", loss=nearness, quiet=True)
    exact = scores(found, model)
    wanted = naive(model, TEXTS, census(model).heads[::9], nearness)
    np.testing.assert_allclose(exact[::9], wanted, atol=1e-5)
    assert spearman(taylor, exact) > 0.3
    assert found.attrs["computed"].endswith(ONCE)


def test_rxnmapper() -> None:
    """Shared layers, and the loss of masked tokens."""
    model = hw.load("rxnmapper", quiet=True)
    assert model.tokenizer is not None
    ids = torch.tensor([model.tokenizer.encode("CC(=O)Cl.NCCc1ccccc1>>CC(=O)NCCc1ccccc1").ids])
    places = torch.arange(3, ids.shape[1] - 1, 4)

    def masked(output: Any, inputs: Any) -> Tensor:
        return F.cross_entropy(output.logits[0, places], ids[0, places], reduction="none")[None]

    taylor = importance(model, ids, "taylor", loss=masked, quiet=True)
    found = importance(model, ids, "leave-one-out", loss=masked, quiet=True)
    assert dict(found.sizes) == {"layer": 12, "head": 8}
    heads = census(model).heads[::7]
    np.testing.assert_allclose(
        [score(found, id) for id in heads], naive(model, ids, heads, masked), atol=1e-5
    )
    assert found.attrs["computed"].endswith(ONCE)
    assert spearman(scores(taylor, model), scores(found, model)) > 0


def test_whisper() -> None:
    """All three streams of a model that hears and writes, by the next token it writes."""
    model = hw.load("whisper-tiny-en", quiet=True)
    draw = torch.Generator().manual_seed(0)
    batch = {
        "input_features": torch.randn(1, 80, 3000, generator=draw) * 0.3,
        "decoder_input_ids": torch.tensor([[50257, 50362, 383, 3797, 3332, 319, 262, 2603]]),
    }
    gates = importance(model, batch, quiet=True)
    heads = ["encoder.2.1", "decoder.1.0", "cross.2.4", "cross.3.5"]
    found = importance(model, batch, "leave-one-out", heads=heads, quiet=True)
    np.testing.assert_allclose(
        [score(found, id) for id in heads], naive(model, batch, heads), atol=1e-5
    )
    assert found.attrs["computed"].endswith(ONCE)
    assert (scores(gates, model) > 0).all()
    assert gates.sizes["layer"] == 12
