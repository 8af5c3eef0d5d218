"""What the sweep of causal language models found is explained, and covers the types of the release."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "benchmarks"), str(ROOT / "benchmarks" / "sweep")]

from explained import UNEXPLAINED, explained  # noqa: E402
from shrink import TYPES, config_class, tiny  # noqa: E402
from table import lines, unclean  # noqa: E402

RESULTS = ROOT / "benchmarks" / "results"
KNOWN = {"roformer", "big_bird", "rembert", "megatron-bert", "doge"}


def _rows(release: str) -> list[dict]:
    return json.loads((RESULTS / f"sweep-{release}.json").read_text())["rows"]


@pytest.fixture(scope="module")
def rows() -> list[dict]:
    return _rows("5.24.0")


def test_at_least_190_types_are_built_and_audited(rows) -> None:
    run = [row["type"] for row in rows if row.get("outcomes")]
    assert len(set(run)) >= 190
    assert all(row.get("outcomes") or row["why"] for row in rows)


@pytest.mark.parametrize("release", ["5.24.0", "5.17.0"])
def test_every_verdict_that_is_not_clean_is_explained(release) -> None:
    for row in _rows(release):
        for dimension in unclean(row):
            assert explained(row, dimension, release) != UNEXPLAINED, (row["type"], dimension)


def test_the_five_known_leaks_of_an_older_release_are_found_and_mended_since(rows) -> None:
    found = {row["type"] for row in _rows("5.17.0") if "future" in unclean(row)}
    since = {row["type"] for row in rows if "future" in unclean(row)}
    assert found >= KNOWN
    assert not since & KNOWN


def test_a_row_that_nobody_explained_says_so() -> None:
    outcome = {"dimension": "future", "case": "", "verdict": "leak", "strength": 0.5}
    row = {
        "type": "llama",
        "class": "LlamaForCausalLM",
        "layers": ["2 alike"],
        "outcomes": [outcome],
    }
    assert explained(row, "future", "5.24.0") == UNEXPLAINED
    assert any(UNEXPLAINED in line for line in lines([row], "5.24.0"))


@pytest.mark.parametrize("kind", ["gemma3_text", "qwen2", "bamba", "reformer"])
def test_a_tiny_config_is_small_and_keeps_every_kind_of_layer(kind) -> None:
    config, kinds = tiny(kind), set(_layers(config_class(kind)()))
    assert config.hidden_size <= 64
    assert config.vocab_size < 100
    assert len(_layers(config)) >= 2
    assert set(_layers(config)) >= kinds


def _layers(config) -> list[str]:
    return next(
        list(found)
        for name in ("layer_types", "attn_layers")
        if (found := getattr(config, name, None))
    )


def test_types_are_those_of_the_installed_release() -> None:
    assert {"llama", "mamba", "xlnet"} <= set(TYPES)
