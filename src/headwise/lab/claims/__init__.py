"""The claims of the two articles, one file each, in the order a reader meets them."""

from __future__ import annotations

from importlib import import_module

from headwise.lab.claim import Claim
from headwise.names import ConfigError

__all__ = ["CLAIMS", "claim_of"]

CLAIMS = (
    *("scale", "transpose", "cost", "heads", "roles", "editor", "pruning"),
    *("peeking", "softmax", "width", "mixing", "norms", "order"),
)
"""The modules beside this one, each with its CLAIM."""


def claim_of(name: str) -> Claim:
    """A claim by the name of its module, or by its row ("C6").

    Raises:
        ConfigError: there is none of that name.
    """
    said = name.strip().lower()
    for one in (said,) if said in CLAIMS else CLAIMS:
        claim: Claim = import_module(f"{__name__}.{one}").CLAIM
        if said in (claim.name, claim.row.lower()):
            return claim
    raise ConfigError(f"{name!r} is no claim of the lab; there are {', '.join(CLAIMS)}")
