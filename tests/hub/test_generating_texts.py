"""hw.generate: texts at once, stop strings, streams and seeds, in our blocks and in transformers, whole and cut."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
from tiny_models import build
from torch import nn

import headwise as hw
from headwise.hub.generating.telling import Telling
from headwise.names import ConfigError, ModelError, ShapeError, TextError
from headwise.nn import Decoder, EncoderDecoder, TransformerConfig

sys.path.append(str(Path(__file__).parents[1]))
import tiny_help

TEXTS = ["The animal", "The animal didn't cross the street", "it was"]
CONFIG = TransformerConfig(
    vocab_size=330,
    d_model=24,
    num_layers=2,
    num_heads=4,
    num_kv_heads=2,
    tie_embeddings=False,
    max_length=64,
)


def shaken(module: nn.Module) -> nn.Module:
    torch.manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.4)
    return module.eval()


def own() -> hw.Model:
    return hw.load(shaken(Decoder(CONFIG)), tokenizer=tiny_help.tokenizer(whole=False))


def foreign() -> hw.Model:
    model = tiny_help.decoder()
    shaken(model.module)
    return model


every_model = pytest.mark.parametrize("make", [own, foreign])
DRAWN = {"temperature": 1.0, "top_k": 50, "top_p": 0.95}


@every_model
@pytest.mark.parametrize("how", [{}, DRAWN])
def test_texts_at_once_are_each_text_alone(make, how):
    model = make()
    together = hw.generate(model, TEXTS, 12, **how)
    assert together == [hw.generate(model, text, 12, **how) for text in TEXTS]
    assert len(set(together)) == 3
    with hw.ablate(model, "0.*"):
        assert hw.generate(model, TEXTS, 12, **how) != together
    pruned = hw.prune(model, ["0.0", "1.3"])
    with hw.ablate(model, ["0.0", "1.3"]):
        assert hw.generate(pruned, TEXTS, 12, **how) == hw.generate(model, TEXTS, 12, **how)


@every_model
def test_a_seed_says_the_same_again_and_the_same_text_twice_is_drawn_twice(make):
    model = make()
    twice = hw.generate(model, [TEXTS[0], TEXTS[1], TEXTS[0]], 12, seed=4, **DRAWN)
    assert twice[0] != twice[2]
    assert twice[0] == hw.generate(model, TEXTS[0], 12, seed=4, **DRAWN)
    assert twice[1] == hw.generate(model, TEXTS[1], 12, seed=4, **DRAWN)
    assert twice[2] == hw.generate(model, TEXTS[0], 12, seed=5, **DRAWN)
    torch.manual_seed(9)
    assert hw.generate(model, TEXTS[0], 12, seed=4, **DRAWN) == twice[0]


def test_our_blocks_and_transformers_draw_the_same(tmp_path):
    theirs = foreign()
    theirs.module.save_pretrained(tmp_path)
    ours = hw.load(tmp_path, quiet=True)
    assert not ours.foreign
    ids = torch.randint(3, 300, (2, 6))
    for how in ({}, DRAWN):
        assert torch.equal(hw.generate(ours, ids, 12, **how), hw.generate(theirs, ids, 12, **how))


@every_model
def test_a_stop_string_ends_one_row_and_the_others_go_on(make):
    model = make()
    whole = hw.generate(model, TEXTS, 16)
    stop = next(c for c in whole[0][2:] if c.isascii())
    wanted = [text.partition(stop)[0] for text in whole]
    assert hw.generate(model, TEXTS, 16, stop=stop) == wanted
    assert wanted != whole
    pieces: list[tuple[int, str]] = []
    streamed = hw.generate(
        model, TEXTS, 16, stop=[stop], stream=lambda piece, row: pieces.append((row, piece))
    )
    assert ["".join(p for r, p in pieces if r == row) for row in range(3)] == streamed == wanted
    one: list[str] = []
    assert hw.generate(model, TEXTS[0], 16, stop=stop, stream=one.append) == wanted[0]
    assert "".join(one) == wanted[0]


@every_model
def test_rows_of_ids_are_streamed_and_stopped_too(make):
    model = make()
    ids = torch.randint(3, 300, (2, 5))
    steps: list[torch.Tensor] = []
    whole = hw.generate(model, ids, 12, stream=lambda new: steps.append(new.clone()))
    assert torch.equal(torch.stack(steps, 1), whole[:, 5:])
    text = model.tokenizer.decode(whole[0, 5:].tolist(), skip_special_tokens=True)
    stop = next(c for c in text if c.isascii())
    short = hw.generate(model, ids[:1], 12, stop=stop)
    assert short.shape[1] < whole.shape[1]
    assert torch.equal(short[0], whole[0, : short.shape[1]])


@every_model
def test_ids_that_the_model_does_not_have_are_named(make):
    for ids, message in (
        (torch.full((1, 3), 400), r"an id is 400, the model's tokens are 0 to \d+"),
        (torch.full((1, 3), -2), "an id is -2, the"),
    ):
        with pytest.raises(ShapeError, match=message):
            hw.generate(make(), ids)


@every_model
def test_a_special_token_ends_a_text_by_its_name(make):
    model = make()
    if model.foreign:
        model.module.lm_head.weight.data[1] += 40 * model.module.lm_head.weight.data[5]
    else:
        model.module.unembed.weight.data[1] += 40 * model.module.unembed.weight.data[5]
    told = [hw.generate(model, TEXTS, 30, stop=stop) for stop in ((), ["</s>"])]
    ends = [hw.generate(model, t, 30, stop="</s>") for t in TEXTS]
    assert told[1] == ends
    assert all(len(a) >= len(b) for a, b in zip(*told, strict=True))


def test_the_context_runs_out_and_it_is_said(capsys):
    model = own()
    ids = torch.ones(1, 60, dtype=torch.long)
    assert hw.generate(model, ids, 30).shape == (1, 64)
    said = capsys.readouterr().err
    assert said == "headwise: Decoder reads 64 tokens: 4 of 30 fit after the text\n"
    with pytest.raises(TextError, match="nothing fits after it"):
        hw.generate(model, torch.ones(1, 64, dtype=torch.long))
    assert capsys.readouterr().err == ""


def test_an_encoder_reads_its_own_length_and_the_decoder_writes_its_own(capsys):
    sizes = {
        "vocab_size": 330,
        "d_model": 24,
        "num_layers": 1,
        "num_heads": 4,
        "positions": "learned",
    }

    def both(encoder: int, decoder: int) -> hw.Model:
        config = TransformerConfig(**sizes, max_length=decoder, encoder_max_length=encoder)
        module = shaken(EncoderDecoder(config))
        return hw.load(module, tokenizer=tiny_help.tokenizer(whole=False))

    source = torch.arange(3, 23)[None]
    assert hw.generate(both(64, 16), source, 30).shape == (1, 16)
    assert "reads 16 tokens: 15 of 30 fit" in capsys.readouterr().err
    short = both(8, 32)
    assert (short.max_length, short.max_target_length) == (8, 32)
    with pytest.raises(TextError, match="the text is 20 tokens, and EncoderDecoder reads 8"):
        hw.generate(short, source)


def test_encoder_decoders_of_both_kinds_write():
    theirs = hw.load(build("bart"))
    ids = torch.randint(3, 20, (2, 6))
    wanted = theirs.module.generate(ids, max_new_tokens=5, do_sample=False, num_beams=1)
    assert torch.equal(hw.generate(theirs, ids, 5), wanted)
    module = shaken(EncoderDecoder(CONFIG))
    with pytest.raises(ConfigError, match="does not say what its decoder starts from"):
        hw.generate(hw.load(module), ids)
    ours = hw.load(module, tokenizer=tiny_help.tokenizer(whole=False))
    by_end = hw.generate(ours, TEXTS[0], 6)
    object.__setattr__(ours, "config", {"decoder_start_token_id": 2, "eos_token_id": 1})
    together = hw.generate(ours, TEXTS, 6)
    assert together == [hw.generate(ours, text, 6) for text in TEXTS]
    source = torch.tensor(
        [[*ours.tokenizer.encode(TEXTS[0]).ids, 1]]
    )  # with its end, as in training
    for first, wanted in ((2, together[0]), (1, by_end)):
        made = hw.nn.generate(module, torch.tensor([[first]]), 6, source_ids=source, ends=[1])
        telling = Telling(ours.tokenizer, [])
        told = "".join(telling.take(id) for id in made[0, 1:].tolist() if id != 1)
        assert told + telling.finish() == wanted


def test_what_cannot_be_asked():
    model = own()
    for wrong, message in (
        ({"max_new_tokens": 0}, "max_new_tokens must be at least 1, came 0"),
        ({"stop": ["a", ""]}, "a stop string is empty"),
        ({"top_p": 0.5}, "top_p=0.5 limits what is drawn, and temperature=0 draws nothing"),
    ):
        with pytest.raises(ConfigError, match=message):
            hw.generate(model, "The animal", **wrong)
    with pytest.raises(TextError, match="the text is empty"):
        hw.generate(model, ["The animal", " "])
    with pytest.raises(TextError, match="no text came"):
        hw.generate(model, [])
    with pytest.raises(ModelError, match="no tokenizer to find stop strings with"):
        hw.generate(hw.load(Decoder(CONFIG)), torch.ones(1, 3, dtype=torch.long), stop="a")


@pytest.mark.models
def test_smollm2_writes_chinese_whole_and_stops_at_a_character():
    model = hw.load("smollm2", quiet=True)
    pieces: list[str] = []
    whole = hw.generate(model, "从前有一个", 24, stream=pieces.append)
    assert "".join(pieces) == whole
    assert "\ufffd" not in whole
    stop = next(c for c in whole[2:] if ord(c) > 0x4E00)
    assert hw.generate(model, "从前有一个", 24, stop=stop) == whole.partition(stop)[0]
    both = hw.generate(model, ["The capital of France is", "从前有一个"], 24)
    assert both[1] == whole
    assert both[0].startswith(" Paris")
