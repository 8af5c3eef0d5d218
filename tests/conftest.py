"""Every test runs with the shapes and types in headwise's signatures checked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from jaxtyping import config, install_import_hook

install_import_hook("headwise", "beartype.beartype")
torch.set_num_threads(1)


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Signatures unchecked, to meet the errors of headwise itself on input its types forbid."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)
