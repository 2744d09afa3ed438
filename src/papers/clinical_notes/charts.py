"""Synthetic neurology charts with gold truth (clinical_notes.md, "Data organization").

The paper's notes are private and its evaluation is empty. So this module makes patients whose course over the years is
known, has their notes worded by `papers.clinical_notes.wording`, and keeps for every fact the passage that states it.
Nothing here is about anybody. Part of the wording is held out, and part is a language model's paraphrase: both occur in
the test patients' notes only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import date, timedelta
from typing import Any

from papers.clinical_notes.course import Course
from papers.clinical_notes.gold import (
    Adherence,
    Chart,
    Charts,
    ContextMention,
    EegFinding,
    Fact,
    FamilyHistory,
    MedicationEvent,
    Mention,
    Note,
    NoteKind,
    Outcome,
    SeizureStatus,
    Symptom,
)
from papers.clinical_notes.wording import Author, Sentence, Slot


class _Page:
    """One note as it is being written."""

    def __init__(self, author: Author, note_id: str, day: date, kind: NoteKind) -> None:
        """Begin an empty page."""
        self.author, self.note_id, self.day, self.kind = author, note_id, day, kind
        self.text = ""
        self.mentions: list[Mention] = []
        self.contexts: list[ContextMention] = []
        self.facts: list[Fact] = []
        self._said: set[str] = set()

    def heading(self, name: str) -> None:
        """Begin a section."""
        title = self.author.pick(self.author.wording["headings"][name])
        self.text += ("\n\n" if self.text else "") + f"{title}:\n"

    def add(self, sentence: Sentence, *, line: bool = False, copied_from: str | None = None) -> None:
        """Put a sentence after what stands there: on a line of its own, or after a space."""
        if self.text and not self.text.endswith("\n"):
            self.text += "\n" if line else " "
        at, id = len(self.text), self.note_id
        self.text += sentence.text
        end = len(self.text)
        self.mentions += [replace(m, note_id=id, start=m.start + at, end=m.end + at) for m in sentence.mentions]
        self.contexts += [replace(c, note_id=id, start=c.start + at, end=c.end + at) for c in sentence.contexts]
        self.facts += [replace(f, note_id=id, start=at, end=end, copied_from=copied_from) for f in sentence.facts]

    def filler(self, bank: str, n: int) -> None:
        """So many sentences of no consequence, none of them twice."""
        for _ in range(n):
            template = self.author.bank(self.author.wording[bank])
            if template.source not in self._said:
                self._said.add(template.source)
                self.add(self.author.sentence(bank, template=template))

    def note(self) -> Note:
        """The note as written so far."""
        whose = self.author.patient_id
        return Note(note_id=self.note_id, patient_id=whose, date=self.day, kind=self.kind, text=self.text)


@dataclass
class _Visit:
    """What a clinic note says of the time before it, kept for the next note to copy."""

    note_id: str
    day: date
    history: list[Sentence] = field(default_factory=list)
    listed: list[Sentence] = field(default_factory=list)


class _Patient(Course):
    """One patient, whose course is written down as it goes."""

    def __init__(self, number: int, seed: int, paraphrased: float) -> None:
        super().__init__(number, seed, paraphrased)
        self.pages: list[_Page] = []
        self.last: _Visit | None = None

    def page(self, day: date, kind: NoteKind) -> _Page:
        page = _Page(self.author, f"{self.id}-N{len(self.pages) + 1:03}", day, kind)
        style = self.author.pick(["Date of service: {}", "Date: {}", "{}"])
        title = {"clinic visit": "Epilepsy clinic", "phone call": "Telephone encounter"}.get(kind, kind)
        title = title.upper() if self.author.chance(0.5) else title[0].upper() + title[1:]
        page.text = f"{title}\n{style.format(day)}"
        self.pages.append(page)
        return page

    def clinic(self, day: date, first: bool) -> None:
        a, page = self.author, self.page(day, "clinic visit")
        missed = not first and bool(self.taken) and a.chance(0.15)
        rate = self.rate(missed)
        complaint = next((d for d, t in self.taken.items() if t.effect and not t.told and not first), None)
        visit = _Visit(page.note_id, day, self.history(day, rate, missed, complaint), self.listed(day))
        page.text += "\n\n"
        page.add(a.sentence("opening", {"epilepsy": Slot(self.epilepsy), "years": Slot(str(day.year - a.born))}))
        page.heading("history")
        for sentence in visit.history:
            page.add(sentence)
        page.filler("filler", int(self.rng.integers(1, 5)))
        if self.last and a.chance(0.3):
            self.copy_forward(page, self.last)
        if first or a.chance(0.3):
            page.heading("background")
            for sentence in self.background(day):
                page.add(sentence)
        if visit.listed:
            page.heading("medications")
        for i, sentence in enumerate(visit.listed, start=1):
            page.text += f"{'' if i == 1 else chr(10)}{i}."
            page.add(sentence)
        page.heading("examination")
        page.filler("filler", int(self.rng.integers(5, 11)))
        if self.eeg_day and a.chance(0.5):
            page.add(self.eeg_sentence(self.eeg_day))
        if a.chance(0.06):
            self.identify(page)
        page.heading("plan")
        for sentence in [*self.plan(day, rate, missed, complaint), *self.advice(0.6)]:
            page.add(sentence, line=True)
        self.last = visit

    def copy_forward(self, page: _Page, last: _Visit) -> None:
        """The last visit's history, and sometimes its list of drugs, as if it were today's; often without saying so."""
        page.heading("copied")
        if self.author.chance(0.6):
            page.text = f"{page.text[:-1]} ({last.day})\n"
        for sentence in last.history + (last.listed if self.author.chance(0.3) else []):
            page.add(sentence, copied_from=last.note_id)

    def identify(self, page: _Page) -> None:
        """Leave a record or telephone number in the note."""
        a = self.author
        mrn = f"00-{self.rng.integers(10**6, 10**7)}"
        telephone = f"(555) 01{self.rng.integers(10)}-{self.rng.integers(1000, 10000)}"
        sentence = a.sentence("identifier", {"mrn": Slot(mrn), "telephone": Slot(telephone)})
        a.identifiers += [number for number in (mrn, telephone) if number in sentence.text]
        page.add(sentence)

    def phone(self, day: date) -> None:
        a, page = self.author, self.page(day, "phone call")
        page.text += "\n"
        page.add(a.sentence("phone"))
        complaint = next((d for d, t in self.taken.items() if t.effect and not t.told), None)
        if complaint and not self.taken[complaint].severe and self.taken[complaint].level > 0:
            page.add(self.complaint(day, complaint))
            why = Slot(str(self.taken[complaint].effect), context="affirmed")
            page.add(self.moved(day, complaint, -1, why))
        elif a.chance(0.5):
            rate = self.rate(False)
            page.add(self.status(day, rate))
            drug = list(self.taken)[-1]
            if rate > 0 and self.taken[drug].level < self.top(drug):
                page.add(self.moved(day, drug, 1, Slot("poor control", value="lack of effect")))
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
        slots = {"sz": a.seizures(self.kind, "affirmed"), "one": a.seizure_of("one_kind", "affirmed")}
        slots["trigger"] = Slot(trigger)
        fact = SeizureStatus(**a.at(day), status="positive", kind=self.kind)
        reason = a.sentence("breakthrough", slots, [fact])
        self.statuses.append((day, 0.5))
        page.add(reason)
        for sentence in self.symptoms(day):
            page.add(sentence)
        drug = a.pick(["levetiracetam", "lacosamide", "lorazepam", "fosphenytoin"])
        loads = {"levetiracetam": a.pick([1000, 1500, 2000]), "lacosamide": 200, "lorazepam": a.pick([2, 4])}
        mg = loads.get(drug, 1000)
        load = a.medication("load", day, drug, "single dose", mg=float(mg), times="once", route="intravenous")
        page.add(load)
        page.heading("background")
        for sentence in self.background(day):
            page.add(sentence)
        page.heading("medications")
        for sentence in self.listed(day):
            page.add(sentence, line=True)
        page.heading("examination")
        page.filler("filler", int(self.rng.integers(5, 11)))

        out = day + timedelta(days=int(self.rng.integers(1, 6)))
        page_in, page = page, self.page(out, "discharge summary")
        page.heading("course")
        page.add(replace(reason, facts=tuple(replace(f, date=day) for f in reason.facts)), copied_from=page_in.note_id)
        page.add(load, copied_from=page_in.note_id)
        page.add(a.sentence("no_inpatient", {k: replace(v, context="negated") for k, v in slots.items() if v.context}))
        page.filler("filler", int(self.rng.integers(2, 5)))
        last = list(self.taken)[-1]
        if self.taken[last].level < self.top(last):
            page.add(self.moved(out, last, 1, Slot("breakthrough events", value="lack of effect")))
        page.heading("discharge")
        for sentence in self.listed(out):
            page.add(sentence, line=True)
        for sentence in self.advice(1.0):
            page.add(sentence, line=True)

    def eeg(self, day: date) -> None:
        a, page = self.author, self.page(day, "EEG report")
        self.eeg_day = day
        page.heading("technique")
        page.filler("eeg_technique", int(self.rng.integers(2, 5)))
        page.heading("impression")
        page.add(self.eeg_sentence(day))
        if self.eeg_abnormal and a.chance(0.3):
            slots = {"one": a.seizure_of("one_kind", "affirmed"), "region": Slot(self.region)}
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


def generate(patients: int, seed: int, paraphrased: float = 0.0) -> Charts:
    """Charts of so many patients, always the same for the same seed and share, whatever their number.

    Of ten patients in a row five are for training, two for development and three for the test. `paraphrased` says how
    often, from 0 to 1, a shared sentence of a test note takes a paraphrase that `data/clinical_paraphrases.yml` has.

    Raises:
        ValueError: there are no patients, or more than four digits can number; or the share is none.
    """
    if not 1 <= patients <= 9999:
        raise ValueError(f"From 1 to 9,999 patients can be made; found {patients}.")
    if not 0 <= paraphrased <= 1:
        raise ValueError(f"The share of paraphrased sentences goes from 0 to 1; found {paraphrased}.")
    return Charts(tuple(_Patient(number, seed, paraphrased).live() for number in range(patients)), seed)
