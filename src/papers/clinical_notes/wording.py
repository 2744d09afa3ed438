"""Words a made-up patient's facts in sentences, and records the place of each span and fact.

Names of drugs, sentences and their paraphrases by an LLM are in `data/clinical_drugs.yml`,
`clinical_wording.yml` and `clinical_paraphrases.yml`. What fills a name in braces may be a span
of the note.
"""

import re
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
import yaml

from papers.clinical_notes.gold import (
    Action,
    Effectiveness,
    Fact,
    Label,
    MedicationEvent,
    Mention,
    Role,
    Split,
    Wording,
)
from resources.settings import DATA

DRUGS: Final = DATA / "clinical_drugs.yml"
WORDING: Final = DATA / "clinical_wording.yml"
PARAPHRASES: Final = DATA / "clinical_paraphrases.yml"
HELD_OUT_SHARE: Final = 0.4
"""Share of a test note's sentences in held-out wording, where there is one."""
UNTIDY_SHARE: Final = 0.5
"""Share of an untidy note's sentences in wording of such notes, where there is one."""
_TYPO_SHARE, _UNICODE_SHARE = 0.02, 0.03
_MICROGRAMS: Final = ("mcg", "\N{MICRO SIGN}g", "micrograms", "mcgs")
_WORD_PROCESSOR_CHARACTERS: Final = {
    " - ": " \N{EN DASH} ",
    "'": "\N{RIGHT SINGLE QUOTATION MARK}",
    "; ": ";\N{NO-BREAK SPACE}",
    ", ": ",\N{NO-BREAK SPACE}",
}
"""Characters, and what a word processor makes of them."""
_MIN_TYPO_LETTERS = 7
"""Shortest word of a template that may have a typo."""


@lru_cache
def words(path: Path) -> dict[str, Any]:
    """Read one of the project's own word lists."""
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


class Template(NamedTuple):
    """One wording with names in braces.

    Attributes:
        text: The wording.
        wording: Its source.
        source: The shared wording that it paraphrases, or itself.
    """

    text: str
    wording: Wording
    source: str


@dataclass(frozen=True)
class Slot:
    """A span that fills a name in braces.

    Attributes:
        text: The text.
        mention: What it denotes.
        held_out: Whether its words are held out for test notes.
        second: A brand name in brackets after a generic one, a span of the same value.
    """

    text: str
    mention: Mention
    held_out: bool = False
    second: str = ""

    @property
    def full_text(self) -> str:
        """The text, with the second name in brackets if there is one."""
        return f"{self.text} ({self.second})" if self.second else self.text


@dataclass(frozen=True)
class Sentence:
    """A sentence with its spans, counted from its own beginning."""

    text: str
    mentions: tuple[Mention, ...] = ()
    facts: tuple[Fact, ...] = ()


Slots = Mapping[str, Slot | str]


def _placed_mentions(slot: Slot, start: int, wording: Wording) -> list[Mention]:
    """The mentions of a slot that begins at a character of the sentence."""
    spans = [(start, start + len(slot.text))]
    if slot.second:
        last = start + len(slot.full_text) - 1  # the closing bracket
        spans.append((last - len(slot.second), last))
    source: Wording = "held out" if slot.held_out else wording
    return [replace(slot.mention, start=first, end=end, wording=source) for first, end in spans]


def names_in_braces(template: str) -> set[str]:
    """Return the names in braces of a template."""
    return {name for _, name, _, _ in string.Formatter().parse(template) if name}


class Author:
    """Words one patient's facts in sentences, with one generator of random numbers."""

    def __init__(self, split: Split, rng: np.random.Generator, paraphrased: float) -> None:
        """Begin with a patient of a random sex and age; only test notes take paraphrases."""
        self.split, self.rng = split, rng
        self.is_untidy = False
        self.paraphrased = paraphrased if split == "test" else 0.0
        self.wording, self.lists = words(WORDING), words(DRUGS)["antiseizure"]
        self.names: dict[str, dict[str, Any]] = {
            **self.lists,
            **words(DRUGS)["rescue"],
            **words(DRUGS)["other"],
        }
        self.female = bool(rng.random() < 0.5)
        self.born = int(rng.integers(1940, 1998))

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
        reworded = words(PARAPHRASES)["paraphrases"].get(text) if self.paraphrased else None
        if reworded and self.chance(self.paraphrased):
            return Template(self.pick(reworded), "paraphrased", text)
        return Template(text, "shared", text)

    def template(self, name: str) -> Template:
        """One wording of a bank; an untidy note may have one that others do not have."""
        untidy = self.wording["untidy"].get(name) if self.is_untidy else None
        if untidy and self.chance(UNTIDY_SHARE):
            text = self.pick(untidy)
            return Template(text, "shared", text)
        return self.bank(self.wording[name])

    def drug(self, name: str, role: Role = "current", *, brackets: bool = False) -> Slot:
        """A drug under one of its names, sometimes misspelt."""
        names = self.names.get(name, {})
        generic = self.pick([name, *names.get("other", [])])
        generic = self.pick([generic, generic, generic.capitalize(), generic.upper()])
        brands, short = names.get("brands", []), names.get("abbreviations", [])
        text, second, draw = generic, "", self.rng.random()
        if brackets and brands and draw < 0.2:
            second = self.pick(brands)
        elif brands and draw < 0.45:
            text = self.pick(brands)
        elif short and draw < 0.62:
            text = self.pick(short)
        elif draw > 0.95:
            text = self.typo(generic)
        mention = Mention(label="DRUG", value=name, drug=name, role=role)
        return Slot(text, mention, second=second)

    def strength(self, mg: float, drug: str, role: Role = "current") -> Slot:
        """A strength as notes write it: 500 mg, 500mg, 1 g, 1,500 mg."""
        styles = [f"{mg:g} mg", f"{mg:g} mg", f"{mg:g}mg", f"{mg:g} mgs"]
        if mg >= 1000:
            styles += [f"{mg / 1000:g} g", f"{mg:,.0f} mg"]
        text = self.pick(styles)
        if mg < 0.25:
            text = f"{mg * 1000:g} {self.pick(_MICROGRAMS)}"
        if self.chance(_UNICODE_SHARE):
            text = text.replace(" ", "\N{NO-BREAK SPACE}")
        return Slot(text, Mention(label="STRENGTH", value=f"{mg:g} mg", drug=drug, role=role))

    def term(
        self, label: Label, bank: Mapping[str, list[str]], value: str, drug: str, role: Role
    ) -> Slot:
        """A frequency, route, form or duration in one of its wordings."""
        term = self.bank(bank)
        mention = Mention(label=label, value=value or term.text, drug=drug, role=role)
        return Slot(term.text, mention, held_out=term.wording == "held out")

    def seizures(self, kind: str) -> str:
        """Seizures of a kind, in the plural."""
        return self.bank(self.wording["kinds"][kind]).text

    def seizure_of(self, bank: str) -> str:
        """A name of seizures from one of the lists that are not by kind."""
        return self.bank(self.wording[bank]).text

    def typo(self, word: str) -> str:
        """Make a slip inside a word: a letter left out, doubled, or swapped with the next."""
        places = []
        for i in range(1, len(word) - 2):
            if word[i].isalpha() and word[i] != word[i + 1]:
                places.append(i)
        if not places:
            return word
        i = self.pick(places)
        left_out = word[:i] + word[i + 1 :]
        doubled = word[: i + 1] + word[i] + word[i + 1 :]
        swapped = word[:i] + word[i + 1] + word[i] + word[i + 2 :]
        return str(self.pick([left_out, doubled, swapped]))

    def fillings(self) -> dict[str, str]:
        """Fillings that are no facts."""
        pick, rng, wording = self.pick, self.rng, self.wording
        pronoun = "she" if self.female else "he"
        return {
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

    def sentence(
        self,
        bank: str,
        slots: Slots | None = None,
        facts: Sequence[Fact] = (),
        template: Template | None = None,
    ) -> Sentence:
        """One sentence of a bank, filled in, with its spans and facts."""
        template = template or self.template(bank)
        filled: dict[str, Slot | str] = {**self.fillings(), **(slots or {})}
        text = ""
        mentions: list[Mention] = []
        for literal, name, _, _ in string.Formatter().parse(template.text):
            text += self.noisy(literal)
            if name is None:
                continue
            slot = filled[name]
            if isinstance(slot, str):
                text += slot if text else slot[:1].upper() + slot[1:]
            else:
                mentions += _placed_mentions(slot, len(text), template.wording)
                text += slot.full_text
        end = len(text)
        placed_facts = [replace(fact, end=end) for fact in facts]
        return Sentence(text, tuple(mentions), tuple(placed_facts))

    def noisy(self, literal: str) -> str:
        """Add a slip or a character of a word processor, now and then, to words of a template."""
        if self.chance(_UNICODE_SHARE):
            for plain, odd in _WORD_PROCESSOR_CHARACTERS.items():
                literal = literal.replace(plain, odd)
        if not self.chance(_TYPO_SHARE):
            return literal
        matches = re.finditer(r"[a-z]+", literal)
        long_words = [match for match in matches if len(match[0]) >= _MIN_TYPO_LETTERS]
        if not long_words:
            return literal
        word = self.pick(long_words)
        misspelt = self.typo(word[0])
        return literal[: word.start()] + misspelt + literal[word.end() :]

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
        why: str = "",
        reason: str = "",
        effectiveness: Effectiveness | None = None,
        role: Role = "current",
        past: bool = False,
        extra: Slots | None = None,
    ) -> Sentence:
        """Write a sentence about one drug, and the event that it states.

        The event has no more than the sentence's wording says.

        Args:
            bank: Name of the list of wordings.
            day: Date of the event.
            drug: Generic name.
            action: What is done; None if the sentence states no event.
            mg: Dose at one time.
            times: Times a day, or a word such as "once".
            route: How the drug enters the body.
            form: Tablet, capsule and so on.
            old_mg: Dose before the change.
            old_drug: The drug that a switch ends.
            why: The reason, in the words of the sentence.
            reason: What these words stand for; by default the words themselves.
            effectiveness: How well the drug worked.
            role: See `Mention`.
            past: Whether the event is from before the chart begins.
            extra: What fills further names in braces.
        """
        template = self.template(bank)
        names = names_in_braces(template.text)
        slots = {"drug": self.drug(drug, role, brackets=bank.startswith("taking")), **(extra or {})}
        units = 1
        if "dosage" in names and mg is not None:
            units = self.units(drug, mg)
            slots["dosage"] = self.dosage(units, drug, role)
        if mg is not None:
            slots["strength"] = self.strength(mg / units, drug, role)
        slots |= self.old_slots(drug, old_mg, old_drug)
        if times is not None:
            frequencies = self.wording["frequencies"][times]
            slots["freq"] = self.term("FREQUENCY", frequencies, str(times), drug, role)
        slots |= self.form_slots(route, form, drug, role)
        slots |= self.reason_slots(why, effectiveness)
        event = None
        if action is not None:
            event = MedicationEvent(
                date=day,
                drug=drug,
                action=action,
                dose_mg=mg,
                units=units,
                times_per_day=times if isinstance(times, int) else None,
                replaces=old_drug,
                reason=reason or why,
                effectiveness=effectiveness,
                past=past,
            )
        return self.sentence(bank, slots, _stated_events(event, names), template)

    def units(self, drug: str, mg: float) -> int:
        """Draw how many units of the form make a dose: one, or two of a dose of the titration."""
        # a drug that is not titrated has no doses of which this could be the double
        doses = self.names.get(drug, {}).get("doses", [])
        return 2 if mg / 2 in doses and self.chance(0.4) else 1

    def dosage(self, units: int, drug: str, role: Role) -> Slot:
        """Word the number of units."""
        mention = Mention(label="DOSAGE", value=str(units), drug=drug, role=role)
        word = {1: "one", 2: "two"}[units]
        return Slot(self.pick([str(units), word]), mention)

    def old_slots(self, drug: str, mg: float | None, old_drug: str | None) -> dict[str, Slot]:
        """Word the dose before a change, and the drug before a switch."""
        slots = {}
        if mg is not None:
            slots["strength2"] = self.strength(mg, drug, "historical")
        if old_drug is not None:
            slots["drug2"] = self.drug(old_drug)
        return slots

    def form_slots(self, route: str, form: str, drug: str, role: Role) -> dict[str, Slot]:
        """Word route, form and a duration."""
        routes, forms = self.wording["routes"], self.wording["forms"]
        return {
            "route": self.term("ROUTE", routes[route], route, drug, role),
            "form": self.term("FORM", forms[form], form, drug, role),
            "duration": self.term("DURATION", self.wording["durations"], "", drug, role),
        }

    def reason_slots(self, why: str, effectiveness: Effectiveness | None) -> dict[str, str]:
        """Word the reason, and how well the drug worked."""
        slots = {}
        if why:
            slots["why"] = why
        if effectiveness in self.wording["how"]:
            slots["how"] = self.pick(self.wording["how"][effectiveness])
        return slots


def _stated_events(event: MedicationEvent | None, names: set[str]) -> list[MedicationEvent]:
    """The event without what its sentence does not state; of a switch also the drug's end.

    Args:
        event: The event, with everything that is true of it.
        names: The names in braces of the sentence.
    """
    if event is None:
        return []
    stated = event
    if "strength" not in names:
        stated = replace(stated, dose_mg=None)
    if "freq" not in names:
        stated = replace(stated, times_per_day=None)
    if "why" not in names or not event.reason:
        stated = replace(stated, reason=None)
    # of a switch, the effectiveness is that of the drug that ends
    if event.replaces or not names & {"how", "why"}:
        stated = replace(stated, effectiveness=None)
    if event.replaces is None:
        return [stated]
    end = MedicationEvent(
        date=event.date,
        drug=event.replaces,
        action="stop",
        reason=event.reason,
        effectiveness=event.effectiveness,
    )
    return [stated, end]
