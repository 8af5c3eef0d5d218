"""Windows that a config names are held layer by layer, also where the layers around them see everything."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import transformers
from faults_cached import tiny

import headwise as hw
from headwise import masks
from headwise.nn import Decoder, TransformerConfig

KINDS = ["sliding_attention", "full_attention", "sliding_attention"]
WINDOWED = {"sliding_window": 3, "num_hidden_layers": 3, "layer_types": KINDS}
FAMILIES = ["Gemma2", "Cohere2", "Olmo3"]


def widened(module: torch.nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
    """The mask of a window that is one too wide, in place of the layer's own."""
    hidden = args[0] if args else kwargs["hidden_states"]
    seen = (masks.causal() & masks.window(4)).dense(hidden.shape[1], hidden.shape[1])
    added = torch.zeros_like(seen, dtype=hidden.dtype).masked_fill(~seen, -torch.inf)
    return args, {**kwargs, "attention_mask": added}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_window_one_too_wide_is_told_among_layers_that_see_everything(name: str) -> None:
    model = tiny(name, **WINDOWED)
    sound = hw.audit(model, dimensions=["future"])
    assert sound.clean, str(sound)
    assert [o.verdict for o in sound if o.case == "window"] == ["clean"]
    model.model.layers[2].self_attn.register_forward_pre_hook(widened, with_kwargs=True)
    audit = hw.audit(model, dimensions=["future"])
    (leak,) = audit.leaks
    assert (leak.case, leak.module) == ("window", "model.layers.2.self_attn")
    assert {query - key for query, key in leak.pairs} == {3}


def test_a_window_of_ours_that_is_wider_than_its_config_says() -> None:
    config = TransformerConfig(
        vocab_size=40, num_layers=2, num_heads=2, d_model=16, d_ff=32, positions="rope", window=4
    )
    decoder = Decoder(config)
    assert hw.audit(decoder, dimensions=["future"]).clean
    decoder.blocks[1].attention.register_forward_pre_hook(
        lambda module, args: (args[0], masks.causal() & masks.window(5), *args[2:]),
    )
    (leak,) = hw.audit(decoder, dimensions=["future"]).leaks
    assert (leak.case, leak.module) == ("window", "blocks.1.attention")
    assert {query - key for query, key in leak.pairs} == {4}


def test_a_window_longer_than_the_text_is_said_to_be_unseen() -> None:
    model = tiny("Mistral", sliding_window=500)
    (outcome,) = [o for o in hw.audit(model, dimensions=["future"]) if o.case == "window"]
    assert outcome.verdict == "skipped"
    assert "greater length" in outcome.says
    assert isinstance(model, transformers.PreTrainedModel)
