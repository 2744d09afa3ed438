"""BiomedRAG with an adapted model: what LoRA learns from, and the arms of the adapted model (biomedrag.md, 4.2.4).

The adapted model's prompts hold no list of labels, which it learns from the answers: a third of the tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from helpers.biomedrag.arms import Arm, Asking, answer_line, biomed_rag, choose_documents, zero_shot
from helpers.biomedrag.corpora import Corpus, Example
from helpers.biomedrag.memory import Document, Memory
from helpers.biomedrag.scorer import Scorer
from helpers.llm import LLM
from helpers.lora import Pair, TrainingLog

Retrieval = tuple[Memory, Scorer, int]
"""Memory, scorer, and how many retrieved pairs are permuted."""


def training_pairs(corpus: Corpus, examples: Sequence[Example], retrieval: Retrieval | None) -> list[Pair]:
    """Prompts and answers to learn from; with a retrieval, each prompt holds the document that the scorer chose."""
    asking = Asking(None, corpus.task, tuple(corpus.labels), offered=False)
    documents: Sequence[Document | None] = [None] * len(examples)
    if retrieval:
        memory, scorer, permuted = retrieval
        documents = choose_documents(memory, scorer, examples, permuted=permuted)
    return [
        (asking.messages(e, d.shots if d else ()), answer_line(e, corpus.task))
        for e, d in zip(examples, documents, strict=True)
    ]


def adapted_arms(
    corpus: Corpus,
    base: LLM,
    logs: Mapping[str, TrainingLog],
    memory: Memory,
    scorer: Scorer,
    permuted: int,
) -> dict[str, Arm]:
    """The base model alone, adapted, and adapted with BiomedRAG.

    Args:
        corpus: the data.
        base: the model, whose server has the adapters.
        logs: `lora`, trained on plain prompts, and `lora_rag`, trained on prompts with documents.
        memory: of the corpus.
        scorer: that chose the documents of training.
        permuted: see `Memory.candidates`.
    """
    labels = tuple(corpus.labels)
    plain, with_documents = (
        Asking(base.adapted(logs[name].adapter), corpus.task, labels, offered=False) for name in ("lora", "lora_rag")
    )
    return {
        "small": zero_shot(Asking(base, corpus.task, labels)),
        "lora": zero_shot(plain),
        "lora_rag": biomed_rag(with_documents, memory, scorer, permuted=permuted, name="LoRA and BiomedRAG"),
    }
