"""Encoder-decoders of transformers in our blocks: the same encoder states and logits, padded and cached."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from seq2seq_help import FAMILIES, SIDES, made, saved, sources, targets, theirs_alone, together
from torch.testing import assert_close

from headwise.nn import EncoderDecoder, load_checkpoint

every_family = pytest.mark.parametrize("name", FAMILIES)


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    assert_close(ours, theirs, atol=1e-5, rtol=1e-5)


@torch.no_grad()
@every_family
@pytest.mark.parametrize("side", SIDES)
def test_padded_batch_is_the_model_of_transformers_on_each_alone(
    tmp_path: Path, name: str, side: str
) -> None:
    theirs = made(name)
    ours = load_checkpoint(saved(theirs, tmp_path))
    assert isinstance(ours, EncoderDecoder)
    source_rows, target_rows = sources(name), targets()
    source, source_padding = together(source_rows, side)
    target, target_padding = together(target_rows, side)
    memory = ours.encode(source, source_padding)
    logits = ours(source, target, source_padding, target_padding)
    for i, (one, other) in enumerate(zip(source_rows, target_rows, strict=True)):
        states, expected = theirs_alone(theirs, one, other)
        real = slice(None) if source_padding is None else ~source_padding[i]
        close(memory[i][real], states[0])
        if expected is None:  # a base model gives hidden states
            expected = theirs(one, decoder_input_ids=other).last_hidden_state
            expected = ours.decoder.logits(expected)
        close(logits[i][~target_padding[i]], expected[0])


@torch.no_grad()
@every_family
@pytest.mark.parametrize("chunks", [[1] * 21, [6, 1, 9, 5]])
def test_cached_steps_are_the_full_pass(tmp_path: Path, name: str, chunks: list[int]) -> None:
    ours = load_checkpoint(saved(made(name), tmp_path))
    source, source_padding = together(sources(name), "left")
    target, target_padding = together(targets(), "left")
    full = ours(source, target, source_padding, target_padding)
    memory, cache = ours.encode(source, source_padding), ours.decoder.new_cache(21)
    steps = [
        ours.decoder(ids, hidden, cache=cache, memory=memory, memory_padding_mask=source_padding)
        for ids, hidden in zip(
            target.split(chunks, 1), target_padding.split(chunks, 1), strict=True
        )
    ]
    real = ~target_padding
    close(torch.cat(steps, 1)[real], full[real])
