"""What a profile may be given beside texts: ids as lists, batches of vectors, and models that cannot write."""

from __future__ import annotations

import logging

import pytest
import torch
from profile_help import assert_same
from torch import nn

import headwise as hw
from headwise.names import ConfigError, ModelError, TextError


def test_rows_of_ids_as_lists(bytes_model) -> None:
    rows = [[5, 6, 7, 5, 6], [9, 8]]
    table = hw.profile(bytes_model, rows)
    assert_same(table, hw.profile(bytes_model, [torch.tensor(row) for row in rows]))
    assert table.attrs["tokens"] == 7
    untold = hw.load(bytes_model.module)
    other = hw.profile(untold, rows)
    halved = [
        name for name in table.data_vars if name.startswith("probe_")
    ]  # by what is known of a text
    assert_same(table.drop_vars(halved), other.drop_vars(halved), rtol=1e-5)


@pytest.mark.usefixtures("unchecked")
def test_a_row_alone_is_no_corpus(bytes_model) -> None:
    for row in ([1, 2, 3], torch.tensor([1, 2, 3]).numpy()):
        with pytest.raises(TextError, match=r"a list of rows, as \[\[5, 6, 7\], \[9, 8\]\]"):
            hw.profile(hw.load(bytes_model.module), row)


@pytest.fixture
def encoder() -> hw.Model:
    """torch's own encoder, which reads vectors."""
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, 32, batch_first=True)
    return hw.load(nn.TransformerEncoder(layer, 2, enable_nested_tensor=False))


def test_batches_of_vectors(encoder) -> None:
    x = torch.randn(6, 5, 16)
    table = hw.profile(encoder, [{"src": x[:2]}, {"src": x[2:]}])
    assert_same(table, hw.profile(encoder, {"src": x}), rtol=1e-5)
    assert (table.attrs["texts"], table.attrs["tokens"]) == (6, 30)
    assert_same(table, hw.profile(encoder, ({"src": x[i : i + 3]} for i in (0, 3))), rtol=1e-5)


def test_vectors_without_a_name_are_told_how_to_come(encoder) -> None:
    for given in (torch.randn(2, 5, 16), [torch.randn(5, 16)], torch.randn(5, 16)):
        with pytest.raises(TextError, match=r"by name: \{'src': tensor\}, or a list of such"):
            hw.profile(encoder, given)
    with pytest.raises(TextError, match="batch 1 must be a mapping like the first, came Tensor"):
        hw.profile(encoder, [{"src": torch.randn(1, 5, 16)}, torch.randn(1, 5, 16)])


def test_a_decoder_that_cannot_begin_is_named() -> None:
    from transformers import GenerationConfig, T5Config, T5ForConditionalGeneration

    sizes = {"d_model": 16, "d_kv": 4, "d_ff": 32, "num_layers": 1, "num_heads": 4}
    torch.manual_seed(0)
    module = T5ForConditionalGeneration(T5Config(vocab_size=40, **sizes)).eval()
    module.config.decoder_start_token_id = module.config.bos_token_id = None
    module.generation_config = GenerationConfig()
    model = hw.load(module)
    ids = torch.tensor([[5, 6, 7]])
    with pytest.raises(ModelError, match="give target= with texts, or decoder_input_ids") as error:
        hw.profile(model, ids)
    assert "\n" not in str(error.value)
    table = hw.profile(model, {"input_ids": ids, "decoder_input_ids": ids})
    assert table.layer.values.tolist() == ["encoder.0", "decoder.0", "cross.0"]


@pytest.mark.models
def test_a_model_of_sound_says_nothing_of_its_settings() -> None:
    model = hw.load("whisper-tiny-en")
    told: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = told.append
    logger = logging.getLogger("transformers")
    level = logger.getEffectiveLevel()
    logger.addHandler(handler)
    try:
        hw.look(model, {"input_features": torch.zeros(1, 80, 3000)})
    finally:
        logger.removeHandler(handler)
    assert not [record.getMessage() for record in told]
    assert logger.getEffectiveLevel() == level


@pytest.mark.usefixtures("unchecked")
def test_a_rule_of_the_wrong_form_is_told_the_right_one(bytes_model) -> None:
    probe = hw.probes.Probe("mine", lambda side: [0])
    with pytest.raises(ConfigError, match=r"rule\(queries, keys\), two Sides") as error:
        hw.profile(bytes_model, "one two", probes=[probe])
    assert "probe 'mine'" in str(error.value)


def test_the_table_says_what_everything_is(bytes_model, tmp_path) -> None:
    from headwise.see.profile.files import save_profile

    texts = ["one two", "three", "four four", "five", "six"]
    table = hw.profile(bytes_model, texts, probes=["previous"], top=3, pool=4, context=6)
    save_profile(table, tmp_path / "a.nc")
    back = hw.load_profile(tmp_path / "a.nc")
    assert back.attrs == table.attrs
    for name, variable in back.variables.items():
        assert variable.attrs["long_name"], name
    assert back.entropy.units == back.entropy_low.units == "nats"
    assert back.distance.units == "tokens"
    assert back.previous.units == back.previous_count.units == back.pooled.units == "1"
    assert "lower end for entropy" in back.entropy_low.long_name
    assert "upper end for previous_hits" in back.previous_hits_high.long_name
    assert "entropy" in back.entropy_count.long_name
    for name, size in (("position", 64), ("query_cell", 4), ("key_cell", 4), ("head", 6)):
        assert back[name].values.tolist() == list(range(size))
    told = ("probes", "top", "pool", "context", "dtype", "device")
    expected = [["previous"], 3, 4, 6, "float32", "cpu"]
    assert [back.attrs[name] for name in told] == expected
    assert back.attrs["torch"] == torch.__version__
    assert back.attrs["transformers"]
    assert back.attrs["headwise"] == hw.__version__


def test_a_profiler_is_what_profile_runs(bytes_model) -> None:
    profiler = hw.Profiler(bytes_model, context=4)
    for batch in profiler.read(["one two three", "four"]):
        profiler.add(batch)
    assert_same(profiler.dataset(), hw.profile(bytes_model, ["one two three", "four"], context=4))
    assert profiler.pieces > profiler.texts == 2
