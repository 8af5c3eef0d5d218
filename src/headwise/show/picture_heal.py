"""The loss along a healing as a figure, beside that of the control."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from headwise.cut.healing.healed import Healed
from headwise.show.picture_curves import Curve, draw_curves

__all__ = ["draw_heal"]


def draw_heal(healed: Healed, files: str) -> Figure:
    """A line for the model and one for its control: the held-out loss after so many steps.

    Without held-out texts it is the mean loss of each step's rows.

    Args:
        healed: from `heal`.
        files: names of what was measured.
    """
    names = [healed.model.name]
    if healed.control is not None:
        names.append(f"{healed.control.model.name} (control)")
    runs = [healed, *([healed.control] if healed.control is not None else [])]
    curves = [_curve(run, name) for run, name in zip(runs, names, strict=True)]
    what = "held-out loss" if healed.held_out else "loss of the texts it is tuned on"
    settings = healed.settings
    facts = (
        f"Tuned with AdamW, {settings.get('batch')} rows a step, learning rate "
        f"{settings.get('learning_rate'):g}; {what} on {files}."
    )
    return draw_curves(curves, xlabel="steps", ylabel=f"{what} (nats per token)", caption=facts)


def _curve(run: Healed, name: str) -> Curve:
    looks = run.held_out or tuple(enumerate(run.losses))
    x, y = (np.array(part, dtype=float) for part in zip(*looks, strict=True))
    return Curve(name, x, y)
