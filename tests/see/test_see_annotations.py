"""Real annotations in the tokens of real models: gold trees of two languages, GAP; alignment on Whisper.

All but the last need a folder with the Parallel Universal Dependencies treebanks and GAP's development table, named
by HEADWISE_ANNOTATIONS.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
import torch

import headwise as hw
from headwise.see.probes import Probe, alignment, mentions, relations, treebank
from headwise.see.record import Side
from headwise.see.texts.corpus import Corpus
from headwise.see.texts.tokens import tokenize
from headwise.see.texts.words import spans_of


def annotations(name: str) -> Path:
    """One of the files, or the test is skipped."""
    folder = os.environ.get("HEADWISE_ANNOTATIONS")
    if folder is None:
        pytest.skip("HEADWISE_ANNOTATIONS names no folder with annotated texts")
    path = Path(folder) / name
    if not path.exists():
        pytest.skip(f"{path} is not there")
    return path


def sides(model: hw.Model, texts: tuple[str, ...]) -> list[Side]:
    assert model.tokenizer is not None
    return [Side(text, tokenize(model.tokenizer, text)) for text in texts]


def cases(probe: Probe, texts: list[Side]) -> int:
    return sum(
        bool(units) for side in texts for units in probe.links(side, side, probe.units(side, side))
    )


@pytest.mark.parametrize("name", ["en_pud.conllu", "zh_pud.conllu"])
def test_every_word_of_a_real_treebank_is_where_its_tree_says(name: str) -> None:
    path = annotations(name)
    bank = treebank(path)
    assert bank.faults == ()
    assert len(bank.texts) == 1000
    assert bank.texts == tuple(Corpus((path,)).texts())
    rows = [line.split("\t") for line in path.read_text(encoding="utf-8").splitlines()]
    labels = Counter(row[7] for row in rows if len(row) == 10 and row[0].isdecimal())
    del labels["root"]
    assert bank.labels == labels


@pytest.mark.models
@pytest.mark.parametrize(
    ("model", "name", "least", "merged"),
    [
        ("smollm2", "en_pud.conllu", 0.95, 0.0),
        ("minilm", "en_pud.conllu", 0.99, 0.001),
        ("e5-small", "zh_pud.conllu", 0.94, 0.06),
    ],
)
def test_what_real_tokens_leave_of_real_trees(
    model: str, name: str, least: float, merged: float
) -> None:
    bank = treebank(annotations(name))
    loaded = hw.load(model, quiet=True)
    found = bank.coverage(loaded)
    assert found.links == sum(bank.labels.values()) == found.seen + found.merged + found.lost
    assert least <= found.seen / found.links
    assert found.merged / found.links <= merged
    texts = sides(loaded, bank.texts[:100])
    for probe in relations(bank, least=300):
        label, _, to = probe.name.rpartition("_to_")
        some = cases(probe, texts)
        assert 0 < some <= bank.labels[label], to


@pytest.mark.models
@pytest.mark.parametrize("model", ["smollm2", "minilm"])
def test_real_coreference(model: str) -> None:
    found = mentions(annotations("gap-development.tsv"))
    assert (found.faults, found.cases, len(found.texts)) == ((), 1799, 1999)
    texts = sides(hw.load(model, quiet=True), found.texts)
    assert cases(found.words, texts) >= 1790
    assert cases(found.candidates, texts) >= 1790
    two = [side for side in texts if len(found.candidates.units(side, side)[1]) == 2]
    assert len(two) >= 1790  # chance is a half


@pytest.mark.models
def test_alignment_is_measured_where_whisper_listens() -> None:
    model = hw.load("whisper-tiny-en", quiet=True)
    torch.manual_seed(0)
    assert model.tokenizer is not None
    ids = model.tokenizer.encode(" One small step for a man").ids
    sound = {"input_features": torch.randn(1, 80, 3000), "decoder_input_ids": torch.tensor([ids])}
    (record,) = hw.look(model, sound)
    layer = record.layer(hw.HeadId.parse("cross.2.4").layer_id)
    text = layer.queries.text
    words = spans_of(text)
    spans = [[*span, 100 * i, 100 * i + 100] for i, span in enumerate(words)]
    assert len(spans) == 6
    probe = alignment({"target": text, "spans": spans})
    table = hw.profile(model, sound, probes=[probe], pool=0, positions=0)
    counts = table.probe_count.sel(probe="alignment").sum("half")
    in_cross = counts.layer.str.startswith("cross")
    assert (counts[in_cross] == len(spans)).all()
    assert (counts[~in_cross] == 0).all()
    weights = torch.from_numpy(record.weights("cross.2.4"))
    mass = []
    for (start, end), (_, _, low, high) in zip(words, spans, strict=True):
        rows = [
            at
            for at, token in enumerate(layer.queries.tokens)
            if at and not token.special and token.start < end and token.end > start
        ]
        mass.append(float(weights[rows, low:high].sum(1).mean()))
    found = table.probe_mass.sel(probe="alignment", layer="cross.2", head=4).sum("half")
    assert float(found) == pytest.approx(sum(mass) / len(mass), abs=1e-5)
