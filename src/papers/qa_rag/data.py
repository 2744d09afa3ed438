"""The data of QA-RAG: pairs of question and answer, released contexts and the corpus they make.

Each released question names a guideline before it asks: "As described in <guideline>, ...". So two
documents belong to it: the one that it was taken from (`source`, where the answer stands) and the
one that it names (`guideline`). The authors' index of the paper's 1,404 documents is published as a
pickle, which is not read, since loading it would run the code in it. The corpus here is the chunks
of the rankings in `CONTEXTS`, which favours what those rankings found.
"""

import csv
import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path

from evaluation.audit import OWN
from helpers.documents import Place
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
"""The released rankings of Tables 3 and 5: arm -> name in the registry.

The others are larger than the 4 MiB that a mirror holds of a file.
"""

N_SHINGLE_WORDS = 8
"""Words of a sequence that is looked for in a passage."""

MIN_SHARE_HELD = 0.5
"""Share of an answer's sequences from which on a passage counts as holding the answer."""

REMOVED = "removed by the authors' rule"
UNRECOGNISED = "not recognised"
"""Values of the stratum that says what becomes of a question's own document."""

MIN_TITLE_OVERLAP = 0.85
"""Share of the words of two titles from which on they are the same but for a garbled word."""


class QaRagDataError(PublicError, ValueError):
    """A released file is not what it was; the message says what was expected and found."""


@dataclass(frozen=True)
class Question:
    """One released pair of a question and its answer.

    Attributes:
        id: Its place in the released file.
        text: The question as it is asked; it names the guideline first.
        answer: The FDA's answer; one is empty.
        guideline: The guideline that the question names.
        source: The document that the pair was taken from.
        body: The question alone, without the guideline.
        strata: Groups that it belongs to.
    """

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
    """One chunk of a guidance document.

    Attributes:
        id: Unique in its corpus.
        document: The title that the release gives the document, or the name of an own file.
        text: The chunk.
        places: Where pages or sections of an own document begin within the text.
    """

    id: str
    document: str
    text: str = field(repr=False)
    places: tuple[Place, ...] = field(default=(), repr=False, compare=False)

    def place_at(self, position: int) -> str:
        """The page or section at a position of the text, such as ``page 3``; empty if unknown."""
        names = [place.name for place in self.places if place.start <= position]
        return names[-1] if names else ""


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
    def by_id(self) -> dict[str, Passage]:
        """Passages by id."""
        return {passage.id: passage for passage in self.passages}


@dataclass(frozen=True)
class Context:
    """One passage that a released ranking gave for a question, with the BGE reranker's score."""

    question: str
    document: str
    text: str = field(repr=False)
    relevance: float


@dataclass(frozen=True)
class Data:
    """All that the chapters read.

    Attributes:
        questions: All pairs.
        test: The questions that the released rankings answer, in their order, each with the stratum
            ``own document``.
        corpus: The passages of the rankings in ``CONTEXTS``.
        released: Ids of the passages, best first, by arm and question id.
        rankings: The same as the release writes them, by arm and text of the question.
        files: Where the data came from.
        sample: Whether they are the bundled sample.
    """

    questions: tuple[Question, ...]
    test: tuple[Question, ...]
    corpus: Corpus
    released: Mapping[str, Mapping[str, tuple[str, ...]]]
    rankings: Mapping[str, Mapping[str, tuple[Context, ...]]]
    files: tuple[Located, ...]
    sample: bool


def load(data: str = "auto") -> Data:
    """Load the pairs, the test questions and the corpus.

    Args:
        data: As ``datasets.locate_all`` takes it.

    Raises:
        DataUnavailable: No source gives a file, and there is no sample.
        QaRagDataError: A file is not what it was.
    """
    files = datasets.locate_all([PAIRS, *CONTEXTS.values()], data)
    questions = read_questions(files[PAIRS].path)
    rankings = {arm: read_contexts(files[name].path) for arm, name in CONTEXTS.items()}
    corpus = _corpus_of(rankings.values())
    test_texts = list(rankings["qa_rag"])
    test = match(test_texts, questions)
    located = tuple(files.values())
    test_with_strata = [_with_own_stratum(question, corpus) for question in test]
    question_of_text = dict(zip(test_texts, test, strict=True))
    return Data(
        questions=questions,
        test=tuple(test_with_strata),
        corpus=corpus,
        released=_passage_ids(rankings, question_of_text, corpus),
        rankings=rankings,
        files=located,
        sample=any(file.sample for file in located),
    )


def _corpus_of(rankings: Iterable[Mapping[str, tuple[Context, ...]]]) -> Corpus:
    """Every distinct passage, in the order of titles and of texts."""
    distinct: set[tuple[str, str]] = set()
    for contexts_of_question in rankings:
        for contexts in contexts_of_question.values():
            distinct.update((context.document, context.text) for context in contexts)
    passages = []
    for number, (document, text) in enumerate(sorted(distinct)):
        passages.append(Passage(f"p{number:04}", document, text))
    return Corpus(tuple(passages))


def _with_own_stratum(question: Question, corpus: Corpus) -> Question:
    is_recognised = bool(own_documents(question, corpus))
    value = REMOVED if is_recognised else UNRECOGNISED
    return replace(question, strata={OWN: value})


def _passage_ids(
    rankings: Mapping[str, Mapping[str, tuple[Context, ...]]],
    question_of_text: Mapping[str, Question],
    corpus: Corpus,
) -> dict[str, dict[str, tuple[str, ...]]]:
    """The rankings by arm and question id, as ids of passages."""
    id_of = {(passage.document, passage.text): passage.id for passage in corpus.passages}
    released: dict[str, dict[str, tuple[str, ...]]] = {}
    for arm, contexts_of_question in rankings.items():
        released[arm] = {}
        for text, contexts in contexts_of_question.items():
            ids = tuple(id_of[context.document, context.text] for context in contexts)
            released[arm][question_of_text[text].id] = ids
    return released


PAIR_COLUMNS = frozenset({"Title", "Question", "Answer", "Relevant_doc", "Question_answer"})


def read_questions(path: Path) -> tuple[Question, ...]:
    """Read the pairs of ``QnA.csv`` in their order.

    Raises:
        QaRagDataError: A column is missing, or a row does not repeat its question.
    """
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    columns = rows[0].keys() if rows else set()
    missing = PAIR_COLUMNS - columns
    if missing:
        raise QaRagDataError(
            f"{path} should have the columns {sorted(PAIR_COLUMNS)}; missing: {sorted(missing)}."
        )
    return tuple(_question(number, row, path) for number, row in enumerate(rows))


_QUESTION_IN_PAIR = re.compile(r"Question: (.*?)\n\s*Answer:", re.DOTALL)
_NO_TITLE = re.compile(r"none\Z|nan\Z|i'm sorry", re.IGNORECASE)


def _question(number: int, row: Mapping[str, str], path: Path) -> Question:
    body = _QUESTION_IN_PAIR.match(row["Question_answer"])
    if body is None:
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
        body=body[1].strip(),
    )


_RULE = r"\s*-{20}\s*"
_CONTEXT = re.compile(
    rf"{_RULE}Question: (?P<question>.*?){_RULE}Context: (?P<text>.*)"
    rf"{_RULE}Context title: (?P<title>.*?)"
    rf"{_RULE}Relevance with the question: (?P<relevance>\S+)\s*\Z",
    re.DOTALL,
)


def read_contexts(path: Path) -> dict[str, tuple[Context, ...]]:
    """Read a released ranking, each passage as the text that the language model saw.

    Returns:
        The passages of each question, best first.

    Raises:
        QaRagDataError: A passage is not built as it was.
    """
    ranking = {}
    for text, shown_passages in json.loads(path.read_text(encoding="utf-8")).items():
        question = text.strip()
        contexts = []
        for number, shown in enumerate(shown_passages, start=1):
            parts = _CONTEXT.match(shown)
            if parts is None:
                raise QaRagDataError(
                    f"{path}: passage {number} of {text[:60]!r} should hold Question, Context, "
                    "Context title and Relevance with the question, between rules of 20 dashes."
                )
            title = " ".join(parts["title"].split())
            relevance = float(parts["relevance"])
            contexts.append(Context(question, title, parts["text"].strip(), relevance))
        ranking[question] = tuple(contexts)
    return ranking


def match(texts: Sequence[str], questions: Sequence[Question]) -> tuple[Question, ...]:
    """Find the pair of each text of a test question.

    Characters that the two files write differently do not count.

    Raises:
        QaRagDataError: No pair, or several with different answers, belong to a text.
    """
    by_text = defaultdict(list)
    for question in questions:
        by_text[words(question.text)].append(question)
    matched = []
    for text in texts:
        plain = words(text)
        found = by_text[plain]
        if not found:
            found = [question for question in questions if plain.endswith(words(question.body))]
        answers = {words(question.answer) for question in found}
        if len(answers) != 1:
            raise QaRagDataError(
                f"One pair was expected for the test question {text[:80]!r}; found {len(found)}."
            )
        matched.append(found[0])
    return tuple(matched)


def words(text: str) -> str:
    """A text reduced to its lower-case letters and digits, one space between words."""
    plain = unicodedata.normalize("NFKC", text).lower()
    return " ".join(re.findall(r"[a-z0-9]+", plain))


@lru_cache(maxsize=4096)
def _shingles(text: str) -> frozenset[str]:
    """Every sequence of ``N_SHINGLE_WORDS``; the full text if it is shorter."""
    sequence = words(text).split()
    n_shingles = len(sequence) - N_SHINGLE_WORDS + 1
    if n_shingles <= 1:
        full_text = " ".join(sequence)
        return frozenset([full_text] if full_text else [])
    shingles = [sequence[start : start + N_SHINGLE_WORDS] for start in range(n_shingles)]
    return frozenset(map(" ".join, shingles))


def share_held(answer: str, texts: Sequence[str]) -> float:
    """Share of an answer's word sequences that one of the texts holds word for word, 0 to 1."""
    shingles = _shingles(answer)
    if not shingles:
        return 0.0
    if len(shingles) == 1:
        (sequence,) = shingles
        padded_texts = [f" {words(text)} " for text in texts]
        return float(any(f" {sequence} " in text for text in padded_texts))
    held = frozenset().union(*map(_shingles, texts))
    return len(shingles & held) / len(shingles)


def answer_passages(
    question: Question, corpus: Corpus, min_share: float = MIN_SHARE_HELD
) -> dict[str, float]:
    """Find the passages that hold the FDA's answer word for word.

    An answer of fewer words than a sequence has is not looked for: it would be found by chance.

    Returns:
        The share of the answer that a passage holds, if at least ``min_share``, by passage id.
    """
    if len(words(question.answer).split()) < N_SHINGLE_WORDS:
        return {}
    found = {}
    for passage in corpus.passages:
        share = share_held(question.answer, [passage.text])
        if share >= min_share:
            found[passage.id] = share
    return found


MIN_SHARE_OF_ALL = 0.95
"""Share of an answer's word sequences from which on a passage holds all of it, but for what OCR may
have garbled."""


def holds_stratum(ids: Collection[str], shares: Mapping[str, float]) -> dict[str, str]:
    """What passages hold of an answer, as a stratum; none if there are no passages or no shares.

    Args:
        ids: The passages.
        shares: The share of the answer that each passage of the corpus holds.
    """
    if not ids or not shares:
        return {}
    largest = max(shares[passage_id] for passage_id in ids)
    if largest >= MIN_SHARE_OF_ALL:
        return {"holds": WHOLE_ANSWER}
    return {"holds": "a part" if largest else "nothing"}


WHOLE_ANSWER = "the whole answer"

_DATE = re.compile(r"\b[A-Z]{3,9} (19|20)\d\d\Z")  # "... Guidance for Industry JUNE 2021"


def source_documents(question: Question, corpus: Corpus) -> frozenset[str]:
    """Titles of the document that a question was taken from.

    They are its own title but for the date, and those of passages that hold the answer.
    """
    own_title = set(words(_DATE.sub("", question.source)).split())
    titles = set()
    for title in corpus.documents:
        if _is_same_title(own_title, set(words(title).split())):
            titles.add(title)
    for passage_id in answer_passages(question, corpus):
        titles.add(corpus.by_id[passage_id].document)
    return frozenset(titles)


_MONTH = re.compile(
    r" (JANUARY|FEBRUARY|MARCH|APRIL|MAY|JUNE|JULY|AUGUST|SEPTEMBER|OCTOBER|NOVEMBER|DECEMBER)"
    r" \d{4}"
)


def own_documents(question: Question, corpus: Corpus) -> frozenset[str]:
    """Titles that the authors' code takes for a question's own document.

    It removes them from the index if the query is the question; a hypothetical answer is never
    recognised (`model.py`, `get_context`).
    """
    title = _MONTH.sub("", question.source)
    return frozenset(
        document for document in corpus.documents if title in document.replace("-", " ")
    )


def named_documents(question: Question, corpus: Corpus) -> frozenset[str]:
    """Titles in the corpus of the guideline that a question names."""
    guideline = words(question.guideline)
    if not guideline:
        return frozenset()
    return frozenset(title for title in corpus.documents if words(title) == guideline)


_COMMON = {"guidance", "for", "industry", "and", "fda", "staff", "the", "of", "a", "in", "on"}


def _is_same_title(first: set[str], second: set[str]) -> bool:
    """Whether two titles share their words, but for the commonest and for one that was garbled."""
    first = first - _COMMON
    second = second - _COMMON
    if not first:
        return False
    return len(first & second) / len(first | second) >= MIN_TITLE_OVERLAP
