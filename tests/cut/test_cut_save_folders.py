"""A folder is replaced whole, or stays as it was; what is not a checkpoint is left alone."""

from __future__ import annotations

import errno
import json
from pathlib import Path

import pytest
import safetensors.torch
import torch

import headwise as hw
from headwise import files
from headwise.files import replacing_folder
from headwise.names import ModelError, OutputError
from headwise.nn import Encoder, TransformerConfig, writing


def model(seed: int = 0, **further) -> hw.Model:
    torch.manual_seed(seed)
    made = {"vocab_size": 31, "d_model": 24, "num_layers": 1, "num_heads": 6, **further}
    return hw.load(Encoder(TransformerConfig(**made)))


def first(folder: Path) -> torch.Tensor:
    return hw.load(folder).module.embedding.tokens.weight


def everything(folder: Path) -> dict[str, bytes]:
    return {str(p.relative_to(folder)): p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_an_old_checkpoint_is_replaced_whole(tmp_path: Path) -> None:
    one, other = model(1), model(2)
    hw.save(one, tmp_path / "m", max_shard_size=2000)
    hw.save(other, tmp_path / "m")
    assert torch.equal(first(tmp_path / "m"), other.module.embedding.tokens.weight)
    assert sorted(everything(tmp_path / "m")) == ["config.json", "model.safetensors"]
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_a_model_is_saved_over_the_folder_it_came_from(tmp_path: Path) -> None:
    hw.save(model(1), tmp_path / "m")
    before = everything(tmp_path / "m")
    hw.save(hw.load(tmp_path / "m"), tmp_path / "m")
    assert everything(tmp_path / "m") == before


FAILURES = {
    "a full disk": OSError(errno.ENOSPC, "No space left on device"),
    "a full disk, as safetensors says it": safetensors.SafetensorError(
        "Error while serializing: I/O error: No space left on device (os error 28)"
    ),
    "Ctrl-C": KeyboardInterrupt(),
}


@pytest.mark.parametrize("why", FAILURES)
@pytest.mark.parametrize("there", [True, False])
def test_a_failure_leaves_the_old_checkpoint(
    why: str, there: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if there:
        hw.save(model(1), tmp_path / "m")
    before = everything(tmp_path)
    written: list[Path] = []

    def failing(part, path: Path, metadata) -> None:
        if written:
            raise FAILURES[why]
        written.append(path)
        safetensors.torch.save_file(part, path, metadata=metadata)

    monkeypatch.setattr(writing, "save_file", failing)
    expected = KeyboardInterrupt if why == "Ctrl-C" else OutputError
    with pytest.raises(expected, match=None if why == "Ctrl-C" else "/m: No space left on device;"):
        hw.save(model(2), tmp_path / "m", max_shard_size=2000)
    assert written
    assert everything(tmp_path) == before
    assert len(list(tmp_path.iterdir())) == there


@pytest.mark.parametrize("error", [KeyboardInterrupt(), OSError(errno.EIO, "Input/output error")])
def test_a_failure_between_the_two_moves_puts_the_old_folder_back(
    error: BaseException, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hw.save(model(1), tmp_path / "m")
    before = everything(tmp_path)
    rename, moves = Path.rename, []

    def failing(self: Path, target: Path) -> Path:
        moves.append(self)
        if len(moves) == 2:
            raise error
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", failing)
    with pytest.raises(KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else OutputError):
        hw.save(model(2), tmp_path / "m")
    assert len(moves) == 3
    assert everything(tmp_path) == before


def test_what_would_be_lost_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    hw.save(model(1), folder)
    for name in ("notes.txt", "train.py", "a", "b"):
        (folder / name).write_text("mine")
    before = everything(tmp_path)
    with pytest.raises(OutputError, match=r"it holds a, b, notes\.txt and 1 more, which would be"):
        hw.save(model(2), folder)
    assert everything(tmp_path) == before


@pytest.mark.parametrize(
    "name",
    ["optimizer.bin", "training_args.bin", "adapter_model.safetensors", "sae_layer3.safetensors"],
)
def test_weights_that_are_not_the_models_are_not_lost(name: str, tmp_path: Path) -> None:
    hw.save(model(1), tmp_path / "m")
    (tmp_path / "m" / name).write_bytes(b"mine")
    before = everything(tmp_path)
    with pytest.raises(OutputError, match=f"it holds {name}, which would be lost"):
        hw.save(model(2), tmp_path / "m")
    assert everything(tmp_path) == before


def test_an_old_index_names_what_goes_but_no_notes(tmp_path: Path) -> None:
    folder = tmp_path / "m"
    hw.save(model(1), folder)
    shards = {"a": "part[1].bin", "b": "tokenizer.model", "c": "notes.txt", "d": 3}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": shards}))
    for name in ("part[1].bin", "tokenizer.model", "generation_config.json"):
        (folder / name).write_text("old")
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(OutputError, match=r"it holds notes\.txt, which would"):
        hw.save(model(2), folder)
    (folder / "notes.txt").unlink()
    hw.save(model(2), folder)
    assert sorted(everything(folder)) == ["config.json", "model.safetensors"]


def test_a_folder_of_another_kind_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"colour": "blue"}')
    with pytest.raises(OutputError, match=r"it holds a config\.json and no weights"):
        hw.save(model(), tmp_path)
    assert everything(tmp_path) == {"config.json": b'{"colour": "blue"}'}


def test_an_empty_folder_is_filled(tmp_path: Path) -> None:
    (tmp_path / "m").mkdir()
    hw.save(model(), tmp_path / "m")
    assert sorted(everything(tmp_path / "m")) == ["config.json", "model.safetensors"]


def test_a_link_stays_a_link(tmp_path: Path) -> None:
    hw.save(model(1), tmp_path / "real")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    other = model(2)
    hw.save(other, tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert torch.equal(first(tmp_path / "real"), other.module.embedding.tokens.weight)


def test_permissions_stay(tmp_path: Path) -> None:
    hw.save(model(1), tmp_path / "m")
    (tmp_path / "m").chmod(0o750)
    hw.save(model(2), tmp_path / "m")
    assert (tmp_path / "m").stat().st_mode & 0o777 == 0o750


def test_paths_where_no_folder_can_be_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("text")
    for path, says in (
        (tmp_path / "file", "it is a file, and a folder is to be written"),
        (tmp_path / "nowhere" / "m", "No such file or directory"),
        (tmp_path / "file" / "m", "Not a directory"),
        ("a\0b", "null"),
    ):
        with pytest.raises(OutputError, match=says):
            hw.save(model(), path)
    monkeypatch.setattr(files.os, "access", lambda place, how: place != tmp_path)
    with pytest.raises(OutputError, match="Permission denied"):
        hw.save(model(), tmp_path / "m")
    assert sorted(everything(tmp_path)) == ["file"]


@pytest.mark.usefixtures("unchecked")
def test_only_a_model_is_saved(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"save takes a model from load\(\.\.\.\), came Encoder"):
        hw.save(model().module, tmp_path / "m")


def test_a_new_folder_may_appear_while_it_is_written(tmp_path: Path) -> None:
    def write() -> None:
        with replacing_folder(tmp_path / "m", "the model", ()) as place:
            (place / "new").write_text("new")
            (tmp_path / "m").mkdir()
            (tmp_path / "m" / "notes.txt").write_text("mine")

    with pytest.raises(OutputError, match=r"notes\.txt, which would be lost"):
        write()
    assert everything(tmp_path) == {"m/notes.txt": b"mine"}
