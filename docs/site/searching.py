"""Search in Chinese without a dictionary: every pair of neighbouring characters is a term, on both sides."""

from __future__ import annotations

import re
from typing import Any

from sphinx.application import Sphinx
from sphinx.search.zh import SearchChinese

PARTS = re.compile(r"[\u3400-\u9fff]+|[A-Za-z0-9_]+")


def setup(app: Sphinx) -> dict[str, Any]:
    """Put the pairs in the place of Sphinx's own Chinese, which needs jieba to find anything."""
    app.add_search_language(Pairs)
    return {"parallel_read_safe": True, "parallel_write_safe": True}


class Pairs(SearchChinese):
    """Chinese as pairs of characters, and Latin words stemmed as Sphinx does."""

    lang = "zh"
    language_name = "English"  # whose stemmer the script names: Sphinx 9.0 has none called Chinese
    js_splitter_code = """
function splitQuery(query) {
  const parts = query.match(/[\\u3400-\\u9fff]+|[A-Za-z0-9_]+/g) || [];
  return parts.flatMap((part) => {
    if (part.length < 3 || part.codePointAt(0) < 0x3400) return [part];
    return Array.from({ length: part.length - 1 }, (_, i) => part.slice(i, i + 2));
  });
}
"""

    def split(self, input: str) -> list[str]:
        """The terms of a text, in the order of `splitQuery`."""
        terms: list[str] = []
        for part in PARTS.findall(input):
            if part[0] >= "\u3400":
                terms += [part[i : i + 2] for i in range(max(1, len(part) - 1))]
            else:
                self.latin_terms.add(part)
                terms.append(part)
        return terms
