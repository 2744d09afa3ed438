"""Released results: what is read, what is refused, their rows, and the claims that they decide."""

from __future__ import annotations

import html
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from short_answers import assert_short_answer

from evaluation import decisions, figures, record, rules
from evaluation.answers import Answer
from evaluation.audit import OWN
from evaluation.outcomes import Outcomes
from evaluation.published import published
from papers.qa_rag import data, differences, finetune, openings, released, rules as qa_rag_rules
from papers.qa_rag.answers import PAPER_ENCODER
from papers.qa_rag.data import QaRagDataError
from papers.qa_rag.released import ANSWERS, RAGAS, Released
from resources.authors_code import Code, NotInCode

RNG = np.random.default_rng(0)


@pytest.fixture(scope="module")
def sample() -> data.Data:
    return data.load("sample")


def ragas(values: np.ndarray) -> pd.DataFrame:
    return pd.DataFrame({"precision": values, "recall": values / 2})


@pytest.fixture
def results(sample: data.Data) -> Released:
    """Results in the released form, of the sample's questions; QA-RAG is best on every one."""
    n = len(sample.test)
    scores = {
        arm: ragas(np.linspace(0.2, 0.6, n) + (0.3 if arm == "qa_rag" else 0)) for arm in RAGAS
    }
    texts = {arm: [f"{arm} says {i}" for i in range(n)] for arm in ANSWERS}
    means = {arm: {"f1": 0.5, "precision": 0.4, "recall": 0.6} for arm in ANSWERS}
    return Released(scores, texts, means, ())


@pytest.fixture
def run() -> record.Run:
    return record.start(notebook="17_qarag_answers", paper="qa_rag", profile="smoke", parameters={})


def test_ragas_of_other_questions_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    rows = {
        "question": ["As described in G , Why?", "How?"],
        "context_precision": [1, 0.5],
        "context_recall": [0, 1],
    }
    pd.DataFrame(rows).to_csv(path)
    assert released.read_ragas(path, ["As described in G, why?", "How?"]).recall.tolist() == [0, 1]
    with pytest.raises(QaRagDataError, match="test questions in order"):
        released.read_ragas(path, ["How?", "As described in G, why?"])
    with pytest.raises(QaRagDataError, match="test questions in order"):
        released.read_ragas(path, ["As described in G, why?"])
    pd.DataFrame(rows | {"context_recall": [None, 1]}).to_csv(path)
    with pytest.raises(QaRagDataError, match="every row"):
        released.read_ragas(path, ["As described in G, why?", "How?"])


def test_the_authors_means_of_bertscore_are_read_by_their_rows(tmp_path: Path) -> None:
    path = tmp_path / "means.csv"
    names = released.BERTSCORE_ROWS
    columns = {"precision": 0.4, "recall": 0.6, "f1": 0.5}
    table = pd.DataFrame([columns] * len(names), index=list(names.values()))
    table.loc[names["hyde"], "f1"] = 0.7
    table.to_csv(path)
    means = released.read_bertscore(path)
    assert set(means) == set(ANSWERS)
    assert means["hyde"] == {"f1": 0.7, "precision": 0.4, "recall": 0.6}
    table.drop(index=names["question"]).to_csv(path)
    with pytest.raises(QaRagDataError, match="Only_question"):
        released.read_bertscore(path)


def test_table_four_stands_beside_the_authors_means_and_the_own_score(
    sample: data.Data, results: Released
) -> None:
    results = replace(results, bertscore={**results.bertscore, "qa_rag": {"f1": 0.591428}})
    outcomes = Outcomes(rows("answers", "f1", {"qa_rag": np.full(30, 0.25)}), draws=200)
    table = released.bertscore_table(published("qa_rag"), results, outcomes).set_index("method")
    first = table.loc["QA-RAG"]
    assert list(first)[:3] == ["F1", "0.591", "0.59143"]
    assert str(first["scored here"]).startswith("0.250")
    of_hyde = table.loc["HyDE"].set_index("measure")
    assert of_hyde["printed"].to_dict() == {"F1": "0.582", "precision": "0.540", "recall": "0.641"}
    assert of_hyde["scored here"].isna().all()


def test_context_tables_have_every_printed_number_and_say_what_was_not_fetched(
    sample: data.Data, results: Released
) -> None:
    contexts = Outcomes(released.contexts(sample, results), draws=200)
    paper = published("qa_rag")
    for place, n_rows, n_unfetched in (("table2", 20, 14), ("table3", 10, 4), ("table5", 6, 2)):
        table = released.context_table(paper, place, contexts)
        assert len(table) == n_rows
        assert (table["rescored"] == released.NOT_FETCHED).sum() == n_unfetched
    last_rows = table.tail(4).to_dict("records")
    assert [row["method"] for row in last_rows[::2]] == [
        "Only question (12)",
        "Only hypothetical answer (12)",
    ]
    cells = [(row["printed"], row["rescored"]) for row in last_rows if row["measure"] == "recall"]
    halved = contexts.format_score("recall", "hypothetical_12", digits=3)
    assert cells == [("0.308", released.NOT_FETCHED), ("0.259", halved)]


def decide(claim: str, rows: list[Answer]) -> decisions.Decision:
    paper = published("qa_rag")
    rule = paper.claim(f"qa_rag.claim.{claim}").rule
    assert rule
    facts = {"printed": paper, "seed": 0}
    return rules.evaluate(
        rule, Outcomes(rows, draws=300), rule.bases[0], paper="qa_rag", facts=facts
    )


def rows(
    task: str, measure: str, values: dict[str, np.ndarray], documents: int = 0, **strata: str
) -> list[Answer]:
    """Released rows of each arm, of so many documents; one question of each if left out."""
    return [
        Answer(
            arm=arm,
            unit=f"q{i}",
            cluster=f"d{i % (documents or len(scores))}",
            source="released",
            task=task,
            strata=strata,
            measures={measure: (float(value), 1.0)},
        )
        for arm, scores in values.items()
        for i, value in enumerate(scores)
    ]


def same_documents(measure: str, values: dict[str, np.ndarray]) -> list[Answer]:
    """Judged contexts of questions whose own document no rule removes."""
    strata = {OWN: data.UNRECOGNISED}
    return [replace(row, strata=strata) for row in rows("contexts", measure, values)]


def test_contexts_that_carry_over_do_so_within_questions() -> None:
    contexts = {arm: RNG.random(60) for arm in ("qa_rag", "question", "hypothetical")}
    level = 10 * RNG.random(60)  # an easy question is easy for every arm: no part of the matter

    def carried(f1: dict[str, np.ndarray]) -> decisions.Decision:
        answers = rows("contexts", "precision", contexts, 30) + rows("answers", "f1", f1, 30)
        return decide("context_carries_over", answers)

    same = carried({arm: scores + level for arm, scores in contexts.items()})
    assert (same.verdict, "+1.000 [+1.000, +1.000]" in same.why) == ("agrees", True)
    assert carried({arm: RNG.random(60) for arm in contexts}).verdict != "agrees"
    level_only = carried(dict.fromkeys(contexts, level))
    assert (level_only.verdict, level_only.p) == ("inconclusive", 1.0)
    assert (
        decide("context_carries_over", rows("contexts", "precision", contexts)).verdict
        == "not tested"
    )


def test_what_the_contexts_hold_is_counted_without_a_judge(
    sample: data.Data, results: Released
) -> None:
    strata_of = {(row.arm, row.unit): row.strata for row in released.contexts(sample, results)}
    assert {strata["holds"] for strata in strata_of.values()} >= {"the whole answer", "nothing"}
    for question in sample.test:
        passage_ids = set(data.answer_passages(question, sample.corpus, data.MIN_SHARE_OF_ALL))
        has_all = bool(passage_ids & set(sample.released["qa_rag"][question.id]))
        assert (strata_of["qa_rag", question.id]["holds"] == "the whole answer") == has_all


def test_an_own_document_is_recognised_by_its_title_as_in_the_authors_code(
    sample: data.Data,
) -> None:
    question = sample.test[0]
    (title, *_) = sample.corpus.documents
    dated = replace(question, source=f"{title.replace('-', ' ')} JUNE 2021")
    assert data.own_documents(dated, sample.corpus)
    assert not data.own_documents(replace(question, source=f"{title} part two"), sample.corpus)


def test_released_passages_of_neither_track_are_counted() -> None:
    columns = ["six passages by", *(released.BOTH_TRACKS, released.ANSWER_TRACK)]
    columns += [released.QUESTION_TRACK, released.NO_TRACK]
    orders = [["the released merge", 2, 4, 0, 0], ["the released ranking", 1, 1, 1, 3]]
    words = released.in_neither_track(pd.DataFrame(orders, columns=columns))
    assert words.startswith("3 of the 6 passages of the released ranking (50.0")
    assert words.endswith("are in neither track")


def test_the_methods_are_told_with_what_they_kept_of_the_own_document(sample: data.Data) -> None:
    """Without the rule for any query: the best three of Table 3; with it for each query: the last two."""
    table = released.own_document_table(sample, published("qa_rag"))
    removed = dict(zip(table["method"], table[released.OWN_DOCUMENT_REMOVED], strict=True))
    assert list(table["printed precision"]) == sorted(table["printed precision"], reverse=True)
    three = [arm for arm in removed if not arm.endswith("(12)")]
    assert three[:3] == ["QA-RAG", "Only hypothetical answer", "HyDE"]
    assert [removed[arm] for arm in three] == [
        "only from the search by question",
        "no",
        "no",
        "yes",
        "yes",
    ]
    found_in_words = dict(zip(table["method"], table["found among the six passages"], strict=True))
    assert found_in_words["HyDE"] == "contexts missing"
    assert found_in_words["QA-RAG"] == "none recognised"


def test_only_questions_whose_own_document_is_recognised_can_have_kept_it(
    sample: data.Data,
) -> None:
    first, second, *_ = sample.test
    (title, *_), six = sample.corpus.documents, list(sample.corpus.by_id)
    recognised = [
        replace(question, source=f"{title.replace('-', ' ')} JUNE 2021")
        for question in (first, second)
    ]
    with_it = [id for id in six if sample.corpus.by_id[id].document == title]
    without = [id for id in six if sample.corpus.by_id[id].document != title]
    rankings = {first.id: tuple(with_it[:6]), second.id: tuple(without[:6])}
    changed_sample = replace(
        sample,
        test=(*recognised, *sample.test[2:]),
        released={**sample.released, "qa_rag": rankings},
    )
    table = released.own_document_table(changed_sample, published("qa_rag"))
    assert (
        dict(zip(table["method"], table["found among the six passages"], strict=True))["QA-RAG"]
        == "1 of 2"
    )


def test_each_test_question_tells_whether_its_own_document_is_recognised(
    sample: data.Data, results: Released
) -> None:
    for question in sample.test:
        removed = question.strata[OWN] == "removed by the authors' rule"
        assert removed == bool(data.own_documents(question, sample.corpus))
    rows = [*released.contexts(sample, results), *released.written(sample, results)]
    assert all(OWN in row.strata for row in rows)
    assert not any(
        q.strata for split in finetune.splits(sample, seed=1).values() for q in split["test"]
    )


def test_a_passage_that_the_smaller_pool_kept_and_the_larger_lost_is_found(
    sample: data.Data,
) -> None:
    def ranking(*passages: tuple[str, float]) -> dict[str, tuple[data.Context, ...]]:
        return {"q": tuple(data.Context("q", "D", text, relevance) for text, relevance in passages)}

    rankings = {
        "qa_rag": ranking(("a", 3.0), ("b", 1.0)),
        "question": ranking(("a", 3.0), ("b", 1.0)),
        "hypothetical": ranking(("d", 2.0), ("e", 1.0)),
        "question_12": ranking(("c", 2.0), ("e", 0.5)),  # c outranks b; e does not
        "hypothetical_12": ranking(("d", 2.0), ("f", 0.5)),
    }
    table = released.outranked(replace(sample, test=sample.test[:1], rankings=rankings))
    assert table["passages missing"].tolist() == [1, 0, 1, 1]
    assert [score.value for score in table["questions with a missing passage"]] == [1, 0, 1, 1]


RELEASED_MERGE = """
class AnswerGenerator:
    def extract_relevance_score(self, text):
        match = re.search(r"Relevance with the question: (\\d+\\.\\d+)/10", text)
        return float(match.group(1)) if match else 0
"""


def test_a_merge_that_reads_no_relevance_keeps_the_track_that_it_lists_first(
    sample: data.Data, tmp_path: Path
) -> None:
    path = tmp_path / "model.py"
    path.write_text(RELEASED_MERGE)
    key = released.sort_key(Code(path))
    assert key("Relevance with the question: 7.5/10") == 7.5
    assert key("Relevance with the question: 7.5") == key("Relevance with the question: -1.2") == 0
    table = released.merged(sample, Code(path)).set_index("six passages by")
    assert table["relevance scores that the merge reads"].iloc[0].startswith("0 of ")
    first = sum(
        len({(c.document, c.text) for c in six}) for six in contexts(sample, "hypothetical_12")
    )
    of_answer = table[["in both tracks", "in the hypothetical answer's track alone"]].sum(axis=1)
    assert of_answer["the released merge"] == first
    assert table["in the question's track alone"]["a merge by relevance"] > 0
    path.write_text(RELEASED_MERGE.replace("/10", ""))
    assert list(released.merged(sample, Code(path)).iloc[0, 2:]) == list(
        table.loc["a merge by relevance"].iloc[1:]
    )
    path.write_text("x = 1")
    with pytest.raises(NotInCode, match="extract_relevance_score"):
        released.sort_key(Code(path))


def contexts(sample: data.Data, arm: str) -> list[tuple[data.Context, ...]]:
    (path,) = (file.path for file in sample.files if file.name == data.CONTEXTS[arm])
    return list(data.read_contexts(path).values())


def test_every_number_that_a_file_gives_is_reported(
    sample: data.Data, results: Released, run: record.Run
) -> None:
    contexts = Outcomes(released.contexts(sample, results), draws=200)
    released.report(run, contexts, sample, results)
    expected = {n.id for n in run.printed.numbers if n.rescore_from}
    unfetched = {
        n.id
        for n in run.printed.numbers
        if any(name in released.MORE.values() for name in n.rescore_from)
    }
    assert len(unfetched) == 20
    assert {value.id for value in run._values.values()} == expected - unfetched
    assert {(reason.id, reason.status) for reason in run._reasons.values()} == {
        (id, "not run") for id in unfetched
    }
    all_results = replace(
        results, ragas={**results.ragas, **dict.fromkeys(released.MORE, results.ragas["question"])}
    )
    released.report(
        run, Outcomes(released.contexts(sample, all_results), draws=200), sample, all_results
    )
    assert {value.id for value in run._values.values()} == expected, (
        "with the files that the reference run lacked"
    )
    sizes = {value.id: value.n for value in run._values.values()}
    assert sizes["qa_rag.text.pairs"] == len(sample.questions)
    assert sizes["qa_rag.text.test_share"] == len(sample.questions), "of the released pairs"
    assert sizes["qa_rag.text.kept"] == len(sample.test) * len(sample.released), "of each method"
    assert sizes["qa_rag.table3.qa_rag.precision"] == len(sample.test)


def test_a_difference_of_rounded_values_is_within_its_tolerance(run: record.Run) -> None:
    number = run.printed.number("qa_rag.text.ablation_loss")
    assert (
        abs(0.01768 - number.value) < (number.within("rescored") or 0) < abs(0.0155 - number.value)
    )


NOISE = np.where(np.arange(30) % 2, 0.8, 0.2)


@pytest.mark.parametrize(
    ("first", "verdict"), [(np.full(30, 0.9), "agrees"), (NOISE, "inconclusive")]
)
def test_claims_on_contexts_and_answers_follow_the_values(first: np.ndarray, verdict: str) -> None:
    flat = dict.fromkeys(
        ("multiquery", "hyde", "question", "hypothetical", "hypothetical_12"), np.full(30, 0.5)
    )
    arms = {"qa_rag": first} | flat
    for claim, measure in (("context_precision", "precision"), ("context_recall", "recall")):
        assert decide(claim, rows("contexts", measure, arms)).verdict == verdict
    assert decide("answers_best", rows("answers", "f1", arms)).verdict == verdict
    contexts = same_documents("precision", arms)
    # both have the same values
    assert decide("hypothetical_beats_question", contexts).verdict == "inconclusive"


def test_a_lead_over_all_methods_is_asked_of_all_whose_scores_were_fetched() -> None:
    arms = {"qa_rag": np.full(30, 0.9)}
    arms |= dict.fromkeys(("question", "hypothetical"), np.full(30, 0.5))
    for claim, measure in (("context_precision", "precision"), ("context_recall", "recall")):
        of_two = decide(claim, rows("contexts", measure, arms))
        assert (of_two.verdict, of_two.reason) == ("not tested", "published, not fetched")
        worse = decide(claim, rows("contexts", measure, arms | {"hypothetical": np.full(30, 0.95)}))
        assert worse.verdict == "differs"
        assert "published, but were not fetched for this run" in worse.why
        more = arms | {"multiquery": np.full(30, 0.5), "hyde": np.full(30, 0.95)}
        of_four = decide(claim, rows("contexts", measure, more))
        assert of_four.verdict == "differs"
        assert len(of_four.estimates) == 4


def test_a_comparison_has_the_same_p_under_each_claim_and_in_the_table() -> None:
    noise = np.random.default_rng(3).normal(0, 0.4, 40)
    arms = {
        "qa_rag": 0.7 + noise,
        "hypothetical": 0.65 + noise[::-1],
        "question": np.full(40, 0.5),
        "hypothetical_12": np.full(40, 0.5),
    }
    contexts = same_documents("precision", arms)
    table = differences.qa_rag_against(
        differences.OTHERS, Outcomes(contexts, draws=300), "precision"
    )
    assert [item.second for item in table] == ["hypothetical", "question"]
    assert "Holm's method over two tests" in differences.with_family("Table 3", table)
    alone = Outcomes(contexts, draws=300).compare([("qa_rag", "question")], "precision")
    p = next(item.p for item in table if item.second == "question")
    assert p == pytest.approx(2 * alone[0].p)
    for claim in ("beats_conventional_rag", "context_precision"):
        assert figures.p_words(p) in decide(claim, contexts).why


@pytest.mark.parametrize(
    ("claim", "published_scores"),
    [("fine_tuned_beats_hyde", "HyDE's"), ("reranker_beats_agent", "the scoring agent's")],
)
def test_scores_that_are_published_and_were_not_fetched_are_the_reason(
    claim: str, published_scores: str
) -> None:
    contexts = ragas_rows(dict.fromkeys(RAGAS, (0.9, 0.9)))
    decision = decide(claim, contexts)
    assert (decision.verdict, decision.reason) == ("not tested", "published, not fetched")
    assert published_scores in decision.why
    assert "no answers" not in decision.why
    scores = {arm: (0.2, 0.2) if arm.endswith("_agent") else (0.5, 0.5) for arm in released.MORE}
    assert decide(claim, contexts + ragas_rows(scores)).verdict == "agrees"


def ragas_rows(scores: dict[str, tuple[float, float]]) -> list[Answer]:
    """Judged contexts of twenty questions: precision and recall of each arm."""
    answers = []
    for arm, (precision, recall) in scores.items():
        for row in rows("contexts", "precision", {arm: np.full(20, precision)}):
            answers.append(replace(row, measures={**row.measures, "recall": (recall, 1.0)}))
    return answers


def test_both_tracks_help_only_if_precision_and_recall_gain() -> None:
    def context_rows(recall: float) -> list[Answer]:
        return [
            replace(
                row,
                measures={**row.measures}
                | {"recall": (recall if row.arm == "qa_rag" else 0.5, 1.0)},
            )
            for row in rows(
                "contexts",
                "precision",
                {"qa_rag": np.full(30, 0.9), "hypothetical_12": np.full(30, 0.5)},
            )
        ]

    assert decide("both_tracks_help", context_rows(0.9)).verdict == "agrees"
    assert decide("both_tracks_help", context_rows(0.1)).verdict == "differs"


def by_own_document(removed: float, elsewhere: float) -> Outcomes:
    """Contexts in which QA-RAG gains so much where the own document is removed, and elsewhere."""
    answers: list[Answer] = []
    noise = RNG.normal(0, 0.02, 60)
    for value, gain, part in (
        (data.REMOVED, removed, slice(0, 30)),
        (data.UNRECOGNISED, elsewhere, slice(30, 60)),
    ):
        arms = {"question": np.full(30, 0.4), "qa_rag": 0.4 + gain + noise[part]}
        group = rows("contexts", "precision", arms)
        for row in group:
            unit = f"{value} {row.unit}"
            answers.append(replace(row, unit=unit, cluster=unit, strata={OWN: value}))
    return Outcomes(answers, labels=released.ARMS, draws=500)


def test_a_gain_that_depends_on_the_own_document_is_told_from_one_that_does_not() -> None:
    depends = differences.own_document_interaction(by_own_document(0.4, 0.05), "qa_rag", "question")
    assert depends.low > 0.3
    assert depends.p < 0.05
    same = differences.own_document_interaction(by_own_document(0.4, 0.4), "qa_rag", "question")
    assert same.low < 0 < same.high
    table = differences.gains_by_own_document(by_own_document(0.4, 0.05), [("qa_rag", "question")])
    (row,) = table.to_dict(orient="records")
    heads = [differences.GAIN_HEADS[value] for value in (data.REMOVED, data.UNRECOGNISED)]
    values = [str(row[head]) for head in heads]
    gains = [float(value.split()[0]) for value in values]
    assert gains == pytest.approx([40, 5], abs=2)
    difference = float(str(row["difference of the gains"]).split()[0])
    assert difference == pytest.approx(gains[0] - gains[1], abs=0.2)


def test_the_gains_of_several_measures_are_told_apart() -> None:
    contexts = by_own_document(0.4, 0.05)
    measures = []
    for of_row in contexts.frame.measures:
        measures.append({**of_row, "recall": (0.3, 1.0)})
    of_both = pd.Series(measures, contexts.frame.index)
    both = Outcomes(contexts.frame.assign(measures=of_both), draws=200)
    pairs = [("qa_rag", "question")]
    table = differences.gains_by_own_document(both, pairs, ["precision", "recall"])
    assert table.measure.tolist() == ["precision", "recall"]
    assert str(table["difference of the gains"][1]).startswith("+0.0")
    assert "measure" not in differences.gains_by_own_document(contexts, pairs)


def test_the_gain_beside_the_own_document_may_be_of_another_measure() -> None:
    contexts = by_own_document(0.4, 0.05)
    measures = [{"answer_found": of_row["precision"]} for of_row in contexts.frame.measures]
    outcomes = Outcomes(
        contexts.frame.assign(measures=pd.Series(measures, contexts.frame.index)), draws=500
    )
    pairs = [("qa_rag", "question")]
    (row,) = differences.gains_by_own_document(outcomes, pairs, ["answer_found"]).to_dict("records")
    assert float(str(row["difference of the gains"]).split()[0]) == pytest.approx(35, abs=3)


def test_the_forest_shows_each_difference_in_the_direction_of_its_sign() -> None:
    outcomes = by_own_document(0.4, -0.3)
    panels = []
    for value in (data.REMOVED, data.UNRECOGNISED):
        tests = outcomes.where(**{OWN: value}).compare([("qa_rag", "question")], "precision")
        panels.append(differences.Panel(value, tests))
    figure = differences._draw(panels, {"question": "Only question"})
    dots = [float(np.asarray(axes.lines[-2].get_xdata())[0]) for axes in figure.axes]
    assert dots == pytest.approx([40, -30], abs=2)
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["Only question"]
    text = html.unescape(differences.forest_plot(panels, outcomes, "Gains").svg)
    for panel in panels:
        gain = figures.points(panel.comparisons[0].test)
        assert f"{panel.title}: minus Only question {gain} points" in text


def test_conventional_rag_is_compared_alone() -> None:
    arms = {"qa_rag": np.full(30, 0.9), "question": np.full(30, 0.5)}
    arms["hypothetical"] = np.full(30, 0.9)
    contexts = same_documents("precision", arms)
    assert decide("beats_conventional_rag", contexts).verdict == "agrees"
    assert decide("context_precision", contexts).verdict != "agrees"
    for ending in ("", "_same_documents"):
        recall = same_documents("recall", arms)
        assert decide(f"recall_beats_conventional_rag{ending}", recall).verdict == "agrees"
    swapped_arms = arms | {"qa_rag": arms["question"], "question": arms["qa_rag"]}
    contexts = same_documents("recall", swapped_arms)
    assert decide("recall_beats_conventional_rag", contexts).verdict == "differs"


@pytest.mark.parametrize(("elsewhere", "verdict"), [(0.3, "agrees"), (0.0, "inconclusive")])
def test_a_gain_only_where_the_question_lost_its_document_is_none_over_the_same_documents(
    elsewhere: float, verdict: str
) -> None:
    contexts = by_own_document(0.4, elsewhere)
    verdicts = {"": "agrees", "_same_documents": verdict}
    for ending, expected in verdicts.items():
        rule = published("qa_rag").claim(f"qa_rag.claim.beats_conventional_rag{ending}").rule
        assert rule
        decision = rules.evaluate(rule, contexts, "rescored", paper="qa_rag")
        assert decision.verdict == expected, ending
        assert [estimate.n for estimate in decision.estimates] == [30 if ending else 60]
        assert ("own document is “not recognised”" in decision.why) == bool(ending)


@pytest.mark.parametrize(
    ("number", "value", "verdict"),
    [
        ("qa_rag.table2.hyde.recall_agent", 0.342, "agrees"),
        ("qa_rag.table2.hyde.recall_agent", 0.2, "differs"),
        ("qa_rag.table2.question.precision_agent", 0.6, "differs"),
    ],
)
def test_the_reranker_wins_in_print_but_for_two_methods(
    number: str, value: float, verdict: str
) -> None:
    paper = published("qa_rag")
    changes = {n.id: n.model_copy(update={"value": value}) for n in paper.numbers if n.id == number}
    numbers = [changes.get(n.id, n) for n in paper.numbers]
    printed = paper.model_copy(update={"numbers": numbers})
    labels = Outcomes([], labels=released.ARMS)
    decision = qa_rag_rules.reranker_beats_agent_as_printed(labels, printed=printed)
    assert decision.verdict == verdict


def test_the_printed_tables_decide_what_they_say() -> None:
    assert decide("same_order", []).verdict == "agrees"
    worst = decide("question_is_worst", [])
    assert worst.verdict == "inconclusive"  # the two columns of Table 3 say different things
    assert worst.why.startswith(
        "In Table 3, question (0.556) has the lowest context precision, and multiquery (0.564) has "
        "the second lowest. In Table 3, multiquery (0.269) has the lowest context recall, and "
        "question (0.27) has the second lowest."
    )


@pytest.mark.parametrize(
    ("claim", "number", "value"),
    [
        ("table_1_order", "table1.gpt4.precision", 0.6),
        ("table_1_order", "table1.finetuned_mistral.f1", 0.56),
        ("first_in_every_column", "table3.hypothetical.precision", 0.72),
        ("first_in_every_column", "table4.hyde.recall", 0.65),
        ("same_order", "table3.hyde.recall", 0.3),
        ("same_order", "table4.hyde.f1", 0.585),
        ("fine_tuned_first", "table3.hyde.recall", 0.3),
        ("fine_tuned_first", "table4.question.f1", 0.6),
        ("precision_gap_larger", "table5.question.precision", 0.69),
        ("precision_gap_larger", "table5.question.recall", 0.5),
        ("answer_searches_more_precise", "table3.hyde.precision", 0.56),
        ("answer_track_helps_as_printed", "table5.question.precision", 0.72),
    ],
)
def test_an_order_in_print_holds_as_printed_and_not_with_another_number(
    claim: str, number: str, value: float
) -> None:
    assert decide(claim, []).verdict == "agrees"
    paper = published("qa_rag")
    other = paper.number(f"qa_rag.{number}").model_copy(update={"value": value})
    numbers = [other if n.id == other.id else n for n in paper.numbers]
    printed = paper.model_copy(update={"numbers": numbers})
    rule = getattr(qa_rag_rules, claim)
    assert rule(Outcomes([], labels=released.ARMS), printed=printed).verdict == "differs"


@pytest.mark.parametrize(
    ("precision", "recall", "verdict"),
    [(0.559, 0.308, "inconclusive"), (0.559, 0.2, "agrees"), (0.71, 0.308, "differs")],
)
def test_the_answer_is_vital_if_qa_rag_loses_more_without_it_than_without_the_question(
    precision: float, recall: float, verdict: str
) -> None:
    values = {"precision": precision, "recall": recall}
    paper = published("qa_rag")
    numbers = []
    for n in paper.numbers:
        is_changed = n.id.startswith("qa_rag.table5.question")
        value = values[n.id.rpartition(".")[2]] if is_changed else n.value
        numbers.append(n.model_copy(update={"value": value}))
    printed = paper.model_copy(update={"numbers": numbers})
    decision = qa_rag_rules.answer_is_vital(Outcomes([]), printed=printed)
    assert decision.verdict == verdict


@pytest.mark.parametrize(
    ("precision", "recall", "verdict"), [(0.1, 0.1, "agrees"), (0.9, 0.9, "differs")]
)
def test_only_question_is_worst_where_it_is_last_in_both(
    precision: float, recall: float, verdict: str
) -> None:
    values = {"precision": precision, "recall": recall}
    paper = published("qa_rag")
    numbers = [
        n.model_copy(update={"value": values[n.id.rpartition(".")[2]]})
        if "table3.question" in n.id
        else n
        for n in paper.numbers
    ]
    printed = paper.model_copy(update={"numbers": numbers})
    assert (
        qa_rag_rules.question_is_worst(Outcomes([], labels=released.ARMS), printed=printed).verdict
        == verdict
    )


def test_parts_that_refute_a_claim_by_corrected_intervals_stand_in_one_sentence() -> None:
    arms = dict.fromkeys(
        ("qa_rag", "question", "hypothetical", "hypothetical_12"), np.tile([0.2, 0.4], 20)
    )
    decision = decide("recall_is_recall", rows("contexts", "recall", arms, holds=data.WHOLE_ANSWER))
    corrected = (
        "After Bonferroni's correction, all four intervals still refute the claim. After "
        "Bonferroni's correction, where the contexts contain"
    )
    assert decision.why.count("still refute") == decision.why.count(corrected) == 1


@pytest.mark.parametrize(
    ("recall", "n", "verdict"), [(1.0, 60, "agrees"), (0.4, 30, "differs"), (1.0, 5, "not tested")]
)
def test_a_judge_that_sees_what_is_there_is_believed(recall: float, n: int, verdict: str) -> None:
    arms = dict.fromkeys(
        ("qa_rag", "question", "hypothetical", "hypothetical_12"), np.full(n, recall)
    )
    assert (
        decide(
            "recall_is_recall", rows("contexts", "recall", arms, holds="the whole answer")
        ).verdict
        == verdict
    )


def test_the_opening_names_a_lead_that_only_the_correction_leaves_open() -> None:
    noise = np.random.default_rng(7).normal(0, 0.1, 40)
    arms = {"qa_rag": 0.5 + noise, "question": 0.464 + noise[::-1]}
    arms |= {"hypothetical": 0.5 + noise[::-1], "hyde": 0.5 - noise, "multiquery": 0.5 - noise}
    out = Outcomes(rows("answers", "f1", arms), draws=2000, labels=released.ARMS)
    family = differences.qa_rag_against(differences.OTHERS, out, "f1")
    (lead,) = (item for item in family if item.second == "question")
    assert lead.test.p < 0.05 < lead.p
    assert openings._significant_alone(family, out) == [
        "Without the correction, the lead of QA-RAG's answers over those of Only question "
        f"({figures.p_words(lead.test.p)}) would be significant."
    ]


def answered(f1_of_passages: float, **released_f1: float) -> Outcomes:
    """Answers of the served model, and of the release with its contexts where there are any."""
    rng = np.random.default_rng(5)
    by_passages = f1_of_passages + np.tile([-0.1, 0.1], 20)
    answers = {"qa_rag": by_passages, "closed_book": np.full(40, 0.5)}
    frames = [Outcomes(rows("answers", "f1", answers)).frame.assign(source="rerun")]
    if released_f1:
        written = {arm: f1 + rng.normal(0, 0.1, 40) for arm, f1 in released_f1.items()}
        frames += [
            Outcomes(rows("answers", "f1", written)).frame.assign(source="released"),
            by_own_document(0.4, 0.05).frame.assign(source="released"),
        ]
    return Outcomes(pd.concat(frames, ignore_index=True), labels=released.ARMS, draws=500)


def test_the_opening_has_the_released_leads_first_and_the_rest_below() -> None:
    f1 = {"qa_rag": 0.6, "question": 0.5, "hypothetical": 0.6, "hyde": 0.6, "multiquery": 0.6}
    opening = openings.answers(answered(0.5, **f1), "a model", "an encoder")
    first, below = opening.split("\n\n")
    assert first.startswith("**In the paper, QA-RAG's answers score higher")
    assert "those of four other methods" in first
    assert "only one lead is significant" in first
    assert "scored by another encoder" in first
    assert "significantly more precise than those of the search by the question" in first
    assert "[" in first
    assert_short_answer(opening)
    assert "cannot tell whether the passages bring the answers of a model nearer" in below
    by_its_encoder = openings.answers(answered(0.5, **f1), "a model", PAPER_ENCODER)
    assert "another encoder" not in by_its_encoder


def test_without_the_release_the_opening_is_about_the_served_model() -> None:
    opening = openings.answers(answered(0.8), "a model", "an encoder")
    assert opening.startswith("Shown the passages, a model gives answers nearer to the FDA's.")
    assert "\n\n" not in opening
