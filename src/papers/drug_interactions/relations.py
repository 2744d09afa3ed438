"""Relations out of text (drug_interactions.md, Methods, A): patterns, a classifier, a language model."""

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import NamedTuple

from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import LinearSVC

from helpers.completions import object_schema
from helpers.thoughts import without_thought
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
from papers.drug_interactions.entities import Recogniser, training_sentences
from rag.prompts import chat_messages

Relater = Callable[[Sequence[Sentence]], list[Sentence]]
"""A method: takes sentences with mentions and gives them back with the relations that it finds."""


class Candidate(NamedTuple):
    """Two mentions of a sentence that may be related; `first` precedes `second` in the text, or is the drug."""

    sentence: Sentence
    first: int
    second: int

    @property
    def causes(self) -> bool:
        """Whether the relation would be that of a drug and its side effect."""
        return self.sentence.entities[self.second].label == "SideEffect"


def candidates(sentence: Sentence) -> Iterator[Candidate]:
    """The pairs that a relation could join: any two drugs (DDI), a drug and an effect (ADE), of other text both."""
    is_effect = [entity.label == "SideEffect" for entity in sentence.entities]
    kinds = {"ADE": {True}, "Textbook": {True, False}}.get(sentence.corpus, {False})
    for a, b in product(range(len(is_effect)), repeat=2):
        if not is_effect[a] and is_effect[b] in kinds and (is_effect[b] or a < b):
            yield Candidate(sentence, a, b)


def _related(sentence: Sentence, holds: Callable[[Candidate], object]) -> Sentence:
    found = [pair for pair in candidates(sentence) if holds(pair)]
    relations = (
        Relation(pair.first, pair.second, ADVERSE if pair.causes else "int") for pair in found
    )
    return replace(sentence, relations=tuple(relations))


def all_pairs(sentences: Sequence[Sentence]) -> list[Sentence]:
    """The baseline: all mentions of one sentence are related."""
    return [_related(sentence, lambda _: True) for sentence in sentences]


def _words(group: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(TERMS[group])})\b")


_ADVICE, _CHANGE, _TOGETHER = map(_words, ("advice", "change", "together"))
_CAUSED_AFTER, _CAUSED_BEFORE = map(_words, ("caused_after", "caused_before"))
_DENIED = re.compile(
    r"\b(?:no|not|did not|does not|without|neither|nor|unlikely)\b(?:\s+\S+){0,4}?\s+(?:\w*interact\w*|affect\w*|"
    r"alter\w*|influence\w*|chang\w+|effect\w*|differen\w+|significant\w*|evidence|increas\w+|decreas\w+|studied|been)"
)
_LISTED = re.compile(
    r"(?:\s|,|;|/|\(|\)|\band\b|\bor\b|e\.g\.|i\.e\.|\bsuch as\b|\bincluding\b|-|\bother\b)*"
)


def _interacts(pair: Candidate) -> bool:
    # not in one list, nor the same drug twice; a change or an advice must be named, and nothing deny it
    sentence = pair.sentence
    one, other = sentence.entities[pair.first], sentence.entities[pair.second]
    text = _lower(sentence.text)
    between = _without(sentence, text, one.end, other.start, pair)
    if (
        one.end >= other.start
        or _LISTED.fullmatch(between)
        or sentence.name(one) == sentence.name(other)
    ):
        return False
    # a clause ends at a full stop or semicolon: what follows is about something else
    if re.search(r"[;]|\.\s", between) or len(between.split()) > 30:
        return False
    before = re.split(r"[;]|\.\s", text[: one.start])[-1]
    after = re.split(r"[;]|\.\s", text[other.end :])[0]
    around = f"{before} {between} {after}"
    together = _TOGETHER.search(between) or _TOGETHER.search(before)
    changed = _CHANGE.search(between) or (_CHANGE.search(before) and _TOGETHER.search(between))
    return bool(changed or (together and _ADVICE.search(around))) and not _DENIED.search(around)


def _causes(pair: Candidate) -> bool:
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
    return [
        _related(s, lambda pair: _causes(pair) if pair.causes else _interacts(pair))
        for s in sentences
    ]


def _features(pair: Candidate) -> list[str]:
    """Words around with all mentions blinded, so that nothing is learnt of which drugs interact, and how they stand."""
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
        words.append(f"<{'this' if i in ends else 'other'} {entity.label}>")
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


NONE = "none"
COST, UNRELATED_WEIGHT = 0.01, 0.4
"""Penalty of the classifier, and what an unrelated pair weighs against a related one: chosen once, on a fifth of the
training documents of the DDI corpus; the test split took no part."""


class Classifier:
    """A linear support vector machine for interactions, and one for side effects, of the training split alone."""

    def __init__(self, training: Iterable[Sentence]) -> None:
        """Fit it; a ValueError if the sentences hold no relation, or no pair without one."""
        known: dict[bool, list[tuple[Candidate, str]]] = {}
        for sentence in training:
            kinds = {(r.first, r.second): r.kind for r in sentence.relations}
            for pair in candidates(sentence):
                known.setdefault(pair.causes, []).append(
                    (pair, kinds.get((pair.first, pair.second), NONE))
                )
        self._models = {causes: _fitted(pairs) for causes, pairs in known.items()}

    def __call__(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with the relations it finds."""
        kinds: dict[Candidate, str] = {}
        for causes, model in self._models.items():
            pairs = [pair for s in sentences for pair in candidates(s) if pair.causes is causes]
            kinds |= zip(pairs, model.predict(pairs) if pairs else (), strict=True)
        return [_related(s, lambda pair: kinds[pair] != NONE) for s in sentences]


def trained(training: Sequence[Sentence], recogniser: Recogniser) -> Classifier:
    """The classifier on the training split, with the mentions of ADE that a recogniser adds to the marked ones."""
    widened = training_sentences([s for s in training if s.corpus == "ADE"], recogniser)
    return Classifier([*(s for s in training if s.corpus != "ADE"), *widened])


def _fitted(known: Sequence[tuple[Candidate, str]]) -> Pipeline:
    pairs, kinds = [pair for pair, _ in known], [kind for _, kind in known]
    if len(set(kinds)) < 2:
        raise ValueError(
            f"A classifier needs related and unrelated pairs; {len(kinds)} pairs have {set(kinds)}."
        )
    return make_pipeline(
        CountVectorizer(analyzer=_features, binary=True, min_df=2 if len(pairs) > 1000 else 1),
        LinearSVC(C=COST, class_weight={NONE: UNRELATED_WEIGHT}, random_state=0),
    ).fit(pairs, kinds)


_PAIRS = {INTERACTS: ("interactions", "drug", "other"), CAUSES: ("side_effects", "drug", "effect")}
SCHEMA = object_schema(
    {
        key: {
            "type": "array",
            "items": object_schema({one: {"type": "string"}, other: {"type": "string"}}),
        }
        for key, one, other in _PAIRS.values()
    }
)
"""Of the model's answer."""
_INSTRUCTION = (
    "Extract facts from the text of a pharmacology book. List each pair of drugs or substances that the text says "
    "interact under interactions, and each adverse effect that the text says a drug caused under side_effects. Copy "
    "names as they are written. List a pair once. Leave out what the text denies or does not say. If there is no such "
    "pair, give an empty list. Answer in JSON."
)


def chunk_prompt(text: str) -> list[dict[str, str]]:
    """What a language model is asked about a chunk."""
    return chat_messages(_INSTRUCTION, text)


def parse_facts(answer: str, *, cut: bool) -> frozenset[Fact] | None:
    """The facts of an answer (JSON of `SCHEMA`), those before the cut of one cut off; None if it cannot be read."""
    answer = without_thought(answer)
    try:
        content = json.loads(answer)
        pairs = [
            (type, item[one], item[other])
            for type, (key, one, other) in _PAIRS.items()
            for item in content[key]
        ]
    except (ValueError, KeyError, TypeError):
        if not cut:
            return None
        pairs = list(_finished(answer))
    named = ((type, canonical(str(one)), canonical(str(other))) for type, one, other in pairs)
    return frozenset(
        fact(type, one, other) for type, one, other in named if one and other and one != other
    )


def _finished(answer: str) -> Iterator[tuple[str, str, str]]:
    """The pairs that an answer held before it was cut."""
    text = r'"((?:[^"\\]|\\.)*)"'
    for type, (_, one, other) in _PAIRS.items():
        for match in re.finditer(
            rf'\{{\s*"{one}"\s*:\s*{text}\s*,\s*"{other}"\s*:\s*{text}\s*\}}', answer
        ):
            yield type, match[1], match[2]
