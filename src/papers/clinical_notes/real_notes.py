"""Text that nobody here has written: drug-dose pairs of ADE-Corpus-V2, and MTSamples, which has no gold."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from helpers.results.answers import Answer
from helpers.results.measures import of_sets
from papers.clinical_notes.cleaning import clean, generic_name, normal
from papers.clinical_notes.extraction import Extractor, Passage, Reading
from papers.clinical_notes.extraction_scores import ARMS, Span, some

NEUROLOGY = ("Neurology", "Neurosurgery")


@dataclass(frozen=True)
class Sentence:
    """A sentence of ADE-Corpus-V2 with the spans of each pair of drug and dose; its id begins with the article's."""

    note_id: str
    text: str
    pairs: tuple[tuple[Span, Span], ...]
    strata: Mapping[str, str]

    @property
    def unit(self) -> str:
        """Its identifier."""
        return self.note_id

    @property
    def cluster(self) -> str:
        """The article."""
        return self.note_id.split("-", maxsplit=1)[0]

    @property
    def words(self) -> list[tuple[str, str]]:
        """Its pairs in words."""
        return [(self.text[slice(*drug)], self.text[slice(*dose)]) for drug, dose in self.pairs]

    @property
    def gold(self) -> str:
        """Its pairs as a reader sees them."""
        return "; ".join(f"{drug}: {dose}" for drug, dose in self.words)


def read_doses(path: Path, n: int, seed: int) -> tuple[list[Sentence], int]:
    """`DRUG-DOSE.rel` of ADE-Corpus-V2 by sentence, `n` of them asked of a model, and how many lines were left out.

    Its offsets are those of the whole abstract, so the places whose distance is that of the offsets are sought in the
    sentence. A line for which there are none is left out.
    """
    found: dict[str, list[tuple[Span, Span]]] = {}
    ids: dict[str, str] = {}
    left_out = 0
    for line in path.read_text(encoding="utf-8").splitlines():
        article, text, dose, dose_at, _, drug, drug_at, _ = line.split("|")
        apart = int(dose_at) - int(drug_at)
        drugs, doses = ([m.start() for m in re.finditer(re.escape(w), text)] for w in (drug, dose))
        places = [(a, b) for a in drugs for b in doses if b - a == apart]
        if not places:
            left_out += 1
            continue
        a, b = places[0]
        ids.setdefault(text, f"{article}-{len(ids)}")
        found.setdefault(text, []).append(((a, a + len(drug)), (b, b + len(dose))))
    asked = some(list(found), n, seed)
    return [
        Sentence(ids[text], text, tuple(pairs), {"asked": "yes" if text in asked else "no"})
        for text, pairs in found.items()
    ], left_out


def drug_spans(sentences: Sequence[Sentence]) -> dict[str, list[Span]]:
    """The corpus's own drugs, as spans of the cleaned sentences."""
    return {s.unit: [clean(s.text).cleaned(*drug) for drug, _ in s.pairs] for s in sentences}


def by_pairs(read: Extractor) -> Callable[[Sequence[Sentence]], list[Answer]]:
    """An extractor as an arm that finds pairs of drug and dose."""

    def answer(sentences: Sequence[Sentence]) -> list[Answer]:
        return [dose_row(s, reading) for s, reading in zip(sentences, read(sentences), strict=True)]

    return answer


def dose_row(sentence: Sentence, reading: Reading) -> Answer:
    """The pairs read in a sentence: one is right if both of its values stand in a gold pair.

    A pair is a drug with a strength, or with a frequency or dosage where it has no strength. The drug is compared by
    generic name and the dose by whether the value, as `normal` gives it, is that of a part of the gold dose.
    """
    right = [(generic_name(drug), dose) for drug, dose in sentence.words]
    found = set()
    for m in reading.medications:
        if value := m.strength or m.frequency or m.dosage:
            hit = next((dose for drug, dose in right if drug == m.drug and _same_dose(value, dose)), None)
            found.add((m.drug, hit or value))
    reply = reading.reply
    return Answer(
        task="doses",
        answer=reply.text if reply else None,
        predicted="; ".join(f"{drug}: {dose}" for drug, dose in sorted(found)),
        parsed=reading.parsed,
        measures=of_sets(set(right), found),
        requests=[reply.key] if reply and reply.key else [],
    )


def _same_dose(value: str, dose: str) -> bool:
    whole = clean(dose).text
    return value in {normal("STRENGTH", whole), normal("FREQUENCY", whole), normal("DOSAGE", whole), whole.lower()}


def read_mtsamples(path: Path) -> list[Passage]:
    """MTSamples' transcriptions of neurology, and those of other specialties that speak of seizures or epilepsy."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    sign = re.compile(r"seizure|epilep|convuls", re.IGNORECASE)
    return [
        Passage(f"mtsamples-{i}", str(row["transcription"]).replace(".,", ".\n").replace(":,", ":\n"))
        for i, row in enumerate(rows)
        if str(row["medical_specialty"]).strip() in NEUROLOGY or sign.search(str(row["transcription"]))
    ]


def what_fires(passages: Collection[Passage], extractors: Mapping[str, Extractor]) -> pd.DataFrame:
    """What each extractor gives in 1,000 words of notes without gold, and what it calls a drug, to be judged by eye."""
    text, rows = {p.note_id: p.text for p in passages}, []
    length = sum(len(words.split()) for words in text.values()) / 1000
    for name, read in extractors.items():
        readings = read(list(passages))
        given = Counter(e.label for r in readings for e in r.entities)
        seizures = Counter(f.context for r in readings for f in r.findings if f.kind == "seizure")
        drugs = Counter(
            " ".join(text[r.note_id][e.start : e.end].lower().split())
            for r in readings
            for e in r.entities
            if e.label == "DRUG"
        )
        rows.append(
            {
                "extractor": ARMS[name],
                "drugs": f"{given['DRUG'] / length:.1f}",
                "strengths": f"{given['STRENGTH'] / length:.1f}",
                "seizures affirmed": f"{seizures['affirmed'] / length:.1f}",
                "seizures negated": f"{seizures['negated'] / length:.1f}",
                "most often called a drug": ", ".join(f"{words} ({n})" for words, n in drugs.most_common(10)),
            }
        )
    return pd.DataFrame(rows)
