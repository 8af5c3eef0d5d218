"""Through the cache, token by token and in pieces: sound models agree, planted faults are found and named."""

from __future__ import annotations

import pytest
import torch
from comparing_help import VOCAB, Plain, draw_for, subject, told
from tiny_models import build
from torch import Tensor, nn

from headwise.check.comparing import check_cached, check_chunked
from headwise.check.comparing.places import place_between
from headwise.nn import Decoder, EncoderDecoder, TransformerConfig

OURS = TransformerConfig(
    vocab_size=VOCAB, d_model=16, num_heads=4, num_layers=2, d_ff=32, max_length=64
)
SOUND = ("gpt2", "bloom", "mistral-window", "gemma2", "mixtral", "llama4", "falcon-h1", "lfm2")
"""Added, biased and turned positions; windows, softcap, experts, chunks, states."""


@pytest.mark.parametrize("name", [*SOUND, "xglm", "t5", "bart"])
@pytest.mark.parametrize("check", [check_cached, check_chunked])
def test_sound_models_of_transformers_agree(name, check):
    audited = subject(build(name))
    for outcome in check(audited, draw_for(audited)):
        assert outcome.verdict == "clean", outcome
        assert outcome.strength < outcome.floor * 64 < 1e-2


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("kind", ["decoder", "both", "plain", "window", "function"])
@pytest.mark.parametrize("check", [check_cached, check_chunked])
def test_ours_and_handwritten_agree(kind, seed, check):
    torch.manual_seed(seed)
    plain = Plain(window=4)
    model = {
        "decoder": lambda: Decoder(OURS).eval(),
        "both": lambda: EncoderDecoder(OURS).eval(),
        "plain": Plain,
        "window": lambda: plain,
        "function": lambda: lambda ids, state=None: plain(ids, state=state),
    }[kind]()
    audited = subject(model.double() if isinstance(model, nn.Module) else model)
    if kind == "function":
        plain.double()
    verdicts = told(check(audited, draw_for(audited, seed)))
    assert verdicts == dict.fromkeys(verdicts, "clean")
    assert "left" in verdicts or kind == "function"


@pytest.mark.parametrize(
    ("fault", "module", "window"),
    [
        ("position", "", None),
        ("rolling", "layers.1", 4),
        ("first key", "layers.1", None),
        ("unread", "layers.1", None),
    ],
)
def test_planted_faults_token_by_token(fault, module, window):
    audited = subject(Plain(fault, window))
    for seed in range(2):
        plain = check_cached(audited, draw_for(audited, seed), locate=place_between)[0]
        assert plain.verdict == "differs"
        assert plain.module == module
        assert plain.strength > 0.01
        assert plain.pairs
        assert all(query == key > 0 for query, key in plain.pairs)


def test_the_padding_forgotten_in_a_step_shows_under_padding_alone():
    audited = subject(Plain("padding"))
    cached = check_cached(audited, draw_for(audited), locate=place_between)
    assert told(cached) == {"": "clean", "left": "differs"}
    assert cached[1].module == "layers.1"


def test_a_mask_at_the_top_left_shows_in_pieces_alone():
    audited = subject(Plain("top-left"))
    draw = draw_for(audited)
    assert check_cached(audited, draw)[0].verdict == "clean"
    in_pieces = check_chunked(audited, draw, locate=place_between)[0]
    assert (in_pieces.verdict, in_pieces.module) == ("differs", "layers.1")


def test_what_is_not_handed_on_is_said():
    audited = subject(Plain("unread", layers=1))
    assert "state is handed over and not used" in check_cached(audited, draw_for(audited))[0].says


def test_wrong_counting_is_told_from_a_wrong_cache():
    audited = subject(build("minimax"))  # a cache whose first layer holds no keys counts none
    says = check_cached(audited, draw_for(audited))[0].says
    assert "it counts them wrongly from its cache" in says


class Bag(nn.Module):
    """Takes a cache and looks at nothing before; or gives NaN."""

    def __init__(self, broken: bool = False) -> None:
        super().__init__()
        self.tokens, self.broken = nn.Embedding(VOCAB, 8), broken

    def forward(self, ids: Tensor, past: Tensor | None = None) -> tuple[Tensor, Tensor]:
        x = self.tokens(ids)
        if self.broken and past is not None:
            x = x + torch.nan
        return x, ids


def test_what_shows_nothing_is_unknown_and_nan_never_passes():
    audited = subject(Bag())
    nothing = check_cached(audited, draw_for(audited))[0]
    assert nothing.verdict == "unknown"
    assert "does not depend on what comes before" in nothing.says
    broken = check_cached(subject(Bag(broken=True)), draw_for(audited))[0]
    assert broken.verdict == "unknown"
    assert "NaN" in broken.says


def test_what_has_no_cache_is_skipped_with_the_reason():
    audited = subject(nn.Sequential(nn.Embedding(VOCAB, 8), nn.Linear(8, 8)))
    (outcome,) = check_cached(audited, draw_for(audited))
    assert (outcome.verdict, outcome.says) == ("skipped", "it takes no cache")
    (outcome,) = check_cached(subject(Plain()), draw_for(audited), causal=False)
    assert outcome.verdict == "skipped"


class Flipping(nn.Module):
    """Sound but for one token of the vocabulary, at which reading through the cache gives another answer."""

    def __init__(self, token: int) -> None:
        super().__init__()
        self.plain, self.token = Plain(), token

    def forward(self, ids: Tensor, state: object = None) -> tuple[Tensor, object]:
        out, kept = self.plain(ids, state=state)
        return out + (ids == self.token)[..., None] * (ids.shape[1] == 1), kept


def test_a_difference_on_one_text_is_no_finding():
    audited = subject(Flipping(0))
    draw = draw_for(audited)
    once = [set(draw(salt).text.flatten().tolist()) for salt in (0, 1, 2)]
    token = next(iter((once[0] - once[1] - once[2]) | (once[1] - once[0] - once[2])))
    (outcome,) = check_cached(subject(Flipping(token)), draw)
    assert outcome.verdict == "unknown"
    assert "one text of three" in outcome.says
