"""Modules as people write them: what they read is found, and what an audit did not look at is noted."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from comparing_help import told
from tiny_models import build
from torch import Tensor, nn

import headwise as hw
from headwise.check.reading.arguments import signature_of
from headwise.check.reading.vocabulary import vocabulary_of
from headwise.check.running.subject import subject_of
from headwise.names import ModelError

VOCAB, WIDTH = 53, 16
FEW = ["future", "rows"]


class Tables(nn.Module):
    """Its tables of kinds and of positions come before that of its text."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds = nn.Embedding(2, WIDTH)
        self.places = nn.Embedding(64, WIDTH)
        self.tokens = nn.Embedding(VOCAB, WIDTH)

    def embedded(self, ids: Tensor) -> Tensor:
        places = torch.arange(ids.shape[1], device=ids.device)
        return self.tokens(ids) + self.places(places) + self.kinds(torch.zeros_like(ids))

    def forward(self, ids: Tensor) -> Any:
        return self.embedded(ids).cumsum(1)


class Weighed(Tables):
    """Its table is a parameter, which it indexes."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = None
        self.table = nn.Parameter(torch.randn(VOCAB, WIDTH))

    def forward(self, ids: Tensor) -> Tensor:
        return self.table[ids].cumsum(1)


class PlacedVectors(Tables):
    """Reads vectors, and has a table of positions."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return (self.inner(x) + self.places(torch.arange(x.shape[1]))).cumsum(1)


class ByName(Tables):
    def forward(self, *, ids: Tensor) -> Tensor:
        return self.embedded(ids).cumsum(1)


class Open(Tables):
    def forward(self, **batch: Tensor) -> Tensor:
        return self.embedded(batch["input_ids"]).cumsum(1)


class Two(Tables):
    """Gives values and hidden states beside its logits; the values see the future."""

    def forward(
        self, ids: Tensor, attn_mask: Tensor | None = None, cache: Tensor | None = None
    ) -> dict[str, Any]:
        x = self.embedded(ids)
        value = x.sum(1, keepdim=True).expand_as(x)
        return {"logits": x.cumsum(1), "value": value, "hidden_states": (x, x), "loss": x.sum()}


class Turned(Tables):
    """Calls a module that reads [position, batch, d_model] as if it read [batch, position, d_model]."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = nn.GRU(WIDTH, WIDTH)

    def forward(self, ids: Tensor) -> Tensor:
        return self.memory(self.embedded(ids))[0]


class Needs(Tables):
    """Cannot do without a mask, positions and documents."""

    def forward(
        self, ids: Tensor, attention_mask: Tensor, position_ids: Tensor, documents: Tensor
    ) -> Tensor:
        assert documents.shape == ids.shape
        x = self.tokens(ids) + self.places(position_ids)
        return (x * attention_mask[..., None]).cumsum(1)


class Uncopied(Tables):
    def __deepcopy__(self, memo: dict[int, Any]) -> Tables:
        raise KeyError("not to be copied")


def ids() -> Tensor:
    torch.manual_seed(0)
    return torch.randperm(VOCAB)[:9][None]


@pytest.mark.parametrize("kind", [Tables, Weighed, ByName, Two])
def test_ids_are_drawn_from_the_table_that_the_text_is_looked_up_in(kind: type[nn.Module]) -> None:
    subject = subject_of(kind().eval())
    drawn = vocabulary_of(subject, 23)
    assert drawn is not None
    assert len(drawn) == VOCAB
    assert hw.audit(subject.called, dimensions=FEW).clean


def test_a_table_of_positions_is_no_vocabulary_of_what_reads_vectors() -> None:
    module = PlacedVectors().eval()
    module.kinds = module.tokens = None
    assert vocabulary_of(subject_of(module), 23) is None
    audit = hw.audit(module, dimensions=FEW)
    assert audit.clean, str(audit)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
@pytest.mark.parametrize("batch_first", [True, False])
def test_torchs_recurrences_are_read_as_they_say(kind: type[nn.Module], batch_first: bool) -> None:
    audit = hw.audit(kind(WIDTH, WIDTH, batch_first=batch_first), dimensions=FEW)
    assert audit.clean, str(audit)


def test_a_part_that_reads_positions_first_is_noted() -> None:
    said = "it holds modules with batch_first=False"
    audit = hw.audit(Turned().eval(), dimensions=FEW)
    assert any(said in note for note in audit.notes)
    assert audit["rows"].verdict == "leak"
    assert not hw.audit(nn.GRU(WIDTH, WIDTH), dimensions=["future"]).notes


def test_what_was_not_looked_at_is_noted() -> None:
    audit = hw.audit(Two().eval(), dimensions=FEW)
    assert audit.clean
    said = "\n".join(audit.notes)
    assert "only logits was looked at, not value, hidden_states; pass output=" in said
    assert "it takes attn_mask, which was not given; pass it in inputs=" in said
    assert "cache" not in said
    assert "loss" not in said
    named = {"ids": ids(), "attn_mask": torch.ones(9, 9)}
    chosen = hw.audit(Two(), inputs=named, output=lambda out: out["value"], dimensions=FEW)
    assert chosen["future"].verdict == "leak"
    assert not chosen.notes
    assert not hw.audit(build("gpt2"), dimensions=["rows"]).notes


def test_what_must_be_given_is_filled() -> None:
    audit = hw.audit(Needs().eval(), dimensions=["future", "rows", "unpadded"])
    assert audit.clean, str(audit)


def test_an_open_forward_takes_the_names_of_its_inputs() -> None:
    with pytest.raises(ModelError, match="by any name; pass inputs= as tensors by name"):
        hw.audit(Open().eval())
    named = {"position_ids": ids(), "input_ids": ids()}
    audit = hw.audit(Open().eval(), inputs=named, dimensions=FEW)
    assert audit.clean, str(audit)


def test_a_module_that_cannot_be_copied_is_audited_as_it_is() -> None:
    audit = hw.audit(Uncopied().eval(), dimensions=FEW)
    assert audit.clean, str(audit)
    assert audit.dtype == "float32"


def test_scripts_say_their_arguments() -> None:
    class Scripted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tokens = nn.Embedding(VOCAB, WIDTH)

        def forward(self, ids: Tensor, scale: float = 1.0) -> Tensor:
            return self.tokens(ids).cumsum(1) * scale

    for made in (torch.jit.script(Scripted()), torch.jit.trace(Scripted(), (ids(),))):
        assert signature_of(made, {}).names[0] == "ids"
        audit = hw.audit(made, inputs=ids(), dimensions=FEW)
        assert audit.clean, str(audit)


def test_features_are_drawn_for_an_encoder_of_sound() -> None:
    audit = hw.audit(build("whisper"), dimensions=["future", "rows", "memory", "unpadded"])
    assert not audit.leaks, str(audit)
    assert audit["rows"].verdict == "clean"
    assert told([audit["memory"]]) == {"": "skipped"}
