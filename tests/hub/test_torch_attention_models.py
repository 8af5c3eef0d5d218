"""Modules of one's own around torch.nn: texts, padding, two texts, a trained model, and the example of the docs."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers
from tiny_models import build, ids_of, padded, seeded
from tokenizers import Tokenizer, models, pre_tokenizers
from torch import Tensor, nn
from torch_help import encoder, hidden, later, sharp, watched

import headwise as hw
from headwise.hub.get import get
from headwise.names import ModelError

ROOT = Path(__file__).parents[2]
WORDS = [
    "<unk>",
    "the",
    "cat",
    "sat",
    "on",
    "a",
    "mat",
    "and",
    "saw",
    "some",
    "dog",
    "run",
    "far",
    "away",
]

pytestmark = pytest.mark.filterwarnings("ignore:.*nested tensors", "ignore:enable_nested_tensor")


def words() -> Tokenizer:
    made = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="<unk>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return made


class Reader(nn.Module):
    """Embedding, encoder, and a mean over the positions, padding included: its zeros show outside."""

    def __init__(self, batch_first: bool = True, causal: bool = False) -> None:
        super().__init__()
        self.table = nn.Embedding(60, 8)
        self.places = nn.Embedding(20, 8)
        self.stack = encoder(batch_first)
        self.causal = causal

    def read(self, ids: Tensor, padding: Tensor | None) -> Tensor:
        x = self.table(ids) + self.places(torch.arange(ids.shape[1]))
        mask = later(ids.shape[1]) if self.causal else None
        first = self.stack.layers[0].self_attn.batch_first
        x = self.stack(x if first else x.transpose(0, 1), mask, padding)
        return (x if first else x.transpose(0, 1)).mean(1)


class TorchNamed(Reader):
    def forward(self, ids: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        return self.read(ids, src_key_padding_mask)


class Short(Reader):
    def forward(self, x: Tensor, padding_mask: Tensor | None = None) -> Tensor:
        return self.read(x, padding_mask)


class Ours(Reader):
    def forward(self, tokens: Tensor, key_padding_mask: Tensor | None = None) -> Tensor:
        return self.read(tokens, key_padding_mask)


class OfTransformers(Reader):
    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        return self.read(input_ids, None if attention_mask is None else attention_mask == 0)


class Translator(nn.Module):
    """nn.Transformer between two texts."""

    def __init__(self, batch_first: bool = True) -> None:
        super().__init__()
        self.table = nn.Embedding(60, 8)
        self.core = nn.Transformer(8, 2, 2, 2, 16, batch_first=batch_first)
        self.batch_first = batch_first

    def forward(
        self,
        source: Tensor,
        target: Tensor,
        src_key_padding_mask: Tensor | None = None,
        tgt_key_padding_mask: Tensor | None = None,
        memory_key_padding_mask: Tensor | None = None,
    ) -> Tensor:
        texts = [self.table(ids) for ids in (source, target)]
        out: Tensor = self.core(
            *(x if self.batch_first else x.transpose(0, 1) for x in texts),
            tgt_mask=later(target.shape[1]),
            src_key_padding_mask=src_key_padding_mask,
            tgt_key_padding_mask=tgt_key_padding_mask,
            memory_key_padding_mask=memory_key_padding_mask,
        )
        return out


class Renamed(Translator):
    """The same by stacks of other names."""

    def __init__(self) -> None:
        super().__init__()
        self.reading, self.writing = self.core.encoder, self.core.decoder
        del self.core
        self.core = self.through

    def through(self, source: Tensor, target: Tensor, **masks: Any) -> Tensor:
        memory = self.reading(source, src_key_padding_mask=masks.pop("src_key_padding_mask"))
        out: Tensor = self.writing(target, memory, **masks)
        return out


def assert_same(record: Any, other: Any) -> None:
    assert record.heads() == other.heads() != []
    for head in record.heads():
        mine, theirs = record.weights(head), other.weights(head)
        np.testing.assert_allclose(mine, theirs, atol=1e-5, rtol=0)


@pytest.mark.parametrize("batch_first", [True, False])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("kind", [TorchNamed, Short, Ours, OfTransformers])
def test_texts_of_unequal_lengths_give_what_each_gives_alone(
    kind: type[Reader], causal: bool, batch_first: bool
) -> None:
    model = hw.load(sharp(kind(batch_first, causal)), tokenizer=words())
    texts = ["the cat sat on a mat", "a dog", "some cat saw the mat"]
    records = hw.look(model, texts)
    for text, record in zip(texts, records, strict=True):
        assert [token.text for token in record.tokens] == text.split()
        assert record.verified < 1e-6
        assert_same(record, hw.look(model, text))
        assert (record.weights("1.1")[0, 1:] == 0).all() == causal


@pytest.mark.parametrize("own_names", [True, False])
@pytest.mark.parametrize("side", ["right", "left"])
@pytest.mark.parametrize("kind", [TorchNamed, Short])
def test_ids_padded_on_either_side(kind: type[Reader], side: str, own_names: bool) -> None:
    model = hw.load(sharp(kind()))
    rows = ids_of(6, 2, 5)
    batch = padded(rows, side)
    if own_names:
        first, padding = (
            ("ids", "src_key_padding_mask") if kind is TorchNamed else ("x", "padding_mask")
        )
        batch = {first: batch["input_ids"], padding: batch["attention_mask"] == 0}
    for row, record in zip(rows, hw.look(model, batch), strict=True):
        assert [token.id for token in record.tokens] == row.tolist()
        assert_same(record, hw.look(model, {"input_ids": row[None]})[0])


def test_looking_leaves_what_is_made_of_padding_as_it_is() -> None:
    """The encoder gives zeros there when it runs fused, and a mean over all positions shows it."""
    module = sharp(TorchNamed())
    ids, padding = torch.stack([ids_of(5)[0], ids_of(5, seed=1)[0]]), hidden(5, 2)
    with torch.no_grad():
        own = module(ids, padding)
        out, seen = watched(module, ids, padding)
    torch.testing.assert_close(out, own, atol=1e-6, rtol=0)
    assert len(seen) == 2


@pytest.mark.parametrize("kind", [Translator, lambda: Translator(batch_first=False), Renamed])
def test_two_texts(kind: Any) -> None:
    model = hw.load(sharp(kind()), tokenizer=words())
    assert model.anatomy.streams == ("encoder", "decoder", "cross")
    sources, targets = ["the cat sat on a mat", "a dog"], ["some cat", "the dog saw a cat"]
    records = hw.look(model, sources, target=targets)
    for source, target, record in zip(sources, targets, records, strict=True):
        pattern = record.pattern("cross.1.0")
        assert pattern["query"].values.tolist() == target.split()
        assert pattern["key"].values.tolist() == source.split()
        assert record.verified < 1e-6
        assert_same(record, hw.look(model, source, target=target))
    with pytest.raises(ModelError, match="is an encoder-decoder: give a target"):
        hw.look(model, sources)
    ids = {"source": ids_of(6)[0][None], "target": ids_of(3)[0][None]}
    standard = {"input_ids": ids["source"], "decoder_input_ids": ids["target"]}
    assert_same(hw.look(model, ids)[0], hw.look(model, standard)[0])


def test_a_wrapper_that_writes_by_itself_needs_no_target() -> None:
    class Wrapper(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.core = build("t5")

        def forward(self, input_ids: Tensor, attention_mask: Tensor) -> Tensor:
            start = torch.zeros(len(input_ids), 1, dtype=torch.long)
            out: Tensor = self.core(input_ids, attention_mask, decoder_input_ids=start)[0]
            return out

    (record,) = hw.look(hw.load(Wrapper()), {"input_ids": ids_of(4)[0][None]})
    assert record.weights("cross.0.0").shape == (1, 4)


def test_words_for_a_stack_give_way_to_paths_that_have_them() -> None:
    module = nn.Module()
    module.trunk = encoder()
    module.encoder = nn.Module()
    module.encoder.layers = nn.ModuleList([nn.Module(), nn.Module()])
    for layer in module.encoder.layers:
        layer.self_attn = nn.MultiheadAttention(8, 2)
    ids = [str(layer.id) for layer in hw.load(module).anatomy.layers]
    assert ids == ["trunk.0", "trunk.1", "encoder.0", "encoder.1"]


def test_ids_read_the_other_way_round_are_noticed() -> None:
    class Columns(Reader):
        """Reads [position, batch], as torch.nn does by default."""

        def forward(self, ids: Tensor) -> Tensor:
            out: Tensor = self.stack(self.table(ids))
            return out

    model = hw.load(sharp(Columns(batch_first=False)), tokenizer=words())
    with pytest.raises(ModelError, match=r"batch of 1 into 3; .*\[batch, position\]"):
        hw.look(model, "the cat sat")


def test_a_model_of_transformers_with_an_attention_of_torch_in_it() -> None:
    """SigLIP pools its patches by nn.MultiheadAttention; all else goes through the interface."""
    config = transformers.SiglipVisionConfig(
        hidden_size=24, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        image_size=12, patch_size=4,
    )  # fmt: skip
    module = seeded(transformers.SiglipVisionModel, config)
    pixels = torch.randn(2, 3, 12, 12)
    model = hw.load(module)
    assert len(model.anatomy.layers) == 3
    records = hw.look(model, {"pixel_values": pixels})
    pool = next(layer for layer in model.anatomy.layers if "head" in layer.path)
    kept: list[Tensor] = []
    own = type(pool.module).forward

    def spy(*args: Any, **kwargs: Any) -> Any:
        kept.append(own(pool.module, *args, **kwargs, average_attn_weights=False)[1])
        return own(pool.module, *args, **kwargs)

    pool.module.forward = spy  # type: ignore[method-assign]
    module.set_attn_implementation("eager")
    with torch.no_grad():
        eager = module(pixel_values=pixels, output_attentions=True).attentions
    for i, record in enumerate(records):
        assert record.verified < 1e-5
        for head in range(4):
            mine = torch.tensor(record.weights(pool.id.head(head)))
            torch.testing.assert_close(mine, kept[0][i, head].double(), atol=1e-5, rtol=0)
            for layer, weights in zip(model.anatomy.layers, eager, strict=False):
                mine = torch.tensor(record.weights(layer.id.head(head)))
                torch.testing.assert_close(mine, weights[i, head].double(), atol=1e-5, rtol=0)


def test_the_example_of_the_docs_runs() -> None:
    text = (ROOT / "docs" / "en" / "models.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)
    assert len(blocks) == 1
    scope: dict[str, Any] = {"my_tokenizer": words()}
    exec(compile(blocks[0], "docs/en/models.md", "exec"), scope)
    assert scope["pattern"].dims == ("query", "key")
    assert scope["record"].verified < 1e-5


class Bert(nn.Module):
    """BERT in torch.nn: post-norm encoder layers with gelu, under embeddings."""

    def __init__(self, bert: Any) -> None:
        super().__init__()
        config = bert.config
        self.embeddings = copy.deepcopy(bert.embeddings)
        layer = nn.TransformerEncoderLayer(
            config.hidden_size, config.num_attention_heads, config.intermediate_size,
            activation="gelu", layer_norm_eps=config.layer_norm_eps, batch_first=True,
        )  # fmt: skip
        self.encoder = nn.TransformerEncoder(layer, config.num_hidden_layers)
        for mine, theirs in zip(self.encoder.layers, bert.encoder.layer, strict=True):
            mine.load_state_dict(self._layer(theirs))

    @staticmethod
    def _layer(theirs: Any) -> dict[str, Tensor]:
        own = theirs.attention.self
        parts = {
            "self_attn.out_proj": theirs.attention.output.dense,
            "norm1": theirs.attention.output.LayerNorm,
            "linear1": theirs.intermediate.dense,
            "linear2": theirs.output.dense,
            "norm2": theirs.output.LayerNorm,
        }
        state = {
            f"{name}.{k}": v for name, part in parts.items() for k, v in part.state_dict().items()
        }
        for kind in ("weight", "bias"):
            packed = [getattr(part, kind) for part in (own.query, own.key, own.value)]
            state[f"self_attn.in_proj_{kind}"] = torch.cat(packed)
        return state

    def forward(self, ids: Tensor, src_key_padding_mask: Tensor | None = None) -> Tensor:
        out: Tensor = self.encoder(
            self.embeddings(input_ids=ids), src_key_padding_mask=src_key_padding_mask
        )
        return out


@pytest.mark.models
def test_trained_weights_in_torchs_modules_have_the_same_heads() -> None:
    texts = ["The cat that the dogs chased sat on the mat.", "Heads look at tokens."]
    minilm = hw.load("minilm", quiet=True)
    bert = transformers.BertModel.from_pretrained(get("minilm", quiet=True)).eval()
    module = Bert(bert).eval()
    model = hw.load(module, tokenizer=minilm.tokenizer)
    for mine, theirs in zip(hw.look(model, texts), hw.look(minilm, texts), strict=True):
        assert mine.heads() == theirs.heads()
        assert len(mine.heads()) == 72
        assert [t.text for t in mine.tokens] == [t.text for t in theirs.tokens]
        assert mine.verified < 1e-5
        for head in mine.heads():
            np.testing.assert_allclose(mine.weights(head), theirs.weights(head), atol=1e-5, rtol=0)
    batch = transformers.AutoTokenizer.from_pretrained(get("minilm", quiet=True))(
        texts, return_tensors="pt", padding=True
    )
    with torch.no_grad():
        own = module(batch["input_ids"], batch["attention_mask"] == 0)
        looked, seen = watched(module, batch["input_ids"], batch["attention_mask"] == 0)
    assert len(seen) == 6
    torch.testing.assert_close(looked, own, atol=1e-5, rtol=0)
