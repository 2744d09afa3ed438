"""What the released results of QA-RAG show: tables, figures and claims of the rescoring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from helpers import figures
from helpers.metrics import Score, bootstrap, holm, proportion
from helpers.qa_rag.answers import quotes
from helpers.qa_rag.data import Data, twins
from helpers.qa_rag.released import ARMS, METRICS, Floats, Released, against, carries_over, detectable, paired
from helpers.qa_rag.retrieval import KEPT
from helpers.record import Run
from helpers.similarity import BertScores

CLAIM = "qa_rag.claim."
BLUE, ORANGE, PURPLE = "#125ee0", "#c35410", "#af219d"
ALPHA = 0.05
FIRST = "qa_rag"


def three(score: Score) -> str:
    """A score of 0 to 1 as the paper writes it, with its interval: `0.591 [0.560, 0.622]`."""
    return f"{score.value:.3f} [{score.low:.3f}, {score.high:.3f}]"


def rescored_table(run: Run, rescored: Mapping[str, Score | float]) -> pd.DataFrame:
    """How many printed numbers of each table the released files give to the last digit, and which they do not."""
    rows: dict[str, list[str]] = {}
    for id, score in rescored.items():
        number = run.printed.number(id)
        value = score.value if isinstance(score, Score) else score
        off = abs(value - number.value) > (number.within("rescored") or 0) * (1 + 1e-9)
        told = f"{number.row}: {number.printed} printed, {number.show(value, 2)} released" if off else ""
        rows.setdefault(number.table, []).append(told)
    return pd.DataFrame(
        [
            {
                "where": table,
                "numbers printed": sum(n.table == table for n in run.printed.numbers),
                "rescored": len(cells),
                "to the last digit": cells.count(""),
                "not so": "; ".join(filter(None, cells)),
            }
            for table, cells in rows.items()
        ]
    )


def tests_table(tests: pd.DataFrame) -> pd.DataFrame:
    """Paired tests of QA-RAG against each arm, as a reader sees them."""
    return pd.DataFrame(
        {
            "QA-RAG less ...": [ARMS[arm] for arm in tests.other],
            "difference": [figures.difference(row, 3) for _, row in tests.iterrows()],
            "QA-RAG better on": tests.better,
            "worse on": tests.worse,
            "of": tests.n,
            "p": [figures.p_text(p) for p in tests.p],
            "p (Holm)": [figures.p_text(p) for p in tests.p_holm],
        }
    )


def release_words(data: Data) -> str:
    """What is released, counted, beside what the text says of it."""
    passages = data.corpus.passages
    fewer = {arm: sum(len(of) < KEPT for of in ranking.values()) for arm, ranking in data.released.items()}
    short = "; ".join(f"{count} of {ARMS[arm]}" for arm, count in fewer.items() if count) or "none"
    again = len(twins(data.test, [q for q in data.questions if q not in data.test]))
    return (
        f"Counted in the release: {len(data.questions):,} pairs of question and answer; {len(data.test)} test "
        f"questions, {figures.number(len(data.test) / len(data.questions))} of them; {again} of these share their "
        f"words or their answer with another pair; {len(passages):,} distinct passages, the longest of "
        f"{max(len(p.text) for p in passages):,} characters. Rankings with fewer than {KEPT} passages: {short}."
    )


# ------------------------------------------------------------------------------------------------------------ contexts


def context_tests(released: Released, draws: int) -> dict[str, pd.DataFrame]:
    """QA-RAG's released context precision and context recall against each arm whose scores are here."""
    return {
        metric: against(FIRST, {arm: table[metric].to_numpy() for arm, table in released.ragas.items()}, draws)
        for metric in ("precision", "recall")
    }


def held_table(run: Run, held: pd.DataFrame, tests: pd.DataFrame) -> pd.DataFrame:
    """Whose six passages hold the FDA's answer word by word, kept in the record."""
    rows = []
    for arm in sorted(map(str, held), key=lambda arm: -held[arm].sum()):
        score = proportion(int(held[arm].sum()), len(held))
        run.extra(f"qa_rag.held.{arm}", f"the FDA's answer stands in the released passages of {ARMS[arm]}", score)
        test = tests[tests.other == arm]
        rows.append(
            {
                "released passages of": ARMS[arm],
                "hold the answer": score,
                "of": len(held),
                "QA-RAG less it": ""
                if test.empty
                else figures.number(100 * test.difference.iloc[0], "percentage_points", digits=1),
                "p (McNemar, Holm)": "" if test.empty else figures.p_text(test.p_holm.iloc[0]),
            }
        )
    return pd.DataFrame(rows)


def outranked_table(rows: pd.DataFrame) -> pd.DataFrame:
    """`released.outranked` as a reader sees it."""
    return pd.DataFrame(
        {
            "chosen from more": [_pool(arm) for arm in rows.larger],
            "chosen from part of it": [_pool(arm) for arm in rows.smaller],
            "questions where a more relevant passage of the part is missing": [
                proportion(k, n) for k, n in zip(rows.questions, rows.of, strict=True)
            ],
            "such passages": rows.passages,
            "of": rows.kept,
        }
    )


def _pool(arm: str) -> str:
    return {"qa_rag": "QA-RAG: question, 12, and hypothetical answer, 12"}.get(
        arm, ARMS[arm] if arm.startswith("ablation") else f"{ARMS[arm]}, 24"
    )


def draw_judge(judged: Mapping[str, Mapping[str, Score]]) -> Figure:
    """The judge's context recall where the answer is held, and where no eight words of it are."""
    fig, axes = plt.subplots(figsize=(7.2, 0.62 * len(judged) + 1.5))
    for i, (name, marker, colour) in enumerate((("held", "o", BLUE), ("none", "s", ORANGE))):
        label = {"held": "passages hold the FDA's whole answer", "none": "passages hold no eight words of it"}[name]
        at = [row + 0.2 * (i - 0.5) for row, of in enumerate(judged.values()) if name in of]
        scores = [of[name] for of in judged.values() if name in of]
        axes.hlines(at, [s.low for s in scores], [s.high for s in scores], color=colour)
        axes.plot([s.value for s in scores], at, marker, color=colour, label=label)
    axes.axvline(1, color=figures.INK, linestyle="--", linewidth=1)
    axes.annotate(
        "the whole answer\nis there", (1, -0.4), xytext=(-6, 0), textcoords="offset points", ha="right", va="center"
    )
    axes.set_yticks(range(len(judged)), [ARMS[arm] for arm in judged])
    axes.set_ylim(len(judged) - 0.5, -0.8)
    axes.set_xlim(0, 1.02)
    axes.set_xlabel("mean context recall, as released")
    axes.grid(axis="x")
    fig.legend(loc="outside lower center", ncols=2)
    return fig


def judge_words(judged: Mapping[str, Mapping[str, Score]]) -> str:
    """The same in words."""
    return "Mean context recall by the authors' judge. " + " ".join(
        f"{ARMS[arm]}: "
        + " and ".join(
            f"{three(of[name])} on {of[name].n} questions whose passages hold {what}"
            for name, what in (("held", "the whole answer"), ("none", "no part of it"))
            if name in of
        )
        + "."
        for arm, of in judged.items()
    )


def twice_words(twice: pd.DataFrame) -> str:
    """What the judge said when asked the same twice, in a sentence."""
    if twice.empty:
        return "No two rankings agree on a question, so the judge was never asked the same twice."
    apart = (twice.recall_first - twice.recall_second).abs()
    return (
        f"Two rankings have the very same passages in the same order in {len(twice)} cases. The judge's two values of "
        f"context recall then lie {apart.mean():.2f} apart on average, {apart.max():.2f} at most."
    )


def decide_contexts(run: Run, released: Released, tests: Mapping[str, pd.DataFrame], draws: int) -> None:
    """What the paper says of contexts, by the tests that `data/published/qa_rag.yml` states."""
    for metric in ("precision", "recall"):
        rows = tests[metric]
        shown = "; ".join(
            f"{ARMS[row.other]} {figures.difference(row, 3)}, {figures.p_words(row.p_holm)}"
            for _, row in rows.iterrows()
        )
        best = bool(((rows.difference > 0) & (rows.p_holm < ALPHA)).all())
        run.claim(
            f"{CLAIM}context_{metric}",
            "agrees" if best else "differs",
            f"QA-RAG's mean context {metric} less that of: {shown}.",
            p=float(rows.p_holm.max()),
        )
    ragas = released.ragas
    answer_first = paired(ragas["hypothetical"].precision, ragas["question"].precision, draws)
    run.claim(
        f"{CLAIM}hypothetical_beats_question",
        "agrees" if answer_first.difference > 0 and answer_first.p < ALPHA else "differs",
        f"Context precision differs by {figures.difference(answer_first, 3)} on {answer_first.n} questions, "
        f"{figures.p_words(answer_first.p)}.",
        p=answer_first.p,
    )
    both = {m: paired(ragas[FIRST][m], ragas["ablation_hypothetical"][m], draws) for m in ("precision", "recall")}
    adjusted = holm([test.p for test in both.values()])
    told = "; ".join(
        f"{m} {figures.difference(t, 3)}, {figures.p_words(p)}"
        for (m, t), p in zip(both.items(), adjusted, strict=True)
    )
    run.claim(
        f"{CLAIM}both_tracks_help",
        "agrees" if all(t.difference > 0 for t in both.values()) and max(adjusted) < ALPHA else "differs",
        f"QA-RAG less only the hypothetical answer(12): {told}.",
        p=max(adjusted),
    )


def decide_judge(run: Run, judged: Mapping[str, Mapping[str, Score]]) -> None:
    """Whether context recall is recall, and the values that tell."""
    for arm, of in judged.items():
        for name, score in of.items():
            run.extra(f"qa_rag.judged.{arm}.{name}", f"released context recall of {ARMS[arm]}, answer {name}", score)
    held = {arm: of["held"] for arm, of in judged.items() if "held" in of}
    run.claim(
        f"{CLAIM}recall_is_recall",
        "agrees" if all(score.value >= 0.9 for score in held.values()) else "differs",
        "Where a passage holds the FDA's whole answer, the judge gave on average "
        + "; ".join(f"{three(s)} ({ARMS[arm]}, {s.n} questions)" for arm, s in held.items())
        + ".",
    )


def decide_printed(run: Run) -> None:
    """The claims that the printed tables decide."""

    def order(table: str, column: str) -> list[str]:
        values = {arm: run.printed.number(f"qa_rag.{table}.{arm}.{column}").value for arm in _PRINTED}
        return sorted(values, key=lambda arm: -values[arm])

    contexts, answers = order("table3", "precision")[:3], order("table4", "f1")[:3]
    run.claim(
        f"{CLAIM}same_order",
        "agrees" if contexts == answers else "differs",
        f"By context precision: {', '.join(ARMS[a] for a in contexts)}. By F1: {', '.join(ARMS[a] for a in answers)}.",
    )
    last = {column: order("table3", column)[-1] for column in ("precision", "recall")}
    run.claim(
        f"{CLAIM}question_is_worst",
        "agrees" if set(last.values()) == {"question"} else "differs",
        f"Lowest in Table 3: {ARMS[last['precision']]} in context precision, {ARMS[last['recall']]} in context recall.",
    )


_PRINTED = ("qa_rag", "hypothetical", "hyde", "question", "multiquery")


# ------------------------------------------------------------------------------------------------------------- answers


def answers_table(
    run: Run,
    data: Data,
    released: Released,
    scores: Mapping[str, BertScores],
    similarity: Mapping[str, Floats],
    draws: int,
) -> pd.DataFrame:
    """The released answers: BERTScore as printed and by the encoder at hand, similarity, length, quotations."""
    rows = []
    for arm in sorted(scores, key=lambda arm: -scores[arm].f1.mean()):
        own = {metric: bootstrap(getattr(scores[arm], metric), draws=draws) for metric in METRICS}
        for metric, score in own.items():
            run.extra(f"qa_rag.released.{arm}.{metric}", f"BERTScore {metric} of {ARMS[arm]}'s released answers", score)
        row: dict[str, object] = {"released answers of": ARMS[arm]}
        row |= {"F1 as printed": run.printed.number(f"qa_rag.table4.{arm}.f1").printed}
        row |= {("F1" if metric == "f1" else metric): own[metric] for metric in ("f1", "precision", "recall")}
        row["similarity"] = bootstrap(similarity[arm], draws=draws)
        row["words"] = float(np.mean([len(text.split()) for text in released.answers[arm]]))
        row["quote their passages"] = _quoting(data, arm, released.answers[arm])
        rows.append(row)
    return pd.DataFrame(rows)


def _quoting(data: Data, arm: str, answers: Sequence[str]) -> Score | None:
    """Share of answers with eight words in a row from their passages, where these are released."""
    if arm not in data.released:
        return None
    quoting = 0
    for question, text in zip(data.test, answers, strict=True):
        passages = [data.corpus.of_id[id].text for id in data.released[arm][question.id]]
        quoting += quotes(text, passages)
    return proportion(quoting, len(data.test))


def draw_differences(run: Run, tests: pd.DataFrame) -> Figure:
    """QA-RAG's F1 less that of each arm, with 95 % intervals, and the printed difference."""
    fig, axes = plt.subplots(figsize=(7.2, 0.55 * len(tests) + 1.5))
    at = np.arange(len(tests))
    axes.axvline(0, color=figures.INK, linewidth=1)
    axes.hlines(at, tests.low, tests.high, color=BLUE)
    axes.plot(tests.difference, at, "o", color=BLUE, label="by the encoder at hand, 95 % interval")
    printed = [_printed_gain(run, arm) for arm in tests.other]
    axes.plot(printed, at, "D", color=ORANGE, markerfacecolor="none", markeredgewidth=1.8, label="as printed")
    axes.set_yticks(at, [ARMS[arm] for arm in tests.other])
    axes.set_ylim(len(tests) - 0.5, -0.5)
    axes.set_xlabel("QA-RAG's BERTScore F1 less that of the method")
    axes.grid(axis="x")
    fig.legend(loc="outside lower center", ncols=2)
    return fig


def _printed_gain(run: Run, arm: str) -> float:
    return run.printed.number(f"qa_rag.table4.{FIRST}.f1").value - run.printed.number(f"qa_rag.table4.{arm}.f1").value


def differences_words(run: Run, tests: pd.DataFrame) -> str:
    """The same in words."""
    return "QA-RAG's F1 less that of each method: " + "; ".join(
        f"{ARMS[row.other]} {figures.difference(row, 3)}, printed {figures.signed(_printed_gain(run, row.other), 3)}"
        for _, row in tests.iterrows()
    )


def power_words(run: Run, scores: Mapping[str, BertScores]) -> str:
    """How large a difference must be for so many questions to show it, beside the printed ones, in two sentences."""
    others = [arm for arm in scores if arm != FIRST]
    needed = [detectable(scores[FIRST].f1, scores[arm].f1) for arm in others]
    printed = [_printed_gain(run, arm) for arm in others]
    return (
        f"By this encoder, the true difference between two methods must be {min(needed):.3f} to {max(needed):.3f} for "
        f"{len(scores[FIRST].f1)} questions to show it four times out of five (a paired test at 5 %, before any "
        f"adjustment). The printed differences are {min(printed):.3f} to {max(printed):.3f}, on the scale of another "
        "encoder."
    )


def decide_answers(
    run: Run, released: Released, scores: Mapping[str, BertScores], tests: pd.DataFrame, seed: int, draws: int
) -> None:
    """What the paper says of its answers, by BERTScore of the released answers with the encoder at hand."""
    for _, row in tests.iterrows():
        label = f"F1 of QA-RAG's released answers less that of {ARMS[row.other]}"
        run.extra(f"qa_rag.released.gain.{row.other}", label, Score(row.difference, int(row.n), row.low, row.high))
    best = bool(((tests.difference > 0) & (tests.p_holm < ALPHA)).all())
    run.claim(
        f"{CLAIM}answers_best",
        "agrees" if best else "differs",
        differences_words(run, tests)
        + f". Adjusted p from {figures.p_text(tests.p_holm.min())} to {figures.p_text(tests.p_holm.max())}; "
        + "QA-RAG is better on "
        + ", ".join(f"{row.better}" for _, row in tests.iterrows())
        + f" of {int(tests.n.iloc[0])} questions.",
        p=float(tests.p_holm.max()),
    )
    both = [arm for arm in released.ragas if arm in scores]
    r, p = carries_over(
        {arm: released.ragas[arm].precision.to_numpy() for arm in both},
        {arm: scores[arm].f1 for arm in both},
        seed,
        draws,
    )
    run.claim(
        f"{CLAIM}context_carries_over",
        "agrees" if r > 0 and p < ALPHA else "differs",
        f"Within {len(scores[FIRST].f1)} questions, over {len(both)} methods, the rank correlation of context "
        f"precision and F1 is {figures.signed(r, 3)}, {figures.p_words(p)}.",
        p=p,
    )
