"""What a run of answers reports: scores by arm, what the cuts leave, tests, claims, the page's answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from helpers.results import figures, verdicts
from helpers.results.metrics import Paired, Score, bootstrap, paired_means
from helpers.results.record import Run
from helpers.similarity import BertScores
from papers.qa_rag.answers import ARMS, WHOLE_ARMS, Answer, Cut
from papers.qa_rag.data import FEWEST, Data, Question
from papers.qa_rag.encoders import other_scale
from papers.qa_rag.released import documents_of
from papers.qa_rag.released_report import BLUE, CLAIM, ORANGE, PURPLE, printed_gain, three

PRINTED_ARMS = ("qa_rag", "question", "hypothetical")
"""Arms of Table 4 whose contexts are in this book's copy of the release."""


# -------------------------------------------------------------------------------------------------------------- cutting


@dataclass(frozen=True)
class Left:
    """What one rule leaves of the FDA's answers, over questions.

    Attributes:
        cut, passages, size: the rule, as in `answers.cut_table`.
        characters: shown on average.
        left: mean share of an answer's word sequences that is shown.
        half: share of questions of whose answer at least half is.
    """

    cut: Cut
    passages: int
    size: int
    characters: float
    left: Score
    half: Score

    @property
    def label(self) -> str:
        """The rule in words."""
        return _RULES[self.cut] + (f" ({self.passages})" if self.cut == "whole" else "")


_RULES: dict[Cut, str] = {
    "windows": "best windows of six passages",
    "heads": "beginnings of six passages",
    "whole": "first passages, whole",
}


def cut_scores(data: Data, cuts: pd.DataFrame, draws: int) -> list[Left]:
    """`answers.cut_table` by rule, in the order of the characters shown."""
    scores = []
    for cut in _RULES:
        of_rule = cuts[cuts.cut == cut]
        for passages, size in of_rule[["passages", "size"]].drop_duplicates().itertuples(index=False):
            of = of_rule[(of_rule.passages == passages) & (of_rule["size"] == size)]
            documents = documents_of(data, of.question)
            left, half = (bootstrap(x, clusters=documents, draws=draws) for x in (of.left, of.left >= 0.5))
            scores.append(Left(cut, passages, size, float(of.characters.mean()), left, half))
    return sorted(scores, key=lambda of: of.characters)


def cut_table(run: Run, scores: Sequence[Left]) -> pd.DataFrame:
    """The same as a reader sees it, kept in the record."""
    for of in scores:
        label = f"share of the FDA's answers left, {of.label}, {of.characters:,.0f} characters"
        run.extra(f"qa_rag.cut.{of.cut}.n{of.size or of.passages}", label, of.left)
    return pd.DataFrame(
        [
            {
                "characters shown": round(of.characters),
                "of what": of.label,
                "of the FDA's answer left": of.left,
                "questions with half of it": of.half,
            }
            for of in scores
        ]
    )


def draw_cuts(scores: Sequence[Left]) -> Figure:
    """What is left of the FDA's answers by characters shown, a line a rule."""
    fig, axes = plt.subplots()
    marks: dict[Cut, tuple[str, str]] = {"windows": ("o", BLUE), "whole": ("D", PURPLE), "heads": ("s", ORANGE)}
    for cut, (marker, colour) in marks.items():
        of = [score for score in scores if score.cut == cut]
        x = [score.characters for score in of]
        axes.plot(x, [score.left.value for score in of], marker=marker, color=colour, label=_RULES[cut])
        low, high = [score.left.low for score in of], [score.left.high for score in of]
        axes.fill_between(x, low, high, color=colour, alpha=0.12)
    axes.set_xscale("log")
    most = max(score.characters for score in scores)
    ticks = [at for power in (100, 1_000, 10_000) for at in (power, 2 * power, 5 * power) if at < 1.3 * most]
    axes.set_xticks(ticks, [f"{at:,}" for at in ticks])
    axes.minorticks_off()
    axes.set_xlim(0.8 * min(score.characters for score in scores), 1.15 * most)
    axes.set_ylim(0, None)
    axes.yaxis.set_major_formatter(lambda y, _: figures.number(y, digits=0))
    axes.set_xlabel("characters of passages in the prompt")
    axes.set_ylabel("of the FDA's answer left")
    axes.grid()
    fig.legend(loc="outside lower center", ncols=2)
    return fig


def cut_words(scores: Sequence[Left], characters: int) -> str:
    """What the cut to about so many characters costs, in two sentences."""
    whole = max((of for of in scores if of.cut == "whole"), key=lambda of: of.passages)
    windows, heads = (
        min((of for of in scores if of.cut == cut), key=lambda of: abs(of.size - characters))
        for cut in ("windows", "heads")
    )
    return (
        f"All {whole.passages} passages, {whole.characters:,.0f} characters on average, hold "
        f"{figures.number(whole.left.value)} of the FDA's answers' word sequences. The best windows in "
        f"{windows.characters:,.0f} characters still hold {figures.number(windows.left.value)}, the beginnings of the "
        f"six in {heads.characters:,.0f} characters {figures.number(heads.left.value)}."
    )


# ------------------------------------------------------------------------------------------------------------- answers


def score_table(
    run: Run,
    documents: Sequence[str],
    answers: Mapping[str, Sequence[Answer]],
    scores: Mapping[str, BertScores],
    similarity: Mapping[str, np.ndarray],
    draws: int,
    suffix: str = "",
) -> pd.DataFrame:
    """Scores of each arm's answers, kept in the record under the arm's name and the suffix.

    `documents` are those that the questions were taken from; the intervals are over them.
    """

    def mean(values: Sequence[float] | np.ndarray, of: Sequence[str] = documents) -> Score | None:
        return bootstrap(values, clusters=of, draws=draws) if len(values) else None

    rows = []
    for arm, of in answers.items():
        label = {**ARMS, **WHOLE_ARMS}[arm].label
        own = {m: mean(getattr(scores[arm], m)) for m in ("f1", "precision", "recall")}
        own["similarity"] = mean(similarity[arm])
        shown = [(a, d) for a, d in zip(of, documents, strict=True) if a.shown and a.status != "overflow"]
        quoting = mean([a.quotes for a, _ in shown], [d for _, d in shown])
        citing = mean([bool(a.cited) for a, _ in shown], [d for _, d in shown])
        for name, score in {**own, "quoting": quoting, "citing": citing}.items():
            if score is not None:
                run.extra(f"qa_rag.answers.{arm}{suffix}.{name}", f"{label}: {name}", score)
        rows.append(
            {
                "answers from": label,
                "n": len(of),
                "F1": own["f1"],
                "precision": own["precision"],
                "recall": own["recall"],
                "similarity": own["similarity"],
                "words": float(np.mean([len(a.text.split()) for a in of])),
                "quote a passage": quoting,
                "name a passage": citing,
                "say not told": sum(a.refused for a in of),
                "cut short": sum(a.status == "cut" for a in of),
                "prompt too long": sum(a.status == "overflow" for a in of),
            }
        )
    return pd.DataFrame(rows)


def shown_table(answers: Mapping[str, Sequence[Answer]]) -> pd.DataFrame:
    """What of the passages each arm's prompts show and leave out."""
    rows = []
    for arm, of in answers.items():
        if any(a.shown for a in of):
            passages = [e for a in of for e in a.shown]
            rows.append(
                {
                    "answers from": {**ARMS, **WHOLE_ARMS}[arm].label,
                    "passages shown, a question": len(passages) / len(of),
                    "of them cut": sum(e.cut > 0 for e in passages),
                    "characters shown": np.mean([sum(len(e.text) for e in a.shown) for a in of]),
                    "characters of these passages left out": np.mean([sum(e.cut for e in a.shown) for a in of]),
                    "prompt tokens": round(np.mean([a.prompt_tokens for a in of if a.prompt_tokens] or [0])),
                    "prompts too long": sum(a.status == "overflow" for a in of),
                }
            )
    return pd.DataFrame(rows)


def examples_table(questions: Sequence[Question], answers: Sequence[Answer], n: int = 4) -> pd.DataFrame:
    """The first questions with the FDA's answer and the model's."""
    return pd.DataFrame(
        [
            {
                "question": q.text,
                "the FDA": q.answer,
                "the model": a.text,
                "names": "; ".join(a.shown[number - 1].passage.document for number in a.cited) or "nothing",
            }
            for q, a in list(zip(questions, answers, strict=True))[:n]
        ]
    )


def draw_arms(scores: Mapping[str, BertScores], documents: Sequence[str], draws: int) -> Figure:
    """BERTScore F1 by arm with 95 % intervals."""
    fig, axes = plt.subplots(figsize=(7.2, 0.5 * len(scores) + 1.2))
    own = [bootstrap(of.f1, clusters=documents, draws=draws) for of in scores.values()]
    at = range(len(own))
    axes.hlines(at, [s.low for s in own], [s.high for s in own], color=BLUE)
    axes.plot([s.value for s in own], at, "o", color=BLUE)
    axes.set_yticks(at, [ARMS[arm].label for arm in scores])
    axes.set_ylim(len(own) - 0.5, -0.5)
    axes.set_xlabel("BERTScore F1 against the FDA's answer")
    axes.grid(axis="x")
    return fig


def arms_words(scores: Mapping[str, BertScores], documents: Sequence[str], draws: int) -> str:
    """The same in words."""
    return "BERTScore F1: " + "; ".join(
        f"{ARMS[arm].label} {three(bootstrap(of.f1, clusters=documents, draws=draws))}" for arm, of in scores.items()
    )


# -------------------------------------------------------------------------------------------------------------- claims


def gain(scores: Mapping[str, BertScores], first: str, second: str, documents: Sequence[str], draws: int) -> Paired:
    """F1 of one arm minus that of another on the same questions, by the documents that these were taken from."""
    return paired_means(scores[first].f1, scores[second].f1, clusters=documents, draws=draws)


def decide_retrieval(run: Run, test: Paired, model: str) -> None:
    """Whether passages add to F1."""
    run.claim(
        f"{CLAIM}retrieval_helps_answers",
        verdicts.better(test, test.p),
        f"F1 with QA-RAG's passages minus without any: {figures.difference(test, 3)} on {test.n} questions by {model}, "
        f"{figures.p_words(test.p)}.",
        p=test.p,
    )


def decide_examples(
    run: Run,
    answers: Mapping[str, Sequence[Answer]],
    scores: Mapping[str, BertScores],
    documents: Sequence[str],
    model: str,
    draws: int,
) -> None:
    """Whether examples add to F1 where the model answers with them and without: a refusal is no worse answer."""
    arms = ("qa_rag", "zero_shot")
    refused = np.array([[a.refused for a in answers[arm]] for arm in arms])
    both = ~refused.any(axis=0)
    every = gain(scores, *arms, documents, draws)
    told = (
        f"Of {every.n} questions, {model} says that the passages do not tell for {refused[0].sum()} with the examples "
        f"and for {refused[1].sum()} without. F1 with examples minus without is {figures.difference(every, 3)} on all"
    )
    verdict: verdicts.Tested = "undecided"
    p = None
    if both.any():
        kept = [document for document, keep in zip(documents, both, strict=True) if keep]
        test = paired_means(*(scores[arm].f1[both] for arm in arms), clusters=kept, draws=draws)
        told += f", and {figures.difference(test, 3)} on the {test.n} that it answers both times"
        if len(set(kept)) >= FEWEST:
            verdict, p = verdicts.better(test, test.p), test.p
            told += f" ({figures.p_words(p)})"
        else:
            told += f", of fewer than {FEWEST} documents: too few to decide"
    else:
        told += "; it answers none both times"
    run.claim(f"{CLAIM}few_shot_helps", verdict, f"{told}.", p=p)


def report_table_four(
    run: Run, scores: Mapping[str, BertScores], documents: Sequence[str], model: str, encoder: str, draws: int
) -> None:
    """Report the reruns of Table 4, where the encoder is the paper's, or why there is none."""
    elsewhere = "The contexts of this method are not in the book's copy of the release."
    for arm in ("qa_rag", "multiquery", "hyde", "question", "hypothetical"):
        for metric in ("precision", "recall", "f1"):
            id = f"qa_rag.table4.{arm}.{metric}"
            if arm not in PRINTED_ARMS:
                run.not_run(id, elsewhere)
                continue
            score = bootstrap(getattr(scores[arm], metric), clusters=documents, draws=draws)
            if scale := other_scale(encoder):
                run.not_run(id, f"{scale}; {model}'s answers have {three(score)} on {score.n} questions.")
            else:
                run.rerun(id, score, model=model, note="The passages are cut; see the chapter.")


def summary(
    run: Run,
    tests: pd.DataFrame | None,
    judged: Mapping[str, Mapping[str, Score]],
    cuts: str,
    test: Paired,
    model: str,
    encoder: str,
) -> str:
    """The page's answer, built from this run's values; without the released files, what the served model showed."""
    told = []
    if tests is not None:
        sure = sum(row.p_holm < verdicts.ALPHA and row.difference > 0 for _, row in tests.iterrows())
        many = "none is" if not sure else f"only {sure} {'is' if sure == 1 else 'are'}"
        shown = "all are" if sure == len(tests) else many
        told.append(
            f"**Of the {len(tests)} advantages that QA-RAG's answers have over other methods in print, {shown} more "
            "than chance on the released answers.**"
        )
    helps = {
        "agrees": "brings them nearer to the FDA's",
        "differs": "does not bring them nearer to the FDA's",
        "undecided": "may or may not bring them nearer to the FDA's, which so few questions cannot tell",
    }[verdicts.better(test, test.p)]
    told.append(f"Showing {model} the passages before it answers {helps}.")
    if tests is not None:
        printed = [run.printed.number(f"qa_rag.table4.{arm}.f1").printed for arm in ("qa_rag", "question")]
        row = tests[tests.other == "question"].iloc[0]
        scale = ", another scale" if other_scale(encoder) else ""
        told.append(
            f"Is {printed[0]} more than {printed[1]}? QA-RAG's F1 minus that of the question alone is "
            f"{figures.difference(row, 3)} by {encoder}{scale} (printed: "
            f"{figures.signed(printed_gain(run, 'question'), 3)}); {figures.p_words(row.p_holm)} after adjustment."
        )
    held = judged.get("qa_rag", {}).get("held")
    if held is not None:
        told.append(
            f"The judge behind the paper's context recall gave {three(held)} on average to {held.n} questions whose "
            "passages hold the FDA's whole answer, where recall is 1."
        )
    told.append(cuts)
    told.append(
        f"F1 of {model}'s answers with passages minus that of its own knowledge is {figures.difference(test, 3)} on "
        f"{test.n} questions ({figures.p_words(test.p)})."
    )
    return " ".join(told)
