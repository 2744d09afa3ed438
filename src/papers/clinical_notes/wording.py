"""Words a made-up patient's facts in sentences, and keeps where each span and fact ended up.

The words stand in two files of the project's own: `data/clinical_drugs.yml` (names of drugs) and
`data/clinical_wording.yml` (sentences). A sentence of the second has names in braces; what is filled in for one
becomes a span of the note. A third file, `data/clinical_paraphrases.yml`, has sentences as a language model reworded
them (`papers.clinical_notes.paraphrase`).
"""

from __future__ import annotations

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import yaml

from helpers.settings import DATA
from papers.clinical_notes.gold import (
    Action,
    Context,
    ContextMention,
    Effectiveness,
    Fact,
    Label,
    MedicationEvent,
    Mention,
    Role,
    Split,
    Wording,
)

DRUGS: Final = DATA / "clinical_drugs.yml"
WORDING: Final = DATA / "clinical_wording.yml"
PARAPHRASES: Final = DATA / "clinical_paraphrases.yml"
HELD_OUT_SHARE: Final = 0.4
"""How often a test note takes a held-out wording where there is one."""
_TYPO_SHARE, _UNICODE_SHARE = 0.02, 0.03
_LETTERS_OF_A_TYPO = 7


@lru_cache
def words(path: Path) -> dict[str, Any]:
    """One of the project's own word lists."""
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


@lru_cache
def paraphrases() -> dict[str, list[str]]:
    """The kept paraphrases of each shared sentence that has some."""
    of: dict[str, list[str]] = words(PARAPHRASES)["paraphrases"]
    return of


@dataclass(frozen=True)
class Template:
    """One wording with its names in braces, whose words it is, and the shared one that it paraphrases (or itself)."""

    text: str
    wording: Wording
    source: str


@dataclass(frozen=True)
class Slot:
    """What is filled in for a name in braces.

    Attributes:
        label, value, drug, role: of a span with one of Med7's labels, as in `Mention`.
        context: of a span that names a seizure or a symptom.
        held_out: whether no train note words it so.
        second: a brand name in brackets after a generic one, a second span of the same value.
    """

    text: str
    label: Label | None = None
    value: str = ""
    drug: str = ""
    role: Role = "current"
    context: Context | None = None
    held_out: bool = False
    second: str = ""


@dataclass(frozen=True)
class Sentence:
    """A sentence with its spans, counted from its own beginning."""

    text: str
    mentions: tuple[Mention, ...] = ()
    contexts: tuple[ContextMention, ...] = ()
    facts: tuple[Fact, ...] = ()


class Author:
    """Words one patient's facts in sentences. All that is drawn is drawn from one generator of random numbers."""

    def __init__(self, patient_id: str, split: Split, rng: np.random.Generator, paraphrased: float) -> None:
        """Begin with a patient of a random sex and age; only test notes take paraphrases."""
        self.patient_id, self.split, self.rng = patient_id, split, rng
        self.paraphrased = paraphrased if split == "test" else 0.0
        self.wording, lists = words(WORDING), words(DRUGS)
        self.names: dict[str, dict[str, list[str]]] = {**lists["antiseizure"], **lists["rescue"], **lists["other"]}
        self.female = bool(rng.random() < 0.5)
        self.born = int(rng.integers(1940, 1998))
        self.identifiers: list[str] = []

    # ------------------------------------------------------------------------------------------------- choices

    def chance(self, p: float) -> bool:
        """True with probability `p`."""
        return bool(self.rng.random() < p)

    def pick(self, options: Sequence[Any]) -> Any:  # noqa: ANN401  # an item of whatever the list holds
        """One of them, each as likely."""
        return options[int(self.rng.integers(len(options)))]

    def bank(self, bank: Mapping[str, list[str]]) -> Template:
        """One wording; in a test note it may be a held-out one or a paraphrase."""
        if self.split == "test" and bank.get("held_out") and self.chance(HELD_OUT_SHARE):
            text = self.pick(bank["held_out"])
            return Template(text, "held out", text)
        text = self.pick(bank["shared"])
        reworded = paraphrases().get(text) if self.paraphrased else None
        if reworded and self.chance(self.paraphrased):
            return Template(self.pick(reworded), "paraphrased", text)
        return Template(text, "shared", text)

    # --------------------------------------------------------------------------------------------------- slots

    def drug(self, name: str, role: Role = "current", *, brackets: bool = False) -> Slot:
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
        return Slot(text, "DRUG", name, name, role, second=second)

    def strength(self, mg: float, drug: str, role: Role = "current") -> Slot:
        """A strength as notes write it: 500 mg, 500mg, 1 g, 1,500 mg."""
        styles = [f"{mg:g} mg", f"{mg:g} mg", f"{mg:g}mg", f"{mg:g} mgs"]
        if mg >= 1000:
            styles += [f"{mg / 1000:g} g", f"{mg:,.0f} mg"]
        text = self.pick(styles)
        if self.chance(_UNICODE_SHARE):
            text = text.replace(" ", "\N{NO-BREAK SPACE}")
        return Slot(text, "STRENGTH", f"{mg:g} mg", drug, role)

    def one_of(self, bank: Mapping[str, list[str]], **of: Any) -> Slot:  # noqa: ANN401  # as `Slot` has them
        """One of a list of terms, with what it stands for."""
        term = self.bank(bank)
        return Slot(term.text, held_out=term.wording == "held out", **of)

    def term(self, group: str, key: object, drug: str, role: Role = "current") -> Slot:
        """A frequency, route or form in one of its wordings."""
        label: Label = {"frequencies": "FREQUENCY", "routes": "ROUTE", "forms": "FORM"}[group]  # type: ignore[assignment]
        return self.one_of(self.wording[group][key], label=label, value=str(key), drug=drug, role=role)

    def seizures(self, kind: str, context: Context) -> Slot:
        """Seizures of the patient's own kind, in the plural."""
        return self.one_of(self.wording["kinds"][kind], context=context)

    def seizure_of(self, bank: str, context: Context) -> Slot:
        """A name of seizures from one of the lists that are not by kind."""
        return self.one_of(self.wording[bank], context=context)

    def typo(self, word: str) -> str:
        """A slip inside a word: a letter left out, doubled, or swapped with the next."""
        inner = [i for i in range(1, len(word) - 2) if word[i].isalpha() and word[i] != word[i + 1]]
        if not inner:
            return word
        i = self.pick(inner)
        swapped = word[:i] + word[i + 1] + word[i] + word[i + 2 :]
        return self.pick([word[:i] + word[i + 1 :], word[: i + 1] + word[i] + word[i + 1 :], swapped])

    def background(self) -> dict[str, Slot]:
        """Fillings that are no facts."""
        pick, rng, wording = self.pick, self.rng, self.wording
        pronoun = "she" if self.female else "he"
        plain = {
            "Pt": pick(["Patient", "Pt", "pt", pronoun.capitalize(), "The patient"]),
            "pron": pronoun,
            "Pron": pronoun.capitalize(),
            "pron_of": "her" if self.female else "his",
            "sex": pick(["female", "F", "woman"] if self.female else ["male", "M", "man"]),
            "name": pick(wording["redactions"]),
            "hospital": pick(wording["redactions"]),
            "redacted": pick(wording["redactions"]),
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
        return {name: Slot(text) for name, text in plain.items()}

    # ----------------------------------------------------------------------------------------------- sentences

    def sentence(
        self,
        bank: str,
        slots: Mapping[str, Slot] | None = None,
        facts: Sequence[Fact] = (),
        template: Template | None = None,
    ) -> Sentence:
        """One sentence of a bank, filled in, with its spans and facts."""
        template = template or self.bank(self.wording[bank])
        filled = {**self.background(), **(slots or {})}
        text, mentions, contexts = "", [], []
        for literal, name, _, _ in string.Formatter().parse(template.text):
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
                whose: Wording = "held out" if slot.held_out else template.wording
                at: dict[str, Any] = {"note_id": "", "start": first, "end": last}
                at |= {"wording": whose, "template": template.source}
                if slot.label:
                    named: dict[str, Any] = {
                        "label": slot.label,
                        "value": slot.value,
                        "drug": slot.drug,
                        "role": slot.role,
                    }
                    mentions.append(Mention(**at, **named))
                if slot.context:
                    contexts.append(ContextMention(**at, term=slot.text.lower(), context=slot.context))
        return Sentence(text, tuple(mentions), tuple(contexts), tuple(replace(f, end=len(text)) for f in facts))

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
        why: Slot | None = None,
        effectiveness: Effectiveness | None = None,
        role: Role = "current",
        past: bool = False,
        extra: Mapping[str, Slot] | None = None,
    ) -> Sentence:
        """A sentence about one drug, and the event that it states: no more than its wording says."""
        template = self.bank(self.wording[bank])
        used = {name for _, name, _, _ in string.Formatter().parse(template.text) if name}
        if "strength2" in used and old_mg is None:
            raise ValueError(f"The wording {template.text!r} needs the dose before.")
        slots = {"drug": self.drug(drug, role, brackets=bank.startswith("taking")), **(extra or {})}
        units = 1
        if "dosage" in used and mg is not None:
            halves = mg / 2 in self.doses(drug) and self.chance(0.4)
            units = 2 if halves else 1
            text = self.pick([str(units), {1: "one", 2: "two"}[units]])
            slots["dosage"] = Slot(text, "DOSAGE", str(units), drug, role)
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
        duration = self.one_of(self.wording["durations"], label="DURATION", drug=drug, role=role)
        slots["duration"] = replace(duration, value=duration.text)
        if why is not None:
            slots["why"] = why
        if effectiveness in self.wording["how"]:
            slots["how"] = Slot(self.pick(self.wording["how"][effectiveness]))
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
            ended: dict[str, Any] = {
                "drug": old_drug,
                "action": "stop",
                "reason": reason,
                "effectiveness": effectiveness,
            }
            facts.append(MedicationEvent(**self.at(day), **ended))
            # how well it worked is said of the drug that ends, not of the one that begins
            facts[0] = replace(facts[0], effectiveness=None)
        return self.sentence(bank, slots, facts, template)

    def doses(self, drug: str) -> list[float]:
        """Doses of a titration in mg, least first; none for a drug that is not titrated."""
        return list(self.names.get(drug, {}).get("doses", []))  # type: ignore[arg-type]
