"""Final answers from passages (QA-RAG, section 2.5; Table 4), by a model that six long passages do not fit.

The paper gives six passages of up to 10,000 characters to a hosted model. Here they are cut to a stated number of
characters, or fewer are shown whole.
"""

import random
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import bm25s

from evaluation import figures
from evaluation.answers import Answer, Item
from evaluation.outcomes import Outcomes
from evaluation.record import Run
from evaluation.similarity import bertscore_arms
from helpers.completions import Message, Reply
from helpers.llm import LLM
from helpers.thoughts import without_thought
from helpers.vectors import Encoder
from papers.qa_rag.data import Data, Passage, Question, words
from rag.prompts import arm_of, chat_messages

Asking = Callable[[Sequence[Question]], list[Answer]]

WINDOW = 300  # characters of a window, at most: two or three sentences
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
    "You answer questions about regulatory guidance on medicines and devices. "
    "Answer in one to three sentences."
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


@dataclass(frozen=True)
class Arm:
    """One way to answer: from the first `passages` of the ranking `contexts`, or from none if that is empty.

    They are cut (see `excerpts`) or `whole`; `few_shot` says whether examples stand before the question.
    """

    label: str
    contexts: str = ""
    passages: int = 6
    whole: bool = False
    few_shot: bool = True


ARMS = {
    "closed_book": Arm("No passages"),
    "qa_rag": Arm("QA-RAG", "qa_rag"),
    "question": Arm("Only question", "question"),
    "hypothetical": Arm("Only hypothetical answer", "hypothetical"),
    "zero_shot": Arm("QA-RAG, no examples", "qa_rag", few_shot=False),
}
"""Arms that all questions are put to, with prompts of the same number of characters (but for the first)."""
SEARCHED = {
    "multiquery": Arm("Multiquery, contexts of this run", "multiquery"),
    "hyde": Arm("HyDE, contexts of this run", "hyde"),
}
"""Arms of Table 4 whose contexts are not in the book's copy of the release, so that a run searches them."""
WHOLE_ARMS = {
    f"whole_{n}": Arm(
        f"QA-RAG, first {'passage' if n == 1 else f'{n} passages'} whole", "qa_rag", n, whole=True
    )
    for n in (1, 2, 3, 6)
}
"""Arms with uncut passages, which take a small model minutes: for few questions."""
LABELS = {name: arm.label for name, arm in {**ARMS, **WHOLE_ARMS}.items()}
MEASURES = ("f1", "precision", "recall", "words", "refuses")
"""Of an answer: BERTScore against the FDA's, length, and whether it says that the passages do not tell."""


@dataclass(frozen=True)
class Given:
    """What a model answered; the numbers of passages that it cited, from 1; and the excerpts that it was shown."""

    text: str
    cited: tuple[int, ...]
    shown: tuple[Excerpt, ...]

    @property
    def refused(self) -> bool:
        """Whether it says that the passages do not tell."""
        return words(self.text).startswith(words(NOT_TOLD))


def excerpts(question: str, passages: Sequence[Passage], characters: int) -> tuple[Excerpt, ...]:
    """Passages, best first, made to fit: an excerpt of each of which something is shown, in their order.

    Shown are the parts of at most 300 characters, from whichever passage, that share most with the question (BM25),
    each with the two that follow it.
    """
    parts = {
        (row, place): text
        for row, p in enumerate(passages)
        for place, text in enumerate(windows(p.text))
    }
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
    return [
        part.strip() for part in re.findall(rf"(?s)\S.{{0,{size - 1}}}(?=\s|\Z)|\S{{{size}}}", text)
    ]


def _joined(parts: Mapping[int, str]) -> str:
    """Windows in their order in the text, with dots where something between two of them is left out."""
    text, last = "", -1
    for place, part in sorted(parts.items()):
        text += (" " if place == last + 1 else " ... ") * bool(text) + part
        last = place
    return text


def _ranked(query: str, texts: Sequence[str]) -> list[int]:
    """Places of the texts, those with most of the query's words (BM25) first; equals stay in order."""
    corpus, (asked,) = (
        bm25s.tokenize(list(of), return_ids=False, show_progress=False) for of in (texts, [query])
    )
    if not asked or not any(corpus):
        return list(range(len(texts)))
    index = bm25s.BM25()
    index.index(corpus, show_progress=False)
    scores = index.get_scores(asked)
    return sorted(range(len(texts)), key=lambda row: -scores[row])


def choose(questions: Sequence[Question], n: int, seed: int) -> list[Question]:
    """`n` of the questions, drawn by `seed`, in their order; all of them if there are no more."""
    drawn = random.Random(seed).sample(range(len(questions)), min(n, len(questions)))  # noqa: S311  # not a secret
    return [questions[row] for row in sorted(drawn)]


def examples(data: Data, n: int, seed: int) -> list[Question]:
    """Pairs for the prompt, with short answers: none has the words of a test question or its answer.

    If any are from other documents than those of the test questions, as in all but the sample, they alone are drawn.
    """
    shortest, longest = EXAMPLE_CHARACTERS
    tested = {words(text) for question in data.test for text in (question.body, question.answer)}
    sources = {question.source for question in data.test}
    usable = [
        question
        for question in data.questions
        if shortest <= len(question.answer) <= longest
        and not {words(question.body), words(question.answer)} & tested
    ]
    return choose(
        [question for question in usable if question.source not in sources] or usable, n, seed
    )


def prompt(
    question: str, shown: Sequence[Excerpt], given: Sequence[Question] = ()
) -> list[Message]:
    """The chat messages: instruction, examples as turns of their own, numbered excerpts and question.

    Without excerpts the model answers on its own. The passage of an example is the FDA's answer itself.
    """
    examples = []
    for example in given:
        own = (
            [Excerpt(Passage(example.id, example.source, example.answer), example.answer)]
            if shown
            else []
        )
        examples.append((_asked(example.text, own), example.answer + (" [1]" if shown else "")))
    return [
        *chat_messages(FROM_PASSAGES if shown else CLOSED_BOOK, _asked(question, shown), examples)
    ]


def _asked(question: str, shown: Sequence[Excerpt]) -> str:
    parts = [
        f"[{number}] {e.passage.document}\n{e.text}" for number, e in enumerate(shown, start=1)
    ]
    return "\n\n".join([*parts, f"Question: {question}"])


@arm_of
def answering(
    questions: Sequence[Question],
    llm: LLM,
    arm: Arm,
    data: Data,
    examples: Sequence[Question] = (),
    *,
    characters: int,
    max_tokens: int,
    prompt: Callable[..., list[Message]] = prompt,
    contexts: Mapping[str, Sequence[str]] | None = None,
) -> list[Answer]:
    """An arm: questions in, an answer for each out, at temperature 0; a prompt that does not fit has no answer.

    The passages in one prompt have so many `characters`. `prompt` takes the question and its excerpts, and the examples
    if the arm has any. `contexts` are ids of passages by question, in place of the released ones.
    """
    ranking = contexts if contexts is not None else data.released.get(arm.contexts, {})
    given = [examples] if arm.few_shot and examples else []
    shown: list[tuple[Excerpt, ...]] = []
    for question in questions:
        ids = ranking[question.id][: arm.passages] if arm.contexts else ()
        passages = [data.corpus.of_id[id] for id in ids]
        whole = tuple(Excerpt(passage, passage.text) for passage in passages)
        shown.append(whole if arm.whole else excerpts(question.body, passages, characters))
    prompts = [
        prompt(question.text, of, *given) for question, of in zip(questions, shown, strict=True)
    ]
    replies = llm.chat_many(prompts, max_tokens=max_tokens, overflow="record", label=arm.label)
    return [_row(reply, of) for reply, of in zip(replies, shown, strict=True)]


def _row(reply: Reply, shown: Sequence[Excerpt]) -> Answer:
    given = read(reply, shown)
    measures = {
        "shown_characters": sum(len(excerpt.text) for excerpt in shown),
        "left_out_characters": sum(max(0, len(e.passage.text) - len(e.text)) for e in shown),
    }
    if reply.status != "overflow":
        measures |= {
            "words": len(given.text.split()),
            "refuses": given.refused,
        }
        if reply.prompt_tokens is not None:
            measures["prompt_tokens"] = reply.prompt_tokens
    return Answer(
        task="answers",
        predicted=NOT_TOLD if given.refused else None,
        items=[
            Item(
                excerpt.passage.id,
                excerpt.passage.document,
                predicted=rank in given.cited,
                rank=rank,
            )
            for rank, excerpt in enumerate(shown, start=1)
        ],
        measures={name: (float(value), 1.0) for name, value in measures.items()},
        **reply.columns | {"answer": given.text},
    )


_NUMBERS = re.compile(r"\s*\[(\d+(?:\s*,\s*\d+)*)\]")


def read(reply: Reply, shown: Sequence[Excerpt]) -> Given:
    """A reply as an answer: the numbers in brackets are taken out of its text, and those of no excerpt dropped."""
    text = without_thought(reply.text)
    numbers = [int(n) for group in _NUMBERS.findall(text) for n in re.findall(r"\d+", group)]
    cited = tuple(sorted({n for n in numbers if 1 <= n <= len(shown)}))
    return Given(_NUMBERS.sub("", text).strip(), cited, tuple(shown))


def scored(rows: Sequence[Answer], encode: Encoder) -> list[Answer]:
    """The answers, with BERTScore (f1, precision, recall) against the FDA's for those whose prompt fitted."""
    arms: dict[str, list[Answer]] = defaultdict(list)
    found = [row for row in rows if row.overflow]
    for row in (row for row in rows if not row.overflow):
        arms[f"{row.task} {row.arm}"].append(row)
    alike: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for name, of in arms.items():
        alike[tuple(row.gold or "" for row in of)].append(name)
    for references, names in alike.items():
        texts = {name: [row.answer or "" for row in arms[name]] for name in names}
        for name, scores in bertscore_arms(texts, references, encode).items():
            for row, values in zip(arms[name], scores, strict=True):
                told = {
                    m: (float(v), 1.0)
                    for m, v in zip(("precision", "recall", "f1"), values, strict=True)
                }
                found.append(replace(row, measures={**row.measures, **told}))
    return found


def report(run: Run, outcomes: Outcomes, model: str, encoder: str) -> None:
    """Report the reruns of Table 4 by the served model where the encoder is the paper's, or why there is none."""
    for number in run.printed.numbers:
        arm, _, measure = number.id.removeprefix("qa_rag.table4.").partition(".")
        if not number.id.startswith("qa_rag.table4."):
            continue
        if arm not in outcomes.arms_with(measure):
            run.not_run(number.id, "No question of this run was put to this method.")
            continue
        score = outcomes.score(measure, arm)
        if scale := other_scale(encoder):
            run.not_run(
                number.id,
                f"{scale}; {model}'s answers have {figures.score_text(score)}, n = {score.n}.",
            )
        else:
            found = (
                "The contexts are from this run's search, on another corpus. "
                if arm in SEARCHED
                else ""
            )
            run.rerun(
                number.id, score, model=model, note=f"{found}The passages are cut; see the chapter."
            )
