"""Whose each operation and each parameter is: the place (a layer, or outside) and the part.

What makes queries, keys and values is told by where its results went in the run, and W_O by its being the first map
that reads the head outputs; a map that makes several of them is split by its rows. All other maps of a block with
attention are its feed-forward network; outside of the blocks the order tells embedding from output.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from torch import nn

from headwise.check.counting.placing import Places, Run
from headwise.check.counting.watching import Operation, Watch
from headwise.hub.outputs import is_linear
from headwise.names import LayerId

__all__ = ["Attributed", "Spot"]


@dataclass(frozen=True)
class Spot:
    """A place (None = outside of the layers) and a part."""

    place: LayerId | None
    part: str


Shares = list[tuple[str, int]]
"""Parts, and how many channels of a map are theirs."""


class Attributed:
    """Where what was watched belongs.

    Args:
        module: that ran.
        places: of its layers.
        watch: that saw it.
    """

    def __init__(self, module: nn.Module, places: Places, watch: Watch) -> None:
        self._module, self._places, self._watch = module, places, watch
        self._total = len(places.block_runs)
        self._norms = {path for path, m in module.named_modules() if _is_norm(m)}
        self._outputs = {run.output: run for run in places.runs if run.output is not None}
        self._networks = {
            self._relative(op.path)
            for op in watch.operations
            if op.weight and op.attention is None and op.block is not None and op.block.attends
            if op not in self._outputs
        }
        self._read = self._readers()

    def shared(self) -> list[tuple[str, str]]:
        """Paths of maps whose weight is another module's, a table of embeddings for instance, and its name."""
        found = {
            (op.path, op.weight)
            for op in self._watch.operations
            if op.weight and op.weight.rpartition(".")[0] != op.path
            if isinstance(self._module.get_submodule(op.weight.rpartition(".")[0]), nn.Embedding)
        }
        return sorted(found)

    def flops(self) -> Iterator[tuple[Spot, int, int]]:
        """Of each operation, or of its share: where it belongs, its FLOPs forward and backward."""
        for op in self._watch.operations:
            if op.role == "fused":
                scores, back = round(op.flops * op.split), round(op.backward * op.split)
                place = self._place(op)
                yield Spot(place, "scores"), scores, back
                yield Spot(place, "mix"), op.flops - scores, op.backward - back
                continue
            shares = self.shares(op)
            whole = sum(width for _, width in shares)
            for part, width in shares:
                spot = Spot(self._place(op), part)
                yield spot, op.flops * width // whole, op.backward * width // whole

    def saved(self) -> Iterator[tuple[Spot, int]]:
        """Of each piece of memory that autograd keeps: where it belongs, and its bytes."""
        for key, (op, size) in self._watch.kept.items():
            part = self._saved_part(key, op)
            alone = part == "other" and key in self._watch.around  # tables that all layers read
            yield Spot(None if alone else self._place(op), part), size

    def parameters(self) -> Iterator[tuple[Spot, int, bool]]:
        """Of each parameter, or its share: where it is, how many numbers, whether of a matrix; tied ones once."""
        uses = self._uses()
        for name, parameter in self._module.named_parameters():
            table = isinstance(self._module.get_submodule(name.rpartition(".")[0]), nn.Embedding)
            shares = None if table else self._of_weight(uses.get(name, []), parameter.numel())
            if shares is None:
                shares = self._of_bias(name, parameter.numel(), uses)
            if shares is None:
                shares = [(self._by_path(name), 1)]
            whole = sum(width for _, width in shares)
            for spot, width in shares:
                yield spot, parameter.numel() * width // whole, parameter.dim() > 1

    def place_of(self, op: Operation) -> LayerId | None:
        """The layer that an operation belongs to; None outside."""
        return self._place(op)

    def shares(self, op: Operation) -> Shares:
        """The parts that an operation belongs to, and how many channels are each one's."""
        run = op.attention
        if op in self._outputs:
            return [("o", 1)]
        if op.weight is None:
            return [(op.role or self._unmarked(op), 1)]
        if run is not None and op in run.roles_of:
            return self._by_rows(op, run)
        if run is not None:
            return [("other", 1)]
        if op.block is not None:
            known = op.block.attends or self._relative(op.path) in self._networks
            return [("ffn" if known and len(op.made) != 4 else "other", 1)]
        return [(self._outside(op.after), 1)]

    def _by_rows(self, op: Operation, run: Run) -> Shares:
        """The channels of a map that makes queries, keys or values, split where it makes several."""
        roles = run.roles_of[op]
        if len(roles) == 1:
            return [(next(iter(roles)), 1)]
        if op in self._read:  # others split what this one makes
            return [("shared", 1)]
        positions = max(1, math.prod(op.made) // op.width)
        width = {role: math.prod(run.shapes[role]) // positions for role in "qkv"}
        dims = run.shapes["q"][-1], run.shapes["v"][-1]
        left = op.width - (width["q"] if "q" in roles else 0)
        if roles == {"q", "k"} and left > 0:
            return [("q", width["q"]), ("k", left)]
        if "k" in roles and "v" in roles and left > 0:
            values, rest = divmod(left * dims[1], dims[0] + dims[1])
            if rest or (left != width["k"] + width["v"] and left % (dims[0] + dims[1])):
                values = width["v"]  # part of each key comes from elsewhere
            if 0 < values < left:
                queries: Shares = [("q", width["q"])] if "q" in roles else []
                return [*queries, ("k", left - values), ("v", values)]
        return [("shared", 1)]

    def _readers(self) -> set[Operation]:
        """The maps of attention whose results other maps of the same role read."""
        read: set[Operation] = set()
        for run in self._places.runs:
            for op in run.roles_of:
                read |= {m for m in op.marks if m in run.roles_of and m is not op}
        return read

    def _place(self, op: Operation) -> LayerId | None:
        if op in self._outputs:
            return self._outputs[op].id
        run = op.attention or op.block
        return None if run is None else run.id

    def _saved_part(self, key: int, op: Operation) -> str:
        if op.path in self._norms:
            return "norm"
        if op.role == "fused":
            return "scores" if key in op.scored else "mix"
        if op.weight is None:
            return op.role or self._unmarked(op)
        return self.shares(op)[0][0]

    def _unmarked(self, op: Operation) -> str:
        """The part of what is no product with a weight."""
        if op.attention is not None:
            return "other"
        if op.block is not None:
            return "ffn" if op.block.attends and not op.flops else "other"
        return "other" if op.flops else self._outside(op.after)

    def _outside(self, after: int) -> str:
        return "embedding" if after == 0 else "output" if after == self._total else "other"

    def _uses(self) -> dict[str, list[Operation]]:
        """For each weight the maps that read it, each piece of it once."""
        found: dict[str, dict[tuple[int, int], Operation]] = defaultdict(dict)
        for op in self._watch.operations:
            if op.weight is not None:
                found[op.weight].setdefault(op.piece, op)
        return {name: list(pieces.values()) for name, pieces in found.items()}

    def _of_weight(self, uses: list[Operation], size: int) -> list[tuple[Spot, int]] | None:
        if not uses:
            return None
        if sum(op.piece[1] for op in uses) != size:
            uses = uses[:1]
        found = []
        for op in uses:
            shares = self.shares(op)
            whole = sum(width for _, width in shares)
            place = self._place(op)
            found += [(Spot(place, part), op.piece[1] * w // whole) for part, w in shares]
        return found

    def _of_bias(
        self, name: str, size: int, uses: dict[str, list[Operation]]
    ) -> list[tuple[Spot, int]] | None:
        """As the weight beside it in its module, where it has a number for each channel that makes."""
        owner = name.rpartition(".")[0]
        for other, ops in uses.items():
            if other.rpartition(".")[0] != owner or other == name:
                continue
            if sum(op.width for op in ops) == size:
                return self._of_weight(ops, sum(op.piece[1] for op in ops))
        return None

    def _by_path(self, name: str) -> Spot:
        """Of a parameter that no map reads."""
        owner = name.rpartition(".")[0]
        place = self._places.of(owner)
        module = self._module.get_submodule(owner)
        if owner in self._norms:
            return Spot(place, "norm")
        if isinstance(module, nn.Embedding):
            inside = self._places.in_attention(owner)
            return Spot(place, "other") if inside else Spot(place, "embedding")
        if place is None:
            after = self._watch.first_used.get(name)
            return Spot(None, "other" if after is None else self._outside(after))
        if self._places.in_attention(owner) or self._module.get_parameter(name).dim() < 2:
            return Spot(place, "other")
        return Spot(place, "ffn" if self._relative(owner) in self._networks else "other")

    def _relative(self, path: str) -> str:
        """A path within its block, without numbers."""
        found = self._places.block_of(path)
        inner = path if found is None else path[len(found[0]) :]
        return re.sub(r"\d+", "#", inner)


def _is_norm(module: nn.Module) -> bool:
    """Whether all that a module holds is a number for each channel."""
    own = list(module.parameters())
    if any(p.dim() > 1 for p in own) or is_linear(module) or isinstance(module, nn.Embedding):
        return False
    if not own:
        return "Norm" in type(module).__name__  # one that learns nothing
    return bool(module._parameters) and not list(module.children())
