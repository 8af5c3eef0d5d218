"""What `headwise ablate` does once its arguments are read: measure with and without the heads, and show it."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import Any

import torch
from rich.console import Console, Group

from headwise.cli.ablate.command import AblateRequest
from headwise.cli.cutting import rows_of
from headwise.cli.look.as_json import write_json
from headwise.cli.printing import print_out, say
from headwise.cli.progress import RunProgress
from headwise.cli.reading import out_of_memory, reading_model
from headwise.cli.stopping import Stopping
from headwise.cut.ablating.comparing import Change, Measured, Sets
from headwise.cut.ablating.gates import Gates
from headwise.cut.ablating.predicting import moved_tokens, predictions
from headwise.cut.census import census
from headwise.cut.selecting import selected
from headwise.names import HeadError, HeadId, TextError
from headwise.see.tables import plain
from headwise.see.texts.given import Texts, batches_in
from headwise.show.terminal_ablate import (
    AblateHead,
    Draws,
    FileRow,
    ablate_head,
    files_table,
    moved_table,
    predictions_table,
)

__all__ = ["AblateRun"]


class AblateRun:
    """One run of the command."""

    def __init__(self, request: AblateRequest) -> None:
        self.request = request
        self._corpora = {file: request.reading.corpora((file,)) for file in request.files}
        texts = {file: list(corpus.texts()) for file, (corpus, _) in self._corpora.items()}
        target = request.reading.target
        self.model = reading_model(
            request, call="ablate", targets=None if target is None else "--target"
        )
        found = census(self.model)
        self.heads = selected(found, request.heads)
        self.all = found.heads
        if request.random and len(self.heads) == len(self.all):
            raise HeadError(
                f"--random has no other heads to draw: all {len(self.all)} of {self.model.name} are named; "
                "leave it out"
            )
        self.texts = texts
        self.sets = Sets(self.model, self._gates(), self._drawn(), request.factor)

    def go(self) -> int:
        """Measure and show; the exit code."""
        with Stopping() as stop:
            try:
                found = {file: self._measure(file, stop) for file in self.texts}
            except torch.OutOfMemoryError as error:
                raise out_of_memory(error) from None
        measured = {file: parts for file, parts in found.items() if parts is not None}
        if self.texts and not measured:
            raise TextError("stopped before a batch was done; there is nothing to show")
        within = self._within()
        if self.request.json is not None:
            write_json(self._json(measured, within), self.request.json)
        if str(self.request.json) != "-":
            self._print(measured, within)
            if self.request.json is not None:
                say(f"wrote {self.request.json}")
        if stop.asked:
            say("headwise: interrupted; this is of what was measured before")
            return stop.code
        return 0

    # measuring

    def _gates(self) -> Gates:
        request = self.request
        texts: Texts | None = None
        if request.how in ("mean", "resample"):
            if request.stand_in:
                files = list(request.reading.corpora(request.stand_in)[0].texts())
            else:
                files = list(chain(*self.texts.values())) or [request.text or ""]
            texts = rows_of(self.model, files, request.reading)
        return Gates(self.model, None, request.how, texts=texts, seed=request.seed)  # type: ignore[arg-type]

    def _drawn(self) -> list[Sequence[HeadId]]:
        """The heads that were named, then sets of as many others."""
        own = set(self.heads)
        others = [id for id in self.all if id not in own]
        if len(others) < len(own):  # too few: any
            others = list(self.all)
        draw = random.Random(self.request.seed)
        drawn = [draw.sample(others, len(own)) for _ in range(self.request.random)]
        return [self.heads, *drawn]

    def _measure(self, file: Path, stop: Stopping) -> Measured | None:
        """The texts of a file, as far as they were measured; None where none was."""
        parts = []
        texts = self.texts[file]
        with RunProgress(len(texts), 0, 0, True) as progress:
            for batch in self._batches(file):
                if stop.asked:
                    break
                parts.append(self.sets.measured(batch))
                begun = batch.size if batch.begun is None else batch.begun
                progress.add(begun, batch.tokens or 0, begun)
        return Measured.joined(parts) if parts else None

    def _batches(self, file: Path) -> Iterator[Any]:
        reading = self.request.reading
        targets = self._corpora[file][1]
        goal = None if targets is None else list(targets.texts())
        rows = rows_of(self.model, self.texts[file], reading)
        return batches_in(self.model, rows, goal, reading.context, "ablate")

    def _within(self) -> Any:
        """What changes in the one text; None where there is none."""
        text, target = self.request.text, self.request.reading.target
        if text is None:
            return None
        goal = None if target is None else target.read_text(encoding="utf-8-sig")
        (batch, *_) = batches_in(self.model, text, goal, None, "ablate")
        found = predictions if self.sets.predicts else moved_tokens
        return found(self.sets, batch)

    # showing

    def _print(self, measured: dict[Path, Measured], within: Any) -> None:
        request = self.request
        head = AblateHead(self.model.name, self.heads, len(self.all), request.how, request.factor)
        rows, draws = self._rows(measured), self._draws(measured)
        shown = predictions_table if self.sets.predicts else moved_table

        def show(console: Console, colour: bool) -> None:
            parts = [ablate_head(head, width=console.width)]
            if rows:
                parts.append(files_table(rows, draws, self.sets.predicts, width=console.width))
            if within is not None:
                parts.append(shown(within, top=request.top, width=console.width, colour=colour))
            console.print(Group(*parts))

        print_out(show)

    def _rows(self, measured: dict[Path, Measured]) -> list[FileRow]:
        rows = [FileRow(file.name, parts.change()) for file, parts in measured.items()]
        if len(rows) > 1:
            rows.append(FileRow("all", Measured.joined(list(measured.values())).change()))
        return rows

    def _draws(self, measured: dict[Path, Measured]) -> Draws | None:
        if not self.request.random or not measured:
            return None
        every = Measured.joined(list(measured.values()))
        changes = tuple(every.change(i).change for i in range(1, len(self.sets.sets)))
        others = len(self.all) - len(self.heads)
        return Draws(changes, every.change().change, len(self.heads), max(others, len(self.heads)))

    def _json(self, measured: dict[Path, Measured], within: Any) -> dict[str, Any]:
        request = self.request
        found: dict[str, Any] = {
            "model": self.model.name,
            "heads": [str(id) for id in self.heads],
            "how": request.how,
            "factor": request.factor,
            "measure": "loss, nats per token" if self.sets.predicts else "output moved, relative",
        }
        if measured:
            found["files"] = [
                {"file": str(file), **_of_change(parts.change()), "rows_of": _of_rows(parts)}
                for file, parts in measured.items()
            ]
            found["all"] = _of_change(Measured.joined(list(measured.values())).change())
        if (draws := self._draws(measured)) is not None:
            found["random"] = [
                {"heads": [str(id) for id in heads], "change": plain(change)}
                for heads, change in zip(self.sets.sets[1:], draws.changes, strict=True)
            ]
        if within is not None:
            name = "predictions" if self.sets.predicts else "moved"
            found["text"] = request.text
            found[name] = [plain(asdict(one)) for one in within]
        return found


def _of_change(change: Change) -> dict[str, Any]:
    return {name: plain(value) for name, value in asdict(change).items()}


def _of_rows(parts: Measured) -> list[dict[str, Any]]:
    """Each row's means."""
    means = zip(parts.before, parts.after[0], parts.counts, strict=True)
    return [
        {"before": plain(b / n), "after": plain(a / n), "tokens": int(n)} for b, a, n in means if n
    ]
