"""Final answers from passages (qa_rag.md, section 2.5; Table 4), and how much of six long passages fits a prompt.

The paper gives six passages of up to 10,000 characters to a hosted model. They do not fit the window of a small one six
times over, nor would a CPU read them in time, so they are cut to a stated number of characters, by one of three rules.
What a rule leaves of the FDA's own answer can be counted without any model.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import bm25s
import pandas as pd

from helpers.llm import LLM, Message, Reply
from papers.qa_rag.data import Data, Passage, Question, shingles, words

Cut = Literal["windows", "heads", "whole"]

WINDOW = 300
"""Characters of a window, at most: two or three sentences."""
FOLLOWING = 2
"""Windows shown after one that was chosen: guidance in questions and answers has the words of a question in the
question, and the answer after it."""
EXAMPLE_CHARACTERS = (60, 300)
"""Length of the FDA's answer in an example: long enough for a sentence, short enough for a prompt."""
NOT_TOLD = "The passages do not tell."
QUOTED = 8
"""Words in a row that make a quotation."""

FROM_PASSAGES = (
    "You answer questions about regulatory guidance on medicines and devices. Answer in one to three sentences, from "
    "the numbered passages alone, in their words where you can. End with the number of each passage that you used, "
    f'such as [2]. If they do not hold the answer, write only: "{NOT_TOLD}"'
)
CLOSED_BOOK = (
    "You answer questions about regulatory guidance on medicines and devices. Answer in one to three sentences."
)


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
    "closed": Arm("No passages"),
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


@dataclass(frozen=True)
class Answer:
    """One answer.

    Attributes:
        question: id.
        text: what the model wrote, without the numbers of passages.
        cited: numbers of passages that it wrote, from 1; only such as were shown.
        shown: the excerpts in the prompt, in order.
        status: complete, cut (reached its limit of tokens) or overflow (the prompt did not fit; the text is empty).
        prompt_tokens: as the server counted them; 0 for an overflow.
    """

    question: str
    text: str
    cited: tuple[int, ...]
    shown: tuple[Excerpt, ...]
    status: str
    prompt_tokens: int

    @property
    def refused(self) -> bool:
        """Whether it says that the passages do not tell."""
        return words(self.text).startswith(words(NOT_TOLD))

    @property
    def quotes(self) -> bool:
        """Whether eight words in a row, or all words of a shorter answer, stand like that in an excerpt."""
        return not self.refused and quotes(self.text, [excerpt.text for excerpt in self.shown])


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


def left_of(answer: str, texts: Sequence[str]) -> float:
    """Share of an answer's sequences of eight words that still stand in one of the texts, within 0 and 1."""
    wanted = shingles(answer)
    shown = [f" {words(text)} " for text in texts]
    return sum(any(f" {s} " in text for text in shown) for s in wanted) / len(wanted) if wanted else 0.0


def quotes(answer: str, texts: Sequence[str]) -> bool:
    """Whether eight words in a row of an answer stand in one of the texts; all words of a shorter answer."""
    return left_of(answer, texts) > 0


def cut_table(data: Data, contexts: str, sizes: Sequence[int]) -> pd.DataFrame:
    """What each rule leaves of the FDA's answers, for every test question.

    Args:
        data: with the released rankings.
        contexts: whose ranking.
        sizes: characters of a prompt's passages, for `windows` and `heads`.

    Returns:
        A row a question and rule: question, cut, passages, size (what was asked for; 0 for whole passages),
        characters (shown), left (share of the answer's word sequences that is still there).
    """
    rows = []
    for question in data.test:
        passages = [data.corpus.of_id[id] for id in data.released[contexts][question.id]]
        ways: list[tuple[Cut, int, int]] = [
            (cut, len(passages), size) for cut in ("windows", "heads") for size in sizes
        ]
        ways += [("whole", n, 0) for n in (1, 2, 3, len(passages))]
        for cut, n, size in ways:
            shown = excerpts(question.body, passages[:n], cut, size)
            texts = [excerpt.text for excerpt in shown]
            rows.append((question.id, cut, n, size, sum(map(len, texts)), left_of(question.answer, texts)))
    return pd.DataFrame(rows, columns=["question", "cut", "passages", "size", "characters", "left"])


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


def prompt(question: str, shown: Sequence[Excerpt], given: Sequence[Question] = ()) -> list[Message]:
    """The chat messages: instruction, examples as turns of their own, passages and question.

    Args:
        question: as asked.
        shown: excerpts, numbered from 1; without any, the model answers on its own.
        given: example pairs. The passage of an example is the FDA's answer itself, as its document has it.
    """
    messages: list[Message] = [{"role": "system", "content": FROM_PASSAGES if shown else CLOSED_BOOK}]
    for example in given:
        own = [Excerpt(Passage(example.id, example.source, example.answer), example.answer)] if shown else []
        messages.append({"role": "user", "content": _asked(example.text, own)})
        messages.append({"role": "assistant", "content": example.answer + (" [1]" if shown else "")})
    messages.append({"role": "user", "content": _asked(question, shown)})
    return messages


def _asked(question: str, shown: Sequence[Excerpt]) -> str:
    parts = [f"[{number}] {e.passage.document}\n{e.text}" for number, e in enumerate(shown, start=1)]
    return "\n\n".join([*parts, f"Question: {question}"])


def answer_arms(
    llm: LLM,
    arms: Mapping[str, Arm],
    data: Data,
    questions: Sequence[Question],
    given: Sequence[Question],
    *,
    characters: int,
    max_tokens: int,
) -> dict[str, list[Answer]]:
    """The answers of each arm, one a question; all arms are asked at once, so that the server is never idle.

    Args:
        llm: answers, at temperature 0.
        arms: by name: which passages, how cut, with examples or not.
        data: with the released rankings and the corpus.
        questions: to be answered.
        given: the examples, for the arms that have any.
        characters: of the passages in one prompt.
        max_tokens: longest answer.

    Returns:
        Answers; one whose prompt does not fit the server's window has the status `overflow`.
    """
    asked = [
        (name, question, _shown(arm, data, question, characters))
        for name, arm in arms.items()
        for question in questions
    ]
    prompts = [prompt(question.text, shown, given if arms[name].few_shot else ()) for name, question, shown in asked]
    replies = llm.chat_many(prompts, max_tokens=max_tokens, overflow="record", label="answer")
    answers: dict[str, list[Answer]] = {name: [] for name in arms}
    for (name, question, shown), reply in zip(asked, replies, strict=True):
        answers[name].append(read(question.id, reply, shown))
    return answers


def _shown(arm: Arm, data: Data, question: Question, characters: int) -> tuple[Excerpt, ...]:
    if not arm.contexts:
        return ()
    ids: Mapping[str, Sequence[str]] = data.released[arm.contexts]
    passages = [data.corpus.of_id[id] for id in ids[question.id][: arm.passages]]
    return excerpts(question.body, passages, arm.cut, characters)


_NUMBERS = re.compile(r"\s*\[(\d+(?:\s*,\s*\d+)*)\]")


def read(question: str, reply: Reply, shown: Sequence[Excerpt]) -> Answer:
    """A reply as an answer: the numbers in brackets are taken out of its text, and those of no excerpt dropped."""
    numbers = [int(n) for group in _NUMBERS.findall(reply.text) for n in re.findall(r"\d+", group)]
    cited = tuple(sorted({n for n in numbers if 1 <= n <= len(shown)}))
    text = _NUMBERS.sub("", reply.text).strip()
    return Answer(question, text, cited, tuple(shown), reply.status, reply.prompt_tokens)
