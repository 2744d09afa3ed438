"""The book as a PDF: the order of its pages, its outline, one page printed, what is said where no browser is."""

from __future__ import annotations

from typing import Any

import pytest
from pypdf import PdfReader, PdfWriter

from publish import doctor, pdf
from resources.settings import run_command_line

CONTENTS = {
    "root": "index",
    "parts": [
        {"caption": "Start", "chapters": [{"file": "how-to-read"}]},
        {
            "caption": "Chapters",
            "chapters": [{"file": "one", "sections": [{"file": "one-sample"}]}, {"file": "two"}],
        },
    ],
}


def sheet(path, n):
    """A PDF of n empty pages."""
    with PdfWriter() as writer:
        for _ in range(n):
            writer.add_blank_page(72, 72)
        writer.write(path)
    return path


def test_pages_come_in_the_order_of_the_contents():
    assert [page for _, page in pdf.pages(CONTENTS)] == [
        "index",
        "how-to-read",
        "one",
        "one-sample",
        "two",
    ]
    assert {part for part, _ in pdf.pages(CONTENTS)} == {"", "Start", "Chapters"}


def test_every_page_is_in_the_outline_under_its_part(tmp_path):
    printed = [
        (part, page, sheet(tmp_path / f"{page}.pdf", n))
        for n, (part, page) in enumerate(pdf.pages(CONTENTS), start=1)
    ]
    pdf.join(printed, tmp_path / "book.pdf")
    book = PdfReader(tmp_path / "book.pdf")
    assert len(book.pages) == 1 + 2 + 3 + 4 + 5
    outline: list[Any] = list(book.outline)
    titles = [item if isinstance(item, list) else item.title for item in outline]
    assert titles[0] == "index"
    assert [t for t in titles if isinstance(t, str)] == ["index", "Start", "Chapters"]
    assert [item.title for item in titles[-1]] == ["one", "one-sample", "two"]
    assert not list(tmp_path.glob("*.part"))


def test_without_a_browser_it_says_what_to_install(monkeypatch, capsys):
    monkeypatch.setattr(pdf, "browser", lambda: None)
    assert run_command_line(pdf.main) == 1
    assert "apt-get install chromium" in capsys.readouterr().err


def test_a_browser_that_does_not_print_is_an_error(tmp_path):
    with pytest.raises(pdf.PdfError, match="did not print"):
        pdf.print_page("/bin/false", tmp_path / "page.html", tmp_path / "page.pdf")


@pytest.mark.book
def test_a_page_is_printed_with_its_title(tmp_path):
    chromium = doctor.browser()
    if chromium is None:
        pytest.skip(
            "no Chromium on this machine: install it (apt-get install chromium) or name it in CHROMIUM"
        )
    page = tmp_path / "page.html"
    page.write_text("<title>A page</title><p>Ninety-nine per cent.</p>")
    pdf.print_page(chromium, page, tmp_path / "page.pdf")
    printed = PdfReader(tmp_path / "page.pdf")
    assert "Ninety-nine per cent." in printed.pages[0].extract_text()
    assert printed.metadata is not None
    assert printed.metadata.title == "A page"
