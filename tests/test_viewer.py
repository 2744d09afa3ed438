"""The page of the answers: filters by stratum and measure, released answers, order and names."""

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest
from playwright.sync_api import Browser, Page

from publish import viewer

REPOSITORY = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.book
ARMS = {"question": "Only question", "rag": "QA-RAG", "judge": "Judge"}
MODELS = ["released, gpt-3.5-turbo"]
MEASURES = {"precision": "precision", "recall": "recall"}
GOLD = "The sponsor should submit the data. " * 20
SCORES = [(0.0, 1.0), (0.5, 0.25), (0.75, 0.75)]
"""Precision of each arm on each question."""


def answer(arm: str, number: int, score: float) -> dict[str, Any]:
    """A released answer, whose recall only the first two questions have."""
    return {
        "arm": arm,
        "model": MODELS[0],
        "of": "",
        "repeat": 0,
        "said": f"Reply of {arm}",
        "read": f"Reply of {arm}",
        "score": score,
        "mark": f"precision {score:.2f}",
        "flags": [],
        "measures": [],
        "strata": {"holds": "nothing" if score < 0.5 else "a part"},
        "values": {"precision": score, **({"recall": 1 - score} if number < 2 else {})},
        "found": [],
        "asked": [],
    }


def scripts() -> dict[str, str]:
    """The scripts of a small experiment."""
    questions = viewer.QuestionList([*ARMS], MODELS, MEASURES)
    units = []
    for number, scores in enumerate(SCORES):
        unit = {
            "id": f"q{number}",
            "task": "contexts",
            "split": "test",
            "strata": {"own document": "not recognised" if number else "removed by the rule"},
            "question": f"What does guideline {number} ask for?",
            "gold": GOLD,
            "rows": [answer(arm, number, score) for arm, score in zip(ARMS, scores, strict=False)],
        }
        units.append(unit)
        questions.add(unit, part=0)
    ((part, _),) = viewer._parts(units)
    entry = {
        "name": "17_small",
        "title": "A small experiment",
        "paper": "Guidance",
        "arms": ARMS,
        "models": MODELS,
        "first": MODELS[0],
        "marks": ["precision"],
        "measures": MEASURES,
        "withheld": False,
    }
    files = {"answers/17_small-0.js": f"ANSWERS.part({json.dumps('17_small')}, 0, {part});\n"}
    return files | questions.scripts("17_small") | viewer.index([entry])


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    """The page of the answers with these scripts alone."""
    for name, text in scripts().items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    for name in ("viewer.js", "book.css"):
        shutil.copy(REPOSITORY / "book" / "assets" / name, tmp_path)
    (tmp_path / "answers.html").write_text(
        '<meta charset="utf-8"><link rel="stylesheet" href="book.css"><p id="rag-viewer-build"></p>'
        '<div id="rag-viewer"></div><script src="viewer.js"></script>'
    )
    page = browser.new_page()
    page.set_default_timeout(10_000)
    errors: list[str] = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    yield page
    page.close()
    assert not errors


def visit(page: Page, folder: Path, **filters: str) -> str:
    """Open what an address selects; return what the page says of it."""
    address = urlencode({"nb": "17_small", **filters})
    page.goto(f"{(folder / 'answers.html').as_uri()}#{address}")
    page.reload()
    page.locator("article h2, .rag-nothing").first.wait_for()
    return page.locator("output").inner_text()


def test_an_address_selects_rows_and_a_measure_and_the_page_names_both(
    page: Page, tmp_path: Path
) -> None:
    both = {"arm": "rag", "against": "question"}
    shown = visit(page, tmp_path, **both)
    assert re.match(r"3 of 3 questions; measure: precision; the largest difference", shown)
    shown = visit(page, tmp_path, **both, rows="task: contexts; own document: not recognised")
    assert shown.startswith("2 of 2 questions; retrieved passages; ")
    assert "the question's own document: not recognised by the authors' rule" in shown
    shown = visit(page, tmp_path, **both, measure="recall")
    assert shown.startswith("2 of 2 questions; measure: recall; the largest difference")
    assert page.locator(".rag-scores").first.inner_text() == "QA-RAG 0.00, Only question 1.00"
    facts = page.locator(".rag-answered .rag-facts").first.inner_text()
    assert re.search(r"Recall\s+0\.00", facts), "the card says the value that is sorted by"
    assert visit(page, tmp_path, arm="question", rows="holds: nothing").startswith("1 of 1 ")
    visit(page, tmp_path, arm="rag", rows="holds: everything")
    page.get_by_role(
        "link", name="Lift “Rows: The passages hold, word for word: everything”"
    ).click()
    page.locator("output", has_text="3 of 3 questions").wait_for()


def test_the_menus_offer_the_strata_and_the_measures(page: Page, tmp_path: Path) -> None:
    visit(page, tmp_path, arm="rag")
    page.get_by_label("Rows").select_option(label="The passages hold, word for word: a part")
    page.locator("output", has_text="2 of 2 questions").wait_for()
    page.get_by_label("Measure").select_option(label="recall")
    page.locator("output", has_text="1 of 1 questions").wait_for()
    assert "measure=recall" in page.url


def test_a_chapter_without_answers_is_named_and_rows_without_answers_are_not_offered(
    page: Page, tmp_path: Path
) -> None:
    visit(page, tmp_path, nb="99_none")
    assert "No chapter “99_none” has answers here." in page.get_by_role("status").first.inner_text()
    visit(page, tmp_path, arm="question")
    assert page.locator("#rag-viewer > p[role=status]").count() == 0
    assert page.get_by_label("Rows").count() == 1
    visit(page, tmp_path, arm="judge")
    assert page.get_by_label("Rows").count() == 0


def test_a_released_answer_says_what_it_lacks_and_the_chosen_arm_is_first(
    page: Page, tmp_path: Path
) -> None:
    visit(page, tmp_path, arm="rag", against="question", show="all")
    headings = page.locator(".rag-answered h3").all_inner_texts()
    assert [heading.split(" precision")[0] for heading in headings] == ["QA-RAG", "Only question"]
    first = page.locator(".rag-answered").first
    assert "The authors released the answer alone, without prompt" in first.inner_text()
    assert first.locator(".rag-verdict").get_attribute("data-verdict") == "scored"
    mark = "(e) => getComputedStyle(e, '::before').display"
    assert first.locator(".rag-verdict").evaluate(mark) == "none"
    assert "chapters 17" in page.locator("#rag-viewer-build").inner_text()


def test_a_long_true_answer_is_folded_and_has_the_width_of_a_phone(
    page: Page, tmp_path: Path
) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    visit(page, tmp_path, arm="rag")
    folded = page.locator(".rag-gold")
    assert GOLD.strip() not in folded.inner_text()
    answered = page.locator(".rag-question > .rag-facts > dd").first
    weight = answered.evaluate("(e) => getComputedStyle(e).fontWeight")
    assert int(weight) < 600
    box, frame = answered.bounding_box(), page.locator(".rag-question").bounding_box()
    assert box
    assert frame
    assert box["width"] > 0.95 * frame["width"]
    folded.locator("summary").click()
    assert GOLD.strip() in folded.inner_text()


def test_a_released_yes_or_no_has_no_probability_of_its_own() -> None:
    """It would be 1 or 0, which only says the answer again."""
    row = {
        "arm": "rag",
        "unit": "u",
        "of": "",
        "repeat": 0,
        "answer": "YES",
        "predicted": "YES",
        "parsed": True,
        "cut": False,
        "overflow": False,
        "items": [],
        "requests": [],
        "strata": {},
        "measures": {"accuracy": (1.0, 1.0), "p_yes": (1.0, 1.0)},
    }
    own = viewer._answer({**row, "model": "a-model"}, {}, set())
    released = viewer._answer({**row, "model": MODELS[0]}, {}, set())
    assert [own["measures"], released["measures"]] == [["probability of YES 1.00"], []]
