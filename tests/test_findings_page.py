"""Each finding of the page is there: what it quotes stands in the chapters."""

import json
import re

import pytest

from publish.book import BOOK
from resources.settings import NOTEBOOKS, ROOT

QUOTED = sorted(
    {
        quoted
        for page in BOOK.glob("*.md")
        for quoted in re.findall(r'exhibit\("(\w+)", "([^"]+)"\)', page.read_text("utf-8"))
    }
)


@pytest.mark.parametrize(("notebook", "beginning"), QUOTED)
def test_the_caption_that_a_page_quotes_is_written_by_its_chapter(notebook, beginning):
    cells = json.loads((NOTEBOOKS / f"{notebook}.ipynb").read_text("utf-8"))["cells"]
    code = "".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    modules = [path.read_text("utf-8") for path in (ROOT / "src/papers").rglob("*.py")]
    assert any(beginning in text for text in (code, *modules)), "the page would lose a finding"
