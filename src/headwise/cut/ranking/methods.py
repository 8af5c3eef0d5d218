"""The ways to rank heads: what each makes of the gradients at the gates, or which exact change it measures.

All scores are per loss (per token, for the next token): with L_r the summed loss of row r, N the number of losses
in all rows and g the gate of a head (1 = the head as it is, 0 = zero, or its mean, in its place),

    gate     sum_r |dL_r/dg| / N             Michel et al. 2019, equation 3, with a row for their sample
    fisher   sum_r (dL_r/dg)^2 / N           the empirical Fisher information of the gate (Theis et al. 2018)
    taylor   sum_r -dL_r/dg / N              what the loss rises by to first order when the head goes (Molchanov
                                             et al. 2017, with its sign)
    taylor2  taylor + fisher / 2             to second order (LeCun et al. 1990), with the diagonal of the
                                             empirical Fisher per token for the Hessian

and exactly, by running the model without the head, sum_r (L_r(g = 0) - L_r(g = 1)) / N. Per token the gates of a
row are one for each query, and |.| and (.)^2 are taken of each of them.

taylor2 takes its squares per token in either case: the losses of a row's tokens are those of as many labels, and
the square of their sum would count what they have in common as often as there are tokens. On 254 tokens of SmolLM2
it correlates with leave-one-out by .90 (Spearman; mean error .006 nats), taylor by .80 (.011), with squares of rows
by .65 (.011).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from jaxtyping import Float
from torch import Tensor

from headwise.cut.ranking.gradients import Per, check_per
from headwise.names import ConfigError

__all__ = ["METHODS", "Method", "MethodName", "method_of"]

MethodName = Literal[
    "gate",
    "fisher",
    "taylor",
    "taylor2",
    "mean-gate",
    "mean-fisher",
    "mean-taylor",
    "mean-taylor2",
    "leave-one-out",
    "mean-ablation",
]

Score = Callable[[Float[Tensor, "row head query"]], Float[Tensor, "row head"]]
"""The score of each row from the derivatives of its loss by the gates of its queries (or the one of all)."""


@dataclass(frozen=True)
class Method:
    """A way to rank heads.

    Attributes:
        name: as it is asked for.
        mean: whether a head's mean output stands in for it, and not zero.
        score: of gradients; None = measured exactly.
        says: what the numbers are.
        by_token: whether it needs the gradients of tokens whatever was asked.
    """

    name: str
    mean: bool
    score: Score | None
    says: str
    by_token: bool = False


def _gate(g: Tensor) -> Tensor:
    return g.abs().sum(2)


def _fisher(g: Tensor) -> Tensor:
    return g.square().sum(2)


def _taylor(g: Tensor) -> Tensor:
    return -g.sum(2)


def _taylor2(g: Tensor) -> Tensor:
    return _taylor(g) + _fisher(g) / 2


_OF_GRADIENTS: Mapping[str, tuple[Score, str]] = {
    "gate": (_gate, "mean size of the derivative of the loss by the gate between the head and {}"),
    "fisher": (
        _fisher,
        "mean square of the derivative of the loss by the gate between the head and {}",
    ),
    "taylor": (_taylor, "rise of the loss to first order when {} stands in for the head"),
    "taylor2": (
        _taylor2,
        "rise of the loss to second order, by the Fisher per token, when {} stands in for the head",
    ),
}

_EXACT = "rise of the loss when {} stands in for the head, measured"


def _methods() -> dict[str, Method]:
    found: dict[str, Method] = {}
    for mean, before, stands in ((False, "", "zero"), (True, "mean-", "its mean output")):
        for name, (score, says) in _OF_GRADIENTS.items():
            by_token = name == "taylor2"
            found[before + name] = Method(before + name, mean, score, says.format(stands), by_token)
    found["leave-one-out"] = Method("leave-one-out", False, None, _EXACT.format("zero"))
    found["mean-ablation"] = Method("mean-ablation", True, None, _EXACT.format("its mean output"))
    return found


METHODS: Mapping[str, Method] = _methods()


def method_of(name: str, per: Per) -> Method:
    """The method of this name.

    Raises:
        ConfigError: there is none, or it is exact and was asked per token.
    """
    check_per(per)
    if name not in METHODS:
        raise ConfigError(
            f"method={name!r} is not known; use one of {', '.join(get_args(MethodName))}"
        )
    method = METHODS[name]
    if method.score is None and per == "token":
        raise ConfigError(
            f'method={name!r} takes a head away for a whole row; leave per="token" out, or rank by gradients'
        )
    return method
