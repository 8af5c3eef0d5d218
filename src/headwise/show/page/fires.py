"""The chunk "fires" of a scene: what each block adds at each token, and the neurons that fire there most.

`web/viewer/neurons/neurons.js` reads it:

    says      how the numbers are meant
    streams   of each stream: {name, title, side (the number of its text), layers (ids), normed (a norm follows each
              addition in the stream), and over [layer][token] the lengths `before`, `stream`, `attention`, `ffn`
              (`cross`), and the parts of those along the stream, `attention_along`, `ffn_along` (`cross_along`)}
    neurons   of each text: of each token the neurons [id, activation, adds, share, [tokens it raises]], by share
    fires     one line on what neurons there are; "" without `neurons`
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from headwise.hub.load import Model
from headwise.names import HeadError, LayerId, ModelError
from headwise.see.neurons.firing import Fire, Fires, fires
from headwise.see.record import Record
from headwise.see.residual import contributions
from headwise.show.page.colouring import number
from headwise.show.page.measuring import inputs_of
from headwise.show.page.sides import TITLES, side_number, sides_of

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["fires_chunk", "told_fires"]

_TOP = 8
"""So many neurons are told at each token."""

_SAYS = (
    "adds: the length of what a part adds to the residual stream; along: the component of it along the stream "
    "after the block; a neuron's share: of what its layer's network adds, negative where it works against "
    "the others; raises: the tokens its row of W2 raises most through the unembedding, as it fires here"
)


def told_fires(
    model: Model, record: Record, *, progress: Callable[[int, int], None] | None = None
) -> dict[str, Any]:
    """Measure the chunk "fires" of a record.

    Args:
        model: that made it.
        record: of one text.
        progress: called as progress(passes done, passes in all).

    Raises:
        ModelError: a record of something else than token ids; or neither the model's blocks nor its neurons can be
            told.
    """
    inputs, tick = inputs_of(record), progress or (lambda done, total: None)
    streams = [one for one in dict.fromkeys(id.stream for id in record.layers) if one != "cross"]
    found, added, why = None, [], ""
    try:
        found = fires(model, inputs, top=_TOP)
    except ModelError as error:
        why = str(error)
    for done, stream in enumerate(streams, 1):
        tick(done, len(streams) + 1)
        try:
            added.append(contributions(model, inputs, stream=stream))
        except (ModelError, HeadError):
            if found is None:
                raise
    return fires_chunk(record, found, added, why)


def fires_chunk(
    record: Record, found: Fires | None, added: Sequence[xr.Dataset], why: str = ""
) -> dict[str, Any]:
    """The chunk "fires" of a record.

    Args:
        record: of the same text.
        found: its neurons; None where they cannot be told.
        added: what the blocks add, of each stream.
        why: the neurons cannot be told.
    """
    return {
        "says": _SAYS,
        "streams": [_stream(record, one) for one in added],
        "neurons": [] if found is None else _all_neurons(found, record),
        "fires": why if found is None else found.networks.known,
    }


def _all_neurons(found: Fires, record: Record) -> list[list[Any]]:
    """The neurons at each token of each text of the record."""
    streams = {
        side_number(record, id.stream): id.stream for id in record.layers if id.stream != "cross"
    }
    own = [streams.get(i, "cross") for i in range(len(sides_of(record)))]
    return [_neurons(found, [id for id in found.layers if id.stream == one]) for one in own]


def _stream(record: Record, added: xr.Dataset) -> dict[str, Any]:
    name = str(added.attrs["stream"])
    told: dict[str, Any] = {
        "name": name,
        "title": TITLES.get(name, name),
        "side": side_number(record, name),
        "layers": [str(x) for x in added.layer.values],
        "normed": "before the norm" in added.attrs["says"],
        "says": added.attrs["says"],
    }
    return told | {
        str(key): [[number(x) for x in row] for row in values.values]
        for key, values in added.data_vars.items()
    }


def _neurons(found: Fires, layers: Sequence[LayerId]) -> list[list[Any]]:
    """The neurons of some layers at each token of their text."""
    if not layers:
        return []
    side = found.layers[layers[0]].side
    return [
        [_told(found, fire) for fire in found.at(t, top=_TOP, side=side, layers=layers)]
        for t in range(len(side.tokens))
    ]


def _told(found: Fires, fire: Fire) -> list[Any]:
    numbers = map(number, (fire.activation, fire.norm, fire.share))
    raised: Iterable[str] = ()
    if found.lens is not None:
        raised = found.raises(fire.neuron, negative=fire.activation < 0)
    return [str(fire.neuron), *numbers, list(raised)]
