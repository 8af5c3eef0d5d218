"""The claims of the two articles, one file each, in the order a reader meets them."""

from __future__ import annotations

from importlib import import_module

from headwise.lab.claim import Claim
from headwise.names import ConfigError

__all__ = ["CLAIMS", "claim_of"]

CLAIMS = {
    "scale": "C1",
    "transpose": "C2",
    "cost": "C5",
    "heads": "C6",
    "roles": "C7",
    "editor": "C9",
    "pruning": "C11",
    "peeking": "C14",
    "softmax": "C15",
    "width": "C18",
    "mixing": "C19",
    "norms": "C21",
    "order": "C22",
}
"""The modules beside this one, each with its CLAIM, and the row that it has among the claims of the articles."""


def claim_of(name: str) -> Claim:
    """A claim by the name of its module, or by its row ("C6").

    Raises:
        ConfigError: there is none of that name.
    """
    wanted = name.strip().lower()
    for one, row in CLAIMS.items():
        if wanted in (one, row.lower()):
            claim: Claim = import_module(f"{__name__}.{one}").CLAIM
            return claim
    raise ConfigError(f"{name!r} is no claim of the lab; there are {', '.join(CLAIMS)}")
