"""Writing on with a cache: the same as full passes, for every scheme of positions, window, chunk and padding."""

from __future__ import annotations

import typing

import pytest
import torch
from torch import Tensor

from headwise.names import ConfigError, ModelError, ShapeError
from headwise.nn import Decoder, EncoderDecoder, KVCache, generate
from headwise.nn.config import Positions

NEW = 6
every_scheme = pytest.mark.parametrize("positions", typing.get_args(Positions))


def loud(model):
    """Weights so large that texts differ and do not say one token again and again."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.5)
    return model.eval()


def by_full_passes(forward, ids: Tensor, most: int = NEW) -> Tensor:
    """The likeliest token each time, every time by a pass over the whole text."""
    with torch.no_grad():
        for _ in range(most):
            ids = torch.cat([ids, forward(ids)[:, -1:].argmax(-1)], 1)
    return ids


def left_padded(lengths=(7, 3, 5)) -> tuple[Tensor, Tensor, list[Tensor]]:
    alone = [torch.randint(0, 31, (1, n)) for n in lengths]
    ids = torch.zeros(len(lengths), max(lengths), dtype=torch.long)
    padding = torch.ones_like(ids, dtype=torch.bool)
    for row, one in enumerate(alone):
        ids[row, -one.shape[1] :] = one[0]
        padding[row, -one.shape[1] :] = False
    return ids, padding, alone


@every_scheme
@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("chunk", [None, 1, 3])
@pytest.mark.parametrize("kv_heads", [6, 2])
def test_cached_is_full(tiny, positions, window, chunk, kv_heads):
    model = loud(Decoder(tiny(positions=positions, window=window, num_kv_heads=kv_heads)))
    ids = torch.randint(0, 31, (3, 7))
    wanted = by_full_passes(model, ids)
    assert torch.equal(generate(model, ids, NEW, chunk=chunk), wanted)
    assert len(set(wanted[:, 7:].flatten().tolist())) > 2


@every_scheme
@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("chunk", [None, 2])
def test_left_padded_is_each_row_alone(tiny, positions, window, chunk):
    model = loud(Decoder(tiny(positions=positions, window=window)))
    ids, padding, alone = left_padded()
    got = generate(model, ids, NEW, key_padding_mask=padding, chunk=chunk)
    for row, one in enumerate(alone):
        assert torch.equal(got[row, 7:], by_full_passes(model, one)[0, one.shape[1] :])


@every_scheme
def test_an_encoder_decoder_writes_from_source_or_memory(tiny, positions):
    model = loud(EncoderDecoder(tiny(positions=positions, num_decoder_layers=3)))
    source, first = torch.randint(0, 31, (3, 5)), torch.tensor([[1], [2], [3]])
    padding = torch.zeros_like(source, dtype=torch.bool)
    padding[1, 3:] = True
    got = generate(model, first, NEW, source_ids=source, memory_padding_mask=padding)
    for row in range(3):
        one = source[row : row + 1, : 3 if row == 1 else 5]
        wanted = by_full_passes(lambda ids, one=one: model(one, ids), first[row : row + 1])
        assert torch.equal(got[row], wanted[0])
    memory = model.encoder(source, padding).detach()
    again = generate(model, first, NEW, memory=memory, memory_padding_mask=padding)
    assert torch.equal(again, got)
    crossed = model.decoder
    assert torch.equal(
        generate(crossed, first, NEW, memory=memory, memory_padding_mask=padding), got
    )


def test_the_prompt_is_read_once_and_one_logit_made(tiny, monkeypatch):
    model = loud(Decoder(tiny()))
    read, made = [], []
    hidden, logits, new_cache = model.hidden, model.logits, model.new_cache
    rooms = []
    monkeypatch.setattr(
        model, "hidden", lambda ids, *a, **k: read.append(ids.shape[1]) or hidden(ids, *a, **k)
    )
    monkeypatch.setattr(model, "logits", lambda x: made.append(x.shape[1]) or logits(x))
    monkeypatch.setattr(model, "new_cache", lambda n: rooms.append(n) or new_cache(n))
    generate(model, torch.ones(1, 7, dtype=torch.long), 4, chunk=4)
    assert read == [4, 3, 1, 1, 1]
    assert made == [1] * 4
    assert rooms == [11]


def test_ends_and_what_is_asked_by_each(tiny):
    model = loud(Decoder(tiny()))
    ids = torch.randint(0, 31, (3, 5))
    whole = generate(model, ids, 12)
    ends = [int(whole[0, 7]), int(whole[1, 9])]
    steps: list[Tensor] = []
    got = generate(model, ids, 12, ends=ends, each=lambda new: steps.append(new.clone()))
    lengths = []
    for row in range(3):
        written = whole[row, 5:].tolist()
        at = next((i for i, token in enumerate(written) if token in ends), 11)
        assert got[row, 5 : 6 + at].tolist() == written[: at + 1]
        assert set(got[row, 6 + at :].tolist()) <= {ends[0]}
        lengths.append(at + 1)
    assert got.shape[1] == 5 + max(lengths)
    assert torch.equal(torch.stack(steps, 1), got[:, 5:])
    never = next(token for token in range(31) if token not in whole)
    filled = generate(model, ids, 12, ends=[never, ends[0]])  # ended by one, filled with the first
    assert set(filled[0, 8:].tolist()) == {never}
    calls = []

    def third(new: Tensor) -> Tensor:
        calls.append(new)
        return torch.tensor([len(calls) >= 3, len(calls) >= 2, True])

    short = generate(model, ids, 12, each=third)
    assert torch.equal(short[0], whole[0, :8])
    assert short[1].tolist() == [*whole[1, :7].tolist(), int(whole[1, 6])]
    assert short.shape[1] == 8
    calls.clear()
    filled = generate(model, ids, 12, each=third, ends=[never])
    assert torch.equal(filled[0], whole[0, :8])
    assert filled[2].tolist() == [*whole[2, :6].tolist(), never, never]


def test_learned_positions_end_the_text(tiny):
    model = loud(Decoder(tiny(positions="learned", max_length=9)))
    ids = torch.randint(0, 31, (1, 5))
    got = generate(model, ids, 50)
    assert torch.equal(got, by_full_passes(model, ids, 4))
    with pytest.raises(
        ShapeError, match="the prompt is 9 tokens, the model has learned max_length=9"
    ):
        generate(model, torch.ones(1, 9, dtype=torch.long), 1)


def test_training_mode_comes_back_and_no_dropout_is_in_what_is_written(tiny):
    model = loud(Decoder(tiny(dropout=0.5)))
    ids = torch.randint(0, 31, (2, 5))
    wanted = generate(model, ids, NEW)
    model.train()
    model.blocks[0].eval()
    assert torch.equal(generate(model, ids, NEW), wanted)
    assert model.training
    assert not model.blocks[0].training
    assert model.blocks[1].training
    made = generate(model, ids, NEW)
    model(made).sum().backward()  # what is written can be learned from


@pytest.mark.usefixtures("unchecked")
def test_what_cannot_be_written_is_named(tiny):
    model, both = Decoder(tiny()), EncoderDecoder(tiny())
    ids = torch.ones(2, 3, dtype=torch.long)
    for wrong, message in (
        ({"ids": ids[:, :0]}, r"the prompt is empty: ids are \[2, 0\]; give at least one token"),
        ({"max_new_tokens": 0}, "max_new_tokens must be at least 1, came 0"),
        ({"chunk": 0}, "chunk must be at least 1, came 0"),
        ({"temperature": -1.0}, "temperature must be 0 .* came -1.0"),
        ({"temperature": float("nan")}, "came nan"),
        ({"temperature": 1.0, "top_k": 0}, "top_k must be at least 1, came 0"),
        ({"temperature": 1.0, "top_p": 1.5}, "top_p must be above 0 and at most 1, came 1.5"),
        ({"top_k": 5}, "top_k=5 limits what is drawn, and temperature=0 draws nothing"),
        ({"temperature": 1.0, "generator": [torch.Generator()]}, "1 generators came for 2 rows"),
        ({"source_ids": ids}, "a Decoder has no encoder"),
        (
            {"key_padding_mask": torch.tensor([[False] * 3, [False, False, True]])},
            "row 1 ends with",
        ),
        ({"ids": ids[0]}, r"came \[3\]"),
    ):
        given = {"ids": ids, "max_new_tokens": 2, **wrong}
        with pytest.raises((ShapeError, ConfigError), match=message):
            generate(model, **given)
    with pytest.raises(ShapeError, match="one of source_ids= and memory="):
        generate(both, ids, 2)
    with torch.no_grad():
        model.final_norm.weight.fill_(float("nan"))
    with pytest.raises(ModelError, match="logits are nan, so no token can be chosen"):
        generate(model, ids, 2)


def test_a_cache_holds_the_padding_of_all_chunks(tiny):
    ids, padding, _ = left_padded()
    cache = KVCache(2, 10)
    model = loud(Decoder(tiny()))
    for part, hidden in zip(ids.split(3, 1), padding.split(3, 1), strict=True):
        model(part, hidden, cache)
    assert torch.equal(cache.key_padding_mask, padding)
