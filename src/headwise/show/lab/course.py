"""The course: every lesson of a folder's runs in one Markdown file, with the verdicts on top."""

from __future__ import annotations

from collections.abc import Mapping

from mdit_py_plugins.anchors.index import slugify

from headwise.lab.agreeing import agreement
from headwise.lab.running import Run
from headwise.lab.words import Language
from headwise.show.lab.lesson import filled, lesson, lesson_text, markdown_table
from headwise.show.lab.report import again, claims_of, demoted, heading, quoted, sources
from headwise.show.lab.tables import verdicts_table
from headwise.show.lab.wording import SAYS, agreement_told, asked_told

__all__ = ["course_text"]


def course_text(
    runs: Mapping[str, Run],
    language: Language,
    *,
    pictures: str = "pictures",
    second: Mapping[str, Run] | None = None,
) -> str:
    """The Markdown of the course.

    Args:
        runs: whole ones, by the name of the claim, in order.
        language: of the course.
        pictures: the folder of the pictures, as the text links to it.
        second: other runs, held against the first ones.
    """
    found = {
        name: agreement(run, second[name])
        for name, run in runs.items()
        if second is not None and name in second
    }
    claims = claims_of(runs)
    table = verdicts_table(
        claims,
        runs,
        language,
        second=None if second is None else found,
        links={claim.name: f"#{slugify(heading(claim, language))}" for claim in claims},
    )
    where, text = lesson_text("index", language)
    first = next(iter(runs.values()))
    asked = {key: value for key, value in first.asked.items() if key not in ("claim", "row")}
    parts = {
        "verdicts": markdown_table(table),
        "asked": asked_told(asked, language),
        "minutes": f"{sum(row.seconds for run in runs.values() for row in run.results.rows) / 60:.0f}",
    }
    told = [filled(text, parts, where)]
    for run in runs.values():
        claim = run.claim
        told += [f"## {heading(claim, language)}", quoted(claim, language)]
        told.append(demoted(lesson(run, language, f"{pictures}/{claim.name}.svg")))
        if second is not None and claim.name in found:
            told.append(agreement_told(found[claim.name], second[claim.name], language))
        told += [f"### {SAYS['again'].of(language)}", again(run, language)]
        if claim.sources:
            told += [f"### {SAYS['sources'].of(language)}", sources(claim)]
    return "\n\n".join(told) + "\n"
