"""The paper's system on own documents (QA-RAG, Figure 1): a question in, a cited answer out.

The steps are those of notebooks 16 and 17. A question is searched with twice, as it is and by a
hypothetical answer; a reranker selects six passages; a model answers from their excerpts.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from evaluation import figures
from helpers import documents, llm, vectors
from helpers.counting import counted
from helpers.llm import LLM, ContextOverflowError
from papers.qa_rag import answers, data, finetune, folder as own_folder, own_pairs, retrieval
from papers.qa_rag.answers import CitedAnswer, Excerpt, read
from papers.qa_rag.data import Data, Passage, Question, share_held, words
from papers.qa_rag.rerankers import ScoringAgent, choose_reranker
from papers.qa_rag.retrieval import BestWindow, Reranker
from papers.qa_rag.search import Search, Searcher
from rag.system_answer import Evidence, SystemAnswer
from resources.settings import DERIVED, PublicError, profile_model, settings

log = logging.getLogger(__name__)

MAX_CHARACTERS = 4800
"""Characters of passages in the prompt: about 1,200 tokens."""

N_CANDIDATES = 12
"""Passages of each track (section 3.3)."""

N_EXAMPLES = 2
"""Pairs that stand before the question, as in notebook 17."""

EXAMPLE_SEED = 20251121
"""Draws the examples, as in notebook 17."""

REPLIES = DERIVED / "own" / "requests"
"""Replies about own documents. Nothing exports them."""

SCORING_AGENT = "agent"
"""Name of the reranker that asks the answering model for a score of each candidate."""

HYPOTHETICAL = "hypothetical answer"
"""Name of the second track."""

NOT_HELD = "The excerpts contain no sequence of this answer's words. The model wrote:"

NO_WORDS = "The model wrote no answer."
ONLY_NUMBERS = "The model wrote no answer, only the numbers of excerpts:"

NO_QUESTION = "There is no question. Write one, such as: How long should reference samples be kept?"


class NoQuestion(PublicError, ValueError):
    """There is no question."""


@dataclass(frozen=True)
class Guidance:
    """The paper's system on own documents: the arms of notebooks 16 and 17, asked freely.

    A fine-tuned model writes the hypothetical answer. Where there is none, the answering model
    does by HyDE's prompt, and each answer says so.

    Attributes:
        searcher: The documents; see ``folder.open_library``.
        llm: The model that answers.
        reranker: Orders what both tracks found, such as ``BestWindow`` or ``ScoringAgent``.
        examples: Pairs of a question and its answer that stand before the question.
        tuned: The model that is fine-tuned on such pairs, if there is one.
        max_characters: Characters of the excerpts in one prompt.
        max_tokens: Longest answer, in tokens.
        hypothetical_tokens: Longest hypothetical answer, in tokens.
        by: What of a passage both tracks search: its start as in the paper, its windows, its words.
        notes: What else stands in for a part of the paper's system.
    """

    searcher: Searcher
    llm: LLM
    reranker: Reranker
    examples: Sequence[Question] = ()
    tuned: LLM | None = None
    max_characters: int = MAX_CHARACTERS
    max_tokens: int = 160
    hypothetical_tokens: int = 96
    by: Search = "start"
    notes: tuple[str, ...] = ()

    @property
    def config(self) -> retrieval.ArmConfig:
        """What is searched with: the arm of the paper, or that with HyDE in its second track."""
        if self.tuned is not None:
            return replace(retrieval.PRINTED["qa_rag"], by=self.by)
        tracks = (("question", N_CANDIDATES), ("hyde", N_CANDIDATES))
        return retrieval.ArmConfig("QA-RAG: question (12), HyDE (12)", tracks, by=self.by)

    def ask(self, question: str) -> SystemAnswer:
        """Answer one question; see ``answer``."""
        (answered,) = self.answer([question])
        return answered

    def answer(self, texts: Sequence[str]) -> list[SystemAnswer]:
        """Answer questions.

        Raises:
            NoQuestion: One of them is blank.
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
        answered = []
        for question, (reply, excerpts) in zip(questions, arm.ask(questions), strict=True):
            if reply.status == "overflow":
                raise ContextOverflowError(
                    f"The prompt with {self.max_characters:,} characters of passages does not fit "
                    "the context of the model. Ask for fewer."
                )
            tracks = self._texts_of(question, queries)
            answered.append(self._system_answer(question, read(reply, excerpts), tracks))
        return answered

    def _queries(self, questions: Sequence[Question]) -> retrieval.Queries:
        queries = retrieval.plain_queries(questions)
        writer = retrieval.QueryWriter(
            self.tuned or self.llm, self.hypothetical_tokens, HYPOTHETICAL
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

    def _system_answer(
        self, question: Question, answer: CitedAnswer, tracks: Mapping[str, str]
    ) -> SystemAnswer:
        found_by = self._found_by(answer.excerpts, tracks)
        evidence = []
        for number, (excerpt, finders) in enumerate(
            zip(answer.excerpts, found_by, strict=True), start=1
        ):
            source = _source(number, excerpt.passage, excerpt.places)
            evidence.append(Evidence(excerpt.text, source, {"found by": finders}))
        is_supported = answer.refused or _share_in_excerpts(answer) > 0
        text = answer.text if is_supported else _unsupported_text(answer)
        is_cited = is_supported or not _has_words(answer)
        citations = [_citation_of(answer, number) for number in answer.cited] if is_cited else []
        return SystemAnswer(
            question.text,
            text,
            answered=is_supported and not answer.refused,
            evidence=tuple(evidence),
            citations=tuple(citations),
            warnings=_check_sources(answer),
            notes=(*_how_much_is_quoted(answer), *self._stand_ins()),
            details={HYPOTHETICAL: tracks[HYPOTHETICAL]},
        )

    def _found_by(self, excerpts: Sequence[Excerpt], texts: Mapping[str, str]) -> tuple[str, ...]:
        ids_by_track = {}
        for track, text in texts.items():
            rows = self.searcher.search([text], N_CANDIDATES, self.config.by)[0] if text else []
            ids_by_track[track] = {self.searcher.corpus.passages[row].id for row in rows}
        found_by = []
        for excerpt in excerpts:
            tracks = [track for track, ids in ids_by_track.items() if excerpt.passage.id in ids]
            found_by.append(" and ".join(tracks))
        return tuple(found_by)

    def _stand_ins(self) -> tuple[str, ...]:
        if self.tuned is not None:
            return self.notes
        model = self.llm.endpoint.model
        hyde = f"No fine-tuned model is served, so {model} writes the hypothetical answer (HyDE)."
        return (hyde, *self.notes)

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
        raise NoQuestion(NO_QUESTION)
    return Question(f"own{number}", text, answer="", guideline="", source="", body=text)


def _source(number: int, passage: Passage, places: Iterable[str]) -> str:
    """Number, file and pages or sections of an excerpt, such as ``[1] guide.pdf, page 3``."""
    return ", ".join([f"[{number}] {passage.document}", *places])


def _citation_of(answer: CitedAnswer, number: int) -> str:
    """The source of an excerpt that an answer cites, with the places that the answer used."""
    excerpt = answer.excerpts[number - 1]
    return _source(number, excerpt.passage, _used_places(answer.text, excerpt))


def _used_places(text: str, excerpt: Excerpt) -> tuple[str, ...]:
    """The pages or sections of an excerpt that an answer comes from, as far as its words tell.

    These are the places that hold a sequence of its words; if none does, those that have most of
    its words; if none has any, all that the excerpt shows.
    """
    parts = _shown_parts(excerpt)
    holding = [name for name, part in parts.items() if share_held(text, [part]) > 0]
    if holding:
        return tuple(holding)
    answer_words = _word_set(text)
    n_shared = {name: len(answer_words & _word_set(part)) for name, part in parts.items()}
    highest = max(n_shared.values(), default=0)
    if not highest:
        return excerpt.places
    return tuple(name for name, count in n_shared.items() if count == highest)


def _word_set(text: str) -> set[str]:
    return set(words(text).split())


def _shown_parts(excerpt: Excerpt) -> dict[str, str]:
    """The text of each page or section that an excerpt has something of, by its name.

    A short one may lie within the text that is shown from the one before it.
    """
    passage = excerpt.passage
    shown = words(excerpt.text)
    starts = [place.start for place in passage.places]
    ends = [*starts[1:], len(passage.text)]
    parts: dict[str, str] = {}
    for place, end in zip(passage.places, ends, strict=False):
        part = passage.text[place.start : end]
        is_shown = place.name in excerpt.places or words(part) in shown
        if place.name and is_shown:
            parts[place.name] = f"{parts.get(place.name, '')} {part}"
    return parts


def _has_words(answer: CitedAnswer) -> bool:
    return bool(words(answer.text))


def _unsupported_text(answer: CitedAnswer) -> str:
    """An answer of which the excerpts hold no sequence of words, with that remark."""
    if _has_words(answer):
        return f"{NOT_HELD} {answer.text}"
    if answer.cited:
        return f"{ONLY_NUMBERS} {_listed_numbers(answer.cited)}."
    return NO_WORDS


def _share_in_excerpts(answer: CitedAnswer) -> float:
    """Share of an answer that its excerpts hold word for word, 0 to 1."""
    return share_held(answer.text, [excerpt.text for excerpt in answer.excerpts])


def _check_sources(answer: CitedAnswer) -> tuple[str, ...]:
    """What speaks against relying on an answer."""
    if answer.refused or not _has_words(answer):
        return ()
    if _share_in_excerpts(answer) == 0:
        return (
            "The excerpts contain no sequence of the answer's words. Read them before you use it.",
        )
    if not answer.cited:
        return ("The answer names no source, so check it before you rely on it.",)
    return _check_cited_passages(answer)


def _check_cited_passages(answer: CitedAnswer) -> tuple[str, ...]:
    """Name the passages that hold words of an answer whose cited passages hold none of them."""
    texts = {number: excerpt.text for number, excerpt in enumerate(answer.excerpts, start=1)}
    holders = {number for number, text in texts.items() if share_held(answer.text, [text])}
    if not holders or not holders.isdisjoint(answer.cited):
        return ()
    return (
        f"The answer cites {_listed_numbers(answer.cited)}, but the words that it quotes are in "
        f"{_listed_numbers(sorted(holders))}. Read these excerpts before you use the answer.",
    )


def _listed_numbers(numbers: Iterable[int]) -> str:
    return ", ".join(f"[{number}]" for number in numbers)


def _how_much_is_quoted(answer: CitedAnswer) -> tuple[str, ...]:
    share = 0.0 if answer.refused else _share_in_excerpts(answer)
    if share == 0:
        return ()
    return (f"The excerpts contain {figures.number(share, digits=0)} of the answer word for word.",)


@dataclass(frozen=True)
class Options:
    """What a person may choose of the system.

    Attributes:
        tuned: Name of a served model that is fine-tuned on pairs of a question and its answer.
        pairs: File of own pairs that a small model is trained on, and that examples come from.
        reranker: A cross-encoder of a hub, ``agent``, or empty for the encoder on windows.
        encoder: Encoder of passages.
        search: What of a passage is searched: ``start`` (as in the paper), ``windows``, or
            ``words`` (BM25), which needs no index and found most in the book.
        data: Where the examples come from if there are no own pairs: ``auto`` (the released pairs
            if a source answers, else the bundled sample), ``real`` or ``sample``.
        n_examples: Number of pairs that stand before the question.
        max_characters: Characters of the excerpts in one prompt.
        max_tokens: Longest answer, in tokens.
    """

    tuned: str = ""
    pairs: Path | None = None
    reranker: str = ""
    encoder: str = vectors.DEFAULT_ENCODER
    search: Search = "start"
    data: str = "auto"
    n_examples: int = N_EXAMPLES
    max_characters: int = MAX_CHARACTERS
    max_tokens: int = 160


def open_guidance(
    folder: Path, options: Options | None = None, *, model: LLM | None = None
) -> Guidance:
    """Make the paper's system of a folder of own documents.

    The log says what was read, what was left out and why, and how long the index will take.

    Args:
        folder: The folder; see ``folder.open_library``.
        options: What a person may choose.
        model: The model that answers; by default the one of the settings. Its replies are stored
            where nothing exports them.

    Raises:
        FolderError: There is no such folder, or nothing in it can be read.
        QaRagDataError: The file of pairs has another form.
        EngineError: A model was to be trained, and this machine's engine cannot do it.
        ServiceError: See ``own_pairs.fine_tune``.
    """
    options = options or Options()
    library = own_folder.open_library(folder, options.encoder)
    for line in documents.describe(library.left_out):
        log.warning("Left out: %s", line)
    log.info("%s: %s", folder, library.contents(options.search))
    if model is None:
        model = llm.connect(profile_model(settings().profile), folder=REPLIES)
    reranker, notes = _choose_reranker(options.reranker, library.searcher, model)
    reads_whole = isinstance(reranker, BestWindow)
    notes += _how_it_searches(library.searcher, options.search, reads_whole=reads_whole)
    pairs = own_pairs.read_pairs(options.pairs) if options.pairs else ()
    return Guidance(
        library.searcher,
        model,
        reranker,
        _examples(pairs, options),
        _tuned_model(options.tuned, pairs),
        options.max_characters,
        options.max_tokens,
        by=options.search,
        notes=notes,
    )


def _choose_reranker(name: str, searcher: Searcher, model: LLM) -> tuple[Reranker, tuple[str, ...]]:
    if name == SCORING_AGENT:
        return ScoringAgent(searcher, model), ()
    (_, reranker), not_run = choose_reranker(name, searcher)
    if name and name in not_run:
        return reranker, (f"{name} does not rerank, the encoder does: {not_run[name]}",)
    return reranker, ()


def _how_it_searches(searcher: Searcher, by: Search, *, reads_whole: bool) -> tuple[str, ...]:
    """How the search differs from the paper's, or how much of the passages it reads.

    Args:
        searcher: The documents.
        by: What of a passage is searched.
        reads_whole: Whether the reranker reads whole passages; a cross-encoder cuts them.
    """
    if by != "start":
        return (f"Passages are searched by their {by}, not by their beginnings as in the paper.",)
    if not searcher.n_cut:
        return ()
    encoder = searcher.encode
    of_reranker = "The reranker reads the whole passages that the search finds. "
    note = (
        f"The search reads the first {encoder.max_tokens} tokens of each passage, because its "
        f"encoder ({encoder.name}) reads no more. The paper's encoder reads 512 tokens. "
        f"{of_reranker if reads_whole else ''}A search by words (BM25) reads whole passages. In "
        "this book's reference run, it found more answers than the search by an encoder."
    )
    return (note,)


def _examples(pairs: Sequence[Question], options: Options) -> list[Question]:
    """Examples from own pairs, or from the released ones if there are none."""
    if not pairs:
        return answers.examples(data.load(options.data), options.n_examples, EXAMPLE_SEED)
    shortest, longest = answers.EXAMPLE_CHARACTERS
    short = [pair for pair in pairs if shortest <= len(pair.answer) <= longest]
    return answers.choose(short, options.n_examples, EXAMPLE_SEED)


def _tuned_model(name: str, pairs: Sequence[Question]) -> LLM | None:
    if name:
        return llm.connect(name, exact=True, folder=REPLIES)
    if not pairs:
        return None
    recipe = own_pairs.training_settings(settings().profile)
    log.info(
        "A model is fine-tuned on %s, once: %s on %s.",
        counted(len(pairs), "pair"),
        counted(recipe["steps"], "step"),
        recipe["base"],
    )
    return own_pairs.fine_tune(pairs, REPLIES)
