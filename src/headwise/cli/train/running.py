"""What `headwise train` does once its arguments are read: train, draw the curves, say where the model is."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch

from headwise.cli.printing import say
from headwise.cli.progress import StepProgress
from headwise.cli.reading import out_of_memory
from headwise.cli.stopping import Stopping
from headwise.cli.train.command import TrainRequest
from headwise.hub.reading import read_config
from headwise.nn import EncoderDecoder
from headwise.nn.own import OWN_TYPE
from headwise.train.recipe import Plan, read_plan
from headwise.train.run import Run
from headwise.train.starting import fit, resume

__all__ = ["run"]

_SAYS = "headwise: stopping after the step that runs; Ctrl-C again stops at once"


def run(request: TrainRequest) -> int:
    """Train a model; the exit code."""
    leads = os.environ.get("RANK", "0") == "0"
    shown = StepProgress(0, short=True) if leads else nullcontext()
    with Stopping(_SAYS if leads else "") as stop, shown as steps:
        try:
            found = _trained(request, lambda: bool(stop.asked), steps)
        except torch.OutOfMemoryError as error:
            raise out_of_memory(error) from None
    if leads:
        _tell(found)
    return stop.code if found.stopped else 0


def _trained(request: TrainRequest, stop: Callable[[], bool], steps: StepProgress | None) -> Run:
    def progress(done: int, total: int, what: str) -> None:
        if steps is not None:
            steps.total = total
            steps.at(done, what)

    if request.resume is not None:
        return resume(request.resume, device=request.device, stop=stop, progress=progress)
    plan = Plan() if request.config is None else read_plan(request.config)
    return fit(
        list(request.files),
        plan.changed(**request.changes),
        _needed(request.out),
        held_out=list(request.held_out) or None,
        tokenizer=request.tokenizer,
        init=request.init,
        by=request.by,
        field=request.field,
        device=request.device,
        shards=request.shards,
        tensor_parallel=request.tensor_parallel,
        stop=stop,
        progress=progress,
    )


def _needed(out: Any) -> Any:
    assert out is not None
    return out


def _tell(found: Run) -> None:
    """Draw the curves, and say how it went."""
    if found.log:
        from headwise.show.picture_train import draw_run
        from headwise.show.pictures import save

        save(draw_run(found), found.folder / "curves.png")
    looks = found.held_out
    held = (
        f", held out {looks[-1][1]:.4f} (perplexity {_perplexity(looks[-1][1])})" if looks else ""
    )
    last = found.log[-1] if found.log else None
    told = (
        f": loss {last.loss:.4f}{held}, {last.tokens:,} tokens in {last.seconds:,.0f} s"
        if last
        else ""
    )
    done = found.steps and found.before == found.steps
    made = f"all {found.steps} steps were made before" if done else f"trained {found.steps} steps"
    say(f"headwise: {found.stopped or made}{told}")
    if found.stopped:
        say(f"headwise train --resume {found.folder} goes on from there")
    verb = "generate" if isinstance(found.model, EncoderDecoder) else "look"
    said = read_config(found.folder)["model_type"]
    form = "headwise's own form" if said == OWN_TYPE else f"a transformers checkpoint: {said}"
    say(
        f'wrote {found.folder} ({form}): read by hw.load("{found.folder}"), '
        f"and headwise {verb} --model {found.folder}"
    )


def _perplexity(loss: float) -> str:
    """exp(loss), which no float holds of a loss that ran away."""
    found = math.exp(min(loss, 700.0))
    return f"{found:,.1f}" if found < 1e9 else f"{'above ' if loss > 700 else ''}{found:.0e}"
