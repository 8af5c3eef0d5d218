"""The evidence of a role holds its strongest cases in the text shown, and says where there can be none."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from server_help import small_model

import headwise as hw
from headwise.names import HeadId
from headwise.see.roles.role import Roles
from headwise.show.page.cases import cases_of
from headwise.show.page.saving import scenes_of

FAR = "cat 😀 sat. " + "x" * 300 + " cat 😀 ran."


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> hw.Model:
    return hw.load(small_model(tmp_path_factory.mktemp("cases") / "small"))


def marked(text: str, place: list[int]) -> str:
    """What a browser marks: it counts in UTF-16."""
    return text.encode("utf-16-le")[2 * place[0] : 2 * place[1]].decode("utf-16-le")


@pytest.mark.parametrize("probe", ["previous", "induction", "same_token_random"])
def test_the_cases_are_the_strongest_of_the_rule(model: hw.Model, probe: str) -> None:
    record = hw.look(model, FAR)
    head = HeadId("", 1, 4)
    (cases,) = cases_of(record, [(head, probe)], top=4).values()
    tokens, weights = record.tokens, record.weights(head)
    rule = hw.probes.named(probe)
    named = rule.targets(record.sides[0], record.sides[0], True).tolist()
    pairs: dict[tuple[str, str], float] = {}
    for query, key in enumerate(named):
        words = tokens[query].label, tokens[key].label
        if key >= 0:
            pairs[words] = max(pairs.get(words, 0.0), weights[query, key])
    strongest = sorted(pairs.values(), reverse=True)[:4]
    np.testing.assert_allclose([case["weight"] for case in cases], strongest, rtol=1e-3)
    assert all(marked(case["text"], case[end]) for case in cases for end in ("query", "key"))


def test_places_far_apart_are_shown_in_two_pieces(model: hw.Model) -> None:
    record = hw.look(model, FAR)
    (cases,) = cases_of(record, [(HeadId("", 0, 0), "same_token")], top=400).values()
    far = [
        case
        for case in cases
        if marked(case["text"], case["query"]) == "n" or " … " in case["text"]
    ]
    assert far
    for case in far:
        assert len(case["text"]) < 160
        assert marked(case["text"], case["query"]) == marked(case["text"], case["key"])
        assert case["key"][1] <= case["query"][0]
    assert any(marked(case["text"], case["query"]) == "😀" for case in cases)


def test_what_has_no_characters_is_named() -> None:
    torch.manual_seed(0)
    config = hw.nn.TransformerConfig(vocab_size=50, num_layers=1, num_heads=2, d_model=16)
    model = hw.load(hw.nn.Encoder(config))
    (record,) = hw.look(model, {"input_ids": torch.arange(9)[None]})
    id, layer = next(iter(record.layers.items()))
    tokens = list(layer.queries.tokens)
    tokens[4] = replace(tokens[4], text="[SEP]", start=9, end=9, special=True)
    side = replace(layer.queries, tokens=tuple(tokens))
    layer = replace(layer, queries=side, keys=side)
    record = replace(record, layers={id: layer})
    (cases,) = cases_of(record, [(HeadId("", 0, 1), "previous")], top=20).values()
    assert "[SEP]" in [case["query"] for case in cases]
    (case,) = [case for case in cases if case["key"] == "[SEP]"]
    assert marked(case["text"], case["query"]) == tokens[5].label


def test_a_rule_of_annotations_has_no_case_and_says_so(model: hw.Model) -> None:
    profile = hw.profile(model, ["it sat at it", "a cat sat", "it it it", "at a cat", "sat it at"])
    roles = hw.roles(profile)
    evidence = roles.evidence.copy(deep=True)
    evidence["claimed"][:] = False
    for name in ("previous", "next", "same_token"):
        evidence["claimed"][roles.probes.index(name), 0, 2] = True
    names = [{"previous": "nsubj"}.get(name, name) for name in roles.probes]
    evidence = evidence.assign_coords(probe=names)
    (scene,) = scenes_of([hw.look(model, "cat")], tables=[Roles(evidence)])
    blocks = {block["title"]: block for block in scene.index["evidence"]["0.2"]}
    assert "annotations" in blocks["Role: nsubj"]["lines"][-1]
    assert blocks["Role: nsubj"]["cases"] == []
    assert blocks["Role: same token"]["lines"][-1] == "this text has no case of it"
    assert blocks["Role: same token"]["cases"] == []


@pytest.mark.models
def test_roles_of_smollm2_have_cases_in_another_text(tmp_path: Path) -> None:
    torch.set_num_threads(1)
    model = hw.load("smollm2")
    frames = (
        "The {0} saw the {1}, and then the {0} told the {1} that it was {2}.",
        "If the {0} is {2}, the {1} waits; if the {1} is {2}, nobody asks the {0}.",
        "Everyone knew that the {1} was {2} when the old {0} came back from the {1}.",
    )
    texts = [
        frame.format(*words)
        for frame in frames
        for words in zip(
            ("king", "cat", "river", "doctor", "child", "poet", "ship", "judge"),
            ("queen", "dog", "town", "nurse", "mother", "painter", "harbour", "thief"),
            ("late", "tired", "cold", "ill", "happy", "wrong", "gone", "over"),
            strict=True,
        )
    ]
    hw.roles(hw.profile(model, texts)).save(tmp_path / "roles.nc")
    roles = hw.load_roles(tmp_path / "roles.nc")
    record = hw.look(model, "Mary met John at the old mill, and Mary met John at the new mill.")
    (scene,) = scenes_of([record], tables=[roles])
    told: dict[str, list[dict[str, Any]]] = scene.index["evidence"]
    best = next(role for role in roles.claimed if role.probe == "previous")
    (block,) = [b for b in told[str(best.head)] if b["title"] == "Role: previous"]
    assert block["lines"][-1] == "strongest in this text:"
    assert len(block["cases"]) == 3
    assert block["cases"][0]["weight"] > 0.9
    text = block["cases"][0]["text"]
    between = text[block["cases"][0]["key"][1] : block["cases"][0]["query"][0]]
    assert between.strip() == ""
    told_of = {b["title"] for blocks in told.values() for b in blocks if b["cases"]}
    claimed = {f"Role: {role.probe.replace('_', ' ')}" for role in roles.claimed}
    assert told_of <= claimed
    assert len(told_of) > 1
