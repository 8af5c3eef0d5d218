"""Probes that need nothing but the tokens of a text: one key for each query.

None but `first` names the first token: heads that do nothing else rest on it (a sink), whatever the text, and would
score where another rule happens to name it. The second token, whose first is its previous, is no case of either.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import replace

import torch
from torch import Tensor

from headwise.see.probes.probe import Probe
from headwise.see.probes.series import Item, before, items_of
from headwise.see.record import Side
from headwise.see.texts.tokens import Token

__all__ = [
    "BUILT_IN",
    "ON_REPEATED",
    "delimiter",
    "first",
    "induction",
    "induction_random",
    "last_same",
    "next",
    "previous",
    "same_token",
    "same_token_random",
    "self",
    "separator",
    "successor",
]

_PUNCTUATION = frozenset(".,;:!?。，、；：！？")


def _previous(queries: Side, keys: Side) -> Tensor:
    return _but_first(torch.arange(len(queries.tokens)) - 1)


def _next(queries: Side, keys: Side) -> Tensor:
    at = torch.arange(1, len(queries.tokens) + 1)
    return at.masked_fill(at == len(keys.tokens), -1)


def _self(queries: Side, keys: Side) -> Tensor:
    return _but_first(torch.arange(len(queries.tokens)))


def _but_first(at: Tensor) -> Tensor:
    return at.masked_fill(at == 0, -1)


def _first(queries: Side, keys: Side) -> Tensor:
    at = torch.zeros(len(queries.tokens), dtype=torch.long)
    if queries.tokens == keys.tokens:
        at[:2] = -1
    return at


def _separator(queries: Side, keys: Side) -> list[int]:
    special = [k for k, token in enumerate(keys.tokens) if token.special and k and token.id >= 0]
    found = []
    for q in range(len(queries.tokens)):
        earlier, upto = bisect_left(special, q), bisect_right(special, q)
        later = special[upto] if upto < len(special) else -1
        found.append(special[earlier - 1] if earlier else later)
    return found


def _delimiter(queries: Side, keys: Side) -> list[int]:
    last, found = -1, []
    for at, token in enumerate(keys.tokens):
        found.append(last)
        if at and _is_mark(token):
            last = at
    return found[: len(queries.tokens)]


def _is_mark(token: Token) -> bool:
    text = token.text.strip()
    return bool(text) and not token.special and set(text) <= _PUNCTUATION


def _same_token(queries: Side, keys: Side) -> Tensor:
    return _but_first(torch.tensor(last_same(queries), dtype=torch.long))


def last_same(side: Side) -> list[int]:
    """The last earlier occurrence of the same token for each token, -1 where there is none."""
    seen: dict[int, int] = {}
    found = []
    for i, token in enumerate(side.tokens):
        found.append(seen.get(token.id, -1))
        if token.id >= 0:  # positions that are no tokens have no other of their kind
            seen[token.id] = i
    return found


def _induction(queries: Side, keys: Side) -> list[int]:
    same = last_same(queries)
    return [s + 1 if 0 <= s < q - 1 else -1 for q, s in enumerate(same)]


def _successor(queries: Side, keys: Side) -> list[int]:
    last: dict[Item, int] = {}
    found = []
    for at, items in enumerate(items_of(queries)):
        found.append(max((last.get(before(item), -1) for item in items), default=-1))
        if at:
            last |= dict.fromkeys(items, at)
    return found


previous = Probe("previous", _previous, "the token before, unless that is the first", fixed=False)
next = Probe("next", _next, "the token after; no key of a causal model's", fixed=False)
self = Probe("self", _self, "the token itself, unless it is the first", fixed=False)
first = Probe(
    "first",
    _first,
    "the first token; that itself and the next are no queries",
    across=True,
    fixed=False,
)
separator = Probe(
    "separator",
    _separator,
    "the closest earlier special token other than the first, else the closest later one",
    fixed=False,  # it stands at an end of the text
)
delimiter = Probe(
    "delimiter", _delimiter, "the closest earlier punctuation mark other than the first token"
)
same_token = Probe(
    "same_token",
    _same_token,
    "the last earlier occurrence of the same token, unless that is the first",
)
induction = Probe(
    "induction",
    _induction,
    "the token after the last earlier occurrence of the same token (Olsson et al. 2022)",
)
successor = Probe(
    "successor",
    _successor,
    "from an item of a series (days, months, numbers, ordinals, letters, in English or Chinese) that is one whole "
    "token the last earlier item that it follows: from Tuesday Monday (the series of Gould et al. 2023, who tell "
    "such heads by what they write; this tells where a head looks)",
)

BUILT_IN: tuple[Probe, ...] = (
    previous,
    next,
    self,
    first,
    separator,
    delimiter,
    same_token,
    induction,
    successor,
)
"""The probes that need nothing but the tokens."""

_ROWS = "in rows of random tokens, each repeated, which are counted as texts"

induction_random = replace(induction, name="induction_random", says=f"{induction.says}; {_ROWS}")
same_token_random = replace(
    same_token, name="same_token_random", says=f"{same_token.says}; {_ROWS}"
)

ON_REPEATED: tuple[Probe, ...] = (induction_random, same_token_random)
"""The same rules under names of their own, for rows of `repeated_tokens`."""
