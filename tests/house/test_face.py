"""The public face: what __all__ names is there, and is imported only when used."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import headwise

SOURCE = Path(headwise.__file__)


def test_all_is_what_is_offered():
    assert sorted(headwise.__all__) == sorted(headwise._HOMES)
    assert list(headwise.__all__) == sorted(headwise.__all__)


def test_type_checkers_see_the_same_names():
    tree = ast.parse(SOURCE.read_text(encoding="utf-8"))
    block = next(n for n in tree.body if isinstance(n, ast.If) and "TYPE_CHECKING" in ast.dump(n))
    seen = {alias.asname for node in block.body for alias in node.names}
    assert seen == set(headwise.__all__)


@pytest.mark.parametrize("name", headwise.__all__)
def test_every_name_is_there_and_documented(name):
    value = getattr(headwise, name)
    assert (value.__doc__ or "").strip()


def test_a_wrong_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no attribute 'loook'"):
        headwise.loook  # noqa: B018


def test_importing_headwise_imports_nothing_heavy():
    code = (
        "import headwise, sys; print([m for m in ('torch', 'numpy', 'rich') if m in sys.modules])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"


def test_submodules_do_not_shadow_names():
    code = (
        "import headwise as hw, headwise.see.looking, headwise.core.masks, headwise.hub.load\n"
        "print(callable(hw.look), callable(hw.load), callable(hw.attend), hw.masks.causal())"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == ["True", "True", "True", "causal()"]


def test_dir_lists_the_public_names_alone():
    code = "import headwise as hw; hw.Profiler; print(*[n for n in dir(hw) if n[:2] != '__'])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.split() == headwise.__all__
    probes = [name for name in dir(headwise.probes) if not name.startswith("__")]
    assert probes == sorted(headwise.probes.__all__)
