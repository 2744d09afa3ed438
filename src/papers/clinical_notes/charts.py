"""Synthetic neurology charts with gold truth (clinical_notes.md, "Data organization").

We found no release of the paper's notes, and its evaluation is empty. So this module writes the
notes of made-up patients whose course is known, and records for every fact the passage that states
it.
They describe no real person. Held-out wording and an LLM's paraphrases occur in the test
patients' notes only.
"""

from dataclasses import replace
from datetime import date, timedelta

from papers.clinical_notes.course import Course
from papers.clinical_notes.gold import (
    Chart,
    Charts,
    EegFinding,
    Fact,
    Mention,
    Note,
    NoteKind,
    Outcome,
    SeizureStatus,
)
from papers.clinical_notes.untidy import make_untidy
from papers.clinical_notes.wording import Author, Sentence


class _Page:
    """One note under construction."""

    def __init__(self, author: Author, note_id: str, day: date, kind: NoteKind, text: str) -> None:
        self.author = author
        self.note_id = note_id
        self.day = day
        self.kind = kind
        self.text = text
        self.mentions: list[Mention] = []
        self.facts: list[Fact] = []
        self.is_untidy = author.is_untidy
        self._said: set[str] = set()

    def heading(self, name: str) -> None:
        """Begin a section."""
        self.text += f"\n\n{self.author.pick(self.author.wording['headings'][name])}:\n"

    def add(self, *sentences: Sentence, line: bool = False, copied_from: str | None = None) -> None:
        """Append sentences: each on a new line, or after a space."""
        for sentence in sentences:
            if not self.text.endswith("\n"):
                self.text += "\n" if line else " "
            start = len(self.text)
            self.text += sentence.text
            end = len(self.text)
            for mention in sentence.mentions:
                first, last = start + mention.start, start + mention.end
                placed = replace(mention, note_id=self.note_id, start=first, end=last)
                self.mentions.append(placed)
            for fact in sentence.facts:
                self.facts.append(
                    replace(
                        fact, note_id=self.note_id, start=start, end=end, copied_from=copied_from
                    )
                )

    def numbered(self, sentences: list[Sentence]) -> None:
        """Append sentences as a numbered list; an untidy note has lines without numbers."""
        if self.is_untidy:
            self.add(*sentences, line=True)
            return
        for number, sentence in enumerate(sentences, start=1):
            if number > 1:
                self.text += "\n"
            self.text += f"{number}."
            self.add(sentence)

    def filler(self, bank: str, n: int) -> None:
        """So many sentences of no consequence, none of them twice."""
        for _ in range(n):
            template = self.author.bank(self.author.wording[bank])
            if template.source not in self._said:
                self._said.add(template.source)
                self.add(self.author.sentence(bank, template=template))


class _Patient(Course):
    """One patient, whose course is written down as it goes."""

    def __init__(self, number: int, seed: int, paraphrased: float, untidy: float) -> None:
        super().__init__(number, seed, paraphrased, untidy)
        self.pages: list[_Page] = []
        self.identifiers: list[str] = []
        self.last: tuple[_Page, list[Sentence], list[Sentence]] | None = None
        """The last visit's page, history and list of drugs, for the next note to copy."""

    def page(self, day: date, kind: NoteKind) -> _Page:
        self.is_untidy = bool(self.untidy) and self.chance(self.untidy)
        style = self.pick(["Date of service: {}", "Date: {}", "{}"])
        title = {"clinic visit": "Epilepsy clinic", "phone call": "Telephone encounter"}.get(
            kind, kind
        )
        title = title.upper() if self.chance(0.5) else title[0].upper() + title[1:]
        text = f"{title}\n{style.format(day)}"
        self.pages.append(_Page(self, f"{self.id}-N{len(self.pages) + 1:03}", day, kind, text))
        return self.pages[-1]

    def clinic(self, day: date, first: bool) -> None:
        page = self.page(day, "clinic visit")
        missed = not first and bool(self.taken) and self.chance(0.15)
        rate = self.rate(missed)
        complaint = None if first else self.complained()
        history, listed = self.history(day, rate, missed, complaint), self.listed(day)
        page.text += "\n\n"
        page.add(
            self.sentence(
                "opening", {"epilepsy": self.epilepsy, "years": str(day.year - self.born)}
            )
        )
        page.heading("history")
        page.add(*history)
        page.filler("filler", int(self.rng.integers(1, 5)))
        if self.last and self.chance(0.3):
            self.copy_forward(page, *self.last)
        if first or self.chance(0.3):
            page.heading("background")
            page.add(*self.background(day), line=page.is_untidy)
        if listed:
            page.heading("medications")
            page.numbered(listed)
        self.examine(page)
        page.heading("plan")
        page.add(*self.plan(day, rate, missed, complaint), *self.advice(0.6), line=True)
        self.last = (page, history, listed)

    def examine(self, page: _Page) -> None:
        """What a visit finds."""
        page.heading("examination")
        page.filler("filler", int(self.rng.integers(5, 11)))
        if self.eeg_day and self.chance(0.5):
            page.add(self.eeg_sentence(self.eeg_day))
        if self.chance(0.06):
            self.identify(page)

    def copy_forward(
        self, page: _Page, last: _Page, history: list[Sentence], listed: list[Sentence]
    ) -> None:
        """Copy the last visit's history, and at times its list of drugs, often without its date."""
        page.heading("copied")
        if self.chance(0.6):
            page.text = f"{page.text[:-1]} ({last.day})\n"
        page.add(*(history + (listed if self.chance(0.3) else [])), copied_from=last.note_id)

    def identify(self, page: _Page) -> None:
        """Leave a record or telephone number in the note."""
        mrn = f"00-{self.rng.integers(10**6, 10**7)}"
        telephone = f"(555) 01{self.rng.integers(10)}-{self.rng.integers(1000, 10000)}"
        sentence = self.sentence("identifier", {"mrn": mrn, "telephone": telephone})
        self.identifiers += [number for number in (mrn, telephone) if number in sentence.text]
        page.add(sentence)

    def phone(self, day: date) -> None:
        page = self.page(day, "phone call")
        page.text += "\n"
        page.add(self.sentence("phone"))
        complaint = self.complained()
        if complaint and not self.taken[complaint].severe and self.taken[complaint].level > 0:
            page.add(self.complaint(day, complaint))
            page.add(self.moved(day, complaint, -1, self.taken[complaint].effect))
        elif self.chance(0.5):
            rate = self.rate(False)
            page.add(self.status(day, rate))
            drug = list(self.taken)[-1]
            if rate > 0 and self.can_rise(drug):
                page.add(self.moved(day, drug, 1, "poor control", "lack of effect"))
        else:
            drug = self.pick(list(self.taken))
            page.add(self.medication("taking", day, drug, "continue", **self.dosing(drug)))
            page.add(self.sentence("adherent"))
        page.add(self.sentence("followup"))

    def hospital(self, day: date) -> None:
        """An admission for breakthrough seizures, and the discharge a few days later."""
        admission = self.page(day, "admission")
        trigger = self.pick(self.wording["triggers"])
        admission.heading("history")
        seizures = {"sz": self.seizures(self.kind), "one": self.seizure_of("one_kind")}
        fact = SeizureStatus(date=day, status="positive")
        reason = self.sentence("breakthrough", {**seizures, "trigger": trigger}, [fact])
        self.statuses.append((day, 0.5))
        admission.add(reason)
        admission.add(*self.symptoms(day))
        load = self.loading_dose(day)
        admission.add(load)
        admission.heading("background")
        admission.add(*self.background(day), line=admission.is_untidy)
        admission.heading("medications")
        admission.add(*self.listed(day), line=True)
        admission.heading("examination")
        admission.filler("filler", int(self.rng.integers(5, 11)))
        out = day + timedelta(days=int(self.rng.integers(1, 6)))
        page = self.page(out, "discharge summary")
        page.heading("course")
        page.add(reason, load, copied_from=admission.note_id)
        page.add(self.sentence("no_inpatient", seizures))
        self.discharge(page, out)

    def loading_dose(self, day: date) -> Sentence:
        """A single dose on arrival."""
        drug = self.pick(["levetiracetam", "lacosamide", "lorazepam", "fosphenytoin"])
        loads = {
            "levetiracetam": self.pick([1000, 1500, 2000]),
            "lacosamide": 200,
            "lorazepam": self.pick([2, 4]),
        }
        mg = float(loads.get(drug, 1000))
        return self.medication(
            "load", day, drug, "single dose", mg=mg, times="once", route="intravenous"
        )

    def discharge(self, page: _Page, day: date) -> None:
        """What changes at the end of an admission."""
        page.filler("filler", int(self.rng.integers(2, 5)))
        last = list(self.taken)[-1]
        if self.can_rise(last):
            page.add(self.moved(day, last, 1, "breakthrough events", "lack of effect"))
        page.heading("discharge")
        page.add(*self.listed(day), *self.advice(1.0), line=True)

    def eeg(self, day: date) -> None:
        page = self.page(day, "EEG report")
        self.eeg_day = day
        page.heading("technique")
        page.filler("eeg_technique", int(self.rng.integers(2, 5)))
        page.heading("impression")
        page.add(self.eeg_sentence(day))
        if self.eeg_abnormal and self.chance(0.3):
            slots = {"one": self.seizure_of("one_kind"), "region": self.region}
            finding = EegFinding(date=day, finding="seizure", abnormal=True, region=self.region)
            status = SeizureStatus(date=day, status="positive")
            page.add(self.sentence("eeg_seizure", slots, [finding, status]))
        else:
            page.add(self.sentence("eeg_no_seizure", {"sz": self.seizures(self.kind)}))

    def live(self) -> Chart:
        """The whole chart."""
        day = date(2014, 1, 1) + timedelta(days=int(self.rng.integers(0, 5 * 365)))
        if self.chance(0.5):
            self.begin(level=1)
        lead = int(self.rng.integers(3, 30))
        self.eeg(day - timedelta(days=lead))
        for visit in range(int(self.rng.integers(6, 15))):
            self.clinic(day, first=visit == 0)
            gap = int(self.rng.integers(60, 190))
            wait = int(self.rng.integers(10, gap - 30))
            self.between_visits(day + timedelta(days=wait))
            day += timedelta(days=gap)
        return self.chart()

    def between_visits(self, day: date) -> None:
        """A call, an admission, an EEG or nothing."""
        draw = self.rng.random()
        if draw < 0.3:
            self.phone(day)
        elif draw < 0.45 and self.rate(False) > 0:
            self.hospital(day)
        elif draw > 0.9:
            self.eeg(day)

    def chart(self) -> Chart:
        """Bind the pages."""
        notes = []
        facts: list[Fact] = []
        mentions: list[Mention] = []
        for page in self.pages:
            text = make_untidy(page.text, page.mentions, self.rng) if page.is_untidy else page.text
            note = Note(
                note_id=page.note_id,
                patient_id=self.id,
                date=page.day,
                kind=page.kind,
                text=text,
                untidy=page.is_untidy,
            )
            notes.append(note)
            facts += page.facts
            mentions += page.mentions
        return Chart(
            patient_id=self.id,
            split=self.split,
            outcome=self.outcome(),
            notes=tuple(notes),
            facts=tuple(facts),
            mentions=tuple(mentions),
            identifiers=tuple(self.identifiers),
        )

    def outcome(self) -> Outcome:
        year = [rate for day, rate in self.statuses if (self.pages[-1].day - day).days <= 365]
        if year and not any(year):
            return "successful"
        return "refractory" if len(self.failed) >= 2 and any(year) else "undetermined"


def generate(patients: int, seed: int, paraphrased: float = 0.0, untidy: float = 0.0) -> Charts:
    """Write charts, always the same for the same seed and shares, whatever their number.

    Of ten patients in a row five are for training, two for development and three for the test.

    Args:
        patients: Number of patients, 1 to 9,999.
        seed: Seed of all draws.
        paraphrased: Share, from 0 to 1, of a test note's shared sentences that take a paraphrase
            of `data/clinical_paraphrases.yml`, where there is one.
        untidy: Share, from 0 to 1, of the notes in forms of real ones: see `untidy`.

    Raises:
        ValueError: If the number of patients or a share is out of range.
    """
    if not 1 <= patients <= 9999:
        raise ValueError(f"From 1 to 9,999 patients can be made; found {patients}.")
    for name, share in (("paraphrased sentences", paraphrased), ("untidy notes", untidy)):
        if not 0 <= share <= 1:
            raise ValueError(f"The share of {name} goes from 0 to 1; found {share}.")
    charts = [_Patient(number, seed, paraphrased, untidy).live() for number in range(patients)]
    return Charts(tuple(charts), seed)
