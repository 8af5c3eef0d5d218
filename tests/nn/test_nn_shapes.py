"""The shapes in the signatures hold: everything runs under jaxtyping's import hook and beartype."""

from __future__ import annotations

import subprocess
import sys

CHECKED = """
from jaxtyping import TypeCheckError, install_import_hook

with install_import_hook("headwise.nn", "beartype.beartype"):
    from headwise.nn import *

import torch

torch.set_grad_enabled(False)
ids = torch.randint(0, 31, (3, 7))
padding = torch.arange(7) >= torch.tensor([7, 3, 5])[:, None]
documents = torch.tensor([[1] * 4 + [2] * 3])


def config(**fields):
    return TransformerConfig(
        vocab_size=31, d_model=24, num_layers=2, num_heads=6, num_kv_heads=2, head_dim=10, **fields
    )


for positions in ("none", "sinusoidal", "learned", "rope", "alibi"):
    for window in (None, 3):
        decoder = Decoder(config(positions=positions, window=window))
        decoder(ids[:1], documents=documents)
        for hidden in (None, padding):
            decoder(ids, hidden)
            cache = decoder.new_cache(9)
            decoder(ids, hidden, cache)
            decoder(ids[:, :1], cache=cache)
            decoder(ids[:, :1], cache=cache)
        encoder = Encoder(config(positions=positions, window=window, token_types=2))
        encoder(ids, padding, ids % 2)
        both = EncoderDecoder(config(positions=positions, window=window, num_decoder_layers=1))
        both(ids, ids[:, :4], padding)
        cache = both.decoder.new_cache(9)
        memory = both.encoder(ids, padding)
        for step in (ids[:, :2], ids[:, :1]):
            both.decoder(step, None, cache, memory=memory, memory_padding_mask=padding)
try:
    rotate(torch.ones(2, 3, 4), rotary(torch.arange(3)[None], 4))
except TypeCheckError:
    print("checked")
"""


def test_shapes_in_signatures_hold():
    done = subprocess.run([sys.executable, "-c", CHECKED], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    assert done.stdout.strip() == "checked"
