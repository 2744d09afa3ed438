"""What the released results of QA-RAG show: tables, figures and claims of the rescoring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from helpers.results import figures, verdicts
from helpers.results.metrics import Score, bootstrap, holm, paired_means, proportion
from helpers.results.record import Run
from helpers.results.verdicts import Tested
from helpers.similarity import BertScores
from papers.qa_rag.answers import quotes
from papers.qa_rag.data import Data, twins
from papers.qa_rag.encoders import other_scale
from papers.qa_rag.released import ARMS, METRICS, Floats, Released, against, carries_over, detectable, documents_of
from papers.qa_rag.retrieval import KEPT

CLAIM = "qa_rag.claim."
BLUE, ORANGE, PURPLE = "#125ee0", "#c35410", "#af219d"
FIRST = "qa_rag"
SEEN = 0.9
"""Mean context recall that a judge should exceed where the contexts hold the whole answer."""
CORRELATION = 0.1
"""The smallest rank correlation that would matter."""


def three(score: Score) -> str:
    """A score of 0 to 1 as the paper writes it, with its interval: `0.591 [0.560, 0.622]`."""
    return f"{score.value:.3f} [{score.low:.3f}, {score.high:.3f}]"


def all_better(tests: pd.DataFrame) -> tuple[Tested, float]:
    """Whether the first arm is better in every test (rows as of `released.against`), and the p that decides it."""
    found = [verdicts.better(row, row.p_holm) for _, row in tests.iterrows()]
    verdict = verdicts.all_of(found)
    return verdict, max(p for p, one in zip(tests.p_holm, found, strict=True) if one == verdict)


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
            "QA-RAG minus ...": [ARMS[arm] for arm in tests.other],
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


def context_tests(data: Data, released: Released, draws: int) -> dict[str, pd.DataFrame]:
    """QA-RAG's released context precision and context recall against each arm whose scores are here."""
    return {
        metric: against(
            FIRST,
            {arm: table[metric].to_numpy() for arm, table in released.ragas.items()},
            data.test_documents,
            draws,
        )
        for metric in ("precision", "recall")
    }


def held_table(run: Run, data: Data, held: pd.DataFrame, tests: pd.DataFrame, draws: int) -> pd.DataFrame:
    """Whose six passages hold the FDA's answer word by word, kept in the record."""
    rows = []
    documents = documents_of(data, held.index)
    for arm in sorted(map(str, held), key=lambda arm: -held[arm].sum()):
        score = bootstrap(held[arm], clusters=documents, draws=draws)
        run.extra(f"qa_rag.held.{arm}", f"the FDA's answer stands in the released passages of {ARMS[arm]}", score)
        test = tests[tests.other == arm]
        rows.append(
            {
                "released passages of": ARMS[arm],
                "hold the answer": score,
                "of": len(held),
                "QA-RAG minus it, points": "" if test.empty else figures.points(test.iloc[0]),
                "p (Holm)": "" if test.empty else figures.p_text(test.p_holm.iloc[0]),
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
        arm, ARMS[arm] if arm.endswith("_12") else f"{ARMS[arm]}, 24"
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


def decide_contexts(run: Run, data: Data, released: Released, tests: Mapping[str, pd.DataFrame], draws: int) -> None:
    """What the paper says of contexts, by the tests that `data/published/qa_rag.yml` states."""
    for metric in ("precision", "recall"):
        rows = tests[metric]
        shown = "; ".join(
            f"{ARMS[row.other]} {figures.difference(row, 3)}, {figures.p_words(row.p_holm)}"
            for _, row in rows.iterrows()
        )
        verdict, p = all_better(rows)
        run.claim(f"{CLAIM}context_{metric}", verdict, f"QA-RAG's mean context {metric} minus that of: {shown}.", p=p)
    ragas, documents = released.ragas, data.test_documents
    answer_first = paired_means(
        ragas["hypothetical"].precision, ragas["question"].precision, clusters=documents, draws=draws
    )
    run.claim(
        f"{CLAIM}hypothetical_beats_question",
        verdicts.better(answer_first, answer_first.p),
        f"Context precision, only hypothetical answer minus only question: {figures.difference(answer_first, 3)} on "
        f"{answer_first.n} questions of {len(set(documents))} documents, {figures.p_words(answer_first.p)}.",
        p=answer_first.p,
    )
    both = pd.concat(rows[rows.other == "hypothetical_12"] for rows in tests.values())
    both = both.assign(p_holm=holm(list(both.p)))
    verdict, p = all_better(both)
    told = "; ".join(
        f"{metric} {figures.difference(row, 3)}, {figures.p_words(row.p_holm)}"
        for metric, (_, row) in zip(tests, both.iterrows(), strict=True)
    )
    run.claim(f"{CLAIM}both_tracks_help", verdict, f"QA-RAG minus only the hypothetical answer(12): {told}.", p=p)


def decide_judge(run: Run, judged: Mapping[str, Mapping[str, Score]]) -> None:
    """Whether context recall is recall, and the values that tell."""
    for arm, of in judged.items():
        for name, score in of.items():
            run.extra(f"qa_rag.judged.{arm}.{name}", f"released context recall of {ARMS[arm]}, answer {name}", score)
    held = {arm: of["held"] for arm, of in judged.items() if "held" in of}
    if not held:
        run.claim(f"{CLAIM}recall_is_recall", "not run", "No ranking has a passage that holds a whole answer.")
        return
    run.claim(
        f"{CLAIM}recall_is_recall",
        verdicts.all_of(verdicts.above(score, SEEN) for score in held.values()),
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
        verdicts.exactly(contexts == answers),
        f"By context precision: {', '.join(ARMS[a] for a in contexts)}. By F1: {', '.join(ARMS[a] for a in answers)}.",
    )
    last = {column: order("table3", column)[-1] for column in ("precision", "recall")}
    run.claim(
        f"{CLAIM}question_is_worst",
        verdicts.exactly(set(last.values()) == {"question"}),
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
        documents = data.test_documents
        own = {m: bootstrap(getattr(scores[arm], m), clusters=documents, draws=draws) for m in METRICS}
        for metric, score in own.items():
            run.extra(f"qa_rag.released.{arm}.{metric}", f"BERTScore {metric} of {ARMS[arm]}'s released answers", score)
        row: dict[str, object] = {"released answers of": ARMS[arm]}
        row |= {"F1 as printed": run.printed.number(f"qa_rag.table4.{arm}.f1").printed}
        row |= {("F1" if metric == "f1" else metric): own[metric] for metric in ("f1", "precision", "recall")}
        row["similarity"] = bootstrap(similarity[arm], clusters=documents, draws=draws)
        row["words"] = float(np.mean([len(text.split()) for text in released.answers[arm]]))
        row["quote their passages"] = _quoting(data, arm, released.answers[arm], draws)
        rows.append(row)
    return pd.DataFrame(rows)


def _quoting(data: Data, arm: str, answers: Sequence[str], draws: int) -> Score | None:
    """Share of answers with eight words in a row from their passages, where these are released."""
    if arm not in data.released:
        return None
    quoting = [
        quotes(text, [data.corpus.of_id[id].text for id in data.released[arm][question.id]])
        for question, text in zip(data.test, answers, strict=True)
    ]
    return bootstrap(quoting, clusters=data.test_documents, draws=draws)


def draw_differences(run: Run, tests: pd.DataFrame) -> Figure:
    """QA-RAG's F1 minus that of each arm, with 95 % intervals, and the printed difference."""
    fig, axes = plt.subplots(figsize=(7.2, 0.55 * len(tests) + 1.5))
    at = np.arange(len(tests))
    axes.axvline(0, color=figures.INK, linewidth=1)
    axes.hlines(at, tests.low, tests.high, color=BLUE)
    axes.plot(tests.difference, at, "o", color=BLUE, label="by the encoder at hand, 95 % interval")
    printed = [printed_gain(run, arm) for arm in tests.other]
    axes.plot(printed, at, "D", color=ORANGE, markerfacecolor="none", markeredgewidth=1.8, label="as printed")
    axes.set_yticks(at, [ARMS[arm] for arm in tests.other])
    axes.set_ylim(len(tests) - 0.5, -0.5)
    axes.set_xlabel("QA-RAG's BERTScore F1 minus that of the method")
    axes.grid(axis="x")
    fig.legend(loc="outside lower center", ncols=2)
    return fig


def printed_gain(run: Run, arm: str) -> float:
    """QA-RAG's F1 minus that of another method, as printed in Table 4."""
    return run.printed.number(f"qa_rag.table4.{FIRST}.f1").value - run.printed.number(f"qa_rag.table4.{arm}.f1").value


def differences_words(run: Run, tests: pd.DataFrame) -> str:
    """The same in words."""
    return "QA-RAG's F1 minus that of each method: " + "; ".join(
        f"{ARMS[row.other]} {figures.difference(row, 3)}, printed {figures.signed(printed_gain(run, row.other), 3)}"
        for _, row in tests.iterrows()
    )


def power_words(run: Run, data: Data, scores: Mapping[str, BertScores], encoder: str) -> str:
    """How large a difference must be for so many questions to show it, beside the printed ones, in two sentences."""
    others = [arm for arm in scores if arm != FIRST]
    needed = [detectable(scores[FIRST].f1, scores[arm].f1, data.test_documents) for arm in others]
    printed = [printed_gain(run, arm) for arm in others]
    scale = ", on the scale of another encoder" if other_scale(encoder) else ""
    return (
        f"By this encoder, the true difference between two methods must be {min(needed):.3f} to {max(needed):.3f} for "
        f"{len(data.test)} questions of {len(set(data.test_documents))} documents to show it four times out of five (a "
        f"paired test by document at 5 %, before any adjustment). The printed differences are {min(printed):.3f} to "
        f"{max(printed):.3f}{scale}."
    )


def decide_answers(
    run: Run,
    data: Data,
    released: Released,
    scores: Mapping[str, BertScores],
    tests: pd.DataFrame,
    seed: int,
    draws: int,
) -> None:
    """What the paper says of its answers, by BERTScore of the released answers with the encoder at hand."""
    for _, row in tests.iterrows():
        label = f"F1 of QA-RAG's released answers minus that of {ARMS[row.other]}"
        run.extra(f"qa_rag.released.gain.{row.other}", label, Score(row.difference, int(row.n), row.low, row.high))
    verdict, p = all_better(tests)
    run.claim(
        f"{CLAIM}answers_best",
        verdict,
        differences_words(run, tests)
        + f". Adjusted p from {figures.p_text(tests.p_holm.min())} to {figures.p_text(tests.p_holm.max())}; "
        + "QA-RAG is better on "
        + ", ".join(f"{row.better}" for _, row in tests.iterrows())
        + f" of {int(tests.n.iloc[0])} questions.",
        p=p,
    )
    both = [arm for arm in released.ragas if arm in scores]
    score, p = carries_over(
        {arm: released.ragas[arm].precision.to_numpy() for arm in both},
        {arm: scores[arm].f1 for arm in both},
        data.test_documents,
        seed,
        draws,
    )
    run.claim(
        f"{CLAIM}context_carries_over",
        verdicts.better(score, p, worthwhile=CORRELATION),
        f"Within {len(data.test)} questions, over {len(both)} methods, the rank correlation of context precision and "
        f"F1 is {figures.signed(score.value, 3)} [{figures.signed(score.low, 3)}, {figures.signed(score.high, 3)}], "
        f"{figures.p_words(p)}.",
        p=p,
    )
