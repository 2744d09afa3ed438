"""Fine-tuning a model on the FDA's answers (qa_rag.md, section 2.3; Table 1, Figure 2).

One small model, two adapters: one trained on the paper's split by rows, which leaves pairs of one document on both
sides, and one on a split by documents. What the adapter learnt of the manner of the FDA's answers shows in both; what
it learnt of their content can only show in the first.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from helpers import llm, lora, services
from helpers.llm import LLM, Reply
from helpers.lora import Pair, TrainingLog
from helpers.results import figures, verdicts
from helpers.results.figures import Html
from helpers.results.metrics import Paired, Score, bootstrap, paired_means, proportion
from helpers.results.record import Run
from helpers.settings import settings as of_the_user
from helpers.similarity import BertScores, bertscore
from helpers.vectors import Encoder
from papers.qa_rag import data
from papers.qa_rag.data import FEWEST, Data, Part, Question
from papers.qa_rag.encoders import other_scale
from papers.qa_rag.retrieval import Queries, Query

INSTRUCTION = "Answer this question about regulatory guidance as the FDA would."
SPLITS = {"rows": "by rows, as in the paper", "documents": "by documents"}
COLOURS = {"rows": "#125ee0", "documents": "#c35410"}
CLAIM = "qa_rag.claim."


# ---------------------------------------------------------------------------------------------------------- training


def splits(of: Data, seed: int) -> dict[str, dict[Part, tuple[Question, ...]]]:
    """Both splits. That by rows tests on the questions that the paper tested on."""
    return {
        "rows": data.split_rows(of.questions, seed, of.test),
        "documents": data.split_documents(of.questions, seed),
    }


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


def some(questions: Sequence[Question], most: int, seed: int) -> tuple[Question, ...]:
    """At most so many of the questions, drawn by `seed`, in their order."""
    chosen = set(random.Random(seed).sample(range(len(questions)), min(most, len(questions))))  # noqa: S311
    return tuple(question for place, question in enumerate(questions) if place in chosen)


def answers(model: LLM, questions: Sequence[Question], max_tokens: int, label: str) -> list[Reply]:
    """A model's answers without any document: the hypothetical answers that the retrieval asks with."""
    return model.chat_many([prompt(question) for question in questions], max_tokens=max_tokens, label=label)


@dataclass(frozen=True)
class Hypothetical:
    """Hypothetical answers to the test questions.

    Attributes:
        queries: `tuned` and `base`: question id -> the answer.
        log: the training of the adapter.
        models: `base` and `rows`, the fine-tuned one.
    """

    queries: Queries
    log: TrainingLog
    models: Mapping[str, LLM]


def hypothetical(of: Data, settings: Mapping[str, Any], seed: int, max_tokens: int) -> Hypothetical:
    """What the retrieval asks with: answers of the model fine-tuned on the paper's split by rows, and of its base.

    Adapter and answers are kept from 15_qarag_finetune where it ran before with the same settings.

    Raises:
        ServiceError, EngineError: see `trained`.
    """
    logs, models = trained({"rows": splits(of, seed)["rows"]}, settings, seed)
    told = {
        "tuned": answers(models["rows"], of.test, max_tokens, "hypothetical answers, fine-tuned"),
        "base": answers(models["base"], of.test, max_tokens, "hypothetical answers, base"),
    }
    queries = {
        kind: {q.id: Query((r.text,) * bool(r.text.strip()), r.key) for q, r in zip(of.test, replies, strict=True)}
        for kind, replies in told.items()
    }
    return Hypothetical(queries, logs["rows"], models)


def note_models(run: Run, models: Mapping[str, LLM], role: str) -> None:
    """Put the models and what was asked of them into the record."""
    for model in models.values():
        run.model(
            model.endpoint.model,
            model.endpoint.model_sha256,
            engine=model.endpoint.engine,
            version=model.endpoint.version,
            role=role,
        )
        run.asked(model.usage, f"requests to {model.endpoint.model}")


# -------------------------------------------------------------------------------------------------------- evaluation


@dataclass(frozen=True)
class Evaluated:
    """One model's answers to one split's test questions.

    Attributes:
        split: of which it answers the test questions.
        tuned: whether with the adapter of that split.
        replies: one an answer.
        scores: BERTScore against the FDA's answers.
        documents: that the questions were taken from.
    """

    split: str
    tuned: bool
    replies: tuple[Reply, ...]
    scores: BertScores
    documents: tuple[str, ...]

    @property
    def label(self) -> str:
        """As a reader sees it."""
        of = f"split {SPLITS[self.split]}"
        return f"fine-tuned, {of}" if self.tuned else f"not fine-tuned, test questions of the {of}"

    @property
    def characters(self) -> list[int]:
        """Length of each answer."""
        return [len(reply.text) for reply in self.replies]


def evaluate(
    split: str, tuned: bool, replies: Sequence[Reply], questions: Sequence[Question], encode: Encoder
) -> Evaluated:
    """BERTScore of the answers to a split's test questions."""
    scores = bertscore([r.text for r in replies], [q.answer for q in questions], encode, progress=False)
    return Evaluated(split, tuned, tuple(replies), scores, tuple(q.source for q in questions))


def splits_table(found: Mapping[str, Mapping[Part, Sequence[Question]]]) -> pd.DataFrame:
    """Sizes of the splits, and what the test shares with the training."""
    rows = []
    for name, parts in found.items():
        test, train_part = parts["test"], parts["train"]
        learned = {question.source for question in train_part}
        known = proportion(sum(q.source in learned for q in test), len(test))
        repeated = proportion(len(data.twins(test, train_part)), len(test))
        rows.append(
            {
                "split": SPLITS[name],
                **{f"{part} pairs": len(parts[part]) for part in ("train", "validation", "test")},
                "documents of the test": len({q.source for q in test}),
                "test questions of a document that was trained on": known,
                "test questions that the training repeats": repeated,
            }
        )
    return pd.DataFrame(rows)


def asked_words(found: Mapping[str, Mapping[Part, Sequence[Question]]], asked: Mapping[str, Sequence[Question]]) -> str:
    """Which test questions are asked, from how many documents, and what that allows, a sentence a split."""
    told = []
    for name, questions in asked.items():
        of = len(found[name]["test"])
        drawn = (
            f"{len(questions)} of its {of} test questions, drawn to save time" if len(questions) < of else f"all {of}"
        )
        documents = len({question.source for question in questions})
        least = 2 / 2**documents
        allows = (
            f"; a test by document cannot give a p below {figures.p_text(least)}, so this split decides nothing alone"
            if least >= verdicts.ALPHA
            else ""
        )
        told.append(f"Split {SPLITS[name]}: asked are {drawn}, of {_documents(documents)}{allows}.")
    return " ".join(told)


def _documents(n: int) -> str:
    return f"{n} document{'s' * (n != 1)}"


def training_table(logs: Mapping[str, TrainingLog]) -> pd.DataFrame:
    """What was trained, on what, and for how long."""
    rows = []
    for name, log in logs.items():
        settings = log.settings
        rows.append(
            {
                "split": SPLITS[name],
                "base": log.base,
                "pairs": log.pairs,
                "of them cut": log.cut,
                "steps": int(settings["steps"]),
                "epochs": round(settings["steps"] * settings["batch"] / log.pairs, 2),
                "rank": int(settings["rank"]),
                "trained parameters": log.trained_parameters,
                "of all": Score(log.trained_parameters / log.parameters, log.parameters, np.nan, np.nan),
                "seconds": log.seconds,
                "adapter": log.adapter.sha256[:12],
            }
        )
    return pd.DataFrame(rows)


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


def table1(run: Run, evaluated: Sequence[Evaluated], encoder: str, base: str, draws: int) -> pd.DataFrame:
    """BERTScore as in Table 1, printed rows first.

    The paper's fine-tune of an open model is rerun by this one on the paper's split, where the encoder is the paper's.
    """
    columns = ("precision", "recall", "f1")
    rows: list[dict[str, object]] = [
        {
            "model": run.printed.number(f"qa_rag.table1.{key}.f1").row + ", printed",
            **{c: figures.number(run.printed.number(f"qa_rag.table1.{key}.{c}").value) for c in columns},
        }
        for key in ("finetuned_gpt35", "finetuned_mistral", "gpt4")
    ]
    for of in evaluated:
        values = {c: bootstrap(getattr(of.scores, c), clusters=of.documents, draws=draws) for c in columns}
        for c, value in values.items():
            run.extra(f"finetune.{of.split}.{'tuned' if of.tuned else 'base'}.{c}", f"BERTScore {c}, {of.label}", value)
            if of.tuned and of.split == "rows":
                _report(run, c, value, encoder, f"{base} with LoRA")
        cut = sum(reply.status == "cut" for reply in of.replies)
        length = bootstrap(of.characters, clusters=of.documents, draws=draws)
        rows.append(
            {
                "model": f"{base}, {of.label}",
                "n": len(of.replies),
                "documents": len(set(of.documents)),
                **values,
                "characters of an answer": figures.score_text(length, "count"),
                "answers cut by the limit of tokens": cut,
            }
        )
    return pd.DataFrame(rows)


def _report(run: Run, column: str, value: Score, encoder: str, model: str) -> None:
    id = f"qa_rag.table1.finetuned_mistral.{column}"
    if scale := other_scale(encoder):
        run.not_run(id, f"{scale}; {model} has {figures.score_text(value)} on {value.n} questions.")
    else:
        run.rerun(id, value, model=model, note=f"{model} in place of Mistral-7B")


def not_trained(run: Run, why: str) -> None:
    """Say of all that needs an adapter that it was not run."""
    for column in ("precision", "recall", "f1"):
        run.not_run(f"qa_rag.table1.finetuned_mistral.{column}", why)
    for claim in ("loss_falls", "fine_tuning_helps"):
        run.claim(CLAIM + claim, "not run", why)


def compare(evaluated: Sequence[Evaluated], draws: int) -> dict[str, Paired]:
    """BERTScore F1 with the adapter minus without, on the same test questions, by document; a test a split."""
    of = {(e.split, e.tuned): e for e in evaluated}
    return {
        s: paired_means(of[s, True].scores.f1, of[s, False].scores.f1, clusters=of[s, True].documents, draws=draws)
        for s in SPLITS
        if (s, True) in of
    }


def tests_table(tests: Mapping[str, Paired]) -> pd.DataFrame:
    """The paired tests as a reader sees them."""
    return pd.DataFrame(
        [
            {
                "split": SPLITS[name],
                "questions": t.n,
                "nearer to the FDA's answer": t.b,
                "farther": t.c,
                "F1 with minus without, points": figures.points(t),
                "p": figures.p_text(t.p),
            }
            for name, t in tests.items()
        ]
    )


def decide_claims(run: Run, logs: Mapping[str, TrainingLog], tests: Mapping[str, Paired]) -> None:
    """The paper's statements about its fine-tuning, by the tests that `data/published/qa_rag.yml` states."""
    fell = all(log.validation[-1].value < log.validation[0].value for log in logs.values())
    words = "; ".join(
        f"split {SPLITS[name]}: {log.validation[0].value:.3f} before, {log.validation[-1].value:.3f} after "
        f"{int(log.settings['steps'])} steps"
        for name, log in logs.items()
    )
    run.claim(
        CLAIM + "loss_falls",
        verdicts.exactly(fell),
        f"Mean validation loss, {words}. Two means are compared; no loss of a pair is on record, so no test is made.",
    )
    words = "; ".join(
        f"split {SPLITS[name]}: {figures.points(t)} points on {t.n} questions, {figures.p_words(t.p)}"
        for name, t in tests.items()
    )
    own = tests["rows"]
    run.claim(
        CLAIM + "fine_tuning_helps",
        verdicts.better(own, own.p),
        f"BERTScore F1 with the adapter minus without, on the same questions: {words}. The paper's split, by rows, "
        "decides.",
        p=own.p,
    )


def summary(
    logs: Mapping[str, TrainingLog], tests: Mapping[str, Paired], evaluated: Sequence[Evaluated], base: str
) -> str:
    """The page's answer, from the run's values."""
    log, test, own = logs["rows"], tests["rows"], tests["documents"]
    answered = {
        "agrees": "Yes: after the training, the model's answers are nearer to the FDA's",
        "differs": "No: the training brings the model's answers no nearer to the FDA's",
        "undecided": "This run cannot tell whether the training brings the model's answers nearer to the FDA's",
    }[verdicts.better(test, test.p)]
    if test.high < 0 and test.p < verdicts.ALPHA:
        answered = "No: after the training, the model's answers are farther from the FDA's than before"
    before, after = (
        float(np.mean(next(e.characters for e in evaluated if (e.split, e.tuned) == ("rows", tuned))))
        for tuned in (False, True)
    )
    manner = "shorter" if after < before else "longer" if after > before else "equally long"
    documents = len({d for e in evaluated if e.split == "documents" for d in e.documents})
    content = {
        "agrees": "are nearer, too",
        "differs": "are no nearer",
        "undecided": "may be nearer or not, for these are too few",
    }[verdicts.better(own, own.p) if documents >= FEWEST else "undecided"]
    return (
        f"**{answered}.** It learns a manner, {manner} answers "
        f"({figures.number(before, 'count')} characters before, {figures.number(after, 'count')} after); on "
        f"{_documents(documents)} that it was not trained on, its answers {content}. "
        f"{int(log.settings['steps'])} steps on {log.pairs} pairs move the BERTScore F1 of {base} by "
        f"{figures.points(test)} points on {test.n} test questions ({figures.p_words(test.p)}), and where no document "
        f"is on both sides of the split by {figures.points(own)} ({figures.p_words(own.p)}). "
        f"The validation loss went from {log.validation[0].value:.2f} to {log.validation[-1].value:.2f} nats a token."
    )


def examples(questions: Sequence[Question], by_model: Mapping[str, Sequence[Reply]], which: int) -> Html:
    """One test question with the FDA's answer and each model's."""
    question = questions[which]
    turns = [{"role": "question", "content": question.text}, {"role": "the FDA", "content": question.answer}]
    turns += [{"role": name, "content": replies[which].text} for name, replies in by_model.items()]
    return figures.prompt_box(turns, caption=f"Test question {question.id}")
