"""What the chapters on QA-RAG open with, built from the rows of the run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evaluation import decisions, figures, metrics
from evaluation.decisions import Decision
from evaluation.outcomes import Comparison, Outcomes
from evaluation.paired import Paired
from papers.qa_rag.answers import PAPER_ENCODER
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

    Returns:
        Two paragraphs: what was found, and the differences with their tests.
    """
    released = outcomes.where(source="released", task="")
    rerun = outcomes.where(source="rerun", task="")
    family = compare_available(released, RELEASED_PAIRS, "answer_found")
    answer_against_question = _of_pair(family, "hypothetical", "question")
    by_answer = released.score("answer_found", "hypothetical")
    by_question = released.score("answer_found", "question")
    n_questions = rerun.score("answer_found", "question").n
    how = {"agrees": "significantly more than", "differs": "no more than"}
    compared = how.get(_verdict(answer_against_question), "not significantly more than")
    findings = [
        "**In the authors' passages, the search by a generated answer finds the FDA's answer to "
        f"{figures.number(by_answer.value)} of {n_questions} questions, {compared} the search by "
        f"question, with {figures.number(by_question.value)}.**"
    ]
    gains = _gains_by_own_document(released)
    details = []
    if gains:
        findings.append(_lead_by_own_document(released, gains))
        details += _gains_in_words(gains)
    findings.append(_best_of_rerun(rerun))
    details += _leads_of_rerun(rerun)
    return _paragraphs(findings, details)


def _gains_by_own_document(released: Outcomes) -> dict[str, Comparison]:
    """The gain where the authors' rule removes the document with the answer, and elsewhere.

    Empty where there are no questions of both kinds.
    """
    if not released.has_column(OWN):
        return {}
    gains = {}
    for value in (REMOVED, UNRECOGNISED):
        group = released.where(**{OWN: value})
        if not {"hypothetical", "question"} <= group.arms_with("answer_found"):
            return {}
        gains[value] = _compare(group, "hypothetical", "question", "answer_found")
    return gains


def _lead_by_own_document(released: Outcomes, gains: Mapping[str, Comparison]) -> str:
    """Say whether the lead depends on the removal, and what is left of it elsewhere."""
    larger = own_document_interaction(released, "hypothetical", "question", "answer_found")
    is_larger = larger.difference > 0 and larger.p < metrics.ALPHA
    negation = "" if is_larger else "not "
    return (
        f"This lead is {negation}significantly larger where the authors' code removed the "
        "question's own document from the search by question. Elsewhere, the lead is "
        f"{_significant(gains[UNRECOGNISED])}."
    )


def _gains_in_words(gains: Mapping[str, Comparison]) -> list[str]:
    return [
        "A question's own document is the document from which the question was taken, and it "
        "contains the answer. For some questions, the authors' code removed this document from "
        "the search by question. On these questions, the share of answers found by the generated "
        f"answer minus the share found by the question is {_change(gains[REMOVED])}.",
        f"On the other questions, the difference is {_change(gains[UNRECOGNISED])}.",
    ]


def _best_of_rerun(rerun: Outcomes) -> str:
    scores = {arm: rerun.score("answer_found", arm) for arm in rerun.arms}
    arms = [arm for arm in scores if arm != "reference"]
    best = max(arms, key=lambda arm: scores[arm].value)
    label = rerun.label(best).partition(" (")[0]
    if best == "bm25_bare":
        label = "BM25 without guideline names"
    by_reference = scores.get("reference")
    others = ""
    if by_reference is not None and by_reference.value > scores[best].value:
        others = " of all searches except the one by the FDA's own answer"
    score = figures.score_text(scores[best])
    return f"In this run, {label} finds the most answers{others}, {score}."


def _leads_of_rerun(rerun: Outcomes) -> list[str]:
    """QA-RAG's lead over the question, without the authors' rule and with it."""
    if "qa_rag" not in rerun.arms:
        return []
    leads = compare_available(rerun, LEADS, "answer_found")
    lead = _of_pair(leads, "qa_rag", "question")
    sentences = [
        f"In this run, with this project's prompts and models, QA-RAG {_finds(lead)} the "
        "search by the question.",
        f"The difference in answers found is {figures.points(lead.test)} points.",
    ]
    if {"qa_rag_rule", "question_rule"} <= set(rerun.arms):
        by_rule = _of_pair(leads, "qa_rag_rule", "question_rule")
        sentences.append(
            "If the authors' code recognises the document from which a question was taken, it "
            "removes this document from the search by question. With this rule, the difference is "
            f"{figures.points(by_rule.test)} points and {_significance(by_rule, leads)}."
        )
    deciding = compare_available(rerun, AUTHORS_LEADS, "answer_found")
    if any(comparison.second == "question_rule" for comparison in deciding):
        by_message = _of_pair(deciding, "qa_rag_authors_rule", "question_rule")
        sentences.append(
            "If, in addition, the authors' message takes the place of this project's prompt for "
            "hypothetical answers, the difference is "
            f"{figures.points(by_message.test)} points and {_significance(by_message, deciding)}."
        )
    return sentences


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

    Returns:
        Two paragraphs, of the release and of the rest; one without the rows of the release.
    """
    findings = []
    details = []
    written = outcomes.where(source="released", task="answers")
    if len(written.frame):
        contexts = outcomes.where(source="released", task="contexts")
        findings += _released_leads(written, contexts, encoder)
        details += _tests_of_released_leads(written, contexts, encoder)
    if correlation and correlation.verdict == "agrees":
        details.append(
            "By this encoder's scores, more precise contexts go with better answers, as the paper "
            "says."
        )
    of_model = _gain_by_passages(outcomes.where(source="rerun", task="answers"), model)
    if findings:
        return _paragraphs(findings, [*details, *of_model])
    return " ".join(of_model)


def _gain_by_passages(rerun: Outcomes, model: str) -> list[str]:
    """Say whether the passages bring the served model's answers nearer to the FDA's."""
    gain = _compare(rerun, "qa_rag", "closed_book", "f1")
    verdict = {
        "agrees": "Shown the passages, {} gives answers nearer to the FDA's.",
        "differs": "Shown the passages, {} gives answers no nearer to the FDA's.",
    }.get(
        _verdict(gain),
        "This run cannot tell whether the passages bring the answers of {} nearer to the FDA's.",
    )
    change = f"With the passages, F1 changes by {figures.points(gain.test)} points"
    return [verdict.format(model), f"{change} ({figures.p_words(gain.p)}, n = {gain.test.n})."]


def _released_leads(written: Outcomes, contexts: Outcomes, encoder: str) -> list[str]:
    """Say how many leads of the answers are significant, and whether that of the contexts is."""
    family = qa_rag_against(OTHERS, written, "f1")
    n_sure = sum(_verdict(comparison) == "agrees" for comparison in family)
    n_words = {0: "no lead is", 1: "only one lead is", len(family): "all leads are"}
    sure = n_words.get(n_sure, f"only {figures.in_words(n_sure)} leads are")
    scored = "" if encoder == PAPER_ENCODER else ", scored by another encoder"
    of_contexts = qa_rag_against(OTHERS, contexts, "precision")
    lead = _of_pair(of_contexts, "qa_rag", "question")
    how = {"agrees": "significantly more precise", "differs": "no more precise"}
    compared = how.get(_verdict(lead), "not significantly more precise")
    same_documents = contexts.where(**{OWN: UNRECOGNISED})
    elsewhere = _compare(same_documents, "qa_rag", "question", "precision")
    return [
        "**In the paper, QA-RAG's answers score higher than those of "
        f"{figures.in_words(len(family))} other methods. On the released answers{scored}, {sure} "
        f"significant after correction for {figures.in_words(len(family))} tests.**",
        f"QA-RAG's contexts are {compared} than those of the search by the question, with a lead "
        f"of {figures.points(lead.test)} points.",
        "Where both methods search the same documents, this lead is "
        f"{figures.points(elsewhere.test)} points and {_significant(elsewhere)}.",
    ]


def _tests_of_released_leads(written: Outcomes, contexts: Outcomes, encoder: str) -> list[str]:
    """The p of the leads, and how the lead of the contexts depends on a question's own document."""
    family = qa_rag_against(OTHERS, written, "f1")
    of_contexts = qa_rag_against(OTHERS, contexts, "precision")
    lead = _of_pair(of_contexts, "qa_rag", "question")
    larger = own_document_interaction(contexts, "qa_rag", "question")
    n = len(of_contexts)
    adjusted = f", adjusted over {figures.in_words(n)} tests" if n > 1 else ""
    return [
        f"The encoder of BERTScore is {encoder}.",
        *_significant_alone(family, written),
        "Over all questions, QA-RAG's lead in context precision over Only question (the search by "
        f"the question) has {figures.p_words(lead.p)}{adjusted}.",
        "For some questions, the authors' code recognises the document from which the question "
        "was taken, and removes this document from the search by question.",
        "The lead on these questions minus the lead on the other questions is "
        f"{_change_of(larger)}.",
    ]


def _significant_alone(family: Sequence[Comparison], outcomes: Outcomes) -> list[str]:
    """Name the leads that only the correction of p leaves open, in a sentence."""
    names = []
    for comparison in family:
        is_open_lead = _verdict(comparison) == "inconclusive" and comparison.test.difference > 0
        if is_open_lead and comparison.test.p < metrics.ALPHA:
            p = figures.p_words(comparison.test.p)
            names.append(f"{outcomes.label(comparison.second)} ({p})")
    if not names:
        return []
    return [
        "Without the correction, the lead of QA-RAG's answers over those of "
        f"{figures.listed(names)} would be significant."
    ]


def finetuning(outcomes: Outcomes, logs: Mapping[str, TrainingLog], base: str) -> str:
    """Say whether fine-tuning brings answers nearer to the FDA's, in manner and in content.

    Returns:
        Two paragraphs: what changed, and the training with the change on other documents.
    """
    log = logs["rows"]
    by_documents = outcomes.where(task="documents")
    by_rows = outcomes.where(task="rows")
    rows = _compare(by_rows, "tuned", "base", "f1")
    documents = _compare(by_documents, "tuned", "base", "f1")
    n_documents = by_documents.frame.cluster.nunique()
    n_steps = int(log.settings["steps"])
    same_answers = _same_answers(by_rows)
    findings = [
        f"**{_effect_of_training(rows).format(base)}.**",
        f"On {rows.test.n} test questions, the BERTScore F1 of the answers changes by "
        f"{figures.points(rows.test)} points.",
        _cause_of_loss(same_answers),
    ]
    details = [
        f"The model was trained for {n_steps} steps on {log.pairs} pairs of a question and its "
        "answer.",
        f"The change in F1 on the test questions has {figures.p_words(rows.p)}.",
        *_same_answers_in_words(same_answers),
        "In a second training run, we left out all pairs of some documents.",
        f"On {documents.test.n} questions from {n_documents} of these documents, F1 changes by "
        f"{figures.points(documents.test)} points.",
    ]
    if 2.0 ** (1 - n_documents) >= metrics.ALPHA:
        details.append("A test over so few documents cannot be significant.")
    else:
        details.append(f"This change has {figures.p_words(documents.p)}.")
    return _paragraphs(findings, details)


MIN_SHARE_OF_ONE_ANSWER = 0.1
"""Share of the questions from which on one and the same answer is named."""


@dataclass(frozen=True)
class SameAnswers:
    """The answer that a trained model gives most often, where it gives it often.

    Attributes:
        text: The answer.
        n: Number of questions that it is given to.
        change: Mean change of F1 on these questions.
        change_of_others: Mean change of F1 on the other questions.
    """

    text: str
    n: int
    change: float
    change_of_others: float


def _same_answers(outcomes: Outcomes) -> SameAnswers | None:
    """How F1 changes where the tuned model gives its commonest answer, and elsewhere.

    None where no answer is given to many questions, or one is given to all.
    """
    rows = outcomes.frame.assign(f1=[measures["f1"][0] for measures in outcomes.frame.measures])
    f1 = rows.pivot(index="unit", columns="arm", values="f1")
    change = f1.tuned - f1.base
    texts = rows[rows.arm == "tuned"].set_index("unit").answer.fillna("").str.strip()
    commonest = str(texts.value_counts().idxmax())
    is_commonest = texts.reindex(change.index) == commonest
    n_answers = int(is_commonest.sum())
    if n_answers < max(2, MIN_SHARE_OF_ONE_ANSWER * len(texts)) or is_commonest.all():
        return None
    return SameAnswers(
        text=commonest,
        n=n_answers,
        change=float(np.mean(change[is_commonest])),
        change_of_others=float(np.mean(change[~is_commonest])),
    )


def _cause_of_loss(same: SameAnswers | None) -> str:
    """Say that the whole loss comes from one repeated answer; empty if it does not."""
    if same is None or same.change >= 0 or same.change_of_others < 0:
        return ""
    return (
        "On average, F1 falls only on the questions that the trained model answers with "
        f'"{same.text}" and nothing else.'
    )


def _same_answers_in_words(same: SameAnswers | None) -> list[str]:
    if same is None:
        return []
    return [
        f'The trained model answers {same.n} questions with "{same.text}" and nothing else.',
        f"On these questions, F1 changes by {figures.signed(100 * same.change, 1)} points.",
        f"On the other questions, F1 changes by {figures.signed(100 * same.change_of_others, 1)} "
        "points.",
    ]


def _effect_of_training(comparison: Comparison) -> str:
    if comparison.test.high < 0 and comparison.p < metrics.ALPHA:
        return "After training, the answers of {} are farther from the FDA's answers than before"
    return {
        "agrees": "Training brings the answers of {} nearer to the FDA's answers",
        "differs": "Training brings the answers of {} no nearer to the FDA's answers",
        "inconclusive": (
            "This run cannot tell whether training brings the answers of {} nearer to the FDA's "
            "answers"
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
    words = {"agrees": "finds significantly more", "differs": "finds no more"}
    verdict = _verdict(comparison)
    return f"{words.get(verdict, 'does not find significantly more or fewer')} answers than"


def _change(comparison: Comparison, family: Sequence[Comparison] = ()) -> str:
    """A difference with its p and, of a family, over how many comparisons this is adjusted."""
    parts = [figures.p_words(comparison.p), family_in_words(family)]
    return f"{figures.points(comparison.test)} points ({', '.join(filter(None, parts))})"


def _significant(comparison: Comparison) -> str:
    return "significant" if comparison.p < metrics.ALPHA else "not significant"


def _paragraphs(findings: Sequence[str], details: Sequence[str]) -> str:
    """The findings and what else is said, without what is empty; the page parts them."""
    paragraphs = [" ".join(filter(None, sentences)) for sentences in (findings, details)]
    return "\n\n".join(filter(None, paragraphs))


def _significance(comparison: Comparison, family: Sequence[Comparison]) -> str:
    """Whether a difference is significant, after which correction, and its p."""
    negation = "" if comparison.p < metrics.ALPHA else "not "
    correction = ""
    if len(family) > 1:
        correction = f" after Holm's correction over {figures.in_words(len(family))} tests"
    return f"{negation}significant{correction} ({figures.p_words(comparison.p)})"


def _change_of(difference: Paired) -> str:
    return f"{figures.points(difference)} points ({figures.p_words(difference.p)})"
