"""What the first chapter reports: the claims, the break in Format A, and the tables that it fills."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import pytest

from evaluation import published, record, rules
from evaluation.answers import Answer, make_row
from evaluation.outcomes import Outcomes
from papers.side_effects import forward as se, forward_report as report
from papers.side_effects.corpus import Question, yes_no_answer

NAMES = ("Qwen2.5-7B-Instruct", "Llama-3.1-8B-Instruct")
ALL_ARMS = (*se.ARMS, "lookup")


@pytest.fixture
def run() -> record.Run:
    return record.start(
        notebook="01_side_effects_forward", paper="side_effects", profile="smoke", parameters={}
    )


def questions(n: int = 40) -> list[Question]:
    return [Question(f"drug{i // 4}", f"effect{i}", i % 2 == 0) for i in range(n)]


def rows(
    asked: Sequence[Question],
    arm: str,
    wrong: int,
    *,
    handed_right: bool = True,
    differ: bool = True,
    **row: str,
) -> list[Answer]:
    """All right but the first `wrong`. With `differ` the arms are not handed the same."""
    made = []
    for i, q in enumerate(asked):
        handed = q.label == handed_right
        if differ and arm == "format_a" and i % 10 == 0:
            handed = not handed
        answer = yes_no_answer(
            q.label if i >= wrong else not q.label, p_yes=0.9 if q.label else 0.1, found=handed
        )
        made.append(make_row(answer, q, arm=arm, **{"model": NAMES[0], **row}))
    return made


def page(asked: Sequence[Question], *more: list[Answer], **wrong: int) -> Outcomes:
    made = [row for arm, n in wrong.items() for row in rows(asked, arm, n)]
    return Outcomes(
        [*made, *(row for part in more for row in part)], labels=report.LABELS, draws=200
    )


def decide(run: record.Run, out: Outcomes, *claims: str) -> dict[str, str]:
    """Verdict of each claim on the rerun."""
    rules.decide(run, out, *claims)
    return {c.id.rpartition(".")[2]: c.verdict for c in run.claims if c.kind == "rerun"}


def why(run: record.Run, claim: str, kind: str) -> str:
    return next(c.why for c in run.claims if c.id.endswith(claim) and c.kind == kind)


ERRORS = ("residual_errors_not_retrieval", "residual_errors_are_llm_mislabels")
FOUR = (
    "closed_book_is_unreliable",
    "retrieval_beats_closed_book",
    "pairs_beat_lists",
    "graphrag_beats_text_rag",
)


def test_claims_that_hold_agree(run):
    out = page(questions(400), closed_book=160, format_a=72, format_b=36, graphrag=0, lookup=0)
    verdicts = decide(run, out, *FOUR, *ERRORS)
    assert {verdicts[claim] for claim in FOUR} == {"agrees"}
    assert {verdicts[claim] for claim in ERRORS} == {"inconclusive"}  # there is no error to explain


def test_claims_that_fail_differ(run):
    out = page(questions(1600), closed_book=10, format_a=120, format_b=200, graphrag=120, lookup=0)
    claims = (*FOUR[:3], "graphrag_reaches_ceiling")
    assert set(decide(run, out, *claims).values()) == {"differs"}


def test_what_few_drugs_leave_open_is_undecided(run):
    """Without an error GraphRAG is at the ceiling, and two formats tie; ten drugs do not show either."""
    claims = ("graphrag_reaches_ceiling", "pairs_beat_lists", "closed_book_is_unreliable")
    few = page(questions(40), closed_book=12, format_a=0, format_b=0, graphrag=0, lookup=0)
    assert set(decide(run, few, *claims).values()) == {"inconclusive"}
    many = page(questions(1600), closed_book=600, format_a=0, format_b=0, graphrag=0, lookup=0)
    verdicts = decide(run, many, *claims)
    assert verdicts["graphrag_reaches_ceiling"] == "agrees"
    assert verdicts["pairs_beat_lists"] == "inconclusive", "a tie refutes no claim of a gain"


def test_a_tie_that_retrieval_forces_refutes_nothing(run):
    """Arms that are handed the same cannot but tie; the released answers decide."""
    asked = questions(400)
    same = [row for arm in ("format_a", "format_b") for row in rows(asked, arm, 0, differ=False)]
    authors = [
        row
        for name in NAMES
        for arm, wrong in (("format_a", 100), ("format_b", 20))
        for row in rows(asked, arm, wrong, source="released", model=name)
    ]
    verdicts = decide(run, page(asked, same, authors), "pairs_beat_lists")
    assert verdicts["pairs_beat_lists"] == "not tested"
    assert "forced" in why(run, "pairs_beat_lists", "rerun")
    assert next(c.verdict for c in run.claims if c.kind == "rescored") == "agrees"
    assert all(name in why(run, "pairs_beat_lists", "rescored") for name in NAMES)
    assert run.claims[0].kind == "rescored"  # what the authors released comes first


def test_where_a_tie_is_forced_the_authors_prompts_decide(run):
    """There the model reads the texts itself, so the formats can differ."""
    asked = questions(400)
    arms = {"graphrag": 0, "format_b": 0, "format_a": 0}
    same = [row for arm in arms for row in rows(asked, arm, 0, differ=False)]
    by_prompt = {"authors_graphrag": 0, "authors_format_b": 40, "authors_format_a": 100}
    read = [row for arm, wrong in by_prompt.items() for row in rows(asked, arm, wrong)]
    decide(run, page([], same, read), "graphrag_beats_text_rag", "pairs_beat_lists")
    assert {finding.verdict for finding in run.claims if finding.kind == "rerun"} == {"agrees"}
    reason = why(run, "graphrag_beats_text_rag", "rerun")
    assert reason.index("authors_graphrag") < reason.index("The tie is forced")


@pytest.mark.parametrize(("wrong", "verdict"), [(40, "differs"), (400, "agrees")])
def test_a_small_lead_is_no_substantial_one(run, wrong, verdict):
    """Of 1,000 pairs, 40 are four points; the word asks for more than ten."""
    out = page(questions(1000), graphrag=0, format_a=400, format_b=wrong)
    claims = ("graphrag_beats_text_rag", "graphrag_far_above_text_rag")
    found = decide(run, out, *claims)
    assert found == {"graphrag_beats_text_rag": "agrees", "graphrag_far_above_text_rag": verdict}


@pytest.mark.parametrize(("closed_book", "verdict"), [(100, "differs"), (400, "agrees")])
def test_far_more_accurate_asks_for_more_than_ten_points(run, closed_book, verdict):
    out = page(questions(1600), closed_book=closed_book, format_a=40, format_b=0, graphrag=0)
    found = decide(run, out, "retrieval_beats_closed_book")
    assert found == {"retrieval_beats_closed_book": verdict}


def test_the_printed_accuracy_of_hosted_models_is_too_low_for_chance(run):
    printed = run.printed
    rules.decide(run, Outcomes([]), "larger_models_also_struggle", printed=printed)
    (finding,) = run.claims
    assert (finding.kind, finding.verdict) == ("printed", "agrees")
    assert "63.0 % [49.3, 74.9], 51 drugs" in finding.why
    content = printed.model_dump(by_alias=True, include={"paper", "title", "numbers"})
    for number in content["numbers"]:
        if number["id"].endswith("chatgpt_4"):
            number |= {"printed": "99%", "value": 0.99}
    better = published.Published.model_validate({**content, "claims": ()})
    decision = rules.evaluate(
        printed.claim("side_effects.claim.larger_models_also_struggle").rule,
        Outcomes([]),
        "printed",
        paper="side_effects",
        facts={"printed": better},
    )
    assert decision.verdict == "inconclusive"


@pytest.mark.parametrize(("handed_right", "verdict"), [(True, "agrees"), (False, "differs")])
def test_a_wrong_answer_is_the_models_only_if_it_was_handed_the_truth(run, handed_right, verdict):
    wrong = rows(questions(400), "graphrag", 6, handed_right=handed_right)
    assert set(decide(run, page([], wrong), *ERRORS).values()) == {verdict}


def test_a_single_error_tells_nothing_about_errors(run):
    wrong = rows(questions(400), "graphrag", 1, handed_right=True)
    assert set(decide(run, page([], wrong), *ERRORS).values()) == {"inconclusive"}


@pytest.mark.parametrize("name", ["red eyes", "rash"])
def test_a_released_error_may_be_the_parsers_or_a_failed_query(run, name):
    """The replies are not released, so no released error is known to be the model's."""
    asked = [*(Question("a", f"{name} {i}", label=False) for i in range(6)), *questions(40)]
    released = rows(asked, "graphrag", 6, source="released")
    pairs = rows(asked, "format_b", 0, source="released")
    claim = "residual_errors_are_llm_mislabels"
    rules.decide(run, page([], released, pairs), claim, recorded=[0.8] * 6)
    assert next(c.verdict for c in run.claims if c.kind == "rescored") == "inconclusive"
    assert ("Format B 0 of 6" in why(run, claim, "rescored")) == (name == "red eyes")
    assert ("query of the graph failed" in why(run, claim, "rescored")) == (name == "rash")


@pytest.mark.parametrize(("last", "verdict"), [(0.8, "inconclusive"), (1.0, "differs")])
def test_a_recorded_confidence_can_refute_and_never_support(run, last, verdict):
    released = rows(questions(40), "graphrag", 6, source="released")
    rules.decide(
        run, page([], released), "residual_errors_not_retrieval", recorded=[0.8] * 5 + [last]
    )
    assert next(c.verdict for c in run.claims if c.kind == "rescored") == verdict


@pytest.mark.parametrize(
    ("effect", "listed", "near"),
    [
        ("pain", ["abdominal pain"], True),
        ("abdominal pain upper", ["abdominal pain"], True),
        ("ear pain", ["pain in ear"], False),
        ("rash", ["trash fever"], False),
        ("nausea", [], False),
    ],
)
def test_a_neighbouring_term_has_the_words_of_the_other_in_a_row(effect, listed, near):
    assert report.has_neighbour(effect, listed) is near


def test_wrong_answers_are_split_by_neighbouring_terms():
    asked = [
        Question("a", "pain", label=False),
        Question("a", "rash", label=False),
        Question("b", "pain", label=False),
        Question("b", "fever", label=True),
    ]
    made = rows(asked, "format_b", 1, source="released")
    split = report.by_neighbour(page([], made), {"a": ["back pain"], "b": ["fever"]})
    assert len(split.frame) == 3
    assert len(split.where(**{"terms of the drug": report.NEIGHBOUR}).frame) == 1
    assert "1 wrong YES: to 100.0 %" in report.describe_neighbours(split)


def test_an_arm_that_is_missing_leaves_its_claims_untested(run):
    verdicts = decide(run, page(questions(40), closed_book=10), "graphrag_beats_text_rag")
    assert verdicts["graphrag_beats_text_rag"] == "not tested"


def test_an_arm_added_to_the_page_changes_no_verdict(run):
    asked = questions(400)
    few = page(asked, closed_book=150, format_a=100, format_b=60, graphrag=0, lookup=0)
    more = few.concat([row for i in range(5) for row in rows(asked, f"new_{i}", 60)])
    found = []
    for out in (few, more):
        decide(run, out, *FOUR)
        found.append([c.model_dump() for c in run.claims])
    assert found[0] == found[1]


def test_an_unparsed_answer_counts_as_no_and_is_counted():
    asked = [Question("a", "x", True), Question("b", "y", False)]
    out = Outcomes([make_row(yes_no_answer(None), q, arm="arm") for q in asked], draws=200)
    assert (out.score("accuracy").value, out.score("accuracy").unparsed) == (0.5, 2)
    assert out.score("sensitivity").value == 0


@pytest.mark.parametrize(
    ("llama", "verdict"),
    [((0, 6, 12, 18), "agrees"), ((0, 14, 12, 18), "differs"), ((0, 9, 12, 18), "inconclusive")],
)
def test_the_released_answers_decide_whether_the_model_matters_less(run, llama, verdict):
    """Qwen is right in 0, 6, 12 and 18 of the 20 pairs of a drug, arm after arm."""
    made = [
        make_row(
            yes_no_answer(j < rights + i % 2),
            Question(f"d{i}", f"e{j}", True),
            arm=arm,
            model=name,
            source="released",
        )
        for name, of in zip(NAMES, ((0, 6, 12, 18), llama), strict=True)
        for arm, rights in zip(se.ARMS, of, strict=True)
        for i in range(60)
        for j in range(
            30 if arm == se.ARMS[0] else 20
        )  # the first arm is put further pairs, which do not count
    ]
    rules.decide(run, page([], made), "model_difference_small")
    assert next(c.verdict for c in run.claims if c.kind == "rescored") == verdict
    assert next(c.verdict for c in run.claims if c.kind == "rerun") == "not tested"


def test_every_cell_of_the_three_tables_is_filled_or_explained(run):
    asked = questions(80)
    authors = [
        row
        for name in NAMES
        for arm in se.ARMS
        for row in rows(asked, arm, 4, source="released", model=name)
    ]
    here = [row for arm in se.ARMS for row in rows(asked, arm, 2)]
    report.report_tables(run, page([], authors, here), NAMES[0], "", "one model")
    numbers = published.published("side_effects").numbers
    wanted = {n.id for n in numbers if n.id.split(".")[1] in ("table1", "table2", "table3")}
    assert {id for kind, id in run._values if kind == "rescored"} == wanted
    rerun = {id for kind, id in run._values if kind == "rerun"}
    explained = {id for kind, id in run._reasons if kind == "rerun"}
    assert wanted <= rerun | explained
    assert not rerun & explained
    assert {id for id in rerun if "table1" in id} == {id for id in wanted if "table1" in id}


def test_two_models_here_fill_every_cell_of_the_three_tables(run):
    asked = questions(80)
    here = [
        row
        for n, name in enumerate(NAMES)
        for arm in se.ARMS
        for row in rows(asked, arm, 2 + 4 * n, model=name)
    ]
    report.report_tables(run, page([], here), *NAMES, "")
    numbers = published.published("side_effects").numbers
    wanted = {n.id for n in numbers if n.id.split(".")[1] in ("table1", "table2", "table3")}
    assert {id for kind, id in run._values if kind == "rerun"} == wanted
    assert run._values["rerun", "side_effects.table3.graphrag.difference"].value == pytest.approx(
        100 * 4 / 80
    )


@pytest.mark.parametrize("yes", [0, 1])
def test_precision_without_a_yes_is_explained_and_the_rest_of_the_table_is_filled(run, yes):
    asked = questions(8)
    out = page(
        [],
        [
            make_row(yes_no_answer(i < yes), q, arm=arm, model="m")
            for arm in se.ARMS
            for i, q in enumerate(asked)
        ],
    )
    report.report_tables(run, out, "m", "", "one model")
    measured = {id for _, id in run._values if ".table1." in id}
    explained = {id: reason.why for (_, id), reason in run._reasons.items() if ".table1." in id}
    undefined = set() if yes else {f"side_effects.table1.{arm}.precision" for arm in se.ARMS}
    assert set(explained) == undefined
    assert len(measured) == len(se.ARMS) * len(report.METRICS) - len(undefined)
    shown = out.reproduction_table(run.printed, "side_effects.table1", report.METRICS, "")
    assert "precision" in shown.text  # printed, if not measured
    with pytest.raises(ValueError, match="presicion"):
        run.rerun_of(
            "side_effects.table1.graphrag.precision",
            out.where(arm="graphrag"),
            "presicion",
            model="m",
        )


def test_an_unread_answer_of_table_3_is_told_by_both_ways_of_counting(run):
    asked = questions(80)
    authors = [
        row
        for name in NAMES
        for arm in se.ARMS
        for row in rows(asked, arm, 4, source="released", model=name)
    ]
    unread = make_row(
        yes_no_answer(None), asked[-1], arm="closed_book", model=NAMES[1], source="released"
    )
    authors = [
        unread if (r.unit, r.arm, r.model) == (unread.unit, unread.arm, unread.model) else r
        for r in authors
    ]
    report.report_tables(run, page([], authors), "", "", "one model")
    value = run._values["rescored", "side_effects.table3.closed_book.difference"]
    assert (value.value, "the difference is +1.250 points" in value.note) == (0, True)
    assert not run._values["rescored", "side_effects.table3.graphrag.difference"].note


def test_the_break_is_told_on_both_sides_and_beside_the_other_format():
    asked = [Question(f"d{i}", f"e{i}", label=True) for i in range(20)]
    lists = rows(asked, "format_a", 0, source="released")
    lists = [
        replace(r, measures={**r.measures, "place": (1990.0 + i, 1.0)}) for i, r in enumerate(lists)
    ]
    lists = [replace(r, predicted="NO") if i > 10 else r for i, r in enumerate(lists)]
    told = report.sides(
        page([], lists, rows(asked, "format_b", 0, source="released")), se.MAX_PROMPT_CHARACTERS
    )
    assert re.findall(r"[\d.]+ %", told) == ["100.0 %", "100.0 %", "0.0 %"]


def test_the_data_claims_notice_a_pair_that_contradicts_its_label(run):
    asked = [Question("a", f"e{i}", i < 10) for i in range(20)]
    claims = ("benchmark_is_balanced", "benchmark_labels_hold", "lists_exceed_10000_characters")
    none = Outcomes([], draws=200)
    facts = {"benchmark": asked, "knowledge": {"a": [f"e{i}" for i in range(10)]}, "longest": 9}
    rules.decide(run, none, *claims, **facts)
    assert [c.verdict for c in run.claims] == ["agrees", "agrees", "differs"]
    rules.decide(run, none, *claims, **facts | {"knowledge": {"a": ["e11"]}, "longest": 10_001})
    assert [c.verdict for c in run.claims] == ["agrees", "differs", "agrees"]


def test_both_prompts_stand_beside_the_printed_cell_on_the_same_pairs(run):
    asked = questions(80)
    authors = [
        row
        for name in NAMES
        for arm in se.ARMS
        for row in rows(asked, arm, 8, source="released", model=name)
    ]
    by_text = [row for arm in se.ARMS for row in rows(asked, arm, 20, model="m")]
    half = asked[:40]
    by_release = Outcomes(
        [row for prompt in report.ARM_OF_PROMPT for row in rows(half, prompt, 10, model="m")],
        draws=200,
    )
    table = report.prompts_table(run, page([], authors, by_text), by_release, "qwen", "m")
    shown = table.text.replace("\N{NO-BREAK SPACE}", " ")
    assert "62.90%" in shown
    assert "90.0 %" in shown  # the released answers: 72 of 80
    assert "50.0 %" in shown  # by the paper's text: 20 of the same 40, of 80 it would be 75 %
    assert "75.0 %" in shown  # by the released prompts: 30 of 40
