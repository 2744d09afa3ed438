"""BiomedRAG with an adapted model: what LoRA learns from, and the arms of the adapted model.

The adapted model's chat messages hold no list of labels, which it learns from the answers: a third
of the tokens. Plain prompts list them, as the released ones do (biomedrag.md, 4.2.4).
"""

import re
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
from papers.biomedrag.retriever import Plan, Retriever
from papers.biomedrag.study import LABELS, answer, generator_for
from resources import lora, training
from resources.engine_install import EngineError
from resources.lora import Pair
from resources.services import ServiceError

WITHOUT_STEPS: Final = "In this profile, lora_steps is 0, so no model is fine-tuned"
MAX_MEASURED: Final = 200
"""Rows whose length stands for that of all training rows in an estimate of the cost."""
N_VALIDATION: Final = 8
"""Validation rows whose loss is followed."""
Chooser = Retriever | Nearest
"""What chooses documents, ready for use."""
UTILISATION: Final = 0.4
"""Share of a GPU's speed that a training reaches, about."""
OPERATIONS_PER_SECOND: Final = UTILISATION * 989e12
"""Of one H100 in bfloat16; 989e12 is its data sheet's number."""
MIN_HOURS: Final = 0.01
"""The shortest time that is given in hours."""
CHARACTERS_PER_TOKEN: Final = 4
"""Of English text, about; it only serves to estimate what a training costs."""


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
        longest_of_many: The same of arms whose prompts hold several sentences; 0 for no other.
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
    longest_of_many: int = 0
    plain: bool = False

    def tokens_of(self, choose: Chooser | None) -> int:
        """Return the tokens of a prompt and its answer that the training of an arm sees."""
        has_many = isinstance(choose, Nearest) and choose.n > 1
        return max(self.longest, self.longest_of_many if has_many else 0)

    def training_settings(self, choose: Chooser | None) -> dict[str, Any]:
        """Return the settings of `resources.lora.trained` for an arm."""
        return {
            "steps": self.steps,
            "seed": self.seed,
            "batch": self.batch,
            "rank": self.rank,
            "alpha": self.alpha,
            "rate": self.rate,
            "dropout": self.dropout,
            "max_tokens": self.tokens_of(choose),
            "evaluations": 4,
        }


Job = tuple[Corpus, Mapping[str, Chooser | Plan], Sequence[Example]]
"""A data set, what chooses the documents of each arm, and the rows to answer.

A plan is taught first.
"""
TaughtJob = tuple[Corpus, Mapping[str, Chooser], Sequence[Example]]
"""The same with plans that were taught."""


@dataclass
class Adapters:
    """The trained adapter of each data set and arm.

    Attributes:
        model: The base.
        logs: Logs of the trainings.
        failures: What could not be trained or answered, and why.
    """

    model: str
    logs: dict[tuple[str, str], lora.TrainingLog] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def models(self, base: LLM) -> dict[tuple[str, str], LLM]:
        """Return the base with each adapter."""
        return {key: base.adapted(log.adapter) for key, log in self.logs.items()}


def fine_tuned(
    run: Run, jobs: Sequence[Job], model: str, recipe: Recipe, *, teacher: str = ""
) -> tuple[list[Answer], str]:
    """Answer with a model alone, fine-tuned, and fine-tuned with the documents of each retriever.

    The paper's scorer is taught by the model that reads its documents (section 4.2.3).

    Args:
        run: The run to report models and seconds to.
        jobs: The data sets. What chooses the documents does so in training and for the rows.
        model: The base, see `resources.lora.train`; empty for none. One server has the adapters of
            all data sets.
        recipe: How the adapters are trained.
        teacher: Name of the model that teaches each `Plan` among the choosers; by default the base.

    Returns:
        The answers, and in words how the model was fine-tuned; or no answers, and why. Without a
        model, there is nothing to say.
    """
    if not (model and recipe.steps):
        return [], WITHOUT_STEPS if model else ""
    training.free_gpu()  # of the models that answered before
    try:
        taught_jobs = _teach(run, jobs, teacher or model)
    except (EngineError, ServiceError) as error:
        return [], f"No adapter was trained, because nothing could teach the scorer. {error}"
    adapters = _train(taught_jobs, model, recipe)
    if not adapters.logs:
        return [], f"No adapter was trained. {adapters.failures[0]}"
    names = [log.adapter for log in adapters.logs.values()]
    try:
        base = llm.connect(model, exact=True, adapters=names)
    except (EngineError, ServiceError) as error:
        return [], f"No adapter was served: {error}"
    models = adapters.models(base)
    answers: list[Answer] = []
    for job in taught_jobs:
        answers += _answer_job(run, job, base, models, recipe, adapters)
    _report_training(run, adapters, [base, *models.values()])
    method = f"{model} was fine-tuned by LoRA in {recipe.steps:,} steps of {recipe.batch} rows"
    return answers, ". Not answered: ".join([method, *adapters.failures])


def _answer_job(  # what `fine_tuned` has made
    run: Run,
    job: TaughtJob,
    base: LLM,
    models: Mapping[tuple[str, str], LLM],
    recipe: Recipe,
    adapters: Adapters,
) -> list[Answer]:
    """Answer a data set with the base and with each of its adapters, and note what fails."""
    corpus, choosers, rows = job
    generator = generator_for(base, corpus)
    arms: dict[str, Arm] = {
        "small": ZeroShot(replace(generator, definitions={}, plain=recipe.plain))
    }
    arms |= _tuned_arms(corpus, choosers, models, recipe)
    answers: list[Answer] = []
    for arm, ask in arms.items():
        # stored replies count, also where no server has the adapters
        try:
            answers += answer(run, corpus, {arm: ask}, rows, model=adapters.model)
        except (EngineError, ServiceError) as error:
            adapters.failures.append(f"{_arm_name(corpus, arm)}: {error}")
    return answers


def _arm_name(corpus: Corpus, arm: str) -> str:
    return f"{corpus.name}, {LABELS.get(arm, arm)}"


def _report_training(run: Run, adapters: Adapters, models: Sequence[LLM]) -> None:
    for used_model in models:
        run.model_used(used_model, "is fine-tuned by LoRA")
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


def _teach(run: Run, jobs: Sequence[Job], model: str) -> list[TaughtJob]:
    """Let a model teach the plans."""
    taught_jobs: list[TaughtJob] = []
    teacher: LLM | None = None
    for corpus, choosers, rows in jobs:
        taught: dict[str, Chooser] = {}
        for arm, choose in choosers.items():
            if isinstance(choose, Plan):
                teacher = teacher or llm.connect(model, exact=True)
                taught[arm] = _taught(run, choose, teacher, corpus)
            else:
                taught[arm] = choose
        taught_jobs.append((corpus, taught, rows))
    if teacher:
        run.model_used(teacher, "teaches the scorer of the fine-tuned arms")
    return taught_jobs


def _taught(run: Run, plan: Plan, teacher: LLM, corpus: Corpus) -> Retriever:
    taught = plan.taught_by(teacher)
    if taught.scorer.encoder:
        role = f"{corpus.name}: scores documents of the fine-tuned arms"
        run.model_used(taught.scorer.encoder, role)
    return taught


def training_cost(jobs: Sequence[Job], recipe: Recipe, model: str) -> str:
    """Estimate in words what the adapters of these data sets cost, before any is trained.

    Adapters that are stored cost nothing. A token costs four operations a parameter, two forwards
    and two backwards, for LoRA needs no gradients of the base's weights.

    Args:
        jobs: The data sets.
        recipe: How the adapters are trained.
        model: The base, whose name says how many parameters it has, such as 13b.
    """
    n_adapters = 0
    n_tokens = 0
    for corpus, choosers, _ in jobs:
        bare = training_pairs(corpus, corpus.train[:MAX_MEASURED], None, plain=recipe.plain)
        lengths = [len(str(prompt)) + len(answer) for prompt, answer in bare]
        mean = sum(lengths) / max(1, len(lengths)) / CHARACTERS_PER_TOKEN
        for _ in ("lora", *choosers):
            n_adapters += 1
            n_tokens += round(recipe.steps * recipe.batch * min(mean, recipe.longest))
    text = (
        f"To train {n_adapters} adapters, each in {recipe.steps:,} steps of {recipe.batch} rows, "
        f"the model reads about {n_tokens / 1e6:,.1f} million tokens, not counting the documents "
        "in the prompts"
    )
    n_parameters = parameters_of(model)
    if n_parameters:
        hours = 4 * n_parameters * n_tokens / OPERATIONS_PER_SECOND / 3600
        amount = f"{hours:,.2f}" if hours >= MIN_HOURS else f"less than {MIN_HOURS}"
        speed = f"{100 * UTILISATION:.0f} % of its peak speed"
        text += f". One H100 GPU at {speed} would need {amount} hours for these tokens"
    return f"{text}. Adapters that are already stored need no training."


def parameters_of(model: str) -> float:
    """Return the number of parameters that a model's name says; 0 if it says none."""
    found = re.search(r"(?<![a-z\d.])(\d+(?:\.\d+)?)([bm])(?![a-z\d])", model.lower())
    if found is None:
        return 0.0
    return float(found[1]) * {"b": 1e9, "m": 1e6}[found[2]]


def _train(jobs: Sequence[TaughtJob], model: str, recipe: Recipe) -> Adapters:
    adapters = Adapters(model)
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
        **recipe.training_settings(choose),
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
