"""What a terminal shows: the headline, the grid of heads, one head's map, one word's table.

Everything here takes plain data and gives something a rich Console prints, no line wider than the
width asked for. Without colour the text is plain and says the same by characters alone. Does not
find a width, a console or a model: the caller has those.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import RenderableType
from rich.text import Text

from headwise.names import HeadId
from headwise.show.cells import fit, flow, print_lines
from headwise.show.labels import one_line
from headwise.show.palette import terminal_shade
from headwise.show.terminal_grid import head_grid
from headwise.show.terminal_map import head_map, paint

__all__ = [
    "Stack",
    "WordRow",
    "head_grid",
    "head_map",
    "headline",
    "seen_by",
    "stack_words",
    "word_table",
]

_BAR = 10
_LEAST = 0.005
"""A weight below this would show as 0.00, and is left out."""


@dataclass(frozen=True)
class Stack:
    """One stack of attention layers; `stream` is "" where a model has one stack.

    Of a pruned model the heads are the fewest and the most that a layer has.
    """

    stream: str
    num_layers: int
    num_heads: int | tuple[int, int]
    num_kv_heads: int | tuple[int, int]

    @classmethod
    def of(cls, stream: str, heads: Sequence[int], kv_heads: Sequence[int]) -> Stack:
        """The stack of layers of so many heads and KV heads each."""
        return cls(stream, len(heads), (min(heads), max(heads)), (min(kv_heads), max(kv_heads)))


@dataclass(frozen=True)
class WordRow:
    """What one head's query at a word looks at.

    `looks_at` holds (word, weight), strongest first; `first` the weight on the first token when it
    is kept apart (then it is not among `looks_at`), else None.
    """

    head: HeadId
    looks_at: tuple[tuple[str, float], ...]
    first: float | None


def headline(
    model: str,
    stacks: Sequence[Stack],
    tokens: Sequence[str],
    verified: float,
    *,
    width: int,
    max_lines: int = 4,
) -> RenderableType:
    """The model, its layers x heads, the tokens and the verified figure.

    Args:
        model: the model's name.
        stacks: the stacks of attention layers, one for most models.
        tokens: the labels of the tokens.
        verified: the largest difference between recomputed and actual head outputs.
        width: cells of a line.
        max_lines: lines the tokens may take; `…` stands for the rest.
    """
    first = [Text(f"{one_line(model)}:")] + [Text(stack_words(stack)) for stack in stacks]
    count = f"{len(tokens)} token{'' if len(tokens) == 1 else 's'}:"
    pieces = [Text(count)] + [Text(one_line(token)) for token in tokens]
    shown = flow(pieces, width - 2)
    if len(shown) > max_lines:
        shown = shown[:max_lines]
        shown[-1].append(" …")
    words = f"verified: recomputed head outputs within {verified:.1e} of the model's own"
    return print_lines(
        [
            *flow(first, width, gap=1),
            *shown,
            *flow([Text(word) for word in words.split()], width, gap=1),
        ]
    )


def word_table(
    rows: Sequence[WordRow],
    *,
    word: str,
    width: int,
    colour: bool,
    max_words: int = 5,
    renormalised: bool = False,
) -> RenderableType:
    """What a word looks at, one row per head in the order given, the strongest words first.

    A bar shows the strongest weight. The first token's weight has a column of its own where it was
    kept apart; the title says whether the others are shares of what it leaves.
    """
    if not rows:
        return Text(f"no head to show for {one_line(word)}", overflow="fold")
    apart = any(row.first is not None for row in rows)
    ids = max(len("head"), *(len(str(row.head)) for row in rows))
    lead = ids + 2 + (7 if apart else 0)
    bar = _BAR if width - lead >= 40 else 0
    title = f"{one_line(word)} looks at (weight; strongest first"
    if renormalised:
        title += "; first token apart, the rest renormalised to 1)"
    else:
        title += "; first token apart, nothing renormalised)" if apart else ")"
    head = f"{'head':<{ids}}  " + (f"{'first':<5}  " if apart else "") + " " * (bar + 1) * (bar > 0)
    lines = flow([Text(part) for part in title.split()], width, gap=1)
    lines.append(Text(fit(head + "words", width).rstrip()))
    for row in rows:
        lines += _word_row(row, ids, apart, bar, width, colour, max_words)
    return print_lines(lines)


def seen_by(
    rows: Sequence[WordRow], *, word: str, width: int, max_words: int = 8, max_heads: int = 4
) -> RenderableType:
    """The other way round: the words that `word` looks at most, each with the heads that do so most."""
    heads: dict[str, list[tuple[float, HeadId]]] = {}
    for row in rows:
        for seen, weight in row.looks_at:
            heads.setdefault(seen, []).append((weight, row.head))
    ranked = sorted(heads.items(), key=lambda pair: -max(weight for weight, _ in pair[1]))
    names = [one_line(seen) for seen, _ in ranked[:max_words]]
    column = min(24, max((cell_len(name) for name in names), default=0))
    lines = [Text(f"{one_line(word)} looks most at, in which heads:", overflow="fold")]
    for name, (_, weights) in zip(names, ranked, strict=False):
        best = sorted(weights, key=lambda pair: -pair[0])[:max_heads]
        pieces = [Text(f"{head} {weight:.2f}") for weight, head in best]
        shown = flow(pieces, width, indent=column + 2)
        lines += [Text(fit(name, column) + "  ").append_text(shown[0]), *shown[1:]]
    return print_lines(lines)


def _word_row(
    row: WordRow, ids: int, apart: bool, bar: int, width: int, colour: bool, max_words: int
) -> list[Text]:
    start = Text(f"{row.head!s:<{ids}}  ")
    if apart:
        start.append("       " if row.first is None else f"{row.first:<5.2f}  ")
    if bar:
        start.append_text(_bar(row.looks_at[0][1] if row.looks_at else 0.0, bar, colour)).append(
            " "
        )
    room = max(4, width - start.cell_len)
    shown = [pair for pair in row.looks_at[:max_words] if pair[1] >= _LEAST]
    pieces = [_word_piece(word, weight, room) for word, weight in shown]
    words = flow(pieces or [Text("nothing")], width, indent=start.cell_len)
    return [start.append_text(words[0]), *words[1:]]


def _word_piece(word: str, weight: float, room: int) -> Text:
    figure = f" {weight:.2f}"
    shown = one_line(word)
    space = max(1, min(24, room - len(figure)))
    return Text((fit(shown, space) if cell_len(shown) > space else shown) + figure)


def _bar(weight: float, size: int, colour: bool) -> Text:
    eighths = round(min(max(weight, 0.0), 1.0) * size * 8)
    whole, rest = divmod(eighths, 8)
    if not colour:
        return Text(("█" * whole + ("▌" if rest >= 4 else "")).ljust(size))
    full = max(1, round(eighths / 8)) if eighths else 0
    return paint(" " * full, terminal_shade(2)).append_text(Text(" " * (size - full)))


def stack_words(stack: Stack) -> str:
    """Its name, layers x heads, and KV heads where they are fewer."""
    heads, kv_heads = _from_to(stack.num_heads), _from_to(stack.num_kv_heads)
    words = f"{stack.num_layers} layers x {heads} heads"
    if kv_heads != heads:
        words += f" ({kv_heads} KV heads)"
    return f"{stack.stream} {words}" if stack.stream else words


def _from_to(number: int | tuple[int, int]) -> str:
    least, most = (number, number) if isinstance(number, int) else number
    return str(least) if least == most else f"{least} to {most}"
