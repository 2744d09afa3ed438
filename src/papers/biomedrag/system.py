"""BiomedRAG on one's own labelled texts: teach it, score it on held-out rows, apply it.

What answers is the arm that notebooks 07 to 10 measure: memory, chunks and diversity of `memory`,
the scorer of `retriever`, taught by the model that reads, and `arms.BiomedRag`.
"""

import json
import logging
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np
import pandas as pd

from evaluation import figures
from evaluation.answers import Answer, make_row
from evaluation.outcomes import Outcomes
from helpers import llm as language_models, vectors
from helpers.completions import CapabilityError
from helpers.counting import counted
from helpers.llm import LLM
from helpers.vectors import Encoder
from papers.biomedrag import retriever as retrievers, study
from papers.biomedrag.arms import Arm, BiomedRag, Generator, Prediction, triple_lines
from papers.biomedrag.corpora import (
    Corpus,
    CorpusError,
    Example,
    Task,
    Triple,
    shortened,
    stratified,
)
from papers.biomedrag.floors import floor_arms
from papers.biomedrag.memory import Document, memory_of
from papers.biomedrag.own_rows import Row, corpus_of, question_of, row_of_text, task_of
from papers.biomedrag.retriever import Plan, Retriever, Teaching
from papers.biomedrag.scorer import Scorer
from rag.system_answer import Evidence, SystemAnswer
from resources.settings import DERIVED, profile_model, settings

log = logging.getLogger(__name__)

OWN = DERIVED / "own"
"""What is made of own data. Nothing exports it."""
REPLIES = OWN / "requests"
SYSTEMS = OWN / "extract"
"""A folder for each system that was trained on own rows."""
ROWS_FILE: Final = "rows.json"
SCORER_FILE: Final = "scorer.npz"
ARM_NAMES: Final = ("zero_shot", "knn", "cosine", "biomedrag")
"""The arms with a model, in the order of the table of scores."""
SIMPLE_ARM: Final[dict[Task, str]] = {
    "classification": "tfidf",
    "relations": "tfidf",
    "triples": "names",
}
"""The arm without a language model that is scored beside them."""
SHOWN_LABELS: Final = 12


@dataclass(frozen=True)
class Options:
    """What a person may choose of the system.

    Attributes:
        task: One of `own_rows.TASKS`; empty to take it from the rows.
        taught: Rows that teach the scorer; each costs about five requests.
        held_out: Held-out rows that each arm answers; each costs four requests.
        words: m, words of a chunk.
        max_words: Words of a text that the model reads; 0 for all.
        encoder: Encoder of sentences and chunks.
        seed: Seed of the division and of the draws.
        descriptions: T(l), a description of labels.
    """

    task: str = ""
    taught: int = 40
    held_out: int = 50
    words: int = 5
    max_words: int = 150
    encoder: str = vectors.DEFAULT_ENCODER
    seed: int = 20251121
    descriptions: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Extractor:
    """BiomedRAG that was taught on own rows.

    Attributes:
        corpus: The rows, in their splits.
        generator: The model that answers, with what its prompts hold.
        choose: Chooses the document of each text.
        max_words: Words of a text that the model reads; 0 for all.
    """

    corpus: Corpus
    generator: Generator
    choose: Retriever
    max_words: int

    @property
    def arm(self) -> Arm:
        """The arm of notebooks 07 to 10."""
        return BiomedRag(self.generator, self.choose)

    def ask(self, question: str) -> SystemAnswer:
        """Answer one text.

        Raises:
            CorpusError: The text is blank, or head and tail are needed.
        """
        (answer,) = self.apply([row_of_text(question, 1)])
        return answer

    def apply(self, rows: Sequence[Row]) -> list[SystemAnswer]:
        """Answer texts, each with the document that was retrieved for it.

        Raises:
            CorpusError: Head and tail are needed and a row has none.
        """
        questions = [question_of(row, self.corpus.task) for row in rows]
        examples = _cut(questions, self.max_words)
        predictions = self.arm(examples)
        documents = self.choose(examples)
        parts = zip(questions, predictions, documents, strict=True)
        return [self._answer(*part) for part in parts]

    def _answer(
        self, question: Example, prediction: Prediction, document: Document
    ) -> SystemAnswer:
        text = triple_lines(prediction.triples) or prediction.label or ""
        notes = []
        if prediction.overflow:
            notes.append("The prompt does not fit the model's context; nothing was asked.")
        elif not text:
            notes.append(f"The reply is none of the labels: {prediction.reply.strip()[:200]!r}.")
        n_words = len(question.text.split())
        if self.max_words and n_words > self.max_words:
            notes.append(f"The model read the first {self.max_words} of {n_words:,} words.")
        if not self.choose.scorer.losses:
            notes.append("No scorer was taught: the document is the nearest by cosine.")
        return SystemAnswer(
            question=question.text,
            text=text or "no answer",
            answered=bool(text),
            evidence=_evidence(document),
            notes=tuple(notes),
            details={"label": prediction.label, "reply": prediction.reply},
        )


def _evidence(document: Document) -> tuple[Evidence, ...]:
    """Return what the prompt showed: each chunk or text of the document, with its label."""
    evidence = []
    for shot in document.shots:
        kind = "text" if shot.is_whole_input else "chunk"
        row = shot.source.split(".")[1]
        evidence.append(Evidence(f"{shot.text} -> {shot.label}", f"{kind} of row {row}"))
    return tuple(evidence)


def _cut(examples: Sequence[Example], words: int) -> list[Example]:
    corpus = Corpus("", "classification", (), (), tuple(examples), {})
    return list(shortened(corpus, words).test)


@dataclass(frozen=True)
class Trained:
    """A system that was trained on own rows, with its scores on held-out ones.

    Attributes:
        extractor: The system.
        outcomes: Answers of all arms to the same held-out rows.
        notes: What the reader must know of the data and of the scores.
    """

    extractor: Extractor
    outcomes: Outcomes
    notes: tuple[str, ...]

    def table(self) -> figures.Html:
        """Show precision, recall and F1 of each arm with 95 % intervals."""
        n = self.outcomes.frame.unit.nunique()
        rows = counted(n, "held-out row")
        teach, serve = ("teaches", "serves") if n == 1 else ("teach", "serve")
        caption = (
            f"F1, precision and recall of each arm on {rows}, which neither {teach} the scorer nor "
            f"{serve} as an example. Higher is better. The intervals are over texts"
        )
        return self.outcomes.table(["f1", "precision", "recall"], caption)

    def comparisons(self) -> figures.Html:
        """Compare BiomedRAG with each other arm on the same rows."""
        others = [arm for arm in self.outcomes.arms if arm != "biomedrag"]
        pairs = [("biomedrag", arm) for arm in others]
        tests = self.outcomes.compare(pairs, "f1") if "biomedrag" in self.outcomes.arms else []
        return self.outcomes.comparison_table(tests, "F1 of BiomedRAG against the other arms")

    def __str__(self) -> str:
        """Write scores, tests and notes for a terminal."""
        parts = [str(self.table()), str(self.comparisons()), *self.notes]
        return "\n\n".join(parts)


def train(
    rows: Sequence[Row], name: str, options: Options | None = None, *, model: LLM | None = None
) -> Trained:
    """Teach BiomedRAG on own rows, score it on held-out ones, and store it.

    An interrupted training goes on where it was: replies are stored.

    Args:
        rows: The rows.
        name: Name of the system, for `load`.
        options: What a person may choose.
        model: The model that reads, and teaches the scorer; by default that of the settings.

    Raises:
        CorpusError: The rows are too few, or not as the task needs them.
        LlmError: The model cannot be asked.
    """
    options = options or Options()
    folder = folder_of(name)
    task = task_of(rows, options.task)
    corpus = corpus_of(rows, task, options.descriptions or {}, options.seed)
    notes = _describe_rows(rows, corpus)
    for line in notes:
        log.info("%s", line)
    corpus = shortened(corpus, options.max_words)
    model = model or _own_model()
    encoder = vectors.Remembering(vectors.encoder(options.encoder))
    memory = memory_of(corpus, encoder, words=options.words)
    drawn = stratified(corpus.train, options.taught, options.seed)
    held_out = stratified(corpus.test, options.held_out, options.seed)
    plan = Plan(memory, drawn, Teaching(seed=options.seed))
    log.info("%s", _cost(plan, model, len(held_out)))
    choose = plan.taught_by(model)
    generator = study.generator_for(model, corpus)
    extractor = Extractor(corpus, generator, choose, options.max_words)
    _save(folder, extractor, options, model)
    arms = study.prompted_arms(generator, choose, n=1)
    arms |= _simple_arm(corpus, encoder)
    answers = _answer_rows(arms, corpus, held_out, model)
    outcomes = Outcomes(answers, labels=study.LABELS, colours=study.COLOURS)
    return Trained(extractor, outcomes, notes)


def _own_model() -> LLM:
    return language_models.connect(profile_model(settings().profile), folder=REPLIES)


def _describe_rows(rows: Sequence[Row], corpus: Corpus) -> tuple[str, ...]:
    counts = pd.Series([example.label for example in _all_examples(corpus)]).value_counts()
    shown = [f"{label} ({n:,})" for label, n in counts.head(SHOWN_LABELS).items()]
    more = len(counts) - len(shown)
    rest = f" and {more} more" if more > 0 else ""
    n_rows, n_labels = counted(len(rows), "row"), counted(len(counts), "label")
    memory = counted(len(corpus.validation), "is", "are")
    held_out = counted(len(corpus.test), "is", "are")
    notes = [
        "The paper also fine-tunes the model on such prompts; here it is prompted.",
        f"Task: {corpus.task}. {n_rows}, {n_labels}: {', '.join(shown)}{rest}.",
        f"{counted(len(corpus.train), 'row')} may teach the scorer, {memory} the memory, "
        f"{held_out} held out. No text is in two parts.",
    ]
    n_several = sum(len(row.triples) > 1 for row in rows)
    if n_several:
        texts = counted(n_several, "text has", "texts have")
        notes.append(
            f"{texts} several triples: each is a row of its own, as in the paper's files, and one "
            "triple is answered for a text."
        )
    return tuple(notes)


def _all_examples(corpus: Corpus) -> list[Example]:
    return [*corpus.train, *corpus.validation, *corpus.test]


def _simple_arm(corpus: Corpus, encoder: Encoder) -> dict[str, Arm]:
    """Return the arm without a language model; none if the rows are too few to learn from."""
    name = SIMPLE_ARM[corpus.task]
    try:
        return {name: floor_arms(corpus, encoder)[name]}
    except ValueError as error:  # of scikit-learn, where no word or one label is left
        log.info("%s was left out: %s", study.LABELS[name], str(error).splitlines()[0])
        return {}


def _cost(plan: Plan, model: LLM, n_held_out: int) -> str:
    """Estimate how long the requests take, by those of the last row.

    Those of the first may start a server.
    """
    n_rows = len(plan.examples)
    try:
        retrievers.ask_likelihoods(plan.memory, model, plan.examples[:1], plan.teaching)
        began = time.perf_counter()
        lesson = retrievers.ask_likelihoods(plan.memory, model, plan.examples[-1:], plan.teaching)
    except CapabilityError:
        return f"{counted(len(ARM_NAMES) * n_held_out, 'request')}."
    seconds_per_request = (time.perf_counter() - began) / lesson.n_documents
    n_requests = (n_rows - 2) * lesson.n_documents + len(ARM_NAMES) * n_held_out
    minutes = max(1, round(seconds_per_request * n_requests / 60))
    requests = counted(n_requests, "request")
    return (
        f"About {requests}, some {counted(minutes, 'minute')} unless they are stored. If it is "
        "ended, the next run goes on."
    )


def _answer_rows(
    arms: Mapping[str, Arm], corpus: Corpus, rows: Sequence[Example], model: LLM
) -> list[Answer]:
    """Let each arm answer rows as the notebooks do; nothing is noted in a run."""
    units = study.units(corpus, rows)
    answers = []
    for name, arm in arms.items():
        scored = study.ScoredArm(arm, corpus)
        for unit, answered in zip(units, scored(units), strict=True):
            row = make_row(
                answered, unit, arm=name, source="rerun", run="own", model=model.endpoint.model
            )
            answers.append(row)
    return answers


def folder_of(name: str) -> Path:
    """Return the folder of a system.

    Raises:
        CorpusError: The name cannot be that of a folder.
    """
    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,80}", name):
        raise CorpusError(
            f"The name of a system has letters, digits, - and _; found {name!r}. Choose one by "
            "--name."
        )
    return SYSTEMS / name


def trained_names() -> list[str]:
    """List the systems that were trained, the newest first."""
    files = SYSTEMS.glob(f"*/{ROWS_FILE}")
    newest_first = sorted(files, key=lambda file: file.stat().st_mtime, reverse=True)
    return [file.parent.name for file in newest_first]


def _save(folder: Path, extractor: Extractor, options: Options, model: LLM) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    corpus = extractor.corpus
    content: dict[str, Any] = {
        "model": model.endpoint.model,
        "options": asdict(options) | {"task": corpus.task, "descriptions": corpus.labels},
        "validation": [asdict(example) for example in corpus.validation],
        "taught": list(extractor.choose.taught),
        "lesson": extractor.choose.lesson,
        "losses": list(extractor.choose.scorer.losses),
    }
    np.savez_compressed(folder / SCORER_FILE, projection=extractor.choose.scorer.projection)
    part = folder / f"{ROWS_FILE}.part"
    part.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
    part.replace(folder / ROWS_FILE)


def load(name: str = "", *, model: LLM | None = None) -> Extractor:
    """Load a system that `train` stored.

    Args:
        name: Its name; empty for the newest.
        model: The model that reads; by default that of the settings.

    Raises:
        CorpusError: There is none of that name, or it is damaged.
    """
    names = trained_names()
    chosen = name or next(iter(names), "")
    if chosen not in names:
        found = "No system is trained yet."
        if names:
            found = f"There is no trained system {name!r}; there are: {', '.join(names)}."
        raise CorpusError(f"{found} Train one: medrerun extract train FILE")
    try:
        content = json.loads((folder_of(chosen) / ROWS_FILE).read_text(encoding="utf-8"))
        with np.load(folder_of(chosen) / SCORER_FILE) as stored:
            projection = stored["projection"]
        return _extractor_of(content, projection, model or _own_model())
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise CorpusError(
            f"The trained system {chosen!r} is damaged ({error}). Train it again."
        ) from None


def _extractor_of(content: Mapping[str, Any], projection: np.ndarray, model: LLM) -> Extractor:
    options = Options(**content["options"])
    validation = tuple(_example_of(row) for row in content["validation"])
    task = task_of((), options.task)
    corpus = Corpus("own", task, (), validation, (), dict(options.descriptions or {}))
    encoder = vectors.Remembering(vectors.encoder(options.encoder))
    memory = memory_of(corpus, encoder, words=options.words)
    teaching = Teaching(seed=options.seed)
    scorer = Scorer(projection, teaching.eta, tuple(content["losses"]))
    choose = Retriever(
        memory,
        scorer,
        teaching.permuted,
        teaching.diverse,
        _as_tuple(content["taught"]),
        content["lesson"],
    )
    generator = study.generator_for(model, corpus)
    return Extractor(corpus, generator, choose, options.max_words)


def _example_of(row: Mapping[str, Any]) -> Example:
    triples = tuple(Triple(**triple) for triple in row["triples"])
    return Example(row["id"], row["text"], row["label"], triples)


def _as_tuple(values: Sequence[object]) -> tuple[object, ...]:
    return tuple(values)
