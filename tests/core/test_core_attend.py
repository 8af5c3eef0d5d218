"""attend against the blackboard, option by option; weights, gates and dropout; rows that see nothing."""

from __future__ import annotations

import itertools

import pytest
import reference
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from headwise.core import masks, scores
from headwise.core.attention import attend

HEADS = [(4, 4), (4, 2), (4, 1), (6, 3), (1, 1)]


def draw(heads=4, kv_heads=4, queries=5, keys=5, dim=3, v_dim=3, batch=2, dtype=torch.float64):
    shapes = [(heads, queries, dim), (kv_heads, keys, dim), (kv_heads, keys, v_dim)]
    return [torch.randn(batch, *shape, dtype=dtype) for shape in shapes]


def alibi(heads: int, queries: int, keys: int) -> torch.Tensor:
    distance = torch.arange(keys) - (torch.arange(queries)[:, None] + keys - queries)
    return -distance.abs() * torch.logspace(-1, 0, heads, dtype=torch.float64)[None, :, None, None]


@pytest.mark.parametrize(("heads", "kv_heads"), HEADS)
@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (3, 7), (7, 3), (1, 6)])
@pytest.mark.parametrize(("dim", "v_dim"), [(3, 3), (8, 2), (1, 5)])
@pytest.mark.parametrize("causal", [False, True])
def test_heads_one_by_one(heads, kv_heads, queries, keys, dim, v_dim, causal):
    q, k, v = draw(heads, kv_heads, queries, keys, dim, v_dim)
    mask = masks.causal() if causal else None
    seen = masks.causal().dense(queries, keys).numpy() if causal else None
    z, pattern = reference.attention(q, k, v, seen)
    assert_close(attend(q, k, v, mask), z)
    ours, weights = attend(q, k, v, mask, return_pattern=True)
    assert_close(ours, z)
    assert_close(weights, pattern)


def options() -> st.SearchStrategy[dict[str, object]]:
    def bias(shape: tuple[bool, bool, bool]) -> torch.Tensor:
        sizes = [size if each else 1 for size, each in zip((2, 4, 5), shape, strict=True)]
        return torch.randn(*sizes, 6, dtype=torch.float64)

    biases = st.just(alibi(4, 5, 6)) | st.tuples(*[st.booleans()] * 3).map(bias)
    return st.fixed_dictionaries(
        {},
        optional={
            "scale": st.sampled_from([0.0, 0.3, 1.0, 2.5]),
            "bias": biases,
            "softcap": st.sampled_from([0.5, 3.0, 50.0]),
            "sink": st.just(torch.tensor([-2.0, 0.0, 1.5, 30.0], dtype=torch.float64)),
        },
    )


@given(
    options(), st.sampled_from(["none", "causal", "padding", "head"]), st.sampled_from([1, 2, 4])
)
def test_options_together(chosen, kind, kv_heads):
    q, k, v = draw(4, kv_heads, 5, 6)
    mask = {
        "none": None,
        "causal": masks.causal(),
        "padding": masks.causal() & masks.padding(lengths=[0, 4]),
        "head": masks.tensor(torch.rand(1, 4, 5, 6) < 0.6),
    }[kind]
    seen = None if mask is None else mask.dense(5, 6).numpy()
    z, pattern = reference.attention(q, k, v, seen, **chosen)
    ours, weights = attend(q, k, v, mask, return_pattern=True, **chosen)
    assert_close(ours, z)
    assert_close(weights, pattern)
    assert_close(attend(q, k, v, mask, **chosen), z)
    total = weights.sum(-1)
    if "sink" in chosen:
        assert (total < 1).all()
    else:
        sees = torch.ones(2, 4, 5) if mask is None else mask.dense(5, 6).any(-1).expand(2, 4, 5)
        assert_close(total, sees.double())


def test_the_sink_takes_its_share():
    q, k, v = draw()
    _, plain = attend(q, k, v, return_pattern=True)
    sink = torch.randn(4, dtype=torch.float64)
    logits = (q @ k.transpose(-1, -2)) / 3**0.5
    share = sink[:, None].sub(logits.logsumexp(-1)).sigmoid()
    _, weights = attend(q, k, v, sink=sink, return_pattern=True)
    assert_close(weights, plain * (1 - share)[..., None])


def test_blocks_of_rows_change_nothing(monkeypatch):
    q, k, v = draw(4, 2, 13, 13)
    mask = masks.causal() & masks.padding(lengths=[13, 6])
    bias = torch.randn(1, 4, 13, 13, dtype=torch.float64)
    whole = attend(q, k, v, mask, bias=bias, softcap=2.0)
    for cells in (1, 2 * 4 * 13 * 5, 2 * 4 * 13 * 12):
        monkeypatch.setattr(scores, "BLOCK_CELLS", cells)
        assert_close(attend(q, k, v, mask, bias=bias, softcap=2.0), whole)


@pytest.mark.parametrize(("heads", "kv_heads"), HEADS)
def test_scores_of_some_rows_and_heads(heads, kv_heads):
    q, k, _ = draw(heads, kv_heads, 5, 7)
    bias, sink = torch.randn(1, heads, 5, 7, dtype=torch.float64), torch.randn(heads)
    mask = masks.tensor(torch.rand(2, heads, 5, 7) < 0.7)
    asked = scores.Scores(q, k, mask, 0.7, bias, 4.0, sink.double(), 2)
    whole = asked.rows()
    for first, last in itertools.combinations(range(heads + 1), 2):
        assert_close(asked.rows(1, 4, slice(first, last)), whole[:, first:last, 1:4])
    assert_close(asked.rows(2), whole[:, :, 2:])


@pytest.mark.parametrize("axes", [1, 2, 3])
def test_gates(axes):
    q, k, v = draw(4, 2)
    z = attend(q, k, v)
    shape = {1: (4,), 2: (2, 4), 3: (2, 4, 5)}[axes]
    assert attend(q, k, v, gate=torch.ones(shape)).equal(z)
    assert not attend(q, k, v, gate=torch.zeros(shape)).any()
    gate = torch.randn(shape, dtype=torch.float64)
    wide = gate.expand(2, 4) if axes == 1 else gate
    wide = wide[..., None] if axes < 3 else wide
    assert_close(attend(q, k, v, gate=gate), z * wide[..., None])
    one = torch.ones(4, dtype=torch.float64)
    one[2] = 0
    gated = attend(q, k, v, gate=one)
    assert not gated[:, 2].any()
    assert gated[:, [0, 1, 3]].equal(z[:, [0, 1, 3]])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("options", [{}, {"softcap": 5.0}, {"return_pattern": True}])
def test_the_result_has_the_dtype_of_the_values(dtype, options):
    q, k, v = draw(dtype=dtype)
    out = attend(
        q, k, v, masks.causal(), gate=torch.ones(4), bias=torch.zeros(1, 1, 5, 5), **options
    )
    for x in out if isinstance(out, tuple) else (out,):
        assert x.dtype is dtype
    z = out[0] if isinstance(out, tuple) else out
    expected = reference.attention(
        q, k, v, masks.causal().dense(5, 5).numpy(), softcap=options.get("softcap")
    )
    assert_close(z.double(), expected[0], atol=3e-2, rtol=3e-2)


@pytest.mark.parametrize("options", [{}, {"return_pattern": True}, {"softcap": 5.0}])
@pytest.mark.parametrize(
    "mask", [None, masks.causal(), masks.window(2), masks.padding(lengths=[3])]
)
def test_dropout_is_unbiased_and_off_is_off(options, mask):
    runs = 4000
    q, k, v = (x.expand(runs, -1, -1, -1) for x in draw(2, 1, 12, 12, 4, 4, 1, torch.float32))
    plain = attend(q, k, v, mask, **options)
    off = attend(q, k, v, mask, dropout=0.0, **options)
    z = attend(q, k, v, mask, dropout=0.4, **options)
    if "return_pattern" in options:
        assert z[1].equal(plain[1])
        plain, off, z = plain[0], off[0], z[0]
    assert off.equal(plain)
    assert_close(z.mean(0), plain[0], atol=0.1, rtol=0)
    assert not z[0].equal(z[1])
    assert (z - plain).abs().max() > 0.1


def test_no_queries_or_no_keys():
    for options in ({}, {"softcap": 2.0}, {"sink": torch.zeros(4, dtype=torch.float64)}):
        for mask in (None, masks.causal(), masks.padding(lengths=[0, 0]), masks.window(2)):
            q, k, v = draw(queries=0)
            assert attend(q, k, v, mask, **options).shape == (2, 4, 0, 3)
            q, k, v = draw(keys=0)
            z, pattern = attend(q, k, v, mask, return_pattern=True, **options)
            assert z.equal(torch.zeros(2, 4, 5, 3, dtype=torch.float64))
            assert pattern.shape == (2, 4, 5, 0)
            assert attend(q, k, v, mask, **options).equal(z)


def test_observers_see_the_call_and_change_nothing():
    q, k, v = draw(4, 2)
    mask, gate = masks.causal() & masks.padding(lengths=[5, 2]), torch.tensor([0.0, 1.0, 2.0, 3.0])
    seen = []
    z = attend(
        q, k, v, mask, gate=gate, softcap=3.0, observers=[lambda *call: seen.append(call)] * 2
    )
    assert z.equal(attend(q, k, v, mask, gate=gate, softcap=3.0))
    assert len(seen) == 2
    kept, values, before = seen[0]
    assert_close(kept.rows(), attend(q, k, v, mask, softcap=3.0, return_pattern=True)[1])
    assert values is v
    assert before.equal(attend(q, k, v, mask, softcap=3.0))


def test_the_softmax_is_in_float32_at_least():
    q, k, v = draw(keys=50, dim=64, dtype=torch.bfloat16)
    _, pattern = attend(q, k, v, scale=0.5, return_pattern=True)
    expected = reference.attention(q, k, v, scale=0.5)[1]
    assert_close(pattern.double(), expected, atol=1e-6, rtol=2**-8)
