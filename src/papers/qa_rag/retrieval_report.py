"""What a run of QA-RAG's retrieval reports: measures without a judge, paired tests, rerankers, the judge, figures."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import ir_measures
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from ir_measures import RR, R, nDCG
from matplotlib.figure import Figure

from helpers.llm import LLM
from helpers.results import figures, verdicts
from helpers.results.metrics import Paired, Score, auc, bootstrap, holm, paired_means, proportion
from helpers.results.record import Run
from papers.clinical_notes.rerankers import RerankerUnavailable
from papers.qa_rag import data
from papers.qa_rag.data import Corpus, Data, Question
from papers.qa_rag.judge import Quality, Verdicts, context_precision
from papers.qa_rag.retrieval import (
    ABLATIONS,
    ARMS,
    KEPT,
    PAPER_RERANKER,
    Arm,
    BestWindow,
    Crossed,
    Queries,
    Reranker,
    Searcher,
)

CLAIM = "qa_rag.claim."
DOCUMENT_MEASURES = {f"R@{KEPT}": R @ KEPT, "MRR": RR, f"nDCG@{KEPT}": nDCG @ KEPT}
"""Of the documents of the passages that are kept, a document standing where its first passage stands."""
MAIN = f"R@{KEPT}"
ANSWER, PRECISION, NAMED = "answer among the six", "precision without a judge", "named guideline among the six"
MEASURES = (ANSWER, *DOCUMENT_MEASURES, PRECISION, NAMED)
SOURCE = "document"
"""Column of the document that a question was taken from; questions of one document belong together."""
AS_FOUND = "as found (fused ranks)"
PAPER_COLOUR, OTHER_COLOUR, REFERENCE_COLOUR = "#125ee0", "#c35410", "#808080"


@dataclass(frozen=True)
class Gold:
    """What is to be found for each question; a question stands in a table only if the corpus has it.

    Attributes:
        passages: passages that hold the FDA's answer word by word.
        sources: titles of the document that the question was taken from.
        named: titles of the guideline that the question names.
        taken_from: every question's document of questions and answers, in the corpus or not.
    """

    passages: Mapping[str, frozenset[str]]
    sources: Mapping[str, frozenset[str]]
    named: Mapping[str, frozenset[str]]
    taken_from: Mapping[str, str]


def gold_of(questions: Sequence[Question], corpus: Corpus) -> Gold:
    """The gold of each question that has some in the corpus."""
    return Gold(
        {q.id: frozenset(holding) for q in questions if (holding := data.answer_passages(q, corpus))},
        {q.id: titles for q in questions if (titles := data.source_documents(q, corpus))},
        {q.id: titles for q in questions if (titles := data.named_documents(q, corpus))},
        {q.id: q.source for q in questions},
    )


# ---------------------------------------------------------------------------------------------------------- measures


def documents_of(ranking: Iterable[str], corpus: Corpus) -> list[str]:
    """Titles of ranked passages, each where its first passage stands."""
    return list(dict.fromkeys(corpus.of_id[id].document for id in ranking))


def measure(rankings: Mapping[str, Sequence[str]], gold: Gold, corpus: Corpus) -> pd.DataFrame:
    """Every measure of every question; missing where the corpus holds nothing to be found.

    Args:
        rankings: question id -> passage ids, best first. Only the first `KEPT` count, whoever ranked more.
        gold: what is to be found.
        corpus: the passages.

    Returns:
        A row a question: `MEASURES`, and `SOURCE`.
    """
    table = pd.DataFrame(np.nan, index=list(rankings), columns=list(MEASURES))
    kept = {id: list(ranking[:KEPT]) for id, ranking in rankings.items()}
    for id, six in kept.items():
        if id in gold.passages:
            holds = [passage in gold.passages[id] for passage in six]
            table.loc[id, ANSWER] = float(any(holds))
            table.loc[id, PRECISION] = context_precision(holds)
        if id in gold.named:
            table.loc[id, NAMED] = float(bool(gold.named[id] & set(documents_of(six, corpus))))
        if id in gold.sources:
            table.loc[id, list(DOCUMENT_MEASURES)] = 0.0
    names = {measure: name for name, measure in DOCUMENT_MEASURES.items()}
    wanted = {id: dict.fromkeys(gold.sources[id], 1) for id in rankings if id in gold.sources}
    run = {
        id: {title: 1 / place for place, title in enumerate(documents_of(kept[id], corpus), start=1)} for id in wanted
    }
    run = {id: of for id, of in run.items() if of}  # who found nothing has 0
    for value in ir_measures.iter_calc(list(names), wanted, run) if run else ():
        table.loc[value.query_id, names[value.measure]] = value.value
    return table.assign(**{SOURCE: [gold.taken_from[id] for id in rankings]})


def mean(table: pd.DataFrame, name: str, draws: int) -> Score | None:
    """Mean of a measure over the questions that have it, with an interval over documents; None if there are none."""
    known = table[table[name].notna()]
    return bootstrap(known[name], clusters=known[SOURCE], draws=draws) if len(known) else None


def ids_of(rankings: Mapping[str, Sequence[int]], corpus: Corpus) -> dict[str, list[str]]:
    """Rankings of rows as rankings of passage ids."""
    return {id: [corpus.passages[row].id for row in rows] for id, rows in rankings.items()}


RELEASED = {
    "qa_rag": "question (12) + hypothetical answer (12): QA-RAG",
    "question": "only question (24)",
    "hypothetical": "only hypothetical answer (24)",
    "ablation_question": "only question (12)",
    "ablation_hypothetical": "only hypothetical answer (12)",
}
"""The released rankings as a reader sees them."""


def label(arm: str) -> str:
    """An arm's name as a reader sees it; the name itself if it is none of the arms."""
    known = {name: of.label for name, of in {**ARMS, **ABLATIONS}.items()}
    return known.get(arm, RELEASED.get(arm, arm))


# ------------------------------------------------------------------------------------------------------------ tables


def corpus_table(of: Data, gold: Gold, searcher: Searcher) -> pd.DataFrame:
    """What is searched and what is to be found in it, in numbers."""
    shown = sum(len(rows) for ranking in of.released.values() for rows in ranking.values())
    corpus, tested = of.corpus, len(of.test)
    lengths = [len(passage.text) for passage in corpus.passages]
    rows = {
        "released rankings": len(of.released),
        "passages that they show": shown,
        "distinct passages, the corpus here": len(corpus),
        "documents of these": len(corpus.documents),
        "characters of a passage, median": float(np.median(lengths)),
        f"passages longer than the {searcher.encode.max_tokens} tokens that the encoder reads": searcher.cut,
        "windows that the passages are cut into": len(searcher.windows),
        "test questions": tested,
        "whose document of questions and answers is in the corpus": len(gold.sources),
        "whose answer stands word by word in some passage": len(gold.passages),
        "who name a guideline that is in the corpus": len(gold.named),
        "whose document is another than the guideline they name": sum(
            not gold.sources.get(q.id, frozenset()) & gold.named.get(q.id, frozenset())
            for q in of.test
            if q.id in gold.sources and q.id in gold.named
        ),
    }
    return pd.DataFrame({"what": list(rows), "count": list(rows.values())})


def scores_table(run: Run, tables: Mapping[str, pd.DataFrame], prefix: str, draws: int) -> pd.DataFrame:
    """Every measure of every arm over the questions that have something to be found."""
    rows = []
    for arm, table in tables.items():
        row: dict[str, object] = {"passages found by": label(arm)}
        row["questions with an answer there"] = int(table[ANSWER].notna().sum())
        row["with their document there"] = int(table[MAIN].notna().sum())
        for name in MEASURES:
            if score := mean(table, name, draws):
                row[name] = score
                run.extra(f"{prefix}.{_id(arm)}.{_id(name)}", f"{name}, {row['passages found by']}", score)
        rows.append(row)
    return pd.DataFrame(rows)


def compare(
    tables: Mapping[str, pd.DataFrame], against: str, others: Sequence[str], draws: int, measure_name: str = ANSWER
) -> dict[str, tuple[Paired, float]]:
    """One arm minus each other, on the questions that both answered, with Holm's adjustment over the others."""
    found = {other: _paired(tables[against], tables[other], measure_name, draws) for other in others}
    tests = {other: test for other, test in found.items() if test}
    adjusted = holm([test.p for test in tests.values()])
    return dict(zip(tests, zip(tests.values(), adjusted, strict=True), strict=True))


def _paired(first: pd.DataFrame, second: pd.DataFrame, name: str, draws: int) -> Paired | None:
    """The paired test by document, on the questions that both have; None if there are none."""
    both = first[[name, SOURCE]].join(second[name].rename("second"), how="inner").dropna()
    return paired_means(both[name], both.second, clusters=both[SOURCE], draws=draws) if len(both) else None


def tests_table(tests: Mapping[str, tuple[Paired, float]], against: str, what: str = ANSWER) -> pd.DataFrame:
    """The paired tests as a reader sees them."""
    return pd.DataFrame(
        [
            {
                f"{against} minus": label(name),
                "questions": test.n,
                "only the first finds it": test.b,
                "only the other": test.c,
                f"difference in '{what}', points": figures.points(test),
                "p (Holm)": figures.p_text(p),
            }
            for name, (test, p) in tests.items()
        ]
    )


def cut_table(start: Mapping[str, pd.DataFrame], windows: Mapping[str, pd.DataFrame], draws: int) -> pd.DataFrame:
    """What an encoder that reads only a passage's beginning costs: each arm by the beginning and by the best window."""
    rows = []
    for arm in start:
        if test := _paired(windows[arm], start[arm], ANSWER, draws):
            rows.append(
                {
                    "asked with": label(arm),
                    "questions": test.n,
                    "by the beginning": mean(start[arm], ANSWER, draws),
                    "by the best window": mean(windows[arm], ANSWER, draws),
                    "window minus beginning, points": figures.points(test),
                    "p": figures.p_text(test.p),
                }
            )
    return pd.DataFrame(rows)


# --------------------------------------------------------------------------------------------------------- rerankers


def reranker_of(name: str, searcher: Searcher) -> tuple[Reranker, dict[str, str]]:
    """The reranker to use, and those that cannot be, with the reason.

    Args:
        name: a cross-encoder of a hub, the paper's is `PAPER_RERANKER`; empty for the encoder on windows.
        searcher: the corpus.
    """
    if not name:
        return BestWindow(searcher), {
            PAPER_RERANKER: "no package carries it; name it as `reranker` where a hub can be reached"
        }
    try:
        return Crossed(searcher, name), {}
    except RerankerUnavailable as error:
        return BestWindow(searcher), {name: str(error)}


def orders(searcher: Searcher, best: Reranker, *others: Reranker) -> dict[str, Reranker | None]:
    """The orders to compare, by name: as the search found them, by the encoder's best window, and by each reranker."""
    rerankers = {reranker.name: reranker for reranker in (BestWindow(searcher), best, *others)}
    return {AS_FOUND: None, **rerankers}


def rerankers_table(
    run: Run, tables: Mapping[str, pd.DataFrame], against: str, missing: Mapping[str, str], draws: int
) -> tuple[pd.DataFrame, dict[str, tuple[Paired, float]]]:
    """Rerankers of the same candidates (Table 2), each tested against the scoring agent; and those that did not run."""
    main = f"nDCG@{KEPT}"
    tests = compare(tables, against, [name for name in tables if name != against], draws, main)
    rows: list[dict[str, object]] = []
    for name, table in tables.items():
        row: dict[str, object] = {"order of the candidates": name, "questions": int(table[main].notna().sum())}
        for measure_name in (ANSWER, "MRR", main):
            if score := mean(table, measure_name, draws):
                row[measure_name] = score
                run.extra(f"rerank.{_id(name)}.{_id(measure_name)}", f"{measure_name}, {name}", score)
        if name in tests:
            turned = _turned(tests[name][0])
            row |= {
                "minus the scoring agent, points": figures.points(turned),
                "p (Holm)": figures.p_text(tests[name][1]),
            }
        rows.append(row)
    rows += [{"order of the candidates": name, "not run, because": why} for name, why in missing.items()]
    return pd.DataFrame(rows), tests


def _turned(test: Paired) -> Paired:
    """The same test with its arms in the other order."""
    # 0 less a number, for the negative of 0 would be written with its sign
    return Paired(test.test, test.n, test.c, test.b, 0 - test.difference, 0 - test.high, 0 - test.low, test.p)


# ------------------------------------------------------------------------------------------------------- generation

MULTIQUERY = (
    "Write three different versions of the question, each from another point of view, to find documents that answer "
    "it. One version a line, nothing else."
)
HYDE = "Please write a passage to answer the question."
"""HyDE's prompt for web search (Gao et al. 2022, as the paper says in section 3.4)."""


def multiquery_prompt(question: Question) -> list[dict[str, str]]:
    """Three more questions, in place of GPT-4 and langchain's prompt."""
    return [{"role": "user", "content": f"{MULTIQUERY}\n\nQuestion: {question.text}"}]


def hyde_prompt(question: Question) -> list[dict[str, str]]:
    """A hypothetical document."""
    return [{"role": "user", "content": f"{HYDE}\nQuestion: {question.text}\nPassage:"}]


def read_queries(text: str, most: int = 3) -> list[str]:
    """The distinct questions of an answer, one a line, without numbers or bullets; at most three."""
    lines = [line.strip().lstrip("-*0123456789.) ").strip() for line in text.splitlines()]
    distinct: dict[str, str] = {}
    for line in lines:
        if len(line.split()) >= 3:
            distinct.setdefault(data.words(line), line)
    return list(distinct.values())[:most]


def generated(
    model: LLM, questions: Sequence[Question], multiquery_tokens: int, hyde_tokens: int
) -> tuple[dict[str, dict[str, list[str]]], int]:
    """Queries of the arms multiquery and HyDE, and how many answers held fewer than three distinct questions."""
    asked = model.chat_many([multiquery_prompt(q) for q in questions], max_tokens=multiquery_tokens, label="multiquery")
    read = {q.id: read_queries(reply.text) for q, reply in zip(questions, asked, strict=True)}
    documents = model.chat_many([hyde_prompt(q) for q in questions], max_tokens=hyde_tokens, label="HyDE")
    few = sum(len(texts) < 3 for texts in read.values())
    return {
        "multi": {id: texts for id, texts in read.items() if texts},
        "hyde": {q.id: [reply.text] for q, reply in zip(questions, documents, strict=True) if reply.text.strip()},
    }, few


def answerable(arms: Mapping[str, Arm], queries: Queries) -> dict[str, Arm]:
    """The arms whose every kind of query there is: without an adapter, those that ask with its answers are missing."""
    return {name: arm for name, arm in arms.items() if all(kind in queries for kind, _ in arm.tracks)}


# --------------------------------------------------------------------------------------------------------- the judge


FALSE_YES, FALSE_NO = "of others, called so too", "of passages that hold the answer, not called so"
ASKED = {"precision": "useful to arrive at the answer", "recall": "statement stands there"}
"""What the judge is asked for each measure."""


def quality_scores(quality: Quality) -> dict[str, dict[str, Score]]:
    """How often the judge is right where the verdict is known, by the measure that its answers make."""
    truth = np.array(quality.truth)
    scores = {}
    for measure_name, told in (("precision", quality.useful), ("recall", quality.supported)):
        p = np.array(told)
        yes = p >= 0.5
        scores[measure_name] = {
            "right": proportion(int((yes == truth).sum()), len(truth)),
            FALSE_NO: proportion(int((~yes & truth).sum()), int(truth.sum())),
            FALSE_YES: proportion(int((yes & ~truth).sum()), int((~truth).sum())),
            "AUC": auc(truth, p),
        }
    return scores


def quality_table(run: Run, scores: Mapping[str, Mapping[str, Score]]) -> pd.DataFrame:
    """The same as a reader sees it."""
    rows = []
    for measure_name, of in scores.items():
        asked = ASKED[measure_name]
        for what, score in of.items():
            run.extra(f"judge.{_id(asked)}.{_id(what)}", f"the judge, {asked}: {what}", score)
        rows.append({"asked": asked, "passages": of["right"].n, **of})
    return pd.DataFrame(rows)


def unfit(judge: str, of: Mapping[str, Score]) -> str:
    """Why a judge's verdicts measure nothing: it may say YES to every other passage that it should not; or empty."""
    if verdicts.below(of[FALSE_YES], 0.5) == "agrees":
        return ""
    return (
        f"{judge} is no judge: it says YES to {figures.score_text(of[FALSE_YES])} of {of[FALSE_YES].n} passages "
        f"without the answer, and NO to {figures.score_text(of[FALSE_NO])} of {of[FALSE_NO].n} with it"
    )


def ragas_table(
    run: Run,
    judged: Mapping[str, Mapping[str, Verdicts]],
    quality: Mapping[str, Mapping[str, Score]],
    gold: Gold,
    judge: str,
    draws: int,
    note: str,
) -> pd.DataFrame:
    """Context precision and recall by the served model, beside the printed ones.

    They are kept as reruns of Tables 2 and 3 where the judge has passed its check, else beside the reason.
    """
    rows = []
    for arm, of in judged.items():
        row, documents = ARMS[arm].row, [gold.taken_from[id] for id in of]
        values = {
            "precision": bootstrap([v.precision for v in of.values()], clusters=documents, draws=draws),
            "recall": bootstrap([v.recall for v in of.values()], clusters=documents, draws=draws),
        }
        shown: dict[str, object] = {"passages found by": label(arm), "questions": len(of)}
        for name, score in values.items():
            run.extra(f"ragas.{_id(arm)}.{name}", f"context {name}, {label(arm)}, by {judge}", score)
            if row:
                ids = (f"qa_rag.table3.{row}.{name}", f"qa_rag.table2.{row}.{name}_reranker")
                shown[f"context {name}, printed"] = figures.number(run.printed.number(ids[0]).value)
                for id in ids:
                    if why := unfit(judge, quality[name]):
                        run.not_run(id, f"{why}. It gave {figures.score_text(score)} on {score.n} questions.")
                    else:
                        run.rerun(id, score, model=judge, note=note)
            shown[f"context {name}, by {judge}"] = score
        rows.append(shown)
    return pd.DataFrame(rows)


def not_rerun(run: Run, judged: Iterable[str], why_not: str = "") -> None:
    """Say why the other numbers of Tables 2, 3 and 5 have no rerun in this run.

    Args:
        run: takes the reasons.
        judged: arms whose contexts the judge read.
        why_not: why there is no fine-tuned model, if there is none.
    """
    done = {ARMS[arm].row for arm in judged}
    for row in ("qa_rag", "multiquery", "hyde", "question", "hypothetical"):
        for name in ("precision", "recall"):
            if row not in done:
                tuned = row in ("qa_rag", "hypothetical")
                others = "The judge of this profile reads the contexts of other arms only; measured without a judge."
                why = why_not if tuned and why_not else others
                run.not_run(f"qa_rag.table3.{row}.{name}", why)
                run.not_run(f"qa_rag.table2.{row}.{name}_reranker", why)
            run.not_run(
                f"qa_rag.table2.{row}.{name}_agent",
                "The scoring agent is measured without a judge here, on the candidates of QA-RAG.",
            )
    for row in ("qa_rag", "question", "hypothetical"):
        for name in ("precision", "recall"):
            run.not_run(f"qa_rag.table5.{row}.{name}", "The ablation is measured without a judge here.")


# ------------------------------------------------------------------------------------------------------------- claims


def decide_reranker(
    run: Run, reranked: Mapping[str, tuple[Paired, float]], best: str, missing: Mapping[str, str], unread: int
) -> None:
    """Whether the paper's reranker beats the scoring agent; stand-ins are named, and decide nothing.

    Args:
        run: takes the verdict.
        reranked: the agent minus each other order, as `rerankers_table` gives it.
        best: name of the reranker that ran.
        missing: rerankers that did not run, with the reason.
        unread: answers of the agent without a score.
    """
    tests = {name: _turned(test) for name, (test, _) in reranked.items() if name != AS_FOUND}
    own = tests.pop(best) if best.endswith(PAPER_RERANKER) and best in tests else None
    told = "; ".join(
        f"stand-in: {name}, {figures.points(test)} points, {figures.p_words(test.p)}" for name, test in tests.items()
    )
    counted = f"Of the agent's answers {unread} held no score."
    if own is None:
        why = missing.get(PAPER_RERANKER, f"the parameters name {best} in its place")
        run.claim(
            CLAIM + "reranker_beats_agent",
            "not run",
            f"{PAPER_RERANKER} did not run: {why}. nDCG@{KEPT} minus the scoring agent's over the same candidates, "
            f"{told or 'no stand-in'}. {counted}",
        )
        return
    run.claim(
        CLAIM + "reranker_beats_agent",
        verdicts.better(own, own.p),
        f"nDCG@{KEPT} minus the scoring agent's over the same candidates of {own.n} questions: {figures.points(own)} "
        f"points, {figures.p_words(own.p)}. Beside it {told}. {counted}",
        p=own.p,
    )


def decide_fine_tuned(run: Run, tables: Mapping[str, pd.DataFrame], draws: int, why_not: str = "") -> None:
    """Whether hypothetical answers of the fine-tuned model find more than its base's.

    Args:
        run: takes the verdict.
        tables: measures by arm, `tuned` and `base` among them.
        draws: of the test.
        why_not: why there is no fine-tuned model, if there is none.
    """
    id = CLAIM + "fine_tuned_beats_hyde"
    test = None if why_not else _paired(tables["tuned"], tables["base"], MAIN, draws)
    if test is None:
        run.claim(id, "not run", why_not or "No question has both answers and its document in the corpus.")
        return
    run.claim(
        id,
        verdicts.better(test, test.p),
        f"{MAIN} of documents, answers of the fine-tuned model minus those of its base: {figures.points(test)} points "
        f"on {test.n} questions, {figures.p_words(test.p)}. The base stands in for HyDE's GPT-3.5 Turbo.",
        p=test.p,
    )


# ------------------------------------------------------------------------------------------------------------ figures


def draw_arms(tables: Mapping[str, pd.DataFrame], draws: int) -> Figure:
    """Share of questions whose answer, and whose named guideline, is among the six, by arm with 95 % intervals."""
    fig, panels = plt.subplots(1, 2, figsize=(9.4, 0.42 * len(tables) + 1.4), sharey=True)
    for panel, name in zip(panels, (ANSWER, NAMED), strict=True):
        for place, (arm, table) in enumerate(tables.items()):
            if score := mean(table, name, draws):
                panel.hlines(place, score.low, score.high, color=_colour(arm))
                panel.plot(score.value, place, "o", color=_colour(arm), markersize=6)
        panel.set_title(name.replace(" among", "\namong"))
        panel.set_xlim(-0.02, 1.02)
        panel.xaxis.set_major_formatter(lambda x, _: f"{100 * x:.0f} %")
        panel.grid(axis="x")
    panels[0].set_yticks(range(len(tables)), [label(arm) for arm in tables])
    panels[0].set_ylim(len(tables) - 0.5, -0.5)
    return fig


def arms_words(tables: Mapping[str, pd.DataFrame], name: str = ANSWER) -> str:
    """What the figure of the arms shows, in words."""
    means = {arm: float(table[name].mean()) for arm, table in tables.items() if table[name].notna().any()}
    order = sorted(means, key=lambda arm: -means[arm])
    said = ", ".join(f"{label(arm)} {figures.number(means[arm])}" for arm in order)
    return f"Share of questions with the {name}, from most to least: {said}."


def _colour(arm: str) -> str:
    if arm == "reference":
        return REFERENCE_COLOUR
    return PAPER_COLOUR if {**ARMS, **ABLATIONS}[arm].row else OTHER_COLOUR


def summary(tables: Mapping[str, pd.DataFrame], released: Mapping[str, pd.DataFrame], draws: int) -> str:
    """The page's answer, from the run's values; `tables` may lack the arms that need an adapter."""
    found = {arm: score for arm, table in tables.items() if (score := mean(table, ANSWER, draws))}
    theirs = {arm: score for arm, table in released.items() if (score := mean(table, ANSWER, draws))}
    best = max((arm for arm in found if arm != "reference"), key=lambda arm: found[arm].value)

    def beside(of: Mapping[str, pd.DataFrame], first: str, second: str) -> str:
        (test, p) = compare(of, first, [second], draws)[second]
        told = {"agrees": "finds more than", "differs": "finds no more than", "undecided": "cannot be told from"}
        return told[verdicts.better(test, p)]

    (title, p_title), (read, p_read) = (
        compare(tables, arm, ["question"], draws)["question"] for arm in ("bare", "windows")
    )
    first = f"QA-RAG {beside(tables, 'qa_rag', 'question')} the question alone, and " if "qa_rag" in found else ""
    values = [f"{label(arm)} {figures.score_text(found[arm])}" for arm in ("qa_rag", "question", best) if arm in found]
    return (
        "**In the authors' own passages, searching with a made-up answer "
        f"{beside(released, 'hypothetical', 'question')} searching with the question, and searching with both "
        f"{beside(released, 'qa_rag', 'hypothetical')} the made-up answer alone.** Run again on these passages, "
        f"{first}most is found by {label(best)}. "
        f"This needs no judge: for {theirs['qa_rag'].n} test questions the FDA's answer stands word by word in the "
        f"corpus. The six passages of QA-RAG hold it for {figures.score_text(theirs['qa_rag'])}, those of only "
        f"question for {figures.score_text(theirs['question'])}, those of only hypothetical answer for "
        f"{figures.score_text(theirs['hypothetical'])}. In the rerun, on a smaller corpus: {'; '.join(values)}. Asking "
        f"without the guideline that the question names moves only question by {figures.points(title)} points "
        f"({figures.p_words(p_title)}), reading all of a passage and not its beginning by {figures.points(read)} "
        f"({figures.p_words(p_read)})."
    )


def _id(name: str) -> str:
    words = "".join(c if c.isalnum() else " " for c in name.lower().replace("@", " at ")).split()
    return "_".join(words)
