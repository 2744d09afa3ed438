"""Fine-tuning a model on the FDA's answers (QA-RAG, section 2.3; Table 1, Figure 2).

There are two adapters. One is trained on a split by rows, which leaves pairs of one document on
both sides. The paper does not say how it split its pairs; that it did so by rows is inferred from
the released test questions. The other adapter is trained on a split by documents, where only what
was learnt of the manner of the answers can show.
"""

import random
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from evaluation import figures
from evaluation.answers import Answer
from evaluation.metrics import Score, ratio
from evaluation.outcomes import Outcomes
from evaluation.published import Published
from evaluation.record import Run
from helpers import llm
from helpers.llm import LLM
from papers.qa_rag.answers import other_scale
from papers.qa_rag.data import Data, QaRagDataError, Question, words
from papers.qa_rag.retrieval import Query, QueryWriter
from rag.prompts import Message, user_message
from resources import lora, services
from resources.llm_servers import LlmServer
from resources.lora import Pair, TrainingLog
from resources.settings import settings as user_settings

INSTRUCTION = "Answer this question about regulatory guidance as the FDA would."
SPLITS = {"rows": "by rows", "documents": "by documents"}
LABELS = {"base": "Not fine-tuned", "tuned": "Fine-tuned"}
ADAPTER = "qa-rag-"
"""How the name of a split's adapter begins; the split and a digest of its recipe follow."""
SHARES = (0.85, 0.10, 0.05)
"""Training, validation, test (section 2.3)."""
Part = Literal["train", "validation", "test"]
Split = Mapping[Part, Sequence[Question]]


def split_rows(questions: Sequence[Question], seed: int, test: Sequence[Question]) -> Split:
    """Split by rows, as the released test questions suggest (section 2.3 does not say how).

    Pairs of one document, or one pair twice, fall on both sides. Those without an answer are left
    out, and what is not tested is divided 85 to 10.

    Args:
        questions: All pairs.
        seed: Of the shuffle.
        test: The questions that the paper tested on.
    """
    rows = [question for question in questions if question.answer]
    random.Random(seed).shuffle(rows)  # noqa: S311  # a shuffle, not a secret
    test_ids = {question.id for question in test}
    rest = [question for question in rows if question.id not in test_ids]
    n_validation = round(len(rest) * SHARES[1] / (SHARES[0] + SHARES[1]))
    # No document is removed from an index here, so the questions have no stratum of that.
    without_index = tuple(replace(question, strata={}) for question in test)
    return {
        "train": tuple(rest[n_validation:]),
        "validation": tuple(rest[:n_validation]),
        "test": without_index,
    }


def split_documents(questions: Sequence[Question], seed: int) -> Split:
    """Split so that no two parts share a source document.

    The shares are about 85/10/5, as no document is divided.

    Raises:
        QaRagDataError: There are fewer than three source documents.
    """
    by_source = defaultdict(list)
    for question in questions:
        if question.answer:
            by_source[question.source].append(question)
    if len(by_source) < len(SHARES):
        raise QaRagDataError(
            f"A split by documents needs at least {len(SHARES)} of them; found {len(by_source)}."
        )
    remaining = sorted(by_source)
    random.Random(seed).shuffle(remaining)  # noqa: S311  # a shuffle, not a secret
    sizes = {source: len(by_source[source]) for source in remaining}
    n_pairs = sum(sizes.values())
    test = _fill_part(remaining, sizes, SHARES[2] * n_pairs, n_needed=2)
    remaining = [source for source in remaining if source not in test]
    validation = _fill_part(remaining, sizes, SHARES[1] * n_pairs, n_needed=1)
    train = [source for source in remaining if source not in validation]
    return {
        "test": _pairs_of(test, by_source),
        "validation": _pairs_of(validation, by_source),
        "train": _pairs_of(train, by_source),
    }


def _fill_part(
    sources: Sequence[str], sizes: Mapping[str, int], max_pairs: float, n_needed: int
) -> list[str]:
    """Take documents, in their order, while their pairs fit; the smallest one if none fits.

    Args:
        sources: The documents that are left.
        sizes: Number of pairs of each document.
        max_pairs: Pairs of the part.
        n_needed: Documents that the next parts need.
    """
    part: list[str] = []
    n_pairs = 0
    for source in sources:
        fits = n_pairs + sizes[source] <= max_pairs
        if fits and len(sources) - len(part) > n_needed:
            part.append(source)
            n_pairs += sizes[source]
    return part or [min(sources, key=lambda source: sizes[source])]


def _pairs_of(
    sources: Iterable[str], by_source: Mapping[str, Sequence[Question]]
) -> tuple[Question, ...]:
    pairs: list[Question] = []
    for source in sources:
        pairs += by_source[source]
    return tuple(pairs)


def twins(questions: Sequence[Question], others: Sequence[Question]) -> list[Question]:
    """Those questions whose words, or whose answer's words, one of the others repeats.

    The guideline that a question names does not count.
    """
    bodies = {words(other.body) for other in others}
    answers = {words(other.answer) for other in others}
    repeated = []
    for question in questions:
        if words(question.body) in bodies or words(question.answer) in answers:
            repeated.append(question)
    return repeated


def splits(data: Data, seed: int) -> dict[str, Split]:
    """Both splits. That by rows tests on the questions that the paper tested on."""
    return {
        "rows": split_rows(data.questions, seed, data.test),
        "documents": split_documents(data.questions, seed),
    }


def prompt(question: Question) -> list[Message]:
    """Build the prompt without any document; some models' templates have no system message."""
    return user_message(f"{INSTRUCTION}\n\n{question.text}")


def pairs(
    questions: Sequence[Question], max_characters: int, max_pairs: int | None = None
) -> list[Pair]:
    """The first pairs to train on whose question and answer are short enough.

    Args:
        questions: Questions with their answers.
        max_characters: Characters of question and answer together.
        max_pairs: Number of pairs; all if None.
    """
    short = []
    for question in questions:
        if len(question.text) + len(question.answer) <= max_characters:
            short.append(question)
    return [(prompt(question), question.answer) for question in short[:max_pairs]]


OWN_SETTINGS = ("base", "longest", "pairs", "validation_pairs")
"""Settings of the pairs and the base model; the rest are of ``lora``."""


def train(name: str, split: Split, settings: Mapping[str, Any], seed: int) -> TrainingLog:
    """The adapter of one split, trained now or by an earlier run with the same settings.

    Args:
        name: Name of the split.
        split: The split.
        settings: ``longest`` counts characters of question and answer together, beyond which a pair
            is left out; ``pairs`` and ``validation_pairs`` say how many to take, all if None. What
            is not in ``OWN_SETTINGS`` is for ``lora``.
        seed: Of the training.
    """
    longest = settings["longest"]
    train_pairs = pairs(split["train"], longest, settings["pairs"])
    validation_pairs = pairs(split["validation"], longest, settings["validation_pairs"])
    rest = {key: value for key, value in settings.items() if key not in OWN_SETTINGS}
    return lora.trained(
        f"{ADAPTER}{name}", train_pairs, validation_pairs, settings["base"], seed=seed, **rest
    )


def check_server(base: str, split_names: Iterable[str]) -> None:
    """See that a server of the settings has adapters of these splits.

    The embedded engine serves what it trains.

    Raises:
        ServiceError: The server does not answer, or has not the base or no such adapters.
    """
    if not user_settings().llm_base_url:
        return
    server = services.llm_endpoint(base, exact=True)
    served = [model["id"] for model in services.served(LlmServer(server.base_url, server.api_key))]
    missing = []
    for split in split_names:
        prefix = f"{ADAPTER}{split}-"
        if not any(model.startswith(prefix) for model in served):
            missing.append(f"{prefix}...")
    if missing:
        raise services.ServiceError(
            f"{server.base_url} serves no adapters {', '.join(missing)}. Unset LLM_BASE_URL for "
            "this notebook, and the embedded engine serves what it trains; or start vLLM there "
            "with such adapters, --enable-lora --lora-modules."
        )


def trained(
    splits_by_name: Mapping[str, Split], settings: Mapping[str, Any], seed: int
) -> tuple[dict[str, TrainingLog], dict[str, LLM]]:
    """Train the adapter of each split, and serve them together.

    Returns:
        The logs by split, and the models: ``base``, and each split's under its name.

    Raises:
        ServiceError: No server has the adapters; a server of the settings is asked before any is
            trained.
        EngineError: This machine's engine cannot train or serve them.
    """
    base = settings["base"]
    check_server(base, splits_by_name)
    logs = {name: train(name, split, settings, seed) for name, split in splits_by_name.items()}
    adapters = [log.adapter for log in logs.values()]
    base_model = llm.connect(base, exact=True, adapters=adapters)
    models = {"base": base_model}
    for name, log in logs.items():
        models[name] = base_model.adapted(log.adapter)
    return logs, models


@dataclass(frozen=True)
class AnswerWithoutDocuments:
    """An arm: test questions of a split in, a model's answers without any document out.

    Attributes:
        model: The model, with or without an adapter.
        max_tokens: Longest answer, in tokens.
        split: The split; it is the task of the rows.
    """

    model: LLM
    max_tokens: int
    split: str

    def __call__(self, questions: Sequence[Question]) -> list[Answer]:
        """Answer each question."""
        label = f"answers, {self.model.endpoint.model}, split {self.split}"
        prompts = [prompt(question) for question in questions]
        replies = self.model.chat_many(prompts, max_tokens=self.max_tokens, label=label)
        answers = []
        for reply in replies:
            measures = {"characters": (float(len(reply.text)), 1.0)}
            answers.append(Answer(task=self.split, measures=measures, **reply.columns))
        return answers


def hypothetical(
    data: Data, settings: Mapping[str, Any], seed: int, max_tokens: int
) -> tuple[dict[str, dict[str, Query]], dict[str, LLM]]:
    """Write what the retrieval searches with: answers of a fine-tuned model, and of its base.

    The server is the one that serves the adapters of both splits, so that the notebook on
    fine-tuning and that on retrieval start one.

    Returns:
        Queries of the kinds ``tuned`` and ``base``; and the models, of which ``rows`` is the one
        that is fine-tuned on the split by rows.

    Raises:
        ServiceError: See ``trained``.
        EngineError: See ``trained``.
    """
    _, served = trained(splits(data, seed), settings, seed)
    models = {"base": served["base"], "rows": served["rows"]}
    prompts = [prompt(question) for question in data.test]
    tuned = QueryWriter(models["rows"], max_tokens, "hypothetical answers, fine-tuned")
    base = QueryWriter(models["base"], max_tokens, "hypothetical answers, base")
    queries = {
        "tuned": tuned.write(data.test, prompts),
        "base": base.write(data.test, prompts),
    }
    return queries, models


def splits_table(
    splits_by_name: Mapping[str, Split], questions: Mapping[str, Sequence[Question]]
) -> pd.DataFrame:
    """Tabulate the sizes of the splits, and what the test shares with the training.

    Args:
        splits_by_name: The splits.
        questions: The test questions of each split that are put to the models.
    """
    rows = []
    for name, parts in splits_by_name.items():
        test = parts["test"]
        train_sources = {question.source for question in parts["train"]}
        is_known = [question.source in train_sources for question in test]
        repeated = {question.id for question in twins(test, parts["train"])}
        is_repeated = [question.id in repeated for question in test]
        row = {
            "split": SPLITS[name],
            "train pairs": len(parts["train"]),
            "validation pairs": len(parts["validation"]),
            "test pairs": len(test),
            "test questions whose document is in the training set": _share(is_known, test),
            "test questions seen in the training set": _share(is_repeated, test),
            "test questions asked": len(questions[name]),
            "documents of the questions asked": len(
                {question.source for question in questions[name]}
            ),
        }
        rows.append(row)
    return pd.DataFrame(rows)


def _share(chosen: Sequence[bool], questions: Sequence[Question]) -> Score:
    """The share of questions that are chosen, with an interval over documents."""
    documents = [question.cluster for question in questions]
    return ratio(chosen, np.ones(len(questions)), clusters=documents)


def draw_losses(logs: Mapping[str, TrainingLog], *, is_narrow: bool = False) -> Figure:
    """Training and validation loss over steps (the paper's Figure 2), a panel a split.

    Args:
        logs: The log of each split.
        is_narrow: Whether the figure is for a phone, with one panel below the other.
    """
    n_rows, n_columns = (len(logs), 1) if is_narrow else (1, len(logs))
    size = (4.2, 3 * len(logs)) if is_narrow else (7.2, 3.4)
    fig, grid = plt.subplots(n_rows, n_columns, figsize=size, sharey=True, squeeze=False)
    for panel, (name, log) in zip(grid.flat, logs.items(), strict=True):
        for losses, style, what in (
            (log.train, "--", "training"),
            (log.validation, "-", "validation"),
        ):
            steps, values = [loss.step for loss in losses], [loss.value for loss in losses]
            panel.plot(
                steps,
                values,
                style,
                marker="o",
                markersize=4,
                color=figures.HUES["orange"],
                label=what,
            )
        panel.set_title(SPLITS[name])
        panel.set_xlabel("step")
        panel.grid(axis="y")
        panel.legend()
    grid[0][0].set_ylabel("loss (nats per token)")
    return fig


def losses_words(logs: Mapping[str, TrainingLog]) -> str:
    """What the loss curves show, in words."""
    sentences = []
    for name, log in logs.items():
        first, last = log.validation[0].value, log.validation[-1].value
        moved = "falls" if last < first else "does not fall and goes"
        first_train, last_train = log.train[0].value, log.train[-1].value
        sentences.append(
            f"With pairs split {SPLITS[name]}, the validation loss {moved} from {first:.2f} to "
            f"{last:.2f}. The training loss goes from {first_train:.2f} to {last_train:.2f}."
        )
    return " ".join(sentences)


def printed_rows(printed: Published) -> str:
    """The rows of Table 1 in words, for the caption of its rerun."""
    rows = []
    for model in ("finetuned_gpt35", "finetuned_mistral", "gpt4"):
        numbers = [
            printed.number(f"qa_rag.table1.{model}.{column}")
            for column in ("precision", "recall", "f1")
        ]
        values = "/".join(number.printed for number in numbers)
        rows.append(f"{values} for {numbers[0].row}")
    return f"The paper's Table 1 prints precision/recall/F1 of {figures.listed(rows)}"


def report(run: Run, outcomes: Outcomes, base: str, encoder: str, why_not: str) -> None:
    """Report the rerun of Table 1's fine-tuned open model, or why there is none.

    Args:
        run: The run.
        outcomes: Its rows; those of the paper's split count.
        base: Name of the base model.
        encoder: Name of the encoder of BERTScore.
        why_not: Why nothing was answered; empty if it was.
    """
    model = f"{base} with LoRA"
    for column in ("precision", "recall", "f1"):
        number = f"qa_rag.table1.finetuned_mistral.{column}"
        score = None if why_not else outcomes.where(task="rows").score(column, "tuned")
        if score is None:
            run.not_run(number, why_not)
        elif scale := other_scale(encoder, model, score):
            run.not_run(number, scale)
        else:
            run.rerun(number, score, model=model, note=f"{model} stands in for Mistral-7B.")
