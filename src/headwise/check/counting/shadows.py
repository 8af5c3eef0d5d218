"""A model that holds no values: fake tensors, which know their shapes and run as the CPU would run them.

So an 8B model is counted in seconds and without its memory. What needs values to run (a router that sends tokens to
experts by `nonzero`, a check of ids) is run on real ones: the model's own, or zeros where there are none.
"""

from __future__ import annotations

import copy
import logging
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode

from headwise.hub.load import Model
from headwise.names import HeadwiseError, ModelError

__all__ = ["Subject", "in_place"]

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Subject:
    """A model to be run, and how.

    Attributes:
        model: whose weights are fake, or real.
        inputs: what it reads.
        fake: whether no values are there.
        how: in words.
    """

    model: Model
    inputs: Mapping[str, Any]
    fake: bool
    how: str


def in_place(
    model: Model, inputs: Mapping[str, Any], dtype: torch.dtype, work: Callable[[Subject], T]
) -> T:
    """Do some work with a model without values, or where it needs them on real ones.

    Args:
        model: with weights or, on the meta device, without.
        inputs: what it reads.
        dtype: of its weights.
        work: what is done; it may be begun twice.

    Raises:
        ModelError: the model does not run, or is too large to be run on values.
    """
    try:
        with (
            _silent(),
            _as_untraced(inputs),
            FakeTensorMode(allow_non_fake_inputs=True) as mode,
        ):
            module = _without_values(model.module, dtype, mode)
            given = {k: _fake(x, dtype) if isinstance(x, Tensor) else x for k, x in inputs.items()}
            how = "from shapes alone, as it runs on the CPU"
            return work(Subject(replace(model, module=module), given, True, how))
    except HeadwiseError:
        raise
    except Exception:  # what needs values says so in many ways
        pass
    with _real(model, dtype) as (ready, how):
        given = {k: _typed(x, dtype) if isinstance(x, Tensor) else x for k, x in inputs.items()}
        try:
            return work(Subject(ready, ready.placed(given), False, how))
        except HeadwiseError:
            raise
        except Exception as error:  # whatever the model met
            line = (str(error).strip() or type(error).__name__).splitlines()[0]
            raise ModelError(
                f"{model.name} does not run on {_shapes(inputs)}: {line}; give inputs= it can read"
            ) from error


def _without_values(module: nn.Module, dtype: torch.dtype, mode: FakeTensorMode) -> nn.Module:
    """A copy whose weights hold no values, each to be learned."""
    memo: dict[int, Any] = {}
    for x in (*module.parameters(), *module.buffers()):
        kind = dtype if x.is_floating_point() else x.dtype
        made = torch.empty_strided(x.shape, x.stride(), dtype=kind, device="cpu")
        learned = isinstance(x, nn.Parameter)
        memo[id(x)] = nn.Parameter(made, x.is_floating_point()) if learned else made
    return copy.deepcopy(module, memo).eval()


def _fake(x: Tensor, dtype: torch.dtype) -> Tensor:
    return torch.zeros(x.shape, dtype=dtype if x.is_floating_point() else x.dtype)


def _typed(x: Tensor, dtype: torch.dtype) -> Tensor:
    return x.to(dtype) if x.is_floating_point() else x


@contextmanager
def _real(model: Model, dtype: torch.dtype) -> Iterator[tuple[Model, str]]:
    """The model with values, each weight to be learned for the time of the `with`."""
    weights = list(model.module.parameters())
    if any(p.is_meta for p in weights):
        _check_room(model, dtype)
        module = copy.deepcopy(model.module).to_empty(device="cpu").to(dtype)
        with torch.no_grad():
            for x in (*module.parameters(), *module.buffers()):
                x.zero_()
        model, how = replace(model, module=module), "on weights of zeros: it needs values to run"
    else:
        same = all(p.dtype is dtype for p in weights if p.is_floating_point())
        model = model if same else model.copied(dtype)
        how = "on its own weights: it needs values to run"
    before = [(p, p.requires_grad) for p in model.module.parameters()]
    training = [part for part in model.module.modules() if part.training]
    try:
        model.module.eval()
        for p, _ in before:
            p.requires_grad_(p.is_floating_point())
        yield model, how
    finally:
        for p, wanted in before:
            p.requires_grad_(wanted)
        for part in training:
            part.training = True


def _check_room(model: Model, dtype: torch.dtype) -> None:
    needed = sum(p.numel() for p in model.module.parameters()) * dtype.itemsize
    there = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if needed > 0.8 * there:
        raise ModelError(
            f"{model.name} cannot be counted from its shapes alone, and its weights need {needed / 1e9:.0f} GB of "
            f"memory, of which {there / 1e9:.0f} are free; count one with fewer layers or experts"
        )


def _shapes(inputs: Mapping[str, Any]) -> str:
    shapes = {k: list(x.shape) for k, x in inputs.items() if isinstance(x, Tensor)}
    return ", ".join(f"{name} {shape}" for name, shape in shapes.items())


@contextmanager
def _as_untraced(inputs: Mapping[str, Any]) -> Iterator[None]:
    """Let transformers make the masks that it makes of real rows, each of which is one text.

    It looks for several in a row by values, and where it may not, makes a mask that real runs do without.
    """
    home: Any = sys.modules.get("transformers.masking_utils")
    name = "find_packed_sequence_indices"
    before = getattr(home, name, None)
    if before is None or "position_ids" in inputs:
        yield
        return
    setattr(home, name, lambda position_ids: None)
    try:
        yield
    finally:
        setattr(home, name, before)


@contextmanager
def _silent() -> Iterator[None]:
    """Without torch's own lines on what fake tensors cannot do."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before = logger.level
    with ExitStack() as stack:
        logger.setLevel(logging.CRITICAL)
        stack.callback(logger.setLevel, before)
        yield
