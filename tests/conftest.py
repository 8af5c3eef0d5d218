"""Every test runs with the shapes and types in headwise's signatures checked."""

from __future__ import annotations

import os

# Before torch is imported: so many threads has this process, and each that a test starts. The bits of one thread
# are not those of several; and a copy of this process (a fork) that took more would wait for those it lacks.
os.environ["OMP_NUM_THREADS"] = "1"

import pytest
import torch
from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

import signatures

pytest_plugins = ("browser_fixtures",)
install_import_hook("headwise", "signatures.check")
torch.set_num_threads(1)
settings.register_profile(
    "headwise",
    deadline=None,
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize="CI" in os.environ,  # one change is judged by the same cases each time
)
settings.load_profile("headwise")


def pytest_configure(config: pytest.Config) -> None:
    """beartype looks at a random item of each list, which hypothesis takes for a draw of ours."""
    config.addinivalue_line("filterwarnings", "ignore:Do not use the `random` module")


@pytest.fixture
def unchecked(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Signatures unchecked: for input that their types forbid, and for torch.compile."""
    for home, name, plain in signatures.checked(request.module):
        monkeypatch.setattr(home, name, plain)
