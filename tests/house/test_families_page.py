"""docs/*/families.md say what the classes of the pinned transformers say, and tiny models bear it out."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path

import pytest
import transformers

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests" / "hub"))

from tiny_models import REFUSED, TABLE  # noqa: E402


def _script():
    spec = importlib.util.spec_from_file_location(
        "families_page", ROOT / "docs" / "en" / "families.py"
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["families_page"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def script():
    return _script()


@pytest.fixture(scope="module")
def found(script):
    return script.families()


@pytest.mark.parametrize("language", ["en", "zh-CN"])
def test_the_page_is_what_the_classes_say(script, found, language: str) -> None:
    text = script.path(language).read_text(encoding="utf-8")
    written = re.search(r"^#.*transformers ([\d.]+)", text)
    assert written is not None
    if transformers.__version__ != written[1]:
        pytest.skip(f"the page is of transformers {written[1]}, here is {transformers.__version__}")
    if importlib.util.find_spec("torchaudio"):
        pytest.skip("with torchaudio there are families that headwise's own requirements leave out")
    assert text == script.page(found, language), "run python docs/en/families.py"


@pytest.mark.parametrize("name", [*TABLE, *REFUSED])
def test_tiny_models_bear_it_out(name: str, script, found) -> None:
    """What is listed as looked into passes in test_families, and what is refused there is listed so."""
    family = {**TABLE, **REFUSED}[name]
    file = getattr(transformers, family.model).__module__.split(".")[-2]
    seen = {script.LOOKED_INTO, script.FOLLOWED, script.IN_PART, script.COMPOSED}
    verdict = found[file].verdict
    assert verdict in (seen if name in TABLE else {script.REFUSED, script.IN_PART})
