"""What the audit says in words of Python, in those of the command line."""

from __future__ import annotations

import re
from dataclasses import replace

from headwise.check.telling.report import Audit, Outcome

__all__ = ["as_options", "in_options"]

_OPTIONS = "layers|length|seed|draws|dtype|weights|mask"
_WORDS = (
    (r"\bpass (inputs|output)=", r'have a factory return (model, {"\1": ...}):'),
    (r"\): (that it reads|with an example)", r") \1"),
    (rf'\b({_OPTIONS})="(\w+)"', r"--\1 \2"),
    (r"\bdeclare masks\.(\w+)\(\)", r"declare --mask \1"),
    (rf"\bpass ({_OPTIONS})=", r"pass --\1"),
    (rf"(?<![-\w])({_OPTIONS}) must be\b", r"--\1 must be"),
    (rf"(?<![-\w])({_OPTIONS})=(\d+)\b", r"--\1 \2"),
    (rf"`({_OPTIONS})`", r"--\1"),
    (r"`dimensions`|\bpass dimensions=", "--dimension"),
)


def as_options(text: str) -> str:
    """A message with options in place of arguments: `--dtype float64` for dtype="float64"."""
    for pattern, said in _WORDS:
        text = re.sub(pattern, said, text)
    return text


def in_options(audit: Audit) -> Audit:
    """The audit with its notes and what it says of each outcome in words of the command line."""
    return replace(
        audit,
        outcomes=tuple(map(_outcome, audit.outcomes)),
        notes=tuple(map(as_options, audit.notes)),
    )


def _outcome(outcome: Outcome) -> Outcome:
    return replace(outcome, says=as_options(outcome.says), advice=as_options(outcome.advice))
