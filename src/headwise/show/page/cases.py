"""The strongest cases of roles in the text shown: what the head looks at where the role's rule names a key.

Rules of tokens say of any text who should look at whom; relations and links come from annotations, which a new text
does not have. `web/viewer/numbers/evidence.js` reads a case: {text, query, key, weight}, where text is what is
around both and a place is [first, last] in it, in units of UTF-16 as a browser counts, or words alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from headwise.core.streaming import Wanted, measure_rows
from headwise.names import HeadId, LayerId
from headwise.see.probes import BUILT_IN, ON_REPEATED, Probe
from headwise.see.record import LayerRecord, Record, Side
from headwise.see.texts.tokens import Token
from headwise.show.page.colouring import number

__all__ = ["Pair", "cases_of", "has_rule"]

Pair = tuple[HeadId, str]
"""A head and the name of a probe."""

_RULES: dict[str, Probe] = {probe.name: probe for probe in (*BUILT_IN, *ON_REPEATED)}

_AROUND, _NEAR = 30, 160
"""Characters shown on each side of a place, and between two places that are shown in one piece."""


def has_rule(probe: str) -> bool:
    """Whether a probe of this name can tell who should look at whom in any text."""
    return probe in _RULES


def cases_of(record: Record, pairs: Iterable[Pair], top: int = 3) -> dict[Pair, list[Any]]:
    """The strongest cases of each pair of head and probe, most attention first, each pair of words once.

    Args:
        record: of the text.
        pairs: heads of the record, and probes that have a rule.
        top: how many of each.
    """
    by_layer: dict[LayerId, list[Pair]] = {}
    for head, probe in pairs:
        by_layer.setdefault(head.layer_id, []).append((head, probe))
    found: dict[Pair, list[Any]] = {}
    for id, asked in by_layer.items():
        found |= _of_layer(record.layers[id], asked, top)
    return found


def _of_layer(layer: LayerRecord, asked: list[Pair], top: int) -> dict[Pair, list[Any]]:
    names = list(dict.fromkeys(probe for _, probe in asked))
    sides = layer.queries, layer.keys, layer.own_text
    named = torch.stack([_RULES[name].targets(*sides) for name in names])
    wanted = Wanted(probes=named[None].to(layer.scores.q.device))
    mass = measure_rows(layer.scores, wanted).mass
    assert mass is not None
    return {
        (head, probe): list(_strongest(layer, *_row(named, mass, layer, names, head, probe), top))
        for head, probe in asked
    }


def _row(
    named: Tensor, mass: Tensor, layer: LayerRecord, names: list[str], head: HeadId, probe: str
) -> tuple[Tensor, Tensor]:
    """The key that a probe names for each query, and what a head gives it."""
    at = names.index(probe)
    return named[at], mass[0, layer.index(head.head), at].cpu().nan_to_num(0.0)


def _strongest(layer: LayerRecord, named: Tensor, weights: Tensor, top: int) -> Iterator[Any]:
    told: set[tuple[str, str]] = set()
    for query in weights.masked_fill(named < 0, 0.0).argsort(descending=True, stable=True).tolist():
        weight, key = float(weights[query]), int(named[query])
        if len(told) == top or key < 0 or weight <= 0:
            return
        words = layer.queries.tokens[query].label, layer.keys.tokens[key].label
        if words not in told:
            told.add(words)
            yield _case(layer, query, key) | {"weight": number(weight)}


def _case(layer: LayerRecord, query: int, key: int) -> dict[str, Any]:
    looks, seen = layer.queries.tokens[query], layer.keys.tokens[key]
    own = layer.queries.text == layer.keys.text
    places = [_place(looks), *([_place(seen)] if own else [])]
    text, at = _excerpt(layer.queries, [place for place in places if place])
    return {
        "text": text,
        "query": at.get(places[0], looks.label) if places[0] else looks.label,
        "key": at.get(places[1], seen.label) if own and places[1] else seen.label,
    }


def _place(token: Token) -> tuple[int, int] | None:
    """The characters of a token, without the space before them; None of one that has none in the text."""
    if token.special or token.start >= token.end:
        return None
    space = len(token.text) - len(token.text.lstrip())
    start = token.start + space if space < token.end - token.start else token.start
    return start, token.end


def _excerpt(
    side: Side, places: list[tuple[int, int]]
) -> tuple[str, dict[tuple[int, int], list[int]]]:
    """What is around some places of a text, and where they are in it."""
    found, at = "", dict[tuple[int, int], list[int]]()
    for start, end, within in _pieces(len(side.text), sorted(set(places))):
        found += "… " if start > 0 and not found else ""
        for place in within:
            at[place] = [_units(found + side.text[start:edge]) for edge in place]
        found += side.text[start:end] + (" … " if end < len(side.text) else "")
    return found.rstrip(), at


def _pieces(
    length: int, places: list[tuple[int, int]]
) -> Iterator[tuple[int, int, list[tuple[int, int]]]]:
    """Stretches of a text around places: those that are near each other in one."""
    held: list[tuple[int, int]] = []
    for place in places:
        if held and place[0] - held[-1][1] > _NEAR:
            yield max(0, held[0][0] - _AROUND), min(length, held[-1][1] + _AROUND), held
            held = []
        held.append(place)
    if held:
        yield max(0, held[0][0] - _AROUND), min(length, held[-1][1] + _AROUND), held


def _units(text: str) -> int:
    """How long a text is in UTF-16."""
    return len(text.encode("utf-16-le", "surrogatepass")) // 2
