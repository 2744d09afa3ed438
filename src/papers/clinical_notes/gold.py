"""What a synthetic chart holds: notes, the facts stated in them, and the spans that name drugs.

`charts` makes them.
"""

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from typing import Literal, TypeVar, get_args

Split = Literal["train", "dev", "test"]
NoteKind = Literal[
    "clinic visit", "phone call", "admission", "discharge summary", "EEG report", "clinical note"
]
"""Kinds of the synthetic notes, and what own notes are."""
NO_DATE = date.min
"""Date of a note whose date is not known."""
Action = Literal["start", "increase", "decrease", "stop", "continue", "switch", "single dose"]
Effectiveness = Literal["effective", "partial", "ineffective", "not tolerated"]
Outcome = Literal["successful", "refractory", "undetermined"]
Context = Literal["affirmed", "negated", "historical", "family", "hypothetical"]
Role = Literal["current", "historical", "hypothetical", "family", "allergy"]
Wording = Literal["shared", "held out", "paraphrased"]
"""Source of a sentence's words: shared by all notes, held out for test notes, or an LLM's."""
Label = Literal["DRUG", "STRENGTH", "DOSAGE", "FREQUENCY", "ROUTE", "FORM", "DURATION"]

LABELS: tuple[Label, ...] = get_args(Label)
"""Med7's seven labels (Kormilitzin et al. 2021)."""
CONTEXTS: tuple[Context, ...] = get_args(Context)
"""medspaCy's classes of ConText; affirmed is what none of its modifiers touches."""


@dataclass(frozen=True, kw_only=True)
class Note:
    """One dated note, with misspellings, redactions and odd characters.

    Its identifier begins with the patient's.

    Attributes:
        untidy: Whether it has the forms of real notes; see `untidy`.
        source: Where it was read, such as a path within a folder; empty for a synthetic one.
    """

    note_id: str
    patient_id: str
    date: date
    kind: NoteKind
    text: str
    untidy: bool = False
    source: str = ""


@dataclass(frozen=True, kw_only=True)
class Fact:
    """Something true of a patient, and the sentence that states it.

    Attributes:
        note_id: The note that states it.
        start: First character of the sentence in the note.
        end: Last character of the sentence, plus one.
        date: When it was so. A passage that was copied forward has the date of the older note.
        copied_from: The older note, if the passage was copied forward.
    """

    note_id: str = ""
    start: int = 0
    end: int = 0
    date: date
    copied_from: str | None = None

    def is_own_of(self, note_id: str) -> bool:
        """Whether a note states it itself, and does not copy it from an older one."""
        return self.note_id == note_id and self.copied_from is None


FactT = TypeVar("FactT", bound=Fact)


@dataclass(frozen=True, kw_only=True)
class MedicationEvent(Fact):
    """What happened to one drug at one date; what the passage does not state is None.

    Attributes:
        drug: Generic name.
        action: What was done.
        dose_mg: Dose at one time, after the event, in mg.
        units: Units of the form, such as tablets, that make the dose.
        times_per_day: How often the dose is taken.
        replaces: The drug that a switch ends.
        reason: Why it was done.
        effectiveness: How well the drug worked.
        past: Whether it happened before the chart begins; ``date`` is then that of the note.
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

    @property
    def states_regimen(self) -> bool:
        """Whether the passage states both the dose and how often it is taken."""
        return self.dose_mg is not None and bool(self.times_per_day)


@dataclass(frozen=True, kw_only=True)
class SeizureStatus(Fact):
    """Whether the patient had seizures up to `date`.

    A note without one has the paper's status "unknown".
    """

    status: Literal["positive", "negative"]


@dataclass(frozen=True, kw_only=True)
class Symptom(Fact):
    """A part of a seizure or an effect of a drug, and whether the patient has it.

    The drug is named where the passage names it.
    """

    name: str
    context: Context
    role: Literal["seizure", "side effect"]
    drug: str | None = None

    @property
    def is_ictal(self) -> bool:
        """Whether it is a part of the patient's seizures."""
        return self.role == "seizure" and self.context == "affirmed"


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

    Attributes:
        note_id: The note.
        start: First character in the note.
        end: Last character in the note, plus one.
        label: Med7's label.
        value: What the span stands for, in one spelling ("500 mg", "oral").
        drug: Generic name of the drug that it belongs to.
        role: Whether the patient takes that drug then, took it once, might, is allergic to it,
            or a relative takes it.
        wording: Source of the sentence's words.
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
    """A patient's notes in order of date, with facts and spans in order of note and place.

    Attributes:
        patient_id: The patient.
        split: What the chart may be used for.
        outcome: Successful (no seizures in the last year), refractory (seizures in spite of two
            drugs at a full dose), or undetermined.
        notes: The notes.
        facts: All facts, copies included.
        mentions: All spans.
        identifiers: Made-up numbers that a note gives away. None may reach a record or the book.
    """

    patient_id: str
    split: Split
    outcome: Outcome
    notes: tuple[Note, ...]
    facts: tuple[Fact, ...]
    mentions: tuple[Mention, ...]
    identifiers: tuple[str, ...]

    def facts_of(self, kind: type[FactT]) -> list[FactT]:
        """Select the facts of one kind."""
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
        notes: list[Note] = []
        for chart in self.charts:
            if split is None or split == chart.split:
                notes.extend(chart.notes)
        return notes

    @property
    def sha256(self) -> str:
        """Digest of all notes and gold, for the record of a run."""
        return hashlib.sha256(repr(self.charts).encode()).hexdigest()

    @property
    def mark(self) -> str:
        """First words of every caption of a table or figure made from these charts."""
        return "Synthetic charts"
