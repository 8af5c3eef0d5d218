"""The reports of a run: a claim in Markdown, and the index of a folder."""

from __future__ import annotations

import re
from collections.abc import Mapping

from headwise.lab.claim import Claim
from headwise.lab.running import Run
from headwise.lab.words import Language
from headwise.show.lab.lesson import lesson, markdown_table
from headwise.show.lab.tables import verdicts_table
from headwise.show.lab.wording import SAYS, asked_told

__all__ = [
    "again",
    "claims_of",
    "demoted",
    "heading",
    "index_text",
    "quoted",
    "report_text",
    "sources",
]


def report_text(run: Run, language: Language, picture: str) -> str:
    """The report of a claim: what it says, the lesson with what was measured, how to run it again.

    Args:
        run: whole.
        language: of the report.
        picture: where the picture lies, as the text links to it.
    """
    claim = run.claim
    parts = [
        f"# {heading(claim, language)}",
        quoted(claim, language),
        lesson(run, language, picture),
        f"## {SAYS['again'].of(language)}",
        again(run, language),
    ]
    if claim.sources:
        parts += [f"## {SAYS['sources'].of(language)}", sources(claim)]
    return "\n\n".join(parts) + "\n"


def heading(claim: Claim, language: Language) -> str:
    """Its row and title."""
    return f"{claim.row} · {claim.title.of(language)}"


def quoted(claim: Claim, language: Language) -> str:
    """What a claim says, its formula, and what is measured to answer it."""
    says = "\n".join(f"> {line}" for line in claim.says.of(language).splitlines())
    parts = [says]
    if claim.formula:
        parts.append(f"$$\n{claim.formula}\n$$")
    parts.append(f"**{SAYS['asks'].of(language)}**: {claim.asks.of(language)}")
    return "\n\n".join(parts)


def again(run: Run, language: Language) -> str:
    """The command that runs it again, and what this run was made with."""
    asked = run.asked
    options = [" --quick"] if asked.get("quick") else []
    options += [f" --seed {asked['seed']}"] if asked.get("seed") else []
    command = f"```bash shown\nheadwise lab {run.claim.name}{''.join(options)}\n```"
    stop = "." if language == "en" else "。"
    seconds = sum(row.seconds for row in run.results.rows)
    took = f"{seconds / 60:.1f}"
    time = f"; {took} minutes" if language == "en" else f";用时 {took} 分钟"
    return f"{command}\n\n{asked_told(asked, language)}{time}{stop}"


def sources(claim: Claim) -> str:
    """Papers, one a line."""
    return "\n".join(f"- {source}" for source in claim.sources)


def index_text(runs: Mapping[str, Run], language: Language, link: str) -> str:
    """The claims of a folder's runs with their verdicts, each linked to its report.

    Args:
        runs: by the name of the claim.
        language: of the index.
        link: the ending of the reports.
    """
    links = {name: f"{name}{link}" for name, run in runs.items() if run.whole}
    table = markdown_table(verdicts_table(claims_of(runs), runs, language, links=links))
    return f"# {SAYS['index'].of(language)}\n\n{table}\n"


def claims_of(runs: Mapping[str, Run]) -> list[Claim]:
    """The claims that were run, in order."""
    return [run.claim for run in runs.values()]


def demoted(text: str) -> str:
    """The same one level of headings down, but for what stands in fences of code."""
    fenced = False
    lines = []
    for line in text.splitlines():
        fenced ^= line.startswith("```")
        lines.append(re.sub(r"^(#+ )", r"#\1", line) if not fenced else line)
    return "\n".join(lines)
