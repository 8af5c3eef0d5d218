"""Stacks of torch.nn: their fused inference gives what comes out looked at, and all is put back afterwards."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch_help import additive, attentions, encoder, hidden, later, sharp, watched

import headwise as hw
from headwise.core.taps import Tap, tapped
from headwise.hub.routes.torch_attention import opened
from headwise.names import ShapeError

LENGTHS = (5, 2, 4)
N, L, E, H = 3, 5, 8, 2

pytestmark = pytest.mark.filterwarnings("ignore:.*nested tensors", "ignore:enable_nested_tensor")


def layers() -> dict[str, Callable[[], nn.Module]]:
    return {
        "encoder": encoder,
        "pre-norm": lambda: encoder(norm_first=True),
        "gelu": lambda: encoder(activation="gelu"),
        "no bias": lambda: encoder(bias=False),
        "layer": lambda: sharp(nn.TransformerEncoderLayer(E, H, 16, batch_first=True)),
        "attention": lambda: sharp(nn.MultiheadAttention(E, H, batch_first=True)),
        "normed": lambda: sharp(
            nn.TransformerEncoder(
                nn.TransformerEncoderLayer(E, H, 16, batch_first=True), 2, nn.LayerNorm(E)
            )
        ),
    }


def masks_of(module: nn.Module) -> dict[str, dict[str, Any]]:
    """Masks by name, under the names this module takes them by."""
    lone = isinstance(module, nn.MultiheadAttention)
    padding = "key_padding_mask" if lone else "src_key_padding_mask"
    causal = "mask" if isinstance(module, nn.TransformerEncoder) else "src_mask"
    causal = "attn_mask" if lone else causal
    return {
        "none": {},
        "padding": {padding: hidden(*LENGTHS)},
        "padding, wider than any": {padding: hidden(4, 2, 3, width=L)},
        "padding on the left": {padding: hidden(*LENGTHS, left=True)},
        "padding, added": {padding: additive(hidden(*LENGTHS))},
        "causal": {causal: later(L)},
        "causal, hinted": {causal: later(L), "is_causal": True},
        "both": {causal: later(L), padding: hidden(*LENGTHS)},
        "each head": {causal: later(L).expand(N * H, L, L)},
    }


def call(module: nn.Module, x: Tensor, masks: dict[str, Any]) -> tuple[Any, ...]:
    return (x, x, x) if isinstance(module, nn.MultiheadAttention) else (x,)


class Fused:
    """Counts the calls of torch's fused inference."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls = 0
        for name in ("_transformer_encoder_layer_fwd", "_native_multi_head_attention"):
            monkeypatch.setattr(torch, name, self._counted(getattr(torch, name)))

    def _counted(self, own: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*args: Any) -> Any:
            self.calls += 1
            return own(*args)

        return counted


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("masks", masks_of(nn.Linear(1, 1)))
@pytest.mark.parametrize("kind", layers())
def test_fused_inference_and_looking_agree_everywhere(
    kind: str, masks: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everywhere: also at padding, which the encoder zeroes when it runs nested."""
    module = layers()[kind]().to(dtype)
    x = torch.randn(N, L, E, generator=torch.Generator().manual_seed(1)).to(dtype)
    chosen = {
        name: mask.to(dtype) if isinstance(mask, Tensor) and mask.is_floating_point() else mask
        for name, mask in masks_of(module)[masks].items()
    }
    fused = Fused(monkeypatch)
    with torch.no_grad():
        own = module(*call(module, x, chosen), **chosen)
        ran_fused, fused.calls = fused.calls, 0
        looked, seen = watched(module, *call(module, x, chosen), **chosen)
        assert fused.calls == 0
        again = module(*call(module, x, chosen), **chosen)
    unfused = kind == "no bias" or (kind, masks) == ("attention", "padding, added")
    assert (ran_fused > 0) != unfused
    own, looked, again = (y[0] if isinstance(y, tuple) else y for y in (own, looked, again))
    close = 1e-12 if dtype is torch.float64 else 3e-6
    torch.testing.assert_close(looked, own, atol=close, rtol=0)
    assert torch.equal(again, own)
    assert fused.calls == ran_fused
    assert len(seen) == len(attentions(module))


@pytest.mark.parametrize("enabled", [True, False])
def test_all_is_put_back_whatever_happens(enabled: bool) -> None:
    module = encoder()
    before = torch.backends.mha.get_fastpath_enabled()
    state = [dict(part.__dict__) for part in module.modules()]
    torch.backends.mha.set_fastpath_enabled(enabled)
    try:
        with opened(module):
            with opened(module):  # within itself: once is enough
                assert len(watched(module, torch.randn(N, L, E))[1]) == 2
            assert len(watched(module, torch.randn(N, L, E))[1]) == 2
        with pytest.raises(ShapeError):
            watched(module, torch.randn(N, L, E), later(L)[:3], gate=torch.ones(H))
        assert torch.backends.mha.get_fastpath_enabled() is enabled
    finally:
        torch.backends.mha.set_fastpath_enabled(before)
    assert [dict(part.__dict__) for part in module.modules()] == state


def test_layers_without_a_tap_stay_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    module = encoder()
    x, masks = torch.randn(N, L, E), {"src_key_padding_mask": hidden(*LENGTHS)}
    fused = Fused(monkeypatch)
    with torch.no_grad():
        own = module(x, **masks)
        fused.calls = 0
        with opened(module), tapped({module.layers[1].self_attn: Tap()}):
            out = module(x, **masks)
    assert fused.calls == 1
    torch.testing.assert_close(out, own, atol=1e-6, rtol=1e-6)


def test_a_forward_that_was_put_on_an_instance_stays() -> None:
    """accelerate places its hooks so."""
    module = encoder()
    part = module.layers[1].self_attn
    ran: list[int] = []
    own = part.forward

    def hooked(*args: Any, **kwargs: Any) -> Any:
        ran.append(1)
        return own(*args, **kwargs)

    part.forward = hooked
    _, seen = watched(module, torch.randn(N, L, E))
    assert (len(ran), len(seen)) == (1, 2)
    assert part.forward is hooked


@pytest.mark.parametrize("masks", ["none", "padding", "causal", "both"])
@pytest.mark.parametrize("batch_first", [True, False])
def test_gradients_in_training_are_the_modules_own(masks: str, batch_first: bool) -> None:
    module = encoder(batch_first, dropout=0.2).train()
    x = torch.randn(N, L, E).requires_grad_()
    chosen = masks_of(module)[masks]

    def gradients(watch: bool) -> list[Tensor]:
        torch.manual_seed(5)
        y = x if batch_first else x.transpose(0, 1)
        out = watched(module, y, **chosen)[0] if watch else module(y, **chosen)
        return list(torch.autograd.grad(out.square().sum(), [x, *module.parameters()]))

    for mine, own in zip(gradients(True), gradients(False), strict=True):
        assert torch.equal(mine, own)


@pytest.mark.parametrize("head", ["0.1", "1.0"])
def test_a_gate_within_a_stack_is_a_cut_of_that_head(head: str) -> None:
    module = encoder()
    model = hw.load(module)
    id = hw.HeadId.parse(head)
    (layer,) = [part for part in model.anatomy.layers if part.id == id.layer_id]
    x, masks = torch.randn(N, L, E), {"src_key_padding_mask": hidden(*LENGTHS)}
    gate = torch.ones(H)
    with torch.no_grad():
        own = module(x, **masks)
        with model.open(), tapped({layer.module: Tap(gate=gate)}):
            torch.testing.assert_close(module(x, **masks), own, atol=1e-6, rtol=1e-6)
        gate[id.head] = 0.0
        with model.open(), tapped({layer.module: Tap(gate=gate)}):
            gated = module(x, **masks)
        size = E // H
        layer.module.out_proj.weight[:, id.head * size : (id.head + 1) * size] = 0.0
        torch.testing.assert_close(gated, module(x, **masks), atol=1e-6, rtol=1e-6)
    assert (gated - own).abs().max() > 0.01


def test_a_meter_computes_what_comes_out() -> None:
    from headwise.core.streaming import Wanted, measure

    module = encoder()
    x, masks = torch.randn(N, L, E), {"src_key_padding_mask": hidden(*LENGTHS)}
    entropies: list[Tensor] = []

    def meter(scores: Any, v: Tensor) -> Tensor:
        z, statistics = measure(scores, v, Wanted())
        entropies.append(statistics.entropy)
        return z

    with torch.no_grad():
        own = module(x, **masks)
        taps = dict.fromkeys(attentions(module), Tap(meter=meter))
        with opened(module), tapped(taps):
            out = module(x, **masks)
        _, seen = watched(module, x, **masks)
    torch.testing.assert_close(out, own, atol=1e-6, rtol=1e-6)
    for entropy, (scores, _, _) in zip(entropies, seen, strict=True):
        rows = scores.rows()
        torch.testing.assert_close(entropy, torch.special.entr(rows).sum(-1), atol=1e-5, rtol=0)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize(
    "masks", ["none", "padding", "padding, wider than any", "padding on the left", "both"]
)
def test_records_of_vectors_are_one_for_each_sequence(masks: str, batch_first: bool) -> None:
    module = encoder(batch_first)
    x = torch.randn(N, L, E, generator=torch.Generator().manual_seed(2))
    chosen = masks_of(module)[masks]
    model = hw.load(module)
    records = hw.look(model, {"src": x if batch_first else x.transpose(0, 1), **chosen})
    assert len(records) == N
    real = ~chosen.get("src_key_padding_mask", torch.zeros(N, L, dtype=torch.bool))
    for row, keep, record in zip(x, real, records, strict=True):
        assert [t.text for t in record.tokens] == [str(int(i)) for i in keep.nonzero()]
        assert record.verified < 1e-6
        alone: dict[str, Any] = {"mask": later(int(keep.sum()))} if masks == "both" else {}
        only = row[keep][None] if batch_first else row[keep][:, None]
        (single,) = hw.look(model, {"src": only, **alone})
        (bare,) = hw.look(model, {"src": row[keep], **alone})  # without a batch axis
        for head in record.heads():
            for other in (single, bare):
                np.testing.assert_allclose(
                    record.weights(head), other.weights(head), atol=1e-5, rtol=0
                )


@pytest.mark.parametrize("batch_first", [True, False])
def test_an_encoder_and_a_decoder(batch_first: bool) -> None:
    module = sharp(nn.Transformer(E, H, 2, 2, 16, batch_first=batch_first))
    model = hw.load(module)
    assert [str(layer.id) for layer in model.anatomy.layers] == [
        "encoder.0", "encoder.1", "decoder.0", "cross.0", "decoder.1", "cross.1",
    ]  # fmt: skip
    source, target = torch.randn(N, L, E), torch.randn(N, 4, E)
    padding = hidden(*LENGTHS)
    inputs = {
        "src": source, "tgt": target, "tgt_mask": later(4), "tgt_key_padding_mask": hidden(4, 1, 3),
        "src_key_padding_mask": padding, "memory_key_padding_mask": padding,
    }  # fmt: skip
    if not batch_first:
        inputs |= {"src": source.transpose(0, 1), "tgt": target.transpose(0, 1)}
    with torch.no_grad():
        own = module(**inputs)
        out, seen = watched(module, **inputs)
    torch.testing.assert_close(out, own, atol=1e-6, rtol=1e-6)
    assert len(seen) == 6
    records = hw.look(model, inputs)
    assert [record.weights("cross.1.1").shape for record in records] == [(4, 5), (1, 2), (3, 4)]
    assert [record.weights("decoder.0.1").shape for record in records] == [(4, 4), (1, 1), (3, 3)]
    assert records[0].weights("decoder.0.1")[0].tolist() == [1, 0, 0, 0]
    for record in records:
        assert record.verified < 1e-6
        assert all(np.allclose(record.weights(head).sum(-1), 1) for head in record.heads())


def test_a_decoder_alone() -> None:
    layer = nn.TransformerDecoderLayer(E, H, 16, batch_first=True)
    module = sharp(nn.TransformerDecoder(layer, 2))
    model = hw.load(module)
    assert model.anatomy.streams == ("decoder", "cross")
    assert hw.load(sharp(layer)).anatomy.streams == ("decoder", "cross")
    inputs = {"tgt": torch.randn(2, 4, E), "memory": torch.randn(2, 6, E)}
    records = hw.look(model, inputs)
    assert [record.weights("cross.0.0").shape for record in records] == [(4, 6)] * 2
    assert max(record.verified for record in records) < 1e-6


def test_one_attention_alone() -> None:
    module = sharp(nn.MultiheadAttention(E, H))
    x, memory = torch.randn(4, 2, E), torch.randn(6, 2, E)
    records = hw.look(hw.load(module), {"query": x, "key": memory, "value": memory})
    with torch.no_grad():
        weights = module(x, memory, memory, average_attn_weights=False)[1]
    assert len(records) == 2
    for record, own in zip(records, weights, strict=True):
        for head in range(H):
            np.testing.assert_allclose(record.weights(f"0.{head}"), own[head], atol=1e-6, rtol=0)


@pytest.mark.usefixtures("unchecked")
def test_a_compiled_stack_is_looked_into_as_written() -> None:
    module = encoder()
    x = torch.randn(N, L, E)
    compiled = torch.compile(module, backend="eager")
    with torch.no_grad():
        own = compiled(x)
        out, seen = watched(compiled, x)
        again = compiled(x)
    assert len(seen) == 2
    torch.testing.assert_close(out, own, atol=1e-6, rtol=1e-6)
    assert torch.equal(again, own)
    (first, *_) = hw.look(hw.load(compiled), {"src": x})
    assert first.verified < 1e-6
    module.compile(backend="eager")
    assert len(watched(module, x)[1]) == 2
