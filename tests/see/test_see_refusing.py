"""What cannot be read is refused in the words of the function that was called."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

import headwise as hw
from headwise.names import HeadError, LayerId, ModelError, TextError

READERS = ("profile", "neurons", "distances", "examples")
LOOKERS = ("look", "fires", "circuits")
MORE = {"examples": ("0.0",)}


for name in (*READERS, *LOOKERS):  # so that `unchecked` finds them all
    getattr(hw, name)


def called(call: str, model: Any, texts: Any) -> Any:
    return getattr(hw, call)(model, texts, *MORE.get(call, ()))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("call", READERS)
def test_what_is_no_text(bytes_model: hw.Model, call: str) -> None:
    with pytest.raises(TextError, match=f"{call} takes texts, a batch or rows of ids, came int"):
        called(call, bytes_model, 3)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("call", [*READERS, *LOOKERS])
def test_what_is_no_model(call: str) -> None:
    with pytest.raises(
        ModelError, match=rf"{call} takes a model from load\(\.\.\.\), came Linear; wrap"
    ):
        called(call, nn.Linear(2, 2), "a text")


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("call", [*READERS, *LOOKERS])
def test_a_model_that_reads_something_else(bytes_model: hw.Model, call: str, monkeypatch) -> None:
    monkeypatch.setattr(type(bytes_model.module), "main_input_name", "pixel_values", raising=False)
    with pytest.raises(ModelError, match=rf"reads pixel_values, not text; .*: hw\.{call}\(model, "):
        called(call, bytes_model, "a text")


@pytest.mark.parametrize("name", hw.probes.ON_REPEATED)
def test_a_probe_of_random_tokens_has_a_name(bytes_model: hw.Model, name: Any) -> None:
    rows = torch.randint(257, (2, 6), generator=torch.Generator().manual_seed(0))
    table = hw.profile(bytes_model, rows, probes=[name.name], pool=0, positions=0)
    assert name.name in table


def test_ids_of_layers() -> None:
    assert LayerId.parse("18") == LayerId("", 18)
    assert LayerId.parse(" cross.0 ") == LayerId("cross", 0)
    assert all(str(LayerId.parse(id)) == id for id in ("3", "decoder.11"))
    for wrong in ("", "18.6", "cross", "cross.", "x.y.1", "-1", "²"):
        with pytest.raises(HeadError, match="is not a layer id; write it as 18 or cross"):
            LayerId.parse(wrong)
