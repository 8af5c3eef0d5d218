from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from headwise.nn import load_checkpoint

pytestmark = pytest.mark.models


def folder_of(name: str) -> Path:
    get = pytest.importorskip("headwise.hub.get")
    return Path(get.get(name))


def batch(low: int, high: int, side: str):
    """Random ids of unequal lengths, with padding on one side."""
    lengths = (24, 9, 16)
    ids = torch.randint(low, high, (3, 24))
    padding = torch.arange(24) >= torch.tensor(lengths)[:, None]
    return ids, padding if side == "right" else padding.flip(1)


def their_arguments(padding):
    positions = ((~padding).long().cumsum(-1) - 1).clamp(min=0)
    return {"attention_mask": (~padding).long(), "position_ids": positions}


@torch.no_grad()
@pytest.mark.parametrize("side", ["right", "left"])
def test_smollm2_is_the_one_of_transformers(side):
    from transformers import AutoModelForCausalLM

    folder = folder_of("smollm2")
    ours = load_checkpoint(folder, dtype=torch.float32)
    theirs = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    ids, padding = batch(100, 49000, side)
    expected = theirs(ids, **their_arguments(padding), output_hidden_states=True)
    hidden = ours.hidden(ids, padding)
    assert_close(hidden[~padding], expected.hidden_states[-1][~padding], atol=1e-4, rtol=0)
    assert_close(ours.logits(hidden)[~padding], expected.logits[~padding], atol=1e-4, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("side", ["right", "left"])
def test_minilm_is_the_one_of_transformers(side):
    from transformers import AutoModel

    folder = folder_of("minilm")
    ours = load_checkpoint(folder, dtype=torch.float32)
    theirs = AutoModel.from_pretrained(folder, dtype=torch.float32).eval()
    ids, padding = batch(1000, 30000, side)
    expected = theirs(ids, **their_arguments(padding)).last_hidden_state
    assert_close(ours(ids, padding)[~padding], expected[~padding], atol=1e-4, rtol=0)
