"""heal: a short fine-tune of a model that was cut, beside the same tuning of the uncut one."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from headwise.cut.healing.healed import Healed
from headwise.cut.healing.rows import Row, drawn, rows_of
from headwise.cut.healing.states import Parts, chosen, tuned
from headwise.cut.healing.tuning import Tuning, clock
from headwise.cut.losses import LossFunction, check_predicts
from headwise.cut.telling import Progress, lines
from headwise.hub.load import Model
from headwise.hub.spread import accelerator_of
from headwise.names import ConfigError
from headwise.see.texts.given import Texts
from headwise.see.texts.refusing import check_model

__all__ = ["heal"]


def heal(
    model: Model,
    texts: Texts,
    *,
    held_out: Texts | None = None,
    control: Model | None = None,
    steps: int = 100,
    batch: int = 8,
    learning_rate: float = 5e-5,
    warmup: int = 10,
    weight_decay: float = 0.0,
    clip: float | None = 1.0,
    parts: Parts = "all",
    keep: Literal["best", "last"] | None = None,
    every: int = 10,
    minutes: float | None = None,
    loss: LossFunction | None = None,
    seed: int = 0,
    stop: Callable[[], bool] | None = None,
    quiet: bool = False,
    progress: Progress | None = None,
) -> Healed:
    """Tune a model that was cut on some texts, in place, and say what that mended.

    Much of what a model gains by this is that it gets used to the texts, which the uncut model would as well. So
    give the uncut one as `control`: it is tuned on the same rows in the same order, and `gap_before` and
    `gap_after` say how far apart the two are. Dropout is off. Started in several processes (accelerate launch,
    torchrun), these share the rows of each step, and come to what one alone would, to rounding; a mixed precision
    asked of accelerate is used.

    Ctrl-C ends it with the model as it is after the last whole step (or the best, where that is kept). A loss that
    is no number ends it with the parameters before the step that led there.

    Args:
        model: from `load`; float32 weights, as small steps vanish in half precision.
        texts: whatever `profile` takes; rows of equal length (`blocks`) are best.
        held_out: other texts, whose loss is told.
        control: the uncut model, which is tuned in place too.
        steps: of AdamW.
        batch: rows in each.
        learning_rate: the highest; it rises over `warmup` steps, then falls as a cosine to 0.
        warmup: steps.
        weight_decay: of matrices.
        clip: the longest the gradients may be together; None = any.
        parts: what is tuned: "all", or "attention" alone.
        keep: the "best" state by the held-out loss, or the "last"; None = the best where there are such texts.
        every: after how many steps the held-out texts are looked at.
        minutes: at most so many, for each model.
        loss: a function of the model's output and inputs; None = of the next token.
        seed: of the order of the rows.
        stop: asked after each step whether to end it.
        quiet: no progress on stderr.
        progress: called as progress(steps done, steps in all, how it stands), in place of lines on stderr.

    Raises:
        ConfigError: a number that cannot be, or "best" without held-out texts.
        ModelError: a model that predicts no next token, and no loss given; one whose loss is no number.
        TextError: texts that cannot be read.
    """
    counts = {"steps": steps, "batch": batch, "every": every}
    _check(counts, learning_rate, warmup, weight_decay, clip, minutes)
    best = held_out is not None if keep is None else keep == "best"
    if keep not in (None, "best", "last") or (best and held_out is None):
        raise ConfigError(f'keep={keep!r} must be "last", or "best" with held_out= texts')
    settings = {
        **counts,
        "learning_rate": learning_rate,
        "warmup": warmup,
        "weight_decay": weight_decay,
        "clip": clip,
        "parts": parts,
        "keep": "best" if best else "last",
        "seed": seed,
    }

    def healed(one: Model, name: str) -> Healed:
        check_model(one, "heal")
        if loss is None:
            check_predicts(one)
        rows, held = rows_of(one, texts), [] if held_out is None else rows_of(one, held_out)
        accelerator = accelerator_of(cpu=one.device.type == "cpu")
        shown = progress or lines(name, quiet=quiet or not accelerator.is_main_process)
        parameters = chosen(one, parts)
        run = Tuning(
            one, parameters, accelerator, loss, learning_rate, warmup, weight_decay, clip, best
        )
        order = drawn(len(rows), batch, steps, seed)
        step_rows = ([rows[i] for i in numbers] for numbers in order)
        with tuned(one, parameters):
            run.through(step_rows, steps, held, every, _until(minutes, stop), shown)
            return _told(run, held, settings, _even(one) if loss is None else None)

    found = healed(model, "heal")
    if control is None:
        return found
    return replace(found, control=healed(control, "heal, control"))


def _even(model: Model) -> float | None:
    """The loss of an even guess over the vocabulary; None where the config names no number of it."""
    config: Any = getattr(model.module, "config", None)
    config = config.get_text_config() if hasattr(config, "get_text_config") else config
    size = getattr(config, "vocab_size", None)
    return math.log(size) if isinstance(size, int) and size > 1 else None


def _told(run: Tuning, held: list[Row], settings: dict[str, Any], even: float | None) -> Healed:
    looks = [(step, loss.mean) for step, loss in run.held_out]
    known = dict(run.held_out)
    return Healed(
        run.model,
        tuple(run.losses),
        tuple(looks),
        known.get(0),
        known[run.kept] if run.kept in known else run.looked(held),
        len(run.losses),
        run.kept,
        run.stopped,
        settings,
        even=even,
    )


def _until(minutes: float | None, stop: Callable[[], bool] | None) -> Callable[[], str]:
    over = clock(minutes)

    def until() -> str:
        return "it was asked to stop" if stop is not None and stop() else over()

    return until


def _check(
    counts: dict[str, int],
    learning_rate: float,
    warmup: int,
    weight_decay: float,
    clip: float | None,
    minutes: float | None,
) -> None:
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigError(f"{name}={value!r} is not a count; use a whole number of 1 or more")
    if isinstance(warmup, bool) or not isinstance(warmup, int) or warmup < 0:
        raise ConfigError(f"warmup={warmup!r} is not a number of steps; use 0 or more")
    above = {"learning_rate": learning_rate, "clip": clip, "minutes": minutes}
    for name, number in above.items():
        if number is not None and not 0 < number < float("inf"):
            raise ConfigError(f"{name}={number!r} must be above 0")
    if not 0 <= weight_decay < float("inf"):
        raise ConfigError(f"weight_decay={weight_decay!r} must be 0 or more")
