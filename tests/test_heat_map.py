"""A heat map shows each arm and group once, and says so to who cannot see it."""

import re

from evaluation import figures
from evaluation.answers import Answer
from evaluation.heat_map import heat_map
from evaluation.outcomes import Outcomes


def answer(arm: str, unit: str, kind: str, f1: float) -> Answer:
    return Answer(
        arm=arm, unit=unit, cluster=unit, strata={"kind": kind}, measures={"f1": (f1, 1.0)}
    )


def test_each_cell_has_its_score_and_interval_and_an_arm_without_rows_has_none() -> None:
    figures.use_style()
    rows = [answer("graph", f"a{n}", "one hop", n % 2) for n in range(10)]
    rows += [answer("graph", f"b{n}", "two hops", 1.0) for n in range(4)]
    rows += [answer("text", f"a{n}", "one hop", 0.0) for n in range(10)]
    out = Outcomes(rows, labels={"graph": "The graph"}, draws=100)
    picture = heat_map(out, "f1", "F1 by kind.", by="kind")
    assert "The graph: one hop 50.0 %, two hops 100.0 %; text: one hop 0.0 %" in picture.html
    for text in ("one hop<", "n = 10<", "two hops<", ">50 %<", ">100 %<", ">[0, "):
        assert text in picture.svg.replace("\xa0", " "), text
    n_intervals = picture.svg.count(">[")
    assert n_intervals == 3
    assert "A higher score has a stronger colour" in picture.html, "so on a light and a dark page"
    narrow = picture.html.partition('rag-narrow"')[2]
    assert narrow.count(">[") == n_intervals, "a phone has the same cells"


def picture_of(n_kinds: int, f1: float) -> figures.Picture:
    figures.use_style()
    rows = []
    for kind in range(n_kinds):
        rows += [answer("graph", f"{kind}-{n}", f"kind {kind}", f1) for n in range(10)]
    return heat_map(Outcomes(rows, draws=100), "f1", "F1 by kind.", by="kind")


def test_text_on_a_phone_is_as_large_as_small_print() -> None:
    narrow = picture_of(6, 0.5).html.partition('rag-narrow"')[2]
    sizes = [float(size) for size in re.findall(r"font: ([\d.]+)px", narrow)]
    sizes += [float(size) for size in re.findall(r"font-size: ([\d.]+)px", narrow)]
    phone_scale = 358 / (72 * 4.2)
    assert min(sizes) * phone_scale >= 11.5


def test_a_phone_shows_no_interval_that_would_touch_the_next_one_and_the_caption_says_so() -> None:
    for n_kinds, has_intervals in ((3, True), (9, False)):
        picture = picture_of(n_kinds, 1.0)
        wide, _, narrow = picture.html.partition('rag-narrow"')
        assert ">[" in wide
        assert (">[" in narrow) == has_intervals
        assert ("Narrow screens do not show the intervals." in picture.html) != has_intervals
