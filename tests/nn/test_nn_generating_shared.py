"""Writing with one model in several places at once, nested and in threads; and prompts that cannot be."""

from __future__ import annotations

import copy
import pickle
import threading

import pytest
import torch

from headwise.names import ConfigError, ModelError, ShapeError
from headwise.nn import Decoder, generate
from headwise.nn.generating import packing
from headwise.nn.modes import evaluating


@pytest.fixture
def model(tiny):
    made = Decoder(tiny(d_model=64, num_heads=8, d_ff=160, tie_embeddings=True, dropout=0.5))
    with torch.no_grad():
        for parameter in made.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0, 0.3)
    return made.eval()


def patched(model):
    return [part for part in model.modules() if {"forward", "__reduce_ex__"} & {*part.__dict__}]


IDS = torch.randint(0, 31, (2, 5), generator=torch.Generator().manual_seed(0))


@torch.no_grad()
def test_one_may_write_while_another_writes(model):
    alone, inner = generate(model, IDS, 20), []
    got = generate(model, IDS, 20, each=lambda _: inner.append(generate(model, IDS, 20)))
    assert torch.equal(got, alone)
    assert all(torch.equal(one, alone) for one in inner)
    assert not patched(model)
    plain = model(IDS)
    first, second = packing.packed(model, 1, 50), packing.packed(model, 1, 50)
    first.__enter__()
    count = len(patched(model))
    second.__enter__()
    first.__exit__(None, None, None)
    assert torch.allclose(model(IDS), plain, atol=1e-5)
    third = packing.packed(model, 1, 50)
    third.__enter__()
    second.__exit__(None, None, None)
    assert len(patched(model)) == count  # the third's, which the second does not take away
    third.__exit__(None, None, None)
    assert not patched(model)


def test_only_the_first_of_two_that_found_a_matrix_patches_it_and_takes_that_away():
    layer = torch.nn.Linear(3, 3)
    before = dict(layer.__dict__)
    first, second = (packing._Patch(layer, "forward", lambda x, by=by: x * by) for by in (2, 3))
    first.put()
    second.put()
    assert layer(torch.ones(1)).item() == 2
    second.take_away()
    assert layer(torch.ones(1)).item() == 2
    first.take_away()
    assert layer.__dict__ == before


def test_threads_write_what_each_writes_alone(model):
    alone, made = generate(model, IDS, 20), []
    threads = [
        threading.Thread(target=lambda: made.extend(generate(model, IDS, 20) for _ in range(3)))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(made) == 12
    assert all(torch.equal(one, alone) for one in made)
    assert not patched(model)


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_copy_made_meanwhile_has_weights_of_its_own(model, copied):
    with packing.packed(model, 1, 50):
        assert patched(model)
        other = copied(model)
        assert not patched(other)
        with torch.no_grad():
            other.blocks[0].ffn.w_in.weight.zero_()
            assert not torch.equal(other(IDS), model(IDS))
    assert torch.equal(copied(model)(IDS), model(IDS))


def test_gradients_meanwhile_are_those_of_the_weights(model):
    with torch.no_grad(), packing.packed(model, 1, 50), torch.enable_grad():
        model(IDS).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_the_last_of_two_that_evaluate_brings_training_back(model):
    model.train()
    model.blocks[0].eval()
    first, second = evaluating(model), evaluating(model)
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    assert not any(part.training for part in model.modules())
    second.__exit__(None, None, None)
    assert model.training
    assert model.blocks[1].training
    assert not model.blocks[0].training


@pytest.mark.usefixtures("unchecked")
def test_of_a_compiled_model_the_model_writes(model):
    assert torch.equal(generate(torch.compile(model), IDS, 4), generate(model, IDS, 4))


@pytest.mark.usefixtures("unchecked")
def test_wrong_ids_numbers_and_models_are_named(model):
    for wrong, message in (
        ({"ids": IDS + 31}, r"an id is \d+, the model's tokens are 0 to 30"),
        ({"ids": IDS - 31}, "an id is -"),
        ({"ids": IDS.float()}, "ids must be whole numbers, came torch.float32"),
        ({"temperature": 1.0, "top_k": 2.5}, "top_k must be a whole number, came 2.5"),
        ({"max_new_tokens": 2.5}, "max_new_tokens must be a whole number, came 2.5"),
        ({"model": torch.nn.Linear(2, 2)}, "a Decoder or an EncoderDecoder, came a Linear"),
    ):
        with pytest.raises((ShapeError, ConfigError, ModelError), match=message):
            generate(**{"model": model, "ids": IDS, **wrong})
