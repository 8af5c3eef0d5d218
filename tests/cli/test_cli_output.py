"""What is written as JSON stays JSON, whatever the model has made."""

from __future__ import annotations

import json
from pathlib import Path

import torch

import headwise as hw
from headwise.cli.look.as_json import as_json, write_json
from headwise.nn import Decoder, TransformerConfig


def test_a_nan_of_the_model_is_null(tmp_path: Path) -> None:
    torch.manual_seed(0)
    decoder = Decoder(TransformerConfig(vocab_size=20, d_model=16, num_layers=2, num_heads=2))
    with torch.no_grad():
        decoder.blocks[1].attention.w_qkv.weight[0, 0] = float("nan")
    (record,) = hw.look(hw.load(decoder), {"input_ids": torch.tensor([[3, 4, 5]])})
    broken = hw.HeadId.parse("1.0")
    found = as_json(record, hw.summarise(record), [broken, hw.HeadId.parse("0.0")], [])
    write_json(found, tmp_path / "heads.json")
    read = json.loads((tmp_path / "heads.json").read_text(encoding="utf-8"))
    assert read["verified"] is None
    assert None in read["patterns"]["1.0"][2]
    assert sum(read["patterns"]["0.0"][2]) > 0.99
