"""heal: what it changes and keeps, the control, several processes, and how it ends early."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
import torch
from accelerate.state import AcceleratorState, PartialState
from torch.testing import assert_close

import headwise as hw
from headwise.cut.healing.healing import heal
from headwise.cut.healing.rows import batch_of, drawn, parted, rows_of
from headwise.names import ConfigError, ModelError
from headwise.nn import Decoder, Encoder, TransformerConfig
from team_help import forked

SIZES = {"vocab_size": 40, "d_model": 24, "num_layers": 2, "num_heads": 4, "max_length": 64}
SLOW = {"steps": 6, "batch": 4, "warmup": 1, "every": 2, "learning_rate": 3e-3, "quiet": True}


def tiny(kind: Any = Decoder, seed: int = 0, **fields: Any) -> hw.Model:
    torch.manual_seed(seed)
    return hw.load(kind(TransformerConfig(**{**SIZES, **fields})))


def texts(rows: int = 12, length: int = 16, seed: int = 0) -> torch.Tensor:
    """Rows that count upwards, so that there is something to learn."""
    starts = torch.randint(40, (rows, 1), generator=torch.Generator().manual_seed(seed))
    return (starts + torch.arange(length)) % 40


def weights(model: hw.Model) -> dict[str, torch.Tensor]:
    return {name: x.clone() for name, x in model.module.state_dict().items()}


def test_it_learns_and_tells_the_losses():
    model = tiny()
    before = hw.loss(model, texts(4, seed=1))
    found = heal(model, texts(), held_out=texts(4, seed=1), **{**SLOW, "steps": 40, "every": 10})
    assert found.model is model
    assert found.before == before
    assert found.after == hw.loss(model, texts(4, seed=1))
    assert found.after.mean < found.before.mean - 1
    assert [step for step, _ in found.held_out] == [0, 10, 20, 30, 40]
    assert (len(found.losses), found.steps, found.stopped) == (40, 40, "")
    assert found.gain == found.before.mean - found.after.mean
    told = json.loads(json.dumps(found.as_dict()))
    assert told["settings"]["batch"] == 4
    assert told["control"] is None


@pytest.mark.parametrize("clip", [None, 0.05])
def test_steps_are_adamw_on_the_mean_loss_of_their_rows(clip):
    """Two steps against torch's own AdamW, decay of matrices, clipped gradients; rows of unequal lengths."""
    model, other = tiny(), tiny()
    rows = [torch.arange(4), torch.arange(20), torch.arange(5) + 9, torch.arange(30) + 3]
    settings = {"steps": 2, "batch": 2, "warmup": 1, "learning_rate": 0.01}
    found = heal(model, rows, **settings, weight_decay=0.1, clip=clip, quiet=True)
    ours = other.module
    matrices = [p for p in ours.parameters() if p.dim() > 1]
    vectors = [p for p in ours.parameters() if p.dim() <= 1]
    kinds = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    adam, losses = torch.optim.AdamW(kinds, lr=0.01), []
    for rate, numbers in zip((0.005, 0.01), drawn(4, 2, 2, seed=0), strict=True):
        logits = torch.cat([ours(rows[i][None])[0, :-1] for i in numbers])
        loss = torch.nn.functional.cross_entropy(logits, torch.cat([rows[i][1:] for i in numbers]))
        adam.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(ours.parameters(), math.inf if clip is None else clip)
        for group in adam.param_groups:
            group["lr"] = rate
        adam.step()
        losses.append(loss.item())
    assert found.losses == pytest.approx(losses, abs=1e-5)
    for name, x in weights(other).items():
        assert_close(weights(model)[name], x, atol=1e-5, rtol=1e-5)


def test_rows_of_unequal_lengths_count_by_their_tokens():
    model = tiny()
    rows = [torch.arange(9), torch.arange(5) + 20, torch.arange(13)]
    found = heal(model, rows, steps=1, batch=3, quiet=True)
    assert found.losses[0] == pytest.approx(hw.loss(tiny(), rows).mean, abs=1e-5)


def test_the_control_is_tuned_alike():
    """A control that is the same model comes to the same; one that is not has the same rows in the same order."""
    model, control = tiny(), tiny()
    found = heal(model, texts(), held_out=texts(4, seed=1), control=control, **SLOW)
    assert found.control is not None
    assert found.losses == found.control.losses
    assert found.gap_before == found.gap_after == 0
    cut, uncut = tiny(seed=1), tiny()
    other = heal(cut, texts(), held_out=texts(4, seed=1), control=uncut, **SLOW)
    assert other.control.losses == found.losses
    gap = other.before.mean - found.before.mean
    assert (other.gap_before, other.mended) == (gap, 1 - other.gap_after / gap if gap > 0 else None)


def test_pruned_heads_stay_gone_and_what_is_left_is_tuned():
    from headwise.cut.pruning.surgery import cut_heads

    cut = cut_heads(tiny(), "0.1, 1.*")
    shapes = {name: x.shape for name, x in weights(cut).items()}
    found = heal(cut, texts(), held_out=texts(4, seed=1), **SLOW)
    assert found.gain > 0
    assert {name: x.shape for name, x in weights(cut).items()} == shapes


@pytest.mark.parametrize("kind", ["ours", "bert"])
def test_attention_alone_may_be_tuned(kind):
    """W_O among it, which BERT of transformers keeps in another module."""
    if kind == "ours":
        model = tiny()
        names = {f"blocks.{i}.attention.{m}" for i in (0, 1) for m in ("w_qkv", "w_o")}
    else:
        from transformers import BertConfig, BertLMHeadModel

        torch.manual_seed(0)
        sizes = {"hidden_size": 24, "num_attention_heads": 4, "num_hidden_layers": 1}
        config = BertConfig(vocab_size=40, intermediate_size=24, is_decoder=True, **sizes)
        model = hw.load(BertLMHeadModel(config))
        home = "bert.encoder.layer.0.attention."
        names = {home + m for m in ("self.query", "self.key", "self.value", "output.dense")}
    before = weights(model)
    heal(model, texts(), parts="attention", **SLOW)
    moved = {name for name, x in weights(model).items() if not torch.equal(x, before[name])}
    assert {name.rpartition(".")[0] for name in moved} == names


def test_what_was_frozen_or_in_training_stays_so():
    model = tiny(dropout=0.5)
    model.module.train()
    model.module.embedding.tokens.weight.requires_grad_(False)
    found = heal(model, texts(4), steps=1, batch=4, quiet=True)
    assert found.losses[0] == pytest.approx(hw.loss(tiny(), texts(4)).mean, abs=1e-5)
    assert model.module.training
    assert not model.module.embedding.tokens.weight.requires_grad
    assert all(p.grad is None for p in model.module.parameters())


@pytest.mark.parametrize("keep", ["best", "last"])
def test_the_state_that_was_asked_for_is_kept(keep):
    """Two rows learnt by heart make others less likely, after a while."""
    model, held = tiny(), texts(4, seed=1)
    wild = {**SLOW, "steps": 30, "every": 3, "learning_rate": 0.03}
    found = heal(model, texts(2), held_out=held, keep=keep, **wild)
    least = min(found.held_out, key=lambda pair: pair[1])
    assert found.held_out[-1][1] > least[1] < found.before.mean
    assert (found.kept, found.after.mean) == (least if keep == "best" else found.held_out[-1])
    assert hw.loss(model, held).mean == pytest.approx(found.after.mean, abs=1e-6)


def breaking(at: int):
    """A loss that is no number from its `at`-th use on."""
    uses = iter(range(10_000))

    def loss(output, inputs):
        logits = output[:, :-1].flatten(0, 1)
        goal = inputs["input_ids"][:, 1:].flatten()
        value = torch.nn.functional.cross_entropy(logits, goal)
        return value * (math.nan if next(uses) >= at else 1.0)

    return loss


def test_a_loss_that_is_no_number_stops_with_the_state_before():
    """The third step's loss is none: the second step is undone."""
    model, other = tiny(), tiny()
    found = heal(model, texts(), loss=breaking(2), **SLOW)
    assert found.stopped == "the loss was nan at step 3; the model is as it was after step 1"
    assert (found.kept, len(found.losses)) == (1, 2)
    heal(other, texts(), loss=breaking(99), stop=lambda: True, **SLOW)  # one step of the same
    for name, x in weights(other).items():
        assert torch.equal(weights(model)[name], x)


def test_a_model_that_gives_no_number_is_refused_as_it_is():
    model = tiny()
    before = weights(model)
    with pytest.raises(
        ModelError, match=r"the loss was nan at step 1, before anything was changed"
    ):
        heal(model, texts(), loss=breaking(0), **SLOW)
    assert all(torch.equal(x, before[name]) for name, x in weights(model).items())


def test_ctrl_c_keeps_the_model_as_it_is_now(monkeypatch):
    """In the midst of the third step of AdamW, with some of the parameters changed."""
    model, other = tiny(), tiny()
    real, steps = torch.optim.AdamW.step, iter(range(100))

    def step(self, *args):
        if next(steps) == 2:
            with torch.no_grad():
                self.param_groups[0]["params"][0].add_(9.0)
            raise KeyboardInterrupt
        return real(self, *args)

    monkeypatch.setattr(torch.optim.AdamW, "step", step)
    found = heal(model, texts(), **SLOW)
    assert found.stopped == "stopped by Ctrl-C after step 2"
    assert found.kept == 2
    monkeypatch.undo()
    done = iter([False, True])
    heal(other, texts(), stop=lambda: next(done), **SLOW)
    for name, x in weights(other).items():
        assert torch.equal(weights(model)[name], x)


@pytest.mark.parametrize("held", [True, False])
def test_an_absurd_rate_is_no_gain(held: bool):
    """Without held-out texts the last state stays, which knows nothing; with them the one before the first step."""
    model = tiny()
    heal(model, texts(), **{**SLOW, "steps": 30})
    learnt, other = weights(model), texts(4, seed=1) if held else None
    found = heal(model, texts(), held_out=other, **{**SLOW, "learning_rate": 3e3})
    assert found.even == pytest.approx(math.log(40))
    assert found.knows_nothing is not held
    assert (found.kept == 0) is held
    same = [torch.equal(x, learnt[name]) for name, x in weights(model).items()]
    assert all(same) is held


def test_it_ends_when_asked_or_when_time_is_over():
    found = heal(tiny(), texts(), minutes=1e-9, **SLOW)
    assert (found.steps, found.stopped) == (1, "1e-09 minutes were over")
    found = heal(tiny(), texts(), stop=lambda: True, **SLOW)
    assert (found.steps, found.stopped) == (1, "it was asked to stop")


def test_every_row_comes_once_before_any_comes_again():
    numbers = [n for step in drawn(5, 2, 10, seed=3) for n in step]
    assert all(sorted(numbers[i : i + 5]) == [0, 1, 2, 3, 4] for i in range(0, 20, 5))
    assert numbers[:5] != numbers[5:10]
    assert list(drawn(5, 2, 10, seed=3)) != list(drawn(5, 2, 10, seed=4))
    assert [len(step) for step in drawn(3, 8, 2, seed=0)] == [8, 8]


def test_rows_are_without_padding_and_batches_as_given():
    model = tiny()
    given = [torch.arange(9), torch.arange(5) + 20]
    rows = rows_of(model, given)
    assert [len(row["input_ids"]) for row in rows] == [9, 5]
    batch = batch_of(model, rows)
    assert batch.inputs["attention_mask"].sum(1).tolist() == [9, 5]
    bare = [  # batches that come without masks
        {"input_ids": texts(2, 9), "position_ids": torch.arange(9).expand(2, 9)},
        {"input_ids": texts(1, 5), "position_ids": torch.arange(5)[None]},
    ]
    batch = batch_of(model, rows_of(model, bare))
    assert batch.inputs["attention_mask"].sum(1).tolist() == [9, 9, 5]
    long = [{"input_ids": torch.zeros(1500)}] * 5
    assert [len(part) for part in parted(long)] == [2, 2, 1]


def test_two_processes_come_to_what_one_does():
    """Rows of unequal lengths, and a last step of an odd number of them."""
    rows = [torch.arange(n) % 40 for n in (5, 9, 13, 7, 11)]
    held = texts(70, 64, seed=1)  # more than one pass of them
    asked = {**SLOW, "batch": 3, "every": 6}
    alone = tiny()
    one = heal(alone, rows, held_out=held, **asked)
    assert one.after.mean == pytest.approx(hw.loss(alone, held).mean, abs=1e-6)

    def job(team):
        AcceleratorState._reset_state(
            reset_partial_state=True
        )  # that of the process this one is a copy of
        model = tiny()
        found = heal(model, rows, held_out=held, **asked)
        tuned = {name: x.numpy() for name, x in weights(model).items()}
        return PartialState().num_processes, found.losses, found.after.mean, tuned

    for size, losses, after, theirs in forked(2, job):
        assert size == 2
        assert losses == pytest.approx(one.losses, abs=1e-5)
        assert after == pytest.approx(one.after.mean, abs=1e-5)
        for name, x in weights(alone).items():
            assert_close(torch.from_numpy(theirs[name]), x, atol=2e-4, rtol=1e-3)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"steps": 0}, "steps=0 is not a count"),
        ({"batch": 1.5}, "batch=1.5 is not a count"),
        ({"learning_rate": 0}, "learning_rate=0 must be above 0"),
        ({"clip": -1.0}, "clip=-1.0 must be above 0"),
        ({"minutes": math.nan}, "minutes=nan must be above 0"),
        ({"warmup": -1}, "warmup=-1 is not a number of steps"),
        ({"weight_decay": -0.1}, "weight_decay=-0.1 must be 0 or more"),
        ({"keep": "best"}, 'keep=\'best\' must be "last", or "best" with held_out'),
        ({"parts": "heads"}, "parts='heads' is not known; use one of all, attention"),
    ],
)
def test_what_cannot_be_is_refused(given, says):
    with pytest.raises(ConfigError, match=says):
        heal(tiny(), texts(), **given)


def test_a_model_that_predicts_nothing_needs_a_loss():
    with pytest.raises(ModelError, match="predicts no next token; give loss="):
        heal(tiny(Encoder), texts())
    found = heal(tiny(Encoder), texts(), loss=lambda out, inputs: out.square().mean((1, 2)), **SLOW)
    assert found.losses[-1] < found.losses[0]


@pytest.mark.models
def test_smollm2_with_heads_cut_is_mended_more_than_it_adapts():
    from headwise.cut.pruning.surgery import cut_heads

    model = hw.load("smollm2", quiet=True)
    rows = hw.blocks(
        model, " ".join(f"On day {i} the old man walked to the sea." for i in range(90)), 64
    )
    cut = cut_heads(model, "10.*, 20.*")
    asked = {"steps": 2, "batch": 4, "warmup": 0, "quiet": True, "parts": "attention"}
    found = heal(cut, rows[4:], held_out=rows[:4], control=model, **asked)
    assert found.gap_before > 0
    assert found.mended > 0
