"""Audits of planted faults, and what each of them looks like."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from locating_help import blend, change_output, ours, spread, tiny
from torch import Tensor, nn

import headwise as hw
from headwise.check.telling.advice import advised
from headwise.core import masks
from headwise.core.masks import Mask


class Reads(nn.Module):
    """A decoder of ours that reads ids alone; its second layer has another mask."""

    def __init__(self, mask: Mask | None) -> None:
        super().__init__()
        self.decoder = ours()
        if mask is not None:
            attention = self.decoder.get_submodule("blocks.1.attention")
            attention.register_forward_pre_hook(
                lambda _, args, kwargs: (args[:1], {**kwargs, "mask": mask}),
                with_kwargs=True,
            )

    def forward(self, ids: Tensor) -> Tensor:
        return self.decoder(ids)


class Mixes(nn.Module):
    """Embeds, mixes over time, reads out."""

    def __init__(self, mixer: nn.Module, roll: bool = False) -> None:
        super().__init__()
        self.embed, self.mixer, self.head = nn.Embedding(97, 16), mixer, nn.Linear(16, 97)
        self.roll = roll

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        if self.roll:
            x = x + torch.roll(x, -1, 1)
        return self.head(x + self.mixer(x))


class Conv(nn.Module):
    def __init__(self, left: int, right: int) -> None:
        super().__init__()
        self.pad, self.conv = (left, right), nn.Conv1d(16, 16, 3)

    def forward(self, x: Tensor) -> Tensor:
        return self.conv(F.pad(x.mT, self.pad)).mT


def finite(value: float) -> nn.Module:
    """A llama whose second layer is masked by a finite value."""
    model = tiny("llama", attn_implementation="eager")

    def clamp(_: nn.Module, args: Any, kwargs: Any) -> Any:
        mask = kwargs["attention_mask"]
        if isinstance(mask, Tensor) and mask.is_floating_point():
            kwargs["attention_mask"] = mask.clamp_min(value)
        return args, kwargs

    part = model.get_submodule("model.layers.1.self_attn")
    part.register_forward_pre_hook(clamp, with_kwargs=True)
    return model


def blended(name: str, path: str) -> nn.Module:
    model = tiny(name)
    change_output(model, path, blend)
    return model


FAULTS = {
    "without any causal mask": lambda: Reads(masks.full()),
    "diagonal is off by one": lambda: Reads(masks.window(99, ahead=1)),
    "a prefix of at least 9": lambda: Reads(masks.causal() | masks.prefix(9)),
    "chunks of 4 positions": lambda: Reads(
        masks.causal() | masks.documents([i // 4 for i in range(99)])
    ),
    "a finite mask value": lambda: finite(-10.0),
    "padded on both sides": lambda: Mixes(Conv(1, 1)),
    "a shift by one": lambda: Mixes(Conv(2, 0), roll=True),
    "taken over all positions": lambda: blended("gpt2", "transformer.h.1.mlp"),
}


@pytest.mark.parametrize("words", FAULTS)
def test_a_planted_fault_looks_like_its_cause(words):
    torch.manual_seed(0)
    model = spread(FAULTS[words]())
    audit = hw.audit(model, dimensions=["future"])
    found = advised(audit.outcomes, layers=3, declared=audit.declared)
    (plain,) = [x for x in found if x.case == ""]
    assert plain.verdict == "leak"
    assert words in plain.advice


def test_a_sound_model_gets_no_advice():
    torch.manual_seed(0)
    audit = hw.audit(spread(Mixes(Conv(2, 0))), dimensions=["future"])
    assert audit.clean
    assert [x.advice for x in advised(audit.outcomes)] == [""] * len(audit.outcomes)
