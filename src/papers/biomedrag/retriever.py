"""BiomedRAG's retriever: memory, taught scorer, and the document that it chooses.

P_LLM(y | d, x) is the served model's likelihood, one stored request for each input x, document d
and answer y. vLLM computes a prompt anew when it is asked for its log-probabilities, cached prefix
or not, so these prompts hold nothing that all have in common: no instruction, just document, input
and answer (biomedrag.md, 4.2).
"""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from evaluation.record import Run
from helpers.completions import CapabilityError
from helpers.llm import LLM
from helpers.neighbours import (
    Query,
    Result,
    Search,
    check_by_repeating,
    replay_or_search,
    text_digest,
)
from helpers.vectors import Floats, Remembering
from papers.biomedrag import encoder_tuning
from papers.biomedrag.corpora import Example
from papers.biomedrag.memory import Document, Memory, pair_vectors
from papers.biomedrag.scorer import ETA, Objective, Scorer, cosine_scorer, train

UNTAUGHT: Final = (
    "BiomedRAG was not run: the server gives no log-probabilities of a prompt, which teach its "
    "scorer."
)


@dataclass(frozen=True)
class Retriever:
    """Chooses a document for each input.

    Attributes:
        memory: Makes the candidates.
        scorer: Weighs them.
        permuted: See `Memory.candidates`.
        diverse: See `Memory.candidates`.
        taught: What decided the scorer, as values that are the same on every processor; empty if
            nothing taught it.
        lesson: Digest of the likelihoods that taught it.
    """

    memory: Memory
    scorer: Scorer
    permuted: int = 2
    diverse: bool = True
    taught: tuple[object, ...] = ()
    lesson: str = ""

    def __call__(self, examples: Sequence[Example]) -> list[Document]:
        """Choose the document of each example's candidates that the scorer weighs highest."""
        texts = [example.text for example in examples]
        encoder = self.scorer.encoder or self.memory.encoder
        search = Search(self._operation, encoder.digest, self.memory.digest, len(examples))
        results = replay_or_search(search, texts, self._choose, check_by_repeating(self._choose))
        candidates = self._candidates(texts)
        return [
            documents[result.ids[0]] for documents, result in zip(candidates, results, strict=True)
        ]

    @property
    def _operation(self) -> str:
        """What decides a choice beside the memory; a scorer that nothing taught is the cosine."""
        taught = [repr(self.taught), self.lesson] if self.scorer.losses else ["cosine"]
        return f"choose {text_digest(taught)} {self.permuted} {self.diverse}"

    def _candidates(self, texts: Sequence[str]) -> list[list[Document]]:
        return self.memory.candidates(texts, diverse=self.diverse, permuted=self.permuted)

    def _choose(self, queries: Sequence[Query]) -> list[Result]:
        """Find the position of each text's best document among its candidates."""
        texts = [str(text) for text in queries]
        candidates = self._candidates(texts)
        encoder = self.scorer.encoder or self.memory.encoder
        inputs, vectors = pair_vectors(texts, candidates, encoder)
        choices = []
        for text_vector, document_vectors in zip(inputs, vectors, strict=True):
            choice = self.scorer.choose(text_vector, document_vectors)
            choices.append(Result(np.array([choice])))
        return choices


def likelihood_prompt(example: Example, document: Document) -> tuple[str, str]:
    """Return context and continuation whose log-likelihood is log P_LLM(y | d, x).

    The answer y is the label also where triples are extracted: the released scorer is taught on the
    relation.
    """
    shots = "".join(f"{shot.text} => {shot.label}\n" for shot in document.shots)
    return f"{shots}{example.text} =>", f" {example.label}"


@dataclass(frozen=True)
class Teaching:
    """How the scorer is trained, and on which documents.

    Attributes:
        objective: The loss, see `scorer.Objective`.
        eta: Temperature of the softmax.
        epochs: Steps of the training of a projection.
        seed: Seed of the training of an encoder.
        permuted: Number of best pairs to permute, see `Memory.candidates`.
        diverse: Whether pairs are permuted, see `Memory.candidates`.
        tuned_encoder: Encoder that is fine-tuned in place of a projection, see
            `encoder_tuning.tuned`; empty for none.
    """

    objective: Objective = "text"
    eta: float = ETA
    epochs: int = 100
    seed: int = 0
    permuted: int = 2
    diverse: bool = True
    tuned_encoder: str = ""


@dataclass(frozen=True)
class Lesson:
    """What a scorer learns from: the candidates of each input, and the answer's likelihood."""

    texts: Sequence[str]
    candidates: Sequence[Sequence[Document]]
    loglikelihoods: Sequence[Floats]

    @property
    def n_documents(self) -> int:
        """Number of candidates of all inputs."""
        return sum(len(documents) for documents in self.candidates)

    def digest(self) -> str:
        """Return a digest of the likelihoods."""
        return text_digest([f"{value:.6f}" for value in np.concatenate(self.loglikelihoods)])

    def as_inputs(self) -> list[dict[str, Any]]:
        """Return the inputs of `encoder_tuning.tuned`."""
        inputs = []
        rows = zip(self.texts, self.candidates, self.loglikelihoods, strict=True)
        for text, documents, values in rows:
            document_texts = [document.text for document in documents]
            row = {"text": text, "documents": document_texts, "loglikelihoods": values.tolist()}
            inputs.append(row)
        return inputs


DEFAULTS: Final = Teaching()


@dataclass(frozen=True)
class Plan:
    """What a scorer will be taught, by a language model that is not chosen yet.

    Attributes:
        memory: The memory.
        examples: Examples to learn from.
        teaching: How the scorer is trained.
    """

    memory: Memory
    examples: Sequence[Example]
    teaching: Teaching = DEFAULTS

    def taught_by(self, llm: LLM, *, run: Run | None = None) -> Retriever:
        """Let a language model teach the scorer, see `learn`."""
        return learn(self.memory, llm, self.examples, self.teaching, run=run)


def learn(
    memory: Memory,
    llm: LLM,
    examples: Sequence[Example],
    teaching: Teaching = DEFAULTS,
    *,
    run: Run | None = None,
) -> Retriever:
    """Ask the LLM for P_LLM(y | d, x) of each candidate of each example, and train a scorer on it.

    Args:
        memory: The memory; no example is in it.
        llm: The LLM that teaches.
        examples: Examples to learn from, at least one.
        teaching: How the scorer is trained.
        run: The run to report times and a fine-tuned encoder to.

    Returns:
        The retriever. If the engine gives no log-probabilities of a prompt, its scorer is the
        cosine.

    Raises:
        ValueError: There are no examples.
        EngineError: The encoder cannot be fine-tuned.
    """
    began = time.perf_counter()
    try:
        lesson = ask_likelihoods(memory, llm, examples, teaching)
    except CapabilityError as error:
        warnings.warn(f"{UNTAUGHT} {error}", stacklevel=2)
        cosine = cosine_scorer(memory.encoder.dimension, teaching.eta)
        return Retriever(memory, cosine, teaching.permuted, teaching.diverse)
    answered = time.perf_counter()
    corpus_name = examples[0].id.partition(".")[0] if examples else ""
    if teaching.tuned_encoder:
        scorer = _tune_encoder(lesson, teaching, corpus_name, run)
    else:
        scorer = _train_projection(lesson, teaching, memory)
    if run:
        run.timing(f"{corpus_name}: likelihoods", answered - began, pairs=lesson.n_documents)
        run.timing(f"{corpus_name}: training the scorers", time.perf_counter() - answered)
    taught = (
        memory.words,
        memory.encoder.name,
        [example.id for example in examples],
        llm.endpoint.model,
        teaching.objective,
        teaching.eta,
        teaching.epochs,
        teaching.permuted,
        teaching.diverse,
        teaching.tuned_encoder,
    )
    return Retriever(memory, scorer, teaching.permuted, teaching.diverse, taught, lesson.digest())


def ask_likelihoods(
    memory: Memory, llm: LLM, examples: Sequence[Example], teaching: Teaching
) -> Lesson:
    """Ask for the likelihood of the answer after each candidate of each example.

    Raises:
        CapabilityError: The engine gives no log-probabilities of a prompt.
    """
    texts = [example.text for example in examples]
    candidates = memory.candidates(texts, diverse=teaching.diverse, permuted=teaching.permuted)
    prompts = []
    for example, documents in zip(examples, candidates, strict=True):
        prompts += [likelihood_prompt(example, document) for document in documents]
    answers = llm.loglikelihood_many(prompts, label="P_LLM")
    totals = np.array([answer.total for answer in answers])
    ends = np.cumsum([len(documents) for documents in candidates])
    return Lesson(texts, candidates, np.split(totals, ends[:-1]))


def _train_projection(lesson: Lesson, teaching: Teaching, memory: Memory) -> Scorer:
    inputs, documents = pair_vectors(lesson.texts, lesson.candidates, memory.encoder)
    return train(
        list(inputs),
        documents,
        lesson.loglikelihoods,
        objective=teaching.objective,
        eta=teaching.eta,
        epochs=teaching.epochs,
    )


def _tune_encoder(lesson: Lesson, teaching: Teaching, corpus_name: str, run: Run | None) -> Scorer:
    settings = encoder_tuning.TuningSettings(
        objective=teaching.objective, eta=teaching.eta, seed=teaching.seed
    )
    encoder = encoder_tuning.tuned(lesson.as_inputs(), teaching.tuned_encoder, settings)
    if run:
        n_inputs = len(lesson.texts)
        run.timing(f"{corpus_name}: fine-tuning the encoder", encoder.seconds, inputs=n_inputs)
        name = f"{encoder.base}, fine-tuned"
        role = f"{corpus_name}: scores documents"
        run.model(name, encoder.digest, "encoder", encoder.engine, role)
    identity = np.eye(encoder.dimension, dtype=np.float32)
    return Scorer(identity, teaching.eta, encoder.losses, Remembering(encoder))
