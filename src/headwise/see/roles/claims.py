"""roles: from the evidence in profiles to what each head is.

A probe's baseline is the largest of the scores of rules that take no knowledge of the text: looking evenly over
what may be seen, the best fixed offset (the one that names most cases, fitted on the very half it is compared on,
which favours it), and the probe's own rival where it has one (even pace, of an alignment). Heads are candidates
where they beat it on one half of the texts, and judged on the other alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import xarray as xr

from headwise.names import ConfigError, ModelError
from headwise.see.profile.evidence import FAR
from headwise.see.profile.tally import LEAST_TEXTS
from headwise.see.roles.role import Roles

__all__ = ["ADVICE", "RULE", "roles"]

RULE = (
    "a head has a role where its score in the reporting half of the texts beats the baseline by more than chance: "
    "the low end of its interval (Student's t over texts at 1 - level / (2 tried), which allows for all pairs of "
    "probe and head tried; the error no smaller than that of as many draws at the baseline) is above the "
    "largest of the baselines; and it goes a notable part of the way from there to 1, "
    "`least` or more; tried are the heads that beat the baseline in the choosing half"
)

ADVICE = "give more texts"
"""What a note on too few texts ends in."""

_CHOOSING, _REPORTING = "choosing", "reporting"
_DIMS = ("probe", "layer", "head")
_KEPT = ("mass", "hits", "unseen", "texts", "freedom")
_SAYS = {
    "score": "mean attention to the keys named, or share of hits, as `by` says; reporting half",
    "chosen": "the score in the choosing half",
    "low": "low end of the 95 % interval of the score, Student's t over texts",
    "high": "high end of the 95 % interval of the score, Student's t over texts",
    "sure": "low end of the interval widened for all that were tried",
    "mass": "mean attention to the keys named; reporting half",
    "hits": "share of cases whose most attended key is one of those named; reporting half",
    "baseline": "the largest score of a rule that takes no knowledge of the text; reporting half",
    "baseline_is": "which rule that is",
    "cases": "cases in the reporting half",
    "unseen": "cases of the reporting half left out, since nothing they name may be seen",
    "texts": "texts of the reporting half with a case",
    "tested": "whether it beat the baseline in the choosing half, and has an interval",
    "claimed": "whether it is a role",
}


def roles(
    table: xr.Dataset | Sequence[xr.Dataset], *, level: float = 0.05, least: float = 0.1
) -> Roles:
    """What each head is: the probes on which it beats the baseline beyond chance, with the evidence.

    Args:
        table: from `profile`, or several of the same model with different probes (of a corpus, of random tokens).
        level: the chance of one false claim or more among all that are tried (Bonferroni).
        least: how much of the way from the baseline to 1 a score must go to be a role; with many texts the least
            leaning is sure, of untrained weights too.

    Returns:
        Roles: `claimed`, `best(probe)`, `of(head)`, and the evidence of every pair of probe and head.

    Raises:
        ModelError: tables of different models.
        ConfigError: no table, one that is no profile or holds no probe, one probe in two of them, or a level or
            least that is no share.
    """
    many = isinstance(table, Iterable) and not isinstance(table, xr.Dataset)
    tables: list[Any] = list(table) if many else [table]
    _check(tables, level, least)
    joined = xr.concat([_evidence(one) for one in tables], "probe", combine_attrs="drop")
    judged = _judged(joined, level, least)
    judged.attrs = {
        "model": tables[0].attrs["model"],
        "level": level,
        "least": least,
        "tried": int(judged["tested"].sum()),
        "claims": int(judged["claimed"].sum()),
        "rule": RULE,
        "texts": [int(one.attrs["texts"]) for one in tables],
        "tokens": [int(one.attrs["tokens"]) for one in tables],
        "halves": [_halves(one) for one in tables],
        "notes": _notes(tables),
    }
    for name, says in _SAYS.items():
        judged[name].attrs = {"long_name": says}
    return Roles(judged)


def _evidence(table: xr.Dataset) -> xr.Dataset:
    """Scores and baselines of both halves, over (probe, layer, head)."""

    def of(name: str, half: str, dims: tuple[str, ...] = _DIMS) -> np.ndarray:
        values: np.ndarray = table[f"probe_{name}"].sel(half=half).transpose(*dims).values
        return values

    by_mass = (table["probe_by"].values.astype(str) == "mass")[:, None, None]
    fixed = table["probe_fixed"].values.astype(bool)[:, None, None]
    rival = table["probe_rival_share"].values[:, None, None]
    found: dict[str, np.ndarray] = {}
    for half, name in ((_REPORTING, ""), (_CHOOSING, "_chosen")):
        share = of("offset_share", half, _DIMS[:2])[..., None]
        uniform, share = of("uniform", half), np.where(fixed & ~np.isnan(share), share, 0.0)
        found[f"score{name}"] = np.where(by_mass, of("mass", half), of("hits", half))
        found[f"baseline{name}"] = np.fmax(np.maximum(uniform, share), rival)
    offset = of("offset", _REPORTING, _DIMS[:2])[..., None]
    found["baseline_is"] = _names(table, found["baseline"], of("uniform", _REPORTING), offset)
    found["error"] = np.where(by_mass, of("mass_error", _REPORTING), of("hits_error", _REPORTING))
    found |= {name: of(name, _REPORTING) for name in _KEPT}
    found["cases"] = of("count", _REPORTING)
    found["chosen"] = found.pop("score_chosen")
    coords: dict[str, Any] = {name: table[name].values for name in _DIMS}
    for name, kind in (("by", str), ("level", str), ("says", str), ("fixed", bool)):
        coords[name] = ("probe", table[f"probe_{name}"].values.astype(kind))
    coords["kv_group"] = (("layer", "head"), table["kv_group"].values)
    return xr.Dataset({name: (_DIMS, x) for name, x in found.items()}, coords)


def _names(
    table: xr.Dataset, baseline: np.ndarray, uniform: np.ndarray, offset: np.ndarray
) -> np.ndarray:
    """Which rule each baseline is."""
    rivals = [str(name) for name in table["probe_rival"].values]
    shares = table["probe_rival_share"].values
    found = np.full(baseline.shape, "uniform", dtype=object)
    for p, layer, head in np.argwhere(baseline > uniform).tolist():
        step = offset[p, layer, 0]
        of_rival = baseline[p, layer, head] == shares[p]
        found[p, layer, head] = rivals[p] if of_rival else said_offset(step)
    return found.astype(str)


def said_offset(offset: float) -> str:
    """A fixed offset in words."""
    if abs(offset) == FAR:
        return "the last" if offset > 0 else "the first"
    return f"offset {int(offset):+d}"


def _judged(evidence: xr.Dataset, level: float, least: float) -> xr.Dataset:
    """With intervals, and which heads are claimed."""
    from scipy.special import stdtrit  # here: it takes a while to import

    score, error, baseline = (evidence[n].values for n in ("score", "error", "baseline"))
    freedom, texts = evidence["freedom"].values, evidence["texts"].values
    tested = (evidence["chosen"].values > evidence["baseline_chosen"].values) & ~np.isnan(error)
    with np.errstate(invalid="ignore", divide="ignore"):
        chance = np.sqrt((baseline * (1 - baseline)).clip(0) / evidence["cases"].values)
    plain = stdtrit(freedom, 0.975) * error
    tail = level / (2 * max(1, int(tested.sum())))
    sure = score - stdtrit(freedom, 1 - tail) * np.fmax(error, chance)
    low, high = (score - plain).clip(0, 1), (score + plain).clip(0, 1)
    draws = np.clip(freedom + 1, 1, np.maximum(texts, 1))  # for Clopper & Pearson 1934
    all_hit, none_hit = (error == 0) & (score == 1), (error == 0) & (score == 0)
    low = np.where(all_hit, 0.025 ** (1 / draws), low)
    high = np.where(none_hit, 1 - 0.025 ** (1 / draws), high)
    sure = np.where(all_hit, np.fmin(sure, tail ** (1 / draws)), sure)
    with np.errstate(invalid="ignore", divide="ignore"):
        notable = score - baseline >= least * (1 - baseline)
    judged = evidence.drop_vars(["error", "baseline_chosen", "freedom"])
    return judged.assign(
        low=(_DIMS, low),
        high=(_DIMS, high),
        sure=(_DIMS, np.where(np.isnan(error), np.nan, sure.clip(0, 1))),
        tested=(_DIMS, tested),
        claimed=(_DIMS, tested & (sure > baseline) & notable),
    )


def _halves(table: xr.Dataset) -> list[int]:
    """How many texts the choosing and the reporting half hold, by the probe that has most of them."""
    texts = table["probe_texts"].sel(half=[_CHOOSING, _REPORTING])
    return [int(n) for n in texts.max([*_DIMS]).fillna(0).values]


def _notes(tables: Sequence[xr.Dataset]) -> list[str]:
    """A line for each reason why probes could not be judged."""
    few, ahead, none = list[str](), list[str](), list[str]()
    for table in tables:
        over = ("layer", "head")
        texts = table["probe_texts"].max(over).min("half").values
        cases = table["probe_count"].max(over).sum("half").values
        unseen = table["probe_unseen"].max(over).sum("half").values
        names = table["probe"].values.tolist()
        for name, t, c, u in zip(names, texts, cases, unseen, strict=True):
            if not c > 0:
                (ahead if u > 0 else none).append(str(name))
            elif t < LEAST_TEXTS:
                few.append(str(name))
    found = []
    if few:
        found.append(
            f"{_list(few)}: fewer than {LEAST_TEXTS} texts in a half, so no role is claimed; {ADVICE}"
        )
    if ahead:
        found.append(f"{_list(ahead)}: what is named lies ahead, where this model may not look")
    if none:
        found.append(f"{_list(none)}: no case in these texts")
    return found


def _list(names: Sequence[str], most: int = 6) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _check(tables: Sequence[Any], level: float, least: float) -> None:
    if not 0 < level < 1:
        raise ConfigError(f"level must be a share between 0 and 1, came {level}")
    if not 0 <= least < 1:
        raise ConfigError(f"least must be a share from 0 to below 1, came {least}")
    if not tables:
        raise ConfigError("there is no table; give one from profile(model, texts)")
    for table in tables:
        if not isinstance(table, xr.Dataset) or "probe_mass" not in table:
            raise ConfigError(
                "roles takes tables from profile(model, texts, probes=[...]); came "
                + ("one without probes" if isinstance(table, xr.Dataset) else type(table).__name__)
            )
    first = tables[0]
    for table in tables[1:]:
        if table.attrs["model"] != first.attrs["model"] or not _same_heads(table, first):
            raise ModelError(
                f"the tables are of different models, {first.attrs['model']} and {table.attrs['model']}; "
                "give those of one"
            )
    names = [str(name) for table in tables for name in table["probe"].values]
    twice = [name for name in dict.fromkeys(names) if names.count(name) > 1]
    if twice:
        raise ConfigError(
            f"the probe {twice[0]!r} is in two tables; profile its texts together, or give it another name in one"
        )


def _same_heads(one: xr.Dataset, other: xr.Dataset) -> bool:
    names = ("layer", "head", "kv_group")
    return all(np.array_equal(one[name].values, other[name].values) for name in names)
