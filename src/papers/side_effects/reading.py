"""Read a question: which form it has, and which names and numbers are in it.

Rules read a question if they understand every word of it. Another question needs a model that
chooses among the forms (notebook 04); names and numbers are read by code in either case.
"""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from typing import Any

from rapidfuzz.distance import OSA

from helpers.llm import LLM
from papers.side_effects import forward, reverse_arms
from papers.side_effects.facts import Facts
from papers.side_effects.listed_cells import ListPart, find_parts
from papers.side_effects.normalisers import Dictionary
from papers.side_effects.plain_wording import names_by_place
from papers.side_effects.questions import (
    FORMS,
    NUMBER_PATTERN,
    Parameters,
    choosing_prompt,
    read_parameters,
)
from rag.names import MAX_SUGGESTIONS, Normalised, Vocabulary, canonical

ROLE_WORDS = {
    "drug": "drug",
    "effect": "side effect",
    "cls": "drug class",
    "organ": "organ class",
}
"""What each role of a name is called in answers."""


@dataclass(frozen=True)
class AskForm:
    """One form of question that the system answers.

    Attributes:
        name: Id of the form.
        meaning: What it asks for, in words for a model that chooses among the forms.
        wording: How such a question can be worded, with the names of the parameters.
        cypher: Its query.
    """

    name: str
    meaning: str
    wording: str
    cypher: str


EFFECTS = """
MATCH (d:Drug {name: $drug})-[:may_cause_side_effect]->(e:SideEffect)
RETURN e.name AS answer ORDER BY answer
"""
BOTH = """
MATCH (d:Drug)-[:may_cause_side_effect]->(s:SideEffect {name: $side_effect})
WHERE d.name IN [$a, $b]
RETURN d.name AS drug, s.name AS side_effect
"""
PLAIN_FORMS = (
    AskForm(
        "forward",
        "whether a drug has an effect, and how often",
        "Is {side_effect} an adverse effect of {drug}?",
        forward.EDGE_QUERY,
    ),
    AskForm(
        "both",
        "whether two drugs both have an effect",
        "Do both {a} and {b} cause {side_effect}?",
        BOTH,
    ),
    AskForm(
        "reverse",
        "which drugs have an effect",
        "Which drugs cause {side_effect}?",
        reverse_arms.EXPANSION,
    ),
    AskForm("effects", "which effects a drug has", "What are the side effects of {drug}?", EFFECTS),
)
FURTHER_FORMS = [AskForm(form.name, form.meaning, form.wordings[0], form.cypher) for form in FORMS]
ASK_FORMS = {form.name: form for form in (*PLAIN_FORMS, *FURTHER_FORMS)}
"""The forms of the paper, and those of notebook 04."""


EXAMPLES = (
    "Is nausea a side effect of metformin?",
    "How often does metformin cause nausea?",
    "Which drugs cause tinnitus?",
    "Which statins cause myalgia?",
    "Which side effects do aspirin and ibuprofen share?",
    "What are the 5 most frequent side effects of metformin?",
)
"""Questions that the rules understand."""
MASK = "@"
"""What stands in for a name where the words around it are read."""


@dataclass(frozen=True)
class Rule:
    """When a question has a form.

    Attributes:
        form: Name of the form.
        roles: The names in the question, by role, such as two drugs.
        cue: Pattern that the words must match; names are masked in them.
        number: The number that the question must have: "count", "percent" or "" for none.
        may_negate: Whether the words may have a negation.
    """

    form: str
    roles: tuple[str, ...]
    cue: str = ""
    number: str = ""
    may_negate: bool = False


_NOT = r"(?:does not|doesn't|do not|don't|has not|is not|isn't|not)"
_HARM = r"(?:effects?|reactions?|events?|risks?|causes?|produces?|triggers?|leads?|induces?|happen)"
RULES = (
    Rule("organ_class", ("cls", "organ"), number="count"),
    Rule("why_effects", ("drug", "drug", "organ")),
    Rule("both", ("drug", "drug", "effect"), r"\b(?:both|and)\b"),
    Rule(
        "compare_only",
        ("drug", "drug"),
        rf"@(?! {_NOT}\b).*(?:\b(?:but not|not|without|avoids?)\b[^@]*@$|@ {_NOT}\b)",
        may_negate=True,
    ),
    Rule("compare_shared", ("drug", "drug")),
    Rule("organ_effects", ("drug", "organ")),
    Rule("class_drugs", ("cls", "effect")),
    Rule("class_most", ("cls",), r"\b(?:most|majority|half)\b"),
    Rule("class_all", ("cls",), r"\b(?:all|every|each|share)\b"),
    Rule("class_all", ("cls",), r"\bno drug among the @ is free of\b", may_negate=True),
    Rule("why_classmates", ("drug", "effect"), r"\bclass(?:es)?\b"),
    Rule("frequency_at_least", ("drug",), number="percent"),
    Rule("frequency_top", ("drug",), r"\b(?:most|common|frequent|first)\b", number="count"),
    Rule("frequency_top", ("drug",), r"\bmost (?:common|frequent|often)\b"),
    Rule("forward", ("drug", "effect")),
    Rule("reverse", ("effect",), r"\b(?:drugs?|medicines?|medications?|what|which|who)\b"),
    Rule("effects", ("drug",), rf"\b{_HARM}\b"),
)
"""The first rule that fits decides."""
DEFAULT_COUNT = 10
"""Effects that are ranked if the question names no number."""
LOWER_BOUND = re.compile(
    r"\b(?:at least|no fewer than|no less than|or more|or higher)\b", re.IGNORECASE
)
NEGATION = re.compile(
    r"\b(?:not|never|no|none|without|free|avoids?|except|neither|nor|only|but|unless|least|less|"
    r"fewer|rare|rarest|rarely)\b|n't\b",
    re.IGNORECASE,
)
"""Words that turn a question around."""

FURTHER_WORDS = """
a about adverse all also among an and any are as be been being both but by can cause caused causes
causing chance common commonly compare could cover did difference differences do does doesn't don't
drug drugs each effect effects event events every find first for frequency frequent frequently from
get gets give gives had happen happens has have having how i if in induce induces into is isn't it
kind kinds known lead leads list listed lists many may me medication medications medicine medicines
might more most name names not of often on one or other our patient patients people per percent
person please produce produces reaction reactions reported risk risks same share shared show side
such take taking tell than that the their there these they this those to together top trigger
triggers us usual want were what when where which who will with would you your
"""
_TOKEN = re.compile(r"[^\s,;:?!\"()]+")
_PLACEHOLDER = re.compile(r"\{\w+\}")
MIN_NAME_LETTERS = 3
"""A shorter word is no misspelt name."""
NOT_UNDERSTOOD = "This question has none of the forms that are understood by rules."


def examples_for(facts: Facts) -> tuple[str, ...]:
    """Questions about the names of a table, that the table can answer."""
    first, *further = sorted(facts.effects, key=lambda drug: -len(facts.effects[drug]))
    effect = facts.effects[first][0]
    examples = [
        f"Which drugs cause {effect}?",
        f"Is {effect} a side effect of {first}?",
        f"What are the side effects of {first}?",
    ]
    if further:
        examples.append(f"Which side effects do {first} and {further[0]} share?")
    if facts.frequency:
        drug, listed = next(iter(facts.frequency))
        examples.append(f"How often does {drug} cause {listed}?")
    return tuple(examples)


def _words(text: str) -> list[str]:
    """Return the words of a text in lower case, without the dots that end them."""
    return [token.lower().strip(".") for token in _TOKEN.findall(text)]


def _words_of_wordings() -> frozenset[str]:
    words: set[str] = set(FURTHER_WORDS.split())
    for form in FORMS:
        for wording in form.wordings:
            words.update(_words(_PLACEHOLDER.sub(" ", wording)))
    return frozenset(words)


KNOWN_WORDS = _words_of_wordings()
"""The words that rules understand, apart from names."""


@dataclass(frozen=True)
class Reading:
    """What a question asks for.

    Attributes:
        form: Its form; None if the question was not understood.
        parameters: The values of the form's query.
        names: The names that the catalogue writes otherwise.
        problem: What is missing, in words for the person who asked; empty if nothing is.
        reader: The model that chose the form; empty if rules did.
        unused: Names in the question that the form does not ask about.
        absent: Drugs in the question that the table does not have.
        lacks_only_names: Whether nothing is missing but names that the table does not have.
    """

    form: AskForm | None = None
    parameters: Mapping[str, Any] = field(default_factory=dict)
    names: tuple[Normalised, ...] = ()
    problem: str = ""
    reader: str = ""
    unused: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    lacks_only_names: bool = False

    @property
    def wording(self) -> str:
        """The question in the words of its form."""
        if self.form is None:
            return ""
        percent = 100 * self.parameters.get("share", 0)
        return self.form.wording.format(**self.parameters, percent=f"{percent:g}")


@dataclass(frozen=True)
class Corrected:
    """A question whose misspelt names are replaced.

    Attributes:
        text: The question.
        names: What was replaced, by what.
        unknown: The words that are neither understood nor near to a name.
    """

    text: str
    names: tuple[Normalised, ...]
    unknown: tuple[str, ...]


@dataclass(frozen=True)
class Reader:
    """Reads questions about the names of one catalogue.

    Attributes:
        vocabulary: The names.
        llm: Chooses the form of a question that the rules do not understand, if there is a model.
        may_have_lists: Whether a name may be a list of several, as in a table of one's own.
        subject: What the first words of a sentence about the catalogue call it.
    """

    vocabulary: Vocabulary
    llm: LLM | None = None
    may_have_lists: bool = False
    subject: str = "The table"

    @cached_property
    def synonyms(self) -> Dictionary:
        """Finds the drug of a trade name or another name."""
        return Dictionary(self.vocabulary.names["drug"], fuzzy=False)

    def read(self, question: str) -> Reading:
        """Read a question by rules, or else by the model."""
        corrected = self._correct(" ".join(question.split()))
        rule = None if corrected.unknown else self._matching_rule(corrected.text)
        if rule is not None:
            form = ASK_FORMS[rule.form]
            return Reading(form, self._parameters(form, corrected.text), corrected.names)
        lacking = self._lacking_names(corrected)
        problem = self._say_lacking(lacking) if lacking else self._problem(corrected)
        if self.llm is None or lacking:  # a model would choose a form, which adds no name
            return Reading(names=corrected.names, problem=problem, lacks_only_names=bool(lacking))
        return self._choose(self.llm, corrected, problem)

    def _choose(self, llm: LLM, corrected: Corrected, problem: str) -> Reading:
        """Let the model choose the form; the names are those that code finds."""
        prompt = choosing_prompt(corrected.text, tuple(ASK_FORMS.values()))
        (choice,) = llm.choose_many([prompt], choices=list(ASK_FORMS), label="choose a query")
        form = ASK_FORMS[choice.answer]
        reader = llm.endpoint.model
        try:
            parameters = self._parameters(form, corrected.text)
        except LookupError:
            return Reading(names=corrected.names, problem=problem, reader=reader)
        return Reading(
            form,
            parameters,
            corrected.names,
            reader=reader,
            unused=self._unused(corrected.text, parameters),
            absent=tuple(self._absent_drugs(corrected.text, corrected.unknown)),
        )

    def _unused(self, text: str, parameters: Parameters) -> tuple[str, ...]:
        unused = []
        for names in self.vocabulary.link(text).values():
            unused += [name for name in names if name not in parameters.values()]
        return tuple(unused)

    def _parameters(self, form: AskForm, text: str) -> Parameters:
        if form.name == "frequency_top" and not NUMBER_PATTERN.search(self._mask(text)):
            text = f"{text} {DEFAULT_COUNT}"
        return read_parameters(form.cypher, text, self.vocabulary)

    def _matching_rule(self, text: str) -> Rule | None:
        """Return the first rule that accounts for every name, number and negation."""
        linked = self.vocabulary.link(text)
        roles = Counter({role: len(names) for role, names in linked.items()})
        words = self._mask(text)
        for rule in RULES:
            if Counter(rule.roles) == +roles and _words_fit(rule, words):
                return rule
        return None

    def _mask(self, text: str) -> str:
        """Replace the names of a question, the longest first."""
        masked = canonical(text)
        names = chain.from_iterable(self.vocabulary.link(text).values())
        for name in sorted(names, key=len, reverse=True):
            pattern = rf"(?<!\w){re.escape(canonical(name))}(?!\w)"
            masked = re.sub(pattern, MASK, masked)
        return masked.rstrip("?!. ")

    def _correct(self, text: str) -> Corrected:
        """Replace what is no known word by the name that is meant, where only one can be."""
        names: list[Normalised] = []
        unknown: list[str] = []
        for run in _unknown_runs(self._mask(text)):
            for part in self._resolvable_parts(run):
                name = self._resolve(part)
                if name is None:
                    unknown.append(part)
                else:
                    names.append(name)
                    text = _replace(text, part, str(name.name))
        return Corrected(text, tuple(names), tuple(unknown))

    def _resolvable_parts(self, run: str) -> list[str]:
        """Return a run of words as one name, or as its words."""
        if " " in run and self._resolve(run) is None:
            return run.split()
        return [run]

    def _resolve(self, written: str) -> Normalised | None:
        """Find the one name that is meant by words; None if there is none, or several."""
        if len(written) < MIN_NAME_LETTERS:
            return None
        (synonym,) = self.synonyms([written])
        if synonym is not None:
            return Normalised("drug", written, synonym, OSA.distance(written, synonym))
        found = [self.vocabulary.normalise(written, role) for role in self.vocabulary.names]
        meant = [name for name in found if name.name]
        least = min((name.distance for name in meant), default=0)
        nearest = [name for name in meant if name.distance == least]
        return nearest[0] if len(nearest) == 1 else None

    def _lacking_names(self, corrected: Corrected) -> dict[str, str]:
        """Return the names that a plainly worded question has and the catalogue has not, by role.

        There are none if a word that was not understood is in no such name.
        """
        if self._list_parts(corrected):
            return {}
        lacking = {}
        for role, name in names_by_place(self._mask(corrected.text)).items():
            if self._may_be_name(role, name) and _shares_word(name, corrected.unknown):
                lacking[role] = name
        words = _words(" ".join(lacking.values()))
        return lacking if set(corrected.unknown).issubset(words) else {}

    def _may_be_name(self, role: str, text: str) -> bool:
        """Whether a text may be one name: a drug's has no word of a question, none a negation."""
        if MASK in text or NEGATION.search(text) or not self.vocabulary.names.get(role):
            return False
        return role == "effect" or KNOWN_WORDS.isdisjoint(_words(text))

    def _say_lacking(self, lacking: Mapping[str, str]) -> str:
        """Say which names the catalogue has not, and ask whether the nearest are meant."""
        sentences = [
            f"{self.subject} has no {ROLE_WORDS[role]} called {name!r}."
            for role, name in lacking.items()
        ]
        return " ".join([*sentences, *self._suggestions(lacking.values())])

    def _problem(self, corrected: Corrected) -> str:
        """Say which words were not understood, and what may be done about each.

        A word may be a part of a list that was read as one name, a drug that the catalogue does
        not have, or neither.
        """
        if not corrected.unknown:
            return NOT_UNDERSTOOD
        parts = self._list_parts(corrected)
        sentences = [part.hint for part in parts]
        in_lists = " ".join(part.text for part in parts).split()
        not_in_lists = [word for word in corrected.unknown if word not in in_lists]
        drugs = self._absent_drugs(corrected.text, not_in_lists)
        sentences += [f"{self.subject} has no drug called {drug!r}." for drug in drugs]
        in_drugs = " ".join(drugs).split()
        unknown = [word for word in not_in_lists if word not in in_drugs]
        if unknown:
            sentences.append(self._not_known(unknown))
        sentences += self._suggestions([*drugs, *unknown])
        return " ".join(sentences)

    def _not_known(self, words: Sequence[str]) -> str:
        """Say that words are neither names nor known."""
        roles = [ROLE_WORDS[role] for role, names in self.vocabulary.names.items() if names]
        *first_roles, last_role = roles
        kinds = f"{', '.join(first_roles)} or {last_role}" if first_roles else last_role
        quoted = " or ".join(map(repr, words))
        known = "this word" if len(words) == 1 else "these words"
        return f"{self.subject} has no {kinds} called {quoted}, and no rule knows {known}."

    def _suggestions(self, words: Iterable[str]) -> list[str]:
        """Ask whether the nearest names are meant."""
        sentences = []
        for word in words:
            near = self._near_names(word)
            if near:
                sentences.append(f"For {word!r}, did you mean {' or '.join(near)}?")
        return sentences

    def _list_parts(self, corrected: Corrected) -> list[ListPart]:
        """Return the parts of lists that the words which were not understood belong to."""
        if not self.may_have_lists:
            return []
        parts = find_parts(corrected.text, self.vocabulary)
        return [part for part in parts if _shares_word(part.text, corrected.unknown)]

    def _absent_drugs(self, text: str, unknown: Sequence[str]) -> list[str]:
        """Return the drugs of a text that are among words which were not understood."""
        drugs = []
        for name in self.vocabulary.meant_names(text):
            is_absent = not name.name and not name.nearest
            if is_absent and _shares_word(name.written, unknown):
                drugs.append(name.written)
        return drugs

    def _near_names(self, words: str) -> list[str]:
        """Return the names that words may be meant for, the nearest first."""
        suggestions = []
        for role in self.vocabulary.names:
            near = self.vocabulary.normalise(words, role)
            for name in filter(None, (near.name, *near.nearest)):
                distance = OSA.distance(words, canonical(name))
                suggestions.append((distance, f"{name} ({ROLE_WORDS[role]})"))
        suggestions.sort()
        close = [name for distance, name in suggestions if 3 * distance <= len(words)]
        return close[:MAX_SUGGESTIONS]


def _replace(text: str, written: str, name: str) -> str:
    """Replace words in a text, whatever their case."""
    pattern = re.compile(rf"(?<!\w){re.escape(written)}(?!\w)", re.IGNORECASE)
    return pattern.sub(lambda _: name, text)


def _shares_word(name: str, words: Iterable[str]) -> bool:
    return not set(name.split()).isdisjoint(words)


def _words_fit(rule: Rule, words: str) -> bool:
    """Whether the words of a question, with its names masked, fit a rule."""
    numbers = []
    for match in NUMBER_PATTERN.finditer(words):
        numbers.append("percent" if match["percent"] else "count")
    if numbers != list(filter(None, [rule.number])):
        return False
    if not rule.may_negate and NEGATION.search(LOWER_BOUND.sub(" ", words)):
        return False
    return re.search(rule.cue, words) is not None


def _unknown_runs(masked: str) -> list[str]:
    """Return the longest runs of words that are neither names nor known, nor numbers."""
    runs: list[list[str]] = [[]]
    for word in _words(masked):
        if _is_known(word):
            runs.append([])
        else:
            runs[-1].append(word)
    return [" ".join(run) for run in runs if run]


def _is_known(word: str) -> bool:
    """Whether a word is a name, a number or one that the rules know."""
    has_letters = any(map(str.isalpha, word))
    return not has_letters or MASK in word or word in KNOWN_WORDS
