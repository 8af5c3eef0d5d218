"""The evidence of probes in both halves of a corpus, against the patterns of the records."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from profile_help import assert_same

import headwise as hw
from headwise.see.probes.probe import Probe, Ranges
from headwise.see.profile.evidence import FAR
from headwise.see.profile.halves import HALVES, halves_of
from headwise.see.record import Side
from headwise.see.texts.packing import packed

TEXTS = [f"{a} saw {b}, and {b} saw {a} {'again ' * (i % 4)}." for i, (a, b) in enumerate(
    (f"x{i}", f"the y{i % 3}") for i in range(24)
)]  # fmt: skip


def words(queries: Side, keys: Side) -> tuple[Ranges, Ranges]:
    """Every word but the first."""
    found = [(w.first, w.last) for w in keys.words if w.first]
    return found, found


def last_saw(queries: Side, keys: Side) -> list[list[int]]:
    """Every word looks at all the words `saw` other than itself, ahead or not."""
    texts = [w.text for w in keys.words if w.first]
    return [[j for j, t in enumerate(texts) if t == "saw" and j != i] for i in range(len(texts))]


SAW = Probe("saw", last_saw, "any word saw", units=words, by="hits")


def halves(model: hw.Model, texts: list[str]) -> dict[str, int]:
    return {
        batch.sources[i].text: int(half)
        for batch in packed(model, texts)
        for i, half in enumerate(halves_of(batch))
    }


def by_hand(model: hw.Model, half: int, head: hw.HeadId) -> dict[str, float]:
    """The numbers of one head on one half, from patterns by words."""
    in_half = halves(model, TEXTS)
    mass, hits, uniform, unseen = [], [], [], 0
    texts: list[list[float]] = []
    for text in TEXTS:
        if in_half[text] != half:
            continue
        record = hw.look(model, text)
        pattern, seen = record.weights(head), record.visible(head)
        cuts = words(record.sides[0], record.sides[0])[0]
        to = np.array([[pattern[a:b, c:d].sum(1).mean() for c, d in cuts] for a, b in cuts])
        sees = np.array([[seen[a:b, c:d].any() for c, d in cuts] for a, b in cuts])
        texts.append([])
        for i, named in enumerate(last_saw(record.sides[0], record.sides[0])):
            some = [j for j in named if sees[i, j]]
            others = [j for j in range(len(cuts)) if sees[i, j] and j != i]
            if not some:
                unseen += bool(named)
                continue
            mass.append(to[i, some].sum())
            hits.append(float(max(to[i, some]) >= to[i, others].max() - 1e-7))
            uniform.append(len(some) / len(others))
            texts[-1].append(mass[-1])
    values = {"mass": mass, "hits": hits, "uniform": uniform}
    found = {name: float(np.mean(numbers)) for name, numbers in values.items()}
    n, mean = len(texts), np.mean(mass)
    off = np.array([sum(t) - mean * len(t) for t in texts])
    error = np.sqrt(n / (n - 1) * (off**2).sum()) / len(mass)
    return found | {"count": len(mass), "unseen": unseen, "texts": n, "mass_error": error}


def test_a_probe_of_words_is_told_of_in_both_halves(bytes_model) -> None:
    table = hw.profile(bytes_model, TEXTS, probes=[SAW, "previous"], top=0, pool=0)
    assert list(table.half.values) == list(HALVES)
    assert list(table.probe.values) == ["saw", "previous"]
    assert table.probe_by.values.tolist() == ["hits", "mass"]
    assert table.probe_level.values.tolist() == ["units", "tokens"]
    assert table.probe_fixed.values.tolist() == [True, False]
    for half in (0, 1):
        for head in ("0.0", "1.3"):
            id = hw.HeadId.parse(head)
            at = table.sel(probe="saw", layer=id.layer, head=id.head).isel(half=half)
            for name, value in by_hand(bytes_model, half, id).items():
                np.testing.assert_allclose(at[f"probe_{name}"], value, rtol=1e-4, err_msg=name)


def test_the_halves_together_are_the_whole(bytes_model) -> None:
    table = hw.profile(bytes_model, TEXTS, probes=[SAW, "previous", "next"], top=0, pool=0)
    for name in ("saw", "previous"):
        of = table.sel(probe=name)
        np.testing.assert_allclose(of.probe_count.sum("half"), table[f"{name}_count"])
        sums = (of.probe_mass * of.probe_count).sum("half")
        np.testing.assert_allclose(sums / table[f"{name}_count"], table[name])
    assert (table.sel(probe="next").probe_count == 0).all()  # a causal model cannot look ahead
    tokens = sum(len(hw.look(bytes_model, text).tokens) for text in TEXTS)
    assert (table.sel(probe="next").probe_unseen.sum("half") == tokens - len(TEXTS)).all()
    assert (table.sel(probe="previous").probe_unseen == 0).all()
    assert table.next.isnull().all()


def test_neither_order_nor_company_moves_a_text_to_the_other_half(bytes_model) -> None:
    there = halves(bytes_model, TEXTS)
    assert set(there.values()) == {0, 1}
    assert halves(bytes_model, TEXTS[::-1][:9]) == {t: there[t] for t in TEXTS[::-1][:9]}
    once = hw.profile(bytes_model, TEXTS, probes=[SAW])
    assert_same(once, hw.profile(bytes_model, TEXTS[::-1], probes=[SAW]), rtol=1e-5)


def test_pieces_of_a_text_are_in_its_half(bytes_model) -> None:
    text = " ".join(TEXTS)
    table = hw.profile(bytes_model, [text, *TEXTS], context=40, probes=["previous"])
    assert table.probe_texts.sel(probe="previous").sum("half").values.max() == 1 + len(TEXTS)


def test_the_pieces_of_texts_make_their_error_in_the_half_they_are_in(bytes_model) -> None:
    cut = hw.profile(bytes_model, TEXTS, context=12, probes=["previous"], top=0, pool=0)
    rows = [text[i:j] for text in TEXTS for i, j in _pieces(bytes_model, text, 12)]
    assert cut.attrs["pieces"] == len(rows) > 2 * len(TEXTS)
    for half in (0, 1):
        in_half = [text for text, at in halves(bytes_model, TEXTS).items() if at == half]
        alone = hw.profile(bytes_model, in_half, context=12, probes=["previous"], top=0, pool=0)
        for name in ("probe_mass", "probe_mass_error", "probe_texts", "probe_count"):
            here = cut[name].isel(half=half)
            np.testing.assert_allclose(here, alone[name].isel(half=half), rtol=1e-5)
            assert not here.isnull().any()


def _pieces(model: hw.Model, text: str, most: int) -> list[tuple[int, int]]:
    found = []
    for batch in packed(model, [text], context=most):
        for side in batch.sources:
            tokens = [token for token in side.tokens if not token.special]
            found.append((tokens[0].start, tokens[-1].end))
    return found


def test_words_that_look_at_their_own_text_have_no_case_between_two(translator) -> None:
    table = hw.profile(translator, ["saw it saw"], target=["it saw saw"], probes=[SAW])
    layers = table["layer"].values.astype(str).tolist()
    for layer in layers:
        cases = table.probe_count.sel(layer=layer, probe="saw").sum("half").values
        assert (cases == 0).all() if layer.startswith("cross") else (cases > 0).all()
    assert any(layer.startswith("cross") for layer in layers)


@pytest.mark.parametrize("step", [1, 3, FAR - 1, FAR])
def test_the_best_offset_is_the_baseline_of_a_fixed_rule(bytes_model, step: int) -> None:
    def back(queries: Side, keys: Side) -> list[int]:
        return [max(q - step, -1) for q in range(len(queries.tokens))]

    texts = ["abcdefghij" * 8 + str(i) for i in range(9)]
    table = hw.profile(bytes_model, texts, probes=[Probe("back", back)], top=0, pool=0)
    offset, share = table.probe_offset.values, table.probe_offset_share.values
    if step == FAR:  # stands for the first token, which nobody named
        assert (share < 1).all()
    else:
        assert (offset == -step).all()
        assert (share == 1).all()
    positional = hw.profile(bytes_model, texts, probes=["previous"], top=0, pool=0)
    assert positional.probe_offset.isnull().all()


def test_the_best_offset_of_words_names_most_cases(bytes_model) -> None:
    table = hw.profile(bytes_model, TEXTS, probes=[SAW], top=0, pool=0)
    in_half = halves(bytes_model, TEXTS)
    for half in (0, 1):
        right, cases = Counter[int](), 0
        for text in (t for t in TEXTS if in_half[t] == half):
            side = hw.look(bytes_model, text).sides[0]
            last = len(last_saw(side, side)) - 1
            for i, named in enumerate(last_saw(side, side)):
                before = {j for j in named if j < i}
                cases += bool(before)
                for step in range(-FAR, FAR + 1):
                    place = 0 if step == -FAR else last if step == FAR else i + step
                    right[step] += min(max(place, 0), last) in before
        at = table.isel(half=half, layer=0).sel(probe="saw")
        assert float(at.probe_offset_share) == pytest.approx(max(right.values()) / cases)
        assert right[int(at.probe_offset)] == max(right.values())


def test_always_the_last_word_is_an_offset(encoder_model) -> None:
    """In a text that may be seen whole; however long the texts are."""

    def last(queries: Side, keys: Side) -> list[list[int]]:
        end = len(words(queries, keys)[1]) - 1
        return [[end] if i < end else [] for i in range(end + 1)]

    texts = [" ".join(["so"] * (3 + i * 9 % 80)) + f" x{i}" for i in range(20)]
    probe = Probe("last", last, units=words)
    table = hw.profile(encoder_model, texts, probes=[probe], top=0, pool=0)
    assert (table.probe_offset_share == 1).all()
    assert (table.probe_offset == FAR).all()


def test_copies_of_texts_tell_no_more_than_these(bytes_model) -> None:
    once = hw.profile(bytes_model, TEXTS, probes=["previous"], top=0, pool=0)
    often = hw.profile(bytes_model, TEXTS * 3, probes=["previous"], pool=0)
    assert (often.attrs["texts"], often.attrs["distinct"]) == (3 * len(TEXTS), len(TEXTS))
    n = once.probe_texts
    small = ((3 * n - 1) / (3 * n - 3)) ** 0.5  # n / (n - 1) of three times as many
    for name in ("mass", "hits"):
        np.testing.assert_allclose(
            often[f"probe_{name}_error"] * small, once[f"probe_{name}_error"], rtol=1e-5
        )
    np.testing.assert_allclose(often.probe_freedom, once.probe_freedom, rtol=1e-6)
    four = hw.profile(bytes_model, TEXTS[:4] * 40, probes=["previous"], top=0, pool=0)
    assert four.previous_low.isnull().all()


def test_space_around_a_text_does_not_make_it_another(bytes_model) -> None:
    there = halves(bytes_model, TEXTS)
    spaced = halves(bytes_model, [f"  {text}\n" for text in TEXTS])
    assert {text.strip(): half for text, half in spaced.items()} == {
        text.strip(): half for text, half in there.items()
    }


def test_a_head_that_looks_evenly_hits_by_chance(encoder_model) -> None:
    with torch.no_grad():
        for layer in encoder_model.anatomy.layers:
            layer.module.w_qkv.weight[:24] = 0  # the queries
            layer.module.w_qkv.bias[:24] = 0
    texts = [" ".join("abcdefgh"[i % 3 : 3 + i % 5]) for i in range(20)]

    def letters(queries: Side, keys: Side) -> tuple[Ranges, Ranges]:
        found = [(i, i + 1) for i in range(1, len(keys.tokens))]
        return found, found

    def second_letter(queries: Side, keys: Side) -> list[list[int]]:
        return [[0] if i else [] for i in range(len(keys.tokens) - 1)]

    probe = Probe("second", second_letter, units=letters, by="hits")
    table = hw.profile(encoder_model, texts, probes=[probe, "previous"], top=0, pool=0)
    np.testing.assert_allclose(table.probe_hits, table.probe_uniform, atol=1e-5)
    assert hw.roles(table).claimed == []


def test_one_long_text_among_short_ones_leaves_little_to_tell(bytes_model) -> None:
    texts = ["x" * 300, *(f"ab{i}" for i in range(12))]
    table = hw.profile(bytes_model, texts, probes=["previous"], top=0, pool=0)
    half = halves(bytes_model, texts)["x" * 300]
    assert (table.probe_freedom.isel(half=half) == 1).all()


def test_offsets_between_units_of_two_kinds_are_counted_from_where_a_query_stands(
    bytes_model,
) -> None:
    """Even words look at the odd word just before: always one back among the odd ones."""

    def kinds(queries: Side, keys: Side) -> tuple[Ranges, Ranges]:
        found = words(queries, keys)[0]
        return found[1::2], found[0::2]

    def just_before(queries: Side, keys: Side) -> list[list[int]]:
        return [[i] for i in range(len(kinds(queries, keys)[0]))]

    def two_before(queries: Side, keys: Side) -> list[list[int]]:
        return [[i - 1] if i else [] for i in range(len(kinds(queries, keys)[0]))]

    probes = [Probe("one", just_before, units=kinds), Probe("two", two_before, units=kinds)]
    table = hw.profile(bytes_model, TEXTS, probes=probes, top=0, pool=0)
    assert (table.probe_offset_share == 1).all()
    assert (table.probe_offset.sel(probe="one") == -1).all()
    assert (table.probe_offset.sel(probe="two") == -2).all()
