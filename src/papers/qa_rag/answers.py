"""Final answers from passages (QA-RAG, section 2.5; Table 4).

The paper gives six passages of up to 10,000 characters to a hosted model. They do not fit a small
one. Here they are cut to a stated number of characters, or fewer are shown in full.
"""

import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import bm25s

from evaluation import figures
from evaluation.answers import Answer, Item
from evaluation.metrics import Score
from evaluation.outcomes import Outcomes
from evaluation.record import Run
from evaluation.similarity import bertscore_arms
from helpers.completions import Reply
from helpers.llm import LLM
from helpers.thoughts import without_thought
from helpers.vectors import Encoder
from papers.qa_rag.data import Data, Passage, Question, words
from rag.prompts import Message, chat_messages
from rag.replies import CITATION, cited_numbers

WINDOW = 300
"""Characters of a window, at most: two or three sentences."""

N_FOLLOWING = 2
"""Windows shown after one that was chosen: guidance in questions and answers has the words of a
question in the question, and the answer after it."""

EXAMPLE_CHARACTERS = (60, 300)
"""Length of the FDA's answer in an example: a sentence at least, and short enough for a prompt."""

REFUSAL = "The passages do not tell."
"""What the model is to answer if the passages do not hold the answer."""

FROM_PASSAGES = (
    "You answer questions about regulatory guidance on medicines and devices. Answer in one to "
    "three sentences, from the numbered passages alone, in their words where you can. End with the "
    "number of each passage that you used, such as [2]. If they do not hold the answer, write "
    f'only: "{REFUSAL}"'
)
CLOSED_BOOK = (
    "You answer questions about regulatory guidance on medicines and devices. "
    "Answer in one to three sentences."
)
PAPER_ENCODER = "microsoft/deberta-xlarge-mnli"
"""Of BERTScore, as the authors' notebook names it."""


def other_scale(encoder: str, model: str, score: Score) -> str:
    """Why a BERTScore by this encoder is no rerun of a printed one; empty for the paper's.

    Args:
        encoder: Name of the encoder.
        model: Name of the model that answered.
        score: Its score by this encoder.
    """
    if encoder == PAPER_ENCODER:
        return ""
    return (
        f"This run did not use the paper's encoder ({PAPER_ENCODER}). The encoder of this run, "
        f"{encoder}, has another scale. By this encoder, the score of the answers by {model} is "
        f"{figures.score_text(score)} (n = {score.n})."
    )


@dataclass(frozen=True)
class Excerpt:
    """What a prompt shows of a passage.

    Attributes:
        passage: The passage.
        text: The parts that are shown.
        places: Pages or sections of these parts, in order, if they are known.
    """

    passage: Passage
    text: str
    places: tuple[str, ...] = field(default=(), compare=False)


@dataclass(frozen=True)
class ArmConfig:
    """One way to answer.

    Attributes:
        label: Name in tables.
        contexts: The ranking that the passages come from; empty for an answer without passages.
        passages: Number of passages.
        full: Whether they are shown in full, not as excerpts.
        few_shot: Whether examples stand before the question.
    """

    label: str
    contexts: str = ""
    passages: int = 6
    full: bool = False
    few_shot: bool = True


ARMS = {
    "closed_book": ArmConfig("No passages"),
    "qa_rag": ArmConfig("QA-RAG", "qa_rag"),
    "question": ArmConfig("Only question", "question"),
    "hypothetical": ArmConfig("Only hypothetical answer", "hypothetical"),
    "zero_shot": ArmConfig("QA-RAG (no examples)", "qa_rag", few_shot=False),
}
"""Arms that all questions are put to. One limit of characters holds for the excerpts of each."""
SEARCHED = {
    "multiquery": ArmConfig("Multiquery (contexts of this run)", "multiquery"),
    "hyde": ArmConfig("HyDE (contexts of this run)", "hyde"),
}
"""Arms of Table 4 whose contexts the book's copy of the release lacks: a run searches them."""
WHOLE_ARMS = {
    "whole_1": ArmConfig("QA-RAG (first passage whole)", "qa_rag", 1, full=True),
    "whole_2": ArmConfig("QA-RAG (first 2 passages whole)", "qa_rag", 2, full=True),
    "whole_3": ArmConfig("QA-RAG (first 3 passages whole)", "qa_rag", 3, full=True),
    "whole_6": ArmConfig("QA-RAG (first 6 passages whole)", "qa_rag", 6, full=True),
}
"""Arms with uncut passages, which take a small model minutes: for few questions."""
LABELS = {name: arm.label for name, arm in {**ARMS, **WHOLE_ARMS}.items()}
MEASURES = ("f1", "precision", "recall", "words", "refuses")
"""Of an answer: BERTScore against the FDA's, length, and whether it is the refusal."""


@dataclass(frozen=True)
class CitedAnswer:
    """What a model answered.

    Attributes:
        text: The answer without the numbers of passages.
        cited: Numbers of the passages that it cited, from 1.
        excerpts: What it was shown.
    """

    text: str
    cited: tuple[int, ...]
    excerpts: tuple[Excerpt, ...]

    @property
    def refused(self) -> bool:
        """Whether it says that the passages do not tell."""
        return words(self.text).startswith(words(REFUSAL))


@dataclass(frozen=True)
class _Window:
    """A part of a passage: ``row`` and ``place`` say which part of which passage."""

    row: int
    place: int
    start: int
    text: str


def make_excerpts(
    question: str, passages: Sequence[Passage], max_characters: int
) -> tuple[Excerpt, ...]:
    """Make passages fit a prompt.

    Shown are the parts of at most 300 characters, from whichever passage, that share most words
    with the question (BM25), each with the two that follow it.

    Args:
        question: What the parts are compared with.
        passages: The passages, best first.
        max_characters: Characters of all excerpts together.

    Returns:
        An excerpt of each passage of which something is shown, in the order of ``passages``.
    """
    parts: dict[tuple[int, int], _Window] = {}
    for row, passage in enumerate(passages):
        for place, (start, text) in enumerate(split_windows(passage.text)):
            parts[row, place] = _Window(row, place, start, text)
    ordered = list(parts.values())
    shown: dict[tuple[int, int], _Window] = {}
    n_left = max_characters
    for best in _rank_by_words(question, [part.text for part in ordered]):
        row, first = ordered[best].row, ordered[best].place
        for place in range(first, first + 1 + N_FOLLOWING):
            part = parts.get((row, place))
            if part is None or (row, place) in shown:
                continue
            if len(part.text) <= n_left:
                shown[row, place] = part
                n_left -= len(part.text)
    return _join_excerpts(passages, shown)


def split_windows(text: str, size: int = WINDOW) -> list[tuple[int, str]]:
    """Split a text into parts of at most ``size`` characters that end between words.

    A longer word is divided.

    Returns:
        Where each part begins, and its text.
    """
    pattern = rf"(?s)\S.{{0,{size - 1}}}(?=\s|\Z)|\S{{{size}}}"
    return [(match.start(), match[0].strip()) for match in re.finditer(pattern, text)]


def _join_excerpts(
    passages: Sequence[Passage], shown: Mapping[tuple[int, int], _Window]
) -> tuple[Excerpt, ...]:
    parts_by_row = defaultdict(list)
    for key in sorted(shown):
        parts_by_row[shown[key].row].append(shown[key])
    excerpts = []
    for row, parts in parts_by_row.items():
        names = [passages[row].place_at(part.start) for part in parts]
        places = tuple(dict.fromkeys(filter(None, names)))
        excerpts.append(Excerpt(passages[row], _join_parts(parts), places))
    return tuple(excerpts)


def _join_parts(parts: Sequence[_Window]) -> str:
    """Join parts of a passage, with dots where something between two of them is left out."""
    text = parts[0].text
    for previous, part in pairwise(parts):
        text += " " if part.place == previous.place + 1 else " ... "
        text += part.text
    return text


def _rank_by_words(query: str, texts: Sequence[str]) -> list[int]:
    """Places of the texts, those with most of the query's words first; equals stay in order."""
    corpus = bm25s.tokenize(list(texts), return_ids=False, show_progress=False)
    (query_words,) = bm25s.tokenize([query], return_ids=False, show_progress=False)
    if not query_words or not any(corpus):
        return list(range(len(texts)))
    index = bm25s.BM25()
    index.index(corpus, show_progress=False)
    scores = index.get_scores(query_words)
    return sorted(range(len(texts)), key=lambda row: -scores[row])


def choose(questions: Sequence[Question], n: int, seed: int) -> list[Question]:
    """Draw ``n`` of the questions, in their order; all of them if there are no more."""
    rng = random.Random(seed)  # noqa: S311  # not a secret
    rows = rng.sample(range(len(questions)), min(n, len(questions)))
    return [questions[row] for row in sorted(rows)]


def examples(data: Data, n: int, seed: int) -> list[Question]:
    """Draw pairs for the prompt, with short answers.

    None has the words of a test question or its answer. If any are from other documents than those
    of the test questions, as in all but the sample, they alone are drawn.
    """
    test_texts = set()
    for question in data.test:
        test_texts |= {words(question.body), words(question.answer)}
    usable = [question for question in data.questions if _is_example(question, test_texts)]
    test_sources = {question.source for question in data.test}
    from_others = [question for question in usable if question.source not in test_sources]
    return choose(from_others or usable, n, seed)


def _is_example(question: Question, test_texts: set[str]) -> bool:
    shortest, longest = EXAMPLE_CHARACTERS
    if not shortest <= len(question.answer) <= longest:
        return False
    return test_texts.isdisjoint({words(question.body), words(question.answer)})


def prompt(
    question: str, excerpts: Sequence[Excerpt], example_pairs: Sequence[Question] = ()
) -> list[Message]:
    """Build the prompt: instruction, examples as turns of their own, excerpts and question.

    Without excerpts the model answers on its own. The passage of an example is the FDA's answer.
    """
    if not excerpts:
        own_turns = [(_user_turn(pair.text, ()), pair.answer) for pair in example_pairs]
        return chat_messages(CLOSED_BOOK, _user_turn(question, ()), own_turns)
    turns = []
    for pair in example_pairs:
        passage = Passage(pair.id, pair.source, pair.answer)
        example_question = _user_turn(pair.text, [Excerpt(passage, pair.answer)])
        turns.append((example_question, f"{pair.answer} [1]"))
    return chat_messages(FROM_PASSAGES, _user_turn(question, excerpts), turns)


def _user_turn(question: str, excerpts: Sequence[Excerpt]) -> str:
    parts = []
    for number, excerpt in enumerate(excerpts, start=1):
        parts.append(f"[{number}] {excerpt.passage.document}\n{excerpt.text}")
    return "\n\n".join([*parts, f"Question: {question}"])


@dataclass(frozen=True)
class AnswerFromPassages:
    """An arm: questions in, an answer for each out, at temperature 0.

    A prompt that does not fit has no answer.

    Attributes:
        llm: The model that answers.
        config: Which passages it sees, and how.
        data: The corpus and the released rankings.
        examples: Pairs before the question, if the configuration has any.
        max_characters: Characters of the excerpts in one prompt.
        max_tokens: Longest answer, in tokens.
        prompt: Builds the prompt of a question and its excerpts, with the examples if there are
            any.
        contexts: Ids of passages by question id, in place of the released ones.
    """

    llm: LLM
    config: ArmConfig
    data: Data
    examples: Sequence[Question] = ()
    max_characters: int = field(kw_only=True)
    max_tokens: int = field(kw_only=True)
    prompt: Callable[..., list[Message]] = field(default=prompt, kw_only=True)
    contexts: Mapping[str, Sequence[str]] | None = field(default=None, kw_only=True)

    def __call__(self, questions: Sequence[Question]) -> list[Answer]:
        """Answer each question."""
        return [_make_answer(reply, shown) for reply, shown in self.ask(questions)]

    def ask(self, questions: Sequence[Question]) -> list[tuple[Reply, tuple[Excerpt, ...]]]:
        """Ask for the reply to each question, with the excerpts that the model is shown."""
        excerpts = [self.excerpts(question) for question in questions]
        prompts = [
            self.build_prompt(question.text, shown)
            for question, shown in zip(questions, excerpts, strict=True)
        ]
        replies = self.llm.chat_many(
            prompts, max_tokens=self.max_tokens, overflow="record", label=self.config.label
        )
        return list(zip(replies, excerpts, strict=True))

    def excerpts(self, question: Question) -> tuple[Excerpt, ...]:
        """What the model is shown for a question."""
        if not self.config.contexts:
            return ()
        ranking = self.contexts
        if ranking is None:
            ranking = self.data.released[self.config.contexts]
        ids = ranking[question.id][: self.config.passages]
        passages = [self.data.corpus.by_id[passage_id] for passage_id in ids]
        if self.config.full:
            return tuple(Excerpt(passage, passage.text) for passage in passages)
        return make_excerpts(question.body, passages, self.max_characters)

    def build_prompt(self, question: str, excerpts: Sequence[Excerpt]) -> list[Message]:
        """Build the prompt of a question."""
        if self.config.few_shot and self.examples:
            return self.prompt(question, excerpts, self.examples)
        return self.prompt(question, excerpts)


def _make_answer(reply: Reply, excerpts: Sequence[Excerpt]) -> Answer:
    answer = read(reply, excerpts)
    left_out = [max(0, len(e.passage.text) - len(e.text)) for e in excerpts]
    measures: dict[str, float] = {
        "shown_characters": sum(len(excerpt.text) for excerpt in excerpts),
        "left_out_characters": sum(left_out),
    }
    if reply.status != "overflow":
        measures |= {
            "words": len(answer.text.split()),
            "refuses": answer.refused,
        }
        if reply.prompt_tokens is not None:
            measures["prompt_tokens"] = reply.prompt_tokens
    items = []
    for rank, excerpt in enumerate(excerpts, start=1):
        passage = excerpt.passage
        is_cited = rank in answer.cited
        items.append(Item(passage.id, passage.document, predicted=is_cited, rank=rank))
    columns = reply.columns | {"answer": answer.text}
    return Answer(
        task="answers",
        predicted=REFUSAL if answer.refused else None,
        items=items,
        measures={name: (float(value), 1.0) for name, value in measures.items()},
        **columns,
    )


def read(reply: Reply, excerpts: Sequence[Excerpt]) -> CitedAnswer:
    """Read a reply as an answer.

    The numbers in brackets are taken out of its text, and those of no excerpt are dropped.
    """
    visible = without_thought(reply.text)
    cited = [number for number in cited_numbers(visible) if 1 <= number <= len(excerpts)]
    text = CITATION.sub("", visible).strip()
    return CitedAnswer(text, tuple(sorted(cited)), tuple(excerpts))


def score_answers(rows: Sequence[Answer], encode: Encoder) -> list[Answer]:
    """Add BERTScore (f1, precision, recall) against the FDA's answer to rows whose prompt fitted.

    Returns:
        The rows that did not fit, then the others by arm.
    """
    scored = [row for row in rows if row.overflow]
    by_arm: dict[str, list[Answer]] = defaultdict(list)
    for row in rows:
        if not row.overflow:
            by_arm[f"{row.task} {row.arm}"].append(row)
    for references, arms in _arms_by_references(by_arm).items():
        texts = {}
        for arm in arms:
            texts[arm] = [row.answer or "" for row in by_arm[arm]]
        for arm, scores in bertscore_arms(texts, references, encode).items():
            scored += _with_scores(by_arm[arm], scores)
    return scored


def _arms_by_references(
    by_arm: Mapping[str, Sequence[Answer]],
) -> dict[tuple[str, ...], list[str]]:
    arms_by_references: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for arm, rows in by_arm.items():
        references = tuple(row.gold or "" for row in rows)
        arms_by_references[references].append(arm)
    return arms_by_references


def _with_scores(rows: Sequence[Answer], scores: Iterable[Sequence[float]]) -> list[Answer]:
    scored = []
    for row, values in zip(rows, scores, strict=True):
        bertscore = {}
        for measure, value in zip(("precision", "recall", "f1"), values, strict=True):
            bertscore[measure] = (float(value), 1.0)
        refuses = row.measures.get("refuses")
        if refuses and not refuses[0]:
            bertscore["f1_without_refusals"] = bertscore["f1"]
        scored.append(replace(row, measures={**row.measures, **bertscore}))
    return scored


def report(run: Run, outcomes: Outcomes, model: str, encoder: str) -> None:
    """Report the reruns of Table 4, or why there is none.

    There is one where the encoder of BERTScore is the paper's.
    """
    table = "qa_rag.table4."
    for number in run.printed.numbers:
        if not number.id.startswith(table):
            continue
        arm, _, measure = number.id.removeprefix(table).partition(".")
        if arm not in outcomes.arms_with(measure):
            run.not_run(number.id, "No question was put to this method in this run.")
            continue
        score = outcomes.score(measure, arm)
        scale = other_scale(encoder, model, score)
        if scale:
            run.not_run(number.id, scale)
            continue
        note = "The model reads excerpts of the passages (chapter 17)."
        if arm in SEARCHED:
            note = f"The contexts come from this run's search in another corpus. {note}"
        run.rerun(number.id, score, model=model, note=note)
