"""Synthetic neurology charts with gold truth (clinical_notes.md, "Data organization").

The paper's notes are private and its evaluation is empty. So this module makes patients whose course is known, writes
their notes in varied wording, and keeps for every fact the passage that states it. Nothing here is about anybody.

The words stand in two files of the project's own: `data/clinical_drugs.yml` (names of drugs) and
`data/clinical_wording.yml` (sentences). Part of the sentences is held out: they occur in the test patients' notes only.
"""

from __future__ import annotations

import hashlib
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from functools import lru_cache
from typing import Any, Final, Literal

import numpy as np
import yaml

from helpers.settings import DATA

Split = Literal["train", "dev", "test"]
NoteKind = Literal["clinic visit", "phone call", "admission", "discharge summary", "EEG report"]
Action = Literal["start", "increase", "decrease", "stop", "continue", "switch", "single dose"]
Effectiveness = Literal["effective", "partial", "ineffective", "not tolerated"]
Outcome = Literal["successful", "refractory", "undetermined"]
Context = Literal["affirmed", "negated", "historical", "family", "hypothetical"]
Label = Literal["DRUG", "STRENGTH", "DOSAGE", "FREQUENCY", "ROUTE", "FORM", "DURATION"]

SPLITS: tuple[Split, ...] = ("train", "dev", "test")
LABELS: tuple[Label, ...] = ("DRUG", "STRENGTH", "DOSAGE", "FREQUENCY", "ROUTE", "FORM", "DURATION")
"""Med7's seven labels (Kormilitzin et al. 2021)."""
CONTEXTS: tuple[Context, ...] = ("affirmed", "negated", "historical", "family", "hypothetical")
"""medspaCy's classes of ConText; affirmed is what none of its modifiers touches."""


# ------------------------------------------------------------------------------------------------- notes and gold


@dataclass(frozen=True, kw_only=True)
class Note:
    """One dated note.

    Attributes:
        note_id: unique over all charts; begins with the patient's id.
        patient_id: whose it is.
        date: when it was written.
        kind: what sort of note it is.
        text: as it stands in the chart, with its misspellings, redactions and odd characters.
    """

    note_id: str
    patient_id: str
    date: date
    kind: NoteKind
    text: str


@dataclass(frozen=True, kw_only=True)
class Fact:
    """Something true of a patient, and the passage that states it: `note.text[start:end]`.

    Attributes:
        patient_id, note_id: where it is stated.
        start, end: characters of the sentence in the note's text.
        date: when it was so; of a copied passage the date of the note that it was copied from.
        copied_from: the note whose passage was copied forward, or None. Such a passage may be out of date.
    """

    patient_id: str
    note_id: str
    start: int
    end: int
    date: date
    copied_from: str | None = None


@dataclass(frozen=True, kw_only=True)
class MedicationEvent(Fact):
    """What happened to one drug at one date.

    Attributes:
        drug: generic name, in lower case, a key of `data/clinical_drugs.yml` where that has it.
        dose_mg: at one time, after the event; None where the passage does not state it (a stop, for example).
        unit: as written, mg or g.
        units: of the form at one time ("2 tablets" of `dose_mg / units` each); 1 where it is not said.
        times_per_day: None where it is not said, or for a single dose.
        route, form: None where it is not said.
        action: what was done.
        replaces: the drug that a switch ends.
        reason: why, in the passage's own terms (a side effect, seizures, seizure freedom), or None.
        effectiveness: how well the drug worked up to then, where the passage says so.
        past: from before the chart begins; `date` is then that of the note, for the passage gives none.
    """

    drug: str
    action: Action
    dose_mg: float | None = None
    unit: str | None = None
    units: float = 1
    times_per_day: float | None = None
    route: str | None = None
    form: str | None = None
    replaces: str | None = None
    reason: str | None = None
    effectiveness: Effectiveness | None = None
    past: bool = False


@dataclass(frozen=True, kw_only=True)
class SeizureStatus(Fact):
    """Whether the patient had seizures in the time up to `date`.

    Attributes:
        status: positive or negative; a note that says nothing has no such fact, which is the paper's "unknown".
        kind: of the seizures, or None.
        per_month: how many; 0 for none; None where it is not said.
    """

    status: Literal["positive", "negative"]
    kind: str | None = None
    per_month: float | None = None


@dataclass(frozen=True, kw_only=True)
class Symptom(Fact):
    """A symptom or side effect that a passage speaks of.

    Attributes:
        name: the field's common term, in lower case.
        context: whether the patient has it; see `CONTEXTS`.
        role: part of a seizure, or effect of a drug.
        drug: that drug, where the passage says so.
    """

    name: str
    context: Context
    role: Literal["seizure", "side effect"]
    drug: str | None = None


@dataclass(frozen=True, kw_only=True)
class EegFinding(Fact):
    """What an EEG showed.

    Attributes:
        finding: in lower case.
        abnormal: whether it is out of the ordinary.
        region: where, or None.
    """

    finding: str
    abnormal: bool
    region: str | None = None


@dataclass(frozen=True, kw_only=True)
class FamilyHistory(Fact):
    """What runs in the family, or expressly does not (`present` is False)."""

    relative: str
    condition: str
    present: bool = True


@dataclass(frozen=True, kw_only=True)
class Adherence(Fact):
    """Whether the patient takes what is prescribed, and about how many doses a week are missed."""

    good: bool
    missed: int = 0


@dataclass(frozen=True, kw_only=True)
class Mention:
    """One span of a note with one of Med7's seven labels.

    Attributes:
        note_id: where.
        start, end: characters in the note's text.
        label: one of `LABELS`.
        value: what it stands for, in one spelling: the generic name, "500 mg", times a day, "oral", "tablet".
        drug: the generic name that it belongs to; its own for a DRUG.
        role: whether the patient takes that drug then, took it once, might, is allergic to it, or a relative takes it.
        held_out: whether the sentence is of a wording that no train note has.
    """

    note_id: str
    start: int
    end: int
    label: Label
    value: str
    drug: str
    role: Literal["current", "historical", "hypothetical", "family", "allergy"] = "current"
    held_out: bool = False


@dataclass(frozen=True, kw_only=True)
class ContextMention:
    """One span that names a seizure or a symptom, and its ConText class."""

    note_id: str
    start: int
    end: int
    term: str
    context: Context
    held_out: bool = False


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A patient's notes in order of date, and all that is true of them.

    Attributes:
        patient_id: the patient.
        split: train, dev or test; a patient is in one of them only.
        epilepsy: focal or generalised.
        outcome: successful (no seizures in the last year), refractory (seizures in spite of two drugs that were
            raised to a full dose), or undetermined.
        notes: in order of date.
        medications ... adherence: the gold facts, in order of note and place, copied passages included.
        mentions, contexts: the gold spans.
        identifiers: made-up record and telephone numbers that a note gives away. None may reach a record or the book.
    """

    patient_id: str
    split: Split
    epilepsy: Literal["focal", "generalised"]
    outcome: Outcome
    notes: tuple[Note, ...]
    medications: tuple[MedicationEvent, ...]
    seizures: tuple[SeizureStatus, ...]
    symptoms: tuple[Symptom, ...]
    eegs: tuple[EegFinding, ...]
    family: tuple[FamilyHistory, ...]
    adherence: tuple[Adherence, ...]
    mentions: tuple[Mention, ...]
    contexts: tuple[ContextMention, ...]
    identifiers: tuple[str, ...]

    @property
    def facts(self) -> tuple[Fact, ...]:
        """All gold facts, kind after kind."""
        return (*self.medications, *self.seizures, *self.symptoms, *self.eegs, *self.family, *self.adherence)


@dataclass(frozen=True)
class Charts:
    """All charts of one seed."""

    charts: tuple[Chart, ...]
    seed: int

    def __iter__(self) -> Iterator[Chart]:
        """The charts, in order of patient."""
        return iter(self.charts)

    def __len__(self) -> int:
        """How many patients there are."""
        return len(self.charts)

    def split(self, name: Split) -> tuple[Chart, ...]:
        """The charts of one split."""
        return tuple(chart for chart in self.charts if chart.split == name)

    def notes(self, split: Split | None = None) -> list[Note]:
        """The notes of one split, or of all."""
        return [note for chart in self.charts if split in (None, chart.split) for note in chart.notes]

    @property
    def mark(self) -> str:
        """What every caption of a table or figure made from these charts begins with."""
        return f"SYNTHETIC charts, generated by this project, seed {self.seed}"


# ---------------------------------------------------------------------------------------------------------- words

DRUGS: Final = DATA / "clinical_drugs.yml"
WORDING: Final = DATA / "clinical_wording.yml"
HELD_OUT_SHARE: Final = 0.4
"""How often a test note takes a held-out wording where there is one."""
_PATTERN: Final[tuple[Split, ...]] = (
    *("train", "test", "dev", "train", "test"),
    *("train", "train", "dev", "test", "train"),
)
_LABEL_OF: Final[dict[str, Label]] = {
    "drug": "DRUG",
    "strength": "STRENGTH",
    "dosage": "DOSAGE",
    "freq": "FREQUENCY",
    "route": "ROUTE",
    "form": "FORM",
    "duration": "DURATION",
}
_TYPO_SHARE, _UNICODE_SHARE = 0.02, 0.03
_LETTERS_OF_A_TYPO = 7


@lru_cache
def words(path: Any) -> dict[str, Any]:  # noqa: ANN401  # a Path; typed loosely for the cache
    """One of the project's own word lists."""
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


@dataclass(frozen=True)
class _Slot:
    """What is filled in for a name in braces."""

    text: str
    label: Label | None = None
    value: str = ""
    drug: str = ""
    role: Any = "current"
    context: Context | None = None
    held_out: bool = False
    before: str = ""
    """Plain text that stands before the span: "Levetiracetam (" of a second name in brackets is written by `parts`."""
    second: str = ""
    """A brand name in brackets after a generic one: a second span of the same value."""


@dataclass(frozen=True)
class _Sentence:
    """A sentence with its spans, counted from its own beginning."""

    text: str
    mentions: tuple[Mention, ...] = ()
    contexts: tuple[ContextMention, ...] = ()
    facts: tuple[Fact, ...] = ()


class _Author:
    """Words one patient's facts in sentences. All that is drawn is drawn from one generator of random numbers."""

    def __init__(self, patient_id: str, split: Split, rng: np.random.Generator) -> None:
        self.patient_id, self.split, self.rng = patient_id, split, rng
        self.wording, lists = words(WORDING), words(DRUGS)
        self.names: dict[str, dict[str, list[str]]] = {**lists["antiseizure"], **lists["rescue"], **lists["other"]}
        self.female = bool(rng.random() < 0.5)
        self.identifiers: list[str] = []

    # ------------------------------------------------------------------------------------------------- choices

    def chance(self, p: float) -> bool:
        return bool(self.rng.random() < p)

    def pick(self, options: Sequence[Any]) -> Any:  # noqa: ANN401  # an item of whatever the list holds
        return options[int(self.rng.integers(len(options)))]

    def bank(self, bank: Mapping[str, list[str]]) -> tuple[str, bool]:
        """One wording, and whether it is a held-out one."""
        held = self.split == "test" and bool(bank.get("held_out")) and self.chance(HELD_OUT_SHARE)
        return self.pick(bank["held_out" if held else "shared"]), held

    # --------------------------------------------------------------------------------------------------- slots

    def drug(self, name: str, role: str = "current", *, brackets: bool = False) -> _Slot:
        """A drug under one of its names, sometimes misspelt."""
        names = self.names.get(name, {})
        generic = self.pick([name, *names.get("other", [])])
        generic = self.pick([generic, generic, generic.capitalize(), generic.upper()])
        brands, short = names.get("brands", []), names.get("abbreviations", [])
        second, draw = "", self.rng.random()
        if brackets and brands and draw < 0.2:
            text, second = generic, self.pick(brands)
        elif brands and draw < 0.45:
            text = self.pick(brands)
        elif short and draw < 0.62:
            text = self.pick(short)
        elif draw > 0.95:
            text = self.typo(generic)
        else:
            text = generic
        return _Slot(text, "DRUG", name, name, role, second=second)

    def strength(self, mg: float, drug: str, role: str = "current") -> _Slot:
        """A strength as notes write it: 500 mg, 500mg, 1 g, 1,500 mg."""
        styles = [f"{mg:g} mg", f"{mg:g} mg", f"{mg:g}mg", f"{mg:g} mgs"]
        if mg >= 1000:
            styles += [f"{mg / 1000:g} g", f"{mg:,.0f} mg"]
        text = self.pick(styles)
        if self.chance(_UNICODE_SHARE):
            text = text.replace(" ", "\N{NO-BREAK SPACE}")
        return _Slot(text, "STRENGTH", f"{mg:g} mg", drug, role)

    def term(self, group: str, key: object, drug: str, role: str = "current") -> _Slot:
        """A frequency, route or form in one of its wordings."""
        label: Label = {"frequencies": "FREQUENCY", "routes": "ROUTE", "forms": "FORM"}[group]  # type: ignore[assignment]
        text, held = self.bank(self.wording[group][key])
        return _Slot(text, label, str(key), drug, role, held_out=held)

    def seizures(self, kind: str, context: Context) -> _Slot:
        text, held = self.bank(self.wording["kinds"][kind])
        return _Slot(text, context=context, held_out=held)

    def plain_list(self, bank: str, context: Context) -> _Slot:
        text, held = self.bank(self.wording[bank])
        return _Slot(text, context=context, held_out=held)

    def typo(self, word: str) -> str:
        """A slip inside a word: a letter left out, doubled, or swapped with the next."""
        inner = [i for i in range(1, len(word) - 2) if word[i].isalpha() and word[i] != word[i + 1]]
        if not inner:
            return word
        i = self.pick(inner)
        return self.pick(
            [
                word[:i] + word[i + 1 :],
                word[: i + 1] + word[i] + word[i + 1 :],
                word[:i] + word[i + 1] + word[i] + word[i + 2 :],
            ]
        )

    def background(self) -> dict[str, _Slot]:
        """Fillings that are no facts."""
        pick, rng, wording = self.pick, self.rng, self.wording
        pronoun = "she" if self.female else "he"
        redaction = lambda: pick(wording["redactions"])  # noqa: E731
        plain = {
            "Pt": pick(["Patient", "Pt", "pt", pronoun.capitalize(), "The patient"]),
            "pron": pronoun,
            "Pron": pronoun.capitalize(),
            "pron_of": "her" if self.female else "his",
            "sex": pick(["female", "F", "woman"] if self.female else ["male", "M", "man"]),
            "name": redaction(),
            "hospital": redaction(),
            "redacted": redaction(),
            "years": str(rng.integers(18, 80)),
            "age": str(rng.integers(2, 16)),
            "year": str(rng.integers(1995, 2013)),
            "months": str(rng.integers(2, 7)),
            "hours": str(rng.integers(4, 9)),
            "count": str(rng.integers(2, 5)),
            "sodium": str(rng.integers(128, 144)),
            "weight": str(rng.integers(48, 110)),
            "hz": pick(["8", "8.5", "9", "9.5", "10"]),
            "witness": pick(wording["witnesses"]),
            "place": pick(wording["places"]),
            "trigger": pick(wording["triggers"]),
        }
        return {name: _Slot(text) for name, text in plain.items()}

    # ----------------------------------------------------------------------------------------------- sentences

    def sentence(
        self, bank: str, slots: Mapping[str, _Slot] | None = None, facts: Sequence[Fact] = (), template: Any = None
    ) -> _Sentence:
        """One sentence of a bank, filled in, with its spans and facts."""
        pattern, held = template or self.bank(self.wording[bank])
        filled = {**self.background(), **(slots or {})}
        text, mentions, contexts = "", [], []
        for literal, name, _, _ in string.Formatter().parse(pattern):
            text += self.noisy(literal)
            if name is None:
                continue
            slot = filled[name]
            shown = slot.text
            if not text and shown[:1].islower() and slot.label is None:
                shown = shown[0].upper() + shown[1:]
            start, text = len(text), text + shown
            spans = [(start, len(text))]
            if slot.second:
                text += f" ({slot.second})"
                spans.append((len(text) - 1 - len(slot.second), len(text) - 1))
            for first, last in spans:
                common = {"note_id": "", "start": first, "end": last, "held_out": held or slot.held_out}
                if slot.label:
                    mentions.append(
                        Mention(label=slot.label, value=slot.value, drug=slot.drug, role=slot.role, **common)
                    )
                if slot.context:
                    contexts.append(ContextMention(term=slot.text.lower(), context=slot.context, **common))
        return _Sentence(text, tuple(mentions), tuple(contexts), tuple(replace(f, end=len(text)) for f in facts))

    def noisy(self, literal: str) -> str:
        """Plain words of a template with, now and then, a slip or a character of a word processor."""
        if self.chance(_UNICODE_SHARE):
            literal = literal.replace(" - ", " \N{EN DASH} ").replace("'", "\N{RIGHT SINGLE QUOTATION MARK}")
            literal = literal.replace("; ", ";\N{NO-BREAK SPACE}").replace(", ", ",\N{NO-BREAK SPACE}")
        if not self.chance(_TYPO_SHARE):
            return literal
        long = [m for m in re.finditer(r"[a-z]+", literal) if len(m[0]) >= _LETTERS_OF_A_TYPO]
        if not long:
            return literal
        word = self.pick(long)
        return literal[: word.start()] + self.typo(word[0]) + literal[word.end() :]

    def at(self, day: date) -> dict[str, Any]:
        """What every fact has; note and span are filled in when its sentence is put on a page."""
        return {"patient_id": self.patient_id, "note_id": "", "start": 0, "end": 0, "date": day}

    def medication(  # noqa: PLR0913
        self,
        bank: str,
        day: date,
        drug: str,
        action: Action | None,
        *,
        mg: float | None = None,
        times: float | str | None = None,
        route: str = "oral",
        form: str = "tablet",
        old_mg: float | None = None,
        old_drug: str | None = None,
        why: _Slot | None = None,
        effectiveness: Effectiveness | None = None,
        role: str = "current",
        past: bool = False,
        extra: Mapping[str, _Slot] | None = None,
    ) -> _Sentence:
        """A sentence about one drug, and the event that it states: no more than its wording says."""
        template = self.bank(self.wording[bank])
        used = {name for _, name, _, _ in string.Formatter().parse(template[0]) if name}
        if "strength2" in used and old_mg is None:
            raise ValueError(f"The wording {template[0]!r} needs the dose before.")
        slots = {"drug": self.drug(drug, role, brackets=bank.startswith("taking")), **(extra or {})}
        units = 1
        if "dosage" in used and mg is not None:
            halves = mg / 2 in self.doses(drug) and self.chance(0.4)
            units = 2 if halves else 1
            text = self.pick([str(units), {1: "one", 2: "two"}[units]])
            slots["dosage"] = _Slot(text, "DOSAGE", str(units), drug, role)
        if mg is not None:
            slots["strength"] = self.strength(mg / units, drug, role)
        if old_mg is not None:
            slots["strength2"] = self.strength(old_mg, drug, "historical")
        if old_drug is not None:
            slots["drug2"] = self.drug(old_drug)
        if times is not None:
            slots["freq"] = self.term("frequencies", times, drug, role)
        slots["route"] = self.term("routes", route, drug, role)
        slots["form"] = self.term("forms", form, drug, role)
        duration, held = self.bank(self.wording["durations"])
        slots["duration"] = _Slot(duration, "DURATION", duration, drug, role, held_out=held)
        if why is not None:
            slots["why"] = why
        if effectiveness in self.wording["how"]:
            slots["how"] = _Slot(self.pick(self.wording["how"][effectiveness]))
        facts: list[MedicationEvent] = []
        if action is not None:
            facts.append(
                MedicationEvent(
                    **self.at(day),
                    drug=drug,
                    action=action,
                    dose_mg=mg if "strength" in used else None,
                    unit=slots["strength"].text.rstrip("s").split()[-1].lstrip("0123456789.,") if mg else None,
                    units=units,
                    times_per_day=times if "freq" in used and isinstance(times, int) else None,
                    route=route if "route" in used else None,
                    form=form if "form" in used else None,
                    replaces=old_drug,
                    reason=why.value or why.text if why and "why" in used else None,
                    effectiveness=effectiveness if used & {"how", "why"} else None,
                    past=past,
                )
            )
        if old_drug is not None and why is not None:
            reason = why.value or why.text
            facts.append(
                MedicationEvent(
                    **self.at(day), drug=old_drug, action="stop", reason=reason, effectiveness=effectiveness
                )
            )
            # how well it worked is said of the drug that ends, not of the one that begins
            facts[0] = replace(facts[0], effectiveness=None)
        return self.sentence(bank, slots, facts, template)

    def doses(self, drug: str) -> list[float]:
        return list(self.names.get(drug, {}).get("doses", []))  # type: ignore[arg-type]


class _Page:
    """One note as it is being written."""

    def __init__(self, author: _Author, note_id: str, day: date, kind: NoteKind) -> None:
        self.author, self.note_id, self.day, self.kind = author, note_id, day, kind
        self.text = ""
        self.mentions: list[Mention] = []
        self.contexts: list[ContextMention] = []
        self.facts: list[Fact] = []

    def heading(self, name: str) -> None:
        title = self.author.pick(self.author.wording["headings"][name])
        self.text += ("\n\n" if self.text else "") + f"{title}:\n"

    def add(self, sentence: _Sentence, *, line: bool = False, copied_from: str | None = None) -> None:
        """Put a sentence after what stands there: on a line of its own, or after a space."""
        if self.text and not self.text.endswith("\n"):
            self.text += "\n" if line else " "
        at, here = len(self.text), {"note_id": self.note_id}
        self.text += sentence.text
        self.mentions += [replace(m, start=m.start + at, end=m.end + at, **here) for m in sentence.mentions]
        self.contexts += [replace(c, start=c.start + at, end=c.end + at, **here) for c in sentence.contexts]
        self.facts += [
            replace(f, start=at, end=len(self.text), copied_from=copied_from, **here) for f in sentence.facts
        ]

    def note(self) -> Note:
        return Note(
            note_id=self.note_id,
            patient_id=self.author.patient_id,
            date=self.day,
            kind=self.kind,
            text=self.text,
        )


# ------------------------------------------------------------------------------------------------------ the course


@dataclass
class _Taken:
    """A drug that the patient takes: step of its titration, form, and what it will turn out to cause."""

    level: int
    form: str
    effect: str | None
    severe: bool
    told: bool = False


@dataclass
class _Visit:
    """What a clinic note says of the time before it, kept for the next note to copy."""

    note_id: str
    day: date
    history: list[_Sentence] = field(default_factory=list)
    listed: list[_Sentence] = field(default_factory=list)


class _Patient:
    """One patient's course over the years, written down as it goes."""

    def __init__(self, number: int, seed: int) -> None:
        self.id = f"P{number + 1:04}"
        self.split = _PATTERN[number % len(_PATTERN)]
        self.rng = np.random.default_rng([seed, number])
        self.author = a = _Author(self.id, self.split, self.rng)
        self.lists = words(DRUGS)["antiseizure"]
        self.epilepsy: Literal["focal", "generalised"] = a.pick(["focal", "focal", "generalised"])
        kinds = [k for k, v in a.wording["kinds"].items() if v["epilepsy"] == self.epilepsy]
        self.kind, *_ = self.others = [kinds[i] for i in self.rng.permutation(len(kinds))]
        self.base = float(a.pick([1, 2, 4, 8, 12, 30]))
        self.works = a.pick([0, 0, 1, None, None])
        self.enough = int(self.rng.integers(1, 3))
        first_line = ["levetiracetam", "lamotrigine"] + (["valproate"] if self.epilepsy == "generalised" else [])
        avoid = {"ethosuximide", "valproate"} if self.epilepsy == "focal" else {"carbamazepine", "phenytoin"}
        rest = [d for d in self.lists if d not in avoid and d not in first_line]
        self.order = [
            *(first_line[i] for i in self.rng.permutation(len(first_line))),
            *(rest[i] for i in self.rng.permutation(len(rest))),
        ]
        self.tried = 0
        self.failed: set[str] = set()
        self.taken: dict[str, _Taken] = {}
        self.comedication = [
            a.wording["comedication"][i] for i in self.rng.permutation(10)[: int(self.rng.integers(0, 3))]
        ]
        self.symptom = a.pick(a.wording["ictal_symptoms"][self.epilepsy])
        self.finding = a.pick(a.wording["eeg_findings"])
        self.region = a.pick(a.wording["eeg_regions"][self.epilepsy])
        self.eeg_abnormal = a.chance(0.7)
        self.eeg_day: date | None = None
        self.relative = a.pick(a.wording["relatives"]) if a.chance(0.35) else None
        self.allergy = self.order.pop() if a.chance(0.25) else None
        self.past = self.order.pop() if a.chance(0.3) else None
        self.has_rescue = a.chance(0.3)
        self.last: _Visit | None = None
        self.pages: list[_Page] = []
        self.statuses: list[tuple[date, float]] = []

    # ------------------------------------------------------------------------------------------------- the disease

    def rate(self, missed: bool) -> float:
        """Seizures a month under the regimen as it is."""
        levels = {drug: t.level for drug, t in self.taken.items()}
        if self.works is not None and levels.get(self.order[self.works], -1) >= self.enough:
            rate = self.base / 4 if missed else 0.0
        else:
            rate = self.base / 2 if max(levels.values(), default=-1) >= 2 else self.base
        known = sorted(self.author.wording["rates"])
        return 0.0 if rate == 0 else float(min(known, key=lambda r: abs(r - rate)))

    def top(self, drug: str) -> int:
        return len(self.lists[drug]["doses"]) - 1

    def mg(self, drug: str) -> float:
        return float(self.lists[drug]["doses"][self.taken[drug].level])

    def dosing(self, drug: str) -> dict[str, Any]:
        """Dose, times and form of a drug as it is taken now."""
        return {"mg": self.mg(drug), "times": self.lists[drug]["times"], "form": self.taken[drug].form}

    def begin(self, level: int = 0) -> str:
        drug = self.order[self.tried]
        self.tried += 1
        entry, a = self.lists[drug], self.author
        effect = a.pick(entry["effects"]) if a.chance(0.35) else None
        self.taken[drug] = _Taken(level, a.pick(entry["forms"]), effect, a.chance(0.5))
        return drug

    # --------------------------------------------------------------------------------------------------- the notes

    def page(self, day: date, kind: NoteKind) -> _Page:
        page = _Page(self.author, f"{self.id}-N{len(self.pages) + 1:03}", day, kind)
        style = self.author.pick(["Date of service: {}", "Date: {}", "{}"])
        title = {"clinic visit": "Epilepsy clinic", "phone call": "Telephone encounter"}.get(kind, kind)
        page.text = f"{title.upper() if self.author.chance(0.5) else title.capitalize()}\n{style.format(day)}"
        self.pages.append(page)
        return page

    def filler(self, page: _Page, n: int) -> None:
        for _ in range(n):
            page.add(self.author.sentence("filler"))

    def status(self, day: date, rate: float) -> _Sentence:
        a, at = self.author, self.author.at(day)
        self.statuses.append((day, rate))
        if rate == 0:
            slots = {
                "sz": a.seizures(self.kind, "negated"),
                "one": a.plain_list("one_kind", "negated"),
                "since": _Slot(self.since(day)),
            }
            return a.sentence("seizure_free", slots, [SeizureStatus(**at, status="negative", per_month=0.0)])
        text, held = a.bank(a.wording["rates"][rate if rate < 1 else int(rate)])
        slots = {"sz": a.seizures(self.kind, "affirmed"), "rate": _Slot(text, held_out=held)}
        return a.sentence("seizing", slots, [SeizureStatus(**at, status="positive", kind=self.kind, per_month=rate)])

    def since(self, day: date) -> str:
        last = next((d for d, r in reversed(self.statuses) if r > 0), day - timedelta(days=90))
        return f"{last:%B %Y}" if self.author.chance(0.6) else f"{last:%m/%Y}"

    def symptoms(self, day: date) -> list[_Sentence]:
        """What is said of seizures and symptoms besides the seizure status."""
        a, out = self.author, []
        at = a.at(day)

        def named(name: str, context: Context) -> _Slot:
            return _Slot(name, context=context)

        if a.chance(0.6):
            fact = Symptom(**at, name=self.symptom, context="affirmed", role="seizure")
            out.append(a.sentence("semiology", {"sym": named(self.symptom, "affirmed")}, [fact]))
        if a.chance(0.4):
            every = a.wording["ictal_symptoms"]["focal"] + a.wording["ictal_symptoms"]["generalised"]
            other = a.pick([s for s in every if s != self.symptom])
            fact = Symptom(**at, name=other, context="negated", role="seizure")
            out.append(a.sentence("semiology_negated", {"sym": named(other, "negated")}, [fact]))
        if a.chance(0.4):
            out.append(a.sentence("sz_negated", {"sz": a.plain_list("other_kinds", "negated")}))
        if self.taken and a.chance(0.4):
            drug, context = a.pick(list(self.taken)), a.pick(["negated", "historical", "hypothetical"])
            hidden = self.taken[drug].effect
            name = a.pick([e for e in a.wording["other_effects"] if e != hidden])
            bank = f"side_effect_{context}"
            fact = Symptom(**at, name=name, context=context, role="side effect", drug=drug)
            sentence = a.sentence(bank, {"sym": named(name, context), "drug": a.drug(drug)}, [fact])
            if not any(m.label == "DRUG" for m in sentence.mentions):
                sentence = replace(sentence, facts=(replace(sentence.facts[0], drug=None),))  # type: ignore[call-arg]
            out.append(sentence)
        return out

    def complaint(self, day: date, drug: str) -> _Sentence:
        a, effect = self.author, str(self.taken[drug].effect)
        fact = Symptom(**a.at(day), name=effect, context="affirmed", role="side effect", drug=drug)
        self.taken[drug].told = True
        slots = {"sym": _Slot(effect, context="affirmed"), "drug": a.drug(drug)}
        return a.sentence("side_effect", slots, [fact])

    def eeg_sentence(self, day: date) -> _Sentence:
        a, at = self.author, self.author.at(day)
        if not self.eeg_abnormal:
            return a.sentence("eeg_normal", {}, [EegFinding(**at, finding="normal", abnormal=False)])
        fact = EegFinding(**at, finding=self.finding, abnormal=True, region=self.region)
        return a.sentence("eeg_abnormal", {"finding": _Slot(self.finding), "region": _Slot(self.region)}, [fact])

    def background(self, day: date) -> list[_Sentence]:
        a, out = self.author, []
        at = a.at(day)
        if self.relative:
            slots = {
                "sz": a.plain_list("one_kind", "family"),
                "relative": _Slot(self.relative),
                "Relative": _Slot(self.relative.capitalize()),
            }
            out.append(
                a.sentence("sz_family", slots, [FamilyHistory(**at, relative=self.relative, condition="seizures")])
            )
            if a.chance(0.4):
                out.append(a.sentence("family_drug", {**slots, "drug": a.drug(a.pick(list(self.lists)), "family")}))
        else:
            fact = FamilyHistory(**at, relative="any", condition="seizures", present=False)
            out.append(a.sentence("family_none", {"sz": a.plain_list("one_kind", "negated")}, [fact]))
        if a.chance(0.5):
            out.append(a.sentence("sz_historical", {"sz": a.plain_list("other_kinds", "historical")}))
        if self.allergy:
            why = _Slot("rash", context="historical")
            out.append(a.medication("allergy", day, self.allergy, None, why=why, role="allergy"))
        if self.past:
            effect = a.pick(self.lists[self.past]["effects"])
            entry = self.lists[self.past]
            out.append(
                a.medication(
                    "past_drug",
                    day,
                    self.past,
                    "stop",
                    mg=float(a.pick(entry["doses"])),
                    times=entry["times"],
                    why=_Slot(effect, context="historical"),
                    effectiveness="not tolerated",
                    role="historical",
                    past=True,
                )
            )
        return out

    def listed(self, day: date) -> list[_Sentence]:
        """The list of what is taken."""
        a, out = self.author, []
        for drug in self.taken:
            out.append(a.medication("taking", day, drug, "continue", **self.dosing(drug)))
        for other in self.comedication:
            out.append(
                a.medication(
                    "taking_other",
                    day,
                    other["drug"],
                    "continue",
                    mg=float(other["strengths"][0]),
                    times=other["times"],
                    form=other["form"],
                )
            )
        if self.has_rescue:
            drug, mg, route, form = a.pick(
                [
                    ("diazepam", 10, "rectal", "gel"),
                    ("midazolam", 5, "intranasal", "nasal spray"),
                    ("clonazepam", 1, "oral", "tablet"),
                    ("lorazepam", 1, "oral", "tablet"),
                ]
            )
            slots = {"sz": a.seizures(self.kind, "hypothetical"), "one": a.plain_list("one_kind", "hypothetical")}
            out.append(
                a.medication(
                    "rescue",
                    day,
                    drug,
                    "continue",
                    mg=float(mg),
                    times="as needed",
                    route=route,
                    form=form,
                    extra=slots,
                )
            )
        return out

    def plan(self, day: date, rate: float, missed: bool, complaint: str | None) -> list[_Sentence]:
        """Decide what to do, do it, and say so."""
        a, out = self.author, []
        changed = set()
        bad = _Slot(a.pick(["poor control", "lack of effect", "inadequate control"]), value="lack of effect")
        if not self.taken:
            drug = self.begin()
            why = _Slot(a.pick(["newly diagnosed epilepsy", "a second unprovoked event", "confirmed epilepsy"]))
            out.append(a.medication("start", day, drug, "start", **self.dosing(drug), why=why))
            changed.add(drug)
        elif complaint:
            effect = str(self.taken[complaint].effect)
            why = _Slot(effect, context="affirmed")
            if self.taken[complaint].severe and self.tried < len(self.order):
                out.append(self.switched(day, complaint, why, "not tolerated"))
                changed |= set(self.taken)
            elif self.taken[complaint].level > 0:
                out.append(self.moved(day, complaint, -1, why))
                changed.add(complaint)
        elif rate > 0 and not missed:
            drug = list(self.taken)[-1]
            if self.taken[drug].level < self.top(drug):
                out.append(self.moved(day, drug, 1, bad))
                changed.add(drug)
            elif self.tried < len(self.order):
                self.failed.add(drug)
                if len(self.taken) == 1 and a.chance(0.5):
                    new = self.begin()
                    out.append(a.medication("start", day, new, "start", **self.dosing(new), why=bad))
                    changed.add(new)
                else:
                    out.append(self.switched(day, next(iter(self.taken)), bad, "ineffective"))
                    changed |= set(self.taken)
        elif rate == 0 and len(self.taken) > 1 and a.chance(0.3):
            drug = next(d for d in self.taken if self.works is None or d != self.order[self.works])
            del self.taken[drug]
            why = _Slot("sustained good control", value="seizure freedom")
            out.append(a.medication("stop", day, drug, "stop", why=why))
        worth: Effectiveness = "effective" if rate == 0 else "partial" if rate < self.base else "ineffective"
        for drug in self.taken:
            if drug not in changed:
                out.append(a.medication("keep", day, drug, "continue", **self.dosing(drug), effectiveness=worth))
        if rate > 0 and self.tried < len(self.order) and a.chance(0.4):
            later = self.order[self.tried]
            entry = self.lists[later]
            out.append(
                a.medication(
                    "consider",
                    day,
                    later,
                    None,
                    mg=float(entry["doses"][0]),
                    times=entry["times"],
                    role="hypothetical",
                )
            )
        return out

    def moved(self, day: date, drug: str, steps: int, why: _Slot) -> _Sentence:
        """A dose one step up or down."""
        old = self.mg(drug)
        self.taken[drug].level += steps
        bank: Action = "increase" if steps > 0 else "decrease"
        return self.author.medication(bank, day, drug, bank, **self.dosing(drug), old_mg=old, why=why)

    def switched(self, day: date, old: str, why: _Slot, effectiveness: Effectiveness) -> _Sentence:
        del self.taken[old]
        new = self.begin(level=1)
        return self.author.medication(
            "switch", day, new, "switch", **self.dosing(new), old_drug=old, why=why, effectiveness=effectiveness
        )

    def adherence(self, day: date, missed: bool) -> _Sentence:
        a = self.author
        count = int(self.rng.integers(2, 5)) if missed else 0
        fact = Adherence(**a.at(day), good=not missed, missed=count)
        return a.sentence("missed" if missed else "adherent", {"count": _Slot(str(count))}, [fact])

    # -------------------------------------------------------------------------------------------------- encounters

    def clinic(self, day: date, first: bool) -> None:
        a, page = self.author, self.page(day, "clinic visit")
        missed = not first and bool(self.taken) and a.chance(0.15)
        rate = self.rate(missed)
        complaint = next((d for d, t in self.taken.items() if t.effect and not t.told and not first), None)
        visit = _Visit(page.note_id, day)
        page.text += "\n\n"
        page.add(a.sentence("opening", {"epilepsy": _Slot(self.epilepsy)}))
        page.heading("history")
        visit.history.append(self.status(day, rate))
        visit.history += self.symptoms(day)
        if complaint:
            visit.history.append(self.complaint(day, complaint))
        if self.taken:
            visit.history.append(self.adherence(day, missed))
        for sentence in visit.history:
            page.add(sentence)
        self.filler(page, int(self.rng.integers(1, 4)))
        if self.last and a.chance(0.3):
            page.heading("copied")
            page.text = page.text[:-1] + (f" ({self.last.day})\n" if a.chance(0.6) else "\n")
            copied = self.last.history + (self.last.listed if a.chance(0.3) else [])
            for sentence in copied:
                page.add(sentence, copied_from=self.last.note_id)
        if first or a.chance(0.3):
            page.heading("background")
            for sentence in self.background(day):
                page.add(sentence)
        visit.listed = self.listed(day)
        if visit.listed:
            page.heading("medications")
            for i, sentence in enumerate(visit.listed, start=1):
                if i > 1:
                    page.text += "\n"
                page.text += f"{i}. "
                page.text = page.text[:-1]
                page.add(sentence)
        page.heading("examination")
        self.filler(page, int(self.rng.integers(3, 8)))
        if self.eeg_day and a.chance(0.5):
            page.add(self.eeg_sentence(self.eeg_day))
        if a.chance(0.06):
            self.identify(page)
        page.heading("plan")
        for sentence in self.plan(day, rate, missed, complaint):
            page.add(sentence, line=True)
        if a.chance(0.6):
            slots = {"sz": a.seizures(self.kind, "hypothetical"), "one": a.plain_list("one_kind", "hypothetical")}
            page.add(a.sentence("sz_hypothetical", slots), line=True)
        page.add(a.sentence("followup"), line=True)
        self.last = visit

    def identify(self, page: _Page) -> None:
        """Leave a record or telephone number in the note."""
        a = self.author
        mrn = f"00-{self.rng.integers(10**6, 10**7)}"
        telephone = f"(555) 01{self.rng.integers(10)}-{self.rng.integers(1000, 10000)}"
        sentence = a.sentence("identifier", {"mrn": _Slot(mrn), "telephone": _Slot(telephone)})
        a.identifiers += [number for number in (mrn, telephone) if number in sentence.text]
        page.add(sentence)

    def phone(self, day: date) -> None:
        a, page = self.author, self.page(day, "phone call")
        page.text += "\n"
        page.add(a.sentence("phone"))
        complaint = next((d for d, t in self.taken.items() if t.effect and not t.told), None)
        if complaint and not self.taken[complaint].severe and self.taken[complaint].level > 0:
            page.add(self.complaint(day, complaint))
            why = _Slot(str(self.taken[complaint].effect), context="affirmed")
            page.add(self.moved(day, complaint, -1, why))
        elif a.chance(0.5):
            rate = self.rate(False)
            page.add(self.status(day, rate))
            drug = list(self.taken)[-1]
            if rate > 0 and self.taken[drug].level < self.top(drug):
                page.add(self.moved(day, drug, 1, _Slot("poor control", value="lack of effect")))
        else:
            drug = a.pick(list(self.taken))
            page.add(a.medication("taking", day, drug, "continue", **self.dosing(drug)))
            page.add(a.sentence("adherent", {}, [Adherence(**a.at(day), good=True)]))
        page.add(a.sentence("followup"))

    def hospital(self, day: date) -> None:
        """An admission for breakthrough seizures, and the discharge a few days later."""
        a, page = self.author, self.page(day, "admission")
        trigger = a.pick(a.wording["triggers"])
        page.heading("history")
        slots = {
            "sz": a.seizures(self.kind, "affirmed"),
            "one": a.plain_list("one_kind", "affirmed"),
            "trigger": _Slot(trigger),
        }
        fact = SeizureStatus(**a.at(day), status="positive", kind=self.kind)
        reason = a.sentence("breakthrough", slots, [fact])
        self.statuses.append((day, 0.5))
        page.add(reason)
        for sentence in self.symptoms(day):
            page.add(sentence)
        drug = a.pick([d for d in ("levetiracetam", "lacosamide", "lorazepam", "fosphenytoin")])
        mg = {"levetiracetam": a.pick([1000, 1500, 2000]), "lacosamide": 200, "lorazepam": a.pick([2, 4])}.get(
            drug, 1000
        )
        load = a.medication("load", day, drug, "single dose", mg=float(mg), times="once", route="intravenous")
        page.add(load)
        page.heading("background")
        for sentence in self.background(day):
            page.add(sentence)
        page.heading("medications")
        for sentence in self.listed(day):
            page.add(sentence, line=True)
        page.heading("examination")
        self.filler(page, int(self.rng.integers(3, 7)))

        out = day + timedelta(days=int(self.rng.integers(1, 6)))
        page_in, page = page, self.page(out, "discharge summary")
        page.heading("course")
        page.add(replace(reason, facts=tuple(replace(f, date=day) for f in reason.facts)), copied_from=page_in.note_id)
        page.add(load, copied_from=page_in.note_id)
        page.add(a.sentence("no_inpatient", {k: replace(v, context="negated") for k, v in slots.items() if v.context}))
        self.filler(page, int(self.rng.integers(2, 5)))
        last = list(self.taken)[-1]
        if self.taken[last].level < self.top(last):
            page.add(self.moved(out, last, 1, _Slot("breakthrough events", value="lack of effect")))
        page.heading("discharge")
        for sentence in self.listed(out):
            page.add(sentence, line=True)
        slots = {"sz": a.seizures(self.kind, "hypothetical"), "one": a.plain_list("one_kind", "hypothetical")}
        page.add(a.sentence("sz_hypothetical", slots), line=True)
        page.add(a.sentence("followup"), line=True)

    def eeg(self, day: date) -> None:
        a, page = self.author, self.page(day, "EEG report")
        self.eeg_day = day
        page.heading("technique")
        for _ in range(int(self.rng.integers(2, 4))):
            page.add(a.sentence("eeg_technique"))
        page.heading("impression")
        page.add(self.eeg_sentence(day))
        if self.eeg_abnormal and a.chance(0.3):
            slots = {"one": a.plain_list("one_kind", "affirmed"), "region": _Slot(self.region)}
            finding = EegFinding(**a.at(day), finding="seizure", abnormal=True, region=self.region)
            status = SeizureStatus(**a.at(day), status="positive")
            page.add(a.sentence("eeg_seizure", slots, [finding, status]))
        else:
            page.add(a.sentence("eeg_no_seizure", {"sz": a.seizures(self.kind, "negated")}))

    def live(self) -> Chart:
        """The whole chart."""
        a = self.author
        day = date(2014, 1, 1) + timedelta(days=int(self.rng.integers(0, 5 * 365)))
        if a.chance(0.5):
            self.begin(level=1)
        self.eeg(day - timedelta(days=int(self.rng.integers(3, 30))))
        for visit in range(int(self.rng.integers(6, 15))):
            self.clinic(day, first=visit == 0)
            gap = int(self.rng.integers(60, 190))
            between = day + timedelta(days=int(self.rng.integers(10, gap - 30)))
            draw = self.rng.random()
            if draw < 0.3:
                self.phone(between)
            elif draw < 0.45 and self.rate(False) > 0:
                self.hospital(between)
            elif draw > 0.9:
                self.eeg(between)
            day += timedelta(days=gap)
        return self.chart()

    def chart(self) -> Chart:
        facts = [f for page in self.pages for f in page.facts]

        def of(kind: type[Any]) -> tuple[Any, ...]:
            return tuple(f for f in facts if isinstance(f, kind))

        end = self.pages[-1].day
        year = [rate for day, rate in self.statuses if (end - day).days <= 365]
        return Chart(
            patient_id=self.id,
            split=self.split,
            epilepsy=self.epilepsy,
            outcome=self.outcome(year),
            notes=tuple(page.note() for page in self.pages),
            medications=of(MedicationEvent),
            seizures=of(SeizureStatus),
            symptoms=of(Symptom),
            eegs=of(EegFinding),
            family=of(FamilyHistory),
            adherence=of(Adherence),
            mentions=tuple(m for page in self.pages for m in page.mentions),
            contexts=tuple(c for page in self.pages for c in page.contexts),
            identifiers=tuple(self.author.identifiers),
        )

    def outcome(self, year: Sequence[float]) -> Outcome:
        if year and not any(year):
            return "successful"
        return "refractory" if len(self.failed) >= 2 and any(year) else "undetermined"


def generate(patients: int, seed: int) -> Charts:
    """Charts of so many patients, always the same for the same seed.

    A patient's chart does not depend on how many there are. Of ten patients in a row five are for training, two for
    development and three for the test.

    Raises:
        ValueError: there are no patients, or more than four digits can number.
    """
    if not 1 <= patients <= 9999:
        raise ValueError(f"From 1 to 9,999 patients can be made; found {patients}.")
    return Charts(tuple(_Patient(number, seed).live() for number in range(patients)), seed)


def digest(charts: Charts) -> str:
    """SHA-256 of all notes and gold, for the record of a run."""
    return hashlib.sha256(repr(charts).encode()).hexdigest()
