"""Probes that need nothing but the tokens of a text: one key for each query."""

from __future__ import annotations

from bisect import bisect_left, bisect_right

import torch
from torch import Tensor

from headwise.see.probes.probe import Probe
from headwise.see.record import Side
from headwise.see.texts.tokens import Token

__all__ = ["BUILT_IN", "first", "induction", "next", "previous", "same_token", "self", "separator"]

_PUNCTUATION = frozenset(".,;:!?。，、；：！？")


def _previous(queries: Side, keys: Side) -> Tensor:
    return torch.arange(len(queries.tokens)) - 1


def _next(queries: Side, keys: Side) -> Tensor:
    at = torch.arange(1, len(queries.tokens) + 1)
    return at.masked_fill(at == len(keys.tokens), -1)


def _self(queries: Side, keys: Side) -> Tensor:
    return torch.arange(len(queries.tokens))


def _first(queries: Side, keys: Side) -> Tensor:
    at = torch.zeros(len(queries.tokens), dtype=torch.long)
    if queries.tokens == keys.tokens:
        at[:1] = -1
    return at


def _separator(queries: Side, keys: Side) -> list[int]:
    special = [k for k, token in enumerate(keys.tokens) if token.special and k and token.id >= 0]
    marks = special or [k for k, token in enumerate(keys.tokens) if _is_mark(token)]
    found = []
    for q in range(len(queries.tokens)):
        before, upto = bisect_left(marks, q), bisect_right(marks, q)
        later = marks[upto] if special and upto < len(marks) else -1
        found.append(marks[before - 1] if before else later)
    return found


def _is_mark(token: Token) -> bool:
    text = token.text.strip()
    return bool(text) and not token.special and set(text) <= _PUNCTUATION


def _same_token(queries: Side, keys: Side) -> list[int]:
    seen: dict[int, int] = {}
    found = []
    for i, token in enumerate(queries.tokens):
        found.append(seen.get(token.id, -1))
        if token.id >= 0:  # positions that are no tokens have no other of their kind
            seen[token.id] = i
    return found


def _induction(queries: Side, keys: Side) -> list[int]:
    same = _same_token(queries, keys)
    return [s + 1 if 0 <= s < q - 1 else -1 for q, s in enumerate(same)]


previous = Probe("previous", _previous, "the token before", fixed=False)
next = Probe("next", _next, "the token after; no key of a causal model's", fixed=False)
self = Probe("self", _self, "the token itself", fixed=False)
first = Probe(
    "first", _first, "the first token, which itself counts as no query", across=True, fixed=False
)
separator = Probe(
    "separator",
    _separator,
    "the closest earlier special token other than the first, else the closest later one; in a text without them "
    "the closest earlier punctuation mark",
)
same_token = Probe("same_token", _same_token, "the last earlier occurrence of the same token")
induction = Probe(
    "induction",
    _induction,
    "the token after the last earlier occurrence of the same token (Olsson et al. 2022)",
)

BUILT_IN: tuple[Probe, ...] = (previous, next, self, first, separator, same_token, induction)
"""The probes that need nothing but the tokens."""
