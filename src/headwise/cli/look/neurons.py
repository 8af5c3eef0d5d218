"""What `headwise look --ffn` does once its arguments are read: run the model, then show which neurons fire."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.text import Text

from headwise.cli.look.as_json import write_json
from headwise.hub.load import load
from headwise.names import LayerId
from headwise.see.neurons.firing import Fire, Fires, fires
from headwise.see.record import Side
from headwise.show.cells import flow, print_lines
from headwise.show.terminal_neurons import FireRow, fires_table

if TYPE_CHECKING:
    from headwise.cli.look.running import View

__all__ = ["show_fires"]

_SHOWN = 64
"""So many tokens are shown where no word is asked for."""

_KEPT = 5
"""So many neurons of each layer at each token are ranked, at least."""

_SAYS = (
    "fires: the neuron's activation; adds: the length of what it adds, |activation| x |its row of W2|; share: of "
    "its layer's output, where neurons that work against it are negative; by share over layers"
)
_RAISES = "; raises: the tokens its row raises most through the unembedding, as it fires here"
_NONE = "; this model has no unembedding, so what a neuron raises cannot be told"

Place = tuple[str, Side, range]


def show_fires(view: View) -> None:
    """Run the model, and show which neurons fire at each token or word."""
    model = load(view.model, view.device, view.dtype)
    found = fires(model, view.text, target=view.target, top=max(view.top, _KEPT))
    layers = [found.layer(LayerId.parse(layer)).id for layer in view.layers] or None
    places = _places(found, view.word)
    if view.json is not None:
        write_json(_as_json(found, places, layers, view.top), view.json)
        if str(view.json) == "-":
            return
    _print(found, places, layers, view)


def _places(found: Fires, word: str | None) -> list[Place]:
    """What is to be shown: a title, a text, and which of its tokens."""
    if word is None:
        return [("", side, range(len(side.tokens))) for side in found.sides]
    return [
        (place.note or "", place.side, range(place.word.first, place.word.last))
        for place in found.places(word)
    ]


def _print(
    found: Fires, places: Sequence[Place], layers: Sequence[LayerId] | None, view: View
) -> None:
    console = Console(highlight=False)
    width, colour = console.width, console.is_terminal and not console.no_color
    console.print(f"{found.networks.known}", markup=False)
    if found.networks.left_out:
        console.print(found.networks.left_out, markup=False)
    says = _SAYS + (_NONE if found.lens is None else _RAISES)
    console.print(print_lines(flow([Text(word) for word in says.split()], width, gap=1)))
    for note, side, tokens in places:
        if note:
            console.print(note, markup=False)
        console.print()
        shown = tokens[:_SHOWN] if view.word is None else tokens
        rows = [
            (
                side.tokens[t].label,
                [_row(found, fire) for fire in _at(found, t, side, layers, view.top)],
            )
            for t in shown
        ]
        console.print(fires_table(rows, width=width, colour=colour))
        if len(shown) < len(tokens):
            console.print(
                f"({len(shown)} of {len(tokens):,} tokens; --word shows others, --json has all)"
            )


def _at(
    found: Fires, token: int, side: Side, layers: Sequence[LayerId] | None, top: int
) -> list[Fire]:
    return found.at(token, top=top, layers=layers, side=side)


def _row(found: Fires, fire: Fire) -> FireRow:
    raises = None
    if found.lens is not None:
        raises = found.raises(fire.neuron, negative=fire.activation < 0)
    return FireRow(str(fire.neuron), fire.activation, fire.norm, fire.share, raises)


def _as_json(
    found: Fires, places: Sequence[Place], layers: Sequence[LayerId] | None, top: int
) -> dict[str, Any]:
    """The neurons at each token."""
    tokens = []
    for _, side, which in places:
        for t in which:
            token = side.tokens[t]
            told = [_told(found, fire) for fire in _at(found, t, side, layers, top)]
            tokens.append(
                {"text": token.text, "start": token.start, "end": token.end, "neurons": told}
            )
    return {"model": found.model, "text": found.sides[0].text, "tokens": tokens}


def _told(found: Fires, fire: Fire) -> dict[str, Any]:
    numbers = {"activation": fire.activation, "norm": fire.norm, "share": fire.share}
    told: dict[str, Any] = {"neuron": str(fire.neuron)}
    told |= {k: round(x, 6) if math.isfinite(x) else None for k, x in numbers.items()}
    if found.lens is not None:
        told["raises"] = list(found.raises(fire.neuron, negative=fire.activation < 0))
    return told
