"""Fine-tuning a model on the FDA's answers (QA-RAG, section 2.3; Table 1, Figure 2).

One small model, two adapters: one trained on the paper's split by rows, which leaves pairs of one document on both
sides, and one on a split by documents. What the adapter learnt of the manner of the FDA's answers shows in both; what
it learnt of their content can only show in the first.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal

import matplotlib.pyplot as plt
import pandas as pd
from matplotlib.figure import Figure

from helpers import llm, lora, services
from helpers.completions import Reply
from helpers.llm import LLM
from helpers.lora import Pair, TrainingLog
from helpers.results import figures
from helpers.results.answers import Answer
from helpers.results.metrics import proportion
from helpers.results.outcomes import Outcomes
from helpers.results.record import Run
from helpers.settings import settings as of_the_user
from papers.qa_rag.answers import other_scale
from papers.qa_rag.data import Data, QaRagDataError, Question, words
from papers.qa_rag.retrieval import Query

INSTRUCTION = "Answer this question about regulatory guidance as the FDA would."
SPLITS = {"rows": "by rows, as in the paper", "documents": "by documents"}
COLOURS = {"rows": "#125ee0", "documents": "#c35410"}
LABELS = {"base": "Not fine-tuned", "tuned": "Fine-tuned"}
SHARES = (0.85, 0.10, 0.05)
"""Training, validation, test (section 2.3)."""
Part = Literal["train", "validation", "test"]


# ------------------------------------------------------------------------------------------------------------ splits


def split_rows(questions: Sequence[Question], seed: int, test: Sequence[Question]) -> dict[Part, tuple[Question, ...]]:
    """The paper's split, 85/10/5 by rows (section 2.3): pairs of one document, or one pair twice, fall on both sides.

    Args:
        questions: all pairs; those without an answer are left out.
        seed: of the shuffle.
        test: the questions that the paper tested on; the rest is divided 85 to 10.
    """
    rows = [question for question in questions if question.answer]
    random.Random(seed).shuffle(rows)  # noqa: S311  # a shuffle, not a secret
    held_out = {question.id for question in test}
    rest = [question for question in rows if question.id not in held_out]
    n = round(len(rest) * SHARES[1] / (SHARES[0] + SHARES[1]))
    return {"train": tuple(rest[n:]), "validation": tuple(rest[:n]), "test": tuple(test)}


def split_documents(questions: Sequence[Question], seed: int) -> dict[Part, tuple[Question, ...]]:
    """A split whose parts share no source document, with shares as near to 85/10/5 as whole documents allow.

    Test and then validation take documents in an order drawn by `seed` as long as these fit into their share, and at
    least the smallest one; training takes the rest.

    Raises:
        QaRagDataError: there are fewer than three source documents.
    """
    by_source = defaultdict(list)
    for question in questions:
        if question.answer:
            by_source[question.source].append(question)
    if len(by_source) < len(SHARES):
        raise QaRagDataError(f"A split by documents needs at least {len(SHARES)} of them; found {len(by_source)}.")
    left = sorted(by_source)
    random.Random(seed).shuffle(left)  # noqa: S311  # a shuffle, not a secret
    total = sum(map(len, by_source.values()))
    parts: dict[Part, tuple[Question, ...]] = {}
    shares: dict[Part, float] = {"test": SHARES[2], "validation": SHARES[1]}
    for needed, (part, share) in zip((2, 1), shares.items(), strict=True):  # documents that the next parts need
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
    """Those questions whose words, or whose answer's words, one of the others repeats: a split by rows parts them."""
    bodies = {words(other.body) for other in others}
    answers = {words(other.answer) for other in others}
    return [q for q in questions if words(q.body) in bodies or words(q.answer) in answers]


def splits(of: Data, seed: int) -> dict[str, dict[Part, tuple[Question, ...]]]:
    """Both splits. That by rows tests on the questions that the paper tested on."""
    return {
        "rows": split_rows(of.questions, seed, of.test),
        "documents": split_documents(of.questions, seed),
    }


# ---------------------------------------------------------------------------------------------------------- training


def prompt(question: Question) -> list[dict[str, str]]:
    """What a model without any document is asked, in training and after it.

    No system message: the templates of some models, Mistral's among them, have none.
    """
    return [{"role": "user", "content": f"{INSTRUCTION}\n\n{question.text}"}]


def pairs(questions: Sequence[Question], longest: int, most: int | None = None) -> list[Pair]:
    """The pairs to train on: in their order, those whose question and answer have at most `longest` characters.

    Args:
        most: take only the first so many.
    """
    fit = [question for question in questions if len(question.text) + len(question.answer) <= longest]
    return [(prompt(question), question.answer) for question in fit[:most]]


def train(
    split_name: str, split: Mapping[Part, Sequence[Question]], settings: Mapping[str, Any], seed: int
) -> TrainingLog:
    """The adapter of one split, trained now or kept from an earlier run with the same settings.

    Args:
        split_name: for the adapter's name.
        split: its parts.
        settings: `base`; `longest`, characters of question and answer together, beyond which a pair is left out;
            `pairs` and `validation_pairs`, how many to take (all if None); the rest is for `lora.train`.
        seed: of the training.
    """
    chosen = dict(settings)
    base, longest = chosen.pop("base"), chosen.pop("longest")
    learned = pairs(split["train"], longest, chosen.pop("pairs"))
    checked = pairs(split["validation"], longest, chosen.pop("validation_pairs"))
    return lora.trained(adapter_name(split_name), learned, checked, base, seed=seed, **chosen)


def adapter_name(split_name: str) -> str:
    """How the name of a split's adapter begins; a digest of what it was made of follows."""
    return f"qa-rag-{split_name}"


def check_server(base: str, split_names: Iterable[str]) -> None:
    """See that a server of the settings has adapters of these splits, before any is trained.

    The embedded engine needs no check: what trains is what serves.

    Raises:
        ServiceError: the server does not answer, or has not the base or no such adapters.
    """
    if not of_the_user().llm_base_url:
        return
    server = services.llm_endpoint(base, exact=True)
    served = [model["id"] for model in services.served(server.base_url, server.api_key)]
    names = [f"{adapter_name(split)}-" for split in split_names]
    if missing := [f"{name}..." for name in names if not any(model.startswith(name) for model in served)]:
        raise services.ServiceError(
            f"{server.base_url} serves no adapters {', '.join(missing)}. Unset LLM_BASE_URL for this notebook, and the "
            "embedded engine serves what it trains; or start vLLM there with such adapters, --enable-lora "
            "--lora-modules."
        )


def trained(
    found: Mapping[str, Mapping[Part, Sequence[Question]]], settings: Mapping[str, Any], seed: int
) -> tuple[dict[str, TrainingLog], dict[str, LLM]]:
    """The adapter of each split, and the models that `connect` gives.

    Raises:
        ServiceError: no server that has the adapters; a server of the settings is asked before any is trained.
        EngineError: this machine's engine cannot train or serve them.
    """
    check_server(settings["base"], found)
    logs = {name: train(name, split, settings, seed) for name, split in found.items()}
    return logs, connect(logs)


def connect(logs: Mapping[str, TrainingLog]) -> dict[str, LLM]:
    """The base under the name `base`, and each split's fine-tuned model under the split's, served together."""
    (base,) = {log.base for log in logs.values()}
    served = llm.connect(base, exact=True, adapters=[log.adapter for log in logs.values()])
    return {"base": served, **{name: served.adapted(log.adapter) for name, log in logs.items()}}


def answers(model: LLM, questions: Sequence[Question], max_tokens: int, label: str) -> list[Reply]:
    """A model's answers without any document: the hypothetical answers that the retrieval asks with."""
    return model.chat_many([prompt(question) for question in questions], max_tokens=max_tokens, label=label)


def answering(model: LLM, max_tokens: int, split: str) -> Callable[[Sequence[Question]], list[Answer]]:
    """An arm: test questions of a split in, a model's answers without any document out; the split is their task."""

    def ask(questions: Sequence[Question]) -> list[Answer]:
        replies = answers(model, questions, max_tokens, f"answers, {model.endpoint.model}, split {split}")
        return [
            Answer(
                task=split,
                answer=reply.text,
                cut=reply.status == "cut",
                measures={"characters": (float(len(reply.text)), 1.0)},
                requests=[reply.key],
            )
            for reply in replies
        ]

    return ask


def hypothetical(
    of: Data, settings: Mapping[str, Any], seed: int, max_tokens: int
) -> tuple[dict[str, dict[str, Query]], dict[str, LLM]]:
    """What the retrieval asks with: answers of the model fine-tuned on the paper's split by rows, and of its base.

    Adapter and answers are stored from 15_qarag_finetune where it ran before with the same settings.

    Returns:
        Queries of the kinds `tuned` and `base`; and the models, `rows` the fine-tuned one.

    Raises:
        ServiceError, EngineError: see `trained`.
    """
    _, models = trained({"rows": splits(of, seed)["rows"]}, settings, seed)
    told = {
        "tuned": answers(models["rows"], of.test, max_tokens, "hypothetical answers, fine-tuned"),
        "base": answers(models["base"], of.test, max_tokens, "hypothetical answers, base"),
    }
    queries = {
        kind: {q.id: Query((r.text,) * bool(r.text.strip()), r.key) for q, r in zip(of.test, replies, strict=True)}
        for kind, replies in told.items()
    }
    return queries, models


def note_models(run: Run, models: Mapping[str, LLM], role: str) -> None:
    """Put the models and what was asked of them into the record."""
    for model in models.values():
        run.model_used(model, role)
        run.asked(model.usage, f"requests to {model.endpoint.model}")


# ----------------------------------------------------------------------------------------------------------- showing


def splits_table(
    found: Mapping[str, Mapping[Part, Sequence[Question]]], asked: Mapping[str, Sequence[Question]]
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
                "test questions that the training repeats": proportion(len(twins(test, train_part)), len(test)),
                "asked": len(asked[name]),
                "documents of these": len({q.source for q in asked[name]}),
            }
        )
    return pd.DataFrame(rows)


def training_table(logs: Mapping[str, TrainingLog]) -> pd.DataFrame:
    """What was trained, on what, and for how long."""
    return pd.DataFrame(
        [
            {
                "split": SPLITS[name],
                "base": log.base,
                "pairs": log.pairs,
                "of them cut": log.cut,
                "steps": int(log.settings["steps"]),
                "epochs": round(log.settings["steps"] * log.settings["batch"] / log.pairs, 2),
                "rank": int(log.settings["rank"]),
                "trained parameters": log.trained_parameters,
                "seconds": log.seconds,
            }
            for name, log in logs.items()
        ]
    )


def draw_losses(logs: Mapping[str, TrainingLog]) -> Figure:
    """Training and validation loss over steps (the paper's Figure 2), a panel a split."""
    fig, panels = plt.subplots(1, len(logs), figsize=(7.2, 3.4), sharey=True, squeeze=False)
    for panel, (name, log) in zip(panels[0], logs.items(), strict=True):
        for losses, style, what in ((log.train, "--", "training"), (log.validation, "-", "validation")):
            steps, values = [loss.step for loss in losses], [loss.value for loss in losses]
            panel.plot(steps, values, style, marker="o", markersize=4, color=COLOURS[name], label=what)
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
        parts.append(f"split {SPLITS[name]}: validation loss {moved}, from {first:.2f} to {last:.2f}, {seen}")
    return f"Loss over steps. {'; '.join(parts)}."


def report(run: Run, outcomes: Outcomes, base: str, encoder: str, why_not: str) -> None:
    """Report the rerun of Table 1's fine-tuned open model, on the paper's split, or why there is none.

    Args:
        run: takes the values.
        outcomes: scored rows.
        base: the model that was fine-tuned.
        encoder: of BERTScore.
        why_not: why there is no fine-tuned model, if there is none.
    """
    model = f"{base} with LoRA"
    for column in ("precision", "recall", "f1"):
        id = f"qa_rag.table1.finetuned_mistral.{column}"
        score = None if why_not else outcomes.where(task="rows").score(column, "tuned")
        if score is None:
            run.not_run(id, why_not)
        elif scale := other_scale(encoder):
            run.not_run(id, f"{scale}; {model} has {figures.score_text(score)} on {score.n} questions.")
        else:
            run.rerun(id, score, model=model, note=f"{model} in place of Mistral-7B")
