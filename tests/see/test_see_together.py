"""A corpus shared out among processes: the same sums, whatever their number; a failure stops them all."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from headwise.see.profile.running import Run, Word, united
from headwise.see.profile.together import LostError, Team, gathered
from headwise.see.texts.batches import Batch
from team_help import ends_of, forked, start_team


class Sums:
    """Adds up the numbers of batches."""

    def __init__(self, fault: Callable[[int], None] = lambda number: None) -> None:
        self.total = 0
        self.numbers: list[int] = []
        self.fault = fault

    def add(self, batch: Batch) -> None:
        number = batch.inputs["number"]
        self.fault(number)
        self.total += number
        self.numbers.append(number)

    def state(self) -> dict[str, np.ndarray | str]:
        return {"total": np.array(self.total)}

    def merge(self, other_state: Mapping[str, np.ndarray | str]) -> None:
        self.total += int(other_state["total"])


def batches(count: int) -> list[Batch]:
    """Batches numbered from 1."""
    return [Batch({"number": i + 1}, 1, [None], [None]) for i in range(count)]


def through(run: Run, count: int) -> tuple[Any, ...]:
    """How the run ended, the sums of all, which batches are in them, and the numbers added here."""
    assert isinstance(run.sums, Sums)
    try:
        end: Any = run.through(batches(count))
    except LostError as error:
        return (f"LostError: {error}",)
    except Exception as error:
        end = f"{type(error).__name__}: {error}"
    whole, numbers = united(run.team, run.sums.state(), run.done, run.skip, Sums)
    return end, whole.total, sorted(numbers), run.sums.numbers


@pytest.mark.parametrize("count", [1, 2, 5])
def test_two_processes_add_what_one_adds(count: int) -> None:
    """Also an odd number of batches, and fewer batches than processes."""
    ends = forked(2, lambda team: through(Run(Sums(), team), count))
    numbers = list(range(1, count + 1))
    for rank, end in enumerate(ends):
        assert end == (True, sum(numbers), list(range(count)), numbers[rank::2])


def test_what_was_done_before_is_skipped_and_added_once() -> None:
    def job(team: Team) -> Any:
        sums = Sums()
        sums.total = 7 if team.rank == 0 else 0
        return through(Run(sums, team, frozenset({0, 1, 3})), 5)

    first, second = forked(2, job)
    assert first == (True, 15, [0, 1, 2, 3, 4], [3])
    assert second == (True, 15, [0, 1, 2, 3, 4], [5])


def test_one_that_fails_stops_all_and_tells_them_why() -> None:
    def fault(number: int) -> None:
        if number == 4:
            raise ValueError("four")

    first, second = forked(2, lambda team: through(Run(Sums(fault), team), 8))
    assert first == ("ModelError: process 1 of 2 failed: four", 6, [0, 1, 2], [1, 3])
    assert second == ("ValueError: four", 6, [0, 1, 2], [2])


def test_one_that_asks_to_stop_stops_all_at_the_same_place() -> None:
    def job(team: Team) -> Any:
        sums = Sums()
        asked = lambda: team.rank == 1 and len(sums.numbers) == 2  # noqa: E731
        word = lambda: Word.STOPPING if asked() else Word.GOING  # noqa: E731
        return through(Run(sums, team, word=word), 8)

    first, second = forked(2, job)
    assert first == (False, 10, [0, 1, 2, 3], [1, 3])
    assert second == (False, 10, [0, 1, 2, 3], [2, 4])


def test_one_that_asks_to_save_has_all_save() -> None:
    def job(team: Team) -> list[int]:
        sums, saved = Sums(), list[int]()
        word = lambda: Word.SAVING if team.rank == 0 else Word.GOING  # noqa: E731
        save = lambda: saved.append(sum(team.tell(sums.total)))  # noqa: E731
        Run(sums, team, word=word, save=save).through(batches(4))
        return saved

    assert forked(2, job) == [[3, 10], [3, 10]]


def test_one_that_dies_leaves_none_waiting() -> None:
    def fault(number: int) -> None:
        if number == 4:
            os._exit(9)

    first, second = forked(2, lambda team: through(Run(Sums(fault), team), 8))
    assert second is None
    assert first[0].startswith("LostError: another of the 2 processes of this run is gone")
    assert "\n" not in first[0]


def test_processes_with_different_texts_are_told() -> None:
    ends = forked(2, lambda team: through(Run(Sums(), team), 2 + 2 * team.rank))
    wanted = "TextError: the processes of this run read different texts"
    assert all(end[0].startswith(wanted) for end in ends)


def test_alone() -> None:
    assert gathered() == Team(0, 1)
    assert Team().agree(3) == [3]
    assert Team().tell("x") == ["x"]
    run = Run(Sums())
    with pytest.raises(ZeroDivisionError):
        run.through(1 / 0 for _ in [0])  # type: ignore[arg-type, misc]
    assert (run.done, run.sums.state()["total"]) == (set(), 0)
    whole, numbers = united(Team(), {"total": np.array(3)}, {1}, frozenset({0}), Sums)
    assert (whole.total, numbers) == (3, {0, 1})


PROFILE = """
import sys
import torch
from torch import distributed
import headwise as hw
from headwise.nn import Decoder, TransformerConfig

torch.manual_seed(0)
decoder = Decoder(TransformerConfig(vocab_size=40, d_model=24, num_layers=2, num_heads=4))
ids = [torch.randint(5, 40, (n,)) for n in (9, 4, 7, 30, 12)]
hw_packing = __import__("headwise.see.texts.packing").see.texts.packing
hw_packing.MOST_TOKENS = 20
alone = hw.profile(hw.load(decoder), ids, pool=4)
distributed.init_process_group("gloo")
mine = []
shared = hw.profile(hw.load(decoder), iter(ids), pool=4, progress=lambda *a: mine.append(a))
import xarray as xr
xr.testing.assert_allclose(shared, alone, rtol=1e-9, atol=1e-12)
print([shared.attrs[n] == alone.attrs[n] for n in ("texts", "pieces", "tokens")], len(mine) > 0)
distributed.destroy_process_group()
"""


def test_profile_in_python_is_shared_out_and_every_process_gets_it_all() -> None:
    for end in ends_of(start_team(2, "-c", PROFILE)):
        assert end.code == 0, end.err
        assert end.out.strip() == "[True, True, True] True"
