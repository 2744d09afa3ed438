"""The paper's system on own notes: registry, index, retrieval with filters, answers with citations.

    notes = open_notes(Path("my_notes"))
    print(notes.ask("What medications did patient 115154574 take in 2023?"))
    notes.retrieve("seizures", patient_id="115154574", date_start="2023-01-01", topk=5)

The parts are those that notebooks 12 to 14 measure: the rules that read a note, the hybrid
retriever with the paper's weights, and the prompt of the answers. If a note's plan stops a drug
("Discontinue LEV"), the registry's rows in an answer still count this drug as taken at that visit,
as the synthetic charts do. What is made of own notes lies in one folder of this machine; no table
that is exported or committed has any of it.
"""

import hashlib
import json
import logging
import re
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pandas as pd
from tqdm import tqdm

from helpers import documents, llm, vectors
from helpers.counting import counted
from helpers.llm import LLM, ContextOverflowError
from papers.clinical_notes import answers, cleaning, extraction, lines, registry, sections
from papers.clinical_notes.abbreviations import with_long_forms
from papers.clinical_notes.cleaning import TERMS, clean, drug_names
from papers.clinical_notes.contradictions import find_contradiction
from papers.clinical_notes.extraction import Reader, RuleNamer, symptom_terms
from papers.clinical_notes.gold import NO_DATE, Note
from papers.clinical_notes.lines import LAYOUT
from papers.clinical_notes.own_notes import OwnNotes, parse_day, read_notes
from papers.clinical_notes.passages import Chunk, chunk_notes
from papers.clinical_notes.query import Lexicon
from papers.clinical_notes.retrieval import (
    NO_FILTERS,
    Filters,
    MeanPooledReranker,
    Retrieval,
    Retriever,
)
from papers.clinical_notes.uncited_values import find_uncited
from papers.clinical_notes.wording import DRUGS
from rag.replies import CITATION
from rag.retrieval import bm25_index
from rag.system_answer import Evidence, SystemAnswer
from resources.settings import DERIVED, PublicError, profile_model, settings

log = logging.getLogger(__name__)

OWN: Final = DERIVED / "own" / "notes"
"""What is made of own notes, a folder for each folder of notes. Nothing exports it."""
REPLIES: Final = DERIVED / "own" / "requests"
"""Replies about own notes. Nothing exports them."""
REGISTRY_FILE: Final = "all_patients_combined.parquet"
INDEX_FOLDER: Final = "vector_index"
METADATA_FILE: Final = "faiss_chunk_metadata.parquet"
"""Files of the paper's project structure."""
BATCH: Final = 100
"""Notes that are read between two writes to the disk: some seconds of work."""
N_TIMED: Final = 5
"""Notes, and passages, that are timed to estimate how long all of them take."""
MIN_ESTIMATE: Final = 10.0
"""Seconds from which a cost is stated before the work."""
EXCERPT: Final = 320
"""Characters of a passage that an answer shows."""
MAX_ROWS: Final = 12
"""Rows of the registry that an answer shows."""
ONLY_CITATIONS: Final = "The model only names passages, without words of its own:"
NO_ANSWER: Final = "The model wrote no answer."
NO_QUESTION: Final = "There is no question. Write one, such as: Which drugs did patient 7 stop?"


class NoQuestion(PublicError, ValueError):
    """There is no question."""


class BadDate(PublicError, ValueError):
    """A date of a filter is none."""


@dataclass(frozen=True)
class Options:
    """What a person may choose of the system.

    Attributes:
        encoder: Encoder of passages; the paper's is Bio_ClinicalBERT.
        reranker: Encoder of the reranker; the paper's is BioLinkBERT. Empty for the encoder.
        topk: Passages that the model reads.
        max_tokens: Longest answer, in tokens.
        home: Folder for registry and index; by default one of this machine's derived data.
    """

    encoder: str = vectors.DEFAULT_ENCODER
    reranker: str = ""
    topk: int = 5
    max_tokens: int = 160
    home: Path | None = None


DEFAULTS: Final = Options()


@dataclass(frozen=True)
class Notes:
    """Own notes that are ready to be asked.

    Attributes:
        own: The notes, and what was left out.
        registry: The paper's registry, of all drugs that the notes name.
        retriever: Finds passages.
        llm: The model that answers.
        options: What a person chose.
        home: Folder of registry and index.
    """

    own: OwnNotes
    registry: pd.DataFrame
    retriever: Retriever
    llm: LLM
    options: Options
    home: Path
    _sources: Mapping[str, str] = field(repr=False, default_factory=dict)

    def retrieve(
        self,
        query: str,
        patient_id: str | None = None,
        date_start: str | None = None,
        date_end: str | None = None,
        topk: int = 10,
        medication: str | None = None,
    ) -> dict[str, Any]:
        """Find passages, as the paper's `retrieve` does ("Usage", step 5).

        Args:
            query: The question.
            patient_id: Only notes of this patient.
            date_start: Only notes of this day or later ones, such as 2023-01-01.
            date_end: Only notes of this day or earlier ones.
            topk: Number of passages.
            medication: Only passages that name this drug, by any of its names.

        Returns:
            `results`, a table of ranked passages, and `audit`, how they were found.

        Raises:
            BadDate: A date is none.
        """
        filters = make_filters(patient_id, date_start, date_end, medication)
        found = self.retriever.retrieve(with_long_forms(query), k=topk, filters=filters)
        return {"results": self._table(found), "audit": dict(found.audit)}

    def _table(self, found: Retrieval) -> pd.DataFrame:
        """The passages with their scores, metadata and texts."""
        table = found.table().rename(
            columns={"patient": "patient_id", "date": "note_date", "passage": "chunk_id"}
        )
        table["note_date"] = [_day_text(chunk.date) for chunk in found.passages]
        table["note_id"] = [chunk.note for chunk in found.passages]
        table["source_text_file"] = [self._sources[chunk.note] for chunk in found.passages]
        table["text"] = [chunk.text for chunk in found.passages]
        return table

    def ask(self, question: str, filters: Filters = NO_FILTERS) -> SystemAnswer:
        """Answer a question in free words.

        Args:
            question: The question.
            filters: Patient, days and drug, in place of those that the question names.

        Raises:
            NoQuestion: The question is blank.
            ContextOverflowError: The passages do not fit the model; ask for fewer.
        """
        if not question.strip():
            raise NoQuestion(NO_QUESTION)
        filters, remark = self._with_known_patient(filters)
        found = self._find(question, filters)
        passages = answers.by_date(found.passages)
        details = {"audit": dict(found.audit), "scores": found.table().to_dict("records")}
        if not passages:
            text = self._nothing(found)
            return SystemAnswer(question, text, answered=False, notes=remark, details=details)
        prompt = answers.free_prompt(question, passages)
        (reply,) = self.llm.chat_many(
            [prompt], max_tokens=self.options.max_tokens, overflow="record", label="answer"
        )
        if reply.status == "overflow":
            raise ContextOverflowError(
                f"{counted(len(passages), 'passage')} and the question exceed the context of the "
                "model. Ask for fewer by --topk."
            )
        cited, has_no_answer = answers.read_citations(reply.text, passages)
        names = self._names_of_drugs(f"{question} {reply.text}")
        evidence = tuple(
            self._evidence(number, passage, f"{question} {reply.text} {names}")
            for number, passage in enumerate(passages, start=1)
        )
        rows = self._registry_rows(found)
        text = reply.text.strip()
        has_words = bool(CITATION.sub("", text).strip())
        if not has_words:
            text = f"{ONLY_CITATIONS} {text}" if text else NO_ANSWER
        return SystemAnswer(
            question,
            text,
            answered=has_words and not has_no_answer,
            evidence=evidence,
            citations=tuple(evidence[number - 1].source for number in cited),
            warnings=(
                *_check_citations(reply.text, passages, cited, has_no_answer),
                *_uncited_values(question, reply.text, passages),
                *self._contradictions(question, reply.text, found),
            ),
            notes=(*remark, *self._remarks(found, rows)),
            details=details | {"registry": rows.to_dict("records")},
        )

    def _find(self, question: str, filters: Filters) -> Retrieval:
        """Find the passages that the model reads."""
        return self.retriever.retrieve(
            with_long_forms(question), k=self.options.topk, filters=filters
        )

    def _names_of_drugs(self, text: str) -> str:
        """All names of the drugs that a text names: a passage may have another one."""
        lexicon = self.retriever.lexicon
        names: list[str] = []
        for drug in sorted(lexicon.drugs_in(text)):
            names.extend(lexicon.aliases[drug])
        return " ".join(names)

    def _contradictions(self, question: str, reply: str, found: Retrieval) -> tuple[str, ...]:
        """What the registry has of the same notes, where it contradicts an answer."""
        if found.audit["drugs"]:
            return ()
        notes = {chunk.note for chunk in found.passages}
        rows = self.registry[self.registry.note_id.isin(notes)]
        warning = find_contradiction(question, reply, rows)
        return (warning,) if warning else ()

    def _with_known_patient(self, filters: Filters) -> tuple[Filters, tuple[str, ...]]:
        """Put the only patient with that number in place of one that is unknown, and say so."""
        patient = filters.patient
        if not patient or patient.lower() in map(str.lower, self.own.patients):
            return filters, ()
        matches = [known for known in self.own.patients if _is_number_of(patient, known)]
        if len(matches) != 1:
            return filters, ()
        return replace(filters, patient=matches[0]), (f"Patient {patient!r} is {matches[0]}.",)

    def _nothing(self, found: Retrieval) -> str:
        """Why nothing was found, and what there is."""
        searched = found.audit["after filters"]
        if searched:
            return "No passage fits the question."
        patients = self.own.patients
        shown = ", ".join(patients[:5])
        more = f" and {len(patients) - 5:,} more" if len(patients) > 5 else ""
        return (
            f"No note passes the filters ({found.audit['filters']}). There are notes of "
            f"{shown}{more}."
        )

    def _evidence(self, number: int, passage: Chunk, words: str) -> Evidence:
        source = self._sources[passage.note]
        place = f"characters {passage.start:,} to {passage.end:,}"
        return Evidence(
            excerpt(passage.text, words),
            f"[{number}] {source}, {_day_text(passage.date) or 'no date'}, {place}",
            {
                "note_id": passage.note,
                "patient_id": passage.patient,
                "note_date": _day_text(passage.date),
                "start": passage.start,
                "end": passage.end,
                "passage": passage.text,
            },
        )

    def _registry_rows(self, found: Retrieval) -> pd.DataFrame:
        """The registry's rows of the notes whose passages were found, for the question's drugs."""
        notes = {chunk.note for chunk in found.passages}
        rows = self.registry[self.registry.note_id.isin(notes) & self.registry.medication.notna()]
        drugs = str(found.audit["drugs"]).split(", ") if found.audit["drugs"] else []
        if drugs:
            rows = rows[rows.medication.isin(drugs)]
        shown = rows.sort_values("note_date").head(MAX_ROWS)
        taken_drugs = self._taken_drugs(notes)
        pairs = zip(shown.note_id, shown.medication, strict=True)
        is_taken = [pair in taken_drugs for pair in pairs]
        return shown[list(_SHOWN_COLUMNS)].assign(read_as_taken=is_taken)

    def _taken_drugs(self, note_ids: Collection[str]) -> set[tuple[str, str]]:
        """Note and drug of the drugs that these notes report as taken."""
        notes = [note for note in self.own.notes if note.note_id in note_ids]
        drugs = set()
        for reading in Reader(RuleNamer())(notes):
            for medication in reading.medications:
                if medication.role in registry.TAKEN:
                    drugs.add((reading.note_id, medication.drug))
        return drugs

    def _remarks(self, found: Retrieval, rows: pd.DataFrame) -> Iterator[str]:
        """How an answer came about, and what the registry has."""
        n_passages = len(found.passages)
        yield f"{self.llm.endpoint.model} answered from {counted(n_passages, 'passage')}."
        filters = found.audit["filters"] or "none"
        yield f"Filters: {filters}. Passages after them: {found.audit['after filters']:,}."
        if self.own.without_date:
            undated = counted(self.own.without_date, "note has", "notes have")
            yield f"{undated} no date; a filter of days leaves such notes out."
        for row in rows.to_dict("records"):
            yield f"Registry: {_spoken_row(row)}"


def _check_citations(
    text: str, passages: Sequence[Chunk], cited: Sequence[int], has_no_answer: bool
) -> Iterator[str]:
    """What a reader must check where the model names no passage."""
    if cited or has_no_answer:
        return
    words = _words(text)
    counts = [len(words & _words(passage.text)) for passage in passages]
    warning = "The answer cites no passage, so check it before you rely on it."
    if any(counts):
        nearest = counts.index(max(counts)) + 1
        warning += f" [{nearest}] has most of its words."
    yield warning


def _uncited_values(question: str, text: str, passages: Sequence[Chunk]) -> tuple[str, ...]:
    """What a reader must check where the cited passages lack a dose, date or frequency."""
    cited, has_no_answer = answers.read_citations(text, passages)
    return () if has_no_answer else find_uncited(question, text, passages, cited)


def _is_number_of(written: str, patient: str) -> bool:
    """Whether a number is the only one in a patient's identifier, leading zeros aside."""
    numbers = [number.lstrip("0") for number in re.findall(r"[0-9]+", patient)]
    return written.isdecimal() and numbers == [written.lstrip("0")]


_SHOWN_COLUMNS: Final = (
    *("patient_id", "note_date", "medication", "medication_dosage", "intake_times_per_day"),
    *("seizure_status", "source_text_file"),
)


def _spoken_row(row: Mapping[Any, Any]) -> str:
    """A row of the registry in words."""
    text = f"{row['note_date'] or 'no date'}, patient {row['patient_id']}: {row['medication']}"
    if row["medication_dosage"]:
        text += f" {row['medication_dosage']}"
    if pd.notna(row["intake_times_per_day"]):
        text += f", {row['intake_times_per_day']:g} a day"
    if not row["read_as_taken"]:
        text += " (named in the note, but not read as taken on that date)"
    return f"{text}; seizures {row['seizure_status']} ({row['source_text_file']})"


def _day_text(day: date) -> str:
    return "" if day == NO_DATE else day.isoformat()


def make_filters(
    patient: str | None = None,
    since: str | None = None,
    until: str | None = None,
    medication: str | None = None,
) -> Filters:
    """Make filters from texts.

    Raises:
        BadDate: A date is none.
    """
    return Filters(patient or "", _day(since), _day(until), medication or "")


def _day(text: str | None) -> date | None:
    if not text:
        return None
    day = parse_day(text)
    if day is None:
        raise BadDate(f"A day such as 2023-01-31 was needed; found {text!r}.")
    return day


def excerpt(text: str, words: str) -> str:
    """Return the part of a passage that has the most words of a question and its answer.

    Abbreviations count as their words.
    """
    plain = " ".join(text.split())
    if len(plain) <= EXCERPT:
        return plain
    question_words = _words(with_long_forms(clean(words).text))
    best_start, best_count = 0, 0
    for match in re.finditer(r"^|(?<=[.:;])\s+", plain):
        start = match.end()
        part = clean(plain[start : start + EXCERPT]).text
        count = len(question_words & _words(with_long_forms(part)))
        if count >= best_count:  # of equal ones the last, which begins with what it is about
            best_start, best_count = start, count
    end = best_start + EXCERPT
    before = "... " if best_start else ""
    after = " ..." if end < len(plain) else ""
    return f"{before}{plain[best_start:end].strip()}{after}"


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z0-9]{3,}", text.lower()))


# ------------------------------------------------------------------------------------------ set-up


def open_notes(path: Path, options: Options = DEFAULTS, *, model: LLM | None = None) -> Notes:
    """Make notes ready to be asked: registry, index, and a model that is asked when needed.

    The log says what was read, what was left out and why, and what long work will take. An ended
    run goes on where it was.

    Args:
        path: A folder of notes, or a table; see `own_notes`.
        options: What a person may choose.
        model: The model that answers; by default the one of the settings.

    Raises:
        FolderError: There is nothing there that can be read.
    """
    own = read_notes(path)
    for line in documents.describe(own.left_out):
        log.warning("Left out: %s", line)
    n_notes, n_patients = len(own.notes), len(own.patients)
    log.info("%s: %s of %s.", path, counted(n_notes, "note"), counted(n_patients, "patient"))
    home = options.home or OWN / _folder_name(path)
    home.mkdir(parents=True, exist_ok=True)
    built = build_registry(own.notes, home)
    retriever = build_index(own, home, options)
    sources = {note.note_id: note.source for note in own.notes}
    answering = model or llm.connect(profile_model(settings().profile), folder=REPLIES)
    return Notes(own, built, retriever, answering, options, home, sources)


def _folder_name(path: Path) -> str:
    """A name for what is made of a folder: its own, and a digest of its whole path."""
    full = path.resolve()
    digest = hashlib.sha256(str(full).encode()).hexdigest()[:8]
    plain = re.sub(r"[^\w-]+", "_", full.name) or "notes"
    return f"{plain[:40]}-{digest}"


def build_registry(notes: Sequence[Note], home: Path) -> pd.DataFrame:
    """Read all notes by the rules of notebook 12, and write the paper's registry.

    Notes are read in batches; what an earlier run has read is not read again.

    Args:
        notes: The notes.
        home: Folder of the registry.
    """
    parts = home / "registry.parts"
    parts.mkdir(exist_ok=True)
    batches = {}
    for start in range(0, len(notes), BATCH):
        batch = notes[start : start + BATCH]
        batches[parts / f"{_digest(batch)}.parquet"] = batch
    _read_batches({file: batch for file, batch in batches.items() if not file.exists()})
    for stale in set(parts.glob("*.parquet")) - batches.keys():
        stale.unlink()
    built = pd.concat([pd.read_parquet(file) for file in batches], ignore_index=True)
    registry.write(built, home / REGISTRY_FILE)
    return built


def _read_batches(batches: Mapping[Path, Sequence[Note]]) -> None:
    """Read notes, and write the registry of each batch to its file."""
    if not batches:
        return
    read = Reader(RuleNamer())
    n_notes = sum(len(batch) for batch in batches.values())
    timed = next(iter(batches.values()))[:N_TIMED]
    began = time.perf_counter()
    read(timed)
    seconds = (time.perf_counter() - began) / len(timed) * n_notes
    _state_cost("Reading the notes", seconds)
    progress = tqdm(batches.items(), desc="read notes", unit="batch", disable=len(batches) < 2)
    for file, batch in progress:
        registry.write(registry.build(batch, read(batch)), file)


def _digest(notes: Sequence[Note]) -> str:
    """Digest of notes, and of the code and words that read them."""
    text = f"{_reader_digest()}{notes!r}"
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:24]


@lru_cache
def _reader_digest() -> str:
    """Digest of the rules: of their words, and of the modules that apply them."""
    modules = (cleaning, extraction, lines, registry, sections)
    files = [Path(str(module.__file__)) for module in modules]
    content = [file.read_bytes() for file in (*files, TERMS, LAYOUT, DRUGS)]
    return hashlib.sha256(b"".join(content)).hexdigest()


def _state_cost(label: str, seconds: float) -> None:
    if seconds >= MIN_ESTIMATE:
        amount = f"{seconds:.0f} s" if seconds < 90 else f"{seconds / 60:.0f} minutes"
        log.info("%s takes about %s, once. If it is ended, the next run goes on.", label, amount)


def build_index(own: OwnNotes, home: Path, options: Options) -> Retriever:
    """Cut the notes into passages, index them, and write FAISS index and metadata.

    Args:
        own: The notes.
        home: Folder of the index.
        options: Encoders.
    """
    lexicon = Lexicon(drug_names(), symptom_terms(), own.patients)
    chunks = chunk_notes(own.notes, lexicon)
    encoder = vectors.encoder(options.encoder)
    rerank_encoder = vectors.encoder(options.reranker or options.encoder)
    retriever = Retriever(chunks, lexicon, encoder, MeanPooledReranker(chunks, rerank_encoder))
    if not retriever.index.is_built:
        step = max(1, len(chunks) // N_TIMED)
        timed = [chunk.text for chunk in chunks[::step][:N_TIMED]]
        began = time.perf_counter()
        encoder.encode(timed, progress=False)
        seconds = (time.perf_counter() - began) / len(timed) * len(chunks)
        _state_cost("Indexing the passages", seconds)
    _index_long_forms(retriever)
    _write_index(retriever, {note.note_id: note.source for note in own.notes}, home / INDEX_FOLDER)
    return retriever


def _index_long_forms(retriever: Retriever) -> None:
    """Let the search by words find abbreviations by their words; other passages stay as they are.

    The rankings of notes without such abbreviations are those of the notebooks.
    """
    texts = [chunk.text for chunk in retriever.chunks]
    texts_with_long_forms = [with_long_forms(text) for text in texts]
    if texts_with_long_forms != texts:
        retriever.bm25 = bm25_index(texts_with_long_forms)


def _write_index(retriever: Retriever, sources: Mapping[str, str], folder: Path) -> None:
    """Write index, metadata of the passages and what they were made by, if they are not there."""
    info = {
        "encoder": retriever.encoder.name,
        "passages": len(retriever.chunks),
        "texts": retriever.index.digest,
    }
    info_file = folder / "index_info.json"
    if info_file.exists() and json.loads(info_file.read_text("utf-8")) == info:
        return
    retriever.index.index.save(folder)
    rows = [
        {
            "row": row,
            "chunk_id": chunk.id,
            "note_id": chunk.note,
            "patient_id": chunk.patient,
            "note_date": _day_text(chunk.date),
            "source_text_file": sources[chunk.note],
            "start": chunk.start,
            "end": chunk.end,
            "medications": sorted(chunk.drugs),
            "text": chunk.text,
        }
        for row, chunk in enumerate(retriever.chunks)
    ]
    pd.DataFrame(rows).to_parquet(folder / METADATA_FILE, index=False)
    info_file.write_text(json.dumps(info, indent=1), "utf-8")  # last: what is there is complete
