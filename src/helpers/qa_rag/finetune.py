"""Fine-tuning a model on the FDA's answers (qa_rag.md, section 2.3; Table 1, Figure 2).

One small model, two adapters: one trained on the paper's split by rows, which leaves pairs of one document on both
sides, and one on a split by documents. What the adapter learnt of the manner of the FDA's answers shows in both; what
it learnt of their content can only show in the first.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from helpers import figures, llm, lora
from helpers.figures import Html
from helpers.llm import LLM, Reply
from helpers.lora import Pair, TrainingLog
from helpers.metrics import Paired, Score, bootstrap, paired_means, proportion
from helpers.qa_rag import data
from helpers.qa_rag.data import Data, Part, Question
from helpers.record import Run
from helpers.similarity import BertScores, bertscore
from helpers.vectors import Encoder

INSTRUCTION = "Answer this question about regulatory guidance as the FDA would."
SPLITS = {"rows": "by rows, as in the paper", "documents": "by documents"}
COLOURS = {"rows": "#125ee0", "documents": "#c35410"}
CLAIM = "qa_rag.claim."
BASE_LABEL = "not fine-tuned"


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
    return lora.trained(f"qa-rag-{split_name}", learned, checked, base, seed=seed, **chosen)


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
        queries: `tuned` and `base`: question id -> the answer, where there is one.
        log: the training of the adapter.
        models: `base` and `rows`, the fine-tuned one.
    """

    queries: Mapping[str, Mapping[str, Sequence[str]]]
    log: TrainingLog
    models: Mapping[str, LLM]


def hypothetical(of: Data, settings: Mapping[str, Any], seed: int, max_tokens: int) -> Hypothetical:
    """What the retrieval asks with: answers of the model fine-tuned on the paper's split by rows, and of its base.

    Adapter and answers are kept from 15_qarag_finetune where it ran before with the same settings.
    """
    log = train("rows", splits(of, seed)["rows"], settings, seed)
    models = connect({"rows": log})
    told = {
        "tuned": answers(models["rows"], of.test, max_tokens, "hypothetical answers, fine-tuned"),
        "base": answers(models["base"], of.test, max_tokens, "hypothetical answers, base"),
    }
    queries = {
        kind: {q.id: [reply.text] for q, reply in zip(of.test, replies, strict=True) if reply.text.strip()}
        for kind, replies in told.items()
    }
    return Hypothetical(queries, log, models)


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
        usage = model.usage
        run.tokens(
            prompt=usage.prompt_tokens, generated=usage.generated_tokens, requests=usage.requests, cached=usage.cached
        )


# -------------------------------------------------------------------------------------------------------- evaluation


@dataclass(frozen=True)
class Evaluated:
    """One model's answers to one split's test questions.

    Attributes:
        split: of which it answers the test questions.
        tuned: whether with the adapter of that split.
        replies: one an answer.
        scores: BERTScore against the FDA's answers.
    """

    split: str
    tuned: bool
    replies: tuple[Reply, ...]
    scores: BertScores

    @property
    def label(self) -> str:
        """As a reader sees it."""
        return f"fine-tuned, split {SPLITS[self.split]}" if self.tuned else f"{BASE_LABEL}, its test questions"


def evaluate(
    split: str, tuned: bool, replies: Sequence[Reply], questions: Sequence[Question], encode: Encoder
) -> Evaluated:
    """BERTScore of the answers to a split's test questions."""
    scores = bertscore([r.text for r in replies], [q.answer for q in questions], encode, progress=False)
    return Evaluated(split, tuned, tuple(replies), scores)


def score(values: np.ndarray, draws: int) -> Score:
    """A mean with its interval over questions."""
    return bootstrap(values, draws=draws)


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
    """BERTScore as in Table 1, printed rows first; the paper's fine-tune of an open model is rerun by this one."""
    columns = ("precision", "recall", "f1")
    rows: list[dict[str, object]] = [
        {
            "model": run.printed.number(f"qa_rag.table1.{key}.f1").row + ", printed",
            **{c: figures.number(run.printed.number(f"qa_rag.table1.{key}.{c}").value) for c in columns},
        }
        for key in ("finetuned_gpt35", "finetuned_mistral", "gpt4")
    ]
    for of in evaluated:
        values = {c: score(getattr(of.scores, c), draws) for c in columns}
        for c, value in values.items():
            run.extra(f"finetune.{of.split}.{'tuned' if of.tuned else 'base'}.{c}", f"BERTScore {c}, {of.label}", value)
            if of.tuned and of.split == "rows":
                note = f"{base} with LoRA in place of Mistral-7B, {encoder} in place of the paper's encoder"
                run.rerun(f"qa_rag.table1.finetuned_mistral.{c}", value, model=f"{base} with LoRA", note=note)
        length = score(np.array([len(reply.text) for reply in of.replies], dtype=float), draws)
        cut = sum(reply.status == "cut" for reply in of.replies)
        rows.append(
            {
                "model": f"{base}, {of.label}",
                "n": len(of.replies),
                **values,
                "characters of an answer": figures.score_text(length, "count"),
                "answers cut by the limit of tokens": cut,
            }
        )
    return pd.DataFrame(rows)


def compare(evaluated: Sequence[Evaluated], draws: int) -> dict[str, Paired]:
    """BERTScore F1 with the adapter less without, on the same test questions, by split."""
    of = {(e.split, e.tuned): e.scores.f1 for e in evaluated}
    return {s: paired_means(of[s, True], of[s, False], draws=draws) for s in SPLITS if (s, True) in of}


def tests_table(tests: Mapping[str, Paired]) -> pd.DataFrame:
    """The paired tests as a reader sees them."""
    return pd.DataFrame(
        [
            {
                "split": SPLITS[name],
                "questions": t.n,
                "nearer to the FDA's answer": t.b,
                "farther": t.c,
                "difference in F1, points": figures.points(t),
                "p": figures.p_text(t.p),
            }
            for name, t in tests.items()
        ]
    )


def decide_claims(run: Run, logs: Mapping[str, TrainingLog], tests: Mapping[str, Paired]) -> None:
    """The paper's statements about its fine-tuning, by the tests that `data/published/qa_rag.yml` states."""
    fell = {name: log.validation[-1].value < log.validation[0].value for name, log in logs.items()}
    words = "; ".join(
        f"split {SPLITS[name]}: {log.validation[0].value:.3f} before, {log.validation[-1].value:.3f} after "
        f"{int(log.settings['steps'])} steps"
        for name, log in logs.items()
    )
    run.claim(CLAIM + "loss_falls", "agrees" if all(fell.values()) else "differs", f"Validation loss, {words}.")
    held = [t.difference > 0 and t.p < 0.05 for t in tests.values()]
    words = "; ".join(
        f"split {SPLITS[name]}: {figures.points(t)} points, {figures.p_words(t.p)}" for name, t in tests.items()
    )
    run.claim(
        CLAIM + "fine_tuning_helps",
        "agrees" if all(held) else "differs",
        f"BERTScore F1 with the adapter less without, on the same questions: {words}.",
        p=max(t.p for t in tests.values()),
    )


def summary(logs: Mapping[str, TrainingLog], tests: Mapping[str, Paired], base: str) -> str:
    """The page's answer, from the run's values."""
    log, test = logs["rows"], tests["rows"]
    moved = "nearer to" if test.difference > 0 else "no nearer to"
    sure = figures.p_words(test.p)
    own = tests["documents"]
    same = "the same sign" if np.sign(own.difference) == np.sign(test.difference) else "the other sign"
    return (
        f"**Trained for {int(log.settings['steps'])} steps on {log.pairs} pairs, {base} answers {moved} the FDA: "
        f"{figures.points(test)} points of BERTScore F1 on {test.n} test questions ({sure}).** Where no document is "
        f"on both sides of the split, the difference is {figures.points(own)} ({figures.p_words(own.p)}), of {same}. "
        f"The validation loss went from {log.validation[0].value:.2f} to {log.validation[-1].value:.2f} nats a token."
    )


def examples(questions: Sequence[Question], by_model: Mapping[str, Sequence[Reply]], which: int) -> Html:
    """One test question with the FDA's answer and each model's."""
    question = questions[which]
    turns = [{"role": "question", "content": question.text}, {"role": "the FDA", "content": question.answer}]
    turns += [{"role": name, "content": replies[which].text} for name, replies in by_model.items()]
    return figures.prompt_box(turns, caption=f"Test question {question.id}")
