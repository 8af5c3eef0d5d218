"""What torch's modules cannot be called with, said in one line, and queries that may see nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from tiny_models import build
from torch import nn
from torch_help import encoder, hidden, later, sharp, watched

import headwise as hw
from headwise.names import HeadwiseError

N, L, E = 3, 5, 8

pytestmark = pytest.mark.filterwarnings("ignore:.*nested tensors", "ignore:enable_nested_tensor")


@pytest.mark.parametrize(
    ("inputs", "message"),
    [
        ({"scr": torch.randn(N, L, E)}, r"TransformerEncoder\.forward needs src, .* holds scr"),
        (
            {"src": torch.randn(N, L, E, E)},
            r"reads vectors \[batch, position, d_model\], .*3, 5, 8, 8",
        ),
        ({"input_ids": torch.ones(N, L, dtype=torch.long)}, r"reads vectors .*int64; wrap it in"),
        (
            {"src": torch.randn(N, L, E), "src_key_padding_mask": hidden(5, 0, 3)},
            "a row of the batch is all padding",
        ),
        ("a text", "TransformerEncoder has no tokenizer"),
    ],
)
def test_a_stack_called_with_what_it_cannot_read(inputs: Any, message: str) -> None:
    with pytest.raises(HeadwiseError, match=message):
        hw.look(hw.load(encoder()), inputs)


def test_a_pair_of_stacks_without_its_second_input() -> None:
    module = sharp(nn.Transformer(E, 2, 1, 1, 16))
    with pytest.raises(
        HeadwiseError, match=r"Transformer\.forward needs tgt, and the batch holds src"
    ):
        hw.look(hw.load(module), {"src": torch.randn(L, N, E)})


def test_a_query_that_may_see_nothing_is_zero_where_the_fused_call_makes_it_nan() -> None:
    module = encoder().layers[0]
    mask = later(L)
    mask[2] = True
    x = torch.randn(N, L, E)
    with torch.no_grad():
        own = module(x, src_mask=mask)
        looked, ((_, _, z),) = watched(module, x, src_mask=mask)
    others = [0, 1, 3, 4]
    torch.testing.assert_close(looked[:, others], own[:, others], atol=1e-6, rtol=0)
    assert own[:, 2].isnan().all()
    assert looked.isfinite().all()
    assert (z[:, :, 2] == 0).all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_is_as_exact_as_it_can_be(dtype: torch.dtype) -> None:
    module = encoder().to(dtype)
    inputs = {"src": torch.randn(N, L, E).to(dtype), "src_key_padding_mask": hidden(5, 2, 3)}
    for record in hw.look(hw.load(module), inputs):
        assert 0 < record.verified < 0.05


def test_in_inference_mode() -> None:
    module = encoder()
    with torch.inference_mode():
        x, masks = torch.randn(N, L, E), {"mask": later(L)}
        own = module(x, **masks)
        looked, seen = watched(module, x, **masks)
    torch.testing.assert_close(looked, own, atol=3e-6, rtol=0)
    assert [repr(scores.mask) for scores, _, _ in seen] == ["causal()"] * 2


def test_what_pools_a_tower_is_a_stream_of_its_own() -> None:
    module = build("siglip")
    ids = [str(layer.id) for layer in hw.load(module).anatomy.layers]
    assert ids[-3:] == ["vision_model.0", "vision_model.1", "vision_model_head.0"]
