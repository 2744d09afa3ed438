"""Evaluates the search of own notes on labelled questions (clinical_notes.md, `eval_retriever.py`).

Precision@K, Recall@K, MRR and average precision by intent, and the paper's five plots. The ranking
is the hybrid arm of notebook 13.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pandas as pd
import seaborn as sns
from ir_measures import AP, RR, P, R
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from evaluation.trec import score_rankings
from helpers import tables
from helpers.texts import TextError
from papers.clinical_notes.query import INTENTS
from papers.clinical_notes.retrieval import PAPER_CONFIG, SCORE_COMPONENTS, Filters
from papers.clinical_notes.system import Notes, make_filters

QUERY_COLUMNS: Final = ("query", "question", "text")
RELEVANT_COLUMNS: Final = (
    *("relevant", "relevant chunks", "relevant chunk ids", "relevant ids", "chunk id", "chunk ids"),
    *("relevant notes", "relevant note ids", "note id", "relevant files"),
)
FILTER_COLUMNS: Final[dict[str, tuple[str, ...]]] = {
    "patient": ("patient id", "patient"),
    "since": ("date start", "since", "start date"),
    "until": ("date end", "until", "end date"),
    "medication": ("medication", "drug"),
}
"""Filters that a row may have, and the names of their columns."""
INTENT_COLUMNS: Final = ("intent", "query type", "intent type")
RANKED: Final = 100
"""Passages that are ranked for each question, as many as the reranker sees."""
PLOTS: Final = (
    "performance_by_query_type",
    "score_distributions",
    "score_component_contributions",
    "per_query_performance",
    "dashboard",
)
"""Files of the paper's `eval_plots/`."""
MAX_QUERIES_SHOWN: Final = 40
"""Questions that the plot of single questions shows."""


@dataclass(frozen=True)
class LabelledQuery:
    """A question with the passages that answer it.

    Attributes:
        text: The question.
        relevant: Identifiers of the passages.
        filters: Patient, days and drug, where the table has them.
        intent: What kind of question it is; empty to leave it to the parser.
    """

    text: str
    relevant: frozenset[str]
    filters: Filters
    intent: str = ""


@dataclass(frozen=True)
class Evaluation:
    """Scores of the search.

    Attributes:
        queries: A row for each question, with its intent and scores.
        passages: A row for each passage among the first K, with its score components.
        k: Ranks that count for precision and recall.
    """

    queries: pd.DataFrame
    passages: pd.DataFrame
    k: int

    @property
    def measures(self) -> list[str]:
        """Names of the scores."""
        return [f"P@{self.k}", f"R@{self.k}", "MRR", "AP"]

    def by_intent(self) -> pd.DataFrame:
        """Means of the scores by intent, and over all questions."""
        groups = self.queries.groupby("intent", sort=False)
        table = groups[self.measures].mean().reindex([i for i in INTENTS if i in groups.groups])
        table.loc["all"] = self.queries[self.measures].mean()
        table.insert(0, "questions", [*groups.size().reindex(table.index[:-1]), len(self.queries)])
        return table


def read_labelled(path: Path, notes: Notes) -> list[LabelledQuery]:
    """Read labelled questions from CSV or Excel.

    Rows of the same question and filters are one question. What is relevant is named by passages
    (`chunk_id` of the index's metadata), by notes or by files, several with semicolons between.

    Raises:
        TextError: A column is missing, or a row names nothing that is in the notes.
    """
    table = tables.read_table(path)
    rename = "renaming a column in the first line of the table"
    query_column = tables.find_column(table, "", QUERY_COLUMNS, rename)
    relevant_column = tables.find_column(table, "", RELEVANT_COLUMNS, rename)
    columns = {}
    for name, names in {**FILTER_COLUMNS, "intent": INTENT_COLUMNS}.items():
        columns[name] = tables.find_column(table, "", names, rename, needed=False)
    passages = _passages_by_name(notes)
    relevant: dict[LabelledQuery, set[str]] = {}
    for number, row in table.iterrows():
        values = {name: str(row[column]).strip() for name, column in columns.items() if column}
        intent = values.pop("intent", "")
        query = LabelledQuery(
            str(row[query_column]).strip(), frozenset(), make_filters(**values), intent
        )
        labels = str(row[relevant_column]).replace("|", ";").split(";")
        for label in filter(None, map(str.strip, labels)):
            if label not in passages:
                raise TextError(f"row {number} names {label!r}, which is no passage, note or file.")
            relevant.setdefault(query, set()).update(passages[label])
    if not relevant:
        raise TextError("no row names a relevant passage.")
    return [
        LabelledQuery(query.text, frozenset(ids), query.filters, query.intent)
        for query, ids in relevant.items()
    ]


def _passages_by_name(notes: Notes) -> dict[str, set[str]]:
    """The passages of each identifier: of a passage, a note or a file."""
    by_name: dict[str, set[str]] = {}
    sources = {note.note_id: note.source for note in notes.own.notes}
    for chunk in notes.retriever.chunks:
        for name in (chunk.id, chunk.note, sources[chunk.note]):
            by_name.setdefault(name, set()).add(chunk.id)
    return by_name


def evaluate(notes: Notes, queries: Sequence[LabelledQuery], k: int) -> Evaluation:
    """Rank the passages for each question, and score the rankings.

    Args:
        notes: The notes.
        queries: Labelled questions.
        k: Ranks that count for precision and recall.
    """
    measures: dict[str, Any] = {f"P@{k}": P @ k, f"R@{k}": R @ k, "MRR": RR, "AP": AP}
    rankings: dict[str, list[str]] = {}
    grades: dict[str, Mapping[str, int]] = {}
    rows, passage_rows = [], []
    for number, query in enumerate(queries):
        found = notes.retriever.retrieve(query.text, k=RANKED, filters=query.filters)
        unit = str(number)
        rankings[unit] = [chunk.id for chunk in found.passages]
        grades[unit] = dict.fromkeys(query.relevant, 1)
        intent = query.intent or str(found.audit["intent"])
        rows.append({"query": query.text, "intent": intent, "relevant": len(query.relevant)})
        scores = found.table().head(k).assign(query=query.text, intent=intent)
        scores["is_relevant"] = scores.passage.isin(query.relevant)
        passage_rows.append(scores)
    scored = pd.DataFrame(score_rankings(measures, grades, rankings).values())
    table = pd.concat([pd.DataFrame(rows), scored], axis=1)
    return Evaluation(table, pd.concat(passage_rows, ignore_index=True), k)


# ------------------------------------------------------------------------------------------ plots


def write_plots(evaluation: Evaluation, folder: Path) -> list[Path]:
    """Write the paper's five plots as PNG, and the scores of each question as CSV."""
    folder.mkdir(parents=True, exist_ok=True)
    draw = (draw_intents, draw_distributions, draw_components, draw_queries)
    files = []
    for name, function in zip(PLOTS, draw, strict=False):
        figure = Figure(figsize=(8, 4.5), layout="constrained")
        function(evaluation, figure.subplots())
        files.append(_save(figure, folder / f"{name}.png"))
    dashboard = Figure(figsize=(14, 9), layout="constrained")
    for function, axes in zip(draw, dashboard.subplots(2, 2).flat, strict=True):
        function(evaluation, axes)
    files.append(_save(dashboard, folder / f"{PLOTS[-1]}.png"))
    evaluation.queries.to_csv(folder / "per_query.csv", index=False)
    return files


def _save(figure: Figure, path: Path) -> Path:
    figure.savefig(path, dpi=120)
    return path


def draw_intents(evaluation: Evaluation, axes: Axes) -> None:
    """Draw the mean scores by intent."""
    means = evaluation.by_intent()[evaluation.measures]
    long = means.reset_index().melt("intent", var_name="measure", value_name="score")
    sns.barplot(long, x="intent", y="score", hue="measure", ax=axes)
    axes.set(ylim=(0, 1), xlabel="", title="Mean scores by kind of question")


def draw_distributions(evaluation: Evaluation, axes: Axes) -> None:
    """Draw how the three scores, scaled to 0..1, are distributed over the retrieved passages."""
    weights = {
        "rerank": PAPER_CONFIG.w_rerank,
        "semantic": PAPER_CONFIG.w_semantic,
        "lexical": PAPER_CONFIG.w_lexical,
    }
    scaled = evaluation.passages[list(weights)] / pd.Series(weights)
    long = scaled.melt(var_name="score", value_name="value")
    sns.boxplot(long, x="value", y="score", hue="score", ax=axes)
    axes.set(
        xlabel="score, 0 to 1", ylabel="", title=f"Scores of the first {evaluation.k} passages"
    )


def draw_components(evaluation: Evaluation, axes: Axes) -> None:
    """Draw what each component adds to the score, by rank."""
    components = list(SCORE_COMPONENTS)
    means = evaluation.passages.groupby("rank")[components].mean()
    means.plot.bar(stacked=True, ax=axes, width=0.85)
    axes.set(ylabel="mean contribution", title="What the score of each rank consists of")


def draw_queries(evaluation: Evaluation, axes: Axes) -> None:
    """Draw the scores of each question, the worst first."""
    worst_first = evaluation.queries.sort_values("AP", kind="stable").head(MAX_QUERIES_SHOWN)
    labels = worst_first["query"].str.slice(0, 48)
    sns.heatmap(
        worst_first[evaluation.measures].set_axis(labels, axis=0),
        vmin=0,
        vmax=1,
        annot=len(worst_first) <= MAX_QUERIES_SHOWN // 2,
        fmt=".2f",
        cmap="viridis",
        ax=axes,
    )
    axes.set(ylabel="", title="Scores of each question, the worst first")
    axes.tick_params("y", labelsize=7, rotation=0)
