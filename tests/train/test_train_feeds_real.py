"""Feeds read by real tokenizers, and the losses of a real model on them."""

from __future__ import annotations

import pytest
import torch

import headwise as hw
from headwise.train.data import Batch, causal_feed, check_vocabulary, masked_feed, tokenizer_of
from headwise.train.objectives import loss_of

TEXTS = [
    "The animal didn't cross the street because it was too tired.",
    "Once upon a time there was a fox. The fox was hungry.",
    "二十四小时\n",
]

pytestmark = pytest.mark.models


def test_a_real_model_s_packed_row_has_the_losses_of_each_document_alone():
    model, tokenizer = hw.load("smollm2", device="cpu", dtype="float32"), tokenizer_of("smollm2")
    check_vocabulary(tokenizer, model.module.config.vocab_size)
    alone = [causal_feed(tokenizer, [text], 64, 1, short=True).batch(1) for text in TEXTS]
    context = sum(batch.tokens for batch in alone)
    whole = causal_feed(tokenizer, TEXTS, context, 1).batch(1)
    with torch.no_grad():
        total, count = loss_of(model.module, whole)
        parts = [loss_of(model.module, batch) for batch in alone]
        ids = torch.tensor([tokenizer.encode(TEXTS[0]).ids])
        plain, tokens = loss_of(model.module, Batch({"ids": ids[:, :-1]}, ids[:, 1:]))
    assert count == sum(n for _, n in parts) == context
    torch.testing.assert_close(total, sum(each for each, _ in parts), rtol=1e-5, atol=1e-3)
    assert float(plain / tokens) == pytest.approx(hw.loss(model, TEXTS[0]).mean, abs=1e-5)


def test_a_real_encoder_s_tokenizer_has_what_masking_needs():
    tokenizer = tokenizer_of("minilm")
    names = tokenizer.get_vocab()
    feed = masked_feed(tokenizer, TEXTS[:2], 48, 1, short=True)
    batch = feed.batch(1)
    ids = torch.where(batch.goal == -100, batch.inputs["ids"], batch.goal)[0]
    special = [names[name] for name in ("[CLS]", "[SEP]", "[MASK]", "[PAD]", "[UNK]")]
    assert set(special) <= set(feed.special.tolist())
    wanted = [id for text in TEXTS[:2] for id in tokenizer.encode(text).ids]
    assert ids[: len(wanted)].tolist() == wanted
    assert batch.inputs["key_padding_mask"][0].tolist() == [False] * len(wanted) + [True] * (
        48 - len(wanted)
    )
