"""The lab on a terminal: the claims, one claim with its table and verdict, two runs side by side."""

from __future__ import annotations

from rich import box
from rich.cells import cell_len
from rich.console import Group, RenderableType
from rich.table import Table as RichTable
from rich.text import Text

from headwise.lab.agreeing import Agreement
from headwise.lab.claim import Claim
from headwise.lab.running import Run
from headwise.lab.words import Language
from headwise.show.lab.tables import Table, results_table
from headwise.show.lab.wording import SAYS, finding_told, kind_told

__all__ = ["agreement_shown", "claim_shown", "run_shown", "table_shown"]


def claim_shown(claim: Claim, language: Language) -> RenderableType:
    """What it says, and what is measured; its formula is TeX, which reports draw and a terminal can not."""
    asks = SAYS["asks"].of(language)
    return Group(
        Text(f"{claim.row}  {claim.title.of(language)}", "bold"),
        Text(claim.says.of(language)),
        Text(),
        Text(f"{asks}: {claim.asks.of(language)}"),
        Text(),
    )


def run_shown(run: Run, language: Language, width: int) -> RenderableType:
    """The table, the verdict and the figures it rests on, in so many cells."""
    verdict = run.verdict()
    told = Text(f"{SAYS['verdict'].of(language)}: {kind_told(verdict.kind, language)}. ", "bold")
    told.append(verdict.says.of(language), "not bold")
    findings = [Text(f"  {finding_told(finding, language)}") for finding in verdict.findings]
    table = table_shown(results_table(run, language), width)
    return Group(table, Text(SAYS["interval"].of(language), "dim"), Text(), told, *findings, Text())


def agreement_shown(
    one: Run, other: Run, found: Agreement, table: Table, language: Language, width: int
) -> RenderableType:
    """Both verdicts, and each figure in both runs, in so many cells."""
    kinds = [kind_told(run.verdict().kind, language) for run in (one, other)]
    claim = one.claim
    heading = Text(f"{claim.row}  {claim.name}: {kinds[0]} / {kinds[1]}", "bold")
    parts: list[RenderableType] = [heading, table_shown(table, width)]
    alone = [name for name in found.differing if name not in {a.name for a, _ in found.pairs}]
    if alone:
        only = "only in one of them" if language == "en" else "只在其中一次运行中"
        parts.append(Text(f"  {', '.join(alone)}: {only}"))
    return Group(*parts, Text())


def table_shown(table: Table, width: int) -> RenderableType:
    """A table without lines, numbers to the right; a list of its rows where it is wider than that many cells."""
    columns = zip(table.headings, *table.rows, strict=True)
    needed = sum(max(map(cell_len, column)) + 2 for column in columns)
    return _listed(table) if needed > width and len(table.headings) > table.left else _drawn(table)


def _drawn(table: Table) -> RenderableType:
    drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for number, heading in enumerate(table.headings):
        left = number < table.left
        drawn.add_column(Text(heading), justify="left" if left else "right", overflow="fold")
    for row in table.rows:
        drawn.add_row(*(Text(cell) for cell in row))
    return drawn


def _listed(table: Table) -> RenderableType:
    """Each row under what it is of, a line for each number."""
    parts: list[RenderableType] = []
    for row in table.rows:
        of = zip(table.headings[: table.left], row, strict=False)
        parts.append(Text(", ".join(f"{name} {cell}" for name, cell in of), "bold"))
        numbers = RichTable.grid(padding=(0, 2, 0, 0))
        for name, cell in zip(table.headings[table.left :], row[table.left :], strict=True):
            numbers.add_row(Text(f"  {name}"), Text(cell))
        parts.append(numbers)
    return Group(*parts)
