"""Neurons of real models: what one half of the texts says of a neuron holds on the other half."""

from __future__ import annotations

import pytest
import torch

import headwise as hw
from headwise.see.neurons.snippets import Context

pytestmark = pytest.mark.models

CHOOSING = [
    "He ate an apple and an orange in March.",
    "They bought an old house in April and made it new.",
    "It was an hour before the train made a stop.",
    "She found an idea that makes sense to an engineer.",
    "In the morning there was an eagle on the roof.",
    "The owner sold it in June for 200 dollars.",
    "We do not know what makes an engine stop in December.",
    "There is not an answer to the question, or so they said.",
    "The boat, which was made in 1996, is not for sale.",
    "The book, which she read in August, made him laugh.",
    "There are not many birds here in January, or in May.",
    "The town, which is not far, has an airport.",
]
REPORTING = [
    "In October an artist came to the village and painted the bridge.",
    "The report, which an expert wrote, was published in September.",
    "There was an accident near the harbour, but nobody was hurt.",
    "Snow is not common in July, and an umbrella is of little use.",
    "An aunt of mine keeps an owl in an empty barn.",
    "My brother made an effort to finish before November.",
    "Is it tea or coffee that makes you happy in the evening?",
    "The doctor, which surprised us, did not come in February.",
]
MONTHS = {"October", "September", "July", "November", "February"}


@pytest.fixture(scope="module")
def smollm2() -> hw.Model:
    return hw.load("smollm2", quiet=True)


def words(contexts: tuple[Context, ...]) -> list[str]:
    return [context.token.text.strip().casefold() for context in contexts]


def test_neurons_of_one_word_stay_so_on_other_texts(smollm2: hw.Model) -> None:
    chosen = hw.neurons(smollm2, CHOOSING, top=5)
    other = hw.neurons(smollm2, REPORTING, top=4)
    claims = []
    for id, side in chosen.telling(60):
        (word, *more) = set(words(chosen.contexts(id, side)))
        occurs = sum(f" {word} " in f" {text.casefold()} " for text in REPORTING)
        if not more and word.isalpha() and occurs >= 4:
            claims.append((id, side, word))
    assert len(claims) >= 5
    held = [words(other.contexts(id, side)).count(word) / 4 for id, side, word in claims]
    assert sum(held) / len(held) > 0.8


def test_a_neuron_chosen_on_other_texts_fires_on_months_alone(smollm2: hw.Model) -> None:
    """0.972 was chosen on the first 200 sentences of English PUD."""
    found = hw.neurons(smollm2, REPORTING, top=5)
    contexts = found.contexts("0.972")
    assert {context.token.text.strip() for context in contexts} == MONTHS
    sixth = hw.neurons(smollm2, REPORTING, top=6).contexts("0.972")[5]
    assert contexts[-1].activation > 2 * sixth.activation


def test_an_output_neuron_raises_the_rest_of_chinese_characters(smollm2: hw.Model) -> None:
    """29.1359 fires at the first byte of a character and raises bytes that go on with one."""
    found = hw.neurons(smollm2, ["小明把书还给了图书馆,因为它到期了。", "我的猫叫小黑。"], top=8)
    contexts = found.contexts("29.1359")
    assert all(context.token.label.endswith("·1") for context in contexts[:4])
    raised = hw.fires(smollm2, "书").raises("29.1359", top=8)
    assert all(0x80 <= int(name, 16) < 0xC0 for name in raised)


def test_after_there_a_neuron_raises_is_and_are(smollm2: hw.Model) -> None:
    found = hw.fires(smollm2, "I was late because there")
    (fire, *_) = found.at(len(found.tokens) - 1)
    assert fire.share > 0.4
    assert set(found.raises(fire.neuron, negative=fire.activation < 0, top=3)) <= {
        "is", "are", "was", "是",
    }  # fmt: skip


def test_activations_are_those_of_transformers_own_modules(smollm2: hw.Model) -> None:
    text = "The animal didn't cross the street"
    found = hw.fires(smollm2, text)
    ids = torch.tensor([[token.id for token in found.tokens]])
    layers = dict(smollm2.module.named_modules())
    seen = {}
    hooks = [
        part.register_forward_pre_hook(lambda m, given, path=path: seen.update({path: given[0]}))
        for path, part in layers.items()
        if path.endswith("ffn")
    ]
    smollm2.run({"input_ids": ids})
    for hook in hooks:
        hook.remove()
    assert len(seen) == 30
    for n, (path, x) in enumerate(seen.items()):
        w_in = layers[f"{path}.w_in"]
        gate, up = (x[0] @ w_in.weight.T).chunk(2, -1)
        mine = torch.nn.functional.silu(gate) * up
        layer = found.layers[hw.HeadId("", n, 0).layer_id]
        torch.testing.assert_close(
            layer.activation, mine.gather(1, layer.neuron), atol=1e-3, rtol=1e-3
        )


def test_a_neuron_of_an_encoder_fires_on_dollars() -> None:
    """0.852 of MiniLM was chosen on the first 100 sentences of English PUD."""
    model = hw.load("minilm", quiet=True)
    texts = ["It costs $7 or £6.", "He paid $3 million.", "Five dollars, no more.", "Go home!"]
    contexts = hw.neurons(model, texts, top=3).contexts("0.852")
    assert [context.token.text for context in contexts[:2]] == ["$", "$"]
    assert contexts[1].activation > 1.2 * contexts[2].activation
    assert all(not context.token.special for context in contexts)


def test_a_long_text_is_read_whole(smollm2: hw.Model) -> None:
    text = " ".join(CHOOSING * 28) + " It happened in July."
    found = hw.neurons(smollm2, [text], top=1)
    assert found.table.attrs["tokens"] > 4000
    july = hw.neurons(smollm2, [text[-400:]], top=1).contexts("0.972")[0]
    assert july.token.text.strip() in {"July", "August", "December"}
    assert len(found.contexts("0.972")[0].before) < 1000
