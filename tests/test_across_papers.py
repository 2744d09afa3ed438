"""One set of questions for all architectures: the draw, the fusing, the reading of names, what the page says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import combinations
from typing import cast

import matplotlib.pyplot as plt
import pytest
from hypothesis import given, settings, strategies as st
from short_answers import assert_short_answer

from evaluation import answers, figures, published, record, rules
from evaluation.answers import Answer, make_row
from evaluation.interval_plot import Panel, PlotRow, interval_plot
from evaluation.measures import measure_label
from evaluation.outcomes import Outcomes
from helpers import neighbours, vectors
from helpers.completions import Reply
from helpers.graph import Graph
from helpers.llm import LLM
from papers.across_papers import arms
from papers.across_papers.arms import Evidence, Names
from papers.across_papers.questions import KINDS, KindQuestion, families, make_questions
from papers.side_effects import corpus
from papers.side_effects.corpus import Question
from rag.retrieval import align_scores, fusion_order

DRUGS = [
    "ibuprofen",
    "naproxen",
    "zolpidem",
    "metformin",
    "lorazepam",
    "zafirlukast",
    "actinomycin",
    "warfarin",
]
EFFECTS = [f"effect {letter}" for letter in "abcdefghijklmnop"]
KNOWLEDGE = {drug: tuple(EFFECTS[i : i + 8]) for i, drug in enumerate(DRUGS)}
BENCHMARK = [
    Question(drug, effect, effect in KNOWLEDGE[drug])
    for drug in DRUGS
    for effect in (*KNOWLEDGE[drug][:5], *[e for e in EFFECTS if e not in KNOWLEDGE[drug]][:5])
]


@settings(max_examples=20)
@given(st.integers(1, 3).map(lambda n: 2 * n), st.integers(0, 99))
def test_every_kind_is_balanced_and_no_pair_stands_in_two_kinds(per_kind, seed):
    question_set = make_questions(BENCHMARK, KNOWLEDGE, per_kind, seed)
    for kind in KINDS:
        of_kind = [q for q in question_set if q.kind == kind]
        assert len(of_kind) <= per_kind
        assert sum(q.label for q in of_kind) * 2 == len(of_kind)
    pairs = [(drug, q.side_effect) for q in question_set if q.kind != "both" for drug in q.drugs]
    assert len(pairs) == len(set(pairs))
    assert set(pairs).isdisjoint(
        (drug, q.side_effect) for q in question_set if q.kind == "both" for drug in q.drugs
    )
    assert make_questions(BENCHMARK, KNOWLEDGE, per_kind, seed) == question_set


@settings(max_examples=20)
@given(st.integers(0, 99))
def test_the_labels_are_those_of_the_knowledge(seed):
    for q in make_questions(BENCHMARK, KNOWLEDGE, 4, seed):
        assert q.label == all(q.side_effect in KNOWLEDGE[drug] for drug in q.drugs)
        if q.kind == "both":
            assert any(
                q.side_effect in KNOWLEDGE[drug] for drug in q.drugs
            )  # a NO has one of the two drugs right
        if q.kind in ("misspelt", "brand"):
            assert not any(f" {drug}?" in q.text for drug in q.drugs)


def test_an_odd_number_cannot_be_balanced():
    with pytest.raises(ValueError, match="even"):
        make_questions(BENCHMARK, KNOWLEDGE, 3, 0)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("Ibuprofen | effect a", Names(("ibuprofen",), "effect a")),
        ("ibuprofen, naproxen | effect a.", Names(("ibuprofen", "naproxen"), "effect a")),
        ("ibuprofen and naproxen | effect a", Names(("ibuprofen", "naproxen"), "effect a")),
        ("ibuprofen, ibuprofen | effect a", Names(("ibuprofen",), "effect a")),
        ("I do not know.", Names()),
        ("| effect a", Names()),
    ],
)
def test_names_are_read_from_one_line(line, names):
    assert arms.parse_names(line) == names


@given(st.text(max_size=80))
def test_any_line_is_read_or_refused(line):
    names = arms.parse_names(line)
    assert bool(names.side_effect) <= bool("|" in line)


class Supposing:
    """A model that supposes another answer each time it is asked."""

    def __init__(self) -> None:
        self.times = 0

    def chat_many(self, prompts, **_):
        self.times += 1
        texts = [f"Answer {self.times} to prompt {row}." for row in range(len(prompts))]
        return [Reply(text, "complete", 1, 1, 0.0, key="k") for text in texts]


def test_a_question_asked_again_for_its_time_is_searched_with_the_first_supposed_answer():
    store = corpus.format_b_store({"ibuprofen": ["effect a", "effect b"]}, vectors.encoder())
    question_set = make_questions(BENCHMARK, KNOWLEDGE, 2, 0)[:2]
    find = arms.DualTrack(cast(LLM, Supposing()), store, 2, {})
    first = find(question_set)
    before = neighbours.COUNTS.searching
    again = find(question_set)
    assert [item.lines for item in again] == [item.lines for item in first]
    assert [item.replies for item in again] != [item.replies for item in first]
    assert neighbours.COUNTS.searching == before, "nothing is searched anew"


def test_fusing_prefers_what_both_searches_found():
    rows, scores = align_scores({1: 0.9, 2: 0.8, 3: 0.1}, {2: 9.0, 4: 8.0, 5: 1.0})
    assert rows[fusion_order(scores, (0.5, 0.5))[0]] == 2
    assert rows[fusion_order(scores, (1.0, 0.0))[0]] == 1
    assert sorted(rows[fusion_order(scores, (0.5, 0.5))]) == [1, 2, 3, 4, 5]


@given(st.lists(st.integers(0, 9), min_size=6, max_size=6, unique=True), st.permutations(range(6)))
def test_two_tracks_are_joined_without_repeats(first, second):
    rows = arms.take_in_turn(first, list(second), 6)
    assert len(rows) == len(set(rows)) == 6
    assert rows[0] == first[0]
    assert set(rows) <= {*first, *second}


def test_the_prompt_has_evidence_only_where_there_is_some():
    assert "Evidence" not in arms.answering_prompt("Is it so?", [])[1]["content"]
    assert "- a\n- b" in arms.answering_prompt("Is it so?", ["a", "b"])[1]["content"]


class Reader:
    """A model that copies out of each question what stands after "of", as the drug, with one effect."""

    def chat_many(self, prompts, **_):
        names = [messages[-1]["content"].rpartition(" of ")[2].rstrip("?") for messages in prompts]
        return [Reply(f"{name} | effect a", "complete", 10, 5, 0.0) for name in names]


class Edges:
    """A graph of one drug with one effect."""

    def read(self, _query, drug, side_effect):
        return [{"drug": drug, "side_effect": side_effect}] if drug == "ibuprofen" else []


def mend(names):
    return ["ibuprofen" if name == "ibuprofin" else None for name in names]


def text_for(questions):
    return [Evidence(["some text"]) for _ in questions]


@pytest.mark.parametrize(
    ("options", "misspelt", "unheard_of"),
    [
        ({}, arms.NOTHING, arms.NOTHING),
        ({"normalise": mend}, "ibuprofen (ibuprofin) may cause", arms.NOTHING),
        ({"fallback": text_for}, "some text", "some text"),
        (
            {"normalise": mend, "fallback": text_for},
            "ibuprofen (ibuprofin) may cause",
            "some text",
        ),
    ],
)
def test_name_repair_and_text_fallback_are_told_apart(options, misspelt, unheard_of):
    questions = [
        KindQuestion("plain", f"Is it so of {d}?", True, (d,), "effect a")
        for d in ("ibuprofen", "ibuprofin", "q")
    ]
    results = arms.FromGraph(cast(LLM, Reader()), cast(Graph, Edges()), **options)(questions)
    for evidence, expected in zip(
        results, ("ibuprofen may cause", misspelt, unheard_of), strict=True
    ):
        assert expected in evidence.lines[0]


def test_labels_can_be_listed_in_a_sentence():
    assert not [label for label in arms.ARMS.values() if "," in label]


def test_questions_that_share_a_drug_belong_together():
    drugs = [("a",), ("a",), ("b",), ("c", "d"), ("d", "b"), ("e",)]
    family_of = families([KindQuestion("plain", "?", True, d, "e") for d in drugs])
    assert family_of[0] == family_of[1]
    assert family_of[2] == family_of[3] == family_of[4]
    assert len(set(family_of)) == 3


Right = Callable[[int, KindQuestion], bool]


def rows(
    question_set: list[KindQuestion], arms_right: Mapping[str, Right], seconds: float = 1.0
) -> list[Answer]:
    """Answers of arms, each told by whether it gets a question right; and its time for the first three."""
    answers = []
    for arm, right in arms_right.items():
        for i, q in enumerate(question_set):
            answer_text = q.gold if right(i, q) else {"YES": "NO", "NO": "YES"}[q.gold]
            answer = Answer(
                predicted=answer_text, measures={"p_yes": (0.5, 1.0), "tokens": (11.0, 1.0)}
            )
            answers.append(make_row(answer, q, arm=arm, model="m"))
            if i < 3:
                timed = Answer(repeat=1, measures={"seconds": (seconds, 1.0)})
                answers.append(make_row(timed, q, arm=arm, model="m"))
    return answers


def questions(n: int) -> list[KindQuestion]:
    """n questions, two about each drug, a YES and a NO, in all kinds."""
    kinds = list(KINDS)
    return [
        KindQuestion(
            kinds[i // 2 % 5], "?", bool(i % 2), (f"d{i // 2}",), f"e{i}", cluster=f"d{i // 2}"
        )
        for i in range(n)
    ]


def page(*parts: list[Answer]) -> Outcomes:
    return Outcomes(
        [row for part in parts for row in part], labels=arms.ARMS, colours=arms.COLOURS, draws=500
    )


def test_the_advice_names_the_best_and_what_cannot_be_told_from_it():
    question_set = questions(40)
    out = page(
        rows(question_set, {"closed_book": lambda i, q: i < 20}, 0.1),
        rows(question_set, {"text": lambda i, q: i < 39}, 0.5),
        rows(question_set, {"graph_first": lambda i, q: True}, 2.0),
    )
    text = arms.advice(out)
    assert text.startswith(
        f"**{arms.ARMS['graph_first']}** answers the most questions correctly, namely 100"
    )
    assert arms.ARMS["text"] in text
    assert arms.ARMS["closed_book"] not in text
    assert "0.50 s" in text
    assert "lead over it is +2.5" in text
    assert "as the data name it" in text
    assert_short_answer(text)


def test_the_advice_names_a_tie_and_ranks_no_times_that_overlap():
    question_set = questions(40)
    best = ("graph_names", "graph_first")
    parts = [rows(question_set, {"text": lambda i, q: i < 20}, 0.5)]
    for arm, seconds in zip(best, ((1.0, 3.0), (2.0, 4.0)), strict=True):
        timed = [rows(question_set[i::2], {arm: lambda i, q: True}, seconds[i]) for i in (0, 1)]
        parts += timed
    text = arms.advice(page(*parts))
    names = " and ".join(f"“{arms.ARMS[arm]}”" for arm in best)
    assert text.startswith(f"**The architectures {names} tie.** Each answers 100")
    assert_short_answer(text)
    assert "Each architecture was timed on 6 questions, too few to say" in text


def test_by_the_small_model_no_architecture_gains_as_the_notes_of_the_claims_say():
    small = answers.read(answers.RELEASED / "18_across_papers@SmolLM2-135M-Instruct")
    out = Outcomes(small[small.source == "rerun"], labels=arms.ARMS)
    for claim in published.published("across_papers").claims:
        assert "SmolLM2-135M-Instruct" in claim.note
        assert claim.rule
        conditions = {name: list(values) for name, values in claim.rule.where.items()}
        [comparison] = out.where(**conditions).compare(
            [(claim.rule.better[0], claim.rule.than[0])], "accuracy"
        )
        assert comparison.p > 0.05
        assert all(score.low < 0.5 < score.high for score in comparison.scores)


@pytest.fixture
def claims():
    """A page where the graph fails on strange names and text on all others; repair helps, and text does not."""
    question_set = questions(100)
    strange, usual = ("misspelt", "brand"), ("plain", "worded", "both")
    right: dict[str, Right] = dict.fromkeys(
        ("closed_book", "text", "hybrid", "dual_track"), lambda i, q: q.kind not in usual
    )
    right["hybrid"] = lambda i, q: q.kind not in usual or i % 30 == 0  # too few to tell
    right |= dict.fromkeys(("graph", "graph_text"), lambda i, q: q.kind not in strange)
    right |= dict.fromkeys(("graph_names", "graph_first"), lambda i, q: True)
    run = record.start(
        notebook="18_across_papers", paper="across_papers", profile="smoke", parameters={}
    )
    names = [claim.id.rpartition(".")[2] for claim in run.printed.claims]
    rules.decide(run, page(rows(question_set, right)), *names)
    assert {claim.reason for claim in run.claims} == {"another system"}, "this book's own questions"
    return {finding.id.rpartition(".")[2]: finding for finding in run.here_findings}


def test_a_claim_that_more_units_would_decide_says_how_many(claims):
    open_ = [claim for claim in claims.values() if claim.needed]
    assert open_
    assert all(f"{claim.needed:,} rows" in claim.why for claim in open_)


def test_what_name_repair_gains_is_not_put_down_to_text(claims):
    assert claims["names_normalised_help"].answer == "with the claim"
    assert claims["text_after_graph_helps"].answer != "with the claim"
    assert arms.ARMS["graph_first"] not in claims["text_after_graph_helps"].why


def test_the_graph_is_compared_with_text_where_the_drug_is_named_as_in_the_data(claims):
    assert claims["graph_beats_text"].answer == "with the claim"
    assert "n = 60" in claims["graph_beats_text"].why


def test_every_claim_of_the_page_has_a_rule_and_an_answer(claims):
    assert len(claims) == 5
    assert "a difference of +40.0" in claims["names_normalised_help"].why


def test_answers_about_one_drug_count_once():
    question_set = [
        KindQuestion("plain", "?", True, (f"d{i // 4}",), f"e{i}", cluster=f"d{i // 4}")
        for i in range(16)
    ]
    out = page(
        rows(question_set, {"a": lambda i, q: i < 12, "b": lambda i, q: False})
    )  # all of three drugs, none of the fourth
    (comparison,) = out.compare([("a", "b")], "accuracy")
    assert comparison.p > 0.2, "three drugs decide nothing"
    assert comparison.scores[0].low < 0.3


def test_timed_answers_enter_no_accuracy():
    question_set = questions(10)
    out = page(rows(question_set, {"text": lambda i, q: True}))
    assert out.score("accuracy", "text").n == 10
    assert out.score("median(seconds)", "text").n == 3


def test_no_two_labels_of_the_picture_overlap():
    figures.use_style()
    question_set = questions(40)
    parts = [
        rows(question_set, {arm: lambda i, q: i % 3 > 0}, 0.1 * 1.6**i)
        for i, arm in enumerate(arms.ARMS)
    ]
    out = page(*parts)
    measures = ("accuracy", "median(seconds)", "tokens")
    panels = []
    for measure in measures:
        scores = {arm: out.score(measure, arm) for arm in out.arms}
        panels.append(Panel(measure_label(measure), measure, scores))
    plot_rows = [PlotRow(arm, out.label(arm), out.colours[arm]) for arm in out.arms]
    fig = interval_plot(panels, plot_rows, 0.5)
    fig.canvas.draw()
    labels = [*fig.axes[0].get_yticklabels(), *(ax.xaxis.label for ax in fig.axes)]
    for ax in fig.axes:
        low, high = ax.get_xlim()
        labels += [
            label for label in ax.get_xticklabels() if low <= label.get_position()[0] <= high
        ]
    for first, second in combinations(labels, 2):
        assert not first.get_window_extent().overlaps(second.get_window_extent()), (first, second)
    assert "seconds, in seconds" not in fig.axes[1].get_xlabel()
    assert fig.axes[1].get_xlabel().count("seconds") == 1
    names = " ".join(label.get_text().replace("\n", " ") for label in fig.axes[0].get_yticklabels())
    assert all(label in names for label in arms.ARMS.values())
    plt.close(fig)
