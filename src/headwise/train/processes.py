"""The processes of a training: accelerate's, each with its share of a step's rows; the weights whole or in shards.

Data parallel is torch's DDP, as accelerate prepares it. Shards are torch's `fully_shard` (FSDP2) on each block: by
hand, as accelerate's plugin for it runs on accelerators alone, and this runs on the CPU too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headwise.hub.load import checked_device
from headwise.hub.spread import accelerator_of
from headwise.names import ConfigError, HeadwiseError, ModelError
from headwise.nn import Block
from headwise.nn.parallel import by_heads
from headwise.train.data import Batch
from headwise.train.objectives import loss_of

__all__ = ["Losses", "Processes", "asks_for_shards", "joined", "share"]


class Losses(nn.Module):
    """A model whose forward pass gives the loss: what wraps it for several processes sees the whole pass."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.model = module

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The sum of a batch's losses with gradients, and how many count."""
        return loss_of(self.model, batch)


@dataclass(frozen=True, eq=False)
class Processes:
    """This process among those of a run.

    Attributes:
        accelerator: of accelerate.
        shards: whether each holds a share of the weights alone.
        dtype: of autocast; None = none.
        heads: over how many of them each layer's heads are split (tensor parallel); they read the same rows.
    """

    accelerator: Any
    shards: bool = False
    dtype: torch.dtype | None = None
    heads: int = 1

    def __post_init__(self) -> None:
        if self.size % self.heads:
            raise ConfigError(
                f"tensor_parallel={self.heads} does not divide the {self.size} processes; start a multiple of "
                f"{self.heads}: torchrun --nproc-per-node {self.heads} -m headwise train ..."
            )

    @property
    def size(self) -> int:
        """How many there are."""
        return int(self.accelerator.num_processes)

    @property
    def rank(self) -> int:
        """Which this one is."""
        return int(self.accelerator.process_index)

    @property
    def shares(self) -> int:
        """Into how many shares the rows of a step fall."""
        return self.size // self.heads

    @property
    def share(self) -> int:
        """Which of them this process reads."""
        return self.rank // self.heads

    @property
    def whole(self) -> bool:
        """Whether each process has all of the weights."""
        return self.size == 1 or not (self.shards or self.heads > 1)

    @property
    def leads(self) -> bool:
        """Whether this one writes."""
        return self.rank == 0

    @property
    def device(self) -> torch.device:
        """Where it runs."""
        found: torch.device = self.accelerator.device
        return found

    def wrapped(self, module: nn.Module) -> nn.Module:
        """The module's losses, ready for several processes; the parameters are from then on its own."""
        losses = Losses(module.to(self.device))
        if self.size == 1:
            return losses
        if not self.whole:
            self._split(module, losses)
        else:
            from torch.nn.parallel import DistributedDataParallel

            where = None if self.device.type == "cpu" else [self.device]
            return DistributedDataParallel(losses, device_ids=where)
        return losses

    def _split(self, module: nn.Module, losses: Losses) -> None:
        """First by heads, then what each of those has into shards, in place."""
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard

        sizes = (self.shares, self.heads)
        mesh = init_device_mesh(self.device.type, sizes, mesh_dim_names=("data", "heads"))
        if self.heads > 1:
            by_heads(module, mesh["heads"])
        if self.shares > 1:
            for block in [one for one in module.modules() if isinstance(one, Block)]:
                fully_shard(block, mesh=mesh["data"])
            fully_shard(losses, mesh=mesh["data"])

    @contextmanager
    def apart(self, wrapped: nn.Module, last: bool) -> Iterator[None]:
        """For a part of a step that is not the last: gradients stay in this process until the last is there."""
        own: Any = wrapped
        if last or self.shares == 1:
            yield
        elif self.whole:
            with own.no_sync():
                yield
        else:
            own.set_requires_gradient_sync(False)
            try:
                yield
            finally:
                own.set_requires_gradient_sync(True)

    def autocast(self) -> Any:
        """The passes' precision."""
        if self.dtype is None:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.dtype)

    def sums(self, *numbers: float | Tensor) -> list[float]:
        """Each number summed over the shares of the rows, in double precision where the device has it."""
        exact = torch.float32 if self.device.type == "mps" else torch.float64
        told = torch.stack(
            [torch.as_tensor(x, device=self.device).detach().to(exact) for x in numbers]
        )
        summed: list[float] = (self.accelerator.reduce(told) / self.heads).tolist()
        return summed

    def everyone(self, thing: Any) -> list[Any]:
        """What each process tells, in order of rank, on all of them."""
        if self.size == 1:
            return [thing]
        told: list[Any] = [None] * self.size
        torch.distributed.all_gather_object(told, thing)
        return told

    def together(self, work: Callable[[], None]) -> None:
        """Let the one that leads do something; where that is a user's mistake it is raised in all of them."""
        failed: HeadwiseError | None = None
        if self.leads:
            try:
                work()
            except HeadwiseError as error:
                failed = error
        failed = self.everyone(failed)[0]
        if failed is not None:
            raise failed

    @contextmanager
    def alive(self) -> Iterator[None]:
        """What torch says when another process is gone, in one line."""
        try:
            yield
        except RuntimeError as error:
            if self.size == 1 or isinstance(error, HeadwiseError | torch.OutOfMemoryError):
                raise
            why = str(error).strip().partition("\n")[0]
            raise ModelError(
                f"another of the {self.size} processes of this run is gone; the newest checkpoint stands ({why})"
            ) from error

    def state(self, wrapped: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Any]:
        """Weights and moments, whole, by the names of the module: of the process that leads, all must ask."""
        from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict

        options = StateDictOptions(full_state_dict=True, cpu_offload=self.size > 1)
        weights, moments = get_state_dict(wrapped, optimizer, options=options)
        return {"weights": weights, "moments": moments}

    def put(
        self, wrapped: nn.Module, optimizer: torch.optim.Optimizer, state: Mapping[str, Any]
    ) -> None:
        """Back to a state that `state` gave."""
        from torch.distributed.checkpoint.state_dict import StateDictOptions, set_state_dict

        set_state_dict(
            wrapped,
            optimizer,
            model_state_dict=state["weights"],
            optim_state_dict=state["moments"],
            options=StateDictOptions(full_state_dict=True),
        )


def share(rows: int, part: int, parts: int) -> slice:
    """The rows of one of several parts, as even as can be."""
    return slice(rows * part // parts, rows * (part + 1) // parts)


def joined(device: str | None = None) -> Any:
    """accelerate's view of this process; on the CPU where that is asked for or all there is.

    Args:
        device: its kind, and of a process alone also which of them ("cuda:1").

    Raises:
        ModelError: a device that cannot be used.
        ConfigError: one device for several processes, or one of another kind than this process set up before.
    """
    where = checked_device(device)
    if where is not None and where.index is not None and where.type != "cpu":
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise ConfigError(
                f"device={device!r} is one device, and each of several processes takes its own; say {where.type!r}"
            )
        torch.accelerator.set_device_index(where.index)
    found = accelerator_of(not _accelerated() if where is None else where.type == "cpu")
    if where is not None and found.device.type != where.type:
        raise ConfigError(
            f"device={device!r} cannot be used: this process was set up for {found.device.type}; start another"
        )
    return found


def _accelerated() -> bool:
    """Whether this machine has anything but its CPU."""
    return torch.accelerator.is_available()


def asks_for_shards() -> bool:
    """Whether accelerate's configuration says FSDP."""
    return os.environ.get("ACCELERATE_USE_FSDP", "false").lower() == "true"
