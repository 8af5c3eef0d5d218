"""Docstrings as the house writes them, told to Sphinx: examples, bare names of errors, probes."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.ext.napoleon import Config, GoogleDocstring
from sphinx.pycode import ModuleAnalyzer

HOMES = (
    "headwise",
    "headwise.names",
    "headwise.masks",
    "headwise.nn",
    "headwise.probes",
    "headwise.lab.bench",
)
CODE = re.compile(r"(`+[^`]+`+)")


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx."""
    app.connect("autodoc-process-docstring", prepare)
    app.connect("autodoc-process-signature", leave_overloads)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def prepare(app: Sphinx, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """Turn indented examples into code, let `*` and `|` be themselves, and tell a probe by what it says."""
    says = getattr(value, "says", None)
    if what == "data" and isinstance(says, str):
        lines[:] = [f"{says[0].upper()}{says[1:]}."]
    told, inside = [], False
    for i, line in enumerate(lines):
        if _begins_example(lines, i):
            told += [".. code-block:: python", ""]
            inside = True
        inside = inside and (not line or line.startswith(" "))
        told.append(line if inside else _literal(line))
    kind = "object" if what in ("property", "attribute") else what  # else a colon would end a type
    config = Config(napoleon_use_rtype=False)
    lines[:] = GoogleDocstring(told, config, app, kind, name, value, options).lines()


def leave_overloads(app: Sphinx, what: str, name: str, value: Any, *_: Any) -> None:
    """Show the one signature with the shapes, not the overloads that type checkers read."""
    if what == "function":
        analyzer = ModuleAnalyzer.for_module(value.__module__)
        analyzer.analyze()
        analyzer.overloads.clear()


def _begins_example(lines: list[str], i: int) -> bool:
    """An indented line under a blank one, with a sentence (no section's entries) above."""
    above = next((x for x in reversed(lines[:i]) if x), "")
    return lines[i].startswith("    ") and i > 0 and not lines[i - 1] and above[:1] not in ("", " ")


def _literal(line: str) -> str:
    """The line with `*` and `|` escaped outside code."""
    parts = CODE.split(line)
    return "".join(x if x.startswith("`") else re.sub(r"([*|])", r"\\\1", x) for x in parts)


def resolve(
    app: Sphinx, env: Any, node: addnodes.pending_xref, shown: nodes.Element
) -> nodes.Element | None:
    """Where a bare name leads: one of the homes has it; else Sphinx says that it is missing."""
    if node.get("refdomain") != "py":
        return None
    target = node["reftarget"]
    if "." in target and not target.startswith("headwise."):
        return None
    domain, last = env.get_domain("py"), target.rpartition(".")[2]
    for home in HOMES:
        if f"{home}.{last}" in domain.objects:
            return domain.resolve_xref(
                env, node["refdoc"], app.builder, "obj", f"{home}.{last}", node, shown
            )
    return None
