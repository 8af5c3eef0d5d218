"""What `headwise heal` does once its arguments are read: tune, save, show, draw."""

from __future__ import annotations

import os
from pathlib import Path

import torch
from rich.console import Console

from headwise.cli.cutting import rows_of
from headwise.cli.heal.command import HealRequest
from headwise.cli.look.as_json import write_json
from headwise.cli.printing import print_out, say
from headwise.cli.progress import StepProgress
from headwise.cli.reading import out_of_memory, reading_model
from headwise.cli.saving import saved_words
from headwise.cli.stopping import Stopping
from headwise.cut.healing.healed import Healed
from headwise.cut.healing.healing import heal
from headwise.cut.saving.saving import save
from headwise.hub.load import Model, load
from headwise.see.tables import plain
from headwise.see.texts.given import Texts
from headwise.show.terminal_heal import heal_page

__all__ = ["run"]

_SAYS = "headwise: stopping after the step that runs; Ctrl-C again stops at once"


def run(request: HealRequest) -> int:
    """Tune a model, and show what that mended; the exit code."""
    leads = os.environ.get("RANK", "0") == "0"
    model = reading_model(request, call="heal", quiet=not leads)
    control = None
    if request.control is not None:
        control = load(request.control, request.device, request.dtype, quiet=not leads)
    with Stopping(_SAYS if leads else "") as stop, StepProgress(request.steps) as steps:
        try:
            found = _healed(request, model, control, stop, steps)
        except torch.OutOfMemoryError as error:
            raise out_of_memory(error) from None
    if leads:
        _tell(request, found)
    if stop.asked:
        if leads:
            say(f"headwise: interrupted after {found.steps} steps; the model is as it was then")
        return stop.code
    return 0


def _healed(
    request: HealRequest, model: Model, control: Model | None, stop: Stopping, steps: StepProgress
) -> Healed:
    held_out = _rows(request, model, request.held_out) if request.held_out else None
    return heal(
        model,
        _rows(request, model, request.files),
        held_out=held_out,
        control=control,
        steps=request.steps,
        batch=request.batch,
        learning_rate=request.learning_rate,
        parts=request.parts,  # type: ignore[arg-type]
        every=request.every,
        minutes=request.minutes,
        seed=request.seed,
        stop=lambda: bool(stop.asked),
        progress=lambda done, _, what: steps.at(done, what),
    )


def _rows(request: HealRequest, model: Model, files: tuple[Path, ...]) -> Texts:
    corpus, _ = request.reading.corpora(files)
    return rows_of(model, list(corpus.texts()), request.reading)


def _tell(request: HealRequest, found: Healed) -> None:
    """Save, show and draw."""
    saved = None if request.out is None else save(found.model, request.out)
    if request.json is not None:
        write_json(plain(dict(found.as_dict())), request.json)
    if str(request.json) != "-":

        def show(console: Console, colour: bool) -> None:
            console.print(heal_page(found, width=console.width))

        print_out(show)
    for path in request.pictures:
        from headwise.show.picture_heal import draw_heal
        from headwise.show.pictures import save as save_picture

        files = ", ".join(file.name for file in request.held_out or request.files)
        save_picture(draw_heal(found, files), path)
        say(f"wrote {path}")
    say(saved_words(saved))
