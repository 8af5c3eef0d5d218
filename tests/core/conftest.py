from __future__ import annotations

import pytest
import torch
from hypothesis import HealthCheck, settings

settings.register_profile(
    "core", deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("core")


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)
