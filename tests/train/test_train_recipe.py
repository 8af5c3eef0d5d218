"""What is asked for: values that cannot be, unknown names, and the file that says it."""

from __future__ import annotations

import tomllib

import pytest

from headwise.names import ConfigError
from headwise.nn import build
from headwise.train.recipe import Recipe, read_plan, shipped
from headwise.train.run import read_asked, write_asked


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"steps": 0}, "steps=0 must be a whole number of 1 or more"),
        ({"rows": 2.5}, "rows=2.5 must be a whole number"),
        ({"rows": True}, "rows=True must be a whole number"),
        ({"warmup": -1}, "warmup=-1 must be"),
        ({"learning_rate": 0}, "learning_rate=0 must be a number above 0"),
        ({"learning_rate": float("nan")}, "learning_rate=nan must be a number above 0"),
        ({"learning_rate": "fast"}, "learning_rate='fast' must be a number"),
        ({"held_out": 1.5}, "held_out=1.5 is a share"),
        ({"repeats": -0.1}, "repeats=-0.1 must be"),
        ({"betas": [0.9]}, r"betas=\[0.9\] must be two numbers"),
        ({"betas": (0.9, 1.0)}, "betas=.* must be two numbers"),
        ({"objective": "casual"}, "objective='casual' is not known; did you mean causal"),
        ({"dtype": "float16"}, "dtype='float16' is not known; did you mean bfloat16"),
        ({"context": 1}, "context=1 leaves nothing"),
        ({"betas": [True, False]}, "betas=.* must be two numbers"),
        ({"seed": 2**70}, "seed must be a whole number of 9,223,372,036,854,775,807 or less"),
        ({"learning_rate": 10**400}, "learning_rate must be a number above 0, came"),
        ({"vocab_size": 2**70}, "vocab_size must be a whole number of 1,048,576 or less"),
        ({"rows": 10**9}, "rows=1000000000 of context=256 are 256,000,000,000 tokens a step"),
        ({"steps": 10**12}, "steps must be a whole number of 2,147,483,647 or less"),
        ({"repeats": 0.9999999}, "repeats=0.9999999 is a share; use a number from 0 to 0.9"),
        ({"mask_share": 0}, "mask_share=0 is a share; use a number above 0 and below 1"),
        ({"held_out": 1}, "held_out=1 is a share; use a number from 0 to below 1"),
        ({"rows": 2, "accumulate": 3}, "rows=2 cannot be run in accumulate=3 parts"),
    ],
)
def test_values_that_cannot_be(fields, said):
    with pytest.raises(ConfigError, match=said):
        Recipe(**fields)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"trian": {}}, "trian is no table; did you mean train?"),
        (
            {"train": {"lerning_rate": 1}},
            r"lerning_rate is no field of \[train\]; did you mean learning_rate",
        ),
        ({"train": {"xyzzy": 1}}, "xyzzy is no field of .*; known are objective, context"),
        ({"tokenizer": {"form": "x"}}, r"form is no field of \[tokenizer\]; did you mean from"),
        ({"tokenizer": {"from": 3}}, "from=3 in .* is no name"),
        ({"train": 3}, "train=3 is no table"),
        ("smal", "smal cannot be read: No such file or directory; did you mean small"),
        ("nowhere.toml", "nowhere.toml cannot be read: .*give a TOML file, or one of: .*small"),
    ],
)
def test_plans_that_cannot_be_read(config, said):
    with pytest.raises(ConfigError, match=said) as caught:
        read_plan(config)
    assert "\n" not in str(caught.value)


def test_a_file_is_read_and_its_mistakes_name_it(tmp_path):
    path = tmp_path / "a.toml"
    path.write_text(
        "[model]\nd_model = 8\n[train]\nsteps = 7\nbetas = [0.8, 0.9]\n[tokenizer]\nvocab_size = 300\n"
    )
    plan = read_plan(path)
    assert plan.model == {"d_model": 8}
    assert (plan.recipe.steps, plan.recipe.betas, plan.recipe.vocab_size) == (7, (0.8, 0.9), 300)
    assert plan.changed(steps=9, rows=None).recipe == Recipe(
        steps=9, betas=(0.8, 0.9), vocab_size=300
    )
    with pytest.raises(ConfigError, match=r"stpes is no field of .*; did you mean steps"):
        plan.changed(stpes=3)
    path.write_text("[train]\nstep = 7\n")
    with pytest.raises(
        ConfigError, match=r"step is no field of \[train\] in .*a.toml; did you mean steps"
    ):
        read_plan(path)
    path.write_text(f"[train]\nsteps = {'9' * 5000}\n")
    with pytest.raises(ConfigError, match=r"a.toml is no TOML"):
        read_plan(path)
    path.write_text("[train\n")
    with pytest.raises(ConfigError, match=r"a.toml is no TOML"):
        read_plan(str(path))


@pytest.mark.parametrize("name", shipped())
def test_what_ships_can_be_built(name):
    plan = read_plan(name)
    told = {"class": "Decoder", "vocab_size": plan.recipe.vocab_size, **plan.model}
    assert sum(p.numel() for p in build(told).parameters()) > 0


def test_what_was_asked_for_is_written_and_read_back(tmp_path):
    asked = {
        "model": {
            "class": "Decoder",
            "a": 1,
            "b": 1e-05,
            "c": None,
            "d": {"type": "linear", "by": 2.0},
        },
        "train": {"steps": 3, "x": True, "betas": (0.9, 0.95)},
        "texts": {"files": ['/a "quoted" \\ name\n\x7f', "/文/件"]},
        "start": {"tensor_parallel": 1},
    }
    write_asked(tmp_path, asked)
    assert read_asked(tmp_path) == {
        "model": {"class": "Decoder", "a": 1, "b": 1e-05, "d": {"type": "linear", "by": 2.0}},
        "train": {"steps": 3, "x": True, "betas": [0.9, 0.95]},
        "texts": asked["texts"],
        "start": {"tensor_parallel": 1},
    }
    assert tomllib.loads((tmp_path / "run.toml").read_text())["train"]["x"] is True
