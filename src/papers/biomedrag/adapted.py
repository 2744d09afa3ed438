"""BiomedRAG with an adapted model: what LoRA learns from, and the arms of the adapted model.

The adapted model's chat messages hold no list of labels, which it learns from the answers: a third
of the tokens. Plain prompts list them, as the released ones do (biomedrag.md, 4.2.4).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

from evaluation.answers import Answer
from evaluation.record import Run
from helpers import llm
from helpers.llm import LLM
from papers.biomedrag.arms import Arm, BiomedRag, Generator, ZeroShot, answer_line
from papers.biomedrag.corpora import Corpus, Example, draw
from papers.biomedrag.memory import Document, Nearest
from papers.biomedrag.retriever import Retriever
from papers.biomedrag.study import LABELS, answer, generator_for
from resources import lora
from resources.engine_install import EngineError
from resources.lora import Pair
from resources.services import ServiceError

N_VALIDATION: Final = 8
"""Validation rows whose loss is followed."""
Chooser = Retriever | Nearest


@dataclass(frozen=True)
class Recipe:
    """How the adapters are trained, see `resources.lora.train`.

    Attributes:
        steps: Steps of training; 0 trains nothing.
        seed: Seed of the rows, of the initial weights and of the order of rows.
        batch: Rows a step.
        rank: Rank of the adapter.
        alpha: Scale of the adapter; 0 takes twice the rank.
        rate: Highest learning rate.
        dropout: Dropout of the adapter's inputs.
        longest: Tokens of a prompt and its answer that training sees.
        plain: Whether prompts are plain text, see `Generator`.
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

    def training_settings(self) -> dict[str, Any]:
        """Return the settings of `resources.lora.trained`."""
        return {
            "steps": self.steps,
            "seed": self.seed,
            "batch": self.batch,
            "rank": self.rank,
            "alpha": self.alpha,
            "rate": self.rate,
            "dropout": self.dropout,
            "max_tokens": self.longest,
            "evaluations": 4,
        }


Job = tuple[Corpus, Mapping[str, Chooser], Sequence[Example]]
"""A data set, what chooses the documents of each arm, and the rows to answer."""


@dataclass
class Adapters:
    """The trained adapter of each data set and arm.

    Attributes:
        logs: Logs of the trainings.
        failures: What could not be trained or answered, and why.
    """

    logs: dict[tuple[str, str], lora.TrainingLog] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)


def fine_tuned(
    run: Run, jobs: Sequence[Job], model: str, recipe: Recipe
) -> tuple[list[Answer], str]:
    """Answer with a model alone, fine-tuned, and fine-tuned with the documents of each retriever.

    Args:
        run: The run to report models and seconds to.
        jobs: The data sets. What chooses the documents does so in training and for the rows.
        model: The base, see `resources.lora.train`. One server has the adapters of all data sets.
        recipe: How the adapters are trained.

    Returns:
        The answers, and in words how the model was fine-tuned; or no answers, and why.
    """
    if not recipe.steps:
        return [], "Without training: this profile sets lora_steps to 0."
    adapters = _train(jobs, model, recipe)
    if not adapters.logs:
        return [], f"No adapter was trained. {adapters.failures[0]}"
    names = [log.adapter for log in adapters.logs.values()]
    try:
        base = llm.connect(model, exact=True, adapters=names)
    except (EngineError, ServiceError) as error:
        return [], f"No adapter was served: {error}"
    models = {key: base.adapted(log.adapter) for key, log in adapters.logs.items()}
    answers: list[Answer] = []
    for corpus, choosers, rows in jobs:
        generator = generator_for(base, corpus)
        small = ZeroShot(replace(generator, definitions={}, plain=recipe.plain))
        arms: dict[str, Arm] = {"small": small}
        arms |= _tuned_arms(corpus, choosers, models, recipe)
        for arm, ask in arms.items():
            # stored replies count, also where no server has the adapters
            try:
                answers += answer(run, corpus, {arm: ask}, rows, model=model)
            except (EngineError, ServiceError) as error:
                adapters.failures.append(f"{_arm_name(corpus, arm)}: {error}")
    for used_model in (base, *models.values()):
        run.model_used(used_model, "is fine-tuned by LoRA")
    _report_timings(run, adapters)
    method = f"{model}, fine-tuned by LoRA in {recipe.steps:,} steps of {recipe.batch} rows"
    return answers, "; not answered: ".join([method, *adapters.failures])


def _arm_name(corpus: Corpus, arm: str) -> str:
    return f"{corpus.name}, {LABELS.get(arm, arm)}"


def _report_timings(run: Run, adapters: Adapters) -> None:
    for (name, arm), log in adapters.logs.items():
        step = f"{name}: fine-tuning, {arm}"
        run.timing(step, log.seconds, steps=log.settings["steps"], pairs=log.pairs)


def _tuned_arms(
    corpus: Corpus,
    choosers: Mapping[str, Chooser],
    models: Mapping[tuple[str, str], LLM],
    recipe: Recipe,
) -> dict[str, Arm]:
    arms: dict[str, Arm] = {}
    for (name, arm), model in models.items():
        if name != corpus.name:
            continue
        generator = tuned_generator(model, corpus, plain=recipe.plain)
        if arm in choosers:
            arms[arm] = BiomedRag(generator, choosers[arm], LABELS.get(arm, arm))
        else:
            arms[arm] = ZeroShot(generator)
    return arms


def _train(jobs: Sequence[Job], model: str, recipe: Recipe) -> Adapters:
    adapters = Adapters()
    for corpus, choosers, _ in jobs:
        arms: dict[str, Chooser | None] = {"lora": None, **choosers}
        for arm, choose in arms.items():
            if choose is not None and not choose.taught:
                continue
            try:
                log = _train_adapter(corpus, arm, choose, model, recipe)
            except (EngineError, ServiceError) as error:
                adapters.failures.append(f"{_arm_name(corpus, arm)}: not trained: {error}")
            else:
                adapters.logs[corpus.name, arm] = log
    return adapters


def _train_adapter(
    corpus: Corpus, arm: str, choose: Chooser | None, model: str, recipe: Recipe
) -> lora.TrainingLog:
    train = draw(corpus.train, recipe.steps * recipe.batch, recipe.seed)
    validation = draw(corpus.validation, N_VALIDATION, recipe.seed)
    make_pairs = partial(training_pairs, corpus, plain=recipe.plain)
    bare_pairs = make_pairs(train, None)
    return lora.trained(
        f"{corpus.name.lower()}-{arm}",
        partial(make_pairs, train, choose) if choose else bare_pairs,
        make_pairs(validation, None),
        model,
        [bare_pairs, choose.taught] if choose else (),
        **recipe.training_settings(),
    )


def tuned_generator(model: LLM | None, corpus: Corpus, *, plain: bool) -> Generator:
    """Make the generator of a fine-tuned model.

    Only plain prompts list the labels, and none defines them.
    """
    generator = generator_for(model, corpus, lists_labels=plain)
    return replace(generator, definitions={}, plain=plain)


def training_pairs(
    corpus: Corpus, examples: Sequence[Example], choose: Chooser | None, *, plain: bool = False
) -> list[Pair]:
    """Make prompts and answers to learn from.

    Args:
        corpus: The data set.
        examples: The rows.
        choose: Chooses the document that each prompt shows, if given.
        plain: Whether prompts are plain text.
    """
    generator = tuned_generator(None, corpus, plain=plain)
    documents: Sequence[Document | None] = [None] * len(examples)
    if choose:
        documents = choose(examples)
    pairs: list[Pair] = []
    for example, document in zip(examples, documents, strict=True):
        prompt = generator.prompt(example, document)
        pairs.append((prompt, answer_line(example, corpus.task)))
    return pairs
