"""The book's look: numbers, tables, figures and prompts as a reader meets them, in light and dark, safe to show."""

from __future__ import annotations

import itertools
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from hypothesis import given, strategies as st
from markupsafe import Markup
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text

from evaluation import dumbbell, figures
from evaluation.interval_plot import Panel, PlotRow, describe_scores, interval_plot
from evaluation.metrics import Score, proportion
from evaluation.paired import Paired
from publish import pictures

NBSP = "\N{NO-BREAK SPACE}"
WHITE, DARK = "#ffffff", "#121212"

# Machado, Oliveira and Fernandes (2009), "A Physiologically-based Model for Simulation of Color Vision Deficiency",
# severity 1, on linear RGB
COLOUR_BLIND = {
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


class Page(HTMLParser):
    """Text and tags of a piece of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)

    def handle_data(self, data: str) -> None:
        self.text += data


def linear(colour: str) -> np.ndarray:
    rgb = np.array(to_rgb(colour))
    return np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)


def luminance(colour: str) -> float:
    return float(linear(colour) @ [0.2126, 0.7152, 0.0722])


def lab(rgb: np.ndarray) -> np.ndarray:
    xyz = np.array(
        [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    ) @ np.clip(rgb, 0, 1)
    x, y, z = np.cbrt(np.maximum(xyz / [0.9505, 1.0, 1.089], 1e-6))
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def a_plot() -> Figure:
    figures.use_style()
    fig, axes = plt.subplots()
    axes.plot(
        [0, 1],
        [0, 1],
        "o-",
        color=figures.arm_colour("graphrag"),
        label=figures.ARMS["graphrag"][0],
    )
    axes.set_xlabel("characters")
    axes.legend()
    return fig


def test_a_score_is_written_with_its_interval() -> None:
    assert figures.score_text(Score(0.965, 400, 0.959, 0.970)) == "96.5 % [95.9, 97.0]"
    assert (
        figures.score_text(Score(0.5, 4, 0.15, 0.85, unparsed=2))
        == "50.0 % [15.0, 85.0], 2 unparsed"
    )
    assert figures.score_text(Score(0.09, 121, 0.08, 0.1), "seconds") == "0.09 s [0.08, 0.10]"
    assert (
        figures.score_text(Score(0.0034, 121, 0.0028, 0.06), "seconds")
        == "0.0034 s [0.0028, 0.0600]"
    )
    assert figures.score_text(None) == "\N{EN DASH}"


@pytest.mark.parametrize(
    ("value", "unit", "text"),
    [
        (0.965, "fraction", "96.5 %"),
        (19520, "count", "19,520"),
        (11.0, "per_second", "11 /s"),
        (0.012, "per_second", "0.012 /s"),
        (-0.31, "percentage_points", "\N{MINUS SIGN}0.31 pp"),
        (-0.0004, "fraction", "0.0 %"),
        (-0.4, "count", "0"),
        (0.873, "ratio", "0.87"),
        (float("nan"), "fraction", "\N{EN DASH}"),
        (None, "seconds", "\N{EN DASH}"),
    ],
)
def test_each_unit_is_written_in_its_own_way(value: float | None, unit: str, text: str) -> None:
    assert figures.number(value, unit) == text


@given(st.floats(0, 1), st.integers(0, 4))
def test_a_written_fraction_reads_back_to_within_its_last_digit(value: float, digits: int) -> None:
    value_read = float(figures.number(value, digits=digits).removesuffix(" %")) / 100
    assert abs(value_read - value) <= 0.5 * 10.0 ** (-digits - 2) + 1e-12


def test_a_paired_difference_has_its_sign_and_a_p_value_its_limit() -> None:
    test = Paired("McNemar", 60, 12, 3, 0.15, -0.028, 0.262, 0.0004)
    assert figures.points(test) == "+15.0 [\N{MINUS SIGN}2.8, +26.2]"
    assert figures.signed(-0.001, 2) == "+0.00", "nothing has no sign that could be read as a loss"
    assert (figures.p_text(test.p), figures.p_words(test.p)) == (
        "< 0.001",
        "p\N{NBSP}<\N{NBSP}0.001",
    )
    assert (figures.p_text(0.0421), figures.p_words(0.0421)) == ("0.042", "p\N{NBSP}=\N{NBSP}0.042")


def test_an_unknown_unit_or_arm_names_those_there_are() -> None:
    with pytest.raises(ValueError, match="The units are fraction"):
        figures.number(1.0, "furlongs")
    with pytest.raises(KeyError, match="The arms are closed_book"):
        figures.arm_colour("graph_rag")


def test_numbers_and_scores_stand_to_the_right_and_text_to_the_left() -> None:
    frame = pd.DataFrame(
        {
            "Arm": ["A", "B"],
            "n": [1234, 2],
            "Accuracy": [proportion(1, 2), None],
            "F1": [0.5, np.nan],
        }
    )
    html = figures.table(frame, "Results").html
    assert re.findall(r'<th scope="col"( class="num")?>', html) == ["", *[' class="num"'] * 3]
    assert '<td data-label="n" class="num">1,234</td>' in html
    assert '<td data-label="F1" class="num">0.500</td>' in html
    assert html.count("\N{EN DASH}</td>") == 2
    assert "<caption>Results</caption>" in html
    assert 'role="region" tabindex="0" aria-label="Results"' in html


def test_numbers_that_are_written_already_stand_to_the_right_too() -> None:
    texts = [
        "96.5 % [95.9, 97.0]",
        "62.90%",
        "0.494",
        "",
        "\N{EN DASH}",
        "50.0 % [15.0, 85.0], 2 unparsed",
        "< 0.001",
    ]
    frame = pd.DataFrame({"written": texts, "words": ["1 of 2 answers", *["x"] * 6]})
    html = figures.table(frame, "x").html
    assert '<th scope="col" class="num">written</th><th scope="col">words</th>' in html
    assert '<td data-label="written" class="num"></td>' in html, "an empty text is no missing value"


def test_formats_go_by_column_and_a_wrong_column_is_named() -> None:
    frame = pd.DataFrame({"a": [0.25], "b": [2.5]})
    html = figures.table(
        frame, "x", formats={"a": "fraction", "b": lambda value: f"<{value}>"}
    ).html
    assert ">25.0 %<" in html.replace(NBSP, " ")
    assert "&lt;2.5&gt;" in html
    with pytest.raises(ValueError, match=r"\['c'\].*\['a', 'b'\]"):
        figures.table(frame, "x", formats={"c": "fraction"})


def test_only_a_named_index_is_shown() -> None:
    frame = pd.DataFrame({"value": [1]}, index=["row"])
    assert (
        "row"
        not in figures.table(frame, "x")
        .html.replace("<tbody><tr>", "")
        .replace("</tr>", "")
        .split("tbody")[1]
    )
    assert "<td" in (html := figures.table(frame.rename_axis("name"), "x").html)
    assert ">row</td>" in html


def test_columns_of_several_levels_are_refused() -> None:
    with pytest.raises(ValueError, match="several levels"):
        figures.table(pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", "b")])), "x")


def test_a_table_without_rows_still_has_its_columns() -> None:
    assert ">what</th>" in figures.table(pd.DataFrame({"what": []}), "Nothing found").html


@given(st.text(), st.text())
def test_no_text_becomes_markup(cell: str, caption: str) -> None:
    bare = set(Page(figures.table(pd.DataFrame({"a": ["x"]}), "y").html).tags)
    page = Page(figures.table(pd.DataFrame({"a": [cell]}), caption, sample=False).html)
    assert set(page.tags) == bare
    assert (
        figures.table(pd.DataFrame({"a": [Markup("<b>bold</b>")]}), "y").html.count("<b>bold</b>")
        == 1
    )


@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Cc"]), min_size=1))
def test_a_prompt_is_shown_to_the_letter(content: str) -> None:
    page = Page(figures.prompt_box([{"role": "user", "content": content}], answer="NO").html)
    assert content in page.text
    assert "answer" in page.text
    assert set(page.tags) <= {"div", "style", "span", "pre"}


def test_a_terminal_shows_the_words_and_not_the_whole_figure() -> None:
    assert repr(figures.figure(a_plot(), alt="A line.", caption="What rises.")) == "What rises."
    assert repr(figures.figure(a_plot(), alt="A line.")) == "A line."


def test_a_sample_is_marked_in_tables_and_figures() -> None:
    table = figures.table(pd.DataFrame({"a": [1]}), "Results", sample=True)
    assert '<strong class="rag-sample">SAMPLE</strong> Results' in table.html
    assert repr(table).startswith("SAMPLE. ")
    picture = figures.figure(a_plot(), alt="A line.", sample=True)
    assert ">SAMPLE</text>" in picture.svg
    assert '<figcaption><strong class="rag-sample">SAMPLE</strong>' in picture.html
    assert repr(picture) == "SAMPLE. A line.", "a terminal shows the words, not the drawing"
    assert "SAMPLE" not in figures.figure(a_plot(), alt="A line.").html


def test_a_resized_figure_has_a_drawing_for_a_phone_and_both_are_marked_once() -> None:
    plot = a_plot()
    plot.axes[0].set_xlabel("a label that is much too long for the width of a phone " * 2)
    picture = figures.figure(plot, narrow="resized", alt="A line.", sample=True)
    wide, narrow = re.findall(r"<svg.*?</svg>", picture.html, re.DOTALL)
    width = float(re.findall(r'viewBox="0 0 ([\d.]+)', narrow)[0])
    assert width == pytest.approx(72 * figures.PHONE_WIDTH, rel=0.02)
    assert wide.count(">SAMPLE</text>") == narrow.count(">SAMPLE</text>") == 1
    assert not plt.fignum_exists(plot.number), "it is closed"


def test_on_a_phone_a_legend_stands_below_its_panel() -> None:
    figures.use_style()
    plot, axes = plt.subplots()
    label = "RAG (Format B, LLM copies names), names relevant to the question"
    axes.plot([0, 1], [0, 1], label=label)
    axes.legend()
    axes.set_xlabel("names")
    figures.figure(plot, narrow="resized", alt="A line.")
    plot.draw_without_rendering()
    (legend,) = plot.legends
    entry = legend.get_window_extent()
    panel = axes.get_tightbbox()
    assert panel is not None
    assert axes.get_legend() is None
    assert entry.y1 <= panel.y0
    assert plot.bbox.x0 <= entry.x0 and entry.x1 <= plot.bbox.x1


@pytest.mark.parametrize("narrow", [False, True])
def test_the_title_of_a_panel_of_counts_is_not_cut(narrow: bool) -> None:
    counts = {"drug side effects": [1, 2, 3], "guidance": [4, 5, 6]}
    titles = [
        "Does it hold for the paper's system?",
        "Does it hold here, with the models that ran?",
    ]
    panels = {title: (counts, ["yes", "no", "open"]) for title in titles}
    fig = pictures.questions_picture(panels, narrow=narrow)
    for panel, title in zip(fig.axes, titles, strict=True):
        words = panel.get_title(loc="left")
        assert words.split() == title.split()
        (text,) = [t for t in panel.findobj(Text) if t.get_text() == words]
        assert text.get_window_extent().x1 <= panel.get_window_extent().x1
    plt.close(fig)


def test_a_figure_takes_the_ink_of_its_page_and_says_what_it_shows() -> None:
    plot = a_plot()
    picture = figures.figure(
        plot, alt='Sensitivity falls "like a stone" <fast>.', caption="It falls."
    )
    assert 'role="img"' in picture.svg
    assert 'aria-label="Sensitivity falls &#34;like a stone&#34; &lt;fast&gt;."' in picture.svg
    assert "currentColor" in picture.svg
    assert figures.INK not in picture.svg.lower()
    assert ">characters</text>" in picture.svg, "text stays text"
    assert "<figcaption>It falls.</figcaption>" in picture.html
    assert not plt.fignum_exists(plot.number), "the figure is closed, so that it is not shown twice"


def test_a_style_sheet_can_change_the_colours_of_a_page_but_a_saved_picture_has_them_in_itself(
    tmp_path: Path,
) -> None:
    figure, axes = plt.subplots()
    for colour in figures.HUES.values():
        axes.plot([0, 1], color=colour)
    picture = figures.figure(figure, alt="Lines.")
    for name, colour in figures.HUES.items():
        assert f"stroke: var(--rag-{name}, {colour})" in picture.html
        assert f": {colour}" not in picture.html
    assert "var(--rag" not in picture.save(tmp_path / "a.svg").read_text()


def test_a_figure_without_a_description_is_refused() -> None:
    with pytest.raises(ValueError, match="alt"):
        figures.figure(a_plot(), alt=" ")


def test_the_same_figure_is_the_same_file_and_its_names_are_its_own() -> None:
    first, second = (figures.figure(a_plot(), alt="A line.").svg for _ in range(2))
    assert first == second
    names = re.findall(r' id="([^"]+)"', first)
    assert len(names) == len(set(names))
    assert all(re.search(rf"#{re.escape(name)}\b", first) for name in names), (
        "no name that nothing refers to"
    )
    assert "<style" not in first, "a style of its own would reach the page around it"


def test_a_saved_picture_stands_alone_in_both_themes(tmp_path: Path) -> None:
    path = figures.figure(a_plot(), alt="A line.").save(tmp_path / "new" / "a.svg")
    text = path.read_text(encoding="utf-8")
    assert text.startswith("<svg xmlns=")
    assert "prefers-color-scheme:dark" in text


def test_every_colour_is_seen_on_white_and_on_the_dark_theme() -> None:
    for arm in figures.ARMS:
        for ground in (WHITE, DARK):
            light, dark = sorted(
                (luminance(figures.arm_colour(arm)), luminance(ground)), reverse=True
            )
            assert (light + 0.05) / (dark + 0.05) >= 3, (arm, ground)


def test_the_families_of_methods_stay_apart_for_colour_blind_readers() -> None:
    # grey is no family: it marks floors and references, each beside its name
    families = {hue: colour for hue, colour in figures.HUES.items() if hue != "grey"}
    for kind, matrix in {"none": np.eye(3), **COLOUR_BLIND}.items():
        lab_colours = {
            hue: lab(np.array(matrix) @ linear(colour)) for hue, colour in families.items()
        }
        for first, second in itertools.combinations(lab_colours, 2):
            assert np.linalg.norm(lab_colours[first] - lab_colours[second]) > 15, (
                kind,
                first,
                second,
            )


def test_the_scoreboard_picture_leaves_out_what_there_is_not() -> None:
    absent = dict.fromkeys(
        f"{kind}{end}" for kind in ("rescored", "rerun") for end in ("", "_low", "_high")
    )
    rows = [{"label": "GraphRAG", "colour": "#079c6b", "printed": 1.0, **absent}]
    full = rows[0] | {
        "rescored": 0.9,
        "rescored_low": None,
        "rerun": 0.8,
        "rerun_low": 0.7,
        "rerun_high": 0.85,
    }
    figures.use_style()
    for narrow in (False, True):
        bare = figures.figure(
            pictures.scoreboard_picture(pd.DataFrame(rows), narrow=narrow), alt="x"
        ).svg
        picture = figures.figure(
            pictures.scoreboard_picture(pd.DataFrame([full]), narrow=narrow), alt="x"
        ).svg
        assert ">100.0 %<" in bare
        assert ">80.0 %<" not in bare
        assert all(f">{text} %<" in picture for text in ("100.0", "90.0", "80.0"))


def test_numbers_of_narrow_parts_do_not_touch() -> None:
    figures.use_style()
    counts = {"a": [1, 1, 1, 30], "b": [12, 1, 9, 5]}
    fig = pictures.questions_picture({"?": (counts, ["w", "x", "y", "z"])}, narrow=True)
    labels = [text for text in fig.axes[0].texts if text.get_visible() and text.get_text()]
    expected = [str(count) for row in counts.values() for count in row]
    assert sorted(text.get_text() for text in labels) == sorted(expected), "each part has one"
    boxes = [text.get_window_extent() for text in labels]
    assert not [pair for pair in itertools.combinations(boxes, 2) if pair[0].overlaps(pair[1])]


@pytest.mark.parametrize(
    ("text", "lines"),
    [
        ("57.7 % [53.2, 62.1], 1 unparsed", ["57.7 %", "[53.2, 62.1],", "1 unparsed"]),
        ("+44.5 [+37.0, +52.5]", ["+44.5", "[+37.0, +52.5]"]),
        ("< 0.001", ["< 0.001"]),
    ],
)
def test_a_narrow_column_breaks_a_score_before_its_interval_and_in_no_number(
    text: str, lines: list[str]
) -> None:
    html = figures.table(pd.DataFrame({"F1": [text]}), "Scores").html
    cell = html.partition('data-label="F1" class="num">')[2].partition("</td>")[0]
    assert [unescape(line).replace(NBSP, " ") for line in cell.split(" ")] == lines


def test_a_dumbbell_shows_printed_and_rerun_shares_of_each_group():
    score = Score(0.45, 100, 0.35, 0.55)
    groups = {
        "GIT": [
            dumbbell.Dumbbell("Fine-tuned", 0.59, score, "#c35410"),
            dumbbell.Dumbbell("Classifier", None, score, "#079c6b"),
        ],
        "DDI": [dumbbell.Dumbbell("Fine-tuned", 0.8, None, "#c35410")],
    }
    drawing = dumbbell.plot(groups)
    (axes,) = drawing.axes
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "GIT",
        "Fine-tuned",
        "Classifier",
        "DDI",
        "Fine-tuned",
    ]
    rings = [line for line in axes.lines if line.get_markerfacecolor() == "none"]
    assert [float(np.asarray(line.get_xdata())[0]) for line in rings] == [0.59, 0.8]
    assert axes.get_ylim()[0] > axes.get_ylim()[1], "the first group is at the top"
    plt.close(drawing)
    assert dumbbell.describe(groups) == (
        "GIT. Fine-tuned: printed 59.0 %, here 45.0 %; Classifier: here 45.0 %. "
        "DDI. Fine-tuned: printed 80.0 %."
    )


def test_the_key_of_a_dumbbell_names_the_colours_that_it_has_and_a_dot_at_0_is_clear_of_labels():
    figures.use_style()
    groups = {"GIT": [dumbbell.Dumbbell("Tuned", 0.59, Score(0, 9, 0, 0.1), "#c35410")]}
    key = {"language model": ("#c35410",), "floor": ("#079c6b", "#808080")}
    for is_narrow in (False, True):
        drawing = dumbbell.plot(groups, is_narrow=is_narrow, key=key)
        (legend,) = drawing.legends
        assert [text.get_text() for text in legend.get_texts()] == ["language model"]
        (axes,) = drawing.axes
        drawing.draw_without_rendering()
        dot = axes.transData.transform((0, 1))[0]
        assert dot - axes.get_window_extent().x0 > 4
        plt.close(drawing)


def a_panel(measure: str, title: str, *arms: str) -> Panel:
    return Panel(title, measure, dict.fromkeys(arms, Score(0.9, 10, 0.8, 1.0)))


def shown_numbers(axes: Axes) -> list[Text]:
    low, high = axes.get_xlim()
    ticks = zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
    return [label for tick, label in ticks if low <= tick <= high]


def test_numbers_and_titles_of_neighbouring_panels_stand_apart():
    figures.use_style()
    titles = ("drug F1", "taken drug F1", "taken strength F1", "taken frequency F1")
    rows = [PlotRow("a", "Rules (one spelling error allowed)", "#125ee0")]
    for n_panels in (3, 4):
        panels = [a_panel(title, title, "a") for title in titles[:n_panels]]
        drawing = interval_plot(panels, rows)
        drawing.draw_without_rendering()
        for left, right in itertools.pairwise(drawing.axes):
            ends = [label.get_window_extent().x1 for label in shown_numbers(left)]
            starts = [label.get_window_extent().x0 for label in shown_numbers(right)]
            assert min(starts) - max(ends) > 6
            left_title, right_title = (
                axes.xaxis.label.get_window_extent() for axes in (left, right)
            )
            assert right_title.x0 - left_title.x1 > 4
        plt.close(drawing)


def test_more_panels_than_fit_take_further_rows():
    figures.use_style()
    panels = [a_panel(str(n), f"measure {n}", "a") for n in range(8)]
    drawing = interval_plot(panels, [PlotRow("a", "An arm with a long name", "#125ee0")])
    drawing.draw_without_rendering()
    lefts = {round(axes.get_position().x0, 3) for axes in drawing.axes}
    assert len(lefts) == 4
    plt.close(drawing)


@pytest.mark.parametrize("n_words", [3, 6, 12])
def test_on_a_phone_labels_of_several_lines_stand_apart(n_words: int) -> None:
    figures.use_style()
    arms = ["a", "b", "c"]
    rows = [PlotRow(arm, " ".join(["candidates"] * n_words), "#125ee0") for arm in arms]
    panels = [a_panel("f1", "F1", *arms), a_panel("recall", "recall", *arms)]
    drawing = interval_plot(panels, rows, is_narrow=True)
    drawing.draw_without_rendering()
    for axes in drawing.axes:
        boxes = sorted(
            (label.get_window_extent() for label in axes.get_yticklabels()), key=lambda box: box.y0
        )
        assert len(boxes) == len(arms)
        for lower, upper in itertools.pairwise(boxes):
            assert lower.y1 <= upper.y0 + 1
    plt.close(drawing)


def test_an_empty_row_of_a_panel_says_why():
    figures.use_style()
    rows = [PlotRow("a", "A", "#125ee0"), PlotRow("b", "B", "#125ee0")]
    groups = [a_panel("f1", "known", "a", "b"), a_panel("f1", "new", "a")]
    measures = [a_panel("f1", "F1", "a", "b"), a_panel("recall", "recall", "a")]
    for panels, words in ((groups, "no answers"), (measures, "no value")):
        drawing = interval_plot(panels, rows)
        first, second = drawing.axes
        assert not first.texts
        assert [(text.get_text(), text.get_position()[1]) for text in second.texts] == [(words, 1)]
        plt.close(drawing)
        assert describe_scores(panels, rows).endswith(f"{panels[1].title} {words}.")


def test_panels_of_shares_have_one_span_and_other_measures_their_own():
    figures.use_style()
    rows = [PlotRow("a", "A", "#125ee0")]
    low = Panel("sensitivity", "sensitivity", {"a": Score(0.1, 10, 0.0, 0.2)})
    counts = Panel("tokens", "tokens", {"a": Score(60, 10, 50, 70)})
    for second, is_one_span in ((low, True), (counts, False)):
        drawing = interval_plot([a_panel("accuracy", "accuracy", "a"), second], rows)
        left, right = drawing.axes
        assert (left.get_xlim() == right.get_xlim()) is is_one_span
        plt.close(drawing)
