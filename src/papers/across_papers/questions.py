"""One set of questions for all architectures: does a drug have an effect, asked in five ways that people ask.

All have the answer YES or NO, half of them each within every kind, so that a guess is right in half of them.
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
class Asked:
    """One question of one of the `KINDS`; drugs and side effect have the names of the knowledge.

    Questions that share a drug share a cluster.
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


def ask(
    benchmark: Sequence[Question], knowledge: Knowledge, per_kind: int, seed: int
) -> list[Asked]:
    """`per_kind` questions of each kind, as far as the data have them; no two kinds share a pair of drug and effect.

    `benchmark` has labelled pairs (side_effects, Methods, "Evaluation subset"), `knowledge` the effects of each drug.

    Raises ValueError: `per_kind` is odd or not positive.
    """
    if per_kind <= 0 or per_kind % 2:
        raise ValueError(
            f"Half of each kind have the answer YES, so it needs an even number of them; got {per_kind}."
        )
    rng = np.random.default_rng(seed)
    # drawn at random over drugs, in pairs of one YES and one NO after it about the same drug
    pool = stratified(benchmark, len(benchmark) - len(benchmark) % 2, seed)
    brands = {query.drug: query.typed for query in other_names(knowledge) if query.kind == "brand"}
    makers: dict[str, Callable[[Question], str | None]] = {
        "plain": lambda q: q.text,
        "worded": lambda q: str(rng.choice(WORDINGS)).format(
            drug=q.drug, side_effect=q.side_effect
        ),
        "misspelt": lambda q: _misspelt(q, knowledge, rng),
        "brand": lambda q: replace(q, drug=brands[q.drug]).text if brands.get(q.drug) else None,
    }
    asked: list[Asked] = []
    waiting = list(zip(pool[::2], pool[1::2], strict=True))
    for kind, make in makers.items():
        taken = 0
        for couple in list(waiting):
            texts = [make(question) for question in couple] if taken < per_kind else []
            if texts and all(texts):
                waiting.remove(couple)
                told = zip(couple, texts, strict=True)
                asked += [
                    Asked(kind, str(text), q.label, (q.drug,), q.side_effect) for q, text in told
                ]
                taken += 2
    pairs = {(q.drugs[0], q.side_effect) for q in asked}
    asked += _both([q for couple in waiting for q in couple], knowledge, pairs, per_kind, rng)
    return [replace(q, cluster=family) for q, family in zip(asked, families(asked), strict=True)]


def examples(asked: Sequence[Asked]) -> pd.DataFrame:
    """One question of each kind, with how many there are."""
    rows = []
    for kind, words in KINDS.items():
        mine = [q for q in asked if q.kind == kind]
        if mine:
            rows.append(
                {
                    "kind": words,
                    "questions": len(mine),
                    "for example": mine[0].text,
                    "answer": mine[0].gold,
                }
            )
    return pd.DataFrame(rows)


def families(asked: Sequence[Asked]) -> list[str]:
    """What belongs together, for intervals and tests: a name for each question, the same where drugs are shared."""
    joined: dict[str, str] = {}

    def head(drug: str) -> str:
        while (other := joined.setdefault(drug, drug)) != drug:
            drug = other
        return drug

    for question in asked:
        for drug in question.drugs[1:]:
            joined[head(drug)] = head(question.drugs[0])
    return [head(question.drugs[0]) for question in asked]


def _misspelt(question: Question, knowledge: Knowledge, rng: np.random.Generator) -> str | None:
    typed = perturb(question.drug, str(rng.choice(EDITS)), 1, rng)
    if typed is None or typed in knowledge:
        return None
    return replace(question, drug=typed).text


def _both(
    pool: Sequence[Question],
    knowledge: Knowledge,
    pairs: set[tuple[str, str]],
    n: int,
    rng: np.random.Generator,
) -> list[Asked]:
    """Questions about two drugs: YES where both have the effect, NO where only one of them has it; none of `pairs`."""
    drugs = sorted(knowledge)
    effects = {drug: frozenset(of_drug) for drug, of_drug in knowledge.items()}
    asked: list[Asked] = []
    for question in (q for q in pool if q.label):
        if len(asked) == n:
            break
        wanted = len(asked) % 2 == 0
        others = [
            d
            for d in drugs
            if d != question.drug and (question.side_effect in effects[d]) == wanted
        ]
        others = [d for d in others if (d, question.side_effect) not in pairs]
        if not others:
            continue
        pair = (question.drug, str(rng.choice(others)))
        first, second = pair if rng.integers(2) else pair[::-1]
        text = BOTH.format(first=first, second=second, side_effect=question.side_effect)
        asked.append(Asked("both", text, wanted, (first, second), question.side_effect))
    return asked[: len(asked) - len(asked) % 2]
