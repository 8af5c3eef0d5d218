"""The site: README, the guides and the reference, in the language of the build.

    make docs                # both builds into build/site, English at its root, Chinese in zh-CN/
    make docs LINKS=1        # external links are fetched too

The sources are the files of the repository as they lie, so a link works there and on the site alike. `site/` holds
what Sphinx is taught beside: signatures as they are written, links into the other language, formulas, search.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path[:0] = [str(DOCS / "site"), str(ROOT / "src")]

from contents import LANGUAGES, SHARED, toctrees  # noqa: E402

import headwise  # noqa: E402

site_language = os.environ.get("SITE_LANGUAGE", "en")
language = site_language.replace("-", "_")  # as Sphinx writes it
here = LANGUAGES[site_language]

project = "headwise"
version = release = headwise.__version__
copyright = "the authors of headwise"
root_doc = here.start
include_patterns = [f"{here.start}.md", f"{here.folder}/*.md", *SHARED]
exclude_patterns = [".*", "build", "dist", "src", "tests", "kernel"]
extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx_copybutton",
    "crossing",
    "docstrings",
    "formulas",
    "searching",
]
start_toctrees = toctrees(ROOT, here)

nitpicky = True
smartquotes_action = "D"  # dashes alone: quotation marks stay as they are typed
nitpick_ignore_regex = [("py:class", ".*")]  # a type in a signature need not be in the reference
default_role = "code"
highlight_language = "text"
myst_heading_anchors = 4
myst_enable_extensions = ["dollarmath", "html_image"]
myst_dmath_allow_space = False  # as GitHub and the lab's reports read it
html_math_renderer = "mathml"
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_preserve_defaults = True
autodoc_typehints_format = "short"
autodoc_inherit_docstrings = False
python_maximum_signature_line_length = 88
add_module_names = False
toc_object_entries_show_parents = "hide"
copybutton_exclude = ".linenos, .gp, .go"

html_theme = "furo"
html_title = "headwise"
html_copy_source = False
html_show_sphinx = False
templates_path = ["site/templates"]
html_static_path = ["site/static"]
html_css_files = ["site.css"]
html_additional_pages = {"index": "index.html"}
html_sidebars = {
    "**": [
        "sidebar/brand.html",
        "language.html",
        "sidebar/search.html",
        "sidebar/scroll-start.html",
        "sidebar/navigation.html",
        "sidebar/scroll-end.html",
    ]
}
