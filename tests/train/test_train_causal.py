"""Packed rows: every token once, every document as if it were alone, whoever draws them."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from train_help import END, LETTERS, ids_of, letters

from headwise.names import ConfigError, TextError
from headwise.nn import Decoder, TransformerConfig
from headwise.train.data import IGNORED, Batch, CausalFeed, Feed, byte_bpe, causal_feed, once
from headwise.train.objectives import loss_of

DOCUMENTS = st.lists(st.text(LETTERS, min_size=0, max_size=30), min_size=1, max_size=12)
MANY = ["".join(LETTERS[(i * i + k) % 26] for k in range(i % 13)) for i in range(40)]


def decoder(positions: str = "rope") -> Decoder:
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=28, d_model=16, num_layers=2, num_heads=2, max_length=64, positions=positions
    )
    return Decoder(config).double()


def lines(batch: Batch) -> list[list[tuple[int, int]]]:
    """The rows as pairs of a token and its goal."""
    ids, goals = batch.inputs["ids"].tolist(), batch.goal.tolist()
    return [list(zip(*row, strict=True)) for row in zip(ids, goals, strict=True)]


def same(a: Batch, b: Batch) -> bool:
    return (
        a.inputs.keys() == b.inputs.keys()
        and all(torch.equal(a.inputs[name], b.inputs[name]) for name in a.inputs)
        and torch.equal(a.goal, b.goal)
    )


def steps_of_a_pass(feed: CausalFeed) -> list[Batch]:
    return list(once(feed))


@given(DOCUMENTS, st.integers(1, 20), st.integers(1, 5), st.integers(0, 3))
def test_a_pass_says_every_token_of_every_document_once(documents, context, rows, seed):
    feed = causal_feed(letters(), documents, context, rows, seed, short=True)
    seen = Counter(
        pair
        for batch in steps_of_a_pass(feed)
        for row in lines(batch)
        for pair in row
        if pair[1] != IGNORED
    )
    wanted: Counter[tuple[int, int]] = Counter()
    for document in documents:
        ids = ids_of(document)
        wanted.update(zip([END, *ids], [*ids, END], strict=True))
    assert seen == wanted
    assert sum(seen.values()) == feed.tokens


def test_rows_put_in_order_are_the_documents_joined():
    feed = causal_feed(letters(), MANY, 16, 3, seed=5)
    starts = sorted({feed._start(draw)[0] for draw in range(feed.count)})
    assert starts == list(range(0, feed.count * 16, 16))
    joined = [END, *(id for document in MANY for id in (*ids_of(document), END))]
    assert feed.packed.ids.tolist() == joined[:-1]
    assert feed.packed.goals.tolist() == joined[1:]


@settings(max_examples=15)
@given(DOCUMENTS, st.sampled_from(["rope", "learned", "alibi", "sinusoidal"]))
def test_a_packed_row_has_the_losses_of_each_document_alone(documents, positions):
    model = decoder(positions)
    context = sum(len(one) + 1 for one in documents)
    whole = causal_feed(letters(), documents, context, 1).batch(1)
    packed, count = loss_of(model, whole)
    alone = [
        loss_of(model, causal_feed(letters(), [one], len(one) + 1, 1).batch(1)) for one in documents
    ]
    assert count == sum(n for _, n in alone) == context
    torch.testing.assert_close(packed, sum(total for total, _ in alone))


def test_gradients_of_a_packed_row_are_those_of_each_document_alone():
    model, documents = decoder(), ["abcabc", "xyz", "", "hello"]
    context = sum(len(one) + 1 for one in documents)
    loss_of(model, causal_feed(letters(), documents, context, 1).batch(1))[0].backward()
    packed = [p.grad.clone() for p in model.parameters()]
    model.zero_grad()
    for one in documents:
        loss_of(model, causal_feed(letters(), [one], len(one) + 1, 1).batch(1))[0].backward()
    torch.testing.assert_close(packed, [p.grad for p in model.parameters()])


def test_documents_are_left_out_where_each_row_holds_one():
    feed = causal_feed(letters(), ["abcdefgh" * 8], 16, 2)
    assert all(set(batch.inputs) == {"ids"} for batch in once(feed))
    several = causal_feed(letters(), ["abc", "defgh", "ij"], 12, 1)
    assert several.batch(1).inputs["documents"].tolist() == [[0] * 4 + [1] * 6 + [2] * 2]


@given(st.integers(1, 7), st.integers(1, 4), st.integers(1, 30), st.sampled_from([0.0, 0.4]))
def test_shares_of_rows_are_the_step_s_rows_and_a_new_feed_draws_the_same(
    rows, processes, step, repeats
):
    def feed() -> CausalFeed:
        return causal_feed(letters(), MANY, 8, rows, seed=3, repeats=repeats)

    made = feed()
    earlier = [made.batch(n) for n in range(1, 4)]
    whole = lines(made.batch(step))
    assert lines(feed().batch(step)) == whole
    assert all(same(a, feed().batch(n)) for n, a in enumerate(earlier, 1))
    found: list[list[tuple[int, int]] | None] = [None] * rows
    for process in range(processes):
        share = slice(process, None, processes)
        if range(rows)[share]:
            found[share] = lines(made.batch(step, share))
    assert found == whole


def test_a_pass_is_shuffled_anew_and_by_the_seed():
    def order(seed: int, number: int) -> list[int]:
        feed = causal_feed(letters(), MANY, 8, 1, seed)
        return [feed._start(number * feed.count + at)[0] for at in range(feed.count)]

    assert order(0, 0) == order(0, 0)
    assert sorted(order(0, 0)) == sorted(order(0, 1)) == sorted(order(1, 0))
    assert order(0, 0) != order(0, 1) != order(1, 0)


@settings(max_examples=20)
@given(st.integers(4, 40), st.floats(0.05, 0.7), st.integers(0, 5))
def test_repeated_rows_say_what_they_ended_with_again(context, share, seed):
    feed = causal_feed(letters(), [LETTERS * 8, *MANY], context, 2, seed, repeats=share)
    assert feed.repeated / feed.count == pytest.approx(share, abs=1 / feed.count)
    drawn = [feed._start(draw) for draw in range(feed.count)]
    assert sum(bool(again) for _, again in drawn) == feed.repeated
    for draw, (start, again) in enumerate(drawn):
        if again:
            batch = feed.batch(draw // 2 + 1, slice(draw % 2, draw % 2 + 1))
            row = batch.inputs["ids"][0].tolist()
            said = feed.packed.ids[start : start + context].tolist()
            assert max(context // 8, 1) <= again <= context // 2
            assert row == said[: context - again] + said[context - 2 * again : context - again]
            goal = batch.goal[0].tolist()
            counted = [at for at in range(context - 1) if at != context - again - 1]
            assert [goal[at] for at in counted] == [row[at + 1] for at in counted]
            assert goal[context - again - 1] == IGNORED
            assert "documents" not in batch.inputs


def test_how_far_back_a_row_is_repeated_differs():
    feed = causal_feed(letters(), [LETTERS * 8], 32, 2, repeats=0.8)
    agains = {feed._start(draw)[1] for draw in range(feed.count)} - {0}
    assert len(agains) > 6


def test_a_special_token_s_name_in_a_text_ends_nothing():
    text = "abc<|endoftext|>def"
    tokenizer = byte_bpe([text], 300)
    feed = causal_feed(tokenizer, [text], 4, 1)
    assert (feed.packed.ids == END).sum() == 1
    assert tokenizer.decode(feed.packed.ids[1:].tolist()) == text


def test_a_feed_is_one():
    assert isinstance(causal_feed(letters(), ["abcdefgh"], 4, 1), Feed)


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        ({"context": 30}, TextError, "the texts are 27 tokens, fewer than one row of context=30"),
        ({"context": 0}, ConfigError, "context=0 is not a count"),
        ({"rows": 0}, ConfigError, "rows=0 is not a count"),
        ({"repeats": 1.0}, ConfigError, "repeats=1.0 is not a share"),
        ({"context": 3, "repeats": 0.5}, ConfigError, "needs a context of 4 or more, came 3"),
        ({"end": "</s>"}, ConfigError, "no token that ends a text (</s>)"),
        ({"documents": []}, TextError, "hold no token"),
    ],
)
def test_what_makes_no_rows_is_refused(wrong, error, says):
    given = {"documents": [LETTERS], "context": 8, "rows": 2, **wrong}
    with pytest.raises(error) as refused:
        causal_feed(letters(), **given)
    assert says in str(refused.value)
    assert "\n" not in str(refused.value)


def test_steps_count_from_one():
    with pytest.raises(ConfigError, match="steps count from 1"):
        causal_feed(letters(), [LETTERS], 8, 2).batch(0)
