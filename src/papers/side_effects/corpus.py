"""The corpus of drug side effects (side_effects.md): questions, knowledge, its texts with their indexes, the graph."""

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
SENTENCE_B = "The drug {drug} may cause {side_effect} as an adverse effect, adverse reaction, or side effect."


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
"""An architecture under comparison: questions in, one answer for each out."""


def said(
    label: bool | None,
    *,
    p_yes: float | None = None,
    handed: bool | None = None,
    reply: Reply | None = None,
) -> Answer:
    """One answer of an arm: YES, NO, or None where neither was found in the reply.

    `p_yes` is the probability of YES against NO at the first token, by default what the label says: 1, 0 or one half.
    `handed` is whether retrieval found the pair.
    """
    of_label = {True: 1.0, False: 0.0, None: 0.5}[label]
    words = {True: "YES", False: "NO", None: None}[label]
    return Answer(
        answer=words if reply is None else reply.text,
        predicted=words,
        parsed=label is not None,
        measures={"p_yes": (of_label if p_yes is None else p_yes, 1.0)}
        | ({} if handed is None else {"handed": (float(handed), 1.0)}),
        requests=[] if reply is None else [reply.key],
    )


@dataclass(frozen=True)
class Entities:
    """Drug and side effect as an LLM read them from a question, empty where it could not; `request` is its key."""

    drug: str = ""
    side_effect: str = ""
    request: str = field(default="", compare=False)


def read_knowledge(format_a: Path, vocabulary: Iterable[str]) -> dict[str, tuple[str, ...]]:
    """The drugs and their side effects, from the released Format A file.

    A list is split at ", " unless the joined pieces are a term of the vocabulary, such as "hallucination, visual".
    `format_a` is a CSV with columns drug, text, format.
    """
    with_comma = {term for term in vocabulary if ", " in term}
    table = pd.read_csv(format_a)
    return {
        str(d): tuple(split_names(t.partition(": ")[2], with_comma))
        for d, t in zip(table.drug, table.text, strict=True)
    }


def read_terms(path: Path) -> list[str]:
    """The known side-effect terms: the first column of a CSV."""
    return [str(term) for term in pd.read_csv(path).iloc[:, 0]]


def in_order(knowledge: Mapping[str, Sequence[str]]) -> int:
    """How many drugs have their effects in alphabetical order."""
    return sum(list(effects) == sorted(effects) for effects in knowledge.values())


def read_questions(path: Path) -> list[Question]:
    """The forward benchmark: CSV with columns drug, side_effect, label (0 or 1)."""
    table = pd.read_csv(path)
    return [
        Question(d, s, bool(y))
        for d, s, y in zip(table.drug, table.side_effect, table.label, strict=True)
    ]


def stratified(
    questions: Sequence[Question], n: int, seed: int, exclude_drugs: Iterable[str] = ()
) -> list[Question]:
    """A balanced subset of an even number of questions over as many drugs as possible, or all if there are fewer.

    Drugs are shuffled once; each round takes one positive and one negative of every drug until there are enough.
    """
    if n <= 0 or n % 2:
        raise ValueError(f"A balanced subset needs an even, positive number of pairs; got {n}.")
    banned = set(exclude_drugs)
    rng = np.random.default_rng(seed)
    # sorted first, so that the draw depends on the data and the seed alone and not on the order of the file
    pool = sorted(
        {q for q in questions if q.drug not in banned},
        key=lambda q: (q.drug, q.side_effect, q.label),
    )
    order = [pool[i] for i in rng.permutation(len(pool))]
    drugs = [
        sorted({q.drug for q in pool})[i] for i in rng.permutation(len({q.drug for q in pool}))
    ]
    waiting: dict[tuple[str, bool], list[Question]] = {}
    for question in order:
        waiting.setdefault((question.drug, question.label), []).append(question)
    taken: list[Question] = []
    while len(taken) < min(n, len(pool)):
        before = len(taken)
        for drug in drugs:
            pair = [waiting.get((drug, label), []) for label in (True, False)]
            if all(pair) and len(taken) < n:
                taken += [stack.pop() for stack in pair]
        if len(taken) == before:
            break
    return taken


def load_graph(graph: Graph, knowledge: Mapping[str, Sequence[str]], digest: str) -> bool:
    """Make the bipartite graph Drug -may_cause_side_effect-> SideEffect (Fig. 2a), unless it is there already.

    The digest of what `knowledge` was made from tells whether it is. Returns whether anything was loaded.
    """
    with graph.load_once("side_effects", digest) as missing:
        if missing:
            graph.clear("Drug", "SideEffect")
            for label in ("Drug", "SideEffect"):
                graph.constraint(label, "name")
            effects = sorted({e for of_drug in knowledge.values() for e in of_drug})
            graph.load_nodes("Drug", [{"name": d} for d in knowledge], key="name")
            graph.load_nodes("SideEffect", [{"name": e} for e in effects], key="name")
            graph.load_edges(
                "may_cause_side_effect",
                [
                    {"drug": d, "side_effect": e}
                    for d, of_drug in knowledge.items()
                    for e in of_drug
                ],
                start=("Drug", "name", "drug"),
                end=("SideEffect", "name", "side_effect"),
            )
    return missing


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


_LIST_A = re.compile(
    r"(?s)The drug (?P<drug>.+?) (?:may be associated with|causes) the following .*?: (?P<effects>.*)"
)
_SENTENCE_B = re.compile(
    r"The drug (?P<drug>.+?) may cause (?P<effect>.+) as an adverse effect, adverse reaction"
)


def read_format_a(text: str, with_comma: Iterable[str] = ()) -> tuple[str, frozenset[str]]:
    """(drug, effects) that a Format A document states; a cut document states fewer. ("", {}) for another text."""
    found = _LIST_A.match(text)
    return (
        (found["drug"], frozenset(split_names(found["effects"], with_comma)))
        if found
        else ("", frozenset())
    )


def read_format_b(text: str) -> tuple[str, frozenset[str]]:
    """(drug, {effect}) that a Format B sentence states; ("", {}) for another text."""
    found = _SENTENCE_B.match(text)
    return (found["drug"], frozenset({found["effect"]})) if found else ("", frozenset())


def format_a_store(knowledge: Mapping[str, Sequence[str]], encoder: Encoder) -> TextStore:
    """Format A indexed, one unit a drug ("chunked at newlines"): its effects as a list (Fig. 1b)."""
    texts = [
        OPENING_A.format(drug=drug) + ", ".join(effects) for drug, effects in knowledge.items()
    ]
    comma_terms = {e for effects in knowledge.values() for e in effects if ", " in e}
    pairs = [read_format_a(t, comma_terms) for t in texts]
    return TextStore(texts, pairs, TextIndex(texts, encoder, "side-effects-format-a"))


def format_b_store(knowledge: Mapping[str, Sequence[str]], encoder: Encoder) -> TextStore:
    """Format B indexed, one sentence a drug and effect (Fig. 1b)."""
    texts = [
        SENTENCE_B.format(drug=d, side_effect=e)
        for d, effects in knowledge.items()
        for e in effects
    ]
    pairs = [read_format_b(text) for text in texts]
    return TextStore(texts, pairs, TextIndex(texts, encoder, "side-effects-format-b"))


def shortened(store: TextStore, characters: int) -> TextStore:
    """The same index over Format A documents of which the filter sees the first `characters` only."""
    comma_terms = {e for _, effects in store.pairs for e in effects if ", " in e}
    texts = [text[:characters] for text in store.texts]
    return replace(store, texts=texts, pairs=[read_format_a(t, comma_terms) for t in texts])


def place_of(effect: str, text: str) -> int:
    """Where a list has the whole term, not as a part of another one ("pain" in "abdominal pain"); -1 if nowhere."""
    found = re.search(rf"(?<=[:,] ){re.escape(effect)}(?=,|\.?$)", text.rstrip())
    return found.start() if found else -1
