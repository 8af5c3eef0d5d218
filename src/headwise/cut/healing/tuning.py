"""The loop of healing: steps of AdamW, shared among processes, that never leave a model half changed."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from headwise.cut.healing.rows import Row, batch_of, parted
from headwise.cut.healing.states import State
from headwise.cut.losses import Loss, LossFunction, losses_of, mean_loss
from headwise.cut.telling import Progress
from headwise.hub.load import Model
from headwise.names import ModelError
from headwise.nn.optimizing import adamw, cosine

__all__ = ["Tuning", "clock"]


@dataclass(eq=False)
class Tuning:
    """One model on its way.

    Attributes:
        model: that is tuned, in place.
        parameters: of it, that change.
        accelerator: of accelerate: which process this is, and what all of them have together.
        loss: as `losses_of` takes it.
        learning_rate, warmup, weight_decay, clip: of the steps.
        best: keep the state of the least held-out loss, not the last.
    """

    model: Model
    parameters: Sequence[nn.Parameter]
    accelerator: Any
    loss: LossFunction | None
    learning_rate: float
    warmup: int
    weight_decay: float
    clip: float | None
    best: bool
    losses: list[float] = field(default_factory=list)
    held_out: list[tuple[int, Loss]] = field(default_factory=list)
    stopped: str = ""
    kept: int = 0

    def through(
        self,
        batches: Iterable[Sequence[Row]],
        steps: int,
        held: Sequence[Row],
        every: int,
        until: Callable[[], str],
        progress: Progress,
    ) -> None:
        """All steps, or until something ends them; the model is then as `kept` says.

        Args:
            batches: the rows of each step.
            steps: how many there will be.
            held: the held-out rows; none = no looking at them.
            every: after how many steps they are looked at.
            until: says after each step why to stop, "" = go on; of several processes the first that says so counts.
            progress: is told how it stands.
        """
        optimizer = adamw(self.parameters, self.learning_rate, self.weight_decay)
        schedule = cosine(optimizer, self.warmup, steps)
        best, sound = (State(self.parameters) if self.best else None), State(self.parameters)
        changing = False
        self._look(held, 0, best)
        try:
            for step, rows in enumerate(batches, 1):
                progress(step - 1, steps, self._line())
                found = self._slopes(rows)
                if not math.isfinite(found):
                    self._undo(sound, step - 1, f"the loss was {found} at step {step}")
                    break
                self.losses.append(found)
                if not math.isfinite(self._clipped()):
                    self.stopped = f"the gradients were not finite at step {step}"
                    break
                sound.take()
                changing = True
                optimizer.step()
                schedule.step()
                changing = False
                self.kept = step
                ends = self._why(until())
                looks = held and (step % every == 0 or step == steps or ends)
                if looks and not self._look(held, step, best):
                    self._undo(sound, step, f"the held-out loss was no number after step {step}")
                    break
                if ends:
                    self.stopped = ends
                    break
        except KeyboardInterrupt:
            if changing:  # half of the parameters may have moved
                sound.put_back()
            self.stopped = f"stopped by Ctrl-C after step {self.kept}"
            if self.accelerator.num_processes > 1:
                raise
        self._keep(best)

    def looked(self, held: Sequence[Row]) -> Loss | None:
        """The loss of held-out rows as the model is now, shared among the processes; None without rows."""
        if not held:
            return None
        size, rank = self.accelerator.num_processes, self.accelerator.process_index
        parts = list(parted(held))
        told = self._zeros(2, len(held))
        starts = [sum(map(len, parts[:i])) for i in range(len(parts))]
        with torch.no_grad(), self.accelerator.autocast():
            for start, part in list(zip(starts, parts, strict=True))[rank::size]:
                found = losses_of(self.model, batch_of(self.model, part), self.loss)
                told[0, start : start + len(found.of_rows)] = found.of_rows.to(told)
                told[1, start : start + len(found.counts)] = found.counts.to(told)
        sums, counts = self.accelerator.reduce(told)
        return mean_loss(sums.tolist(), [int(count) for count in counts.tolist()])

    def _look(self, held: Sequence[Row], step: int, best: State | None) -> bool:
        """Look at the held-out rows; whether that gave a number."""
        found = self.looked(held)
        if found is None:
            return True
        if not math.isfinite(found.mean):
            return False
        least = min((loss.mean for _, loss in self.held_out), default=math.inf)
        self.held_out.append((step, found))
        if best is not None and found.mean < least:
            best.take()
        return True

    def _slopes(self, rows: Sequence[Row]) -> float:
        """The mean loss of a step's rows, and its gradients, of all processes together."""
        size, rank = self.accelerator.num_processes, self.accelerator.process_index
        told = self._zeros(2)
        for p in self.parameters:
            p.grad = None
        for part in parted(rows[rank::size]):
            with self.accelerator.autocast():
                found = losses_of(self.model, batch_of(self.model, part), self.loss)
                total = found.total
            self.accelerator.backward(total)
            told += torch.stack([total.detach().to(told), found.counts.sum().to(told)])
        total, count = self.accelerator.reduce(told).tolist()
        if not count:
            raise ModelError(f"no token of a step counts for the loss of {self.model.name}")
        self._share(count)
        return float(total / count)

    def _share(self, count: float) -> None:
        """Gradients of sums in each process -> of the mean over all, the same in each."""
        several = self.accelerator.num_processes > 1
        for p in self.parameters:
            if several:
                own = torch.zeros_like(p) if p.grad is None else p.grad
                p.grad = self.accelerator.reduce(own)
            if p.grad is not None:
                p.grad /= count

    def _zeros(self, *shape: int) -> Tensor:
        """To be reduced; in double precision where the device has it."""
        device = self.accelerator.device
        dtype = torch.float32 if device.type == "mps" else torch.float64
        return torch.zeros(shape, dtype=dtype, device=device)

    def _clipped(self) -> float:
        """Clip the gradients; their length before."""
        most = math.inf if self.clip is None else self.clip
        return float(nn.utils.clip_grad_norm_(self.parameters, most))

    def _why(self, word: str) -> str:
        """Why to stop, agreed among the processes."""
        if self.accelerator.num_processes == 1:
            return word
        from accelerate.utils import gather_object

        return next((one for one in gather_object([word]) if one), "")

    def _undo(self, sound: State, step: int, why: str) -> None:
        """Back to the parameters before the last step, whose loss was a number."""
        if step == 0:
            raise ModelError(
                f"{why}, before anything was changed: {self.model.name} gives no number"
            )
        sound.put_back()
        self.kept = step - 1
        self.stopped = f"{why}; the model is as it was after step {self.kept}"

    def _keep(self, best: State | None) -> None:
        if best is None or not self.held_out:
            return
        step, _ = min(self.held_out, key=lambda pair: pair[1].mean)
        best.put_back()
        self.kept = step

    def _line(self) -> str:
        if not self.losses:
            return "the first step"
        held = f", held out {self.held_out[-1][1].mean:.3f}" if self.held_out else ""
        return f"loss {self.losses[-1]:.3f}{held}"


def clock(minutes: float | None) -> Callable[[], str]:
    """Says when so many minutes are over."""
    start = time.monotonic()

    def until() -> str:
        over = minutes is not None and time.monotonic() - start > 60 * minutes
        return f"{minutes:g} minutes were over" if over else ""

    return until
