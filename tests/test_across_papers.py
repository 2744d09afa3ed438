"""One set of questions for all architectures: the draw, the fusing, the reading of names, what the page says."""

from __future__ import annotations

from itertools import combinations
from typing import cast

import matplotlib.pyplot as plt
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers import figures, record
from helpers.across_papers import arms, report
from helpers.across_papers.arms import Answer, Found, Names
from helpers.across_papers.questions import KINDS, Asked, ask, families
from helpers.graph import Graph
from helpers.llm import LLM, Reply
from helpers.metrics import Score
from helpers.side_effects.forward import Question
from helpers.side_effects.misspelling import Normalised

DRUGS = ["ibuprofen", "naproxen", "zolpidem", "metformin", "lorazepam", "zafirlukast", "actinomycin", "warfarin"]
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
    asked = ask(BENCHMARK, KNOWLEDGE, per_kind, seed)
    for kind in KINDS:
        mine = [q for q in asked if q.kind == kind]
        assert len(mine) <= per_kind
        assert sum(q.label for q in mine) * 2 == len(mine)
    pairs = [(drug, q.side_effect) for q in asked if q.kind != "both" for drug in q.drugs]
    assert len(pairs) == len(set(pairs))
    assert ask(BENCHMARK, KNOWLEDGE, per_kind, seed) == asked


@settings(max_examples=20)
@given(st.integers(0, 99))
def test_the_labels_are_those_of_the_knowledge(seed):
    for q in ask(BENCHMARK, KNOWLEDGE, 4, seed):
        assert q.label == all(q.side_effect in KNOWLEDGE[drug] for drug in q.drugs)
        if q.kind == "both":
            assert any(q.side_effect in KNOWLEDGE[drug] for drug in q.drugs)  # a NO has one of the two drugs right
        if q.kind in ("misspelt", "brand"):
            assert not any(f" {drug}?" in q.text for drug in q.drugs)


def test_an_odd_number_cannot_be_balanced():
    with pytest.raises(ValueError, match="even"):
        ask(BENCHMARK, KNOWLEDGE, 3, 0)


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


def test_fusing_prefers_what_both_searches_found():
    near, cosine = np.array([1, 2, 3]), np.array([0.9, 0.8, 0.1], dtype=np.float32)
    same, score = np.array([2, 4, 5]), np.array([9.0, 8.0, 1.0], dtype=np.float32)
    assert arms.fuse(near, cosine, same, score, 0.5)[0] == 2
    assert arms.fuse(near, cosine, same, score, 1.0)[0] == 1
    assert sorted(arms.fuse(near, cosine, same, score, 0.5)) == [1, 2, 3, 4, 5]


@given(st.lists(st.integers(0, 9), min_size=6, max_size=6, unique=True), st.permutations(range(6)))
def test_two_tracks_are_joined_without_repeats(first, second):
    rows = arms.joined(first, list(second), 6)
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
    return [Normalised("ibuprofen" if name == "ibuprofin" else None) for name in names]


def text_for(questions):
    return [Found(["some text"]) for _ in questions]


@pytest.mark.parametrize(
    ("options", "misspelt", "unheard_of"),
    [
        ({}, arms.NOTHING, arms.NOTHING),
        ({"normalise": mend}, "ibuprofen (ibuprofin) may cause", arms.NOTHING),
        ({"otherwise": text_for}, "some text", "some text"),
        ({"normalise": mend, "otherwise": text_for}, "ibuprofen (ibuprofin) may cause", "some text"),
    ],
)
def test_name_repair_and_text_fallback_are_told_apart(options, misspelt, unheard_of):
    questions = [Asked("plain", f"Is it so of {d}?", True, (d,), "effect a") for d in ("ibuprofen", "ibuprofin", "q")]
    found = arms.from_graph(cast(LLM, Reader()), cast(Graph, Edges()), **options)(questions)
    for evidence, wanted in zip(found, ("ibuprofen may cause", misspelt, unheard_of), strict=True):
        assert wanted in evidence.lines[0]


def test_labels_can_be_listed_in_a_sentence():
    assert not [label for label in arms.ARMS.values() if "," in label]


def test_questions_that_share_a_drug_belong_together():
    drugs = [("a",), ("a",), ("b",), ("c", "d"), ("d", "b"), ("e",)]
    of = families([Asked("plain", "?", True, d, "e") for d in drugs])
    assert of[0] == of[1]
    assert of[2] == of[3] == of[4]
    assert len(set(of)) == 3


def answered(right: int, n: int = 40) -> tuple[list[Asked], list[Answer]]:
    """`right` of n questions answered as they should be, two questions a drug."""
    asked = [Asked(list(KINDS)[i // 2 % 5], "?", bool(i % 2), (f"d{i // 2}",), "e") for i in range(n)]
    answers = [Answer(q.label == (i < right), 0.5, (), 10, 1) for i, q in enumerate(asked)]
    return asked, answers


def advised(answers, asked, seconds):
    measured = report.measure(asked, answers, {arm: [s] * 3 for arm, s in seconds.items()}, 200)
    return report.advice(measured, report.compare_best(asked, answers, measured, 1000))


def test_the_advice_names_the_best_and_what_cannot_be_told_from_it():
    asked, best = answered(40)
    answers = {"closed_book": answered(20)[1], "text": answered(39)[1], "graph_first": best}
    text = advised(answers, asked, {"closed_book": 0.1, "text": 0.5, "graph_first": 2.0})
    assert text.startswith(f"**{arms.ARMS['graph_first']}** is right most often: 100")
    assert arms.ARMS["text"] in text
    assert arms.ARMS["closed_book"] not in text
    assert "0.50 s" in text
    assert '"as the data name it"' in text


def blind(asked, *kinds) -> list[Answer]:
    """Right answers, but always NO to questions of some kinds, of which nothing is known."""
    return [
        Answer(False, 0.5, (arms.NOTHING,), 10, 1) if q.kind in kinds else Answer(q.label, 0.5, ("text",), 10, 1)
        for q in asked
    ]


@pytest.fixture
def claims():
    """A page where the graph is blind to strange names and text to all others; repair helps, and text does not."""
    asked, _ = answered(0, 100)
    strange, usual = ("misspelt", "brand"), ("plain", "worded", "both")
    answers = dict.fromkeys(("closed_book", "text", "hybrid", "dual_track"), blind(asked, *usual))
    answers |= dict.fromkeys(("graph", "graph_text"), blind(asked, *strange))
    answers |= dict.fromkeys(("graph_names", "graph_first"), blind(asked))
    measured = report.measure(asked, answers, dict.fromkeys(answers, [1.0] * 3), 200)
    run = record.start(notebook="18_across_papers", paper="across_papers", profile="smoke", parameters={})
    report.report(run, answers, measured, report.compare_claims(asked, answers, 1000))
    return {claim.id.rpartition(".")[2]: claim for claim in run.claims}


def test_what_name_repair_gains_is_not_put_down_to_text(claims):
    assert claims["names_normalised_help"].verdict == "agrees"
    assert claims["text_after_graph_helps"].verdict != "agrees"
    assert arms.ARMS["graph_first"] not in claims["text_after_graph_helps"].why
    assert "The graph knew no name of 40 of the 100 questions." in claims["text_after_graph_helps"].why


def test_the_graph_is_compared_with_text_where_the_drug_is_named_as_in_the_data(claims):
    claim = claims["graph_beats_text"]
    assert claim.verdict == "agrees"
    assert "60 questions" in claim.why
    for kind in ("misspelt", "brand"):  # where text is the better one
        assert f'"{KINDS[kind]}": Graph 50.0' in claim.why


def test_reasons_are_sentences_that_say_which_is_which(claims):
    assert "20 questions only the first got right, 0 only the second" in claims["names_normalised_help"].why
    assert "Graph with name repair minus Graph: +20.0" in claims["names_normalised_help"].why
    for name in report.STAND_INS:
        assert f"stand-in: {report.STAND_INS[name]}" in claims[name].why
    assert set(claims) == set(report.CLAIMS)


def test_answers_about_one_drug_count_once():
    n = 16
    asked = [Asked("plain", "?", True, (f"d{i // 4}",), "e") for i in range(n)]  # four drugs, four questions each
    answers = [Answer(i < 12, 0.5, (), 10, 1) for i in range(n)]  # all of three drugs, none of the fourth
    other = [Answer(False, 0.5, (), 10, 1)] * n
    (found,) = report.compare(asked, {"a": answers, "b": other}, [report.Comparison("a", "b")], 1000)
    assert found.p > 0.2, "three drugs decide nothing"
    assert found.first.low < 0.3


def test_no_two_labels_of_the_picture_overlap():
    figures.use_style()
    spread = {arm: Score(0.1 * 1.6**i, 8, 0.09 * 1.6**i, 0.12 * 1.6**i) for i, arm in enumerate(arms.ARMS)}
    share, tokens = Score(0.8, 80, 0.7, 0.9), Score(2500.0, 80, 2400.0, 2600.0)
    fig = report.draw({arm: report.Measured(share, share, {}, tokens, tokens, tokens, s) for arm, s in spread.items()})
    fig.canvas.draw()
    labels = [*fig.axes[0].get_yticklabels(), *(ax.xaxis.label for ax in fig.axes)]
    for ax in fig.axes:
        low, high = ax.get_xlim()
        labels += [label for label in ax.get_xticklabels() if low <= label.get_position()[0] <= high]
    for first, second in combinations(labels, 2):
        assert not first.get_window_extent().overlaps(second.get_window_extent()), (first, second)
    shown = " ".join(label.get_text().replace("\n", " ") for label in fig.axes[0].get_yticklabels())
    assert all(label in shown for label in arms.ARMS.values())
    plt.close(fig)
