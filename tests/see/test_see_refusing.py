"""What cannot be read is refused in the words of the function that was called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import headwise as hw
from headwise.names import HeadError, LayerId, ModelError, TextError

READERS: dict[str, Callable[..., Any]] = {
    "profile": hw.profile,
    "neurons": hw.neurons,
    "distances": hw.distances,
    "examples": lambda model, texts: hw.examples(model, texts, "0.0"),
}
LOOKERS: dict[str, Callable[..., Any]] = {
    "look": hw.look,
    "fires": hw.fires,
    "circuits": hw.circuits,
}


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("call", READERS)
def test_what_is_no_text(bytes_model: hw.Model, call: str) -> None:
    with pytest.raises(TextError, match=f"{call} takes texts, a batch or rows of ids, came int"):
        READERS[call](bytes_model, 3)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("call", [*READERS, *LOOKERS])
def test_what_is_no_model(call: str) -> None:
    given = {**READERS, **LOOKERS}[call]
    with pytest.raises(
        ModelError, match=rf"{call} takes a model from load\(\.\.\.\), came Linear; wrap"
    ):
        given(nn.Linear(2, 2), "a text")


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("call", [*READERS, *LOOKERS])
def test_a_model_that_reads_something_else(bytes_model: hw.Model, call: str, monkeypatch) -> None:
    monkeypatch.setattr(type(bytes_model.module), "main_input_name", "pixel_values", raising=False)
    given = {**READERS, **LOOKERS}[call]
    with pytest.raises(ModelError, match=rf"reads pixel_values, not text; .*: hw\.{call}\(model, "):
        given(bytes_model, "a text")


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
