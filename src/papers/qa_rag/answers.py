"""Final answers from passages (QA-RAG, section 2.5; Table 4), and how much of six long passages fits a prompt.

The paper gives six passages of up to 10,000 characters to a hosted model. They do not fit the window of a small one six
times over, nor would a CPU read them in time, so they are cut to a stated number of characters, by one of three rules.
What a rule leaves of the FDA's own answer can be counted without any model.
"""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import bm25s

from helpers.completions import Reply
from helpers.llm import LLM
from helpers.rag.prompts import chat
from helpers.results import figures
from helpers.results.answers import Answer, Item
from helpers.results.outcomes import Outcomes
from helpers.results.record import Run
from helpers.similarity import bertscore_arms, sentence_similarity_arms
from helpers.vectors import Encoder
from papers.qa_rag.data import Data, Passage, Question, held, words

Cut = Literal["windows", "heads", "whole"]

WINDOW = 300
"""Characters of a window, at most: two or three sentences."""
FOLLOWING = 2
"""Windows shown after one that was chosen: guidance in questions and answers has the words of a question in the
question, and the answer after it."""
EXAMPLE_CHARACTERS = (60, 300)
"""Length of the FDA's answer in an example: long enough for a sentence, short enough for a prompt."""
NOT_TOLD = "The passages do not tell."

FROM_PASSAGES = (
    "You answer questions about regulatory guidance on medicines and devices. Answer in one to three sentences, from "
    "the numbered passages alone, in their words where you can. End with the number of each passage that you used, "
    f'such as [2]. If they do not hold the answer, write only: "{NOT_TOLD}"'
)
CLOSED_BOOK = (
    "You answer questions about regulatory guidance on medicines and devices. Answer in one to three sentences."
)


PAPER_ENCODER = "microsoft/deberta-xlarge-mnli"
"""Of BERTScore, as the authors' notebook names it."""


def other_scale(encoder: str) -> str:
    """Why a BERTScore by this encoder is no rerun of a printed one; empty if it is by the paper's."""
    if encoder == PAPER_ENCODER:
        return ""
    return f"BERTScore by {encoder} is another scale than by {PAPER_ENCODER}, which was not used"


@dataclass(frozen=True)
class Excerpt:
    """What a prompt shows of a passage."""

    passage: Passage
    text: str

    @property
    def cut(self) -> int:
        """Characters of the passage that are not shown."""
        return max(0, len(self.passage.text) - len(self.text))


@dataclass(frozen=True)
class Arm:
    """One way to answer.

    Attributes:
        label: what a reader sees.
        contexts: whose ranking of passages, a key of `Data.released`; empty for none (closed book).
        cut: how its passages are made to fit; see `excerpts`.
        passages: how many of them, best first.
        few_shot: whether examples stand before the question.
    """

    label: str
    contexts: str = ""
    cut: Cut = "windows"
    passages: int = 6
    few_shot: bool = True


ARMS = {
    "closed_book": Arm("No passages"),
    "qa_rag": Arm("QA-RAG", "qa_rag"),
    "question": Arm("Only question", "question"),
    "hypothetical": Arm("Only hypothetical answer", "hypothetical"),
    "zero_shot": Arm("QA-RAG, no examples", "qa_rag", few_shot=False),
    "heads": Arm("QA-RAG, six beginnings", "qa_rag", "heads"),
}
"""Arms that all questions are put to, with prompts of the same number of characters (but for the first)."""
WHOLE_ARMS = {
    f"whole_{n}": Arm(f"QA-RAG, first {'passage' if n == 1 else f'{n} passages'} whole", "qa_rag", "whole", n)
    for n in (1, 2, 3)
}
"""Arms with uncut passages, which take a small model minutes: for few questions."""
LABELS = {name: arm.label for name, arm in {**ARMS, **WHOLE_ARMS}.items()}
MEASURES = ("f1", "precision", "recall", "similarity", "words", "quotes", "cites", "refuses")
"""Of an answer: BERTScore against the FDA's, cosine of whole texts, length; whether it has eight words in a row from
its passages, names one of them, says that they do not tell."""


@dataclass(frozen=True)
class Given:
    """What a model answered.

    Attributes:
        text: what it wrote, without the numbers of passages.
        cited: numbers of passages that it wrote, from 1; only such as were shown.
        shown: the excerpts in the prompt, in order.
    """

    text: str
    cited: tuple[int, ...]
    shown: tuple[Excerpt, ...]

    @property
    def refused(self) -> bool:
        """Whether it says that the passages do not tell."""
        return words(self.text).startswith(words(NOT_TOLD))

    @property
    def quotes(self) -> bool:
        """Whether eight words in a row, or all words of a shorter answer, are in an excerpt."""
        return not self.refused and held(self.text, [excerpt.text for excerpt in self.shown]) > 0


# ------------------------------------------------------------------------------------------------------------- cutting


def excerpts(question: str, passages: Sequence[Passage], cut: Cut, characters: int) -> tuple[Excerpt, ...]:
    """Passages made to fit.

    Args:
        question: in words.
        passages: best first.
        cut: `windows` shows the parts of at most 300 characters, from whichever passage, that share most with the
            question (BM25), each with the two that follow it; `heads` the beginning of each passage, with equal
            shares; `whole` all of each.
        characters: of all excerpts together; `whole` does not heed it.

    Returns:
        An excerpt a passage of which something is shown, in the order of the passages.
    """
    if cut == "whole":
        return tuple(Excerpt(passage, passage.text) for passage in passages)
    if cut == "heads":
        share = characters // max(1, len(passages))
        return tuple(Excerpt(p, text) for p in passages for text in (windows(p.text, share)[:1] if share else ()))
    parts = {(row, place): text for row, p in enumerate(passages) for place, text in enumerate(windows(p.text))}
    order = list(parts)
    kept: dict[int, dict[int, str]] = {}
    left = characters
    for best in _ranked(question, list(parts.values())):
        row, place = order[best]
        for at in range(place, place + 1 + FOLLOWING):
            text = parts.get((row, at), "")
            if text and len(text) <= left and at not in kept.get(row, {}):
                kept.setdefault(row, {})[at] = text
                left -= len(text)
    return tuple(Excerpt(passages[row], _joined(kept[row])) for row in sorted(kept))


def windows(text: str, size: int = WINDOW) -> list[str]:
    """A text in parts of at most `size` characters that end between words; a longer word is divided."""
    return [part.strip() for part in re.findall(rf"(?s)\S.{{0,{size - 1}}}(?=\s|\Z)|\S{{{size}}}", text)]


def _joined(parts: Mapping[int, str]) -> str:
    """Windows in their order in the text, with dots where something between two of them is left out."""
    text, last = "", -1
    for place, part in sorted(parts.items()):
        text += (" " if place == last + 1 else " ... ") * bool(text) + part
        last = place
    return text


def _ranked(query: str, texts: Sequence[str]) -> list[int]:
    """Places of the texts, those with most of the query's words (BM25) first; equals stay in order."""
    corpus, (asked,) = (bm25s.tokenize(list(of), return_ids=False, show_progress=False) for of in (texts, [query]))
    if not asked or not any(corpus):
        return list(range(len(texts)))
    index = bm25s.BM25()
    index.index(corpus, show_progress=False)
    scores = index.get_scores(asked)
    return sorted(range(len(texts)), key=lambda row: -scores[row])


Asking = Callable[[Sequence[Question]], list[Answer]]


def cuts(data: Data, contexts: str, sizes: Sequence[int]) -> dict[str, Asking]:
    """An arm for each rule and size, which says without a model what is left of the FDA's answer in a prompt.

    Args:
        data: with the released rankings.
        contexts: whose ranking.
        sizes: characters of a prompt's passages, for `windows` and `heads`; `whole` takes 1, 2, 3 or 6 passages.
    """
    arms = {f"windows_{size}": _cut(data, contexts, "windows", size) for size in sizes}
    arms |= {f"heads_{size}": _cut(data, contexts, "heads", size) for size in sizes}
    return arms | {f"passages_{n}": _cut(data, contexts, "whole", n) for n in (1, 2, 3, 6)}


def cut_labels(sizes: Sequence[int]) -> dict[str, str]:
    """The arms of `cuts` as a reader sees them."""
    by_size = {f"windows_{n}": f"Best windows, {n:,} characters" for n in sizes}
    by_size |= {f"heads_{n}": f"Beginnings, {n:,} characters" for n in sizes}
    return by_size | {f"passages_{n}": f"First {n}, whole" for n in (1, 2, 3, 6)}


def _cut(data: Data, contexts: str, cut: Cut, n: int) -> Asking:
    def ask(questions: Sequence[Question]) -> list[Answer]:
        rows = []
        for question in questions:
            arm = Arm("", contexts, cut, n if cut == "whole" else 6)
            texts = [excerpt.text for excerpt in _shown(arm, data, question, n)]
            left = held(question.answer, texts)
            measures = {"left": left, "half_left": float(left >= 0.5), "shown_characters": float(sum(map(len, texts)))}
            rows.append(Answer(task="cut", measures={name: (value, 1.0) for name, value in measures.items()}))
        return rows

    return ask


# ----------------------------------------------------------------------------------------------------------- answering


def choose(questions: Sequence[Question], n: int, seed: int) -> list[Question]:
    """`n` of the questions, drawn by `seed`, in their order; all of them if there are no more."""
    drawn = random.Random(seed).sample(range(len(questions)), min(n, len(questions)))  # noqa: S311  # not a secret
    return [questions[row] for row in sorted(drawn)]


def examples(data: Data, n: int, seed: int) -> list[Question]:
    """Pairs for the prompt: none is a test question, nor has the words of one, and their answers are short."""
    shortest, longest = EXAMPLE_CHARACTERS
    tested = {words(text) for question in data.test for text in (question.body, question.answer)}
    usable = [
        question
        for question in data.questions
        if shortest <= len(question.answer) <= longest and not {words(question.body), words(question.answer)} & tested
    ]
    return choose(usable, n, seed)


def prompt(question: str, shown: Sequence[Excerpt], given: Sequence[Question] = ()) -> list[dict[str, str]]:
    """The chat messages: instruction, examples as turns of their own, passages and question.

    Args:
        question: as asked.
        shown: excerpts, numbered from 1; without any, the model answers on its own.
        given: example pairs. The passage of an example is the FDA's answer itself, as its document has it.
    """
    examples = []
    for example in given:
        own = [Excerpt(Passage(example.id, example.source, example.answer), example.answer)] if shown else []
        examples.append((_asked(example.text, own), example.answer + (" [1]" if shown else "")))
    return chat(FROM_PASSAGES if shown else CLOSED_BOOK, _asked(question, shown), examples)


def _asked(question: str, shown: Sequence[Excerpt]) -> str:
    parts = [f"[{number}] {e.passage.document}\n{e.text}" for number, e in enumerate(shown, start=1)]
    return "\n\n".join([*parts, f"Question: {question}"])


def answering(
    llm: LLM, arm: Arm, data: Data, examples: Sequence[Question], *, characters: int, max_tokens: int
) -> Asking:
    """An arm: questions in, an answer for each out, at temperature 0; a prompt that does not fit has no answer.

    Args:
        llm: answers.
        arm: which passages, how cut, with examples or not.
        data: with the released rankings and the corpus.
        examples: for an arm that has any.
        characters: of the passages in one prompt.
        max_tokens: longest answer.
    """

    def ask(questions: Sequence[Question]) -> list[Answer]:
        shown = [_shown(arm, data, question, characters) for question in questions]
        given = examples if arm.few_shot else ()
        prompts = [prompt(question.text, of, given) for question, of in zip(questions, shown, strict=True)]
        replies = llm.chat_many(prompts, max_tokens=max_tokens, overflow="record", label=arm.label)
        return [_row(reply, of) for reply, of in zip(replies, shown, strict=True)]

    return ask


def _row(reply: Reply, shown: Sequence[Excerpt]) -> Answer:
    given = read(reply, shown)
    measures = {
        "words": len(given.text.split()),
        "refuses": given.refused,
        "shown_characters": sum(len(excerpt.text) for excerpt in shown),
        "left_out_characters": sum(excerpt.cut for excerpt in shown),
        "prompt_tokens": reply.prompt_tokens,
    }
    if shown and reply.status != "overflow":
        measures |= {"quotes": given.quotes, "cites": bool(given.cited)}
    return Answer(
        task="answers",
        answer=given.text,
        predicted=NOT_TOLD if given.refused else None,
        cut=reply.status == "cut",
        overflow=reply.status == "overflow",
        items=[
            Item(excerpt.passage.id, excerpt.passage.document, predicted=rank in given.cited, rank=rank)
            for rank, excerpt in enumerate(shown, start=1)
        ],
        measures={name: (float(value), 1.0) for name, value in measures.items()},
        requests=[reply.key],
    )


def scored(rows: Sequence[Answer], encode: Encoder) -> list[Answer]:
    """The answers with BERTScore (f1, precision, recall) and similarity against the FDA's; arms keep their order."""
    arms: dict[str, list[Answer]] = defaultdict(list)
    for row in rows:
        arms[f"{row.task} {row.arm}"].append(row)
    alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, of in arms.items():
        alike[tuple(row.gold or "" for row in of)].append(name)
    found = []
    for references, names in alike.items():
        texts = {name: [row.answer or "" for row in arms[name]] for name in names}
        scores = bertscore_arms(texts, references, encode, progress=False)
        near = sentence_similarity_arms(texts, references, encode, progress=False)
        for name in names:
            columns = {m: getattr(scores[name], m) for m in ("f1", "precision", "recall")} | {"similarity": near[name]}
            for place, row in enumerate(arms[name]):
                values = {m: (float(column[place]), 1.0) for m, column in columns.items()}
                found.append(replace(row, measures={**row.measures, **values}))
    return found


def marked(rows: Sequence[Answer], first: str, second: str) -> list[Answer]:
    """The answers with the stratum `refused`: whether neither of two arms refused the question, or one did."""
    refused = {row.unit for row in rows if row.arm in (first, second) and row.predicted == NOT_TOLD}
    return [replace(r, strata={**r.strata, "refused": "one" if r.unit in refused else "neither"}) for r in rows]


def _shown(arm: Arm, data: Data, question: Question, characters: int) -> tuple[Excerpt, ...]:
    if not arm.contexts:
        return ()
    ids: Mapping[str, Sequence[str]] = data.released[arm.contexts]
    passages = [data.corpus.of_id[id] for id in ids[question.id][: arm.passages]]
    return excerpts(question.body, passages, arm.cut, characters)


_NUMBERS = re.compile(r"\s*\[(\d+(?:\s*,\s*\d+)*)\]")


def read(reply: Reply, shown: Sequence[Excerpt]) -> Given:
    """A reply as an answer: the numbers in brackets are taken out of its text, and those of no excerpt dropped."""
    numbers = [int(n) for group in _NUMBERS.findall(reply.text) for n in re.findall(r"\d+", group)]
    cited = tuple(sorted({n for n in numbers if 1 <= n <= len(shown)}))
    return Given(_NUMBERS.sub("", reply.text).strip(), cited, tuple(shown))


def report(run: Run, outcomes: Outcomes, model: str, encoder: str) -> None:
    """Report the reruns of Table 4 where the encoder is the paper's, or why there is none.

    Args:
        run: takes the values.
        outcomes: scored rows of the served model.
        model: its name.
        encoder: of BERTScore.
    """
    for number in run.printed.numbers:
        arm, _, measure = number.id.removeprefix("qa_rag.table4.").partition(".")
        if not number.id.startswith("qa_rag.table4."):
            continue
        if arm not in ARMS:
            run.not_run(number.id, "The contexts of this method are not in the book's copy of the release.")
            continue
        score = outcomes.score(measure, arm)
        if scale := other_scale(encoder):
            run.not_run(number.id, f"{scale}; {model}'s answers have {figures.score_text(score)}, n = {score.n}.")
        else:
            run.rerun(number.id, score, model=model, note="The passages are cut; see the chapter.")
