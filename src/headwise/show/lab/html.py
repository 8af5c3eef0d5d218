"""A report as one HTML file that needs nothing beside it: for phones and large screens, by day and by night."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from pathlib import Path

from latex2mathml.converter import convert
from markdown_it import MarkdownIt
from markdown_it.token import Token
from mdit_py_plugins.dollarmath import dollarmath_plugin
from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexers import get_lexer_by_name
from pygments.util import ClassNotFound

from headwise.lab.words import Language

__all__ = ["page_of"]

_NUMBER = r"-?[\d.]+(?:e[-+]\d+)?"
_INTERVAL = re.compile(rf"(?<=\d )\[{_NUMBER}, {_NUMBER}\]")
"""What stands in one line, however narrow a cell is."""
_STYLE = Path(__file__).with_name("report.css")


def page_of(text: str, language: Language, pictures: dict[str, str] | None = None) -> str:
    """The page of a report.

    Args:
        text: its Markdown.
        language: of the page.
        pictures: the SVG of each picture that the text links to, by the link.
    """
    drawn = pictures or {}

    def image(reader: object, tokens: Sequence[Token], at: int, *others: object) -> str:
        return _image(drawn, tokens[at])

    reader = MarkdownIt("commonmark", {"highlight": _coloured, "html": False}).enable("table")
    reader.use(dollarmath_plugin, allow_space=False, renderer=_math)
    reader.add_render_rule("image", image)
    body = reader.render(text).replace("<table>", '<div class="wide"><table>')
    body = _INTERVAL.sub(
        r'<span class="interval">\g<0></span>', body.replace("</table>", "</table></div>")
    )
    title = html.escape(text.partition("\n")[0].lstrip("# "))
    style = "\n".join([_STYLE.read_text(encoding="utf-8"), _code_style()])
    return (
        f'<!doctype html>\n<html lang="{language}">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{title}</title>\n<style>\n{style}\n</style>\n</head>\n"
        f"<body>\n<main>\n{body}</main>\n</body>\n</html>\n"
    )


def _math(tex: str, how: dict[str, bool]) -> str:
    """MathML, which browsers draw by themselves."""
    return convert(tex, display="block" if how["display_mode"] else "inline")


def _image(pictures: dict[str, str], token: Token) -> str:
    """The picture itself in place of a link to it."""
    link, name = str(token.attrGet("src")), html.escape(token.content, quote=True)
    drawn = pictures.get(link)
    if drawn is None:
        return f'<img src="{html.escape(link, quote=True)}" alt="{name}">'
    svg = drawn[drawn.index("<svg") :].replace("<svg", f'<svg role="img" aria-label="{name}"', 1)
    return f"<figure>{svg}</figure>"


def _coloured(code: str, name: str, attributes: str) -> str:
    try:
        lexer = get_lexer_by_name(name or "text")
    except ClassNotFound:
        return ""
    return str(highlight(code, lexer, HtmlFormatter(nowrap=True)))


def _code_style() -> str:
    light = HtmlFormatter(style="default").get_style_defs("pre")
    dark = HtmlFormatter(style="github-dark").get_style_defs("pre")
    return f"{light}\n@media (prefers-color-scheme: dark) {{\n{dark}\n}}"
