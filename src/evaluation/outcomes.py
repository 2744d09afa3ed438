"""`Outcomes`: scores, tables, tests and figures of one experiment, read off its rows of the table of answers."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product
from typing import Any, NamedTuple, TypeAlias

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from evaluation import figures, metrics, paired
from evaluation.answers import COLUMNS, Answer
from evaluation.measures import measure_label, parts, unit
from evaluation.metrics import DRAWS, Floats, Score
from evaluation.paired import Paired
from evaluation.published import Published

PAIRING = (
    "task",
    "split",
    "unit",
    "of",
    "repeat",
)  # what two arms must share for their rows to be compared
Rows: TypeAlias = "Iterable[Answer] | pd.DataFrame"  # the table of answers
Names: TypeAlias = "Mapping[str, str] | None"  # by arm
VALUES = (
    "printed",
    "rescored",
    "rerun",
    "unparsed",
)  # columns beside each other, of which empty ones are left out
DIFFERENCE = "difference in points"  # a column of a table of tests
MANY = 8  # arms from which on the rows of a figure are closer together
PARTS = [
    "task",
    "split",
    "of",
    "repeat",
]  # what tells apart the parts of an experiment, each with rows of its own


class Scored(NamedTuple):
    """What a row of a table scores; with `digits`, a share is written as the paper writes it, as 0.494."""

    arm: str
    measure: str
    digits: int | None = None


@dataclass(frozen=True)
class Comparison:
    """Two arms on the same units, of one model if it is named: the test of first minus second, and p by Holm."""

    first: str
    second: str
    model: str
    scores: tuple[Score, Score]
    test: Paired
    p: float


class Outcomes:
    """Rows of the table of answers, and what is read off them.

    A score is a clustered ratio (a mean, a precision, a micro-F1), or another statistic if the measure names one (see
    `measures`). `labels` are the arms' names, in the order of tables and figures; a `sample` makes these say SAMPLE.
    """

    def __init__(
        self,
        rows: Rows,
        *,
        labels: Names = None,
        colours: Names = None,
        draws: int = DRAWS,
        sample: bool = False,
    ) -> None:
        """Take the rows, or a frame with the columns of `Answer`; arms have those of `figures.ARMS` by default."""
        self.frame = _frame(rows)
        self.labels = dict(labels or {arm: label for arm, (label, _) in figures.ARMS.items()})
        self.colours = dict(colours or {arm: colour for arm, (_, colour) in figures.ARMS.items()})
        self.draws, self.sample = draws, sample

    def where(self, **only: str | Sequence[str]) -> Outcomes:
        """The rows with these values of a column of `Answer`, or of a stratum; a KeyError if no row has the stratum."""
        keep = pd.Series(True, index=self.frame.index)
        for name, wanted in only.items():
            column = (
                self.frame[name]
                if name in COLUMNS
                else self.frame.strata.map(lambda of, name=name: of.get(name))
            )
            if len(column) and name not in COLUMNS and column.isna().all():
                raise KeyError(f"No row has the stratum {name!r}.")
            keep &= column.isin({wanted} if isinstance(wanted, str) else set(wanted))
        return self._with(self.frame[keep])

    def and_(self, rows: Rows | Outcomes) -> Outcomes:
        """These rows and others, with the labels of both."""
        more = rows if isinstance(rows, Outcomes) else Outcomes(rows, labels=self.labels)
        whole = self._with(pd.concat([self.frame, more.frame], ignore_index=True))
        whole.labels = (
            self.labels | more.labels | self.labels
        )  # in the order and the words of these
        return whole

    def _with(self, frame: pd.DataFrame) -> Outcomes:
        return Outcomes(
            frame, labels=self.labels, colours=self.colours, draws=self.draws, sample=self.sample
        )

    @cached_property
    def arms(self) -> list[str]:
        """The arms that have rows, in the order of `labels`."""
        there = set(self.frame.arm)
        return [arm for arm in self.labels if arm in there] + sorted(there - self.labels.keys())

    def measured(self, measure: str) -> set[str]:
        """The arms of which a row has the measure."""
        base = parts(measure)[1]
        return set(self.frame.arm[[base in of for of in self.frame.measures]])

    def values(self, measure: str, arm: str) -> Floats:
        """A measure of each row of an arm, all of which have it."""
        rows = self.frame[self.frame.arm == arm]
        return np.array([top / bottom for of in rows.measures for top, bottom in [of[measure]]])

    def label(self, arm: str) -> str:
        """An arm's name for a reader."""
        return self.labels.get(arm, arm)

    def strata(self, name: str) -> list[str]:
        """The values of a stratum, in the order of the rows; none of an empty name."""
        return list(dict.fromkeys(of[name] for of in self.frame.strata if name in of))

    def score(self, measure: str, arm: str | None = None) -> Score:
        """A measure of one arm, with n, 95 % interval and its unparsed answers; a ValueError if no row has it."""
        rows = self.frame if arm is None else self.frame[self.frame.arm == arm]
        statistic, base = parts(measure)
        rows = rows[[base in of for of in rows.measures]]
        if rows.empty:
            raise ValueError(f"No row of {arm or 'any arm'} has the measure {base!r}.")
        unparsed = int((~rows.parsed.astype(bool)).sum())
        tops, bottoms = _columns(rows, base)
        clusters = rows.cluster.to_numpy()
        if not statistic:
            score = metrics.ratio(tops, bottoms, clusters=clusters, draws=self.draws)
        elif statistic == "auc":
            score = metrics.auc((rows.gold == "YES").to_numpy(), tops / bottoms, clusters=clusters)
        else:
            of = metrics.percentile({"median": 50, "p5": 5, "p95": 95}[statistic])
            score = metrics.bootstrap(tops / bottoms, of, clusters=clusters, draws=self.draws)
        return replace(score, unparsed=unparsed if unit(measure) in ("fraction", "ratio") else 0)

    def against(
        self, pairs: Sequence[tuple[str, str]], measure: str, *, each: str = ""
    ) -> list[Comparison]:
        """Paired tests of a ratio, first arm minus second, within `each` value of a column; p by Holm over all."""
        parts = (
            {str(value): self._with(rows) for value, rows in self.frame.groupby(each)}
            if each
            else {"": self}
        )
        return adjusted(
            [part._compare(pair, measure, value) for value, part in parts.items() for pair in pairs]
        )

    def _compare(self, pair: tuple[str, str], measure: str, model: str) -> Comparison:
        mine = self.frame[[measure in of for of in self.frame.measures]]
        first, second = (mine[mine.arm == arm].set_index(list(PAIRING)) for arm in pair)
        shared = first.index.intersection(second.index, sort=False)
        if shared.empty:
            raise ValueError(
                f"{pair[0]} and {pair[1]} share no unit that has the measure {measure!r}."
            )
        first, second = first.loc[shared], second.loc[shared]
        sides = (_columns(first, measure), _columns(second, measure))
        test = paired.paired_ratios(*sides, clusters=first.cluster.to_numpy(), draws=self.draws)
        scores = (self._with(first).score(measure), self._with(second).score(measure))
        return Comparison(*pair, model, scores, test, test.p)

    def table(self, measures: Sequence[str], caption: str, *, by: str = "") -> figures.Html:
        """A row for each arm: its scores, in all and `by` a stratum; n if it differs and all have the first measure."""
        n = Counter(self.frame.arm[[parts(measures[0])[1] in of for of in self.frame.measures]])
        of = {value: self.where(**{by: value}) for value in self.strata(by)}
        rows = [
            {"arm": self.label(arm)}
            | ({"n": n[arm]} if len(set(n.values())) > 1 and {*n} == {*self.arms} else {})
            | {measure_label(m): self.text(m, arm) for m in measures}
            | {value: part.text(measures[0], arm) for value, part in of.items()}
            for arm in self.arms
        ]
        shown = self.scored_table(rows, [Scored(arm, measures[0]) for arm in self.arms], caption)
        return (
            replace(shown, scores={**shown.scores, "by": by, "strata": [*of]})
            if shown.scores
            else shown
        )

    def scored_table(
        self, rows: list[dict[str, Any]], scored: Sequence[Scored], caption: str
    ) -> figures.Html:
        """A table of scores, and what other models' columns in the book need to know of each row."""
        shown = figures.table(pd.DataFrame(rows), caption, sample=self.sample)
        here = self._linked
        if here.empty:
            return shown
        own = {one.arm: here[here.arm == one.arm] for one in scored}
        of = {
            arm: {"n": len(mine), "of": mine[PARTS].drop_duplicates().values.tolist()}
            for arm, mine in own.items()
        }
        parts = [one._asdict() | of[one.arm] for one in scored]
        return replace(
            shown,
            scores={"rows": _pairs(rows), "scored": parts, "draws": self.draws, "caption": caption},
        )

    @property
    def _linked(self) -> pd.DataFrame:
        """The rows that the book's numbers can link to: a run's own, for those of the authors are not in it."""
        return self.frame[(self.frame.source == "rerun") & (not self.sample)]

    def text(self, measure: str, arm: str, digits: int | None = None) -> str | None:
        """A score as a table shows it, a share as 49.4 % or with `digits` as 0.494; None if no row has the measure."""
        return (
            _written(self.score(measure, arm), measure, digits)
            if arm in self.measured(measure)
            else None
        )

    def tests(self, comparisons: Sequence[Comparison], caption: str) -> figures.Html:
        """A row for each comparison, whose difference the book links to the answers of both arms."""
        rows = [
            {"first": self.label(c.first), "second": self.label(c.second)}
            | ({"model": c.model} if c.model else {})
            | {"n": c.test.n, "first better": c.test.b, "second better": c.test.c}
            | {DIFFERENCE: figures.points(c.test), "p (Holm)": figures.p_text(c.p)}
            for c in comparisons
        ]
        shown = figures.table(pd.DataFrame(rows), caption, sample=self.sample)
        if self._linked.empty:
            return shown
        tested = [[c.first, c.second] for c in comparisons]
        return replace(shown, scores={"rows": _pairs(rows), "tested": tested, "caption": caption})

    def beside(
        self, printed: Published, place: str, measures: Sequence[str], caption: str
    ) -> figures.Html:
        """Printed (`place.arm.measure` or `place.arm`), rescored and rerun: a row for each arm and measure."""
        numbers = {number.id: number for number in printed.numbers}
        found: dict[Scored, dict[str, Any]] = {}
        for arm, measure in product(self.arms, measures):
            number = numbers.get(f"{place}.{arm}.{measure}") or numbers.get(f"{place}.{arm}")
            released = self.where(source="released", arm=arm, model=(number and number.model) or "")
            here = self.where(source="rerun", arm=arm)
            rerun = here.score(measure) if arm in here.measured(measure) else None
            digits = number.digits if number else None  # written as the paper writes it
            values = {
                "printed": number and number.printed,
                "rescored": released.text(measure, arm, digits),
                "rerun": rerun and _written(replace(rerun, unparsed=0), measure, digits),
                "unparsed": rerun and rerun.unparsed,
            }
            if any(value is not None for value in values.values()):
                found[Scored(arm, measure, digits)] = values
        columns = [name for name in VALUES if any(of[name] is not None for of in found.values())]
        firsts = {one.arm: one for one in reversed(found)}
        rows = [
            {
                "arm": self.label(one.arm) if firsts[one.arm] is one else "",
                "measure": measure_label(one.measure),
            }
            | {name: of[name] for name in columns}
            for one, of in found.items()
        ]
        return self.scored_table(rows, [*found], caption)

    def dots(
        self, measures: Sequence[str], caption: str, *, by: str = "", chance: float | None = None
    ) -> figures.Picture:
        """A dot with its 95 % interval for each arm, drawn and in words; a panel for each measure, or value of `by`."""
        parts = [(value, measures[0], self.where(**{by: value})) for value in self.strata(by)]
        parts = parts or [(measure_label(m), m, self) for m in measures]
        panels = [
            (
                title,
                measure,
                {
                    arm: part.score(measure, arm)
                    for arm in part.arms
                    if arm in part.measured(measure)
                },
            )
            for title, measure, part in parts
        ]
        told = []
        for arm in self.arms:
            values = (
                f"{title} {figures.number(of[arm].value, unit(m))}"
                for title, m, of in panels
                if arm in of
            )
            told.append(f"{self.label(arm)}: {', '.join(values)}")
        alt = f"{'; '.join(told)}."
        return figures.figure(
            self._draw(panels, chance), alt=alt, caption=caption, sample=self.sample
        )

    def _draw(
        self, panels: Sequence[tuple[str, str, Mapping[str, Score]]], chance: float | None
    ) -> Figure:
        # a figure of many arms, too, shall fit on the first screen of its chapter
        row, font = (0.5, 10.5) if len(self.arms) < MANY else (0.33, 9)
        size, one = (
            (7.4, row * len(self.arms) + 1.0),
            len({measure for _, measure, _ in panels}) == 1,
        )
        fig, axes = plt.subplots(
            1, len(panels), figsize=size, sharex=one, sharey=True, squeeze=False
        )
        for ax, (title, measure, of) in zip(axes[0], panels, strict=True):
            for y, arm in enumerate(self.arms):
                if arm in of:
                    colour = self.colours.get(arm, "#808080")
                    ax.hlines(y, of[arm].low, of[arm].high, color=colour, linewidth=2.2)
                    ax.plot(of[arm].value, y, "o", color=colour, clip_on=False, zorder=3)
            words = (
                title
                if unit(measure) != "seconds" or "seconds" in title
                else f"{title}, in seconds"
            )
            ax.set_xlabel(textwrap.fill(words, 64 // len(panels)))
            ax.grid(axis="x")
            ax.tick_params(axis="y", length=0)
        for ax, (_, measure, _) in zip(
            axes[0], panels, strict=True
        ):  # once all is drawn, for panels may share an axis
            if unit(measure) == "seconds":
                ax.set_xscale("log")
                left, right = ax.get_xlim()
                ax.xaxis.set_major_locator(
                    LogLocator(subs=(1.0, 2.0, 5.0) if right < 50 * left else (1.0,))
                )
                ax.xaxis.set_major_formatter("{x:g}")
                ax.xaxis.set_minor_formatter(NullFormatter())
            elif unit(measure) == "fraction":
                ax.xaxis.set_major_formatter(lambda x, _: figures.number(x, digits=0))
                ax.set_xlim(right=1)
            else:
                ax.set_xlim(left=0)
        if chance is not None:
            axes[0][0].axvline(chance, linestyle=":", color=figures.INK, linewidth=1)
        broken = [textwrap.fill(self.label(arm), 34) for arm in self.arms]
        axes[0][0].set_yticks(range(len(broken)), broken, fontsize=font)
        axes[0][0].set_ylim(len(broken) - 0.5, -0.5)
        return fig


def adjusted(family: Sequence[Comparison]) -> list[Comparison]:
    """The comparisons of one family, with p adjusted by Holm over all of them."""
    return [
        replace(c, p=p)
        for c, p in zip(family, paired.holm([c.test.p for c in family]), strict=True)
    ]


def _frame(rows: Rows) -> pd.DataFrame:
    # plain attributes: dataclasses.asdict would copy every item and measure
    return (
        rows
        if isinstance(rows, pd.DataFrame)
        else pd.DataFrame([vars(row) for row in rows], columns=COLUMNS)
    )


def _pairs(rows: Sequence[Mapping[str, Any]]) -> list[list[tuple[str, Any]]]:
    """Rows of a table as pairs, for a notebook's file sorts the keys of an object."""
    return [list(row.items()) for row in rows]


def _columns(rows: pd.DataFrame, measure: str) -> tuple[Floats, Floats]:
    pairs = np.array([of[measure] for of in rows.measures], dtype=float)
    return pairs[:, 0], pairs[:, 1]


def _written(score: Score, measure: str, digits: int | None) -> str:
    return figures.score_text(score, unit(measure) if digits is None else "ratio", digits=digits)
