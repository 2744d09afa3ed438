"""BiomedRAG's retriever as a whole: memory, taught scorer, and the document that it chooses (biomedrag.md, 4.2).

P_LLM(y | d, x) is read from the served model's log-likelihoods, one request for each input x, document d and answer y,
and kept for ever. vLLM computes a prompt anew when it is asked for its log-probabilities, cached prefix or not, so
these prompts hold nothing that all have in common: no instruction, just document, input and answer.
"""

import time
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

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
from helpers.vectors import Remembering
from papers.biomedrag import encoder_tuning
from papers.biomedrag.corpora import Example
from papers.biomedrag.memory import Document, Memory, pair_vectors
from papers.biomedrag.scorer import ETA, Objective, Scorer, cosine_scorer, train

UNTAUGHT: Final = "BiomedRAG was not run: the server gives no log-probabilities of a prompt, which teach its scorer."


@dataclass(frozen=True)
class Retriever:
    """Chooses a document for each input. `permuted` and `diverse`: see `Memory.candidates`.

    `taught` is what decided the scorer, as values that are the same on every processor; empty if nothing taught it.
    `lesson` is a digest of the likelihoods that taught it.
    """

    memory: Memory
    scorer: Scorer
    permuted: int = 2
    diverse: bool = True
    taught: tuple[object, ...] = ()
    lesson: str = ""

    def __call__(self, examples: Sequence[Example]) -> list[Document]:
        """The document of each example's candidates that the scorer weighs highest."""
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
        """The place of each text's best document among its candidates."""
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
    """Context and continuation whose log-likelihood is log P_LLM(y | d, x): document, input, and the label as y.

    The answer is the label also where triples are extracted: the released scorer is taught on the relation.
    """
    shots = "".join(f"{shot.text} => {shot.label}\n" for shot in document.shots)
    return f"{shots}{example.text} =>", f" {example.label}"


def learn(
    memory: Memory,
    llm: LLM,
    examples: Sequence[Example],
    *,
    run: Run | None = None,
    objective: Objective = "text",
    eta: float = ETA,
    epochs: int = 100,
    seed: int = 0,
    permuted: int = 2,
    diverse: bool = True,
    tuned_encoder: str = "",
) -> Retriever:
    """Ask the LLM for P_LLM(y | d, x) of each candidate of each example, and train a scorer on it.

    No example is in the `memory`. `objective`, `eta` and `epochs` are those of `scorer.train`, `permuted` and `diverse`
    those of `Memory.candidates`; a `tuned_encoder` is fine-tuned in place of a projection, see `encoder_tuning.tuned`.
    `run` takes the times and that encoder. Raises ValueError without examples, EngineError if the encoder cannot be
    fine-tuned. An engine that gives no log-probabilities of a prompt teaches nothing: the scorer is the cosine then.
    """
    texts = [e.text for e in examples]
    candidates = memory.candidates(texts, diverse=diverse, permuted=permuted)
    pairs = [
        likelihood_prompt(x, d) for x, of_x in zip(examples, candidates, strict=True) for d in of_x
    ]
    began = time.perf_counter()
    try:
        answers = llm.loglikelihood_many(pairs, label="P_LLM")
    except CapabilityError as error:
        warnings.warn(f"{UNTAUGHT} {error}", stacklevel=2)
        return Retriever(memory, cosine_scorer(memory.encoder.dimension, eta), permuted, diverse)
    asked = time.perf_counter()
    ends = np.cumsum([len(of_x) for of_x in candidates])
    values = np.split(np.array([a.total for a in answers]), ends[:-1])
    name = examples[0].id.partition(".")[0] if examples else ""
    if tuned_encoder:
        taught = [
            {"text": text, "documents": [d.text for d in of_x], "loglikelihoods": of_one.tolist()}
            for text, of_x, of_one in zip(texts, candidates, values, strict=True)
        ]
        tuning = encoder_tuning.TuningSettings(objective=objective, eta=eta, seed=seed)
        encoder = encoder_tuning.tuned(taught, tuned_encoder, tuning)
        scorer = Scorer(
            np.eye(encoder.dimension, dtype=np.float32), eta, encoder.losses, Remembering(encoder)
        )
        if run:
            run.timing(f"{name}: fine-tuning the encoder", encoder.seconds, inputs=len(examples))
            role = f"{name}: scores documents"
            run.model(
                f"{encoder.base}, fine-tuned", encoder.digest, "encoder", encoder.engine, role
            )
    else:
        inputs, vectors = pair_vectors(texts, candidates, memory.encoder)
        scorer = train(list(inputs), vectors, values, objective=objective, eta=eta, epochs=epochs)
    if run:
        run.timing(f"{name}: likelihoods", asked - began, pairs=len(pairs))
        run.timing(f"{name}: training the scorers", time.perf_counter() - asked)
    of: tuple[object, ...] = (
        memory.words,
        memory.encoder.name,
        [e.id for e in examples],
        llm.endpoint.model,
    )
    of += (objective, eta, epochs, permuted, diverse, tuned_encoder)
    lesson = text_digest([f"{answer.total:.6f}" for answer in answers])
    return Retriever(memory, scorer, permuted, diverse, of, lesson)
