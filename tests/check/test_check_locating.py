"""Planted faults in models of many structures: the module in which the forbidden influence enters is named."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from locating_help import (
    FAMILIES,
    LENGTH,
    ahead,
    blend,
    change_output,
    edited,
    future_entry,
    ids_of,
    ours,
    spread,
    tiny,
)
from torch import Tensor, nn

from headwise.check.locating import Entry, entry
from headwise.check.tracing import trace
from headwise.core import masks

CAUSAL = [name for name in FAMILIES if name != "albert"]

LAYERS = {
    "llama": "model.layers.1",
    "mixtral": "model.layers.1",
    "gpt2": "transformer.h.1",
    "bloom": "transformer.h.1",
    "falcon": "transformer.h.1",
    "mamba": "backbone.layers.1",
    "rwkv": "rwkv.blocks.1",
}

PARTS = {
    "llama": ("self_attn", "mlp", "mlp.up_proj", "post_attention_layernorm", "self_attn.v_proj"),
    "mixtral": ("self_attn", "mlp", "mlp.experts", "input_layernorm", "self_attn.o_proj"),
    "gpt2": ("attn", "mlp", "mlp.c_fc", "ln_2", "attn.c_proj"),
    "bloom": ("self_attention", "mlp", "mlp.gelu_impl", "input_layernorm"),
    "falcon": ("self_attention", "mlp", "mlp.act", "self_attention.query_key_value"),
    "mamba": ("mixer", "norm", "mixer.in_proj", "mixer.out_proj"),
    "rwkv": ("attention", "feed_forward", "attention.key", "ln2"),
}


@pytest.mark.parametrize("name", CAUSAL)
def test_a_sound_model_has_no_entry(name):
    assert future_entry(tiny(name)) is None


def test_a_sound_block_of_ours_has_no_entry():
    assert future_entry(ours()) is None


@pytest.mark.parametrize("change", [blend, ahead])
@pytest.mark.parametrize(("name", "part"), [(n, p) for n in CAUSAL for p in ("", *PARTS[n])])
def test_the_module_that_mixes_time_is_named(name, part, change):
    model = tiny(name)
    path = f"{LAYERS[name]}.{part}".rstrip(".")
    change_output(model, path, change)
    assert future_entry(model) == Entry(path, type(model.get_submodule(path)).__name__)


@pytest.mark.parametrize(
    "path", ["blocks.1.attention", "blocks.0.ffn", "blocks.2.attention.w_o", "final_norm"]
)
def test_a_module_of_ours_is_named(path):
    model = ours()
    change_output(model, path, blend)
    found = future_entry(model)
    assert found is not None
    assert found.module == path


def test_a_hook_that_drops_the_mask_of_one_layer():
    model = tiny("llama", attn_implementation="eager")
    part = model.get_submodule("model.layers.1.self_attn")
    part.register_forward_pre_hook(
        lambda _, args, kwargs: (args, kwargs | {"attention_mask": None}), with_kwargs=True
    )
    assert future_entry(model) == Entry("model.layers.1.self_attn", "LlamaAttention")


@pytest.mark.parametrize(
    "mask", [masks.full(), masks.window(5, ahead=1), masks.causal() | masks.prefix(9)]
)
def test_a_mask_of_ours_that_shows_too_much(mask):
    model = ours()
    model.get_submodule("blocks.1.attention").register_forward_pre_hook(
        lambda _, args, kwargs: ((args[0], mask), {k: v for k, v in kwargs.items() if k != "mask"}),
        with_kwargs=True,
    )
    assert future_entry(model) == Entry("blocks.1.attention", "MultiHeadAttention")


def test_a_hook_that_changes_what_a_module_reads_is_its_part():
    model = tiny("gpt2")
    model.get_submodule("transformer.h.2.mlp").register_forward_pre_hook(
        lambda _, args: blend(args[0])
    )
    assert future_entry(model) == Entry("transformer.h.2.mlp", "GPT2MLP")


def test_a_hook_that_changes_what_a_module_gives_is_its_part():
    model = tiny("gpt2")
    model.get_submodule("transformer.h.2.mlp").register_forward_hook(
        lambda _, args, out: blend(out)
    )
    assert future_entry(model) == Entry("transformer.h.2.mlp", "GPT2MLP")


class Plain(nn.Module):
    """A causal model in plain torch, with room for faults."""

    def __init__(self, mixer: nn.Module, fault: str = "") -> None:
        super().__init__()
        self.embed = nn.Embedding(97, 16)
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(2))
        self.first = nn.Linear(16, 16)
        self.mixer = mixer
        self.head = nn.Linear(16, 97)
        self.fault = fault

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        x = x + self.first(self.norms[0](x))
        if self.fault == "roll":
            x = torch.roll(x, -1, 1)
        pooled = x.mean(1)
        if self.fault == "pooled":
            return self.head(x + self.mixer(x, pooled))
        return self.head(x + self.mixer(self.norms[1](x)))


class Conv(nn.Module):
    """A convolution over time, padded left (causal) or on both sides."""

    def __init__(self, left: int, right: int, inside: bool = False) -> None:
        super().__init__()
        self.pad = (left, right)
        self.conv = nn.Conv1d(16, 16, 3, padding=1 if inside else 0)

    def forward(self, x: Tensor) -> Tensor:
        x = x.mT if self.conv.padding[0] else F.pad(x.mT, self.pad)
        return self.conv(x).mT


class Film(nn.Module):
    """Makes use of a pooled vector."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Linear(16, 16)

    def forward(self, x: Tensor, pooled: Tensor) -> Tensor:
        return x * self.scale(pooled)[:, None]


class OverTime(nn.Module):
    """nn.BatchNorm1d over [batch, channel, time]."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.BatchNorm1d(16)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(x.mT).mT


class Scores(nn.Module):
    """Attention with modules for its scores and its softmax; masks between the two."""

    def __init__(self, masked: bool) -> None:
        super().__init__()
        self.masked = masked
        self.scores = nn.Bilinear(16, 16, 1)
        self.softmax = nn.Softmax(-1)
        self.drop = nn.Dropout(0.0)

    def forward(self, x: Tensor) -> Tensor:
        n = x.shape[1]
        pairs = x[:, :, None].expand(-1, n, n, -1), x[:, None].expand(-1, n, n, -1)
        scores = self.scores(*(p.contiguous() for p in pairs)).squeeze(-1)
        if self.masked:
            scores = scores.masked_fill(torch.ones(n, n).triu(1).bool(), float("-inf"))
        return self.drop(self.softmax(scores)) @ x


PLAIN: list[tuple[nn.Module, str, str | None]] = [
    (nn.Identity(), "", None),
    (Conv(2, 0), "", None),
    (Scores(True), "", None),
    (nn.Identity(), "roll", ""),
    (Conv(1, 1), "", "mixer.conv"),
    (Conv(0, 0, inside=True), "", "mixer.conv"),
    (Film(), "pooled", "mixer"),
    (Scores(False), "", "mixer"),
    (Conv(2, 0), "roll", ""),
]


@pytest.mark.parametrize(
    ("mixer", "fault", "path"),
    PLAIN,
    ids=lambda x: type(x).__name__ if isinstance(x, nn.Module) else str(x),
)
def test_plain_models(mixer, fault, path):
    torch.manual_seed(0)
    model = spread(Plain(mixer, fault))
    found = future_entry(model)
    assert (None if found is None else found.module) == path


@pytest.mark.parametrize("batch", [1, 2])
def test_batch_norm_over_time_in_training(batch):
    torch.manual_seed(0)
    model = spread(Plain(OverTime()))
    assert future_entry(model, batch=batch) is None
    assert future_entry(model.train(), batch=batch) == Entry("mixer.norm", "BatchNorm1d")


@pytest.mark.parametrize("name", [*CAUSAL, "albert"])
def test_rows_that_mix_are_seen_whichever_way_modules_lay_them(name):
    model = tiny(name)
    ids = ids_of(2)
    at = torch.tensor([[False] * LENGTH, [True] * LENGTH])
    linear = ("Linear", "BloomGelu", "FalconLinear", "Conv1D")
    path, kind = [
        (p, type(m).__name__) for p, m in model.named_modules() if type(m).__name__ in linear
    ][4]

    def found() -> Entry | None:
        a = trace(model, lambda: model(ids), LENGTH, 2)
        b = trace(model, lambda: model(edited(ids)), LENGTH, 2)
        return entry(a, b, at, tolerance=1e-9)

    assert found() is None
    model.get_submodule(path).register_forward_hook(
        lambda _, args, out: out + 0.1 * out.mean(tuple(range(out.dim() - 1)), keepdim=True)
    )
    assert found() == Entry(path, kind)


def test_a_shared_layer_is_named_from_its_second_call_on():
    model = tiny("albert")
    path = "encoder.albert_layer_groups.0.albert_layers.0.ffn"
    calls = []

    def second(_: nn.Module, args: Any, out: Tensor) -> Tensor:
        calls.append(0)
        return out + out.mean(0, keepdim=True) if len(calls) % 3 == 2 else out

    model.get_submodule(path).register_forward_hook(second)
    ids = ids_of(2)
    a = trace(model, lambda: model(ids), LENGTH, 2)
    b = trace(model, lambda: model(edited(ids)), LENGTH, 2)
    assert len([c for c in a.ended() if c.path == path]) == 3
    at = torch.tensor([[False] * LENGTH, [True] * LENGTH])
    found = entry(a, b, at, tolerance=1e-9)
    assert found == Entry(path, "Linear")


_T5 = {
    "vocab_size": 97,
    "d_model": 16,
    "d_kv": 4,
    "d_ff": 24,
    "num_layers": 2,
    "num_heads": 4,
    "decoder_start_token_id": 0,
}
_BART = {
    "vocab_size": 97,
    "d_model": 16,
    "encoder_layers": 2,
    "decoder_layers": 2,
    "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
    "encoder_ffn_dim": 24,
    "decoder_ffn_dim": 24,
    "max_position_embeddings": 64,
}
SOURCE = 17


def speaker(name: str) -> tuple[nn.Module, Tensor, Tensor]:
    """An encoder-decoder, what it reads and what it writes."""
    torch.manual_seed(0)
    fields = {"T5": _T5, "Bart": _BART}[name]
    config = getattr(transformers, f"{name}Config")(**fields, attn_implementation="eager")
    model = spread(getattr(transformers, f"{name}ForConditionalGeneration")(config))
    return model, ids_of(length=SOURCE, seed=3), ids_of()


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("T5", "decoder.block.1.layer.0.SelfAttention"),
        ("T5", "decoder.block.0.layer.1"),
        ("T5", "decoder.block.1.layer.2.DenseReluDense"),
        ("Bart", "model.decoder.layers.1.self_attn"),
        ("Bart", "model.decoder.layers.1.fc2"),
        ("Bart", "model.decoder"),
    ],
)
def test_a_decoder_that_sees_the_future(name, path):
    model, source, target = speaker(name)

    def run(ids: Tensor) -> object:
        return model(input_ids=source, decoder_input_ids=ids)

    assert future_entry(model, run) is None
    part = model.get_submodule(path)
    forward = part.forward

    def changed(*args: Any, **kwargs: Any) -> Any:
        out = forward(*args, **kwargs)
        if isinstance(out, Tensor):
            return blend(out)
        if isinstance(out, tuple):
            return (blend(out[0]), *out[1:])
        out.last_hidden_state = blend(out.last_hidden_state)
        return out

    part.forward = changed  # type: ignore[method-assign]
    assert future_entry(model, run) == Entry(path, type(part).__name__)


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("T5", "decoder.block.1.layer.1.EncDecAttention"),
        ("Bart", "model.decoder.layers.1.encoder_attn"),
    ],
)
def test_a_cross_attention_that_forgets_the_padding_of_the_source(name, path):
    model, source, target = speaker(name)
    real = torch.arange(SOURCE)[None] < 12
    everywhere = torch.ones(1, LENGTH, dtype=torch.bool)

    def found() -> Entry | None:
        runs = [
            trace(
                model,
                lambda s=s: model(
                    input_ids=s, attention_mask=real.long(), decoder_input_ids=target
                ),
                LENGTH,
            )
            for s in (source, edited(source, 14))
        ]
        return entry(runs[0], runs[1], everywhere, tolerance=1e-9)

    assert found() is None
    part = model.get_submodule(path)
    part.register_forward_pre_hook(
        lambda _, args, kwargs: (
            args,
            {k: None if "mask" in k else v for k, v in kwargs.items()},
        ),
        with_kwargs=True,
    )
    assert found() == Entry(path, type(part).__name__)


class Told(nn.Module):
    """torch's own encoder with a causal mask, which the layers from `without` on are not told."""

    def __init__(self, batch_first: bool, without: int) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 4, 24, 0.0, batch_first=batch_first)
        self.stack = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.batch_first, self.without = batch_first, without

    def forward(self, x: Tensor) -> Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], dtype=x.dtype)
        x = x if self.batch_first else x.transpose(0, 1)
        for i, layer in enumerate(self.stack.layers):
            x = layer(x, None if i >= self.without else mask)
        return x if self.batch_first else x.transpose(0, 1)


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("batch_first", [True, False])
def test_layers_of_torch(batch_first, batch):
    torch.manual_seed(0)
    told = spread(Plain(Told(batch_first, without=3)))
    assert future_entry(told, batch=batch) is None
    torch.manual_seed(0)
    untold = spread(Plain(Told(batch_first, without=1)))
    found = future_entry(untold, batch=batch)
    assert found == Entry("mixer.stack.layers.1.self_attn", "MultiheadAttention")


def by_gradient(model: nn.Module, embed: str, **options: Any) -> Entry | None:
    """Where a gradient leads from before EDITED to EDITED."""
    ids = ids_of()

    with torch.no_grad():
        source = model.get_submodule(embed)(ids).requires_grad_()
    handle = model.get_submodule(embed).register_forward_hook(lambda _, args, out: source)
    keys = torch.arange(LENGTH)[None] == EDITED
    found = entry_by_gradient(model, lambda: model(ids), source, keys, before(), **options)
    handle.remove()
    return found


EMBED = {
    "llama": "model.embed_tokens",
    "mixtral": "model.embed_tokens",
    "gpt2": "transformer.wte",
    "bloom": "transformer.word_embeddings",
    "falcon": "transformer.word_embeddings",
    "mamba": "backbone.embeddings",
}


@pytest.mark.parametrize("name", EMBED)
def test_by_gradient_influences_too_small_for_values(name):
    model = tiny(name)
    assert by_gradient(model, EMBED[name]) is None
    path = f"{LAYERS[name]}.{PARTS[name][0]}"
    change_output(model, path, lambda x: x + 1e-30 * x.mean(-2, keepdim=True))
    assert future_entry(model) is None
    assert by_gradient(model, EMBED[name]) == Entry(path, type(model.get_submodule(path)).__name__)


@pytest.mark.parametrize(
    "path", ["blocks.1.attention", "blocks.0.ffn.w_in", "final_norm", "blocks.2"]
)
def test_by_gradient_in_ours(path):
    model = ours()
    assert by_gradient(model, "embedding.tokens") is None
    change_output(model, path, lambda x: x + 1e-30 * torch.roll(x, -1, 1))
    found = by_gradient(model, "embedding.tokens")
    assert found is not None
    assert found.module == path


def test_by_gradient_sums_do_not_cancel():
    model = ours()
    change_output(model, "blocks.1.ffn", lambda x: x + x.flip(1) - x.flip(1).mean(-1, keepdim=True))
    model.final_norm = nn.LayerNorm(16, dtype=torch.float64)
    assert by_gradient(model, "embedding.tokens") == Entry("blocks.1.ffn", "FeedForward")


def test_by_gradient_what_is_below_the_tolerance_is_none():
    model = ours()
    change_output(model, "blocks.1.ffn", lambda x: x + 1e-12 * torch.roll(x, -1, 1))
    assert by_gradient(model, "embedding.tokens", tolerance=1e-9) is None
