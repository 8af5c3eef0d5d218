"""The texts of a scene: a source and a target of the same words are two; what parts a text is told by its kind."""

from __future__ import annotations

import pytest

import headwise as hw
from headwise.see.record import Side
from headwise.see.texts.tokens import Token
from headwise.show.page.fires import told_fires
from headwise.show.page.scene import Scene
from headwise.show.page.sides import separators
from tiny_help import TEXT, encoder_decoder


def test_a_target_that_equals_its_source_is_a_text_of_its_own() -> None:
    model = encoder_decoder()
    record = hw.look(model, TEXT)
    record = hw.look(model, {"input_ids": _ids(record), "decoder_input_ids": _ids(record)})[0]
    index = Scene(record).index
    assert [side["name"] for side in index["sides"]] == ["source", "target"]
    streams = {one["name"]: (one["queries"], one["keys"]) for one in index["streams"]}
    assert streams == {"encoder": (0, 0), "decoder": (1, 1), "cross": (1, 0)}
    told = told_fires(model, record)
    assert {one["name"]: one["side"] for one in told["streams"]} == {"encoder": 0, "decoder": 1}
    source, decoded = told["neurons"]
    assert {fire[0].split(".")[0] for token in source for fire in token} == {"encoder"}
    assert {fire[0].split(".")[0] for token in decoded for fire in token} == {"decoder"}


def _ids(record: hw.Record):
    import torch

    return torch.tensor([[token.id for token in record.tokens]])


@pytest.mark.parametrize(
    ("token", "parts"),
    [
        (Token(5, ",", 0, 1), True),
        (Token(5, " —", 0, 2), True),
        (Token(5, "。", 0, 1), True),
        (Token(5, "\n\n", 0, 2), True),
        (Token(5, "</s>", 0, 0, special=True), True),
        (Token(5, "👩", 0, 1), False),
        (Token(5, "👩", 0, 1, part=(2, 4)), False),
        (Token(5, "\u200d", 0, 1), False),
        (Token(5, "\ufe0f", 0, 1), False),
        (Token(5, "🏽", 0, 1), False),
        (Token(5, "^", 0, 1), False),
        (Token(5, "書", 0, 1, part=(1, 3)), False),
        (Token(5, "", 3, 3), False),
        (Token(5, "it's", 0, 4), False),
        (Token(-1, "0.02 s", 0, 0), False),
        (Token(-1, "·", 0, 0), False),
    ],
    ids=lambda x: repr(x.text) if isinstance(x, Token) else str(x),
)
def test_separators_are_special_tokens_punctuation_and_space(token: Token, parts: bool) -> None:
    assert separators(Side(token.text, (token,))) == ([0] if parts else [])
