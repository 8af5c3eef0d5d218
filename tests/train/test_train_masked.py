"""Masked rows: BERT's rule, and an encoder's loss on it."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from train_help import END, LETTERS, MASK, ids_of, letters

from headwise.names import ConfigError, ModelError, TextError
from headwise.nn import Encoder, TransformerConfig
from headwise.train.data import IGNORED, Batch, Feed, masked_feed, once
from headwise.train.objectives import loss_of

DOCUMENTS = st.lists(st.text(LETTERS, min_size=1, max_size=30), min_size=1, max_size=12)
MANY = ["".join(LETTERS[(i * i + k) % 26] for k in range(i % 13)) for i in range(40)]


def original(batch: Batch) -> torch.Tensor:
    """The ids before anything was hidden."""
    return torch.where(batch.goal == IGNORED, batch.inputs["ids"], batch.goal)


@given(DOCUMENTS, st.integers(2, 20), st.floats(0.01, 0.9), st.integers(0, 3))
def test_rows_are_the_documents_and_only_real_tokens_are_goals(documents, context, share, seed):
    feed = masked_feed(letters(), documents, context, 2, seed, share=share, short=True)
    joined = [id for one in documents for id in (*ids_of(one), END)]
    rows: list[list[int]] = []
    for batch in once(feed):
        padding = batch.inputs.get("key_padding_mask", torch.zeros_like(batch.goal).bool())
        before = original(batch)
        rows += [row[~hidden].tolist() for row, hidden in zip(before, padding, strict=True)]
        chosen = batch.goal != IGNORED
        can = (before != END) & ~padding
        assert not (chosen & ~can).any()
        for row in range(len(chosen)):
            wanted = max(round(int(can[row].sum()) * share), 1)
            assert chosen[row].sum() == min(wanted, int(can[row].sum()))
    wanted = [joined[at : at + context] for at in range(0, len(joined), context)]
    assert sorted(rows) == sorted(wanted)


def test_of_the_chosen_80_percent_are_hidden_10_random_and_10_stay():
    feed = masked_feed(letters(), [LETTERS * 400], 200, 10)
    fates = {"hidden": 0, "same": 0, "other": 0}
    others, count, tokens = set(), 0, 0
    for batch in once(feed):
        chosen = batch.goal != IGNORED
        now, before = batch.inputs["ids"][chosen], batch.goal[chosen]
        fates["hidden"] += int((now == MASK).sum())
        fates["same"] += int((now == before).sum())
        fates["other"] += int(((now != MASK) & (now != before)).sum())
        others |= set(now[(now != MASK) & (now != before)].tolist())
        count, tokens = count + batch.tokens, tokens + batch.goal.numel()
    assert count / tokens == pytest.approx(0.15, abs=0.005)
    assert fates["hidden"] / count == pytest.approx(0.8, abs=0.035)
    assert fates["same"] / count == pytest.approx(0.1 + 0.1 / 26, abs=0.025)
    assert fates["other"] / count == pytest.approx(0.1 - 0.1 / 26, abs=0.025)
    assert min(others) >= 2
    assert len(others) > 20


def test_other_tokens_are_hidden_when_a_row_comes_again_and_by_the_seed():
    feed = masked_feed(letters(), MANY, 12, 1)
    passes = [
        {
            tuple(original(batch)[0].tolist()): batch.goal[0].tolist()
            for batch in map(
                feed.batch, range(number * feed.count + 1, (number + 1) * feed.count + 1)
            )
        }
        for number in (0, 1)
    ]
    assert passes[0].keys() == passes[1].keys()
    assert passes[0] != passes[1]
    again = masked_feed(letters(), MANY, 12, 1, seed=1)
    assert any(
        not torch.equal(a.goal, b.goal) for a, b in zip(once(feed), once(again), strict=True)
    )


@given(st.integers(1, 5), st.integers(1, 3), st.integers(1, 40))
def test_shares_of_rows_are_the_step_s_rows(rows, processes, step):
    feed = masked_feed(letters(), MANY, 12, rows)
    whole = masked_feed(letters(), MANY, 12, rows).batch(step)
    for process in range(processes):
        share = slice(process, None, processes)
        if range(rows)[share]:
            part = feed.batch(step, share)
            assert torch.equal(part.inputs["ids"], whole.inputs["ids"][share])
            assert torch.equal(part.goal, whole.goal[share])


def test_documents_do_not_see_each_other_and_padding_is_not_seen():
    torch.manual_seed(0)
    model = Encoder(
        TransformerConfig(vocab_size=28, d_model=16, num_layers=2, num_heads=2)
    ).double()
    feed = masked_feed(letters(), ["abcdef", "ghij"], 16, 1, share=0.5, short=True)
    batch = feed.batch(1)
    assert batch.inputs["documents"].tolist() == [[0] * 7 + [1] * 9]
    total, count = loss_of(model, batch)
    alone = []
    for part in (slice(0, 7), slice(7, 12)):
        ids, goal = batch.inputs["ids"][:, part], batch.goal[:, part]
        if (goal != IGNORED).any():
            alone.append(loss_of(model, Batch({"ids": ids}, goal)))
    assert count == sum(n for _, n in alone) == 5
    torch.testing.assert_close(total, sum(each for each, _ in alone))


def test_the_loss_is_of_the_logits_at_the_goals_alone():
    torch.manual_seed(0)
    model = Encoder(TransformerConfig(vocab_size=28, d_model=16, num_layers=1, num_heads=2))
    batch = masked_feed(letters(), MANY, 12, 4).batch(1)
    hidden = model(**batch.inputs)
    logits = hidden @ model.embedding.tokens.weight.T
    wanted = -logits.log_softmax(-1).gather(-1, batch.goal.clamp(min=0)[..., None])[..., 0]
    total, count = loss_of(model, batch)
    torch.testing.assert_close(total, wanted[batch.goal != IGNORED].sum())
    assert count == batch.tokens


def test_a_tokenizer_s_own_begin_and_end_stand_around_documents():
    tokenizer = letters(("[CLS]", "[SEP]", "[MASK]"))
    feed = masked_feed(tokenizer, ["ab", "c"], 8, 1, short=True)
    assert original(feed.batch(1))[0, :7].tolist() == [0, 3, 4, 1, 0, 5, 1]
    assert isinstance(feed, Feed)


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        ({"context": 30}, TextError, "the texts are 27 tokens, fewer than one row of context=30"),
        ({"share": 0.0}, ConfigError, "share=0.0 is not a share of the tokens"),
        ({"mask": "<m>"}, ConfigError, "no token that hides another (<m>)"),
    ],
)
def test_what_makes_no_rows_is_refused(wrong, error, says):
    with pytest.raises(error) as refused:
        masked_feed(letters(), **{"documents": [LETTERS], "context": 8, "rows": 2, **wrong})
    assert says in str(refused.value)


def test_a_module_of_another_class_has_no_objective():
    batch = masked_feed(letters(), MANY, 12, 4).batch(1)
    with pytest.raises(ModelError, match="Linear has no objective"):
        loss_of(torch.nn.Linear(2, 2), batch)
