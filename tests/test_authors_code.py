"""Prompts read from released code: templates, messages, and what becomes of an arm whose files cannot be fetched."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from papers.side_effects.authors import LABEL_PATTERN, Edges, Lists, NoEvidence, Pairs, cut
from papers.side_effects.corpus import OPENING_A, Question, TextStore
from papers.side_effects.forward import parse_label
from resources import authors_code
from resources.authors_code import Code, NotInCode

SOURCE = '''
EXAMPLE = """
A question
"""

class Client:
    def query(self, drug):
        prompt = f"Is it {drug['name']}? {{kept}}"
        return self.chat(messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": prompt},
            {"role": "user", "content": f"{self.extra}!"},
        ])

    def other(self, drug):
        prompt = f"Again {drug}, {dose}"
raise SystemExit("a file that is read is never run")
'''


@pytest.fixture
def code(tmp_path: Path) -> Code:
    path = tmp_path / "client.py"
    path.write_text(SOURCE, encoding="utf-8")
    return Code(path)


def test_texts_are_read_with_their_fields(code: Code) -> None:
    assert code.assigned("EXAMPLE")[0].format() == "\nA question\n"
    assert code.assigned("prompt", "query")[0].format(name="x") == "Is it x? {kept}"
    assert code.with_fields("other", "dose", "drug").format(drug="a", dose="b") == "Again a, b"
    assert len(code.assigned("prompt")) == 2


def test_messages_are_read_with_their_roles(code: Code) -> None:
    assert code.messages("query") == [
        ("system", "Be brief."),
        ("user", "{prompt}"),
        ("user", "{self.extra}!"),
    ]
    with pytest.raises(KeyError):
        code.messages("query")[1][1].format()


def test_a_text_that_is_not_there_is_named(code: Code) -> None:
    for missing in (
        lambda: code.assigned("prompt", "nowhere"),
        lambda: code.messages("other"),
        lambda: code.with_fields("query", "dose"),
    ):
        with pytest.raises(NotInCode, match=r"client\.py"):
            missing()


def test_without_the_files_there_is_a_reason_and_no_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    assert authors_code.released(["qa_rag/code/main.py"], sample=True)[2]

    def unreachable(name: str) -> Path:
        raise authors_code.DataUnavailable(f"{name} is not available")

    monkeypatch.setattr(authors_code.datasets, "fetch", unreachable)
    codes, files, why = authors_code.released(["qa_rag/code/main.py"], sample=False)
    assert not codes
    assert not files
    assert "qa_rag/code/main.py" in why


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        ("YES", True),
        ("FINAL ANSWER: [NO]", False),
        ("dry eyes", None),
        ("No, not dry eyes. Yes?", False),
        ("", None),
    ],
)
def test_the_first_label_word_of_a_reply_counts(reply: str, label: bool | None) -> None:
    assert parse_label(reply, LABEL_PATTERN) is label


def test_a_long_prompt_is_cut_and_a_short_one_is_not() -> None:
    assert cut("a" * 2000) == "a" * 2000
    assert cut("a" * 2001) == "a" * 2000 + "..."


NO_INDEX: Any = None  # nothing is searched here
LONG_LIST = [f"effect number {i}" for i in range(200)]


@pytest.mark.parametrize(
    ("effect", "evidence", "states"),
    [
        ("effect number 3", "the list", True),
        ("effect number 199", "the list", False),  # cut off
        ("effect", "the list", False),  # part of other terms alone
        ("effect number 3", "another list", False),
    ],
)
def test_a_list_states_a_pair_as_far_as_the_prompt_shows_it(
    effect: str, evidence: str, states: bool
) -> None:
    text = OPENING_A.format(drug="aspirin") + ", ".join(LONG_LIST)
    store = TextStore([text], [("aspirin", frozenset(LONG_LIST))], NO_INDEX)
    shown = text if evidence == "the list" else "The drug zinc ..."
    prompt = cut(f"Is {effect} an adverse effect of aspirin?\n\nDrug: aspirin\n{shown}")
    lists = Lists(store, "Drug: {drug_name}\n{drug_text}")
    assert lists.states(Question("aspirin", effect, label=True), prompt) is states


def test_a_pair_is_stated_by_its_own_line_and_not_by_a_longer_term() -> None:
    pairs = Pairs(TextStore([], [], NO_INDEX), "- {pair_drug}: {pair_effect}", "")
    prompt = "Is pain an adverse effect of zinc?\n\n- zinc: pain in eye"
    assert pairs.states(Question("zinc", "pain in eye", label=True), prompt)
    assert not pairs.states(Question("zinc", "pain", label=True), prompt)


def test_the_graphs_sentence_states_a_pair_only_if_it_says_yes() -> None:
    edges = Edges(NO_INDEX, "Yes, {side_effect} of {drug}", "No, {side_effect} of {drug}")
    question = Question("zinc", "pain", label=True)
    assert edges.states(question, "... Yes, pain of zinc") is True
    assert edges.states(question, "... No, pain of zinc") is False
    assert NoEvidence().states(question, "") is None
