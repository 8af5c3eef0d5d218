"""Where results go: files replaced whole, links kept, pipes written into, folders refused."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from cli_help import Cli, environment

import headwise as hw
from headwise.files import replacing
from headwise.names import OutputError
from headwise.nn import Decoder, TransformerConfig
from headwise.show.grid import grid_of_summaries
from headwise.show.pictures import draw_grid, save

Writer = Callable[[Path], None]


@pytest.fixture(scope="module")
def record() -> hw.Record:
    torch.manual_seed(0)
    decoder = Decoder(TransformerConfig(vocab_size=20, d_model=16, num_layers=2, num_heads=2))
    (record,) = hw.look(hw.load(decoder), {"input_ids": torch.tensor([[3, 4, 5]])})
    return record


@pytest.fixture(params=["record", "png", "svg", "json"])
def writer(request: pytest.FixtureRequest, record: hw.Record, cli: Cli, folder: Path) -> Writer:
    """Writes one kind of result to a path; OutputError where it cannot."""

    def json(path: Path) -> None:
        answer = cli("look", "a cat", "--model", folder, "--json", path)
        if answer.code:
            assert len(answer.err.strip().splitlines()) == 1
            raise OutputError(answer.err)

    def picture(path: Path) -> None:
        save(draw_grid(grid_of_summaries(hw.summarise(record)), caption="c"), path)

    kinds: dict[str, Writer] = {"record": record.save, "json": json}
    return kinds.get(request.param, picture)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    """A name that the writer of this test takes."""
    kind = request.node.callspec.params.get("writer", "json")
    return "result." + {"record": "safetensors"}.get(kind, kind)


@contextmanager
def reading(fifo: Path) -> Iterator[list[bytes]]:
    """Reads what is written into a pipe, into a list of one."""
    held: list[bytes] = []
    thread = threading.Thread(target=lambda: held.append(fifo.read_bytes()), daemon=True)
    thread.start()
    yield held
    thread.join(timeout=60)


def is_result(data: bytes) -> bool:
    starts = (b"{\n", b"\x89PNG", b"<?xml")
    return data.startswith(starts) or b'"__metadata__"' in data[:40]


def test_a_pipe_is_written_into(writer: Writer, name: str, tmp_path: Path) -> None:
    fifo = tmp_path / name
    os.mkfifo(fifo)
    with reading(fifo) as held:
        writer(fifo)
        replaced = not stat.S_ISFIFO(fifo.stat().st_mode)
        if replaced:
            fifo.unlink()
            pytest.fail("the pipe was replaced by a file")
    assert is_result(held[0])
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_a_link_stays_and_its_target_is_replaced(writer: Writer, name: str, tmp_path: Path) -> None:
    (tmp_path / "far").mkdir()
    (tmp_path / "near").mkdir()
    target, link = tmp_path / "far" / "target", tmp_path / "near" / name
    link.symlink_to(Path("..") / "far" / "target")
    for old in (None, "old"):  # a link to nothing yet, then to a file
        if old:
            target.write_text(old)
        writer(link)
        assert link.is_symlink()
        assert is_result(target.read_bytes())
    assert [p.name for p in (tmp_path / "near").iterdir()] == [name]
    assert [p.name for p in (tmp_path / "far").iterdir()] == ["target"]


def test_a_folder_is_refused(
    writer: Writer, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    for path in (tmp_path / name, Path(name)):
        with pytest.raises(OutputError, match="it is a folder"):
            writer(path)
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_the_folder_we_are_in_is_refused(record: hw.Record, cli: Cli, folder: Path) -> None:
    with pytest.raises(OutputError, match="it is a folder"):
        record.save(".")
    answer = cli("look", "a cat", "--model", folder, "--json", ".")
    assert (answer.code, answer.out) == (1, "")
    assert "headwise: the JSON cannot be written to .: it is a folder" in answer.err


def test_permissions_stay(writer: Writer, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_text("old")
    path.chmod(0o640)
    writer(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert is_result(path.read_bytes())


def test_a_new_file_has_the_usual_permissions(writer: Writer, name: str, tmp_path: Path) -> None:
    usual = tmp_path / "usual"
    usual.write_text("")
    writer(tmp_path / name)
    assert (tmp_path / name).stat().st_mode == usual.stat().st_mode


@pytest.mark.skipif(not Path("/dev/fd").exists(), reason="needs /dev/fd")
def test_a_process_substitution(folder: Path) -> None:
    """`headwise look ... --json >(cat)`."""
    read, write = os.pipe()
    code = "from headwise.cli import main; main()"
    command = [sys.executable, "-c", code, "look", "it", "--model", str(folder)]
    done = subprocess.run(
        [*command, "--json", f"/dev/fd/{write}"],
        pass_fds=[write],
        capture_output=True,
        env=environment(),
        timeout=120,
        check=False,
    )
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data = pipe.read()
    assert (done.returncode, done.stderr) == (0, b"")
    assert is_result(data)


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), KeyError("bug")])
def test_a_failure_leaves_nothing_and_the_old(tmp_path: Path, error: Exception) -> None:
    path = tmp_path / "old"
    path.write_text("old")
    wanted = OutputError if isinstance(error, OSError) else KeyError

    def fail() -> None:
        with replacing(path, "it") as place:
            place.write_text("half")
            raise error

    with pytest.raises(wanted, match=r"No space left on device|bug"):
        fail()
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["old"]


def test_paths_that_lead_nowhere(tmp_path: Path) -> None:
    loop, lost = tmp_path / "loop", tmp_path / "lost"
    loop.symlink_to(loop)
    lost.symlink_to(tmp_path / "missing" / "file")
    file = tmp_path / "file"
    file.write_text("old")
    for path, reason in (
        (loop, "symbolic link|Symlink loop"),
        (lost, "No such file or directory"),
        (file / "below", "Not a directory"),
        (tmp_path / "missing" / "file", "No such file or directory"),
        (tmp_path / "a\0b", "null"),
        (tmp_path / ("x" * 300), "name too long"),
    ):
        made = pytest.raises(OutputError, match=f"it cannot be written to .*({reason})")
        with made as error, replacing(path, "it"):
            pytest.fail("nothing may be made for a path that cannot be written")
        assert "\n" not in str(error.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_what_may_not_be_written(tmp_path: Path) -> None:
    read_only = tmp_path / "file"
    read_only.write_text("old")
    read_only.chmod(0o444)
    with pytest.raises(OutputError, match="Permission denied"), replacing(read_only, "it"):
        pass
    assert read_only.read_text() == "old"
