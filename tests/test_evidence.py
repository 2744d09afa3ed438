"""Sentences of the evidence: scores and differences with their n, tests and unparsed answers."""

from evaluation.evidence import comparison_sentence, score_sentence, sentence_case
from evaluation.metrics import Score
from evaluation.outcomes import Comparison
from evaluation.paired import Paired


def test_a_score_is_a_sentence_with_its_n_and_its_unparsed_answers():
    score = Score(0.08, 121, 0.054, 0.113)
    assert score_sentence("recall of text", score) == (
        "Recall of text is 8.0 % [5.4, 11.3] (n = 121)."
    )
    unparsed = Score(0.08, 121, 0.054, 0.113, unparsed=1200)
    assert score_sentence("nDCG@10", unparsed).endswith("11.3] (n = 121, 1,200 unparsed).")
    assert score_sentence("nDCG@10", score).startswith("nDCG@10 is")


def test_a_difference_is_a_sentence_that_names_both_arms_and_the_test():
    scores = (Score(0.9, 40, 0.8, 0.95), Score(0.5, 40, 0.4, 0.6, unparsed=3))
    test = Paired("permutation", 40, 16, 0, 0.4, 0.3, 0.5, 0.0001)
    comparison = Comparison("graph", "text", "GIT", scores, test, p=0.0004)
    sentence = comparison_sentence(comparison, ("Graph", "Text"), "F1", condition="On GIT")
    assert sentence.replace("\N{NO-BREAK SPACE}", " ") == (
        "On GIT, F1 is 90.0 % [80.0, 95.0] for Graph and 50.0 % [40.0, 60.0] (3 unparsed) for "
        "Text, a difference of +40.0 [+30.0, +50.0] points (p < 0.001, n = 40)."
    )


def test_both_arms_are_quoted_if_one_has_an_and():
    scores = (Score(0.9, 40, 0.8, 0.95), Score(0.5, 40, 0.4, 0.6))
    test = Paired("permutation", 40, 16, 0, 0.4, 0.3, 0.5, 0.0001)
    comparison = Comparison("both", "text", "GIT", scores, test, p=0.0004)
    sentence = comparison_sentence(comparison, ("Graph and text", "Text"), "F1")
    assert (
        "for \N{LEFT DOUBLE QUOTATION MARK}Graph and text\N{RIGHT DOUBLE QUOTATION MARK}"
        in sentence
    )
    assert "for \N{LEFT DOUBLE QUOTATION MARK}Text\N{RIGHT DOUBLE QUOTATION MARK}" in sentence


def test_a_sentence_begins_with_a_capital_unless_it_begins_with_a_name():
    assert [sentence_case(text) for text in ("recall", "nDCG", "F1", "")] == [
        "Recall",
        "nDCG",
        "F1",
        "",
    ]
