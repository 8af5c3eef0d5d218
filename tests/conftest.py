"""Every test runs with the shapes and types in headwise's signatures checked."""

from __future__ import annotations

import pytest
import signatures
import torch
from jaxtyping import install_import_hook

install_import_hook("headwise", "signatures.check")
torch.set_num_threads(1)


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Signatures unchecked: for input that their types forbid, and for torch.compile."""
    for home, name, plain in signatures.checked():
        monkeypatch.setattr(home, name, plain)
