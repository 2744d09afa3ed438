"""One set of questions for all architectures: does a drug have an effect?

People ask it in five ways. All have the answer YES or NO, half of them each within every kind, so
that a guess is right in half of them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from papers.side_effects.corpus import Question, stratified
from papers.side_effects.misspelling import EDITS, other_names, perturb

KINDS = {
    "plain": "as the data name it",
    "worded": "reworded",
    "misspelt": "drug misspelt",
    "brand": "trade name",
    "both": "two drugs",
}
WORDINGS = (
    "Should {drug} be expected to cause {side_effect}?",
    "A patient takes {drug} and now has {side_effect}. Is that a documented reaction to the drug?",
    "Does the label of {drug} name {side_effect} among its adverse reactions?",
)
BOTH = "Do both {first} and {second} cause {side_effect}?"

Knowledge = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class KindQuestion:
    """One question of one of the `KINDS`.

    Attributes:
        kind: Its kind.
        text: The question in words.
        label: Whether the answer is YES.
        drugs: One drug or two, with the names of the knowledge.
        side_effect: The side effect, with the name of the knowledge.
        cluster: Shared by questions that share a drug.
    """

    kind: str
    text: str
    label: bool
    drugs: tuple[str, ...]
    side_effect: str
    cluster: str = ""

    @property
    def unit(self) -> str:
        """Its id."""
        return f"{self.kind} | {' + '.join(self.drugs)} | {self.side_effect}"

    @property
    def gold(self) -> str:
        """YES or NO."""
        return "YES" if self.label else "NO"

    @property
    def strata(self) -> dict[str, str]:
        """Its kind, in words."""
        return {"kind": KINDS[self.kind]}


def make_questions(
    benchmark: Sequence[Question], knowledge: Knowledge, per_kind: int, seed: int
) -> list[KindQuestion]:
    """Make questions of each kind, as far as the data have them.

    No two kinds share a pair of drug and effect.

    Args:
        benchmark: Labelled pairs (side_effects, Methods, "Evaluation subset").
        knowledge: The effects of each drug.
        per_kind: Number of questions of each kind.
        seed: Seed of the draw.

    Raises:
        ValueError: ``per_kind`` is odd or not positive.
    """
    if per_kind <= 0 or per_kind % 2:
        raise ValueError(
            "Half of each kind have the answer YES, so it needs an even number of them; "
            f"got {per_kind}."
        )
    rng = np.random.default_rng(seed)
    # drawn at random over drugs, in pairs of one YES and one NO after it about the same drug
    pool = stratified(benchmark, len(benchmark) - len(benchmark) % 2, seed)
    couples = list(zip(pool[::2], pool[1::2], strict=True))
    writers = _Writers(knowledge, rng)
    questions: list[KindQuestion] = []
    for kind, write in writers.by_kind().items():
        of_kind, couples = _select_couples(kind, write, couples, per_kind)
        questions += of_kind
    pairs = {(question.drugs[0], question.side_effect) for question in questions}
    remaining = [question for couple in couples for question in couple]
    questions += _make_double_questions(remaining, knowledge, pairs, per_kind, rng)
    return [
        replace(question, cluster=family)
        for question, family in zip(questions, families(questions), strict=True)
    ]


Couple = tuple[Question, Question]
"""A YES and a NO about the same drug."""
Writer = Callable[[Question], str | None]
"""Words a question; None where the drug has no name of that kind."""


@dataclass(frozen=True)
class _Writers:
    """How a question of each kind is worded.

    Attributes:
        knowledge: The effects of each drug.
        rng: The source of randomness.
    """

    knowledge: Knowledge
    rng: np.random.Generator

    def by_kind(self) -> dict[str, Writer]:
        """The writer of each kind that is about one drug."""
        queries = [query for query in other_names(self.knowledge) if query.kind == "brand"]
        brands = {query.drug: query.typed for query in queries}
        return {
            "plain": lambda question: question.text,
            "worded": self._reword,
            "misspelt": self._misspell,
            "brand": lambda question: _ask_under(question, brands.get(question.drug)),
        }

    def _reword(self, question: Question) -> str:
        wording = str(self.rng.choice(WORDINGS))
        return wording.format(drug=question.drug, side_effect=question.side_effect)

    def _misspell(self, question: Question) -> str | None:
        edit = str(self.rng.choice(EDITS))
        typed = perturb(question.drug, edit, 1, self.rng)
        if typed in self.knowledge:
            return None
        return _ask_under(question, typed)


def _ask_under(question: Question, name: str | None) -> str | None:
    return replace(question, drug=name).text if name else None


def _select_couples(
    kind: str, write: Writer, couples: Sequence[Couple], per_kind: int
) -> tuple[list[KindQuestion], list[Couple]]:
    """Word couples until there are enough questions of a kind.

    Returns:
        The questions, and the couples that are left for other kinds.
    """
    questions: list[KindQuestion] = []
    remaining = []
    for couple in couples:
        if len(questions) >= per_kind:
            remaining.append(couple)
            continue
        texts = [write(question) for question in couple]
        if not all(texts):
            remaining.append(couple)
            continue
        for question, text in zip(couple, texts, strict=True):
            drugs = (question.drug,)
            questions.append(
                KindQuestion(kind, str(text), question.label, drugs, question.side_effect)
            )
    return questions, remaining


def examples(questions: Sequence[KindQuestion]) -> pd.DataFrame:
    """Show one question of each kind, with how many there are."""
    rows = []
    for kind, words in KINDS.items():
        of_kind = [question for question in questions if question.kind == kind]
        if of_kind:
            row = {
                "kind": words,
                "questions": len(of_kind),
                "for example": of_kind[0].text,
                "answer": of_kind[0].gold,
            }
            rows.append(row)
    return pd.DataFrame(rows)


def families(questions: Sequence[KindQuestion]) -> list[str]:
    """Find what belongs together, for intervals and tests.

    Returns:
        A name for each question, the same where drugs are shared.
    """
    parents: dict[str, str] = {}
    for question in questions:
        first, *others = question.drugs
        for drug in others:
            parents[_find_head(drug, parents)] = _find_head(first, parents)
    return [_find_head(question.drugs[0], parents) for question in questions]


def _find_head(drug: str, parents: dict[str, str]) -> str:
    """Follow the parents of a drug to the one that has none."""
    parent = parents.setdefault(drug, drug)
    while parent != drug:
        drug = parent
        parent = parents.setdefault(drug, drug)
    return drug


def _make_double_questions(
    pool: Sequence[Question],
    knowledge: Knowledge,
    pairs: set[tuple[str, str]],
    n: int,
    rng: np.random.Generator,
) -> list[KindQuestion]:
    """Make questions about two drugs, YES and NO in turn.

    The answer is YES where both have the effect, NO where only one of them has it.

    Args:
        pool: Questions to begin with.
        knowledge: The effects of each drug.
        pairs: Pairs of drug and effect that are not asked about.
        n: Number of questions.
        rng: The source of randomness.
    """
    effects = {drug: frozenset(listed) for drug, listed in knowledge.items()}
    drugs = sorted(knowledge)
    questions: list[KindQuestion] = []
    for question in pool:
        if len(questions) == n:
            break
        if not question.label:
            continue
        both_have_it = len(questions) % 2 == 0
        seconds = []
        for drug in drugs:
            is_new = drug != question.drug and (drug, question.side_effect) not in pairs
            if is_new and (question.side_effect in effects[drug]) == both_have_it:
                seconds.append(drug)
        if seconds:
            questions.append(_double_question(question, seconds, both_have_it, rng))
    n_balanced = len(questions) - len(questions) % 2
    return questions[:n_balanced]


def _double_question(
    question: Question, seconds: Sequence[str], label: bool, rng: np.random.Generator
) -> KindQuestion:
    pair = (question.drug, str(rng.choice(seconds)))
    first, second = pair if rng.integers(2) else pair[::-1]
    text = BOTH.format(first=first, second=second, side_effect=question.side_effect)
    return KindQuestion("both", text, label, (first, second), question.side_effect)
