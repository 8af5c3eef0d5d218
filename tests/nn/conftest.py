from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from headwise.nn import TransformerConfig

LENGTHS = (7, 3, 5)


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


@pytest.fixture
def tiny() -> Callable[..., TransformerConfig]:
    """A small configuration with grouped heads; every field can be set."""

    def make(**fields: object) -> TransformerConfig:
        base = {
            "vocab_size": 31,
            "d_model": 24,
            "num_layers": 2,
            "num_heads": 6,
            "num_kv_heads": 2,
            "d_ff": 40,
            "max_length": 32,
        }
        return TransformerConfig(**{**base, **fields})  # type: ignore[arg-type]

    return make


@pytest.fixture(params=["right", "left"])
def batch(request: pytest.FixtureRequest) -> tuple[torch.Tensor, torch.Tensor, list[torch.Tensor]]:
    """ids [3, 7], their key_padding_mask on one side, and the sequences by themselves."""
    alone = [torch.randint(0, 31, (1, n)) for n in LENGTHS]
    ids = torch.full((len(LENGTHS), max(LENGTHS)), 1)
    padding = torch.ones_like(ids, dtype=torch.bool)
    for row, sequence in enumerate(alone):
        n = sequence.shape[1]
        where = slice(0, n) if request.param == "right" else slice(max(LENGTHS) - n, None)
        ids[row, where] = sequence[0]
        padding[row, where] = False
    return ids, padding, alone
