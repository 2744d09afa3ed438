"""QA-RAG's lead over the other methods: drawn, and by the fate of a question's own document."""

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evaluation import figures
from evaluation.interactions import interaction
from evaluation.interval_plot import write_in_empty_row
from evaluation.measures import measure_label
from evaluation.outcomes import Comparison, Outcomes
from evaluation.paired import Paired
from papers.qa_rag.data import OWN, REMOVED, UNRECOGNISED

OTHERS = ("hypothetical", "hyde", "multiquery", "question")
"""The other methods of Tables 3 and 4.

QA-RAG's comparisons with them by one measure are a family.
"""

ABLATED = ("hypothetical_12", "question_12")
"""The other methods of Table 5, a family, too."""

RELEASED_PAIRS = (("hypothetical", "question"), ("qa_rag", "hypothetical"), ("qa_rag", "question"))
"""The family of the released rankings that are scored without a judge."""

LEADS = (
    ("qa_rag", "question"),
    ("qa_rag_rule", "question_rule"),
    ("qa_rag_removed", "question_rule"),
)
"""QA-RAG's lead over the question without the authors' rule, by it, and by it for every query: a
family."""

AUTHORS_LEADS = (
    ("qa_rag_authors_rule", "question_rule"),
    ("qa_rag_authors_rule", "hypothetical_authors"),
    ("qa_rag_authors_rule", "multiquery_rule"),
    ("qa_rag_authors_rule", "hyde_authors"),
)
"""QA-RAG's lead with answers to the authors' message and with their rule: a family of four."""

SAME_DOCUMENTS_LEADS = (
    ("qa_rag_authors", "question"),
    ("qa_rag_authors", "hypothetical_authors"),
    ("qa_rag_authors", "multiquery_authors"),
    ("qa_rag_authors", "hyde_authors"),
)
"""The same where no document is removed."""

ABLATION_LEADS = (
    ("qa_rag_authors", "hypothetical_12_authors"),
    ("qa_rag_authors", "question_12"),
)
"""QA-RAG's lead over either track alone, with answers to the authors' message: a family."""

_PRECISION = "precision_without_judge"
DECIDING = (
    (_PRECISION, AUTHORS_LEADS),
    ("answer_found", AUTHORS_LEADS),
    (_PRECISION, SAME_DOCUMENTS_LEADS),
    ("answer_found", SAME_DOCUMENTS_LEADS),
    (_PRECISION, (("hypothetical_authors", "question_rule"),)),
    (_PRECISION, (("hypothetical_authors", "question"),)),
    (_PRECISION, ABLATION_LEADS),
    ("answer_found", ABLATION_LEADS),
    ("document_recall", (("hypothetical_authors", "hyde_authors"),)),
)
"""What decides here, by the rules of `data/published/qa_rag.yml`: measures, and families of pairs
with answers to the authors' message."""

COLOUR = figures.HUES["magenta"]
ROW_HEIGHT = 0.5
"""Of a method, in inches."""

MARGIN_HEIGHT = 1.1
"""Of what is not rows, in inches."""

CHARACTERS_PER_LABEL = 26
"""Of a method, on one line."""

NOT_FETCHED = "not fetched"
"""What stands in the row of a method of which a panel has no released scores."""

CHARACTERS_PER_TITLE = 20
"""Of a panel, on one line: three panels stand side by side."""


def compare_available(
    outcomes: Outcomes, pairs: Iterable[tuple[str, str]], measure: str
) -> list[Comparison]:
    """Compare the pairs whose arms both have the measure, as one family of tests."""
    arms = outcomes.arms_with(measure)
    return outcomes.compare([pair for pair in pairs if arms.issuperset(pair)], measure)


def qa_rag_against(others: Iterable[str], outcomes: Outcomes, measure: str) -> list[Comparison]:
    """Compare QA-RAG with each of the others that has the measure, as one family of tests."""
    return compare_available(outcomes, [("qa_rag", arm) for arm in others], measure)


def family_in_words(comparisons: Sequence[Comparison]) -> str:
    """How p is adjusted, for a cell or a parenthesis: `Holm over two`; empty for one comparison."""
    n = len(comparisons)
    return f"Holm over {figures.in_words(n)}" if n > 1 else ""


def with_family(caption: str, comparisons: Sequence[Comparison]) -> str:
    """A caption that says over how many comparisons p is adjusted."""
    n = len(comparisons)
    if n > 1:
        return f"{caption}. p is adjusted by Holm's method over {figures.in_words(n)} tests"
    return f"{caption}. With one test, p needs no adjustment"


def deciding_table(outcomes: Outcomes) -> pd.DataFrame:
    """Tabulate the comparisons of `DECIDING` whose arms ran, each with the p of its family."""
    rows = []
    for measure, pairs in DECIDING:
        comparisons = compare_available(outcomes, pairs, measure)
        for comparison in comparisons:
            row = {
                "first": outcomes.label(comparison.first),
                "second": outcomes.label(comparison.second),
                "measure": measure_label(measure),
                "difference": figures.points(comparison.test),
                "n": comparison.test.n,
                "p": figures.p_text(comparison.p),
                "adjusted": family_in_words(comparisons) or "no",
            }
            rows.append(row)
    return pd.DataFrame(rows)


@dataclass(frozen=True)
class Panel:
    """One panel of a forest plot.

    Attributes:
        title: What is compared.
        comparisons: The first arm is the same in all of them.
    """

    title: str
    comparisons: Sequence[Comparison]


def forest_plot(panels: Sequence[Panel], outcomes: Outcomes, caption: str) -> figures.Picture:
    """Draw differences with their 95 % intervals, a row for each second arm.

    Args:
        panels: The panels from left to right.
        outcomes: Names the arms.
        caption: Caption of the figure.
    """
    arms: dict[str, str] = {}
    for panel in panels:
        for comparison in panel.comparisons:
            arms[comparison.second] = outcomes.label(comparison.second)
    alt = " ".join(_in_words(panel, arms) for panel in panels)
    return figures.figure(
        _draw(panels, arms),
        narrow=_draw_narrow(panels, arms),
        alt=alt,
        caption=caption,
        sample=outcomes.sample,
    )


def _draw(panels: Sequence[Panel], arms: dict[str, str]) -> Figure:
    height = ROW_HEIGHT * len(arms) + MARGIN_HEIGHT
    figure, grid = plt.subplots(1, len(panels), figsize=(7.4, height), sharey=True, squeeze=False)
    for axes, panel in zip(grid[0], panels, strict=True):
        _draw_panel(axes, panel, list(arms))
    _name_rows(grid[0][0], arms)
    return figure


def _draw_narrow(panels: Sequence[Panel], arms: dict[str, str]) -> Figure:
    """Draw the panels one below the other, for a phone."""
    height = len(panels) * (ROW_HEIGHT * len(arms) + MARGIN_HEIGHT)
    figure, grid = plt.subplots(len(panels), 1, figsize=(4.2, height), squeeze=False)
    for axes, panel in zip(grid[:, 0], panels, strict=True):
        _draw_panel(axes, panel, list(arms))
        _name_rows(axes, arms)
    return figure


def _name_rows(axes: Axes, arms: dict[str, str]) -> None:
    """Write the methods' names, the first method on top."""
    labels = [textwrap.fill(label, CHARACTERS_PER_LABEL) for label in arms.values()]
    axes.set_yticks(range(len(arms)), labels)
    axes.set_ylim(len(arms) - 0.5, -0.5)  # none on the frame


def _draw_panel(axes: Axes, panel: Panel, arms: Sequence[str]) -> None:
    compared = [comparison.second for comparison in panel.comparisons]
    for row, arm in enumerate(arms):
        if arm not in compared:
            write_in_empty_row(axes, row, NOT_FETCHED)
    for comparison in panel.comparisons:
        test = comparison.test
        row = arms.index(comparison.second)
        axes.hlines(row, 100 * test.low, 100 * test.high, color=COLOUR, linewidth=2.2)
        axes.plot(100 * test.difference, row, "o", color=COLOUR, markersize=7)
    axes.axvline(0, linestyle=":", color=figures.INK, linewidth=1)
    axes.set_xlabel(textwrap.fill(f"{panel.title}, points", CHARACTERS_PER_TITLE))
    axes.grid(axis="x")
    axes.tick_params(axis="y", length=0)


def _in_words(panel: Panel, arms: dict[str, str]) -> str:
    parts = []
    for comparison in panel.comparisons:
        parts.append(f"minus {arms[comparison.second]} {figures.points(comparison.test)}")
    return f"{panel.title}: {', '.join(parts)} points."


def own_document_interaction(
    contexts: Outcomes, first: str, second: str, measure: str = "precision"
) -> Paired:
    """How much larger a gain is where a question's own document is removed.

    Args:
        contexts: Rows of contexts, with the stratum of the question's own document.
        first: The method with the gain.
        second: The method that loses the document.
        measure: What is gained, by default the judge's context precision.
    """
    return interaction(contexts, (first, second), measure, (OWN, (REMOVED, UNRECOGNISED)))


def _has_both_groups(contexts: Outcomes, arms: set[str], measure: str) -> bool:
    """Whether each arm has rows with the measure where the document is removed, and elsewhere."""
    if not contexts.has_column(OWN):
        return False
    groups = [contexts.where(**{OWN: value}) for value in (REMOVED, UNRECOGNISED)]
    return all(arms <= group.arms_with(measure) for group in groups)


GAIN_HEADS = {
    REMOVED: "gain where the authors' rule removes the question's own document",
    UNRECOGNISED: "gain where the rule does not recognise this document",
}
"""Heads of the columns with the gains, by the value of the stratum."""


def gains_by_own_document(
    contexts: Outcomes, pairs: Sequence[tuple[str, str]], measures: Sequence[str] = ("precision",)
) -> pd.DataFrame:
    """Tabulate gains where a question's own document is removed, and elsewhere.

    Args:
        contexts: Rows of contexts, with the stratum of the question's own document.
        pairs: The method with the gain, and the one that loses the document.
        measures: What is gained, by default the judge's context precision; a column names it if
            there are several.

    Returns:
        A row for each measure and pair that has questions of both kinds: both gains with their
        numbers of questions, and their difference with its p, which says whether the gain depends
        on the removal.
    """
    rows = []
    for measure, (first, second) in product(measures, pairs):
        if not _has_both_groups(contexts, {first, second}, measure):
            continue
        row = {"measure": measure_label(measure)} if len(measures) > 1 else {}
        row |= {"first": contexts.label(first), "second": contexts.label(second)}
        for value in (REMOVED, UNRECOGNISED):
            (comparison,) = contexts.where(**{OWN: value}).compare([(first, second)], measure)
            gain = figures.points(comparison.test)
            row[GAIN_HEADS[value]] = f"{gain} (n = {comparison.test.n})"
        difference = own_document_interaction(contexts, first, second, measure)
        row["difference of the gains"] = figures.points(difference)
        row["p"] = figures.p_text(difference.p)
        rows.append(row)
    return pd.DataFrame(rows)
