"""The vocabulary, split over processes: each holds the vectors of some tokens, and makes their logits."""

from __future__ import annotations

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from headwise.nn.embedding import Embedding
from headwise.nn.parallel.own import beside, gathered, mesh_of, own, shared, summed, within
from headwise.nn.stack import Stack

__all__ = ["SplitEmbedding", "SplitStack", "SplitTokens", "SplitUnembed"]


class SplitTokens(nn.Embedding):
    """A table of tokens of which each process holds some rows."""

    def forward(self, ids: Int[Tensor, "*batch"]) -> Float[Tensor, "*batch d_model"]:
        """Each token's row, from the process that holds it."""
        mesh, weight = mesh_of(self), own(self, "weight")
        at = ids - mesh.get_local_rank() * -(-self.num_embeddings // mesh.size())
        elsewhere = (at < 0) | (at >= len(weight))
        rows = F.embedding(at.masked_fill(elsewhere, 0), weight)
        return summed(rows.masked_fill(elsewhere[..., None], 0), mesh)


class SplitEmbedding(Embedding):
    """An embedding whose table of tokens is split, and is the output matrix too."""

    whole_logits: bool

    def unembed(
        self, hidden: Float[Tensor, "batch position d_model"]
    ) -> Float[Tensor, "batch position vocab_size"]:
        """Logits, those of this process's tokens beside those of the others."""
        tokens = self.tokens
        return _logits(hidden, tokens, tokens.num_embeddings, self.whole_logits)


class SplitUnembed(nn.Linear):
    """An output matrix of which each process holds some tokens' rows."""

    whole_logits: bool

    def forward(
        self, hidden: Float[Tensor, "batch position d_model"]
    ) -> Float[Tensor, "batch position vocab_size"]:
        """Logits, those of this process's tokens beside those of the others."""
        return _logits(hidden, self, self.out_features, self.whole_logits)


class SplitStack(Stack):
    """A stack whose vocabulary is split."""

    whole_logits: bool

    def logits(
        self, hidden: Float[Tensor, "batch position d_model"]
    ) -> Float[Tensor, "batch position vocab_size"]:
        """As Encoder and Decoder have it: a bias on whole logits is a plain tensor, on split ones a DTensor."""
        head = getattr(self, "head", None)
        parts = [self] if head is None else [self, head]
        with within(*parts, on=self.whole_logits):
            logits: Tensor = super().logits(hidden)  # type: ignore[misc]  # of Encoder or Decoder
        return logits


def _logits(
    hidden: Tensor, matrix: nn.Embedding | nn.Linear, vocab_size: int, whole: bool
) -> Tensor:
    mesh = mesh_of(matrix)
    mine = F.linear(shared(hidden, mesh), own(matrix, "weight"))
    return gathered(mine, mesh, vocab_size) if whole else beside(mine, mesh, vocab_size)
