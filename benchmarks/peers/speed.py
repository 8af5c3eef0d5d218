"""Time of all patterns, and of a pass with heads at zero, GPT-2 small's shape with random weights.

Patterns: reference is the forward pass with scaled_dot_product_attention and no logits; all others end with every
pattern of every head as tensors, except `headwise, record`, which holds queries and keys and makes rows when asked.
TransformerLens makes the logits too, as its models come with them. Zeroing: a pass with logits and a head of each
layer at zero; before it is timed all give the same logits.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence

import torch
from subjects import gpt2
from torch import Tensor, nn

import headwise as hw
from harness import Plan, Row, compare, timed

RECORD, ALL, EAGER, LENS, SIGHT = (
    "headwise, record",
    "headwise, record and all patterns",
    "transformers, eager",
    "TransformerLens",
    "nnsight, eager",
)
Call = Callable[[], object]
PATTERNS = "patterns, n {}"
ZEROED = "12 heads at zero, n {}"
HEAD = 5
SLICE = slice(HEAD * 64, (HEAD + 1) * 64)


def lens_of(module: nn.Module) -> nn.Module:
    from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module

    whole = copy.deepcopy(module)
    return build_bridge_from_module(whole, "GPT2LMHeadModel", hf_config=whole.config)


def eager_of(module: nn.Module) -> nn.Module:
    made = copy.deepcopy(module)
    made.set_attn_implementation("eager")
    return made


def plain_call(module: nn.Module, ids: Tensor) -> Call:
    return lambda: module.transformer(ids, use_cache=False).last_hidden_state


def record_call(module: nn.Module, ids: Tensor, patterns: bool) -> Call:
    model = hw.load(module.transformer)

    def call() -> object:
        record = hw.look(model, {"input_ids": ids})[0]
        return [layer.scores.rows() for layer in record.layers.values()] if patterns else record

    return call


def eager_call(module: nn.Module, ids: Tensor) -> Call:
    eager = eager_of(module).transformer
    return lambda: list(eager(ids, use_cache=False, output_attentions=True).attentions)


def lens_call(module: nn.Module, ids: Tensor) -> Call:
    bridge = lens_of(module)

    def call() -> object:
        _, cache = bridge.run_with_cache(
            ids, names_filter=lambda name: name.endswith("hook_pattern")
        )
        return list(cache.values())

    return call


def sight_call(module: nn.Module, ids: Tensor) -> Call:
    import nnsight

    model = nnsight.NNsight(eager_of(module).transformer)

    def call() -> object:
        with model.trace(ids, use_cache=False):
            found = nnsight.save([block.attn.output[1] for block in model.h])
        return found  # noqa: RET504  # a trace is not left by return

    return call


MAKERS: dict[str, Callable[[nn.Module, Tensor], Call]] = {
    "plain": plain_call,
    RECORD: lambda module, ids: record_call(module, ids, False),
    ALL: lambda module, ids: record_call(module, ids, True),
    EAGER: eager_call,
    LENS: lens_call,
    SIGHT: sight_call,
}


def patterns(length: int, seconds: float) -> list[Row]:
    """The rows of all patterns at one length; all ways give the same before they are timed."""
    module, ids = gpt2(length)
    calls = {name: make(module, ids) for name, make in MAKERS.items()}
    wanted = calls[EAGER]()
    for name in (ALL, LENS, SIGHT):
        for found, right in zip(calls[name](), wanted, strict=True):
            torch.testing.assert_close(found, right, rtol=0, atol=1e-5)
    runs = {name: timed(call, 1) for name, call in calls.items()}
    return compare(PATTERNS.format(length), runs, "plain", {}, Plan(seconds, least=3, warm=0))


def zero_calls(module: nn.Module, ids: Tensor) -> dict[str, Call]:
    """A pass with a head of each layer at zero, in three ways, what each must set up included."""
    import nnsight

    model, bridge, sight = hw.load(module), lens_of(module), nnsight.NNsight(module)
    heads = [f"{layer}.{HEAD}" for layer in range(12)]

    def ours() -> object:
        with hw.ablate(model, heads, how="zero"):
            return module(ids, use_cache=False).logits

    def hook(z: Tensor, hook: object) -> Tensor:
        z = z.clone()
        z[:, :, HEAD] = 0
        return z

    def theirs() -> object:
        return bridge.run_with_hooks(
            ids, fwd_hooks=[(f"blocks.{layer}.attn.hook_z", hook) for layer in range(12)]
        )

    def traced() -> object:
        with sight.trace(ids, use_cache=False):
            for layer in range(12):
                sight.transformer.h[layer].attn.c_proj.input[:, :, SLICE] = 0
            found = sight.lm_head.output.save()
        return found  # noqa: RET504

    return {"headwise": ours, "TransformerLens": theirs, "nnsight": traced}


def zeroing(length: int, seconds: float) -> list[Row]:
    """The rows of a pass with heads at zero."""
    module, ids = gpt2(length)
    calls = zero_calls(module, ids)
    wanted = copy.deepcopy(module)
    for block in wanted.transformer.h:
        block.attn.c_proj.weight.data[SLICE] = 0
    right = wanted(ids, use_cache=False).logits

    def whole() -> object:
        return module(ids, use_cache=False).logits

    for call in calls.values():
        torch.testing.assert_close(call(), right, rtol=0, atol=1e-4)
    runs = {name: timed(call, 1) for name, call in {"plain": whole, **calls}.items()}
    return compare(ZEROED.format(length), runs, "plain", {}, Plan(seconds, least=7, warm=1))


def measured(lengths: Sequence[int], seconds: float) -> Iterator[list[Row]]:
    """The rows of one case after the other, those that take longest last."""
    torch.set_num_threads(1)
    with torch.no_grad():
        yield zeroing(256, seconds)
        for length in lengths:
            yield patterns(length, seconds)
