"""Drawing tokens: limits as transformers has them, and chance that is of each row alone."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch.testing import assert_close

from headwise.nn import Decoder, generate
from headwise.nn.generating.drawing import Drawing, generators_for


@given(
    seed=st.integers(0, 99),
    temperature=st.sampled_from([0.3, 1.0, 1.7]),
    top_k=st.sampled_from([None, 1, 4, 40, 1000]),
    top_p=st.sampled_from([None, 1e-4, 0.3, 0.9, 1.0]),
    ties=st.booleans(),
)
def test_limits_are_those_of_transformers(seed, temperature, top_k, top_p, ties):
    from transformers.generation import logits_process as theirs

    torch.manual_seed(seed)
    logits = torch.randn(3, 60) * 3
    logits = logits.round() if ties else logits
    wanted = theirs.TemperatureLogitsWarper(temperature)(None, logits)
    if top_k is not None:
        wanted = theirs.TopKLogitsWarper(top_k)(None, wanted)
    if top_p is not None and top_p < 1:
        wanted = theirs.TopPLogitsWarper(top_p)(None, wanted)
    got = Drawing(temperature, top_k, top_p).limited(logits)
    assert torch.equal(got.isinf(), wanted.isinf())
    assert_close(got, wanted)


def test_tokens_come_as_often_as_they_are_likely():
    logits = torch.tensor([[0.0, 2.0, 1.0, -1.0]]).expand(4000, -1)
    drawn = Drawing(1.0).next(logits, generators_for(4000, torch.Generator().manual_seed(0)))
    shares = torch.bincount(drawn, minlength=4) / 4000
    assert_close(shares, logits[0].softmax(-1), atol=0.02, rtol=0)
    few = Drawing(1.0, top_k=2).next(logits, generators_for(4000, None))
    assert set(few.tolist()) == {1, 2}


def drawn_by(number, logits, monkeypatch, **limits):
    """What each row draws by a number of [0, 1)."""
    monkeypatch.setattr(torch, "rand", lambda *_, **__: torch.tensor([number], dtype=torch.float64))
    return Drawing(1.0, **limits).next(logits, generators_for(len(logits), torch.Generator()))


def test_the_first_and_the_last_number_draw_a_token_that_may_come(monkeypatch):
    logits = torch.randn(64, 300, generator=torch.Generator().manual_seed(0))
    logits[:, [0, -1]] = -9.0
    for number in (0.0, 1 - 2**-53):
        drawn = drawn_by(number, logits, monkeypatch, top_k=200)
        assert (drawn > 0).all()
        assert (drawn < 299).all()
    rare = torch.tensor([[0.0, -20.0]])  # 2e-9, which float32 does not tell from nothing beside 1
    assert drawn_by(1 - 1e-9, rare, monkeypatch).tolist() == [1]
    assert drawn_by(1 - 3e-9, rare, monkeypatch).tolist() == [0]


def test_the_likeliest_is_never_left_out():
    limited = Drawing(1.0, top_p=1e-9).limited(torch.tensor([[0.0, 3.0, 1.0]]))
    assert limited.isfinite().tolist() == [[False, True, False]]


def written(model, ids, seeds, **how):
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    return generate(model, ids, 12, temperature=1.0, generator=generators, **how)


def test_a_row_draws_in_a_batch_what_it_draws_alone(tiny):
    model = Decoder(tiny()).eval()
    ids = torch.randint(0, 31, (4, 5))
    padding = torch.zeros_like(ids, dtype=torch.bool)
    padding[2, :3] = True
    together = written(model, ids, (5, 6, 7, 5), key_padding_mask=padding)
    for row, seed in enumerate((5, 6, 7, 5)):
        alone = ids[row : row + 1, 3 if row == 2 else 0 :]
        assert torch.equal(written(model, alone, [seed])[0, -12:], together[row, -12:])
    assert torch.equal(written(model, ids, (5, 6, 7, 5), key_padding_mask=padding), together)
    assert not torch.equal(written(model, ids, (1, 2, 3, 4), key_padding_mask=padding), together)


def test_one_generator_gives_each_row_a_seed_of_its_own(tiny):
    model = Decoder(tiny()).eval()
    ids = torch.ones(3, 4, dtype=torch.long)

    def once(seed: int, rows: int = 3) -> torch.Tensor:
        generator = torch.Generator().manual_seed(seed)
        return generate(model, ids[:rows], 12, temperature=1.0, generator=generator)

    assert torch.equal(once(1), once(1))
    assert not torch.equal(once(1), once(2))
    assert torch.equal(once(1, rows=1), once(1)[:1])
    assert len({tuple(row) for row in once(1).tolist()}) == 3
    torch.manual_seed(3)
    first = generate(model, ids, 8, temperature=1.0)
    torch.manual_seed(3)
    assert torch.equal(generate(model, ids, 8, temperature=1.0), first)


@pytest.mark.parametrize(
    "how", [{"temperature": 1e-6}, {"temperature": 1e-45}, {"temperature": 1.0, "top_k": 1}]
)
def test_drawing_from_one_token_is_greedy(tiny, how):
    model = Decoder(tiny()).eval()
    ids = torch.randint(0, 31, (2, 5))
    assert torch.equal(generate(model, ids, 8, **how), generate(model, ids, 8))
