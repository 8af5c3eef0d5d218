"""Pairs: each once in a pass, little padding, the same whoever draws them."""

from __future__ import annotations

from collections import Counter

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from train_help import END, LETTERS, ids_of, letters

import headwise as hw
from headwise.names import ConfigError, TextError
from headwise.nn import EncoderDecoder, TransformerConfig, generate
from headwise.train.data import IGNORED, Batch, Feed, PairsFeed, once, pairs_feed
from headwise.train.fitting import fit
from headwise.train.objectives import loss_of
from headwise.train.recipe import Recipe

MARIAN = {"positions": "sinusoidal", "sinusoids": "halves", "norm_position": "post"}
MARIAN |= {"final_norm": False, "output_bias": True, "share_embeddings": True}
SIDE = st.text(LETTERS, min_size=1, max_size=12)
PAIRS = st.lists(st.tuples(SIDE, SIDE), min_size=1, max_size=30)
MANY = [(LETTERS[: 1 + (7 * i) % 19], LETTERS[: 1 + (5 * i) % 23]) for i in range(300)]


def said(batch: Batch) -> list[tuple[list[int], list[int], list[int]]]:
    """Each row's source, what its target reads, and what it should say, without padding."""
    rows = []
    for row in range(len(batch.goal)):
        sides = []
        for side in ("source", "target"):
            ids = batch.inputs[f"{side}_ids"][row]
            padding = batch.inputs.get(f"{side}_padding_mask")
            sides.append(ids if padding is None else ids[~padding[row]])
        goal = batch.goal[row]
        rows.append((sides[0].tolist(), sides[1].tolist(), goal[goal != IGNORED].tolist()))
    return rows


@given(PAIRS, st.integers(1, 6), st.integers(0, 3))
def test_a_pass_says_every_pair_once(pairs, rows, seed):
    feed = pairs_feed(letters(), pairs, rows, seed)
    seen = Counter(str(row) for batch in once(feed) for row in said(batch))
    wanted = Counter(
        str(([*ids_of(s), END], [END, *ids_of(t)], [*ids_of(t), END])) for s, t in pairs
    )
    assert seen == wanted


@given(st.integers(1, 7), st.integers(1, 3), st.integers(1, 200))
def test_shares_of_rows_are_the_step_s_rows_and_a_new_feed_draws_the_same(rows, processes, step):
    def feed() -> PairsFeed:
        return pairs_feed(letters(), MANY[:50], rows, 4)

    made = feed()
    whole = said(made.batch(step))
    assert said(feed().batch(step)) == whole
    found: list[object] = [None] * rows
    for process in range(processes):
        share = slice(process, None, processes)
        if range(rows)[share]:
            found[share] = said(made.batch(step, share))
    assert found == whole


@pytest.mark.parametrize("passes", [1, 3])
def test_pairs_of_one_length_come_together(passes):
    feed = pairs_feed(letters(), MANY, 7)
    steps = range((passes - 1) * 300 // 7 + 2, passes * 300 // 7)
    spread = []
    for step in steps:
        lengths = [len(target) for _, target, _ in said(feed.batch(step))]
        spread.append(max(lengths) - min(lengths))
    assert sum(spread) / len(spread) < 2
    first = [max(len(target) for _, target, _ in said(feed.batch(step))) for step in steps]
    assert first != sorted(first)


@settings(max_examples=15)
@given(PAIRS)
def test_a_padded_batch_has_the_losses_of_each_pair_alone(pairs):
    torch.manual_seed(0)
    model = EncoderDecoder(
        TransformerConfig(vocab_size=28, d_model=16, num_layers=1, num_heads=2)
    ).double()
    total, count = loss_of(model, pairs_feed(letters(), pairs, len(pairs)).batch(1))
    alone = [loss_of(model, pairs_feed(letters(), [pair], 1).batch(1)) for pair in pairs]
    assert count == sum(n for _, n in alone)
    torch.testing.assert_close(total, sum(each for each, _ in alone))


def test_long_pairs_are_left_out_and_counted():
    feed = pairs_feed(letters(), [("ab", "a" * 9), ("a" * 9, "a"), ("ab", "cd")], 1, longest=8)
    assert (feed.count, feed.left_out) == (1, 2)
    exact = pairs_feed(
        letters(), [("a" * 7, "a" * 6), ("a" * 8, "a"), ("a", "a" * 7)], 1, longest=8
    )
    assert exact.left_out == 2


def test_a_target_may_begin_with_a_token_of_its_own():
    tokenizer = letters(("</s>", "<s>"))
    batch = pairs_feed(tokenizer, [("a", "b")], 1, begin="<s>").batch(1)
    assert batch.inputs["target_ids"].tolist() == [[1, 3]]
    assert batch.goal.tolist() == [[3, 0]]


def test_a_run_is_written_on_from_what_its_targets_began_with(tmp_path):
    tokenizer = letters(("</s>", "<s>"))
    sizes = {"vocab_size": 28, "d_model": 16, "num_layers": 1, "num_heads": 2, "max_length": 32}
    feed = pairs_feed(tokenizer, MANY[:20], 4, begin="<s>")
    recipe = Recipe(objective="pairs", context=32, rows=4, steps=2, warmup=1, dtype="float32")
    for name, fields in (("headwise", {}), ("marian", MARIAN)):
        model = EncoderDecoder(TransformerConfig(**sizes, **fields))
        fit(model, feed, None, recipe, tmp_path / name, tokenizer=tokenizer, quiet=True)
        loaded = hw.load(tmp_path / name, quiet=True)
        assert loaded.config["model_type"] == name
        assert loaded.config["decoder_start_token_id"] == feed.start == 1
        ids, begin = torch.tensor([[*ids_of("abc"), 0]]), torch.tensor([[1]])
        written = generate(model.eval(), begin, 4, source_ids=ids, ends=[0])
        assert torch.equal(hw.generate(loaded, ids, 4), written)


def test_a_feed_is_one():
    assert isinstance(pairs_feed(letters(), MANY, 2), Feed)


@pytest.mark.parametrize(
    ("wrong", "error", "says"),
    [
        ({"pairs": []}, TextError, "there is no pair"),
        (
            {"longest": 3},
            TextError,
            "all 1 pairs are longer than longest=3 tokens; the shortest has 6",
        ),
        ({"begin": "<s>"}, ConfigError, "no token that begins a target (<s>)"),
        ({"rows": 0}, ConfigError, "rows=0 is not a count"),
    ],
)
def test_what_makes_no_pairs_is_refused(wrong, error, says):
    given = {"pairs": [("abcde", "abc")], "rows": 1, **wrong}
    with pytest.raises(error) as refused:
        pairs_feed(letters(), **given)
    assert says in str(refused.value)
