"""A run's folder, read by others: transformers' masked-language head, look without a target; a run in one line."""

from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close
from transformers import AutoModelForMaskedLM, AutoTokenizer

import headwise as hw
from headwise import train
from headwise.names import LayerId, OutputError
from headwise.nn import save_checkpoint

TEXT = "".join(f"{n} men went to mow a meadow, {n - 1} men and their dogs.\n" for n in range(2, 90))
CONFIG = {
    "model": {"d_model": 16, "num_layers": 1, "num_heads": 2},
    "train": {"context": 32, "rows": 4, "steps": 3, "dtype": "float32", "held_out": 0.1},
    "tokenizer": {"vocab_size": 270},
}
OF_BERT = {
    "norm": "layer",
    "norm_position": "post",
    "final_norm": False,
    "embedding_norm": True,
    "positions": "learned",
    "activation": "gelu",
    "token_types": 2,
}


def of(objective, **model):
    asked = {**CONFIG["train"], "objective": objective}
    return {**CONFIG, "model": {**CONFIG["model"], **model}, "train": asked}


def test_a_masked_run_is_a_masked_language_model_of_transformers(tmp_path):
    folder = tmp_path / "run"
    run = hw.fit([TEXT], of("masked", **OF_BERT), folder, quiet=True)
    theirs, report = AutoModelForMaskedLM.from_pretrained(folder, output_loading_info=True)
    assert not report["missing_keys"]
    tokenizer = AutoTokenizer.from_pretrained(folder)
    given = tokenizer("3 men went to [MASK] a meadow", return_tensors="pt")
    assert tokenizer.mask_token_id in given.input_ids[0]
    assert tokenizer.unk_token_id not in given.input_ids[0]
    with torch.no_grad():
        ours = run.model.logits(run.model(given.input_ids))
        assert_close(theirs.eval()(given.input_ids).logits, ours, atol=1e-5, rtol=1e-5)
    plain = hw.fit([TEXT], of("masked", masked_head=False), tmp_path / "plain", quiet=True)
    assert plain.model.head is None


def test_look_lets_a_model_of_pairs_write_its_target(tmp_path):
    """Texts whose targets are of unequal lengths, as each alone."""
    asked = {"steps": 80, "rows": 16, "learning_rate": 1e-2, "warmup": 5, "held_out": 0.0}
    config = of("pairs", d_model=32)
    config |= {"train": {**config["train"], **asked}, "tokenizer": {"vocab_size": 257}}
    pairs, texts = [("a", "b"), ("c", "def")], ["a", "c"]
    hw.fit(pairs * 16, config, tmp_path / "run", quiet=True)
    model = hw.load(tmp_path / "run", quiet=True)
    records = hw.look(model, texts)
    lengths = [record.weights("cross.0.1").shape[0] for record in records]
    assert lengths[0] < lengths[1]
    for text, record in zip(texts, records, strict=True):
        ids = torch.tensor([model.tokenizer.encode(text).ids])
        written = hw.generate(model, ids, max_new_tokens=31)[0].tolist()
        side = record.layer(LayerId.parse("cross.0")).queries
        assert [token.id for token in side.tokens] == written
        alone = hw.look(model, text)
        assert_close(record.weights("cross.0.1"), alone.weights("cross.0.1"))
        assert record.verified < 1e-5


def test_a_run_is_told_in_one_line_and_is_not_written_over(tmp_path):
    run = hw.fit([TEXT], CONFIG, tmp_path / "run", quiet=True)
    assert repr(run) == f"<Run {tmp_path / 'run'}: Decoder, 3 steps, loss {run.log[-1].loss:.4f}>"
    with pytest.raises(OutputError, match="it holds a run"):
        save_checkpoint(run.model, tmp_path / "run")
    again = hw.fit([TEXT], CONFIG, tmp_path / "run", resume=True, quiet=True)
    assert again.log == run.log


def test_the_package_says_what_it_has():
    assert train.fit is hw.fit
    assert all(name in train.__doc__ and hasattr(train, name) for name in train.__all__)
