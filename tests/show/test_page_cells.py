"""The bytes of a pattern hold what the record says, for short texts all of it."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from page_help import unpacked

import headwise as hw
from headwise.show.page.scene import Scene


@pytest.fixture(scope="module")
def record() -> hw.Record:
    torch.manual_seed(0)
    config = hw.nn.TransformerConfig(
        vocab_size=50, num_layers=2, num_heads=4, num_kv_heads=2, d_model=32, d_ff=64
    )
    model = hw.load(hw.nn.Decoder(config))
    (found,) = hw.look(model, {"input_ids": torch.randint(50, (1, 40))})
    return found


def test_a_short_text_is_kept_whole(record: hw.Record) -> None:
    found, rest, pool = unpacked(Scene(record).chunk("1.3"))
    exact = record.weights("1.3")
    seen = record.visible("1.3")
    assert np.array_equal(~np.isnan(found), seen)
    np.testing.assert_allclose(found[seen], exact[seen], atol=5e-4)
    assert not rest.any()
    assert pool is None


def test_of_a_long_text_the_strong_cells_are_kept_and_the_rest_is_told(record: hw.Record) -> None:
    exact = record.weights("0.1")
    least = float(np.median(exact[exact > 0]))
    found, rest, pool = unpacked(Scene(record, least=least, side=8).chunk("0.1"))
    strong = exact >= least
    assert np.array_equal(~np.isnan(found), strong)
    np.testing.assert_allclose(found[strong], exact[strong], atol=5e-4)
    np.testing.assert_allclose(rest, np.where(strong, 0, exact).sum(1), atol=5e-4)
    assert pool is not None
    others = record.visible("0.1") & ~strong
    block = others[35:40, 10:15]
    assert block.any()
    want = exact[35:40, 10:15][block].mean()
    np.testing.assert_allclose(pool[7, 2], want, rtol=0.02)


def test_some_rows_are_given_whole(record: hw.Record) -> None:
    found, _, _ = unpacked(Scene(record, least=0.5).rows("1.0", 7, 11))
    np.testing.assert_allclose(np.nan_to_num(found), record.weights("1.0")[7:11], atol=5e-4)
