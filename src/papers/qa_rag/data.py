"""The data of QA-RAG: pairs of question and answer, test questions, released contexts and the corpus they make.

Each released question names a guideline before it asks: "As described in <guideline>, ...". So two documents belong to
it: the one that it was taken from (`source`, where the answer stands) and the one that it names (`guideline`). The
authors' index of the paper's 1,404 documents is published, but no copy was at hand. Every chunk that a released ranking
holds is the corpus here, which favours what those rankings found.
"""

import csv
import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path

from evaluation.audit import OWN
from resources import datasets
from resources.datasets import Located
from resources.settings import PublicError

PAIRS = "qa_rag/QnA.csv"
CONTEXTS = {
    "qa_rag": "qa_rag/contexts/qa_rag.json",
    "question": "qa_rag/contexts/question.json",
    "hypothetical": "qa_rag/contexts/hypothetical.json",
    "question_12": "qa_rag/contexts/ablation_question.json",
    "hypothetical_12": "qa_rag/contexts/ablation_hypothetical.json",
}
"""The released rankings of Tables 3 and 5 that a mirror of files below 4 MiB can hold: arm -> name in the registry."""
SHINGLE = 8  # words of a sequence that is looked for in a passage
HOLDS = 0.5
"""Share of an answer's sequences from which on a passage counts as holding the answer."""


class QaRagDataError(PublicError, ValueError):
    """A released file is not what it was; the message says what was expected and what was found."""


@dataclass(frozen=True)
class Question:
    """One released pair: `text` names the guideline first, `body` is the question alone; one answer is empty."""

    id: str
    text: str
    answer: str
    guideline: str
    source: str
    body: str
    strata: Mapping[str, str] = field(default_factory=dict, compare=False)

    @property
    def unit(self) -> str:
        """The id."""
        return self.id

    @property
    def cluster(self) -> str:
        """The document: its questions have much in common."""
        return self.source

    @property
    def gold(self) -> str:
        """The answer."""
        return self.answer


@dataclass(frozen=True)
class Passage:
    """One chunk of a guidance document: `document` is the title that the release gives it."""

    id: str
    document: str
    text: str = field(repr=False)


@dataclass(frozen=True)
class Corpus:
    """Passages to search, in the order of their documents' titles."""

    passages: tuple[Passage, ...]

    def __len__(self) -> int:
        """Passages."""
        return len(self.passages)

    @cached_property
    def documents(self) -> tuple[str, ...]:
        """Distinct titles, in order."""
        return tuple(dict.fromkeys(passage.document for passage in self.passages))

    @cached_property
    def of_id(self) -> dict[str, Passage]:
        """Passages by id."""
        return {passage.id: passage for passage in self.passages}


@dataclass(frozen=True)
class Context:
    """One passage that a released ranking gave for a question, and the BGE reranker's score of it."""

    question: str
    document: str
    text: str = field(repr=False)
    relevance: float


@dataclass(frozen=True)
class Data:
    """All that the chapters read: `test` are the questions that the released rankings answer, in their order, each with
    the stratum `own document`.

    `released` has the rankings: arm -> question id -> passage ids, best first.
    """

    questions: tuple[Question, ...]
    test: tuple[Question, ...]
    corpus: Corpus
    released: Mapping[str, Mapping[str, tuple[str, ...]]]
    rankings: Mapping[str, Mapping[str, tuple[Context, ...]]]
    files: tuple[Located, ...]
    sample: bool


def load(data: str = "auto") -> Data:
    """The pairs, the test questions and the corpus; `data` as `datasets.locate_all` takes it.

    Raises DataUnavailable: no source gives a file, and there is no sample; QaRagDataError: a file is not what it was.
    """
    files = datasets.locate_all([PAIRS, *CONTEXTS.values()], data)
    questions = read_questions(files[PAIRS].path)
    contexts = {arm: read_contexts(files[name].path) for arm, name in CONTEXTS.items()}
    every = (
        context for rankings in contexts.values() for of in rankings.values() for context in of
    )
    distinct = sorted(
        {(context.document, context.text) for context in every}
    )  # in the order of titles and of texts
    corpus = Corpus(tuple(Passage(f"p{number:04}", *of) for number, of in enumerate(distinct)))
    told = {True: "removed by the authors' rule", False: "not recognised"}
    test = match(list(contexts["qa_rag"]), questions)
    test = tuple(replace(q, strata={OWN: told[bool(own_documents(q, corpus))]}) for q in test)
    place = {(passage.document, passage.text): passage.id for passage in corpus.passages}
    asked = dict(zip(contexts["qa_rag"], test, strict=True))
    released = {
        arm: {
            asked[text].id: tuple(place[c.document, c.text] for c in of)
            for text, of in rankings.items()
        }
        for arm, rankings in contexts.items()
    }
    located = tuple(files.values())
    return Data(
        questions, test, corpus, released, contexts, located, any(file.sample for file in located)
    )


def read_questions(path: Path) -> tuple[Question, ...]:
    """The pairs of `QnA.csv` (columns Title, Question, Answer, Relevant_doc, Question_answer), in their order.

    Raises QaRagDataError: a column is missing, or a row does not repeat its question.
    """
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    needed = {"Title", "Question", "Answer", "Relevant_doc", "Question_answer"}
    if not rows or (missing := needed - rows[0].keys()):
        raise QaRagDataError(
            f"{path} should have the columns {sorted(needed)}; missing: {sorted(missing)}."
        )
    return tuple(_question(number, row, path) for number, row in enumerate(rows))


_TOLD = re.compile(r"Question: (.*?)\n\s*Answer:", re.DOTALL)
_NO_TITLE = re.compile(r"none\Z|nan\Z|i'm sorry", re.IGNORECASE)


def _question(number: int, row: Mapping[str, str], path: Path) -> Question:
    told = _TOLD.match(row["Question_answer"])
    if told is None:
        raise QaRagDataError(
            f"{path}, pair {number}: Question_answer should begin with 'Question: ' and go on."
        )
    guideline = " ".join(row["Relevant_doc"].split())
    return Question(
        id=f"q{number:04}",
        text=row["Question"].strip(),
        answer=row["Answer"].strip(),
        # the language model that chose the guideline did not always name one
        guideline="" if _NO_TITLE.match(guideline) else guideline,
        source=row["Title"].removesuffix(".mmd").replace("_", " ").strip(),
        body=told[1].strip(),
    )


_RULE = r"\s*-{20}\s*"
_CONTEXT = re.compile(
    rf"{_RULE}Question: (?P<question>.*?){_RULE}Context: (?P<text>.*){_RULE}Context title: (?P<title>.*?)"
    rf"{_RULE}Relevance with the question: (?P<relevance>\S+)\s*\Z",
    re.DOTALL,
)


def read_contexts(path: Path) -> dict[str, tuple[Context, ...]]:
    """A released ranking: question -> its passages, best first, each as the text that the language model saw.

    Raises QaRagDataError: a passage is not built like that.
    """
    ranking = {}
    for question, shown in json.loads(path.read_text(encoding="utf-8")).items():
        parts = [_CONTEXT.match(text) for text in shown]
        if not all(parts):
            raise QaRagDataError(
                f"{path}: passage {parts.index(None) + 1} of {question[:60]!r} should hold Question, Context, Context "
                "title and Relevance with the question, between rules of 20 dashes."
            )
        ranking[question.strip()] = tuple(
            Context(
                question.strip(),
                " ".join(p["title"].split()),
                p["text"].strip(),
                float(p["relevance"]),
            )
            for p in parts
            if p is not None
        )
    return ranking


def match(texts: Sequence[str], questions: Sequence[Question]) -> tuple[Question, ...]:
    """The pair of each text of a test question; characters that the two files write differently do not count.

    Raises QaRagDataError: no pair, or several with different answers, belong to a text.
    """
    by_text, by_words = defaultdict(list), [words(question.body) for question in questions]
    for question in questions:
        by_text[words(question.text)].append(question)
    matched = []
    for text in texts:
        plain = words(text)
        found = by_text[plain] or [
            q for q, body in zip(questions, by_words, strict=True) if plain.endswith(body)
        ]
        if len({words(q.answer) for q in found}) != 1:
            raise QaRagDataError(
                f"One pair was expected for the test question {text[:80]!r}; found {len(found)}."
            )
        matched.append(found[0])
    return tuple(matched)


def words(text: str) -> str:
    """A text reduced to its lower-case letters and digits, one space between words."""
    return " ".join(re.findall(r"[a-z0-9]+", unicodedata.normalize("NFKC", text).lower()))


@lru_cache(maxsize=4096)
def _shingles(text: str) -> frozenset[str]:
    """Every sequence of `SHINGLE` words; the whole text if it is shorter, and nothing if it has no word."""
    of = words(text).split()
    if len(of) <= SHINGLE:
        return frozenset([" ".join(of)] if of else [])
    return frozenset(" ".join(of[i : i + SHINGLE]) for i in range(len(of) - SHINGLE + 1))


def held(answer: str, texts: Sequence[str]) -> float:
    """Share of an answer's word sequences that one of the texts holds word by word, within 0 and 1."""
    wanted = _shingles(answer)
    if len(wanted) <= 1:  # no longer than one sequence
        return float(
            any(f" {sequence} " in f" {words(text)} " for sequence in wanted for text in texts)
        )
    return len(wanted & frozenset().union(*map(_shingles, texts))) / len(wanted)


def answer_passages(
    question: Question, corpus: Corpus, at_least: float = HOLDS
) -> dict[str, float]:
    """Passages that hold the FDA's answer word by word, at least that share of it: id -> share.

    An answer of fewer words than a sequence has is not looked for, for it would be found by chance.
    """
    if len(words(question.answer).split()) < SHINGLE:
        return {}
    shares = {passage.id: held(question.answer, [passage.text]) for passage in corpus.passages}
    return {id: share for id, share in shares.items() if share >= at_least}


def source_documents(question: Question, corpus: Corpus) -> frozenset[str]:
    """Titles of the document that a question was taken from: its own but for the date, or with the answer in it."""
    wanted = set(words(_DATE.sub("", question.source)).split())
    titled = {title for title in corpus.documents if _alike(wanted, set(words(title).split()))}
    return frozenset(
        titled | {corpus.of_id[id].document for id in answer_passages(question, corpus)}
    )


_MONTH = re.compile(
    r" (JANUARY|FEBRUARY|MARCH|APRIL|MAY|JUNE|JULY|AUGUST|SEPTEMBER|OCTOBER|NOVEMBER|DECEMBER) \d{4}"
)


def own_documents(question: Question, corpus: Corpus) -> frozenset[str]:
    """Titles that the authors' code takes for a question's own document (`model.py`, `get_context`).

    It removes them from the index if the query is the question; a hypothetical answer is never recognised.
    """
    title = _MONTH.sub("", question.source)
    return frozenset(
        document for document in corpus.documents if title in document.replace("-", " ")
    )


def named_documents(question: Question, corpus: Corpus) -> frozenset[str]:
    """Titles in the corpus of the guideline that a question names."""
    wanted = words(question.guideline)
    return frozenset(title for title in corpus.documents if wanted and words(title) == wanted)


_DATE = re.compile(r"\b[A-Z]{3,9} (19|20)\d\d\Z")  # "... Guidance for Industry JUNE 2021"
_COMMON = {"guidance", "for", "industry", "and", "fda", "staff", "the", "of", "a", "in", "on"}


def _alike(wanted: set[str], title: set[str]) -> bool:
    """Whether two titles have the same words, but for the commonest and for one that was garbled."""
    a, b = wanted - _COMMON, title - _COMMON
    return bool(a) and len(a & b) / len(a | b) >= 0.85
