"""Which heads to cut together: what a set of heads costs, not each alone.

At every token the loss answers to a gate on each head, between the head and what stands in for it, with a slope s.
Cutting a set of heads changes the loss there by about the sum of their slopes, and where the slopes of two heads
cancel, cutting both costs less than cutting one. So a set costs the mean of (sum of s)^2 over tokens, a quadratic
form of all pairs of heads: the Fisher information of the gates, with its terms off the diagonal. Heads are taken
one after the other, each time the one with which the set costs least.

A few tokens have slopes so large that they would decide alone; every token counts as 1 / |s|, with |s| the length
of all its slopes. Tokens may be labelled by the text, and anew by the model's own predictions (the Fisher
information proper), which needs no other text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from headwise.cut.census import census
from headwise.cut.losses import LossFunction
from headwise.cut.ranking.gradients import Gradients, Means, gradients_of
from headwise.hub.load import Model
from headwise.names import HeadId, ModelError, TextError
from headwise.see.profile.together import gathered
from headwise.see.texts.batches import Batch

__all__ = ["Pairs", "pairs_of", "sampled_labels"]


@dataclass(eq=False)
class Pairs:
    """What pairs of heads cost: the mean over tokens of w s_i s_j.

    Attributes:
        heads: in order.
        matrix: in float64, [head, head]; the set S costs the sum of its entries in S x S.
        tokens: over how many tokens.
        loss: the mean loss on the texts, with all these heads there.
    """

    heads: tuple[HeadId, ...]
    matrix: Float[Tensor, "head head"] = field(repr=False)
    tokens: int = 0
    loss: float = float("nan")

    @classmethod
    def none(cls, heads: Sequence[HeadId]) -> Pairs:
        """Of no token yet."""
        size = len(heads)
        return cls(tuple(heads), torch.zeros(size, size, dtype=torch.float64))

    def add(self, slopes: Float[Tensor, "token head"]) -> None:
        """Take in the slopes of some tokens."""
        slopes = slopes.double()
        lengths = slopes.norm(dim=1)
        if not bool(lengths.isfinite().all()):
            raise ModelError("the loss has slopes that are no numbers (NaN or infinite)")
        slopes, lengths = slopes[lengths > 0], lengths[lengths > 0]
        total = self.matrix * self.tokens + (slopes / lengths[:, None]).T @ slopes
        self.tokens += len(slopes)
        self.matrix = total / max(self.tokens, 1)

    def cost(self, heads: Iterable[HeadId]) -> float:
        """What cutting these heads together costs."""
        at = [self.heads.index(head) for head in heads]
        return self.matrix[at][:, at].sum().item()

    def order(
        self,
        units: Sequence[Sequence[HeadId]] | None = None,
        prices: Sequence[float] | None = None,
        budget: float | None = None,
    ) -> tuple[int, ...]:
        """The order in which units go, each time the one that adds least cost for its price.

        Args:
            units: heads that go together; None = each head by itself.
            prices: what is won by cutting each; None = 1 each.
            budget: go on until that much is won, at least; None = all go.

        Returns:
            Places in `units`.
        """
        units = [(head,) for head in self.heads] if units is None else units
        prices = [1.0] * len(units) if prices is None else prices
        places = {head: i for i, head in enumerate(self.heads)}
        member = torch.zeros(len(units), len(self.heads), dtype=torch.float64)
        for u, unit in enumerate(units):
            member[u, [places[head] for head in unit]] = 1
        within = member @ self.matrix @ member.T
        return _greedy(within, torch.tensor(prices, dtype=torch.float64), budget)


def _greedy(
    within: Float[Tensor, "unit unit"], prices: Float[Tensor, " unit"], budget: float | None
) -> tuple[int, ...]:
    left, won = within.diagonal().clone(), 0.0
    taken: list[int] = []
    while len(taken) < len(prices) and (budget is None or won < budget):
        cost = left / prices
        cost[taken] = torch.inf
        best = int(cost.argmin())
        taken.append(best)
        won += prices[best].item()
        left = left + 2 * within[best]
    return tuple(taken)


def pairs_of(
    model: Model,
    batches: Callable[[], Iterable[Batch]],
    *,
    means: Means | None = None,
    loss: LossFunction | None = None,
    draws: int = 1,
    seed: int = 0,
    progress: Callable[[int], None] | None = None,
) -> Pairs:
    """What pairs of heads cost on texts; several processes that torch.distributed joins share the batches.

    Args:
        model: from `load`; it stays as it is.
        batches: gives the texts, as often as it is called.
        means: what stands in for each head once it is cut (`mean_outputs`); None = nothing, 0.
        loss: a function of the model's output and inputs; None = of the next token.
        draws: how often the texts are taken once more with labels that the model draws; without effect where the
            loss is one's own.
        seed: of the draws.
        progress: called after each batch with the number of its rows.

    Raises:
        HeadwiseError: as `gradients_of` does.
    """
    team, pairs = gathered(), Pairs.none(census(model).heads)
    total, count = 0.0, 0
    for draw in range(1 + (draws if loss is None else 0)):
        for number, batch in enumerate(batches()):
            if number % team.size != team.rank:
                continue
            own = loss if draw == 0 else sampled_labels(_seed(seed, draw, number))
            found = gradients_of(model, batch, loss=own, means=means, per="token")
            pairs.add(slopes_of(model, found))
            if draw == 0:
                total, count = total + float(found.losses.sum()), count + int(found.counts.sum())
            if progress is not None:
                progress(len(found.counts))
    pairs, total, count = _united(team.tell((pairs, total, count)))
    if not pairs.tokens:
        raise TextError("no token of these texts has a loss that depends on the heads")
    pairs.loss = total / max(count, 1)
    return pairs


def _seed(seed: int, draw: int, number: int) -> int:
    """Of the labels of one batch, whichever process takes it."""
    return (seed * 1_000_003 + draw) * 1_000_003 + number


def _united(told: Sequence[tuple[Pairs, float, int]]) -> tuple[Pairs, float, int]:
    """What all processes found."""
    pairs = Pairs.none(told[0][0].heads)
    pairs.tokens = sum(one.tokens for one, _, _ in told)
    for one, _, _ in told:
        pairs.matrix += one.matrix * (one.tokens / max(pairs.tokens, 1))
    return pairs, sum(one for _, one, _ in told), sum(one for _, _, one in told)


def slopes_of(model: Model, found: Gradients) -> Float[Tensor, "token head"]:
    """The slopes of all heads at each position of a batch, those that are 0 (padding) included.

    Of streams of other lengths (an encoder beside its decoder) each has positions of its own.
    """
    runs = census(model).runs
    parts: dict[int, list[tuple[int, Tensor]]] = {}
    column = 0
    for run in runs:
        gates = found.gates.get(run.id)
        if gates is not None:
            parts.setdefault(gates.shape[2], []).append((column, gates))
        column += len(run.heads)
    blocks = []
    for length, own in parts.items():
        block = torch.zeros(len(own[0][1]) * length, column)
        for at, gates in own:
            block[:, at : at + gates.shape[1]] = gates.transpose(1, 2).flatten(0, 1).cpu()
        blocks.append(block)
    return torch.cat(blocks)


def sampled_labels(seed: int) -> LossFunction:
    """The loss of each next token, of labels drawn from what the model itself predicts (true Fisher information).

    Args:
        seed: of the draws.
    """
    draw = torch.Generator().manual_seed(seed)

    def loss(output: Any, inputs: Mapping[str, Any]) -> Float[Tensor, "row position"]:
        logits = getattr(output, "logits", output)[:, :-1]
        side = "decoder_" if "decoder_input_ids" in inputs else ""
        mask = inputs.get(f"{side}attention_mask")
        rows = (
            row.detach().float().softmax(-1).cpu() for row in logits
        )  # one at a time: they are large
        drawn = torch.cat([torch.multinomial(row, 1, generator=draw)[:, 0] for row in rows])
        flat = F.cross_entropy(
            logits.flatten(0, 1).float(), drawn.to(logits.device), reduction="none"
        )
        values = flat.view(logits.shape[:2])
        return values if mask is None else values * (mask[:, 1:] * mask[:, :-1]).to(values)

    return loss
