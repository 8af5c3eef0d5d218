"""The shapes that a row passes through in a block: n x d, h times n x d_k, n x d again, then n x d_ff and back.

They are those of the tensors that were multiplied in the run, not of a configuration.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from headwise.check.counting.attributing import Attributed
from headwise.check.counting.feeding import Sizes
from headwise.check.counting.placing import Places, Run
from headwise.check.counting.watching import Operation, Watch
from headwise.names import LayerId

__all__ = ["Stage", "Stages", "stages_of"]


@dataclass(frozen=True)
class Stage:
    """One shape: so many times [rows, columns], for one sequence.

    Attributes:
        name: of what has it: input, q, k, v, pattern, z, concat, o, and of the feed-forward network ffn_input, w1,
            hidden, w2.
        times: how many of them: heads; 1 = a single matrix.
    """

    name: str
    times: int
    rows: int
    columns: int


@dataclass(frozen=True)
class Stages:
    """The shapes of one layer, in the order in which it runs."""

    id: LayerId
    stages: tuple[Stage, ...]


def stages_of(places: Places, watch: Watch, whose: Attributed, sizes: Sizes) -> list[Stages]:
    """For each attention layer its shapes, and those of the feed-forward network of its block."""
    found = []
    for run in places.runs:
        stages = _attention(run, whose, sizes.batch)
        network = _network(run.id, watch, whose, sizes.batch)
        found.append(Stages(run.id, (*stages, *network)))
    return found


def _attention(run: Run, whose: Attributed, batch: int) -> list[Stage]:
    if "q" not in run.shapes or "z" not in run.shapes:
        return []
    maps = [
        op for op in run.roles_of if "q" in run.roles_of[op] and not op.marks & set(run.roles_of)
    ]
    stages = [_flat("input", maps[0].given, batch)] if maps else []
    heads = {role: _heads(role, shape, batch) for role, shape in run.shapes.items()}
    kv = _kv_heads(run, whose, batch)
    for role in "qkv":
        if role in heads:
            times, rows, columns = heads[role]
            stages.append(Stage(role, kv if kv and role != "q" else times, rows, columns))
    times, rows, _ = heads["q"]
    if "k" in heads:
        stages.append(Stage("pattern", times, rows, heads["k"][1]))
    stages.append(Stage("z", *heads["z"]))
    if run.output is not None:
        stages.append(_flat("concat", run.output.given, batch))
        stages.append(_flat("o", run.output.made, batch))
    return stages


def _heads(role: str, shape: tuple[int, ...], batch: int) -> tuple[int, int, int]:
    """How many matrices of which shape, for one sequence."""
    times = math.prod(shape[:-2])
    return max(1, times // batch), shape[-2], shape[-1]


def _kv_heads(run: Run, whose: Attributed, batch: int) -> int | None:
    """The KV heads by what the map of the keys makes; None where that does not say it."""
    dim = run.shapes["q"][-1]
    for op, roles in run.roles_of.items():
        if "k" not in roles or op.width == 0:
            continue
        shares = dict(whose.shares(op))
        whole = sum(shares.values())
        channels = op.width * shares.get("k", 0) // whole
        if channels and channels % dim == 0:
            return int(channels // dim)
    return None


def _network(id: LayerId, watch: Watch, whose: Attributed, batch: int) -> list[Stage]:
    """What the maps of the feed-forward network make, after what the first reads."""
    ops = [op for op in watch.operations if _is_network(op, id, whose)]
    if len(ops) < 2:
        return []
    *into, last = ops
    return [
        _flat("ffn_input", into[0].given, batch),
        *(_flat("w1", op.made, batch) for op in into),
        _flat("hidden", last.given, batch),
        _flat("w2", last.made, batch),
    ]


def _is_network(op: Operation, id: LayerId, whose: Attributed) -> bool:
    if op.weight is None or op.attention is not None or op.block is None or op.block.id != id:
        return False
    return whose.shares(op) == [("ffn", 1)]


def _flat(name: str, shape: tuple[int, ...], batch: int) -> Stage:
    """A shape [..., channel] of all rows, as that of one."""
    return Stage(name, 1, max(1, math.prod(shape[:-1]) // batch), shape[-1])
