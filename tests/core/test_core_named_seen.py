"""Which of the keys that probes name their queries may see, in calls of many blocks of rows."""

from __future__ import annotations

import pytest
import torch

from headwise.core import kernel, masks
from headwise.core.scores import Scores
from headwise.core.streaming import Wanted, measure

LENGTH = 300
MASKS = {
    "full": None,
    "causal": masks.causal(),
    "window": masks.causal() & masks.window(40),
    "padded": masks.causal() & masks.padding(lengths=[LENGTH, 250]),
}


@pytest.mark.parametrize("path", ["portable", "kernel"])
@pytest.mark.parametrize("mask", MASKS)
def test_as_the_mask_says(path: str, mask: str) -> None:
    if path == "kernel" and not kernel.status().runs:
        pytest.skip(kernel.status().why)
    torch.manual_seed(0)
    q, k, v = (torch.randn(2, heads, LENGTH, 16) for heads in (4, 2, 2))
    scores = Scores(q, k, MASKS[mask], 0.25)
    named = torch.randint(-1, LENGTH, (1, 5, LENGTH))
    named[0, 0] = torch.arange(LENGTH)  # the last key that a causal row sees
    named[0, 1] = (torch.arange(LENGTH) + 2) % (LENGTH + 1) - 1  # and the one after it
    found = measure(scores, v, Wanted(probes=named), path)[1]  # type: ignore[arg-type]
    assert found.named_seen is not None
    assert found.path == path
    allowed = scores.allowed(0, LENGTH)
    whole = torch.ones(1, 1, LENGTH, LENGTH, dtype=torch.bool) if allowed is None else allowed
    sees = whole[:, 0, torch.arange(LENGTH), named[0].clamp_min(0)] & (named >= 0)
    assert torch.equal(found.named_seen[:, 0].expand(2, -1, -1), sees.expand(2, -1, -1))
