"""Own notes: what is read of a folder or a table, registry and index, answers with citations, scores."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from local_server import LocalServer, server_of_the_settings
from test_clinical_retrieval import WordsEncoder
from typer.testing import CliRunner

from helpers import indexes
from helpers.completions import Reply
from helpers.folders import FolderError
from helpers.texts import TextError
from medrerun.main import app
from papers.clinical_notes import (
    abbreviations,
    answers,
    chart_questions,
    own_evaluation,
    own_notes,
    questions,
    rankings,
    registry,
    system,
)
from papers.clinical_notes.charts import generate
from papers.clinical_notes.gold import NO_DATE

CLINIC = """Memorial Hospital, Epilepsy Clinic
Date of service: {day}

Interval history: {history}

Plan: {plan}
"""
NOTES = {
    "patient_notes/A17/2021-03-02.txt": CLINIC.format(
        day="03/02/2021",
        history="Two focal seizures since the last visit. Reports double vision on\ncarbamazepine.",
        plan="Start lacosamide 50 mg BID. Taper carbamazepine.",
    ),
    "patient_notes/A17/2021-09-14 clinic.txt": CLINIC.format(
        day="09/14/2021",
        history="Seizures: denied. Double vision resolved.",
        plan="Continue lacosamide 100 mg BID.",
    ),
    "patient_notes/B40/visit.md": CLINIC.format(
        day="14 June 2021", history="Weekly auras.", plan="Increase Keppra to 1,500 mg BID."
    ),
}


class Scripted:
    """A model that cites its second passage, and remembers its prompts."""

    def __init__(self, text: str = "Because of double vision. [1]", status: str = "complete"):
        self.endpoint = SimpleNamespace(model="scripted")
        self.text, self.status = text, status
        self.prompts: list[Any] = []

    def chat_many(self, prompts: list[Any], **options: object) -> list[Reply]:
        self.prompts += prompts
        return [Reply(self.text, self.status, 9, 5, 0.1) for _ in prompts]  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def own_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "REPLIES", tmp_path / "stores" / "requests")
    monkeypatch.setattr(system, "OWN", tmp_path / "stores" / "notes")
    monkeypatch.setattr(indexes, "INDEXES", tmp_path / "stores" / "indexes")
    monkeypatch.setattr(own_notes, "READ_DOCUMENTS", tmp_path / "stores" / "documents")
    monkeypatch.setattr(system.vectors, "encoder", lambda name="": WordsEncoder())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as a clinic has it; one entry leads out of it."""
    own = tmp_path / "charts"
    for name, text in NOTES.items():
        (own / name).parent.mkdir(parents=True, exist_ok=True)
        (own / name).write_text(text)
    secret = tmp_path / "elsewhere.txt"
    secret.write_text("Date: 2020-01-01\nA note of somebody else.")
    (own / "link.txt").symlink_to(secret)
    return own


def opened(path: Path, model: Any = None, **options: Any) -> system.Notes:
    llm: Any = model or Scripted()
    return system.open_notes(path, system.Options(**options), model=llm)


# ------------------------------------------------------------------------------------------------------ what is read


def test_a_folder_of_dated_notes_is_read_and_nothing_outside_it(folder):
    own = own_notes.read_notes(folder)
    notes = [(note.patient_id, note.date.isoformat(), note.source) for note in own.notes]
    assert notes == [
        ("A17", "2021-03-02", "patient_notes/A17/2021-03-02.txt"),
        ("A17", "2021-09-14", "patient_notes/A17/2021-09-14 clinic.txt"),
        ("B40", "2021-06-14", "patient_notes/B40/visit.md"),
    ]
    assert "leaves the folder" in own.left_out["link.txt"]
    assert not any("somebody else" in note.text for note in own.notes)


def test_one_file_a_patient_is_split_at_its_dates(tmp_path):
    (tmp_path / "115154574.txt").write_text(
        "Patient: Jane Roe   DOB: 01/02/1980\n\n"
        "2022-01-10 Clinic note\nStarted zonisamide 100 mg daily.\n2022-01-12: dose confirmed.\n\n"
        "==========\n"
        "Date: 03/15/2022\nTwo convulsions.\n\nDOB 01/02/1980. Plan: zonisamide 200 mg daily.\n\n"
        "EEG report\nDate of study: March 20, 2022\nNormal.\n"
    )
    own = own_notes.read_notes(tmp_path)
    assert own.patients == ["115154574"]
    assert [note.date.isoformat() for note in own.notes] == [
        "2022-01-10",
        "2022-03-15",
        "2022-03-20",
    ]
    assert "Jane Roe" in own.notes[0].text
    assert "dose confirmed" in own.notes[0].text
    assert own.notes[1].text.startswith("Date: 03/15/2022")


@pytest.mark.parametrize(
    ("name", "text", "patient", "day"),
    [
        ("P7_20210302.txt", "Seen today.", "P7", "2021-03-02"),
        ("2021/note1.txt", "MRN: 00123\nDate: 2.3.2021\nSeen.", "00123", "2021-03-02"),
        ("A/discharge summary.txt", "Discharge date: 3/2/21\nWell.", "A", "2021-03-02"),
        ("clinic note.txt", "No date in here.", "own", None),
        ("x/y.txt", "Date of birth: 3/2/1980\nWell.", "x", None),
    ],
)
def test_patient_and_date_are_found_in_the_text_or_in_the_names(tmp_path, name, text, patient, day):
    path = tmp_path / "own" / name
    path.parent.mkdir(parents=True)
    path.write_text(text)
    (note,) = own_notes.read_notes(tmp_path / "own").notes
    assert note.patient_id == patient
    assert note.date == (date.fromisoformat(day) if day else NO_DATE)


@pytest.mark.parametrize("suffix", [".csv", ".xlsx"])
def test_a_table_of_notes_is_read(tmp_path, suffix):
    table = pd.DataFrame(
        {
            "Subject ID": ["7", "7", "8"],
            "Chart Date": ["2021-03-02 10:15:00", "04/05/2021", ""],
            "TEXT": ["Takes Keppra, 500 mg.", "Well.", "Denies seizures."],
        }
    )
    path = tmp_path / f"notes{suffix}"
    table.to_csv(path, index=False) if suffix == ".csv" else table.to_excel(path, index=False)
    for place in (path, tmp_path):
        notes = own_notes.read_notes(place).notes
        assert [note.patient_id for note in notes] == ["7", "7", "8"]
        assert [note.date for note in notes] == [date(2021, 3, 2), date(2021, 4, 5), NO_DATE]
        assert notes[0].source == f"notes{suffix}, row 2"


def test_rows_without_a_patient_are_each_their_own(tmp_path):
    table = pd.DataFrame({"encounter_id": ["E1", "E2"], "note": ["Takes Keppra.", "Well."]})
    table.to_csv(tmp_path / "notes.csv", index=False)
    assert own_notes.read_notes(tmp_path / "notes.csv").patients == ["E1", "E2"]


def test_what_cannot_be_read_is_said_with_what_to_do(tmp_path):
    with pytest.raises(FolderError, match="folder of notes was needed"):
        own_notes.read_notes(tmp_path / "missing")
    pd.DataFrame({"a": ["1"]}).to_csv(tmp_path / "notes.csv", index=False)
    with pytest.raises(TextError, match="note text"):
        own_notes.read_notes(tmp_path / "notes.csv")
    with pytest.raises(FolderError, match=r"\.csv.*notes\.csv: a column such as 'note text'"):
        own_notes.read_notes(tmp_path)


def test_a_folder_of_notes_names_what_it_does_not_read(tmp_path):
    (tmp_path / "scan.png").touch()
    with pytest.raises(FolderError, match=r"scan\.png: files that end in \.png .*\.csv") as error:
        own_notes.read_notes(tmp_path)
    assert "may also" not in str(error.value)
    pd.DataFrame({"note": ["Two seizures in May."]}).to_csv(tmp_path / "notes.csv", index=False)
    assert list(own_notes.read_notes(tmp_path).left_out) == ["scan.png"]


# ------------------------------------------------------------------------------------------------- registry and index


def test_the_registry_has_the_papers_columns_and_the_index_its_metadata(folder):
    notes = opened(folder)
    table = pd.read_parquet(notes.home / "all_patients_combined.parquet")
    assert list(table) == registry.SCHEMA.names
    assert len(table.columns) == 19
    rows = table.set_index(["patient_id", "note_date", "medication"])
    assert rows.loc[("A17", "2021-09-14", "lacosamide"), "medication_dosage"] == "100 mg"
    assert rows.loc[("B40", "2021-06-14", "levetiracetam"), "medication_dosage"] == "1500 mg"
    assert rows.loc[("A17", "2021-09-14", "lacosamide"), "seizure_status"] == "negative"
    metadata = pd.read_parquet(notes.home / "vector_index" / "faiss_chunk_metadata.parquet")
    assert len(metadata) == notes.retriever.index.size
    assert set(metadata.source_text_file) == set(NOTES)
    texts = {note.note_id: note.text for note in notes.own.notes}
    for row in metadata.to_dict("records"):
        assert texts[row["note_id"]][row["start"] : row["end"]] == row["text"]
    loaded = indexes.Index.load(notes.home / "vector_index")
    assert loaded.size == len(metadata)


def test_a_run_that_was_ended_goes_on_and_a_changed_note_is_read_again(
    folder, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(system, "BATCH", 1)
    read: list[str] = []
    build = registry.build

    def fails_at_third(notes: Any, readings: Any) -> pd.DataFrame:
        if len(read) == 2:
            raise KeyboardInterrupt
        read.append(notes[0].note_id)
        return build(notes, readings)

    monkeypatch.setattr(registry, "build", fails_at_third)
    with pytest.raises(KeyboardInterrupt):
        opened(folder)
    first = list(read)

    def notes_what_it_reads(notes: Any, readings: Any) -> pd.DataFrame:
        read.append(notes[0].note_id)
        return build(notes, readings)

    monkeypatch.setattr(registry, "build", notes_what_it_reads)
    opened(folder)
    assert len(read) == 3
    assert len(set(read)) == 3
    assert read[:2] == first
    opened(folder)
    assert len(read) == 3
    changed = folder / "patient_notes/B40/visit.md"
    changed.write_text(changed.read_text().replace("1,500 mg", "1,000 mg"))
    notes = opened(folder)
    assert read[3:] == ["patient_notes/B40/visit"]
    assert "1000 mg" in set(notes.registry.medication_dosage)


# ------------------------------------------------------------------------------------------------------------ answers


def test_what_answers_is_what_the_notebooks_measure(tmp_path):
    charts = generate(3, 5)
    for chart in charts:
        for note in chart.notes:
            path = tmp_path / "own" / chart.patient_id / f"{note.note_id}.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(note.text)
    names = questions.antiseizure_names()
    question_set = chart_questions.write_chart_questions(charts, names, 1, 1, seed=3)
    model = Scripted()
    notes = opened(tmp_path / "own", model, topk=3)
    for question in question_set:
        model.prompts.clear()
        answer = notes.ask(question.text)
        (passages,) = answers.retrieve_passages(notes.retriever, [question], 3)
        (prompt,) = model.prompts
        _, form = chart_questions.QUESTION_FORMS[question.kind]
        chapter_prompt = answers.answer_prompt(question, passages)
        assert prompt[-1]["content"] + f"\n{form}" == chapter_prompt[-1]["content"]
        assert prompt[:-1] == chapter_prompt[:-1]
        ranking = rankings.Rankings(notes.retriever, {}).passages(
            question_of(question), rankings.ARMS["hybrid"]
        )
        assert {evidence.values["note_id"] for evidence in answer.evidence} == {
            passage.rsplit(":", 1)[0] for passage in ranking[:3]
        }
        retrieved = notes.retrieve(question.text, topk=3)
        assert list(retrieved["results"].chunk_id) == ranking[:3]


def question_of(question: chart_questions.ChartQuestion) -> questions.Question:
    return questions.Question(
        id="q",
        text=question.text,
        unit="",
        intent="patient",
        strata={},
        patient=None,
        since=None,
        until=None,
        places=(),
    )


def test_an_answer_cites_note_date_and_passage(folder):
    model = Scripted("Double vision. [2] and [9]")
    answer = opened(folder, model).ask("Why was carbamazepine stopped in patient A17?")
    assert answer.answered
    (citation,) = answer.citations
    assert citation.startswith(
        "[2] patient_notes/A17/2021-09-14 clinic.txt, 2021-09-14, characters"
    )
    assert {evidence.values["patient_id"] for evidence in answer.evidence} == {"A17"}
    assert answer.details["audit"]["filters"] == "patient A17"
    assert {"rerank", "semantic", "lexical", "medication"} <= set(answer.details["scores"][0])
    assert any("carbamazepine" in row["medication"] for row in answer.details["registry"])
    json.dumps(answer.as_dict())
    uncited = opened(folder, Scripted("Weekly auras.")).ask("Any auras in B40?")
    assert "cites no passage, so check it before you rely on it. [1] has" in str(uncited)
    only_numbers = opened(folder, Scripted("[1] [2]")).ask("Any auras?")
    assert not only_numbers.answered
    assert only_numbers.text.startswith("The model only names passages")
    silent = opened(folder, Scripted("")).ask("Any auras?")
    assert (silent.text, silent.answered) == ("The model wrote no answer.", False)
    assert not opened(folder, Scripted("Not found in chart [1]")).ask("Any auras?").answered


def test_a_drug_that_is_only_named_is_not_shown_as_taken(folder):
    (folder / "patient_notes/A17/2022-01-05.txt").write_text(
        CLINIC.format(day="01/05/2022", history="No seizures.", plan="May consider zonisamide.")
    )
    answer = opened(folder).ask("What does A17 take?", system.make_filters(since="2021-09-01"))
    is_taken = {row["medication"]: row["read_as_taken"] for row in answer.details["registry"]}
    assert is_taken == {"lacosamide": True, "zonisamide": False}
    assert "zonisamide (named in the note, but not read as taken on that date)" in str(answer)


def test_filters_hold_whatever_the_question_says(folder):
    notes = opened(folder)

    def sources(**filters: str) -> set[str]:
        retrieval = notes.retrieve("What does patient B40 take?", **filters)  # type: ignore[arg-type]
        return set(retrieval["results"].source_text_file)

    assert sources() == {"patient_notes/B40/visit.md"}
    assert len(sources(patient_id="A17")) == 2
    assert sources(patient_id="A17", date_start="2021-06-01") == {
        "patient_notes/A17/2021-09-14 clinic.txt"
    }
    assert sources(patient_id="A17", date_end="06/01/2021") == {"patient_notes/A17/2021-03-02.txt"}
    assert sources(patient_id="A17", medication="Tegretol") == {"patient_notes/A17/2021-03-02.txt"}
    assert len(notes.retrieve("auras", topk=1)["results"]) == 1
    with pytest.raises(system.BadDate, match="A day such as"):
        sources(date_start="yesterday")


def test_where_nothing_passes_the_filters_no_model_is_asked(folder):
    model = Scripted()
    answer = opened(folder, model).ask("What did patient 99 take?")
    assert not answer.answered
    assert "No note passes the filters (patient 99). There are notes of A17, B40." in answer.text
    assert not model.prompts
    with pytest.raises(system.NoQuestion):
        opened(folder, model).ask(" ")


def test_a_number_names_the_only_patient_that_has_it(tmp_path):
    for patient in ("p17", "p18", "q18"):
        (tmp_path / f"{patient}_2021-03-02.txt").write_text("Takes lacosamide 50 mg BID.")
    notes = opened(tmp_path)
    question = "Which drugs are taken?"
    answer = notes.ask(question, system.make_filters("017"))
    assert "Patient '017' is p17." in answer.notes
    assert answer.details["audit"]["patients"] == "p17"
    assert (
        "(patient 18). There are notes of p17, p18, q18."
        in notes.ask(question, system.make_filters("18")).text
    )


def test_one_note_of_one_patient_is_counted_so(tmp_path, caplog: pytest.LogCaptureFixture):
    own = tmp_path / "own"
    own.mkdir()
    (own / "P1.txt").write_text("Takes Keppra.")
    with caplog.at_level("INFO", logger="papers"):
        answer = opened(own).ask("What does P1 take?")
    assert f"{own}: 1 note of 1 patient." in caplog.text
    assert "1 note has no date; a filter of days leaves such notes out." in answer.notes
    built = CliRunner().invoke(app, ["notes", "build", str(own)])
    assert built.stdout.startswith("1 row in ")
    assert "\n1 passage in " in built.stdout


def test_an_answer_that_cites_nothing_says_so_beside_it(folder):
    """Nothing is said of the nearest passage where none has a word of the answer."""
    answer = opened(folder, Scripted("Yes")).ask("Does B40 drive?")
    assert answer.text == "Yes"
    assert answer.warnings == ("The answer cites no passage, so check it before you rely on it.",)
    assert str(answer).startswith("Yes\n\nWarnings:\n  The answer cites no passage")
    assert "cites no passage" in answer.as_dict()["warnings"][0]


@pytest.mark.parametrize(
    ("question", "reply", "contradicted"),
    [
        ("Did A17 have seizures at the visit of September 2021?", "Yes", True),
        ("Did A17 have seizures at the visit of September 2021?", "Yes, two. [1]", True),
        ("Any seizures of A17 in September 2021?", "A17 had focal seizures. [1]", True),
        ("Was A17 free of seizures in September 2021?", "No. [1]", True),
        ("Was A17 free of seizures in March 2021?", "Yes [1]", True),
        ("Did A17 have seizures in March 2021?", "No seizures were reported. [1]", True),
        ("Did A17 have seizures at the visit of September 2021?", "No [1]", False),
        ("Was A17 free of seizures in September 2021?", "No seizures were reported. [1]", False),
        ("Did A17 have seizures in March 2021?", "Yes [1]", False),
        ("Did A17 have seizures in 2021?", "No [1]", False),
        ("Did lacosamide stop the seizures of A17 by September 2021?", "Yes [1]", False),
        ("Does A17 drive in September 2021?", "Yes [1]", False),
        ("When did A17 have seizures in September 2021?", "Not found in chart", False),
    ],
)
def test_what_the_registry_contradicts_is_said_beside_the_answer(
    folder, question, reply, contradicted
):
    answer = opened(folder, Scripted(reply)).ask(question)
    assert answer.text == reply
    warnings = [text for text in answer.warnings if "registry contradicts the answer" in text]
    assert len(warnings) == int(contradicted)
    for warning in warnings:
        assert "by the note of 2021-0" in warning


@pytest.mark.parametrize(
    ("reply", "warnings"),
    [
        (
            "Lacosamide 100 mg b.i.d. [1]",
            ("The cited passage [1] does not contain 100 mg. The value is in [2].",),
        ),
        ("Lacosamide 100 mg b.i.d. [2]", ()),
        ("Lacosamide 50 mg from 2 March 2021, then 100 mg twice a day [1, 2]", ()),
        ("Not found in chart: no 100 mg. [1]", ()),
    ],
)
def test_a_dose_that_the_cited_note_lacks_is_said_beside_the_answer(folder, reply, warnings):
    answer = opened(folder, Scripted(reply)).ask("How much lacosamide does A17 take?")
    assert [evidence.values["note_date"] for evidence in answer.evidence] == [
        "2021-03-02",
        "2021-09-14",
    ]
    assert answer.text == reply
    assert answer.warnings == warnings


def test_abbreviations_are_found_and_shown_by_their_words(tmp_path):
    """Search and excerpts know them, and the prompt has the note as it is."""
    filler = "Sleeps well and eats well. " * 30
    for number in range(6):
        (tmp_path / f"P{number}_2021-03-02.txt").write_text(f"Stays on LTG. {filler}")
    text = f"{filler}Plan: D/C LEV now. {filler}"
    (tmp_path / "P9_2021-03-02.txt").write_text(text)
    model = Scripted("It was. [1]")
    notes = opened(tmp_path, model, topk=1)
    found = notes.retrieve("discontinued", topk=20)
    by_words = found["results"][found["results"].lexical > 0]
    assert set(by_words.patient_id) == {"P9"}
    question = "When was levetiracetam discontinued?"
    answer = notes.ask(question, system.make_filters("P9", medication="Keppra"))
    assert "D/C LEV now" in answer.evidence[0].text
    assert "D/C LEV now" in model.prompts[0][-1]["content"]
    assert "discontinue discontinued" not in model.prompts[0][-1]["content"]
    assert "d/c'd LEV" in system.excerpt(f"{filler}She d/c'd LEV. {filler}", "Who stopped LEV?")
    assert "Two sz" in system.excerpt(f"{filler}Two sz. {filler}", "Any seizures?")


def test_no_note_of_the_notebooks_has_the_abbreviations_of_own_notes():
    """So the search ranks their passages as it does there."""
    for note in generate(20, 5, untidy=0.5).notes():
        assert abbreviations.with_long_forms(note.text) == note.text


def test_an_excerpt_shows_the_part_that_answers():
    text = "Sleep is fair. " * 40 + "Carbamazepine was stopped for double vision. " + "Well. " * 90
    assert "stopped for double vision" in system.excerpt(text, "Why was carbamazepine stopped?")


# --------------------------------------------------------------------------------------------------------- evaluation


def test_labelled_questions_are_scored_by_intent_and_plotted(folder, tmp_path):
    labelled = pd.DataFrame(
        {
            "query": ["Was lacosamide effective for patient A17?", "Which patients have auras?"],
            "relevant": ["patient_notes/A17/2021-09-14 clinic", "patient_notes/B40/visit.md"],
            "patient_id": ["A17", ""],
        }
    )
    labelled.to_excel(tmp_path / "labelled.xlsx", index=False)
    notes = opened(folder)
    queries = own_evaluation.read_labelled(tmp_path / "labelled.xlsx", notes)
    evaluation = own_evaluation.evaluate(notes, queries, 2)
    table = evaluation.by_intent()
    assert list(table.index) == ["cohort", "effectiveness", "all"]
    assert list(table.columns) == ["questions", "P@2", "R@2", "MRR", "AP"]
    first = evaluation.queries.iloc[0]
    ranking = list(notes.retrieve(queries[0].text, patient_id="A17")["results"].note_id)
    place = ranking.index("patient_notes/A17/2021-09-14 clinic") + 1
    assert pytest.approx(1 / place) == first.MRR
    assert first["R@2"] == 1
    files = own_evaluation.write_plots(evaluation, tmp_path / "plots")
    assert [file.stem for file in files] == list(own_evaluation.PLOTS)
    assert all(file.stat().st_size > 5000 for file in files)
    labelled["relevant"] = ["nowhere", ""]
    labelled.to_csv(tmp_path / "wrong.csv", index=False)
    with pytest.raises(TextError, match="row 2 names 'nowhere'"):
        own_evaluation.read_labelled(tmp_path / "wrong.csv", notes)


# ------------------------------------------------------------------------------------------------------------ command


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    """A server of the settings that cites the first passage."""
    with server_of_the_settings("Because of double vision. [1]", monkeypatch) as running:
        yield running


def test_the_commands_answer_and_evaluate(folder, tmp_path, server: LocalServer):
    question = "Why was carbamazepine tapered?"
    command = ["ask", "notes", str(folder), question, "--patient", "A17", "--until", "2021-06-01"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 0, result.output
    assert "Because of double vision." in result.stdout
    assert "[1] patient_notes/A17/2021-03-02.txt, 2021-03-02, characters 0 to" in result.stdout
    assert "Filters: patient A17; to 2021-06-01." in result.stdout
    n_asked = len(server.requests)
    answer = json.loads(CliRunner().invoke(app, [*command, "--json"]).stdout)
    assert answer["details"]["audit"]["patients"] == "A17"
    # the same question is answered from the store, which lies beside no exported table
    assert len([path for path in server.paths if path.endswith("/completions")]) == 1
    assert n_asked
    labelled = tmp_path / "labelled.csv"
    labelled.write_text("query,relevant\nAny auras?,patient_notes/B40/visit.md\n")
    home = tmp_path / "mine"
    scored = CliRunner().invoke(
        app, ["notes", "evaluate", str(labelled), str(folder), "--topk", "1", "--out", str(home)]
    )
    assert scored.exit_code == 0, scored.output
    assert "P@1" in scored.stdout
    assert (home / "eval_plots" / "dashboard.png").exists()
    built = CliRunner().invoke(app, ["notes", "build", str(folder), "--out", str(home)])
    assert "all_patients_combined.parquet" in built.stdout


def test_own_text_is_kept_where_nothing_exports_it(folder):
    notes = opened(folder)
    notes.ask("Any auras?")
    from helpers import neighbours

    stored = neighbours.STORE
    for path in stored.rglob("*") if stored.exists() else ():
        if path.is_file():
            assert b"double vision" not in path.read_bytes()
    assert system.REPLIES.parent == notes.home.parent.parent
