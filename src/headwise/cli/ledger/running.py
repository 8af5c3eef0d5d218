"""What `headwise ledger` does once its arguments are read: count, and show or write it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rich.console import Console

from headwise.check.counting.counting import ledger
from headwise.check.counting.files import save_ledger
from headwise.check.counting.varying import Variant, ledgers
from headwise.cli.ledger.command import LedgerRequest
from headwise.cli.look.as_json import write_json
from headwise.cli.printing import print_out, say
from headwise.cli.progress import StepProgress
from headwise.see.tables import plain
from headwise.show.terminal_ledger import ledger_table, shapes_table
from headwise.show.terminal_variants import variants_table

__all__ = ["run"]


def run(request: LedgerRequest) -> None:
    """Count one model, or one with several numbers of heads."""
    show, data = (
        _varied(request) if request.heads or request.kv_heads or request.head_dim else _one(request)
    )
    if request.json is not None:
        write_json(plain(data), request.json)
    if str(request.json) != "-":
        print_out(show, request.out)
    for path in (request.json, request.out):
        if path is not None and str(path) != "-":
            say(f"wrote {path}")


def _one(request: LedgerRequest) -> tuple[Callable[[Console, bool], None], Any]:
    with StepProgress(1) as steps:
        steps.at(0, request.model)
        found = ledger(
            request.model,
            request.length,
            request.batch,
            target_length=request.target_length,
            dtype=request.dtype,
        )
    if request.out is not None:
        save_ledger(found, request.out)

    def show(console: Console, colour: bool) -> None:
        console.print(
            ledger_table(
                found,
                width=console.width,
                every=request.layers,
                formulas=request.formulas,
            )
        )
        if request.shapes:
            console.print(shapes_table(found, width=console.width, every=request.layers))

    return show, found.as_dict()


def _varied(request: LedgerRequest) -> tuple[Callable[[Console, bool], None], Any]:
    count = max(1, len(request.heads)) * max(1, len(request.kv_heads))
    with StepProgress(count) as steps:
        found = ledgers(
            request.model,
            request.heads,
            request.kv_heads,
            head_dim=request.head_dim,
            length=request.length,
            batch=request.batch,
            target_length=request.target_length,
            dtype=request.dtype,
            progress=lambda done, _, what: steps.at(done, what),
        )
    return lambda console, colour: console.print(
        variants_table(request.model, found, width=console.width)
    ), {"model": request.model, "variants": [_variant(one) for one in found]}


def _variant(one: Variant) -> dict[str, Any]:
    said = {"num_heads": one.num_heads, "num_kv_heads": one.num_kv_heads, "head_dim": one.head_dim}
    if one.ledger is None:
        return {**said, "refused": one.refused}
    counted = dict(one.ledger.as_dict())
    counted.pop("shapes")
    return {**said, **counted}
