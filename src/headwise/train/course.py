"""The course of a training: its steps, looks, log lines and checkpoints, in an order that a kill cannot spoil."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, is_dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import tokenizers
from torch import Tensor, nn

from headwise.cut.telling import Progress
from headwise.names import ModelError, OutputError
from headwise.nn.parallel import full_state, plain_class
from headwise.nn.saving import write_model
from headwise.train.checkpoints import Checkpoint, checkpoints, newest, write_checkpoint
from headwise.train.data import Feed, PairsFeed
from headwise.train.log import Line, Log
from headwise.train.processes import Processes
from headwise.train.randomness import put_random, random_state
from headwise.train.recipe import Recipe
from headwise.train.stepping import Found, Stepper

__all__ = ["Course", "described"]

_STAYS = 0.95
"""How much of the mean speed that is told stays at each step."""


class Course:
    """One training on its way.

    Args:
        module: that is trained, in place.
        feed: rows of each step.
        held_out: rows that are looked at; None = none.
        recipe: how.
        folder: of the run.
        processes: this one among them.

    Attributes:
        lines: a line for each step.
        progress: called as progress(steps done, steps in all, how it stands).
    """

    def __init__(
        self,
        module: nn.Module,
        feed: Feed,
        held_out: Feed | None,
        recipe: Recipe,
        folder: Path,
        processes: Processes,
    ) -> None:
        self.module, self.feed, self.held_out = module, feed, held_out
        self.recipe, self.folder, self.processes = recipe, folder, processes
        self.stepper = Stepper(module, recipe, processes)
        self.done = 0
        self.lines: list[Line] = []
        self.progress: Progress = lambda done, total, what: None
        self._log: Log | None = None
        self._last: Line | None = None
        self._tell: Callable[[str], None] = lambda line: None
        self._speed = 0.0
        self._began = (0, 0.0)
        """How many steps were done when this process began with them, and when that was."""

    def resume(self, tell: Callable[[str], None]) -> None:
        """Go back to the newest checkpoint that is whole; to the start where there is none yet.

        Raises:
            OutputError: there are checkpoints, and all of them are damaged.
        """
        self._tell = tell
        home = self.folder / "checkpoints"
        found = newest(home, tell)
        if found is None:
            if checkpoints(home):
                raise OutputError(f"every checkpoint in {home} is damaged; start another run")
            return
        self.stepper.put(_whole(found))
        self.done = found.step
        self._last = Line(**found.said["line"])
        random = found.said["random"]
        if len(random) != self.processes.size:
            tell(
                f"the run had {len(random)} processes and has {self.processes.size} now: "
                "it goes on to the same losses to rounding, and draws other dropout"
            )
        if self.processes.rank < len(random):
            put_random(random[self.processes.rank], self.processes.device)
        if self.done < self.recipe.steps:
            tell(f"going on after step {self.done}")
        else:
            tell(
                f"the run is done ({self.done} of {self.recipe.steps} steps); to go on from its weights: "
                f"--init {self.folder}"
            )

    def run(self, stop: Callable[[], bool]) -> str:
        """All steps that are left, or until something asks to stop; why it ended early."""
        self.processes.together(self._open)
        self.lines = self.processes.everyone(self.lines)[0]
        before = self.lines[-1].seconds if self.lines else 0.0
        self._began = self.done, time.perf_counter()
        start = time.perf_counter() - before
        try:
            for step in range(self.done + 1, self.recipe.steps + 1):
                self.progress(step - 1, self.recipe.steps, self._told())
                self._step(step, start)
                asked = bool(self.processes.sums(int(stop()))[0])
                if asked or step % self.recipe.save_every == 0 or step == self.recipe.steps:
                    self._save()
                if asked and step < self.recipe.steps:
                    return f"stopped after step {step}"
        finally:
            if self._log is not None:
                self._log.close()
        return ""

    def finish(self, tokenizer: tokenizers.Tokenizer | None) -> None:
        """Save the model in the folder of the run.

        Raises:
            OutputError: it cannot be written; the checkpoints stand.
        """
        model, processes = self.module, self.processes
        if not processes.whole:
            weights = full_state(self.module)
            model = plain_class(self.module)(self.module.config)
            model.load_state_dict({name: x.cpu() for name, x in weights.items()})
        model.eval()

        start = self.feed.start if isinstance(self.feed, PairsFeed) else None

        def write() -> None:
            try:
                write_model(model, self.folder, tokenizer, start)
            except OutputError as error:
                raise OutputError(f"{error}; {self._stands()}") from error

        processes.together(write)

    def _open(self) -> None:
        """Cut the log back to where the run is."""
        with self._logging():
            self._log = Log(self.folder / "log.csv", self._last)
        self.lines = list(self._log.before)
        missing = self._log.missing
        if missing:
            self._tell(
                f"{self._log.path} lacks {len(missing)} of the steps before {self.done}, "
                f"the first of them {missing[0]}; going on without their lines"
            )

    def _step(self, step: int, start: float) -> None:
        """One step, a look where one is due, and a line in the log."""
        began, rate = time.perf_counter(), self.stepper.rate
        found = self.stepper.step(self.feed, step)
        spent = time.perf_counter() - began
        if not found.done:
            raise ModelError(self._no_number(step, found))
        speed = found.tokens / max(spent, 1e-9)
        self._speed = _STAYS * self._speed + (1 - _STAYS) * speed if self._speed else speed
        held = None
        if self.held_out is not None and (
            step % self.recipe.evaluate_every == 0 or step == self.recipe.steps
        ):
            self.progress(step - 1, self.recipe.steps, "looking at the held-out text")
            held = self.stepper.look(self.held_out, self._seen(step))
            if not math.isfinite(held):
                raise ModelError(
                    f"the held-out loss was {held} after step {step}; {self._stands()}"
                )
        tokens = found.tokens + (self.lines[-1].tokens if self.lines else 0)
        seconds = time.perf_counter() - start
        line = Line(
            step, found.loss, held, rate, found.norm, tokens, round(speed), round(seconds, 3)
        )
        self.lines.append(line)
        self._write(line)
        self.done = step

    def _seen(self, step: int) -> int | None:
        """How many held-out rows are looked at after a step; None = all."""
        recipe = self.recipe
        if step == recipe.steps:
            return None
        return recipe.held_out_rows or max(recipe.evaluate_every * recipe.rows // 10, recipe.rows)

    def _write(self, line: Line) -> None:
        if self._log is not None:
            with self._logging():
                self._log.add(line)

    @contextmanager
    def _logging(self) -> Iterator[None]:
        """What the disk refuses of the log, in one line."""
        try:
            yield
        except OSError as error:
            raise OutputError(
                f"the log {self.folder / 'log.csv'} cannot be written: {error.strerror or error}; {self._stands()}"
            ) from error

    def _save(self) -> None:
        """Write a checkpoint, where every weight is a number."""
        if not self.stepper.sound():
            raise ModelError(f"a weight was no number after step {self.done}; {self._stands()}")
        state = self.stepper.state()
        random = self.processes.everyone(random_state(self.processes.device))

        def write() -> None:
            if self._log is not None:
                with self._logging():
                    self._log.sync()
            made = _parted(self.lines[-1], state, random)
            write_checkpoint(self.folder / "checkpoints", made, self.recipe.keep)

        self.processes.together(write)

    def _no_number(self, step: int, found: Found) -> str:
        rows = [] if math.isfinite(found.loss) else self.stepper.no_numbers(self.feed, step)
        which = f" in rows {', '.join(map(str, rows))} of it" if rows else ""
        return (
            f"at step {step} the loss was {found.loss:g}{which} and the gradients' length {found.norm:g}, "
            f"which are no numbers to go on with; {self._stands()}; a lower learning_rate, or float32, may help"
        )

    def _stands(self) -> str:
        kept = checkpoints(self.folder / "checkpoints", self.done)
        return f"the last good checkpoint is {kept[-1]}" if kept else "there is no checkpoint yet"

    def _told(self) -> str:
        if not self.lines:
            return "the first step"
        last = self.lines[-1]
        held = next((x.held_out for x in reversed(self.lines) if x.held_out is not None), None)
        told = f", held out {held:.3f}" if held is not None else ""
        before, began = self._began
        made = last.step - before
        rest = (time.perf_counter() - began) / made * (self.recipe.steps - last.step) if made else 0
        left = f", {timedelta(seconds=round(rest))} left" if rest else ""
        return f"loss {last.loss:.3f}{told}, {self._speed:,.0f} tokens/s{left}"


def described(module: nn.Module) -> dict[str, Any]:
    """What run.toml says of a model: its class, and the fields of its configuration."""
    config = getattr(module, "config", None)
    fields = asdict(config) if is_dataclass(config) and not isinstance(config, type) else {}
    return {"class": type(module).__name__, **fields}


def _parted(line: Line, state: Mapping[str, Any], random: list[Any]) -> Checkpoint:
    """A stepper's state as tensors and plain data."""
    tensors: dict[str, Tensor] = {f"weights/{n}": x for n, x in state["weights"].items()}
    for name, held in state["moments"]["state"].items():
        tensors |= {f"moments/{name}/{kind}": x for kind, x in held.items()}
    said = {
        "groups": state["moments"]["param_groups"],
        "schedule": state["schedule"],
        "random": random,
        "line": asdict(line),
    }
    return Checkpoint(line.step, tensors, said)


def _whole(checkpoint: Checkpoint) -> dict[str, Any]:
    """The reverse."""
    weights: dict[str, Tensor] = {}
    moments: dict[str, dict[str, Tensor]] = {}
    for path, tensor in checkpoint.tensors.items():
        home, name, *kind = path.split("/")
        if home == "weights":
            weights[name] = tensor
        else:
            moments.setdefault(name, {})[kind[0]] = tensor
    groups = [{**one, "betas": tuple(one["betas"])} for one in checkpoint.said["groups"]]
    return {
        "weights": weights,
        "moments": {"state": moments, "param_groups": groups},
        "schedule": checkpoint.said["schedule"],
    }
