"""Looks a built site over: broken links, files from elsewhere, images without a text."""

from collections.abc import Iterator, Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

ELSEWHERE: Final = ("http:", "https:", "//")
LOADED_LINKS: Final = ("stylesheet", "preload", "modulepreload", "icon")
"""Kinds of links whose files a browser loads with the page."""


class PageLinks(HTMLParser):
    """Anchors, links and loaded files of one page."""

    def __init__(self, text: str) -> None:
        """Read a page."""
        super().__init__()
        self.ids: set[str] = set()
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.without_alt = 0
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note what a tag names, links and loads."""
        attributes = {name: value or "" for name, value in attrs}
        if "id" in attributes:
            self.ids.add(attributes["id"])
        if "src" in attributes:
            self.loads.add(attributes["src"])
        if tag == "a" and "href" in attributes:
            self.links.add(attributes["href"])
        if tag == "img" and "alt" not in attributes:
            self.without_alt += 1
        if tag == "link":
            self._add_link(attributes)

    def _add_link(self, attributes: Mapping[str, str]) -> None:
        """Note the file of a link that a browser loads with the page."""
        if attributes.get("rel") in LOADED_LINKS:
            self.loads.add(attributes.get("href", ""))


def check_site(site: Path) -> Iterator[str]:
    """Yield what is wrong with a built site."""
    pages = {}
    for path in site.rglob("*.html"):
        if not path.relative_to(site).parts[0].startswith("_"):
            pages[path] = PageLinks(path.read_text(encoding="utf-8"))
    for path, page in pages.items():
        for problem in _check_page(path, page, pages):
            yield f"{path.relative_to(site)}: {problem}"


def _check_page(path: Path, page: PageLinks, pages: Mapping[Path, PageLinks]) -> Iterator[str]:
    """Yield what is wrong with one page.

    Args:
        path: File of the page.
        page: Its links.
        pages: All pages of the site by their files.
    """
    if page.without_alt:
        yield f"{page.without_alt} images have no alternative text"
    for url in page.loads:
        if url.startswith(ELSEWHERE):
            yield f"asks another site for {url}"
    for url in {*page.links, *page.loads}:
        problem = _check_link(url, path, pages)
        if problem:
            yield f"{url} {problem}"


def _check_link(url: str, path: Path, pages: Mapping[Path, PageLinks]) -> str:
    """Return what is wrong with a link of a page, "" if nothing is."""
    parts = urlsplit(url)
    if url in ("", "#") or parts.scheme or url.startswith(ELSEWHERE):
        return ""
    target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
    if not target.exists():
        return "leads nowhere"
    has_filters = "=" in parts.fragment  # of the answer viewer
    if not parts.fragment or has_filters or target not in pages:
        return ""
    if unquote(parts.fragment) in pages[target].ids:
        return ""
    return "names a place that its page does not have"
