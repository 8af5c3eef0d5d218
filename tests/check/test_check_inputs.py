"""What people pass as inputs is taken as they mean it, and sound models stay sound under it."""

from __future__ import annotations

import inspect
from collections import UserDict

import numpy as np
import pytest
import torch
from comparing_help import told
from tiny_models import build
from torch import Tensor, nn
from torch.nn import functional as F

import headwise as hw
from headwise.names import ConfigError, MaskError, ModelError, ShapeError

VOCAB, WIDTH = 31, 16
loose = inspect.unwrap(hw.audit)
"""As people call it, without the tests' own check of types."""

FEW = ["future", "padding", "rows", "unpadded"]


class Plain(nn.Module):
    """A causal mean of embedded ids; subclasses change how it is called."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCAB, WIDTH)
        self.out = nn.Linear(WIDTH, VOCAB)

    def mixed(self, ids: Tensor) -> Tensor:
        x = self.tokens(ids)
        before = torch.arange(1, ids.shape[1] + 1, dtype=x.dtype)[:, None]
        return x + x.cumsum(1) / before

    def forward(self, idx: Tensor) -> Tensor:
        return self.out(self.mixed(idx))


class LastOnly(Plain):
    """nanoGPT's: without targets, the last position alone."""

    def forward(self, idx: Tensor, targets: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
        x = self.mixed(idx)
        if targets is None:
            return self.out(x[:, [-1]]), None
        logits = self.out(x)
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=-1)


class Conditioned(Plain):
    """Moved by a class of the row, and by kinds of its tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.kinds = nn.Embedding(3, WIDTH)

    def forward(self, idx: Tensor, cond: Tensor, kinds: Tensor) -> Tensor:
        assert cond.shape == (len(idx), WIDTH)
        return self.out(self.mixed(idx) + self.kinds(kinds) + cond[:, None])


def ids(rows: int = 1, length: int = 9, seed: int = 0) -> Tensor:
    torch.manual_seed(seed)
    return torch.stack([torch.randperm(VOCAB - 4)[:length] + 4 for _ in range(rows)])


@pytest.mark.parametrize("name", ["gpt2", "mistral-window", "bert", "t5"])
def test_a_tokenizers_batch_says_nothing_of_what_the_audit_fills(name: str) -> None:
    model, text = build(name), ids(2, 11)
    real = torch.ones_like(text)
    real[0, 8:] = 0
    batch = UserDict(input_ids=text, attention_mask=real, token_type_ids=torch.zeros_like(text))
    audit = hw.audit(model, inputs=batch, dimensions=FEW)
    drawn = hw.audit(model, length=8, dimensions=FEW)
    assert audit.length == (drawn.length if name != "t5" else audit.length)
    assert audit.clean, str(audit)
    assert drawn.clean, str(drawn)


def test_positions_given_do_not_stay_under_padding() -> None:
    text = ids()
    places = torch.arange(9)[None] + 3
    audit = hw.audit(
        build("gpt2"), inputs={"input_ids": text, "position_ids": places}, dimensions=FEW
    )
    assert audit.clean, str(audit)
    assert any("position_ids of inputs was left out" in note for note in audit.notes)


def test_a_model_that_needs_targets_is_audited_with_them() -> None:
    text = ids(2)
    model = LastOnly().eval()
    with pytest.raises(ModelError, match="one output for each position"):
        hw.audit(model, inputs=text, dimensions=["future"])
    audit = hw.audit(model, inputs={"idx": text, "targets": text.roll(-1, 1)})
    assert audit.clean, str(audit)
    assert set(told([audit["rows"], audit["training"]]).values()) == {"clean"}
    by_targets = hw.audit(model, inputs={"targets": text}, dimensions=["future", "rows"])
    assert by_targets.clean, str(by_targets)
    assert by_targets.length == 9


def test_what_goes_with_a_row_is_repeated_and_the_rest_stays() -> None:
    text = ids(2)
    kinds = torch.tensor([[0, 0, 1, 1, 1, 2, 2, 2, 2]]).repeat(2, 1)
    named = {"idx": text, "cond": torch.randn(2, WIDTH), "kinds": kinds}
    audit = hw.audit(Conditioned().eval(), inputs=named, dimensions=["future", "rows", "unpadded"])
    assert audit.clean, str(audit)
    assert audit.dtype == "float64"  # what is given in float32 goes in as float64


@pytest.mark.parametrize(
    "given", [ids()[0].tolist(), ids().tolist(), ids().numpy(), ids().int(), ids()[0]]
)
def test_lists_and_arrays_are_taken(given: object) -> None:
    audit = hw.audit(Plain().eval(), inputs=given, dimensions=["future", "rows"])
    assert (audit.clean, audit.length) == (True, 9)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("some text", "came str"),
        (7, "came int"),
        (torch.zeros(1, 2, 3, 9), r"came \[1, 2, 3, 9\]"),
        (torch.ones(1, 9, dtype=torch.bool), "torch.bool"),
        (torch.ones(1, 9, 4, dtype=torch.complex64), "torch.complex64"),
        ([[1, 2, 3], [1, 2]], "no even table of numbers"),
        ({}, "an empty one"),
        (torch.arange(5), "at least 6 positions"),
        ({"idx": "text"}, "came str"),
        (np.array(["a", "b"]), "no even table of numbers"),
    ],
)
def test_what_is_no_input_is_said_in_one_line(given: object, said: str) -> None:
    with pytest.raises(ShapeError, match=said) as error:
        loose(Plain().eval(), inputs=given)
    assert "\n" not in str(error.value)


def test_too_little_that_is_real_is_said() -> None:
    real = torch.tensor([[1, 1, 1, 1, 1, 0, 0, 0, 0]])
    with pytest.raises(ShapeError, match="that are not padding, came 5"):
        hw.audit(build("gpt2"), inputs={"input_ids": ids(), "attention_mask": real})


@pytest.mark.parametrize("model", [Plain(), build("gpt2")], ids=["own", "transformers"])
def test_a_misspelt_name_is_named(model: nn.Module) -> None:
    with pytest.raises(ModelError, match="nothing takes input_idz of inputs; forward takes i"):
        hw.audit(model.eval(), inputs={"input_idz": ids()})


def test_embedded_text_is_taken_by_a_model_of_transformers() -> None:
    model = build("gpt2")
    vectors = model.get_input_embeddings()(ids()).detach()
    audit = hw.audit(model, inputs={"inputs_embeds": vectors}, dimensions=["future", "padding"])
    assert audit.clean, str(audit)
    assert audit.length == 9


@pytest.mark.parametrize(
    ("asked", "error", "said"),
    [
        ({"length": 5}, ShapeError, "length must be a whole number of at least 6, came 5"),
        ({"length": 9.5}, ShapeError, "came 9.5"),
        ({"length": True}, ShapeError, "came True"),
        ({"seed": "a"}, ConfigError, "seed must be a whole number of at least 0"),
        ({"draws": 0}, ConfigError, "draws must be a whole number of at least 1, came 0"),
        ({"layers": 0}, ConfigError, "layers must be a whole number of at least 1"),
        ({"layers": 1.5}, ConfigError, "came 1.5"),
        ({"dimensions": 3}, ConfigError, "dimensions must be names out of future"),
        ({"dimensions": "futur"}, ConfigError, "there is no dimension 'futur'"),
        ({"output": "logits"}, ConfigError, "output must be a function"),
        ({"mask": torch.ones(9, 9)}, MaskError, r"masks.tensor\(allowed\)"),
        ({"mask": 3}, MaskError, "mask must be a mask"),
        ({"mask": []}, MaskError, "an empty list"),
        ({"mask": "causul"}, MaskError, "causul"),
    ],
)
def test_an_argument_that_cannot_be_meant_is_said(
    asked: dict[str, object], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        loose(Plain().eval(), **asked)


def test_one_dimension_and_a_mask_are_taken_as_text() -> None:
    audit = hw.audit(Plain().eval(), "causal & window(2)", layers=1, dimensions="future")
    assert [outcome.dimension for outcome in audit.outcomes][:1] == ["future"]
    assert not audit.clean  # a mean of all before is no window
    assert hw.audit(Plain().eval(), ["causal"], dimensions="future").clean


def test_lazy_modules_are_said() -> None:
    with pytest.raises(ModelError, match="lazy parameters"):
        hw.audit(nn.LazyLinear(4))
