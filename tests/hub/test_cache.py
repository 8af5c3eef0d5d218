from __future__ import annotations

import errno
import json
import threading
import time

import pytest

from headwise.hub import formats
from headwise.hub.cache import cached
from headwise.hub.get import get
from headwise.names import ModelError


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


def test_what_a_killed_process_left_is_swept(cache, leftovers, run):
    code = (
        "import os\nfrom headwise.hub.cache import cached\n"
        "def build(scratch, target):\n"
        "    (target / 'config.json').write_text('{')\n    os._exit(9)\n"
        "cached('entry', 'test 1', build, needs=0, quiet=True)"
    )
    killed = run(code, {"HEADWISE_CACHE": str(cache.parent)}, check=False)
    assert killed.returncode == 9
    assert len(leftovers()) == 1
    assert not (cache / "entry").exists()

    def build(scratch, target):
        (target / "config.json").write_text("{}")
        return {}

    folder = cached("entry", "test 1", build, needs=0, quiet=True)
    assert (folder / "config.json").read_text() == "{}"
    assert leftovers() == []


def test_no_room(cache):
    with pytest.raises(ModelError, match=r"needs 1000000000 MB .* set HEADWISE_CACHE"):
        cached("entry", "test 1", lambda scratch, target: {}, needs=10**15, quiet=True)


def test_a_disk_that_fills_up(cache, leftovers):
    def build(scratch, target):
        raise OSError(errno.ENOSPC, "No space left on device", str(target))

    with pytest.raises(ModelError, match=r"disk is full; set HEADWISE_CACHE"):
        cached("entry", "test 1", build, needs=0, quiet=True)
    assert leftovers() == []


def test_a_cache_that_cannot_be_written(tmp_path, monkeypatch):
    file = tmp_path / "file"
    file.write_text("")
    monkeypatch.setenv("HEADWISE_CACHE", str(file))
    with pytest.raises(ModelError, match="cannot write the model cache at"):
        cached("entry", "test 1", lambda scratch, target: {}, needs=0, quiet=True)


def test_a_model_in_the_cache_is_found_without_heavy_imports(tiny, cache, run):
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
