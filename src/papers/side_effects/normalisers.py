"""Normalisers of drug names (side_effects.md, "Misspelling robustness"): names as typed in, known drugs out."""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import itemgetter
from typing import Any

import numpy as np
from rapidfuzz import process
from rapidfuzz.distance import DamerauLevenshtein

from evaluation import figures
from evaluation.answers import Answer
from evaluation.outcomes import Outcomes
from helpers.completions import Choice, Reply, count_tokens
from helpers.llm import LLM
from helpers.thoughts import without_thought
from papers.side_effects.misspelling import Query, add_measures
from rag.prompts import arm_of, chat_messages, each

ARMS = {
    "none": ("no normalisation", "#808080"),
    "llm": ("LLM writes the name", "#c35410"),
    "llm_larger": ("larger LLM writes the name", "#c35410"),
    "choice": ("LLM chooses among candidates", "#af219d"),
    "edits": ("edit distance", "#125ee0"),
    "dictionary": ("drug-named-entity-recognition", "#9a7400"),
    "in_turn": ("dictionary, then edit distance", "#0b7a8f"),
}
"""Names as a reader sees them, and colours."""
LABELS = {arm: label for arm, (label, _) in ARMS.items()}
COLOURS = {arm: colour for arm, (_, colour) in ARMS.items()}
NameArm = Callable[[Sequence[Query]], list[Answer]]
"""A normaliser under comparison: names in, one answer for each out."""
Normaliser = Callable[[Sequence[str]], list[str | None]]
"""Names as typed in; for each a drug of the knowledge out, or None."""
Ranker = Callable[[Sequence[str], int], list[list[tuple[str, float]]]]
"""Names as typed and k in; for each the k likeliest drugs with their similarity (1: the same) out, best first."""


def unchanged(vocabulary: Iterable[str]) -> Normaliser:
    """No normalisation: a name is found if it is spelt as in the knowledge."""
    known = frozenset(vocabulary)
    return lambda names: [name if name in known else None for name in names]


def by_edits(vocabulary: Iterable[str]) -> Ranker:
    """Drugs by Damerau-Levenshtein similarity; of equally similar ones the first of the alphabet comes first."""
    drugs = sorted(set(vocabulary))

    def rank(names: Sequence[str], k: int) -> list[list[tuple[str, float]]]:
        if not names:
            return []
        scores = process.cdist(list(names), drugs, scorer=DamerauLevenshtein.normalized_similarity)
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return [
            [(drugs[i], float(row[i])) for i in order]
            for row, order in zip(scores, best, strict=True)
        ]

    return rank


def nearest(ranker: Ranker, cut: float) -> Normaliser:
    """The likeliest drug, unless its similarity is below `cut`."""
    return lambda names: [drug if score >= cut else None for ((drug, score),) in ranker(names, 1)]


class _Sorted(Counter[str]):
    """Counts that are listed by their names."""

    def items(self) -> list[tuple[str, int]]:  # type: ignore[override]
        return sorted(super().items(), key=itemgetter(0))


def by_dictionary(vocabulary: Iterable[str], *, fuzzy: bool = True) -> Normaliser:
    """The package drug-named-entity-recognition: its dictionary of drug names, and letter trigrams if `fuzzy`.

    Its own name means the drug of the knowledge that it is, or else the first one that it lists as a synonym.
    """
    # seconds to load, and it opens a file of the home folder; so only where it is asked for
    from drug_named_entity_recognition import drugs_finder, find_drugs  # noqa: PLC0415

    # the package itself would take the first one by the order of a set, which depends on PYTHONHASHSEED
    drugs_finder.Counter = _Sorted
    known = frozenset(vocabulary)

    def look_up(typed: str) -> str | None:
        for found, _, _ in find_drugs([typed], is_fuzzy_match=fuzzy):
            names = [str(found.get("name", "")).lower(), *sorted(found.get("synonyms", ()))]
            if drug := next((n for n in names if n in known), None):
                return drug
        return None

    return lambda names: [look_up(name) for name in names]


@arm_of
def in_turn(names: Sequence[str], *normalisers: Normaliser) -> list[str | None]:
    """The first normaliser's answer; where it finds nothing the second one's, and so on."""
    found: dict[str, str | None] = dict.fromkeys(names)
    for normaliser in normalisers:
        waiting = [name for name, drug in found.items() if drug is None]
        found |= zip(waiting, normaliser(waiting), strict=True)
    return [found[name] for name in names]


@arm_of
def arm(queries: Sequence[Query], normaliser: Normaliser) -> list[Answer]:
    """The normaliser as an arm: names in, an answer for each out. Its time is shared out evenly."""
    began = time.perf_counter()
    found = normaliser([query.typed for query in queries])
    measures = {
        "seconds": ((time.perf_counter() - began) / max(1, len(queries)), 1.0),
        "tokens": (0.0, 1.0),
    }
    return [
        add_measures(query, Answer(answer=drug, predicted=drug, measures=measures))
        for query, drug in zip(queries, found, strict=True)
    ]


SPELLING = (
    "You are given the name of a drug as somebody typed it. Answer with the drug's generic name, spelt correctly, and "
    "nothing else. If the name is right already, repeat it."
)
CHOOSING = (
    "You are given the name of a drug as somebody typed it: perhaps misspelt, perhaps a trade name. Which drug of the "
    "list is meant? Answer with its number, or with 0 if it is none of them."
)


def spelling_prompt(typed: str) -> list[dict[str, str]]:
    """The messages that ask for the right spelling."""
    return chat_messages(SPELLING, typed)


def parse_spelling(reply: str) -> str:
    """The first word of a reply, in lower case and without quotes or a final full stop."""
    reply = without_thought(reply)
    found = re.search(r"\S+", reply)
    return found[0].strip("\"'`*.,;:").lower() if found else ""


def llm_spells(
    llm: LLM, vocabulary: Iterable[str], *, temperature: float = 0.1, top_p: float = 0.9
) -> NameArm:
    """The paper's way: a language model writes the name, whatever it likes (Methods, "Misspelling experiment").

    What it wrote is an answer only if the knowledge has a drug of that name.
    """
    known = frozenset(vocabulary)
    sampling: dict[str, Any] = {"temperature": temperature, "top_p": top_p, "stop": ["\n"]}

    def read(query: Query, reply: Reply) -> Answer:
        word = parse_spelling(reply.text)
        return add_measures(
            query, Answer(answer=word, predicted=word if word in known else None, **_cost(reply))
        )

    ask = partial(llm.chat_many, max_tokens=24, label="LLM spells", **sampling)
    return each(ask, lambda query: spelling_prompt(query.typed), read)


def _cost(reply: Reply | Choice) -> dict[str, Any]:
    measures = {"seconds": (reply.seconds, 1.0)}
    tokens = count_tokens([reply])
    if tokens is not None:
        measures["tokens"] = (float(tokens), 1.0)
    return {"measures": measures, "requests": [reply.key]}


def choosing_prompt(typed: str, candidates: Sequence[str]) -> list[dict[str, str]]:
    """The messages that ask which candidate is meant."""
    listed = "\n".join(f"{number}. {drug}" for number, drug in enumerate(candidates, start=1))
    return chat_messages(CHOOSING, f"Typed: {typed}\n\n{listed}\n0. none of them")


@arm_of
def llm_chooses(queries: Sequence[Query], llm: LLM, ranker: Ranker, k: int = 5) -> list[Answer]:
    """A language model chooses among the `k` likeliest drugs in alphabetical order, or none, by constrained decoding.

    The measure `among` is whether the right drug is one of them: the ceiling of whoever chooses.
    """
    candidates = [
        sorted(drug for drug, _ in ranked)
        for ranked in ranker([query.typed for query in queries], k)
    ]
    prompts = [
        choosing_prompt(query.typed, of) for query, of in zip(queries, candidates, strict=True)
    ]
    numbers = [str(number) for number in range(min(k, max(map(len, candidates), default=1)) + 1)]
    choices = llm.choose_many(prompts, numbers, label="LLM chooses")
    answers = []
    for query, choice, of in zip(queries, choices, candidates, strict=True):
        number = int(choice.answer)
        drug = of[number - 1] if 0 < number <= len(of) else None
        measures = _cost(choice)["measures"] | (
            {"among": (float(query.drug in of), 1.0)} if query.drug else {}
        )
        answers.append(
            add_measures(
                query, Answer(answer=drug, predicted=drug, measures=measures, requests=[choice.key])
            )
        )
    return answers


def answer(outcomes: Outcomes, model: str) -> str:
    """The chapter's answer, from names that all normalisers were asked."""
    arms = ("none", "llm", "choice", "edits", "in_turn")
    right = {arm: figures.score_text(outcomes.score("right", arm)) for arm in arms}
    changed = outcomes.where(names="right names").score("right", "llm")
    n = outcomes.score("right", "llm").n
    return (
        f"Of {n} names, {right['none']} need no change. {model} handles {right['llm']} correctly if it writes the name "
        f"and {right['choice']} if it chooses a drug; without a language model, edit distance handles {right['edits']} "
        f"correctly, and a dictionary before it {right['in_turn']}. The model keeps {figures.score_text(changed)} of "
        "the correct names."
    )
