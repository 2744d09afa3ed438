"""Reads a question about charts: its intent, and the patients, drugs, dates and symptoms that it names.

clinical_notes.md, "Hybrid candidate generation & normalization", step 1: patterns and dictionaries of aliases.
"""

import calendar
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Literal

import pandas as pd
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
    """The names that the parser knows: drugs with their aliases, symptoms, patients."""

    def __init__(
        self,
        drugs: Mapping[str, Iterable[str]],
        symptoms: Iterable[str],
        patients: Iterable[str] = (),
    ) -> None:
        """Turn the names around, so that a word leads to its drug."""
        self.aliases = {drug: tuple(dict.fromkeys([drug, *names])) for drug, names in drugs.items()}
        self.symptoms, self.patients = frozenset(symptoms), frozenset(patients)
        self._drug_of = {
            alias.lower(): drug for drug, names in self.aliases.items() for alias in names
        }
        self._long = [
            name for name in self._drug_of if len(name) >= FUZZY_LETTERS and " " not in name
        ]
        self._phrases = [name for name in self._drug_of if not _WORD.fullmatch(name)]
        self._near: dict[str, str | None] = {}

    def drugs_in(self, text: str) -> frozenset[str]:
        """Generic names of the drugs that a text names, by any alias, in any case, or slightly misspelt."""
        found = {drug for word in set(_WORD.findall(text)) if (drug := self._drug(word))}
        if self._phrases:
            lowered = text.lower()
            found |= {
                self._drug_of[p]
                for p in self._phrases
                if re.search(rf"(?<!\w){re.escape(p)}(?!\w)", lowered)
            }
        return frozenset(found)

    def symptoms_in(self, text: str) -> frozenset[str]:
        """Symptoms that a text names, whatever it says about them."""
        return frozenset(
            s for s in self.symptoms if re.search(rf"(?<!\w){re.escape(s)}", text, re.I)
        )

    def _drug(self, word: str) -> str | None:
        name = word.lower()
        if name in _WORDS_TOO and not word.isupper():
            return None
        if name not in self._near:
            drug = self._drug_of.get(name)
            if drug is None and len(name) >= FUZZY_LETTERS:
                best = process.extractOne(
                    name, self._long, scorer=OSA.normalized_similarity, score_cutoff=FUZZY_CUT
                )
                drug = self._drug_of[best[0]] if best else None
            self._near[name] = drug
        return self._near[name]


@dataclass(frozen=True)
class Query:
    """A parsed question, in the lexicon's words; unknown patients are there too, and so filter everything out."""

    text: str = field(repr=False)
    intent: Intent
    patients: frozenset[str] = frozenset()
    drugs: frozenset[str] = frozenset()
    since: date | None = None
    until: date | None = None
    symptoms: frozenset[str] = frozenset()


_PATIENT = re.compile(
    r"\b(?:patient|pt|mrn|id)\.?\s*(?:id|no\.?|number|#)?\s*[:#]?\s*([A-Z]{0,4}-?\d{2,})\b", re.I
)
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
_MONTHS = "|".join(
    sorted([*calendar.month_name[1:], *calendar.month_abbr[1:]], key=len, reverse=True)
)


def _day(name: str) -> str:
    return rf"(?P<{name}>\d{{4}}-\d{{2}}-\d{{2}}|(?:(?:{_MONTHS})\.?\s+)?\d{{4}})"


_RANGES = tuple(
    re.compile(pattern, re.I)
    for pattern in (
        rf"\b(?:between|from)\s+{_day('a')}\s+(?:and|to|until|till|through)\s+{_day('b')}\b",
        rf"\b(?:since|from|starting in|starting)\s+{_day('a')}\b",
        rf"\b(?P<after>after)\s+{_day('a')}\b",
        rf"\b(?:until|till|through|up to|by)\s+{_day('b')}\b",
        rf"\b(?P<before>before|prior to)\s+{_day('b')}\b",
        rf"\b(?:in|during|on|of|around|for)\s+(?P<within>{_day('a')})\b",
    )
)


def parse(question: str, lexicon: Lexicon) -> Query:
    """Read intent and fields off a question by patterns and the lexicon (clinical_notes.md, "Hybrid candidate...").

    Effectiveness goes before patient: a question whether a drug helped one patient is about effectiveness, and is
    filtered by the patient all the same.
    """
    known = {
        p
        for p in lexicon.patients
        if re.search(rf"(?<![\w-]){re.escape(p)}(?![\w-])", question, re.I)
    }
    lowered = {p.lower() for p in known}
    years = re.compile(r"(?:19|20)\d{2}")
    unknown = {
        p for p in _PATIENT.findall(question) if p.lower() not in lowered and not years.fullmatch(p)
    }
    drugs, cohort = lexicon.drugs_in(question), _COHORT.search(question)
    intent: Intent = "general"
    if drugs and _EFFECT.search(question) and not cohort:
        intent = "effectiveness"
    elif known or unknown:
        intent = "patient"
    elif cohort:
        intent = "cohort"
    patients = frozenset(known | unknown)
    return Query(
        question, intent, patients, drugs, *_dates(question), lexicon.symptoms_in(question)
    )


def _dates(question: str) -> tuple[date | None, date | None]:
    for pattern in _RANGES:
        if not (match := pattern.search(question)):
            continue
        groups = match.groupdict()
        try:
            a, b = (period(groups[side]) if groups.get(side) else None for side in "ab")
        except ValueError:  # 2021-02-31 is no date
            continue
        if groups.get("within") and a:
            return a
        since = None if a is None else a[1] + timedelta(1) if groups.get("after") else a[0]
        until = None if b is None else b[0] - timedelta(1) if groups.get("before") else b[1]
        return since, until
    return None, None


def period(text: str) -> tuple[date, date]:
    """First and last day of a day, a month or a year as it is written."""
    period = pd.Period(text.replace(".", ""))
    return period.start_time.date(), period.end_time.date()
