"""BiomedRAG with an adapted model: what LoRA learns from, and the arms of the adapted model (biomedrag.md, 4.2.4).

The adapted model's chat messages hold no list of labels, which it learns from the answers: a third of the tokens. Plain
prompts list them, as the released ones do.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from evaluation.answers import Answer
from evaluation.record import Run
from helpers import llm
from helpers.llm import LLM
from papers.biomedrag.arms import Asking, answer_line, biomed_rag, zero_shot
from papers.biomedrag.corpora import Corpus, Example, draw
from papers.biomedrag.memory import Document, Nearest
from papers.biomedrag.retriever import Retriever
from papers.biomedrag.study import LABELS, answer, asking_of
from resources import lora
from resources.engine_install import EngineError
from resources.lora import Pair
from resources.services import ServiceError

HELD_OUT = 8  # validation rows whose loss is followed
Chooser = Retriever | Nearest


@dataclass(frozen=True)
class Recipe:
    """How the adapters are trained, see `resources.lora.train`: no `steps` train nothing.

    Training sees the `longest` tokens of a prompt and its answer; `plain` asks in plain text, see `Asking`.
    """

    steps: int
    seed: int
    batch: int = 8
    rank: int = 8
    alpha: int = 0
    rate: float = 1e-3
    dropout: float = 0.05
    longest: int = 256
    plain: bool = False


def fine_tuned(
    run: Run,
    of: Sequence[tuple[Corpus, Mapping[str, Chooser], Sequence[Example]]],
    model: str,
    recipe: Recipe,
) -> tuple[list[Answer], str]:
    """Answers of a model alone, fine-tuned, and fine-tuned with the documents of each retriever; or none, and why.

    For each corpus the retrievers, by arm, choose the documents, in training and for the rows. `model` is the base, see
    `resources.lora.train`; one server has the adapters of all corpora. `run` takes models and seconds.
    """
    if not recipe.steps:
        return [], "Without training: this profile sets lora_steps to 0."
    logs, lacking = _trained(of, model, recipe)
    if not logs:
        return [], f"No adapter was trained. {lacking[0]}"
    try:
        base = llm.connect(model, exact=True, adapters=[log.adapter for log in logs.values()])
    except (EngineError, ServiceError) as error:
        return [], f"No adapter was served: {error}"
    tuned = {of: base.adapted(log.adapter) for of, log in logs.items()}
    answers: list[Answer] = []
    for corpus, retrievers, rows in of:
        arms = {
            "small": zero_shot(replace(asking_of(base, corpus), definitions={}, plain=recipe.plain))
        }
        for arm in [arm for name, arm in tuned if name == corpus.name]:
            asking, choose = (
                _tuned(tuned[corpus.name, arm], corpus, recipe.plain),
                retrievers.get(arm),
            )
            arms[arm] = (
                biomed_rag(asking, choose, LABELS.get(arm, arm)) if choose else zero_shot(asking)
            )
        for (
            arm,
            ask,
        ) in arms.items():  # what is stored counts, also where no server has the adapters
            try:
                answers += answer(run, corpus, {arm: ask}, rows, model=model)
            except (EngineError, ServiceError) as error:
                lacking.append(f"{corpus.name}, {LABELS.get(arm, arm)}: {error}")
    for each in (base, *tuned.values()):
        run.model_used(each, "is fine-tuned by LoRA")
    for (name, arm), log in logs.items():
        run.timing(
            f"{name}: fine-tuning, {arm}", log.seconds, steps=log.settings["steps"], pairs=log.pairs
        )
    told = f"{model}, fine-tuned by LoRA in {recipe.steps:,} steps of {recipe.batch} rows"
    return answers, "; not answered: ".join([told, *lacking])


def _trained(
    of: Sequence[tuple[Corpus, Mapping[str, Chooser], Sequence[Example]]],
    model: str,
    recipe: Recipe,
) -> tuple[dict[tuple[str, str], lora.TrainingLog], list[str]]:
    """The adapter of each corpus and arm, and which could not be trained."""
    logs, lacking = {}, []
    for corpus, retrievers, _ in of:
        for arm, documents in {"lora": None, **retrievers}.items():
            if documents is None or documents.taught:
                try:
                    logs[corpus.name, arm] = _adapter(corpus, arm, documents, model, recipe)
                except (EngineError, ServiceError) as error:
                    lacking.append(f"{corpus.name}, {LABELS.get(arm, arm)}: not trained: {error}")
    return logs, lacking


def _adapter(
    corpus: Corpus, arm: str, documents: Chooser | None, model: str, recipe: Recipe
) -> lora.TrainingLog:
    of = vars(recipe) | {"max_tokens": recipe.longest, "evaluations": 4}
    plain, seed = of.pop("plain"), of["seed"]
    del of["longest"]
    learned = draw(corpus.train, recipe.steps * recipe.batch, seed)
    bare = training_pairs(corpus, learned, None, plain=plain)
    return lora.trained(
        f"{corpus.name.lower()}-{arm}",
        partial(training_pairs, corpus, learned, documents, plain=plain) if documents else bare,
        training_pairs(corpus, draw(corpus.validation, HELD_OUT, seed), None, plain=plain),
        model,
        [bare, documents.taught] if documents else (),
        **of,
    )


def _tuned(model: LLM | None, corpus: Corpus, plain: bool) -> Asking:
    return replace(asking_of(model, corpus, offered=plain), definitions={}, plain=plain)


def training_pairs(
    corpus: Corpus, examples: Sequence[Example], retriever: Chooser | None, *, plain: bool = False
) -> list[Pair]:
    """Prompts and answers to learn from; with a retriever, each prompt holds the document that the scorer chose."""
    asking = _tuned(None, corpus, plain)
    documents: Sequence[Document | None] = (
        retriever(examples) if retriever else [None] * len(examples)
    )
    return [
        (asking.prompt(e, d.shots if d else ()), answer_line(e, corpus.task))
        for e, d in zip(examples, documents, strict=True)
    ]
