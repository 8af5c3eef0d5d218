"""A model of ours in one process and the same over several, for the tests of headwise.nn.parallel."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import torch
import torch._dynamo  # which DTensor imports when it is used: once here, not in each process
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor

from headwise.nn import Decoder, Encoder, EncoderDecoder, TransformerConfig
from headwise.nn.parallel import by_heads, full_state
from team_help import forked

BASE = {
    "vocab_size": 31,
    "d_model": 32,
    "num_layers": 2,
    "num_heads": 8,
    "d_ff": 45,  # no number of processes divides it
    "max_length": 32,
}


def split(size: int, job: Callable[[DeviceMesh], Any]) -> list[Any]:
    """What the job gives on each of several processes with a mesh of all of them."""
    found = forked(size, lambda team: job(init_device_mesh("cpu", (size,))))
    assert None not in found, "a process failed; its traceback is on stderr"
    return found


def config(**fields: Any) -> TransformerConfig:
    return TransformerConfig(**{**BASE, **fields})


def loud(kind: Callable[[TransformerConfig], nn.Module] = Decoder, **fields: Any) -> nn.Module:
    """A model in float64 with weights larger than at the start, so that a small mistake shows."""
    torch.manual_seed(0)
    model = kind(config(**fields)).double()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(4) if parameter.dim() > 1 else parameter.normal_(1, 0.3)
    return model


def inputs() -> tuple[Tensor, Tensor]:
    """ids [3, 9], and which of them are padding."""
    ids = torch.randint(0, 31, (3, 9), generator=torch.Generator().manual_seed(1))
    return ids, torch.arange(9) >= torch.tensor([9, 6, 8])[:, None]


def logits_of(model: nn.Module, ids: Tensor, padding: Tensor | None = None) -> Tensor:
    """Of every token; an encoder without a head gives what the token embedding reads in its hidden states."""
    if isinstance(model, EncoderDecoder):
        features = model.config.features
        source = F.one_hot(ids, features).double().mT.repeat(1, 1, 2) if features else ids
        return model(source, ids.flip(0), padding)
    hidden = model(ids, padding) if isinstance(model, Encoder) else model.hidden(ids, padding)
    return model.logits(hidden)  # outside of its forward, as the training loop does


def trained(
    model: nn.Module,
    batches: Callable[[Tensor], Tensor] = lambda ids: ids,
    outside: bool = True,
) -> list[float]:
    """The losses of three steps of AdamW, gradients clipped."""
    optimizer = torch.optim.AdamW(model.parameters(), 1e-2, weight_decay=0.1)
    generator = torch.Generator().manual_seed(2)
    losses = []
    for _ in range(3):
        ids = batches(torch.randint(0, 31, (4, 9), generator=generator))
        logits = logits_of(model, ids) if outside else model(ids)
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        losses.append(loss.item())
    return losses


def off(model: nn.Module, other: nn.Module) -> float:
    """How far the weights of a model are from those of one that may be split, names and order included."""
    ours, theirs = model.state_dict(), full_state(other)
    assert list(ours) == list(theirs)
    assert not any(isinstance(tensor, DTensor) for tensor in theirs.values())
    return max(float((ours[name] - theirs[name]).abs().max()) for name in ours)


def pair(mesh: DeviceMesh, model: nn.Module, **how: Any) -> tuple[nn.Module, nn.Module]:
    """The model, and a copy of it over the mesh."""
    return model, by_heads(copy.deepcopy(model), mesh, **how)
