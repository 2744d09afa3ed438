"""Scores, paired tests, tables and figures of one experiment.

Everything is computed from the table of answers: one row per arm and unit, as described
in `answers.Answer`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from math import nan
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from evaluation import figures, metrics, paired
from evaluation.answers import COLUMNS, NOT_RUN, Answer, NotRunError, to_frame
from evaluation.interval_plot import Panel, PlotRow, describe_scores, interval_plot
from evaluation.measures import measure_label, parts, unit
from evaluation.metrics import DRAWS, Floats, Score
from evaluation.paired import Paired
from evaluation.published import Published

Rows: TypeAlias = "Iterable[Answer] | pd.DataFrame"
"""The table of answers, as rows or as a frame."""
Conditions: TypeAlias = Mapping[str, Sequence[str]]
"""Columns and strata, with the values that each row has one of."""

PAIRING_COLUMNS = ["task", "split", "unit", "of", "repeat"]
"""Rows of two arms are paired if they agree in these columns."""
PART_COLUMNS = ["task", "split", "of", "repeat"]
"""Columns that identify a part of an experiment."""
DIFFERENCE = "difference in points"
"""Column of a table of paired tests."""
_NOT_REMEMBERED = ("arm", "unit")
"""Columns that are no condition on questions: an arm is named apart, and units are many."""
AUC = "auc(p_yes)"
WHY_NO_AUC = (
    "no AUC, for the replies have no log-probabilities of an answer's first token: the server "
    "gives none, or a thought comes first"
)
DEFAULT_COLOUR = figures.HUES["grey"]
PERCENTILES = {"median": 50, "p5": 5, "p95": 95}
"""Statistics that a measure may name, as in ``median(seconds)``."""


@dataclass(frozen=True)
class ScoredRow:
    """What a row of a table of scores shows.

    Attributes:
        arm: Name of the arm, as in the column ``arm``.
        measure: Name of the measure, for example ``f1``.
        digits: If given, a share is written with so many digits (0.494), else in per
            cent (49.4 %).
    """

    arm: str
    measure: str
    digits: int | None = None


@dataclass(frozen=True)
class Comparison:
    """A paired test of two arms on the units that both answered.

    Attributes:
        first: The first arm.
        second: The second arm.
        model: The value of the column within which they were compared, if any.
        scores: Scores of both arms on the shared units.
        test: The test of the first arm minus the second.
        p: The p-value of the test, adjusted by Holm's method for the family of tests.
        why_not_run: Why there is no test; scores and test are then no values to be read.
        measure: Name of the measure.
        conditions: What all compared rows meet, see `Outcomes`.
    """

    first: str
    second: str
    model: str
    scores: tuple[Score, Score]
    test: Paired
    p: float
    why_not_run: str = ""
    measure: str = ""
    conditions: Conditions = field(default_factory=dict)


@dataclass(frozen=True)
class _Missing:
    """Stands for a score or a test of an arm that was not run; to read it is an error."""

    why: str

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        raise NotRunError(self.why)


@dataclass(frozen=True)
class Reproduction:
    """A score of the paper beside the scores from released and from new answers.

    Attributes:
        row: The arm and the measure, and how a share is written.
        printed: The number in the paper.
        rescored: The score of the authors' released answers.
        rerun: The score of this run's answers.
        unparsed: Number of answers of this run that could not be parsed.
    """

    row: ScoredRow
    printed: str | None
    rescored: str | None
    rerun: str | None
    unparsed: int | None

    def cells(self) -> dict[str, str | int | None]:
        """The cells of the table, by column."""
        return {
            "printed": self.printed,
            "rescored": self.rescored,
            "rerun": self.rerun,
            "unparsed": self.unparsed,
        }

    def is_empty(self) -> bool:
        """Whether there is no number at all."""
        return all(cell is None for cell in self.cells().values())


class Outcomes:
    """The answers of one experiment.

    Attributes:
        frame: The table of answers, with the columns of `answers.Answer`.
        labels: Name of each arm for readers, in the order of tables and figures.
        colours: Colour of each arm.
        draws: Number of bootstrap samples and permutations.
        sample: Whether the answers are about sample data. Tables and figures then say
            so.
        conditions: What all rows meet, by the values that `where` selected. Other rows may meet
            it too, where some were left out in another way.
    """

    def __init__(
        self,
        rows: Rows,
        *,
        labels: Mapping[str, str] | None = None,
        colours: Mapping[str, str] | None = None,
        draws: int = DRAWS,
        sample: bool = False,
    ) -> None:
        """Store the answers.

        Args:
            rows: Answers of any arms and sources.
            labels: Name of each arm for readers; by default those of `figures.ARMS`.
            colours: Colour of each arm; by default those of `figures.ARMS`.
            draws: Number of bootstrap samples and permutations.
            sample: Whether the answers are about sample data.
        """
        if labels is None:
            labels = {arm: label for arm, (label, _) in figures.ARMS.items()}
        if colours is None:
            colours = {arm: colour for arm, (_, colour) in figures.ARMS.items()}
        self.frame = _without_measures_of_not_run(_to_frame(rows))
        self.labels = dict(labels)
        self.colours = dict(colours)
        self.draws = draws
        self.sample = sample
        self.conditions: dict[str, tuple[str, ...]] = {}

    def where(self, **conditions: str | Sequence[str]) -> Outcomes:
        """Select the rows that meet all conditions.

        Args:
            **conditions: The accepted value or values of a column or of a stratum.

        Returns:
            The selected rows, with the same labels and settings.

        Raises:
            KeyError: If no row has the stratum.
        """
        mask = pd.Series(True, index=self.frame.index)
        remembered = dict(self.conditions)
        for name, accepted in conditions.items():
            values = (accepted,) if isinstance(accepted, str) else tuple(accepted)
            mask &= self._column(name).isin(values)
            known = remembered.get(name, values)
            remembered[name] = tuple(value for value in values if value in known)
        selected = self.select(mask)
        for column in _NOT_REMEMBERED:
            remembered.pop(column, None)
        selected.conditions = remembered
        return selected

    def select(self, is_selected: pd.Series) -> Outcomes:
        """Select rows by a column of True and False, with the same labels and settings."""
        return self._with_frame(self.frame[is_selected])

    def has_column(self, name: str) -> bool:
        """Whether there is a column of this name, or a row with this stratum."""
        return name in COLUMNS or any(name in strata for strata in self.frame.strata)

    def _column(self, name: str) -> pd.Series:
        """A column of the table, or the value of a stratum in each row."""
        if name in COLUMNS:
            return self.frame[name]
        values = self.frame.strata.map(lambda strata: strata.get(name))
        if len(values) > 0 and values.isna().all():
            raise KeyError(f"No row has the stratum {name!r}.")
        return values

    def concat(self, other: Rows | Outcomes) -> Outcomes:
        """Append rows. Where both label an arm, the label of ``self`` is used."""
        if not isinstance(other, Outcomes):
            other = Outcomes(other, labels=self.labels)
        # an empty table would change the types of columns
        frames = [rows.frame for rows in (self, other) if not rows.frame.empty]
        frame = pd.concat(frames or [self.frame], ignore_index=True)
        combined = self._with_frame(frame)
        combined.conditions = {}
        new_labels = {arm: text for arm, text in other.labels.items() if arm not in self.labels}
        combined.labels = self.labels | new_labels
        return combined

    def _with_frame(self, frame: pd.DataFrame) -> Outcomes:
        """Some of the rows, with the same labels, settings and conditions."""
        outcomes = Outcomes(
            frame,
            labels=self.labels,
            colours=self.colours,
            draws=self.draws,
            sample=self.sample,
        )
        outcomes.conditions = self.conditions
        return outcomes

    def _split(self, column: str) -> Iterator[tuple[str, Outcomes]]:
        """Split the rows by the values of a column.

        Args:
            column: The column. If it is empty, the rows are not split.

        Yields:
            Each value, as text, and its rows.
        """
        if not column:
            yield "", self
            return
        for value, rows in self.frame.groupby(column):
            part = self._with_frame(rows)
            part.conditions = {**self.conditions, column: (str(value),)}
            yield str(value), part

    @cached_property
    def arms(self) -> list[str]:
        """The arms that have rows: first labelled ones, in the order of ``labels``."""
        present = set(self.frame.arm)
        labelled = [arm for arm in self.labels if arm in present]
        return labelled + sorted(present - set(labelled))

    def arms_with(self, measure: str) -> set[str]:
        """The arms of which at least one row has the measure."""
        _, base = parts(measure)
        return set(self.rows_with(base).arm)

    def rows_with(self, measure: str, arm: str | None = None) -> pd.DataFrame:
        """The rows that have a measure, of one arm or of all."""
        rows = self.frame if arm is None else self.frame[self.frame.arm == arm]
        has_measure = [measure in measures for measures in rows.measures]
        return rows[np.array(has_measure, dtype=bool)]

    def why_not_run(self, arm: str) -> str:
        """Why an arm was not run; empty if it was."""
        reasons = [strata.get(NOT_RUN, "") for strata in self.frame[self.frame.arm == arm].strata]
        return next((reason for reason in reasons if reason), "")

    def _raise_if_not_run(self, arms: Iterable[str]) -> None:
        for arm in arms:
            if why := self.why_not_run(arm):
                raise NotRunError(f"{self.label(arm)} was not run: {why}")

    def strata(self, name: str) -> list[str]:
        """The values of a stratum in the order of the rows; none for an empty name."""
        values = [strata[name] for strata in self.frame.strata if name in strata]
        return list(dict.fromkeys(values))

    def label(self, arm: str) -> str:
        """The name of an arm for readers."""
        return self.labels.get(arm, arm)

    def values(self, measure: str, arm: str) -> Floats:
        """The value of a measure in each row of an arm, all of which must have it."""
        rows = self.frame[self.frame.arm == arm]
        numerators, denominators = _ratio_columns(rows, measure)
        return numerators / denominators

    def score(self, measure: str, arm: str | None = None) -> Score:
        """Compute a measure with its 95 % interval.

        Args:
            measure: A ratio such as ``accuracy``, ``auc(p_yes)``, or a percentile such
                as ``median(seconds)``.
            arm: The arm; all rows if None.

        Returns:
            The score. Intervals respect clusters of units.

        Raises:
            NotRunError: If the arm was not run.
            ValueError: If no row has the measure.
        """
        statistic, base = parts(measure)
        rows = self.rows_with(base, arm)
        if rows.empty:
            self._raise_if_not_run([arm] if arm else self.arms)
            raise ValueError(f"No row of {arm or 'any arm'} has the measure {base!r}.")
        numerators, denominators = _ratio_columns(rows, base)
        clusters = rows.cluster.to_numpy()
        if not statistic:
            score = metrics.ratio(numerators, denominators, clusters=clusters, draws=self.draws)
        elif statistic == "auc":
            is_yes = (rows.gold == "YES").to_numpy()
            score = metrics.auc(is_yes, numerators / denominators, clusters=clusters)
        else:
            percentile = metrics.percentile(PERCENTILES[statistic])
            score = metrics.bootstrap(
                numerators / denominators,
                percentile,
                clusters=clusters,
                draws=self.draws,
            )
        if unit(measure) not in ("fraction", "ratio"):
            return score
        return replace(score, unparsed=int((~rows.parsed.astype(bool)).sum()))

    def compare(
        self, pairs: Iterable[tuple[str, str]], measure: str, *, within: str = ""
    ) -> list[Comparison]:
        """Compare pairs of arms by paired randomisation tests.

        Args:
            pairs: Pairs of arms. The difference is the first minus the second.
            measure: A ratio such as ``accuracy``.
            within: Column such as ``model``. If given, each pair is compared separately
                within each value of the column.

        Returns:
            One comparison per value and pair. The p-values are adjusted by Holm's
            method over all of them.

        Raises:
            ValueError: If the arms of a pair share no unit that has the measure.
        """
        pairs = list(pairs)
        comparisons = []
        for value, outcomes in self._split(within):
            for first, second in pairs:
                comparisons.append(outcomes._compare_pair(first, second, measure, value))
        return adjust_by_holm(comparisons)

    def _compare_pair(self, first: str, second: str, measure: str, model: str) -> Comparison:
        try:
            self._raise_if_not_run([first, second])
        except NotRunError as error:
            missing: Any = _Missing(str(error))
            return Comparison(first, second, model, (missing, missing), missing, nan, str(error))
        first_rows = self.rows_with(measure, first).set_index(PAIRING_COLUMNS)
        second_rows = self.rows_with(measure, second).set_index(PAIRING_COLUMNS)
        shared = first_rows.index.intersection(second_rows.index, sort=False)
        if shared.empty:
            raise ValueError(
                f"{first} and {second} share no unit that has the measure {measure!r}."
            )
        first_rows = first_rows.loc[shared]
        second_rows = second_rows.loc[shared]
        test = paired.paired_ratios(
            _ratio_columns(first_rows, measure),
            _ratio_columns(second_rows, measure),
            clusters=first_rows.cluster.to_numpy(),
            draws=self.draws,
        )
        first_score = self._with_frame(first_rows).score(measure)
        second_score = self._with_frame(second_rows).score(measure)
        return Comparison(
            first,
            second,
            model,
            (first_score, second_score),
            test,
            test.p,
            measure=measure,
            conditions=self.conditions,
        )

    def format_score(self, measure: str, arm: str, digits: int | None = None) -> str | None:
        """Write a score as a table shows it.

        Args:
            measure: Name of the measure, for example ``auc(p_yes)``.
            arm: Name of the arm.
            digits: If given, a share is written with so many digits (0.494), else in
                per cent (49.4 %).

        Returns:
            The score with its interval, or None if no row of the arm has the measure.
        """
        if arm not in self.arms_with(measure):
            return None
        return _format(self.score(measure, arm), measure, digits)

    def table(self, measures: Sequence[str], caption: str, *, by: str = "") -> figures.Html:
        """Tabulate the scores of each arm.

        Args:
            measures: The measures, one column each.
            caption: Caption of the table.
            by: Stratum. If given, the first measure is also shown for each of its
                values.

        Returns:
            One row per arm. The column ``n`` is shown if all arms have the first
            measure and their numbers of units differ.
        """
        first_measure = measures[0]
        _, base = parts(first_measure)
        counts = self.rows_with(base).arm.value_counts().to_dict()
        show_n = len(set(counts.values())) > 1 and set(counts) == set(self.arms)
        groups = {value: self.where(**{by: value}) for value in self.strata(by)}
        rows = []
        for arm in self.arms:
            row: dict[str, Any] = {"arm": self.label(arm)}
            if show_n:
                row["n"] = counts[arm]
            cells = {measure_label(m): self.format_score(m, arm) for m in measures}
            cells |= {value: g.format_score(first_measure, arm) for value, g in groups.items()}
            rows.append(row | self._not_run_cells(arm, cells))
        caption = self._with_reasons(caption, self.arms, measures)
        scored = [ScoredRow(arm, first_measure) for arm in self.arms]
        table = self.scored_table(rows, scored, caption)
        if not table.scores:
            return table
        return replace(table, scores={**table.scores, "by": by, "strata": list(groups)})

    def _not_run_cells(self, arm: str, cells: dict[str, str | None]) -> dict[str, str | None]:
        """The cells of an arm, which say so if it was not run."""
        if self.why_not_run(arm):
            return dict.fromkeys(cells, NOT_RUN)
        return cells

    def _with_reasons(self, caption: str, arms: Iterable[str], measures: Sequence[str] = ()) -> str:
        """A caption that ends with why arms were not run, and why they have no AUC."""
        reasons: dict[str, list[str]] = {}
        for arm in arms:
            why = self.why_not_run(arm) or self._why_no_auc(arm, measures)
            if why:
                reasons.setdefault(why, []).append(self.label(arm))
        notes = [f"Not run: {', '.join(labels)}: {why}" for why, labels in reasons.items()]
        return ". ".join([caption.rstrip("."), *notes]) if notes else caption

    def _why_no_auc(self, arm: str, measures: Sequence[str]) -> str:
        """Why an arm that sent requests has no AUC, if a table has a column of it."""
        if AUC not in measures or arm in self.arms_with(AUC):
            return ""
        rows = self.frame[(self.frame.arm == arm) & (self.frame.source == "rerun")]
        sends_requests = any(len(keys) for keys in rows.requests)
        return WHY_NO_AUC if sends_requests else ""

    def scored_table(
        self, rows: Sequence[dict[str, Any]], scored: Sequence[ScoredRow], caption: str
    ) -> figures.Html:
        """Show a table of scores that the book can extend by columns of other models.

        Args:
            rows: The cells of each row, by column.
            scored: What each row shows.
            caption: Caption of the table.

        Returns:
            The table. If this run has answers, its ``scores`` say how to compute the
            same scores for another model.
        """
        table = figures.table(pd.DataFrame(rows), caption, sample=self.sample)
        linked = self._linked_rows
        if linked.empty:
            return table
        descriptions = []
        for row in scored:
            of_arm = linked[linked.arm == row.arm]
            units = {
                "n": len(of_arm),
                "of": of_arm[PART_COLUMNS].drop_duplicates().values.tolist(),
            }
            descriptions.append(asdict(row) | units)
        scores = {
            "rows": _as_pairs(rows),
            "scored": descriptions,
            "draws": self.draws,
            "caption": caption,
        }
        return replace(table, scores=scores)

    @property
    def _linked_rows(self) -> pd.DataFrame:
        """The rows that the book links to: this run's answers about real data."""
        return self.frame[(self.frame.source == "rerun") & (not self.sample)]

    def comparison_table(self, comparisons: Sequence[Comparison], caption: str) -> figures.Html:
        """Tabulate paired tests.

        Args:
            comparisons: The tests, as `compare` returns them.
            caption: Caption of the table.

        Returns:
            One row per test. The book links the difference to the answers of both arms.
        """
        rows = []
        for comparison in comparisons:
            row: dict[str, Any] = {
                "first": self.label(comparison.first),
                "second": self.label(comparison.second),
            }
            if comparison.model:
                row["model"] = comparison.model
            if comparison.why_not_run:
                rows.append(row | {"n": None, "p (Holm)": NOT_RUN})
                continue
            row["n"] = comparison.test.n
            row["first better"] = comparison.test.b
            row["second better"] = comparison.test.c
            row[DIFFERENCE] = figures.points(comparison.test)
            row["p (Holm)"] = figures.p_text(comparison.p)
            rows.append(row)
        arms = [arm for comparison in comparisons for arm in (comparison.first, comparison.second)]
        caption = self._with_reasons(caption, dict.fromkeys(arms))
        table = figures.table(pd.DataFrame(rows), caption, sample=self.sample)
        if self._linked_rows.empty or any(comparison.why_not_run for comparison in comparisons):
            return table
        pairs = [[comparison.first, comparison.second] for comparison in comparisons]
        scores = {"rows": _as_pairs(rows), "tested": pairs, "caption": caption}
        return replace(table, scores=scores)

    def reproduction_table(
        self, published: Published, place: str, measures: Sequence[str], caption: str
    ) -> figures.Html:
        """Tabulate printed, rescored and rerun scores side by side.

        Args:
            published: The numbers of the paper. Their ids are ``place.arm.measure`` or
                ``place.arm``.
            place: Paper and table, for example ``side_effects.table1``.
            measures: Names of measures, for example ``["accuracy", "f1"]``.
            caption: Caption of the table.

        Returns:
            One row per arm and measure. Empty rows and empty columns are left out.
        """
        reproductions = []
        for arm in self.arms:
            for measure in measures:
                reproduction = self._reproduction(published, place, arm, measure)
                if not reproduction.is_empty():
                    reproductions.append(reproduction)
        rows = self._reproduction_rows(reproductions)
        scored = [reproduction.row for reproduction in reproductions]
        return self.scored_table(rows, scored, caption)

    def _reproduction(
        self, published: Published, place: str, arm: str, measure: str
    ) -> Reproduction:
        numbers = {number.id: number for number in published.numbers}
        number = numbers.get(f"{place}.{arm}.{measure}") or numbers.get(f"{place}.{arm}")
        digits = number.digits if number else None  # as the paper writes its number
        model = (number.model or "") if number else ""
        released = self.where(source="released", arm=arm, model=model)
        rerun = self.where(source="rerun", arm=arm)
        rerun_text = None
        unparsed = None
        if arm in rerun.arms_with(measure):
            score = rerun.score(measure, arm)
            rerun_text = _format(replace(score, unparsed=0), measure, digits)
            unparsed = score.unparsed
        return Reproduction(
            row=ScoredRow(arm, measure, digits),
            printed=number.printed if number else None,
            rescored=released.format_score(measure, arm, digits),
            rerun=rerun_text,
            unparsed=unparsed,
        )

    def _reproduction_rows(self, reproductions: Sequence[Reproduction]) -> list[dict[str, Any]]:
        """The cells of the table; an arm is named in the first of its rows only."""
        used_columns = set()
        for reproduction in reproductions:
            for column, cell in reproduction.cells().items():
                if cell is not None:
                    used_columns.add(column)
        rows = []
        previous_arm = ""
        for reproduction in reproductions:
            arm = reproduction.row.arm
            row: dict[str, Any] = {
                "arm": self.label(arm) if arm != previous_arm else "",
                "measure": measure_label(reproduction.row.measure),
            }
            cells = reproduction.cells().items()
            row |= {column: cell for column, cell in cells if column in used_columns}
            rows.append(row)
            previous_arm = arm
        return rows

    def interval_plot(
        self,
        measures: Sequence[str],
        caption: str,
        *,
        by: str = "",
        chance: float | None = None,
    ) -> figures.Picture:
        """Plot the scores of all arms with their 95 % intervals.

        Args:
            measures: The measures, one panel each.
            caption: Caption of the figure.
            by: Stratum. If given, each of its values has a panel of the first measure.
            chance: Value to mark in the first panel with a dotted line.

        Returns:
            The figure. Its alternative text lists all scores.
        """
        panels = self._panels(measures, by)
        rows = [
            PlotRow(arm, self.label(arm), self.colours.get(arm, DEFAULT_COLOUR))
            for arm in self.arms
        ]
        caption = self._with_reasons(caption, self.arms)
        alt = describe_scores(panels, rows)
        return figures.figure(
            interval_plot(panels, rows, chance),
            alt=alt,
            caption=caption,
            sample=self.sample,
            narrow=interval_plot(panels, rows, chance, is_narrow=True),
        )

    def _panels(self, measures: Sequence[str], by: str) -> list[Panel]:
        groups = self.strata(by)
        if not groups:
            return [self._panel(measure_label(measure), measure) for measure in measures]
        return [self.where(**{by: group})._panel(group, measures[0]) for group in groups]

    def _panel(self, title: str, measure: str) -> Panel:
        scores = {arm: self.score(measure, arm) for arm in self.arms_with(measure)}
        return Panel(title, measure, scores)


def adjust_by_holm(comparisons: Sequence[Comparison]) -> list[Comparison]:
    """Adjust the p-values of one family of tests by Holm's method."""
    tests = [comparison.test.p for comparison in comparisons if not comparison.why_not_run]
    adjusted_p = iter(paired.holm(tests))
    adjusted = []
    for comparison in comparisons:
        p = nan if comparison.why_not_run else next(adjusted_p)
        adjusted.append(replace(comparison, p=p))
    return adjusted


def _to_frame(rows: Rows) -> pd.DataFrame:
    if isinstance(rows, pd.DataFrame):
        return rows
    return to_frame(rows)


def _without_measures_of_not_run(frame: pd.DataFrame) -> pd.DataFrame:
    """Drop what was computed of answers that were never given, such as a text's similarity."""
    is_not_run = np.array([NOT_RUN in strata for strata in frame.strata], dtype=bool)
    if not is_not_run.any():
        return frame
    measures = frame.measures.to_list()
    for position in np.flatnonzero(is_not_run):
        measures[position] = {}
    return frame.assign(measures=measures)


def _ratio_columns(rows: pd.DataFrame, measure: str) -> tuple[Floats, Floats]:
    """Numerators and denominators of a measure, (n_rows,) each."""
    ratios = [measures[measure] for measures in rows.measures]
    columns = np.array(ratios, dtype=float).reshape(-1, 2)
    return columns[:, 0], columns[:, 1]


def _as_pairs(rows: Sequence[Mapping[str, Any]]) -> list[list[tuple[str, Any]]]:
    """Rows as pairs of column and cell: notebooks sort the keys of JSON objects."""
    return [list(row.items()) for row in rows]


def _format(score: Score, measure: str, digits: int | None) -> str:
    score_unit = unit(measure) if digits is None else "ratio"
    return figures.score_text(score, score_unit, digits=digits)
