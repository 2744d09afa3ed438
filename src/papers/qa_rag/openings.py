"""What the chapters on QA-RAG open with, built from the rows of the run."""

from __future__ import annotations

import numpy as np
import pandas as pd

from helpers.results import figures, verdicts
from helpers.results.outcomes import Comparison, Outcomes
from papers.qa_rag.data import Data
from papers.qa_rag.retrieval import Gold
from papers.qa_rag.search import Searcher


def corpus_table(of: Data, gold: Gold, searcher: Searcher) -> pd.DataFrame:
    """What is searched and what is to be found in it, in numbers."""
    lengths = [len(passage.text) for passage in of.corpus.passages]
    apart = [id for id in gold.sources.keys() & gold.named.keys() if not gold.sources[id] & gold.named[id]]
    rows = {
        "distinct passages of the released rankings": len(lengths),
        "documents of these": len(of.corpus.documents),
        "characters of a passage, median": float(np.median(lengths)),
        f"passages longer than the {searcher.encode.max_tokens} tokens that the encoder reads": searcher.cut,
        "windows that the passages are cut into": len(searcher.windows),
        "test questions": len(of.test),
        "whose document of questions and answers is in the corpus": len(gold.sources),
        "whose answer is in some passage word by word": len(gold.passages),
        "who name a guideline that is in the corpus": len(gold.named),
        "whose document is another than the guideline they name": len(apart),
    }
    return pd.DataFrame({"what": list(rows), "count": list(rows.values())})


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


def _finds(c: Comparison) -> str:
    told = {"agrees": "finds more than", "differs": "finds no more than", "undecided": "cannot be told from"}
    return told[verdicts.better(c.test, c.p)]


def _change(c: Comparison) -> str:
    return f"{figures.points(c.test)} points ({figures.p_words(c.p)})"
