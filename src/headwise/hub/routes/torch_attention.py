"""torch's own attention, looked into: nn.MultiheadAttention and all that is built from it.

While `opened`, each such module runs its own forward still, and the call of multi_head_attention_forward in it is
taken over where the module has a tap. nn.TransformerEncoderLayer's fused inference is kept from running past its
taps: a layer that has one takes torch's own open path, also on the nested tensors that nn.TransformerEncoder makes
of padded batches, so that what comes out is what comes out when nobody looks (zeros at padding included). One thing
differs: a query that may see no key is NaN in the fused call, and 0 on the open path.

With observers alone, torch's own function computes the head outputs: it is called on the very same arguments, but
with an identity for W_O, and W_O comes after. What it uses for that (its projections, its reading of the masks, its
kernel) owes nothing to us, while the scores shown beside are of our own projections and our own reading of the
masks. The difference a record states is thus between two independent computations of the whole layer up to W_O. A
gate, an edit or a meter needs our `attend`, whose outputs are then the layer's.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.overrides import BaseTorchFunctionMode, TorchFunctionMode

from headwise.core.attention import attend
from headwise.core.taps import Tap, tap_of
from headwise.hub.routes.torch_call import Call, Reader, heads_of
from headwise.names import ModelError

__all__ = ["is_torch_attention", "opened"]

_CALLED = "multi_head_attention_forward"
_FUSED_LAYER = "_transformer_encoder_layer_fwd"
_SIGNATURE = inspect.signature(F.multi_head_attention_forward)


def is_torch_attention(cls: type) -> bool:
    """Whether the code of modules of this class calls torch's multi_head_attention_forward."""
    return _calls(cls, _CALLED)


def _calls(cls: type, name: str) -> bool:
    """Whether the forward of this class, or one that it builds on, names this function."""
    forwards = (vars(base).get("forward") for base in cls.__mro__)
    codes = (getattr(inspect.unwrap(f), "__code__", None) for f in forwards if f is not None)
    return any(code is not None and name in code.co_names for code in codes)


@contextmanager
def opened(model: nn.Module) -> Iterator[None]:
    """Let the taps on torch's attention modules see their calls, for the time of the `with`.

    Modules that are open already stay as they are. What was compiled runs uncompiled meanwhile.
    """
    reader = Reader()
    forwards: dict[nn.Module, _Open] = {}
    for module in model.modules():
        if isinstance(module.__dict__.get("forward"), _Open):
            continue
        if is_torch_attention(type(module)):
            forwards[module] = _OpenAttention(module, reader)
        elif _calls(type(module), _FUSED_LAYER):
            forwards[module] = _OpenLayer(module)
    before = {module: module.__dict__.get("forward") for module in forwards}
    with _uncompiled():
        try:
            for module, forward in forwards.items():
                module.__dict__["forward"] = forward
            yield
        finally:
            for module, old in before.items():
                if old is None:
                    module.__dict__.pop("forward", None)
                else:
                    module.__dict__["forward"] = old


@contextmanager
def _uncompiled() -> Iterator[None]:
    """Code compiled by torch.compile runs as written meanwhile; it does not look at our forwards."""
    with ExitStack() as stack:
        if (
            "torch._dynamo" in sys.modules
        ):  # else nothing was compiled, and its import takes seconds
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        yield


class _Open:
    """Stands for a module's forward while it is open."""

    def __init__(self, module: nn.Module) -> None:
        self.module = module
        self.own: Callable[..., Any] = module.forward
        self.__signature__ = inspect.signature(self.own)  # for callers that ask what it takes


class _OpenAttention(_Open):
    """Runs the module's own forward, and takes over the attention in it where there is a tap."""

    def __init__(self, module: nn.Module, reader: Reader) -> None:
        super().__init__(module)
        self.reader = reader

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tap = tap_of(self.module)
        if tap is None:
            return self.own(*args, **kwargs)
        if any(isinstance(x, Tensor) and x.is_nested for x in (*args, *kwargs.values())):
            raise ModelError(
                f"{type(self.module).__name__} cannot be looked into on nested tensors; "
                "pass a padded tensor and key_padding_mask"
            )
        with _TakenOver(self.module, tap, self.reader):
            return self.own(*args, **kwargs)


class _OpenLayer(_Open):
    """Runs the layer's own forward, unfused where a tap is within, on nested tensors by way of padded ones."""

    def __call__(self, src: Tensor, *args: Any, **kwargs: Any) -> Any:
        if all(tap_of(part) is None for part in self.module.modules()):
            return self.own(src, *args, **kwargs)
        with BaseTorchFunctionMode():  # any such mode keeps torch from its fused path
            if not src.is_nested:
                return self.own(src, *args, **kwargs)
            lengths = torch.tensor([len(row) for row in src.unbind()], device=src.device)
            padded = src.to_padded_tensor(0.0)
            hidden = torch.arange(padded.shape[1], device=src.device) >= lengths[:, None]
            out = self.own(padded, *args, **{**kwargs, "src_key_padding_mask": hidden})
            rows = [row[:n] for row, n in zip(out, lengths.tolist(), strict=True)]
            return torch.nested.as_nested_tensor(rows)


class _TakenOver(TorchFunctionMode):
    """Within it, multi_head_attention_forward is computed for a tap; all else runs as ever."""

    def __init__(self, module: nn.Module, tap: Tap, reader: Reader) -> None:
        super().__init__()
        self.module = module
        self.tap = tap
        self.reader = reader

    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is not F.multi_head_attention_forward:
            return func(*args, **(kwargs or {}))
        bound = _SIGNATURE.bind(*args, **(kwargs or {}))
        bound.apply_defaults()
        w_o = _w_o(self.module, bound.arguments)
        changes = (self.tap.gate, self.tap.edit, self.tap.meter)
        if any(change is not None for change in changes):
            return by_attend(bound.arguments, self.tap, self.reader, w_o)
        return _by_torch(bound.arguments, self.tap, self.reader, w_o)


def _w_o(module: nn.Module, call: Call) -> Callable[[Tensor], Tensor]:
    """The output projection, as the module that holds its weight, so that who watches that module sees it run."""
    weight, bias = call["out_proj_weight"], call["out_proj_bias"]
    for part in module.modules():
        if isinstance(part, nn.Linear) and part.weight is weight and part.bias is bias:
            return part
    return partial(F.linear, weight=weight, bias=bias)


def _by_torch(
    call: Call, tap: Tap, reader: Reader, w_o: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor | None]:
    """The call as torch computes it, shown to the observers."""
    weight = call["out_proj_weight"]
    identity = torch.eye(weight.shape[1], dtype=weight.dtype, device=weight.device)
    own = {**call, "out_proj_weight": identity, "out_proj_bias": None}
    z, weights = F.multi_head_attention_forward(**own)
    if tap.observers:
        scores, v = reader.read(call)
        for observer in tap.observers:
            observer(scores, v, heads_of(z, call["num_heads"]))
    return w_o(z), weights


def by_attend(
    call: Call, tap: Tap, reader: Reader, w_o: Callable[[Tensor], Tensor]
) -> tuple[Tensor, Tensor | None]:
    """The call as `attend` computes it, with the gate before W_O; weights are those before dropout."""
    scores, v = reader.read(call)
    result = attend(
        **scores.call,
        v=v,
        gate=tap.gate,
        dropout=call["dropout_p"] if call["training"] else 0.0,
        return_pattern=call["need_weights"],
        observers=tap.observers,
        meter=tap.meter,
        edit=tap.edit,
    )
    z, pattern = result if isinstance(result, tuple) else (result, None)
    out = w_o(z.transpose(1, 2).flatten(2)).transpose(0, 1)
    if pattern is not None and call["average_attn_weights"]:
        pattern = pattern.mean(1)
    if call["query"].dim() == 3:
        return out, pattern
    return out.squeeze(1), None if pattern is None else pattern.squeeze(0)
