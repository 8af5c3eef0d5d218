"""The loop: what a step is, accumulation, evaluation, the folder, stopping and going on."""

from __future__ import annotations

import csv
import math

import pytest
import torch
import torch.nn.functional as F
from fit_help import CONTEXT, ROWS, VOCAB, Counting, recipe, same, tiny, told, trained, weights
from torch.testing import assert_close

import headwise as hw
from headwise.names import ConfigError, OutputError
from headwise.nn.optimizing import adamw, cosine
from headwise.train.checkpoints import checkpoints
from headwise.train.log import read_log


def test_it_learns_and_says_so(tmp_path):
    run = trained(tmp_path / "run", recipe=recipe(steps=150, evaluate_every=50, save_every=50))
    assert run.log[0].loss == pytest.approx(math.log(VOCAB), abs=0.3)
    assert [step for step, _ in run.held_out] == [50, 100, 150]
    assert run.held_out[-1][1] < 0.5
    assert run.steps == 150
    assert run.stopped == ""
    assert not run.model.training
    assert read_log(tmp_path / "run" / "log.csv") == list(run.log)
    with (tmp_path / "run" / "log.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0]) == [
        "step",
        "loss",
        "held_out",
        "rate",
        "norm",
        "tokens",
        "speed",
        "seconds",
    ]
    assert [one.name for one in checkpoints(tmp_path / "run" / "checkpoints")] == [
        "step-00000100",
        "step-00000150",
    ]


def test_the_folder_is_a_model(tmp_path):
    run = trained(tmp_path / "run")
    model = hw.load(str(tmp_path / "run"))
    ids = torch.arange(9)[None]
    assert torch.equal(model.module(ids), run.model(ids))


@pytest.mark.parametrize("clip", [0.0, 0.2])
def test_a_step_is_adamw_on_the_mean_of_what_counts(tmp_path, clip):
    """Against torch's own AdamW, its rate set by hand."""
    asked = recipe(steps=3, warmup=1, clip=clip, weight_decay=0.1, least_rate=0.5)
    run = trained(tmp_path / "run", recipe=asked, dropout=0.0, held=False)
    other = tiny(0.0)
    kinds = [
        {"params": [p for p in other.parameters() if p.dim() > 1], "weight_decay": 0.1},
        {"params": [p for p in other.parameters() if p.dim() <= 1], "weight_decay": 0.0},
    ]
    plain, losses = torch.optim.AdamW(kinds, lr=1, betas=(0.9, 0.95)), []
    for step, share in ((1, 0.5), (2, 1.0), (3, 0.75)):
        batch = Counting().batch(step)
        logits = other(batch.inputs["ids"])
        loss = F.cross_entropy(logits.flatten(0, 1), batch.goal.flatten(), ignore_index=-100)
        plain.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(other.parameters(), clip or math.inf)
        for group in plain.param_groups:
            group["lr"] = 5e-3 * share
        plain.step()
        losses.append(loss.item())
    assert [line.loss for line in run.log] == pytest.approx(losses, abs=1e-5)
    assert [line.rate for line in run.log] == pytest.approx([2.5e-3, 5e-3, 3.75e-3])
    for name, x in weights(run).items():
        assert_close(x, other.state_dict()[name], atol=1e-5, rtol=1e-5)


def test_the_schedule_rises_and_falls():
    optimizer = adamw(tiny().parameters(), 1.0)
    schedule, rates = cosine(optimizer, 3, 11, least=0.2), []
    for _ in range(12):
        rates.append(schedule.get_last_lr()[0])
        optimizer.step()
        schedule.step()
    assert rates[:4] == pytest.approx([0.25, 0.5, 0.75, 1.0])
    assert rates == pytest.approx(
        [*rates[:3], *(0.6 + 0.4 * math.cos(math.pi * n / 8) for n in range(9))]
    )
    assert rates[-1] == pytest.approx(0.2)


@pytest.mark.parametrize("parts", [2, 4, 5])
def test_accumulation_changes_nothing_but_rounding(tmp_path, parts):
    """Rows of unequal lengths in parts of unequal sizes: sums over tokens, not means of means."""
    one = trained(tmp_path / "one", dropout=0.0)
    other = trained(tmp_path / "other", dropout=0.0, recipe=recipe(accumulate=parts))
    assert [x.tokens for x in one.log] == [x.tokens for x in other.log]
    for a, b in zip(one.log, other.log, strict=True):
        assert a.loss == pytest.approx(b.loss, abs=1e-5)
        assert a.norm == pytest.approx(b.norm, rel=1e-4)
    for name, x in weights(one).items():
        assert_close(x, weights(other)[name], atol=2e-5, rtol=1e-4)


def test_the_held_out_loss_is_of_every_row_once(tmp_path):
    feed = Counting(seed=1, count=3 * ROWS + 2)
    run = trained(tmp_path / "run", held=False, dropout=0.3, recipe=recipe(steps=2))
    from headwise.train.processes import Processes, joined
    from headwise.train.stepping import Stepper

    for parts in (1, 4):
        stepper = Stepper(run.model, recipe(accumulate=parts), Processes(joined("cpu")))
        found = stepper.look(feed)
        run.model.eval()
        batches = [
            feed.batch(step, rows)
            for step, rows in ((1, None), (2, None), (3, None), (4, slice(0, 2)))
        ]
        sums = [
            F.cross_entropy(
                run.model(b.inputs["ids"]).flatten(0, 1), b.goal.flatten(), reduction="sum"
            ).item()
            for b in batches
        ]
        assert found == pytest.approx(sum(sums) / sum(b.tokens for b in batches), rel=1e-5)


def test_looking_and_saving_change_nothing(tmp_path):
    often = trained(tmp_path / "often", recipe=recipe(evaluate_every=1, save_every=1))
    never = trained(tmp_path / "never", recipe=recipe(evaluate_every=100, save_every=100))
    assert all(torch.equal(x, weights(never)[name]) for name, x in weights(often).items())
    assert [x.loss for x in often.log] == [x.loss for x in never.log]


@pytest.mark.parametrize("at", [1, 6])
def test_a_stopped_run_goes_on_bit_for_bit(tmp_path, at):
    """Dropout draws what it would have drawn; other weights at the start do not matter."""
    whole = trained(tmp_path / "whole")
    asked = iter(range(1, 100))
    half = trained(tmp_path / "half", stop=lambda: next(asked) == at)
    assert half.stopped == f"stopped after step {at}"
    assert (half.steps, len(read_log(tmp_path / "half" / "log.csv"))) == (at, at)
    torch.manual_seed(99)
    other = type(half.model)(half.model.config)
    again = trained(tmp_path / "half", module=other, resume=True)
    assert same(again, whole)
    assert again.stopped == ""
    third = trained(tmp_path / "half", resume=True)
    assert same(third, whole)


def test_a_run_without_a_checkpoint_begins_again(tmp_path):
    whole = trained(tmp_path / "whole")
    folder = tmp_path / "cut"

    def stop() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trained(folder, stop=stop)
    assert not checkpoints(folder / "checkpoints")
    assert same(trained(folder, resume=True), whole)


def test_a_damaged_checkpoint_is_passed_over(tmp_path, capfd):
    whole = trained(tmp_path / "whole")
    folder = tmp_path / "run"
    trained(folder)
    old, new = checkpoints(folder / "checkpoints")
    data = bytearray((new / "state.safetensors").read_bytes())
    data[-5] ^= 1
    (new / "state.safetensors").write_bytes(bytes(data))
    again = trained(folder, resume=True)
    assert same(again, whole)
    (old / "state.json").write_text("{")
    (new / "state.safetensors").unlink()
    with pytest.raises(OutputError, match=r"every checkpoint in .* is damaged"):
        trained(folder, resume=True)


def test_a_log_without_its_steps_is_refused(tmp_path):
    folder = tmp_path / "run"
    trained(folder)
    (folder / "log.csv").write_text("step,loss\n1,2\n")
    with pytest.raises(OutputError, match=r"log.csv is no log|does not hold the steps"):
        trained(folder, resume=True)


def test_other_settings_are_refused_by_name(tmp_path):
    folder = tmp_path / "run"
    trained(folder)
    with pytest.raises(
        ConfigError, match=r"learning_rate=0.005 in \[train\].*learning_rate=0.1 came"
    ):
        trained(folder, resume=True, recipe=recipe(learning_rate=0.1))
    with pytest.raises(ConfigError, match=r"d_model=16 in \[model\].*d_model=32 came"):
        trained(folder, resume=True, module=tiny(d_model=32))
    trained(folder, resume=True, recipe=recipe(keep=1, save_every=7))


def test_a_folder_that_holds_something_is_refused(tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"holds notes.txt, which is no run's"):
        trained(tmp_path)
    trained(tmp_path / "run")
    with pytest.raises(OutputError, match="holds a run; go on with it"):
        trained(tmp_path / "run")
    with pytest.raises(OutputError, match="holds no run"):
        trained(tmp_path / "other", resume=True)
    with pytest.raises(OutputError, match="No such file"):
        trained(tmp_path / "a" / "b")


def test_rows_that_do_not_fit_are_refused(tmp_path):
    with pytest.raises(ConfigError, match="the feed has 6 rows a step, and the recipe rows=8"):
        trained(tmp_path / "run", feed=Counting(), recipe=recipe(rows=8))
    assert CONTEXT < 16
    assert told(trained(tmp_path / "run", held=False))[0][2] is None
