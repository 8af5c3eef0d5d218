"""by_heads: a model of ours over several processes, each with some heads, neurons and tokens of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import ParallelStyle, parallelize_module

from headwise.names import ConfigError
from headwise.nn.attention import MultiHeadAttention
from headwise.nn.embedding import Embedding
from headwise.nn.feedforward import FeedForward
from headwise.nn.parallel.own import mixed
from headwise.nn.parallel.state import take_whole_states
from headwise.nn.parallel.styles import ByHeads, ByNeurons, ByVocabulary, Whole
from headwise.nn.parallel.vocabulary import SplitStack
from headwise.nn.stack import Stack

__all__ = ["by_heads"]

M = TypeVar("M", bound=nn.Module)


def by_heads(model: M, mesh: DeviceMesh, *, whole_logits: bool = True) -> M:
    """Split a model over processes by heads, in place: tensor parallel.

    Each process attends with a run of the query heads and the KV heads they read, has some of the
    neurons and the rows of some tokens; norms and positions it has whole. All get the weights of the
    mesh's first process, must be given the same inputs, and get the same outputs. Parameters become
    DTensors, so optimizers, `clip_grad_norm_` and `torch.distributed.checkpoint` work on them; packed
    projections become their parts (`w_qkv.queries`, `.keys`, `.values`; `w_in.gate`, `.up`).
    `full_state` gives the state dict of the model in one process, `load_state_dict` takes it.

    With dropout, the processes are given the random numbers of the first one here, and must go on
    drawing the same: do not seed them apart afterwards. Within attention each draws its own.

    Args:
        model: an Encoder, Decoder or EncoderDecoder, or any module with attention of ours in it.
        mesh: of one dimension, of which the processes are parts (`init_device_mesh("cuda", (2,))`).
        whole_logits: put all tokens' logits together on every process; if not, logits come as a
            DTensor split over the vocabulary, for torch's `loss_parallel`.

    Returns:
        The model itself.

    Raises:
        ConfigError: heads that the processes do not divide, a mesh of more dimensions, a model that is
            split already or has no attention of ours.
    """
    _check(model, mesh)
    _draw_alike(model, mesh)
    for module, style in list(_styles(model, whole_logits)):
        parallelize_module(module, mesh, style)
    for module in model.modules():
        if isinstance(module, Stack):
            mixed(module, SplitStack).whole_logits = whole_logits
    take_whole_states(model)
    return model


def _styles(model: nn.Module, whole_logits: bool) -> Iterator[tuple[nn.Module, ParallelStyle]]:
    """How to split which modules, those within one that is split left out."""
    stacks = [module for module in model.modules() if isinstance(module, Stack)]
    unembeds = {getattr(stack, "unembed", None) for stack in stacks}
    within: set[nn.Module] = set()
    for module in model.modules():
        if module in within:
            continue
        if isinstance(module, MultiHeadAttention):
            within.update(module.modules())
            yield module, ByHeads()
        elif isinstance(module, FeedForward):
            within.update(module.modules())
            yield module, ByNeurons()
        elif isinstance(module, Embedding) and hasattr(module, "tokens"):
            within.add(module.tokens)
            yield module, ByVocabulary(whole_logits)
        elif module in unembeds:
            yield module, ByVocabulary(whole_logits)
        elif module._parameters:
            yield module, Whole()


def _check(model: nn.Module, mesh: DeviceMesh) -> None:
    """Refuse what cannot be split, before anything is."""
    if mesh.ndim != 1:
        raise ConfigError(
            f"the mesh has {mesh.ndim} dimensions; give the one to split heads over, mesh['heads'] of "
            "a mesh with names"
        )
    if any(isinstance(parameter, DTensor) for parameter in model.parameters()):
        raise ConfigError(f"this {type(model).__name__} is split already; build it again")
    size, found = mesh.size(), False
    for path, module in model.named_modules():
        if isinstance(module, MultiHeadAttention):
            found = True
            _check_heads(path, module.num_heads, size)
        elif isinstance(module, Embedding) and hasattr(module, "tokens"):
            _check_rows(module.tokens.num_embeddings, size)
    if not found:
        raise ConfigError(
            f"{type(model).__name__} has no headwise.nn.MultiHeadAttention to split by heads; models of "
            'transformers are split by from_pretrained(..., tp_plan="auto")'
        )


def _check_heads(path: str, heads: int, size: int) -> None:
    if heads % size:
        fits = [str(n) for n in range(1, heads + 1) if heads % n == 0]
        raise ConfigError(
            f"num_heads={heads} of {path} is not a multiple of the mesh's {size} processes; use "
            f"{', '.join(fits)} of them"
        )


def _check_rows(vocab_size: int, size: int) -> None:
    if -(-vocab_size // size) * (size - 1) >= vocab_size:
        raise ConfigError(
            f"vocab_size={vocab_size} leaves one of {size} processes without a token; use fewer"
        )


def _draw_alike(model: nn.Module, mesh: DeviceMesh) -> None:
    """Give every process the first one's random numbers, where the model has dropout."""
    rates = [
        m.p if isinstance(m, nn.Dropout) else getattr(m, "dropout", 0) for m in model.modules()
    ]
    if not any(isinstance(rate, float | int) and rate > 0 for rate in rates):
        return
    kind = mesh.device_type
    state = torch.get_rng_state().to(kind)
    dist.broadcast(state, group=mesh.get_group(), group_src=0)
    torch.set_rng_state(state.cpu())
    if kind != "cpu":
        device = torch.get_device_module(kind)
        state = device.get_rng_state().to(kind)
        dist.broadcast(state, group=mesh.get_group(), group_src=0)
        device.set_rng_state(state.cpu())
