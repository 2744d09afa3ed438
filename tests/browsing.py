"""A built book in a browser: serve it, open a page, and say what is wrong with pages."""

from __future__ import annotations

import contextlib
import functools
import http.server
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from playwright.sync_api import Browser, Page

WEIGHT = 2_000_000
"""Bytes that a page may load, all its files together."""

BROWSER_PATIENCE = 180_000.0
"""Milliseconds that a page may take to do what is waited for, for a busy machine."""

Theme = Literal["light", "dark"]


def empty_page(browser: Browser) -> Page:
    """A page of a window."""
    page = browser.new_page()
    page.set_default_timeout(BROWSER_PATIENCE)
    return page


@contextlib.contextmanager
def served(site: Path) -> Iterator[str]:
    """The address of a folder served on this machine, without a line of log for each request."""
    quiet = type("Quiet", (http.server.SimpleHTTPRequestHandler,), {"log_message": lambda *_: None})
    handler = functools.partial(quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@dataclass
class Visit:
    """What a page did while it was open."""

    page: Page
    errors: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    weight: int = 0

    def forget(self) -> None:
        """Begin anew, for the next page."""
        self.errors, self.elsewhere, self.missing, self.weight = [], [], [], 0


@contextlib.contextmanager
def watching(browser: Browser, home: str, *, width: int, theme: Theme) -> Iterator[Visit]:
    """An empty page of a window, watched from its first request on."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=theme)
    context.set_default_timeout(BROWSER_PATIENCE)
    page_visit = Visit(context.new_page())
    page_visit.page.on(
        "console",
        lambda message: page_visit.errors.append(message.text) if message.type == "error" else None,
    )
    page_visit.page.on("pageerror", lambda error: page_visit.errors.append(str(error)))
    page_visit.page.on(
        "request",
        lambda r: None if r.url.startswith((home, "data:")) else page_visit.elsewhere.append(r.url),
    )

    def weigh(response: Any) -> None:
        page_visit.weight += int(response.headers.get("content-length", 0))
        if response.status >= 400:
            page_visit.missing.append(response.url)

    page_visit.page.on("response", weigh)
    yield page_visit
    context.close()


@contextlib.contextmanager
def visit(
    browser: Browser, url: str, *, width: int = 1280, theme: Theme = "light"
) -> Iterator[Visit]:
    """A page, open and at rest."""
    with watching(browser, "/".join(url.split("/")[:3]), width=width, theme=theme) as page_visit:
        page_visit.page.goto(url)
        page_visit.page.wait_for_load_state("networkidle")
        yield page_visit


def faults(
    browser: Browser, address: str, pages: Iterable[str], *, width: int, theme: Theme
) -> list[str]:
    """What a reader would trip over on these pages of a site, each named."""
    problems: list[str] = []
    with watching(browser, address, width=width, theme=theme) as page_visit:
        for name in pages:
            page_visit.forget()
            page = page_visit.page
            page.goto(f"{address}/{name}", wait_until="load")
            wide = page.evaluate(
                "document.documentElement.scrollWidth - document.documentElement.clientWidth"
            )
            checks = {
                "errors in the console": page_visit.errors,
                "asks another site": page_visit.elsewhere,
                "files that are not there": page_visit.missing,
                "bytes, too many": page_visit.weight if page_visit.weight >= WEIGHT else 0,
                "another theme": page.evaluate("document.documentElement.dataset.theme") != theme,
                "no heading": not page.locator("h1").count(),
                "pixels wider than the screen": wide,
                "pictures without alternative text": page.locator("img:not([alt])").count(),
                "drawings without a label": page.locator("svg[role=img]:not([aria-label])").count(),
                "pictures that did not load": page.evaluate(
                    "[...document.images].filter((i) => !i.complete || !i.naturalWidth).length"
                ),
                "markup that was not understood": ":::" in page.inner_text("body"),
            }
            problems += [
                f"{name} ({width} px, {theme}): {check}: {value}"
                for check, value in checks.items()
                if value
            ]
    return problems
