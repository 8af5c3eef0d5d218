"""The ledger against the closed forms, which know sizes alone: weights and FLOPs of attention and the FFN."""

from __future__ import annotations

from typing import Any

import pytest

import headwise as hw
from headwise.check.counting.formulas import Form, attention, cache, feed_forward
from headwise.names import ConfigError
from headwise.nn import Decoder, Encoder, EncoderDecoder, TransformerConfig

N, BATCH = 11, 2
OURS = {"vocab_size": 50, "d_model": 24, "num_layers": 2, "num_heads": 6, "max_length": 32}


def held(ledger: hw.Ledger, place: str, part: str) -> Form:
    """Weights and FLOPs of a sequence, as counted."""
    cell = ledger.table.sel(place=place, part=part)
    assert int(cell["flops_forward"]) % BATCH == 0
    assert int(cell["flops_backward"]) == 2 * int(cell["flops_forward"])
    return Form(int(cell["weights"]), int(cell["flops_forward"]) // BATCH)


def is_formed(ledger: hw.Ledger, place: str, forms: dict[str, Form]) -> None:
    for part, form in forms.items():
        assert held(ledger, place, part) == form, part


def llama(**fields: Any) -> Any:
    from transformers import LlamaConfig

    sizes = {"hidden_size": 24, "intermediate_size": 40, "num_hidden_layers": 2, "vocab_size": 50}
    return LlamaConfig(**{**sizes, "num_attention_heads": 6, **fields})


@pytest.mark.parametrize(("kv_heads", "head_dim"), [(6, 4), (2, 4), (1, 10)])
def test_a_llama_costs_what_the_forms_say(kv_heads: int, head_dim: int) -> None:
    config = llama(num_key_value_heads=kv_heads, head_dim=head_dim)
    found = hw.ledger(config, length=N, batch=BATCH)
    forms = attention(24, 6, kv_heads, head_dim, head_dim, N, N)
    forms["ffn"] = feed_forward(24, 40, N, maps=3)
    for place in ("0", "1"):
        is_formed(found, place, forms)
        one = int(found.table.sel(place=place, part="cache")["cache_bytes"])
        assert one == BATCH * cache(kv_heads, head_dim, head_dim, N, 4)
    whole = 2 * sum(form.flops for form in forms.values()) + 2 * N * 24 * 50
    rope = found.part("other")["flops_forward"] // BATCH
    assert found.flops_forward == BATCH * (whole + rope)


def test_fused_maps_are_split_by_their_rows() -> None:
    from transformers import GPT2Config

    config = GPT2Config(n_embd=24, n_layer=1, n_head=4, vocab_size=50, n_positions=32)
    found = hw.ledger(config, length=N, batch=BATCH)
    is_formed(found, "0", attention(24, 4, 4, 6, 6, N, N) | {"ffn": feed_forward(24, 96, N)})
    assert found.part("q")["parameters"] == 24 * 24 + 24  # the bias goes with its rows
    assert found.tied


def test_an_encoder_of_transformers() -> None:
    from transformers import BertConfig

    sizes = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 3}
    config = BertConfig(**sizes, intermediate_size=40, vocab_size=50)
    found = hw.ledger(config, length=N, batch=BATCH)
    is_formed(found, "1", attention(24, 3, 3, 8, 8, N, N) | {"ffn": feed_forward(24, 40, N)})
    assert not found.cached


@pytest.mark.parametrize("kind", [Decoder, Encoder])
@pytest.mark.parametrize("activation", ["gelu", "swiglu"])
def test_our_blocks(kind: Any, activation: str) -> None:
    config = TransformerConfig(**OURS, num_kv_heads=3, d_ff=32, activation=activation)  # type: ignore[arg-type]
    found = hw.ledger(kind(config), length=N, batch=BATCH)
    forms = attention(24, 6, 3, 4, 4, N, N)
    is_formed(
        found, "1", forms | {"ffn": feed_forward(24, 32, N, 3 if activation == "swiglu" else 2)}
    )
    assert found.cache_bytes == (2 * BATCH * cache(3, 4, 4, N, 4) if kind is Decoder else 0)


def test_our_encoder_decoder_with_two_lengths() -> None:
    target = 5
    model = EncoderDecoder(TransformerConfig(**OURS, share_embeddings=True))  # type: ignore[arg-type]
    found = hw.ledger(model, length=N, batch=BATCH, target_length=target)
    is_formed(found, "encoder.0", attention(24, 6, 6, 4, 4, N, N))
    is_formed(found, "decoder.1", attention(24, 6, 6, 4, 4, target, target))
    is_formed(found, "cross.1", attention(24, 6, 6, 4, 4, target, N))
    per_layer = cache(6, 4, 4, target, 4) + cache(6, 4, 4, N, 4)
    assert found.cache_bytes == 2 * BATCH * per_layer
    shapes = {str(one.id): one.stages for one in found.stages}["cross.0"]
    pattern = next(stage for stage in shapes if stage.name == "pattern")
    assert (pattern.times, pattern.rows, pattern.columns) == (6, target, N)


@pytest.mark.parametrize("ours", [True, False])
def test_any_number_of_heads_costs_the_same(ours: bool) -> None:
    """The articles' h * (d * d/h) = d * d: the projections, the scores, the cache; and W_O, d * d at any h."""
    config = TransformerConfig(**{**OURS, "positions": "none"}) if ours else llama()  # type: ignore[arg-type]
    found = hw.ledgers(config, [1, 2, 3, 6, 12], length=N)
    assert [one.head_dim for one in found] == [24, 12, 8, 4, 2]
    made = [one.ledger for one in found if one.ledger is not None]
    assert len(made) == 5
    for name in ("parameters", "cache_bytes"):
        assert len({getattr(one, name) for one in made}) == 1
    for part in ("q", "k", "v", "scores", "mix", "o", "ffn"):
        assert len({one.part(part)["flops_forward"] for one in made}) == 1
    assert {one.part("o")["weights"] for one in made} == {2 * 24 * 24}
    assert {one.part("q")["weights"] for one in made} == {2 * 24 * 24}
    kept = [
        one.part("scores")["activation_bytes"] + one.part("mix")["activation_bytes"] for one in made
    ]
    assert kept == sorted(
        kept
    )  # a number more for each head and query, from which its softmax is made again


def test_heads_that_do_not_divide_d_and_those_that_cannot_be() -> None:
    config = TransformerConfig(**OURS)  # type: ignore[arg-type]
    found = hw.ledgers(config, [5, 6], length=N)
    assert found[0].ledger is None
    assert "d_model=24 is not a multiple of num_heads=5; give head_dim" in found[0].refused
    free = hw.ledgers(config, [5], head_dim=8, length=N)[0].ledger
    assert free is not None
    is_five = attention(24, 5, 5, 8, 8, N, N)
    assert free.part("q")["weights"] == 2 * is_five["q"].parameters
    grouped = hw.ledgers(config, [6], [6, 3, 4, 1], length=N)
    sizes = [one.ledger.cache_bytes if one.ledger else None for one in grouped]
    assert sizes == [4224, 2112, None, 704]
    assert "num_heads=6 is not a multiple of num_kv_heads=4" in grouped[2].refused
    with pytest.raises(ConfigError, match="is not a multiple"):
        hw.ledgers(config, [5], length=N)


def test_shapes_are_those_of_the_article() -> None:
    found = hw.ledger(llama(num_key_value_heads=2), length=N, batch=BATCH)
    told = [(s.name, s.times, s.rows, s.columns) for s in found.stages[0].stages]
    assert told == [
        ("input", 1, N, 24),
        ("q", 6, N, 4),
        ("k", 2, N, 4),
        ("v", 2, N, 4),
        ("pattern", 6, N, N),
        ("z", 6, N, 4),
        ("concat", 1, N, 24),
        ("o", 1, N, 24),
        ("ffn_input", 1, N, 24),
        ("w1", 1, N, 40),
        ("w1", 1, N, 40),
        ("hidden", 1, N, 40),
        ("w2", 1, N, 24),
    ]
