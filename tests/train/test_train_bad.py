"""What goes wrong: losses that are no number, a full disk, texts and models that do not fit; one line each."""

from __future__ import annotations

import json
import os
import resource
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from fit_help import Counting, recipe, same, tiny, trained

import headwise as hw
from headwise.names import ConfigError, ModelError, OutputError, TextError
from headwise.nn import Encoder, EncoderDecoder, TransformerConfig, save_checkpoint
from headwise.train.checkpoints import checkpoints
from headwise.train.data import Batch
from headwise.train.log import read_log
from headwise.train.starting import resume

TEXT = "".join(f"{n} men went to mow a meadow, {n - 1} men and their dogs.\n" for n in range(2, 90))
CONFIG = {
    "model": {"d_model": 16, "num_layers": 1, "num_heads": 2},
    "train": {"context": 16, "rows": 4, "steps": 3, "dtype": "float32", "held_out": 0.1},
    "tokenizer": {"vocab_size": 270},
}


@dataclass(frozen=True)
class Broken(Counting):
    """A row of one step whose ids ask for what makes the loss no number."""

    at: int = 7
    row: int = 4

    def batch(self, step: int, rows: slice | None = None) -> Batch:
        whole = super().batch(step)
        ids = whole.inputs["ids"]
        if step == self.at:
            ids[self.row] = 23
        which = slice(None) if rows is None else rows
        return Batch({"ids": ids[which]}, whole.goal[which])


class Poisoned(type(tiny())):
    """A decoder in which a row of 23s gives no number; torch's NaN, not an exception."""

    bad = float("nan")

    def logits(self, hidden):
        return super().logits(hidden * self.scale)

    def hidden(self, ids, *given, **named):
        bad = (ids == 23).all(1)
        self.scale = torch.where(bad, self.bad, 1.0)[:, None, None]
        return super().hidden(ids, *given, **named)


def poisoned(bad: float) -> Poisoned:
    torch.manual_seed(0)
    made = Poisoned(tiny().config)
    made.bad = bad
    return made


@pytest.mark.parametrize(("parts", "bad"), [(1, float("nan")), (3, float("inf"))])
def test_a_loss_that_is_no_number_stops_it(tmp_path, parts, bad):
    """It says the step and the rows; the checkpoint before stands, and a sound feed goes on from it."""
    folder = tmp_path / "run"
    asked = recipe(accumulate=parts)
    with pytest.raises(ModelError) as caught:
        trained(folder, module=poisoned(bad), feed=Broken(), recipe=asked, asked=None)
    line = str(caught.value)
    assert line.startswith("at step 7 the loss was nan in rows 4 of it and the gradients' length")
    assert "the last good checkpoint is" in line
    assert "step-00000004" in line
    assert "\n" not in line
    assert [one.name for one in checkpoints(folder / "checkpoints")] == ["step-00000004"]
    assert len(read_log(folder / "log.csv")) == 6
    assert not (folder / "model.safetensors").exists()


def test_gradients_that_are_no_number_stop_it(tmp_path):
    module = tiny()

    def hook(grad):
        return grad * float("inf") if len(read_log(tmp_path / "run" / "log.csv")) == 5 else grad

    module.final_norm.weight.register_hook(hook)
    with pytest.raises(
        ModelError, match=r"at step 6 the loss was [\d.]+ and the gradients' length (nan|inf)"
    ):
        trained(tmp_path / "run", module=module)


def test_a_held_out_loss_that_is_no_number_stops_it(tmp_path):
    class Infinite(Counting):
        def batch(self, step, rows=None):
            return Broken(at=step, row=0).batch(step, rows)

    from headwise.train.fitting import fit

    with pytest.raises(
        ModelError, match=r"the held-out loss was nan after step 4; there is no checkpoint"
    ):
        fit(poisoned(float("nan")), Counting(), Infinite(), recipe(), tmp_path / "run", quiet=True)
    assert not checkpoints(tmp_path / "run" / "checkpoints")


def test_weights_that_are_no_numbers_are_not_saved(tmp_path):
    module = tiny()

    def stop() -> bool:
        if len(read_log(tmp_path / "run" / "log.csv")) == 8:
            with torch.no_grad():
                module.final_norm.bias[3] = float("nan")
        return False

    with pytest.raises(ModelError, match=r"a weight was no number after step 8; .*step-00000004"):
        trained(tmp_path / "run", module=module, stop=stop, held=False)
    assert [one.name for one in checkpoints(tmp_path / "run" / "checkpoints")] == ["step-00000004"]


def _forked_with_limit(job, limit: int) -> str:
    """What the job's error says in a copy of this process that can write no file longer than that."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
            job()
        except OutputError as error:
            os.write(writing, str(error).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


def test_a_full_disk_leaves_the_last_good_checkpoint(tmp_path):
    """No file may grow beyond a limit, as a full disk has it: first the checkpoints, then the log."""
    whole = trained(tmp_path / "whole")
    folder = tmp_path / "run"
    stops = iter(range(1, 100))
    trained(folder, stop=lambda: next(stops) == 4)
    size = (folder / "checkpoints" / "step-00000004" / "state.safetensors").stat().st_size
    said = _forked_with_limit(lambda: trained(folder, resume=True), size - 100)
    assert "step-00000008 cannot be written: " in said
    assert "the last good one is step-00000004; make room, and go on with" in said
    assert "\n" not in said
    assert [one.name for one in checkpoints(folder / "checkpoints")] == ["step-00000004"]
    assert [one.name for one in (folder / "checkpoints").iterdir()] == ["step-00000004"]
    log = (folder / "log.csv").stat().st_size
    said = _forked_with_limit(lambda: trained(folder, resume=True), log - 20)
    assert "log" in said
    assert "cannot be written" in said
    assert same(trained(folder, resume=True), whole)


@pytest.mark.parametrize(
    ("texts", "said"),
    [
        ([], "there is no text"),
        ([""], "there is no text"),
        (["short"], "too few|fewer"),
        ([Path("nowhere.txt")], "nowhere.txt"),
        ([Path("-")], "reads none from -"),
    ],
)
def test_texts_that_cannot_be(tmp_path, texts, said):
    with pytest.raises(TextError, match=said):
        hw.fit(texts, CONFIG, tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def test_a_text_that_is_no_utf8_is_told_with_its_byte(tmp_path):
    path = tmp_path / "latin.txt"
    path.write_bytes("na\xefve".encode("latin-1"))
    with pytest.raises(TextError, match=r"latin.txt.*byte"):
        hw.fit([path], CONFIG, tmp_path / "run", quiet=True)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"model": {"num_heads": 3}}, "d_model=16 is not a multiple of num_heads=3"),
        ({"model": {"n_heads": 3}}, "num_heads"),
        (
            {"model": {"vocab_size": 100}},
            r"the tokenizer has 270 ids and the model embeds vocab_size=100",
        ),
        (
            {"model": {"class": "Encoder"}},
            "objective='causal' trains class 'Decoder'.*class 'Encoder'",
        ),
        (
            {"model": {"positions": "learned", "max_length": 8}},
            "context=16 tokens do not fit into max_length=8",
        ),
    ],
)
def test_configurations_that_cannot_be_built(tmp_path, change, said):
    config = {**CONFIG, "model": {**CONFIG["model"], **change["model"]}}
    with pytest.raises(ConfigError, match=said) as caught:
        hw.fit([TEXT], config, tmp_path / "run", quiet=True)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()


def test_without_a_model_there_is_none(tmp_path):
    with pytest.raises(ConfigError, match=r"has no \[model\]"):
        hw.fit([TEXT], {**CONFIG, "model": {}}, tmp_path / "run", quiet=True)


def test_changed_texts_are_refused_by_name(tmp_path):
    path, folder = tmp_path / "a.txt", tmp_path / "run"
    path.write_text(TEXT)
    hw.fit([path], CONFIG, folder, quiet=True)
    resume(folder, quiet=True)
    path.write_text(TEXT + "one more\n")
    with pytest.raises(
        TextError, match=r"a.txt is not what the run was begun with \([\d,]+ bytes then"
    ):
        resume(folder, quiet=True)
    path.unlink()
    with pytest.raises(TextError, match=r"a.txt"):
        resume(folder, quiet=True)
    other = tmp_path / "other"
    hw.fit([TEXT], CONFIG, other, quiet=True)
    with pytest.raises(ConfigError, match="begun from texts in memory"):
        resume(other, quiet=True)
    hw.fit([TEXT], CONFIG, other, resume=True, quiet=True)
    with pytest.raises(TextError, match="the texts is not what the run was begun with"):
        hw.fit([TEXT + "x"], CONFIG, other, resume=True, quiet=True)


def test_pairs_are_trained_from_a_file_and_from_memory(tmp_path):
    """The same pairs, so the same run; a pair's two fields may be named."""
    pairs = [(f"{n} men", f"{n} Männer auf der Wiese") for n in range(2, 60)]
    config = {**CONFIG, "train": {**CONFIG["train"], "objective": "pairs", "context": 32}}
    one = hw.fit(pairs, config, tmp_path / "one", quiet=True)
    assert isinstance(one.model, EncoderDecoder)
    said = json.loads((tmp_path / "one" / "config.json").read_text())
    assert said["decoder_start_token_id"] == said["eos_token_id"]
    path = tmp_path / "pairs.jsonl"
    path.write_text("".join(json.dumps({"en": a, "de": b}) + "\n" for a, b in pairs))
    two = hw.fit([path], config, tmp_path / "two", field="en,de", quiet=True)
    assert same(one, two)
    assert same(resume(tmp_path / "two", quiet=True), two)
    with pytest.raises(ConfigError, match="field='en' must name two fields"):
        hw.fit([path], config, tmp_path / "three", field="en", quiet=True)


def test_an_encoder_masked_and_another_start(tmp_path):
    """Masked rows train an Encoder; a run starts from the weights and the tokenizer of another."""
    config = {**CONFIG, "train": {**CONFIG["train"], "objective": "masked"}}
    run = hw.fit([TEXT], config, tmp_path / "masked", quiet=True)
    assert isinstance(run.model, Encoder)
    first = hw.fit([TEXT], CONFIG, tmp_path / "first", quiet=True)
    again = hw.fit(
        [TEXT],
        {"train": CONFIG["train"]},
        tmp_path / "again",
        init=str(tmp_path / "first"),
        quiet=True,
    )
    assert again.log[0].loss < first.log[0].loss
    assert (tmp_path / "again" / "tokenizer.json").exists()
    with pytest.raises(ConfigError, match="objective='masked' trains class 'Encoder'"):
        hw.fit(
            [TEXT],
            {"train": config["train"]},
            tmp_path / "no",
            init=str(tmp_path / "first"),
            quiet=True,
        )
    small = TransformerConfig(vocab_size=9, d_model=8, num_layers=1, num_heads=1)
    save_checkpoint(type(first.model)(small), tmp_path / "small")
    config = {"train": CONFIG["train"], "tokenizer": CONFIG["tokenizer"]}
    with pytest.raises(ConfigError, match="the model embeds vocab_size=9"):
        hw.fit([TEXT], config, tmp_path / "no", init=str(tmp_path / "small"), quiet=True)
