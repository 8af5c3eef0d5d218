"""One class built tiny and audited, in a process of its own: some classes hang, and some keep what they learnt."""

from __future__ import annotations

import json
import multiprocessing
import time
import traceback
from collections.abc import Sequence
from multiprocessing.connection import Connection
from typing import Any

import torch
from extra import UNBUILT
from fields import LENGTH
from shrink import TYPES, build, kinds_of_layers

from headwise.check.auditing import audit
from headwise.check.telling.report import DIMENSIONS, Outcome

_KEPT = ("dimension", "case", "verdict", "says", "strength", "floor", "smallest", "module", "kind")

Row = dict[str, Any]


def row_of(
    kind: str, seconds: float, seed: int = 0, dimensions: Sequence[str] | None = None
) -> Row:
    """The row of one type: what it was built with and what the audit found, or why there is nothing.

    Args:
        kind: a model type of transformers.
        seconds: after which it is given up.
        seed: of the audit.
        dimensions: names of those that are looked at; None = all.
    """
    start = time.perf_counter()
    row: Row = {"type": kind, "class": TYPES[kind], "built": False, "why": UNBUILT.get(kind, "")}
    if not row["why"]:
        row |= _apart(kind, seconds, seed, dimensions)
    return row | {"seconds": round(time.perf_counter() - start, 1)}


def renewed(old: Row, new: Row) -> Row:
    """A row with the dimensions that a later run looked at, in place of what it had of them."""
    fresh = new.get("outcomes", [])
    looked_at = {outcome["dimension"] for outcome in fresh}
    kept = [o for o in old.get("outcomes", []) if o["dimension"] not in looked_at]
    order = sorted([*kept, *fresh], key=lambda o: DIMENSIONS.index(o["dimension"]))
    return {**old, **new, "outcomes": order} if order else new


def _apart(kind: str, seconds: float, seed: int, dimensions: Sequence[str] | None) -> Row:
    """The audit in a process that is ended where it takes too long; what it had found by then is kept."""
    fork = multiprocessing.get_context("fork")
    ours, theirs = fork.Pipe(duplex=False)
    child = fork.Process(target=_told, args=(kind, seed, dimensions, theirs))
    child.start()
    theirs.close()
    found: Row = {}
    end = time.perf_counter() + seconds
    try:
        while ours.poll(max(0.0, end - time.perf_counter())):
            found = _joined(found, json.loads(ours.recv()))
    except EOFError:
        pass
    else:
        found["why"] = f"not done after {seconds:g} s"
    child.kill()
    child.join()
    if not found.get("done") and not found.get("why"):
        found["why"] = f"its process ended with {child.exitcode}"
    found.pop("done", None)
    return found


def _joined(found: Row, more: Row) -> Row:
    outcomes = [*found.get("outcomes", []), *more.pop("outcomes", [])]
    return {**found, **more, "outcomes": outcomes}


def _told(kind: str, seed: int, dimensions: Sequence[str] | None, line: Connection) -> None:
    """In the child: build, audit, and tell each outcome as it is found."""

    def tell(**what: Any) -> None:
        line.send(json.dumps(what))

    torch.set_num_threads(1)
    try:
        model = build(kind)
        tell(
            built=True,
            parameters=sum(p.numel() for p in model.parameters()),
            layers=kinds_of_layers(model.config),
        )
        found = audit(
            model,
            length=LENGTH,
            weights="wide",
            seed=seed,
            dimensions=dimensions,
            seen=lambda outcome: tell(outcomes=[_kept(outcome)]),
        )
    except Exception as error:  # whatever a class raises is what the row says
        tell(why=f"{type(error).__name__}: {str(error).strip().splitlines()[0][:300]}")
        traceback.print_exc()
    else:
        tell(
            done=True,
            declared=found.declared,
            dtype=found.dtype,
            notes=list(found.notes),
        )


def _kept(outcome: Outcome) -> Row:
    held = outcome.as_dict()
    return {name: held[name] for name in _KEPT} | {"pairs": held["pairs"][:3]}
