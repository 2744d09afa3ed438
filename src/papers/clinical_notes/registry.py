"""The registry of medications and seizures (clinical_notes.md, "Registry schema"), and how right its extraction is.

A registry row is one drug of one note. Extraction is scored three ways: spans by label, values linked to their drug,
and classes of ConText; every interval is a bootstrap over patients.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from helpers.results.metrics import Paired, Score, binary_scores, bootstrap, paired_means, proportion
from helpers.settings import DATA, DERIVED
from papers.clinical_notes.charts import (
    CONTEXTS,
    LABELS,
    Chart,
    Context,
    ContextMention,
    Label,
    Mention,
    Note,
    Wording,
)
from papers.clinical_notes.extraction import (
    Medication,
    Passage,
    Reading,
    Status,
    clean,
    generic_name,
    normal,
    window,
)
from papers.clinical_notes.wording import words

REGISTRY: Final = DERIVED / "clinical_notes" / "all_patients_combined.parquet"
SCHEMA: Final = pa.schema(
    [
        ("row_id", pa.string()),
        ("event_id", pa.string()),
        ("event_type", pa.string()),
        ("patient_id", pa.string()),
        ("note_date", pa.string()),
        ("note_id", pa.string()),
        ("source_text_file", pa.string()),
        ("source_date_key", pa.string()),
        ("medication", pa.string()),
        ("medication_dosage", pa.string()),
        ("intake_times_per_day", pa.float64()),
        ("drug_mention_count", pa.int64()),
        ("medication_effectiveness", pa.string()),
        ("seizure_status", pa.string()),
        ("seizure_symptoms", pa.list_(pa.string())),
        ("route", pa.string()),
        ("form", pa.string()),
        ("note_text", pa.string()),
        ("extraction_context", pa.string()),
    ]
)
"""The paper's nineteen columns, in its order."""
ATTRIBUTES: Final = ("drug", "strength", "frequency", "route", "form", "dosage", "duration")


# ------------------------------------------------------------------------------------------------------- registry


def effectiveness(passage: str) -> str | None:
    """What a passage says of how well a drug works, by the words of `data/clinical_terms.yml`; None if nothing."""
    lower = passage.lower()
    for name, signs in words(DATA / "clinical_terms.yml")["effectiveness"].items():
        if any(sign in lower for sign in signs):
            return str(name)
    return None


def _line(text: str, start: int, end: int) -> str:
    last = text.find("\n", end)
    return text[text.rfind("\n", 0, start) + 1 : last if last >= 0 else len(text)]


def build(notes: Sequence[Note], readings: Sequence[Reading]) -> pd.DataFrame:
    """The registry: a row for each drug that a note says the patient takes, in order of note.

    A drug's row takes the first value that the note states of each attribute. A note without any drug keeps one row
    with no medication, so that its seizure status is not lost.

    Raises:
        ValueError: notes and readings are not of the same notes.
    """
    if [n.note_id for n in notes] != [r.note_id for r in readings]:
        raise ValueError("Each note needs its own reading, in the same order.")
    rows: list[dict[str, object]] = []
    for note, reading in zip(notes, readings, strict=True):
        taken: dict[str, list[Medication]] = {}
        for medication in reading.medications:
            if medication.role == "current":
                taken.setdefault(medication.drug, []).append(medication)
        seen = {f.term for f in reading.findings if f.kind == "symptom" and f.context == "affirmed"}
        common = {
            "event_id": f"{note.note_id}-E",
            "event_type": "clinical_note",
            "patient_id": note.patient_id,
            "note_date": note.date.isoformat(),
            "note_id": note.note_id,
            "source_text_file": f"patient_notes/{note.patient_id}/{note.note_id}.txt",
            "source_date_key": note.date.isoformat(),
            "seizure_status": reading.status,
            "seizure_symptoms": sorted(seen),
            "note_text": note.text,
        }
        for number, (drug, of) in enumerate(taken.items() or [("", [])], start=1):
            said = {name: _first(of, name) for name in ("strength", "frequency", "route", "form")}
            passages = [_line(note.text, m.start, m.end) for m in of if m.end]
            worth = next((e for e in map(effectiveness, passages) if e), None)
            rows.append(
                common
                | {
                    "row_id": f"{note.note_id}-R{number:02}",
                    "medication": drug or None,
                    "medication_dosage": said["strength"],
                    "intake_times_per_day": _times(said["frequency"]),
                    "drug_mention_count": len(of),
                    "medication_effectiveness": worth,
                    "route": said["route"],
                    "form": said["form"],
                    "extraction_context": window(note.text, of[0].start, of[0].end) if passages else None,
                }
            )
    return pd.DataFrame(rows, columns=SCHEMA.names)


def _first(of: Iterable[Medication], name: str) -> str | None:
    return next((value for m in of if (value := getattr(m, name))), None)


def _times(frequency: str | None) -> float | None:
    return float(frequency) if frequency and re.fullmatch(r"\d+(\.\d+)?", frequency) else None


def write(registry: pd.DataFrame, path: Path = REGISTRY) -> Path:
    """Write the registry as Parquet with the columns and types of `SCHEMA`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    pq.write_table(pa.Table.from_pandas(registry, schema=SCHEMA, preserve_index=False), part)
    part.replace(path)
    return path


def read(path: Path = REGISTRY) -> pd.DataFrame:
    """The registry as `write` left it.

    Raises:
        ValueError: its columns are not those of `SCHEMA`.
    """
    table = pq.read_table(path)
    if not table.schema.equals(SCHEMA):
        raise ValueError(f"{path.name} has not the registry's columns; delete it and run 12_notes_registry again.")
    return table.to_pandas()


# ----------------------------------------------------------------------------------------------------------- gold


def gold_status(chart: Chart) -> dict[str, Status]:
    """The seizure status of each note, from what it states of itself: copied passages tell of an earlier time."""
    found: dict[str, Status] = {note.note_id: "unknown" for note in chart.notes}
    for fact in chart.seizures:
        if fact.copied_from is None and found[fact.note_id] != "positive":
            found[fact.note_id] = fact.status
    return found


T = TypeVar("T")
Item = tuple[str, ...]
"""One thing that is right or wrong: (note, what, ...)."""


def gold_values(chart: Chart) -> dict[str, set[Item]]:
    """What each note says of drugs that the patient takes: (note, drug) and (note, drug, value) by attribute."""
    found: dict[str, set[Item]] = {name: set() for name in ATTRIBUTES}
    for mention in chart.mentions:
        if mention.role == "current":
            name = mention.label.lower()
            item = (mention.note_id, mention.drug)
            found[name].add(item if name == "drug" else (*item, mention.value.lower()))
    return found


def read_values(readings: Iterable[Reading]) -> dict[str, set[Item]]:
    """The same of what an extractor read."""
    found: dict[str, set[Item]] = {name: set() for name in ATTRIBUTES}
    for reading in readings:
        for m in reading.medications:
            if m.role != "current":
                continue
            found["drug"].add((reading.note_id, m.drug))
            for name in ATTRIBUTES[1:]:
                if value := getattr(m, name):
                    found[name].add((reading.note_id, m.drug, value))
    return found


# -------------------------------------------------------------------------------------------------------- scoring


def patient_of(note_id: str) -> str:
    """The patient that a note's identifier begins with."""
    return note_id.split("-", maxsplit=1)[0]


@dataclass(frozen=True)
class Scores:
    """Precision, recall and F1 of a set of items against the gold set, and how many there are of each."""

    precision: Score
    recall: Score
    f1: Score
    gold: int
    read: int


def set_scores(
    gold: set[Item], found: set[Item], draws: int, cluster: Callable[[str], str] = patient_of
) -> Scores | None:
    """Precision, recall and F1 over items, with a bootstrap over patients; None if there is nothing to find or found.

    Args:
        gold: the right items; the first element of each is a note.
        found: those of an extractor.
        draws: of the bootstrap.
        cluster: what notes belong together.
    """
    items = sorted(gold | found)
    if not items:
        return None
    scores = binary_scores(
        [item in gold for item in items],
        [item in found for item in items],
        clusters=[cluster(item[0]) for item in items],
        draws=draws,
    )
    return Scores(scores["precision"], scores["sensitivity"], scores["f1"], len(gold), len(found))


def span_items(charts: Iterable[Chart], notes: set[str], label: Label) -> dict[Item, Mention]:
    """Gold spans of a label in these notes, each with its mention."""
    return {
        (m.note_id, str(m.start), str(m.end)): m
        for chart in charts
        for m in chart.mentions
        if m.label == label and m.note_id in notes
    }


def read_spans(readings: Iterable[Reading], label: Label) -> set[Item]:
    """Spans of a label that an extractor read."""
    return {(r.note_id, str(e.start), str(e.end)) for r in readings for e in r.entities if e.label == label}


def matched(gold: Iterable[Item], found: Iterable[Item]) -> set[Item]:
    """Found spans, each replaced by the gold span that it overlaps, if there is one: the lenient count.

    A gold span that two found spans overlap counts once; the second is then an error.
    """
    by_note: dict[str, list[tuple[int, int]]] = {}
    for note, start, end in gold:
        by_note.setdefault(note, []).append((int(start), int(end)))
    out: set[Item] = set()
    for note, start, end in sorted(found, key=lambda i: (i[0], int(i[1]))):
        hits = [(s, e) for s, e in by_note.get(note, []) if s < int(end) and e > int(start)]
        free = [(note, str(s), str(e)) for s, e in hits if (note, str(s), str(e)) not in out]
        out.add(free[0] if free else (note, start, end))
    return out


def label_scores(
    charts: Sequence[Chart], readings: Sequence[Reading], draws: int, *, lenient: bool = False
) -> dict[str, Scores]:
    """Scores of each of Med7's labels, and of all spans together as `all`, on the notes that were read."""
    notes, out = {r.note_id for r in readings}, dict[str, Scores]()
    all_gold: set[Item] = set()
    all_found: set[Item] = set()
    for label in LABELS:
        gold, found = set(span_items(charts, notes, label)), read_spans(readings, label)
        if lenient:
            found = matched(gold, found)
        all_gold |= {(*item, label) for item in gold}
        all_found |= {(*item, label) for item in found}
        if scores := set_scores(gold, found, draws):
            out[label] = scores
    if scores := set_scores(all_gold, all_found, draws):
        out["all"] = scores
    return out


def value_scores(charts: Sequence[Chart], readings: Sequence[Reading], draws: int) -> dict[str, Scores]:
    """Scores of the values linked to their drug, by attribute, on the notes that were read."""
    notes, found = {r.note_id for r in readings}, read_values(readings)
    out = {}
    for name in ATTRIBUTES:
        gold = {item for chart in charts for item in gold_values(chart)[name] if item[0] in notes}
        if scores := set_scores(gold, found[name], draws):
            out[name] = scores
    return out


@dataclass(frozen=True)
class Hit:
    """One gold mention: whose it is, whose words its sentence is in, and whether a reader got it right."""

    patient: str
    mention: Mention | ContextMention
    right: bool


def span_hits(charts: Sequence[Chart], readings: Sequence[Reading]) -> list[Hit]:
    """Each gold span with one of Med7's labels in the notes that were read: right is one that was read exactly so."""
    notes, hits = {r.note_id for r in readings}, list[Hit]()
    for label in LABELS:
        found = read_spans(readings, label)
        hits += [
            Hit(patient_of(item[0]), mention, item in found)
            for item, mention in span_items(charts, notes, label).items()
        ]
    return hits


def context_hits(mentions: Sequence[tuple[Note, ContextMention]], classes: Sequence[Context]) -> list[Hit]:
    """Each gold mention of a seizure or symptom: right is one that got its class."""
    return [Hit(note.patient_id, m, m.context == c) for (note, m), c in zip(mentions, classes, strict=True)]


def _share(hits: Sequence[Hit], draws: int) -> Score:
    return bootstrap([float(h.right) for h in hits], clusters=[h.patient for h in hits], draws=draws)


def by_wording(hits: Sequence[Hit], draws: int) -> dict[Wording, Score]:
    """Share that is right of the mentions in shared and in held-out wording, where there are any."""
    wordings: tuple[Wording, ...] = ("shared", "held out")
    parts = {wording: [h for h in hits if h.mention.wording == wording] for wording in wordings}
    return {wording: _share(of, draws) for wording, of in parts.items() if of}


def template_and_paraphrase(hits: Sequence[Hit], draws: int) -> tuple[Score, Score] | None:
    """Share that is right in templates' own words, and in paraphrases of the same templates; None if there are none.

    Only templates that were paraphrased somewhere in these notes count. Whether one is, is drawn alike for each of
    them, so both shares are of about the same mixture of sentences.
    """
    reworded = [h for h in hits if h.mention.wording == "paraphrased"]
    templates = {h.mention.template for h in reworded}
    own = [h for h in hits if h.mention.wording == "shared" and h.mention.template in templates]
    return (_share(own, draws), _share(reworded, draws)) if own and reworded else None


def status_scores(charts: Sequence[Chart], readings: Sequence[Reading], draws: int) -> Score:
    """Accuracy of the notes' seizure status; an answer that could not be read counts as wrong, and is counted."""
    right, _, patients = _statuses(charts, readings)
    score = bootstrap(right, clusters=patients, draws=draws)
    return Score(score.value, score.n, score.low, score.high, sum(not r.parsed for r in readings))


def status_gain(charts: Sequence[Chart], readings: Sequence[Reading], always: str, draws: int) -> Paired:
    """Notes whose seizure status was read right minus those where always giving the one status is, by patient."""
    right, gold, patients = _statuses(charts, readings)
    return paired_means(right, [float(status == always) for status in gold], clusters=patients, draws=draws)


def _statuses(charts: Sequence[Chart], readings: Sequence[Reading]) -> tuple[list[float], list[Status], list[str]]:
    """Of each note that was read: 1 if its status is right, its gold status, its patient."""
    of_note = {note: status for chart in charts for note, status in gold_status(chart).items()}
    gold = [of_note[r.note_id] for r in readings]
    right = [float(r.parsed and r.status == status) for r, status in zip(readings, gold, strict=True)]
    return right, gold, [patient_of(r.note_id) for r in readings]


def effectiveness_scores(charts: Sequence[Chart], registry: pd.DataFrame) -> Score:
    """Share of the effectiveness that notes state of a drug that the registry has the same."""
    gold = {
        (m.note_id, m.drug): m.effectiveness
        for chart in charts
        for m in chart.medications
        if m.effectiveness in ("effective", "partial", "ineffective") and m.action == "continue"
    }
    read_ = registry.set_index(["note_id", "medication"]).medication_effectiveness.to_dict()
    return proportion(sum(read_.get(key) == value for key, value in gold.items()), len(gold))


# -------------------------------------------------------------------------------------------------------- ConText


def context_mentions(charts: Iterable[Chart]) -> list[tuple[Note, ContextMention]]:
    """Every gold mention of a seizure or symptom with its note."""
    return [
        (note, mention)
        for chart in charts
        for notes in [{n.note_id: n for n in chart.notes}]
        for mention in chart.contexts
        for note in [notes[mention.note_id]]
    ]


def some(items: Sequence[T], n: int, seed: int) -> list[T]:
    """So many of them, drawn evenly and kept in their order; all if there are no more."""
    chosen = np.random.default_rng(seed).choice(len(items), size=min(n, len(items)), replace=False)
    return [items[i] for i in sorted(chosen)]


def stratified(mentions: Sequence[tuple[Note, ContextMention]], n: int, seed: int) -> list[tuple[Note, ContextMention]]:
    """So many mentions, dealt out evenly over the classes as far as these have them."""
    order = [mentions[i] for i in np.random.default_rng(seed).permutation(len(mentions))]
    waiting = [[m for m in order if m[1].context == context] for context in CONTEXTS]
    taken: list[tuple[Note, ContextMention]] = []
    while len(taken) < min(n, len(order)):
        for of in waiting:
            if of and len(taken) < n:
                taken.append(of.pop())
    return taken


def context_scores(
    mentions: Sequence[tuple[Note, ContextMention]], classes: Sequence[Context], draws: int
) -> dict[str, Score]:
    """Recall of each class, and the share of all mentions that are right as `all`."""
    right = [m.context == c for (_, m), c in zip(mentions, classes, strict=True)]
    patients = [note.patient_id for note, _ in mentions]
    out = {}
    for context in CONTEXTS:
        rows = [i for i, (_, m) in enumerate(mentions) if m.context == context]
        if rows:
            out[str(context)] = bootstrap(
                [float(right[i]) for i in rows], clusters=[patients[i] for i in rows], draws=draws
            )
    out["all"] = bootstrap([float(r) for r in right], clusters=patients, draws=draws)
    return out


def confusion(mentions: Sequence[tuple[Note, ContextMention]], classes: Sequence[Context]) -> pd.DataFrame:
    """Gold classes in rows, given ones in columns, as counts."""
    counts = Counter((m.context, c) for (_, m), c in zip(mentions, classes, strict=True))
    return pd.DataFrame([[counts[g, c] for c in CONTEXTS] for g in CONTEXTS], index=CONTEXTS, columns=CONTEXTS)


def found_mentions(charts: Iterable[Chart], readings: Sequence[Reading]) -> Score:
    """Share of the gold mentions of seizures and symptoms that the terms find at all."""
    spans = {r.note_id: [(f.start, f.end) for f in r.findings] for r in readings}
    hits = [
        (note.patient_id, any(s < m.end and e > m.start for s, e in spans[note.note_id]))
        for note, m in context_mentions(charts)
        if note.note_id in spans
    ]
    return bootstrap([float(h) for _, h in hits], clusters=[p for p, _ in hits])


# --------------------------------------------------------------------------------------------- notes from elsewhere


@dataclass(frozen=True)
class DosePair:
    """A drug and a dose that a sentence of ADE-Corpus-V2 pairs, as spans of the sentence."""

    sentence: str
    text: str
    drug: tuple[int, int]
    dose: tuple[int, int]


def read_dose_pairs(path: Path) -> tuple[list[DosePair], int]:
    """`DRUG-DOSE.rel` of ADE-Corpus-V2: its pairs, and how many lines were left out.

    Its offsets are those of the whole abstract, so each span is sought in the sentence; where the words stand there
    more than once, the two places whose distance is that of the offsets count. A line for which there are none is left
    out. The same sentence has the same identifier.
    """
    pairs, left_out, ids = [], 0, dict[str, str]()
    for line in path.read_text(encoding="utf-8").splitlines():
        article, text, dose, dose_at, _, drug, drug_at, _ = line.split("|")
        apart = int(dose_at) - int(drug_at)
        drugs, doses = ([m.start() for m in re.finditer(re.escape(w), text)] for w in (drug, dose))
        places = [(a, b) for a in drugs for b in doses if b - a == apart]
        if not places:
            left_out += 1
            continue
        a, b = places[0]
        id = ids.setdefault(text, f"{article}-{len(ids)}")
        pairs.append(DosePair(id, text, (a, a + len(drug)), (b, b + len(dose))))
    return pairs, left_out


def dose_items(pairs: Iterable[DosePair]) -> dict[str, list[DosePair]]:
    """The pairs of each sentence."""
    out: dict[str, list[DosePair]] = {}
    for pair in pairs:
        out.setdefault(pair.sentence, []).append(pair)
    return out


def dose_scores(pairs: Sequence[DosePair], readings: Sequence[Reading], draws: int) -> Scores | None:
    """Scores of drug-dose pairs, by sentence: a read pair is right if both of its values stand in a gold pair.

    A pair is a drug with a strength, or with a frequency or dosage where it has no strength. The drug is compared by
    generic name and the dose by whether the value, as `normal` gives it, is that of a part of the gold dose.
    """
    gold: set[Item] = set()
    found: set[Item] = set()
    sentences = dose_items(pairs)
    for reading in readings:
        right = [(generic_name(p.text[slice(*p.drug)]), p.text[slice(*p.dose)]) for p in sentences[reading.note_id]]
        gold |= {(reading.note_id, drug, dose) for drug, dose in right}
        for m in reading.medications:
            value = m.strength or m.frequency or m.dosage
            if value is None:
                continue
            hit = next((dose for drug, dose in right if drug == m.drug and _same_dose(value, dose)), None)
            found.add((reading.note_id, m.drug, hit or value))
    return set_scores(gold, found, draws, cluster=lambda note: note.split("-", maxsplit=1)[0])


def _same_dose(value: str, dose: str) -> bool:
    whole = clean(dose).text
    return value in {normal("STRENGTH", whole), normal("FREQUENCY", whole), normal("DOSAGE", whole), whole.lower()}


NEUROLOGY: Final = ("Neurology", "Neurosurgery")


def read_mtsamples(path: Path) -> list[Passage]:
    """MTSamples' transcriptions of neurology, and those of other specialties that speak of seizures or epilepsy."""
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.strip()]
    sign = re.compile(r"seizure|epilep|convuls", re.IGNORECASE)
    return [
        Passage(f"mtsamples-{i}", str(row["transcription"]).replace(".,", ".\n").replace(":,", ":\n"))
        for i, row in enumerate(rows)
        if str(row["medical_specialty"]).strip() in NEUROLOGY or sign.search(str(row["transcription"]))
    ]


def fired(readings: Sequence[Reading]) -> Mapping[str, int]:
    """How often each label, seizure class and role was given: a count where there is no gold."""
    counts: Counter[str] = Counter()
    for reading in readings:
        counts.update(entity.label for entity in reading.entities)
        counts.update(f"{f.kind}, {f.context}" for f in reading.findings)
    return counts
