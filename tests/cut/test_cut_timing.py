"""timing: what is run, what is told of it, and what is refused. Nothing here is timed."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

import headwise as hw
from headwise.check.running.filling import cache_bytes
from headwise.cut.timing import timing as room
from headwise.cut.timing.driving import drive_of
from headwise.cut.timing.result import Case
from headwise.cut.timing.rounds import interleaved
from headwise.cut.timing.spread import Spread, spread
from headwise.cut.timing.timing import timing
from headwise.hub.load import load_in_transformers
from headwise.names import ConfigError, ModelError, TextError
from headwise.nn import Decoder, Encoder, EncoderDecoder, TransformerConfig

SIZES = {"vocab_size": 90, "d_model": 24, "num_layers": 2, "num_heads": 4, "max_length": 64}


def made(kind: Any = Decoder, **fields: Any) -> hw.Model:
    torch.manual_seed(0)
    return hw.load(kind(TransformerConfig(**{**SIZES, **fields})))


def tiny_llama() -> hw.Model:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=90,
        hidden_size=24,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        intermediate_size=32,
    )
    return hw.load(LlamaForCausalLM(config).eval())


@pytest.mark.parametrize(
    ("n", "low", "high"), [(1, 0, 0), (5, 0, 4), (6, 0, 5), (9, 1, 7), (20, 5, 14)]
)
def test_the_interval_is_of_order_statistics(n, low, high):
    """Ranks of the 95 % interval of a median, as tables of the sign test have them."""
    found = spread([float(i) for i in reversed(range(n))])
    assert (found.low, found.median, found.high) == (low, (n - 1) / 2, high)


@pytest.mark.parametrize(
    ("ratio", "gain", "words"),
    [
        (Spread(0.84, 0.82, 0.86), "faster", "0.84 [0.82, 0.86]"),
        (Spread(0.99, 0.97, 1.02), "none", "no gain: 0.99 [0.97, 1.02]"),
        (Spread(0.985, 0.98, 0.99), "none", "no gain: 0.98 [0.98, 0.99]"),
        (Spread(0.90, 0.80, 1.01), "none", "no gain: 0.90 [0.80, 1.01]"),
        (Spread(1.10, 1.05, 1.20), "slower", "slower: 1.10 [1.05, 1.20]"),
        (None, None, ""),
    ],
)
def test_a_verdict_says_plainly_where_there_is_no_gain(ratio, gain, words):
    one = Spread(1.0, 1.0, 1.0)
    case = Case("prefill", 1, 8, one, one if ratio else None, ratio)
    assert (case.gain, case.verdict) == (gain, words)


@pytest.mark.parametrize(
    ("make", "kv_heads", "head_dim"),
    [(made, 4, 6), (lambda: made(num_kv_heads=2), 2, 6), (tiny_llama, 2, 6)],
)
def test_cache_bytes_are_those_of_keys_and_values(make, kv_heads, head_dim):
    model = make()
    with torch.no_grad():
        held = drive_of(model, 3, 10, 4).fill()
    assert cache_bytes(held.cache) == 2 * 2 * 3 * kv_heads * 10 * head_dim * 4


@pytest.mark.parametrize("make", [made, tiny_llama, lambda: made(EncoderDecoder)])
def test_decoding_starts_from_the_same_cache_each_time(make):
    model = make()
    with torch.no_grad():
        held = drive_of(model, 1, 10, 8).fill()
        before, lengths = cache_bytes(held.cache), []
        step = held.step
        held.step = lambda cache: (step(cache), lengths.append(cache_bytes(cache)))
        for _ in range(2):
            held.steps(3)()
    assert cache_bytes(held.cache) == before
    assert lengths[:3] == lengths[3:]
    assert before < lengths[0] < lengths[1] < lengths[2]


def test_a_step_reads_what_is_cached():
    model = made()
    seen = []
    with torch.no_grad():
        held = drive_of(model, 1, 10, 1).fill()
        attention = model.module.blocks[0].attention
        attention.register_forward_hook(
            lambda m, args, kwargs, out: seen.append((args[0].shape[1], kwargs["cache"].length)),
            with_kwargs=True,
        )
        held.steps(1)()
    assert seen == [(1, 11)]


def test_a_ratio_is_of_one_round():
    rounds = {"a": 0, "b": 0}

    def measure(name, factor):
        def run():
            rounds[name] += 1
            return factor * 2.0 ** rounds[name]  # the machine gets slower and slower

        return run

    a, b = interleaved([measure("a", 1.0), measure("b", 0.5)], 9)
    assert len(a) == len(b) == 9
    assert [y / x for x, y in zip(a, b, strict=True)] == [0.5] * 9


def test_phases_and_sizes_are_those_asked_for():
    found = timing(made(), made(num_kv_heads=1), batches=(1, 2), lengths=(8, 16), rounds=1)
    assert [(c.phase, c.batch, c.length) for c in found.cases] == [
        (phase, batch, length)
        for batch in (1, 2)
        for length in (8, 16)
        for phase in ("prefill", "decode")
    ]
    assert all(c.cache_bytes[0] == 4 * c.cache_bytes[1] for c in found.cases)
    assert found.a.weight_bytes == 4 * found.a.parameters > 4 * found.b.parameters
    assert found.case("decode", 2, 16) is found.cases[-1]
    assert json.loads(json.dumps(found.as_dict()))["cases"][0]["verdict"] == found.cases[0].verdict


def test_the_ratio_is_the_second_model_by_the_first(monkeypatch):
    monkeypatch.setattr(room, "interleaved", lambda *asked: [[2.0, 4.0], [1.0, 2.0]])
    case = timing(made(), made(), lengths=(8,), rounds=1).cases[0]
    assert (case.a.median, case.b.median, case.ratio.median) == (3.0, 1.5, 0.5)


def test_a_model_without_a_cache_is_run_whole():
    found = timing(made(Encoder), lengths=(8,), rounds=1)
    assert [c.phase for c in found.cases] == ["forward"]
    assert found.cases[0].cache_bytes == (None,)
    assert found.b is None
    assert found.cases[0].verdict == ""
    with pytest.raises(ModelError, match="no cache to decode with"):
        timing(made(Encoder), lengths=(8,), phases=("decode",))


def test_it_leaves_modes_and_threads_as_they_were():
    model = made()
    model.module.train()
    before = torch.get_num_threads()
    found = timing(model, lengths=(8,), rounds=1, threads=2)
    assert model.module.training
    assert model.module.blocks[0].training
    assert torch.get_num_threads() == before
    assert (found.threads, found.clock) == (2, "wall")


@pytest.mark.parametrize(
    ("given", "error", "says"),
    [
        (
            {"batches": (0,)},
            ConfigError,
            r"batches must be whole numbers of 1 or more, came \(0,\)",
        ),
        ({"lengths": ()}, ConfigError, "lengths must be"),
        ({"rounds": 0}, ConfigError, "rounds must be"),
        ({"threads": 0}, ConfigError, "threads must be"),
        ({"phases": ("encode",)}, ConfigError, "phases must be some of"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_what_cannot_be_is_refused(given, error, says):
    with pytest.raises(error, match=says):
        timing(made(), **given)


def test_more_tokens_than_are_read_are_refused():
    with pytest.raises(TextError, match=r"reads 64 tokens at most.*60 \+ 9"):
        timing(made(), lengths=(60,))


@pytest.mark.usefixtures("unchecked")
def test_what_is_no_model_is_refused():
    with pytest.raises(ModelError, match="timing takes a model"):
        timing(Decoder(TransformerConfig(**SIZES)))


@pytest.mark.models
def test_both_runs_of_a_real_model_hold_the_same():
    """SmolLM2 in our blocks and in transformers: the same cache, of 30 layers of 3 KV heads of 64."""
    ours, theirs = hw.load("smollm2", quiet=True), load_in_transformers("smollm2", quiet=True)
    found = timing(theirs, ours, lengths=(16,), rounds=1)
    assert [c.phase for c in found.cases] == ["prefill", "decode"]
    assert {c.cache_bytes for c in found.cases} == {(2 * 30 * 3 * 64 * 16 * 4,) * 2}
    assert found.a.parameters == found.b.parameters


@pytest.mark.models
def test_a_model_that_reads_sound_is_timed_too():
    model = hw.load("whisper-tiny-en", quiet=True)
    found = timing(model, lengths=(16, 32), batches=(1, 2), rounds=1)
    assert [(c.phase, c.length) for c in found.cases] == [("prefill", None), ("decode", None)] * 2
    assert 2 * found.cases[0].cache_bytes[0] == found.cases[2].cache_bytes[0]
