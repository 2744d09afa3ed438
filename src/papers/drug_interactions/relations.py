"""Relations out of text (drug_interactions.md, Methods, A): patterns, a classifier, an LLM."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain, product
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
    Corpus,
    Entity,
    Fact,
    Relation,
    Sentence,
    canonical,
    make_fact,
)
from papers.drug_interactions.entities import Recogniser, training_sentences
from rag.prompts import chat_messages
from rag.replies import read_json

Relater = Callable[[Sequence[Sentence]], list[Sentence]]
"""A method: takes sentences with mentions and returns them with the relations that it finds."""


class Candidate(NamedTuple):
    """Two mentions of a sentence, by number, that may be related.

    `first` precedes `second` in the text, or is the drug.
    """

    sentence: Sentence
    first: int
    second: int

    @property
    def causes(self) -> bool:
        """Whether the relation would be that of a drug and its side effect."""
        return self.sentence.entities[self.second].label == "SideEffect"

    @property
    def mentions(self) -> tuple[Entity, Entity]:
        """The first and the second mention."""
        entities = self.sentence.entities
        return entities[self.first], entities[self.second]


_MAY_CAUSE: dict[Corpus, set[bool]] = {"ADE": {True}, "Textbook": {True, False}}
"""Whether the second mention of a candidate is a side effect; False in other corpora."""


def candidates(sentence: Sentence) -> Iterator[Candidate]:
    """Yield the pairs that a relation could join.

    These are any two drugs in the DDI corpus, a drug and an effect in ADE, and both in other text.
    """
    is_effect = [entity.label == "SideEffect" for entity in sentence.entities]
    second_is_effect = _MAY_CAUSE.get(sentence.corpus, {False})
    for first, second in product(range(len(is_effect)), repeat=2):
        if is_effect[first] or is_effect[second] not in second_is_effect:
            continue
        if is_effect[second] or first < second:
            yield Candidate(sentence, first, second)


def _with_relations(sentence: Sentence, related: Iterable[Candidate]) -> Sentence:
    relations = []
    for pair in related:
        kind = ADVERSE if pair.causes else "int"
        relations.append(Relation(pair.first, pair.second, kind))
    return replace(sentence, relations=tuple(relations))


def all_pairs(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Relate all mentions of one sentence: the baseline."""
    return [_with_relations(sentence, candidates(sentence)) for sentence in sentences]


def by_patterns(sentences: Sequence[Sentence]) -> list[Sentence]:
    """Find relations by hand-written patterns; nothing is learnt."""
    related_sentences = []
    for sentence in sentences:
        related = [pair for pair in candidates(sentence) if _matches_pattern(pair)]
        related_sentences.append(_with_relations(sentence, related))
    return related_sentences


def _matches_pattern(pair: Candidate) -> bool:
    return _causes(pair) if pair.causes else _interacts(pair)


def _words_pattern(group: str) -> re.Pattern[str]:
    return re.compile(rf"\b(?:{'|'.join(TERMS[group])})\b")


_ADVICE = _words_pattern("advice")
_CHANGE = _words_pattern("change")
_TOGETHER = _words_pattern("together")
_CAUSED_AFTER = _words_pattern("caused_after")
_CAUSED_BEFORE = _words_pattern("caused_before")
_DENIED = re.compile(
    r"\b(?:no|not|did not|does not|without|neither|nor|unlikely)\b(?:\s+\S+){0,4}?"
    r"\s+(?:\w*interact\w*|affect\w*|alter\w*|influence\w*|chang\w+|effect\w*|differen\w+|"
    r"significant\w*|evidence|increas\w+|decreas\w+|studied|been)"
)
_LISTED = re.compile(
    r"(?:\s|,|;|/|\(|\)|\band\b|\bor\b|e\.g\.|i\.e\.|\bsuch as\b|\bincluding\b|-|\bother\b)*"
)
_CLAUSE_END = re.compile(r"[;]|\.\s")
"""What follows is about something else."""
MAX_WORDS_BETWEEN = 30
"""Mentions with more words between them are not related by a pattern."""


def _interacts(pair: Candidate) -> bool:
    """Whether a change or an advice is stated of two drugs, and not denied."""
    sentence = pair.sentence
    first, second = pair.mentions
    if first.end >= second.start or sentence.name(first) == sentence.name(second):
        return False
    text = _lower(sentence.text)
    between = _text_between(pair, text)
    if _LISTED.fullmatch(between) or _CLAUSE_END.search(between):
        return False
    if len(between.split()) > MAX_WORDS_BETWEEN:
        return False
    before = _CLAUSE_END.split(text[: first.start])[-1]
    after = _CLAUSE_END.split(text[second.end :])[0]
    clause = f"{before} {between} {after}"
    if _DENIED.search(clause):
        return False
    return _states_change(before, between) or _states_advice(before, between, clause)


def _states_change(before: str, between: str) -> bool:
    if _CHANGE.search(between):
        return True
    return bool(_CHANGE.search(before) and _TOGETHER.search(between))


def _states_advice(before: str, between: str, clause: str) -> bool:
    together = _TOGETHER.search(between) or _TOGETHER.search(before)
    return bool(together and _ADVICE.search(clause))


def _causes(pair: Candidate) -> bool:
    drug, effect = pair.mentions
    text = _lower(pair.sentence.text)
    if drug.start < effect.start:
        return bool(_CAUSED_AFTER.search(text[drug.end : effect.start]))
    return bool(_CAUSED_BEFORE.search(text[effect.end : drug.start]))


def _lower(text: str) -> str:
    """Return lower case, letter by letter, so that positions stay what they are."""
    lower_letters = []
    for letter in text:
        lower = letter.lower()
        lower_letters.append(lower if len(lower) == 1 else letter)
    return "".join(lower_letters)


def _text_between(pair: Candidate, text: str) -> str:
    """Return the text between two mentions, others blanked: "MAO inhibitors" is not the verb."""
    first, second = pair.mentions
    start, end = first.end, second.start
    for number, entity in enumerate(pair.sentence.entities):
        is_other = number not in (pair.first, pair.second)
        if is_other and start <= entity.start and entity.end <= end:
            blank = " " * (entity.end - entity.start)
            text = text[: entity.start] + blank + text[entity.end :]
    return text[start:end]


def _features(pair: Candidate) -> list[str]:
    """Return the words around two mentions, and how the mentions stand.

    All mentions are blinded, so that nothing is learnt of which drugs interact.
    """
    sentence = pair.sentence
    left, right = sorted(pair.mentions, key=lambda entity: entity.start)
    words, (first, second) = _blinded_words(pair)
    n_between = sum(word.startswith("<") for word in words[first + 1 : second])
    features = [
        f"order {left.label} {right.label}",
        f"distance {min(second - first, 30) // 3}",
        f"mentions between {min(n_between, 6)}",
        f"mentions {min(len(sentence.entities), 10)}",
        f"same name {sentence.name(left) == sentence.name(right)}",
    ]
    features += _ngrams("before", words[max(0, first - 8) : first + 1])
    features += _ngrams("between", words[first : second + 1])
    features += _ngrams("after", words[second : second + 9])
    features += [f"all {word}" for word in set(words)]
    return features


def _blinded_words(pair: Candidate) -> tuple[list[str], list[int]]:
    """Return the words of a sentence, mentions and digits blinded, and where the pair is."""
    sentence = pair.sentence
    ends = (pair.first, pair.second)
    words: list[str] = []
    pair_positions: list[int] = []
    position = 0
    for number, entity in enumerate(sentence.entities):
        in_pair = number in ends
        if entity.start < position and not in_pair:
            continue
        words += TOKEN.findall(sentence.text[position : entity.start].lower())
        if in_pair:
            pair_positions.append(len(words))
        words.append(f"<{'this' if in_pair else 'other'} {entity.label}>")
        position = max(position, entity.end)
    words += TOKEN.findall(sentence.text[position:].lower())
    return [re.sub(r"\d+", "0", word) for word in words], pair_positions


def _ngrams(region: str, words: Sequence[str]) -> Iterator[str]:
    """Yield all runs of one to three words, with the name of their region."""
    for n in (1, 2, 3):
        for start in range(len(words) - n + 1):
            yield f"{region} {' '.join(words[start : start + n])}"


NONE = "none"
"""The kind of a pair that is not related."""
COST = 0.01
"""Penalty of the classifier: chosen once, on a fifth of the training documents of the DDI corpus.

The test split took no part, as in the choice of `UNRELATED_WEIGHT`.
"""
UNRELATED_WEIGHT = 0.4
"""What an unrelated pair weighs against a related one."""
MANY_PAIRS = 1000
"""With more pairs a feature must occur in two of them."""


class Classifier:
    """Linear support vector machines for interactions and for side effects, of training text."""

    def __init__(self, training: Iterable[Sentence]) -> None:
        """Fit it.

        Raises:
            ValueError: If the sentences hold no relation, or no pair without one.
        """
        labelled: dict[bool, list[tuple[Candidate, str]]] = {}
        for sentence in training:
            kinds = {(pair.first, pair.second): pair.kind for pair in sentence.relations}
            for pair in candidates(sentence):
                kind = kinds.get((pair.first, pair.second), NONE)
                labelled.setdefault(pair.causes, []).append((pair, kind))
        self._models = {causes: _fit(pairs) for causes, pairs in labelled.items()}

    def __call__(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """Return the sentences with the relations that it finds."""
        all_candidates = list(chain.from_iterable(map(candidates, sentences)))
        kinds: dict[Candidate, str] = {}
        for causes, model in self._models.items():
            pairs = [pair for pair in all_candidates if pair.causes is causes]
            if pairs:
                kinds |= zip(pairs, model.predict(pairs), strict=True)
        related_sentences = []
        for sentence in sentences:
            related = [pair for pair in candidates(sentence) if kinds[pair] != NONE]
            related_sentences.append(_with_relations(sentence, related))
        return related_sentences


def train_classifier(training: Sequence[Sentence], recogniser: Recogniser) -> Classifier:
    """Train the classifier on the training split.

    A recogniser adds mentions to the marked ones of ADE, which marks related mentions alone.
    """
    ade = [sentence for sentence in training if sentence.corpus == "ADE"]
    others = [sentence for sentence in training if sentence.corpus != "ADE"]
    return Classifier([*others, *training_sentences(ade, recogniser)])


def _fit(labelled: Sequence[tuple[Candidate, str]]) -> Pipeline:
    pairs = [pair for pair, _ in labelled]
    kinds = [kind for _, kind in labelled]
    if len(set(kinds)) < 2:
        raise ValueError(
            f"A classifier needs related and unrelated pairs; {len(kinds)} pairs have {set(kinds)}."
        )
    min_pairs = 2 if len(pairs) > MANY_PAIRS else 1
    pipeline = make_pipeline(
        CountVectorizer(analyzer=_features, binary=True, min_df=min_pairs),
        LinearSVC(C=COST, class_weight={NONE: UNRELATED_WEIGHT}, random_state=0),
    )
    return pipeline.fit(pairs, kinds)


class _FactList(NamedTuple):
    """A list of facts in the model's answer: its key, and the keys of the two names of a fact."""

    key: str
    first: str
    second: str


_LISTS = {
    INTERACTS: _FactList("interactions", "drug", "other"),
    CAUSES: _FactList("side_effects", "drug", "effect"),
}


def _list_schema(facts: _FactList) -> dict[str, object]:
    names = {facts.first: {"type": "string"}, facts.second: {"type": "string"}}
    return {"type": "array", "items": object_schema(names)}


SCHEMA = object_schema({facts.key: _list_schema(facts) for facts in _LISTS.values()})
"""The JSON schema of the model's answer."""
_INSTRUCTION = (
    "Extract facts from the text of a pharmacology book. List each pair of drugs or substances "
    "that the text says interact under interactions, and each adverse effect that the text says "
    "a drug caused under side_effects. Copy names as they are written. List a pair once. Leave "
    "out what the text denies or does not say. If there is no such pair, give an empty list. "
    "Answer in JSON."
)


def chunk_prompt(text: str) -> list[dict[str, str]]:
    """Build the prompt that asks a language model for the facts of a chunk."""
    return chat_messages(_INSTRUCTION, text)


NamePair = tuple[str, object, object]
"""The type of a fact and the two names, as the model wrote them."""


def parse_facts(answer: str, *, cut: bool) -> frozenset[Fact] | None:
    """Read the facts of an answer.

    Args:
        answer: JSON of `SCHEMA`, which a thought may precede.
        cut: Whether the answer reached its token limit. What it finished before counts.

    Returns:
        The facts, or None if the answer cannot be read.
    """
    answer = without_thought(answer)
    pairs = _listed_pairs(answer)
    if pairs is None and cut:
        pairs = _finished_pairs(answer)
    if pairs is None:
        return None
    facts = set()
    for relation, written_first, written_second in pairs:
        first, second = canonical(str(written_first)), canonical(str(written_second))
        if first and second and first != second:
            facts.add(make_fact(relation, first, second))
    return frozenset(facts)


def _listed_pairs(answer: str) -> list[NamePair] | None:
    """Return the pairs of an answer in JSON, or None if it is not of the schema."""
    pairs: list[NamePair] = []
    try:
        content = read_json(answer, dict)
        for relation, facts in _LISTS.items():
            for item in content[facts.key]:
                pairs.append((relation, item[facts.first], item[facts.second]))
    except (ValueError, KeyError, TypeError):
        return None
    return pairs


def _finished_pairs(answer: str) -> list[NamePair]:
    """Return the pairs that an answer held before it was cut."""
    text = r'"((?:[^"\\]|\\.)*)"'
    pairs: list[NamePair] = []
    for relation, facts in _LISTS.items():
        pattern = rf'\{{\s*"{facts.first}"\s*:\s*{text}\s*,\s*"{facts.second}"\s*:\s*{text}\s*\}}'
        for match in re.finditer(pattern, answer):
            pairs.append((relation, match[1], match[2]))
    return pairs
