"""The first page says where the project is, whether or not it has a public address."""

import pytest
import yaml

from publish import citation, paper_pages
from publish.paper_pages import PaperPages


def test_a_known_address_is_cloned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("REPOSITORY_URL", "https://git.example.org/group/name.git")
    text = PaperPages.get_it()
    assert "git clone --depth 1 https://git.example.org/group/name.git \\\n  && cd name" in text
    lines = text.splitlines()
    assert not [line for line in lines if "#" in line.lstrip("#")], "a comment has its own line"
    assert "make reproduce" in text
    assert paper_pages.ARCHIVE not in text


def test_without_an_address_a_reader_learns_how_a_copy_is_made_and_no_address_is_invented(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(paper_pages, "clone_address", lambda: "")
    text = PaperPages.get_it()
    assert "names no public address" in text
    assert "git archive" in text
    assert f"tar xzf {paper_pages.ARCHIVE}" in text
    assert "make book" in text
    assert "REPOSITORY_URL=" in text
    assert "github.com" not in text


def test_the_first_page_gives_the_version_and_a_bibtex_entry_of_the_citation_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("REPOSITORY_URL", "https://git.example.org/group/name.git")
    book = yaml.safe_load(citation.CITATION.read_text("utf-8"))
    text = PaperPages.citation()
    assert f"version {book['version']}." in text
    assert f"  note = {{Version {book['version']}}}" in text
    assert f"  title = {{{{{book['title']}}}}}" in text
    assert "  url = {https://git.example.org/group/name}" in text


def test_a_bibtex_entry_escapes_what_means_something_to_latex(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(citation, "clone_address", lambda: "")
    authors = [{"given-names": "A", "family-names": "B"}, {"name": "R&D"}]
    book = {"title": "50 % more: x", "version": 2, "authors": authors}
    entry = citation.bibtex(book | {"date-released": "2026-01-02"})
    assert entry.startswith("@misc{50-more,\n")
    assert r"50 \% more" in entry
    assert r"{A B and R\&D}" in entry
    assert "year = {2026}" in entry
    assert "url" not in entry
