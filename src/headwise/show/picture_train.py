"""The losses along a training as a figure."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from headwise.show.picture_curves import Curve, draw_curves
from headwise.train.run import Run

__all__ = ["draw_run"]

_POINTS = 60
"""At most about so many marks on a line: the losses of neighbouring steps are averaged."""


def draw_run(run: Run) -> Figure:
    """A line for the loss of the steps, averaged over neighbours, and one for the held-out texts.

    Args:
        run: from `fit`, with a step at least.
    """
    size = -(-len(run.log) // _POINTS)
    parts = [run.log[at : at + size] for at in range(0, len(run.log), size)]
    steps = np.array([np.mean([line.step for line in part]) for part in parts])
    losses = np.array([np.mean([line.loss for line in part]) for part in parts])
    curves = [Curve("trained on", steps, losses)]
    if run.held_out:
        x, y = (np.array(part, dtype=float) for part in zip(*run.held_out, strict=True))
        curves.append(Curve("held out", x, y))
    last = run.log[-1]
    averaged = f", means of {size} steps" if size > 1 else ""
    caption = f"{run.folder.name}: {last.step:,} steps, {last.tokens:,} tokens; loss of the texts{averaged}."
    return draw_curves(curves, xlabel="steps", ylabel="loss (nats per token)", caption=caption)
