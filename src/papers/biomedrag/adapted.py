"""BiomedRAG with an adapted model: what LoRA learns from, and the arms of the adapted model (biomedrag.md, 4.2.4).

The adapted model's prompts hold no list of labels, which it learns from the answers: a third of the tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from helpers import llm, lora
from helpers.engine_install import EngineError
from helpers.llm import LLM
from helpers.lora import Pair, TrainingLog
from helpers.results.answers import Answer
from helpers.results.record import Run
from helpers.services import ServiceError
from papers.biomedrag.arms import Arm, answer_line, biomed_rag, choose_documents, zero_shot
from papers.biomedrag.corpora import Corpus, Example
from papers.biomedrag.experiment import draw
from papers.biomedrag.memory import Document, Memory
from papers.biomedrag.scorer import Scorer
from papers.biomedrag.study import answer, asking_of

HELD_OUT = 8
"""Validation rows whose loss is followed."""
LONGEST = 256
"""Tokens of a prompt and its answer that training sees."""


@dataclass(frozen=True)
class Retrieval:
    """How documents are chosen: memory, scorer, and how many retrieved pairs are permuted."""

    memory: Memory
    scorer: Scorer
    permuted: int


@dataclass(frozen=True)
class Adapted:
    """A small model with two adapters.

    Attributes:
        logs: of training, `lora` on plain prompts and `lora_rag` on prompts with BiomedRAG's document.
        base: the model itself; its server has both adapters.
        arms: the model alone (`small`), and with each adapter.
    """

    logs: Mapping[str, TrainingLog]
    base: LLM
    arms: Mapping[str, Arm]


def adapt(corpus: Corpus, retrieval: Retrieval, model: str, *, steps: int, batch: int, rank: int, seed: int) -> Adapted:
    """Train both adapters on so many steps of training rows, and serve them beside their base.

    Args:
        corpus: the data.
        retrieval: what chooses the documents, in training and after.
        model: the base, see `helpers.lora.train`.
        steps: of training.
        batch: rows of a step.
        rank: of the adapters.
        seed: of the rows and of training.

    Raises:
        EngineError: this machine's engine cannot train or serve adapters.
        ServiceError: the server did not start.
    """
    rows, held_out = draw(corpus.train, steps * batch, seed), draw(corpus.validation, HELD_OUT, seed)
    logs = {
        name: lora.trained(
            f"{corpus.name.lower()}-{name}",
            training_pairs(corpus, rows, documents),
            training_pairs(corpus, held_out, None),
            model,
            steps=steps,
            rank=rank,
            seed=seed,
            batch=batch,
            max_tokens=LONGEST,
            evaluations=4,
        )
        for name, documents in {"lora": None, "lora_rag": retrieval}.items()
    }
    base = llm.connect(model, exact=True, adapters=[log.adapter for log in logs.values()])
    plain, shown = (
        asking_of(base.adapted(log.adapter), corpus, offered=False) for log in (logs["lora"], logs["lora_rag"])
    )
    arms = {
        "small": zero_shot(replace(asking_of(base, corpus), definitions={})),
        "lora": zero_shot(plain),
        "lora_rag": biomed_rag(
            shown, retrieval.memory, retrieval.scorer, permuted=retrieval.permuted, name="LoRA and BiomedRAG"
        ),
    }
    return Adapted(logs, base, arms)


def fine_tuned(
    run: Run, corpus: Corpus, retrieval: Retrieval, model: str, rows: Sequence[Example], *, steps: int, **settings: int
) -> tuple[list[Answer], str]:
    """Answers of a model alone, fine-tuned, and fine-tuned with BiomedRAG's document; or none, and why.

    Args:
        run: takes the model and the seconds of training.
        corpus: the data.
        retrieval: what chooses the documents.
        model: that is fine-tuned.
        rows: that it answers.
        steps: of training; 0 trains nothing.
        settings: batch, rank and seed, see `adapt`.
    """
    if not steps:
        return [], "Without training: this profile sets lora_steps to 0."
    try:
        adapted = adapt(corpus, retrieval, model, steps=steps, **settings)
        rows_ = answer(run, corpus, adapted.arms, rows, model=model)
    except (EngineError, ServiceError) as error:
        return [], f"No adapter was trained or served: {error}"
    run.model_used(adapted.base, "is fine-tuned by LoRA")
    for arm, log in adapted.logs.items():
        run.timing(f"{corpus.name}: fine-tuning, {arm}", log.seconds, steps=log.settings["steps"], pairs=log.pairs)
    return rows_, f"{model}, fine-tuned by LoRA in {steps} steps"


def training_pairs(corpus: Corpus, examples: Sequence[Example], retrieval: Retrieval | None) -> list[Pair]:
    """Prompts and answers to learn from; with a retrieval, each prompt holds the document that the scorer chose."""
    asking = asking_of(None, corpus, offered=False)
    documents: Sequence[Document | None] = [None] * len(examples)
    if retrieval:
        documents = choose_documents(retrieval.memory, retrieval.scorer, examples, permuted=retrieval.permuted)
    return [
        (asking.messages(e, d.shots if d else ()), answer_line(e, corpus.task))
        for e, d in zip(examples, documents, strict=True)
    ]
