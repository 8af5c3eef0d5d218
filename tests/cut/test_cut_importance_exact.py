"""Leaving heads out: as whole forwards with the head ablated give it, with less computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from cut_help import build, inputs_of
from importance_help import ROWS, calls_of, naive, score, scores, small_decoder, waves
from torch import Tensor, nn

import headwise as hw
from headwise.cut.census import census
from headwise.cut.ranking import leaving, unembedding
from headwise.cut.ranking.importance import importance
from headwise.cut.ranking.unembedding import negative_logs, unembedding_of
from headwise.names import ConfigError
from headwise.see.texts.given import batches_in

ONCE = "what comes before it once"

CAUSAL = ("gpt2", "llama", "llama-mqa", "gemma2", "opt", "gpt-neox", "phi3", "qwen3-next", "bloom")
OTHERS = ("bert", "albert", "vit", "deberta-v2", "xlnet", "mpnet")
WRITE = ("t5", "bart", "whisper")


def test_as_whole_forwards_give_it() -> None:
    model = small_decoder()
    found = importance(model, ROWS, "leave-one-out", quiet=True)
    wanted = naive(model, ROWS, census(model).heads)
    np.testing.assert_allclose(scores(found, model), wanted, atol=1e-5)
    assert np.abs(wanted).max() > 0.05
    assert found.attrs["computed"].endswith(ONCE)


def test_mean_ablation_as_whole_forwards_give_it() -> None:
    model = small_decoder()
    found = importance(model, ROWS, "mean-ablation", quiet=True)
    wanted = naive(model, ROWS, census(model).heads, how="mean", texts=ROWS)
    np.testing.assert_allclose(scores(found, model), wanted, atol=1e-5)
    assert np.abs(wanted - naive(model, ROWS, census(model).heads)).max() > 0.01


@pytest.mark.parametrize("name", CAUSAL)
def test_causal_families(name: str) -> None:
    """In batches of more rows than one, padded."""
    model = hw.load(build(name), quiet=True)
    texts = [row % 30 + 3 for row in (ROWS[0], ROWS[1][:7], ROWS[2][:4])]
    found = importance(model, texts, "leave-one-out", quiet=True)
    wanted = naive(model, texts, census(model).heads)
    np.testing.assert_allclose(scores(found, model), wanted, atol=2e-5)
    assert found.attrs["computed"].endswith(ONCE)


@pytest.mark.parametrize("name", [*OTHERS, *WRITE])
def test_other_families(name: str) -> None:
    """Shared layers, images, and encoders before a decoder, with losses of one's own or not."""
    model = hw.load(build(name), quiet=True)
    texts = inputs_of(name)
    loss = waves if name in OTHERS or name == "whisper" else None
    found = importance(model, texts, "leave-one-out", loss=loss, quiet=True)
    wanted = naive(model, texts, census(model).heads, loss)
    np.testing.assert_allclose(scores(found, model), wanted, atol=2e-5)
    assert np.abs(wanted).max() > 1e-3
    assert found.attrs["computed"].endswith(ONCE)


def test_layers_below_do_not_run_again() -> None:
    model = small_decoder()
    importance(model, ROWS, "leave-one-out", quiet=True)
    blocks = [block.ffn for block in model.module.blocks]  # type: ignore[union-attr]
    counts = [calls_of(block) for block in blocks]  # type: ignore[arg-type]
    projections = [calls_of(block.attention.w_qkv) for block in model.module.blocks]  # type: ignore[union-attr]
    measure = leaving.LeavingOut(model, census(model).heads)
    (batch,) = batches_in(model, ROWS, None, None)
    measure(batch)
    before = [len(held) for held in (*counts, *projections)]
    measure(batch)
    once = [len(held) - n for held, n in zip((*counts, *projections), before, strict=True)]
    # once with all heads, then for each layer from there on, its own projections from the record
    assert once == [2, 3, 4, 1, 2, 3]


def test_heads_run_side_by_side_or_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    model = small_decoder()
    wanted = scores(importance(model, ROWS, "leave-one-out", quiet=True), model)
    monkeypatch.setattr(leaving, "_TOKENS", {"cpu": 3 * ROWS.numel()})
    monkeypatch.setattr(unembedding, "_TOKENS", 7)
    monkeypatch.setattr(unembedding, "_VOCABULARY", 11)
    found = scores(importance(model, ROWS, "leave-one-out", quiet=True), model)
    np.testing.assert_allclose(found, wanted, atol=1e-5)


def test_only_the_heads_asked_for() -> None:
    model = small_decoder()
    found = importance(model, ROWS, "leave-one-out", heads="1.2, 2.*", quiet=True)
    every = importance(model, ROWS, "leave-one-out", quiet=True)
    for id in ("1.2", "2.0", "2.3"):
        assert score(found, id) == pytest.approx(score(every, id), abs=1e-6)
    assert np.isnan(score(found, "1.1"))
    assert "stopped" not in found.attrs


def test_within_another_ablation() -> None:
    """Also of shared layers, whose runs an ablation around counts."""
    for name in ("llama", "albert"):
        model = hw.load(build(name), quiet=True)
        texts = inputs_of(name)
        heads = census(model).heads[2:]
        with hw.ablate(model, census(model).heads[0]):
            found = importance(model, texts, "leave-one-out", loss=waves, quiet=True)
            wanted = naive(model, texts, heads, waves)
        got = [score(found, id) for id in heads]
        np.testing.assert_allclose(got, wanted, atol=1e-5, err_msg=name)
        assert found.attrs["computed"].endswith(ONCE) == (name == "llama")
    assert "an ablation around this" in found.attrs["computed"]


class Whispering(nn.Module):
    """Two layers of which the upper also reads what the lower one left in an attribute."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(50, 16)
        self.layers = nn.ModuleList([Leaving(self) for _ in range(2)])
        self.left: list[Tensor] = []

    def forward(self, ids: Tensor) -> Tensor:
        self.left.clear()
        x = self.embedding(ids)
        for layer in self.layers:
            x = layer(x)
        return x


class Leaving(nn.Module):
    def __init__(self, home: Whispering) -> None:
        super().__init__()
        self.attention = hw.nn.MultiHeadAttention(16, 4)
        self._home = [home]

    def forward(self, x: Tensor) -> Tensor:
        held = self._home[0].left
        x = x + self.attention(x) + (held[0] if held else 0)
        held.append(x * 2)
        return x


def test_what_passes_by_the_side_runs_whole() -> None:
    torch.manual_seed(1)
    model = hw.load(Whispering().eval())
    found = importance(model, ROWS, "leave-one-out", loss=waves, quiet=True)
    wanted = naive(model, ROWS, census(model).heads, waves)
    np.testing.assert_allclose(scores(found, model), wanted, atol=1e-5)
    assert found.attrs["computed"].startswith("the whole model ran for each head of 1, since")


def test_an_interrupt_keeps_what_is_done() -> None:
    model = small_decoder()
    whole = importance(model, ROWS, "leave-one-out", quiet=True)

    def stop(texts: float, total: int | None, tokens: int) -> None:
        assert total == 6
        if texts > 3:
            raise KeyboardInterrupt

    found = importance(model, ROWS, "leave-one-out", progress=stop, quiet=True)
    assert "interrupted" in found.attrs["stopped"]
    assert score(found, "0.1") == pytest.approx(score(whole, "0.1"), abs=1e-6)
    assert np.isnan(score(found, "2.3"))
    assert score(found, "0.1", "rows") == 6
    assert score(found, "2.3", "rows") == 0
    for method in ("leave-one-out", "gate"):
        with pytest.raises(KeyboardInterrupt):
            importance(model, ROWS, method, loss=interrupted, quiet=True)  # type: ignore[arg-type]


def interrupted(output: Any, inputs: Any) -> Tensor:
    raise KeyboardInterrupt


def test_the_model_is_as_it_was() -> None:
    model = small_decoder()
    model.module.train()
    importance(model, ROWS, "leave-one-out", quiet=True)
    assert all(part.training for part in model.module.modules())
    assert all("forward" not in vars(part) for part in model.module.modules())
    assert "logits" not in vars(model.module)
    assert all(p.requires_grad for p in model.module.parameters())


def test_exact_methods_take_no_tokens() -> None:
    with pytest.raises(ConfigError, match='per="token"'):
        importance(small_decoder(), ROWS, "leave-one-out", per="token", quiet=True)


@pytest.mark.parametrize("name", ["llama", "opt", "gpt-neox"])
def test_logits_in_pieces(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unembedding, "_VOCABULARY", 16)
    model = hw.load(build(name), quiet=True)
    found = unembedding_of(model)
    assert found is not None
    hidden = torch.randn(9, found.weight.shape[1]) * 5
    goal = torch.arange(9) * 4
    logits = hidden @ found.weight.T
    wanted = torch.nn.functional.cross_entropy(logits, goal, reduction="none")
    with torch.no_grad():
        torch.testing.assert_close(negative_logs(found, hidden, goal), wanted, rtol=1e-5, atol=1e-5)


def test_logits_that_are_changed_are_made_whole() -> None:
    """Gemma 2 caps its logits, Cohere scales them: then the pieces would not be the model's."""
    for name in ("gemma2", "cohere"):
        model = hw.load(build(name), quiet=True)
        texts = ROWS % 30 + 3
        found = scores(importance(model, texts, "leave-one-out", quiet=True), model)
        np.testing.assert_allclose(found, naive(model, texts, census(model).heads), atol=2e-5)
