"""A link to the answers opens rows that are there, of the arms and the model behind what it follows."""

import json
import re
from collections.abc import Iterator
from html import unescape
from typing import Any
from urllib.parse import parse_qs

import pytest

from evaluation import verdicts
from evaluation.published import Rule
from papers.biomedrag import study
from publish import claim_pages, number_rows, viewer
from publish.chapters import chapters
from publish.pages import Pages
from publish.selections import (
    DIFFERENT,
    WRONG,
    QuestionLists,
    Selected,
    Selection,
    conditions_of,
    conditions_text,
)

BY_FUNCTION = Rule(function="count", words="It counts.")
BY_RELATION = Rule(better=("rag",), than=("alone",), measure="right", where={"relation": ("none",)})
LABELS = {
    "graph": "Graph",
    "text": "Text RAG",
    "graph_text": "Graph with text fallback",
    "majority": "Majority (floor)",
}


def listed(
    rows: list[list[tuple[str, str, float]]], *, withheld: int = 0, unparsed: str = ""
) -> QuestionLists:
    """Questions with the arm, the model and the score of each answer; the first ones are withheld.

    No reply of the model `unparsed` could be read.
    """
    models = ["a-model", "b-model"]
    entry = {"name": "01", "arms": LABELS, "models": models}
    questions = viewer.QuestionList([*LABELS], models)
    for number, answers in enumerate(rows):
        answered: list[dict[str, Any]] = [
            {
                "arm": arm,
                "model": model,
                "score": score,
                "flags": ["unparsed"] if model == unparsed != "" else [],
                "of": "",
                "repeat": 0,
            }
            for arm, model, score in answers
        ]
        text = viewer.LICENSED if number < withheld else f"Is rash {number} an effect?"
        unit = {"id": f"unit {number}", "task": "GIT", "split": "test", "strata": {"kind": "x"}}
        questions.add({**unit, "question": text, "rows": answered}, part=0)
    return QuestionLists(entry, questions.scripts("01"))


@pytest.fixture
def lists() -> QuestionLists:
    return listed(
        [
            [("graph", "a-model", 1), ("text", "a-model", 0), ("majority", "", 1)],
            [("graph", "a-model", 1), ("text", "a-model", 1), ("majority", "", 0)],
            [("graph", "b-model", 0)],
        ],
        withheld=1,
    )


@pytest.mark.parametrize(
    ("selection", "questions", "readable"),
    [
        (Selection(), 3, 2),
        (Selection("graph", model="a-model"), 2, 1),
        (Selection("graph", "text", "a-model", DIFFERENT), 1, 0),
        (Selection("graph", model="b-model", show=WRONG), 1, 1),
        (Selection("text", model="b-model"), 0, 0),
        (Selection("majority", model="b-model"), 2, 1),
        (Selection(text="git rash 2"), 1, 1),
        (Selection("graph", "majority", "b-model"), 0, 0),
        (Selection(model="b-model"), 1, 1),
    ],
)
def test_a_selection_counts_what_the_viewer_shows(
    lists: QuestionLists, selection: Selection, questions: int, readable: int
) -> None:
    assert lists.select(selection) == Selected(questions, readable)


def test_an_unparsed_reply_is_not_a_wrong_answer() -> None:
    rows: list[list[tuple[str, str, float]]] = [
        [("graph", "a-model", 0)],
        [("graph", "b-model", 0)],
    ]
    lists = listed(rows, unparsed="b-model")
    assert lists.select(Selection(show=WRONG)).questions == 1
    assert lists.select(Selection()).questions == 2


def test_the_names_of_many_questions_are_in_several_scripts() -> None:
    lists = listed([[("graph", "a-model", 1)]] * (viewer.NAMES + 1))
    assert len(lists.scripts) == 3
    assert [*lists.questions][-1].text.startswith(f"unit {viewer.NAMES} ")


def test_a_selection_without_rows_gives_way_to_the_next(lists: QuestionLists) -> None:
    empty = Selection("text", model="b-model")
    half = Selection("graph", "text", "b-model")
    full = Selection("graph", model="b-model")
    assert lists.first_with_rows([empty, half, full])[0] == full
    assert lists.first_with_rows([empty]) == (None, None)


def test_a_link_says_how_many_it_opens_and_of_what() -> None:
    assert Selected(1200, 1200).words(Selection("graph")) == "see the 1,200 answers"
    assert Selected(1, 1).words(Selection("graph", show=WRONG)) == "see the wrong answer"
    differ = Selected(5, 2).words(Selection("graph", "text", show=DIFFERENT))
    assert differ == "see the 5 questions where they differ, 2 of them readable"
    assert Selected(5, 0).words(Selection("graph")).endswith("texts withheld by licence")


def test_a_link_of_a_claim_names_the_arms_and_no_number_of_questions() -> None:
    labels = {"graph": "Graph", "text": "Text RAG", "both": "Graph and text"}
    selected = Selected(242, 242)
    words = {
        Selection("graph", "text", show=DIFFERENT): "see where Graph and Text RAG differ",
        Selection(show=DIFFERENT): "see where the answers differ",
        Selection("graph", show=WRONG): "see the wrong answers of Graph",
        Selection("graph", "text"): "see the answers of Graph and Text RAG",
        Selection(): "see the answers",
        Selection("both", "text"): "see the answers of \N{LEFT DOUBLE QUOTATION MARK}Graph and text"
        "\N{RIGHT DOUBLE QUOTATION MARK} and \N{LEFT DOUBLE QUOTATION MARK}Text RAG"
        "\N{RIGHT DOUBLE QUOTATION MARK}",
    }
    for selection, expected in words.items():
        assert selected.words_of_arms(selection, labels) == expected
    assert Selected(5, 0).words_of_arms(Selection(), labels).endswith("withheld by licence")


def test_wrong_answers_are_no_evidence_on_a_measure_that_marks_none() -> None:
    on_answers = Rule(above="graph", bound=0.5)
    on_citations = Rule(all_of=(Rule(above="graph", bound=0.5, measure="cites"),))
    by_function = Rule(function="count", words="It counts.")
    marks = [
        claim_pages._is_marked_by({"accuracy"}, rule)
        for rule in (on_answers, on_citations, by_function)
    ]
    assert marks == [True, False, True]
    assert claim_pages._is_marked_by(set(), on_citations)
    shown = [*claim_pages._selections([["graph"]], [""], is_marked=False)]
    assert [selection.show for selection in shown] == [""]


@pytest.fixture
def corpora() -> QuestionLists:
    """Ten questions of DDI, four of which state an interaction, and five of GIT."""
    models = ["a-model"]
    entry = {
        "name": "07",
        "arms": {"rag": "LLM with RAG", "alone": "LLM"},
        "models": models,
        "marks": ["right"],
        "measures": {"right": "accuracy", "cites": "share of answers that cite a passage"},
    }
    questions = viewer.QuestionList(["rag", "alone"], models, entry["measures"])
    for number in range(15):
        task = "DDI" if number < 10 else "GIT"
        relation = {"relation": "an interaction" if number < 4 else "none"} if number < 10 else {}
        answered: list[dict[str, Any]] = [
            {
                "arm": arm,
                "model": "a-model",
                "score": 1,
                "flags": [],
                "of": "",
                "repeat": 0,
                "strata": {"holds": "nothing" if arm == "rag" and number % 2 else "a part"},
                "values": {"right": 1, "f1": 0.5, **({"cites": 0} if number < 3 else {})},
            }
            for arm in ("rag", "alone")
        ]
        unit = {"id": f"{number}", "task": task, "split": "test", "strata": relation}
        questions.add({**unit, "question": f"Question {number}?", "rows": answered}, part=0)
    return QuestionLists(entry, questions.scripts("07"))


def test_a_selection_keeps_the_rows_of_its_strata_that_have_its_measure(
    corpora: QuestionLists,
) -> None:
    counts = {
        Selection("rag", "alone"): 15,
        Selection("rag", rows="task: GIT"): 5,
        Selection("rag", rows="task: DDI; relation: an interaction | none"): 10,
        Selection("rag", rows="task: DDI; relation: an interaction"): 4,
        Selection("rag", rows="holds: nothing"): 7,
        Selection("rag", "alone", rows="holds: nothing"): 0,
        Selection("rag", measure="cites"): 3,
        Selection("rag", rows="task: GIT", measure="cites"): 0,
        Selection("rag", measure="f1"): 0,
        Selection("rag", show=WRONG): 0,
        Selection("rag", show=WRONG, measure="cites"): 3,
    }
    found = {selection: corpora.select(selection).questions for selection in counts}
    assert found == counts
    assert corpora.strata["holds"] == ["a part", "nothing"]
    assert '"right":0' in corpora.scripts["answers/07.js"], "the scores are not written twice"


def test_conditions_stand_in_an_address_and_come_back() -> None:
    conditions = {
        "task": [""],
        "own document": ["not recognised"],
        "kind": ["two hops", "yes or no"],
    }
    assert conditions_of(conditions_text(conditions)) == conditions
    assert conditions_of("") == {}
    selection = Selection("rag", rows="task: GIT; kind: two hops", measure="right")
    words = Selected(5, 5).words_of_arms(selection, {"rag": "LLM with RAG"})
    assert words == "see the answers of LLM with RAG (GIT; kind: two hops; accuracy)"
    assert "rows=task%3A%20GIT%3B%20kind%3A%20two%20hops&measure=right" in selection.address("07")


@pytest.mark.parametrize(
    ("label", "n", "rule", "rows", "measure"),
    [
        ("GIT, LLM with RAG minus LLM, accuracy", 5, BY_FUNCTION, "task: GIT", "right"),
        (
            "LLM with RAG minus LLM, accuracy (relation: none)",
            6,
            BY_RELATION,
            "relation: none",
            "right",
        ),
        (
            "LLM with RAG minus LLM, accuracy (relation: none, an interaction)",
            10,
            BY_FUNCTION,
            "relation: an interaction | none",
            "right",
        ),
        ("Share of answers that cite a passage of LLM", 3, BY_FUNCTION, "", "cites"),
        (
            "LLM with RAG minus LLM, accuracy: relation an interaction minus none",
            10,
            BY_FUNCTION,
            "relation: an interaction | none",
            "right",
        ),
    ],
)
def test_the_rows_of_a_verdict_are_as_many_as_it_counted(
    corpora: QuestionLists, label: str, n: int, rule: Rule, rows: str, measure: str
) -> None:
    estimate = {"label": label, "arms": [], "n": n, "value": 0.1, "bound": 0.0}
    counted = claim_pages._counted_rows(estimate, rule, ["a-model", ""], corpora)
    assert counted
    assert (counted.rows, counted.measure, counted.model) == (rows, measure, "a-model")
    assert corpora.select(counted).questions == n
    assert claim_pages._counted_rows({**estimate, "n": 999}, rule, [""], corpora) is None


@pytest.mark.parametrize("rule", [BY_FUNCTION, BY_RELATION])
def test_rows_that_no_words_and_no_rule_name_are_not_guessed(
    corpora: QuestionLists, rule: Rule
) -> None:
    """Four questions of DDI state an interaction, which is no reason to take them for the four."""
    estimate = {"label": "DDI, LLM with RAG minus LLM, accuracy", "arms": [], "n": 4}
    assert claim_pages._counted_rows(estimate, rule, ["a-model"], corpora) is None


@pytest.mark.parametrize(
    ("stated", "n", "rows", "measure"),
    [
        ({"source": ["rerun"]}, 15, "", "right"),
        ({"source": ["rerun"], "task": ["GIT"]}, 5, "task: GIT", "right"),
        (
            {"task": ["DDI"], "relation": ["an interaction"], "run": ["laptop"]},
            4,
            "task: DDI; relation: an interaction",
            "right",
        ),
        # of f1, whose values are not listed, all answers of both arms are shown
        ({"task": ["GIT"]}, 5, "task: GIT", "f1"),
    ],
)
def test_the_rows_of_a_verdict_are_those_that_its_estimate_states(
    corpora: QuestionLists, stated: dict[str, list[str]], n: int, rows: str, measure: str
) -> None:
    arms = [{"label": "LLM with RAG", "value": 1.0}, {"label": "LLM", "value": 0.9}]
    words = "the gain on GIT (relation: none)"
    estimate = {"label": words, "arms": arms, "n": n, "measure": measure, "where": stated}
    counted = claim_pages._counted_rows(estimate, BY_RELATION, ["a-model"], corpora)
    assert counted
    assert (counted.arm, counted.against, counted.rows) == ("rag", "alone", rows)
    assert counted.measure == ("" if measure == "f1" else measure)
    # the rows meet a condition that has no value, too, such as to be in a list of units
    fewer = {**estimate, "n": n - 1}
    assert claim_pages._counted_rows(fewer, BY_RELATION, ["a-model"], corpora) is None


def test_of_several_models_the_one_that_an_estimate_states_is_shown() -> None:
    rows = [[("graph", "a-model", 1.0), ("graph", "b-model", 0.0)]] * 3
    lists = listed(rows)
    estimate = {"label": "", "arms": [{"label": "Graph", "value": 0.0}], "n": 3}
    for model in ("a-model", "b-model"):
        stated = {**estimate, "where": {"source": ["rerun"], "model": [model]}}
        counted = claim_pages._counted_rows(stated, BY_FUNCTION, ["a-model", "b-model", ""], lists)
        assert counted
        assert counted.model == model


def test_an_arm_is_at_the_floor_if_it_is_right_no_more_often_than_one_answer_for_all(
    lists: QuestionLists,
) -> None:
    assert lists.is_at_floor("text", "a-model")
    assert not lists.is_at_floor("graph", "a-model")
    assert not lists.is_at_floor("text", "b-model"), "nothing to compare"


def test_the_arms_of_an_estimate_are_those_that_its_words_name() -> None:
    def named(label: str) -> list[str]:
        return claim_pages._arms_of_estimate({"label": label, "arms": []}, LABELS)

    assert named("GIT, Graph with text fallback minus Text RAG, F1") == ["graph_text", "text"]
    assert named("Accuracy of Graph with a-model") == ["graph"]
    assert named("shown minus not shown") == []


@pytest.mark.parametrize(
    ("number", "arm"),
    [
        ("biomedrag.table1.llama2_br.git_f1", "lora_rag"),
        ("biomedrag.table3.llama2_br_git.head_f1", "lora_rag"),
        ("biomedrag.table1.gpt4.git_f1", "zero_shot"),
        ("side_effects.table5.misspelt.graphrag", "misspelt.graphrag"),
        ("drug_interactions.text.similarity", None),
    ],
)
def test_a_number_has_the_arm_of_its_row_and_never_that_of_its_paper(
    number: str, arm: str | None
) -> None:
    labels = dict.fromkeys(
        ["biomedrag", "lora", "lora_rag", "zero_shot", "text", "graphrag", "misspelt.graphrag"], ""
    )
    assert next(number_rows._arms_of_number(number, labels), None) == arm


def test_rows_of_biomedrag_are_filled_as_its_chapters_fill_them() -> None:
    assert number_rows.ARMS_BY_ROW["biomedrag"] == study.ROWS


def addresses(pages: Pages) -> Iterator[tuple[str, str]]:
    """Each address of the viewer on the scoreboards and in the headline claims, with its words."""
    texts = [*pages.boards().values(), pages.landing(), *map(pages.headlines, pages._headlines)]
    for text in texts:
        for address, words in re.findall(r'href="answers\.html#([^"]+)"[^>]*>(.*?)</a>', text):
            yield unescape(address), unescape(words)


def is_within(strata: dict[str, str], filters: dict[str, str]) -> bool:
    """Whether the strata of an answer are those of an address."""
    wanted = [each.split(": ", 1) for each in filters.get("rows", "").split("; ") if each]
    return all(strata.get(name) in values.split(" | ") for name, values in wanted)


def count(scripts: dict[str, str], entry: dict[str, Any], filters: dict[str, str]) -> int:
    """Count the questions that an address selects, apart from the code that writes the links."""

    def values(name: str) -> list[Any]:
        script = scripts[f"answers/{entry['name']}{name}.js"]
        return list(json.loads(f"[{script[script.index('(') + 1 : script.rindex(')')]}]"))

    _, groups, outcomes, order, _, n_names = values("")
    n_files = -(-len(order) // n_names)
    questions = [name for file in range(n_files) for name in values(f"-names-{file}")[2]]
    arms = {filters["arm"], filters.get("against", "")} if "arm" in filters else {*entry["arms"]}
    models = {filters["model"], ""} if "model" in filters else {*entry["models"], ""}
    names, all_models = [*entry["arms"]], [*entry["models"], ""]
    found = 0
    for outcome, (identifier, *text) in zip(order, questions, strict=True):
        group, scores, unparsed, measured = outcomes[outcome]
        task, _, strata, wording, sources = groups[group]
        searched = f"{identifier} {text} {wording} {strata} {task}".lower()
        shown_scores = scores
        if "measure" in filters:
            shown_scores = measured.get(filters["measure"], [None] * len(scores)) or scores
        shown = [
            (names[arm], all_models[model], value, place in unparsed)
            for place, ((arm, model, *own), value) in enumerate(
                zip(sources, shown_scores, strict=True)
            )
            if names[arm] in arms
            and all_models[model] in models
            and is_within({"task": task, **strata, **(own[0] if own else {})}, filters)
            and not ("measure" in filters and value is None)
        ]
        asked = bool(shown)
        if "arm" in filters:
            asked = arms - {""} <= {arm for arm, *_ in shown}
        elif "model" in filters:
            asked = any(model == filters["model"] for _, model, *_ in shown)
        fits = {
            None: True,
            "disagree": len({score for *_, score, _ in shown}) > 1,
            "wrong": any(
                score is not None and score < 1 and not is_unparsed
                for *_, score, is_unparsed in shown
            ),
        }[filters.get("show")]
        found += asked and fits and filters.get("text", "").lower() in searched
    return found


@pytest.mark.book
@pytest.mark.slow
def test_every_link_of_the_scoreboards_opens_as_many_rows_as_it_says() -> None:
    pages = Pages(chapters())
    counts: dict[str, int] = {}
    links = [*addresses(pages)]
    assert len(links) > 200
    for address, words in links:
        filters = {name: values[0] for name, values in parse_qs(address).items()}
        notebook = filters.pop("nb")
        answers = pages.answers[notebook]
        if address not in counts:
            counts[address] = count(answers.scripts, answers.entry, filters)
        assert counts[address] > 0, address
        number = re.search(r"see the ([\d,]+) ", words)
        if number:
            assert int(number[1].replace(",", "")) == counts[address], address

    decided = "side_effects.claim.graphrag_beats_text_rag"
    link = claim_pages.link_verdict(
        verdicts.verdict_mark("with the claim"), pages._claim_rows[decided], "here", pages.answers
    )
    assert re.search(r"arm=authors_graphrag&amp;against=authors_format_[ab]", link), (
        "the forced tie did not decide"
    )
    row = pages.landing().partition("</tr>")[2].partition("</tr>")[0]
    estimates = pages._claim_rows[decided]["rescored_estimates"]
    for text in ("RAG (Format B)", "RAG (Format A)"):
        least = min(each["value"] for each in estimates if each["arms"][1]["label"] == text)
        assert re.search(
            rf"Released files.*?\{100 * least:+.1f} \[[^]]+\] points over {re.escape(text)}", row
        )
    assert "RAG (Format A, authors&#39; prompt) is no better than guessing." in row
    assert row.index("no better than guessing") < row.index("With the prompts printed in the paper")
