"""Which cause is named for which pattern, module and clean ways; and on audits of planted faults."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from headwise.check.telling.advice import RULES, advise, advised, cause
from headwise.check.telling.report import Outcome
from headwise.check.telling.signs import Facts
from headwise.core import masks

N = 12
CAUSAL = masks.causal().dense(N, N)[0, 0]
WINDOW = (masks.causal() & masks.window(4)).dense(N, N)[0, 0]
DOCUMENTS = (masks.causal() & masks.documents([0] * 5 + [1] * 7)).dense(N, N)[0, 0]
LEFT = (masks.causal() & masks.padding(key_padding_mask=torch.arange(N)[None] < 3)).dense(N, N)[
    0, 0
]
RIGHT = masks.padding(lengths=[9]).dense(N, N)[0, 0].expand(N, N)
Q, K = torch.arange(N)[:, None], torch.arange(N)[None]
ALL = torch.ones(N, N, dtype=torch.bool)
ATTENTION = {"module": "layers.1.self_attn", "kind": "LlamaAttention"}


def seeing(
    seen: Tensor, allowed: Tensor = CAUSAL, even: bool = False, **fields: Any
) -> dict[str, Any]:
    """What is allowed has its influence, and of what is not, what is seen."""
    values = (
        torch.ones(N, N)
        if even
        else torch.rand(N, N, generator=torch.Generator().manual_seed(0)) + 0.1
    )
    values = values * fields.get("strength", 0.5)
    return {
        "allowed": allowed,
        "measured": torch.where(allowed, 1.0, torch.where(seen, values, 0.0)),
        "strength": 0.5,
    } | fields


def ahead(by: int) -> Tensor:
    return (K - Q).clamp_min(0).eq(by) & (Q < K)


def at(*positions: int) -> dict[str, Any]:
    return {"verdict": "differs", "pairs": tuple((p, p) for p in positions)}


MIXER = {"module": "layers.0.mixer.conv1d", "kind": "Conv1d"}
NORM = {"module": "layers.0.norm", "kind": "TimeNorm"}
MLP = {"module": "layers.0.mlp", "kind": "MLP"}
EMBED = {"module": "model.rotary_emb", "kind": "LlamaRotaryEmbedding"}
MODEL = {"module": "model", "kind": "LlamaModel"}
BATCH_NORM = {"module": "norm", "kind": "BatchNorm1d"}

CASES: list[tuple[str, str, str, dict[str, Any], dict[str, Any]]] = [
    (
        "mask dropped with weights",
        "future",
        "with weights",
        seeing(ALL, **ATTENTION),
        {"clean": [""]},
    ),
    ("mask skipped for is_causal", "future", "sdpa", seeing(ALL, **ATTENTION), {"clean": [""]}),
    ("mask skipped for is_causal", "future", "", seeing(ALL, **ATTENTION), {"clean": ["eager"]}),
    (
        "mask missing in eager attention",
        "future",
        "eager",
        seeing(ALL, **ATTENTION),
        {"clean": [""]},
    ),
    (
        "mask missing in eager attention",
        "future",
        "",
        seeing(ALL, **ATTENTION),
        {"clean": ["sdpa"]},
    ),
    ("batch statistics", "future", "train", seeing(ALL, even=True, **BATCH_NORM), {"clean": [""]}),
    ("batch statistics", "rows", "train", BATCH_NORM, {"clean": [""]}),
    ("only in training", "future", "train", seeing(ALL, **MLP), {"clean": [""]}),
    ("only in training", "rows", "train", MLP, {"clean": [""]}),
    ("rows mixed", "rows", "", ATTENTION, {}),
    ("mask outrun by wide weights", "future", "", seeing(ALL, **ATTENTION), {"wide_only": True}),
    ("finite mask", "future", "", seeing(ALL, strength=5e-5, **ATTENTION), {}),
    ("finite mask", "future", "eager", seeing(ALL, strength=5e-5, **ATTENTION), {"clean": [""]}),
    ("finite mask", "padding", "left", seeing(ALL, LEFT, strength=5e-5, **ATTENTION), {}),
    ("memory across documents", "documents", "", seeing(Q - K == 1, DOCUMENTS, **MLP), {}),
    ("memory across documents", "documents", "", seeing(ALL, DOCUMENTS, **MIXER), {}),
    (
        "positions restart but the mask does not",
        "documents",
        "",
        seeing(CAUSAL, DOCUMENTS, **ATTENTION),
        {},
    ),
    (
        "prefix shows padding",
        "padding",
        "left",
        seeing(ALL, LEFT, **ATTENTION),
        {"declared": "causal() | prefix(3)"},
    ),
    ("prefix shows padding", "padding", "right", seeing(K < 10, RIGHT, **ATTENTION), {}),
    ("memory over padding", "padding", "left", seeing(ALL, LEFT, **MIXER), {}),
    ("padding in a mean", "padding", "right", seeing(ALL, RIGHT, even=True, **MLP), {}),
    ("padding mask as 0 and 1", "padding", "right", seeing(ALL, RIGHT, **ATTENTION), {}),
    (
        "padding of the encoder's own",
        "memory",
        "right",
        seeing(ALL, RIGHT, module="encoder.block.0.SelfAttention", kind="T5Attention"),
        {},
    ),
    (
        "mask dropped in cross-attention",
        "memory",
        "right",
        seeing(ALL, RIGHT, module="decoder.block.0.EncDecAttention", kind="T5Attention"),
        {},
    ),
    (
        "recurrence both ways",
        "future",
        "",
        seeing(ALL, module="encoder", kind="LSTM"),
        {},
    ),
    ("padding on both sides", "future", "", seeing(ahead(1) | ahead(2), **MIXER), {}),
    ("shifted the wrong way", "future", "", seeing(ahead(1), **MODEL), {}),
    ("diagonal off by one", "future", "", seeing(ahead(1), **ATTENTION), {}),
    ("diagonal off by one", "future", "", seeing(ahead(1) | ahead(2), **ATTENTION), {"layers": 2}),
    ("window one too wide", "future", "window", seeing(Q - K == 4, WINDOW, **ATTENTION), {}),
    ("window not applied", "future", "window", seeing(CAUSAL, WINDOW, **ATTENTION), {}),
    ("prefix", "future", "", seeing(K < 5, **ATTENTION), {}),
    ("blocks", "future", "", seeing(K // 4 == Q // 4, **ATTENTION), {}),
    ("blocks", "future", "", seeing(K // 2 == Q // 2, **ATTENTION), {}),
    ("mean over time", "future", "", seeing(ALL, even=True, **NORM), {}),
    ("no causal mask", "future", "", seeing(ALL, **ATTENTION), {}),
    ("no causal mask", "future", "", seeing(ALL, even=True, **ATTENTION), {}),
    ("all of time", "future", "", seeing(ALL, **MLP), {}),
    ("pieces start anew", "chunked", "", at(3, 4) | MIXER, {"clean": [""], "of": "cached"}),
    ("memory not carried", "chunked", "", at(3, 4) | MIXER, {}),
    ("memory not carried", "cached", "", at(3, 4, 5) | MIXER, {}),
    ("positions of the cache", "cached", "", at(1, 2, 3) | EMBED, {}),
    ("positions of the cache", "chunked", "", at(5, 6, 7) | MODEL, {}),
    ("mask of a piece", "chunked", "", at(5, 6, 7) | ATTENTION, {"clean": [""], "of": "cached"}),
    ("rolling cache", "cached", "", at(9, 8, 10) | ATTENTION, {}),
    ("keys of the cache", "cached", "", at(1, 2, 3) | ATTENTION, {}),
    ("keys of the cache", "chunked", "", at(5, 6, 7) | ATTENTION, {}),
    ("positions count padding", "unpadded", "left", at(3, 4) | EMBED, {}),
    ("padding comes in", "unpadded", "left", at(3, 4) | ATTENTION, {}),
    ("mask differs with weights", "weights", "eager", at(3, 4) | ATTENTION, {}),
    ("batch statistics", "training", "", at(3, 4) | BATCH_NORM, {}),
    ("dropout in eval", "training", "", at(3, 4) | ATTENTION, {}),
]


def facts_of(dimension: str, case: str, fields: dict[str, Any], more: dict[str, Any]) -> Facts:
    more = dict(more)
    of = more.pop("of", dimension)
    beside = tuple(Outcome(of, name, "clean", "") for name in more.pop("clean", []))
    outcome = Outcome(dimension, case, **({"verdict": "leak", "says": ""} | fields))
    return Facts(outcome, (outcome, *beside), **more)


@pytest.mark.parametrize(
    ("name", "dimension", "case", "fields", "more"),
    CASES,
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_the_cause_is_named(name, dimension, case, fields, more):
    facts = facts_of(dimension, case, fields, more)
    assert cause(facts) == name
    assert advise(facts).startswith("looks like ")


def test_every_rule_has_a_case():
    assert {rule.name for rule in RULES} == {case[0] for case in CASES}


def test_sentences_hold_what_was_found():
    faint = facts_of("future", "", seeing(ALL, strength=5e-5, **ATTENTION), {})
    assert "exp(-10)" in advise(faint)
    blocks = facts_of("future", "", seeing(K // 4 == Q // 4, **ATTENTION), {})
    assert "chunks of 4 positions" in advise(blocks)
    prefix = facts_of("future", "", seeing(K < 5, **ATTENTION), {})
    assert "a prefix of at least 5 positions" in advise(prefix)


def test_where_causal_is_assumed_it_may_be_meant():
    more = {"declared": "causal, as nothing says otherwise"}
    hint = "; if it reads both ways on purpose, declare masks.full()"
    assert advise(facts_of("future", "", seeing(ALL, **MODEL), more)).endswith(hint)
    assert hint not in advise(facts_of("future", "", seeing(ALL, **MODEL), {"declared": "causal"}))
    assert hint not in advise(facts_of("future", "", seeing(ahead(1), **MODEL), more))


def test_a_recurrence_that_sees_too_far_back_runs_one_way():
    fields = seeing(CAUSAL, WINDOW, module="encoder", kind="GRU")
    assert cause(facts_of("future", "", fields, {})) == "window not applied"


@pytest.mark.parametrize(
    "seen",
    [
        ahead(3),
        ahead(1) & (Q > 4),
        (K // 4 == Q // 4) & ~((Q == 8) & (K == 9)),
        (Q == 2) & (K == 7),
    ],
)
def test_a_pattern_that_fits_nothing_gets_no_advice(seen):
    facts = facts_of("future", "", seeing(seen, **ATTENTION), {})
    assert advise(facts) == ""


def test_what_was_not_measured_is_no_evidence():
    """Of the blocks of 4, some keys are not measured; the rest of the pattern decides."""
    fields = seeing(K // 4 == Q // 4, **ATTENTION)
    fields["measured"][:, [1, 6]] = torch.nan
    assert cause(facts_of("future", "", fields, {})) == "blocks"
    fields = seeing(ALL, **ATTENTION)
    fields["measured"][:, 2:] = torch.nan
    assert cause(facts_of("future", "", fields, {})) == ""


def test_what_is_left_over_is_not_part_of_the_pattern():
    fields = seeing(ahead(1), **ATTENTION)
    fields["measured"] = fields["measured"] + ahead(5) * 1e-9
    assert cause(facts_of("future", "", fields, {})) == "diagonal off by one"
    fields["measured"] = fields["measured"] + ahead(5) * 1e-3
    assert cause(facts_of("future", "", fields, {})) == ""
    fields["floor"] = 1e-2
    assert cause(facts_of("future", "", fields, {})) == "diagonal off by one"


def test_the_outcomes_of_an_audit_are_advised():
    leak = Outcome("future", "", "leak", "", **seeing(ALL, **ATTENTION))
    clean = Outcome("future", "eager", "clean", "")
    found = advised([leak, clean])
    assert "is_causal" in found[0].advice
    assert found[1].advice == ""
    alone = advised([leak])
    assert "without any causal mask" in alone[0].advice
