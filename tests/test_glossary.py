"""The glossary that pages explain on hover."""

import json
from pathlib import Path

from publish import glossary
from publish.book import BOOK


def test_terms_are_read_with_their_meanings_as_plain_text(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n\nnot a term\n: not a meaning\n\n## Glossary\n\n"
        "HyDE\n: A search by a *document* that a\n  model writes {cite:p}`gao2022`.\n\n"
        "floor and ceiling\n: Two [arms](other.md) `x`.\n"
    )
    assert glossary.read_glossary(page) == {
        "HyDE": "A search by a document that a model writes.",
        "floor": "Two arms x.",
        "ceiling": "Two arms x.",
    }


def test_the_books_glossary_explains_the_words_that_pages_use() -> None:
    terms = glossary.read_glossary(BOOK / "how-to-read.md")
    assert {"cluster", "Holm", "HyDE", "BM25", "closed book"} <= set(terms)
    assert all(len(meaning) > 20 for meaning in terms.values())


def test_the_script_holds_the_glossary() -> None:
    script = glossary.glossary_script(BOOK / "how-to-read.md")
    data = script.removeprefix("window.ragGlossary = ").removesuffix(";\n")
    assert json.loads(data) == glossary.read_glossary(BOOK / "how-to-read.md")
