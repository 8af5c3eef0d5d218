"""Load a model: one object with the module, its tokenizer, its anatomy and how to call it.

Families that `headwise.nn` has tables for run in our own blocks, without importing transformers; everything else
runs in transformers, looked into through the bridge. A module of one's own is wrapped as it is.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headwise.hub.anatomy import Anatomy, anatomy_of, by_itself
from headwise.hub.calling import arguments_for, takes_target
from headwise.hub.catalogue import DEFAULT
from headwise.hub.get import get
from headwise.hub.kept import heads_left, kept_of
from headwise.hub.reading import from_transformers, prepared, read_config, unfit
from headwise.hub.report import say
from headwise.hub.routes.torch_attention import is_torch_attention, opened
from headwise.hub.routes.written_out import followed
from headwise.hub.shards import stated_heads
from headwise.hub.spread import device_of, move
from headwise.hub.tokenizer import Tokenizer, adapt, read_tokenizer
from headwise.names import ModelError
from headwise.nn import (
    Decoder,
    EncoderDecoder,
    MultiHeadAttention,
    TransformerConfig,
    load_checkpoint,
)
from headwise.nn.modes import evaluating as evaluating
from headwise.nn.modes import uncompiled
from headwise.nn.own import is_own


@dataclass(frozen=True, eq=False, repr=False)
class Model:
    """A model ready to be looked into.

    `foreign` says that it is a transformers model, called with input_ids and attention_mask; modules of
    ours are called with ids and key_padding_mask. Of a model read from a folder, `config` is what its
    config.json says of it uncut, `folder` where it was; `given` is the tokenizer that came with a module.
    """

    name: str
    module: nn.Module
    tokenizer: Tokenizer | None
    foreign: bool
    max_length: int | None = field(default=None)
    config: Mapping[str, Any] | None = field(default=None, kw_only=True)
    folder: Path | None = field(default=None, kw_only=True)
    given: Any = field(default=None, kw_only=True)

    def __repr__(self) -> str:
        """Its name, class, layers x heads and parameters, in one line."""
        size = sum(p.numel() for p in self.module.parameters())
        try:
            layers = self.anatomy.layers
        except ModelError:
            layers = ()
        heads = sorted({n for x in layers if (n := _heads(x.module)) is not None})
        told = f"{len(layers)} attention layer{'' if len(layers) == 1 else 's'}"
        if heads:
            told += f" x {heads[0]}{f' to {heads[-1]}' if len(heads) > 1 else ''} heads"
        return f"Model({self.name!r}, {type(self.module).__name__}, {told}, {size:,} parameters)"

    @cached_property
    def anatomy(self) -> Anatomy:
        """The attention layers; ModelError where none can be looked into."""
        return anatomy_of(self.module)

    @property
    def device(self) -> torch.device:
        """Where the model's inputs go: the first of its devices where it is spread over several."""
        return device_of(self.module)

    @property
    def encoder_decoder(self) -> bool:
        """Whether the model reads one text and writes another."""
        if not self.foreign:
            return takes_target(self.module, self.anatomy.streams)
        return bool(getattr(getattr(self.module, "config", None), "is_encoder_decoder", False))

    @property
    def max_target_length(self) -> int | None:
        """The longest text an encoder-decoder's decoder reads; of another model `max_length`."""
        module = uncompiled(self.module)
        return module.config.max_length if isinstance(module, EncoderDecoder) else self.max_length

    @contextmanager
    def open(self) -> Iterator[None]:
        """The context in which the attention modules see their taps."""
        others = [
            layer.module
            for layer in self.anatomy.layers
            if not isinstance(layer.module, MultiHeadAttention) and heads_left(layer.module)
        ]
        of_torch = [module for module in others if is_torch_attention(type(module))]
        by_hand = [module for module in others if by_itself(type(module))]
        with ExitStack() as stack:
            if any(hasattr(part, "_orig_mod") for part in self.module.modules()):
                stack.enter_context(torch.compiler.set_stance("force_eager"))  # graphs know no tap
            if len(of_torch) + len(by_hand) < len(others):
                from headwise.hub.routes.bridge import routed

                stack.enter_context(routed(self.module))
            if of_torch:
                stack.enter_context(opened(self.module))
            if by_hand:
                stack.enter_context(followed(by_hand))
            yield

    def placed(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs with their tensors on the model's device."""
        where = self.device
        return {k: v.to(where) if isinstance(v, Tensor) else v for k, v in inputs.items()}

    def copied(self, dtype: torch.dtype | None = None) -> Model:
        """The same with a module of its own, its weights in another dtype where one is given."""
        module = copy.deepcopy(self.module)
        return replace(self, module=module if dtype is None else module.to(dtype))

    def run(self, inputs: Mapping[str, Any]) -> Any:
        """Run the module's layers in eval mode, without gradients, on inputs named as transformers does.

        What is not needed to look (logits, a cache) is not made where the module can leave it out.
        """
        inputs = self.placed(inputs)
        arguments = inputs if self.foreign else arguments_for(self.module, inputs)
        if self.foreign:
            takes = inspect.signature(self.module.forward).parameters
            frugal = {"use_cache": False, "logits_to_keep": 1}
            arguments = {k: v for k, v in frugal.items() if k in takes} | arguments
        forward = self.module.hidden if isinstance(self.module, Decoder) else self.module
        with torch.no_grad(), evaluating(self.module):
            return forward(**arguments)

    def outputs(self, inputs: Mapping[str, Any]) -> Any:
        """The module's whole output on inputs named as transformers does, in the mode and gradients in force."""
        inputs = self.placed(inputs)
        arguments = inputs if self.foreign else arguments_for(self.module, inputs)
        if self.foreign and "use_cache" in inspect.signature(self.module.forward).parameters:
            arguments = {"use_cache": False, **arguments}
        return self.module(**arguments)


def load(
    name: str | Path | nn.Module = DEFAULT,
    device: str | torch.device | None = None,
    dtype: torch.dtype | str | None = None,
    *,
    tokenizer: Any = None,
    quiet: bool = False,
) -> Model:
    """Load a model by name, or wrap a module of yours.

    Args:
        name: a catalogue name ("smollm2"), a folder, a .gguf file or a hub id; or a module: one of
            transformers, or any that uses headwise.nn.MultiHeadAttention or torch.nn.MultiheadAttention.
        device: where to put it; None = the CPU for a name, where it is for a module.
        dtype: for instance "bfloat16"; None = as saved.
        tokenizer: for a module: a tokenizers.Tokenizer or one of transformers.
        quiet: no progress on stderr.

    Raises:
        ModelError: no such model, or one that cannot be looked into.
        ConfigError: a checkpoint of a known family with a weight that is missing or not known.
    """
    dtype = _dtype(dtype)
    device = checked_device(device)
    if not isinstance(name, str | Path | nn.Module):
        raise ModelError(f"load takes a name, a path or a module, came {name!r}")
    if isinstance(name, nn.Module):
        model = _wrapped(name, tokenizer)
        if device is not None or dtype is not None:
            move(model.module, device, dtype)
    else:
        model = _from_folder(str(name), get(name, quiet=quiet), device, dtype, quiet)
    left_out = model.anatomy.left_out  # which refuses now what cannot be looked into
    if left_out:
        say(f"{model.name}: {left_out}", quiet=quiet)
    return model


def load_in_transformers(
    name: str | Path = DEFAULT,
    device: str | torch.device | None = None,
    *,
    quiet: bool = False,
) -> Model:
    """Load a model by name as transformers runs it, of whatever layers, also where we have blocks for it.

    Args:
        name: as `load` takes it.
        device: where to put it; None = the CPU.
        quiet: no progress on stderr.

    Raises:
        ModelError: no such model, or one that transformers cannot load.
    """
    where, folder = checked_device(device), get(name, quiet=quiet)
    config, prepare = prepared(read_config(folder))
    module = from_transformers(str(name), folder, config, None, "", prepare, quiet=quiet).eval()
    if where is not None:
        module = module.to(where)
    return _read(str(name), module, True, folder, config)


def _wrapped(module: nn.Module, tokenizer: Any) -> Model:
    config = getattr(module, "config", None)
    foreign = hasattr(config, "_attn_implementation")
    name = getattr(config, "_name_or_path", "") or type(module).__name__
    return Model(name, module, adapt(tokenizer), foreign, _max_length(module), given=tokenizer)


def _from_folder(
    name: str,
    folder: Path,
    device: torch.device | None,
    dtype: torch.dtype | None,
    quiet: bool,
) -> Model:
    config, prepare = prepared(read_config(folder))
    cut = None if prepare is None else prepare.cut
    in_transformers = prepare is not None and prepare.own is False
    why = None if is_own(config) else "" if in_transformers else unfit(folder, config, prepare)
    if why is None:
        module = load_checkpoint(folder, device, dtype, config=config, prepare=cut)
    else:
        module = from_transformers(name, folder, config, dtype, why, prepare, quiet=quiet).eval()
        if device is not None:
            module = module.to(device)
    return _read(name, module, why is not None, folder, config)


def _read(
    name: str, module: nn.Module, foreign: bool, folder: Path, config: Mapping[str, Any]
) -> Model:
    tokenizer, length = read_tokenizer(folder), _max_length(module)
    return Model(name, module, tokenizer, foreign, length, config=config, folder=folder)


def _heads(module: nn.Module) -> int | None:
    """How many heads a layer has, as it says itself; None where it does not."""
    kept = kept_of(module)
    return stated_heads(module) if kept is None else len(kept.heads)


def _max_length(module: nn.Module) -> int | None:
    """The longest text the model reads, None where it has no limit.

    A table of positions with a place for padding has that many fewer for tokens (RoBERTa). Of our
    encoder-decoders it is what the encoder reads, where that is text.
    """
    for path, part in module.named_modules():
        if "position" in path and isinstance(part, nn.Embedding) and part.padding_idx is not None:
            return part.num_embeddings - part.padding_idx - 1
    config = getattr(module, "config", None)
    both = isinstance(uncompiled(module), EncoderDecoder)
    if both and isinstance(config, TransformerConfig) and not config.features:
        return config.encoder_max_length
    for name in ("max_length", "max_position_embeddings", "max_target_positions", "n_positions"):
        value = getattr(config, name, None)
        if name == "max_length" and hasattr(config, "_attn_implementation"):
            continue
        if isinstance(value, int) and 1 < value < 10**9:
            return value
    return None


def _dtype(dtype: torch.dtype | str | None) -> torch.dtype | None:
    if dtype is None or isinstance(dtype, torch.dtype):
        return dtype
    found = getattr(torch, dtype, None)
    if not isinstance(found, torch.dtype) or not found.is_floating_point or found.itemsize < 2:
        raise ModelError(f"{dtype!r} is no dtype for weights; use float32, bfloat16 or float16")
    return found


def checked_device(device: str | torch.device | None) -> torch.device | None:
    """The device that is asked for, where it can be used.

    Raises:
        ModelError: it cannot.
    """
    if device is None:
        return None
    try:
        where = torch.device(device)
        torch.zeros(1, device=where).item()
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        line = str(error).strip().splitlines()[0]
        raise ModelError(f"the device {str(device)!r} cannot be used: {line}") from None
    return where
