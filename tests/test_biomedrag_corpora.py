"""The eight data sets of biomedrag.md: read as they are released, divided where only a test is at hand, sampled."""

from __future__ import annotations

import json
import runpy
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, strategies as st

from papers.biomedrag import corpora
from papers.biomedrag.corpora import CorpusError, Triple, divided, load
from resources import datasets
from resources.settings import SAMPLE


@pytest.fixture(scope="module", params=sorted(corpora.KEYS))
def corpus(request: pytest.FixtureRequest) -> corpora.Corpus:
    return load(request.param, "sample")


def test_the_script_reproduces_the_committed_sample(tmp_path: Path):
    runpy.run_path(str(SAMPLE / "make_sample.py"))["write_biomedrag"](tmp_path)
    written = {
        path.relative_to(tmp_path): path.read_bytes()
        for path in tmp_path.rglob("*")
        if path.is_file()
    }
    committed = SAMPLE / "biomedrag"
    assert written == {
        path.relative_to(committed): path.read_bytes()
        for path in committed.rglob("*")
        if path.is_file()
    }


def test_every_label_is_described_and_every_row_has_an_id_of_its_own(corpus: corpora.Corpus):
    rows = [row for split in corpus.splits.values() for row in split]
    assert {row.label for row in rows} == set(corpus.labels)
    assert all(corpus.labels.values())
    assert len({row.id for row in rows}) == len(rows)
    assert corpus.sample


def test_the_triples_agree_with_the_row(corpus: corpora.Corpus):
    for row in (row for split in corpus.splits.values() for row in split):
        assert bool(row.triples) == (corpus.task != "classification")
        for triple in row.triples:
            assert triple.relation == row.label
            assert triple.head in row.text
            assert triple.tail in row.text


def test_git_is_read_without_the_second_copy_of_its_test():
    lines = (SAMPLE / "biomedrag/GIT/test.jsonl").read_text().splitlines()
    once = load("GIT", "sample").test
    assert len(lines) == 2 * len(once)
    assert [row.text for row in once] == list(
        dict.fromkeys(json.loads(line)["SENTENCE"] for line in lines)
    )


def test_the_validation_of_ade_shares_no_text_with_training_and_test():
    ade = load("ADE-corpus-v2", "sample")
    known = {row.text for row in (*ade.train, *ade.test)}
    assert ade.validation
    assert not known & {row.text for row in ade.validation}


def test_released_training_reports_leave_the_test_whole_and_share_no_text_with_it(
    monkeypatch, tmp_path
):
    whole = load("MTSamples", "sample")
    more = [
        {"transcription": f"report {i}", "medical_specialty": f" Specialty {i % 3}"}
        for i in range(40)
    ]
    more += [{"transcription": whole.test[0].text, "medical_specialty": whole.test[0].label}]
    path = tmp_path / "train.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in more), encoding="utf-8")
    test = corpora.locate_all(["biomedrag/MTSamples/test.json"], "sample")
    train = datasets.Located(corpora.TRAINING, path, sample=False, sha256="", source="")
    monkeypatch.setattr(corpora, "locate_all", lambda *_: dict(test))
    monkeypatch.setattr(corpora, "locate_available", lambda _: {corpora.TRAINING: train})
    both = load("MTSamples", training=True)
    assert len(both.train) == 41
    assert both.labels["Specialty 1"] == "Specialty 1"
    parts = divided(both, seed=1)
    assert parts.test == whole.test
    assert len(parts.train) + len(parts.validation) == 40
    texts = [{e.text for e in rows} for rows in parts.splits.values()]
    assert not (texts[0] & texts[1] or texts[0] & texts[2] or texts[1] & texts[2])
    monkeypatch.setattr(corpora, "locate_available", lambda _: {})
    assert load("MTSamples", training=True) == whole


@given(seed=st.integers(0, 1000), train=st.floats(0.2, 0.6), validation=st.floats(0.1, 0.3))
def test_a_divided_test_keeps_every_row_and_no_text_twice(
    seed: int, train: float, validation: float
):
    whole = load("MTSamples", "sample")
    parts = divided(whole, seed=seed, train=train, validation=validation)
    assert Counter(row.id for split in parts.splits.values() for row in split) == Counter(
        row.id for row in whole.test
    )
    texts = [{row.text for row in split} for split in parts.splits.values()]
    assert not (texts[0] & texts[1] or texts[0] & texts[2] or texts[1] & texts[2])
    assert parts == divided(whole, seed=seed, train=train, validation=validation)


def test_what_cannot_be_divided_is_refused():
    with pytest.raises(CorpusError, match="has splits of its own"):
        divided(load("GIT", "sample"), seed=1)
    with pytest.raises(CorpusError, match="less than 1"):
        divided(load("MTSamples", "sample"), seed=1, train=0.8, validation=0.2)


def test_an_unknown_data_set_is_refused_with_the_names():
    with pytest.raises(CorpusError, match="ADE-corpus-v2"):
        load("BC5CDR", "sample")


@pytest.mark.parametrize(
    ("name", "rows", "complaint"),
    [
        (
            "GIT",
            '{"PREDICATE": "TREATS", "SUBJECT_TEXT": "yoga", "SENTENCE": "s"}',
            "row 1: needed text in .*OBJECT_TEXT",
        ),
        ("GIT", "not json", "line 1: needed JSON"),
        (
            "DDI",
            '[{"text": "s", "triple_list": [["a", "b"]]}]',
            r"row 1: needed a triple_list of one",
        ),
        ("DDI", '{"text": "s"}', "needed one JSON list"),
        ("ADE-corpus-v2", '{"text": "s", "label": 2}', "row 1: needed the label 0 or 1, found 2"),
        ("UMLS", "cell\tpart_of", "row 1: needed head, relation and tail"),
        (
            "ADInt",
            '{"text": "who is it?", "label": "TREATS"}',
            "row 1: needed 'what is the relationship",
        ),
        (
            "ADInt",
            '{"text": "what is the relationship between a and b ?", "label": "LOVES"}',
            "'LOVES' has no description",
        ),
        ("GIT", "\n", "holds no row"),
    ],
)
def test_a_malformed_row_is_named(
    name: str, rows: str, complaint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def place(names: list[str], data: str) -> dict[str, datasets.Located]:
        located = {}
        for file in names:
            path = tmp_path / Path(file).name
            path.write_text(f"{rows}\n", encoding="utf-8")
            located[file] = datasets.Located(file, path, sample=True, sha256="", source="")
        return located

    monkeypatch.setattr(corpora, "locate_all", place)
    with pytest.raises(CorpusError, match=complaint):
        load(name)


def test_a_link_whose_names_hold_an_and_has_no_triple(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    name_pairs = ["head and neck cancer", "sleep"], ["curcumin", "sleep"]
    rows = [{"text": corpora.question(*pair), "label": "TREATS"} for pair in name_pairs]

    def place(names: list[str], data: str) -> dict[str, datasets.Located]:
        path = tmp_path / "test.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        return {
            file: datasets.Located(file, path, sample=True, sha256="", source="") for file in names
        }

    monkeypatch.setattr(corpora, "locate_all", place)
    test = load("ADInt").test
    assert [row.triples for row in test] == [(), (Triple("curcumin", "TREATS", "sleep"),)]


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("GIT", (3734, 492, 465)),
        ("DDI", (5154, 1436, 1376)),
        ("ChemProt", (4111, 2411, 3438)),
        ("ADE-corpus-v2", (4000, 500, 500)),
        ("MTSamples", (0, 0, 500)),
        ("UMLS", (5216, 652, 661)),
        ("ADInt", (6000, 720, 720)),
    ],
)
def test_the_real_files_have_the_sizes_of_tables_5_and_6(name: str, sizes: tuple[int, int, int]):
    try:
        whole = load(name, "real")
    except datasets.DataUnavailable:
        pytest.skip("the real files are not to be had")
    assert tuple(len(split) for split in whole.splits.values()) == sizes
