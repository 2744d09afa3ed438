"""What the chapters on QA-RAG open with, built from the rows of the run."""

from collections.abc import Mapping

from evaluation import decisions, figures, metrics
from evaluation.audit import OWN
from evaluation.outcomes import Comparison, Outcomes
from resources.lora import TrainingLog


def retrieval(outcomes: Outcomes) -> str:
    """Say what the six passages hold, in the release and in the rerun.

    The rerun may lack the arms that need an adapter.
    """
    released = outcomes.where(source="released", task="")
    rerun = outcomes.where(source="rerun", task="")
    answer_against_question = _compare(released, "hypothetical", "question", "answer_found")
    both_against_answer = _compare(released, "qa_rag", "hypothetical", "answer_found")
    shares = []
    for arm, name in (("hypothetical", "answer"), ("question", "question"), ("qa_rag", "both")):
        share = released.score("answer_found", arm).value
        shares.append(f"{figures.number(share)} ({name})")
    n_questions = rerun.score("answer_found", "question").n
    return (
        f"**In the authors' passages, a generated answer {_finds(answer_against_question)} the "
        f"question, and their combination {_finds(both_against_answer)} the answer.** The six "
        f"passages contain half of the FDA's answer for {figures.listed(shares)} of {n_questions} "
        "questions. The authors' code removes a question's own document if the query is the "
        "question, not an answer (chapter 17). In the rerun, with small models on fewer passages "
        f"and no document removed, {_rerun_of_retrieval(rerun)}"
    )


def _rerun_of_retrieval(rerun: Outcomes) -> str:
    scores = {arm: rerun.score("answer_found", arm) for arm in rerun.arms}
    arms = [arm for arm in scores if arm != "reference"]
    best = max(arms, key=lambda arm: scores[arm].value)
    label = "BM25 without the guideline's name" if best == "bm25_bare" else rerun.label(best)
    text = f"{label} finds the most: {figures.score_text(scores[best])}."
    if "qa_rag" in scores:
        comparison = _compare(rerun, "qa_rag", "question", "answer_found")
        text = f"QA-RAG {_finds(comparison)} the question; {text}"
    if "hypothetical_authors" in scores:
        comparison = _compare(rerun, "hypothetical_authors", "hypothetical", "answer_found")
        change = figures.points(comparison.test)
        text += (
            " With the authors' own prompt, the hypothetical answer's share changes by "
            f"{change} points."
        )
    return text


def answers(outcomes: Outcomes, model: str, encoder: str) -> str:
    """Say which differences are real, of the release and with the served model.

    The rows of the release may be missing.
    """
    sentences = []
    written = outcomes.where(source="released", task="answers")
    if len(written.frame):
        contexts = outcomes.where(source="released", task="contexts")
        sentences.append(_released_answers(written, contexts, encoder))
    rerun = outcomes.where(source="rerun", task="answers")
    gain = _compare(rerun, "qa_rag", "closed_book", "f1")
    verdict = {
        "agrees": "Shown the passages, {} answers nearer to the FDA's",
        "differs": "Shown the passages, {} does not answer nearer to the FDA's",
        "inconclusive": "Whether the passages bring {}'s answers nearer to the FDA's is undecided",
    }[_verdict(gain)].format(model)
    sentences.append(f"{verdict}: F1 changes by {_change(gain)}, n = {gain.test.n}.")
    return " ".join(sentences)


def _released_answers(written: Outcomes, contexts: Outcomes, encoder: str) -> str:
    pairs = [("qa_rag", arm) for arm in written.arms if arm != "qa_rag"]
    family = written.compare(pairs, "f1")
    n_sure = sum(_verdict(comparison) == "agrees" for comparison in family)
    n_words = {0: "none is", 1: "only one is", len(family): "all are"}
    default = f"only {figures.in_words(n_sure)} are"
    not_recognised = contexts.where(**{OWN: "not recognised"})
    gain = _compare(not_recognised, "qa_rag", "question", "precision")
    return (
        f"**Of the {figures.in_words(len(family))} advantages of QA-RAG's answers that the paper "
        f"prints, {n_words.get(n_sure, default)} significant on the released answers after Holm "
        f"correction** (BERTScore by {encoder}). On the {gain.test.n} questions whose own document "
        "the authors' rule does not recognise, so that no method loses it, QA-RAG's context "
        f"precision minus that of only question is {_change(gain)}."
    )


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
    return (
        f"**{_effect_of_training(rows).format(base)}.** {int(log.settings['steps'])} steps on "
        f"{log.pairs} short pairs change its BERTScore F1 by {_change(rows)} on {rows.test.n} test "
        f"questions. On {documents.test.n} questions from {n_documents} documents that were not "
        f"trained on, the change is {change_on_documents}."
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


def _verdict(comparison: Comparison) -> str:
    return decisions.better(comparison.test, comparison.p)


def _finds(comparison: Comparison) -> str:
    words = {"agrees": "finds more than", "differs": "finds no more than"}
    return words.get(_verdict(comparison), "does not differ significantly from")


def _change(comparison: Comparison) -> str:
    return f"{figures.points(comparison.test)} points ({figures.p_words(comparison.p)})"
