"""Links into the other language's build, a link to the twin of each page, and the start page's contents."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Any

from contents import LANGUAGES, Language
from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.osutil import relative_uri

LINKED_ONLY = ("benchmarks/results/", "evidence/")
"""Folders whose pages are reached by links, not by the sidebar."""


def setup(app: Sphinx) -> dict[str, Any]:
    """Connect to Sphinx; before its own collector of downloads takes a page of the other build for one."""
    app.add_config_value("start_toctrees", "", "env")
    app.connect("source-read", add_contents)
    app.connect("doctree-read", cross, priority=100)
    app.connect("html-page-context", add_twin)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def add_contents(app: Sphinx, page: str, text: list[str]) -> None:
    """Give the start page the tables of contents, which GitHub would show as code."""
    if page == app.config.root_doc:
        text[0] += "\n" + app.config.start_toctrees


def cross(app: Sphinx, tree: nodes.document) -> None:
    """Turn a link to a page that only the other build has into a link to that build."""
    page = app.env.current_document.docname
    if page.startswith(LINKED_ONLY):
        app.env.metadata[page]["orphan"] = True
    for node in list(tree.findall(addnodes.pending_xref)):
        name = node["reftarget"]
        other = _language_of(name)
        if node.get("refdomain") != "doc" or other is None or other is _here(app):
            continue
        anchor = f"#{node['reftargetid']}" if node.get("reftargetid") else ""
        uri = _between(app, page, other, name) + anchor
        node.replace_self(nodes.reference("", "", *node.children, refuri=uri, internal=True))


def add_twin(app: Sphinx, page: str, template: str, context: dict[str, Any], tree: Any) -> None:
    """Give the template the address of the page's twin, and the name of its language."""
    here = _here(app)
    other = next(x for x in LANGUAGES.values() if x is not here)
    name = _twin(page, here, other)
    if not (Path(app.srcdir) / f"{name}.md").exists():
        name = other.start
    context["twin"] = _between(app, page, other, name)
    context["twin_language"] = other.name
    context["start"] = f"{app.config.root_doc}.html"


def _twin(page: str, here: Language, other: Language) -> str:
    if page == here.start:
        return other.start
    path = PurePosixPath(page)
    return f"{other.folder}/{path.name}" if str(path.parent) == here.folder else page


def _between(app: Sphinx, page: str, other: Language, name: str) -> str:
    """A relative address from a page of this build to one of the other."""
    return relative_uri(f"{_here(app).site}{page}.html", f"{other.site}{name}.html")


def _language_of(name: str) -> Language | None:
    """Whose page of this name is, where it is one language's alone."""
    for each in LANGUAGES.values():
        if name == each.start or name.startswith(f"{each.folder}/"):
            return each
    return None


def _here(app: Sphinx) -> Language:
    return next(x for x in LANGUAGES.values() if x.start == app.config.root_doc)
