"""Relations out of text (drug_interactions.md, Methods, A): patterns, a classifier, a language model.

The classifier learns from the training split alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Final

from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import LinearSVC

from helpers.rag.prompts import chat
from papers.drug_interactions.corpora import (
    ADVERSE,
    CAUSES,
    INTERACTS,
    TERMS,
    TOKEN,
    Fact,
    Relation,
    Sentence,
    canonical,
    fact,
)

Relater = Callable[[Sequence[Sentence]], list[Sentence]]
"""A method: takes sentences with mentions and gives them back with the relations that it finds."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Two mentions of a sentence that may be related; `first` stands before `second` in the text or is it the drug."""

    sentence: Sentence
    first: int
    second: int


def candidates(sentence: Sentence) -> Iterator[Candidate]:
    """The pairs of a sentence that a relation could join: of the DDI corpus any two, of ADE a drug and an effect."""
    is_ade = sentence.corpus == "ADE"
    is_effect = [entity.label == "SideEffect" for entity in sentence.entities]
    for a, b in product(range(len(is_effect)), repeat=2):
        if not is_effect[a] and is_effect[b] == is_ade and (is_ade or a < b):
            yield Candidate(sentence, a, b)


def _related(sentence: Sentence, holds: Callable[[Candidate], object]) -> Sentence:
    """The sentence with the relations that hold; their kind is left open, for the paper's graph has none."""
    kind = ADVERSE if sentence.corpus == "ADE" else "int"
    pairs = [pair for pair in candidates(sentence) if holds(pair)]
    return replace(sentence, relations=tuple(Relation(pair.first, pair.second, kind) for pair in pairs))


def all_pairs(sentences: Sequence[Sentence]) -> list[Sentence]:
    """The baseline: whatever stands in one sentence is related."""
    return [_related(sentence, lambda _: True) for sentence in sentences]


# --------------------------------------------------------------------------------------------------------- patterns


def _words(group: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(TERMS[group])})\b")


_ADVICE, _CHANGE, _TOGETHER = map(_words, ("advice", "change", "together"))
_CAUSED_AFTER, _CAUSED_BEFORE = map(_words, ("caused_after", "caused_before"))
_DENIED = re.compile(
    r"\b(?:no|not|did not|does not|without|neither|nor|unlikely)\b(?:\s+\S+){0,4}?\s+(?:\w*interact\w*|affect\w*|"
    r"alter\w*|influence\w*|chang\w+|effect\w*|differen\w+|significant\w*|evidence|increas\w+|decreas\w+|studied|been)"
)
_LISTED = re.compile(r"(?:\s|,|;|/|\(|\)|\band\b|\bor\b|e\.g\.|i\.e\.|\bsuch as\b|\bincluding\b|-|\bother\b)*")


def interaction_by_patterns(pair: Candidate) -> bool:
    """Whether the words around two drugs speak of an interaction.

    The two must not be in one list, nor the same drug twice; what lies between them or before them must name a change,
    an advice or an interaction, and nothing may deny it.
    """
    sentence = pair.sentence
    one, other = sentence.entities[pair.first], sentence.entities[pair.second]
    text = _lower(sentence.text)
    between = _without(sentence, text, one.end, other.start, pair)
    if one.end >= other.start or _LISTED.fullmatch(between) or sentence.name(one) == sentence.name(other):
        return False
    # a clause ends at a full stop or semicolon: what stands beyond is about something else
    if re.search(r"[;]|\.\s", between) or len(between.split()) > 30:
        return False
    before = re.split(r"[;]|\.\s", text[: one.start])[-1]
    after = re.split(r"[;]|\.\s", text[other.end :])[0]
    around = f"{before} {between} {after}"
    together = _TOGETHER.search(between) or _TOGETHER.search(before)
    changed = _CHANGE.search(between) or (_CHANGE.search(before) and _TOGETHER.search(between))
    return bool(changed or (together and _ADVICE.search(around))) and not _DENIED.search(around)


def effect_by_patterns(pair: Candidate) -> bool:
    """Whether the words between a drug and an effect say that the one caused the other."""
    drug, effect = (pair.sentence.entities[i] for i in (pair.first, pair.second))
    text = _lower(pair.sentence.text)
    if drug.start < effect.start:
        return bool(_CAUSED_AFTER.search(text[drug.end : effect.start]))
    return bool(_CAUSED_BEFORE.search(text[effect.end : drug.start]))


def _lower(text: str) -> str:
    """Lower case, letter by letter, so that places stay what they are."""
    return "".join(low if len(low := letter.lower()) == 1 else letter for letter in text)


def _without(sentence: Sentence, text: str, start: int, end: int, pair: Candidate) -> str:
    """The text between, other mentions blanked: "MAO inhibitors" is not the verb."""
    for i, entity in enumerate(sentence.entities):
        if i not in (pair.first, pair.second) and start <= entity.start and entity.end <= end:
            text = text[: entity.start] + " " * (entity.end - entity.start) + text[entity.end :]
    return text[start:end]


def by_patterns(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Relations by hand-written patterns, nothing learnt."""
    return [_related(s, effect_by_patterns if s.corpus == "ADE" else interaction_by_patterns) for s in sentences]


# -------------------------------------------------------------------------------------------------------- classifier


def features(pair: Candidate) -> list[str]:
    """What the classifier sees of a pair: words around with all mentions blinded, and how the two stand.

    Names are blinded, so that it learns how text speaks of a relation and not which drugs interact.
    """
    sentence = pair.sentence
    ends = sorted((pair.first, pair.second), key=lambda i: sentence.entities[i].start)
    words: list[str] = []
    at: list[int] = []
    position = 0
    for i, entity in enumerate(sentence.entities):
        if entity.start < position and i not in ends:
            continue
        words += TOKEN.findall(sentence.text[position : entity.start].lower())
        if i in ends:
            at.append(len(words))
        role = "this" if i in ends else "other"
        words.append(f"<{role} {entity.label}>")
        position = max(position, entity.end)
    words += TOKEN.findall(sentence.text[position:].lower())
    words = [re.sub(r"\d+", "0", word) for word in words]
    first, second = at
    one, other = (sentence.entities[i] for i in ends)
    found = [
        f"order {one.label} {other.label}",
        f"distance {min(second - first, 30) // 3}",
        f"mentions between {min(sum(w.startswith('<') for w in words[first + 1 : second]), 6)}",
        f"mentions {min(len(sentence.entities), 10)}",
        f"same name {sentence.name(one) == sentence.name(other)}",
    ]
    regions = {
        "before": words[max(0, first - 8) : first + 1],
        "between": words[first : second + 1],
        "after": words[second : second + 9],
    }
    for region, part in regions.items():
        for n in (1, 2, 3):
            found += [f"{region} {' '.join(part[i : i + n])}" for i in range(len(part) - n + 1)]
    found += [f"all {word}" for word in set(words)]
    return found


NONE: Final = "none"
COST: Final = 0.01
UNRELATED_WEIGHT: Final = 0.4
"""Penalty of the classifier, and what an unrelated pair weighs against a related one. Both were chosen once, on a fifth
of the training documents of the DDI corpus held out for that; the test split took no part."""


class Classifier:
    """A linear support vector machine over `features`, one against the rest, for each of DDI and ADE."""

    def __init__(self, training: Iterable[Sentence]) -> None:
        """Fit it.

        Raises:
            ValueError: the sentences hold no relation, or no pair without one.
        """
        known: dict[bool, list[tuple[Candidate, str]]] = {}
        for sentence in training:
            kinds = {(r.first, r.second): r.kind for r in sentence.relations}
            known.setdefault(sentence.corpus == "ADE", []).extend(
                (pair, kinds.get((pair.first, pair.second), NONE)) for pair in candidates(sentence)
            )
        self._models = {is_ade: _fitted(pairs) for is_ade, pairs in known.items()}

    def __call__(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with the relations it finds."""
        kinds: dict[Candidate, str] = {}
        for is_ade, model in self._models.items():
            pairs = [pair for s in sentences if (s.corpus == "ADE") is is_ade for pair in candidates(s)]
            kinds |= zip(pairs, model.predict(pairs) if pairs else (), strict=True)
        return [_related(s, lambda pair: kinds[pair] != NONE) for s in sentences]


def _fitted(known: Sequence[tuple[Candidate, str]]) -> Pipeline:
    pairs, kinds = [pair for pair, _ in known], [kind for _, kind in known]
    if len(set(kinds)) < 2:
        raise ValueError(f"A classifier needs related and unrelated pairs; {len(kinds)} pairs have {set(kinds)}.")
    return make_pipeline(
        CountVectorizer(analyzer=features, binary=True, min_df=2 if len(pairs) > 1000 else 1),
        LinearSVC(C=COST, class_weight={NONE: UNRELATED_WEIGHT}, random_state=0),
    ).fit(pairs, kinds)


# --------------------------------------------------------------------------------------------------- language model


def _object(properties: Mapping[str, Any]) -> dict[str, Any]:
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


_PAIRS: Final = {INTERACTS: ("interactions", "drug", "other"), CAUSES: ("side_effects", "drug", "effect")}
SCHEMA: Final = _object(
    {
        key: {"type": "array", "items": _object({one: {"type": "string"}, other: {"type": "string"}})}
        for key, one, other in _PAIRS.values()
    }
)
"""Of the model's answer."""
_INSTRUCTION: Final = (
    "Extract facts from the text of a pharmacology book. List each pair of drugs or substances that the text says "
    "interact under interactions, and each adverse effect that the text says a drug caused under side_effects. Copy "
    "names as they are written. List a pair once. Leave out what the text denies or does not say. If there is no such "
    "pair, give an empty list. Answer in JSON."
)


def chunk_prompt(text: str) -> list[dict[str, str]]:
    """The messages that ask for the facts of a chunk."""
    return chat(_INSTRUCTION, text)


def parse_facts(answer: str, *, cut: bool) -> frozenset[Fact] | None:
    """The facts of an answer (JSON of `SCHEMA`), canonical names; None if it cannot be read. A cut one counts as far as
    it got.
    """
    try:
        content = json.loads(answer)
        pairs = [(type, item[one], item[other]) for type, (key, one, other) in _PAIRS.items() for item in content[key]]
    except (ValueError, KeyError, TypeError):
        if not cut:
            return None
        pairs = list(_finished(answer))
    named = ((type, canonical(str(one)), canonical(str(other))) for type, one, other in pairs)
    return frozenset(fact(type, one, other) for type, one, other in named if one and other and one != other)


def _finished(answer: str) -> Iterator[tuple[str, str, str]]:
    """The pairs that an answer held before it was cut."""
    text = r'"((?:[^"\\]|\\.)*)"'
    for type, (_, one, other) in _PAIRS.items():
        for match in re.finditer(rf'\{{\s*"{one}"\s*:\s*{text}\s*,\s*"{other}"\s*:\s*{text}\s*\}}', answer):
            yield type, match[1], match[2]
