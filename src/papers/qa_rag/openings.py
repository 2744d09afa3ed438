"""What the chapters on QA-RAG open with, built from the rows of the run."""

from collections.abc import Mapping, Sequence

import numpy as np

from evaluation import decisions, figures, formats, metrics
from evaluation.decisions import Decision
from evaluation.outcomes import Comparison, Outcomes
from evaluation.paired import Paired
from papers.qa_rag.data import OWN, REMOVED, UNRECOGNISED
from papers.qa_rag.differences import (
    AUTHORS_LEADS,
    LEADS,
    OTHERS,
    RELEASED_PAIRS,
    compare_available,
    family_in_words,
    own_document_interaction,
    qa_rag_against,
)
from resources.lora import TrainingLog


def retrieval(outcomes: Outcomes) -> str:
    """Say which search finds the answer, in the authors' passages and in the rerun.

    The rerun may lack the arms that need an adapter.
    """
    released = outcomes.where(source="released", task="")
    rerun = outcomes.where(source="rerun", task="")
    family = compare_available(released, RELEASED_PAIRS, "answer_found")
    answer_against_question = _of_pair(family, "hypothetical", "question")
    by_answer = released.score("answer_found", "hypothetical")
    by_question = released.score("answer_found", "question")
    n_questions = rerun.score("answer_found", "question").n
    return (
        f"**In the authors' passages, a generated answer {_finds(answer_against_question)} the "
        f"question ({figures.number(by_answer.value)} against {figures.number(by_question.value)} "
        f"of {n_questions} questions){_by_own_document(released)}.** {_rerun_of_retrieval(rerun)}"
    )


def _by_own_document(released: Outcomes) -> str:
    """The gain where the authors' rule removes the document with the answer, and elsewhere."""
    if not released.has_column(OWN):
        return ""
    gains = {}
    for value in (REMOVED, UNRECOGNISED):
        group = released.where(**{OWN: value})
        if not {"hypothetical", "question"} <= group.arms_with("answer_found"):
            return ""
        gains[value] = _compare(group, "hypothetical", "question", "answer_found")
    return (
        f": {_change(gains[REMOVED])} where their code removed the document with the answer for "
        f"the question alone, {_change(gains[UNRECOGNISED])} elsewhere"
    )


def _rerun_of_retrieval(rerun: Outcomes) -> str:
    scores = {arm: rerun.score("answer_found", arm) for arm in rerun.arms}
    arms = [arm for arm in scores if arm != "reference"]
    best = max(arms, key=lambda arm: scores[arm].value)
    label = "BM25 without the guideline's name" if best == "bm25_bare" else rerun.label(best)
    text = f"In this run, {label} finds the most ({figures.score_text(scores[best])})"
    if "qa_rag" not in scores:
        return f"{text}."
    leads = compare_available(rerun, LEADS, "answer_found")
    lead = _of_pair(leads, "qa_rag", "question")
    sentences = [
        f"{text}. With this project's prompts and small models, QA-RAG {_finds(lead)} the question "
        f"({figures.points(lead.test)} points)."
    ]
    if {"qa_rag_rule", "question_rule"} <= set(rerun.arms):
        by_rule = _of_pair(leads, "qa_rag_rule", "question_rule")
        sentences.append(
            "If the question loses its own document, as in the authors' code, the difference is "
            f"{figures.points(by_rule.test)} points, {_significance(by_rule, leads)}."
        )
    deciding = compare_available(rerun, AUTHORS_LEADS, "answer_found")
    if any(comparison.second == "question_rule" for comparison in deciding):
        by_message = _of_pair(deciding, "qa_rag_authors_rule", "question_rule")
        sentences.append(
            "With answers to the authors' message in place of those to this project's prompt, it "
            f"is {figures.points(by_message.test)} points, {_significance(by_message, deciding)}."
        )
    return " ".join(sentences)


def answers(
    outcomes: Outcomes, model: str, encoder: str, correlation: Decision | None = None
) -> str:
    """Say which differences are significant, of the release and with the served model.

    The rows of the release may be missing.

    Args:
        outcomes: All rows.
        model: Name of the model that answers.
        encoder: Name of the encoder of BERTScore.
        correlation: Whether accurate contexts make precise answers, by this encoder.
    """
    sentences = []
    written = outcomes.where(source="released", task="answers")
    if len(written.frame):
        contexts = outcomes.where(source="released", task="contexts")
        sentences.append(_released_answers(written, contexts, encoder))
    if correlation and correlation.verdict == "agrees":
        sentences.append(
            "By this encoder the more precise contexts have the better answers, as the paper says. "
            f"{correlation.why}"
        )
    rerun = outcomes.where(source="rerun", task="answers")
    gain = _compare(rerun, "qa_rag", "closed_book", "f1")
    verdict = {
        "agrees": "Shown the passages, {} answers nearer to the FDA's",
        "differs": "Shown the passages, {} does not answer nearer to the FDA's",
    }.get(_verdict(gain), "Whether the passages bring {}'s answers nearer to the FDA's stays open")
    sentences.append(f"{verdict.format(model)}: F1 changes by {_change(gain)}, n = {gain.test.n}.")
    return " ".join(sentences)


def _released_answers(written: Outcomes, contexts: Outcomes, encoder: str) -> str:
    family = qa_rag_against(OTHERS, written, "f1")
    n_sure = sum(_verdict(comparison) == "agrees" for comparison in family)
    n_words = {0: "none is", 1: "only one is", len(family): "all are"}
    default = f"only {figures.in_words(n_sure)} are"
    of_contexts = qa_rag_against(OTHERS, contexts, "precision")
    lead = _of_pair(of_contexts, "qa_rag", "question")
    same_documents = contexts.where(**{OWN: UNRECOGNISED})
    elsewhere = _compare(same_documents, "qa_rag", "question", "precision").test
    larger = own_document_interaction(contexts, "qa_rag", "question")
    return (
        f"**Of the {figures.in_words(len(family))} advantages of QA-RAG's answers that the paper "
        f"prints, {n_words.get(n_sure, default)} significant on the released answers (BERTScore by "
        f"{encoder}; {family_in_words(family)}).**{_significant_alone(family, written)} "
        "QA-RAG's contexts are "
        f"{_change(lead, of_contexts)} more precise than those of the question. Where "
        "the authors' code removes a question's own document for the question "
        f"alone, this lead is larger, by {_change_of(larger)}; elsewhere it is "
        f"{figures.points(elsewhere)} points (n = {elsewhere.n})."
    )


def _significant_alone(family: Sequence[Comparison], outcomes: Outcomes) -> str:
    """Name the comparisons that only the correction of p leaves open."""
    names = []
    for comparison in family:
        is_open = _verdict(comparison) == "inconclusive"
        if is_open and comparison.test.p < metrics.ALPHA:
            p = figures.p_words(comparison.test.p)
            names.append(f"that over {outcomes.label(comparison.second)} ({p})")
    return f" Uncorrected, {figures.listed(names)} would be." if names else ""


def finetuning(outcomes: Outcomes, logs: Mapping[str, TrainingLog], base: str) -> str:
    """Say whether fine-tuning brings answers nearer to the FDA's, in manner and in content."""
    log = logs["rows"]
    by_documents = outcomes.where(task="documents")
    rows = _compare(outcomes.where(task="rows"), "tuned", "base", "f1")
    documents = _compare(by_documents, "tuned", "base", "f1")
    n_documents = by_documents.frame.cluster.nunique()
    change_on_documents = _change(documents)
    if 2.0 ** (1 - n_documents) >= metrics.ALPHA:
        points = figures.points(documents.test)
        change_on_documents = f"{points} points (too few documents for a test)"
    n_steps = int(log.settings["steps"])
    same_answers = _same_answers(outcomes.where(task="rows"))
    return (
        f"**{_effect_of_training(rows).format(base)}.** After {n_steps} steps on {log.pairs} short "
        f"pairs, its BERTScore F1 on {rows.test.n} test questions is {_higher_or_lower(rows)}."
        f"{same_answers} On {documents.test.n} questions from {n_documents} documents that were "
        f"not trained on, the change is {change_on_documents}."
    )


MIN_SHARE_OF_ONE_ANSWER = 0.1
"""Share of the questions from which on one and the same answer is named."""


def _same_answers(outcomes: Outcomes) -> str:
    """How F1 changes where the tuned model gives its commonest answer, and elsewhere."""
    rows = outcomes.frame.assign(f1=[measures["f1"][0] for measures in outcomes.frame.measures])
    f1 = rows.pivot(index="unit", columns="arm", values="f1")
    change = f1.tuned - f1.base
    texts = rows[rows.arm == "tuned"].set_index("unit").answer.fillna("").str.strip()
    commonest = texts.value_counts().idxmax()
    is_commonest = texts.reindex(change.index) == commonest
    n_answers = int(is_commonest.sum())
    if n_answers < max(2, MIN_SHARE_OF_ONE_ANSWER * len(texts)) or is_commonest.all():
        return ""
    of_these = figures.signed(100 * float(np.mean(change[is_commonest])), 1)
    of_others = figures.signed(100 * float(np.mean(change[~is_commonest])), 1)
    return (
        f' {n_answers} answers are exactly "{commonest}". Their F1 changes by {of_these} points; '
        f"that of the other answers by {of_others} points."
    )


def _effect_of_training(comparison: Comparison) -> str:
    if comparison.test.high < 0 and comparison.p < metrics.ALPHA:
        return "After training, the answers of {} are farther from the FDA's than before"
    return {
        "agrees": "Training brings the answers of {} nearer to the FDA's",
        "differs": "Training brings the answers of {} no nearer to the FDA's",
        "inconclusive": (
            "This run cannot tell whether training brings the answers of {} nearer to the FDA's"
        ),
    }[_verdict(comparison)]


def _compare(outcomes: Outcomes, first: str, second: str, measure: str) -> Comparison:
    (comparison,) = outcomes.compare([(first, second)], measure)
    return comparison


def _of_pair(family: Sequence[Comparison], first: str, second: str) -> Comparison:
    """The comparison of two arms within its family."""
    (comparison,) = (item for item in family if (item.first, item.second) == (first, second))
    return comparison


def _verdict(comparison: Comparison) -> str:
    return decisions.better(comparison.test, comparison.p)


def _finds(comparison: Comparison) -> str:
    words = {"agrees": "finds more than", "differs": "finds no more than"}
    return words.get(_verdict(comparison), "does not differ significantly from")


def _change(comparison: Comparison, family: Sequence[Comparison] = ()) -> str:
    """A difference with its p and, of a family, over how many comparisons this is adjusted."""
    parts = [figures.p_words(comparison.p), family_in_words(family)]
    return f"{figures.points(comparison.test)} points ({', '.join(filter(None, parts))})"


def _higher_or_lower(comparison: Comparison) -> str:
    """A difference in words, with its p: `10.7 [4.0, 18.4] points lower (p = 0.002)`."""
    test = comparison.test
    values = [100 * share for share in (test.difference, test.low, test.high)]
    direction = "higher"
    if test.difference < 0:
        direction = "lower"
        values = [-values[0], -values[2], -values[1]]
    value, low, high = (f"{number:z.1f}".replace("-", formats.MINUS) for number in values)
    return f"{value} [{low}, {high}] points {direction} ({figures.p_words(comparison.p)})"


def _significance(comparison: Comparison, family: Sequence[Comparison]) -> str:
    """Whether a difference is significant, after which correction, and its p."""
    negation = "" if comparison.p < metrics.ALPHA else "not "
    correction = ""
    if len(family) > 1:
        correction = f" after Holm's correction over {figures.in_words(len(family))} tests"
    return f"{negation}significant{correction} ({figures.p_words(comparison.p)})"


def _change_of(difference: Paired) -> str:
    return f"{figures.points(difference)} points ({figures.p_words(difference.p)})"
