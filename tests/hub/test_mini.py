"""The model that lies in the package: there without network or cache, and with the heads that its card names."""

from __future__ import annotations

import hashlib
import math
import random
import re
import socket
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

import headwise as hw
from headwise.hub.catalogue import CATALOGUE, Included
from headwise.hub.get import get
from headwise.names import ModelError
from headwise.see.probes import ON_REPEATED

PASSAGES = Path(__file__).with_name("passages.txt").read_text(encoding="utf-8").split("\n\n")
"""Of the text that was held out."""


@pytest.fixture(scope="module")
def mini():
    return hw.load("mini", quiet=True)


@pytest.fixture(scope="module")
def repeated(mini):
    return hw.probes.repeated_tokens((32, 64), model=mini, rows=32)


@pytest.fixture(scope="module")
def roles(mini, repeated):
    of_texts = hw.profile(mini, PASSAGES)
    return hw.roles([of_texts, hw.profile(mini, repeated, probes=ON_REPEATED)])


def losses(model, rows):
    """Of each row of two equal halves: the mean loss of the first (from its eighth token on) and of the second."""
    found = []
    with torch.no_grad():
        for ids in rows:
            each = F.cross_entropy(model.module(ids[None, :-1])[0], ids[1:], reduction="none")
            half = len(ids) // 2
            found.append((float(each[8 : half - 1].mean()), float(each[half:].mean())))
    first, second = map(list, zip(*found, strict=True))
    return sum(first) / len(first), sum(second) / len(second)


def test_it_needs_no_network_and_no_cache(cache, monkeypatch):
    def refused(*args):
        raise AssertionError("a connection was tried")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr("headwise.hub.fetch.fetch_wheel", refused)
    model = hw.load("Mini")
    assert hw.look(model, "In the beginning").verified < 1e-5
    assert not model.foreign
    assert not cache.exists()


def test_it_is_small_and_its_card_is_of_these_files():
    folder = get("mini")
    assert sum(file.stat().st_size for file in folder.iterdir()) <= 8_000_000
    card = (folder / "README.md").read_text(encoding="utf-8")
    for name in ("model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        assert hashlib.sha256((folder / name).read_bytes()).hexdigest() in card


def test_a_package_without_it_says_so(monkeypatch):
    monkeypatch.setitem(CATALOGUE, "mini", Included("mini", "gone", "", ""))
    with pytest.raises(ModelError, match="gone, which comes with headwise, is missing"):
        get("mini")


def test_transformers_reads_it_too(mini):
    from transformers import AutoModelForCausalLM

    theirs = AutoModelForCausalLM.from_pretrained(get("mini"), dtype=torch.float32).eval()
    ids = torch.tensor([mini.tokenizer.encode(PASSAGES[0]).ids[:200]])
    with torch.no_grad():
        torch.testing.assert_close(mini.module(ids), theirs(ids).logits, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    "text", ["And God said, Let there be light", "  a\n\n头 x  é 🙂", "<|endoftext|"]
)
def test_any_text_comes_back_byte_for_byte(mini, text):
    assert mini.tokenizer.decode(mini.tokenizer.encode(text).ids, skip_special_tokens=False) == text


def test_transformers_reads_its_text_alike(mini):
    from transformers import AutoTokenizer

    theirs = AutoTokenizer.from_pretrained(get("mini"))
    for text in ("And in the year 1984, he isn't 12345", "cafe\u0301 caf\u00e9", *PASSAGES[:3]):
        assert theirs(text).input_ids == mini.tokenizer.encode(text).ids


def test_it_has_learned_its_text(mini):
    """Bits per byte of what was held out: gzip -9 needs 3.7."""
    nats = 0.0
    with torch.no_grad():
        for text in PASSAGES:
            ids = torch.tensor([0, *mini.tokenizer.encode(text).ids])
            nats += float(F.cross_entropy(mini.module(ids[None, :-1])[0], ids[1:], reduction="sum"))
    size = sum(len(text.encode()) for text in PASSAGES)
    assert nats / math.log(2) / size < 1.8


def test_it_writes_english(mini):
    known = set(re.findall(r"\w+", " ".join(PASSAGES).lower()))
    written = hw.generate(mini, "And the LORD said unto Moses,", max_new_tokens=60)
    words = re.findall(r"\w+", written.lower())
    assert len(words) > 20
    assert sum(word in known for word in words) > 0.7 * len(words)


def test_it_has_previous_token_and_induction_heads(roles):
    claimed = {role.probe: role for role in reversed(roles.claimed)}
    assert claimed["previous"].score > 0.8
    assert claimed["induction"].score > 0.15
    assert claimed["induction_random"].score > 0.2
    assert claimed["previous"].head.layer < claimed["induction_random"].head.layer


def test_what_repeats_is_foreseen(mini, repeated):
    first, second = losses(mini, repeated)
    assert second < first - 1.5  # each token is some 4.5 times as likely, and more


def test_and_it_is_these_heads_that_foresee_it(mini, repeated, roles):
    found = [str(role.head) for role in roles.claimed if role.probe == "induction_random"]
    others = [str(head) for head in roles.heads if str(head) not in found]
    rows = repeated[::2]
    first, plain = losses(mini, rows)

    def risen(heads):
        with hw.ablate(mini, heads, "mean", texts=rows):
            return losses(mini, rows)[1] - plain

    chance = random.Random(0)
    drawn = [risen(chance.sample(others, len(found))) for _ in range(12)]
    rise = risen(found)
    assert rise > 0.8 * (first - plain)
    assert rise > max(drawn)
    assert rise > 4 * sum(drawn) / len(drawn)
