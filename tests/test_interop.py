"""What other people's programs make of the project's files: TREC, lm-evaluation-harness, Hugging Face's datasets."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
import yaml
from conftest import REPOSITORY
from hypothesis import HealthCheck, given, settings, strategies as st
from test_clinical_retrieval import make_question as a_question
from test_outcomes import rows as answers_of

from evaluation import answers, published, trec
from evaluation.answers import Answer, make_row
from helpers.requests import StoreError
from papers.clinical_notes import rankings
from papers.qa_rag import retrieval
from papers.qa_rag.data import Passage, Question
from papers.side_effects import corpus, forward, harness
from resources.settings import NOTEBOOKS

QUIET = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture
def elsewhere() -> str:
    """The Python of the environment that `make test-interop` sets up."""
    if not (python := os.environ.get("INTEROP")):
        pytest.skip("run by make test-interop, in an environment of its own")
    return python


def told_by(python: str, code: str, *arguments: object) -> dict[str, object]:
    process = subprocess.run(
        [python, "-c", code, *map(str, arguments)], capture_output=True, text=True, check=False
    )
    assert process.returncode == 0, process.stderr[-3000:]
    output: dict[str, object] = json.loads(process.stdout.splitlines()[-1])
    return output


# ------------------------------------------------------------------------------------------------------------- TREC


def frame(rows: list[Answer], arm: str) -> pd.DataFrame:
    return answers.to_frame(rows).assign(arm=arm)


names = [f"note {i}" for i in range(30)]
ranking = st.lists(st.sampled_from(names), unique=True, max_size=30)
grades = st.dictionaries(st.sampled_from(names), st.integers(1, 3), min_size=1, max_size=8)


@QUIET
@given(st.lists(st.tuples(ranking, ranking, grades), min_size=1, max_size=5))
def test_trec_files_of_graded_passages_give_the_books_scores(tmp_path, cases):
    questions = [f"q{i}" for i in range(len(cases))]
    relevance = {q: graded for q, (*_, graded) in zip(questions, cases, strict=True)}
    question_list = [a_question(i, f"question {i}?") for i in range(len(cases))]
    arms = [
        frame(
            [
                make_row(row, unit)
                for row, unit in zip(
                    rankings.ranking_rows(question_list, [c[arm] for c in cases], relevance),
                    question_list,
                    strict=True,
                )
            ],
            f"arm {arm}",
        )
        for arm in (0, 1)
    ]
    rows = pd.concat(arms)
    if not any(any(item.rank for item in items) for items in rows["items"]):
        with pytest.raises(StoreError):
            trec.write(rows, tmp_path)
        return
    scores = trec.write(rows, tmp_path)
    assert {score.measure for score in scores} == set(rankings.MEASURES)
    assert all(score.book == pytest.approx(score.files, abs=1e-12) for score in scores), scores


passages = [Passage(f"p{i}", f"Document {i // 3}", "") for i in range(18)]
found_passages = st.lists(st.sampled_from(passages), unique=True, max_size=6)
of_gold = st.frozensets(st.sampled_from([p.id for p in passages]), max_size=3)
of_titles = st.frozensets(st.sampled_from([p.document for p in passages]), max_size=2)


@QUIET
@given(st.lists(st.tuples(found_passages, of_gold, of_titles), min_size=1, max_size=5))
def test_trec_files_of_passages_and_their_documents_give_the_books_scores(tmp_path, cases):
    questions = {f"q{i}": Question(f"q{i}", "?", "", "", "", "?") for i in range(len(cases))}
    gold = retrieval.Gold(
        {q: gold_ids for q, (_, gold_ids, _) in zip(questions, cases, strict=True) if gold_ids},
        {q: gold_ids for q, (_, _, gold_ids) in zip(questions, cases, strict=True) if gold_ids},
        {},
    )
    retrieval_rows = retrieval.make_rows(
        {q: c[0] for q, c in zip(questions, cases, strict=True)}, gold
    )
    rows = frame(
        [make_row(row, unit) for row, unit in zip(retrieval_rows, questions.values(), strict=True)],
        "arm",
    )
    # an arm that ranks all, so that there is a ranking in any case
    complete_rows = retrieval.make_rows(dict.fromkeys(questions, passages[:6]), gold)
    rows = pd.concat(
        [
            rows,
            frame(
                [make_row(r, u) for r, u in zip(complete_rows, questions.values(), strict=True)],
                "every",
            ),
        ]
    )
    scores = trec.write(rows, tmp_path)
    assert ("document_recall" in {score.measure for score in scores}) == bool(gold.sources)
    assert all(score.book == pytest.approx(score.files, abs=1e-12) for score in scores), scores
    lines = [
        line.split(" ") for path in tmp_path.glob("*.run") for line in path.read_text().splitlines()
    ]
    assert lines and all(len(fields) == 6 for fields in lines)


def test_rows_that_list_too_little_are_told(tmp_path, monkeypatch):
    questions = [a_question(1, "?")]
    (row,) = rankings.ranking_rows(questions, [names[:12]], {"q1": {"note 11": 1, "note 20": 1}})
    full = frame([make_row(row, questions[0])], "arm")
    old = full.assign(items=pd.Series([row.items[:10]]))
    (ap,) = (score for score in trec.write(old, tmp_path) if score.measure == "AP")
    assert ap.differs()
    monkeypatch.setattr(answers, "newest", lambda *_: tmp_path)
    monkeypatch.setattr(answers, "read", lambda _: old)
    monkeypatch.setattr(trec, "BUILD", tmp_path)
    with pytest.raises(StoreError, match="make notebook NB=13_x"):
        trec.main(["13_x"])


# --------------------------------------------------------------------------------------------- lm-evaluation-harness

REPLIES = [
    "Yes.",
    "no, it is not",
    "NO",
    "I do not know",
    "**YES**",
    "Nothing",
    "",
    "yes it is\nNo",
]
IN_HARNESS = """
import json, sys
from lm_eval import simple_evaluate
from lm_eval.api.model import LM
from lm_eval.tasks import TaskManager

folder, name, replies = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])

class Said(LM):
    def generate_until(self, requests, **_):
        self.asked = [request.args for request in requests]
        return [replies[i % len(replies)] for i in range(len(requests))]
    def loglikelihood(self, requests, **_): raise NotImplementedError
    def loglikelihood_rolling(self, requests, **_): raise NotImplementedError

model = Said()
found = simple_evaluate(model=model, tasks=[name], task_manager=TaskManager(include_path=folder), bootstrap_iters=0)
prompts, sampling = [asked[0] for asked in model.asked], model.asked[0][1]
print(json.dumps({"score": found["results"][name]["exact_match,label"], "prompts": prompts, "sampling": sampling}))
"""


def test_the_harness_reads_the_task_and_scores_replies_as_the_book_does(tmp_path, elsewhere):
    benchmark = corpus.read_questions(
        REPOSITORY / "data" / "sample" / "side_effects" / "evaluation_dataset.csv"
    )
    questions = corpus.stratified(benchmark, 16, 1)
    values = {"answer_stop": ["\n"], "answer_tokens": 8, "temperature": 0.1, "top_p": 0.9}
    path = harness.write(tmp_path, questions, values)
    output = told_by(elsewhere, IN_HARNESS, path.parent, harness.TASK, json.dumps(REPLIES))
    labels = [bool(forward.parse_label(REPLIES[i % len(REPLIES)])) for i in range(16)]
    assert output["score"] == pytest.approx(
        sum(r == q.label for r, q in zip(labels, questions, strict=True)) / 16
    )
    assert output["prompts"] == [forward.closed_book_prompt(q)[0]["content"] for q in questions]
    assert output["sampling"] == {
        "until": ["\n"],
        "max_gen_toks": 8,
        "do_sample": True,
        "temperature": 0.1,
        "top_p": 0.9,
    }


# ---------------------------------------------------------------------------------------------- Hugging Face's card

IN_DATASETS = """
import json, sys
from datasets import load_dataset

print(json.dumps({name: load_dataset(sys.argv[1], name, split="train").num_rows for name in sys.argv[2:]}))
"""


def a_release(folder: Path) -> int:
    """The card, with rows of each released notebook and of a further model; how many rows."""
    folder.mkdir()
    shutil.copy(REPOSITORY / "data" / "answers" / "README.md", folder)
    rows = answers.to_frame(answers_of([True, False, True], arm=[True, None, False]))
    released = REPOSITORY / "data" / "answers"
    names = [path.name for path in released.iterdir() if path.is_dir()]
    names.append("01_side_effects_forward@other")
    for name in names:
        answers.write(folder / name, rows, licence="CC0-1.0")
    return len(names) * len(rows)


def test_the_cards_configurations_are_all_answers_and_those_of_each_paper(tmp_path):
    a_release(tmp_path / "answers")
    card = yaml.safe_load((tmp_path / "answers" / "README.md").read_text().split("---")[1])
    paths_of = {}
    for config in card["configs"]:
        patterns = config["data_files"]
        patterns = [patterns] if isinstance(patterns, str) else patterns
        paths_of[config["config_name"]] = [
            p for pattern in patterns for p in (tmp_path / "answers").glob(pattern)
        ]
    all_paths = paths_of.pop("answers")
    assert sorted(all_paths) == sorted(p for paths in paths_of.values() for p in paths)
    assert sorted(all_paths) == sorted((tmp_path / "answers").rglob("*.parquet"))
    for name, paths in paths_of.items():
        assert {
            published.paper_of(NOTEBOOKS / f"{p.parent.name.split('@')[0]}.ipynb") for p in paths
        } == {name}


def test_datasets_loads_the_answers_by_the_card(tmp_path, elsewhere):
    rows = a_release(tmp_path / "answers")
    card = yaml.safe_load((tmp_path / "answers" / "README.md").read_text().split("---")[1])
    configs = [config["config_name"] for config in card["configs"]]
    output = told_by(elsewhere, IN_DATASETS, tmp_path / "answers", *configs)
    counts = {name: int(str(count)) for name, count in output.items()}
    assert counts.pop("answers") == rows == sum(counts.values())
