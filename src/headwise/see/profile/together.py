"""Several processes on one corpus, by torch.distributed: who this one is, and what it tells the others.

Only small things are sent (a word per step, sums at the end), over gloo, whatever carries the model's own.
Nothing here imports torch until there is someone to speak to.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from headwise.names import ModelError

__all__ = ["LostError", "Team", "gathered", "joined", "several"]

T = TypeVar("T")


class LostError(ModelError):
    """Another process of the team does not answer any more."""


@dataclass(frozen=True)
class Team:
    """This process among `size`; a team of one speaks to nobody."""

    rank: int = 0
    size: int = 1
    group: Any = None

    def agree(self, word: int) -> list[int]:
        """The word (a small number) of each process, in order of rank.

        Raises:
            LostError: a process of the team is gone.
        """
        if self.size == 1:
            return [word]
        import torch
        from torch import distributed

        said = [torch.zeros(1, dtype=torch.long) for _ in range(self.size)]
        with _alive(self):
            distributed.all_gather(said, torch.tensor([word]), group=self.group)
        return [int(one) for one in said]

    def tell(self, thing: T) -> list[T]:
        """What each process tells, in order of rank; on every process.

        Raises:
            LostError: a process of the team is gone.
        """
        if self.size == 1:
            return [thing]
        from torch import distributed

        told: list[Any] = [None] * self.size
        with _alive(self):
            distributed.all_gather_object(told, thing, group=self.group)
        return cast("list[T]", told)


def several() -> bool:
    """Whether a launcher (torchrun, accelerate launch) started this process as one of several."""
    size = os.environ.get("WORLD_SIZE", "1")
    return size.isdecimal() and int(size) > 1 and "RANK" in os.environ


def gathered() -> Team:
    """The team that torch.distributed is set up for; alone where it is not."""
    from torch import distributed

    if not distributed.is_available() or not distributed.is_initialized():
        return Team()
    size = distributed.get_world_size()
    if size == 1:
        return Team()
    gloo = distributed.get_backend() == "gloo"
    group = None if gloo else distributed.new_group(backend="gloo")
    return Team(distributed.get_rank(), size, group)


@contextmanager
def joined() -> Iterator[Team]:
    """The team that a launcher started, set up for the time of the `with`.

    Raises:
        ModelError: the other processes do not answer.
    """
    import torch
    from torch import distributed

    if not several() or distributed.is_initialized():
        yield gathered()
        return
    try:
        distributed.init_process_group("gloo")
    except (RuntimeError, ValueError) as error:
        why = str(error).strip().partition("\n")[0]
        raise ModelError(f"the processes of this run cannot be joined: {why}") from None
    try:
        if torch.cuda.is_available():
            torch.cuda.set_device(
                int(os.environ.get("LOCAL_RANK", "0")) % torch.cuda.device_count()
            )
        yield gathered()
    finally:
        distributed.destroy_process_group()


@contextmanager
def _alive(team: Team) -> Iterator[None]:
    try:
        yield
    except RuntimeError as error:
        why = str(error).strip().partition("\n")[0]
        raise LostError(
            f"another of the {team.size} processes of this run is gone; what was saved last is kept ({why})"
        ) from None
