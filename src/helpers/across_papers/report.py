"""What the page across the papers reports: quality, time and tokens of each architecture, the tests, the advice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from helpers import figures
from helpers.across_papers.arms import ARMS, Answer
from helpers.across_papers.questions import KINDS, Asked
from helpers.metrics import Paired, Score, auc, bootstrap, holm, mcnemar, p50, proportion
from helpers.record import Run, Verdict

COLOURS = {
    "closed_book": "#c35410",
    "text": "#125ee0",
    "hybrid": "#8a5cd1",
    "dual_track": "#af219d",
    "graph": "#079c6b",
    "graph_first": "#5f7d0e",
}
CLAIMS = {
    "graph_beats_text": ("graph", "text"),
    "hybrid_beats_dense": ("hybrid", "text"),
    "dual_track_beats_question": ("dual_track", "text"),
    "text_after_graph_helps": ("graph_first", "graph"),
}
"""What each claim compares: the arm that should win, and the other."""


@dataclass(frozen=True)
class Measured:
    """One arm: how often right, how well it ranks, what a question costs.

    Attributes:
        accuracy: of all questions.
        auc: of the probability of YES.
        kinds: accuracy by kind of question.
        tokens: mean prompt and generated tokens of a question, and their sum.
        seconds: median of the questions that were asked alone.
    """

    accuracy: Score
    auc: Score
    kinds: Mapping[str, Score]
    prompt: Score
    generated: Score
    seconds: Score

    @property
    def tokens(self) -> float:
        """Read and written, a question."""
        return self.prompt.value + self.generated.value


def right(questions: Sequence[Asked], answers: Sequence[Answer]) -> np.ndarray:
    """Whether each answer is right, (n,)."""
    return np.array([a.yes == q.label for q, a in zip(questions, answers, strict=True)])


Answers = Mapping[str, Sequence[Answer]]
"""What each arm answered, in the order of the questions."""


def measure(
    questions: Sequence[Asked], answers: Answers, seconds: Mapping[str, Sequence[float]], draws: int
) -> dict[str, Measured]:
    """Each arm's scores; intervals of shares by Wilson, of means and of medians by the bootstrap."""
    measured = {}
    for arm, given in answers.items():
        ok = right(questions, given)
        kinds = {
            kind: proportion(int(ok[mine].sum()), int(mine.sum()))
            for kind in KINDS
            if (mine := np.array([q.kind == kind for q in questions])).any()
        }
        measured[arm] = Measured(
            proportion(int(ok.sum()), len(ok)),
            auc([q.label for q in questions], [a.p_yes for a in given]),
            kinds,
            bootstrap([a.prompt_tokens for a in given], draws=draws),
            bootstrap([a.generated_tokens for a in given], draws=draws),
            bootstrap(seconds[arm], p50, draws=draws),
        )
    return measured


def paired(questions: Sequence[Asked], answers: Answers) -> dict[str, tuple[Paired, float]]:
    """McNemar's exact test of each claim, and its p-value adjusted by Holm for their number."""
    tests = {
        claim: mcnemar(right(questions, answers[better]), right(questions, answers[other]))
        for claim, (better, other) in CLAIMS.items()
    }
    adjusted = holm([test.p for test in tests.values()])
    return {claim: (test, p) for (claim, test), p in zip(tests.items(), adjusted, strict=True)}


def report(run: Run, measured: Mapping[str, Measured], tests: Mapping[str, tuple[Paired, float]]) -> None:
    """Hand scores and claims to the run."""
    for arm, m in measured.items():
        name = ARMS[arm]
        run.extra(f"across_papers.{arm}.accuracy", f"accuracy, {name}", m.accuracy)
        run.extra(f"across_papers.{arm}.auc", f"AUC, {name}", m.auc)
        run.extra(f"across_papers.{arm}.seconds", f"seconds a question alone, median, {name}", m.seconds)
        run.extra(f"across_papers.{arm}.prompt_tokens", f"prompt tokens a question, {name}", m.prompt)
        run.extra(f"across_papers.{arm}.generated_tokens", f"generated tokens a question, {name}", m.generated)
        for kind, score in m.kinds.items():
            run.extra(f"across_papers.{arm}.{kind}", f"accuracy, {name}, {KINDS[kind]}", score)
    for claim, (test, p) in tests.items():
        better, other = CLAIMS[claim]
        why = (
            f"{ARMS[better]} is right in {figures.number(measured[better].accuracy.value)} of {test.n} questions, "
            f"{ARMS[other]} in {figures.number(measured[other].accuracy.value)}; {test.b} against {test.c} of "
            f"the questions that only one has right."
        )
        verdict: Verdict = "agrees" if test.difference > 0 and p < 0.05 else "differs"
        run.claim(f"across_papers.claim.{claim}", verdict, why, p=p)


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


def tests_table(tests: Mapping[str, tuple[Paired, float]]) -> pd.DataFrame:
    """One row a comparison."""
    return pd.DataFrame(
        [
            {
                "first": ARMS[CLAIMS[claim][0]],
                "second": ARMS[CLAIMS[claim][1]],
                "only first right": test.b,
                "only second right": test.c,
                "difference": figures.score_text(Score(test.difference, test.n, test.low, test.high)),
                "p, Holm": figures.p_text(p),
            }
            for claim, (test, p) in tests.items()
        ]
    )


def draw(measured: Mapping[str, Measured]) -> Figure:
    """Right answers against seconds; the larger the dot, the more tokens a question takes."""
    fig, ax = plt.subplots(figsize=(7.4, 5.2))
    most = max(m.tokens for m in measured.values())
    for arm, m in measured.items():
        x, y = m.seconds.value, 100 * m.accuracy.value
        ax.plot([x, x], [100 * m.accuracy.low, 100 * m.accuracy.high], color=COLOURS[arm], linewidth=1.5)
        ax.plot([m.seconds.low, m.seconds.high], [y, y], color=COLOURS[arm], linewidth=1.5)
        size = 5 + 13 * np.sqrt(m.tokens / most)
        label = f"{ARMS[arm]}: {m.tokens:.0f} tokens"
        ax.plot(x, y, "o", markersize=size, color=COLOURS[arm], alpha=0.85, label=label)
    ax.axhline(50, linestyle=":", color=figures.INK, linewidth=1)
    ax.set_xscale("log")
    ax.xaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_formatter(NullFormatter())
    ax.set_xlabel("seconds for one question, asked alone (median, logarithmic)")
    ax.set_ylabel("right answers, per cent")
    ax.set_ylim(min(45.0, *(100 * m.accuracy.low - 2 for m in measured.values())), 102)
    legend = fig.legend(loc="outside lower center")
    for handle in legend.legend_handles:
        if handle is not None:
            handle.set_markersize(8)  # type: ignore[attr-defined]
    return fig


def picture_words(measured: Mapping[str, Measured]) -> str:
    """What the figure shows, for who cannot see it."""
    told = (
        f"{ARMS[arm]}: {figures.number(m.accuracy.value)} right, {m.seconds.value:.2f} s, {m.tokens:.0f} tokens"
        for arm, m in measured.items()
    )
    return f"Right answers against seconds a question, with the tokens it takes. {'; '.join(told)}."


def advice(
    questions: Sequence[Asked], answers: Mapping[str, Sequence[Answer]], measured: Mapping[str, Measured]
) -> str:
    """What to build for such questions on this run: the cheapest arm that is not clearly worse than the best."""
    best = max(measured, key=lambda arm: (measured[arm].accuracy.value, -measured[arm].seconds.value))
    others = [arm for arm in measured if arm != best]
    ps = holm([mcnemar(right(questions, answers[best]), right(questions, answers[arm])).p for arm in others])
    level = [best, *(arm for arm, p in zip(others, ps, strict=True) if p >= 0.05)]
    cheapest = min(level, key=lambda arm: measured[arm].seconds.value)
    ranked = sorted(KINDS.keys() & measured[best].kinds.keys(), key=lambda kind: measured[best].kinds[kind].value)
    hardest = f"{KINDS[ranked[0]]}, {figures.number(measured[best].kinds[ranked[0]].value)}"
    text = (
        f"**{ARMS[best]}** is right most often: {figures.score_text(measured[best].accuracy)} of {len(questions)} "
        f"questions, at {measured[best].seconds.value:.2f} s and {measured[best].tokens:.0f} tokens each. "
    )
    if len(level) > 1:
        names = ", ".join(ARMS[arm] for arm in level[1:])
        text += f"Not to be told from it on these questions (McNemar, Holm, 5 %): {names}. "
        if cheapest != best:
            text += f"The quickest of those is {ARMS[cheapest]}, at {measured[cheapest].seconds.value:.2f} s. "
    else:
        text += "Every other architecture is clearly behind it (McNemar, Holm, 5 %). "
    return text + f"Its weakest kind of question: {hardest}."
