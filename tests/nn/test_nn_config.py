from __future__ import annotations

import dataclasses
import math

import pytest

from headwise.names import ConfigError
from headwise.nn import Decoder, EncoderDecoder

YARN = {"kind": "yarn", "factor": 4.0, "original_length": 16}


@pytest.mark.usefixtures("unchecked")
def test_none_is_filled_in(tiny):
    config = tiny(num_kv_heads=None, head_dim=None, d_ff=None, num_decoder_layers=None)
    assert (config.num_kv_heads, config.head_dim) == (6, 4)
    assert (config.d_ff, config.num_decoder_layers) == (96, 2)


def test_head_dim_is_free_of_d_model(tiny):
    assert tiny(d_model=25, head_dim=10).head_dim == 10


def test_whole_numbers_become_floats(tiny):
    config = tiny(norm_eps=1, rope_scaling=YARN | {"factor": 4})
    kinds = [type(x) for x in (config.norm_eps, config.rope_theta, config.rope_scaling.factor)]
    assert kinds == [float] * 3


@pytest.mark.parametrize("kind", [Decoder, EncoderDecoder])
def test_a_decoder_has_no_head_for_hidden_words(tiny, kind):
    with pytest.raises(ConfigError, match="masked_head=True is for an Encoder"):
        kind(tiny(masked_head=True))


def test_config_is_frozen(tiny):
    with pytest.raises(dataclasses.FrozenInstanceError):
        tiny().num_heads = 3


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"num_heads": 5, "head_dim": 4}, "num_heads=5 is not a multiple of num_kv_heads=2; use"),
        ({"d_model": 25}, "d_model=25 is not a multiple of num_heads=6; give head_dim"),
        ({"head_dim": 5}, "head_dim=5 is odd"),
        ({"activation": "tanh"}, "activation='tanh' is not known; use one of relu"),
        ({"norm": "batch"}, "norm='batch' is not known"),
        ({"norm_position": "both"}, "norm_position='both'"),
        ({"positions": "absolute"}, "positions='absolute'"),
        ({"num_layers": 0}, "num_layers=0 is not a count"),
        ({"vocab_size": 3.0}, "vocab_size=3.0 is not a count"),
        ({"window": 0}, "window=0 is not a count"),
        ({"dropout": 1.0}, "dropout=1.0 is not a rate"),
        ({"attention_dropout": -0.1}, "attention_dropout=-0.1"),
        ({"token_types": -1}, "token_types=-1"),
        ({"norm_eps": 0.0}, "norm_eps=0.0"),
        ({"norm_eps": math.inf}, "norm_eps=inf must be greater than 0, and finite"),
        ({"rope_theta": math.inf}, "rope_theta=inf"),
        ({"scale_embeddings": "no"}, "scale_embeddings='no' is not true or false"),
        ({"scale_embeddings": 3}, "scale_embeddings=3 is not true or false"),
        ({"attention_scale": "x"}, "attention_scale='x' is not a number"),
        ({"attention_scale": True}, "attention_scale=True is not a number"),
        ({"window": True}, "window=True is not a count"),
        ({"rope_theta": 1.0, "rope_scaling": YARN}, "rope_theta=1.0 must be greater than 1"),
        ({"rope_scaling": YARN | {"attention_factor": "x"}}, "attention_factor='x' is no number"),
        ({"rope_scaling": YARN | {"attention_factor": -1}}, "attention_factor=-1 is no number"),
        ({"rope_scaling": YARN | {"truncate": "no"}}, "truncate='no' is not true or false"),
        ({"rope_scaling": YARN | {"factor": math.inf}}, "factor=inf is no number above 0"),
    ],
)
def test_what_cannot_be_is_named(tiny, fields, says):
    with pytest.raises(ConfigError) as error:
        tiny(**fields)
    assert says in str(error.value)
    assert "\n" not in str(error.value)
