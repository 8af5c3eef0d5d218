"""A healing on a terminal: the loss before and after beside the control's, and how much of the gap is mended."""

from __future__ import annotations

import math

from rich.console import RenderableType
from rich.text import Text

from headwise.cut.healing.healed import Healed
from headwise.cut.losses import Loss
from headwise.show.cells import fit, print_lines, sentence
from headwise.show.labels import one_line
from headwise.show.words import figure, signed

__all__ = ["heal_page"]

_HELD_OUT = "loss on the held-out texts (nats per token ± standard error):"
_OWN = "mean loss of the first and of the last step's rows (nats per token), which are texts it was tuned on:"


def heal_page(healed: Healed, *, width: int) -> RenderableType:
    """What was done, the losses, and what is left between the model and its control."""
    told = f"{one_line(healed.model.name)}: {healed.steps} steps of AdamW"
    if healed.kept != healed.steps:
        told += f", of which the state after {healed.kept} is kept"
    lines = sentence(told, width)
    if healed.stopped:
        lines += sentence(f"it ended early: {healed.stopped}", width)
    held = healed.before is not None
    lines += [Text(), *sentence(_HELD_OUT if held else _OWN, width, indent=0)]
    rows = [("", "before", "after", "change"), _row(healed, one_line(healed.model.name))]
    if healed.control is not None:
        rows.append(_row(healed.control, f"{one_line(healed.control.model.name)} (control)"))
    if healed.gap_before is not None and healed.gap_after is not None:
        gaps = signed(healed.gap_before), signed(healed.gap_after)
        rows.append(("gap", *gaps, signed(healed.gap_after - healed.gap_before)))
    lines += _columns(rows, width)
    return print_lines([*lines, *sentence(_verdict(healed), width)])


def _row(healed: Healed, name: str) -> tuple[str, str, str, str]:
    if healed.before is None or healed.after is None:
        first, last = healed.losses[:1] or (math.nan,), healed.losses[-1:] or (math.nan,)
        return name, figure(first[0]), figure(last[0]), signed(last[0] - first[0])
    change = healed.after.mean - healed.before.mean
    return name, _loss(healed.before), _loss(healed.after), signed(change)


def _loss(loss: Loss) -> str:
    error = loss.standard_error
    return figure(loss.mean) if math.isnan(error) else f"{figure(loss.mean)} ± {figure(error)}"


def _columns(rows: list[tuple[str, str, str, str]], width: int) -> list[Text]:
    sizes = [max(map(len, column)) for column in zip(*rows, strict=True)]
    room = max(4, min(sizes[0], width - sum(sizes[1:]) - 6))
    return [
        Text(
            f"{fit(name, room) if name else ' ' * room}  "
            + "  ".join(f"{cell:>{size}}" for cell, size in zip(cells, sizes[1:], strict=True))
        )
        for name, *cells in rows
    ]


def _verdict(healed: Healed) -> str:
    """What that means."""
    if healed.knows_nothing:
        return (
            "the loss is now about that of a guess that gives every token the same share "
            f"({figure(healed.even or 0.0)}), so the model tells nothing of a text; "
            "try a smaller --learning-rate, or a smaller cut"
        )
    if healed.steps and not healed.kept:
        return (
            "no step made the held-out loss smaller, so the model is as it was before; try a smaller "
            "--learning-rate or more texts"
        )
    if healed.gain is not None and healed.gain < 0:
        return (
            "the held-out loss got worse; try a smaller --learning-rate, fewer steps or more texts"
        )
    if healed.control is None:
        return (
            "without a control this does not tell mending from getting used to the texts; --control MODEL gives "
            "the uncut model the same tuning"
        )
    if healed.mended is None:
        return "the model lost no more than its control before the tuning, so there was nothing to mend"
    if healed.mended <= 0:
        return "the gap to the control is no smaller: what was gained is getting used to the texts"
    mended = f"{healed.mended:.0%} of what the cut cost is mended"
    if (healed.control.gain or 0.0) <= 0:
        return f"{mended}; the control gained nothing by the same tuning"
    return f"{mended}; the rest of the gain the control had as well"
