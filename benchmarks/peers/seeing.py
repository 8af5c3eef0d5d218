"""Tries of what tools show: patterns, padding, Chinese, pages, roles, intermediate tensors."""

from __future__ import annotations

import copy
import re
import tempfile
from pathlib import Path

import torch
from subjects import CHINESE, PADS, apart, ids, padded, patterns, smollm2, tokenizer
from torch import nn
from tries import BERTVIZ, HEADWISE, LENS, NNSIGHT, No, same, tries

import headwise as hw


def ours() -> hw.Model:
    return hw.load(smollm2(), tokenizer=tokenizer())


def rows(record: hw.Record) -> list[torch.Tensor]:
    return [layer.scores.rows() for layer in record.layers.values()]


@tries("gqa", HEADWISE)
def _() -> str:
    record = hw.look(ours(), {"input_ids": ids()})[0]
    assert smollm2().config._attn_implementation == "sdpa"
    return same(apart(rows(record), patterns()), 1e-4)


@tries("padding", HEADWISE)
def _() -> str:
    given, mask = padded()
    record = hw.look(ours(), {"input_ids": given, "attention_mask": mask})[0]
    return same(apart(rows(record), patterns()), 1e-4)


@tries("unmasked", HEADWISE)
def _() -> str:
    record = hw.look(ours(), {"input_ids": padded()[0]})[0]
    found = [x[..., PADS:, PADS:] for x in rows(record)]
    return same(apart(found, patterns()), 1e-4)


def our_page(text: str) -> str:
    with tempfile.TemporaryDirectory() as folder:
        page = Path(folder) / "page.html"
        hw.save_page(hw.look(ours(), text), page)
        return page.read_text(encoding="utf-8")


@tries("chinese", HEADWISE)
def _() -> str:
    page = our_page(CHINESE)
    if CHINESE not in page:
        raise No("the sentence is not in the page")
    return "the sentence is in the page, whole"


@tries("offline", HEADWISE)
def _() -> str:
    return loads_nothing(our_page(CHINESE))


@tries("sink", HEADWISE)
def _() -> str:
    table = hw.profile(ours(), [CHINESE])
    best = table["first"].stack(head_id=("layer", "head")).idxmax().item()
    return f"probe `first` of {len(hw.probes.BUILT_IN)} built in: {best[0]}.{best[1]}"


def loads_nothing(page: str) -> str:
    away = sorted(
        set(re.findall(r"https?://[^\"'\s)<>]+?(?:\.min(?:\.js)?|\.js|\.css)(?=[\"'])", page))
    )
    if away:
        raise No(f"loads {', '.join(away)}")
    return "no script or stylesheet from elsewhere"


def their_page(attention: tuple[torch.Tensor, ...]) -> str:
    from bertviz import model_view

    tokens = tokenizer().convert_ids_to_tokens(ids(CHINESE)[0])
    found = model_view(attention, tokens, include_layers=[0], html_action="return")
    return found.data


def attention_of(kind: str, text: str = CHINESE) -> tuple[torch.Tensor, ...]:
    with torch.no_grad():
        return smollm2(kind)(ids(text), output_attentions=True, use_cache=False).attentions


@tries("gqa", BERTVIZ)
def _() -> str:
    their_page(attention_of("sdpa"))
    return "drawn"


@tries("eager", BERTVIZ)
def _() -> str:
    size = len(their_page(attention_of("eager"))) / 1e6
    return f"drawn from transformers' eager attention, {size:.1f} MB a layer"


@tries("chinese", BERTVIZ)
def _() -> str:
    page = their_page(attention_of("eager"))
    lost = [c for c in CHINESE if c not in page and c.encode("unicode_escape").decode() not in page]
    if lost:
        shown = " ".join(tokenizer().convert_ids_to_tokens(ids(CHINESE)[0])[:3])
        raise No(
            f"{len(lost)} of {len(CHINESE)} characters are not in the page; it begins `{shown}`"
        )
    return "all characters are in the page"


@tries("offline", BERTVIZ)
def _() -> str:
    return loads_nothing(their_page(attention_of("eager")))


def lens(module: nn.Module | None = None) -> nn.Module:
    from transformer_lens.model_bridge.sources._bridge_builder import build_bridge_from_module

    whole = copy.deepcopy(module or smollm2())
    return build_bridge_from_module(
        whole, "LlamaForCausalLM", hf_config=whole.config, tokenizer=tokenizer()
    )


def lens_patterns(given: torch.Tensor, **more: torch.Tensor) -> list[torch.Tensor]:
    with torch.no_grad():
        _, cache = lens().run_with_cache(
            given, names_filter=lambda name: name.endswith("hook_pattern"), **more
        )
    return list(cache.values())


@tries("gqa", LENS)
def _() -> str:
    return (
        same(apart(lens_patterns(ids()), patterns()), 1e-4) + ", by eager attention, which it sets"
    )


@tries("padding", LENS)
def _() -> str:
    given, mask = padded()
    found = [x[..., PADS:, PADS:] for x in lens_patterns(given, attention_mask=mask)]
    return same(apart(found, patterns()), 1e-4)


@tries("unmasked", LENS)
def _() -> str:
    found = [x[..., PADS:, PADS:] for x in lens_patterns(padded()[0])]
    return same(apart(found, patterns()), 1e-4)


@tries("sink", LENS)
def _() -> str:
    from transformer_lens.head_detector import HEAD_NAMES, detect_head

    try:
        detect_head(lens(), "The animal didn't", "first_token_head")
    except AssertionError as error:
        raise No(f"knows {', '.join(HEAD_NAMES)}; others as a matrix of one's own") from error
    return "knows it"


@tries("residual", LENS)
def _() -> str:
    with torch.no_grad():
        _, cache = lens().run_with_cache(ids())
    return f"{len(cache)} tensors by name in one pass"


@tries("residual", NNSIGHT)
def _() -> str:
    from nnsight import NNsight

    model = NNsight(smollm2())
    with torch.no_grad(), model.trace(ids()):
        found = model.model.layers[3].mlp.output.save()
    return f"any module's input and output, as layers[3].mlp: {list(found.shape)}"


@tries("residual", HEADWISE)
def _() -> str:
    record = hw.look(ours(), {"input_ids": ids()})[0]
    named = sorted(name for name in vars(next(iter(record.layers.values()))) if name[0] != "_")
    raise No(f"a record holds attention alone: {', '.join(named)}")


def sight_weights(kind: str) -> list[torch.Tensor]:
    import nnsight

    model = nnsight.NNsight(smollm2(kind))
    with torch.no_grad(), model.trace(ids()):
        found = nnsight.save([layer.self_attn.output[1] for layer in model.model.layers])
    if found[0] is None:
        raise No("the attention weights are None")
    return found


@tries("gqa", NNSIGHT)
def _() -> str:
    return same(apart(sight_weights("sdpa"), patterns()), 1e-4)


@tries("eager", NNSIGHT)
def _() -> str:
    return same(apart(sight_weights("eager"), patterns()), 1e-4)
