"""What `headwise rank` does once its arguments are read: rank the heads, save, show, draw."""

from __future__ import annotations

import math
import time
from collections.abc import Sized
from typing import Any

import pandas as pd
import torch
import xarray as xr
from rich.console import Console, Group
from rich.text import Text

from headwise.cli.cutting import rows_of
from headwise.cli.look.as_json import write_json
from headwise.cli.printing import counted, print_out, say, stacks_of
from headwise.cli.progress import RunProgress
from headwise.cli.rank.command import RankRequest
from headwise.cli.reading import out_of_memory, reading_model
from headwise.cut.ablating.comparing import predicts
from headwise.cut.ranking.files import save_importance
from headwise.cut.ranking.importance import importance
from headwise.hub.load import Model
from headwise.names import ModelError
from headwise.see.profile.files import save_profile
from headwise.see.tables import plain
from headwise.see.texts.given import Texts
from headwise.show.cells import print_lines, sentence
from headwise.show.ranked import ranked_heads
from headwise.show.terminal import stack_words
from headwise.show.terminal_rank import Compared, Settled, compared_table, rank_page
from headwise.show.words import figure

__all__ = ["run"]

_INTERRUPTED = 130

_FINE = 1000
"""Parts of a text that the progress counts."""


def run(request: RankRequest) -> int:
    """Rank by each method, and show one, or how alike several are; the exit code."""
    corpus, targets = request.reading.corpora(request.files)
    texts = list(corpus.texts())
    model = reading_model(
        request, call="importance", targets=None if targets is None else "--target"
    )
    if not predicts(model):
        raise ModelError(
            f"{model.name} predicts no next token, so there is no loss to rank by; from Python, "
            "hw.importance takes loss=, a function of its output and inputs"
        )
    rows = rows_of(model, texts, request.reading)
    goal = None if targets is None else list(targets.texts())
    found: dict[str, xr.Dataset] = {}
    seconds: dict[str, float] = {}
    for method in request.methods:
        start = time.monotonic()
        found[method] = _ranked(request, model, rows, goal, method)
        seconds[method] = time.monotonic() - start
        if _stopped(found[method]):
            break
    if len(request.methods) == 1:
        _one(request, model, found[request.methods[0]])
    else:
        _several(request, found, seconds)
    if any(map(_stopped, found.values())):
        say("headwise: interrupted; this is of what was measured before")
        return _INTERRUPTED
    return 0


def _ranked(
    request: RankRequest, model: Model, rows: Texts, goal: list[str] | None, method: str
) -> xr.Dataset:
    total = len(rows) if isinstance(rows, Sized) else None
    with RunProgress(None if total is None else _FINE * total, 0, 0, True) as shown:
        try:
            return importance(
                model,
                rows,
                method,  # type: ignore[arg-type]
                heads=request.heads,
                per=request.per,  # type: ignore[arg-type]
                target=goal,
                context=request.reading.context,
                progress=_Telling(shown).tell,
                quiet=True,
            )
        except torch.OutOfMemoryError as error:
            raise out_of_memory(error) from None


class _Telling:
    """Tells a bar of what is done since it was last told; texts may be done by parts."""

    def __init__(self, shown: RunProgress) -> None:
        self._shown = shown
        self._before = (0.0, 0)

    def tell(self, texts: float, total: int | None, tokens: int) -> None:
        """So many texts and tokens are done in all."""
        was, read = self._before
        fine = round(_FINE * texts) - round(_FINE * was)
        self._shown.add(int(texts) - int(was), tokens - read, fine)
        self._before = (texts, tokens)


def _stopped(table: xr.Dataset) -> bool:
    return "stopped" in table.attrs


def _one(request: RankRequest, model: Model, table: xr.Dataset) -> None:
    """Save, show and draw one ranking."""
    heads = ranked_heads(table)
    out = request.out
    if out is not None and _stopped(table):  # a part is never put in the place of a whole
        out = out.with_name(f"{out.stem}.part{out.suffix}")
    if out is not None:
        save_importance(table, out)
        say(f"wrote {out}")
    if request.json is not None:
        write_json(_json(table), request.json)

    def show(console: Console, colour: bool) -> None:
        stacks, width = ", ".join(map(stack_words, stacks_of(table))), console.width
        lines = [
            *sentence(f"{model.name}: {stacks}", width),
            *sentence(_told(table), width),
            Text(),
        ]
        says = f"importance by {table.attrs['method']}"
        page = rank_page(heads, _settled(table), says, top=request.top, width=width, colour=colour)
        console.print(Group(print_lines(lines), page))

    if str(request.json) != "-":
        print_out(show, out)
    for path in request.pictures:
        from headwise.show.picture_importance import draw_importance
        from headwise.show.pictures import save

        files = ", ".join(file.name for file in request.files)
        means = str(table["importance"].attrs.get("long_name", ""))
        says = "nats per token" if means.startswith("rise of the loss") else "importance"
        method = f"{table.attrs['method']}{f' ({means})' if means else ''}"
        caption = f"{model.name}. Importance by {method} over {files}, {counted(table)}."
        save(draw_importance(heads, caption=caption, says=says), path)
        say(f"wrote {path}")


def _several(request: RankRequest, found: dict[str, xr.Dataset], seconds: dict[str, float]) -> None:
    """Save and show how alike several rankings are."""
    frame = pd.DataFrame(
        {method: table["importance"].values.reshape(-1) for method, table in found.items()}
    )
    alike = frame.corr(method="spearman")
    names = tuple(found)
    compared = Compared(
        names,
        {method: _settled(table).stability for method, table in found.items()},
        seconds,
        {(a, b): float(alike.loc[a, b]) for a in names for b in names},
    )
    first = next(iter(found.values()))
    together = _together(found)
    if request.out is not None:
        save_profile(together, request.out, "the rankings")
        say(f"wrote {request.out}")
    if request.json is not None:
        held: dict[str, Any] = {method: _json(table) for method, table in found.items()}
        correlations = {a: {b: plain(float(alike.loc[a, b])) for b in names} for a in names}
        write_json({"rankings": held, "correlations": correlations}, request.json)

    def show(console: Console, colour: bool) -> None:
        told = Text(f"{first.attrs['model']}: {counted(first)}\n")
        console.print(Group(told, compared_table(compared, width=console.width)))

    if str(request.json) != "-":
        print_out(show, request.out)


def _together(found: dict[str, xr.Dataset]) -> xr.Dataset:
    """One table of all, each method a variable with its standard error beside."""
    first = next(iter(found.values()))
    data = {}
    for method, table in found.items():
        data[method] = table["importance"]
        data[f"{method} standard_error"] = table["standard_error"]
    attrs = {
        name: first.attrs[name] for name in ("model", "texts", "tokens") if name in first.attrs
    }
    return xr.Dataset(data, attrs=attrs)


def _settled(table: xr.Dataset) -> Settled:
    stability = table.attrs.get("stability")
    needed = table.attrs.get("texts_to_settle")
    known = isinstance(needed, int | float) and math.isfinite(needed)
    return Settled(
        math.nan if stability is None else float(stability),
        int(table.attrs["texts"]),
        round(needed) if known and needed is not None else None,
    )


def _told(table: xr.Dataset) -> str:
    """What was measured, and on what."""
    says = table["importance"].attrs.get("long_name", "")
    loss = figure(float(table.attrs["mean_loss"]))
    told = f"importance by {table.attrs['method']} ({says}) over {counted(table)}; loss {loss} nats per token"
    return f"{told}; {table.attrs['computed']}" if table.attrs.get("computed") else told


def _json(table: xr.Dataset) -> dict[str, Any]:
    heads = [
        {
            "id": str(one.id),
            "kv_group": one.kv_group,
            "importance": plain(one.value),
            "standard_error": plain(one.error),
        }
        for one in ranked_heads(table)
    ]
    return {"about": {str(k): plain(v) for k, v in table.attrs.items()}, "heads": heads}
