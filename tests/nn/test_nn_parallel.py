"""A model over several processes by heads is the model in one: outputs, losses, weights, random numbers."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from parallel_help import config, inputs, logits_of, loud, off, pair, split, trained
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.parallel import loss_parallel

from headwise.names import ConfigError
from headwise.nn import (
    Decoder,
    Encoder,
    EncoderDecoder,
    MultiHeadAttention,
    checkpoint_activations,
)
from headwise.nn.parallel import by_heads
from headwise.nn.parallel.heads import share_of

MODELS = {
    "each its KV head": (Decoder, {}),
    "grouped": (Decoder, {"num_kv_heads": 4, "positions": "alibi"}),
    "one KV head": (Decoder, {"num_kv_heads": 1, "qk_norm": True}),
    "groups of two processes": (Decoder, {"num_heads": 6, "num_kv_heads": 3, "head_dim": 8}),
    "untied, no biases": (
        Decoder,
        {
            "positions": "learned",
            "tie_embeddings": False,
            "activation": "swiglu",
            "norm": "rms",
            "attention_bias": False,
            "attention_out_bias": False,
            "ffn_bias": False,
        },
    ),
    "encoder": (
        Encoder,
        {
            "norm_position": "post",
            "token_types": 2,
            "embedding_norm": True,
            "masked_head": True,
            "positions": "sinusoidal",
        },
    ),
    "encoder and decoder, like T5": (
        EncoderDecoder,
        {
            "positions": "relative",
            "relative_buckets": 8,
            "share_embeddings": True,
            "scale_logits": True,
            "attention_scale": 1.0,
            "activation": "geglu",
        },
    ),
    "of sound, like Whisper": (
        EncoderDecoder,
        {"positions": "learned", "features": 40, "output_bias": True, "num_kv_heads": 2},
    ),
}


@pytest.fixture(scope="module")
def learned():
    """Of each model: how far outputs are, the losses of one process and of two, how far its weights are then."""

    def job(mesh):
        found = {}
        for name, (kind, fields) in MODELS.items():
            one, two = pair(mesh, loud(kind, **fields))
            ids, padding = inputs()
            wrong = logits_of(one, ids, padding) - logits_of(two, ids, padding)
            before = wrong[~padding].abs().max().item()
            if name == "grouped":
                checkpoint_activations(two)
            found[name] = before, trained(one), trained(two), off(one, two)
        return found

    return split(2, job)


@pytest.mark.parametrize("name", MODELS)
def test_two_processes_compute_and_learn_what_one_does(name, learned):
    for found in learned:
        before, losses, ours, weights = found[name]
        assert before < 1e-9
        assert losses == pytest.approx(ours, abs=1e-9)
        assert len(set(losses)) == 3
        assert weights < 1e-5


def test_four_processes_share_two_kv_heads():
    def job(mesh):
        one, two = pair(mesh, loud(num_kv_heads=2))
        part = two.blocks[0].attention.w_qkv.queries.weight
        return trained(one), trained(two), off(one, two), tuple(part.to_local().shape)

    for losses, ours, weights, shape in split(4, job):
        assert losses == pytest.approx(ours, abs=1e-9)
        assert weights < 1e-5
        assert shape == (2 * 4, 32)


def test_a_process_holds_its_part_of_what_is_large():
    def job(mesh):
        one, two = pair(mesh, loud(num_kv_heads=4))
        held = sum(p.to_local().numel() for p in two.parameters() if isinstance(p, DTensor))
        return held, sum(p.numel() for p in one.parameters()), len(list(two.parameters()))

    for held, whole, _ in split(2, job):
        assert whole / 2 < held < 0.56 * whole


@torch.no_grad()
@pytest.mark.parametrize("positions", ["rope", "alibi"])
def test_cached_steps_are_the_full_pass(positions):
    ids, _ = inputs()

    def job(mesh):
        one, two = pair(mesh, loud(num_kv_heads=4, positions=positions))
        cache = two.new_cache(9)
        steps = [two(part, cache=cache) for part in ids.split([4, 1, 1, 3], dim=1)]
        return (torch.cat(steps, 1) - one(ids)).abs().max().item()

    assert max(split(2, job)) < 1e-9


def test_dropout_is_the_same_on_the_stream_and_another_on_other_heads():
    ids, _ = inputs()

    def job(mesh):
        torch.manual_seed(mesh.get_local_rank())  # by_heads brings them together
        model = Decoder(config(dropout=0.2, attention_dropout=0.5))
        attention = model.blocks[0].attention
        with torch.no_grad():  # heads that only dropout tells apart
            attention.w_qkv.weight.copy_(torch.linspace(-1, 1, 32).expand(96, 32))
        by_heads(model, mesh)
        attention.w_o.register_forward_pre_hook(lambda _, given: seen.append(given[0].detach()))
        seen: list[torch.Tensor] = []
        out = model(ids)
        out.sum().backward()
        gradient = model.final_norm.weight.grad.full_tensor()
        return out.detach().numpy(), seen[0].numpy(), gradient.numpy(), torch.rand(1).item()

    (out, z, gradient, after), (out2, z2, gradient2, after2) = split(2, job)
    assert out == pytest.approx(out2, abs=1e-6)
    assert gradient == pytest.approx(gradient2, abs=1e-6)
    assert after == after2
    assert abs(z - z2).max() > 0.01


def test_logits_that_stay_split_give_torch_s_parallel_loss():
    ids, _ = inputs()
    goal = torch.where(torch.arange(9) < 8, ids.roll(-1, 1), -100).flatten()

    def job(mesh):
        fields = {"tie_embeddings": False, "output_bias": True}
        one, two = pair(mesh, loud(**fields), whole_logits=False)
        loss = F.cross_entropy(one(ids).flatten(0, 1), goal)
        loss.backward()
        logits = two(ids)
        with loss_parallel():
            other = F.cross_entropy(logits.flatten(0, 1), goal)
            other.backward()
        wrong = one.unembed.weight.grad - two.unembed.weight.grad.full_tensor()
        return logits.to_local().shape[-1], loss.item(), other.item(), wrong.abs().max().item()

    for (size, loss, other, wrong), held in zip(split(2, job), (16, 15), strict=True):
        assert size == held
        assert other == pytest.approx(loss, abs=1e-12)
        assert wrong < 1e-12


def test_what_cannot_be_split_is_refused_before_anything_is():
    def refused(model, mesh):
        with pytest.raises(ConfigError) as error:
            by_heads(model, mesh)
        assert not any(isinstance(p, DTensor) for p in model.parameters())
        return str(error.value)

    def job(mesh):
        odd = refused(Decoder(config(num_heads=5, head_dim=4)), mesh)
        plain = refused(nn.Linear(2, 2), mesh)
        small = refused(Decoder(config(vocab_size=1)), mesh)
        two = init_device_mesh("cpu", (2, 1), mesh_dim_names=("data", "heads"))
        wide = refused(Decoder(config()), two)
        with pytest.raises(ConfigError, match="split already"):
            by_heads(by_heads(Decoder(config()), mesh), mesh)
        return odd, plain, small, wide

    for odd, plain, small, wide in split(2, job):
        assert odd == (
            "num_heads=5 of blocks.0.attention is not a multiple of the mesh's 2 processes; use 1, 5 of them"
        )
        assert "Linear has no headwise.nn.MultiHeadAttention" in plain
        assert "vocab_size=1 leaves one of 2 processes without a token" in small
        assert "the mesh has 2 dimensions" in wide


def test_an_attention_layer_alone():
    def job(mesh):
        torch.manual_seed(0)
        x, memory = torch.randn(2, 5, 24).double(), torch.randn(2, 7, 24).double()
        one, two = pair(mesh, MultiHeadAttention(24, 6, 2).double())
        crossed = (one(x, memory=memory) - two(x, memory=memory)).abs().max().item()
        return crossed, (one(x) - two(x)).abs().max().item(), off(one, two)

    assert max(max(found) for found in split(2, job)) < 1e-12


@pytest.mark.parametrize(
    ("reads", "kv_heads", "runs", "alone"),
    [
        ([0, 0, 1, 1, 2, 2, 3, 3], 4, [(range(2), None), (range(2, 4), None)], True),
        ([0, 0, 0, 0], 1, [(range(1), None)] * 2, False),
        ([0, 0, 1, 1, 2, 2], 3, [(range(2), (2, 1)), (range(1, 3), (1, 2))], False),
        ([0, 0, 0, 1], 2, [(range(1), (2,)), (range(2), (1, 1))], False),
    ],
)
def test_the_kv_heads_that_a_process_reads(reads, kv_heads, runs, alone):
    for rank, (mine, groups) in enumerate(runs):
        share = share_of(reads, kv_heads, rank, len(runs))
        assert (share.kv_heads, share.groups, share.alone) == (mine, groups, alone)
        assert share.heads == range(rank * len(reads) // 2, (rank + 1) * len(reads) // 2)
