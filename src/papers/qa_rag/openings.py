"""What the chapters on QA-RAG open with, built from the rows of the run."""

from collections.abc import Mapping

from evaluation import decisions, figures, metrics
from evaluation.audit import OWN
from evaluation.outcomes import Comparison, Outcomes
from resources.lora import TrainingLog


def retrieval(outcomes: Outcomes) -> str:
    """What the six passages hold, in the release and in the rerun, which may lack the arms that need an adapter."""
    theirs, here = (outcomes.where(source=source, task="") for source in ("released", "rerun"))
    pairs = (("hypothetical", "question"), ("qa_rag", "hypothetical"))
    guess, both = (_finds(theirs.compare([pair], "answer_found")[0]) for pair in pairs)
    scores = {arm: here.score("answer_found", arm) for arm in here.arms}
    most = max((arm for arm in scores if arm != "reference"), key=lambda arm: scores[arm].value)
    main = words = ""
    if "qa_rag" in scores:
        main = f"QA-RAG {_finds(here.compare([('qa_rag', 'question')], 'answer_found')[0])} the question; "
    if "hypothetical_authors" in scores:
        change = figures.points(
            here.compare([("hypothetical_authors", "hypothetical")], "answer_found")[0].test
        )
        words = f" With the authors' own prompt, the hypothetical answer's share changes by {change} points."
    names = {"hypothetical": "answer", "question": "question", "qa_rag": "both"}
    found = [
        f"{figures.number(theirs.score('answer_found', arm).value)} ({name})"
        for arm, name in names.items()
    ]
    best = "BM25 without the guideline's name" if most == "bm25_bare" else here.label(most)
    return (
        f"**In the authors' passages, a generated answer {guess} the question, and their combination {both} the "
        f"answer.** The six passages contain half of the FDA's answer for {figures.listed(found)} of "
        f"{scores['question'].n} questions. The authors' code removes a question's own document if the query is the "
        f"question, not an answer (chapter 17). In the rerun, with small models on fewer passages and no document "
        f"removed, {main}{best} finds the most: {figures.score_text(scores[most])}.{words}"
    )


def answers(outcomes: Outcomes, model: str, encoder: str) -> str:
    """Which differences are real: of the release, whose rows may be missing, and with the served model."""
    told = []
    written, judged = (
        outcomes.where(source="released", task=task) for task in ("answers", "contexts")
    )
    if len(written.frame):
        family = written.compare([("qa_rag", arm) for arm in written.arms if arm != "qa_rag"], "f1")
        sure = [c for c in family if decisions.better(c.test, c.p) == "agrees"]
        many = {0: "none is", 1: "only one is", len(family): "all are"}.get(
            len(sure), f"only {figures.in_words(len(sure))} are"
        )
        (gain,) = judged.where(**{OWN: "not recognised"}).compare(
            [("qa_rag", "question")], "precision"
        )
        told.append(
            f"**Of the {figures.in_words(len(family))} advantages of QA-RAG's answers that the paper prints, {many} "
            f"significant on the released answers after Holm correction** (BERTScore by {encoder}). On the "
            f"{gain.test.n} questions whose own document the authors' rule does not recognise, so that no method loses "
            f"it, QA-RAG's context precision minus that of only question is {_change(gain)}."
        )
    (helps,) = outcomes.where(source="rerun", task="answers").compare(
        [("qa_rag", "closed_book")], "f1"
    )
    verdict = {
        "agrees": "Shown the passages, {} answers nearer to the FDA's",
        "differs": "Shown the passages, {} does not answer nearer to the FDA's",
        "undecided": "Whether the passages bring {}'s answers nearer to the FDA's is undecided",
    }[decisions.better(helps.test, helps.p)].format(model)
    told.append(f"{verdict}: F1 changes by {_change(helps)}, n = {helps.test.n}.")
    return " ".join(told)


def finetuning(outcomes: Outcomes, logs: Mapping[str, TrainingLog], base: str) -> str:
    """Whether fine-tuning brings answers nearer to the FDA's, in manner and in content."""
    log = logs["rows"]
    of = {split: outcomes.where(task=split) for split in logs}
    rows, documents = (
        of[split].compare([("tuned", "base")], "f1")[0] for split in ("rows", "documents")
    )
    answered = {
        "agrees": "Training brings the answers of {} nearer to the FDA's",
        "differs": "Training brings the answers of {} no nearer to the FDA's",
        "undecided": "This run cannot tell whether training brings the answers of {} nearer to the FDA's",
    }[decisions.better(rows.test, rows.p)]
    if rows.test.high < 0 and rows.p < metrics.ALPHA:
        answered = "After training, the answers of {} are farther from the FDA's than before"
    clusters = of["documents"].frame.cluster.nunique()
    few = " (too few documents for a test)" if 2.0 ** (1 - clusters) >= metrics.ALPHA else ""
    change = figures.points(documents.test) + " points" if few else _change(documents)
    return (
        f"**{answered.format(base)}.** {int(log.settings['steps'])} steps on {log.pairs} short pairs change its "
        f"BERTScore F1 by {_change(rows)} on {rows.test.n} test questions. On {documents.test.n} questions from "
        f"{clusters} documents that were not trained on, the change is {change}{few}."
    )


def _finds(c: Comparison) -> str:
    told = {"agrees": "finds more than", "differs": "finds no more than"}
    return told.get(decisions.better(c.test, c.p), "does not differ significantly from")


def _change(c: Comparison) -> str:
    return f"{figures.points(c.test)} points ({figures.p_words(c.p)})"
