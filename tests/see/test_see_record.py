"""look and its record: batches, memory, patterns on demand, saving."""

from __future__ import annotations

import re
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

import headwise as hw
from headwise.core.scores import mix
from headwise.names import HeadError, LayerId, ModelError, OutputError, TextError
from headwise.nn import EncoderDecoder, TransformerConfig
from headwise.see.looking import recording
from headwise.see.record import verify
from headwise.see.texts import batches

TEXTS = ["the animal was tired", "它很累。", "x", "a longer text, of several words and signs!"]


def same(a: hw.Record, b: hw.Record, atol: float = 1e-6) -> None:
    assert a.heads() == b.heads()
    assert a.tokens == b.tokens
    assert a.text == b.text
    for head in a.heads():
        np.testing.assert_allclose(a.weights(head), b.weights(head), atol=atol, rtol=0)
        np.testing.assert_array_equal(a.visible(head), b.visible(head))


@pytest.mark.parametrize("kind", ["bytes_model", "encoder_model"])
def test_a_list_gives_what_each_text_gives_alone(kind: str, request: pytest.FixtureRequest) -> None:
    model = request.getfixturevalue(kind)
    records = hw.look(model, TEXTS)
    assert [record.text for record in records] == TEXTS
    for text, record in zip(TEXTS, records, strict=True):
        same(record, hw.look(model, text), atol=1e-5)
        assert record.verified < 1e-5


def test_lists_are_split_to_fit(bytes_model: hw.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """No batch holds more tokens than allowed, padding included; a long text goes alone."""
    monkeypatch.setattr(batches, "MOST_TOKENS", 20)
    sizes = []
    run = hw.Model.run

    def watched(self: hw.Model, inputs: Any) -> Any:
        sizes.append(tuple(inputs["input_ids"].shape))
        return run(self, inputs)

    monkeypatch.setattr(hw.Model, "run", watched)
    texts = ["a" * n for n in (3, 7, 8, 2, 30, 1, 25)]
    records = hw.look(bytes_model, texts)
    assert sizes == [(2, 7), (2, 8), (1, 30), (1, 1), (1, 25)]
    assert [len(record.tokens) for record in records] == [3, 7, 8, 2, 30, 1, 25]


def test_no_texts_give_no_records(bytes_model: hw.Model) -> None:
    assert hw.look(bytes_model, []) == []


@pytest.mark.parametrize("side", ["left", "right"])
def test_a_batch_of_ids_is_read_on_either_side(bytes_model: hw.Model, side: str) -> None:
    rows = [torch.tensor(list(text.encode())) for text in ("abcdef", "xy")]
    ids, mask = torch.zeros(2, 6, dtype=torch.long), torch.zeros(2, 6, dtype=torch.long)
    for i, row in enumerate(rows):
        where = slice(0, len(row)) if side == "right" else slice(6 - len(row), None)
        ids[i, where], mask[i, where] = row, 1
    records = hw.look(bytes_model, {"input_ids": ids, "attention_mask": mask})
    for row, record in zip(rows, records, strict=True):
        same(record, hw.look(bytes_model, {"input_ids": row[None]})[0])


def test_weights_are_rows_that_sum_to_one_over_what_may_be_seen(bytes_model: hw.Model) -> None:
    record = hw.look(bytes_model, TEXTS[0])
    for head in record.heads():
        weights, visible = record.weights(head), record.visible(head)
        np.testing.assert_allclose(weights.sum(1), 1, atol=1e-6)
        np.testing.assert_array_equal(visible, np.tri(len(weights), dtype=bool))
        assert (weights[~visible] == 0).all()


@pytest.mark.parametrize("cells", [1, 1 << 24])
def test_verified_measures_the_models_own_outputs(
    bytes_model: hw.Model, cells: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If the model computed something else than what is recorded, the record would say so."""
    monkeypatch.setattr("headwise.core.scores.BLOCK_CELLS", cells)
    record = hw.look(bytes_model, TEXTS[0])
    layer = record.layer_of(hw.HeadId("", 0, 0))
    v = torch.randn(1, 2, len(record.tokens), 4)
    z = mix(layer.scores.rows(), v)
    assert verify(layer.scores, v, z) < 1e-6
    z[0, 5, 0, 3] += 0.25
    assert verify(layer.scores, v, z) == pytest.approx(0.25)
    z[0, 0, 2, 0] = float("nan")
    assert np.isnan(verify(layer.scores, v, z))


def test_verified_is_the_worst_of_the_layers(layer_of: Any) -> None:
    from dataclasses import replace

    layers = [
        replace(layer_of([[[1.0]]], ["a"], id=hw.HeadId("", i, 0).layer_id), verified=off)
        for i, off in enumerate((1e-7, 3e-3, 1e-5))
    ]
    assert hw.Record("m", {layer.id: layer for layer in layers}).verified == 3e-3
    broken = replace(layers[2], verified=float("nan"))
    assert np.isnan(hw.Record("m", {x.id: x for x in (*layers[:2], broken)}).verified)


def tensors_of(thing: Any, seen: dict[int, Any] | None = None) -> list[torch.Tensor]:
    """All tensors and arrays that an object holds, however deep."""
    seen = {} if seen is None else seen
    if id(thing) in seen:
        return []
    seen[id(thing)] = thing  # kept, so that no id is used twice
    if isinstance(thing, torch.Tensor | np.ndarray):
        base = thing._base if isinstance(thing, torch.Tensor) and thing._base is not None else thing
        return [torch.as_tensor(base)]
    if isinstance(thing, dict):
        return [t for value in thing.values() for t in tensors_of(value, seen)]
    if isinstance(thing, list | tuple | set | frozenset):
        return [t for value in thing for t in tensors_of(value, seen)]
    held = [getattr(thing, f.name) for f in fields(thing)] if is_dataclass(thing) else []
    return tensors_of([*held, *getattr(thing, "__dict__", {}).values()], seen)


@pytest.mark.parametrize("kind", ["bytes_model", "encoder_model"])
@pytest.mark.parametrize("many", [False, True])
def test_a_record_holds_nothing_of_query_times_key(
    kind: str, many: bool, request: pytest.FixtureRequest
) -> None:
    """O(n) memory: q and k of every layer, and no pattern and no dense mask."""
    model, n = request.getfixturevalue(kind), 300
    text = "word " * (n // 5)
    record = hw.look(model, [text, "short"])[0] if many else hw.look(model, text)
    record.weights("1.0")
    held = tensors_of(record)
    assert len(held) >= 2 * len(record.layers)
    assert sum(t.numel() for t in held) < n * n
    width = model.module.config.d_model
    assert all(t.numel() <= (2 if many else 1) * n * width for t in held)


def test_a_bridged_record_holds_nothing_of_query_times_key() -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=99,
        hidden_size=24,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=6,
        num_key_value_heads=2,
    )
    for attention in ("sdpa", "eager"):
        model = hw.load(LlamaForCausalLM._from_config(config, attn_implementation=attention))
        n = 300
        batch = {"input_ids": torch.randint(99, (2, n)), "attention_mask": torch.ones(2, n)}
        batch["attention_mask"][1, :100] = 0
        for record in hw.look(model, batch):
            assert sum(t.numel() for t in tensors_of(record)) < n * n


def test_layers_that_share_a_bias_share_it_in_the_record() -> None:
    """T5 gives one bias to all its layers; a batch does not make one for each."""
    from transformers import T5Config, T5EncoderModel

    torch.manual_seed(0)
    model = T5EncoderModel(
        T5Config(vocab_size=40, d_model=16, d_kv=4, d_ff=16, num_layers=3, num_heads=4)
    )
    batch = {"input_ids": torch.randint(2, 40, (2, 8)), "attention_mask": torch.ones(2, 8)}
    batch["attention_mask"][0, 6:] = 0
    for record in hw.look(hw.load(model), batch):
        assert len({id(layer.scores.bias) for layer in record.layers.values()}) == 1


def test_pattern_names_its_tokens_and_its_group(bytes_model: hw.Model) -> None:
    record = hw.look(bytes_model, "ab c")
    pattern = record.pattern("1.4")
    assert pattern.dims == ("query", "key")
    assert list(pattern.coords["query"].values) == ["a", "b", " ", "c"]
    np.testing.assert_array_equal(pattern.values, record.weights("1.4"))
    assert pattern.attrs["kv_group"] == 1  # heads 3, 4, 5 read KV head 1
    assert pattern.attrs["head"] == "1.4"
    by_words = record.pattern("1.4", words=True)
    assert list(by_words.coords["key"].values) == ["ab", "c"]
    assert "sum" in by_words.attrs["rule"]
    np.testing.assert_allclose(by_words.values[0], [1, 0])
    np.testing.assert_allclose(by_words.values.sum(1), 1, atol=1e-6)


@pytest.mark.parametrize(
    ("head", "message"),
    [
        ("99.1", "there is no head 99.1: the model's layers are 0 to 1"),
        ("0.6", "there is no head 0.6: layer 0 has the heads 0.0 to 0.5"),
        ("cross.0.1", "there is no head cross.0.1"),
        ("abc", "'abc' is not a head id"),
        ("1", "'1' is not a head id"),
        ("-1.0", "'-1.0' is not a head id"),
    ],
)
def test_a_head_that_is_not_there(bytes_model: hw.Model, head: str, message: str) -> None:
    record = hw.look(bytes_model, "ab")
    for ask in (record.weights, record.visible, record.pattern):
        with pytest.raises(HeadError, match=message):
            ask(head)


@pytest.mark.parametrize("texts", [["a", ""], ["a", " "], [3]])
@pytest.mark.usefixtures("unchecked")
def test_a_text_of_a_list_that_is_none(bytes_model: hw.Model, texts: list[Any]) -> None:
    with pytest.raises(TextError):
        hw.look(bytes_model, texts)


def test_a_text_longer_than_the_context_names_both_lengths(bytes_model: hw.Model) -> None:
    hw.look(bytes_model, "a" * 400)
    with pytest.raises(TextError, match=r"401 tokens long, Decoder reads at most 400"):
        hw.look(bytes_model, ["a", "a" * 401])


def test_progress_counts_the_layers(bytes_model: hw.Model) -> None:
    seen: list[tuple[int, int]] = []
    hw.look(bytes_model, "ab", progress=lambda done, total: seen.append((done, total)))
    assert seen == [(1, 2), (2, 2)]


def test_nothing_is_left_on_our_modules(bytes_model: hw.Model) -> None:
    bytes_model.module.train()
    before = [set(part.__dict__) for part in bytes_model.module.modules()]
    hw.look(bytes_model, "ab")
    with pytest.raises(ZeroDivisionError):
        hw.look(bytes_model, "ab", progress=lambda *_: 1 / 0)  # type: ignore[arg-type,return-value]
    assert [set(part.__dict__) for part in bytes_model.module.modules()] == before
    assert all(part.training for part in bytes_model.module.modules())


def test_a_recording_of_ones_own_pass(bytes_model: hw.Model) -> None:
    (batch,) = batches.batches_of(bytes_model, ["abc"], None)
    with recording(bytes_model, batch) as recorder:
        bytes_model.run(batch.inputs)
    assert [str(id) for id in recorder.parts[0]] == ["0", "1"]


@pytest.mark.parametrize("kind", ["bytes_model", "encoder_model"])
def test_save_and_load(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    model = request.getfixturevalue(kind)
    for i, record in enumerate(hw.look(model, TEXTS)):
        path = tmp_path / f"{i}.safetensors"
        record.save(path)
        again = hw.load_record(path)
        same(again, record, atol=0)
        assert again.verified == record.verified
        assert again.model == record.model
        assert again.layers.keys() == record.layers.keys()
        assert hw.summarise(again) == hw.summarise(record)
    assert sorted(p.suffix for p in tmp_path.iterdir()) == [".safetensors"] * len(TEXTS)


def test_save_and_load_biases_sinks_softcaps_and_cross_attention(tmp_path: Path) -> None:
    import sys

    sys.path.insert(0, str(Path(__file__).parents[1] / "hub"))
    from tiny_models import build, ids_of

    for name in ("gpt-oss", "gemma2", "t5"):
        (record,) = hw.look(hw.load(build(name)), {"input_ids": ids_of(7)[0][None]})
        record.save(tmp_path / name)
        same(hw.load_record(tmp_path / name), record, atol=0)


def test_save_and_load_fewer_queries_than_keys(tmp_path: Path, layer_of: Any) -> None:
    """Two queries at the end of five keys: where they stand is part of what is saved."""
    from dataclasses import replace

    layer = layer_of([[[0.2] * 5] * 2], list("ab"), keys=list("vwxyz"), mask=hw.masks.window(2))
    layer = replace(layer, scores=replace(layer.scores, query_offset=3))
    record = hw.Record("m", {layer.id: layer})
    np.testing.assert_allclose(record.weights("0.0"), [[0, 0, 0.5, 0.5, 0], [0, 0, 0, 0.5, 0.5]])
    record.save(tmp_path / "file")
    same(hw.load_record(tmp_path / "file"), record, atol=0)


def test_a_file_that_is_no_record(bytes_model: hw.Model, tmp_path: Path) -> None:
    path = tmp_path / "file"
    with pytest.raises(ModelError, match="cannot be read as a record"):
        hw.load_record(path)
    path.write_text("nonsense")
    with pytest.raises(ModelError, match="cannot be read as a record"):
        hw.load_record(path)
    with pytest.raises(ModelError, match="cannot be read as a record"):
        hw.load_record(tmp_path)
    save_file({"a": torch.ones(1)}, path)
    with pytest.raises(ModelError, match="not a record of this version"):
        hw.load_record(path)
    for layers in ("{", "[{}]", "[3]"):
        header = {"headwise_record": "1", "model": "m", "layers": layers}
        save_file({"a": torch.ones(1)}, path, metadata=header)
        with pytest.raises(ModelError, match="is a damaged record"):
            hw.load_record(path)


def test_a_path_that_cannot_be_written_keeps_the_old_file(
    bytes_model: hw.Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = hw.look(bytes_model, "ab")
    for path in (tmp_path, tmp_path / "missing" / "x", Path("/dev/null/x")):
        with pytest.raises(OutputError, match="the record cannot be written"):
            record.save(path)
    old = tmp_path / "old"
    record.save(old)
    before = old.read_bytes()

    def full(_: Any, path: Path, **__: Any) -> None:
        path.write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("headwise.see.saved.save_file", full)
    with pytest.raises(OutputError, match="No space left"):
        hw.look(bytes_model, "other").save(old)
    assert old.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["old"]


@pytest.mark.usefixtures("unchecked")
def test_look_says_what_it_takes(bytes_model: hw.Model) -> None:
    with pytest.raises(ModelError, match=r"from load\(...\), came Linear"):
        hw.look(torch.nn.Linear(2, 2), "a")  # type: ignore[call-overload]
    with pytest.raises(TextError, match="a list of texts or a batch, came int"):
        hw.look(bytes_model, 3)  # type: ignore[call-overload]
    with pytest.raises(HeadError, match="3 is not a head id"):
        hw.look(bytes_model, "a b").weights(3)  # type: ignore[arg-type]


def test_a_record_prints_in_one_line(bytes_model: hw.Model) -> None:
    record = hw.look(bytes_model, "a b")
    assert re.fullmatch(
        r"Record\('\w+', [34] tokens, 12 heads, verified [0-9.]+e-\d+\)", repr(record)
    )
    assert "\n" not in repr(record.layers)


def test_a_layer_that_is_not_there(bytes_model: hw.Model) -> None:
    record = hw.look(bytes_model, "a b")
    assert record.layer(LayerId("", 1)).id == LayerId("", 1)
    with pytest.raises(HeadError, match="there is no layer 30: the model's layers are 0 to 1"):
        record.layer(LayerId("", 30))


def test_our_own_names_for_a_batch() -> None:
    config = TransformerConfig(vocab_size=30, d_model=24, num_layers=1, num_heads=4, d_ff=32)
    model = hw.load(EncoderDecoder(config))
    source, target = torch.tensor([[5, 6, 7]]), torch.tensor([[1, 9]])
    (ours,) = hw.look(model, {"source_ids": source, "target_ids": target})
    (theirs,) = hw.look(model, {"input_ids": source, "decoder_input_ids": target})
    assert (ours.weights("cross.0.3") == theirs.weights("cross.0.3")).all()
