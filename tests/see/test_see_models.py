"""Real models looked into: every head against eager attention, and heads known by other measurements."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import headwise as hw
from headwise.hub.get import get
from headwise.hub.tokenizer import read_tokenizer
from headwise.names import TextError
from headwise.see.telling import telling
from headwise.see.texts.tokens import tokenize, tokens_of_ids
from headwise.see.texts.words import to_words, words_of
from headwise.see.wording import looks_of, places_of

pytestmark = pytest.mark.models

ANIMAL = "The animal didn't cross the street because it was too tired"
TEXTS = [ANIMAL, "小明把书还给了图书馆，因为它到期了。", "Hi 👍", "a\n\n  b"]
CHINESE = "小明把书还给了图书馆,因为它到期了。"


@pytest.fixture(scope="module")
def smollm2() -> hw.Model:
    return hw.load("smollm2", quiet=True)


@pytest.fixture(scope="module")
def e5() -> hw.Model:
    return hw.load("e5-small", quiet=True)


@pytest.fixture(scope="module")
def animal(smollm2: hw.Model) -> hw.Record:
    return hw.look(smollm2, ANIMAL)


@pytest.fixture(scope="module")
def eager():
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(
        get("smollm2"), attn_implementation="eager", dtype=torch.float32
    ).eval()


def weights_of(model, ids: list[int]) -> list[torch.Tensor]:
    with torch.no_grad():
        return list(model(torch.tensor([ids]), output_attentions=True).attentions)


def assert_all_heads(record: hw.Record, weights: list[torch.Tensor], row: int = 0) -> None:
    assert len(record.heads()) == 270 == sum(w.shape[1] for w in weights)
    for head in record.heads():
        own = weights[head.layer][row, head.head].numpy()
        np.testing.assert_allclose(record.weights(head), own, atol=1e-4, rtol=0)


def test_all_270_heads_equal_eager(smollm2: hw.Model, animal: hw.Record, eager) -> None:
    assert not smollm2.foreign
    assert_all_heads(animal, weights_of(eager, [t.id for t in animal.tokens]))
    assert animal.verified <= 1e-4


def test_a_batch_of_unequal_lengths_equals_eager(smollm2: hw.Model, eager) -> None:
    for record in hw.look(smollm2, TEXTS):
        assert_all_heads(record, weights_of(eager, [t.id for t in record.tokens]))
        assert record.verified <= 1e-4


def test_left_padding_equals_eager(smollm2: hw.Model, eager) -> None:
    rows = [[t.id for t in tokenize(smollm2.tokenizer, text)] for text in TEXTS[:3]]
    longest = max(map(len, rows))
    ids = torch.tensor([[2] * (longest - len(row)) + row for row in rows])
    mask = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])
    with torch.no_grad():
        padded = eager(ids, attention_mask=mask, output_attentions=True).attentions
    records = hw.look(smollm2, {"input_ids": ids, "attention_mask": mask})
    for i, (row, text, record) in enumerate(zip(rows, TEXTS, records, strict=False)):
        assert record.text == text
        assert_all_heads(record, weights_of(eager, row))
        assert_all_heads(record, [w[:, :, -len(row) :, -len(row) :] for w in padded], i)
        assert record.verified <= 1e-4


def test_the_bridge_gives_the_same_as_our_own_blocks(animal: hw.Record, eager) -> None:
    ids = torch.tensor([[t.id for t in animal.tokens]])
    (bridged,) = hw.look(hw.load(eager), {"input_ids": ids})
    assert bridged.verified <= 1e-4
    for head in animal.heads():
        np.testing.assert_allclose(bridged.weights(head), animal.weights(head), atol=1e-4, rtol=0)


def word_weight(record: hw.Record, head: str, query: str, key: str) -> float:
    pattern = record.pattern(head, words=True)
    return float(pattern.sel(query=query, key=key))


def test_it_looks_at_the_animal_and_at_the_street(animal: hw.Record) -> None:
    assert word_weight(animal, "13.8", "it", "animal") == pytest.approx(0.75, abs=0.01)
    assert word_weight(animal, "21.6", "it", "street") == pytest.approx(0.56, abs=0.01)


def test_the_last_word_cannot_change_what_came_before(smollm2: hw.Model, animal: hw.Record) -> None:
    """With `wide` for `tired` every number at `it` is the same: the mask hides what lies ahead."""
    wide = hw.look(smollm2, ANIMAL.replace("tired", "wide"))
    it = [t.label for t in animal.tokens].index("it")
    assert [t.label for t in wide.tokens][it] == "it"
    for head in animal.heads():
        one, other = animal.weights(head)[it, : it + 1], wide.weights(head)[it, : it + 1]
        np.testing.assert_allclose(one, other, atol=1e-5, rtol=0)
        assert not animal.visible(head)[it, it + 1 :].any()


def test_known_previous_token_heads(animal: hw.Record) -> None:
    masses = {str(s.id): s.masses["previous"] for s in hw.summarise(animal)}
    best = sorted(masses, key=lambda id: -masses[id])[:8]
    assert {"16.0", "11.1"} <= set(best)
    assert masses["16.0"] > 0.6


def test_the_telling_heads_of_the_animal(animal: hw.Record) -> None:
    found = telling(animal, hw.summarise(animal), 2)
    assert {str(summary.id) for summary, _ in found} == {"13.8", "21.6"}
    looked_at = {str(s.id): animal.tokens[cell.key].label for s, cell in found}
    assert looked_at == {"13.8": "animal", "21.6": "street"}


def test_what_the_word_it_looks_at(animal: hw.Record) -> None:
    (place,) = places_of(animal, "it")
    assert place.note is None
    looks = looks_of(animal, place)
    assert len(looks) == 270
    best = {str(look.head): look.looks_at[0] for look in looks}
    assert best["13.8"] == ("animal", pytest.approx(0.75, abs=0.01))
    assert best["21.6"] == ("street", pytest.approx(0.56, abs=0.01))
    assert [look.strength for look in looks] == sorted((x.strength for x in looks), reverse=True)


def test_minilm_has_a_previous_token_head() -> None:
    record = hw.look(hw.load("minilm", quiet=True), ANIMAL)
    assert len(record.heads()) == 72
    assert record.verified <= 1e-4
    summary = next(s for s in hw.summarise(record) if str(s.id) == "0.2")
    assert summary.does == "previous"
    assert summary.mass > 0.9
    assert record.tokens[0].text == "[CLS]"
    assert record.visible("0.2").all()


def test_e5_reads_chinese(e5: hw.Model) -> None:
    record = hw.look(e5, CHINESE)
    assert len(record.heads()) == 144
    assert record.verified <= 1e-4
    assert "图书馆" in [t.text for t in record.tokens]
    (place,) = places_of(record, "它")
    assert place.word.text == "因为它"
    assert place.note == "the tokens of '它' hold more than it: '因为它'"
    assert len(looks_of(record, place)) == 144


def test_whisper_shows_where_its_decoder_listens() -> None:
    model = hw.load("whisper-tiny-en", quiet=True)
    time = torch.arange(3000) / 100
    sound = torch.stack([torch.sin(2 * time * (1 + i / 10)) for i in range(80)])[None]
    (record,) = hw.look(model, {"input_features": sound})
    assert len(record.heads()) == 72
    assert record.verified <= 1e-4
    cross = record.layer_of(hw.HeadId("cross", 2, 4))
    start = ["<|startoftranscript|>", "<|notimestamps|>"]
    assert [t.label for t in cross.queries.tokens][
        :2
    ] == start  # what its decoder really started from
    assert len(cross.keys.tokens) == 1500
    model.module.set_attn_implementation("eager")
    ids = torch.tensor([[t.id for t in cross.queries.tokens]])
    with torch.no_grad():
        out = model.module(input_features=sound, decoder_input_ids=ids, output_attentions=True)
    for head in range(6):
        own = out.cross_attentions[2][0, head].numpy()
        np.testing.assert_allclose(record.weights(f"cross.2.{head}"), own, atol=1e-4, rtol=0)


def test_rxnmapper_runs_its_one_layer_twelve_times() -> None:
    model = hw.load("rxnmapper", quiet=True)
    record = hw.look(model, "CC(=O)Cl.OCC>>CC(=O)OCC")
    assert len(record.heads()) == 96
    assert record.verified <= 1e-4
    model.module.set_attn_implementation("eager")
    with torch.no_grad():
        ids = torch.tensor([[t.id for t in record.tokens]])
        own = model.module(input_ids=ids, output_attentions=True).attentions
    for head in record.heads():
        mine = record.weights(head)
        np.testing.assert_allclose(mine, own[head.layer][0, head.head].numpy(), atol=1e-4, rtol=0)


MIXED = "The café didn't  close.\n\n小明把书还给了图书馆，因为它到期了。 Good 👍🏽 𠀀!"


@pytest.mark.parametrize("name", ["smollm2", "minilm", "e5-small", "whisper-tiny-en"])
def test_every_token_of_a_real_tokenizer_is_its_characters(name: str) -> None:
    tokenizer = read_tokenizer(get(name))
    for text in [*TEXTS, MIXED, "  leading", "e\u0301 हिन्दी"]:
        tokens = tokenize(tokenizer, text)
        assert all(t.text == text[t.start : t.end] for t in tokens if not t.special)
        shown = {i for t in tokens for i in range(t.start, t.end)}
        hidden = {text[i] for i in range(len(text)) if i not in shown and not text[i].isspace()}
        assert hidden <= {"\u0301", "\u094d"}  # marks, in a model that reads no accents


def test_byte_pieces_of_a_real_tokenizer_are_numbered(smollm2: hw.Model) -> None:
    labels = [t.label for t in tokenize(smollm2.tokenizer, "它 👍")]
    assert labels == ["它·1", "它·2", "👍·1", "👍·2", "👍·3"]
    text, tokens = tokens_of_ids(smollm2.tokenizer, smollm2.tokenizer.encode("它 👍").ids)
    assert text == "它 👍"
    assert [t.label for t in tokens] == labels


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(lambda s: s.strip()))
def test_random_texts_through_a_real_tokenizer(smollm2: hw.Model, text: str) -> None:
    try:
        tokens = tokenize(smollm2.tokenizer, text)
    except TextError:  # a few control characters are not in its vocabulary
        assert not text.isprintable()
        return
    assert all(t.text == text[t.start : t.end] for t in tokens)
    words = words_of(text, tokens)
    assert [i for w in words for i in range(w.first, w.last)] == list(range(len(tokens)))
    even = np.full((len(tokens), len(tokens)), 1 / len(tokens))
    np.testing.assert_allclose(to_words(even, words, words).sum(1), 1)
