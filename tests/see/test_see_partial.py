"""The rest of a stopped run on disk, and the texts it was read from."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

import headwise as hw
from headwise.names import ModelError, TextError
from headwise.nn import Decoder, TransformerConfig
from headwise.see.profile.partial import (
    OtherTextsError,
    Partial,
    Read,
    ReadTexts,
    check_made_with,
    load_partial,
    save_partial,
    weights_of,
)

PARTIAL = Partial(
    {"context": "64", "weights": "小"},
    frozenset([0, 1, 2, 5, 9]),
    (Read(7, "abc", True), Read(7, "def")),
    {
        "settings": "{}",
        "texts": np.array(7),
        "cross.0/sum": np.arange(6.0).reshape(2, 3).T,
        "none": np.zeros((0, 3)),
        "flags": np.array([True, False]),
    },
)


@pytest.mark.parametrize("batches", [[], [0, 1, 2, 5, 9], [1], [0], [0, 1, 2]])
def test_what_is_saved_comes_back(tmp_path: Path, batches: list[int]) -> None:
    path = tmp_path / "a.nc.partial"
    partial = replace(PARTIAL, batches=frozenset(batches))
    save_partial(partial, path)
    back = load_partial(path)
    assert back is not None
    assert back.batches == partial.batches
    assert (back.made_with, back.reads) == (partial.made_with, partial.reads)
    assert back.state.keys() == partial.state.keys()
    for name, value in partial.state.items():
        np.testing.assert_array_equal(back.state[name], value)
        assert np.shape(back.state[name]) == np.shape(value)
    assert load_partial(tmp_path / "missing") is None


def test_what_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "a.nc.partial"
    save_partial(PARTIAL, path)
    data = path.read_bytes()
    for broken in (
        b"",
        data[:40],
        data[:-8],
        data.replace(b"headwise_partial", b"other_partial___"),
    ):
        path.write_bytes(broken)
        with pytest.raises(ModelError, match=r"partial cannot be read .*remove it"):
            load_partial(path)


def test_other_settings_are_named() -> None:
    check_made_with(PARTIAL, {"weights": "小", "context": "64"}, Path("p"))
    for other in ({"context": "32"}, {"pool": "4"}):
        with pytest.raises(ModelError, match=rf"with {next(iter(other))} \w+, this run has"):
            check_made_with(PARTIAL, {**PARTIAL.made_with, **other}, Path("p"))


def test_models_are_told_apart() -> None:
    def model(seed: int, **fields: int) -> hw.Model:
        torch.manual_seed(seed)
        config = {"vocab_size": 20, "d_model": 16, "num_layers": 2, "num_heads": 2, **fields}
        return hw.load(Decoder(TransformerConfig(**config)))  # type: ignore[arg-type]

    one = weights_of(model(0))
    assert weights_of(model(0)) == one
    assert weights_of(model(1)) != one
    assert (
        weights_of(model(0, num_heads=4)) == one
    )  # the same weights: the table's shape tells them apart
    changed = model(0)
    with torch.no_grad():
        list(changed.module.parameters())[-1].view(-1)[-1] += 1
    assert weights_of(changed) != one
    assert weights_of(hw.load(model(0).module, dtype="bfloat16")) != one


def read(texts: list[str], expected: Read | None = None, stop: int | None = None) -> Read:
    reader = ReadTexts(texts, expected)
    for i, _ in enumerate(reader, 1):
        if i == stop:
            break
    return reader.read


def test_texts_are_followed() -> None:
    texts = ["a", "b", "c"]
    two, whole = read(texts, stop=2), read(texts)
    assert (two.count, two.ended) == (2, False)
    assert (whole.count, whole.ended) == (3, True)
    assert read(["a", "b", "d"], stop=2) == two
    assert read(["ab", ""], stop=2) != two
    assert read(texts, expected=two) == whole
    assert read([*texts, "d"], expected=two).count == 4
    for other, how in ((["a", "x", "c"], "others"), (["a"], "fewer"), ([], "fewer")):
        with pytest.raises(OtherTextsError, match=f"the texts are {how} than"):
            read(other, expected=two)
    with pytest.raises(OtherTextsError, match="the texts are more than"):
        read([*texts, "d"], expected=whole)


def test_a_fault_ends_the_texts_and_is_kept() -> None:
    def faulty() -> object:
        yield "a"
        raise TextError("line 2")

    reader = ReadTexts(faulty())  # type: ignore[arg-type]
    assert list(reader) == ["a"]
    assert str(reader.fault) == "line 2"
    assert reader.read == read(["a", "b"], stop=1)
