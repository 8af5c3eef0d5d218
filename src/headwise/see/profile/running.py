"""A run over a corpus: batches in order, shared out among processes, stopped and saved only between two of them.

Every process makes the same list of batches and takes its share of each step, as many batches as there are
processes. After each step they tell one another how it went, so that all stop at the same place and none waits for
one that failed. Does not read texts, nor say anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from itertools import islice
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np

from headwise.names import ModelError, TextError
from headwise.see.profile.together import Team
from headwise.see.texts.batches import Batch

__all__ = ["Run", "Sums", "Word", "united"]

State = dict[str, "np.ndarray | str"]


@runtime_checkable
class Sums(Protocol):
    """What batches are added to (a Profiler)."""

    def add(self, batch: Batch) -> None:
        """Add a batch, whole or not at all."""

    def state(self) -> State:
        """The sums as arrays."""

    def merge(self, other_state: Mapping[str, np.ndarray | str]) -> None:
        """Add the sums of another."""


S = TypeVar("S", bound=Sums)


class Word(IntEnum):
    """What a process tells the others after a step; the strongest word counts."""

    GOING = 0
    SAVING = 1
    ENDED = 2
    STOPPING = 3
    FAILED = 4


@dataclass(eq=False)
class Run:
    """Batches on their way into the sums.

    Attributes:
        sums: of this process.
        team: the processes among which the batches are shared out.
        skip: numbers of the batches that are in the sums already.
        done: numbers of those that this process has added.
        step: called with the batches of a step before they are added, on every process.
        word: called after each step: whether to go on, to save or to stop.
        save: called where one process's word was SAVING, on every process.
    """

    sums: Sums
    team: Team = field(default_factory=Team)
    skip: frozenset[int] = frozenset()
    done: set[int] = field(default_factory=set)
    step: Callable[[list[Batch]], None] = lambda batches: None
    word: Callable[[], Word] = lambda: Word.GOING
    save: Callable[[], None] = lambda: None

    def through(self, batches: Iterable[Batch]) -> bool:
        """Add the batches; whether it came to the end, False where a word stopped it.

        Raises:
            HeadwiseError: what went wrong with a batch, on every process; the sums hold those before it.
        """
        todo = ((i, batch) for i, batch in enumerate(batches) if i not in self.skip)
        while True:
            failure: Exception | None = None
            try:
                word = self._take(todo)
            except Exception as error:  # told to the others first
                failure, word = error, Word.FAILED
            words = self.team.agree(word)
            if Word.FAILED in words:
                self._fail(failure)
            if Word.STOPPING in words:
                return False
            if Word.ENDED in words:
                if set(words) != {Word.ENDED}:
                    raise TextError(
                        "the processes of this run read different texts; give all the same"
                    )
                return True
            if Word.SAVING in words:
                self.save()

    def _take(self, todo: Iterator[tuple[int, Batch]]) -> Word:
        """This process's share of the next step."""
        step = list(islice(todo, self.team.size))
        if not step:
            return Word.ENDED
        self.step([batch for _, batch in step])
        if self.team.rank < len(step):
            number, batch = step[self.team.rank]
            self.sums.add(batch)
            self.done.add(number)
        return self.word()

    def _fail(self, failure: Exception | None) -> None:
        told = self.team.tell(None if failure is None else str(failure).strip())
        if failure is not None:
            raise failure
        rank, line = next((rank, line) for rank, line in enumerate(told) if line is not None)
        raise ModelError(f"process {rank} of {self.team.size} failed: {line}")


def united(
    team: Team, state: State, done: set[int], skip: frozenset[int], fresh: Callable[[], S]
) -> tuple[S, frozenset[int]]:
    """The sums of all processes together, and the numbers of the batches in them; the same on each.

    Args:
        team: the processes, all of which call this.
        state: the sums of this one.
        done: the batches in them.
        skip: the batches that were done before.
        fresh: makes sums with nothing in them.
    """
    together = fresh()
    numbers = set(skip)
    for theirs, batches in team.tell((state, done)):
        together.merge(theirs)
        numbers |= batches
    return together, frozenset(numbers)
