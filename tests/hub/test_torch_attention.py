"""One nn.MultiheadAttention: what is seen is what torch computes, and seeing it changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_help import additive, hidden, later, sharp, watched

import headwise as hw
from headwise.core.scores import mix
from headwise.hub.routes.torch_attention import opened
from headwise.names import ModelError

B, L, S, E, H = 3, 5, 7, 8, 2

MODULES: dict[str, dict[str, Any]] = {
    "packed": {},
    "no bias": {"bias": False},
    "sizes": {"kdim": 6, "vdim": 4},
    "sizes without bias": {"kdim": 6, "vdim": 4, "bias": False},
    "extra key": {"add_bias_kv": True},
    "zero key": {"add_zero_attn": True},
    "both keys": {"add_bias_kv": True, "add_zero_attn": True},
    "one head": {"num_heads": 1},
}

random_mask = torch.rand(L, L, generator=torch.Generator().manual_seed(3)) > 0.6
random_mask.fill_diagonal_(False)
per_head = torch.rand(B * H, L, L, generator=torch.Generator().manual_seed(4)) > 0.6
per_head |= later(L)
per_head.diagonal(dim1=1, dim2=2).fill_(False)
smooth = torch.randn(L, L, generator=torch.Generator().manual_seed(5))
lengths = (5, 3, 4)

MASKS: dict[str, dict[str, Any]] = {
    "none": {},
    "causal": {"attn_mask": later(L)},
    "causal, added": {"attn_mask": additive(later(L))},
    "causal, hinted": {"attn_mask": later(L), "is_causal": True},
    "causal, of the smallest float": {
        "attn_mask": later(L) * torch.finfo(torch.float32).min,
    },
    "any": {"attn_mask": random_mask},
    "of each head": {"attn_mask": per_head},
    "of each head, added": {"attn_mask": additive(per_head)},
    "bias": {"attn_mask": smooth},
    "bias and causal": {"attn_mask": smooth + additive(later(L))},
    "padding on the right": {"key_padding_mask": hidden(*lengths)},
    "padding on the left": {"key_padding_mask": hidden(*lengths, left=True)},
    "padding, added": {"key_padding_mask": additive(hidden(*lengths))},
    "padding as a bias": {"key_padding_mask": torch.randn(B, L)},
    "padding and causal": {"key_padding_mask": hidden(*lengths), "attn_mask": later(L)},
    "padding and causal, hinted": {
        "key_padding_mask": hidden(*lengths),
        "attn_mask": later(L),
        "is_causal": True,
    },
    "padding and bias": {"key_padding_mask": additive(hidden(*lengths)), "attn_mask": smooth},
}


def mha(batch_first: bool = True, dtype: torch.dtype | None = None, **kwargs: Any) -> nn.Module:
    kwargs = {"num_heads": H, **kwargs}
    return sharp(nn.MultiheadAttention(E, batch_first=batch_first, dtype=dtype, **kwargs))


def streams(module: nn.Module, *, alone: bool = False, cross: bool = False) -> list[Tensor]:
    """Query, key and value for this module, batched or not."""
    torch.manual_seed(1)
    dtype = module.out_proj.weight.dtype
    sizes = [(L, E), (S if cross else L, module.kdim), (S if cross else L, module.vdim)]
    if alone:
        return [torch.randn(n, size, dtype=dtype) for n, size in sizes]
    if not cross and module.kdim == module.vdim == E:
        x = torch.randn(B, L, E, dtype=dtype)
        x = x if module.batch_first else x.transpose(0, 1)
        return [x, x, x]
    made = [torch.randn(B, n, size, dtype=dtype) for n, size in sizes]
    return [x if module.batch_first else x.transpose(0, 1) for x in made]


def assert_seen(
    module: nn.Module, inputs: list[Tensor], masks: dict[str, Any], atol: float = 1e-6
) -> None:
    """Output, every head's weights, and the head outputs are torch's own."""
    with torch.no_grad():
        plain, _ = module(*inputs, **masks, need_weights=False)
        full, theirs = module(*inputs, **masks, average_attn_weights=False)
        out, ((scores, v, z),) = watched(module, *inputs, **masks, need_weights=False)
    theirs = theirs if theirs.dim() == 4 else theirs[None]
    torch.testing.assert_close(out[0], plain, atol=atol, rtol=0)
    torch.testing.assert_close(out[0], full, atol=atol, rtol=0)
    torch.testing.assert_close(scores.rows(), theirs, atol=atol, rtol=0)
    torch.testing.assert_close(mix(scores.rows(), v), z, atol=atol, rtol=0)
    assert float(theirs.max()) > 0.5  # heads that look somewhere


@pytest.mark.parametrize("masks", MASKS)
@pytest.mark.parametrize("batch_first", [True, False])
def test_under_every_mask(masks: str, batch_first: bool) -> None:
    module = mha(batch_first)
    assert_seen(module, streams(module), MASKS[masks])


@pytest.mark.parametrize("masks", ["none", "causal", "of each head", "padding and causal", "bias"])
@pytest.mark.parametrize("kind", MODULES)
def test_every_kind_of_module(kind: str, masks: str) -> None:
    module = mha(**MODULES[kind])
    chosen = dict(MASKS[masks])
    if masks == "of each head":
        chosen["attn_mask"] = per_head[: B * module.num_heads]
    assert_seen(module, streams(module), chosen)


@pytest.mark.parametrize("kind", MODULES)
@pytest.mark.parametrize("batch_first", [True, False])
def test_cross_attention_with_padding(kind: str, batch_first: bool) -> None:
    module = mha(batch_first, **MODULES[kind])
    masks = {"key_padding_mask": hidden(7, 2, 5), "attn_mask": torch.rand(L, S) > 0.7}
    masks["attn_mask"][:, 0] = False
    assert_seen(module, streams(module, cross=True), masks)


@pytest.mark.parametrize("kind", MODULES)
def test_one_sequence_without_a_batch_axis(kind: str) -> None:
    module = mha(**MODULES[kind])
    masks = {"key_padding_mask": hidden(5, width=L)[0], "attn_mask": later(L)}
    assert_seen(module, streams(module, alone=True), masks)
    assert_seen(module, streams(module, alone=True), {"attn_mask": per_head[: module.num_heads]})


@pytest.mark.parametrize("masks", ["none", "causal", "padding and causal"])
def test_in_double_precision_to_the_twelfth_place(masks: str) -> None:
    module = mha(dtype=torch.float64)
    assert_seen(module, streams(module), MASKS[masks], atol=1e-12)


def test_a_hint_that_is_no_mask_of_the_call_is_read_as_torch_reads_it() -> None:
    """Without weights or padding torch takes the hint and leaves the mask unread."""
    module = mha(batch_first=False)
    query, key, value = streams(module, cross=True)
    masks = {"attn_mask": torch.zeros(L, S, dtype=torch.bool), "is_causal": True}
    with torch.no_grad():
        plain, _ = module(query, key, value, need_weights=False, **masks)
        out, ((scores, v, z),) = watched(module, query, key, value, need_weights=False, **masks)
    torch.testing.assert_close(out[0], plain)
    torch.testing.assert_close(mix(scores.rows(), v), z)
    assert not scores.allowed(0, L)[0, 0].triu(1).any()
    _, ((scores, _, _),) = watched(module, query, key, value, need_weights=True, **masks)
    assert scores.mask is None  # with weights it is the other way round


@pytest.mark.parametrize(
    "kind",
    ["causal", "causal, added", "causal, of the smallest float", "padding and causal", "none"],
)
def test_masks_are_kept_as_what_they_are(kind: str) -> None:
    module = mha()
    _, ((scores, _, _),) = watched(module, *streams(module), need_weights=False, **MASKS[kind])
    said = {"none": "None", "padding and causal": "causal() & padding"}
    assert repr(scores.mask).startswith(said.get(kind, "causal()"))
    assert scores.bias is None


def test_one_mask_given_for_each_head_is_kept_as_one() -> None:
    module = mha()
    mask = later(L).expand(B * H, L, L)
    _, ((scores, _, _),) = watched(module, *streams(module), attn_mask=mask)
    assert repr(scores.mask) == "causal()"


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("masks", ["none", "padding and causal", "of each head"])
def test_returns_and_gradients_are_the_modules_own(
    training: bool, need_weights: bool, average: bool, masks: str
) -> None:
    """In training with dropout: the same seed drops the same."""
    module = mha(batch_first=False, dropout=0.3).train(training)
    x = streams(module)[0].requires_grad_()
    asked = {"need_weights": need_weights, "average_attn_weights": average, **MASKS[masks]}

    def run(watch: bool) -> list[Tensor | None]:
        torch.manual_seed(7)
        out, weights = watched(module, x, x, x, **asked)[0] if watch else module(x, x, x, **asked)
        asked_for = [x, *module.parameters()]
        return [out, weights, *torch.autograd.grad(out.square().sum(), asked_for)]

    for mine, own in zip(run(True), run(False), strict=True):
        assert (mine is None) == (own is None)
        if own is not None:
            assert torch.equal(mine, own)


@pytest.mark.parametrize("masks", ["none", "causal", "padding and causal", "of each head", "bias"])
@pytest.mark.parametrize("average", [True, False])
@pytest.mark.parametrize("kind", MODULES)
def test_a_gate_of_ones_changes_nothing(kind: str, masks: str, average: bool) -> None:
    module = mha(**MODULES[kind])
    chosen = dict(MASKS[masks])
    if masks == "of each head":
        chosen["attn_mask"] = per_head[: B * module.num_heads]
    inputs = streams(module)
    for need_weights in (True, False):
        asked = {"need_weights": need_weights, "average_attn_weights": average, **chosen}
        own, weights = module(*inputs, **asked)
        gate = torch.ones(module.num_heads)
        (out, mine), _ = watched(module, *inputs, gate=gate, **asked)
        torch.testing.assert_close(out, own, atol=1e-6, rtol=0)
        torch.testing.assert_close(mine, weights, atol=1e-6, rtol=0)


def test_a_gated_module_drops_weights_in_training() -> None:
    module = mha(dropout=1.0).train()
    out, _ = watched(module, *streams(module), gate=torch.ones(H))
    assert torch.equal(out[0], module.out_proj.bias.expand(B, L, E))


@pytest.mark.parametrize("alone", [True, False])
@pytest.mark.parametrize("head", range(H))
def test_gate_zero_removes_the_heads_slice_before_the_output_projection(
    head: int, alone: bool
) -> None:
    module = mha()
    inputs = streams(module, alone=alone)
    gate = torch.ones(H)
    gate[head] = 0.0
    out, _ = watched(module, *inputs, gate=gate)
    with torch.no_grad():
        size = E // H
        module.out_proj.weight[:, head * size : (head + 1) * size] = 0.0
    own = module(*inputs)
    torch.testing.assert_close(out, own, atol=1e-6, rtol=0)


def test_gradients_reach_a_gate_and_a_learned_bias() -> None:
    module = mha()
    inputs = streams(module)
    bias = torch.zeros(L, L, requires_grad=True)
    gate = torch.ones(H, requires_grad=True)
    (out, _), _ = watched(module, *inputs, gate=gate, attn_mask=bias)
    mine = torch.autograd.grad(out.square().sum(), [bias, gate])
    own = torch.autograd.grad(module(*inputs, attn_mask=bias)[0].square().sum(), [bias])
    torch.testing.assert_close(mine[0], own[0], atol=1e-5, rtol=1e-5)
    assert (mine[1] != 0).all()


def test_rows_that_may_see_nothing_are_zero() -> None:
    """Fused and through scaled_dot_product_attention torch gives 0 as well; where it gives weights, NaN."""
    module = mha()
    masks = {"attn_mask": later(L).T.clone(), "key_padding_mask": hidden(5, 3, 4)}
    masks["attn_mask"][2] = True
    inputs = streams(module)
    with torch.no_grad():
        out, ((scores, v, z),) = watched(module, *inputs, need_weights=False, **masks)
    assert (scores.rows()[:, :, 2] == 0).all()
    assert (z[:, :, 2] == 0).all()
    torch.testing.assert_close(mix(scores.rows(), v), z, atol=1e-6, rtol=0)
    gated, _ = watched(module, *inputs, gate=torch.ones(H), **masks)
    torch.testing.assert_close(gated[0], out[0], atol=1e-6, rtol=0)
    nothing = module.out_proj.bias.expand(B, E)
    torch.testing.assert_close(gated[0][:, 2], nothing, atol=1e-6, rtol=0)


def test_a_row_all_at_the_bottom_looks_where_torch_looks() -> None:
    module = mha()
    mask = torch.zeros(L, L)
    mask[1] = torch.finfo(torch.float32).min
    assert_seen(module, streams(module), {"attn_mask": mask})


def test_a_mask_written_to_between_two_calls_is_read_again() -> None:
    module = mha()
    x = streams(module)[0]
    mask = additive(later(L))
    seen: list[Tensor] = []
    tap = hw.core.taps.Tap(observers=(lambda scores, v, z: seen.append(scores.rows()),))
    with opened(module), hw.core.taps.tapped({module: tap}), torch.no_grad():
        for _ in range(2):
            weights = module(x, x, x, attn_mask=mask, average_attn_weights=False)[1]
            torch.testing.assert_close(seen.pop(), weights, atol=1e-6, rtol=0)
            mask[:, 0] = float("-inf")
            mask[0, 1] = 0.0


@pytest.mark.parametrize("gate", [None, torch.ones(H)])
def test_what_cannot_be_read_is_refused(gate: Tensor | None) -> None:
    module = mha()
    x = streams(module)[0]
    with pytest.raises(
        hw.names.ShapeError, match=r"attn_mask must be \[query=5, key=5\].*came \[4, 5\]"
    ):
        watched(module, x, x, x, attn_mask=later(L)[:4], gate=torch.ones(H))
    rows = torch.nested.as_nested_tensor([row[:n] for row, n in zip(x, lengths, strict=True)])
    with pytest.raises(ModelError, match="nested tensors; pass a padded tensor"), torch.no_grad():
        watched(module, rows, rows, rows, gate=gate)
    static = torch.randn(B * H, L, E // H)

    class Static(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            own = module
            return torch.nn.functional.multi_head_attention_forward(
                x, x, x, E, H, own.in_proj_weight, own.in_proj_bias, None, None, False, 0.0,
                own.out_proj.weight, own.out_proj.bias, static_k=static,
            )[0]  # fmt: skip

    with pytest.raises(ModelError, match="static_k or static_v cannot be looked into"):
        watched(Static(), x.transpose(0, 1), gate=gate)
