"""Padded against alone, ways to attend, train against eval: sound models agree, planted faults are found."""

from __future__ import annotations

import pytest
import torch
from comparing_help import VOCAB, Plain, draw_for, subject, told
from tiny_models import build
from torch import Tensor, nn

from headwise.check.comparing import check_training, check_unpadded, check_weights
from headwise.check.comparing.places import place_between

SOUND = (
    "gpt2",
    "bloom",
    "mistral-window",
    "gemma2",
    "mixtral",
    "falcon-h1",
    "bert",
    "roberta",
    "t5",
)
"""Added, biased and turned positions; windows, softcap, experts, states; encoders, one that counts from padding."""


@pytest.mark.parametrize("name", SOUND)
@pytest.mark.parametrize("check", [check_unpadded, check_weights, check_training])
def test_sound_models_of_transformers_agree(name, check):
    audited = subject(build(name))
    verdicts = told(check(audited, draw_for(audited)))
    assert verdicts == dict.fromkeys(verdicts, "clean")
    if check is check_unpadded:
        assert {"right", "left"} <= set(verdicts)
    if check is check_weights:
        both = name not in ("bloom", "gemma2")  # they attend in one way
        assert {"asked", "asked, padded"} <= set(verdicts)
        assert ({"sdpa", "sdpa, padded"} <= set(verdicts)) is both


@pytest.mark.parametrize("seed", range(2))
def test_what_is_written_by_hand_agrees(seed):
    audited = subject(Plain(window=4))
    draw = draw_for(audited, seed)
    assert told(check_unpadded(audited, draw)) == {"right": "clean", "left": "clean"}
    assert told(check_weights(audited, draw)) == {"asked": "clean", "asked, padded": "clean"}
    assert told(check_training(audited, draw)) == {"": "clean"}


@pytest.mark.parametrize("seed", range(2))
def test_a_mask_added_as_numbers_lets_padding_in(seed):
    audited = subject(Plain("added"))
    outcomes = check_unpadded(audited, draw_for(audited, seed), locate=place_between)
    assert told(outcomes) == {
        "right": "clean",
        "left": "differs",
    }  # the causal limit hides the right
    assert outcomes[1].module == "layers.1"
    assert "what stands at the padding comes in" in outcomes[1].says


def test_a_mean_over_all_positions_takes_padding_in_on_both_sides():
    audited = subject(Plain("mean"))
    outcomes = check_unpadded(audited, draw_for(audited), locate=place_between)
    assert told(outcomes) == {"right": "differs", "left": "differs"}
    assert outcomes[0].module == ""


class Diluted(nn.Module):
    """Divides by all positions, padding too: what stands there does not matter, how many there are does."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, 8)

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        x = self.tokens(ids)
        real = torch.ones_like(ids) if attention_mask is None else attention_mask
        return x + (x * real[..., None]).sum(1, keepdim=True) / ids.shape[1]


def test_a_number_of_padding_that_matters_is_no_shift():
    audited = subject(Diluted())
    outcomes = check_unpadded(audited, draw_for(audited))
    assert told(outcomes) == {"right": "differs", "left": "differs"}
    assert "what stands there does not matter" in outcomes[1].says


class Counting(Plain):
    """Counts positions from the start of the row, and cannot be told them."""

    def forward(self, ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:  # type: ignore[override]
        return super().forward(ids, attention_mask)[0]


def test_positions_that_padding_shifts_are_not_called_a_fault():
    for model in (Counting(), build("bart")):
        audited = subject(model)
        outcomes = {o.case: o for o in check_unpadded(audited, draw_for(audited))}
        assert outcomes["right"].verdict == "clean"
        assert outcomes["left"].verdict == "skipped"
        assert "absolute positions cannot be given" in outcomes["left"].says
    assert told(check_unpadded(subject(Counting("added")), draw_for(audited)))["left"] == "differs"


def test_what_cannot_be_told_of_padding_is_skipped():
    audited = subject(nn.Sequential(nn.Embedding(VOCAB, 8), nn.Linear(8, 8)))
    for check in (check_unpadded, check_weights):
        (outcome,) = check(audited, draw_for(audited))
        assert outcome.verdict == "skipped"


def test_a_mask_dropped_with_the_weights_is_found():
    audited = subject(Plain("asked"))
    outcomes = check_weights(audited, draw_for(audited), locate=place_between)
    assert told(outcomes) == {"asked": "differs", "asked, padded": "differs"}
    assert [outcome.module for outcome in outcomes] == ["layers.1", "layers.1"]


def test_a_model_that_sees_more_when_asked_for_weights_is_found():
    audited = subject(build("falcon"))  # asked for weights it adds its mask's true and false
    outcomes = check_weights(audited, draw_for(audited), locate=place_between)
    assert told(outcomes) == {"asked": "differs", "asked, padded": "differs"}
    assert outcomes[0].module == "h.0.self_attention"


def test_eager_attention_without_a_mask_is_found(monkeypatch):
    from transformers.models.llama import modeling_llama as llama

    eager = llama.eager_attention_forward
    monkeypatch.setattr(
        llama,
        "eager_attention_forward",
        lambda module, q, k, v, mask, **named: eager(module, q, k, v, None, **named),
    )
    audited = subject(build("llama"))
    outcomes = check_weights(audited, draw_for(audited), locate=place_between)
    assert told(outcomes)["sdpa"] == "differs"
    assert next(o for o in outcomes if o.case == "sdpa").module == "model.layers.0.self_attn"


def test_dropout_left_on_in_eval_is_found():
    (outcome,) = check_training(subject(Plain("dropout")), draw_for(subject(Plain())))
    assert outcome.verdict == "differs"
    assert "eval mode draws random numbers" in outcome.says


def test_batch_statistics_are_found_and_named():
    audited = subject(Plain("batch norm"))
    (outcome,) = check_training(audited, draw_for(audited), locate=place_between)
    assert (outcome.verdict, outcome.module) == ("differs", "norm")
    assert "norm normalises by the statistics of the batch" in outcome.says


def test_random_numbers_of_training_are_not_called_a_fault():
    (outcome,) = check_training(subject(Plain("jitter")), draw_for(subject(Plain())))
    assert outcome.verdict == "skipped"
    assert "uniform" in outcome.says


class Scaled(Plain):
    """Drops in training without making up for it, and scales in eval."""

    def __init__(self) -> None:
        super().__init__()
        self.dropout = 0.25

    def forward(self, ids: Tensor) -> Tensor:  # type: ignore[override]
        out = super().forward(ids)[0]
        return out if self.training else out * (1 - self.dropout)


def test_eval_that_makes_up_for_dropout_is_clean():
    (outcome,) = check_training(subject(Scaled()), draw_for(subject(Plain())))
    assert outcome.verdict == "clean"
    assert "with every rate 0" in outcome.says
