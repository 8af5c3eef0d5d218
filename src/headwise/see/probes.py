"""Probes: rules that name the key each query should look at.

A head's score on a probe is its mean attention to that key (the mass), and the share of queries whose most attended
key it is (the hits). One of your own is a name and a function from the two texts to one key per query:

    def capital(queries, keys):
        return [max((k for k in range(q) if keys.tokens[k].text.strip().istitle()), default=-1)
                for q in range(len(queries.tokens))]
    profile(model, texts, probes=[*probes.BUILT_IN, probes.Probe("capital", capital)])
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from headwise.hub.load import Model
from headwise.hub.tokenizer import special_tokens
from headwise.names import ConfigError, ModelError
from headwise.see.record import Side
from headwise.see.texts.tokens import Token

__all__ = [
    "BUILT_IN",
    "Probe",
    "first",
    "induction",
    "named",
    "next",
    "previous",
    "repeated_tokens",
    "same_token",
    "self",
    "separator",
]

Rule = Callable[[Side, Side], "Sequence[int] | Tensor"]
"""From the tokens that look and the tokens looked at to one key index per query, -1 where it names none."""

_PUNCTUATION = frozenset(".,;:!?。，、；：！？")


@dataclass(frozen=True)
class Probe:
    """A rule that names the key each query should look at.

    Attributes:
        name: what its results are called.
        rule: from both sides of a map (`Side`: text and tokens) to one key index per query, -1 for none.
        says: the rule in words.
        across: whether it means something between two different texts (cross-attention); elsewhere
            both sides are the same text.
    """

    name: str
    rule: Rule
    says: str = ""
    across: bool = False

    def targets(self, queries: Side, keys: Side, own_text: bool) -> Int[Tensor, " query"]:
        """The index of the key that each query should look at, -1 where the probe names none.

        Args:
            queries: the tokens that look.
            keys: the tokens looked at.
            own_text: whether the tokens look at their own text, as in self-attention.

        Raises:
            ConfigError: a rule that gives no index, too few of them, or one that is no key.
        """
        count = len(queries.tokens)
        if not (own_text or self.across):
            return torch.full((count,), -1)
        try:
            found = torch.as_tensor(self.rule(queries, keys))
        except (TypeError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"probe {self.name!r}: its rule is called as rule(queries, keys), two Sides whose .tokens are the "
                f"text's tokens, and must give one whole number per query: {error}"
            ) from error
        if found.shape != (count,) or found.is_floating_point():
            raise ConfigError(
                f"probe {self.name!r} must give one whole number per query, {count} here, came "
                f"{list(found.shape)} of {found.dtype}"
            )
        found = found.long().cpu()
        if count and not -1 <= int(found.min()) <= int(found.max()) < len(keys.tokens):
            raise ConfigError(
                f"probe {self.name!r} must name keys from 0 to {len(keys.tokens) - 1}, or -1 for none, "
                f"came {int(found.min())} to {int(found.max())}"
            )
        return found


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


previous = Probe("previous", _previous, "the token before")
next = Probe("next", _next, "the token after; no key of a causal model's")
self = Probe("self", _self, "the token itself")
first = Probe("first", _first, "the first token, which itself counts as no query", across=True)
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


def __dir__() -> list[str]:
    own = (name for name in globals() if name.startswith("__"))
    return sorted([*own, *__all__])


def named(name: str) -> Probe:
    """The built-in probe of this name.

    Raises:
        ConfigError: there is none; the message lists them.
    """
    for probe in BUILT_IN:
        if probe.name == name:
            return probe
    known = ", ".join(probe.name for probe in BUILT_IN)
    raise ConfigError(f"there is no probe {name!r}; there are {known}")


def chosen(probes: Iterable[Probe | str]) -> tuple[Probe, ...]:
    """Probes, or names of built-in ones, as probes.

    Raises:
        ConfigError: something else, an unknown name, or two of one name.
    """
    if isinstance(probes, str | Probe):
        probes = [probes]
    found = [named(probe) if isinstance(probe, str) else probe for probe in probes]
    for probe in found:
        if not isinstance(probe, Probe):
            raise ConfigError(
                f"a probe must be a Probe or its name, came {type(probe).__name__}; make one as "
                'Probe("name", function)'
            )
    return tuple(found)


def repeated_tokens(
    length: int = 64, seed: int = 0, *, model: Model, rows: int = 16
) -> Int[Tensor, "row position"]:
    """Rows of random tokens, each repeated once: what induction heads show themselves on (Olsson et al. 2022).

    Args:
        length: tokens before the repetition; a row is twice as long.
        seed: of the random numbers.
        model: whose vocabulary to draw from, without special tokens and bytes that are no character.
        rows: how many.

    Returns:
        ids that `profile` takes, [rows, 2 * length].

    Raises:
        ConfigError: a length or number of rows below 1.
        ModelError: a model whose vocabulary is not known.
    """
    if length < 1 or rows < 1:
        raise ConfigError(f"length and rows must be at least 1, came {length} and {rows}")
    ids = _vocabulary(model)
    drawn = torch.randint(len(ids), (rows, length), generator=torch.Generator().manual_seed(seed))
    return ids[drawn].repeat(1, 2)


def _vocabulary(model: Model) -> Tensor:
    """The ids of tokens that stand for text: no special ones, no bytes of which several make a character."""
    config = getattr(model.module, "config", None)
    text = getattr(config, "get_text_config", None)
    config = config if text is None else text()
    size = getattr(config, "vocab_size", None)
    if not isinstance(size, int):
        raise ModelError(f"{model.name} has no vocab_size in its config; make rows of ids yourself")
    decode = getattr(model.tokenizer, "decode", None)
    if decode is None:
        return torch.arange(size)
    special = special_tokens(model.tokenizer)
    texts = {i: decode([i], skip_special_tokens=False) for i in range(size) if i not in special}
    return torch.tensor([i for i, text in texts.items() if text and "\ufffd" not in text])
