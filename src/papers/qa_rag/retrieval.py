"""Two-track retrieval over guidance (QA-RAG, sections 2.3 to 2.4): the arms and their passages.

An arm takes so many passages for each of its texts (the question, ...), and selects the best six by
a reranker.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from evaluation import figures
from evaluation.answers import Answer, Item, make_row
from evaluation.trec import DOCUMENTS, OF_SOURCE, score_rankings
from helpers.llm import LLM
from helpers.thoughts import without_thought
from papers.qa_rag import data
from papers.qa_rag.data import Corpus, Data, Passage, Question
from papers.qa_rag.search import Scores, Search, Searcher
from rag.prompts import Message, user_message
from rag.replies import QUOTES, WIDE, listed_texts
from rag.retrieval import reciprocal_rank_fusion

N_SELECTED = 6
"""Passages after reranking (section 3.3)."""


@dataclass(frozen=True)
class ArmConfig:
    """A way of finding six passages.

    Attributes:
        label: Name in tables.
        tracks: Kinds of query, and how many passages each text of them brings. A kind that a model
            writes comes last.
        by: What of a passage is searched.
        reranked: Whether a reranker orders what was found.
        removed: Kinds of query for which the question's own document leaves the index.
    """

    label: str
    tracks: tuple[tuple[str, int], ...]
    by: Search = "start"
    reranked: bool = True
    removed: tuple[str, ...] = ()


PRINTED = {
    "qa_rag": ArmConfig(
        "QA-RAG (12 candidates by question, 12 by hypothetical answer)",
        (("question", 12), ("tuned", 12)),
    ),
    "multiquery": ArmConfig(
        "Multiquery (6 candidates by question, 6 by each of up to three more)",
        (("question", 6), ("multi", 6)),
    ),
    "hyde": ArmConfig("HyDE (24)", (("hyde", 24),)),
    "question": ArmConfig("Only question (24)", (("question", 24),)),
    "hypothetical": ArmConfig("Only hypothetical answer (24)", (("tuned", 24),)),
    "question_12": ArmConfig("Only question (12)", (("question", 12),)),
    "hypothetical_12": ArmConfig("Only hypothetical answer (12)", (("tuned", 12),)),
}
"""Rows of Tables 3 and 5, the latter with 12 candidates."""
OTHERS = {
    "base": ArmConfig("Only hypothetical answer of the base model (24)", (("base", 24),)),
    "bare": ArmConfig("Only question without the guideline that it names (24)", (("bare", 24),)),
    "windows": ArmConfig("Only question by windows (24)", (("question", 24),), by="windows"),
    "windows_bare": ArmConfig(
        "Only question by windows without the guideline that it names (24)",
        (("bare", 24),),
        by="windows",
    ),
    "windows_qa_rag": ArmConfig(
        "QA-RAG by windows (12 candidates by question, 12 by hypothetical answer)",
        (("question", 12), ("tuned", 12)),
        by="windows",
    ),
    "bm25": ArmConfig("BM25 of the question", (("question", 24),), by="words", reranked=False),
    "bm25_bare": ArmConfig(
        "BM25 of the question without the guideline that it names",
        (("bare", 24),),
        by="words",
        reranked=False,
    ),
    "reference": ArmConfig("The FDA's own answer as the query (24)", (("reference", 24),)),
}
"""What the printed rows leave open, and plain baselines.

By windows, the encoder reads all of a passage; otherwise its start alone, as in the paper."""
ARMS = {**PRINTED, **OTHERS}
_RULE_LABELS = {
    "question": "Only question",
    "multiquery": "Multiquery",
    "qa_rag": "QA-RAG",
    "hypothetical": "Only hypothetical answer",
}


def _without_own_document(name: str, rule: str, removed: tuple[str, ...]) -> ArmConfig:
    return replace(PRINTED[name], label=f"{_RULE_LABELS[name]} ({rule})", removed=removed)


_BY_QUESTION = "own document removed from the search by question"
_BY_ALL = "own document removed from every search"
AUTHORS = {
    "multiquery_authors": ArmConfig(
        "Multiquery with the authors' prompt (8 candidates by question, 8 by each of up to two "
        "more)",
        (("question", 8), ("multi_authors", 8)),
    ),
    "hyde_authors": ArmConfig("HyDE with the authors' prompt (24)", (("hyde_authors", 24),)),
    "hypothetical_authors": ArmConfig(
        "Only hypothetical answer with the authors' prompt (24)", (("tuned_authors", 24),)
    ),
    "qa_rag_authors": ArmConfig(
        "QA-RAG with the authors' prompt (12 candidates by question, 12 by hypothetical answer)",
        (("question", 12), ("tuned_authors", 12)),
    ),
    "hypothetical_12_authors": ArmConfig(
        "Only hypothetical answer with the authors' prompt (12)", (("tuned_authors", 12),)
    ),
    "qa_rag_authors_rule": ArmConfig(
        f"QA-RAG with the authors' prompt ({_BY_QUESTION})",
        (("question", 12), ("tuned_authors", 12)),
        removed=("question", "multi"),
    ),
    "question_rule": _without_own_document("question", _BY_QUESTION, ("question", "multi")),
    "multiquery_rule": _without_own_document("multiquery", _BY_QUESTION, ("question", "multi")),
    "qa_rag_rule": _without_own_document("qa_rag", _BY_QUESTION, ("question", "multi")),
    "hypothetical_removed": _without_own_document("hypothetical", _BY_ALL, ("question", "tuned")),
    "qa_rag_removed": _without_own_document("qa_rag", _BY_ALL, ("question", "tuned")),
}
"""The authors' prompts (see `authors`), their rule that removes a question's own document, and one
for all queries."""
LABELS = {name: arm.label for name, arm in {**ARMS, **AUTHORS}.items()}
COLOURS = {
    **dict.fromkeys(ARMS, figures.HUES["magenta"]),
    "reference": figures.HUES["grey"],
}


@dataclass(frozen=True)
class Query:
    """What is searched with for one question.

    Attributes:
        texts: Its texts; none if a model's reply held none.
        request: Key of the request that a model answered with them; empty without a model.
    """

    texts: tuple[str, ...]
    request: str = ""


Queries = Mapping[str, Mapping[str, Query]]
"""Kind of query -> question id -> query."""


def plain_queries(questions: Sequence[Question]) -> dict[str, dict[str, Query]]:
    """The queries that need no model.

    They are the question, the question without the guideline's title, and the FDA's answer.
    """
    by_question = {question.id: Query((question.text,)) for question in questions}
    by_body = {question.id: Query((question.body,)) for question in questions}
    by_answer = {question.id: Query((question.answer,)) for question in questions}
    return {"question": by_question, "bare": by_body, "reference": by_answer}


MULTIQUERY = (
    "Write three different versions of the question, each from another point of view, to find "
    "documents that answer it. One version a line, nothing else."
)
HYDE = "Please write a passage to answer the question."
"""HyDE's prompt for web search (Gao et al. 2022, as the paper says in section 3.4)."""

N_MULTIQUERY = 3
"""Further questions of multiquery."""

MIN_WORDS_OF_QUERY = 3
"""Words from which on a line of a reply is a question."""


def multiquery_prompt(question: Question) -> list[Message]:
    """Build the prompt for three more questions, in place of GPT-4 and the authors' prompt."""
    return user_message(f"{MULTIQUERY}\n\nQuestion: {question.text}")


def hyde_prompt(question: Question) -> list[Message]:
    """Build the prompt for a hypothetical document."""
    return user_message(f"{HYDE}\nQuestion: {question.text}\nPassage:")


_QUERY_NUMBER = re.compile(r"^\W*(?:question|query)\s*\d*\s*[:.]\W*", re.IGNORECASE)


def read_queries(text: str, max_queries: int = N_MULTIQUERY) -> list[str]:
    """Read the distinct questions of a reply: a JSON list, or one a line.

    Numbers and emphasis are no part of a question, and what ends with a colon is a heading.
    """
    distinct: dict[str, str] = {}
    for line in listed_texts(text) or without_thought(text).splitlines():
        query = _bare_query(line)
        if query.endswith(":") or len(query.split()) < MIN_WORDS_OF_QUERY:
            continue
        distinct.setdefault(data.words(query), query)
    return list(distinct.values())[:max_queries]


def _bare_query(line: str) -> str:
    """A question without its number, and without quotation marks or emphasis around it."""
    query = line.translate(WIDE).strip().lstrip("-*\u20220123456789.) ").strip()
    query = _QUERY_NUMBER.sub("", query)
    is_wrapped = query[:1] in QUOTES or query[-1:] in QUOTES
    return query.strip(QUOTES).strip() if is_wrapped else query


@dataclass(frozen=True)
class QueryWriter:
    """A model that writes what is searched with.

    Attributes:
        model: The model.
        max_tokens: Longest reply, in tokens.
        label: Name of this step in progress bars and in the record of the run.
        max_queries: Number of questions in a reply, one a line; 0 if the reply is one text.
    """

    model: LLM
    max_tokens: int
    label: str
    max_queries: int = 0

    def write(
        self, questions: Sequence[Question], prompts: Sequence[Sequence[Message]]
    ) -> dict[str, Query]:
        """Write the query of each question, by its id.

        Args:
            questions: The questions.
            prompts: What the model is asked for each of them.
        """
        replies = self.model.chat_many(prompts, max_tokens=self.max_tokens, label=self.label)
        return {
            question.id: Query(self._texts(reply.text), reply.key)
            for question, reply in zip(questions, replies, strict=True)
        }

    def _texts(self, reply: str) -> tuple[str, ...]:
        if self.max_queries:
            return tuple(read_queries(reply, self.max_queries))
        return (reply,) if reply.strip() else ()


def written_queries(
    model: LLM, questions: Sequence[Question], multiquery_tokens: int, hyde_tokens: int
) -> dict[str, dict[str, Query]]:
    """Write the queries of the arms multiquery and HyDE (section 3.4)."""
    multiquery = QueryWriter(model, multiquery_tokens, "multiquery", N_MULTIQUERY)
    hyde = QueryWriter(model, hyde_tokens, "HyDE")
    return {
        "multi": multiquery.write(questions, [multiquery_prompt(q) for q in questions]),
        "hyde": hyde.write(questions, [hyde_prompt(q) for q in questions]),
    }


def find_candidates(
    searcher: Searcher, config: ArmConfig, queries: Queries, questions: Sequence[Question]
) -> dict[str, list[int]]:
    """Find what an arm gives to the reranker.

    A passage that two texts bring counts once, so there may be fewer than 24; a query without a
    text brings none.

    Returns:
        The rows of each question, best first, by its id.
    """
    rankings: dict[str, list[list[int]]] = {question.id: [] for question in questions}
    for kind, k in config.tracks:
        removed = {}
        for question in questions:
            own = data.own_documents(question, searcher.corpus)
            removed[question.id] = own if kind in config.removed else frozenset()
        found = _search_track(searcher, config.by, k, queries[kind], removed)
        for question_id, rows in found:
            rankings[question_id].append(rows)
    return {
        question_id: reciprocal_rank_fusion(found_by_text)
        for question_id, found_by_text in rankings.items()
    }


def _search_track(
    searcher: Searcher,
    by: Search,
    k: int,
    queries: Mapping[str, Query],
    removed: Mapping[str, frozenset[str]],
) -> list[tuple[str, list[int]]]:
    """Search with every text of one kind of query, without the documents that are removed.

    Returns:
        The id of a question and the rows that one of its texts found.
    """
    searches = []
    for question_id in removed:
        searches += [(question_id, text) for text in queries[question_id].texts]
    if not searches:
        return []
    titles = [passage.document for passage in searcher.corpus.passages]
    max_removed = max(_count_members(titles, documents) for documents in removed.values())
    results = searcher.search([text for _, text in searches], k + max_removed, by)
    found = []
    for (question_id, _), rows in zip(searches, results, strict=True):
        remaining = [row for row in rows if titles[row] not in removed[question_id]]
        found.append((question_id, remaining[:k]))
    return found


def _count_members(titles: Sequence[str], documents: frozenset[str]) -> int:
    return sum(title in documents for title in titles)


@dataclass(frozen=True)
class Relevance:
    """What a reranker says of the passages of one question.

    Attributes:
        scores: A score each, NaN where none could be read; higher is better.
        requests: Keys of the requests that gave them.
    """

    scores: Scores
    requests: tuple[str, ...] = ()


Reranker = Callable[[Sequence[str], Sequence[Sequence[int]]], list[Relevance]]
"""Questions and the rows of each in, their relevance out."""


@dataclass(frozen=True)
class BestWindow:
    """Cosine of the question with the passage's best window: the encoder, reading all of it."""

    searcher: Searcher

    def __call__(self, questions: Sequence[str], rows: Sequence[Sequence[int]]) -> list[Relevance]:
        """Score the rows of each question."""
        relevance = []
        for question, rows_of_question in zip(questions, rows, strict=True):
            _, scores = self.searcher.best_windows(question, rows_of_question)
            relevance.append(Relevance(scores))
        return relevance


def rerank(
    found: Mapping[str, Sequence[int]], reranker: Reranker | None, texts: Mapping[str, str]
) -> tuple[dict[str, list[int]], dict[str, Relevance]]:
    """Order what was found by a reranker's scores against the question.

    Equals stay in order, and NaN comes last.

    Args:
        found: The rows of each question.
        reranker: Scores rows; None leaves them as they were found.
        texts: The question that they are scored against, by its id.

    Returns:
        The rows in order, and the relevance in the order of ``found``, both by question id.
    """
    if reranker is None or not found:
        return {question_id: list(rows) for question_id, rows in found.items()}, {}
    questions = [texts[question_id] for question_id in found]
    scored = reranker(questions, list(found.values()))
    relevance = dict(zip(found, scored, strict=True))
    ranked = {}
    for question_id, rows in found.items():
        order = np.argsort(-relevance[question_id].scores, kind="stable")
        ranked[question_id] = [rows[place] for place in order]
    return ranked, relevance


@dataclass(frozen=True)
class Gold:
    """What should be found, by question id; a question is missing where the corpus lacks it.

    Attributes:
        passages: Ids of the passages that hold the FDA's answer.
        sources: Titles of the question's own document.
        named: Titles of the guideline that the question names.
    """

    passages: Mapping[str, frozenset[str]]
    sources: Mapping[str, frozenset[str]]
    named: Mapping[str, frozenset[str]]


def find_gold(questions: Sequence[Question], corpus: Corpus) -> Gold:
    """Find the gold of each question that has some in the corpus."""
    passages = {q.id: frozenset(data.answer_passages(q, corpus)) for q in questions}
    sources = {q.id: data.source_documents(q, corpus) for q in questions}
    named = {q.id: data.named_documents(q, corpus) for q in questions}
    return Gold(_without_empty(passages), _without_empty(sources), _without_empty(named))


def _without_empty(sets: Mapping[str, frozenset[str]]) -> dict[str, frozenset[str]]:
    return {question_id: members for question_id, members in sets.items() if members}


MEASURES = (
    "answer_found",
    "document_recall",
    "mrr",
    "ndcg",
    "precision_without_judge",
    "guideline_found",
)
"""Of the six selected passages: one holds at least half of the FDA's answer; recall, MRR and nDCG
of the document that the question was taken from, a document standing where its first passage
stands; RAGAS' context precision with "holds the answer" in the judge's place; one is of the
guideline that the question names."""


def context_precision(useful: Sequence[bool]) -> float:
    """RAGAS' context precision of ranked contexts (Es et al. 2023); 0 if none is useful."""
    hits = np.asarray(useful, dtype=bool)
    if not hits.any():
        return 0.0
    precision_at = np.cumsum(hits) / np.arange(1, len(hits) + 1)
    return float(precision_at[hits].mean())


def measure_rankings(
    rankings: Mapping[str, Sequence[Passage]], gold: Gold
) -> dict[str, dict[str, float]]:
    """Compute ``MEASURES`` of each ranking, by question id.

    A measure is missing where the corpus holds nothing that could be found.
    """
    titles = {}
    for question_id, ranking in rankings.items():
        titles[question_id] = [*dict.fromkeys(p.document for p in ranking[:N_SELECTED])]
    with_source = [question_id for question_id in rankings if question_id in gold.sources]
    document_scores = score_rankings(
        DOCUMENTS,
        {question_id: dict.fromkeys(gold.sources[question_id], 1) for question_id in with_source},
        {question_id: titles[question_id] for question_id in with_source},
    )
    measures: dict[str, dict[str, float]] = {}
    for question_id, ranking in rankings.items():
        scores = _passage_scores(question_id, ranking, gold)
        if question_id in gold.named:
            is_found = not gold.named[question_id].isdisjoint(titles[question_id])
            scores["guideline_found"] = float(is_found)
        measures[question_id] = scores | document_scores.get(question_id, {})
    return measures


def _passage_scores(question_id: str, ranking: Sequence[Passage], gold: Gold) -> dict[str, float]:
    if question_id not in gold.passages:
        return {}
    hits = [passage.id in gold.passages[question_id] for passage in ranking[:N_SELECTED]]
    return {
        "answer_found": float(any(hits)),
        "precision_without_judge": context_precision(hits),
    }


def make_rows(
    rankings: Mapping[str, Sequence[Passage]],
    gold: Gold,
    *,
    relevance: Mapping[str, Relevance] | None = None,
    queries: Mapping[str, Sequence[Query]] | None = None,
    task: str = "",
) -> list[Answer]:
    """Make an answer of each ranking: its passages, what it should have found, and the measures.

    Args:
        rankings: Passages, best first, by question id.
        gold: What should be found.
        relevance: What decided the order, by question id.
        queries: What was searched with, by question id.
        task: Task of the rows.
    """
    measures = measure_rankings(rankings, gold)
    rows = []
    for question_id, ranking in rankings.items():
        own_queries = queries[question_id] if queries else ()
        own_relevance = relevance.get(question_id) if relevance else None
        requests = [query.request for query in own_queries if query.request]
        is_parsed = all(query.texts for query in own_queries)
        if own_relevance:
            requests += own_relevance.requests
            is_parsed = is_parsed and not np.isnan(own_relevance.scores).any()
        row = Answer(
            task=task,
            parsed=bool(is_parsed),
            items=_items(question_id, ranking[:N_SELECTED], gold),
            measures={name: (value, 1.0) for name, value in measures[question_id].items()},
            requests=requests,
        )
        rows.append(row)
    return rows


def _items(question_id: str, ranking: Sequence[Passage], gold: Gold) -> list[Item]:
    """The passages of a ranking, then without a rank the gold passages and documents it lacks."""
    gold_passages = gold.passages.get(question_id, frozenset())
    sources = gold.sources.get(question_id, frozenset())
    strata_of_source = {OF_SOURCE: "yes"}
    items = []
    for rank, passage in enumerate(ranking, start=1):
        item = Item(
            passage.id,
            passage.document,
            gold=passage.id in gold_passages,
            rank=rank,
            strata=strata_of_source if passage.document in sources else {},
        )
        items.append(item)
    found_ids = {passage.id for passage in ranking}
    found_titles = {passage.document for passage in ranking}
    items += [Item(passage_id, gold=True) for passage_id in sorted(gold_passages - found_ids)]
    items += [
        Item(title, title, strata=strata_of_source) for title in sorted(sources - found_titles)
    ]
    return items


def released(of_release: Data, gold: Gold) -> list[Answer]:
    """Rows of the authors' released rankings."""
    passages = of_release.corpus.by_id
    rows = []
    for arm, ids in of_release.released.items():
        rankings = {}
        for question in of_release.test:
            rankings[question.id] = [passages[passage_id] for passage_id in ids[question.id]]
        answers = make_rows(rankings, gold)
        for answer, question in zip(answers, of_release.test, strict=True):
            rows.append(make_row(answer, question, arm=arm, source="released", run="release"))
    return rows


@dataclass(frozen=True)
class Retrieval:
    """An arm: questions in, the six passages of each out, with their measures.

    Attributes:
        searcher: The corpus.
        config: What is searched with.
        queries: The texts of each kind of query.
        reranker: Orders what was found, if the configuration says so.
        gold: What should be found; not needed by ``find``.
    """

    searcher: Searcher
    config: ArmConfig
    queries: Queries
    reranker: Reranker
    gold: Gold = field(default_factory=lambda: Gold({}, {}, {}))

    def __call__(self, questions: Sequence[Question]) -> list[Answer]:
        """Find the passages of each question, and measure them."""
        kinds = [kind for kind, _ in self.config.tracks]
        queries = {}
        for question in questions:
            queries[question.id] = [self.queries[kind][question.id] for kind in kinds]
        return make_rows(self.find(questions), self.gold, queries=queries)

    def find(self, questions: Sequence[Question]) -> dict[str, list[Passage]]:
        """Find the passages of each question, by its id, in the reranker's order."""
        found = find_candidates(self.searcher, self.config, self.queries, questions)
        texts = {question.id: question.text for question in questions}
        ranked, _ = rerank(found, self.reranker if self.config.reranked else None, texts)
        passages = self.searcher.corpus.passages
        found_passages = {}
        for question_id, rows in ranked.items():
            found_passages[question_id] = [passages[row] for row in rows]
        return found_passages

    def select_ids(self, questions: Sequence[Question]) -> dict[str, list[str]]:
        """Select the ids of six passages, or fewer, of each question, best first."""
        selected = {}
        for question_id, ranking in self.find(questions).items():
            selected[question_id] = [passage.id for passage in ranking[:N_SELECTED]]
        return selected


def arms_with_queries(
    queries: Queries, configs: Mapping[str, ArmConfig] = ARMS
) -> dict[str, ArmConfig]:
    """The arms whose every kind of query there is.

    Without an adapter, those are missing that search with the fine-tuned model's answers.
    """
    selected = {}
    for name, config in configs.items():
        if all(kind in queries for kind, _ in config.tracks):
            selected[name] = config
    return selected
