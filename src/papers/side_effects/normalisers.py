"""Normalisers of drug names (side_effects.md, "Misspelling robustness").

A normaliser takes names as typed and returns drugs of the knowledge.
"""

import re
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import DamerauLevenshtein

from evaluation import figures
from evaluation.answers import Answer
from evaluation.outcomes import Outcomes
from helpers.completions import Choice, Reply, count_tokens
from helpers.counting import counted
from helpers.llm import LLM
from papers.side_effects.misspelling import Query, add_measures
from rag.prompts import Message, chat_messages
from rag.replies import answer_text, bare_name

ARMS = {
    "none": ("no normalisation", figures.HUES["grey"]),
    "llm": ("names written by the LLM", figures.HUES["orange"]),
    "llm_larger": ("a larger LLM", figures.HUES["orange"]),
    "choice": ("names chosen by the LLM", figures.HUES["magenta"]),
    "edits": ("edit distance", figures.HUES["blue"]),
    "dictionary": ("drug-named-entity-recognition", figures.HUES["blue"]),
    "in_turn": ("dictionary, then edit distance", figures.HUES["blue"]),
}
"""Names as a reader sees them, and colours."""
LABELS = {arm: label for arm, (label, _) in ARMS.items()}
METHODS = {
    "llm": "the language model that writes the name",
    "choice": "the language model that chooses among similar names",
    "edits": "edit distance alone",
    "in_turn": "a dictionary followed by edit distance",
}
"""Normalisers in the words of a sentence."""
COLOURS = {arm: colour for arm, (_, colour) in ARMS.items()}
Normaliser = Callable[[Sequence[str]], list[str | None]]
"""Takes names as typed; returns a drug of the knowledge, or None, for each."""
Ranker = Callable[[Sequence[str], int], list[list[tuple[str, float]]]]
"""Takes names as typed and k; returns the k likeliest drugs of each with their similarity.

The best comes first; the similarity of a drug to its own name is 1.
"""


@dataclass(frozen=True)
class Unchanged:
    """No normalisation: a name is found if it is spelt as in the knowledge."""

    vocabulary: Collection[str]

    @cached_property
    def known(self) -> frozenset[str]:
        """The drugs, for lookups."""
        return frozenset(self.vocabulary)

    def __call__(self, names: Sequence[str]) -> list[str | None]:
        """Look up each name."""
        return [name if name in self.known else None for name in names]


@dataclass(frozen=True)
class EditRanker:
    """Ranks drugs by Damerau-Levenshtein similarity.

    Of equally similar drugs the alphabetically first comes first.
    """

    vocabulary: Collection[str]

    @cached_property
    def drugs(self) -> list[str]:
        """The drugs in alphabetical order."""
        return sorted(set(self.vocabulary))

    def __call__(self, names: Sequence[str], k: int) -> list[list[tuple[str, float]]]:
        """Rank the drugs for each name."""
        if not names:
            return []
        similarity = DamerauLevenshtein.normalized_similarity
        scores = process.cdist(list(names), self.drugs, scorer=similarity)
        orders = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        ranked = []
        for row, order in zip(scores, orders, strict=True):
            ranked.append([(self.drugs[i], float(row[i])) for i in order])
        return ranked


@dataclass(frozen=True)
class Nearest:
    """Takes the likeliest drug, unless its similarity is below ``cut``."""

    ranker: Ranker
    cut: float

    def __call__(self, names: Sequence[str]) -> list[str | None]:
        """Find the nearest drug of each name."""
        drugs: list[str | None] = []
        for ((drug, similarity),) in self.ranker(names, 1):
            drugs.append(drug if similarity >= self.cut else None)
        return drugs


class _Sorted(Counter[str]):
    """Counts that are listed by their names."""

    def items(self) -> list[tuple[str, int]]:  # type: ignore[override]
        return sorted(super().items(), key=itemgetter(0))


@dataclass(frozen=True)
class Dictionary:
    """The package drug-named-entity-recognition: a dictionary of drug names.

    The dictionary's own name means the drug of the knowledge that it is, or else the first one that
    it lists as a synonym.

    Attributes:
        vocabulary: The drugs of the knowledge.
        fuzzy: Whether letter trigrams may match too.
    """

    vocabulary: Collection[str]
    fuzzy: bool = True

    @cached_property
    def known(self) -> frozenset[str]:
        """The drugs, for lookups."""
        return frozenset(self.vocabulary)

    def __call__(self, names: Sequence[str]) -> list[str | None]:
        """Look up each name."""
        # seconds to load, and it opens a file of the home folder; so only where it is used
        from drug_named_entity_recognition import drugs_finder, find_drugs  # noqa: PLC0415

        # the package itself would take the first one by the order of a set, which depends on
        # PYTHONHASHSEED
        drugs_finder.Counter = _Sorted
        drugs: list[str | None] = []
        for name in names:
            matches = find_drugs([name], is_fuzzy_match=self.fuzzy)
            entries = [entry for entry, _, _ in matches]
            drugs.append(self._first_known(entries))
        return drugs

    def _first_known(self, entries: Iterable[Mapping[str, Any]]) -> str | None:
        for entry in entries:
            own_name = str(entry.get("name", "")).lower()
            synonyms = sorted(entry.get("synonyms", ()))
            for name in (own_name, *synonyms):
                if name in self.known:
                    return name
        return None


@dataclass(frozen=True)
class InTurn:
    """Asks the first normaliser; where it finds nothing the second one, and so on."""

    normalisers: tuple[Normaliser, ...]

    def __call__(self, names: Sequence[str]) -> list[str | None]:
        """Normalise each name."""
        drug_of: dict[str, str | None] = dict.fromkeys(names)
        for normaliser in self.normalisers:
            pending = [name for name, drug in drug_of.items() if drug is None]
            drug_of |= zip(pending, normaliser(pending), strict=True)
        return [drug_of[name] for name in names]


@dataclass(frozen=True)
class NormaliserArm:
    """A normaliser without a language model as an arm; its time is shared out evenly."""

    normaliser: Normaliser

    def __call__(self, queries: Sequence[Query]) -> list[Answer]:
        """Normalise the name of each query."""
        start = time.perf_counter()
        drugs = self.normaliser([query.typed for query in queries])
        seconds = (time.perf_counter() - start) / max(1, len(queries))
        measures = {"seconds": (seconds, 1.0), "tokens": (0.0, 1.0)}
        answers = []
        for query, drug in zip(queries, drugs, strict=True):
            answer = Answer(answer=drug, predicted=drug, measures=measures)
            answers.append(add_measures(query, answer))
        return answers


SPELLING = (
    "You are given the name of a drug as somebody typed it. Answer with the drug's generic name, "
    "spelt correctly, and nothing else. If the name is right already, repeat it."
)
CHOOSING = (
    "You are given the name of a drug as somebody typed it: perhaps misspelt, perhaps a trade "
    "name. Which drug of the list is meant? Answer with its number, or with 0 if it is none of "
    "them."
)


def spelling_prompt(typed: str) -> list[Message]:
    """Build the prompt that asks for the right spelling."""
    return chat_messages(SPELLING, typed)


def parse_spelling(reply: str) -> str:
    """Read the first word of a reply, in lower case and without quotes or a final full stop."""
    match = re.search(r"\S+", answer_text(reply))
    return bare_name(match[0].strip(".,;:")).lower() if match else ""


@dataclass(frozen=True)
class LlmSpells:
    """The paper's way: a language model writes any name (Methods, "Misspelling experiment").

    The name is an answer only if the knowledge has a drug of that name.

    Attributes:
        llm: The LLM to ask.
        vocabulary: The drugs of the knowledge.
        temperature: Sampling temperature.
        top_p: Probability mass of nucleus sampling.
    """

    llm: LLM
    vocabulary: Collection[str]
    temperature: float = 0.1
    top_p: float = 0.9

    @cached_property
    def known(self) -> frozenset[str]:
        """The drugs, for lookups."""
        return frozenset(self.vocabulary)

    def __call__(self, queries: Sequence[Query]) -> list[Answer]:
        """Normalise the name of each query."""
        replies = self.llm.chat_many(
            [spelling_prompt(query.typed) for query in queries],
            max_tokens=24,
            label="LLM spells",
            temperature=self.temperature,
            top_p=self.top_p,
            stop=["\n"],
        )
        answers = []
        for query, reply in zip(queries, replies, strict=True):
            word = parse_spelling(reply.text)
            answer = Answer(
                answer=word,
                predicted=word if word in self.known else None,
                measures=_cost_measures(reply),
                requests=[reply.key],
            )
            answers.append(add_measures(query, answer))
        return answers


def _cost_measures(reply: Reply | Choice) -> dict[str, tuple[float, float]]:
    measures = {"seconds": (reply.seconds, 1.0)}
    tokens = count_tokens([reply])
    if tokens is not None:
        measures["tokens"] = (float(tokens), 1.0)
    return measures


def choosing_prompt(typed: str, candidates: Sequence[str]) -> list[Message]:
    """Build the prompt that asks which candidate is meant."""
    lines = [f"{number}. {drug}" for number, drug in enumerate(candidates, start=1)]
    listed = "\n".join(lines)
    return chat_messages(CHOOSING, f"Typed: {typed}\n\n{listed}\n0. none of them")


@dataclass(frozen=True)
class LlmChooses:
    """A language model chooses among the likeliest drugs, or none, by constrained decoding.

    The measure ``among`` is whether the right drug is a candidate: the ceiling of whoever chooses.

    Attributes:
        llm: The LLM to ask.
        ranker: Finds the candidates, which the prompt lists in alphabetical order.
        n_candidates: Number of candidates.
    """

    llm: LLM
    ranker: Ranker
    n_candidates: int = 5

    def __call__(self, queries: Sequence[Query]) -> list[Answer]:
        """Normalise the name of each query."""
        candidates = self.find_candidates(queries)
        prompts = [
            choosing_prompt(query.typed, drugs)
            for query, drugs in zip(queries, candidates, strict=True)
        ]
        longest = max((len(drugs) for drugs in candidates), default=1)
        numbers = range(min(self.n_candidates, longest) + 1)
        choices = self.llm.choose_many(prompts, [str(n) for n in numbers], label="LLM chooses")
        answers = []
        for query, choice, drugs in zip(queries, choices, candidates, strict=True):
            answers.append(_chosen_answer(query, choice, drugs))
        return answers

    def find_candidates(self, queries: Sequence[Query]) -> list[list[str]]:
        """List the likeliest drugs of each query in alphabetical order."""
        ranked = self.ranker([query.typed for query in queries], self.n_candidates)
        candidates = []
        for drugs_with_similarity in ranked:
            candidates.append(sorted(drug for drug, _ in drugs_with_similarity))
        return candidates


def _chosen_answer(query: Query, choice: Choice, candidates: Sequence[str]) -> Answer:
    number = int(choice.answer)
    drug = candidates[number - 1] if 0 < number <= len(candidates) else None
    measures = _cost_measures(choice)
    if query.drug:
        measures["among"] = (float(query.drug in candidates), 1.0)
    answer = Answer(answer=drug, predicted=drug, measures=measures, requests=[choice.key])
    return add_measures(query, answer)


def answer(outcomes: Outcomes, model: str) -> str:
    """Write the chapter's answer.

    Args:
        outcomes: Answers to names that all normalisers were asked.
        model: Name of the language model.
    """
    arms = ("llm", "choice", "edits", "in_turn")
    of_drugs = outcomes.select(outcomes.frame.gold != "")
    right = {arm: of_drugs.score("right", arm) for arm in ("none", *arms)}
    best = max(arms, key=lambda arm: right[arm].value)
    right_names = outcomes.where(names="right names").score("right", "llm")
    names = counted(right[best].n, "typed name")
    text = (
        f"Of {names} of drugs in the authors' data, correct or not, {METHODS[best]} leads "
        f"{figures.score_text(right[best])} to the right drug. If the language model {model} "
        f"writes the name itself, as the paper's model does, {figures.score_text(right['llm'])} of "
        "the names lead to the right drug. Unlike the authors' prompt, this model's prompt has no "
        "examples.\n\n"
        f"As typed, {figures.score_text(right['none'])} of the names are already correct. The "
        f"language model leaves {figures.score_text(right_names)} of the correct names unchanged. "
        "In the paper, Qwen2.5-7B-Instruct writes the name, and the released reports say that its "
        "prompt had examples."
    )
    trade_names = outcomes.where(names="trade names", arm="llm")
    if not len(trade_names.frame):
        return text
    share = figures.score_text(trade_names.score("right", "llm"))
    n_trade_names = counted(len(trade_names.frame), "trade name")
    return f"{text} Of {n_trade_names}, {model} leads {share} to the right drug."
