"""What the tests of cutting share: heads to cut, and a model with slices of its W_O at 0."""

from __future__ import annotations

import copy
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

import headwise as hw
from headwise.cut.census import census
from headwise.cut.pruning.verifying import answers, off
from headwise.hub.channels import channels_of
from headwise.names import HeadId

sys.path.append(str(Path(__file__).parents[1] / "hub"))
import tiny_models
from tiny_models import inputs_of

__all__ = ["answers", "build", "inputs_of", "off", "sliced", "uneven", "whole_layers"]


def build(name: str, attention: str | None = None, **fields: Any) -> Any:
    """A tiny model, its biases drawn too: those of transformers start at 0."""
    module = tiny_models.build(name, attention, **fields)
    torch.manual_seed(1)
    with torch.no_grad():
        for path, parameter in module.named_parameters():
            if path.endswith("bias") and parameter.dim() == 1:
                parameter.normal_(0, 0.3)
    return module


def uneven(model: hw.Model) -> list[HeadId]:
    """One head of every layer, and another of every second; of layers that are one module the same."""
    found = []
    for i, run in enumerate(census(model).runs):
        shared = len(census(model).of(run.layer.module)) > 1
        found += [run.id.head(head) for head in run.heads[: 1 + (0 if shared else i % 2)]]
    return found


def whole_layers(model: hw.Model) -> list[HeadId]:
    """All heads of the first layer of each stream, and one of the others."""
    found = []
    for run in census(model).runs:
        first = run.layer.module is census(model).runs[0].layer.module or run.id.layer == 0
        found += [run.id.head(head) for head in (run.heads if first else run.heads[-1:])]
    return found


def sliced(model: hw.Model, heads: list[HeadId], inputs: Mapping[str, Any]) -> hw.Model:
    """A copy with these heads' slices of W_O's input at 0."""
    channels = channels_of(model, list(model.anatomy.layers), inputs)
    copied = replace(model, module=copy.deepcopy(model.module))
    for run in census(model).runs:
        part = channels[run.layer.path].output
        weight = copied.module.get_parameter(part.name)
        for place, head in enumerate(run.heads):
            if run.id.head(head) in heads:
                with torch.no_grad():
                    weight.index_fill_(part.axis, part.places[place], 0)
    return copied
