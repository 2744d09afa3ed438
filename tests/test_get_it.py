"""The first page says where the project is, whether or not it has a public address."""

import pytest

from publish import paper_pages
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
    assert "knows no public address" in text
    assert "git archive" in text
    assert f"tar xzf {paper_pages.ARCHIVE}" in text
    assert "make book" in text
    assert "REPOSITORY_URL=" in text
    assert "github.com" not in text
