"""What the pages say of runs: models with their own licences, and evidence a comparison a line."""

import re

from evaluation import record
from evaluation.published import published
from evaluation.records import load
from evaluation.verdicts import evidence_lines
from publish import board_pages, pages
from publish.pages import PUBLISHED_EVIDENCE, Pages
from publish.pieces import Measured
from publish.run_pages import RunPages
from resources.registry import registry


def test_a_model_has_the_licence_of_its_own_digest(tmp_path):
    entry = next(entry for entry in registry().values() if entry.kind != "data" and entry.sha256)
    run = record.start(notebook="01_toy", paper="side_effects", profile="laptop", parameters={})
    run.model("a graph", "", engine="graph", version="1", role="holds the graph")
    run.model("a model", entry.sha256, engine="vllm", version="1", role="answers")
    pages = RunPages([])
    pages._records = [load(run.save(tmp_path / "01_toy.json"))]
    graph, model = re.findall(r"<tr>(<td.*?)</tr>", pages.models())
    (licence,) = re.findall(r'data-label="Licence">(.*?)</td>', graph)
    assert licence in ("", "\N{EN DASH}")
    assert entry.licence in model


def test_a_speed_is_marked_as_not_compared():
    number = published("drug_interactions").number("drug_interactions.text.cypher_seconds")
    fields = {"verdict": "not compared", "n": 100, "unparsed": None, "model": ""}
    row = {"rerun": 15.0} | {f"rerun_{name}": value for name, value in fields.items()}
    shown, n = pages._details(Measured(number, row, "rerun"))
    assert "not compared" in shown
    assert n == "n = 100"


def test_reruns_that_can_only_match_are_counted_apart():
    ids = ("table4.graphrag.recall", "table4.format_b.recall", "table1.graphrag.f1")
    numbers = [published("side_effects").number(f"side_effects.{name}") for name in ids]
    assert [number.by_construction for number in numbers] == [True, False, False]
    verdicts = ("matches", "another model", "differs")
    reruns = [
        Measured(number, {"rerun_verdict": verdict}, "rerun")
        for number, verdict in zip(numbers, verdicts, strict=True)
    ]
    words = board_pages._reruns_in_words(reruns)
    assert words.startswith("We reran 3 numbers. Of these numbers, one matches by construction")
    assert (
        "Of the other 2, none lies within the stated tolerance, 1 lies outside the tolerance"
        in words
    )
    words = board_pages._reruns_in_words(reruns[1:2])
    assert words.startswith("We reran one number. Of these, 1 comes from ")


def test_each_comparison_of_the_evidence_stands_on_a_line():
    lines = evidence_lines("A 2 %; difference +1 point, n = 1,000; <b> 3 %, n = 5. The rest; too.")
    assert str(lines) == (
        "A 2 %; difference +1 point, n = 1,000<br>&lt;b&gt; 3 %, n = 5. The rest; too."
    )
    sentences = "F1 is 2 % (n = 1,000). Of pairs 3 % (p < 0.001, n = 5 rows with one). The rest."
    assert str(evidence_lines(sentences)).split("<br>") == [
        "F1 is 2 % (n = 1,000).",
        "Of pairs 3 % (p &lt; 0.001, n = 5 rows with one).",
        "The rest.",
    ]


def test_a_column_of_claims_without_any_published_evidence_is_left_out():
    pages = Pages([])
    assert PUBLISHED_EVIDENCE in pages.ledger("side_effects").replace("&#39;", "'")
    assert PUBLISHED_EVIDENCE not in pages.ledger("clinical_notes").replace("&#39;", "'")
