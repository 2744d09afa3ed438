"""Reads a question about charts: its intent, and the patients, drugs, dates and symptoms in it.

Source: clinical_notes.md, "Hybrid candidate generation & normalization", step 1: patterns and
dictionaries of aliases.
"""

import calendar
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date, timedelta
from typing import Literal, get_args

import pandas as pd
from rapidfuzz import process
from rapidfuzz.distance import OSA

Intent = Literal["patient", "cohort", "effectiveness", "general"]

INTENTS: tuple[Intent, ...] = get_args(Intent)
MIN_FUZZY_LETTERS = 6
"""Length of the shortest word that is compared with drug names by edits."""
MIN_FUZZY_SIMILARITY = 0.8
"""Similarity, from 0 to 1, from which a word counts as a drug's name."""

_WORD = re.compile(r"[A-Za-z][A-Za-z-]*")
_AMBIGUOUS = frozenset({"per"})
"""Abbreviations that are words too, such as perampanel's; they count only in capitals."""
_AMONG_CAPITALS = re.compile(r"\bPER(?=\s+[A-Z]{2,}\b)")
"""Where capitals make no abbreviation: all words have them."""


class Lexicon:
    """The names that the parser knows: drugs with their aliases, symptoms, patients."""

    def __init__(
        self,
        drugs: Mapping[str, Iterable[str]],
        symptoms: Iterable[str],
        patients: Iterable[str] = (),
    ) -> None:
        """Index the names of the drugs.

        Args:
            drugs: Generic name -> its other names.
            symptoms: Symptoms that a question may name.
            patients: Identifiers of the patients.
        """
        self.symptoms = frozenset(symptoms)
        self.patients = frozenset(patients)
        self.aliases: dict[str, tuple[str, ...]] = {}
        self._drug_by_name: dict[str, str] = {}
        for drug, names in drugs.items():
            self.aliases[drug] = tuple(dict.fromkeys([drug, *names]))
            for name in self.aliases[drug]:
                self._drug_by_name[name.lower()] = drug
        self._long_names = []
        self._phrases = []
        for name in self._drug_by_name:
            if len(name) >= MIN_FUZZY_LETTERS and " " not in name:
                self._long_names.append(name)
            if not _WORD.fullmatch(name):
                self._phrases.append(name)
        self._drug_by_word: dict[str, str | None] = {}

    def drugs_in(self, text: str) -> frozenset[str]:
        """Find the drugs that a text names, by any alias, in any case, or slightly misspelt.

        Returns:
            Their generic names.
        """
        drugs = set()
        for word in set(_WORD.findall(_AMONG_CAPITALS.sub(" ", text))):
            drug = self._drug(word)
            if drug:
                drugs.add(drug)
        lowered = text.lower()
        for phrase in self._phrases:
            if re.search(rf"(?<!\w){re.escape(phrase)}(?!\w)", lowered):
                drugs.add(self._drug_by_name[phrase])
        return frozenset(drugs)

    def symptoms_in(self, text: str) -> frozenset[str]:
        """Find the symptoms that a text names, even if it denies them."""
        symptoms = set()
        for symptom in self.symptoms:
            if re.search(rf"(?<!\w){re.escape(symptom)}", text, re.I):
                symptoms.add(symptom)
        return frozenset(symptoms)

    def _drug(self, word: str) -> str | None:
        name = word.lower()
        if name in _AMBIGUOUS and not word.isupper():
            return None
        if name not in self._drug_by_word:
            self._drug_by_word[name] = self._look_up(name)
        return self._drug_by_word[name]

    def _look_up(self, name: str) -> str | None:
        """The drug of a name in lower case, or of the most similar long name."""
        if name in self._drug_by_name or len(name) < MIN_FUZZY_LETTERS:
            return self._drug_by_name.get(name)
        best = process.extractOne(
            name,
            self._long_names,
            scorer=OSA.normalized_similarity,
            score_cutoff=MIN_FUZZY_SIMILARITY,
        )
        return self._drug_by_name[best[0]] if best else None


@dataclass(frozen=True)
class Query:
    """A parsed question, in the lexicon's words.

    Attributes:
        text: The question.
        intent: What kind of question it is.
        patients: Patients that it names. An unknown one is among them, so that the filter
            excludes everything.
        drugs: Generic names of the drugs.
        since: First day of the period; None if it has no beginning.
        until: Last day of the period; None if it has no end.
        symptoms: Symptoms that it names.
    """

    text: str = field(repr=False)
    intent: Intent
    patients: frozenset[str] = frozenset()
    drugs: frozenset[str] = frozenset()
    since: date | None = None
    until: date | None = None
    symptoms: frozenset[str] = frozenset()


_YEAR = re.compile(r"(?:19|20)\d{2}")
_MONTH_NAMES = [*calendar.month_name[1:], *calendar.month_abbr[1:], "Sept"]
_MONTHS = "|".join(sorted(_MONTH_NAMES, key=len, reverse=True))
_UNITS = (
    r"days?|d|weeks?|wks?|months?|mos?|years?|yrs?|y\.?o|hours?|hrs?|h|min(?:ute)?s?|sec(?:ond)?s?"
    r"|times?|x|mg|mcg|g|ml|kg|lbs?|cm|tab(?:let)?s?|pills?|doses?|seizures?|episodes?|spells?"
    r"|attacks?|visits?|admissions?|percent|am|pm|st|nd|rd|th"
)
_NOT_COUNTED = rf"(?![-/.]\d|\s*%|[\s-]*(?:{_UNITS}|(?:of\s+)?(?:{_MONTHS}))\b)"
"""After a number that is neither a count of something nor a part of a date."""
_PATIENT = re.compile(
    r"\b(?:patient|pt|mrn|id)\.?\s*(?:id|no\.?|number|#)?\s*[:#]?\s*([A-Z]{0,4}-?\d{2,})\b"
    + _NOT_COUNTED,
    re.I,
)
_COHORT = re.compile(
    r"\b(?:which|what|list|find|show|all|any|how many|number of|other|identify|who are the)\b"
    r"[^.?]{0,30}"
    r"\b(?:patients|people|cases|charts|individuals)\b"
    r"|\b(?:patients|cases|charts|people)\b[^.?]{0,20}"
    r"\b(?:who|with|whose|that|on|where|taking|in whom)\b|\bcohort\b"
    r"|\bacross (?:all )?(?:the )?(?:patients|charts)\b|\banyone\b"
    r"|\bwho (?:had|has|have|was|were|developed)\b",
    re.I,
)
_EFFECT = re.compile(
    r"\b(?:effective(?:ness|ly)?|efficac\w+|work(?:s|ed|ing)?|help(?:s|ed|ing|ful)?"
    r"|benefit\w*|respon[ds]\w*"
    r"|control(?:led|ling|s)?|improve\w*|better|reduc\w+|refractory|resistant"
    r"|successful\w*|success|fail\w*"
    r"|seizure[- ]free\w*|make a difference|any good|useful)\b",
    re.I,
)
_DATE_FORMS = (
    r"\d{4}[-/]\d{1,2}[-/]\d{1,2}",
    r"\d{1,2}[/.-]\d{1,2}[/.-](?:\d{4}|\d{2})",
    rf"\d{{1,2}}(?:st|nd|rd|th)?[\s-]+(?:of\s+)?(?:{_MONTHS})\.?,?[\s-]+\d{{4}}",
    rf"(?:{_MONTHS})\.?\s+\d{{1,2}}(?:st|nd|rd|th)?,?\s+\d{{4}}",
)
"""How a question writes a day."""
DAY = rf"(?<![\d/.-])(?:{'|'.join(_DATE_FORMS)})(?![\d/-])"
_PERIOD = rf"(?:{DAY}|(?:(?:{_MONTHS})\.?,?\s+|\d{{1,2}}/)?(?:19|20)\d{{2}})"
"""A day, a month or a year."""


def _named(name: str) -> str:
    """The pattern of a day, a month or a year, as a group of this name."""
    return rf"(?P<{name}>{_PERIOD})"


_RANGES = tuple(
    re.compile(pattern, re.I)
    for pattern in (
        rf"\b(?:between|from)\s+{_named('a')}\s+(?:and|to|until|till|through)\s+{_named('b')}\b",
        rf"\b(?:since|from|starting in|starting)\s+{_named('a')}\b",
        rf"\b(?P<after>after)\s+{_named('a')}\b",
        rf"\b(?:until|till|through|up to|by)\s+{_named('b')}\b",
        rf"\b(?P<before>before|prior to)\s+{_named('b')}\b",
        rf"(?P<within>(?P<a>{DAY}))",
        rf"\b(?:in|during|on|of|around|for)\s+(?P<within>{_named('a')})\b",
    )
)


def parse(question: str, lexicon: Lexicon) -> Query:
    """Read intent and fields off a question by patterns and the lexicon.

    Effectiveness goes before patient: a question whether a drug helped one patient is about
    effectiveness, and is filtered by the patient all the same.
    """
    patients = _patients_in(question, lexicon)
    drugs = lexicon.drugs_in(question)
    since, until = _dates_in(question)
    return Query(
        text=question,
        intent=_intent(question, patients, drugs),
        patients=patients,
        drugs=drugs,
        since=since,
        until=until,
        symptoms=lexicon.symptoms_in(question),
    )


def _patients_in(question: str, lexicon: Lexicon) -> frozenset[str]:
    """Patients of the lexicon, and numbers that look like a patient's but for years."""
    known = set()
    for patient in lexicon.patients:
        name = rf"(?<![\w-]){re.escape(patient)}(?![\w-])"
        if patient.isdigit():
            name += _NOT_COUNTED
        if re.search(name, question, re.I):
            known.add(patient)
    known_in_lower_case = {patient.lower() for patient in known}
    unknown = set()
    for patient in _PATIENT.findall(question):
        if patient.lower() not in known_in_lower_case and not _YEAR.fullmatch(patient):
            unknown.add(patient)
    return frozenset(known | unknown)


def _intent(question: str, patients: frozenset[str], drugs: frozenset[str]) -> Intent:
    is_cohort = _COHORT.search(question) is not None
    is_effect = bool(drugs) and _EFFECT.search(question) is not None
    if is_effect and not is_cohort:
        return "effectiveness"
    if patients:
        return "patient"
    return "cohort" if is_cohort else "general"


def _dates_in(question: str) -> tuple[date | None, date | None]:
    """First and last day that the question names; None for an open end."""
    for pattern in _RANGES:
        match = pattern.search(question)
        if match is None:
            continue
        try:
            return _days_of(match)
        except ValueError:  # 2021-02-31 is no date
            continue
    return None, None


def _days_of(match: re.Match[str]) -> tuple[date | None, date | None]:
    """First and last day of a match of `_RANGES`."""
    groups = match.groupdict()
    since: date | None = None
    until: date | None = None
    if groups.get("a"):
        first, last = period(groups["a"])
        if groups.get("within"):
            return first, last
        since = last + timedelta(1) if groups.get("after") else first
    if groups.get("b"):
        first, last = period(groups["b"])
        until = first - timedelta(1) if groups.get("before") else last
    return since, until


_EUROPEAN_DAY = re.compile(r"(\d{1,2})\.(\d{1,2})\.(\d{2,4})")


def period(text: str) -> tuple[date, date]:
    """Return first and last day of a day, a month or a year as it is written.

    01/02/2023 is the second of January, and 01.02.2023 the first of February.

    Raises:
        ValueError: There is no such day.
    """
    european = _EUROPEAN_DAY.fullmatch(text)
    if european:
        text = f"{european[2]}/{european[1]}/{european[3]}"
    plain = re.sub(r"(?<=\d)(?:st|nd|rd|th)\b|\bof\b|\.", "", text, flags=re.I)
    if not plain.strip():
        raise ValueError("A date was needed; found none.")
    span = pd.Period(plain)
    return span.start_time.date(), span.end_time.date()
