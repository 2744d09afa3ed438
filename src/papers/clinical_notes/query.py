"""Reads a question about charts: its intent, and the patients, drugs, dates and symptoms that it names.

clinical_notes.md, "Hybrid candidate generation & normalization", step 1: patterns and dictionaries of aliases.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Literal

from rapidfuzz import process
from rapidfuzz.distance import OSA

Intent = Literal["patient", "cohort", "effectiveness", "general"]

INTENTS: tuple[Intent, ...] = ("patient", "cohort", "effectiveness", "general")
FUZZY_LETTERS, FUZZY_CUT = 6, 0.8
"""Shortest word that is compared with drug names by edits, and the least similarity that counts as the same name."""

_WORD = re.compile(r"[A-Za-z][A-Za-z-]*")
# Perampanel's abbreviation is a word too; it counts only in capitals.
_WORDS_TOO = frozenset({"per"})


class Lexicon:
    """The names that the parser knows: drugs with their aliases, symptoms with their wordings, patients."""

    def __init__(
        self, drugs: Mapping[str, Iterable[str]], symptoms: Mapping[str, Iterable[str]], patients: Iterable[str] = ()
    ) -> None:
        """Turn the names around, so that a word leads to its drug."""
        self.aliases = {drug: tuple(dict.fromkeys([drug, *names])) for drug, names in drugs.items()}
        self.patients = frozenset(patients)
        self._drug_of = {alias.lower(): drug for drug, names in self.aliases.items() for alias in names}
        self._long = [name for name in self._drug_of if len(name) >= FUZZY_LETTERS and " " not in name]
        self._phrases = [name for name in self._drug_of if not _WORD.fullmatch(name)]
        self._symptom_of = {w.lower(): symptom for symptom, ways in symptoms.items() for w in (symptom, *ways)}
        self._near: dict[str, str | None] = {}

    def drugs_in(self, text: str) -> frozenset[str]:
        """Generic names of the drugs that a text names, by any alias, in any case, or slightly misspelt."""
        found = {drug for word in set(_WORD.findall(text)) if (drug := self._drug(word))}
        if self._phrases:
            lowered = text.lower()
            found |= {self._drug_of[p] for p in self._phrases if re.search(rf"(?<!\w){re.escape(p)}(?!\w)", lowered)}
        return frozenset(found)

    def symptoms_in(self, text: str) -> frozenset[str]:
        """Symptoms that a text names, whatever it says about them."""
        lowered = text.lower()
        return frozenset(
            symptom for way, symptom in self._symptom_of.items() if re.search(rf"(?<!\w){re.escape(way)}", lowered)
        )

    def _drug(self, word: str) -> str | None:
        name = word.lower()
        if name in _WORDS_TOO and not word.isupper():
            return None
        if name not in self._near:
            drug = self._drug_of.get(name)
            if drug is None and len(name) >= FUZZY_LETTERS:
                best = process.extractOne(name, self._long, scorer=OSA.normalized_similarity, score_cutoff=FUZZY_CUT)
                drug = self._drug_of[best[0]] if best else None
            self._near[name] = drug
        return self._near[name]


@dataclass(frozen=True)
class Query:
    """A parsed question: its intent, and what it names in the lexicon's words; a day that is None is open.

    Unknown patients are there too, so that they filter everything out.
    """

    text: str = field(repr=False)
    intent: Intent
    patients: frozenset[str] = frozenset()
    drugs: frozenset[str] = frozenset()
    since: date | None = None
    until: date | None = None
    symptoms: frozenset[str] = frozenset()


_PATIENT = re.compile(r"\b(?:patient|pt|mrn|id)\.?\s*(?:id|no\.?|number|#)?\s*[:#]?\s*([A-Z]{0,4}-?\d{2,})\b", re.I)
_COHORT = re.compile(
    r"\b(?:which|what|list|find|show|all|any|how many|number of|other|identify|who are the)\b[^.?]{0,30}"
    r"\b(?:patients|people|cases|charts|individuals)\b"
    r"|\b(?:patients|cases|charts|people)\b[^.?]{0,20}\b(?:who|with|whose|that|on|where|taking|in whom)\b|\bcohort\b"
    r"|\bacross (?:all )?(?:the )?(?:patients|charts)\b|\banyone\b|\bwho (?:had|has|have|was|were|developed)\b",
    re.I,
)
_EFFECT = re.compile(
    r"\b(?:effective(?:ness|ly)?|efficac\w+|work(?:s|ed|ing)?|help(?:s|ed|ing|ful)?|benefit\w*|respon[ds]\w*"
    r"|control(?:led|ling|s)?|improve\w*|better|reduc\w+|refractory|resistant|successful\w*|success|fail\w*"
    r"|seizure[- ]free\w*|make a difference|any good|useful)\b",
    re.I,
)
_MONTHS = {name.lower(): i for i, name in enumerate(calendar.month_name) if name} | {
    name.lower(): i for i, name in enumerate(calendar.month_abbr) if name
}
_DAY = (
    r"(?P<{0}>\d{{4}}-\d{{2}}-\d{{2}}|(?:(?:" + "|".join(sorted(_MONTHS, key=len, reverse=True)) + r")\.?\s+)?\d{{4}})"
)
_RANGES = tuple(
    re.compile(pattern, re.I)
    for pattern in (
        rf"\b(?:between|from)\s+{_DAY.format('a')}\s+(?:and|to|until|till|through)\s+{_DAY.format('b')}\b",
        rf"\b(?:since|from|starting in|starting)\s+{_DAY.format('a')}\b",
        rf"\b(?P<after>after)\s+{_DAY.format('a')}\b",
        rf"\b(?:until|till|through|up to|by)\s+{_DAY.format('b')}\b",
        rf"\b(?P<before>before|prior to)\s+{_DAY.format('b')}\b",
        rf"\b(?:in|during|on|of|around|for)\s+(?P<within>{_DAY.format('a')})\b",
    )
)


def parse(question: str, lexicon: Lexicon) -> Query:
    """Read intent and fields off a question by patterns and the lexicon (clinical_notes.md, "Hybrid candidate...").

    Effectiveness goes before patient: a question whether a drug helped one patient is about effectiveness, and is
    filtered by the patient all the same.
    """
    known = {p for p in lexicon.patients if re.search(rf"(?<![\w-]){re.escape(p)}(?![\w-])", question, re.I)}
    named = {m[1] for m in _PATIENT.finditer(question)}
    unknown = {
        p for p in named if p.lower() not in {k.lower() for k in known} and not re.fullmatch(r"(?:19|20)\d{2}", p)
    }
    drugs = lexicon.drugs_in(question)
    since, until = _dates(question)
    patients = frozenset(known | unknown)
    intent: Intent
    if drugs and _EFFECT.search(question) and not _COHORT.search(question):
        intent = "effectiveness"
    elif patients:
        intent = "patient"
    elif _COHORT.search(question):
        intent = "cohort"
    else:
        intent = "general"
    return Query(question, intent, patients, drugs, since, until, lexicon.symptoms_in(question))


def _dates(question: str) -> tuple[date | None, date | None]:
    for pattern in _RANGES:
        if not (match := pattern.search(question)):
            continue
        groups = match.groupdict()
        try:
            a = _period(groups["a"]) if groups.get("a") else None
            b = _period(groups["b"]) if groups.get("b") else None
        except ValueError:  # 2021-02-31 is no date
            continue
        if groups.get("within") and a:
            return a
        since = None if a is None else a[1] + timedelta(1) if groups.get("after") else a[0]
        until = None if b is None else b[0] - timedelta(1) if groups.get("before") else b[1]
        return since, until
    return None, None


def _period(text: str) -> tuple[date, date]:
    """First and last day of a day, a month or a year as it is written."""
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        return (day := date.fromisoformat(text)), day
    word, year = text[:-4].strip(" .\t\n").lower(), int(text[-4:])
    if not word:
        return date(year, 1, 1), date(year, 12, 31)
    month = _MONTHS[word]
    return date(year, month, 1), date(year, month, calendar.monthrange(year, month)[1])
