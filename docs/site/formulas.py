"""Formulas as MathML, made while the site is built: browsers draw it without a script or a network."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx; `html_math_renderer = "mathml"` chooses it."""
    app.add_html_math_renderer("mathml", (write_inline, None), (write_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_inline(writer: Any, node: nodes.math) -> None:
    """A formula in a line."""
    _write(writer, node, "inline")


def write_block(writer: Any, node: nodes.math_block) -> None:
    """A formula on lines of its own."""
    _write(writer, node, "block")


def _write(writer: Any, node: nodes.Element, display: str) -> None:
    writer.body.append(convert(node.astext(), display=display))
    raise nodes.SkipNode
