"""What the page across the papers reports: quality, time and tokens of each architecture, the tests, the advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from helpers import figures
from helpers.across_papers.arms import ARMS, NOTHING, Answer
from helpers.across_papers.questions import KINDS, Asked, families
from helpers.metrics import Paired, Score, auc, bootstrap, holm, p50, paired_means, proportion
from helpers.record import Run
from helpers.verdicts import ALPHA, better

COLOURS = {
    arm: figures.arm_colour("closed_book" if arm == "closed_book" else "graphrag" if "graph" in arm else "format_b")
    for arm in ARMS
}
"""One colour for each source of the evidence: none, text, graph."""
TEST = "Paired randomisation by drug, p adjusted by Holm"


@dataclass(frozen=True)
class Comparison:
    """Which arm should win, against which other, on which kinds of question."""

    first: str
    second: str
    kinds: tuple[str, ...] = tuple(KINDS)


CLAIMS = {
    # the papers' own questions spell the drug as the data do; misspelt and trade names are another claim's matter
    "graph_beats_text": Comparison("graph", "text", ("plain", "worded", "both")),
    "hybrid_beats_dense": Comparison("hybrid", "text"),
    "dual_track_beats_question": Comparison("dual_track", "text"),
    "names_normalised_help": Comparison("graph_names", "graph"),
    "text_after_graph_helps": Comparison("graph_text", "graph"),
}
STAND_INS = {
    "hybrid_beats_dense": "the page's encoder for Bio_ClinicalBERT, and no reranker",
    "dual_track_beats_question": "the model as it is for a fine-tuned one, the encoder for the reranker",
    "names_normalised_help": "a dictionary and edit distance for a language model that corrects the name",
}
"""What stands here for a component that the paper names."""


@dataclass(frozen=True)
class Measured:
    """One arm: how often right, how well it ranks, what a question costs.

    Attributes:
        accuracy: of all questions.
        auc: of the probability of YES.
        kinds: accuracy by kind of question.
        prompt, generated, tokens: mean tokens of a question, read, written and both.
        seconds: median of the questions that were asked alone.
    """

    accuracy: Score
    auc: Score
    kinds: Mapping[str, Score]
    prompt: Score
    generated: Score
    tokens: Score
    seconds: Score


def right(questions: Sequence[Asked], answers: Sequence[Answer]) -> np.ndarray:
    """1 for each right answer, 0 for each wrong one, (n,)."""
    return np.array([float(a.yes == q.label) for q, a in zip(questions, answers, strict=True)])


Answers = Mapping[str, Sequence[Answer]]
"""What each arm answered, in the order of the questions."""


def measure(
    questions: Sequence[Asked], answers: Answers, seconds: Mapping[str, Sequence[float]], draws: int
) -> dict[str, Measured]:
    """Each arm's scores.

    Intervals are drawn by drug; those of one kind, which has few drugs, are Wilson's. Tokens and seconds are drawn by
    question.
    """
    drugs = families(questions)
    measured = {}
    for arm, given in answers.items():
        ok = right(questions, given)
        kinds = {
            kind: proportion(int(ok[mine].sum()), int(mine.sum()))
            for kind in KINDS
            if (mine := np.array([q.kind == kind for q in questions])).any()
        }
        measured[arm] = Measured(
            bootstrap(ok, clusters=drugs, draws=draws),
            auc([q.label for q in questions], [a.p_yes for a in given], clusters=drugs),
            kinds,
            bootstrap([a.prompt_tokens for a in given], draws=draws),
            bootstrap([a.generated_tokens for a in given], draws=draws),
            bootstrap([a.prompt_tokens + a.generated_tokens for a in given], draws=draws),
            bootstrap(seconds[arm], p50, draws=draws),
        )
    return measured


@dataclass(frozen=True)
class Compared:
    """Two arms on the same questions.

    Attributes:
        of: who is compared.
        first, second: their shares of right answers.
        test: the difference, first minus second.
        p: adjusted by Holm.
    """

    of: Comparison
    first: Score
    second: Score
    test: Paired
    p: float


def compare(
    questions: Sequence[Asked], answers: Answers, comparisons: Sequence[Comparison], draws: int
) -> list[Compared]:
    """Paired randomisation tests; questions that share a drug are turned and drawn together."""
    drugs = np.array(families(questions))
    found = []
    for of in comparisons:
        mine = np.array([q.kind in of.kinds for q in questions])
        groups = drugs[mine]
        first, second = (right(questions, answers[arm])[mine] for arm in (of.first, of.second))
        one, other = (bootstrap(ok, clusters=groups, draws=draws) for ok in (first, second))
        test = paired_means(first, second, clusters=groups, draws=draws)
        found.append(Compared(of, one, other, test, test.p))
    adjusted = holm([c.test.p for c in found])
    return [replace(c, p=p) for c, p in zip(found, adjusted, strict=True)]


def compare_claims(questions: Sequence[Asked], answers: Answers, draws: int) -> dict[str, Compared]:
    """The comparison that decides each claim; p adjusted for their number."""
    return dict(zip(CLAIMS, compare(questions, answers, list(CLAIMS.values()), draws), strict=True))


def compare_best(
    questions: Sequence[Asked], answers: Answers, measured: Mapping[str, Measured], draws: int
) -> list[Compared]:
    """The arm that is right most often (of equals the quickest) against each other one."""
    best = max(measured, key=lambda arm: (measured[arm].accuracy.value, -measured[arm].seconds.value))
    return compare(questions, answers, [Comparison(best, arm) for arm in measured if arm != best], draws)


def report(run: Run, answers: Answers, measured: Mapping[str, Measured], claims: Mapping[str, Compared]) -> None:
    """Hand scores and claims to the run."""
    for arm, m in measured.items():
        name = ARMS[arm]
        run.extra(f"across_papers.{arm}.accuracy", f"accuracy, {name}", m.accuracy)
        run.extra(f"across_papers.{arm}.auc", f"AUC, {name}", m.auc)
        run.extra(f"across_papers.{arm}.seconds", f"seconds a question alone, median, {name}", m.seconds)
        run.extra(f"across_papers.{arm}.prompt_tokens", f"prompt tokens a question, {name}", m.prompt)
        run.extra(f"across_papers.{arm}.generated_tokens", f"generated tokens a question, {name}", m.generated)
        for kind, score in m.kinds.items():
            run.extra(f"across_papers.{arm}.{kind}", f"accuracy, {name}, {quoted(kind)}", score)
    unknown = sum(a.evidence == (NOTHING,) for a in answers["graph"])
    for claim, found in claims.items():
        why = because(found, measured)
        if found.of.second == "graph":
            why += f" The graph knew no name of {unknown} of the {found.test.n} questions."
        if claim in STAND_INS:
            why += f" With a stand-in: {STAND_INS[claim]}."
        run.claim(f"across_papers.claim.{claim}", better(found.test, found.p), why, p=found.p)


def because(found: Compared, measured: Mapping[str, Measured]) -> str:
    """The numbers of one comparison, in sentences; kinds of question that it leaves out stand apart."""
    first, second = found.of.first, found.of.second
    apart = [kind for kind in measured[first].kinds if kind not in found.of.kinds]
    of = f" ({', '.join(quoted(kind) for kind in measured[first].kinds if kind in found.of.kinds)})" if apart else ""
    text = (
        f"{ARMS[first]} is right in {figures.score_text(found.first)}, {ARMS[second]} in "
        f"{figures.score_text(found.second)} of {found.test.n} questions{of}. "
        f"{ARMS[first]} minus {ARMS[second]}: {figures.points(found.test)} points; "
        f"{found.test.b} questions only the first got right, {found.test.c} only the second."
    )
    others = (
        f"{quoted(kind)}: "
        + ", ".join(f"{ARMS[arm]} {figures.score_text(measured[arm].kinds[kind])}" for arm in (first, second))
        for kind in apart
    )
    return f"{text} Apart from these, {'; '.join(others)}." if apart else text


def quoted(kind: str) -> str:
    """A kind of question in a sentence."""
    return f'"{KINDS[kind]}"'


def quality_table(measured: Mapping[str, Measured]) -> pd.DataFrame:
    """One row an arm: right answers in all and by kind."""
    return pd.DataFrame(
        [
            {"architecture": ARMS[arm], "all": m.accuracy, "AUC": m.auc} | {KINDS[k]: s for k, s in m.kinds.items()}
            for arm, m in measured.items()
        ]
    )


def cost_table(measured: Mapping[str, Measured]) -> pd.DataFrame:
    """One row an arm: seconds of a question asked alone, and tokens."""
    return pd.DataFrame(
        [
            {
                "architecture": ARMS[arm],
                "seconds, median": f"{m.seconds.value:.2f} [{m.seconds.low:.2f}, {m.seconds.high:.2f}]",
                "prompt tokens": round(m.prompt.value),
                "generated tokens": round(m.generated.value),
            }
            for arm, m in measured.items()
        ]
    )


def tests_table(compared: Sequence[Compared]) -> pd.DataFrame:
    """One row a comparison."""
    return pd.DataFrame(
        [
            {
                "first": ARMS[c.of.first],
                "second": ARMS[c.of.second],
                "questions": c.test.n,
                "only first right": c.test.b,
                "only second right": c.test.c,
                "first minus second, points": figures.points(c.test),
                "p, Holm": figures.p_text(c.p),
            }
            for c in compared
        ]
    )


def draw(measured: Mapping[str, Measured]) -> Figure:
    """A line an arm: right answers, seconds and tokens, with their intervals."""
    fig, axes = plt.subplots(1, 3, figsize=(7.4, 0.5 * len(measured) + 1.0), sharey=True, width_ratios=(1, 1.2, 0.9))
    for y, (arm, m) in enumerate(measured.items()):
        for ax, score in zip(axes, (m.accuracy, m.seconds, m.tokens), strict=True):
            ax.hlines(y, score.low, score.high, color=COLOURS[arm], linewidth=2.2)
            ax.plot(score.value, y, "o", color=COLOURS[arm], clip_on=False, zorder=3)
    titles = ("right answers", "seconds, asked alone\n(median, logarithmic)", "tokens,\nread and written")
    for ax, title in zip(axes, titles, strict=True):
        ax.set_xlabel(title)
        ax.grid(axis="x")
        ax.tick_params(axis="y", length=0)
    share_axis, seconds_axis, tokens_axis = axes
    share_axis.axvline(0.5, linestyle=":", color=figures.INK, linewidth=1)
    share_axis.set_xlim(min(0.45, *(m.accuracy.low - 0.02 for m in measured.values())), 1)
    share_axis.xaxis.set_major_formatter(lambda x, _: figures.number(x, digits=0))
    seconds_axis.set_xscale("log")
    seconds_axis.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    seconds_axis.xaxis.set_major_formatter("{x:g}")
    seconds_axis.xaxis.set_minor_formatter(NullFormatter())
    tokens_axis.set_xlim(left=0)
    share_axis.set_yticks(range(len(measured)), [_broken(ARMS[arm]) for arm in measured])
    share_axis.set_ylim(len(measured) - 0.5, -0.5)
    return fig


def _broken(label: str) -> str:
    """A long label in two lines."""
    return label.replace(" (", "\n(").replace(" and ", "\nand ")


def picture_words(measured: Mapping[str, Measured]) -> str:
    """What the figure shows, for who cannot see it."""
    told = (
        f"{ARMS[arm]}: {figures.number(m.accuracy.value)} right, {figures.number(m.seconds.value, 'seconds')}, "
        f"{m.tokens.value:.0f} tokens"
        for arm, m in measured.items()
    )
    return f"Right answers, seconds and tokens of a question by architecture. {'; '.join(told)}."


def advice(measured: Mapping[str, Measured], rivals: Sequence[Compared]) -> str:
    """What to build for such questions on this run: the quickest arm that is not clearly worse than the best.

    Args:
        measured: each arm's scores.
        rivals: the best arm against each other one, see `compare_best`.
    """
    best = rivals[0].of.first
    level = [best, *(c.of.second for c in rivals if c.p >= ALPHA)]
    quickest = min(level, key=lambda arm: measured[arm].seconds.value)
    m = measured[best]
    weakest = min(m.kinds, key=lambda kind: m.kinds[kind].value)
    text = (
        f"**{ARMS[best]}** is right most often: {figures.score_text(m.accuracy)} of {m.accuracy.n} questions, at "
        f"{figures.score_text(m.seconds, 'seconds')} and {m.tokens.value:.0f} tokens each. "
    )
    if len(level) > 1:
        names = ", ".join(ARMS[arm] for arm in level[1:])
        text += f"No significant difference from it, on these questions: {names}. "
        if quickest != best:
            seconds = figures.score_text(measured[quickest].seconds, "seconds")
            text += f"The quickest of those is {ARMS[quickest]}, at {seconds}. "
    else:
        text += "Every other architecture is significantly behind it (tests below). "
    return text + f"Its weakest kind of question: {quoted(weakest)}, {figures.score_text(m.kinds[weakest])}."
