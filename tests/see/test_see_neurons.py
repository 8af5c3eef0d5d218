"""neurons: what a corpus tells of every neuron is what the whole of the activations tells."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from neurons_help import activations_of, planted, strongest
from see_help import sharp

import headwise as hw
from headwise.hub.neurons import feed_forwards
from headwise.names import ConfigError, HeadError, ModelError, OutputError, TextError
from headwise.see.neurons.gathering import NeuronGatherer
from headwise.see.neurons.snippets import Snippet
from headwise.see.neurons.strongest import LayerTally

TEXTS = ["a quick quay", "no such letter here", "q", "Iraq, 书 q", "ends with q"]


def test_a_planted_neuron_is_found_first_with_its_rate_and_its_contexts() -> None:
    found = hw.neurons(planted(), TEXTS, top=4)
    (id, side), *others = found.telling(5)
    assert (str(id), side) == ("0.3", "positive")
    assert not others  # no other neuron fires at all
    contexts = found.contexts("0.3")
    assert {c.token.text for c in contexts} == {"q"}
    tokens = [len(text.encode()) - 1 for text in TEXTS]  # the first of each is left out
    assert float(found.table["rate"].sel(side="positive", layer=0, neuron=3)) == 5 / sum(tokens)
    assert float(found.table["rate"].sum()) == 5 / sum(tokens)
    texts = {c.before + c.token.text + c.after for c in contexts}
    assert texts <= set(TEXTS)
    assert all(c.position == len(c.before.encode()) for c in contexts)
    assert found.contexts("0.3", "negative") == ()
    assert found.contexts("1.3") == ()


def test_everywhere_counts_the_first_token_too() -> None:
    found = hw.neurons(planted(), TEXTS, top=10, everywhere=True)
    tokens = sum(len(text.encode()) for text in TEXTS)
    assert float(found.table["rate"].sel(side="positive", layer=0, neuron=3)) == 6 / tokens
    assert len(found.contexts("0.3")) == 6


def test_contexts_of_byte_pieces_name_the_piece_and_keep_the_character() -> None:
    model = planted()
    ids = model.tokenizer.encode("书").ids
    with torch.no_grad():
        model.module.blocks[0].ffn.w_in.weight[3].zero_()
        model.module.blocks[0].ffn.w_in.weight[3, ids[1]] = 1.0
    (context,) = hw.neurons(model, ["小书包"]).contexts("0.3")
    assert (context.before, context.token.label, context.after) == ("小", "书·2", "包")


def test_a_long_text_keeps_pieces_of_itself_alone() -> None:
    text = "a" * 3999 + "q" + "b" * 3000
    found = hw.neurons(planted(), [text])
    (context,) = found.contexts("0.3")
    assert context.position == 3999
    assert (context.before[-2:], context.token.text, context.after[:2]) == ("aa", "q", "bb")
    assert len(context.before) + len(context.after) < 200


def dense(model: hw.Model, texts: list[str], layer: int) -> np.ndarray:
    """Every activation of a layer of ours, [token, neuron], from W1 and the activation function."""

    def make(ffn: Any, x: torch.Tensor) -> torch.Tensor:
        hidden = x @ ffn.w_in.weight.T + ffn.w_in.bias
        if ffn.gated:
            gate, up = hidden.chunk(2, -1)
            return torch.nn.functional.silu(gate) * up
        return torch.nn.functional.gelu(hidden)

    rows = []
    for text in texts:
        ids = torch.tensor([model.tokenizer.encode(text).ids])
        path = f"blocks.{layer}.ffn"
        rows.append(activations_of(model, {"input_ids": ids}, {path: make})[path][1:])
    return torch.cat(rows).double().numpy()


@pytest.mark.parametrize("kind", ["bytes_model", "encoder_model"])
def test_every_number_is_what_the_whole_of_the_activations_gives(kind: str, request: Any) -> None:
    model = request.getfixturevalue(kind)
    found = hw.neurons(model, TEXTS, top=3)
    for layer in (0, 1):
        values = dense(model, TEXTS, layer)
        table = found.table.sel(layer=layer)
        close = {"rtol": 1e-4, "atol": 1e-5}
        np.testing.assert_allclose(table["mean"], values.mean(0), **close)
        np.testing.assert_allclose(table["rms"], np.sqrt((values**2).mean(0)), **close)
        np.testing.assert_allclose(table["max"], values.max(0), **close)
        np.testing.assert_allclose(table["min"], values.min(0), **close)
        sparsity = 1 - np.abs(values).mean(0) ** 2 / (values**2).mean(0)
        np.testing.assert_allclose(table["sparsity"], sparsity, **close)
        for side, sign in (("positive", 1), ("negative", -1)):
            one = table.sel(side=side)
            np.testing.assert_allclose(one["rate"], (sign * values > 0).mean(0), **close)
            np.testing.assert_allclose(
                sign * one["activation"], strongest(sign * values, 3), **close
            )


def test_padding_counts_nowhere_whatever_the_order(bytes_model: hw.Model) -> None:
    alone = NeuronGatherer(bytes_model)
    for text in TEXTS:
        for batch in alone.read([text]):
            alone.add(batch)
    found, again = alone.result(), hw.neurons(bytes_model, TEXTS[::-1])
    for id in ("0.3", "1.7"):
        contexts = [c for c in found.contexts(id) if c.activation > 1e-3]
        others = {(c.before, c.token.label, c.after) for c in again.contexts(id)}
        assert {(c.before, c.token.label, c.after) for c in contexts} <= others
        assert {c.before + c.token.text + c.after for c in contexts if c.token.part is None} <= {
            *TEXTS
        }
        assert len({c.row for c in contexts}) > 1
    one, other = found.table, again.table
    for name in ("mean", "rms", "rate", "activation", "peak"):
        np.testing.assert_allclose(one[name], other[name], rtol=1e-4, atol=1e-5, err_msg=name)


def test_gated_neurons_have_both_signs_apart(encoder_model: hw.Model) -> None:
    from headwise.nn import Decoder, TransformerConfig

    config = TransformerConfig(
        vocab_size=257, d_model=24, num_layers=1, num_heads=4, d_ff=32, activation="swiglu"
    )
    model = sharp(hw.load(Decoder(config), tokenizer=encoder_model.tokenizer))
    table = hw.neurons(model, TEXTS, top=3).table
    assert bool(table["gated"].all())
    positive, negative = table["activation"].sel(side="positive"), table["activation"][1]
    assert bool((positive.fillna(1) > 0).all())
    assert bool((negative.fillna(-1) < 0).all())
    assert float(negative.min()) < -0.5 < 0.5 < float(positive.max())


@given(st.integers(1, 60), st.integers(1, 5), st.integers(1, 4), st.integers(0, 99), st.booleans())
def test_streamed_tops_are_those_of_all_at_once(
    tokens: int, neurons: int, top: int, seed: int, coarse: bool
) -> None:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(tokens, neurons, generator=generator)
    values = (values * 2).round() if coarse else values
    tally = LayerTally(neurons, top)
    at = 0
    while at < tokens:
        step = int(torch.randint(1, 40, (1,), generator=generator))
        tally.add(values[at : at + step], torch.arange(at, min(at + step, tokens)))
        at += step
    for side, sign in enumerate((1, -1)):
        wanted = np.nan_to_num(strongest(sign * values.numpy(), top))
        np.testing.assert_array_equal(tally.best[side], wanted)
        places = tally.places[side]
        held = places >= 0
        assert bool((held == (tally.best[side] > 0)).all())
        which = torch.arange(neurons)[:, None].expand_as(places)
        given = sign * values[places.clamp_min(0), which]
        assert torch.equal(given[held], tally.best[side][held])
        assert all(len(set(row)) == len(row) for row in (r[r >= 0].tolist() for r in places))


def held(gatherer: NeuronGatherer) -> tuple[int, int]:
    """How many numbers and how many snippets it holds."""
    numbers = sum(
        x.numel() for tally in gatherer._tallies.values() for x in vars(tally).values()
        if isinstance(x, torch.Tensor)
    )  # fmt: skip
    return numbers, len(gatherer._snippets)


def test_what_is_held_does_not_grow_with_the_corpus() -> None:
    model = planted()
    gatherer = NeuronGatherer(model, top=4)
    seen = []
    for part in range(6):
        for batch in gatherer.read([f"text {part} {i} has a q" for i in range(50)]):
            gatherer.add(batch)
        seen.append(held(gatherer))
    assert gatherer.texts == 300
    assert len({numbers for numbers, _ in seen}) == 1
    assert all(snippets <= 4 for _, snippets in seen)
    assert all(isinstance(s, Snippet) for s in gatherer._snippets.values())
    assert len(gatherer.result().contexts("0.3")) == 4


def test_text_that_is_no_longer_needed_is_dropped(bytes_model: hw.Model) -> None:
    gatherer = NeuronGatherer(bytes_model, top=1)
    dropped = 0
    for part in range(8):
        before = set(gatherer._snippets)
        for batch in gatherer.read(
            [f"{part * 37 % 11} {chr(97 + part * i % 26)}{i} is" for i in range(20)]
        ):
            gatherer.add(batch)
        dropped += len(before - set(gatherer._snippets))
        places = torch.cat([t.places.flatten() for t in gatherer._tallies.values()])
        rows = {place >> 24 for place in places.tolist() if place >= 0}
        assert {row for _, row, _ in gatherer._snippets} == rows
    assert dropped > 0


def test_saved_and_read_back(tmp_path: Any) -> None:
    import json

    found = hw.neurons(planted(), TEXTS, top=4)
    found.save(tmp_path / "n.nc")
    again = hw.load_neurons(tmp_path / "n.nc")
    assert again.contexts("0.3") == found.contexts("0.3")
    assert again.table.drop_attrs().identical(found.table.drop_attrs())
    assert again.table.attrs == found.table.attrs
    found.save(tmp_path / "n.json", ["0.3"])
    (told,) = json.loads((tmp_path / "n.json").read_text())["neurons"]
    assert told["id"] == "0.3"
    assert [c["token"] for c in told["positive"]["contexts"]] == ["q"] * 4
    found.save(tmp_path / "all.json")
    assert len(json.loads((tmp_path / "all.json").read_text())["neurons"]) == 16


def test_mistakes_are_told_in_one_line(tmp_path: Any) -> None:
    model = planted()
    found = hw.neurons(model, TEXTS)
    with pytest.raises(HeadError, match=r"no neuron 0\.8: layer 0 has the neurons 0\.0 to 0\.7"):
        found.contexts("0.8")
    with pytest.raises(HeadError, match="no layer 7 of neurons; there are 0, 1"):
        found.contexts("7.0")
    with pytest.raises(TextError, match="no token counts"):
        hw.neurons(model, ["q"])
    with pytest.raises(TextError, match="the corpus is empty"):
        hw.neurons(model, [])
    with pytest.raises(ConfigError, match="top must be a whole number from 1, came 0"):
        hw.neurons(model, TEXTS, top=0)
    with pytest.raises(OutputError, match=r"must end in one of \.nc, \.json"):
        found.save(tmp_path / "n.txt")
    (tmp_path / "n.nc").write_text("nothing")
    with pytest.raises(ModelError, match="cannot be read as neurons"):
        hw.load_neurons(tmp_path / "n.nc")
    with torch.no_grad():
        model.module.blocks[1].ffn.w_in.bias[5] = torch.nan
    with pytest.raises(ModelError, match=r"neuron 1\.5 of Decoder gives NaN"):
        hw.neurons(model, TEXTS)


def test_a_side_is_positive_or_negative(bytes_model: hw.Model) -> None:
    found = hw.neurons(bytes_model, ["it is so"])
    with pytest.raises(ConfigError, match="side must be 'positive' or 'negative', came 'sideways'"):
        found.contexts("0.1", "sideways")


def test_rows_of_ids_without_a_tokenizer() -> None:
    model = planted()
    bare = hw.load(model.module)
    ids = [model.tokenizer.encode(text).ids for text in TEXTS]
    found = hw.neurons(bare, ids, top=4)
    rate = hw.neurons(model, TEXTS).table["rate"]
    np.testing.assert_allclose(found.table["rate"], rate)
    wanted = str(model.tokenizer.encode("q").ids[0])
    assert {c.token.label for c in found.contexts("0.3")} == {wanted}


def test_the_networks_are_those_of_the_model() -> None:
    model = planted()
    networks = feed_forwards(model, {"input_ids": torch.tensor([[5, 6, 7]])})
    assert [n.size for n in networks.networks] == [8, 8]
    weight = networks.networks[0].weight
    assert weight.shape == (8, 258)
    assert float(weight[3].max()) == 2.0
