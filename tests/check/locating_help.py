"""Tiny models of many structures, and faults to plant in them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import transformers
from torch import Tensor, nn

from headwise.check.places.locating import Entry, entry
from headwise.check.places.tracing import trace
from headwise.nn import Decoder, TransformerConfig

LENGTH, VOCAB, EDITED = 13, 97, 7

_SMALL = {"vocab_size": VOCAB, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2}
_LLAMA = _SMALL | {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 64,
}
_BERT = _LLAMA | {"num_key_value_heads": 4}

FAMILIES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "llama": ("LlamaConfig", "LlamaForCausalLM", _LLAMA),
    "gpt2": ("GPT2Config", "GPT2LMHeadModel", _SMALL | {"n_embd": 16, "n_layer": 3, "n_head": 4}),
    "bloom": (
        "BloomConfig",
        "BloomForCausalLM",
        _SMALL | {"hidden_size": 16, "n_layer": 3, "n_head": 4},
    ),
    "falcon": (
        "FalconConfig",
        "FalconForCausalLM",
        _SMALL | {"hidden_size": 16, "num_hidden_layers": 3, "num_attention_heads": 4},
    ),
    "mixtral": (
        "MixtralConfig",
        "MixtralForCausalLM",
        _LLAMA | {"num_local_experts": 4, "num_experts_per_tok": 2},
    ),
    "mamba": (
        "MambaConfig",
        "MambaForCausalLM",
        _SMALL | {"hidden_size": 16, "state_size": 4, "num_hidden_layers": 3},
    ),
    "rwkv": (
        "RwkvConfig",
        "RwkvForCausalLM",
        _SMALL | {"hidden_size": 16, "num_hidden_layers": 3, "context_length": 64},
    ),
    "albert": (
        "AlbertConfig",
        "AlbertModel",
        _BERT | {"embedding_size": 8, "num_hidden_groups": 1},
    ),
}
"""Models of transformers that read ids alone: the class of the config, of the model, and the fields."""


def tiny(name: str, **fields: Any) -> nn.Module:
    """The model of this name in float64, its matrices spread wide."""
    config, model, own = FAMILIES[name]
    torch.manual_seed(0)
    made = getattr(transformers, model)(getattr(transformers, config)(**{**own, **fields}))
    if hasattr(made, "set_experts_implementation"):
        made.set_experts_implementation("eager")
    return spread(made)


def ours() -> nn.Module:
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=VOCAB,
        d_model=16,
        num_layers=3,
        num_heads=4,
        num_kv_heads=2,
        d_ff=24,
        max_length=64,
    )
    return spread(Decoder(config))


def spread(module: nn.Module) -> nn.Module:
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.35)
    return module.double().eval()


def ids_of(batch: int = 1, length: int = LENGTH, seed: int = 1) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    rows = [torch.randperm(VOCAB - 3, generator=generator)[:length] + 3 for _ in range(batch)]
    return torch.stack(rows)


def edited(ids: Tensor, *positions: int) -> Tensor:
    """Other tokens at these positions of the first row."""
    other = ids.clone()
    for position in positions or (EDITED,):
        other[0, position] = 3 + (other[0, position] - 3 + 41) % (VOCAB - 3)
    return other


def before(position: int = EDITED, batch: int = 1, length: int = LENGTH) -> Tensor:
    """The first row's positions before the edited one, and all of the others."""
    at = torch.ones(batch, length, dtype=torch.bool)
    at[0, position:] = False
    return at


def future_entry(
    module: nn.Module, run: Callable[[Tensor], object] | None = None, batch: int = 1
) -> Entry | None:
    """Where an edit at EDITED comes to be seen before it."""
    ids = ids_of(batch)
    call = run or module
    with torch.no_grad():
        a = trace(module, lambda: call(ids), LENGTH, batch)
        b = trace(module, lambda: call(edited(ids)), LENGTH, batch)
    return entry(a, b, before(batch=batch), tolerance=1e-9)


def change_output(module: nn.Module, path: str, change: Callable[[Tensor], Tensor]) -> None:
    """Change what a module gives, by its own forward."""
    part = module.get_submodule(path)
    forward = part.forward

    def changed(*args: Any, **kwargs: Any) -> Any:
        output = forward(*args, **kwargs)
        if isinstance(output, tuple):
            return (change(output[0]), *output[1:])
        return change(output)

    part.forward = changed  # type: ignore[method-assign]


def blend(x: Tensor) -> Tensor:
    """Mixes a mean over time in, as a norm over time or a pooled gate would."""
    return x + 0.1 * x.mean(-2, keepdim=True)


def ahead(x: Tensor) -> Tensor:
    """What the next position has."""
    return x + torch.roll(x, -1, -2)
