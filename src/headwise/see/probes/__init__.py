"""Probes: rules that name the key each query should look at.

A head's score on a probe is its mean attention to that key (the mass), and the share of queries whose most attended
key it is (the hits). One of your own is a name and a function from the two texts to one key per query:

    def capital(queries, keys):
        return [max((k for k in range(q) if keys.tokens[k].text.strip().istitle()), default=-1)
                for q in range(len(queries.tokens))]
    profile(model, texts, probes=[*probes.BUILT_IN, probes.Probe("capital", capital)])

A probe of words (a dependency, a coreference link) has `units`, which say what the words are: attention to a word
is the sum over its tokens, from a word their mean (Clark et al. 2019), and several words may be the right ones.
They come from annotations: `relation` and `relations` (of a `treebank`), `coreference` (of `mentions`), and for
cross-attention `alignment`.
"""

from __future__ import annotations

from headwise.see.probes.aligning import Aligned, aligned, alignment
from headwise.see.probes.choosing import chosen as chosen
from headwise.see.probes.choosing import named
from headwise.see.probes.mentions import Mentions, coreference, mentions
from headwise.see.probes.probe import Probe
from headwise.see.probes.repeated import repeated_tokens
from headwise.see.probes.tokens import (
    BUILT_IN,
    ON_REPEATED,
    delimiter,
    first,
    induction,
    induction_random,
    next,
    previous,
    same_token,
    same_token_random,
    self,
    separator,
    successor,
)
from headwise.see.probes.treebanks import Treebank, relation, relations, treebank

__all__ = [
    "BUILT_IN",
    "ON_REPEATED",
    "Aligned",
    "Mentions",
    "Probe",
    "Treebank",
    "aligned",
    "alignment",
    "coreference",
    "delimiter",
    "first",
    "induction",
    "induction_random",
    "mentions",
    "named",
    "next",
    "previous",
    "relation",
    "relations",
    "repeated_tokens",
    "same_token",
    "same_token_random",
    "self",
    "separator",
    "successor",
    "treebank",
]


def __dir__() -> list[str]:
    own = (name for name in globals() if name.startswith("__"))
    return sorted([*own, *__all__])
