"""Entities and relations out of text (drug_interactions.md, Methods, A): a dictionary with rules, then three readers.

Everything that is learnt here is learnt from the training split: which names the dictionary keeps, and the classifier.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from typing import Final

from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.svm import LinearSVC
from spacy.lang.en import English
from spacy.matcher import Matcher, PhraseMatcher
from spacy.tokens import Doc
from spacy.util import filter_spans
from spacy.vocab import Vocab

from helpers.llm import LLM
from papers.drug_interactions.corpora import (
    ADVERSE,
    CAUSES,
    INTERACTS,
    TOKEN,
    Chunk,
    Entity,
    Fact,
    Label,
    Relation,
    Sentence,
    canonical,
    fact,
)

Relater = Callable[[Sequence[Sentence]], list[Sentence]]
"""A method: takes sentences with entities and gives them back with the relations that it finds."""

# ------------------------------------------------------------------------------------------------------- entities

LEAST_PRECISION = 0.5
"""A name of the dictionary must be a marked mention in at least this share of its occurrences in the training text."""

# stems of international non-proprietary names (WHO, "The use of stems in the selection of INN")
STEMS: Final = (
    "mycin|micin|cillin|cycline|floxacin|conazole|nidazole|vir|vudine|pril|prilat|sartan|olol|dipine|statin|fibrate|"
    "azepam|azolam|barbital|triptan|setron|prazole|tidine|gliptin|gliflozin|glitazone|glinide|coxib|profen|caine|"
    "curium|curonium|phylline|terol|trexate|platin|rubicin|taxel|tinib|mab|parin|gatran|xaban|toin|zepine|pramine|"
    "triptyline|oxetine|azosin|thiazide|semide|sone|solone|olone|dronate|lukast|stigmine|tropium|oxacin|bendazole|"
    "quine|mustine|bactam|penem"
)
CLASS_HEADS: Final = (
    "inhibitor|agonist|antagonist|blocker|diuretic|antibiotic|anticoagulant|anticonvulsant|antidepressant|"
    "antihistamine|antacid|barbiturate|phenothiazine|corticosteroid|contraceptive|relaxant|anesthetic|hypnotic|"
    "sedative|vaccine|salicylate|steroid|estrogen|progestin"
)
NO_PART_OF_A_CLASS: Final = (
    "the|an|any|other|such|these|some|certain|many|most|all|both|and|with|potent|strong|moderate|weak|selective|"
    "receptor|adrenergic|known|potential|are|several|various|concomitant|oral"
)
_SALT: Final = re.compile(
    r" (?:sodium|potassium|hydrochloride|hcl|sulfate|mesylate|maleate|tartrate|acetate|citrate|phosphate)\b",
    re.IGNORECASE,
)
# a name in brackets after a drug is another name for it: "celecoxib (Celebrex)"
_ALIAS: Final = re.compile(r"\s*\(([A-Z][A-Za-z]{3,})\)")


def tokenised(vocab: Vocab, text: str) -> tuple[Doc, list[tuple[int, int]]]:
    """A spaCy document cut into words and punctuation, and where each token stands: hyphens separate words."""
    places = [match.span() for match in TOKEN.finditer(text)]
    return Doc(vocab, words=[text[start:end] for start, end in places]), places


class Recogniser:
    """Finds mentions by a dictionary and by rules (Methods, A: "a dictionary ... and rule-based patterns").

    Args:
        names: canonical name -> label.
        rules: also take words with the stem of a drug's name, and groups of drugs by their last word.
    """

    def __init__(self, names: Mapping[str, Label], *, rules: bool = True) -> None:
        """Compile the matchers; longer matches go before shorter ones, the dictionary before rules."""
        self._vocab = English().vocab
        self._phrases = PhraseMatcher(self._vocab, attr="LOWER")
        of_label: dict[Label, list[Doc]] = {"Drug": [], "Compound": [], "SideEffect": []}
        for name, label in names.items():
            of_label[label].append(tokenised(self._vocab, name)[0])
        for label, docs in of_label.items():
            self._phrases.add(label, docs)
        self._rules = Matcher(self._vocab)
        if rules:
            stem = {"LOWER": {"REGEX": rf"^[a-z]{{3,}}(?:{STEMS})s?$"}}
            head = {"LOWER": {"REGEX": rf"^(?:{CLASS_HEADS})s$"}}
            modifier = {"IS_ALPHA": True, "LENGTH": {">=": 3}, "LOWER": {"REGEX": rf"^(?!(?:{NO_PART_OF_A_CLASS})$)"}}
            self._rules.add("Drug", [[stem]])
            self._rules.add("Compound", [[modifier, {"ORTH": "-", "OP": "?"}, head]])

    def find(self, text: str) -> tuple[Entity, ...]:
        """The mentions of a text, in its order; none overlaps another."""
        doc, places = tokenised(self._vocab, text)
        spans = filter_spans(self._phrases(doc, as_spans=True))
        taken = {i for span in spans for i in range(span.start, span.end)}
        others = filter_spans(self._rules(doc, as_spans=True)) if len(self._rules) else []
        spans += [span for span in others if not taken.intersection(range(span.start, span.end))]
        found = [Entity(places[s.start][0], places[s.end - 1][1], s.label_) for s in spans]  # type: ignore[arg-type]
        found.sort(key=lambda entity: entity.start)
        return tuple(self._widened(text, found) if len(self._rules) else found)

    @staticmethod
    def _widened(text: str, found: Sequence[Entity]) -> Iterator[Entity]:
        """The mentions, drugs with the salt that follows them, and with the brand name in brackets after them."""
        for entity, following in zip_longest(found, found[1:]):
            limit = following.start if following else len(text)
            salt = _SALT.match(text, entity.end, limit) if entity.label == "Drug" else None
            drug = replace(entity, end=salt.end()) if salt else entity
            yield drug
            if drug.label == "Drug" and (alias := _ALIAS.match(text, drug.end, limit)):
                yield Entity(alias.start(1), alias.end(1), "Drug")

    def mark(self, sentences: Iterable[Sentence]) -> list[Sentence]:
        """The sentences with the mentions found, in place of whatever was marked, and without relations."""
        return [replace(s, entities=self.find(s.text), relations=()) for s in sentences]


def drugbank_names(sentences: Iterable[Sentence], shortest: int = 5) -> list[str]:
    """Names of drugs of at least so many letters from the package `drug-named-entity-recognition`.

    It holds the names and synonyms that DrugBank gives away, and those of MeSH. The package takes no notice of the
    corpora here. To save time, names with a word that stands in none of the sentences are left out: they cannot match.
    """
    from drug_named_entity_recognition.drugs_finder import drug_variant_to_canonical  # noqa: PLC0415  # takes seconds

    words = {word for sentence in sentences for word in TOKEN.findall(sentence.text.lower())}
    return [n for n in drug_variant_to_canonical if len(n) >= shortest and words.issuperset(TOKEN.findall(n.lower()))]


def dictionary(training: Sequence[Sentence], drugs: Iterable[str], effects: Iterable[str]) -> dict[str, Label]:
    """The dictionary: names marked in the training text, and lists of drugs and effects.

    A name gets the label that it has most often. One that occurs in the training text and is a marked mention in less
    than `LEAST_PRECISION` of its occurrences is left out. Drugs are judged by the DDI corpus, where every mention is
    marked; side effects by the sentences of the ADE corpus that hold one, since the others mark none.

    Args:
        training: sentences of the training split, with their gold mentions.
        drugs: further names of drugs.
        effects: further names of side effects.

    Raises:
        ValueError: a sentence is not of the training split.
    """
    if other := next((s for s in training if s.split != "train"), None):
        raise ValueError(f"The dictionary is made from the training split; {other.id} is of the split {other.split!r}.")
    labels: dict[str, Counter[Label]] = {}
    for sentence in training:
        for entity in sentence.entities:
            labels.setdefault(sentence.name(entity), Counter())[entity.label] += 1
    for names, label in ((drugs, "Drug"), (effects, "SideEffect")):
        for name in names:
            labels.setdefault(canonical(name), Counter({label: 1}))  # type: ignore[dict-item]
    # one letter, or digits alone, says nothing without its sentence
    names = {n: max(sorted(c), key=lambda x: c[x]) for n, c in labels.items() if len(n) > 1 and re.search(r"[a-z]", n)}

    right: Counter[str] = Counter()
    seen: Counter[str] = Counter()
    everything = Recogniser(names, rules=False)
    for sentence in training:
        judged = {"SideEffect"} if sentence.corpus == "ADE" else {"Drug", "Compound"}
        if sentence.corpus == "ADE" and not sentence.relations:
            continue
        gold = {(entity.start, entity.end) for entity in sentence.entities}
        for entity in everything.find(sentence.text):
            if entity.label in judged:
                seen[sentence.name(entity)] += 1
                right[sentence.name(entity)] += (entity.start, entity.end) in gold
    return {name: label for name, label in names.items() if right[name] >= LEAST_PRECISION * seen[name]}


# ------------------------------------------------------------------------------------------------------ candidates


@dataclass(frozen=True, slots=True)
class Candidate:
    """Two mentions of a sentence that may be related; `first` stands before `second` in the text or is it the drug."""

    sentence: Sentence
    first: int
    second: int


def candidates(sentence: Sentence) -> Iterator[Candidate]:
    """The pairs of a sentence that a relation could join: of the DDI corpus any two, of ADE a drug and an effect."""
    for a, one in enumerate(sentence.entities):
        if sentence.corpus == "ADE":
            if one.label != "SideEffect":
                yield from (
                    Candidate(sentence, a, b) for b, e in enumerate(sentence.entities) if e.label == "SideEffect"
                )
        elif one.label != "SideEffect":
            yield from (
                Candidate(sentence, a, b)
                for b in range(a + 1, len(sentence.entities))
                if sentence.entities[b].label != "SideEffect"
            )


def _related(sentence: Sentence, decide: Callable[[Candidate], str | None]) -> Sentence:
    """The sentence with the relations that `decide` gives a kind."""
    decided = ((pair, decide(pair)) for pair in candidates(sentence))
    return replace(sentence, relations=tuple(Relation(p.first, p.second, kind) for p, kind in decided if kind))


def all_pairs(sentences: Sequence[Sentence]) -> list[Sentence]:
    """The baseline: whatever stands in one sentence is related; the kind is the commonest one, `effect`."""
    return [_related(s, lambda pair: ADVERSE if pair.sentence.corpus == "ADE" else "effect") for s in sentences]


# --------------------------------------------------------------------------------------------------------- patterns

_ADVICE = re.compile(
    r"\b(?:should|must|caution\w*|avoid\w*|recommend\w*|advis\w+|contraindicat\w+|monitor\w*|careful\w*|not be "
    r"(?:used|given|taken|administered)|dos\w+ (?:adjust\w+|reduc\w+))\b"
)
_MECHANISM = re.compile(
    r"\b(?:concentrations?|levels?|clearance|auc|cmax|half-li\w+|absorption|absorbed|bioavailability|metaboli\w+|"
    r"exposure|excretion|elimination|plasma|serum|protein binding|displace\w*|pharmacokinetic\w*)\b"
)
_EFFECT = re.compile(
    r"\b(?:effects?|potentiat\w+|enhanc\w+|additive|synerg\w+|antagoni[sz]\w+|toxicity|risk|response|activity|action|"
    r"inhibit\w*|increas\w+|decreas\w+|reduc\w+|augment\w*|attenuat\w+|block\w*|prolong\w*|induc\w+)\b"
)
_INTERACT = re.compile(r"\binteract\w*\b")
_CHANGE = re.compile(
    r"\b(?:increas\w+|decreas\w+|reduc\w+|rais\w+|lower\w*|enhanc\w+|potentiat\w+|inhibit\w*|induc\w+|prolong\w*|"
    r"elevat\w+|diminish\w*|alter\w*|affect\w*|impair\w*|accelerat\w+|delay\w*|interfer\w+|antagoni[sz]\w+|block\w*|"
    r"augment\w*|attenuat\w+|additive|synerg\w+|displace\w*|interact\w*|doubl\w+)\b"
)
_TOGETHER = re.compile(
    r"\b(?:with|concomitant\w*|concurrent\w*|co-?administ\w+|combin\w+|together|receiving|taking|when)\b"
)
_DENIED = re.compile(
    r"\b(?:no|not|did not|does not|without|neither|nor|unlikely)\b(?:\s+\S+){0,4}?\s+(?:\w*interact\w*|affect\w*|"
    r"alter\w*|influence\w*|chang\w+|effect\w*|differen\w+|significant\w*|evidence|increas\w+|decreas\w+|studied|been)"
)
_LISTED = re.compile(r"(?:\s|,|;|/|\(|\)|\band\b|\bor\b|e\.g\.|i\.e\.|\bsuch as\b|\bincluding\b|-|\bother\b)*")
_CAUSED_AFTER = re.compile(
    r"\b(?:induced|related|associated|caused|causes?|causing|produc\w+|develop\w*|resulted|result\w* in|led to|"
    r"leading to|complicat\w+|toxicity|precipitat\w+|provok\w+|exacerbat\w+|experienced|following|reaction)\b"
)
_CAUSED_BEFORE = re.compile(
    r"\b(?:due to|caused by|induced by|secondary to|associated with|related to|following|after|during|with|from|"
    r"attributed to|complicati\w+ of|caused|while|on|receiving|treated|by|to|of)\b"
)


def interaction_by_patterns(pair: Candidate) -> str | None:
    """The kind of interaction that the words around two drugs speak of, or None.

    The two must not stand in one list, nor the same drug twice; what lies between them or before them must name a
    change, an advice or an interaction, and nothing may deny it.
    """
    sentence = pair.sentence
    one, other = sentence.entities[pair.first], sentence.entities[pair.second]
    text = _lower(sentence.text)
    between = _without(sentence, text, one.end, other.start, pair)
    if one.end >= other.start or _LISTED.fullmatch(between) or sentence.name(one) == sentence.name(other):
        return None
    # a clause ends at a full stop or semicolon: what stands beyond is about something else
    if re.search(r"[;]|\.\s", between) or len(between.split()) > 30:
        return None
    before = re.split(r"[;]|\.\s", text[: one.start])[-1]
    after = re.split(r"[;]|\.\s", text[other.end :])[0]
    around = f"{before} {between} {after}"
    together = _TOGETHER.search(between) or _TOGETHER.search(before)
    changed = _CHANGE.search(between) or (_CHANGE.search(before) and _TOGETHER.search(between))
    ways = (
        ("advise", together and _ADVICE.search(around)),
        ("mechanism", changed and _MECHANISM.search(around)),
        ("effect", changed and _EFFECT.search(around)),
        ("int", changed and _INTERACT.search(around)),
        ("effect", changed),
    )
    return None if _DENIED.search(around) else next((kind for kind, told in ways if told), None)


def effect_by_patterns(pair: Candidate) -> str | None:
    """Whether the words between a drug and an effect say that the one caused the other."""
    sentence = pair.sentence
    drug, effect = sentence.entities[pair.first], sentence.entities[pair.second]
    text = _lower(sentence.text)
    if drug.start < effect.start:
        return ADVERSE if _CAUSED_AFTER.search(text[drug.end : effect.start]) else None
    return ADVERSE if _CAUSED_BEFORE.search(text[effect.end : drug.start]) else None


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
    """A linear support vector machine over `features`, one against the rest; several kinds, or one and none.

    Args:
        training: sentences with mentions and gold relations.
    """

    def __init__(self, training: Iterable[Sentence]) -> None:
        """Fit it.

        Raises:
            ValueError: the sentences hold no relation, or no pair without one.
        """
        pairs: list[Candidate] = []
        kinds: list[str] = []
        for sentence in training:
            known = {(r.first, r.second): r.kind for r in sentence.relations}
            for pair in candidates(sentence):
                pairs.append(pair)
                kinds.append(known.get((pair.first, pair.second), NONE))
        if len(set(kinds)) < 2:
            raise ValueError(f"A classifier needs related and unrelated pairs; {len(kinds)} pairs have {set(kinds)}.")
        self.pairs = len(pairs)
        self._model: Pipeline = make_pipeline(
            CountVectorizer(analyzer=features, binary=True, min_df=2 if len(pairs) > 1000 else 1),
            LinearSVC(C=COST, class_weight={NONE: UNRELATED_WEIGHT}, random_state=0),
        )
        self._model.fit(pairs, kinds)

    def __call__(self, sentences: Sequence[Sentence]) -> list[Sentence]:
        """The sentences with the relations it finds."""
        pairs = [pair for sentence in sentences for pair in candidates(sentence)]
        kinds = iter(self._model.predict(pairs).tolist() if pairs else [])
        # candidates come in the same order again
        return [_related(sentence, lambda _: _kind(next(kinds))) for sentence in sentences]


def by_corpus(interactions: Relater, effects: Relater) -> Relater:
    """One method for the DDI corpus and another for ADE, as one."""

    def relate(sentences: Sequence[Sentence]) -> list[Sentence]:
        of_ade = iter(effects([s for s in sentences if s.corpus == "ADE"]))
        of_ddi = iter(interactions([s for s in sentences if s.corpus != "ADE"]))
        return [next(of_ade if s.corpus == "ADE" else of_ddi) for s in sentences]

    return relate


def _kind(predicted: str) -> str | None:
    return None if predicted == NONE else predicted


def training_sentences(gold: Sequence[Sentence], recogniser: Recogniser) -> list[Sentence]:
    """Gold sentences of the ADE corpus with, as well, the mentions found in them that nobody marked.

    The corpus marks a drug or an effect only where the two are related. Without the others a classifier would never
    see a pair that is not.
    """
    widened = []
    for sentence in gold:
        marked = sentence.entities
        found = recogniser.find(sentence.text)
        more = [e for e in found if not any(e.start < g.end and g.start < e.end for g in marked)]
        order = sorted([*sentence.entities, *more], key=lambda e: (e.start, e.end, e.label))
        number = {entity: i for i, entity in enumerate(order)}
        place = [number[entity] for entity in sentence.entities]
        moved = tuple(Relation(place[r.first], place[r.second], r.kind) for r in sentence.relations)
        widened.append(replace(sentence, entities=tuple(order), relations=moved))
    return widened


# --------------------------------------------------------------------------------------------------- language model

_PAIRS = {
    INTERACTS: ("interactions", "drug", "other"),
    CAUSES: ("side_effects", "drug", "effect"),
}
_SCHEMA: Final = {
    "type": "object",
    "properties": {
        key: {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {one: {"type": "string"}, other: {"type": "string"}},
                "required": [one, other],
                "additionalProperties": False,
            },
        }
        for key, one, other in _PAIRS.values()
    },
    "required": [key for key, _, _ in _PAIRS.values()],
    "additionalProperties": False,
}
_INSTRUCTION: Final = (
    "Extract facts from the text of a pharmacology book. List each pair of drugs or substances that the text says "
    "interact under interactions, and each adverse effect that the text says a drug caused under side_effects. Copy "
    "names as they are written. List a pair once. Leave out what the text denies or does not say. If there is no such "
    "pair, give an empty list. Answer in JSON."
)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a language model found in a chunk.

    Attributes:
        facts: with canonical names.
        status: `read`, or `cut` if its answer reached the token limit (the pairs finished before that are kept), or
            `unparsed`, or `overflow` if the chunk did not fit the context.
    """

    facts: frozenset[Fact]
    status: str


def chunk_prompt(chunk: Chunk) -> list[dict[str, str]]:
    """The messages that ask for the facts of a chunk."""
    return [{"role": "system", "content": _INSTRUCTION}, {"role": "user", "content": chunk.text}]


def parse_facts(answer: str, status: str) -> Reading:
    """A reply as facts; `status` is that of `helpers.llm.Reply`."""
    if status == "overflow":
        return Reading(frozenset(), "overflow")
    try:
        content = json.loads(answer)
        pairs = [(type, item[one], item[other]) for type, (key, one, other) in _PAIRS.items() for item in content[key]]
        read = "read"
    except (ValueError, KeyError, TypeError):
        if status != "cut":
            return Reading(frozenset(), "unparsed")
        pairs = list(_finished(answer))
        read = "cut"
    named = ((type, canonical(str(one)), canonical(str(other))) for type, one, other in pairs)
    return Reading(
        frozenset(fact(type, one, other) for type, one, other in named if one and other and one != other), read
    )


def _finished(answer: str) -> Iterator[tuple[str, str, str]]:
    """The pairs that an answer held before it was cut."""
    for type, (_, one, other) in _PAIRS.items():
        text = r'"((?:[^"\\]|\\.)*)"'
        for match in re.finditer(rf'\{{\s*"{one}"\s*:\s*{text}\s*,\s*"{other}"\s*:\s*{text}\s*\}}', answer):
            yield type, match[1], match[2]


def by_llm(model: LLM, parts: Sequence[Chunk], max_tokens: int) -> list[Reading]:
    """The facts that a language model reads in each chunk, in JSON of a fixed schema, at temperature 0."""
    replies = model.chat_many(
        [chunk_prompt(chunk) for chunk in parts],
        max_tokens=max_tokens,
        extra={"response_format": {"type": "json_schema", "json_schema": {"name": "facts", "schema": _SCHEMA}}},
        overflow="record",
        label="read chunks",
    )
    return [parse_facts(reply.text, reply.status) for reply in replies]
