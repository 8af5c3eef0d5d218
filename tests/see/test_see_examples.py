"""The strongest cases of a head are those its records hold, found by hand in whole patterns."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

import headwise as hw
from headwise.names import ConfigError, HeadError, TextError
from headwise.see import probes
from headwise.see.roles import cases
from headwise.see.roles.examples import Finder
from headwise.see.texts.given import batches_in

TEXTS = [
    "The cat sat. The cat ran off.",
    "one two one two three",
    "So it goes; so it went, they said.",
]


def by_hand(record: hw.Record, head: str, probe: probes.Probe) -> Iterator[tuple[float, str, str]]:
    layer, weights = record.layer_of(hw.HeadId.parse(head)), record.weights(head)
    named = probe.targets(layer.queries, layer.keys, layer.own_text)
    for q, k in enumerate(named.tolist()):
        if k >= 0 and weights[q, k] > 0:
            yield weights[q, k], layer.queries.tokens[q].label, layer.keys.tokens[k].label


def strongest(found: list[tuple[float, str, str]], top: int) -> list[tuple[float, str, str]]:
    best: dict[tuple[str, str], float] = {}
    for mass, query, key in found:
        best[query, key] = max(mass, best.get((query, key), 0.0))
    return sorted(((mass, *pair) for pair, mass in best.items()), reverse=True)[:top]


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize("name", ["previous", "same_token", "first"])
def test_the_cases_of_a_probe_of_tokens(bytes_model, name: str, small: bool, monkeypatch) -> None:
    """With blocks of a few rows as with whole patterns; texts of a batch are padded."""
    if small:
        monkeypatch.setattr(cases, "_CELLS", 100)
    probe = probes.named(name)
    records = hw.look(bytes_model, TEXTS)
    wanted = strongest([c for r in records for c in by_hand(r, "1.4", probe)], 5)
    found = hw.examples(bytes_model, TEXTS, "1.4", probe, top=5)
    assert [(one.query, *one.keys) for one in found] == [pair[1:] for pair in wanted]
    np.testing.assert_allclose([one.mass for one in found], [w[0] for w in wanted], atol=1e-5)
    for one in found:
        assert one.text[one.start : one.end].strip() in (one.query.replace("␣", ""), "")
        assert one.hit == (one.mass >= one.instead_mass)


def test_without_a_probe_the_strongest_far_links(bytes_model) -> None:
    found = hw.examples(bytes_model, TEXTS[0], "0.2", top=50)
    record = hw.look(bytes_model, TEXTS[0])
    weights, tokens = record.weights("0.2"), record.tokens
    wanted = []
    for q in range(4, len(tokens)):
        far = [(weights[q, k], k) for k in range(1, q - 2) if tokens[k].text.isalnum()]
        if far:
            mass, k = max(far)
            wanted.append((mass, tokens[q].label, tokens[k].label))
    wanted = strongest(wanted, 50)
    assert [(one.query, *one.keys) for one in found] == [pair[1:] for pair in wanted]
    np.testing.assert_allclose([one.mass for one in found], [w[0] for w in wanted], atol=1e-5)


def word_units(queries, keys):
    spans = [[(w.first, w.last) for w in side.words if w.first > 0] for side in (queries, keys)]
    return spans[0], spans[1]


def two_before(queries, keys):
    count = len(word_units(queries, keys)[0])
    return [(i - 2, i - 1) if i > 1 else () for i in range(count)]


def test_the_cases_of_a_probe_of_words(bytes_model, monkeypatch) -> None:
    """To a word the sum over its tokens, from a word their mean; several words may be named."""
    probe = probes.Probe("two_before", two_before, units=word_units, by="hits")
    wanted = []
    for record in hw.look(bytes_model, TEXTS):
        words = [w for w in record.sides[0].words if w.first > 0]
        weights = record.weights("0.1")
        for at in range(2, len(words)):
            row = weights[words[at].first : words[at].last].mean(0)
            to = np.array([row[w.first : w.last].sum() for w in words])
            others = np.delete(to, [at - 2, at - 1, at]).max(initial=0.0)
            hit = to[at - 2 : at].max() >= others
            wanted.append((to[at - 2 : at].sum(), words[at].text, words[at - 2].text, hit, others))
    wanted.sort(key=lambda case: -case[0])
    for cells in (cases._CELLS, 60):
        monkeypatch.setattr(cases, "_CELLS", cells)
        best = hw.examples(bytes_model, TEXTS, "0.1", probe, top=1)[0]
        assert (best.query, best.keys[0], best.hit) == wanted[0][1:4]
        np.testing.assert_allclose([best.mass, best.instead_mass], wanted[0][::4], atol=1e-5)


def test_no_more_than_is_needed_is_kept(bytes_model) -> None:
    finder = Finder(bytes_model, hw.HeadId.parse("1.0"), ["previous"], top=2)
    letters = "abcdefghijklmnopqrstuvwxyz"
    texts = [letters[::step] + letters[step:] for step in range(1, 10)]
    every = hw.examples(bytes_model, texts, "1.0", "previous", top=500)
    assert len(every) > 60
    for text in texts:
        for batch in batches_in(bytes_model, [text], None, None):
            finder.add(batch)
        assert len(finder._held[0]) <= 16
    assert finder.best()[0] == every[:2]


def test_a_shared_layer_is_looked_at_in_the_run_that_was_asked_for() -> None:
    from transformers import AlbertConfig, AlbertModel

    torch.manual_seed(0)
    config = AlbertConfig(
        vocab_size=50,
        embedding_size=8,
        hidden_size=16,
        num_hidden_layers=3,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
    )
    model = hw.load(AlbertModel(config).eval())
    ids = [[3, 4, 5, 6, 3, 4], [7, 8, 9, 10]]
    record = hw.look(model, {"input_ids": torch.tensor(ids[:1])})[0]
    for layer in range(3):
        best = hw.examples(model, ids[:1], f"{layer}.1", "previous", top=1)[0]
        weights = record.weights(f"{layer}.1")
        assert best.mass == pytest.approx(np.diagonal(weights, -1)[1:].max(), abs=1e-5)
    with pytest.raises(HeadError, match=r"no head 3\.0: the layers of .* are 0 to 2"):
        hw.examples(model, ids, "3.0")


def test_a_wrong_layer_is_told_all_there_are(bytes_model, two_stacks) -> None:
    """Of a model whose layers are modules of their own no more than one runs under the tap."""
    with pytest.raises(HeadError, match=r"no head 99\.9: the layers of .* are 0 to 1$"):
        hw.examples(bytes_model, TEXTS, "99.9")
    with pytest.raises(
        HeadError,
        match=r"no head 0\.1: the layers of .* are encoder\.0 to encoder\.1, decoder\.0 to decoder\.0, "
        r"cross\.0 to cross\.0$",
    ):
        hw.examples(two_stacks, [{"input_ids": torch.tensor([[5, 6]])}], "0.1")
    batch = {k: torch.tensor([[5, 6]]) for k in ("input_ids", "decoder_input_ids")}
    with pytest.raises(HeadError, match=r"no head cross\.3\.1: the layers of .* are encoder\.0 to"):
        hw.examples(two_stacks, [batch], "cross.3.1")


@pytest.fixture
def two_stacks() -> hw.Model:
    return bart(encoder_layers=2)


def bart(encoder_layers: int) -> hw.Model:
    from transformers import BartConfig, BartModel

    torch.manual_seed(0)
    config = BartConfig(
        vocab_size=40,
        d_model=16,
        encoder_layers=encoder_layers,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=16,
        decoder_ffn_dim=16,
        max_position_embeddings=32,
    )
    return hw.load(BartModel(config).eval())


def test_cross_attention() -> None:
    model = bart(encoder_layers=1)
    batch = {
        "input_ids": torch.tensor([[5, 6, 7, 8]]),
        "decoder_input_ids": torch.tensor([[9, 10]]),
    }
    found = hw.examples(model, [batch], "cross.0.1", "first", top=9)
    weights = hw.look(model, batch)[0].weights("cross.0.1")
    np.testing.assert_allclose([f.mass for f in found], np.sort(weights[:, 0])[::-1], atol=1e-6)
    assert hw.examples(model, [batch], "cross.0.1", "previous") == []
    known = r"are encoder\.0 to encoder\.0, decoder\.0 to decoder\.0, cross\.0 to cross\.0$"
    for wrong in ("0.1", "cross.7.0"):
        with pytest.raises(HeadError, match=known):
            hw.examples(model, [batch], wrong)


def test_mistakes(bytes_model) -> None:
    with pytest.raises(HeadError, match=r"no head 1\.6: layer 1 has the heads 1\.0 to 1\.5"):
        hw.examples(bytes_model, TEXTS, "1.6")
    with pytest.raises(HeadError, match=r"no head 2\.0: the layers of .* are 0 to 1$"):
        hw.examples(bytes_model, TEXTS, "2.0")
    with pytest.raises(HeadError, match="is not a head id"):
        hw.examples(bytes_model, TEXTS, "two")
    with pytest.raises(ConfigError, match="there is no probe 'nope'"):
        hw.examples(bytes_model, TEXTS, "0.0", "nope")
    with pytest.raises(ConfigError, match="top must be at least 1"):
        hw.examples(bytes_model, TEXTS, "0.0", top=0)
    with pytest.raises(TextError, match="the corpus is empty"):
        hw.examples(bytes_model, [], "0.0")


@pytest.mark.models
def test_the_head_that_finds_the_animal() -> None:
    model = hw.load("smollm2")
    text = "The animal didn't cross the street because it was too tired"
    found = hw.examples(model, text, "13.8")
    pairs = {(one.query, one.keys): one.mass for one in found}
    assert pairs["it", ("animal",)] == pytest.approx(0.75, abs=0.01)
