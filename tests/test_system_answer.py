"""What a system returns to a person: in a terminal, in a notebook, and as JSON."""

from __future__ import annotations

import json

from rag.system_answer import MAX_PRINTED, Evidence, SystemAnswer

HOSTILE = "<script>alert(1)</script>\x1b[2J\u202e"
ANSWER = SystemAnswer(
    question="Which drugs cause nausea?",
    text="metformin: 1 drug is listed with nausea.",
    evidence=(Evidence("drug: metformin", "side_effects.csv, row 7", {"drug": "metformin"}),),
    citations=("[1] side_effects.csv, row 7",),
    statement="MATCH (d:Drug)\nRETURN d.name",
    parameters={"effect": "nausea"},
    notes=("nausae was read as nausea.",),
)


def test_an_answer_shows_all_that_it_rests_on():
    text = str(ANSWER)
    html = ANSWER._repr_html_()
    for part in ("metformin: 1 drug", "row 7", "MATCH (d:Drug)", "nausae was read as nausea."):
        assert part in text
        assert part in html
    assert "$effect = 'nausea'" in text


def test_an_answer_is_plain_json():
    fields = json.loads(json.dumps(ANSWER.as_dict()))
    assert fields["parameters"] == {"effect": "nausea"}
    assert fields["evidence"][0]["values"] == {"drug": "metformin"}


def test_nothing_in_an_answer_steers_a_terminal_or_a_page():
    hostile = SystemAnswer(
        HOSTILE,
        HOSTILE,
        evidence=(Evidence(HOSTILE, HOSTILE),),
        citations=(HOSTILE,),
        statement=HOSTILE,
        notes=(HOSTILE,),
    )
    assert "\x1b" not in str(hostile)
    assert "\u202e" not in str(hostile)
    assert "<script>" not in hostile._repr_html_()


def test_long_evidence_is_counted():
    rows = tuple(Evidence(f"row {number}") for number in range(MAX_PRINTED + 1234))
    answer = SystemAnswer("question", "answer", evidence=rows)
    assert "and 1,234 more" in str(answer)
    assert len(answer.as_dict()["evidence"]) == len(rows)


def test_a_notebook_shows_the_question_and_folds_all_but_the_first_citations():
    citations = tuple(f"[{number}] guide.pdf, page {number}" for number in range(1, 61))
    html = SystemAnswer("Who cites this?", "Many.", citations=citations)._repr_html_()
    open_part, summary, folded = html.partition("<details><summary>More</summary>")
    assert summary
    assert "Who cites this?" in open_part
    assert "page 5<" in open_part
    assert "page 6<" in folded and "page 60<" in folded
