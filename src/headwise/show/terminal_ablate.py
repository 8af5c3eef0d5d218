"""An ablation on a terminal: what the heads' loss does to files of texts, and to the predictions within one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from headwise.cut.ablating.comparing import Change
from headwise.cut.ablating.predicting import Guess, MovedToken, Prediction
from headwise.names import HeadId
from headwise.show.cells import clusters, fit, fitting, flow, print_lines, sentence
from headwise.show.labels import one_line
from headwise.show.words import figure, heads_said, signed

__all__ = [
    "AblateHead",
    "Draws",
    "FileRow",
    "ablate_head",
    "files_table",
    "moved_table",
    "predictions_table",
]

_LABEL = 24
_STANDS = {
    "zero": "by zero",
    "mean": "by their mean output",
    "resample": "by their output at another token",
    "uniform": "by an even look",
}
_LOSS = (
    "loss of the next token (nats per token ± standard error over rows; that of the change is over the pairs "
    "of each row):"
)
_MOVED = (
    "the model predicts no next token, so this is how far its output vectors move: the mean of "
    "|after - before| / |before| over tokens (± standard error over rows):"
)


@dataclass(frozen=True)
class AblateHead:
    """What was ablated: of how many heads in all, how, and how much of them is left."""

    model: str
    heads: Sequence[HeadId]
    all: int
    how: str
    factor: float


@dataclass(frozen=True)
class FileRow:
    """A file, and what the ablation does to it."""

    name: str
    change: Change


@dataclass(frozen=True)
class Draws:
    """The change of each draw of as many random heads, and that of the heads that were named."""

    changes: tuple[float, ...]
    own: float
    heads: int
    among: int


def ablate_head(head: AblateHead, *, width: int) -> RenderableType:
    """The model and the heads, in a line or two."""
    count = f"{len(head.heads)} of {head.all} heads"
    if head.factor == 1:
        done = "left as they are (--factor 1)"
    elif head.factor:
        done = f"times {head.factor:g}, the rest of each replaced {_STANDS[head.how]}"
    else:
        done = f"replaced {_STANDS[head.how]}"
    told = f"{one_line(head.model)}: {count} {done}: {heads_said(head.heads)}"
    return print_lines(sentence(told, width))


def files_table(
    rows: Sequence[FileRow], draws: Draws | None, losses: bool, *, width: int
) -> RenderableType:
    """A line for each file: rows, tokens, before, after and the change; below it what random heads do."""
    columns = (
        ("rows", "tokens", "before", "after", "change") if losses else ("rows", "tokens", "moved")
    )
    cells = [_cells(row.change, losses) for row in rows]
    sizes = [max(map(len, column)) for column in zip(columns, *cells, strict=True)]
    room = width - sum(sizes) - 2 * len(sizes)
    label = max(4, min(max(cell_len(one_line(row.name)) for row in rows), room))
    lines = [Text(), *sentence(_LOSS if losses else _MOVED, width, indent=0)]
    for name, parts in [("", columns), *((r.name, c) for r, c in zip(rows, cells, strict=True))]:
        shown = (f"{part:>{size}}" for part, size in zip(parts, sizes, strict=True))
        lines.append(Text(f"{fit(name, label) if name else ' ' * label}  {'  '.join(shown)}"))
    if any(row.change.rows < 2 for row in rows):
        lines += sentence("one row has no standard error; --context N cuts it into more", width)
    if draws is not None:
        lines += sentence(_random(draws), width)
    return print_lines(lines)


def predictions_table(
    found: Sequence[Prediction], *, top: int, width: int, colour: bool
) -> RenderableType:
    """The tokens after which the prediction changes most, each with what is likeliest before and after."""
    chosen = sorted(found, key=lambda one: -one.divergence)[:top]
    if found[-1] not in chosen:
        chosen.append(found[-1])
    says = (
        f"predictions within the text, those that change most of {len(found)} tokens (nats: KL of the next token "
        "before from after); its end too:"
    )
    lines = [Text(), *sentence(says, width, indent=0)]
    for one in sorted(chosen, key=lambda one: one.position):
        lines.append(_context(one, width, colour))
        for when, likely in (("before", one.before), ("after", one.after)):
            lines += _likely(when, likely, width)
        if one.actual is not None:
            lines += _actual(one.actual, width)
    return print_lines(lines)


def moved_table(
    found: Sequence[MovedToken], *, top: int, width: int, colour: bool
) -> RenderableType:
    """The tokens whose output moves most."""
    chosen = sorted(found, key=lambda one: -one.moved)[:top]
    says = "how far the output moves within the text, |after - before| / |before|, most first:"
    lines = [Text(), *sentence(says, width, indent=0)]
    size = min(_LABEL, max(cell_len(one_line(one.token)) for one in chosen))
    lines += [Text(f"  {fit(one.token, size)}  {figure(one.moved)}") for one in chosen]
    return print_lines(lines)


def _cells(change: Change, losses: bool) -> tuple[str, ...]:
    counts = f"{change.rows:,}", f"{change.count:,}"
    moved = _within(signed(change.change) if losses else figure(change.change), change.change_error)
    if not losses:
        return (*counts, moved)
    before = _within(figure(change.before), change.before_error)
    return (*counts, before, _within(figure(change.after), change.after_error), moved)


def _within(told: str, error: float) -> str:
    return told if math.isnan(error) else f"{told} ± {figure(error)}"


def _random(draws: Draws) -> str:
    changes = np.array(draws.changes)
    as_much = int((changes >= draws.own).sum())
    spread = f" ± {figure(changes.std(ddof=1))} between draws" if len(changes) > 1 else ""
    return (
        f"as many random heads ({len(changes)} draws of {draws.heads} among {draws.among}): "
        f"{signed(changes.mean())}{spread}, from {signed(changes.min())} to {signed(changes.max())}; "
        f"{as_much} of {len(changes)} draws do as much as the heads named"
    )


def _context(one: Prediction, width: int, colour: bool) -> Text:
    """The end of the text up to the token."""
    nats = f"  {figure(one.divergence)} nats"
    room = max(8, min(48, width - len(nats) - len("after ")))
    parts = clusters(one_line(one.upto))
    kept = fitting(parts[::-1], room)
    if kept < len(parts):
        kept = fitting(parts[::-1], room - 2)
    told = "".join(parts[len(parts) - kept :])
    line = Text("after ").append("… " if kept < len(parts) else "")
    return line.append(told, "bold" if colour else "").append(nats)


def _likely(when: str, likely: Sequence[Guess], width: int) -> list[Text]:
    pieces = [
        Text(f"{_named(guess)} {_share(guess.before if when == 'before' else guess.after)}")
        for guess in likely
    ]
    first, *others = flow(pieces, width, indent=10)
    return [Text(f"  {when:<8}").append_text(first), *others]


def _actual(guess: Guess, width: int) -> list[Text]:
    told = f"  {'in text':<8}{_named(guess)} {_share(guess.before)} → {_share(guess.after)}"
    return [Text(fit(told, min(width, cell_len(told))))]


def _named(guess: Guess) -> str:
    name = one_line(guess.token)
    return fit(name, _LABEL) if cell_len(name) > _LABEL else name


def _share(x: float) -> str:
    """A probability, as .78, .003 or <.001."""
    if x < 0.0005:
        return "<.001"
    return f"{x:.2f}".removeprefix("0") if x >= 0.01 else f"{x:.3f}".removeprefix("0")
