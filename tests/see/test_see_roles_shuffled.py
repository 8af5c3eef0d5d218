"""A trained model has roles; the same numbers in another order have none."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import headwise as hw

ROOT = Path(__file__).parents[2]


def sentences() -> list[str]:
    """Lines of the project's own pages."""
    pages = [ROOT / "LICENSE", *sorted((ROOT / "docs/en").glob("*.md"))]
    lines = [line.strip() for page in pages for line in page.read_text("utf-8").splitlines()]
    return sorted({line for line in lines if 50 < len(line) < 120})[:200]


def roles_of(model: hw.Model) -> hw.Roles:
    rows = hw.probes.repeated_tokens((16, 48), model=model, rows=40)
    return hw.roles(
        [
            hw.profile(model, sentences(), pool=0),
            hw.profile(model, rows, probes=hw.probes.ON_REPEATED, pool=0),
        ]
    )


@pytest.mark.models
@pytest.mark.parametrize("seed", [0, 1])
def test_shuffled_weights_have_no_role(seed: int) -> None:
    model = hw.load("minilm")
    trained = {(role.probe, str(role.head)) for role in roles_of(model).claimed}
    assert {("previous", "0.2"), ("next", "1.8")} <= trained
    random = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in model.module.parameters():
            if weight.dim() > 1:
                order = torch.randperm(weight.numel(), generator=random)
                weight.copy_(weight.flatten()[order].view_as(weight))
    shuffled = roles_of(model)
    assert shuffled.tried > 20
    assert shuffled.claimed == []
