"""The system on own documents: it is the arm that the notebooks measure, and cites file and page."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pypdf
import pytest
from local_server import LocalServer, server_of_the_settings
from test_documents import write_docx, write_pdf, write_pdf_with_glyph
from typer.testing import CliRunner

from helpers import indexes, requests, vectors
from helpers.completions import Reply
from helpers.folders import FolderError
from helpers.llm import ContextOverflowError
from medrerun.main import app
from papers.qa_rag import answers, data, finetune, folder, own_pairs, rerankers, retrieval, system
from papers.qa_rag.data import QaRagDataError
from papers.qa_rag.search import Searcher
from rag.ask import box


class Scripted:
    """A model that answers with the first numbered excerpt's number, and remembers its prompts."""

    def __init__(
        self,
        name: str = "small",
        status: str = "complete",
        text: str = "Samples are kept for a year. [1]",
    ) -> None:
        self.endpoint = SimpleNamespace(model=name)
        self.status, self.text = status, text
        self.prompts: list[list[dict[str, str]]] = []

    def chat_many(self, prompts: list[list[dict[str, str]]], **options: object) -> list[Reply]:
        self.prompts += prompts
        status = self.status if options.get("overflow") == "record" else "complete"
        return [
            Reply(self.text, status, 9, 5, 0.1)  # type: ignore[arg-type]
            for _ in prompts
        ]


@pytest.fixture(scope="module")
def sample() -> data.Data:
    return data.load("sample")


@pytest.fixture(scope="module")
def searcher(sample: data.Data) -> Searcher:
    return Searcher(sample.corpus, vectors.encoder())


@pytest.fixture(autouse=True)
def own_stores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "REPLIES", tmp_path / "stores" / "requests")
    monkeypatch.setattr(indexes, "INDEXES", tmp_path / "stores" / "indexes")
    monkeypatch.setattr(folder, "READ_DOCUMENTS", tmp_path / "stores" / "documents")


@pytest.fixture
def documents(tmp_path: Path) -> Path:
    """A folder as a user has it, of which three files can be read."""
    own = tmp_path / "documents"
    own.mkdir()
    pages = [
        "Labels are printed.",
        "Reference samples are kept for a year.",
        "Batches have numbers.",
    ]
    write_pdf(own / "guide.pdf", pages)
    write_pdf(own / "scan.pdf", [""])
    (own / "other.md").write_text("# Transport\nTrucks are cooled.")
    (own / "page.html").write_text("<h1>Storage</h1><p>Stores are locked.</p>")
    (own / "broken.pdf").write_bytes((own / "guide.pdf").read_bytes()[:300])
    (own / "table.xyz").write_text("1;2")
    (own / ".ipynb_checkpoints").mkdir()
    (own / ".ipynb_checkpoints" / "guide-checkpoint.md").write_text("Hidden samples are kept.")
    return own


def test_what_answers_is_the_arm_that_the_notebooks_measure(
    sample: data.Data, searcher: Searcher
) -> None:
    questions = sample.test[:3]
    pairs = answers.examples(sample, 1, seed=1)
    tuned, model = Scripted("tuned"), Scripted()
    order = retrieval.BestWindow(searcher)
    guidance = system.Guidance(
        searcher,
        model,  # type: ignore[arg-type]
        order,
        pairs,
        tuned,  # type: ignore[arg-type]
        max_characters=700,
        max_tokens=24,
    )
    own = guidance.answer([question.text for question in questions])

    measured_tuned, measured = Scripted("tuned"), Scripted()
    writer = retrieval.QueryWriter(measured_tuned, 96, "hypothetical answers")  # type: ignore[arg-type]
    prompts = [finetune.prompt(question) for question in questions]
    queries = retrieval.plain_queries(questions) | {"tuned": writer.write(questions, prompts)}
    find = retrieval.Retrieval(searcher, retrieval.ARMS["qa_rag"], queries, order)
    selected = find.select_ids(questions)
    # Excerpts are ranked by the question without its guideline, which an own question does not have.
    plain = [replace(question, body=question.text) for question in questions]
    rows = answers.AnswerFromPassages(
        measured,  # type: ignore[arg-type]
        answers.ARMS["qa_rag"],
        sample,
        pairs,
        max_characters=700,
        max_tokens=24,
        contexts=selected,
    )(plain)
    assert tuned.prompts == measured_tuned.prompts
    assert model.prompts == measured.prompts
    texts = [answer.text.removeprefix(system.NOT_HELD).strip() for answer in own]
    assert texts == [row.answer for row in rows]
    for answer, row in zip(own, rows, strict=True):
        titles = [sample.corpus.by_id[item.id].document for item in row.items]
        assert [e.source for e in answer.evidence] == [
            f"[{number}] {title}" for number, title in enumerate(titles, start=1)
        ]
        assert all(e.values["found by"] for e in answer.evidence)
        assert not any("HyDE" in note for note in answer.notes)
    assert len(model.prompts[0]) == 4  # instruction, one example, question


def test_without_a_tuned_model_hyde_takes_its_place_and_says_so(
    sample: data.Data, searcher: Searcher
) -> None:
    model = Scripted("Qwen")
    guidance = system.Guidance(searcher, model, retrieval.BestWindow(searcher))  # type: ignore[arg-type]
    answer = guidance.ask(sample.test[0].body)
    assert model.prompts[0] == retrieval.hyde_prompt(system._own_question(0, sample.test[0].body))
    assert "Qwen writes the hypothetical answer (HyDE)" in str(answer)
    assert "HyDE" in answer._repr_html_()


def open_with(documents: Path, model: Scripted, **options: object) -> system.Guidance:
    all_options = system.Options(max_characters=400, n_examples=1, **options)  # type: ignore[arg-type]
    return system.open_guidance(documents, all_options, model=model)  # type: ignore[arg-type]


def test_an_answer_cites_file_and_page(documents: Path) -> None:
    answer = open_with(documents, Scripted()).ask("How long are reference samples kept?")
    (citation,) = answer.citations
    assert citation.startswith("[1] guide.pdf, page ")
    assert citation in str(answer)
    assert citation in answer._repr_html_()
    assert any("word for word" in note for note in answer.notes)


def test_the_text_box_answers_when_asked(
    documents: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text, _ = box(open_with(documents, Scripted()).ask).children
    text.value = "How long are samples kept?"
    assert "Samples are kept for a year." in capsys.readouterr().out


def test_what_cannot_be_answered_says_why(searcher: Searcher) -> None:
    order = retrieval.BestWindow(searcher)
    with pytest.raises(system.NoQuestion, match="no question"):
        system.Guidance(searcher, Scripted(), order).ask(" ")  # type: ignore[arg-type]
    overflowing = Scripted(status="overflow")
    with pytest.raises(ContextOverflowError, match="Ask for fewer"):
        system.Guidance(searcher, overflowing, order).ask("How long?")  # type: ignore[arg-type]


def test_a_refusal_is_no_answer_and_needs_no_check_of_its_sources(documents: Path) -> None:
    class Refusing(Scripted):
        def chat_many(self, prompts: list[list[dict[str, str]]], **options: object) -> list[Reply]:
            return [Reply(answers.REFUSAL, "complete", 9, 5, 0.1) for _ in prompts]

    answer = open_with(documents, Refusing()).ask("Who paints the trucks?")
    assert not answer.answered
    assert answer.evidence
    assert not any("source" in note for note in answer.notes)


def test_an_answer_without_support_has_no_citation(documents: Path) -> None:
    model = Scripted(text="Paint the trucks blue at noon. [1]")
    answer = open_with(documents, model).ask("How long are reference samples kept?")
    assert not answer.answered
    assert answer.citations == ()
    assert answer.evidence
    assert answer.text.startswith(system.NOT_HELD)
    assert "Paint the trucks blue at noon." in answer.text


@pytest.mark.parametrize(
    ("reply", "text", "n_cited"),
    [
        ("[1]", "The model wrote no answer, only the numbers of excerpts: [1].", 1),
        ("[1].", "The model wrote no answer, only the numbers of excerpts: [1].", 1),
        ("", "The model wrote no answer.", 0),
        ("[99]", "The model wrote no answer.", 0),
    ],
)
def test_a_reply_without_words_is_no_answer(
    documents: Path, reply: str, text: str, n_cited: int
) -> None:
    answer = open_with(documents, Scripted(text=reply)).ask("How long are samples kept?")
    assert answer.text == text
    assert not answer.answered
    assert len(answer.citations) == n_cited
    assert answer.warnings == ()


def test_an_answer_that_names_no_source_has_a_warning_beside_it(documents: Path) -> None:
    model = Scripted(text="Reference samples are kept for a year.")
    answer = open_with(documents, model).ask("How long are reference samples kept?")
    assert answer.answered
    assert answer.warnings == ("The answer names no source, so check it before you rely on it.",)
    assert "Warnings:\n  The answer names no source" in str(answer)


def test_an_answer_that_cites_another_passage_than_the_one_with_its_words_has_a_warning(
    tmp_path: Path,
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "cold.md").write_text("Reference samples are kept for one year after expiry.\n")
    (own / "recall.md").write_text("The qualified person signs each recall notice at once.\n")
    question = "How long are reference samples kept?"
    text = "Reference samples are kept for one year after expiry."
    uncited = open_with(own, Scripted(text=text)).ask(question)
    number_of = {
        Path(found.source.split()[1]).stem: number
        for number, found in enumerate(uncited.evidence, start=1)
    }
    right, wrong = number_of["cold"], number_of["recall"]
    warned = open_with(own, Scripted(text=f"{text} [{wrong}]")).ask(question)
    assert warned.warnings == (
        f"The answer cites [{wrong}], but the words that it quotes are in [{right}]. Read these "
        "excerpts before you use the answer.",
    )
    for cited in (f"[{right}]", f"[{right}] [{wrong}]"):
        assert not open_with(own, Scripted(text=f"{text} {cited}")).ask(question).warnings


@pytest.mark.parametrize(
    ("reply", "places"),
    [
        ("Samples are kept for a year. [1]", ["section Storage"]),
        ("A year, cold and dry, is how samples are stored. [1]", ["section Storage"]),
        ("Trucks are cooled. [1]", ["section Transport"]),
    ],
)
def test_a_short_document_is_cited_by_the_sections_that_the_answer_used(
    tmp_path: Path, reply: str, places: list[str]
) -> None:
    own = tmp_path / "own"
    own.mkdir()
    sections = {
        "Scope": "This guide is for depots.",
        "Storage": "Samples are kept for a year, cold and dry.",
        "Transport": "Trucks are cooled. " + "They are washed on each Monday of the month. " * 9,
        "Labels": "Labels are printed.",
        "Waste": "Waste is burnt.",
    }
    page = "".join(f"<h2>{name}</h2><p>{text}</p>" for name, text in sections.items())
    (own / "depot.html").write_text(page)
    model = Scripted(text=reply)
    guidance = system.open_guidance(own, system.Options(n_examples=1), model=model)  # type: ignore[arg-type]
    answer = guidance.ask("How long are samples kept, and are trucks cooled?")
    if answer.answered:
        assert answer.citations == (", ".join(["[1] depot.html", *places]),)
    (excerpt,) = answer.evidence
    assert "Waste is burnt" in excerpt.text
    shown = answers.make_excerpts("samples", guidance.searcher.corpus.passages, 4800)[0]
    assert list(system._used_places(reply.removesuffix(" [1]"), shown)) == places


def test_a_passage_knows_the_page_of_each_of_its_parts(tmp_path: Path) -> None:
    write_pdf(tmp_path / "guide.pdf", ["Labels are printed.", "Samples are kept."])
    corpus, _ = folder.read_folder(tmp_path)
    (passage,) = corpus.passages
    for text, page in (("Labels", "page 1"), ("Samples", "page 2")):
        assert passage.place_at(passage.text.index(text)) == page


def test_a_reranker_is_chosen_by_name_and_another_one_says_so(documents: Path) -> None:
    agent = open_with(documents, Scripted(), reranker="agent")
    assert isinstance(agent.reranker, rerankers.ScoringAgent)
    guidance = open_with(documents, Scripted(), reranker="nobody/no-such-model")
    assert isinstance(guidance.reranker, retrieval.BestWindow)
    notes = guidance.ask("How long are samples kept?").notes
    assert any("nobody/no-such-model does not rerank" in note for note in notes)


def test_a_long_passage_of_which_the_search_reads_the_beginning_is_said(documents: Path) -> None:
    def notes() -> str:
        return " ".join(open_with(documents, Scripted()).ask("How long?").notes)

    assert "reads the first 256 tokens" not in notes()
    (documents / "long.txt").write_text("Records are kept in good order. " * 300)
    assert "reads the first 256 tokens" in notes()


def test_a_search_by_words_finds_what_lies_behind_the_beginning(documents: Path) -> None:
    filler = "Records are kept in good order. " * 290
    for number in range(14):
        (documents / f"long{number}.txt").write_text(f"{filler} Chapter {number}.")
    hidden = f"{filler} Kangaroos are counted by two divers. {filler}"
    (documents / "hidden.txt").write_text(hidden[:9900])
    by_words = open_with(documents, Scripted(), search="words")
    answer = by_words.ask("Who counts kangaroos?")
    assert any("hidden.txt" in evidence.source for evidence in answer.evidence)
    assert any("searched by their words" in note for note in answer.notes)
    assert by_words.config.by == "words"


def test_what_is_read_and_what_is_left_out_is_said(
    documents: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="papers"):
        open_with(documents, Scripted())
    for name in ("scan.pdf", "broken.pdf", "table.xyz", ".ipynb_checkpoints"):
        assert f"Left out: {name}" in caplog.text
    assert "3 documents" in caplog.text
    assert "the index takes about" in caplog.text
    open_with(documents, Scripted()).ask("How long are samples kept?")
    caplog.clear()
    with caplog.at_level("INFO", logger="papers"):
        open_with(documents, Scripted())
    assert "the index is there" in caplog.text


def test_one_document_is_counted_so(tmp_path: Path) -> None:
    own = tmp_path / "own"
    own.mkdir()
    (own / "a.txt").write_text("Samples are kept.")
    library = folder.open_library(own)
    assert library.contents("words").startswith("1 document, 1 passage;")


def test_replies_about_own_documents_lie_apart_from_those_that_are_exported(
    documents: Path, server: LocalServer
) -> None:
    n_exported = len(requests.Store(requests.STORE).rows())
    system.open_guidance(documents).ask("How long are reference samples kept?")
    assert len(requests.Store(requests.STORE).rows()) == n_exported
    own_rows = requests.Store(system.REPLIES).rows()
    assert len(own_rows) == 2
    assert server.requests


# ---------------------------------------------------------------------------------------- own pairs


def pairs_file(path: Path, n: int = 24) -> Path:
    rows = [
        {"question": f"How long is sample {i} kept?", "answer": f"Sample {i} is kept for a year, "
         "until its batch has expired or was recalled."}
        for i in range(n)
    ]  # fmt: skip
    if path.suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(row) for row in rows))
    else:
        lines = [f'"{row["question"]}","{row["answer"]}"' for row in rows]
        path.write_text("\n".join(["Question,Answer", *lines]))
    return path


@pytest.mark.parametrize("name", ["pairs.csv", "pairs.jsonl"])
def test_own_pairs_are_read_and_are_the_examples(tmp_path: Path, name: str) -> None:
    pairs = own_pairs.read_pairs(pairs_file(tmp_path / name))
    assert len(pairs) == 24
    assert pairs[3].text == "How long is sample 3 kept?"
    assert pairs[3].answer.startswith("Sample 3 is kept")
    examples = system._examples(pairs, system.Options(n_examples=2))
    assert len(examples) == 2
    assert set(examples) <= set(pairs)


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("a.csv", "question,answer\nWhy?,\n", "pair 1: a question and an answer"),
        ("a.csv", "q,a\nWhy?,So.\n", "Name the columns question and answer"),
        ("a.jsonl", '{"question": "Why?", "answer": "So."}', "at least 20 pairs"),
        ("a.jsonl", "question: Why?", "line 1: an object"),
        ("a.jsonl", "[1, 2]", "pair 1"),
        ("a.csv", "", "a.csv"),
    ],
)
def test_pairs_of_another_form_are_refused(tmp_path: Path, name: str, text: str, why: str) -> None:
    path = tmp_path / name
    path.write_text(text)
    with pytest.raises(QaRagDataError, match=why) as error:
        own_pairs.read_pairs(path)
    assert "\n" not in str(error.value)


def test_a_missing_file_of_pairs_is_said_before_anything_is_trained(tmp_path: Path) -> None:
    with pytest.raises(QaRagDataError, match=r"none\.csv"):
        own_pairs.read_pairs(tmp_path / "none.csv")


def test_the_last_tenth_of_the_short_pairs_validates(tmp_path: Path) -> None:
    pairs = own_pairs.read_pairs(pairs_file(tmp_path / "pairs.csv", 40))
    long = replace(pairs[0], id="long", answer="word " * 500)
    split = own_pairs.divide([long, *pairs], 600)
    assert long not in split["train"]
    assert [len(split["train"]), len(split["validation"])] == [36, 4]
    assert split["validation"] == list(pairs[-4:])
    with pytest.raises(QaRagDataError, match=r"at most 600 characters.*found 0 of 30"):
        own_pairs.divide([long] * 30, 600)


def test_own_pairs_are_trained_on_as_the_released_ones_are() -> None:
    for profile in ("smoke", "laptop", "paper"):
        recipe = own_pairs.training_settings(profile)
        assert recipe["base"]
        assert recipe["pairs"] is None


# ------------------------------------------------------------------------------------------ command


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[LocalServer]:
    """A server of the settings that answers each prompt from its first excerpt."""
    with server_of_the_settings("Samples are kept for a year. [1]", monkeypatch) as running:
        yield running


def test_the_command_answers_with_file_and_page(documents: Path, server: LocalServer) -> None:
    question = "How long are reference samples kept?"
    result = CliRunner().invoke(app, ["ask", "guidance", str(documents), question])
    assert result.exit_code == 0, result.output
    assert "Samples are kept for a year." in result.stdout
    assert "[1] guide.pdf, page " in result.stdout
    assert "m writes the hypothetical answer (HyDE)" in result.stdout
    n_asked = len([path for path in server.paths if path.endswith("/completions")])
    assert n_asked == 2
    arguments = ["ask", "guidance", str(documents), question, "--json"]
    (answer,) = json.loads(CliRunner().invoke(app, arguments).stdout)
    assert answer["citations"][0].startswith("[1] guide.pdf")
    # the same question again is answered from the store
    assert len([path for path in server.paths if path.endswith("/completions")]) == n_asked


def test_a_fine_tuned_model_that_is_served_writes_the_hypothetical_answer(
    documents: Path, server: LocalServer
) -> None:
    arguments = ["ask", "guidance", str(documents), "How long?", "--tuned", "m"]
    result = CliRunner().invoke(app, arguments)
    assert "HyDE" not in result.output
    prompts = [str(body) for body in server.requests]
    assert any(finetune.INSTRUCTION in prompt for prompt in prompts)


def test_a_folder_without_documents_ends_the_command(tmp_path: Path) -> None:
    result = CliRunner().invoke(app, ["ask", "guidance", str(tmp_path / "none"), "Why?"])
    assert isinstance(result.exception, FolderError)
    assert "There is no folder" in str(result.exception)


def test_what_folders_hold_in_practice_is_read_by_the_command_or_named(
    tmp_path: Path, server: LocalServer
) -> None:
    own = tmp_path / "own"
    (own / ".ipynb_checkpoints").mkdir(parents=True)
    (own / ".git").mkdir()
    (own / ".ipynb_checkpoints" / "guide-checkpoint.md").write_text("Zebras are kept.")
    (own / ".git" / "description.txt").write_text("Zebras are kept.")
    write_pdf(own / "plain.pdf", ["Owners keep ostriches."])
    writer = pypdf.PdfWriter(clone_from=own / "plain.pdf")
    writer.encrypt(user_password="", owner_password="owner", algorithm="AES-256")
    writer.write(own / "owned.pdf")
    (own / "plain.pdf").unlink()
    write_pdf_with_glyph(own / "ligature.pdf", "The e~cacy of vaccines", "FB03", "~")
    write_pdf_with_glyph(own / "surrogate.pdf", "The trans~port of llamas", "D835", "~")
    write_docx(own / "main.docx", "<w:p><w:r><w:t>Camels are counted.</w:t></w:r></w:p>")
    (own / "page.html").write_text("<p>Donkeys are weighed.</p>")
    (own / "a.txt").write_text("Horses are washed.")
    words = {
        "ostriches": "owned.pdf, page 1",
        "efficacy": "ligature.pdf, page 1",
        "llamas": "surrogate.pdf, page 1",
        "camels": "main.docx",
        "donkeys": "page.html",
        "horses": "a.txt",
    }
    arguments = ["ask", "guidance", str(own), *words, "zebras", "--search", "words", "--json"]
    *found, hidden = json.loads(CliRunner().invoke(app, arguments).stdout)
    for (word, place), answer in zip(words.items(), found, strict=True):
        sources = [evidence["source"] for evidence in answer["evidence"]]
        assert sources == [f"[1] {place}"], word
    assert hidden["evidence"] == []
