"""The models and texts that are tried: SmolLM2 with its trained weights, and GPT-2 small's shape."""

from __future__ import annotations

import copy
from functools import cache

import torch
from torch import Tensor, nn

from headwise.hub.get import get

ENGLISH = "The animal didn't cross the street because it was too tired"
CHINESE = "小明把书还给了图书馆,因为它到期了。"
HEADS = ("0.1", "1.4", "2.8")
PADS = 3


@cache
def smollm2(attention: str = "sdpa") -> nn.Module:
    """SmolLM2 as transformers loads it; only ever read."""
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(
        get("smollm2"), dtype=torch.float32, attn_implementation=attention
    ).eval()


@cache
def tokenizer() -> object:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(get("smollm2"))


def ids(text: str = ENGLISH) -> Tensor:
    return tokenizer()(text, return_tensors="pt")["input_ids"]


def padded() -> tuple[Tensor, Tensor]:
    """The English text with pads on the left, and its attention mask."""
    one = ids()
    pads = torch.full((1, PADS), tokenizer().pad_token_id or 0)
    mask = torch.cat([torch.zeros_like(pads), torch.ones_like(one)], 1)
    return torch.cat([pads, one], 1), mask


def patterns() -> list[Tensor]:
    """What eager attention gives for the English text: the standard others are held to."""
    with torch.no_grad():
        return list(smollm2("eager")(ids(), output_attentions=True, use_cache=False).attentions)


def apart(found: list[Tensor], wanted: list[Tensor]) -> float:
    """The largest difference between two lists of tensors of the same shapes."""
    assert [x.shape for x in found] == [x.shape for x in wanted], "other shapes"
    return max(float((x - y).abs().max()) for x, y in zip(found, wanted, strict=True))


def zeroed(model: nn.Module, heads: dict[int, list[int]], head_dim: int = 64) -> nn.Module:
    """A copy whose W_O has the columns of these heads at zero."""
    made = copy.deepcopy(model)
    for layer, gone in heads.items():
        weight = made.model.layers[layer].self_attn.o_proj.weight.data
        weight.view(weight.shape[0], -1, head_dim)[:, gone] = 0
    return made


def logits(model: nn.Module) -> Tensor:
    with torch.no_grad():
        return model(ids(), use_cache=False).logits


def by_layer(heads: tuple[str, ...]) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for head in heads:
        layer, number = map(int, head.split("."))
        found.setdefault(layer, []).append(number)
    return found


def gpt2(length: int) -> tuple[nn.Module, Tensor]:
    """GPT-2 small's shape with random weights, and ids."""
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config()
    return GPT2LMHeadModel(config).eval(), torch.randint(config.vocab_size, (1, length))
