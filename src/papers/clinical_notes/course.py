"""The course of one made-up patient over the years, and the sentences that describe it.

A drug stops the seizures or does not. Doses are raised; drugs are added, switched for a side
effect, and stopped.
"""

from dataclasses import dataclass, replace
from datetime import date, timedelta
from typing import Any, Final

import numpy as np

from papers.clinical_notes.gold import (
    Action,
    EegFinding,
    Effectiveness,
    FamilyHistory,
    SeizureStatus,
    Split,
    Symptom,
)
from papers.clinical_notes.wording import Author, Sentence

_PATTERN: Final[tuple[Split, ...]] = (
    "train",
    "test",
    "dev",
    "train",
    "test",
    "train",
    "train",
    "dev",
    "test",
    "train",
)


@dataclass
class _Regimen:
    """A drug that the patient takes.

    Attributes:
        level: Step of its titration.
        form: Tablet, capsule and so on.
        effect: The side effect that it will turn out to have; empty for none.
        severe: Whether the side effect makes the patient stop it.
        reported: Whether a note has reported the side effect.
    """

    level: int
    form: str
    effect: str
    severe: bool
    reported: bool = False


class Course(Author):
    """The disease, the decisions about it, and how they are said."""

    def __init__(self, number: int, seed: int, paraphrased: float, untidy: float = 0.0) -> None:
        """Draw who the patient is, what will help, and how tidy the notes are."""
        super().__init__(
            _PATTERN[number % len(_PATTERN)], np.random.default_rng([seed, number]), paraphrased
        )
        self.id = f"P{number + 1:04}"
        self.epilepsy: str = self.pick(["focal", "focal", "generalised"])
        kinds = [k for k, v in self.wording["kinds"].items() if v["epilepsy"] == self.epilepsy]
        self.others = self.shuffle(kinds)
        self.kind = self.others[0]
        self.base = float(self.pick([1, 2, 4, 8, 12, 30]))
        self.works = self.pick([0, 0, 1, None, None])
        self.enough = int(self.rng.integers(1, 3))
        self.order = self.draw_order()
        self.tried = 0
        self.failed: set[str] = set()
        self.stopped: list[str] = []
        self.taken: dict[str, _Regimen] = {}
        others = self.rng.permutation(10)[: int(self.rng.integers(0, 3))]
        self.comedication = [self.wording["comedication"][i] for i in others]
        self.symptom = self.pick(self.wording["ictal_symptoms"][self.epilepsy])
        self.finding = self.pick(self.wording["eeg_findings"])
        self.region = self.pick(self.wording["eeg_regions"][self.epilepsy])
        self.eeg_abnormal = self.chance(0.7)
        self.eeg_day: date | None = None
        self.relative = self.pick(self.wording["relatives"]) if self.chance(0.35) else None
        self.allergy = self.order.pop() if self.chance(0.25) else None
        self.past = self.order.pop() if self.chance(0.3) else None
        self.has_rescue = self.chance(0.3)
        self.statuses: list[tuple[date, float]] = []
        self.untidy = untidy
        if untidy and self.chance(0.3):
            self.comedication.append(self.wording["untidy_comedication"])

    def draw_order(self) -> list[str]:
        """Draw the order in which drugs are tried: those of first line, then others that suit."""
        first_line = ["levetiracetam", "lamotrigine"]
        avoid = {"ethosuximide", "valproate"}
        if self.epilepsy == "generalised":
            first_line.append("valproate")
            avoid = {"carbamazepine", "phenytoin"}
        excluded = {*avoid, *first_line}
        rest = [drug for drug in self.lists if drug not in excluded]
        return [*self.shuffle(first_line), *self.shuffle(rest)]

    def shuffle(self, items: list[str]) -> list[str]:
        """Draw an order."""
        return [items[position] for position in self.rng.permutation(len(items))]

    def rate(self, missed: bool) -> float:
        """Seizures a month under the present regimen."""
        levels = {drug: t.level for drug, t in self.taken.items()}
        if self.works is not None and levels.get(self.order[self.works], -1) >= self.enough:
            rate = self.base / 4 if missed else 0.0
        else:
            rate = self.base / 2 if max(levels.values(), default=-1) >= 2 else self.base
        if rate == 0:
            return 0.0
        nearest = min(sorted(self.wording["rates"]), key=lambda known: abs(known - rate))
        return float(nearest)

    def complained(self) -> str | None:
        """The first drug whose side effect no note has reported yet."""
        for drug, regimen in self.taken.items():
            if regimen.effect and not regimen.reported:
                return drug
        return None

    def can_rise(self, drug: str) -> bool:
        """Whether a drug's titration has a further step."""
        return self.taken[drug].level < len(self.lists[drug]["doses"]) - 1

    def dosing(self, drug: str) -> dict[str, Any]:
        """Dose, times and form of a drug as it is taken now."""
        entry, regimen = self.lists[drug], self.taken[drug]
        return {
            "mg": float(entry["doses"][regimen.level]),
            "times": entry["times"],
            "form": regimen.form,
        }

    def begin(self, level: int = 0) -> str:
        """The next drug of the order, begun at a step of its titration."""
        drug = self.order[self.tried]
        self.tried += 1
        entry = self.lists[drug]
        effect = self.pick(entry["effects"]) if self.chance(0.35) else ""
        self.taken[drug] = _Regimen(level, self.pick(entry["forms"]), effect, self.chance(0.5))
        return drug

    def status(self, day: date, rate: float) -> Sentence:
        """Whether there were seizures, and how often."""
        self.statuses.append((day, rate))
        if rate == 0:
            slots = {"sz": self.seizures(self.kind), "one": self.seizure_of("one_kind")}
            last = next((d for d, r in reversed(self.statuses) if r > 0), day - timedelta(days=90))
            slots["since"] = f"{last:%B %Y}" if self.chance(0.6) else f"{last:%m/%Y}"
            return self.sentence(
                "seizure_free", slots, [SeizureStatus(date=day, status="negative")]
            )
        often = self.bank(self.wording["rates"][rate if rate < 1 else int(rate)]).text
        slots = {"sz": self.seizures(self.kind), "rate": often}
        return self.sentence("seizing", slots, [SeizureStatus(date=day, status="positive")])

    def symptoms(self, day: date) -> list[Sentence]:
        """What is said of seizures and symptoms besides the seizure status."""
        out = []
        if self.chance(0.6):
            fact = Symptom(date=day, name=self.symptom, context="affirmed", role="seizure")
            out.append(self.sentence("semiology", {"sym": self.symptom}, [fact]))
        if self.chance(0.4):
            every = (
                self.wording["ictal_symptoms"]["focal"]
                + self.wording["ictal_symptoms"]["generalised"]
            )
            other = self.pick([s for s in every if s != self.symptom])
            fact = Symptom(date=day, name=other, context="negated", role="seizure")
            out.append(self.sentence("semiology_negated", {"sym": other}, [fact]))
        if self.chance(0.4):
            out.append(self.sentence("sz_negated", {"sz": self.seizure_of("other_kinds")}))
        if self.taken and self.chance(0.4):
            out.append(self.other_effect(day))
        return out

    def other_effect(self, day: date) -> Sentence:
        """A side effect that the patient does not have, had before, or might have."""
        drug = self.pick(list(self.taken))
        context = self.pick(["negated", "historical", "hypothetical"])
        own_effect = self.taken[drug].effect
        name = self.pick([e for e in self.wording["other_effects"] if e != own_effect])
        fact = Symptom(date=day, name=name, context=context, role="side effect", drug=drug)
        slots = {"sym": name, "drug": self.drug(drug)}
        sentence = self.sentence(f"side_effect_{context}", slots, [fact])
        if any(mention.label == "DRUG" for mention in sentence.mentions):
            return sentence
        without_drug = replace(fact, end=len(sentence.text), drug=None)
        return replace(sentence, facts=(without_drug,))

    def complaint(self, day: date, drug: str) -> Sentence:
        """A side effect, mentioned for the first time."""
        self.taken[drug].reported = True
        effect = self.taken[drug].effect
        fact = Symptom(date=day, name=effect, context="affirmed", role="side effect", drug=drug)
        return self.sentence("side_effect", {"sym": effect, "drug": self.drug(drug)}, [fact])

    def eeg_sentence(self, day: date) -> Sentence:
        """What the EEG showed."""
        if not self.eeg_abnormal:
            return self.sentence(
                "eeg_normal", {}, [EegFinding(date=day, finding="normal", abnormal=False)]
            )
        fact = EegFinding(date=day, finding=self.finding, abnormal=True, region=self.region)
        return self.sentence(
            "eeg_abnormal", {"finding": self.finding, "region": self.region}, [fact]
        )

    def background(self, day: date) -> list[Sentence]:
        """Family, seizures of long ago, allergies and drugs of before."""
        out = []
        if self.relative:
            sz = self.seizures(self.pick(self.others))
            slots = {"sz": sz, "relative": self.relative, "Relative": self.relative.capitalize()}
            fact = FamilyHistory(date=day, relative=self.relative, condition="seizures")
            out.append(self.sentence("sz_family", slots, [fact]))
            if self.chance(0.4):
                theirs = self.drug(self.pick(list(self.lists)), "family")
                out.append(self.sentence("family_drug", {**slots, "drug": theirs}))
        else:
            fact = FamilyHistory(date=day, relative="any", condition="seizures", present=False)
            slots = {"sz": self.seizures(self.pick(self.others))}
            out.append(self.sentence("family_none", slots, [fact]))
        if self.chance(0.5):
            out.append(self.sentence("sz_historical", {"sz": self.seizure_of("other_kinds")}))
        if self.allergy:
            out.append(
                self.medication("allergy", day, self.allergy, None, why="rash", role="allergy")
            )
        if self.past:
            entry = self.lists[self.past]
            details: dict[str, Any] = {
                "why": self.pick(entry["effects"]),
                "mg": float(self.pick(entry["doses"])),
                "times": entry["times"],
                "role": "historical",
                "past": True,
                "effectiveness": "not tolerated",
            }
            out.append(self.medication("past_drug", day, self.past, "stop", **details))
        return out

    def listed(self, day: date) -> list[Sentence]:
        """The list of what is taken."""
        out = [
            self.medication("taking", day, drug, "continue", **self.dosing(drug))
            for drug in self.taken
        ]
        for other in self.comedication:
            dosing = {
                "mg": float(other["strengths"][0]),
                "times": other["times"],
                "form": other["form"],
            }
            out.append(self.medication("taking_other", day, other["drug"], "continue", **dosing))
        if self.has_rescue:
            drug, mg, route, form = self.pick(self.wording["rescue_drugs"])
            slots = {"sz": self.seizures(self.kind), "one": self.seizure_of("one_kind")}
            dosing = {"mg": float(mg), "times": "as needed", "route": route, "form": form}
            out.append(self.medication("rescue", day, drug, "continue", **dosing, extra=slots))
        return out

    def plan(self, day: date, rate: float, missed: bool, complaint: str | None) -> list[Sentence]:
        """Decide on an action and state it; then what is unchanged, and what might come next."""
        before = {drug: regimen.level for drug, regimen in self.taken.items()}
        out = self.change(day, rate, missed, complaint)
        worth: Effectiveness = "ineffective"
        if rate == 0:
            worth = "effective"
        elif rate < self.base:
            worth = "partial"
        for drug, regimen in self.taken.items():
            if before.get(drug) == regimen.level:
                out.append(
                    self.medication(
                        "keep", day, drug, "continue", **self.dosing(drug), effectiveness=worth
                    )
                )
        if rate > 0 and self.tried < len(self.order) and self.chance(0.4):
            later = self.order[self.tried]
            doses = {
                "mg": float(self.lists[later]["doses"][0]),
                "times": self.lists[later]["times"],
            }
            out.append(self.medication("consider", day, later, None, **doses, role="hypothetical"))
        return out

    def change(self, day: date, rate: float, missed: bool, complaint: str | None) -> list[Sentence]:
        """At most one change: for a side effect first, else for seizures, else for want of them."""
        more = self.tried < len(self.order)
        if not self.taken:
            return [self.first_drug(day)]
        if complaint:
            return self.answer_complaint(day, complaint, more)
        if rate > 0 and not missed:
            return self.escalate(day, more)
        if rate == 0 and len(self.taken) > 1 and self.chance(0.3):
            return [self.withdraw(day)]
        return []

    def first_drug(self, day: date) -> Sentence:
        """Begin the first drug."""
        drug = self.begin()
        why = self.pick(
            ["newly diagnosed epilepsy", "a second unprovoked event", "confirmed epilepsy"]
        )
        return self.medication("start", day, drug, "start", **self.dosing(drug), why=why)

    def withdraw(self, day: date) -> Sentence:
        """Stop the first drug that does not stop the seizures."""
        effective = None if self.works is None else self.order[self.works]
        drug = next(drug for drug in self.taken if drug != effective)
        del self.taken[drug]
        self.stopped.append(drug)
        why = "sustained good control"
        return self.medication("stop", day, drug, "stop", why=why, reason="seizure freedom")

    def answer_complaint(self, day: date, drug: str, more: bool) -> list[Sentence]:
        """Against a side effect: another drug if it is severe, else a lower dose."""
        regimen = self.taken[drug]
        if regimen.severe and more:
            return [self.switched(day, drug, "not tolerated", regimen.effect)]
        if regimen.level > 0:
            return [self.moved(day, drug, -1, regimen.effect)]
        return []

    def escalate(self, day: date, more: bool) -> list[Sentence]:
        """Against seizures: a higher dose, then a second drug or another one."""
        why = self.pick(["poor control", "lack of effect", "inadequate control"])
        drug = list(self.taken)[-1]
        if self.can_rise(drug):
            return [self.moved(day, drug, 1, why, "lack of effect")]
        self.failed.add(drug)
        if not more:
            return []
        if len(self.taken) == 1 and self.chance(0.5):
            new = self.begin()
            return [
                self.medication(
                    "start", day, new, "start", **self.dosing(new), why=why, reason="lack of effect"
                )
            ]
        return [self.switched(day, next(iter(self.taken)), "ineffective", why, "lack of effect")]

    def moved(self, day: date, drug: str, steps: int, why: str, reason: str = "") -> Sentence:
        """A dose one step up or down."""
        old = self.dosing(drug)["mg"]
        self.taken[drug].level += steps
        bank: Action = "increase" if steps > 0 else "decrease"
        return self.medication(
            bank, day, drug, bank, **self.dosing(drug), old_mg=old, why=why, reason=reason
        )

    def switched(
        self, day: date, old: str, worth: Effectiveness, why: str, reason: str = ""
    ) -> Sentence:
        """One drug in the place of another, which was worth so much."""
        del self.taken[old]
        self.stopped.append(old)
        new = self.begin(level=1)
        details: dict[str, Any] = {
            "old_drug": old,
            "effectiveness": worth,
            "why": why,
            "reason": reason,
        }
        return self.medication("switch", day, new, "switch", **self.dosing(new), **details)

    def history(
        self, day: date, rate: float, missed: bool, complaint: str | None
    ) -> list[Sentence]:
        """What happened since the last visit."""
        out = [self.status(day, rate), *self.symptoms(day)]
        if complaint:
            out.append(self.complaint(day, complaint))
        if self.taken:
            count = int(self.rng.integers(2, 5)) if missed else 0
            out.append(self.sentence("missed" if missed else "adherent", {"count": str(count)}))
        if self.stopped and self.chance(0.3):
            out.append(
                self.sentence("no_drug", {"drug": self.drug(self.stopped[-1], "historical")})
            )
        return out

    def advice(self, p: float) -> list[Sentence]:
        """How a note ends: with probability `p` advice for a seizure, and when to come back."""
        slots = {"sz": self.seizures(self.kind), "one": self.seizure_of("one_kind")}
        warning = [self.sentence("sz_hypothetical", slots)] if self.chance(p) else []
        return [*warning, self.sentence("followup")]
