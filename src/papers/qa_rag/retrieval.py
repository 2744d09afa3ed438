"""Two-track retrieval over guidance (QA-RAG, sections 2.3 to 2.4): the arms, and what their six passages hold.

An arm takes so many passages for each of its texts (the question, ...), and keeps the best six by a reranker.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from evaluation.answers import Answer, Item, make_row
from evaluation.trec import DOCUMENTS, OF_SOURCE, score_rankings
from helpers.completions import Message
from helpers.llm import LLM
from helpers.thoughts import without_thought
from papers.qa_rag import data
from papers.qa_rag.data import Corpus, Data, Passage, Question
from papers.qa_rag.search import Scores, Search, Searcher
from rag.prompts import arm_of, user_message
from rag.retrieval import reciprocal_rank_fusion

KEPT = 6  # passages after reranking (section 3.3)


@dataclass(frozen=True)
class Arm:
    """A way of finding six passages: by `tracks`, kinds of query and how many passages each text of them brings.

    A kind that a model writes comes last. `removed` are kinds for which the question's own document leaves the index.
    """

    label: str
    tracks: tuple[tuple[str, int], ...]
    by: Search = "start"
    reranked: bool = True
    removed: tuple[str, ...] = ()


PRINTED = {
    "qa_rag": Arm(
        "QA-RAG: question (12), hypothetical answer (12)", (("question", 12), ("tuned", 12))
    ),
    "multiquery": Arm(
        "Multiquery: question (6) + three more (6 each)", (("question", 6), ("multi", 6))
    ),
    "hyde": Arm("HyDE, a larger model's document (24)", (("hyde", 24),)),
    "question": Arm("Only question (24)", (("question", 24),)),
    "hypothetical": Arm("Only hypothetical answer (24)", (("tuned", 24),)),
    "question_12": Arm("Only question (12)", (("question", 12),)),
    "hypothetical_12": Arm("Only hypothetical answer (12)", (("tuned", 12),)),
}
"""Rows of Tables 3 and 5, the latter with 12 candidates."""
OTHERS = {
    "base": Arm("Only hypothetical answer, not fine-tuned (24)", (("base", 24),)),
    "bare": Arm("Only question, without the guideline that it names (24)", (("bare", 24),)),
    "bm25": Arm("BM25, question", (("question", 24),), by="words", reranked=False),
    "bm25_bare": Arm(
        "BM25, question without the guideline that it names",
        (("bare", 24),),
        by="words",
        reranked=False,
    ),
    "reference": Arm("The FDA's own answer as the query (24)", (("reference", 24),)),
}
"""What the printed rows leave open, and plain baselines."""
ARMS = {**PRINTED, **OTHERS}
AUTHORS = {
    "multiquery_authors": Arm(
        "Multiquery, authors' prompt: question (8) + two more (8 each)",
        (("question", 8), ("multi_authors", 8)),
    ),
    "hyde_authors": Arm("HyDE, authors' prompt (24)", (("hyde_authors", 24),)),
    "hypothetical_authors": Arm(
        "Only hypothetical answer, authors' prompt (24)", (("tuned_authors", 24),)
    ),
    **{
        f"{name}_rule": replace(
            PRINTED[name],
            label=f"{label}: own document removed for the question alone",
            removed=("question", "multi"),
        )
        for name, label in (
            ("question", "Only question"),
            ("multiquery", "Multiquery"),
            ("qa_rag", "QA-RAG"),
        )
    },
    **{
        f"{name}_removed": replace(
            PRINTED[name],
            label=f"{label}: own document removed for every query",
            removed=("question", "tuned"),
        )
        for name, label in (("hypothetical", "Only hypothetical answer"), ("qa_rag", "QA-RAG"))
    },
}
"""The authors' prompts (see `authors`), their rule that removes a question's own document, and one for all queries."""
LABELS = {name: arm.label for name, arm in {**ARMS, **AUTHORS}.items()}
COLOURS = {name: "#125ee0" if name in PRINTED else "#c35410" for name in ARMS} | {
    "reference": "#808080"
}


@dataclass(frozen=True)
class Query:
    """What is asked with for one question: its texts, none if a model's reply held none, and the request of that."""

    texts: tuple[str, ...]
    request: str = ""


Queries = Mapping[str, Mapping[str, Query]]
"""Kind of query -> question id -> query."""


def plain_queries(questions: Sequence[Question]) -> dict[str, dict[str, Query]]:
    """The queries that need no model: the question, the question without the guideline's title, the FDA's answer."""
    return {
        "question": {q.id: Query((q.text,)) for q in questions},
        "bare": {q.id: Query((q.body,)) for q in questions},
        "reference": {q.id: Query((q.answer,)) for q in questions},
    }


MULTIQUERY = (
    "Write three different versions of the question, each from another point of view, to find documents that answer "
    "it. One version a line, nothing else."
)
HYDE = "Please write a passage to answer the question."
"""HyDE's prompt for web search (Gao et al. 2022, as the paper says in section 3.4)."""


def multiquery_prompt(question: Question) -> list[dict[str, str]]:
    """Three more questions, in place of GPT-4 and the authors' prompt."""
    return user_message(f"{MULTIQUERY}\n\nQuestion: {question.text}")


def hyde_prompt(question: Question) -> list[dict[str, str]]:
    """A hypothetical document."""
    return user_message(f"{HYDE}\nQuestion: {question.text}\nPassage:")


def read_queries(text: str, most: int = 3) -> list[str]:
    """The distinct questions of an answer, one a line, without numbers or bullets; at most three."""
    text = without_thought(text)
    lines = [line.strip().lstrip("-*0123456789.) ").strip() for line in text.splitlines()]
    distinct: dict[str, str] = {}
    for line in lines:
        if len(line.split()) >= 3:
            distinct.setdefault(data.words(line), line)
    return list(distinct.values())[:most]


def asked_queries(
    model: LLM,
    questions: Sequence[Question],
    prompts: Sequence[Sequence[Message]],
    tokens: int,
    label: str,
    most: int = 0,
) -> dict[str, Query]:
    """What a model writes for each question: a text to search with, or `most` questions, one a line."""
    replies = model.chat_many(prompts, max_tokens=tokens, label=label)
    found = {}
    for question, reply in zip(questions, replies, strict=True):
        texts = read_queries(reply.text, most) if most else [reply.text] * bool(reply.text.strip())
        found[question.id] = Query(tuple(texts), reply.key)
    return found


def written_queries(
    model: LLM, questions: Sequence[Question], multiquery_tokens: int, hyde_tokens: int
) -> dict[str, dict[str, Query]]:
    """Queries of the arms multiquery and HyDE (section 3.4)."""
    more, hyde = (list(map(prompt, questions)) for prompt in (multiquery_prompt, hyde_prompt))
    return {
        "multi": asked_queries(model, questions, more, multiquery_tokens, "multiquery", most=3),
        "hyde": asked_queries(model, questions, hyde, hyde_tokens, "HyDE"),
    }


def candidates(
    searcher: Searcher, arm: Arm, queries: Queries, questions: Sequence[Question]
) -> dict[str, list[int]]:
    """What an arm finds for each question before reranking: question id -> rows, best first.

    A passage that two texts bring counts once, so there may be fewer than 24; a query without a text brings none.
    """
    found: dict[str, list[list[int]]] = {q.id: [] for q in questions}
    of_document = [passage.document for passage in searcher.corpus.passages]
    for kind, k in arm.tracks:
        asked = [(q.id, text) for q in questions for text in queries[kind][q.id].texts]
        out = {
            q.id: data.own_documents(q, searcher.corpus) if kind in arm.removed else frozenset()
            for q in questions
        }
        spare = max((sum(title in of for title in of_document) for of in out.values()), default=0)
        if asked:
            searched = searcher.search([text for _, text in asked], k + spare, arm.by)
            for (id, _), rows in zip(asked, searched, strict=True):
                found[id].append([row for row in rows if of_document[row] not in out[id]][:k])
    return {id: reciprocal_rank_fusion(rankings) for id, rankings in found.items()}


@dataclass(frozen=True)
class Relevance:
    """What a reranker says of one question's passages: a score each, NaN where none could be read; higher is better."""

    scores: Scores
    requests: tuple[str, ...] = ()


Reranker = Callable[[Sequence[str], Sequence[Sequence[int]]], list[Relevance]]
"""Questions and the rows of each in, their relevance out."""


def best_window(searcher: Searcher) -> Reranker:
    """Cosine of the question with the passage's best window: the encoder, reading all of the passage."""

    def score(questions: Sequence[str], rows: Sequence[Sequence[int]]) -> list[Relevance]:
        return [
            Relevance(searcher.best_windows(question, chosen)[1])
            for question, chosen in zip(questions, rows, strict=True)
        ]

    return score


def rerank(
    found: Mapping[str, Sequence[int]], reranker: Reranker | None, texts: Mapping[str, str]
) -> tuple[dict[str, list[int]], dict[str, Relevance]]:
    """What was found in the order of a reranker's scores against the question; equals stay in order, NaN comes last."""
    if reranker is None or not found:
        return {id: list(rows) for id, rows in found.items()}, {}
    told = dict(
        zip(found, reranker([texts[id] for id in found], list(found.values())), strict=True)
    )
    return {
        id: [found[id][i] for i in np.argsort(-of.scores, kind="stable")] for id, of in told.items()
    }, told


@dataclass(frozen=True)
class Gold:
    """Passages that hold the FDA's answer, titles of the question's own document and of the guideline that it names.

    All by question; one is missing where the corpus does not have it.
    """

    passages: Mapping[str, frozenset[str]]
    sources: Mapping[str, frozenset[str]]
    named: Mapping[str, frozenset[str]]


def gold_of(questions: Sequence[Question], corpus: Corpus) -> Gold:
    """The gold of each question that has some in the corpus."""
    return Gold(
        {
            q.id: frozenset(holding)
            for q in questions
            if (holding := data.answer_passages(q, corpus))
        },
        {q.id: titles for q in questions if (titles := data.source_documents(q, corpus))},
        {q.id: titles for q in questions if (titles := data.named_documents(q, corpus))},
    )


MEASURES = (
    "answer_found",
    "document_recall",
    "mrr",
    "ndcg",
    "precision_without_judge",
    "guideline_found",
)
"""Of the six passages kept: one holds at least half of the FDA's answer; recall, MRR and nDCG of the document that the
question was taken from, a document standing where its first passage stands; RAGAS' context precision with "holds the
answer" in the judge's place; one is of the guideline that the question names."""


def context_precision(useful: Sequence[bool]) -> float:
    """RAGAS' context precision of ranked contexts (Es et al. 2023); 0 if none is useful."""
    found = np.asarray(useful, dtype=bool)
    if not found.any():
        return 0.0
    return float((np.cumsum(found) / np.arange(1, len(found) + 1))[found].mean())


def measured(rankings: Mapping[str, Sequence[Passage]], gold: Gold) -> dict[str, dict[str, float]]:
    """`MEASURES` of each ranking, by question, without those for which the corpus holds nothing to be found."""
    found: dict[str, dict[str, float]] = {id: {} for id in rankings}
    titles = {
        id: [*dict.fromkeys(passage.document for passage in of[:KEPT])]
        for id, of in rankings.items()
    }
    sources = {id: dict.fromkeys(gold.sources[id], 1) for id in rankings if id in gold.sources}
    of_documents = score_rankings(DOCUMENTS, sources, {id: titles[id] for id in sources})
    for id, ranking in rankings.items():
        if id in gold.passages:
            holds = [passage.id in gold.passages[id] for passage in ranking[:KEPT]]
            found[id] |= {
                "answer_found": float(any(holds)),
                "precision_without_judge": context_precision(holds),
            }
        if id in gold.named:
            found[id]["guideline_found"] = float(not gold.named[id].isdisjoint(titles[id]))
        found[id] |= of_documents.get(id, {})
    return found


def rows_of(
    rankings: Mapping[str, Sequence[Passage]],
    gold: Gold,
    *,
    told: Mapping[str, Relevance] | None = None,
    queries: Mapping[str, Sequence[Query]] | None = None,
    task: str = "",
) -> list[Answer]:
    """An answer for each ranking: its six passages, what it should have found besides, and their measures.

    `told` is the relevance that decided the order, `queries` are what was asked with; both by question.
    """
    scores = measured(rankings, gold)
    rows = []
    for id, ranking in rankings.items():
        relevance, asked = (told or {}).get(id), (queries or {}).get(id, ())
        read = all(query.texts for query in asked) and not (
            relevance and np.isnan(relevance.scores).any()
        )
        rows.append(
            Answer(
                task=task,
                parsed=bool(read),
                items=_items(id, ranking[:KEPT], gold),
                measures={name: (value, 1.0) for name, value in scores[id].items()},
                requests=[
                    *(q.request for q in asked if q.request),
                    *(relevance.requests if relevance else ()),
                ],
            )
        )
    return rows


def _items(id: str, ranking: Sequence[Passage], gold: Gold) -> list[Item]:
    """The passages of a ranking, then the passages and documents that were to be found and were not, without a rank."""
    holding, sources = gold.passages.get(id, frozenset()), gold.sources.get(id, frozenset())

    def strata(title: str) -> dict[str, str]:
        return {OF_SOURCE: "yes"} if title in sources else {}

    found = [
        Item(p.id, p.document, gold=p.id in holding, rank=place, strata=strata(p.document))
        for place, p in enumerate(ranking, start=1)
    ]
    missed = [Item(passage, gold=True) for passage in sorted(holding - {p.id for p in ranking})]
    unseen = sorted(sources - {p.document for p in ranking})
    return [*found, *missed, *(Item(title, title, strata=strata(title)) for title in unseen)]


def released(of: Data, gold: Gold) -> list[Answer]:
    """Rows of the authors' released rankings."""
    passages = of.corpus.of_id
    return [
        make_row(row, question, arm=arm, source="released", run="release")
        for arm, ranking in of.released.items()
        for row, question in zip(
            rows_of({q.id: [passages[id] for id in ranking[q.id]] for q in of.test}, gold),
            of.test,
            strict=True,
        )
    ]


def passages(
    searcher: Searcher,
    arm: Arm,
    queries: Queries,
    questions: Sequence[Question],
    reranker: Reranker,
) -> dict[str, list[Passage]]:
    """What an arm finds for each question, in the reranker's order: question id -> passages, best first."""
    found = candidates(searcher, arm, queries, questions)
    ranked = rerank(found, reranker if arm.reranked else None, {q.id: q.text for q in questions})[0]
    return {id: [searcher.corpus.passages[row] for row in rows] for id, rows in ranked.items()}


def kept_ids(
    searcher: Searcher,
    arm: Arm,
    queries: Queries,
    questions: Sequence[Question],
    reranker: Reranker,
) -> dict[str, list[str]]:
    """The ids of the six passages, or fewer, that an arm keeps for each question, best first; see `passages`."""
    found = passages(searcher, arm, queries, questions, reranker)
    return {id: [passage.id for passage in of[:KEPT]] for id, of in found.items()}


@arm_of
def finding(
    questions: Sequence[Question],
    searcher: Searcher,
    arm: Arm,
    queries: Queries,
    gold: Gold,
    reranker: Reranker,
) -> list[Answer]:
    """An arm: questions in, the six passages of each out, with their measures."""
    found = passages(searcher, arm, queries, questions, reranker)
    return rows_of(
        found, gold, queries={q.id: [queries[k][q.id] for k, _ in arm.tracks] for q in questions}
    )


def answerable(queries: Queries, arms: Mapping[str, Arm] = ARMS) -> dict[str, Arm]:
    """The arms whose every kind of query there is: without an adapter, those that ask with its answers are missing."""
    return {
        name: arm for name, arm in arms.items() if all(kind in queries for kind, _ in arm.tracks)
    }
