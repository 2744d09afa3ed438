"""BiomedRAG on own rows: what is read, what is refused, and that the arm of the notebooks answers."""

from __future__ import annotations

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pandas as pd
import pytest

from evaluation import record
from helpers import vectors
from helpers.completions import CapabilityError
from helpers.llm import LLM
from papers.biomedrag import adapted, own_rows, retriever, study, system
from papers.biomedrag.corpora import CorpusError
from papers.biomedrag.memory import Nearest, memory_of
from papers.biomedrag.own_rows import Row, read_rows
from resources.settings import BUILD, DATA

PARTS = {"heart": ("the valve", "a murmur", "the aorta"), "bone": ("the femur", "a fracture")}


class Reader:
    """Answers the label of the last example in the prompt, and finds a true label likely there."""

    endpoint = SimpleNamespace(model="a reader")

    def __init__(self) -> None:
        self.prompts: list[str] = []

    def loglikelihood_many(self, prompts, label):
        return [
            SimpleNamespace(total=-0.1 if f"=> {answer.strip()}" in context else -3.0)
            for context, answer in prompts
        ]

    def chat_many(self, prompts, **_: Any):
        replies = []
        for messages in prompts:
            text = messages[-1]["content"]
            self.prompts.append(text)
            labels = re.findall(r"^Answer: (.+)$", text, re.MULTILINE)
            replies.append(
                SimpleNamespace(
                    text=labels[-1] if labels else "neither",
                    prompt_tokens=len(text),
                    status="answered",
                    key="key",
                )
            )
        return replies


def labelled(n: int = 60) -> list[Row]:
    rows = []
    for i in range(n):
        label = ("heart", "bone")[i % 2]
        part = PARTS[label][i % len(PARTS[label])]
        rows.append(
            Row(i + 1, f"on day {i} the report said {part} was seen in patient {i}", label, ())
        )
    return rows


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(system, "SYSTEMS", tmp_path / "extract")


def test_own_rows_are_learnt_from_scored_and_applied():
    model = cast(LLM, Reader())
    trained = system.train(labelled(), "parts", model=model)
    text = str(trained)
    assert "30 are the memory" in text
    for arm in ("zero_shot", "knn", "cosine", "biomedrag", "tfidf"):
        assert study.LABELS[arm] in text
    assert "[" in text, "scores have intervals"
    new = [Row(1, "today the report said a fracture was seen in patient 99", "", ())]
    (answer,) = trained.extractor.apply(new)
    assert answer.answered
    assert answer.text in PARTS
    assert answer.evidence[-1].text.endswith(f"-> {answer.text}")
    assert re.fullmatch(r"(text|chunk) of row \d+", answer.evidence[0].source)
    # what was stored answers as what was trained
    again = system.load("parts", model=model)
    assert again.apply(new) == [answer]
    assert system.load(model=model).apply(new) == [answer], "the newest by default"
    assert again.ask(new[0].text) == answer


def test_the_arm_of_the_notebooks_answers():
    model = Reader()
    trained = system.train(labelled(), "parts", model=cast(LLM, model))
    corpus, extractor = trained.extractor.corpus, trained.extractor
    generator = study.generator_for(cast(LLM, model), corpus)
    arm = study.prompted_arms(generator, extractor.choose, n=1)["biomedrag"]
    model.prompts.clear()
    of_notebook = [prediction.label for prediction in arm(corpus.test)]
    prompts = list(model.prompts)
    model.prompts.clear()
    rows = [Row(i, example.text, "", ()) for i, example in enumerate(corpus.test)]
    assert [answer.text for answer in extractor.apply(rows)] == of_notebook
    assert model.prompts == prompts
    held_out = {row.unit for row in trained.outcomes.where(arm="biomedrag").frame.itertuples()}
    assert held_out <= {example.id for example in corpus.test}
    assert not held_out & {example.id for example in (*corpus.train, *corpus.validation)}


def test_triples_are_answered_in_one_line_and_texts_with_several_are_told():
    rows = []
    for i in range(60):
        head, tail = ("aspirin", "pain") if i % 2 else ("heparin", "clots")
        relation = "treats" if i % 2 else "prevents"
        triple = own_rows.Triple(head, relation, tail)
        more = (own_rows.Triple(head, relation, f"case {i}"),) if i == 0 else ()
        rows.append(Row(i + 1, f"in case {i} {head} acted on {tail}", "", (triple, *more)))
    trained = system.train(rows, "triples", model=cast(LLM, Reader()))
    assert "1 text has several triples" in str(trained)
    (answer,) = trained.extractor.apply([Row(1, "in case 99 aspirin acted on pain", "", ())])
    assert answer.text.count("|") in (0, 2)


def test_without_likelihoods_the_nearest_document_is_shown_and_said():
    class Mute(Reader):
        def loglikelihood_many(self, prompts, label):
            raise CapabilityError("no log-probabilities")

    with pytest.warns(UserWarning, match="was not run"):
        trained = system.train(labelled(), "mute", model=cast(LLM, Mute()))
    assert "biomedrag" not in trained.outcomes.arms
    (answer,) = trained.extractor.apply([Row(1, "the report said a fracture was seen", "", ())])
    assert "nearest by cosine" in answer.notes[0]


def test_a_reply_that_is_no_label_is_no_answer():
    class Chatty(Reader):
        def chat_many(self, prompts, **options: Any):
            return [
                SimpleNamespace(
                    text="I think\x1b[31m so", prompt_tokens=1, status="answered", key="k"
                )
                for _ in prompts
            ]

    trained = system.train(labelled(), "chatty", model=cast(LLM, Chatty()))
    (answer,) = trained.extractor.apply([Row(1, "a text", "", ())])
    assert not answer.answered
    assert "none of the labels" in answer.notes[0]
    assert "\x1b" not in str(answer)


def test_rows_are_read_from_json_lines_and_tables(tmp_path: Path):
    lines = tmp_path / "a.jsonl"
    lines.write_text(
        json.dumps({"text": "yoga eases pain", "triples": [["yoga", "TREATS", "pain"]]})
        + "\n\n"
        + json.dumps({"sentence": "x  y", "label": 1})
        + "\n",
        encoding="utf-8",
    )
    first, second = read_rows(lines)
    assert (first.number, first.triples[0].relation) == (1, "TREATS")
    assert (second.number, second.text, second.label) == (3, "x y", "1")
    table = pd.DataFrame({"Text": ["a b"], "Head": ["a"], "Relation": ["R"], "Tail": ["b"]})
    table.to_csv(tmp_path / "a.csv", index=False)
    table.to_excel(tmp_path / "a.xlsx", index=False)
    for name in ("a.csv", "a.xlsx"):
        (row,) = read_rows(tmp_path / name)
        assert row.triples == (own_rows.Triple("a", "R", "b"),)
        assert own_rows.task_of([row]) == "triples"
        assert own_rows.task_of([row], "relations") == "relations"
        assert own_rows.question_of(row, "relations").triples


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", "{\n", "line 1: a JSON object was needed"),
        ("a.jsonl", "[1]\n", "line 1: a JSON object was needed"),
        ("a.jsonl", '{"label": "x"}\n', "line 1: a text was needed"),
        ("a.jsonl", '{"text": "t", "triples": [["a", "b"]]}\n', "list of [head, relation, tail]"),
        ("a.jsonl", "", "the file has none"),
        ("a.csv", "label,other\nx,y\n", "row 2: a text was needed"),
        ("a.csv", "text,label\n", "it has no row"),
        ("missing.csv", None, "missing.csv"),
    ],
)
def test_rows_that_cannot_be_used_are_refused_in_one_line(
    name: str, content: str | None, message: str, tmp_path: Path
):
    path = tmp_path / name
    if content is not None:
        path.write_text(content, encoding="utf-8")
    with pytest.raises(CorpusError) as refused:
        read_rows(path)
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("rows", "task", "message"),
    [
        (labelled(20), "", "At least 40 labelled rows were needed"),
        ([Row(i, f"t {i}", "same", ()) for i in range(60)], "", "At least two labels"),
        ([Row(i, f"t {i}", "", ()) for i in range(60)], "", "Row 0: a label was needed"),
        (labelled(), "triples", "Row 1: a triple was needed"),
        (labelled(), "poetry", "A task is one of classification, triples, relations"),
        ([Row(i, "one text", "ab"[i % 2], ()) for i in range(60)], "", "Too few different texts"),
    ],
)
def test_rows_that_nothing_can_be_learnt_from_are_refused(rows: list[Row], task: str, message: str):
    with pytest.raises(CorpusError) as refused:
        system.train(rows, "x", system.Options(task=task), model=cast(LLM, Reader()))
    assert message in str(refused.value)
    assert not system.trained_names()


def test_a_system_that_is_not_there_or_damaged_is_named():
    with pytest.raises(
        CorpusError, match=r"No system is trained yet\. Train one: medrerun extract"
    ):
        system.load("parts", model=cast(LLM, Reader()))
    with pytest.raises(CorpusError, match="letters, digits"):
        system.folder_of("../elsewhere")
    system.train(labelled(), "parts", model=cast(LLM, Reader()))
    with pytest.raises(CorpusError, match="no trained system 'other'; there are: parts"):
        system.load("other", model=cast(LLM, Reader()))
    (system.SYSTEMS / "parts" / system.SCORER_FILE).write_bytes(b"x")
    with pytest.raises(CorpusError, match="damaged"):
        system.load("parts", model=cast(LLM, Reader()))


def test_descriptions_of_labels_are_read_and_used(tmp_path: Path):
    path = tmp_path / "labels.json"
    path.write_text('{"heart": "a part of the circulation"}', encoding="utf-8")
    described = own_rows.read_descriptions(path)
    corpus = own_rows.corpus_of(labelled(), "classification", described, seed=0)
    assert corpus.labels == {"heart": "a part of the circulation", "bone": "bone"}
    for content in ("[1]", "no JSON"):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(CorpusError, match="a JSON object of labels was needed"):
            own_rows.read_descriptions(path)
    with pytest.raises(CorpusError, match="a file was needed"):
        own_rows.read_descriptions(tmp_path / "missing.json")


def test_a_question_never_names_a_file(tmp_path: Path):
    secret = tmp_path / "secret.csv"
    secret.write_text("text\nnobody may read this\n", encoding="utf-8")
    trained = system.train(labelled(), "parts", model=cast(LLM, Reader()))
    assert trained.extractor.ask(str(secret)).question == str(secret)
    (row,) = own_rows.rows_of_arguments([str(secret)])  # an argument of the command does
    assert row.text == "nobody may read this"
    for arguments in (["cls", str(secret)], [str(secret), str(tmp_path / "missing.jsonl")]):
        with pytest.raises(CorpusError, match="Give this file alone"):
            own_rows.rows_of_arguments(arguments)
    with pytest.raises(CorpusError, match="blank"):
        trained.extractor.ask("  ")


def test_nothing_of_own_rows_is_where_tables_are_committed_or_exported():
    exported = [DATA / name for name in ("answers", "requests", "retrieval", "results")]
    for folder in (*exported, BUILD):
        assert not system.OWN.is_relative_to(folder)
    assert system.REPLIES.is_relative_to(system.OWN)


@pytest.mark.parametrize(
    ("teacher", "taught_by"), [("", "a base"), ("another model", "another model")]
)
def test_the_model_that_is_fine_tuned_teaches_its_scorer_unless_another_is_named(
    teacher: str, taught_by: str, monkeypatch: pytest.MonkeyPatch
):
    connected: list[str] = []

    class Named(Reader):
        def adapted(self, _: object) -> Reader:
            return self

    def connect(name: str, **_: object) -> Reader:
        connected.append(name)
        reader = Named()
        reader.endpoint = SimpleNamespace(model=name)
        return reader

    decided_by: dict[str, Any] = {}

    def trained(name: str, pairs: Any, validation: Any, base: str, by: Any, **settings: Any):
        decided_by[name] = by
        log = SimpleNamespace(adapter=name, seconds=1.0, settings=settings, pairs=len(validation))
        return log

    monkeypatch.setattr(adapted.llm, "connect", connect)
    monkeypatch.setattr(adapted.lora, "trained", trained)
    run = record.start(notebook="07_toy", paper="biomedrag", profile="smoke", parameters={})
    monkeypatch.setattr(run, "model_used", lambda *_: None)
    corpus = own_rows.corpus_of(labelled(), "classification", {}, seed=0)
    memory = memory_of(corpus, vectors.encoder())
    plan = retriever.Plan(memory, corpus.train[:4])
    choosers: dict[str, Any] = {"lora_rag": plan, "lora_knn_1": Nearest(memory, 1)}
    recipe = adapted.Recipe(steps=2, seed=0)
    job = (corpus, choosers, corpus.test[:3])
    answers, how = adapted.fine_tuned(run, [job], "a base", recipe, teacher=teacher)
    assert how == "a base was fine-tuned by LoRA in 2 steps of 8 rows"
    assert connected[0] == taught_by
    assert taught_by in decided_by["own-lora_rag"][1]
    assert decided_by["own-lora_knn_1"][1][:2] == ("nearest", 1)
    assert {answer.arm for answer in answers} == {"small", "lora", "lora_rag", "lora_knn_1"}
    assert {answer.model for answer in answers} == {"a base"}
    assert adapted.fine_tuned(run, [job], "", recipe) == ([], ""), "a profile without a second"
