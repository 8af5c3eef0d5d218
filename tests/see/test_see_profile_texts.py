"""What a profile may be made of: texts of any length and number, and what is refused in one line."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from profile_help import TEXTS, assert_same
from see_help import byte_tokenizer, sharp
from tokenizers import processors

import headwise as hw
from headwise.names import ConfigError, ModelError, TextError
from headwise.nn import Encoder, TransformerConfig
from headwise.see.profile.profiler import Profiler
from headwise.see.texts.packing import packed


@pytest.fixture
def marked_model() -> hw.Model:
    """An encoder whose tokenizer puts <s> before and after a text, and that reads at most 12 tokens."""
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=257, d_model=24, num_layers=2, num_heads=4, d_ff=32, max_length=12
    )
    tokenizer = byte_tokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A <s>", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )
    return sharp(hw.load(Encoder(config), tokenizer=tokenizer))


def rows(model: hw.Model, texts, **settings) -> list[str]:
    """The tokens of every row of the batches, in order."""
    batches = packed(model, texts, **settings)
    return ["".join(t.text for t in side.tokens) for batch in batches for side in batch.sources]


def means(table):
    """Without the intervals, for which pieces of one text are one."""
    of_texts = [
        n for n in table.data_vars if n.endswith(("_low", "_high")) or n.startswith("probe_")
    ]
    return table.drop_vars(of_texts)


def test_a_long_text_is_cut_into_equal_pieces_with_special_tokens(marked_model) -> None:
    text = "abcdefghijklmnopqrstuvwxyz"  # 26 in pieces of at most 10: three, of 9, 8 and 9
    assert sorted(rows(marked_model, [text])) == [
        "<s>abcdefghi<s>",
        "<s>jklmnopq<s>",
        "<s>rstuvwxyz<s>",
    ]
    pieces = ["abcdefghi", "jklmnopq", "rstuvwxyz"]
    table = hw.profile(marked_model, text)
    assert_same(means(table), means(hw.profile(marked_model, pieces)))
    assert (table.attrs["texts"], table.attrs["pieces"]) == (1, 3)
    assert "fewest consecutive pieces" in table.attrs["splitting"]


def test_the_context_can_be_shorter_than_the_model_s(marked_model, bytes_model) -> None:
    assert sorted(rows(marked_model, ["abcdef"], context=5)) == ["<s>abc<s>", "<s>def<s>"]
    assert sorted(rows(bytes_model, ["abcdefg"], context=3)) == ["ab", "cde", "fg"]
    table = hw.profile(bytes_model, "abcdefg", context=3)
    assert_same(means(table), means(hw.profile(bytes_model, ["ab", "cde", "fg"])))
    for context, message in (
        (0, "from 1 to 12"),
        (13, "from 1 to 12"),
        (2, "no room beside the 2"),
    ):
        with pytest.raises(ConfigError, match=message):
            hw.profile(marked_model, "abcdef", context=context)


def test_a_model_without_a_limit_reads_the_whole_text(encoder_model) -> None:
    encoder_model = hw.Model("e", encoder_model.module, encoder_model.tokenizer, False, None)
    assert len(rows(encoder_model, ["ab" * 300])) == 1


def test_batches_hold_little_padding_and_depend_on_the_texts_alone(bytes_model) -> None:
    texts = ["a" * (1 + 37 * i % 390) for i in range(600)]
    batches = list(packed(bytes_model, iter(texts)))
    shapes = [tuple(batch.inputs["input_ids"].shape) for batch in batches]
    assert sum(n for n, _ in shapes) == 600
    assert all(n * longest <= 4096 for n, longest in shapes)
    real = sum(map(len, texts))
    assert sum(n * longest for n, longest in shapes) < 1.2 * real
    again = [tuple(batch.inputs["input_ids"].shape) for batch in packed(bytes_model, texts)]
    assert shapes == again


def test_texts_are_read_only_as_they_are_needed(bytes_model) -> None:
    read = []

    def corpus():
        for i in range(1000):
            read.append(i)
            yield "abc"

    next(packed(bytes_model, corpus()))
    assert len(read) < 300


def test_empty_texts_are_left_out_and_counted(bytes_model) -> None:
    texts = ["", *TEXTS[:2], " \n", "", *TEXTS[2:], ""]
    table = hw.profile(bytes_model, iter(texts))
    assert (table.attrs["skipped"], table.attrs["texts"]) == (4, 5)
    assert_same(table, hw.profile(bytes_model, TEXTS))


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ([], "the corpus is empty"),
        (iter(()), "the corpus is empty"),
        (["", " "], "there is no text"),
        ("", "the text is empty"),
        (["one", 2], "text 2 must be a string like the first, came int"),
        (["one", torch.tensor([1])], "text 2 must be a string like the first, came Tensor"),
        ([torch.tensor([1]), "one"], "row 1 of ids must be whole numbers like the first, came str"),
        ([1, 2], r"a list of rows, as \[\[5, 6, 7\], \[9, 8\]\]; came one row"),
        ([[1, 2], ["a"]], "row 1 of ids must be whole numbers like the first, came list"),
        ([[1, 2], []], r"row 1 must be whole numbers \[position\], came \[0\]"),
        ([torch.zeros(2, 3, 4)], r"by name: \{'ids': tensor\}, or a list of such"),
        (torch.zeros(2, 3, 4), r"came \[2, 3, 4\]; .*by name: \{'ids': tensor\}"),
        ([{"input_ids": torch.ones(1, 2).long()}, "one"], "batch 1 must be a mapping like the f"),
        (["fine", "\ud800"], "text 2: the text is not UTF-8"),
        (3, "came int"),
        (b"bytes", "came bytes"),
        (torch.tensor([1, 2]), r"must be \[batch, position\], came \[2\]"),
        (torch.zeros(2, 3), "row 0 must be whole numbers"),
        ([torch.tensor([1, 2]), torch.tensor([], dtype=torch.long)], "row 1 must be whole numbers"),
        (torch.ones(1, 401, dtype=torch.long), "401 tokens long, Decoder reads at most 400"),
        (torch.zeros(0, 3, dtype=torch.long), "no row of ids"),
    ],
)
def test_what_is_no_corpus_is_refused_in_one_line(bytes_model, texts, message) -> None:
    with pytest.raises(TextError, match=message) as caught:
        hw.profile(bytes_model, texts)
    assert "\n" not in str(caught.value)


def test_a_text_the_tokenizer_knows_nothing_of_is_named(bytes_model) -> None:
    from tokenizers import Tokenizer, models

    model = hw.load(bytes_model.module, tokenizer=Tokenizer(models.BPE({"x": 0}, [])))
    with pytest.raises(TextError, match="text 2: the model's tokenizer knows none"):
        hw.profile(model, ["x", "?"])


@pytest.mark.usefixtures("unchecked")
def test_settings_that_do_not_go_together_are_refused(bytes_model) -> None:
    def own(queries, keys):
        return [0] * len(queries.tokens)

    probe = hw.probes.Probe
    for settings, message in (
        ({"top": -1}, "top must be a whole number from 0, came -1"),
        ({"pool": 2.5}, "pool must be a whole number"),
        ({"probes": ["previous", "previous"]}, "'previous' would be the name of two results"),
        ({"probes": [probe("entropy", own)]}, "'entropy' would be the name of two results"),
        ({"functions": {"pooled": own}}, "'pooled' would be the name of two results"),
        ({"probes": ["prior"]}, "no probe 'prior'; there are previous, next, self"),
        ({"probes": [own]}, "must be a Probe or its name, came function"),
    ):
        with pytest.raises(ConfigError, match=message):
            Profiler(bytes_model, **settings)
    with pytest.raises(ModelError, match="came Decoder"):
        Profiler(bytes_model.module)
    with pytest.raises(TextError, match="writes no other"):
        hw.profile(bytes_model, "one", target="two")
    with pytest.raises(TextError, match="nothing to tell yet"):
        Profiler(bytes_model).dataset()


def test_progress_tells_texts_and_tokens(bytes_model) -> None:
    told = []
    hw.profile(bytes_model, TEXTS, progress=lambda *numbers: told.append(numbers))
    assert told == [(5, 5, sum(map(len, TEXTS)))]
    hw.profile(bytes_model, iter(TEXTS), progress=lambda *numbers: told.append(numbers))
    assert told[1] == (5, None, sum(map(len, TEXTS)))


def test_an_encoder_decoder_with_targets(translator) -> None:
    from profile_help import assert_maps_are, assert_table_is

    texts, targets = ["one two", "three", "a"], ["eins zwei", "drei und", "ein"]
    table = hw.profile(translator, texts, target=targets, top=2, pool=3, positions=5)
    assert table.layer.values.tolist() == [
        f"{stream}.{i}" for stream in translator.anatomy.streams for i in range(2)
    ]
    records = hw.look(translator, texts, target=targets)
    assert_table_is(table, records, top=2)
    assert_maps_are(table, records)
    assert np.isnan(table.previous.sel(layer="cross.0")).all()
    assert np.isfinite(table["first"].sel(layer="cross.0")).all()
    with pytest.raises(TextError, match="give each text one target"):
        hw.profile(translator, texts, target=targets[:2])
    with pytest.raises(TextError, match="text 1 or its target is longer than the 60"):
        hw.profile(translator, ["a" * 61], target=["b"])
