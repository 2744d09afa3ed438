"""What the chapters on QA-RAG open with, built from the rows of the run."""

from __future__ import annotations

from collections.abc import Mapping

from helpers.lora import TrainingLog
from helpers.results import figures, verdicts
from helpers.results.outcomes import Comparison, Outcomes

OWN = "own document"
"""Stratum of the released contexts, see `released.contexts`."""


def retrieval(outcomes: Outcomes) -> str:
    """What the six passages hold, in the release and in the rerun, which may lack the arms that need an adapter."""
    theirs, here = (outcomes.where(source=source, task="") for source in ("released", "rerun"))
    pairs = [("hypothetical", "question"), ("qa_rag", "hypothetical")]
    guess, both = (_finds(theirs.against([pair], "answer_found")[0]) for pair in pairs)
    scores = {arm: here.score("answer_found", arm) for arm in here.arms}
    most = max((arm for arm in scores if arm != "reference"), key=lambda arm: scores[arm].value)
    shown = [arm for arm in dict.fromkeys(("qa_rag", "question", most)) if arm in scores]
    values = "; ".join(f"{here.label(arm)} {figures.score_text(scores[arm])}" for arm in shown)
    title, read = (here.against([pair], "answer_found")[0] for pair in RERUN[1:])
    main = ""
    if "qa_rag" in scores:
        main = f"QA-RAG {_finds(here.against(RERUN[:1], 'answer_found')[0])} the question alone, and "
    released = ", ".join(
        f"{theirs.label(arm)} {figures.score_text(theirs.score('answer_found', arm))}"
        for arm in ("qa_rag", "question", "hypothetical")
    )
    return (
        f"**In the authors' own passages, searching with a made-up answer {guess} searching with the question, and "
        f"searching with both {both} the made-up answer alone.** In the rerun on these passages, {main}most is found "
        f"by {here.label(most)}. No judge is needed: for {scores['question'].n} test questions a passage of the corpus "
        "holds the FDA's answer word by word. Share of these questions with such a passage among the released six: "
        f"{released}; in the rerun, on a smaller corpus: {values}. Asking without the guideline that the question "
        f"names changes the share of only question by {_change(title)}; searching by best windows in place of "
        f"beginnings changes it by {_change(read)}."
    )


RERUN = [("qa_rag", "question"), ("bare", "question"), ("question_windows", "question_start")]
"""Comparisons of the rerun that the chapter on retrieval opens with."""


def answers(outcomes: Outcomes, model: str, encoder: str, characters: int) -> str:
    """Which differences are real: of the released answers, of the judge, of the cut, of the served model.

    Args:
        outcomes: rows of the release, of the cuts and of the rerun; those of the release may be missing.
        model: who answered.
        encoder: of BERTScore.
        characters: of passages in a prompt.
    """
    told = []
    written, judged = (outcomes.where(source="released", task=task) for task in ("answers", "contexts"))
    if len(written.frame):
        family = written.against([("qa_rag", arm) for arm in written.arms if arm != "qa_rag"], "f1")
        sure = [c for c in family if verdicts.better(c.test, c.p) == "agrees"]
        many = {0: "none is", 1: "only one is", len(family): "all are"}.get(len(sure), f"only {len(sure)} are")
        told.append(
            f"**Of the {len(family)} advantages of QA-RAG's answers that the paper prints, {many} significant on the "
            f"released answers after Holm correction** (BERTScore by {encoder})."
        )
        (gain,) = judged.where(**{OWN: "not recognised"}).against([("qa_rag", "question")], "precision")
        whole = judged.where(arm="qa_rag", holds="the whole answer").score("recall")
        told.append(
            "The authors' code removes a question's own document from the index only if the question is the query. On "
            f"the {gain.test.n} questions where it removes none, QA-RAG's context precision minus that of only "
            f"question is {_change(gain)}. Where a passage holds the FDA's whole answer, so that context recall is 1, "
            f"the authors' judge gave QA-RAG {figures.score_text(whole)} on average."
        )
    cut = outcomes.where(task="cut")
    windows, heads, whole_ = (
        figures.score_text(cut.score("left", arm))
        for arm in (f"windows_{characters}", f"heads_{characters}", "passages_6")
    )
    told.append(
        f"Six whole passages hold {whole_} of the word sequences of the FDA's answers; their best windows hold "
        f"{windows} in {characters:,} characters, their beginnings {heads}."
    )
    (helps,) = outcomes.where(source="rerun", task="answers").against([("qa_rag", "closed_book")], "f1")
    verdict = {
        "agrees": "brings its answers nearer to the FDA's",
        "differs": "does not bring its answers nearer to the FDA's",
        "undecided": "has an effect that so few questions cannot tell from none",
    }[verdicts.better(helps.test, helps.p)]
    told.append(f"Showing {model} the passages {verdict}: F1 changes by {_change(helps)}, n = {helps.test.n}.")
    return " ".join(told)


def finetuning(outcomes: Outcomes, logs: Mapping[str, TrainingLog], base: str) -> str:
    """Whether fine-tuning brings answers nearer to the FDA's, in manner and in content."""
    log = logs["rows"]
    of = {split: outcomes.where(task=split) for split in logs}
    rows, documents = (of[split].against([("tuned", "base")], "f1")[0] for split in ("rows", "documents"))
    answered = {
        "agrees": "Yes: after the training, the model's answers are nearer to the FDA's",
        "differs": "No: the training brings the model's answers no nearer to the FDA's",
        "undecided": "This run cannot tell whether the training brings the model's answers nearer to the FDA's",
    }[verdicts.better(rows.test, rows.p)]
    if rows.test.high < 0 and rows.p < verdicts.ALPHA:
        answered = "No: after the training, the model's answers are farther from the FDA's than before"
    before, after = (figures.number(of["rows"].score("characters", arm).value, "count") for arm in ("base", "tuned"))
    clusters = of["documents"].frame.cluster.nunique()
    return (
        f"**{answered}.** {int(log.settings['steps'])} steps on {log.pairs} pairs change the BERTScore F1 of {base} by "
        f"{_change(rows)} on {rows.test.n} test questions. On {documents.test.n} questions from {clusters} documents "
        f"that were not trained on, the change is {_change(documents)}. The answers have {before} characters before "
        f"and {after} after the training. The validation loss goes from {log.validation[0].value:.2f} to "
        f"{log.validation[-1].value:.2f} nats a token."
    )


def _finds(c: Comparison) -> str:
    told = {"agrees": "finds more than", "differs": "finds no more than", "undecided": "cannot be told from"}
    return told[verdicts.better(c.test, c.p)]


def _change(c: Comparison) -> str:
    return f"{figures.points(c.test)} points ({figures.p_words(c.p)})"
