"""What a synthetic chart holds: notes, the facts stated in them, and the spans that name things.

Facts point at the passages that state them, spans at their characters. `papers.clinical_notes.charts` makes them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Literal, get_args

Split = Literal["train", "dev", "test"]
NoteKind = Literal["clinic visit", "phone call", "admission", "discharge summary", "EEG report"]
Action = Literal["start", "increase", "decrease", "stop", "continue", "switch", "single dose"]
Effectiveness = Literal["effective", "partial", "ineffective", "not tolerated"]
Outcome = Literal["successful", "refractory", "undetermined"]
Context = Literal["affirmed", "negated", "historical", "family", "hypothetical"]
Role = Literal["current", "historical", "hypothetical", "family", "allergy"]
Wording = Literal["shared", "held out", "paraphrased"]
"""Whose words a sentence is in: those that all notes share, those that only test notes have, a language model's."""
Label = Literal["DRUG", "STRENGTH", "DOSAGE", "FREQUENCY", "ROUTE", "FORM", "DURATION"]

LABELS: tuple[Label, ...] = get_args(Label)
"""Med7's seven labels (Kormilitzin et al. 2021)."""
CONTEXTS: tuple[Context, ...] = get_args(Context)
"""medspaCy's classes of ConText; affirmed is what none of its modifiers touches."""


# ------------------------------------------------------------------------------------------------- notes and gold


@dataclass(frozen=True, kw_only=True)
class Note:
    """One dated note, with misspellings, redactions and odd characters; its id begins with the patient's."""

    note_id: str
    patient_id: str
    date: date
    kind: NoteKind
    text: str


@dataclass(frozen=True, kw_only=True)
class Fact:
    """Something true of a patient, and the sentence that states it: `note.text[start:end]`.

    `date` is when it was so; of a passage that was copied forward (`copied_from`) the date of the older note.
    """

    patient_id: str
    note_id: str
    start: int
    end: int
    date: date
    copied_from: str | None = None


@dataclass(frozen=True, kw_only=True)
class MedicationEvent(Fact):
    """What happened to one drug at one date; what the passage does not state is None.

    Attributes:
        drug: generic name, a key of `data/clinical_drugs.yml` where that has it.
        dose_mg: at one time, after the event; `unit` is as written.
        units: of the form at one time ("2 tablets" of `dose_mg / units` each); 1 where it is not said.
        replaces: the drug that a switch ends.
        reason: in the passage's own terms (a side effect, seizures, seizure freedom).
        effectiveness: how well the drug worked up to then.
        past: from before the chart begins; `date` is then that of the note.
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
    """Whether the patient had seizures up to `date`, of which kind and how many a month (None: not said).

    A note that says nothing has no such fact, which is the paper's "unknown".
    """

    status: Literal["positive", "negative"]
    kind: str | None = None
    per_month: float | None = None


@dataclass(frozen=True, kw_only=True)
class Symptom(Fact):
    """A part of a seizure, or an effect of a drug (named where the passage says so), and whether the patient has it."""

    name: str
    context: Context
    role: Literal["seizure", "side effect"]
    drug: str | None = None


@dataclass(frozen=True, kw_only=True)
class EegFinding(Fact):
    """What an EEG showed, and where, if it says."""

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
        value: what it stands for, in one spelling: the generic name, "500 mg", times a day, "oral", "tablet".
        drug: the generic name that it belongs to; its own for a DRUG.
        role: whether the patient takes that drug then, took it once, might, is allergic to it, or a relative takes it.
        wording: whose words the sentence is in; a held-out term in any sentence is held out.
        template: the shared wording that the sentence is in, or that was paraphrased; a held-out one is itself.
    """

    note_id: str
    start: int
    end: int
    label: Label
    value: str
    drug: str
    role: Role = "current"
    wording: Wording = "shared"
    template: str = ""


@dataclass(frozen=True, kw_only=True)
class ContextMention:
    """One span that names a seizure or a symptom, and its ConText class."""

    note_id: str
    start: int
    end: int
    term: str
    context: Context
    wording: Wording = "shared"
    template: str = ""


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A patient's notes in order of date, all gold facts in order of note and place (copies included), and all spans.

    `outcome` is successful (no seizures in the last year), refractory (seizures in spite of two drugs at a full dose),
    or undetermined. `identifiers` are made-up numbers that a note gives away: none may reach a record or the book.
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

    @property
    def spans(self) -> tuple[Mention | ContextMention, ...]:
        """All gold spans, kind after kind."""
        return (*self.mentions, *self.contexts)


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
    def sha256(self) -> str:
        """Digest of all notes and gold, for the record of a run."""
        return hashlib.sha256(repr(self.charts).encode()).hexdigest()

    @property
    def mark(self) -> str:
        """What every caption of a table or figure made from these charts begins with."""
        return f"SYNTHETIC charts, generated by this project, seed {self.seed}"
