"""The rows of a sweep as words and as a Markdown table."""

from __future__ import annotations

from collections.abc import Sequence

from explained import explained
from one import Row

from headwise.check.telling.report import DIMENSIONS

_WORST = ("leak", "differs", "unknown", "clean", "skipped")
_SHORT = {"clean": "ok", "skipped": "", "unknown": "?", "leak": "LEAK", "differs": "differs"}


def short(row: Row) -> str:
    """One line of progress."""
    if not row.get("outcomes"):
        return f"{row['type']}: {row['why']}"
    told = ", ".join(f"{name} {cell(row, name)}" for name in unclean(row))
    after = f" ({row['why']})" if row.get("why") else ""
    return f"{row['type']}: {told or 'clean'}{after}, {row['seconds']:g} s, {row.get('dtype')}"


def done(row: Row, dimensions: Sequence[str] | None) -> bool:
    """Whether a row holds all these dimensions (None = all), or says why it never will."""
    held = {outcome["dimension"] for outcome in row.get("outcomes", [])}
    return (bool(row) and not row["built"]) or set(dimensions or DIMENSIONS) <= held


def unclean(row: Row) -> list[str]:
    """The dimensions in which it is not clean."""
    return [name for name in DIMENSIONS if worst(row, name) not in ("clean", "skipped")]


def worst(row: Row, dimension: str) -> str:
    """The worst verdict of a dimension, "skipped" where it was not looked at."""
    found = [o["verdict"] for o in row.get("outcomes", []) if o["dimension"] == dimension]
    return min(found, key=_WORST.index, default="skipped")


def cell(row: Row, dimension: str) -> str:
    """The worst verdict with the cases and strength that have it."""
    verdict = worst(row, dimension)
    if verdict in ("clean", "skipped"):
        return _SHORT[verdict]
    found = [o for o in row["outcomes"] if o["dimension"] == dimension and o["verdict"] == verdict]
    cases = ", ".join(o["case"] or "plain" for o in found) if found[0]["case"] else ""
    strength = max((o["strength"] or 0.0) for o in found)
    size = f" {strength:.0e}" if strength else ""
    return f"{_SHORT[verdict]}{size}" + (f" ({cases})" if cases else "")


def about(rows: Sequence[Row], release: str) -> str:
    """The head of the page, with the counts."""
    run = [row for row in rows if row.get("outcomes")]
    bad = [row for row in run if unclean(row)]
    return (
        f"# hw.audit over the causal language models of transformers {release}\n\n"
        f"{len(rows)} types, {len(run)} built and audited: {len(run) - len(bad)} clean, {len(bad)} not, "
        "each of which is explained below. LEAK: an edit moved what it must not. differs: two ways to run "
        "that must agree do not. ?: it could not be told. Empty: it does not apply, or the model cannot be asked."
    )


def lines(rows: Sequence[Row], release: str) -> list[str]:
    """The table, then why each row that is not clean is not."""
    held = ["| type | class | layers | dtype | " + " | ".join(DIMENSIONS) + " |"]
    held.append("|---" * (4 + len(DIMENSIONS)) + "|")
    for row in rows:
        if row.get("outcomes"):
            cells = " | ".join(cell(row, name) for name in DIMENSIONS)
            layers = ", ".join(row["layers"])
            held.append(
                f"| {row['type']} | {row['class']} | {layers} | {row.get('dtype')} | {cells} |"
            )
        else:
            held.append(f"| {row['type']} | {row['class']} | not run: {row['why']} |" + " |" * 11)
    return (
        held
        + ["", "What is not clean, and why:", ""]
        + [
            f"- **{row['type']}**, {name}: {explained(row, name, release)}"
            for row in rows
            for name in DIMENSIONS
            if worst(row, name) not in ("clean", "skipped")
        ]
    )
