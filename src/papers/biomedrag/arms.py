"""The arms of BiomedRAG's chapters that ask an LLM.

An arm is a system under comparison. It takes examples and returns one prediction per example. Here
are the LLM alone, the LLM with the n nearest examples (RA-KNN-n), and BiomedRAG: the LLM with the
one document that the scorer chose. `floors` has the arms without an LLM.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from helpers.llm import LLM
from papers.biomedrag.corpora import Example, Triple
from papers.biomedrag.memory import Document, Memory, Nearest, Shot
from papers.biomedrag.scoring import parse_label, parse_triples
from rag.prompts import Message, alpaca_prompt, chat_messages

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

    Attributes:
        label: A relation or a class; None if the reply held none.
        triples: Empty for tasks whose answer is a label.
        reply: Text of the reply; empty for an arm without an LLM.
        prompt_tokens: Tokens of the prompt.
        overflow: Whether the prompt was beyond the context. Then nothing was asked.
        request: Key of the request in `helpers.requests`.
    """

    label: str | None
    triples: tuple[Triple, ...] = ()
    reply: str = ""
    prompt_tokens: int = 0
    overflow: bool = False
    request: str = ""


Arm = Callable[[Sequence[Example]], list[Prediction]]
"""A system under comparison: examples in, one prediction for each out."""


@dataclass(frozen=True)
class Generator:
    """An LLM with what its prompts hold.

    Attributes:
        llm: The LLM to ask; None if only prompts are made.
        task: Task of the corpus.
        labels: The labels that an answer may have.
        question: Asked in place of the task's own question, if not empty.
        lists_labels: Whether the prompt lists the labels.
        wrapped: Whether a triple's chunk is shown between the head and the tail of its sentence,
            with their triple as its answer. The released prompts do so, with a pair of that
            relation drawn by chance; the text of the paper shows the label.
        definitions: Definition of each label, listed with it (section 4.3.1). May be empty.
        hint: A further sentence for triples.
        plain: Whether the prompt is plain text in Alpaca's form, as in the released code: a base
            model has no chat template.
    """

    llm: LLM | None
    task: str
    labels: tuple[str, ...]
    question: str = ""
    lists_labels: bool = True
    wrapped: bool = False
    definitions: Mapping[str, str] = field(default_factory=dict)
    hint: str = ""
    plain: bool = False

    def instruction(self) -> str:
        """Write I of section 4.2.4.

        It comes first in every prompt, so that the server computes it once.
        """
        if self.task == "triples":
            relations = f"The relation is one of these:{self._label_list()}"
            return (
                "Extract the relation that the sentence states between two of its entities. Copy "
                f"both entities from the sentence. {self.hint}"
                f"{relations if self.lists_labels else ''}Answer in one line: {FORMAT}"
            )
        question = self.question or QUESTIONS[self.task]
        if not self.lists_labels:
            return question
        choice = f"{question} Answer with one of these and nothing else:{self._label_list()}"
        return choice.rstrip()

    def _label_list(self) -> str:
        if not self.definitions:
            return f" {', '.join(self.labels)}. "
        lines = [f"{label}: {self.definitions[label]}" for label in self.labels]
        return "\n" + "\n".join(lines) + "\n"

    def messages(self, example: Example, shots: Sequence[Shot]) -> list[Message]:
        """Build the messages: I, then the document, then x (section 4.2.4)."""
        document = "".join(self._show(shot) for shot in shots)
        user_input = f"{document}Text: {input_text(example, self.task)}\nAnswer:"
        return chat_messages(self.instruction(), user_input)

    def prompt(self, example: Example, document: Document | None) -> list[Message] | str:
        """Build the messages, or the same as plain text."""
        messages = self.messages(example, document.shots if document else ())
        return alpaca_prompt(messages) if self.plain else messages

    def _show(self, shot: Shot) -> str:
        text, answer = self._text_and_answer(shot)
        return f"Example: {text}\nAnswer: {answer}\n"

    def _text_and_answer(self, shot: Shot) -> tuple[str, str]:
        """Return a triple for a whole sentence or a wrapped chunk, else only the label."""
        if self.task == "triples":
            if shot.is_whole_input:
                return shot.text, triple_lines(shot.triples)
            if self.wrapped and shot.triples:
                first = shot.triples[0]
                return f"{first.head} {shot.text} {first.tail}", triple_lines(shot.triples)
        if self.task == "relations" and shot.is_whole_input:
            return shot.text + _entity_pair(shot.triples), shot.label
        return shot.text, shot.label

    def parse(self, reply: str) -> tuple[str | None, tuple[Triple, ...]]:
        """Parse label and triples of a reply.

        A label must be one of ``labels``, whatever its case.
        """
        if self.task != "triples":
            return parse_label(reply, self.labels), ()
        triples = tuple(parse_triples(reply))
        label = triples[0].relation if triples else None
        return label, triples

    def generate(
        self, examples: Sequence[Example], documents: Sequence[Document | None], label: str
    ) -> list[Prediction]:
        """Ask the LLM about each example (section 4.2.4).

        Args:
            examples: The examples, in the order of ``documents``.
            documents: The document that each prompt shows, or None.
            label: Name of this step in progress bars and in the record of the run.

        Raises:
            ValueError: There is no LLM to ask.
        """
        if self.llm is None:
            raise ValueError("There is no LLM to ask; give Generator one.")
        pairs = zip(examples, documents, strict=True)
        replies = self.llm.chat_many(
            [self.prompt(example, document) for example, document in pairs],
            max_tokens=ANSWER_TOKENS[self.task],
            stop=["\n"],
            overflow="record",
            label=label,
        )
        predictions = []
        for reply in replies:
            found, triples = self.parse(reply.text)
            prediction = Prediction(
                label=found,
                triples=triples,
                reply=reply.text,
                prompt_tokens=reply.prompt_tokens or 0,
                overflow=reply.status == "overflow",
                request=reply.key,
            )
            predictions.append(prediction)
        return predictions


def input_text(example: Example, task: str) -> str:
    """Return x as a model reads it.

    That is the text, and the pair of entities if the task gives it (section 4.1.2).
    """
    if task == "relations":
        return example.text + _entity_pair(example.triples)
    return example.text


def _entity_pair(triples: Sequence[Triple]) -> str:
    return "".join(f" Head entity: {t.head}. Tail entity: {t.tail}." for t in triples)


def answer_line(example: Example, task: str) -> str:
    """Return the true answer as a model should write it."""
    return triple_lines(example.triples) if task == "triples" else example.label


def triple_lines(triples: Sequence[Triple]) -> str:
    """Write triples in the output format of the released prompts."""
    return "\n".join(f"{t.head}|{t.relation}|{t.tail}" for t in triples)


@dataclass(frozen=True)
class ZeroShot:
    """The LLM with the instruction and the input alone."""

    generator: Generator

    def __call__(self, examples: Sequence[Example]) -> list[Prediction]:
        """Answer each example."""
        return self.generator.generate(examples, [None] * len(examples), "zero-shot")


@dataclass(frozen=True)
class BiomedRag:
    """BiomedRAG: the LLM with the document that the scorer chose for each input.

    Attributes:
        generator: The LLM that answers.
        choose: Chooses a document for each input, see `retriever.Retriever`.
        label: Name of the arm in progress bars and in the record of the run.
    """

    generator: Generator
    choose: Callable[[Sequence[Example]], Sequence[Document]]
    label: str = "BiomedRAG"

    def __call__(self, examples: Sequence[Example]) -> list[Prediction]:
        """Answer each example."""
        return self.generator.generate(examples, self.choose(examples), self.label)


@dataclass(frozen=True)
class RaKnn:
    """RA-KNN-n: the n nearest (sentence, label) pairs of the memory, the nearest last.

    Source: section 2.2.
    """

    generator: Generator
    memory: Memory
    n: int

    def __call__(self, examples: Sequence[Example]) -> list[Prediction]:
        """Answer each example."""
        documents = Nearest(self.memory, self.n)(examples)
        return self.generator.generate(examples, documents, f"RA-KNN-{self.n}")
