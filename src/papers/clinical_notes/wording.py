"""Words a made-up patient's facts in sentences, and keeps where each span and fact ended up.

Names of drugs, sentences and their paraphrases by a language model stand in `data/clinical_drugs.yml`,
`clinical_wording.yml` and `clinical_paraphrases.yml`. What is filled in for a name in braces may be a span of the note.
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
"""How often a test note takes a held-out wording where there is one."""
_TYPO_SHARE, _UNICODE_SHARE = 0.02, 0.03
_LETTERS_OF_A_TYPO = 7


@lru_cache
def words(path: Path) -> dict[str, Any]:
    """One of the project's own word lists."""
    content: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    return content


class Template(NamedTuple):
    """One wording with its names in braces, whose words it is, and the shared one that it paraphrases (or itself)."""

    text: str
    wording: Wording
    source: str


@dataclass(frozen=True)
class Slot:
    """A span that is filled in; `second` is a brand name in brackets after a generic one, a span of the same value."""

    text: str
    mention: Mention
    held_out: bool = False
    second: str = ""


@dataclass(frozen=True)
class Sentence:
    """A sentence with its spans, counted from its own beginning."""

    text: str
    mentions: tuple[Mention, ...] = ()
    facts: tuple[Fact, ...] = ()


Slots = Mapping[str, Slot | str]


class Author:
    """Words one patient's facts in sentences. All that is drawn is drawn from one generator of random numbers."""

    def __init__(self, split: Split, rng: np.random.Generator, paraphrased: float) -> None:
        """Begin with a patient of a random sex and age; only test notes take paraphrases."""
        self.split, self.rng = split, rng
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
        return Slot(text, Mention(label="DRUG", value=name, drug=name, role=role), second=second)

    def strength(self, mg: float, drug: str, role: Role = "current") -> Slot:
        """A strength as notes write it: 500 mg, 500mg, 1 g, 1,500 mg."""
        styles = [f"{mg:g} mg", f"{mg:g} mg", f"{mg:g}mg", f"{mg:g} mgs"]
        if mg >= 1000:
            styles += [f"{mg / 1000:g} g", f"{mg:,.0f} mg"]
        text = self.pick(styles)
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
        """A slip inside a word: a letter left out, doubled, or swapped with the next."""
        inner = [i for i in range(1, len(word) - 2) if word[i].isalpha() and word[i] != word[i + 1]]
        if not inner:
            return word
        i = self.pick(inner)
        swapped = word[:i] + word[i + 1] + word[i] + word[i + 2 :]
        return str(
            self.pick([word[:i] + word[i + 1 :], word[: i + 1] + word[i] + word[i + 1 :], swapped])
        )

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
        template = template or self.bank(self.wording[bank])
        filled: dict[str, Slot | str] = {**self.fillings(), **(slots or {})}
        text, mentions = "", []
        for literal, name, _, _ in string.Formatter().parse(template.text):
            text += self.noisy(literal)
            if name is None:
                continue
            slot = filled[name]
            if isinstance(slot, str):
                text += slot if text else slot[:1].upper() + slot[1:]
                continue
            start, text = len(text), text + slot.text
            spans = [(start, len(text))]
            if slot.second:
                text += f" ({slot.second})"
                spans.append((len(text) - 1 - len(slot.second), len(text) - 1))
            whose: Wording = "held out" if slot.held_out else template.wording
            mentions += [
                replace(slot.mention, start=first, end=last, wording=whose) for first, last in spans
            ]
        return Sentence(text, tuple(mentions), tuple(replace(f, end=len(text)) for f in facts))

    def noisy(self, literal: str) -> str:
        """Plain words of a template with, now and then, a slip or a character of a word processor."""
        if self.chance(_UNICODE_SHARE):
            literal = literal.replace(" - ", " \N{EN DASH} ").replace(
                "'", "\N{RIGHT SINGLE QUOTATION MARK}"
            )
            literal = literal.replace("; ", ";\N{NO-BREAK SPACE}").replace(
                ", ", ",\N{NO-BREAK SPACE}"
            )
        if not self.chance(_TYPO_SHARE):
            return literal
        long = [m for m in re.finditer(r"[a-z]+", literal) if len(m[0]) >= _LETTERS_OF_A_TYPO]
        if not long:
            return literal
        word = self.pick(long)
        return literal[: word.start()] + self.typo(word[0]) + literal[word.end() :]

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
        """A sentence about one drug, and the event that it states: no more than its wording says.

        `reason` is what the words of `why` stand for, if it is not they themselves.
        """
        template = self.bank(self.wording[bank])
        used = {name for _, name, _, _ in string.Formatter().parse(template.text) if name}
        slots = {"drug": self.drug(drug, role, brackets=bank.startswith("taking")), **(extra or {})}
        units, reason = 1, reason or why
        if "dosage" in used and mg is not None:
            # a drug that is not titrated has no doses of which this could be the double
            units = (
                2 if mg / 2 in self.names.get(drug, {}).get("doses", []) and self.chance(0.4) else 1
            )
            mention = Mention(label="DOSAGE", value=str(units), drug=drug, role=role)
            slots["dosage"] = Slot(self.pick([str(units), {1: "one", 2: "two"}[units]]), mention)
        if mg is not None:
            slots["strength"] = self.strength(mg / units, drug, role)
        if old_mg is not None:
            slots["strength2"] = self.strength(old_mg, drug, "historical")
        if old_drug is not None:
            slots["drug2"] = self.drug(old_drug)
        if times is not None:
            slots["freq"] = self.term(
                "FREQUENCY", self.wording["frequencies"][times], str(times), drug, role
            )
        slots["route"] = self.term("ROUTE", self.wording["routes"][route], route, drug, role)
        slots["form"] = self.term("FORM", self.wording["forms"][form], form, drug, role)
        slots["duration"] = self.term("DURATION", self.wording["durations"], "", drug, role)
        if why:
            slots["why"] = why
        if effectiveness in self.wording["how"]:
            slots["how"] = self.pick(self.wording["how"][effectiveness])
        facts: list[MedicationEvent] = []
        if action is not None:
            facts.append(
                MedicationEvent(
                    date=day,
                    drug=drug,
                    action=action,
                    dose_mg=mg if "strength" in used else None,
                    units=units,
                    times_per_day=times if "freq" in used and isinstance(times, int) else None,
                    replaces=old_drug,
                    reason=reason if why and "why" in used else None,
                    # of a switch, how well it worked is said of the drug that ends
                    effectiveness=effectiveness if used & {"how", "why"} and not old_drug else None,
                    past=past,
                )
            )
        if old_drug is not None:
            facts.append(
                MedicationEvent(
                    date=day,
                    drug=old_drug,
                    action="stop",
                    reason=reason,
                    effectiveness=effectiveness,
                )
            )
        return self.sentence(bank, slots, facts, template)
