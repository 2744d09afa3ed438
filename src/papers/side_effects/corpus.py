"""The corpus of drug side effects (side_effects.md): questions, knowledge, indexed texts, graph."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from evaluation.answers import Answer
from helpers.completions import Reply
from helpers.graph import Graph
from helpers.indexes import TextIndex
from helpers.vectors import Encoder
from rag.names import split_names

QUESTION = "Is {side_effect} an adverse effect of {drug}?"
OPENING_A = (
    "The drug {drug} may be associated with the following side effects or adverse reactions: "
)
SENTENCE_B = (
    "The drug {drug} may cause {side_effect} as an adverse effect, adverse reaction, or side "
    "effect."
)


@dataclass(frozen=True)
class Question:
    """One pair of the forward benchmark, with its true label."""

    drug: str
    side_effect: str
    label: bool

    @property
    def text(self) -> str:
        """The question in words."""
        return QUESTION.format(side_effect=self.side_effect, drug=self.drug)

    @property
    def unit(self) -> str:
        """The pair's id."""
        return f"{self.drug} | {self.side_effect}"

    @property
    def cluster(self) -> str:
        """The drug: its questions share a document."""
        return self.drug

    @property
    def gold(self) -> str:
        """YES or NO."""
        return "YES" if self.label else "NO"

    @property
    def strata(self) -> dict[str, str]:
        """None."""
        return {}


Arm = Callable[[Sequence[Question]], list[Answer]]
"""A system under comparison: it takes questions and returns one answer per question."""

LABEL_WORDS = {True: "YES", False: "NO"}
UNKNOWN_PROBABILITY = 0.5
"""Probability of YES of an answer that could not be read."""


def yes_no_answer(
    label: bool | None,
    *,
    p_yes: float | None = None,
    found: bool | None = None,
    reply: Reply | None = None,
) -> Answer:
    """Make the answer of an arm to a yes/no question.

    Args:
        label: True for YES, False for NO, None where the reply states neither.
        p_yes: Probability of YES against NO at the first token. By default 1 for YES, 0 for NO
            and one half for neither.
        found: Whether retrieval found the pair; None for an arm that retrieves nothing.
        reply: The reply of the LLM; None for an arm without one.

    Returns:
        The answer with the measures ``p_yes``, unless the reply came without log-probabilities
        of an answer's first token, and ``handed``, if the arm retrieves.
    """
    measures = {}
    has_probability = reply is None or bool(reply.first_token) or reply.status == "overflow"
    if p_yes is None:
        p_yes = UNKNOWN_PROBABILITY if label is None else float(label)
    if has_probability:
        measures["p_yes"] = (p_yes, 1.0)
    if found is not None:
        measures["handed"] = (float(found), 1.0)
    predicted = None if label is None else LABEL_WORDS[label]
    return Answer(
        answer=predicted if reply is None else reply.text,
        predicted=predicted,
        parsed=label is not None,
        measures=measures,
        requests=[] if reply is None else [reply.key],
    )


@dataclass(frozen=True)
class Entities:
    """Drug and side effect as an LLM read them from a question, empty where it could not.

    Attributes:
        drug: The drug in lower case.
        side_effect: The side effect in lower case.
        request: Key of the request.
    """

    drug: str = ""
    side_effect: str = ""
    request: str = field(default="", compare=False)


def read_knowledge(format_a: Path, vocabulary: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """Read the drugs and their side effects from the released Format A file.

    Args:
        format_a: CSV file with the columns drug, text and format.
        vocabulary: The known terms. A list is split at ", " unless the joined pieces are one of
            them, such as "hallucination, visual".

    Returns:
        The side effects of each drug, in the order of the file.
    """
    comma_terms = {term for term in vocabulary if ", " in term}
    table = pd.read_csv(format_a)
    knowledge = {}
    for drug, text in zip(table.drug, table.text, strict=True):
        _, _, listed = text.partition(": ")
        knowledge[str(drug)] = tuple(split_names(listed, comma_terms))
    return knowledge


def read_terms(path: Path) -> list[str]:
    """Read the known side-effect terms: the first column of a CSV file."""
    return [str(term) for term in pd.read_csv(path).iloc[:, 0]]


def count_sorted_lists(knowledge: Mapping[str, Sequence[str]]) -> int:
    """Count the drugs whose side effects are in alphabetical order."""
    return sum(list(effects) == sorted(effects) for effects in knowledge.values())


def read_questions(path: Path) -> list[Question]:
    """Read the forward benchmark: a CSV file with drug, side_effect and label (0, 1)."""
    table = pd.read_csv(path)
    rows = zip(table.drug, table.side_effect, table.label, strict=True)
    return [Question(drug, side_effect, bool(label)) for drug, side_effect, label in rows]


def stratified(
    questions: Sequence[Question], n: int, seed: int, exclude_drugs: Iterable[str] = ()
) -> list[Question]:
    """Draw a balanced subset over as many drugs as possible.

    Drugs are shuffled once. Each round takes one positive and one negative question of every drug
    until there are enough.

    Args:
        questions: The questions to draw from.
        n: Even number of questions; all are taken if there are fewer.
        seed: Seed of the draw.
        exclude_drugs: Drugs whose questions are left out.

    Returns:
        The drawn questions, a positive and a negative one of a drug side by side.

    Raises:
        ValueError: ``n`` is odd or not positive.
    """
    if n <= 0 or n % 2:
        raise ValueError(f"A balanced subset needs an even, positive number of pairs; got {n}.")
    pool = _sort_questions(questions, set(exclude_drugs))
    names = sorted({question.drug for question in pool})
    rng = np.random.default_rng(seed)
    shuffled = [pool[i] for i in rng.permutation(len(pool))]
    drugs = [names[i] for i in rng.permutation(len(names))]
    stacks = _stack_questions(shuffled)
    selected: list[Question] = []
    while pairs := _one_pair_per_drug(stacks, drugs):
        missing_pairs = (n - len(selected)) // 2
        if missing_pairs <= 0:
            break
        for pair in pairs[:missing_pairs]:
            selected += pair
    return selected


def _sort_questions(questions: Iterable[Question], excluded: set[str]) -> list[Question]:
    """Sort the questions, so that a draw does not depend on the order of the file."""
    remaining = {question for question in questions if question.drug not in excluded}
    return sorted(
        remaining, key=lambda question: (question.drug, question.side_effect, question.label)
    )


def _stack_questions(questions: Iterable[Question]) -> dict[tuple[str, bool], list[Question]]:
    """Group the questions by drug and label."""
    stacks: dict[tuple[str, bool], list[Question]] = {}
    for question in questions:
        stacks.setdefault((question.drug, question.label), []).append(question)
    return stacks


def _one_pair_per_drug(
    stacks: Mapping[tuple[str, bool], list[Question]], drugs: Sequence[str]
) -> list[list[Question]]:
    """Take a positive and a negative question of every drug that still has both."""
    pairs = []
    for drug in drugs:
        positives = stacks.get((drug, True))
        negatives = stacks.get((drug, False))
        if positives and negatives:
            pairs.append([positives.pop(), negatives.pop()])
    return pairs


def load_graph(graph: Graph, knowledge: Mapping[str, Sequence[str]], digest: str) -> bool:
    """Load the bipartite graph Drug -may_cause_side_effect-> SideEffect (Fig. 2a).

    Args:
        graph: The graph to load into.
        knowledge: The side effects of each drug.
        digest: Digest of what ``knowledge`` was made from; a graph of the same digest stays.

    Returns:
        Whether anything was loaded.
    """
    with graph.load_once("side_effects", digest) as missing:
        if not missing:
            return False
        edges = [
            {"drug": drug, "side_effect": side_effect}
            for drug, side_effects in knowledge.items()
            for side_effect in side_effects
        ]
        names = sorted({edge["side_effect"] for edge in edges})
        graph.clear("Drug", "SideEffect")
        graph.constraint("Drug", "name")
        graph.constraint("SideEffect", "name")
        graph.load_nodes("Drug", [{"name": drug} for drug in knowledge], key="name")
        graph.load_nodes("SideEffect", [{"name": name} for name in names], key="name")
        graph.load_edges(
            "may_cause_side_effect",
            edges,
            start=("Drug", "name", "drug"),
            end=("SideEffect", "name", "side_effect"),
        )
    return True


@dataclass(frozen=True)
class TextStore:
    """Units of text that are searched by meaning.

    Attributes:
        texts: The units, as a prompt or a filter sees them.
        pairs: The (drug, effects) that a filter reads off each unit.
        index: The units in full, for the search.
    """

    texts: Sequence[str]
    pairs: Sequence[tuple[str, frozenset[str]]]
    index: TextIndex

    def search(self, questions: Sequence[Question], k: int) -> list[NDArray[np.int64]]:
        """Numbers of the k nearest units of each question, best first."""
        return self.index.nearest([question.text for question in questions], k)

    @cached_property
    def rows_of_effect(self) -> dict[str, NDArray[np.int64]]:
        """Numbers of the units that state an effect, by effect."""
        rows: dict[str, list[int]] = {}
        for row, (_, effects) in enumerate(self.pairs):
            for effect in effects:
                rows.setdefault(effect, []).append(row)
        return {effect: np.array(of_effect) for effect, of_effect in rows.items()}


LIST_PATTERN = re.compile(
    r"(?s)The drug (?P<drug>.+?) (?:may be associated with|causes) the following .*?: "
    r"(?P<effects>.*)"
)
"""A Format A document: the list of a drug."""
SENTENCE_PATTERN = re.compile(
    r"The drug (?P<drug>.+?) may cause (?P<effect>.+) as an adverse effect, adverse reaction"
)
"""A Format B sentence: a drug and one effect."""


def read_format_a(text: str, comma_terms: Iterable[str] = ()) -> tuple[str, frozenset[str]]:
    """Read drug and effects off a Format A document; a document that was cut states fewer.

    Args:
        text: The document.
        comma_terms: Terms that contain ", " and are not split there.

    Returns:
        The drug and its effects, or ``("", frozenset())`` for a text of another form.
    """
    match = LIST_PATTERN.match(text)
    if match is None:
        return "", frozenset()
    return match["drug"], frozenset(split_names(match["effects"], comma_terms))


def read_format_b(text: str) -> tuple[str, frozenset[str]]:
    """Read drug and effect off a Format B sentence; ``("", frozenset())`` for another text."""
    match = SENTENCE_PATTERN.match(text)
    if match is None:
        return "", frozenset()
    return match["drug"], frozenset({match["effect"]})


def format_a_store(knowledge: Mapping[str, Sequence[str]], encoder: Encoder) -> TextStore:
    """Index Format A: one text per drug, its effects as a list (Fig. 1b, "chunked at newlines")."""
    texts = [
        OPENING_A.format(drug=drug) + ", ".join(effects) for drug, effects in knowledge.items()
    ]
    comma_terms = _comma_terms(knowledge.values())
    pairs = [read_format_a(text, comma_terms) for text in texts]
    return TextStore(texts, pairs, TextIndex(texts, encoder, "side-effects-format-a"))


def format_b_store(knowledge: Mapping[str, Sequence[str]], encoder: Encoder) -> TextStore:
    """Index Format B: one sentence per drug and effect (Fig. 1b)."""
    texts = [
        SENTENCE_B.format(drug=drug, side_effect=side_effect)
        for drug, side_effects in knowledge.items()
        for side_effect in side_effects
    ]
    pairs = [read_format_b(text) for text in texts]
    return TextStore(texts, pairs, TextIndex(texts, encoder, "side-effects-format-b"))


def shorten_documents(store: TextStore, characters: int) -> TextStore:
    """Keep the index of Format A; the filter sees the first ``characters`` of a document."""
    comma_terms = _comma_terms(effects for _, effects in store.pairs)
    texts = [text[:characters] for text in store.texts]
    pairs = [read_format_a(text, comma_terms) for text in texts]
    return replace(store, texts=texts, pairs=pairs)


def _comma_terms(lists: Iterable[Iterable[str]]) -> set[str]:
    comma_terms = set()
    for effects in lists:
        comma_terms |= {effect for effect in effects if ", " in effect}
    return comma_terms


def find_term(term: str, text: str) -> int:
    """Find a whole term in a list, not a part of another one ("pain" in "abdominal pain").

    Returns:
        The position of its first character, or -1 if the list does not have it.
    """
    match = re.search(rf"(?<=[:,] ){re.escape(term)}(?=,|\.?$)", text.rstrip())
    return match.start() if match else -1
