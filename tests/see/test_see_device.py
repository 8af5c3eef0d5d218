"""Looking on an accelerator gives what looking on the CPU gives: the same code path, `device` honoured."""

from __future__ import annotations

import pytest
import torch

import headwise as hw
from headwise.nn import Decoder, TransformerConfig

AVAILABLE = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}


@pytest.mark.parametrize("device", AVAILABLE)
@pytest.mark.parametrize("window", [None, 3])
def test_an_accelerator_gives_what_the_cpu_gives(device, window):
    if not AVAILABLE[device]:
        pytest.skip(f"no {device} device on this machine")
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=50, num_layers=2, num_heads=4, num_kv_heads=2, d_model=32, window=window
    )
    decoder = Decoder(config)
    batch = {
        "input_ids": torch.randint(50, (2, 20)),
        "attention_mask": torch.ones(2, 20, dtype=torch.long),
    }
    batch["attention_mask"][0, :4] = 0
    here = hw.look(hw.load(decoder), batch)
    there = hw.look(hw.load(decoder, device=device), batch)
    for mine, theirs in zip(here, there, strict=True):
        assert theirs.layers[next(iter(theirs.layers))].scores.q.device.type == device
        assert theirs.verified < 1e-4
        for head in mine.heads():
            torch.testing.assert_close(
                torch.tensor(theirs.weights(head)),
                torch.tensor(mine.weights(head)),
                atol=1e-4,
                rtol=0,
            )
        summaries = zip(hw.summarise(mine), hw.summarise(theirs), strict=True)
        assert all(a.does == b.does for a, b in summaries)
