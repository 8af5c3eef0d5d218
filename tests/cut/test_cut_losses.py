"""The losses that verbs of cutting look at."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
import transformers

import headwise as hw
from headwise.names import ModelError, ShapeError, TextError

sys.path.append(str(Path(__file__).parents[1] / "hub"))
from tiny_models import build

IDS = torch.arange(1, 21).view(2, 10)


def test_the_loss_of_a_model_of_transformers_is_its_own() -> None:
    model = hw.load(build("llama"))
    assert isinstance(model.module, transformers.PreTrainedModel)
    with torch.no_grad():
        wanted = model.module(input_ids=IDS, labels=IDS).loss
    came = hw.loss(model, IDS)
    assert came.mean == pytest.approx(float(wanted), rel=1e-5)
    assert (came.count, came.texts) == (18, 2)
    parts = [hw.loss(model, row[None]).mean for row in IDS]
    spread = abs(parts[0] - parts[1]) / 2
    assert came.standard_error == pytest.approx(spread, rel=1e-4)


def test_a_model_that_predicts_nothing_needs_a_loss() -> None:
    model = hw.load(build("bert"))
    with pytest.raises(ModelError, match="predicts no next token; give loss="):
        hw.loss(model, IDS)
    own = hw.loss(model, IDS, lambda out, inputs: out.last_hidden_state.square().mean((1, 2)))
    assert own.texts == 2


def test_padding_counts_nowhere() -> None:
    model = hw.load(build("llama"))
    rows = IDS.clone()
    mask = torch.ones_like(rows)
    mask[1, 6:] = 0
    padded = hw.loss(model, {"input_ids": rows, "attention_mask": mask})
    alone = [hw.loss(model, IDS[:1]), hw.loss(model, IDS[1:, :6])]
    assert padded.count == 9 + 5
    total = sum(one.mean * one.count for one in alone)
    assert padded.mean == pytest.approx(total / padded.count, rel=1e-5)


def test_an_encoder_decoder_predicts_what_its_decoder_reads() -> None:
    model = hw.load(build("t5"))
    batch = {"input_ids": IDS, "decoder_input_ids": IDS[:, :5]}
    with torch.no_grad():
        logits = model.module(**batch).logits
    wanted = torch.nn.functional.cross_entropy(logits[:, :-1].flatten(0, 1), IDS[:, 1:5].flatten())
    assert hw.loss(model, batch).mean == pytest.approx(float(wanted), rel=1e-5)


@pytest.mark.usefixtures("unchecked")
def test_losses_of_ones_own_of_another_shape() -> None:
    model = hw.load(build("llama"))
    with pytest.raises(ShapeError, match=r"\[\], \[batch\] or \[batch, position\], came \[2, 10, "):
        hw.loss(model, IDS, lambda out, inputs: out.logits)
    with pytest.raises(ShapeError, match="came int"):
        hw.loss(model, IDS, lambda out, inputs: 3)  # type: ignore[arg-type,return-value]
    with pytest.raises(ShapeError, match="every text is one token long"):
        hw.loss(model, IDS[:, :1])


@pytest.mark.models
def test_blocks_are_a_corpus_cut_into_rows() -> None:
    model = hw.load("smollm2", quiet=True)
    rows = hw.blocks(model, ["书在桌上。", "One or two heads do it."], length=4)
    assert model.tokenizer is not None
    whole = model.tokenizer.encode("书在桌上。\nOne or two heads do it.").ids
    assert rows.flatten().tolist() == whole[: rows.numel()]
    assert len(whole) - rows.numel() < 4
    with pytest.raises(TextError, match="a block is 256"):
        hw.blocks(model, "too short")
