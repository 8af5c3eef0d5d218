"""A lesson: the prose that lies beside a claim, filled with what a run of it gave."""

from __future__ import annotations

import ast
import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import headwise.lab
from headwise.lab.running import Run
from headwise.lab.words import Language
from headwise.names import ConfigError
from headwise.show.lab.tables import Table, results_table
from headwise.show.lab.wording import SAYS, finding_told, kind_told

__all__ = ["code_of", "filled", "lesson", "lesson_text", "markdown_table"]

LESSONS = Path(headwise.lab.__file__).parent / "lessons"
PARTS = ("code", "table", "picture", "verdict", "findings")
"""What every lesson shows, each on a line of its own."""
_HOLE = re.compile(r"\{\{(\w+)\}\}")


def lesson(run: Run, language: Language, picture: str) -> str:
    """The Markdown of a claim's lesson, from the prose of that language.

    Args:
        run: whole, so that there is a verdict.
        language: of the lesson.
        picture: where the picture lies, as the text links to it.

    Raises:
        ConfigError: there is no such lesson, it lacks a part, or names what the run does not have.
    """
    claim = run.claim
    where, text = lesson_text(claim.name, language)
    lines = text.splitlines()
    lacking = [name for name in PARTS if f"{{{{{name}}}}}" not in lines]
    if lacking:
        holes = ", ".join(f"{{{{{name}}}}}" for name in lacking)
        raise ConfigError(f"{where} has no line {holes}; a lesson shows each of its parts")
    verdict = run.verdict()
    findings = "\n".join(f"- {finding_told(one, language)}" for one in verdict.findings)
    parts = {
        "code": f"```python shown\n{code_of(claim.measure)}\n```",
        "table": markdown_table(results_table(run, language)) + _note(language),
        "picture": f"![{claim.title.of(language)}]({picture})",
        "verdict": f"**{kind_told(verdict.kind, language).capitalize()}.** {verdict.says.of(language)}",
        "findings": findings,
    }
    return filled(text, {**_facts(run, language), **parts}, where)


def lesson_text(name: str, language: Language) -> tuple[Path, str]:
    """Where the prose of a lesson lies, and what it says.

    Raises:
        ConfigError: there is none.
    """
    where = LESSONS / language / f"{name}.md"
    try:
        return where, where.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigError(
            f"the lesson {where} cannot be read: {error.strerror}; every claim has one in each language"
        ) from None


def filled(text: str, parts: Mapping[str, str], where: Path) -> str:
    """A text with its {{holes}} filled.

    Raises:
        ConfigError: a hole that nothing fills.
    """
    unknown = sorted({name for name in _HOLE.findall(text) if name not in parts})
    if unknown:
        raise ConfigError(
            f"{where} asks for {', '.join(unknown)}, and there are {', '.join(sorted(parts))}"
        )
    return _HOLE.sub(lambda hole: parts[hole[1]], text)


def markdown_table(table: Table) -> str:
    """A table as GitHub and MyST read it."""
    rule = [":--" if number < table.left else "--:" for number in range(len(table.headings))]
    rows = [table.headings, rule, *table.rows]
    return "\n".join(
        f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |" for row in rows
    )


def code_of(measure: Callable[..., Any]) -> str:
    """The source of a claim's `measure`, behind all of its module that it uses, in the order of the file."""
    while isinstance(measure, functools.partial):
        measure = measure.func
    module = inspect.getmodule(measure)
    assert module is not None
    source = inspect.getsource(module)
    nodes = {name: node for node in ast.parse(source).body for name in _defined(node)}
    wanted: set[str] = set()
    todo = [measure.__name__]
    while todo:
        name = todo.pop()
        if name in nodes and name not in wanted:
            wanted.add(name)
            todo += [one.id for one in ast.walk(nodes[name]) if isinstance(one, ast.Name)]
    found = {nodes[name].lineno: nodes[name] for name in wanted}
    lines = source.splitlines()
    return "\n\n".join(_lines(lines, found[at]) for at in sorted(found))


def _lines(lines: list[str], node: ast.stmt) -> str:
    first = min((one.lineno for one in getattr(node, "decorator_list", [])), default=node.lineno)
    return textwrap.dedent("\n".join(lines[first - 1 : node.end_lineno]))


def _defined(node: ast.stmt) -> list[str]:
    """The names that a statement of a module defines; imports do not count."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.AnnAssign):
        return [node.target.id] if isinstance(node.target, ast.Name) else []
    if isinstance(node, ast.Assign):
        return [
            one.id
            for target in node.targets
            for one in ast.walk(target)
            if isinstance(one, ast.Name)
        ]
    return []


def _facts(run: Run, language: Language) -> dict[str, str]:
    """The claim's own; of `name_en` and `name_zh`, the one of this language is `name` too."""
    said = dict(run.claim.facts(run.results))
    ending = "_en" if language == "en" else "_zh"
    return said | {
        name.removesuffix(ending): value for name, value in said.items() if name.endswith(ending)
    }


def _note(language: Language) -> str:
    return f"\n\n{SAYS['interval'].of(language)}"
