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
from typing import Any, Final, Literal

import numpy as np

from papers.clinical_notes.gold import (
    CONTEXTS,
    LABELS,
    SPLITS,
    Action,
    Adherence,
    Chart,
    Charts,
    Context,
    ContextMention,
    EegFinding,
    Effectiveness,
    Fact,
    FamilyHistory,
    Label,
    MedicationEvent,
    Mention,
    Note,
    NoteKind,
    Outcome,
    Role,
    SeizureStatus,
    Split,
    Symptom,
    Wording,
)
from papers.clinical_notes.wording import DRUGS, Author, Page, Sentence, Slot, words

__all__ = [
    "CONTEXTS",
    "LABELS",
    "SPLITS",
    "Action",
    "Adherence",
    "Chart",
    "Charts",
    "Context",
    "ContextMention",
    "EegFinding",
    "Effectiveness",
    "Fact",
    "FamilyHistory",
    "Label",
    "MedicationEvent",
    "Mention",
    "Note",
    "NoteKind",
    "Outcome",
    "Role",
    "SeizureStatus",
    "Split",
    "Symptom",
    "Wording",
    "generate",
]

_PATTERN: Final[tuple[Split, ...]] = ("train", "test", "dev", "train", "test", "train", "train", "dev", "test", "train")

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
    history: list[Sentence] = field(default_factory=list)
    listed: list[Sentence] = field(default_factory=list)


class _Patient:
    """One patient's course over the years, written down as it goes."""

    def __init__(self, number: int, seed: int, paraphrased: float) -> None:
        self.id = f"P{number + 1:04}"
        self.split = _PATTERN[number % len(_PATTERN)]
        self.rng = np.random.default_rng([seed, number])
        self.author = a = Author(self.id, self.split, self.rng, paraphrased)
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
        self.stopped: list[str] = []
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
        self.pages: list[Page] = []
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

    def page(self, day: date, kind: NoteKind) -> Page:
        page = Page(self.author, f"{self.id}-N{len(self.pages) + 1:03}", day, kind)
        style = self.author.pick(["Date of service: {}", "Date: {}", "{}"])
        title = {"clinic visit": "Epilepsy clinic", "phone call": "Telephone encounter"}.get(kind, kind)
        title = title.upper() if self.author.chance(0.5) else title[0].upper() + title[1:]
        page.text = f"{title}\n{style.format(day)}"
        self.pages.append(page)
        return page

    def status(self, day: date, rate: float) -> Sentence:
        a, at = self.author, self.author.at(day)
        self.statuses.append((day, rate))
        if rate == 0:
            slots = {
                "sz": a.seizures(self.kind, "negated"),
                "one": a.seizure_of("one_kind", "negated"),
                "since": Slot(self.since(day)),
            }
            return a.sentence("seizure_free", slots, [SeizureStatus(**at, status="negative", per_month=0.0)])
        often = a.one_of(a.wording["rates"][rate if rate < 1 else int(rate)])
        slots = {"sz": a.seizures(self.kind, "affirmed"), "rate": often}
        return a.sentence("seizing", slots, [SeizureStatus(**at, status="positive", kind=self.kind, per_month=rate)])

    def since(self, day: date) -> str:
        last = next((d for d, r in reversed(self.statuses) if r > 0), day - timedelta(days=90))
        return f"{last:%B %Y}" if self.author.chance(0.6) else f"{last:%m/%Y}"

    def symptoms(self, day: date) -> list[Sentence]:
        """What is said of seizures and symptoms besides the seizure status."""
        a, out = self.author, []
        at = a.at(day)

        def named(name: str, context: Context) -> Slot:
            return Slot(name, context=context)

        if a.chance(0.6):
            fact = Symptom(**at, name=self.symptom, context="affirmed", role="seizure")
            out.append(a.sentence("semiology", {"sym": named(self.symptom, "affirmed")}, [fact]))
        if a.chance(0.4):
            every = a.wording["ictal_symptoms"]["focal"] + a.wording["ictal_symptoms"]["generalised"]
            other = a.pick([s for s in every if s != self.symptom])
            fact = Symptom(**at, name=other, context="negated", role="seizure")
            out.append(a.sentence("semiology_negated", {"sym": named(other, "negated")}, [fact]))
        if a.chance(0.4):
            out.append(a.sentence("sz_negated", {"sz": a.seizure_of("other_kinds", "negated")}))
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

    def complaint(self, day: date, drug: str) -> Sentence:
        a, effect = self.author, str(self.taken[drug].effect)
        fact = Symptom(**a.at(day), name=effect, context="affirmed", role="side effect", drug=drug)
        self.taken[drug].told = True
        slots = {"sym": Slot(effect, context="affirmed"), "drug": a.drug(drug)}
        return a.sentence("side_effect", slots, [fact])

    def eeg_sentence(self, day: date) -> Sentence:
        a, at = self.author, self.author.at(day)
        if not self.eeg_abnormal:
            return a.sentence("eeg_normal", {}, [EegFinding(**at, finding="normal", abnormal=False)])
        fact = EegFinding(**at, finding=self.finding, abnormal=True, region=self.region)
        return a.sentence("eeg_abnormal", {"finding": Slot(self.finding), "region": Slot(self.region)}, [fact])

    def background(self, day: date) -> list[Sentence]:
        a, out = self.author, []
        at = a.at(day)
        if self.relative:
            slots = {
                "sz": a.seizures(a.pick(self.others), "family"),
                "relative": Slot(self.relative),
                "Relative": Slot(self.relative.capitalize()),
            }
            out.append(
                a.sentence("sz_family", slots, [FamilyHistory(**at, relative=self.relative, condition="seizures")])
            )
            if a.chance(0.4):
                out.append(a.sentence("family_drug", {**slots, "drug": a.drug(a.pick(list(self.lists)), "family")}))
        else:
            fact = FamilyHistory(**at, relative="any", condition="seizures", present=False)
            out.append(a.sentence("family_none", {"sz": a.seizures(a.pick(self.others), "negated")}, [fact]))
        if a.chance(0.5):
            out.append(a.sentence("sz_historical", {"sz": a.seizure_of("other_kinds", "historical")}))
        if self.allergy:
            why = Slot("rash", context="historical")
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
                    why=Slot(effect, context="historical"),
                    effectiveness="not tolerated",
                    role="historical",
                    past=True,
                )
            )
        return out

    def listed(self, day: date) -> list[Sentence]:
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
            slots = {"sz": a.seizures(self.kind, "hypothetical"), "one": a.seizure_of("one_kind", "hypothetical")}
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

    def plan(self, day: date, rate: float, missed: bool, complaint: str | None) -> list[Sentence]:
        """Decide what to do, do it, and say so; then what stays as it is, and what might come next."""
        a = self.author
        before = {drug: taken.level for drug, taken in self.taken.items()}
        out = self.change(day, rate, missed, complaint)
        worth: Effectiveness = "effective" if rate == 0 else "partial" if rate < self.base else "ineffective"
        for drug, taken in self.taken.items():
            if before.get(drug) == taken.level:
                out.append(a.medication("keep", day, drug, "continue", **self.dosing(drug), effectiveness=worth))
        if rate > 0 and self.tried < len(self.order) and a.chance(0.4):
            later = self.order[self.tried]
            entry = self.lists[later]
            doses = {"mg": float(entry["doses"][0]), "times": entry["times"]}
            out.append(a.medication("consider", day, later, None, **doses, role="hypothetical"))
        return out

    def change(self, day: date, rate: float, missed: bool, complaint: str | None) -> list[Sentence]:
        """At most one change: for a side effect first, else for seizures, else for want of them."""
        a, more = self.author, self.tried < len(self.order)
        if not self.taken:
            drug = self.begin()
            why = Slot(a.pick(["newly diagnosed epilepsy", "a second unprovoked event", "confirmed epilepsy"]))
            return [a.medication("start", day, drug, "start", **self.dosing(drug), why=why)]
        if complaint:
            why = Slot(str(self.taken[complaint].effect), context="affirmed")
            if self.taken[complaint].severe and more:
                return [self.switched(day, complaint, why, "not tolerated")]
            return [self.moved(day, complaint, -1, why)] if self.taken[complaint].level > 0 else []
        if rate > 0 and not missed:
            return self.escalate(day, more)
        if rate == 0 and len(self.taken) > 1 and a.chance(0.3):
            drug = next(d for d in self.taken if self.works is None or d != self.order[self.works])
            del self.taken[drug]
            self.stopped.append(drug)
            why = Slot("sustained good control", value="seizure freedom")
            return [a.medication("stop", day, drug, "stop", why=why)]
        return []

    def escalate(self, day: date, more: bool) -> list[Sentence]:
        """Against seizures: a higher dose, then a second drug or another one."""
        a = self.author
        why = Slot(a.pick(["poor control", "lack of effect", "inadequate control"]), value="lack of effect")
        drug = list(self.taken)[-1]
        if self.taken[drug].level < self.top(drug):
            return [self.moved(day, drug, 1, why)]
        self.failed.add(drug)
        if not more:
            return []
        if len(self.taken) == 1 and a.chance(0.5):
            new = self.begin()
            return [a.medication("start", day, new, "start", **self.dosing(new), why=why)]
        return [self.switched(day, next(iter(self.taken)), why, "ineffective")]

    def moved(self, day: date, drug: str, steps: int, why: Slot) -> Sentence:
        """A dose one step up or down."""
        old = self.mg(drug)
        self.taken[drug].level += steps
        bank: Action = "increase" if steps > 0 else "decrease"
        return self.author.medication(bank, day, drug, bank, **self.dosing(drug), old_mg=old, why=why)

    def switched(self, day: date, old: str, why: Slot, effectiveness: Effectiveness) -> Sentence:
        del self.taken[old]
        self.stopped.append(old)
        new = self.begin(level=1)
        return self.author.medication(
            "switch", day, new, "switch", **self.dosing(new), old_drug=old, why=why, effectiveness=effectiveness
        )

    def adherence(self, day: date, missed: bool) -> Sentence:
        a = self.author
        count = int(self.rng.integers(2, 5)) if missed else 0
        fact = Adherence(**a.at(day), good=not missed, missed=count)
        return a.sentence("missed" if missed else "adherent", {"count": Slot(str(count))}, [fact])

    # -------------------------------------------------------------------------------------------------- encounters

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

    def history(self, day: date, rate: float, missed: bool, complaint: str | None) -> list[Sentence]:
        """What happened since the last visit."""
        a = self.author
        out = [self.status(day, rate), *self.symptoms(day)]
        if complaint:
            out.append(self.complaint(day, complaint))
        if self.taken:
            out.append(self.adherence(day, missed))
        if self.stopped and a.chance(0.3):
            out.append(a.sentence("no_drug", {"drug": a.drug(self.stopped[-1], "historical")}))
        return out

    def copy_forward(self, page: Page, last: _Visit) -> None:
        """The last visit's history, and sometimes its list of drugs, as if it were today's; often without saying so."""
        page.heading("copied")
        if self.author.chance(0.6):
            page.text = f"{page.text[:-1]} ({last.day})\n"
        for sentence in last.history + (last.listed if self.author.chance(0.3) else []):
            page.add(sentence, copied_from=last.note_id)

    def advice(self, p: float) -> list[Sentence]:
        """How a note ends: what to do in case of a seizure, with probability `p`, and when to come back."""
        a = self.author
        slots = {"sz": a.seizures(self.kind, "hypothetical"), "one": a.seizure_of("one_kind", "hypothetical")}
        warning = [a.sentence("sz_hypothetical", slots)] if a.chance(p) else []
        return [*warning, a.sentence("followup")]

    def identify(self, page: Page) -> None:
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
        slots = {
            "sz": a.seizures(self.kind, "affirmed"),
            "one": a.seizure_of("one_kind", "affirmed"),
            "trigger": Slot(trigger),
        }
        fact = SeizureStatus(**a.at(day), status="positive", kind=self.kind)
        reason = a.sentence("breakthrough", slots, [fact])
        self.statuses.append((day, 0.5))
        page.add(reason)
        for sentence in self.symptoms(day):
            page.add(sentence)
        drug = a.pick(["levetiracetam", "lacosamide", "lorazepam", "fosphenytoin"])
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
    """Charts of so many patients, always the same for the same seed and share.

    A patient's chart does not depend on how many there are. Of ten patients in a row five are for training, two for
    development and three for the test.

    Args:
        patients: how many.
        seed: of all that is drawn.
        paraphrased: how often, from 0 to 1, a shared sentence of a test note is worded by a language model's paraphrase
            if `data/clinical_paraphrases.yml` has one of it. Train and development notes have none.

    Raises:
        ValueError: there are no patients, or more than four digits can number; or the share is none.
    """
    if not 1 <= patients <= 9999:
        raise ValueError(f"From 1 to 9,999 patients can be made; found {patients}.")
    if not 0 <= paraphrased <= 1:
        raise ValueError(f"The share of paraphrased sentences goes from 0 to 1; found {paraphrased}.")
    return Charts(tuple(_Patient(number, seed, paraphrased).live() for number in range(patients)), seed)
