"""regroup on models of transformers, tiny and random, and on trained ones."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from regroup_help import answers
from torch import Tensor
from torch.testing import assert_close

import headwise as hw
from headwise.check.running.filling import cache_bytes
from headwise.cut.census import census
from headwise.cut.regrouping.maps import maps_of
from headwise.cut.regrouping.regrouping import regroup
from headwise.cut.timing.driving import drive_of

TEXTS = [
    "The house on the hill was sold to a family from the north, who painted it white.",
    "Scientists said on Monday that the river had risen by two metres in a single night.",
    "He asked whether the train to the coast would stop at the village, and it did not.",
    "Several of the paintings were returned to the museum after the war had ended.",
]


def tiny(name: str, **fields: Any) -> hw.Model:
    """A random model of transformers with grouped queries, in float64."""
    import transformers

    config = getattr(transformers, f"{name}Config")(
        vocab_size=90,
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=8,
        intermediate_size=32,
        **{"num_key_value_heads": 4, "pad_token_id": 0, **fields},
    )
    torch.manual_seed(0)
    module = getattr(transformers, f"{name}ForCausalLM")(config).eval().double()
    with torch.no_grad():
        for p in module.parameters():
            p.normal_(0, 0.3) if p.dim() > 1 else p.add_(torch.randn_like(p) * 0.1)
    return hw.load(module)


def pair_up(model: hw.Model) -> None:
    """Make each second KV head its neighbour in another basis."""
    draw = torch.Generator().manual_seed(1)
    for maps in maps_of(model):
        q, k, v, o = maps.q.read(), maps.k.read(), maps.v.read(), maps.o.read()
        for j in range(1, len(k), 2):
            turn = torch.randn(v.shape[-1], v.shape[-1], generator=draw, dtype=v.dtype)
            v[j] = v[j - 1] @ turn
            o[2 * j : 2 * j + 2] = torch.linalg.inv(turn) @ o[2 * j : 2 * j + 2]
            angle = torch.rand(maps.pairs.shape[1], generator=draw, dtype=v.dtype) * 6.28
            k[j] = turned(k[j - 1], angle, maps.pairs)
            q[2 * j : 2 * j + 2] = turned(q[2 * j : 2 * j + 2], angle, maps.pairs)
        for rows, x in ((maps.q, q), (maps.k, k), (maps.v, v), (maps.o, o)):
            rows.write(x)


def turned(x: Tensor, angle: Tensor, pairs: Tensor) -> Tensor:
    a, b = x[..., pairs[0]], x[..., pairs[1]]
    made = x.clone()
    made[..., pairs[0]] = a * angle.cos() - b * angle.sin()
    made[..., pairs[1]] = b * angle.cos() + a * angle.sin()
    return made


FAMILIES = {
    "Llama": {},
    "Qwen2": {},
    "Phi3": {},
    "StableLm": {"partial_rotary_factor": 0.5},
    "Cohere": {},
    "Granite": {},
}
"""Biases on q, k and v (Qwen2), one map for all (Phi3), half of a head turned (StableLm), neighbours (Cohere)."""


@pytest.mark.parametrize("name", FAMILIES)
def test_heads_alike_but_for_their_bases_are_pooled_exactly(name):
    model = tiny(name, **FAMILIES[name])
    pair_up(model)
    wanted = answers(model)
    found = regroup(model, 2)
    assert_close(answers(found), wanted, atol=1e-6, rtol=0)
    assert float((answers(regroup(model, 2, "mean")) - wanted).abs().max()) > 1e-3


def test_the_cache_of_transformers_shrinks_too():
    model = tiny("Llama")
    found = regroup(model, 1)
    with torch.no_grad():
        sizes = [cache_bytes(drive_of(x, 1, 10, 1).fill().cache) for x in (model, found)]
    assert sizes[0] == 4 * sizes[1]
    per_token = (found.regrouping.before_bytes, found.regrouping.after_bytes)
    assert [size / 10 for size in sizes] == list(per_token)


def test_what_is_pooled_generates_with_its_cache():
    found = regroup(tiny("Llama"), 2)
    ids = torch.tensor([[5, 6, 7, 8]])
    asked = {"max_new_tokens": 6, "do_sample": False, "pad_token_id": 0, "eos_token_id": None}
    cached = found.module.generate(ids, **asked, use_cache=True)
    assert torch.equal(cached, found.module.generate(ids, **asked, use_cache=False))


@pytest.mark.models
def test_smollm2_with_one_kv_head_keeps_most_when_aligned():
    """9 query heads on 3 KV heads to multi-query attention: aligned on texts, the mean, the first."""
    model = hw.load("smollm2", quiet=True)
    texts = hw.blocks(model, TEXTS, 64)
    found = regroup(model, 1, texts=texts)
    mean, first = (hw.loss(regroup(model, 1, how), texts).mean for how in ("mean", "first"))
    told = found.regrouping
    assert told.after_bytes * 3 == told.before_bytes == 2 * 30 * 3 * 64 * 4
    assert told.loss_before.mean < told.loss_after.mean < mean - 2
    assert mean < first


@pytest.mark.models
def test_minilm_keeps_its_direction_best_when_aligned():
    """A BERT of 12 heads, multi-head attention, to 6 KV heads: what its last layer gives."""
    model = hw.load("minilm", quiet=True)
    inputs = model.tokenizer.encode_batch(TEXTS)
    width = min(len(x.ids) for x in inputs)
    given = {"input_ids": torch.tensor([x.ids[:width] for x in inputs])}

    def likeness(found: hw.Model) -> float:
        with torch.no_grad():
            both = [x.outputs(given).mean(1) for x in (model, found)]
        return float(torch.cosine_similarity(*both).mean())

    aligned = likeness(regroup(model, 6, texts=TEXTS))
    mean = likeness(regroup(model, 6, "mean"))
    assert aligned > 0.8
    assert 1 - aligned < (1 - mean) / 2


@pytest.mark.parametrize("texts", [False, True])
def test_what_was_regrouped_is_saved_and_read_again(tmp_path, texts):
    """As a plain checkpoint of transformers; hw.load reads beside which heads stand where."""
    from transformers import LlamaForCausalLM

    from headwise.cut.saving.saving import save

    model = tiny("Llama")
    draw = torch.Generator().manual_seed(3)
    ids = torch.randint(90, (8, 40), generator=draw)
    found = regroup(model, 2, texts=ids if texts else None)
    told = save(found, tmp_path / "saved")
    again = hw.load(tmp_path / "saved", quiet=True)
    assert census(again).heads == census(found).heads
    assert [run.num_kv_heads for run in census(again).runs] == [2, 2]
    assert_close(answers(again).double(), answers(found), atol=1e-9, rtol=0)
    moved = set(found.regrouping.groups.values()) != {((0, 1), (2, 3))}
    assert (moved, told.why) == (texts, "")
    plain = LlamaForCausalLM.from_pretrained(tmp_path / "saved")
    assert plain.config.num_key_value_heads == 2
    assert_close(answers(hw.load(plain)), answers(found), atol=1e-9, rtol=0)
