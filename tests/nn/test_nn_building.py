"""Fresh models from a mapping, a TOML or a JSON file: in our own words or in those of a config.json."""

from __future__ import annotations

import dataclasses
import json

import pytest
import torch
from family_help import ALL, checkpoint, config

from headwise.names import ConfigError
from headwise.nn import Decoder, Encoder, EncoderDecoder, RopeScaling, build, load_checkpoint

SMALL = {"vocab_size": 31, "d_model": 24, "num_layers": 2, "num_heads": 6}
TOML = """
[train]
steps = 3

[model]
class = "Decoder"
vocab_size = 31
d_model = 24
num_layers = 2
num_heads = 6
dropout = 0
positions = "rope"

[model.rope_scaling]
kind = "llama3"
factor = 8
original_length = 16
"""


@pytest.mark.parametrize("kind", [Encoder, Decoder, EncoderDecoder])
def test_a_mapping_a_toml_and_a_json_file_build_the_same(tmp_path, kind):
    said = {"class": kind.__name__, **SMALL, "positions": "learned", "qk_norm": True}
    (tmp_path / "a.json").write_text(json.dumps({**said, "model_type": "headwise"}))
    lines = [f"{name} = {json.dumps(value)}" for name, value in said.items()]
    (tmp_path / "a.toml").write_text("\n".join(lines))
    models = []
    for given in (said, tmp_path / "a.json", str(tmp_path / "a.toml")):
        torch.manual_seed(5)
        models.append(build(given))
    torch.manual_seed(6)
    other, first = build(said).state_dict(), models[0].state_dict()
    assert any(not torch.equal(other[name], first[name]) for name in first)
    for model in models:
        assert type(model) is kind
        assert model.training
        assert model.config == models[0].config
        assert all(torch.equal(model.state_dict()[name], first[name]) for name in first)
    assert all(parameter.device.type == "cpu" for parameter in models[0].parameters())


def test_a_table_model_of_a_toml_file(tmp_path):
    (tmp_path / "run.toml").write_text(TOML)
    model = build(tmp_path / "run.toml")
    assert isinstance(model, Decoder)
    assert model.config.rope_scaling == RopeScaling(kind="llama3", factor=8, original_length=16)
    assert build(dataclasses.asdict(model.config) | {"class": "Decoder"}).config == model.config


def test_a_decoder_with_a_memory():
    assert build({"class": "Decoder", "cross": True, **SMALL}).cross
    with pytest.raises(ConfigError, match=r"cross=True came with class='Encoder'"):
        build({"class": "Encoder", "cross": True, **SMALL})


@pytest.mark.parametrize("name", ALL)
def test_a_config_json_of_transformers_builds_the_models_it_says(tmp_path, name):
    _, folder = checkpoint(name, tmp_path)
    stored = load_checkpoint(folder)
    for given in (folder / "config.json", config(folder)):
        model = build(given)
        assert type(model) is type(stored)
        assert model.config == stored.config
        assert model.state_dict().keys() == stored.state_dict().keys()
        assert all(bool(torch.isfinite(weight).all()) for weight in model.parameters())


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"num_head": 6}, "num_head is not known; did you mean num_heads?"),
        ({"colour": 1}, "colour is not known; known are vocab_size, d_model, "),
        ({"class": None}, "the configuration lacks class; give one of Encoder, Decoder"),
        ({"class": "Transformer"}, "class='Transformer' is no class"),
        ({"vocab_size": None, "num_heads": None}, "lacks vocab_size, num_heads"),
        ({"d_model": "24"}, "d_model='24' is not a count"),
        ({"d_model": 25}, "d_model=25 is not a multiple of num_heads=6"),
        ({"dropout": "none"}, "dropout='none' is not a number"),
        ({"tie_embeddings": "yes"}, "tie_embeddings='yes' is not true or false"),
        ({"token_types": 0.5}, "token_types=0.5"),
        ({"activation": "tanh"}, "activation='tanh' is not known; use one of relu, gelu"),
        ({"activation": ["gelu"]}, "activation=['gelu'] is not known"),
        ({"rope_scaling": {"kind": "linear", "facto": 2}}, "did you mean rope_scaling.factor?"),
        ({"rope_scaling": {"kind": "linear"}}, "rope_scaling lacks factor"),
        ({"rope_scaling": {"kind": "ntk", "factor": 2}}, "rope_scaling.kind='ntk' is not known"),
        ({"rope_scaling": {"kind": "yarn", "factor": 2}}, "rope_scaling.original_length=None"),
        ({"rope_scaling": {"kind": "linear", "factor": "2"}}, "rope_scaling.factor='2'"),
        ({"rope_scaling": 2.0}, "rope_scaling=2.0 is no table"),
        ({"rope_scaling": {"kind": "linear", "factor": 2}, "positions": "alibi"}, "positions='al"),
        ({"model_type": "falcon"}, "model_type='falcon' has no table in headwise.nn"),
        ({"model_type": "llama"}, "config field class='Decoder' is not known for"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_what_cannot_be_built_is_named_in_one_line(tmp_path, change, says):
    given = {"class": "Decoder", **SMALL, **change}
    path = tmp_path / "model.json"
    path.write_text(json.dumps(given))
    for came in (given, path):
        with pytest.raises(ConfigError) as error:
            build(came)
        assert says in str(error.value)
        assert "\n" not in str(error.value)
        assert (str(path) in str(error.value)) is (came is path)


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("gone.toml", None, "cannot be read: No such file or directory"),
        ("a.yaml", "", "says no kind of file; a configuration's name ends in .toml or .json"),
        ("a.toml", "vocab_size = ", "is not TOML: Invalid value (at end of document)"),
        ("a.json", "{", "is not JSON: "),
        ("a.json", "[]", "holds no table of fields"),
        ("a.toml", b"\xff\xfe", "is not TOML: "),
    ],
)
def test_a_file_that_is_no_configuration_is_named(tmp_path, name, content, says):
    path = tmp_path / name
    if content is not None:
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
    with pytest.raises(ConfigError) as error:
        build(path)
    assert says in str(error.value)
    assert str(path) in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.usefixtures("unchecked")
def test_what_is_no_configuration_is_named():
    with pytest.raises(ConfigError, match="a configuration is a mapping or a path, came 3"):
        build(3)
