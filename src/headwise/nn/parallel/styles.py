"""How each kind of our modules is split over processes: styles for torch's `parallelize_module`."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Shard
from torch.distributed.tensor.parallel import ParallelStyle

from headwise.nn.attention import MultiHeadAttention
from headwise.nn.embedding import Embedding
from headwise.nn.feedforward import FeedForward
from headwise.nn.parallel.heads import SplitAttention, share_of
from headwise.nn.parallel.linear import Packed, by_columns, by_rows, unpacked
from headwise.nn.parallel.own import As, hold, mesh_of, mixed, shared
from headwise.nn.parallel.vocabulary import SplitEmbedding, SplitTokens, SplitUnembed

__all__ = ["ByHeads", "ByNeurons", "ByVocabulary", "Whole", "reads_of"]


class Whole(ParallelStyle):
    """Every process holds all of a module and computes the same with it."""

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        hold(module, device_mesh, {}, source=self.src_data_rank)
        return module


class ByHeads(ParallelStyle):
    """A MultiHeadAttention: each process attends with a run of the query heads, and the KV heads they read.

    KV heads that several processes read are held whole by all of them, and their gradients summed; so is
    whatever else the module holds.
    """

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        assert isinstance(module, MultiHeadAttention)
        heads, kv_heads, dim = module.num_heads, module.num_kv_heads, module.head_dim
        rank, size = device_mesh.get_local_rank(), device_mesh.size()
        share = share_of(reads_of(module), kv_heads, rank, size)
        sizes = {"queries": heads * dim, "keys": kv_heads * dim, "values": kv_heads * dim}
        parts = unpacked(module.w_qkv, sizes)
        by_rows(parts["queries"], device_mesh, self.src_data_rank)
        for part in (parts["keys"], parts["values"]):
            if share.alone:
                by_rows(part, device_mesh, self.src_data_rank)
            else:
                rows = slice(share.kv_heads.start * dim, share.kv_heads.stop * dim)
                hold(part, device_mesh, {}, As(parts=True, rows=rows), source=self.src_data_rank)
        by_columns(module.w_o, device_mesh, self.src_data_rank)
        for name, inner in module.named_modules():
            if name not in ("w_qkv", "w_o"):
                hold(inner, device_mesh, {}, As(parts=True), source=self.src_data_rank)
        module.w_qkv = Packed(parts)  # type: ignore[assignment]
        ids = range(heads) if module.heads is None else module.heads
        split = mixed(module, SplitAttention)
        split.total_heads = heads
        split.total_kv_heads = kv_heads if module.groups is None else heads
        split.first_head = share.heads.start
        split.heads = tuple(ids[h] for h in share.heads)
        split.num_heads, split.num_kv_heads = len(share.heads), len(share.kv_heads)
        split.groups = share.groups
        return split


class ByNeurons(ParallelStyle):
    """A FeedForward: each process has some of the neurons."""

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        assert isinstance(module, FeedForward)
        if module.gated:
            d_ff = len(module.w_in.weight) // 2
            parts = unpacked(module.w_in, {"gate": d_ff, "up": d_ff})
            for part in parts.values():
                by_rows(part, device_mesh, self.src_data_rank)
            module.w_in = Packed(parts)  # type: ignore[assignment]
        else:
            by_rows(module.w_in, device_mesh, self.src_data_rank)
        by_columns(module.w_out, device_mesh, self.src_data_rank)
        return mixed(module, SplitFeedForward)


class SplitFeedForward(FeedForward):
    """A network with this process's neurons, whose results are summed with the others' in w_out."""

    def forward(self, x: Float[Tensor, "*batch d_model"]) -> Float[Tensor, "*batch d_model"]:
        """As `FeedForward`, on the same x in every process."""
        return super().forward(shared(x, mesh_of(self)))


class ByVocabulary(ParallelStyle):
    """An Embedding or an output matrix: each process has the rows of some tokens.

    Args:
        whole_logits: put the logits of all tokens together on every process; if not, they come as a DTensor.
    """

    def __init__(self, whole_logits: bool = True) -> None:
        self.whole_logits = whole_logits

    def _apply(self, module: nn.Module, device_mesh: DeviceMesh) -> nn.Module:
        rows = {"weight": Shard(0)}
        if isinstance(module, Embedding):
            if not isinstance(module.tokens, SplitTokens):  # another embedding's, which it shares
                hold(module.tokens, device_mesh, rows, source=self.src_data_rank)
                mixed(module.tokens, SplitTokens)
            mixed(module, SplitEmbedding)
        else:
            hold(module, device_mesh, rows, source=self.src_data_rank)
            mixed(module, SplitUnembed)
        module.whole_logits = self.whole_logits  # type: ignore[assignment]
        return module


def reads_of(module: MultiHeadAttention) -> list[int]:
    """The KV head that each query head of a layer reads."""
    if module.groups is not None:
        return [kv_head for kv_head, heads in enumerate(module.groups) for _ in range(heads)]
    each = module.num_heads // max(1, module.num_kv_heads)
    return [head // each for head in range(module.num_heads)]
