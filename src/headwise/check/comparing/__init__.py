"""Two ways to run that must agree: through the cache, without padding, with weights, in training."""

from headwise.check.comparing.cached import check_cached
from headwise.check.comparing.chunked import check_chunked
from headwise.check.comparing.sides import Draw, Locate, Side, Sides

__all__ = [
    "Draw",
    "Locate",
    "Side",
    "Sides",
    "check_cached",
    "check_chunked",
]
