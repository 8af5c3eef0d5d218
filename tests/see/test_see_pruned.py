"""What is said of a pruned model: heads by the ids they had, as of the whole model with the others at 0."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from see_help import byte_tokenizer, sharp

import headwise as hw
from headwise.cut.pruning.surgery import cut_heads
from headwise.names import HeadError
from headwise.nn import Decoder, TransformerConfig

sys.path.append(str(Path(__file__).parents[1] / "hub"))
from tiny_models import build

TEXT = "So it goes, 小明 said; so it goes."
IDS = {"input_ids": torch.arange(1, 12)[None]}


def own() -> hw.Model:
    """Grouped heads of ours: 6 on 3 KV heads."""
    torch.manual_seed(0)
    config = TransformerConfig(
        vocab_size=257, d_model=24, num_layers=3, num_heads=6, num_kv_heads=3, d_ff=32
    )
    return sharp(hw.load(Decoder(config), tokenizer=byte_tokenizer()))


MODELS: dict[str, tuple[Callable[[], hw.Model], str]] = {
    "own, uneven groups": (own, "0.1 1.0 1.1 1.4"),
    "own, a layer without heads": (own, "1.* 2.5"),
    "llama": (lambda: hw.load(build("llama")), "0.1 1.0 1.1"),
    "gpt2": (lambda: hw.load(build("gpt2")), "0.0 1.2"),
    "bert": (lambda: hw.load(build("bert")), "0.3 1.1"),
}


@pytest.fixture(params=MODELS)
def both(request: pytest.FixtureRequest) -> tuple[hw.Model, hw.Model, str]:
    """A model, the same without some heads, and which."""
    make, heads = MODELS[request.param]
    model = make()
    return model, cut_heads(model, heads), heads


def test_a_record_names_the_heads_that_are_left(both: tuple[hw.Model, hw.Model, str]) -> None:
    model, pruned, heads = both
    with hw.ablate(model, heads) as ablation:
        (whole,) = hw.look(model, IDS)
    (plain,) = hw.look(model, IDS)
    (record,) = hw.look(pruned, IDS)
    left = [id for id in whole.heads() if id not in ablation.heads]
    assert record.heads() == left
    assert record.verified < 1e-5
    for id in left:
        wanted, came = whole.pattern(str(id)), record.pattern(str(id))
        np.testing.assert_allclose(came.values, wanted.values, atol=2e-5)
        assert came.attrs["kv_group"] == wanted.attrs["kv_group"]
        norms = record.norm_weights(
            id
        )  # unknown of the ablated model, whose W_O reads something else
        assert np.isfinite(norms).all()
        if id.layer == 0:
            np.testing.assert_allclose(norms, plain.norm_weights(id), atol=1e-4)
        assert (record.visible(id) == whole.visible(id)).all()
    with pytest.raises(HeadError, match=r"there is no (head|layer)"):
        record.pattern(str(ablation.heads[0]))
    summaries = hw.summarise(record)
    assert [one.id for one in summaries] == left


def test_numbers_of_rows_leave_gaps(both: tuple[hw.Model, hw.Model, str]) -> None:
    model, pruned, heads = both
    with hw.ablate(model, heads) as ablation:
        (whole,) = hw.look(model, IDS)
    (record,) = hw.look(pruned, IDS)
    wanted, came = whole.statistics(), record.statistics()
    for layer in came["layer"].values:
        for head in came["head"].values:
            here = came["entropy"].sel(layer=layer, head=head)
            if hw.HeadId("", int(layer), int(head)) in ablation.heads:
                assert here.isnull().all()
            else:
                there = wanted["entropy"].sel(layer=layer, head=head)
                np.testing.assert_allclose(here, there, atol=1e-4)
    id = record.heads()[-1]
    strongest = record.strongest(id)["weight"]
    np.testing.assert_allclose(strongest, whole.strongest(id)["weight"], atol=2e-5)


def test_a_record_keeps_its_names_on_disk(
    both: tuple[hw.Model, hw.Model, str], tmp_path: Path
) -> None:
    _, pruned, _ = both
    (record,) = hw.look(pruned, IDS)
    record.save(tmp_path / "pruned.safetensors")
    again = hw.load_record(tmp_path / "pruned.safetensors")
    assert again.heads() == record.heads()
    id = record.heads()[-1]
    assert (again.weights(id) == record.weights(id)).all()


def test_a_profile_has_nan_where_heads_were_cut(both: tuple[hw.Model, hw.Model, str]) -> None:
    model, pruned, heads = both
    batches = [IDS, {"input_ids": torch.arange(30, 37)[None]}]
    with hw.ablate(model, heads) as ablation:
        whole = hw.profile(model, batches)
    table = hw.profile(pruned, batches)
    for name in ("entropy", "previous", "first", "pooled", "received"):
        for layer in table["layer"].values:
            for head in range(whole.sizes["head"]):
                here = table[name].sel(layer=layer, head=head)
                if hw.HeadId("", int(layer), head) in ablation.heads:
                    assert here.isnull().all()
                else:
                    there = whole[name].sel(layer=layer, head=head)
                    np.testing.assert_allclose(here, there, rtol=1e-3, atol=1e-4)
    groups = table["kv_group"].where(table["kv_group"] >= 0)
    np.testing.assert_array_equal(
        groups.fillna(-1), table["kv_group"].where(table["entropy"].notnull(), -1)
    )
    assert (groups.isnull() | (groups == whole["kv_group"].sel(layer=table["layer"]))).all()


def test_clusters_and_circuits_name_them_too(both: tuple[hw.Model, hw.Model, str]) -> None:
    model, pruned, heads = both
    with hw.ablate(model, heads) as ablation:
        whole = hw.distances(model, [IDS])
    found = hw.distances(pruned, [IDS])
    left = [str(id) for id in hw.look(pruned, IDS)[0].heads()]
    assert list(found["head_a"].values) == left
    np.testing.assert_allclose(found, whole.sel(head_a=left, head_b=left), atol=1e-4)
    before, after = hw.circuits(model), hw.circuits(pruned)
    for id in map(hw.HeadId.parse, left):
        at = {"layer": id.layer, "head": id.head}
        for name in ("ov_norm", "qk_norm"):
            np.testing.assert_allclose(after[name].sel(at), before[name].sel(at), rtol=1e-3)
    for id in ablation.heads:
        if id.layer in after["layer"].values:
            assert np.isnan(after["ov_norm"].sel(layer=id.layer, head=id.head))


def test_examples_of_a_head_that_is_left_and_of_one_that_is_not() -> None:
    model = own()
    pruned = cut_heads(model, "1.0 1.3")
    with hw.ablate(model, "1.0 1.3"):
        wanted = hw.examples(model, [TEXT], "1.4", "previous")
    came = hw.examples(pruned, [TEXT], "1.4", "previous")
    assert [(c.query, c.start) for c in came] == [(w.query, w.start) for w in wanted]
    assert [c.mass for c in came] == pytest.approx([w.mass for w in wanted], abs=1e-4)
    with pytest.raises(
        HeadError, match=r"no head 1\.3: layer 1 has the heads 1\.1, 1\.2, 1\.4, 1\.5"
    ):
        hw.examples(pruned, [TEXT], "1.3", "previous")
