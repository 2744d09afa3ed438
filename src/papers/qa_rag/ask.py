"""Ask a folder of guidance documents in words: passages of both tracks, answer, and sources.

The steps are the paper's (QA-RAG, Figure 1).
"""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from evaluation import figures
from helpers import documents, vectors
from helpers.llm import LLM, ContextOverflowError
from papers.qa_rag import answers, data, finetune, retrieval
from papers.qa_rag.answers import CitedAnswer, make_excerpts, prompt, read
from papers.qa_rag.data import Corpus, Data, Passage, Question, share_held
from papers.qa_rag.rerankers import choose_reranker
from papers.qa_rag.retrieval import N_SELECTED, BestWindow, Reranker, rerank
from papers.qa_rag.search import Searcher
from rag.retrieval import chunk_spans, reciprocal_rank_fusion

log = logging.getLogger(__name__)

MAX_CHARACTERS = 4800
"""Characters of passages in the prompt: about 1,200 tokens."""

N_CANDIDATES = 12
"""Passages of each track (section 3.3)."""

CHUNK = 10_000
"""Characters of a chunk (section 2.2)."""

OVERLAP = 2_000
"""Characters that two chunks share (section 2.2)."""

EXAMPLE_SEED = 20251121
"""Draws the examples, as in notebook 17."""

HYPOTHETICAL = "hypothetical answer"
"""Name of the second track."""

NO_QUESTION = "There is no question. Write one, such as: How long should reference samples be kept?"

MAX_FILE_NAME_BYTES = 200
"""File systems take 255 bytes, those of the ending and a number included."""


@dataclass(frozen=True)
class OwnAnswer:
    """What became of a question.

    Attributes:
        question: The question.
        hypothetical: The answer from own knowledge that was searched with.
        answer: The answer from the excerpts.
        found_by: What found each excerpt: question, hypothetical answer, or both.
        note: What stands in for a part of the paper's system.
    """

    question: str
    hypothetical: str
    answer: CitedAnswer
    found_by: tuple[str, ...]
    note: str = ""

    @property
    def quoted(self) -> float:
        """Share of the answer's sequences of eight words that its sources hold word by word."""
        return share_held(self.answer.text, [excerpt.text for excerpt in self.answer.excerpts])

    def citation(self, number: int) -> str:
        """The file of an excerpt, and its pages or sections, such as ``guide.pdf, page 3``."""
        excerpt = self.answer.excerpts[number - 1]
        return ", ".join([excerpt.passage.document, *excerpt.places])

    def _repr_html_(self) -> str:
        return show(self).html

    def __str__(self) -> str:
        """The answer, and the documents that it names."""
        cited = [f"[{number}] {self.citation(number)}" for number in self.answer.cited]
        sources = "; ".join(cited) or "It names no source."
        return "\n".join(filter(None, [self.answer.text, sources, self.note]))


def read_folder(folder: Path) -> tuple[Corpus, Mapping[str, str]]:
    """Read the documents of a folder in chunks (section 2.2).

    Returns:
        The chunks, and the reason for each file or folder that was left out, by its name.

    Raises:
        FolderError: There is no such folder, or no file in it holds text that can be read.
    """
    found = documents.read_folder(folder)
    passages = []
    for document in found.documents:
        passages += chunk(document)
    return Corpus(tuple(passages)), found.left_out


def chunk(document: documents.Document) -> list[Passage]:
    """Cut a document into chunks that know their pages or sections."""
    passages = []
    for start, end in chunk_spans(document.text, CHUNK, OVERLAP):
        text = document.text[start:end]
        first = start + len(text) - len(text.lstrip())
        places = document.places_within(first, end)
        passage = Passage(f"{document.name}:{start}", document.name, text.strip(), places)
        passages.append(passage)
    return passages


def library(folder: Path, encoder: str = vectors.DEFAULT_ENCODER) -> Searcher:
    """Make a folder of guidance documents ready to be asked.

    A logged warning says what is left out.

    Raises:
        FolderError: There is no such folder, or nothing in it can be read.
    """
    corpus, left_out = read_folder(folder)
    for line in documents.describe(left_out):
        log.warning("Left out: %s", line)
    return Searcher(corpus, vectors.encoder(encoder))


def write_folder(passages: Iterable[Passage], folder: Path) -> Path:
    """Write passages as a folder of text files, one a document.

    A file is named by the title of its document, and numbered where two share a name.
    """
    folder.mkdir(parents=True, exist_ok=True)
    texts_by_title: dict[str, list[str]] = {}
    for passage in passages:
        texts_by_title.setdefault(passage.document, []).append(passage.text)
    used_names: set[str] = set()
    for title, texts in texts_by_title.items():
        name = _unused_name(_file_name(title), used_names)
        used_names.add(name.casefold())
        (folder / f"{name}.txt").write_text("\n\n".join(texts), encoding="utf-8")
    return folder


def _file_name(title: str) -> str:
    plain = re.sub(r"[^\w()-]+", " ", title).strip()
    return plain.encode()[:MAX_FILE_NAME_BYTES].decode(errors="ignore") or "untitled"


def _unused_name(name: str, used_names: set[str]) -> str:
    """The name, numbered if it is used; some file systems take capitals for small letters."""
    unused = name
    number = 2
    while unused.casefold() in used_names:
        unused = f"{name} ({number})"
        number += 1
    return unused


def answer(
    question: str,
    searcher: Searcher,
    llm: LLM,
    *,
    max_characters: int = MAX_CHARACTERS,
    max_tokens: int = 160,
) -> OwnAnswer:
    """Answer a question from a `library`, by passages that it and a hypothetical answer find.

    Args:
        question: The question.
        searcher: The library.
        llm: The model that answers.
        max_characters: Of more characters of passages the parts nearest to the question are shown.
        max_tokens: Longest answer, in tokens.

    Raises:
        ValueError: There is no question.
        ContextOverflowError: The prompt does not fit; ask for fewer characters.
    """
    if not question.strip():
        raise ValueError(NO_QUESTION)
    hypothetical = _hypothetical_answer(question, llm)
    passages, found_by = _find_passages(question, hypothetical, searcher)
    excerpts = make_excerpts(question, passages, max_characters)
    (reply,) = llm.chat_many([prompt(question, excerpts)], max_tokens=max_tokens, label="answer")
    return OwnAnswer(
        question,
        hypothetical,
        read(reply, excerpts),
        tuple(found_by[excerpt.passage.id] for excerpt in excerpts),
    )


def _hypothetical_answer(question: str, llm: LLM) -> str:
    prompts = [prompt(question, ())]
    (reply,) = llm.chat_many(prompts, max_tokens=96, label="hypothetical answer")
    return reply.text.strip()


def _find_passages(
    question: str, hypothetical: str, searcher: Searcher
) -> tuple[list[Passage], dict[str, str]]:
    """The passages of both tracks, best first, and what found each, by its id."""
    # an empty hypothetical answer finds nothing
    tracks = {"question": question, HYPOTHETICAL: hypothetical or question}
    results = searcher.search(list(tracks.values()), N_CANDIDATES, by="windows")
    rows_by_track = dict(zip(tracks, results, strict=True))
    fused = {"": reciprocal_rank_fusion(results)}
    ranked, _ = rerank(fused, BestWindow(searcher), {"": question})
    passages = []
    found_by = {}
    for row in ranked[""][:N_SELECTED]:
        passage = searcher.corpus.passages[row]
        passages.append(passage)
        finders = [track for track, rows in rows_by_track.items() if row in rows]
        found_by[passage.id] = " and ".join(finders)
    return passages, found_by


@dataclass(frozen=True)
class Guidance:
    """The paper's system on own documents: the arms of notebooks 16 and 17, asked freely.

    A question is searched with twice: as it is, and by a hypothetical answer. A fine-tuned model
    writes that answer; where none is served, the answering model does by HyDE's prompt. A reranker
    selects six passages, and the model answers from their excerpts.

    Attributes:
        searcher: The documents; see ``library``.
        llm: The model that answers.
        reranker: Orders what both tracks found, such as ``BestWindow`` or ``ScoringAgent``.
        examples: Pairs of a question and its answer that stand before the question.
        tuned: The model that is fine-tuned on such pairs, if there is one.
        max_characters: Characters of the excerpts in one prompt.
        max_tokens: Longest answer, in tokens.
        hypothetical_tokens: Longest hypothetical answer, in tokens.
    """

    searcher: Searcher
    llm: LLM
    reranker: Reranker
    examples: Sequence[Question] = ()
    tuned: LLM | None = None
    max_characters: int = MAX_CHARACTERS
    max_tokens: int = 160
    hypothetical_tokens: int = 96

    @property
    def config(self) -> retrieval.ArmConfig:
        """What is searched with: the arm of the paper, or that with HyDE in its second track."""
        if self.tuned is not None:
            return retrieval.PRINTED["qa_rag"]
        tracks = (("question", N_CANDIDATES), ("hyde", N_CANDIDATES))
        return retrieval.ArmConfig("QA-RAG: question (12), HyDE (12)", tracks)

    @property
    def note(self) -> str:
        """What stands in for the fine-tuned model; empty if there is one."""
        if self.tuned is not None:
            return ""
        model = self.llm.endpoint.model
        return f"No fine-tuned model is served: {model} writes the hypothetical answer (HyDE)."

    def __call__(self, texts: Sequence[str]) -> list[OwnAnswer]:
        """Answer questions.

        Raises:
            ValueError: One of them is blank.
            ContextOverflowError: A prompt does not fit; ask for fewer characters.
        """
        questions = [_own_question(number, text) for number, text in enumerate(texts)]
        queries = self._queries(questions)
        find = retrieval.Retrieval(self.searcher, self.config, queries, self.reranker)
        arm = answers.AnswerFromPassages(
            self.llm,
            answers.ArmConfig("QA-RAG, own documents", contexts="own"),
            self._data(),
            self.examples,
            max_characters=self.max_characters,
            max_tokens=self.max_tokens,
            contexts=find.select_ids(questions),
        )
        own_answers = []
        for question, (reply, excerpts) in zip(questions, arm.ask(questions), strict=True):
            if reply.status == "overflow":
                raise ContextOverflowError(
                    f"The prompt with {self.max_characters:,} characters of passages does not fit "
                    "the context of the model. Ask for fewer."
                )
            texts_of_question = self._texts_of(question, queries)
            own = OwnAnswer(
                question.text,
                texts_of_question[HYPOTHETICAL],
                read(reply, excerpts),
                self._found_by(excerpts, texts_of_question),
                self.note,
            )
            own_answers.append(own)
        return own_answers

    def _queries(self, questions: Sequence[Question]) -> retrieval.Queries:
        queries = retrieval.plain_queries(questions)
        writer = retrieval.QueryWriter(
            self.tuned or self.llm, self.hypothetical_tokens, "hypothetical answer"
        )
        if self.tuned is not None:
            prompts = [finetune.prompt(question) for question in questions]
            return queries | {"tuned": writer.write(questions, prompts)}
        prompts = [retrieval.hyde_prompt(question) for question in questions]
        return queries | {"hyde": writer.write(questions, prompts)}

    def _texts_of(self, question: Question, queries: retrieval.Queries) -> dict[str, str]:
        """The text of each track; that of the second is empty if the model's reply is."""
        _, (kind, _) = self.config.tracks
        return {"question": question.text, HYPOTHETICAL: "".join(queries[kind][question.id].texts)}

    def _found_by(
        self, excerpts: Sequence[answers.Excerpt], texts: Mapping[str, str]
    ) -> tuple[str, ...]:
        ids_by_track = {}
        for track, text in texts.items():
            rows = self.searcher.search([text], N_CANDIDATES, self.config.by)[0] if text else []
            ids_by_track[track] = {self.searcher.corpus.passages[row].id for row in rows}
        found_by = []
        for excerpt in excerpts:
            tracks = [track for track, ids in ids_by_track.items() if excerpt.passage.id in ids]
            found_by.append(" and ".join(tracks))
        return tuple(found_by)

    def _data(self) -> Data:
        return Data(
            questions=(),
            test=(),
            corpus=self.searcher.corpus,
            released={},
            rankings={},
            files=(),
            sample=False,
        )


def _own_question(number: int, text: str) -> Question:
    if not text.strip():
        raise ValueError(NO_QUESTION)
    return Question(f"own{number}", text, answer="", guideline="", source="", body=text)


def open_guidance(
    folder: Path,
    llm: LLM,
    *,
    tuned: LLM | None = None,
    reranker: str = "",
    encoder: str = vectors.DEFAULT_ENCODER,
    n_examples: int = 2,
) -> Guidance:
    """Make the paper's system of a folder of own documents.

    Args:
        folder: The folder; see ``library``.
        llm: The model that answers.
        tuned: A model that is fine-tuned on pairs of a question and its answer.
        reranker: A cross-encoder of a hub; empty for the encoder on windows.
        encoder: Encoder of passages.
        n_examples: Number of the released pairs that stand before the question.

    Raises:
        FolderError: There is no such folder, or nothing in it can be read.
    """
    searcher = library(folder, encoder)
    (_, order), not_run = choose_reranker(reranker, searcher)
    if reranker and reranker in not_run:
        log.warning("%s does not rerank: %s", reranker, not_run[reranker])
    pairs = answers.examples(data.load("auto"), n_examples, EXAMPLE_SEED)
    return Guidance(searcher, llm, order, pairs, tuned)


def show(own: OwnAnswer, *, sample: bool = False) -> figures.Html:
    """Show an answer with its sources as a table: those that it names first."""
    cited = own.answer.cited
    numbers = range(1, len(own.answer.excerpts) + 1)
    rows = []
    for number in sorted(numbers, key=lambda number: number not in cited):
        row = {
            "": f"[{number}]",
            "document": own.citation(number),
            "passage": own.answer.excerpts[number - 1].text,
            "found by": own.found_by[number - 1],
        }
        rows.append(row)
    named = ", ".join(f"[{number}]" for number in cited)
    names = f"It names {named}."
    if not named:
        names = "It names no source: check it before you rely on it."
    text = (
        f"{names} {figures.number(own.quoted, digits=0)} of its word sequences are in the passages "
        f"word by word. Without sources the model said: {own.hypothetical}"
    )
    if own.note:
        text += f" {own.note}"
    table = figures.table(
        pd.DataFrame(rows), f"Sources of the answer to: {own.question}", sample=sample
    )
    messages = [{"role": "question", "content": own.question}]
    head = figures.prompt_box(messages, answer=own.answer.text)
    html = f"{head.html}<p>{figures.inline(text)}</p>{table.html}"
    return figures.Html(html, f"{own.question}\n{own.answer.text}\n{text}\n{table.text}")
