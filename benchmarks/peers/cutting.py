"""Tries of what tools change: heads at zero, heads cut, other modules; what they say where nothing was touched."""

from __future__ import annotations

import copy
import tempfile
import warnings

import torch
from seeing import lens, ours
from subjects import HEADS, by_layer, ids, logits, smollm2, zeroed
from torch import Tensor, nn
from tries import HEADWISE, LENS, NNSIGHT, PRUNING, No, same, tries

import headwise as hw

WIDTH, QUERY_HEADS, KV_HEADS = 64, 9, 3


def wanted() -> Tensor:
    found = logits(zeroed(smollm2(), by_layer(HEADS)))
    assert float((found - logits(smollm2())).abs().max()) > 0.1, "the heads do nothing"
    return found


@tries("zeroed", HEADWISE)
def _() -> str:
    with hw.ablate(ours(), list(HEADS), how="zero"):
        found = logits(smollm2())
    return same(float((found - wanted()).abs().max()), 1e-3)


@tries("nothing", HEADWISE)
def _() -> str:
    try:
        with hw.ablate(ours(), ["99.0"], how="zero"):
            logits(smollm2())
    except hw.HeadwiseError as error:
        return f"`{error}`"
    raise No("nothing is said")


@tries("zeroed", NNSIGHT)
def _() -> str:
    from nnsight import NNsight

    model = NNsight(smollm2())
    with torch.no_grad(), model.trace(ids()):
        for layer, heads in by_layer(HEADS).items():
            for head in heads:
                at = slice(head * WIDTH, (head + 1) * WIDTH)
                model.model.layers[layer].self_attn.o_proj.input[:, :, at] = 0
        found = model.lm_head.output.save()
    return same(float((found - wanted()).abs().max()), 1e-3) + ", by slices of o_proj's input"


@tries("nothing", NNSIGHT)
def _() -> str:
    from nnsight import NNsight

    model = NNsight(smollm2())
    try:
        with torch.no_grad(), model.trace(ids()):
            model.model.layers[99].self_attn.o_proj.input[:, :, :WIDTH] = 0
    except Exception as error:
        return f"`{str(error).strip().splitlines()[-1][:90]}`"
    raise No("nothing is said")


def zero(heads: list[int]):
    def hook(z: Tensor, hook: object) -> Tensor:
        z = z.clone()
        z[:, :, heads] = 0
        return z

    return hook


@tries("zeroed", LENS)
def _() -> str:
    hooks = [(f"blocks.{i}.attn.hook_z", zero(heads)) for i, heads in by_layer(HEADS).items()]
    with torch.no_grad():
        found = lens().run_with_hooks(ids(), fwd_hooks=hooks)
    return same(float((found - wanted()).abs().max()), 1e-3)


@tries("nothing", LENS)
def _() -> str:
    bridge = lens()
    with torch.no_grad():
        plain = bridge(ids())
        try:
            found = bridge.run_with_hooks(
                ids(), fwd_hooks=[(lambda name: "layer.99" in name, zero([0]))]
            )
        except Exception as error:
            return f"`{' '.join(str(error).split())[:90]}`"
    assert torch.equal(plain, found)
    raise No("nothing is said where the filter of a hook matches no name")


@tries("mlp", NNSIGHT)
def _() -> str:
    from nnsight import NNsight

    model = NNsight(smollm2())
    with torch.no_grad(), model.trace(ids()):
        model.model.layers[3].mlp.output[:] = 0
        found = model.lm_head.output.save()
    return f"logits move by {float((found - logits(smollm2())).abs().max()):.1f}"


@tries("mlp", LENS)
def _() -> str:
    with torch.no_grad():
        found = lens().run_with_hooks(
            ids(), fwd_hooks=[("blocks.3.hook_mlp_out", lambda out, hook: torch.zeros_like(out))]
        )
    moved = float((found - logits(smollm2())).abs().max())
    if moved < 0.1:
        raise No("the logits did not move")
    return f"logits move by {moved:.1f}"


@tries("mlp", HEADWISE)
def _() -> str:
    with hw.ablate(ours(), ["mlp.3"], how="zero"):
        return f"logits {logits(smollm2()).shape}"


def third() -> list[str]:
    """A head of each KV group of each layer: what Torch-Pruning can cut of grouped-query attention."""
    return [f"{i}.{h}" for i in range(30) for h in (0, 3, 6)]


@tries("cut", HEADWISE)
def _() -> str:
    smaller = hw.prune(ours(), third(), quiet=True)
    gone = by_layer(tuple(third()))
    return same(float((logits(smaller.module) - logits(zeroed(smollm2(), gone))).abs().max()), 1e-3)


def reloaded(heads: list[str]) -> str:
    smaller = hw.prune(ours(), heads, quiet=True)
    with tempfile.TemporaryDirectory() as folder:
        hw.save(smaller, f"{folder}/small")
        again = hw.load(f"{folder}/small", dtype="float32")
    return same(float((logits(again.module) - logits(smaller.module)).abs().max()), 1e-3)


@tries("saved", HEADWISE)
def _() -> str:
    return reloaded(third())


@tries("uneven", HEADWISE)
def _() -> str:
    return reloaded(["3.1", "17.8"])


def pruned(
    ratio: float, layers: tuple[int, ...] = tuple(range(30))
) -> tuple[nn.Module, dict[nn.Module, int]]:
    """SmolLM2 cut by Torch-Pruning, by its own example for language models with the sizes of heads kept.

    Traced in eager attention: with sdpa it ends in "shape '[9, -1]' is invalid for input of size 192".
    """
    import torch_pruning as tp

    model = copy.deepcopy(smollm2("eager"))
    model.config.use_cache = False
    numbers: dict[nn.Module, int] = {}
    ratios: dict[nn.Module, float] = {}
    for i, layer in enumerate(model.model.layers):
        a = layer.self_attn
        numbers |= {a.q_proj: QUERY_HEADS, a.k_proj: KV_HEADS, a.v_proj: KV_HEADS}
        ratios |= dict.fromkeys((a.q_proj, a.k_proj, a.v_proj), ratio if i in layers else 0.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pruner = tp.pruner.BasePruner(
            model,
            ids(),
            importance=tp.importance.GroupMagnitudeImportance(p=2, group_reduction="mean"),
            pruning_ratio=0.0,
            pruning_ratio_dict=ratios,
            head_pruning_ratio=ratio,
            ignored_layers=[model.lm_head],
            num_heads=numbers,
            prune_num_heads=True,
            prune_head_dims=False,
        )
        pruner.step()
    return model, numbers


def grouped(model: nn.Module, numbers: dict[nn.Module, int]) -> None:
    """What Torch-Pruning leaves to its user: as many query heads a KV head as are left."""
    for layer in model.model.layers:
        a = layer.self_attn
        a.num_key_value_groups = numbers[a.q_proj] // numbers[a.k_proj]


def gone_from(model: nn.Module) -> dict[int, list[int]]:
    """The heads whose rows of W_Q are no longer there."""
    found = {}
    for i, (old, new) in enumerate(zip(smollm2().model.layers, model.model.layers, strict=True)):
        before = old.self_attn.q_proj.weight.view(QUERY_HEADS, WIDTH, -1)
        after = new.self_attn.q_proj.weight.view(-1, *before.shape[1:])
        found[i] = [
            h for h in range(QUERY_HEADS) if not any(torch.equal(before[h], x) for x in after)
        ]
    return found


@tries("cut", PRUNING)
def _() -> str:
    model, numbers = pruned(1 / 3)
    why = ""
    try:
        logits(model)
    except RuntimeError:
        why = ", once num_key_value_groups is set by hand, in eager attention"
    grouped(model, numbers)
    gone = gone_from(model)
    assert all(len(heads) == QUERY_HEADS // 3 for heads in gone.values())
    return same(float((logits(model) - logits(zeroed(smollm2(), gone))).abs().max()), 1e-3) + why


@tries("saved", PRUNING)
def _() -> str:
    from transformers import AutoModelForCausalLM

    model, numbers = pruned(1 / 3)
    grouped(model, numbers)
    before = logits(model)
    model.config.update({"num_attention_heads": 6, "num_key_value_heads": 3, "head_dim": WIDTH})
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        again = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    return (
        same(float((logits(again) - before).abs().max()), 1e-3) + ", once the config is set by hand"
    )


@tries("uneven", PRUNING)
def _() -> str:
    model, _ = pruned(1 / 3, layers=(3, 17))
    gone = {layer: heads for layer, heads in gone_from(model).items() if heads}
    if sum(map(len, gone.values())) != 2:
        raise No(f"cuts by a share, a head of each KV group: {gone or 'nothing'}")
    return f"cut {gone}"


@tries("channels", PRUNING)
def _() -> str:
    import torch_pruning as tp

    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3))
    image = torch.zeros(1, 3, 16, 16)
    graph = tp.DependencyGraph().build_dependency(model, example_inputs=image)
    graph.get_pruning_group(model[0], tp.prune_conv_out_channels, idxs=[1, 2]).prune()
    return f"8 to {model[0].out_channels} channels, with those of the next layer"


@tries("channels", HEADWISE)
def _() -> str:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3))
    return str(hw.prune(hw.load(model), ["0.1"], quiet=True))


class Peeking(nn.Module):
    """Attention that sees everything, in a model that should be causal."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embed, self.out = nn.Embedding(32, 16), nn.Linear(16, 32)
        self.attention = nn.MultiheadAttention(16, 4, batch_first=True)

    def forward(self, given: Tensor) -> Tensor:
        x = self.embed(given)
        return self.out(self.attention(x, x, x, need_weights=False)[0])


@tries("leak", HEADWISE)
def _() -> str:
    from headwise import masks

    sound = hw.audit(ours(), dimensions=("future",), length=8)
    report = hw.audit(Peeking().eval(), mask=masks.causal(), dimensions=("future",), length=8)
    if not sound.clean or report.clean:
        raise No(f"SmolLM2 clean {sound.clean}, peeking clean {report.clean}")
    return "SmolLM2 clean, a decoder without its mask not"
