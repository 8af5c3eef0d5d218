"""Two ways to run that must agree: through the cache, without padding, with weights, in training."""

from headwise.check.comparing.cached import check_cached
from headwise.check.comparing.chunked import check_chunked
from headwise.check.comparing.sides import Draw, Locate, Side, Sides
from headwise.check.comparing.training import check_training
from headwise.check.comparing.unpadded import check_unpadded
from headwise.check.comparing.weights import check_weights

__all__ = [
    "Draw",
    "Locate",
    "Side",
    "Sides",
    "check_cached",
    "check_chunked",
    "check_training",
    "check_unpadded",
    "check_weights",
]
