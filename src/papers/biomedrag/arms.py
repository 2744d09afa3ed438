"""The arms under comparison in BiomedRAG's chapters: each takes examples and gives one prediction for each.

Floors that need no LLM (majority, nearest neighbour's label, logistic regression), the LLM alone, the LLM with the n
nearest examples (RA-KNN-n), and BiomedRAG: the LLM with the one document that the scorer chose.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from helpers.indexes import Index
from helpers.llm import LLM
from helpers.rag.prompts import chat
from helpers.vectors import Encoder
from papers.biomedrag.corpora import Corpus, Example, Triple
from papers.biomedrag.memory import Document, Memory, Shot, pair_vectors
from papers.biomedrag.scorer import Scorer
from papers.biomedrag.scoring import parse_label, parse_triples

FORMAT: Final = "head entity|relation|tail entity"
"""Output format of the released prompts."""
BLANKS_HINT: Final = "Each of the two entities has a doubled blank before it and after it. "
"""What the blanks of the released sentences mark, told to a language model."""
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
        label: the relation or class; None where the reply held none.
        triples: triples extracted; empty for tasks whose answer is a label.
        reply: the LLM's words; empty for an arm without an LLM.
        prompt_tokens: of the request.
        overflow: the prompt did not fit the context, so nothing was asked.
        request: its key in `results.requests`.
    """

    label: str | None
    triples: tuple[Triple, ...] = ()
    reply: str = ""
    prompt_tokens: int = 0
    overflow: bool = False
    request: str = ""


Arm = Callable[[Sequence[Example]], list[Prediction]]
"""An architecture under comparison: examples in, one prediction for each out."""


# ------------------------------------------------------------------------------------------------- without an LLM
# The classifiers do not weight rare classes up: the measure is micro F1, which does not either.


def majority(corpus: Corpus) -> Arm:
    """The commonest label of the training split, always."""
    label = Counter(e.label for e in corpus.train).most_common(1)[0][0]
    return lambda examples: [Prediction(label) for _ in examples]


def nearest_label(corpus: Corpus, encoder: Encoder) -> Arm:
    """The label of the training example whose vector is nearest."""
    index = Index.build(encoder.encode([given(e, corpus.task) for e in corpus.train], progress=False))

    def answer(examples: Sequence[Example]) -> list[Prediction]:
        _, rows = index.search(encoder.encode([given(e, corpus.task) for e in examples], progress=False), 1)
        return [Prediction(corpus.train[row].label) for row in rows[:, 0]]

    return answer


def tfidf(corpus: Corpus) -> Arm:
    """Logistic regression on TF-IDF of words and pairs of words."""
    model = make_pipeline(
        TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True),
        LogisticRegression(max_iter=300, tol=1e-3, C=10.0),
    )
    model.fit([given(e, corpus.task) for e in corpus.train], [e.label for e in corpus.train])

    def answer(examples: Sequence[Example]) -> list[Prediction]:
        return [Prediction(str(label)) for label in model.predict([given(e, corpus.task) for e in examples])]

    return answer


def encoded(corpus: Corpus, encoder: Encoder) -> Arm:
    """Logistic regression on the encoder's vectors."""
    model = LogisticRegression(max_iter=1000, tol=1e-3, C=10.0)
    vectors = encoder.encode([given(e, corpus.task) for e in corpus.train], progress=False)
    model.fit(vectors, [e.label for e in corpus.train])

    def answer(examples: Sequence[Example]) -> list[Prediction]:
        vectors = encoder.encode([given(e, corpus.task) for e in examples], progress=False)
        return [Prediction(str(label)) for label in model.predict(vectors)]

    return answer


# -------------------------------------------------------------------------------------- entity pairs without an LLM

# The released GIT and ChemProt texts set blanks around the two entities of the gold triple: "of  depression  of".
# The blanks after an entity are taken with it, for they begin no other.
_MARKED = re.compile(r"(?:^ | {2,}|(?<=[(\[{/-]) )(\S(?:[^ ]| (?! ))*?)(?: {2,}| (?=[)\]}/,.;:-]| ?$)| ?$)")


def marked_entities(text: str) -> list[str]:
    """Stretches of a text that stand between more blanks than a sentence needs, each once, in their order."""
    return list(dict.fromkeys(match.group(1).strip() for match in _MARKED.finditer(text)))


def marks_the_pair(example: Example) -> bool:
    """Whether the blanks of a sentence single out the entities of its gold triple, and nothing else."""
    gold = {name for t in example.triples for name in (t.head, t.tail)}
    return set(marked_entities(example.text)) == {name.strip() for name in gold}


class PairReader:
    """Reads a triple off a sentence without any language model.

    The pair is what the blanks mark; where they mark fewer than two names, names of the training triples fill up.
    Relation and order of the two are predicted together, by a linear classifier on TF-IDF of the sentence in which both
    names are replaced by place-holders.
    """

    def __init__(self, train: Sequence[Example], *, blanks: bool = True) -> None:
        """Learn names, relations and orders from training examples.

        Args:
            train: examples with triples.
            blanks: read them; without, all blanks count as one, and known names alone are used.
        """
        self._blanks = blanks
        triples = [(e, t) for e in train for t in e.triples]
        self._names = {name.lower().strip() for _, t in triples for name in (t.head, t.tail) if len(name) > 2}
        self._longest = max((len(name.split()) for name in self._names), default=1)
        texts, targets = [], []
        for example, t in triples:
            head_first = example.text.find(t.head) <= example.text.find(t.tail)
            texts.append(_masked(example.text, (t.head, t.tail) if head_first else (t.tail, t.head)))
            targets.append(f"{t.relation}|{'forward' if head_first else 'back'}")
        # ten times as fast as logistic regression, for two labels a relation
        self._model = make_pipeline(TfidfVectorizer(ngram_range=(1, 3), min_df=2, sublinear_tf=True), LinearSVC())
        self._model.fit(texts, targets)

    def pair(self, text: str) -> tuple[str, str] | None:
        """The first two names, in the order of the text; None where fewer are found."""
        found = marked_entities(text) if self._blanks else []
        if len(found) < 2:
            found = list(dict.fromkeys([*found, *self._known(text)]))
        return (found[0], found[1]) if len(found) > 1 else None

    def __call__(self, examples: Sequence[Example]) -> list[Prediction]:
        """One triple an example, or none where no pair was found: an `Arm`."""
        pairs = [self.pair(e.text) for e in examples]
        read = [(e, pair) for e, pair in zip(examples, pairs, strict=True) if pair]
        targets = iter(self._model.predict([_masked(e.text, pair) for e, pair in read]) if read else ())
        answers = []
        for pair in pairs:
            if pair is None:
                answers.append(Prediction(None))
                continue
            relation, _, order = str(next(targets)).rpartition("|")
            head, tail = pair if order == "forward" else pair[::-1]
            answers.append(Prediction(relation, (Triple(head, relation, tail),)))
        return answers

    def _known(self, text: str) -> list[str]:
        tokens = [(m.start(), m.end()) for m in re.finditer(r"[^\s,.;:()\[\]]+", text)]
        names, at = [], 0
        while at < len(tokens):
            for size in range(min(self._longest, len(tokens) - at), 0, -1):
                name = text[tokens[at][0] : tokens[at + size - 1][1]]
                if name.lower() in self._names:
                    names.append(name)
                    at += size - 1
                    break
            at += 1
        return list(dict.fromkeys(names))


def _masked(text: str, pair: tuple[str, str]) -> str:
    return text.replace(pair[0], " firstname ").replace(pair[1], " secondname ")


def with_gold_pair(arm: Arm) -> Arm:
    """An arm that predicts a relation, completed to a triple by the gold pair: not a system, but an upper line."""

    def answer(examples: Sequence[Example]) -> list[Prediction]:
        return [
            Prediction(p.label, tuple(Triple(t.head, p.label or "", t.tail) for t in e.triples))
            for e, p in zip(examples, arm(examples), strict=True)
        ]

    return answer


# ----------------------------------------------------------------------------------------------------- with an LLM


@dataclass(frozen=True)
class Asking:
    """How an arm asks its LLM.

    Attributes:
        llm: the model; None where only prompts are made.
        task: what is asked for.
        labels: that an answer may have.
        tokens: longest answer; 0 takes that of the task.
        question: in place of the task's own.
        offered: whether the prompt lists the labels.
        wrapped: for triples, show a chunk between the head and the tail of its sentence, and their triple as its
            answer. The released prompts do so, with a pair of that relation drawn by chance; the text shows the label.
        definitions: of the labels in words, listed with them (section 4.3.1); none by default.
        hint: a sentence more for triples.
    """

    llm: LLM | None
    task: str
    labels: tuple[str, ...]
    tokens: int = 0
    question: str = ""
    offered: bool = True
    wrapped: bool = False
    definitions: Mapping[str, str] = field(default_factory=dict)
    hint: str = ""

    def instruction(self) -> str:
        """I of section 4.2.4: what is the same in every prompt stands first, so that the server computes it once."""
        if self.definitions:
            offered = "\n" + "\n".join(f"{label}: {self.definitions[label]}" for label in self.labels) + "\n"
        else:
            offered = f" {', '.join(self.labels)}. "
        if self.task == "triples":
            relations = f"The relation is one of these:{offered}" if self.offered else ""
            return (
                "Extract the relation that the sentence states between two of its entities. Copy both entities from "
                f"the sentence. {self.hint}{relations}Answer in one line: {FORMAT}"
            )
        what = self.question or QUESTIONS[self.task]
        return f"{what} Answer with one of these and nothing else:{offered}".rstrip() if self.offered else what

    def messages(self, example: Example, shots: Sequence[Shot]) -> list[dict[str, str]]:
        """I, then the document, then x (section 4.2.4)."""
        shown = "".join(f"Example: {self._text_of(s)}\nAnswer: {self.answer_of(s)}\n" for s in shots)
        return chat(self.instruction(), f"{shown}Text: {given(example, self.task)}\nAnswer:")

    def _text_of(self, shot: Shot) -> str:
        if self._wraps(shot):
            return f"{shot.triples[0].head} {shot.text} {shot.triples[0].tail}"
        return shot.text + (_pair(shot.triples) if self.task == "relations" and shot.whole else "")

    def _wraps(self, shot: Shot) -> bool:
        return self.wrapped and self.task == "triples" and not shot.whole and bool(shot.triples)

    def answer_of(self, shot: Shot) -> str:
        """What a shot shows as its answer: a triple for a whole sentence or a wrapped chunk, else the label alone."""
        if self.task == "triples" and (shot.whole or self._wraps(shot)):
            return triple_line(shot.triples)
        return shot.label

    def read(self, reply: str) -> tuple[str | None, tuple[Triple, ...]]:
        """Label and triples of a reply, strictly: a label must be one of those offered, whatever its case."""
        if self.task == "triples":
            triples = tuple(parse_triples(reply) or ())
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

    Raises:
        ValueError: there is no model to ask.
    """
    if asking.llm is None:
        raise ValueError("There is no model to ask; give Asking one.")
    replies = asking.llm.chat_many(
        [asking.messages(e, d.shots if d else ()) for e, d in zip(examples, documents, strict=True)],
        max_tokens=asking.tokens or ANSWER_TOKENS[asking.task],
        stop=["\n"],
        overflow="record",
        label=name,
    )
    return [Prediction(*asking.read(r.text), r.text, r.prompt_tokens, r.status == "overflow", r.key) for r in replies]


def zero_shot(asking: Asking) -> Arm:
    """The LLM with the instruction and the input alone."""
    return lambda examples: ask(asking, examples, [None] * len(examples), "zero-shot")


def ra_knn(asking: Asking, memory: Memory, n: int) -> Arm:
    """RA-KNN-n: the n nearest (sentence, label) pairs of the memory's sentences, the nearest last (section 2.2)."""

    def answer(examples: Sequence[Example]) -> list[Prediction]:
        near = memory.nearest([e.text for e in examples], n) if n else [[] for _ in examples]
        return ask(asking, examples, [Document(tuple(reversed(of_x))) for of_x in near], f"RA-KNN-{n}")

    return answer


def biomed_rag(
    asking: Asking, memory: Memory, scorer: Scorer, *, diverse: bool = True, permuted: int = 2, name: str = "BiomedRAG"
) -> Arm:
    """BiomedRAG: of the candidates of each input, the document that the scorer weighs highest goes into the prompt."""

    def answer(examples: Sequence[Example]) -> list[Prediction]:
        return ask(
            asking, examples, choose_documents(memory, scorer, examples, diverse=diverse, permuted=permuted), name
        )

    return answer


def choose_documents(
    memory: Memory, scorer: Scorer, examples: Sequence[Example], *, diverse: bool = True, permuted: int = 2
) -> list[Document]:
    """The document of each example's candidates that the scorer weighs highest."""
    texts = [e.text for e in examples]
    candidates = memory.candidates(texts, diverse=diverse, permuted=permuted)
    inputs, vectors = pair_vectors(texts, candidates, scorer.encoder or memory.encoder)
    return [of_x[scorer.choose(x, v)] for x, of_x, v in zip(inputs, candidates, vectors, strict=True)]
