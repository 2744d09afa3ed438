"""Fine-tuning a model on the FDA's answers (QA-RAG, section 2.3; Table 1, Figure 2).

Two adapters: one trained on the paper's split by rows, which leaves pairs of one document on both sides, and one on a
split by documents, where only what was learnt of the manner of the answers can show.
"""

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from evaluation import figures
from evaluation.answers import Answer
from evaluation.metrics import proportion
from evaluation.outcomes import Outcomes
from evaluation.record import Run
from helpers import llm
from helpers.llm import LLM
from papers.qa_rag.answers import other_scale
from papers.qa_rag.data import Data, QaRagDataError, Question, words
from papers.qa_rag.retrieval import Query, asked_queries
from rag.prompts import each, user_message
from resources import lora, services
from resources.lora import Pair, TrainingLog
from resources.settings import settings as of_the_user

INSTRUCTION = "Answer this question about regulatory guidance as the FDA would."
SPLITS = {"rows": "by rows, as in the paper", "documents": "by documents"}
COLOURS = {"rows": "#125ee0", "documents": "#c35410"}
LABELS = {"base": "Not fine-tuned", "tuned": "Fine-tuned"}
ADAPTER = "qa-rag-"
"""How the name of a split's adapter begins; the split and a digest of what it was made of follow."""
SHARES = (0.85, 0.10, 0.05)
"""Training, validation, test (section 2.3)."""
Part = Literal["train", "validation", "test"]
Split = Mapping[Part, Sequence[Question]]


def split_rows(questions: Sequence[Question], seed: int, test: Sequence[Question]) -> Split:
    """The paper's split by rows (section 2.3): pairs of one document, or one pair twice, fall on both sides.

    `test` are the questions that the paper tested on; the rest, without pairs that lack an answer, is divided 85 to 10.
    """
    rows = [question for question in questions if question.answer]
    random.Random(seed).shuffle(rows)  # noqa: S311  # a shuffle, not a secret
    held_out = {question.id for question in test}
    rest = [question for question in rows if question.id not in held_out]
    n = round(len(rest) * SHARES[1] / (SHARES[0] + SHARES[1]))
    without_index = tuple(
        replace(question, strata={}) for question in test
    )  # so no document is removed from one
    return {"train": tuple(rest[n:]), "validation": tuple(rest[:n]), "test": without_index}


def split_documents(questions: Sequence[Question], seed: int) -> Split:
    """A split whose parts share no source document, with shares as near to 85/10/5 as whole documents allow.

    Raises QaRagDataError: there are fewer than three source documents.
    """
    by_source = defaultdict(list)
    for question in questions:
        if question.answer:
            by_source[question.source].append(question)
    if len(by_source) < len(SHARES):
        raise QaRagDataError(
            f"A split by documents needs at least {len(SHARES)} of them; found {len(by_source)}."
        )
    left = sorted(by_source)
    random.Random(seed).shuffle(left)  # noqa: S311  # a shuffle, not a secret
    total = sum(map(len, by_source.values()))
    parts: dict[Part, tuple[Question, ...]] = {}
    shares: dict[Part, float] = {"test": SHARES[2], "validation": SHARES[1]}
    for needed, (part, share) in zip(
        (2, 1), shares.items(), strict=True
    ):  # documents that the next parts need
        taken: list[str] = []
        for source in left:
            fits = sum(len(by_source[name]) for name in (*taken, source)) <= share * total
            if fits and len(left) - len(taken) > needed:
                taken.append(source)
        taken = taken or [min(left, key=lambda name: len(by_source[name]))]
        parts[part] = tuple(question for name in taken for question in by_source[name])
        left = [name for name in left if name not in taken]
    parts["train"] = tuple(question for name in left for question in by_source[name])
    return parts


def twins(questions: Sequence[Question], others: Sequence[Question]) -> list[Question]:
    """Those questions whose words, or whose answer's words, one of the others repeats."""
    bodies = {words(other.body) for other in others}
    answers = {words(other.answer) for other in others}
    return [q for q in questions if words(q.body) in bodies or words(q.answer) in answers]


def splits(of: Data, seed: int) -> dict[str, Split]:
    """Both splits. That by rows tests on the questions that the paper tested on."""
    return {
        "rows": split_rows(of.questions, seed, of.test),
        "documents": split_documents(of.questions, seed),
    }


def prompt(question: Question) -> list[dict[str, str]]:
    """What a model without any document is asked; the templates of some models have no system message."""
    return user_message(f"{INSTRUCTION}\n\n{question.text}")


def pairs(questions: Sequence[Question], longest: int, most: int | None = None) -> list[Pair]:
    """The first `most` pairs to train on whose question and answer have at most `longest` characters."""
    fit = [
        question for question in questions if len(question.text) + len(question.answer) <= longest
    ]
    return [(prompt(question), question.answer) for question in fit[:most]]


def train(name: str, split: Split, settings: Mapping[str, Any], seed: int) -> TrainingLog:
    """The adapter of one split, trained now or by an earlier run with the same settings.

    Of the settings `longest` counts characters of question and answer together, beyond which a pair is left out, and
    `pairs` and `validation_pairs` how many to take (all if None); what is not for the pairs is for `lora.train`.
    """
    own = ("base", "longest", "pairs", "validation_pairs")
    base, longest, learned, checked = (settings[key] for key in own)
    train, validation = (
        pairs(split["train"], longest, learned),
        pairs(split["validation"], longest, checked),
    )
    rest = {key: value for key, value in settings.items() if key not in own}
    return lora.trained(f"{ADAPTER}{name}", train, validation, base, seed=seed, **rest)


def check_server(base: str, split_names: Iterable[str]) -> None:
    """See that a server of the settings has adapters of these splits; the embedded engine serves what it trains.

    Raises ServiceError: the server does not answer, or has not the base or no such adapters.
    """
    if not of_the_user().llm_base_url:
        return
    server = services.llm_endpoint(base, exact=True)
    served = [model["id"] for model in services.served(server.base_url, server.api_key)]
    names = [f"{ADAPTER}{split}-" for split in split_names]
    if missing := [
        f"{name}..." for name in names if not any(model.startswith(name) for model in served)
    ]:
        raise services.ServiceError(
            f"{server.base_url} serves no adapters {', '.join(missing)}. Unset LLM_BASE_URL for this notebook, and the "
            "embedded engine serves what it trains; or start vLLM there with such adapters, --enable-lora "
            "--lora-modules."
        )


def trained(
    found: Mapping[str, Split], settings: Mapping[str, Any], seed: int
) -> tuple[dict[str, TrainingLog], dict[str, LLM]]:
    """The adapter of each split, and the models, served together: `base`, and each split's under its name.

    Raises ServiceError: no server that has the adapters; a server of the settings is asked before any is trained;
    EngineError: this machine's engine cannot train or serve them.
    """
    check_server(settings["base"], found)
    logs = {name: train(name, split, settings, seed) for name, split in found.items()}
    base = llm.connect(
        settings["base"], exact=True, adapters=[log.adapter for log in logs.values()]
    )
    return logs, {"base": base, **{name: base.adapted(log.adapter) for name, log in logs.items()}}


def answering(
    model: LLM, max_tokens: int, split: str
) -> Callable[[Sequence[Question]], list[Answer]]:
    """An arm: test questions of a split in, a model's answers without any document out; the split is their task."""
    label = f"answers, {model.endpoint.model}, split {split}"
    return each(
        partial(model.chat_many, max_tokens=max_tokens, label=label),
        prompt,
        lambda _, r: Answer(
            task=split, measures={"characters": (float(len(r.text)), 1.0)}, **r.columns
        ),
    )


def hypothetical(
    of: Data, settings: Mapping[str, Any], seed: int, max_tokens: int
) -> tuple[dict[str, dict[str, Query]], dict[str, LLM]]:
    """What the retrieval asks with: answers of the model fine-tuned on the paper's split by rows, and of its base.

    Queries are of the kinds `tuned` and `base`; of the models, `rows` is the fine-tuned one. The server is the one that
    serves the adapters of both splits, so that the notebook on fine-tuning and that on retrieval start one.

    Raises ServiceError, EngineError: see `trained`.
    """
    _, served = trained(splits(of, seed), settings, seed)
    models = {name: served[name] for name in ("base", "rows")}
    prompts = [prompt(question) for question in of.test]
    queries = {
        kind: asked_queries(
            models[name], of.test, prompts, max_tokens, f"hypothetical answers, {told}"
        )
        for kind, name, told in (("tuned", "rows", "fine-tuned"), ("base", "base", "base"))
    }
    return queries, models


def splits_table(
    found: Mapping[str, Split], asked: Mapping[str, Sequence[Question]]
) -> pd.DataFrame:
    """Sizes of the splits, what the test shares with the training, and which test questions are asked."""
    rows = []
    for name, parts in found.items():
        test, train_part = parts["test"], parts["train"]
        learned = {question.source for question in train_part}
        rows.append(
            {
                "split": SPLITS[name],
                **{f"{part} pairs": len(parts[part]) for part in ("train", "validation", "test")},
                "test questions of a document that was trained on": proportion(
                    sum(q.source in learned for q in test), len(test)
                ),
                "test questions that the training repeats": proportion(
                    len(twins(test, train_part)), len(test)
                ),
                "asked": len(asked[name]),
                "documents of these": len({q.source for q in asked[name]}),
            }
        )
    return pd.DataFrame(rows)


def draw_losses(logs: Mapping[str, TrainingLog]) -> Figure:
    """Training and validation loss over steps (the paper's Figure 2), a panel a split."""
    fig, panels = plt.subplots(1, len(logs), figsize=(7.2, 3.4), sharey=True, squeeze=False)
    for panel, (name, log) in zip(panels[0], logs.items(), strict=True):
        for losses, style, what in (
            (log.train, "--", "training"),
            (log.validation, "-", "validation"),
        ):
            steps, values = [loss.step for loss in losses], [loss.value for loss in losses]
            panel.plot(
                steps, values, style, marker="o", markersize=4, color=COLOURS[name], label=what
            )
        panel.set_title(SPLITS[name])
        panel.set_xlabel("step")
        panel.grid(axis="y")
        panel.legend()
    panels[0][0].set_ylabel("loss, nats a token")
    return fig


def losses_words(logs: Mapping[str, TrainingLog]) -> str:
    """What the loss curves show, in words."""
    parts = []
    for name, log in logs.items():
        first, last = log.validation[0].value, log.validation[-1].value
        moved = "falls" if last < first else "does not fall"
        seen = f"training loss from {log.train[0].value:.2f} to {log.train[-1].value:.2f}"
        parts.append(
            f"split {SPLITS[name]}: validation loss {moved}, from {first:.2f} to {last:.2f}, {seen}"
        )
    return f"Loss over steps. {'; '.join(parts)}."


def report(run: Run, outcomes: Outcomes, base: str, encoder: str, why_not: str) -> None:
    """Report the rerun of Table 1's fine-tuned open model, on the paper's split, or why there is none (`why_not`)."""
    model = f"{base} with LoRA"
    for column in ("precision", "recall", "f1"):
        id = f"qa_rag.table1.finetuned_mistral.{column}"
        score = None if why_not else outcomes.where(task="rows").score(column, "tuned")
        if score is None:
            run.not_run(id, why_not)
        elif scale := other_scale(encoder):
            run.not_run(
                id, f"{scale}; {model} has {figures.score_text(score)} on {score.n} questions."
            )
        else:
            run.rerun(id, score, model=model, note=f"{model} in place of Mistral-7B")
