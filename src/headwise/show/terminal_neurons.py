"""Neurons on a terminal: the contexts that fire one, and for each token the ones that fire."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from headwise.show.cells import clusters, fit, flow, print_lines
from headwise.show.labels import one_line

__all__ = ["ContextLine", "FireRow", "NeuronHead", "fires_table", "neuron_contexts", "number"]

_LABEL = 14
"""Cells of a token's column."""


@dataclass(frozen=True)
class ContextLine:
    """A token in its text: what is before it, its label, what comes after, and its activation."""

    activation: float
    before: str
    token: str
    after: str


@dataclass(frozen=True)
class NeuronHead:
    """What is told of a neuron above its contexts.

    Attributes:
        facts: pieces in words.
        raises: tokens it raises, strongest first; None where the model has no unembedding.
    """

    name: str
    facts: tuple[str, ...]
    raises: tuple[str, ...] | None


@dataclass(frozen=True)
class FireRow:
    """A neuron at a token."""

    neuron: str
    activation: float
    norm: float
    share: float
    raises: tuple[str, ...] | None


def number(x: float) -> str:
    """Three digits, as 0.02, 1.25, 13.4 or 1234."""
    digits = 2 if abs(x) < 9.995 else 1 if abs(x) < 99.95 else 0
    return f"{x:.{digits}f}"


def neuron_contexts(
    head: NeuronHead, contexts: Sequence[ContextLine], *, width: int, colour: bool
) -> RenderableType:
    """A neuron: its facts, what it raises, and a line for each context with the firing token in brackets.

    Args:
        head: of the neuron.
        contexts: strongest first.
        width: cells of a line.
        colour: whether the token is shown in bold beside.
    """
    facts = [Text(f"{fact}{';' * (i < len(head.facts) - 1)}") for i, fact in enumerate(head.facts)]
    lead = Text(f"{head.name}  ", "bold" if colour else "")
    shown = flow(facts, width, indent=lead.cell_len)
    lines = [lead.append_text(shown[0]), *shown[1:]]
    if head.raises is not None:
        lines += _raised(Text("  raises  "), head.raises, width)
    figures = [number(context.activation) for context in contexts]
    column = max(map(len, figures), default=0)
    for figure, context in zip(figures, contexts, strict=True):
        start = Text(f"  {figure:>{column}}  ")
        lines.append(start.append_text(_in_text(context, width - start.cell_len, colour)))
    return print_lines(lines)


def fires_table(
    tokens: Sequence[tuple[str, Sequence[FireRow]]], *, width: int, colour: bool
) -> RenderableType:
    """For each token the neurons that fire, one line each: activation, what it adds, share, what it raises.

    Args:
        tokens: labels, each with its neurons in the order they are to be shown.
        width: cells of a line; where it is narrow, labels are cut, then activations and lengths left out, and the
            share, by which they are ordered, is kept.
        colour: whether tokens are shown in bold.
    """
    rows = [row for _, rows in tokens for row in rows]
    ids = max([len("neuron"), *(len(row.neuron) for row in rows)])
    label = min(_LABEL, max([len("token"), *(cell_len(one_line(name)) for name, _ in tokens)]))
    label = max(len("token"), min(label, width - len(_numbers(ids, "", "", "", ""))))
    short = label + len(_numbers(ids, "", "", "", "")) > width
    raises = any(row.raises is not None for row in rows)
    head = f"{'token':<{label}}{_numbers(ids, 'neuron', 'fires', 'adds', 'share', short)}"
    lines = [Text(fit(head + "  raises" * raises, width).rstrip())]
    for name, found in tokens:
        for i, row in enumerate(found):
            line = Text(fit(name, label) if i == 0 else " " * label)
            if colour:
                line.stylize("bold")
            figures = number(row.activation), number(row.norm), f"{row.share:.2f}"
            line.append(_numbers(ids, row.neuron, *figures, short))
            if row.raises is not None:
                line = _raised(line.append("  "), row.raises, width)[0]
            line.truncate(width, overflow="ellipsis")
            lines.append(line)
        if not found:
            lines.append(Text(fit(f"{one_line(name)}  no neuron", width).rstrip()))
    return print_lines(lines)


def _numbers(ids: int, neuron: str, fires: str, adds: str, share: str, short: bool = False) -> str:
    """The columns of a neuron; without the two in the middle where there is no room."""
    middle = "" if short else f"  {fires:>6}  {adds:>6}"
    return f"  {neuron:<{ids}}{middle}  {share:>5}"


def _raised(lead: Text, tokens: Sequence[str], width: int) -> list[Text]:
    """Tokens side by side on one line, as many as fit, or none where the model has no unembedding."""
    if not tokens:
        return [lead.append("none")]
    shown = flow([Text(one_line(token)) for token in tokens], width, indent=lead.cell_len)
    return [lead.append_text(shown[0])]


def _in_text(context: ContextLine, width: int, colour: bool) -> Text:
    """The token in brackets with as much of the text around as fits, the token near the middle."""
    token = Text(f"[{one_line(context.token)}]", "bold" if colour else "")
    room = max(0, width - token.cell_len)
    before, after = _flat(context.before), _flat(context.after)
    left = min(cell_len(before), max(room * 3 // 5, room - cell_len(after)))
    start = _cut(before, left, from_end=True)
    end = _cut(after, room - cell_len(start), from_end=False)
    line = Text(start).append_text(token).append(end)
    line.truncate(width, overflow="ellipsis")
    return line


def _flat(text: str) -> str:
    """On one line, spaces as they are."""
    return text and one_line(f"x{text}x")[1:-1]


def _cut(text: str, width: int, *, from_end: bool) -> str:
    """At most so many cells of the text, its end or its start, `…` for the rest."""
    if cell_len(text) <= width:
        return text
    parts = clusters(text)
    kept: list[str] = []
    room = width - 1
    for part in reversed(parts) if from_end else parts:
        if cell_len(part) > room:
            break
        kept.append(part)
        room -= cell_len(part)
    if room < 0:
        return ""
    return "…" + "".join(reversed(kept)) if from_end else "".join(kept) + "…"
