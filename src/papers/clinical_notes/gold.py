"""What a synthetic chart holds: notes, the facts stated in them, and the spans that name drugs; `charts` makes them."""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Literal, TypeVar, get_args

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

    note_id: str = ""
    start: int = 0
    end: int = 0
    date: date
    copied_from: str | None = None


FactT = TypeVar("FactT", bound=Fact)


@dataclass(frozen=True, kw_only=True)
class MedicationEvent(Fact):
    """What happened to one drug (by generic name) at one date; what the passage does not state is None.

    The dose is at one time, after the event, in so many units of the form. `replaces` is the drug that a switch ends.
    A `past` event is from before the chart begins; `date` is then that of the note.
    """

    drug: str
    action: Action
    dose_mg: float | None = None
    units: float = 1
    times_per_day: float | None = None
    replaces: str | None = None
    reason: str | None = None
    effectiveness: Effectiveness | None = None
    past: bool = False


@dataclass(frozen=True, kw_only=True)
class SeizureStatus(Fact):
    """Whether the patient had seizures up to `date`; a note without one has the paper's status "unknown"."""

    status: Literal["positive", "negative"]


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
class Mention:
    """One span of a note with one of Med7's seven labels.

    `value` is what it stands for in one spelling ("500 mg", "oral"), `drug` the generic name that it belongs to. `role`
    says whether the patient takes that drug then, took it once, might, is allergic to it, or a relative takes it.
    """

    note_id: str = ""
    start: int = 0
    end: int = 0
    label: Label
    value: str
    drug: str
    role: Role = "current"
    wording: Wording = "shared"


@dataclass(frozen=True, kw_only=True)
class Chart:
    """A patient's notes in order of date, with all facts (copies included) and spans in order of note and place.

    `outcome` is successful (no seizures in the last year), refractory (seizures in spite of two drugs at a full dose),
    or undetermined. `identifiers` are made-up numbers that a note gives away: none may reach a record or the book.
    """

    patient_id: str
    split: Split
    outcome: Outcome
    notes: tuple[Note, ...]
    facts: tuple[Fact, ...]
    mentions: tuple[Mention, ...]
    identifiers: tuple[str, ...]

    def of(self, kind: type[FactT]) -> list[FactT]:
        """The facts of one kind."""
        return [fact for fact in self.facts if isinstance(fact, kind)]


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
        return [
            note for chart in self.charts if split in (None, chart.split) for note in chart.notes
        ]

    @property
    def sha256(self) -> str:
        """Digest of all notes and gold, for the record of a run."""
        return hashlib.sha256(repr(self.charts).encode()).hexdigest()

    @property
    def mark(self) -> str:
        """What every caption of a table or figure made from these charts begins with."""
        return "Synthetic charts"
