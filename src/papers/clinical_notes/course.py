"""The course of one made-up patient over the years, and the sentences that tell of it.

A drug stops the seizures or does not; doses are raised, drugs added, switched for a side effect, and given up.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any, Final, Literal

import numpy as np

from papers.clinical_notes.gold import (
    Action,
    Adherence,
    Context,
    EegFinding,
    Effectiveness,
    FamilyHistory,
    SeizureStatus,
    Split,
    Symptom,
)
from papers.clinical_notes.wording import DRUGS, Author, Sentence, Slot, words

_PATTERN: Final[tuple[Split, ...]] = ("train", "test", "dev", "train", "test", "train", "train", "dev", "test", "train")
_RESCUE = (
    ("diazepam", 10, "rectal", "gel"),
    ("midazolam", 5, "intranasal", "nasal spray"),
    ("clonazepam", 1, "oral", "tablet"),
    ("lorazepam", 1, "oral", "tablet"),
)


@dataclass
class _Taken:
    """A drug that the patient takes: step of its titration, form, and what it will turn out to cause."""

    level: int
    form: str
    effect: str | None
    severe: bool
    told: bool = False


class Course:
    """The disease, the decisions about it, and how they are said."""

    def __init__(self, number: int, seed: int, paraphrased: float) -> None:
        """Draw who the patient is, and what will help."""
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
        others = self.rng.permutation(10)[: int(self.rng.integers(0, 3))]
        self.comedication = [a.wording["comedication"][i] for i in others]
        self.symptom = a.pick(a.wording["ictal_symptoms"][self.epilepsy])
        self.finding = a.pick(a.wording["eeg_findings"])
        self.region = a.pick(a.wording["eeg_regions"][self.epilepsy])
        self.eeg_abnormal = a.chance(0.7)
        self.eeg_day: date | None = None
        self.relative = a.pick(a.wording["relatives"]) if a.chance(0.35) else None
        self.allergy = self.order.pop() if a.chance(0.25) else None
        self.past = self.order.pop() if a.chance(0.3) else None
        self.has_rescue = a.chance(0.3)
        self.statuses: list[tuple[date, float]] = []

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
        """The last step of a drug's titration."""
        return len(self.lists[drug]["doses"]) - 1

    def mg(self, drug: str) -> float:
        """Its dose at one time."""
        return float(self.lists[drug]["doses"][self.taken[drug].level])

    def dosing(self, drug: str) -> dict[str, Any]:
        """Dose, times and form of a drug as it is taken now."""
        return {"mg": self.mg(drug), "times": self.lists[drug]["times"], "form": self.taken[drug].form}

    def begin(self, level: int = 0) -> str:
        """The next drug of the order, begun at a step of its titration."""
        drug = self.order[self.tried]
        self.tried += 1
        entry, a = self.lists[drug], self.author
        effect = a.pick(entry["effects"]) if a.chance(0.35) else None
        self.taken[drug] = _Taken(level, a.pick(entry["forms"]), effect, a.chance(0.5))
        return drug

    def status(self, day: date, rate: float) -> Sentence:
        """Whether there were seizures, and how often."""
        a, at = self.author, self.author.at(day)
        self.statuses.append((day, rate))
        if rate == 0:
            slots = {"sz": a.seizures(self.kind, "negated"), "one": a.seizure_of("one_kind", "negated")}
            slots["since"] = Slot(self.since(day))
            return a.sentence("seizure_free", slots, [SeizureStatus(**at, status="negative", per_month=0.0)])
        often = a.one_of(a.wording["rates"][rate if rate < 1 else int(rate)])
        slots = {"sz": a.seizures(self.kind, "affirmed"), "rate": often}
        return a.sentence("seizing", slots, [SeizureStatus(**at, status="positive", kind=self.kind, per_month=rate)])

    def since(self, day: date) -> str:
        """The month of the last seizure."""
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
        """A side effect, told for the first time."""
        a, effect = self.author, str(self.taken[drug].effect)
        fact = Symptom(**a.at(day), name=effect, context="affirmed", role="side effect", drug=drug)
        self.taken[drug].told = True
        slots = {"sym": Slot(effect, context="affirmed"), "drug": a.drug(drug)}
        return a.sentence("side_effect", slots, [fact])

    def eeg_sentence(self, day: date) -> Sentence:
        """What the EEG showed."""
        a, at = self.author, self.author.at(day)
        if not self.eeg_abnormal:
            return a.sentence("eeg_normal", {}, [EegFinding(**at, finding="normal", abnormal=False)])
        fact = EegFinding(**at, finding=self.finding, abnormal=True, region=self.region)
        return a.sentence("eeg_abnormal", {"finding": Slot(self.finding), "region": Slot(self.region)}, [fact])

    def background(self, day: date) -> list[Sentence]:
        """Family, seizures of long ago, allergies and drugs of before."""
        a, out = self.author, []
        at = a.at(day)
        if self.relative:
            names = {"relative": Slot(self.relative), "Relative": Slot(self.relative.capitalize())}
            slots = {"sz": a.seizures(a.pick(self.others), "family"), **names}
            fact = FamilyHistory(**at, relative=self.relative, condition="seizures")
            out.append(a.sentence("sz_family", slots, [fact]))
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
            why = Slot(a.pick(self.lists[self.past]["effects"]), context="historical")
            entry = self.lists[self.past]
            dosing = {"mg": float(a.pick(entry["doses"])), "times": entry["times"], "role": "historical", "past": True}
            worth: Effectiveness = "not tolerated"
            out.append(a.medication("past_drug", day, self.past, "stop", **dosing, why=why, effectiveness=worth))
        return out

    def listed(self, day: date) -> list[Sentence]:
        """The list of what is taken."""
        a, out = self.author, []
        for drug in self.taken:
            out.append(a.medication("taking", day, drug, "continue", **self.dosing(drug)))
        for other in self.comedication:
            dosing = {"mg": float(other["strengths"][0]), "times": other["times"], "form": other["form"]}
            out.append(a.medication("taking_other", day, other["drug"], "continue", **dosing))
        if self.has_rescue:
            drug, mg, route, form = a.pick(_RESCUE)
            slots = {"sz": a.seizures(self.kind, "hypothetical"), "one": a.seizure_of("one_kind", "hypothetical")}
            dosing = {"mg": float(mg), "times": "as needed", "route": route, "form": form}
            out.append(a.medication("rescue", day, drug, "continue", **dosing, extra=slots))
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
        """One drug in the place of another."""
        del self.taken[old]
        self.stopped.append(old)
        new = self.begin(level=1)
        return self.author.medication(
            "switch", day, new, "switch", **self.dosing(new), old_drug=old, why=why, effectiveness=effectiveness
        )

    def adherence(self, day: date, missed: bool) -> Sentence:
        """Whether doses were missed."""
        a = self.author
        count = int(self.rng.integers(2, 5)) if missed else 0
        fact = Adherence(**a.at(day), good=not missed, missed=count)
        return a.sentence("missed" if missed else "adherent", {"count": Slot(str(count))}, [fact])

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

    def advice(self, p: float) -> list[Sentence]:
        """How a note ends: what to do in case of a seizure, with probability `p`, and when to come back."""
        a = self.author
        slots = {"sz": a.seizures(self.kind, "hypothetical"), "one": a.seizure_of("one_kind", "hypothetical")}
        warning = [a.sentence("sz_hypothetical", slots)] if a.chance(p) else []
        return [*warning, a.sentence("followup")]
