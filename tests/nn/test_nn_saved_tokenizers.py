"""AutoTokenizer of transformers gives the ids of the tokenizer that was saved, in every family."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from family_help import checkpoint
from seq2seq_help import made, saved
from tokenizers import Tokenizer, processors
from tokenizers.models import WordLevel
from torch import nn
from transformers import AutoTokenizer, PreTrainedTokenizerFast

import headwise as hw
from headwise.names import OutputError
from headwise.nn import build, load_checkpoint, save_checkpoint
from headwise.nn.families import FAMILIES
from headwise.train.data import byte_bpe

TEXTS = (
    *("isn't 12345", "Chapter 12:34", "caf\u00e9 cafe\u0301", "two\n\nlines\r\n", "多头注意力"),
    *("🙂 👩‍🚀", "  two  spaces ", " do n't . , !", "And in the year 1984, he"),
)
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    return byte_bpe(["isn't it 1984, the café of 12345 lines, 多头注意力 " * 9], 300, SPECIAL)


def model_of(family: str, folder: Path, tiny) -> nn.Module:
    if family == "headwise":
        return build({**dataclasses.asdict(tiny(positions="alibi")), "class": "Decoder"})
    if FAMILIES[family].model.__name__ == "EncoderDecoder":
        return load_checkpoint(saved(made(family), folder))
    return load_checkpoint(
        checkpoint(family if family != "mistral" else "mistral window", folder)[1]
    )


def assert_reads_alike(folder: Path, tokenizer: Tokenizer) -> None:
    theirs = AutoTokenizer.from_pretrained(folder)
    assert theirs(list(TEXTS)).input_ids == [tokenizer.encode(text).ids for text in TEXTS]
    for text in TEXTS:
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        assert theirs.decode(ids) == text


@pytest.mark.parametrize("family", [*FAMILIES, "headwise"])
def test_every_family_is_read_alike(tmp_path, tiny, tokenizer, family):
    model = model_of(family, tmp_path / "theirs", tiny)
    assert save_checkpoint(model, tmp_path / "ours", tokenizer=tokenizer) == family
    assert_reads_alike(tmp_path / "ours", tokenizer)
    theirs = AutoTokenizer.from_pretrained(tmp_path / "ours")
    assert theirs.mask_token_id == tokenizer.token_to_id("[MASK]")
    assert theirs.eos_token_id == tokenizer.token_to_id("[SEP]")
    assert theirs.model_max_length == model.config.max_length


def test_what_a_tokenizer_puts_around_a_text_stays(tmp_path, tokenizer):
    around = Tokenizer.from_str(tokenizer.to_str())
    around.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    model = load_checkpoint(checkpoint("bert", tmp_path / "theirs")[1])
    save_checkpoint(model, tmp_path / "ours", tokenizer=around)
    assert_reads_alike(tmp_path / "ours", around)


@pytest.mark.parametrize("family", ["qwen2", "bert"])
def test_one_of_transformers_is_read_alike(tmp_path, tiny, tokenizer, family):
    model = model_of(family, tmp_path / "theirs", tiny)
    given = PreTrainedTokenizerFast(tokenizer_object=tokenizer, mask_token="[MASK]")
    save_checkpoint(model, tmp_path / "ours", tokenizer=given)
    assert_reads_alike(tmp_path / "ours", tokenizer)


@pytest.mark.parametrize("plain", [True, False])
def test_hw_save_takes_it_along(tmp_path, tiny, tokenizer, plain):
    """Also of a folder that has a tokenizer.json alone."""
    folder = tmp_path / "ours"
    save_checkpoint(model_of("qwen2", tmp_path / "theirs", tiny), folder, tokenizer=tokenizer)
    if plain:
        (folder / "tokenizer_config.json").unlink()
    hw.save(hw.load(folder, quiet=True), tmp_path / "again")
    assert_reads_alike(tmp_path / "again", tokenizer)


def test_a_folder_is_of_one_model(tmp_path, tiny, tokenizer):
    model = build({**dataclasses.asdict(tiny()), "class": "Decoder"})
    folder = tmp_path / "model"
    folder.mkdir()
    tokenizer.save(str(folder / "tokenizer.json"))
    with pytest.raises(OutputError, match=r"has \d+ ids, and the model vocab_size=31; give tok"):
        save_checkpoint(model, folder)
    assert not (folder / "config.json").exists()
    save_checkpoint(model, folder, tokenizer=Tokenizer(WordLevel({"a": 0}, unk_token="a")))
    save_checkpoint(model, folder)
    (folder / "run.toml").write_text("")
    for given in (None, tokenizer):
        with pytest.raises(OutputError, match="it holds a run, with checkpoints"):
            save_checkpoint(model, folder, tokenizer=given)
