"""A profile by brute force: from the records of `look`, head by head and row by row, in float64."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
import xarray as xr

import headwise as hw
from headwise.see.probes import BUILT_IN

TEXTS = [
    "The cat sat. The cat ran, and the cat slept.",
    "one two one two three",
    "a",
    "So it goes; so it went, they said: never again.",
    "bb",
]


def cases(record: hw.Record, top: int) -> dict[tuple[str, hw.HeadId], tuple[float, int]]:
    """For each statistic and head the sum over a text's rows, and how many count."""
    found: dict[tuple[str, hw.HeadId], tuple[float, int]] = {}
    for head in record.heads():
        layer = record.layer_of(head)
        weights, seen = record.weights(head), record.visible(head).sum(1)
        n, keys = weights.shape
        with np.errstate(divide="ignore", invalid="ignore"):
            entropy = -np.where(weights > 0, weights * np.log(weights), 0).sum(1)
        far = np.abs(np.arange(n)[:, None] - np.arange(keys))
        some, two = seen > 0, seen > 1
        rows = {
            "entropy": (entropy, some),
            "evenness": (entropy / np.log(seen.clip(2)), two),
            "distance": ((weights * far).sum(1), some & (head.stream != "cross")),
            "largest": (weights.max(1), some),
            "top": (np.sort(weights, 1)[:, ::-1][:, :top].sum(1), some),
        }
        for probe in BUILT_IN:
            at = probe.targets(layer.queries, layer.keys, layer.own_text).numpy()
            mass = weights[np.arange(n), at]
            case = (at >= 0) & record.visible(head)[np.arange(n), at]  # what lies ahead is none
            rows[probe.name] = (mass, case)
            rows[f"{probe.name}_hits"] = ((mass > 0) & (mass >= weights.max(1)), case)
            others = weights.copy()
            others[np.arange(n), at] = -1
            rows[f"{probe.name}_ties"] = (np.abs(others.max(1) - mass) < 1e-5, case)
        for name, (values, counts) in rows.items():
            found[name, head] = float((values * counts).sum()), int(counts.sum())
    return found


def at(table: xr.Dataset, name: str, head: hw.HeadId) -> xr.DataArray:
    layer = head.layer if table.layer.dtype.kind == "i" else str(head.layer_id)
    return table[name].sel(layer=layer, head=head.head)


def assert_table_is(table: xr.Dataset, records: list[hw.Record], *, top: int, atol=1e-4) -> None:
    """Every mean and count is what the records give."""
    sums: dict[tuple[str, hw.HeadId], list[tuple[float, int]]] = defaultdict(list)
    for record in records:
        for key, pair in cases(record, top).items():
            sums[key].append(pair)
    for (name, head), pairs in sums.items():
        if name.endswith("_ties"):
            continue
        total, count = (sum(column) for column in zip(*pairs, strict=True))
        counts = at(table, f"{name.removesuffix('_hits')}_count", head)
        assert float(counts) == count, (name, head)
        mean = total / count if count else np.nan
        off = atol
        if name.endswith("_hits") and count:  # rounding decides a tie
            off += sum(tied for tied, _ in sums[name.replace("_hits", "_ties"), head]) / count
        np.testing.assert_allclose(at(table, name, head), mean, atol=off, err_msg=f"{name} {head}")


def assert_maps_are(table: xr.Dataset, records: list[hw.Record]) -> None:
    """What each position receives and the pooled maps are what the records give."""
    positions, side = table.sizes["position"], table.sizes["query_cell"]
    for head in records[0].heads():
        got, by = np.zeros(positions), np.zeros(positions)
        pooled, most = np.zeros((side, side)), np.zeros((side, side))
        texts = np.zeros(side)
        for record in records:
            weights, seen = record.weights(head), record.visible(head)
            n, keys = weights.shape
            first = min(positions, keys)
            got[:first] += weights.sum(0)[:first]
            by[:first] += seen.sum(0)[:first]
            q, k = np.arange(n) * side // n, np.arange(keys) * side // keys
            one = np.zeros((side, side))
            np.add.at(one, (q[:, None], k[None]), weights)
            np.maximum.at(most, (q[:, None], k[None]), weights)
            rows = np.bincount(q, minlength=side)
            pooled += one / rows.clip(1)[:, None]
            texts += rows > 0
        with np.errstate(invalid="ignore"):
            np.testing.assert_allclose(at(table, "received", head), got / by, atol=1e-4)
            np.testing.assert_allclose(
                at(table, "pooled", head), pooled / texts[:, None], atol=1e-4
            )
        np.testing.assert_allclose(at(table, "received_count", head), by)
        expected = np.where(texts[:, None] > 0, most, np.nan)
        np.testing.assert_allclose(at(table, "pooled_max", head), expected, atol=1e-4)


def assert_same(one: xr.Dataset, other: xr.Dataset, *, rtol=1e-6, atol=1e-6) -> None:
    """Two tables hold the same numbers, whatever their attrs."""
    assert set(one.data_vars) == set(other.data_vars)
    for name in one.data_vars:
        np.testing.assert_allclose(one[name], other[name], rtol=rtol, atol=atol, err_msg=str(name))
