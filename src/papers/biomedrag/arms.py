"""The arms of BiomedRAG's chapters that ask an LLM: each takes examples and gives one prediction for each.

The LLM alone, the LLM with the n nearest examples (RA-KNN-n), and BiomedRAG: the LLM with the one document that the
scorer chose. `floors` has the arms without an LLM.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from helpers.llm import LLM
from papers.biomedrag.corpora import Example, Triple
from papers.biomedrag.memory import Document, Memory, Nearest, Shot
from papers.biomedrag.scoring import parse_label, parse_triples
from rag.prompts import alpaca_prompt, chat_messages

FORMAT: Final = "head entity|relation|tail entity"
"""Output format of the released prompts."""
BLANKS_HINT: Final = "Each of the two entities has a doubled blank before it and after it. "
"""An explanation for the language model of the blanks in the released sentences."""
QUESTIONS: Final = {
    "relations": "Which relation of the head entity to the tail entity does the sentence state?",
    "classification": "To which class does the text belong?",
    "links": "Which relation holds between the two?",
}
ANSWER_TOKENS: Final = {"triples": 48, "relations": 12, "classification": 12, "links": 12}


@dataclass(frozen=True)
class Prediction:
    """What an arm answered to one example.

    `label` is a relation or class, None where the reply held none; `triples` are empty for tasks whose answer is a
    label, and `reply` for an arm without an LLM. After an `overflow`, a prompt beyond the context, nothing was asked.
    `request` is the key in `results.requests`.
    """

    label: str | None
    triples: tuple[Triple, ...] = ()
    reply: str = ""
    prompt_tokens: int = 0
    overflow: bool = False
    request: str = ""


Arm = Callable[[Sequence[Example]], list[Prediction]]
"""An architecture under comparison: examples in, one prediction for each out."""


@dataclass(frozen=True)
class Asking:
    """How an arm asks its LLM.

    `wrapped` shows a triple's chunk between the head and the tail of its sentence, with their triple as its answer. The
    released prompts do so, with a pair of that relation drawn by chance; the text shows the label.
    """

    llm: LLM | None  # None where only prompts are made
    task: str
    labels: tuple[str, ...]  # that an answer may have
    question: str = ""  # in place of the task's own
    offered: bool = True  # whether the prompt lists the labels
    wrapped: bool = False
    definitions: Mapping[str, str] = field(
        default_factory=dict
    )  # of the labels, listed with them (section 4.3.1)
    hint: str = ""  # a sentence more for triples
    plain: bool = (
        False  # in the form of Alpaca, as the released code: a base model has no chat template
    )

    def instruction(self) -> str:
        """I of section 4.2.4: what is the same in every prompt stands first, so that the server computes it once."""
        if self.definitions:
            offered = (
                "\n"
                + "\n".join(f"{label}: {self.definitions[label]}" for label in self.labels)
                + "\n"
            )
        else:
            offered = f" {', '.join(self.labels)}. "
        if self.task == "triples":
            relations = f"The relation is one of these:{offered}" if self.offered else ""
            return (
                "Extract the relation that the sentence states between two of its entities. Copy both entities from "
                f"the sentence. {self.hint}{relations}Answer in one line: {FORMAT}"
            )
        what = self.question or QUESTIONS[self.task]
        return (
            f"{what} Answer with one of these and nothing else:{offered}".rstrip()
            if self.offered
            else what
        )

    def messages(self, example: Example, shots: Sequence[Shot]) -> list[dict[str, str]]:
        """I, then the document, then x (section 4.2.4)."""
        shown = "".join("Example: {}\nAnswer: {}\n".format(*self._shown(shot)) for shot in shots)
        return chat_messages(
            self.instruction(), f"{shown}Text: {given(example, self.task)}\nAnswer:"
        )

    def prompt(self, example: Example, shots: Sequence[Shot]) -> list[dict[str, str]] | str:
        """The messages, or the same as plain text."""
        messages = self.messages(example, shots)
        return alpaca_prompt(messages) if self.plain else messages

    def _shown(self, shot: Shot) -> tuple[str, str]:
        """Text and answer of a shot: a triple for a whole sentence or a wrapped chunk, else the label alone."""
        if self.task == "triples" and shot.whole:
            return shot.text, triple_line(shot.triples)
        if self.task == "triples" and self.wrapped and shot.triples:
            first = shot.triples[0]
            return f"{first.head} {shot.text} {first.tail}", triple_line(shot.triples)
        return shot.text + (
            _pair(shot.triples) if self.task == "relations" and shot.whole else ""
        ), shot.label

    def read(self, reply: str) -> tuple[str | None, tuple[Triple, ...]]:
        """Label and triples of a reply, strictly: a label must be one of those offered, whatever its case."""
        if self.task == "triples":
            triples = tuple(parse_triples(reply))
            return (triples[0].relation if triples else None), triples
        return parse_label(reply, self.labels), ()


def given(example: Example, task: str) -> str:
    """x as a model reads it: the text, and the pair of entities where the task gives it (section 4.1.2)."""
    return example.text + (_pair(example.triples) if task == "relations" else "")


def _pair(triples: Sequence[Triple]) -> str:
    return "".join(f" Head entity: {t.head}. Tail entity: {t.tail}." for t in triples)


def answer_line(example: Example, task: str) -> str:
    """The true answer as a model should write it."""
    return triple_line(example.triples) if task == "triples" else example.label


def triple_line(triples: Sequence[Triple]) -> str:
    """Triples in the output format of the released prompts."""
    return "\n".join(f"{t.head}|{t.relation}|{t.tail}" for t in triples)


def ask(
    asking: Asking, examples: Sequence[Example], documents: Sequence[Document | None], name: str
) -> list[Prediction]:
    """The information extractor of section 4.2.4: one prompt an example, with its document if it has one.

    Raises ValueError: there is no model to ask.
    """
    if asking.llm is None:
        raise ValueError("There is no model to ask; give Asking one.")
    replies = asking.llm.chat_many(
        [asking.prompt(e, d.shots if d else ()) for e, d in zip(examples, documents, strict=True)],
        max_tokens=ANSWER_TOKENS[asking.task],
        stop=["\n"],
        overflow="record",
        label=name,
    )
    return [
        Prediction(
            *asking.read(r.text), r.text, r.prompt_tokens or 0, r.status == "overflow", r.key
        )
        for r in replies
    ]


def zero_shot(asking: Asking) -> Arm:
    """The LLM with the instruction and the input alone."""
    return lambda examples: ask(asking, examples, [None] * len(examples), "zero-shot")


def ra_knn(asking: Asking, memory: Memory, n: int) -> Arm:
    """RA-KNN-n: the n nearest (sentence, label) pairs of the memory's sentences, the nearest last (section 2.2)."""
    return biomed_rag(asking, Nearest(memory, n), f"RA-KNN-{n}")


def biomed_rag(
    asking: Asking,
    choose: Callable[[Sequence[Example]], Sequence[Document]],
    name: str = "BiomedRAG",
) -> Arm:
    """BiomedRAG: the document that the scorer chose for each input, see `retriever.Retriever`, goes into the prompt."""
    return lambda examples: ask(asking, examples, choose(examples), name)
