"""Activation checkpointing: blocks keep their input alone and run again in the backward pass (Chen et al. 2016).

The second run draws the same dropout, so losses and gradients are those of a model that keeps everything, bit for
bit, for a third more work in the forward passes.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from headwise.core.taps import tap_of
from headwise.names import ConfigError
from headwise.nn.block import Surroundings

__all__ = ["Checkpointed", "checkpoint_activations", "through"]


class Checkpointed(nn.Module):
    """A module whose blocks can be checkpointed.

    Attributes:
        checkpointing: whether they are, in passes that make gradients.
    """

    checkpointing: bool = False


def checkpoint_activations(model: nn.Module, on: bool = True) -> None:
    """Keep only the input of each block for the backward pass, or (on=False) everything again.

    Passes without gradients, and blocks that an instrument looks into, run as always.

    Args:
        model: an Encoder, Decoder or EncoderDecoder, or a module that holds some.
        on: whether to.

    Raises:
        ConfigError: the model has no stack of ours.
    """
    stacks = [module for module in model.modules() if isinstance(module, Checkpointed)]
    if not stacks:
        raise ConfigError(
            f"{type(model).__name__} has no blocks of headwise.nn to checkpoint; for a model of "
            "transformers call its gradient_checkpointing_enable()"
        )
    for stack in stacks:
        stack.checkpointing = on


def through(block: nn.Module, x: Tensor, around: Surroundings) -> Tensor:
    """The stream after a block that is checkpointed."""
    if not torch.is_grad_enabled() or any(tap_of(module) for module in block.modules()):
        out: Tensor = block(x, around)
        return out
    made: Tensor = checkpoint(partial(block, around=around), x, use_reentrant=False)
    return made
