"""The models of the catalogue themselves, against figures known from independent readers."""

from __future__ import annotations

import pytest
import torch

from headwise.hub.get import get

pytestmark = pytest.mark.models


@pytest.fixture(scope="module")
def smollm2():
    from transformers import AutoModelForCausalLM, AutoTokenizer

    folder = get("smollm2")
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    return AutoTokenizer.from_pretrained(folder), model.eval()


def test_smollm2_knows_the_capital_of_france(smollm2):
    tokenizer, model = smollm2
    ids = tokenizer("The capital of France is", return_tensors="pt").input_ids
    with torch.no_grad():
        assert tokenizer.decode(model(ids).logits[0, -1].argmax()) == " Paris"


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("The capital of France is", [504, 3575, 282, 4649, 314]),
        ("didn't", [29956, 94, 982]),
        ("12345 678", [33, 34, 35, 36, 37, 216, 38, 39, 40]),
        ("x  5", [104, 256, 37]),
        ("a\n\n b\n", [81, 1116, 278, 198]),
        ("😀 hi", [10813, 242, 218, 15876]),
        ("<|im_start|>user\nhi<|im_end|>", [1, 4093, 198, 6004, 2]),
    ],
)
def test_smollm2_tokens(smollm2, text, ids):
    tokenizer, _ = smollm2
    assert tokenizer(text).input_ids == ids
    assert tokenizer.decode(ids) == text


def test_e5_small_brings_translations_together():
    from transformers import AutoModel, AutoTokenizer

    folder = get("e5-small")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModel.from_pretrained(folder, add_pooling_layer=False).eval()

    def embed(text):
        batch = tokenizer("query: " + text, return_tensors="pt")
        with torch.no_grad():
            mean = model(batch.input_ids).last_hidden_state[0].mean(0)
        return mean / mean.norm()

    cat, katze, stocks = map(
        embed, ["The cat is sleeping on the sofa.", "猫在沙发上睡觉。", "股市今天大跌。"]
    )
    assert float(cat @ katze) == pytest.approx(0.87, abs=0.005)
    assert float(cat @ stocks) == pytest.approx(0.69, abs=0.005)
    sentence = tokenizer.tokenize("小明把书还给了图书馆，因为它到期了。")
    assert sentence[:7] == ["▁小", "明", "把", "书", "还", "给了", "图书馆"]


def test_minilm_reads_text():
    from transformers import AutoModel, AutoTokenizer

    folder = get("minilm")
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder)
    texts = ["A cat sleeps.", "A kitten is sleeping.", "Shares fell."]
    batch = tokenizer(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = model.eval()(**batch).last_hidden_state
    mask = batch.attention_mask[..., None]
    means = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1), dim=-1)
    assert means[0] @ means[1] > 0.7 > 0.3 > means[0] @ means[2]


def test_rxnmapper_fills_masked_atoms():
    from transformers import AutoModelForMaskedLM, AutoTokenizer

    folder = get("rxnmapper")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForMaskedLM.from_pretrained(folder).eval()
    reaction = "CC(C)S.CN(C)C=O.Fc1cccnc1F.O=C([O-])[O-].[K+].[K+]>>CC(C)Sc1ncccc1F"
    ids = tokenizer(reaction, return_tensors="pt").input_ids
    assert tokenizer.unk_token_id not in ids
    inner = torch.arange(1, ids.shape[1] - 1)
    masked = ids.repeat(len(inner), 1)
    masked[torch.arange(len(inner)), inner] = tokenizer.mask_token_id
    with torch.no_grad():
        guessed = model(masked).logits[torch.arange(len(inner)), inner].argmax(-1)
    assert (guessed == ids[0, inner]).float().mean() > 0.9


def test_whisper_hears_silence_and_knows_its_heads():
    from transformers import AutoModelForSpeechSeq2Seq, AutoProcessor

    folder = get("whisper-tiny-en")
    processor = AutoProcessor.from_pretrained(folder)
    model = AutoModelForSpeechSeq2Seq.from_pretrained(folder).eval()
    features = processor([0.0] * 16000, sampling_rate=16000, return_tensors="pt").input_features
    start = torch.tensor([[50257, 50362]])
    with torch.no_grad():
        logits = model(input_features=features, decoder_input_ids=start).logits[0, -1]
    assert processor.decode(logits.argmax()) == " you"  # what Whisper is known to hear in silence
    assert model.generation_config.alignment_heads[-1] == [3, 4]
    assert processor.tokenizer("Hello there").input_ids[:2] == [50257, 50362]
