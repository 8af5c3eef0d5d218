from __future__ import annotations

import pytest
import torch
from torch.testing import assert_close

import headwise as hw
from headwise.names import ConfigError
from headwise.nn import Decoder, Encoder, EncoderDecoder, checkpoint_activations

POSITIONS = ["none", "sinusoidal", "learned", "rope", "alibi"]


def passed(model, *inputs, **named):
    """The loss of one seeded pass and the gradient of every parameter."""
    model.zero_grad()
    torch.manual_seed(1)
    loss = model(*inputs, **named).logsumexp(-1).mean()
    loss.backward()
    return loss.detach(), {name: p.grad.clone() for name, p in model.named_parameters()}


def both(model, *inputs, **named):
    """The same pass without and with checkpointing."""
    plain = passed(model, *inputs, **named)
    checkpoint_activations(model)
    kept = passed(model, *inputs, **named)
    checkpoint_activations(model, on=False)
    return plain, kept


def assert_same(plain, kept):
    assert_close(kept[0], plain[0], atol=0, rtol=0)
    assert kept[1].keys() == plain[1].keys()
    for name, gradient in plain[1].items():
        assert gradient.any(), name
        assert_close(kept[1][name], gradient, atol=0, rtol=0, msg=name)


@pytest.mark.parametrize("positions", POSITIONS)
@pytest.mark.parametrize("kind", [Encoder, Decoder])
def test_loss_and_gradients_are_the_same_bit_for_bit(tiny, batch, kind, positions):
    ids, padding, _ = batch
    config = tiny(positions=positions, window=3, dropout=0.3, attention_dropout=0.3)
    config_long = tiny(positions=positions, dropout=0.3)
    assert_same(*both(kind(config), ids, padding))
    assert_same(*both(kind(config_long), ids, documents=padding.long()))


def test_encoder_decoder_is_the_same_bit_for_bit(tiny, batch):
    ids, padding, _ = batch
    model = EncoderDecoder(tiny(dropout=0.3, activation="swiglu", norm="rms"))
    assert_same(*both(model, ids, ids.flip(1), padding))


def test_autocast_is_the_same_bit_for_bit(tiny):
    model = Decoder(tiny(dropout=0.3))
    ids = torch.randint(0, 31, (2, 16))
    with torch.autocast("cpu", torch.bfloat16):
        assert_same(*both(model, ids))


def saved_bytes(model, ids):
    """What autograd keeps of one forward pass besides the parameters."""
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    held = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in own:
            held[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(ids).sum()
    return sum(held.values())


def test_a_block_keeps_its_input_alone(tiny):
    ids = torch.randint(0, 31, (2, 32))
    stream = ids.numel() * 24 * 4

    def of_blocks(layers, on):
        model = Decoder(tiny(num_layers=layers))
        checkpoint_activations(model, on=on)
        return saved_bytes(model, ids)

    whole = of_blocks(6, False) - of_blocks(2, False)
    least = of_blocks(6, True) - of_blocks(2, True)
    assert least == 4 * stream
    assert whole > 10 * least


def test_blocks_run_twice_with_gradients_and_once_without(tiny):
    model = Decoder(tiny())
    runs = []
    for block in model.blocks:
        block.attention.register_forward_hook(lambda *_: runs.append(1))
    checkpoint_activations(model)
    ids = torch.randint(0, 31, (1, 6))
    model(ids).sum().backward()
    assert len(runs) == 4
    runs.clear()
    with torch.no_grad():
        model(ids)
    assert len(runs) == 2


def test_a_cache_is_refused_with_gradients_and_serves_without(tiny):
    model = Decoder(tiny()).eval()
    ids = torch.randint(0, 31, (1, 6))
    expected = model(ids)
    checkpoint_activations(model)
    cache = model.new_cache(8)
    with pytest.raises(ConfigError, match=r"run twice; decode under torch\.no_grad\(\)"):
        model(ids, cache=cache)
    assert cache.length == 0
    with torch.no_grad():
        steps = [model(token, cache=cache) for token in ids.split(1, dim=1)]
    assert_close(torch.cat(steps, 1), expected, atol=1e-5, rtol=1e-5)


def test_a_block_with_a_tap_runs_once(tiny):
    model = Decoder(tiny())
    checkpoint_activations(model)
    ids = torch.randint(0, 31, (1, 6))
    runs = []
    for block in model.blocks:
        block.attention.register_forward_hook(lambda *_: runs.append(1))
    with hw.ablate(hw.load(model), ["1.3"]):
        runs.clear()
        ablated = passed(model, ids)
    assert len(runs) == 3  # that of the first block again, that of the one looked into not
    checkpoint_activations(model, on=False)
    with hw.ablate(hw.load(model), ["1.3"]):
        assert_close(ablated[0], passed(model, ids)[0], atol=0, rtol=0)


def test_a_model_without_blocks_of_ours_is_named():
    with pytest.raises(ConfigError, match=r"Linear has no blocks of headwise\.nn to checkpoint"):
        checkpoint_activations(torch.nn.Linear(2, 2))


@pytest.mark.usefixtures("unchecked")
def test_compiled_is_the_same(tiny):
    model = Decoder(tiny())
    ids = torch.randint(0, 31, (2, 16))
    plain = passed(model, ids)
    checkpoint_activations(model)
    torch._dynamo.reset()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    loss = compiled(ids).logsumexp(-1).mean()
    model.zero_grad()
    loss.backward()
    assert_close(loss.detach(), plain[0])
    for name, p in model.named_parameters():
        assert_close(p.grad, plain[1][name], msg=name)
