"""Follow every link of the built site: pages and anchors must be there, in both languages; others are listed.

    python docs/site/links.py build/site

Sphinx checks links within one build. This one reads what was written, so it sees the links between the two builds
and what templates write as well. External links are listed, not fetched: `make docs LINKS=1` has Sphinx fetch them.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LEFT_OUT = ("genindex.html", "py-modindex.html", "search.html")
ADDRESSES = {"a": "href", "img": "src", "link": "href", "script": "src"}


class Page(HTMLParser):
    """The links and the anchors of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: set[str] = set()
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep what the tag links to, and what can link to it."""
        given = dict(attrs)
        self.anchors |= {given[name] or "" for name in ("id", "name") if name in given}
        address = given.get(ADDRESSES.get(tag, ""))
        if address:
            self.links.add(address)


def follow(site: Path) -> tuple[list[str], dict[str, list[str]]]:
    """What is broken, a line each, and the external links with the pages that have them."""
    paths = [path for path in sorted(site.rglob("*.html")) if "_static" not in path.parts]
    pages = {path.resolve(): Page(path) for path in paths}
    broken, outside = [], defaultdict(list)
    for path, page in pages.items():
        name = path.relative_to(site.resolve()).as_posix()
        for link in sorted(page.links):
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                outside[link].append(name)
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            if not target.is_file():
                broken.append(f"{name}: {link} leads to no file")
            elif _lost(unquote(parts.fragment), target, pages):
                broken.append(f"{name}: {link} leads to no such place")
    return broken, dict(outside)


def _lost(anchor: str, target: Path, pages: dict[Path, Page]) -> bool:
    known = target in pages and target.name not in LEFT_OUT
    return bool(anchor) and known and anchor not in pages[target].anchors


def main() -> int:
    """Say what was found; 1 where a link is broken."""
    site = Path(sys.argv[1])
    broken, outside = follow(site)
    for link, pages in sorted(outside.items()):
        if link.startswith("http"):
            print(
                f"outside: {link} ({pages[0]}{f' and {len(pages) - 1} more' if pages[1:] else ''})"
            )
    for line in broken:
        print(f"broken: {line}", file=sys.stderr)
    count = sum(1 for _ in site.rglob("*.html"))
    print(f"{count} pages, {len(broken)} broken links")
    return 1 if broken or not count else 0


if __name__ == "__main__":
    sys.exit(main())
