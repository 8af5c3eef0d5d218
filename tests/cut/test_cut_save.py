"""A model that was not cut saves as what it was: the same weights by the same names, read by transformers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from save_families import BERT, OURS, THEIRS, checkpoint, config, weights
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import (
    AutoModel,
    AutoModelForCausalLM,
    BertConfig,
    BertModel,
    PreTrainedTokenizerFast,
)

import headwise as hw
from headwise.names import ModelError
from headwise.nn import Decoder, Encoder, EncoderDecoder, TransformerConfig


def assert_same_weights(folder: Path, other: Path) -> None:
    ours, theirs = weights(folder), weights(other)
    assert ours.keys() == theirs.keys()
    for name, tensor in theirs.items():
        assert ours[name].dtype == tensor.dtype, name
        assert torch.equal(ours[name], tensor), name


@pytest.mark.parametrize("name", [*OURS, *THEIRS])
def test_a_model_saves_as_what_it_was(name: str, tmp_path: Path) -> None:
    before = checkpoint(name, tmp_path / "before")
    model = hw.load(before, quiet=True)
    assert model.foreign is (name in THEIRS)
    saved = hw.save(model, tmp_path / "after")
    assert saved.plain
    assert_same_weights(saved.folder, before)
    assert config(saved.folder) == config(before)


@pytest.mark.parametrize("name", ["llama", "bert", "gpt2", "bart"])
def test_large_models_take_several_files_and_keep_their_dtype(name: str, tmp_path: Path) -> None:
    before = checkpoint(name, tmp_path / "before", torch.bfloat16)
    saved = hw.save(hw.load(before, quiet=True), tmp_path / "after", max_shard_size=4000)
    assert len(list(saved.folder.glob("*.safetensors"))) > 2
    assert (saved.folder / "model.safetensors.index.json").is_file()
    assert_same_weights(saved.folder, before)
    again = hw.save(hw.load(saved.folder, quiet=True), tmp_path / "again")
    assert_same_weights(again.folder, before)


def test_a_dtype_that_was_asked_for_is_the_one_that_is_said(tmp_path: Path) -> None:
    before = checkpoint("llama", tmp_path / "before")
    saved = hw.save(hw.load(before, dtype="bfloat16"), tmp_path / "after")
    assert {tensor.dtype for tensor in weights(saved.folder).values()} == {torch.bfloat16}
    assert AutoModelForCausalLM.from_pretrained(saved.folder).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("kind", "further"),
    [(Encoder, {}), (Decoder, {}), (Decoder, {"cross": True}), (EncoderDecoder, {})],
)
def test_models_of_our_own_save_their_configuration(kind, further, tmp_path: Path) -> None:
    made = TransformerConfig(
        vocab_size=31, d_model=24, num_layers=2, num_heads=6, num_kv_heads=2, positions="alibi"
    )
    module = kind(made, **further).eval()
    saved = hw.save(hw.load(module), tmp_path / "own")
    assert not saved.plain
    again = hw.load(saved.folder)
    assert type(again.module) is kind
    assert again.module.config == made
    state = again.module.state_dict()
    assert state.keys() == module.state_dict().keys()
    assert all(torch.equal(state[k], v) for k, v in module.state_dict().items())


def test_weights_that_are_not_the_configs_are_refused(tmp_path: Path) -> None:
    model = hw.load(checkpoint("llama", tmp_path / "before"))
    model.module.blocks[0].attention.w_o = torch.nn.Linear(24, 24, bias=True)
    with pytest.raises(ModelError, match=r"cannot be saved .*w_o\.bias is \[24\].*nothing"):
        hw.save(model, tmp_path / "after")
    assert not (tmp_path / "after").exists()


def test_a_module_of_a_users_cannot_be_built_again(tmp_path: Path) -> None:
    class Mine(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = hw.nn.MultiHeadAttention(24, 6)

    with pytest.raises(ModelError, match=r"Mine, which no config\.json can build.*state_dict"):
        hw.save(hw.load(Mine()), tmp_path / "mine")
    assert not (tmp_path / "mine").exists()


def test_a_class_that_transformers_has_not_cannot_be_built_again(tmp_path: Path) -> None:
    class MyBert(BertModel):
        pass

    with pytest.raises(ModelError, match=r"MyBert, which is no class of transformers itself"):
        hw.save(hw.load(MyBert(BertConfig(**BERT))), tmp_path / "mine")


def test_a_module_of_transformers_saves_with_its_tokenizer(tmp_path: Path) -> None:
    words = {"[UNK]": 0, "the": 1, "cat": 2}
    tokenizer = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    module = BertModel(BertConfig(**BERT)).eval()
    for given, held in (
        (tokenizer, {"tokenizer.json", "tokenizer_config.json"}),
        (
            PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]"),
            {"tokenizer.json", "tokenizer_config.json"},
        ),
    ):
        saved = hw.save(hw.load(module, tokenizer=given), tmp_path / "bert")
        assert {path.name for path in saved.folder.glob("*token*")} == held
        again = hw.load(saved.folder)
        assert again.tokenizer.encode("cat").ids == [2]
        assert not again.foreign


def test_a_broken_configuration_of_our_own_is_refused_in_one_line(tmp_path: Path) -> None:
    made = TransformerConfig(vocab_size=31, d_model=24, num_layers=1, num_heads=6)
    saved = hw.save(hw.load(Encoder(made)), tmp_path / "own")
    good = config(saved.folder)
    for change, says in (
        ({"class": "Transformer"}, "class='Transformer'"),
        ({"colour": 3}, "colour"),
        ({"d_ff": 30}, "the checkpoint has"),
    ):
        (saved.folder / "config.json").write_text(json.dumps(good | change))
        with pytest.raises(hw.HeadwiseError, match=says):
            hw.load(saved.folder)


def test_what_stands_beside_the_weights_goes_along(tmp_path: Path) -> None:
    before = checkpoint("bert", tmp_path / "before")
    (before / "tokenizer_config.json").write_text("{}")
    (before / "1_Pooling").mkdir()
    (before / "1_Pooling" / "config.json").write_text("{}")
    (before / "onnx.bin").write_text("of the weights before")
    saved = hw.save(hw.load(before), tmp_path / "after")
    held = {str(path.relative_to(saved.folder)) for path in saved.folder.rglob("*")}
    assert held >= {"tokenizer_config.json", "1_Pooling/config.json"}
    assert "onnx.bin" not in held


@pytest.mark.models
@pytest.mark.parametrize("name", ["smollm2", "minilm", "whisper-tiny-en", "rxnmapper"])
def test_real_models_save_bit_for_bit(name: str, tmp_path: Path) -> None:
    model = hw.load(name, quiet=True)
    saved = hw.save(model, tmp_path / name)
    assert saved.plain
    assert_same_weights(saved.folder, model.folder)
    assert config(saved.folder) == config(model.folder)
    again = hw.load(saved.folder, quiet=True)
    assert again.foreign is model.foreign
    assert (again.tokenizer is None) is (model.tokenizer is None)


@pytest.mark.models
@pytest.mark.parametrize(
    ("name", "kind"), [("smollm2", AutoModelForCausalLM), ("minilm", AutoModel)]
)
def test_transformers_reads_what_our_blocks_wrote(name: str, kind, tmp_path: Path) -> None:
    model = hw.load(name, quiet=True)
    saved = hw.save(model, tmp_path / name)
    theirs, report = kind.from_pretrained(saved.folder, output_loading_info=True)
    assert not report["missing_keys"]
    assert not report["unexpected_keys"]
    ids = torch.tensor([model.tokenizer.encode("The cat sat on the mat.").ids])
    with torch.no_grad():
        assert torch.equal(theirs(ids)[0], kind.from_pretrained(model.folder)(ids)[0])
        assert (theirs(ids)[0] - model.module(ids)).abs().max() < 1e-4
