"""Two processes (gloo): the losses and weights of one, whole or in shards; one writes; they go on together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate.state import AcceleratorState, PartialState
from fit_help import recipe, told, trained, weights
from safetensors.torch import load_file
from test_train_bad import Broken, poisoned
from torch.distributed.tensor import DTensor
from torch.testing import assert_close

from headwise.names import HeadwiseError
from headwise.see.profile.together import Team
from headwise.train.checkpoints import checkpoints
from headwise.train.log import read_log
from headwise.train.processes import joined
from team_help import forked

STEPS = {"steps": 6, "evaluate_every": 3, "save_every": 3, "clip": 0.3}


def together(folder: Path, **given: Any) -> list[dict[str, Any]]:
    """What each of two processes tells of a training."""
    given = {"recipe": STEPS, "dropout": 0.0, **given}

    def job(team: Team) -> dict[str, Any]:
        AcceleratorState._reset_state(
            reset_partial_state=True
        )  # of the process this one is a copy of
        asked = recipe(**given.pop("recipe"))
        stop_at, calls = given.pop("stop_at", 0) * team.rank, iter(range(1, 100))
        if given.pop("broken", False):
            given.update(module=poisoned(float("nan")), feed=Broken())
        try:
            run = trained(folder, recipe=asked, stop=lambda: next(calls) == stop_at, **given)
        except HeadwiseError as error:
            return {"size": team.size, "error": str(error)}
        lines = [[x.step, x.loss, x.held_out, x.norm, x.tokens] for x in run.log]
        split = any(isinstance(p, DTensor) for p in run.model.parameters())
        drawn = {"drawn": torch.rand(()).item()} if given.get("dropout") else {}
        told = {"lines": lines, "stopped": run.stopped, "split": split, **drawn}
        return {"size": PartialState().num_processes, **told}

    found = forked(2, job)
    assert [one["size"] for one in found] == [2, 2]
    return found


def test_a_team_takes_no_more_threads_than_this_process():
    """A copy of a process that had several threads once cannot have them again: it would hang."""

    def job(team: Team) -> int:
        AcceleratorState._reset_state(reset_partial_state=True)
        joined("cpu")
        return torch.get_num_threads()

    assert forked(2, job) == [1, 1]


WAYS = {"whole": {}, "shards": {"shards": True}, "heads": {"tensor_parallel": 2}}


@pytest.mark.parametrize(
    ("way", "parts"), [("whole", 1), ("whole", 2), ("shards", 1), ("shards", 2), ("heads", 2)]
)
def test_two_processes_come_to_what_one_does(tmp_path, way, parts):
    """Rows of unequal lengths, so the processes count different numbers of tokens; gradients are clipped."""
    one = trained(tmp_path / "one", recipe=recipe(**STEPS), dropout=0.0)
    assert one.log[0].norm > 0.3
    asked = {**STEPS, "accumulate": parts}
    first, second = together(tmp_path / "two", recipe=asked, **WAYS[way])
    assert first == second
    assert first["split"] == (way != "whole")
    for line, (step, loss, held, norm, tokens) in zip(one.log, first["lines"], strict=True):
        assert (line.step, line.tokens) == (step, tokens)
        assert loss == pytest.approx(line.loss, abs=1e-5)
        assert norm == pytest.approx(line.norm, rel=1e-4)
        assert (held is None) == (line.held_out is None)
        assert held is None or held == pytest.approx(line.held_out, abs=1e-5)
    saved = load_file(tmp_path / "two" / "model.safetensors")
    assert saved.keys() == load_file(tmp_path / "one" / "model.safetensors").keys()
    for name, x in load_file(tmp_path / "one" / "model.safetensors").items():
        assert_close(saved[name], x, atol=2e-5, rtol=1e-4)
    assert [x.step for x in read_log(tmp_path / "two" / "log.csv")] == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("way", WAYS)
def test_two_processes_go_on_bit_for_bit(tmp_path, way):
    """Asked to stop by the one that does not write; dropout of each process draws on as it would have."""
    whole, beside = together(tmp_path / "whole", dropout=0.2, **WAYS[way])
    assert (whole["drawn"] == beside["drawn"]) == (
        way == "heads"
    )  # who reads other rows drops others
    half, other = together(tmp_path / "half", dropout=0.2, **WAYS[way], stop_at=4)
    assert half["stopped"] == other["stopped"] == "stopped after step 4"
    assert len(half["lines"]) == 4
    again, _ = together(tmp_path / "half", dropout=0.2, **WAYS[way], resume=True)
    assert again["lines"] == whole["lines"]
    for name, x in load_file(tmp_path / "whole" / "model.safetensors").items():
        assert torch.equal(load_file(tmp_path / "half" / "model.safetensors")[name], x)
    if way == "whole":  # and one process goes on with what two began
        stops = iter(range(1, 9))
        folder = tmp_path / "one"
        trained(folder, recipe=recipe(**STEPS), dropout=0.0, stop=lambda: next(stops) == 3)
        one, _ = together(folder, resume=True)
        alone = trained(tmp_path / "alone", recipe=recipe(**STEPS), dropout=0.0)
        assert [x[1] for x in one["lines"]] == pytest.approx([x.loss for x in alone.log], abs=1e-5)
        assert told(alone)[:3] == [tuple(x) for x in map(_line, read_log(folder / "log.csv")[:3])]
        assert weights(alone).keys() == load_file(folder / "model.safetensors").keys()


def _line(line: Any) -> tuple[Any, ...]:
    return (line.step, line.loss, line.held_out, line.rate, line.norm, line.tokens)


def test_a_mistake_ends_both_with_one_line(tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine.txt").write_text("x")
    first, second = together(tmp_path / "notes")
    assert first == second
    assert "holds mine.txt" in first["error"]
    first, second = together(tmp_path / "broken", broken=True, recipe={"save_every": 4})
    assert first == second
    assert "at step 7 the loss was nan in rows 4 of it" in first["error"]
    assert [one.name for one in checkpoints(tmp_path / "broken" / "checkpoints")] == [
        "step-00000004"
    ]
