"""Scores against time: each arm is labelled once, and labels do not overlap."""

import re
from itertools import pairwise

from evaluation import figures
from evaluation.answers import Answer
from evaluation.metrics import Score
from evaluation.outcomes import Outcomes
from evaluation.trade_off import MIN_GAP, Dot, _label_positions, trade_off


def answer(arm: str, unit: str, right: bool, seconds: float) -> Answer:
    return Answer(
        arm=arm,
        unit=unit,
        cluster=unit,
        measures={"seconds": (seconds, 1.0), "accuracy": (float(right), 1.0)},
    )


def test_each_arm_stands_at_its_time_and_score_and_an_arm_without_time_is_left_out() -> None:
    figures.use_style()
    rows = [answer("graph", str(n), True, 0.01) for n in range(10)]
    rows += [answer("text", str(n), n % 2 == 0, 2.0) for n in range(10)]
    rows += [Answer(arm="none", unit="0", cluster="0", measures={"accuracy": (1.0, 1.0)})]
    out = Outcomes(rows, labels={"graph": "The graph"}, draws=100)
    picture = trade_off(out, "median(seconds)", "accuracy", "Accuracy and time.")
    text = picture.html.replace("\xa0", " ")
    assert "The graph: 100.0 % in 0.01 s" in text
    assert "text: 50.0 % in 2.00 s" in text
    assert picture.svg.count(">The graph<") == 1
    assert ">none<" not in picture.svg
    assert "further to the left is better" in picture.html


def test_labels_of_equal_scores_do_not_overlap() -> None:
    score = Score(1.0, 10, 0.9, 1.0)
    dots = [Dot(str(n), "red", Score(n + 1.0, 10, 1, 9), score) for n in range(8)]
    positions = sorted(_label_positions(dots, 0.0, 1.0))
    gaps = [upper - lower for lower, upper in pairwise(positions)]
    assert min(gaps) >= MIN_GAP - 1e-9


def test_the_line_from_a_fast_dot_passes_below_slower_dots_of_the_same_score() -> None:
    score = Score(1.0, 10, 0.9, 1.0)
    fast, middle, slow = (Dot(str(n), "red", Score(n, 10, n, n), score) for n in (1.0, 2.0, 3.0))
    lowest, between, highest = _label_positions([fast, middle, slow], 0.0, 1.0)
    assert lowest < between < highest


def test_labels_have_the_colour_of_the_text_and_a_dot_of_the_arms_colour() -> None:
    figures.use_style()
    rows = [answer("graph", str(n), True, 0.01) for n in range(10)]
    out = Outcomes(rows, labels={"graph": "The graph"}, colours={"graph": "#af219d"}, draws=100)
    picture = trade_off(out, "median(seconds)", "accuracy", "Accuracy and time.")
    texts = re.findall(r"<text [^>]*>", picture.html)
    assert texts
    assert not [text for text in texts if "af219d" in text]
    wide, _, narrow = picture.html.partition('rag-narrow"')
    n_dots_and_key = [svg.count("<use ") for svg in (wide, narrow)]
    assert "af219d" in wide
    assert n_dots_and_key[1] > n_dots_and_key[0], "on a phone the list has dots, too"
