"""Where in a model something runs: which attention layer, which block, or outside of both.

A block is the largest module of a list that holds one attention layer (and the cross-attention beside it). Blocks
of the same list without attention that is seen (recurrent ones) are places of their own. A module that runs again
in one pass takes the next free number, as everywhere.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from headwise.hub.anatomy import Layer
from headwise.hub.load import Model
from headwise.hub.stream import around, listed
from headwise.names import LayerId

__all__ = ["Places", "Run"]

Shape = tuple[int, ...]


@dataclass(eq=False)
class Run:
    """One run of an attention layer or a block.

    Attributes:
        id: of the layer; a later run counts on.
        path: of the module.
        attends: whether it is a block around attention, or attention itself.
        roles_of: for each map that made queries, keys or values, which of these.
        shapes: of the queries, keys, values and head outputs, as they were multiplied first.
        output: the map that read the head outputs, W_O.
    """

    id: LayerId
    path: str
    attends: bool = True
    roles_of: dict[Any, set[str]] = field(default_factory=dict)
    shapes: dict[str, Shape] = field(default_factory=dict)
    output: Any = None

    def note(self, role: str, marks: frozenset[Any], shape: Shape) -> None:
        """Queries, keys or values came, made by the maps among these marks."""
        self.shapes.setdefault(role, tuple(shape))
        for mark in marks:
            if not isinstance(mark, tuple):
                self.roles_of.setdefault(mark, set()).add(role)

    def mixed(self, shape: Shape) -> None:
        """Head outputs were made."""
        self.shapes.setdefault("z", shape)

    def roles(self, marks: frozenset[Any]) -> set[str]:
        """What the maps among these marks are known to make."""
        return set[str]().union(*(self.roles_of.get(mark, set()) for mark in marks))


class Places:
    """The attention layers and blocks of a model, and their runs in one pass.

    Attributes:
        blocks: paths of blocks by the id of their layer, in the order of their paths.
    """

    def __init__(self, model: Model) -> None:
        layers = model.anatomy.layers
        self.layers = {layer.path: layer for layer in layers}
        self.blocks = _blocks(model.module, layers)
        self._beside = _beside(model.module, self.blocks)
        self._modules = {layer.module: layer for layer in layers}
        self.runs: list[Run] = []
        self.block_runs: list[Run] = []

    def attends(self, module: nn.Module, path: str) -> Run | None:
        """A new run, where this module is an attention layer."""
        layer = self._modules.get(module)
        if layer is None:
            return None
        run = Run(layer.id.free({run.id for run in self.runs}), path)
        self.runs.append(run)
        return run

    def begins(self, module: nn.Module, path: str) -> Run | None:
        """A new run, where this module is a block."""
        attends = path in self.blocks
        id = self.blocks.get(path) or self._beside.get(path)
        if id is None:
            return None
        run = Run(id.free({run.id for run in self.block_runs}), path, attends)
        self.block_runs.append(run)
        return run

    def of(self, path: str) -> LayerId | None:
        """The attention layer or block that a path is in; None outside."""
        for end in range(len(path), -1, -1):
            if end not in (0, len(path)) and path[end] != ".":
                continue
            start = path[:end]
            if start in self.layers:
                return self.layers[start].id
            found = self.blocks.get(start) or self._beside.get(start)
            if found is not None:
                return found
        return None

    def in_attention(self, path: str) -> bool:
        """Whether a path is an attention layer's or in one."""
        return any(path == own or path.startswith(f"{own}.") for own in self.layers if own)

    def block_of(self, path: str) -> tuple[str, bool] | None:
        """The block that a path is in, and whether it holds attention; None outside."""
        for found, attends in ((self.blocks, True), (self._beside, False)):
            for start in found:
                if not start or path == start or path.startswith(f"{start}."):
                    return start, attends
        return None


def _blocks(model: nn.Module, layers: tuple[Layer, ...]) -> dict[str, LayerId]:
    """For each attention layer the largest module around it that is one of a list, or the largest at all."""
    own = [layer for layer in layers if layer.id.stream != "cross"]
    found: dict[str, LayerId] = {}
    for layer in own:
        paths = [*around(layer, own), layer.path]
        chosen = next((path for path in paths if listed(model, path)), paths[0])
        found[chosen] = layer.id
    return found


def _beside(model: nn.Module, blocks: dict[str, LayerId]) -> dict[str, LayerId]:
    """The modules of the same lists that hold no attention, numbered as their places in the list."""
    found: dict[str, LayerId] = {}
    taken = set(blocks.values())
    for path, id in blocks.items():
        outer, _, _ = path.rpartition(".")
        if not listed(model, path) or not isinstance(model.get_submodule(outer), nn.ModuleList):
            continue
        for name, _ in model.get_submodule(outer).named_children():
            other = f"{outer}.{name}".lstrip(".")
            held = any(b == other or b.startswith(f"{other}.") for b in blocks)
            if held or other in found or not re.fullmatch(r"\d+", name):
                continue
            found[other] = LayerId(id.stream, int(name)).free(taken)
            taken.add(found[other])
    return found
