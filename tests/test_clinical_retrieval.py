"""Covers retrieval over clinical notes: passages, parsing, filters before search, fusion, audit, privacy."""

from __future__ import annotations

import json
import logging
import re
import zlib
from datetime import date
from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from clinical_opening import is_short
from hypothesis import given, strategies as st

from evaluation import answers, record, records, rules, trec
from evaluation.outcomes import Outcomes
from helpers import indexes, vectors
from papers.clinical_notes import (
    passages,
    questions as cq,
    rankings,
    real_notes,
    retrieval as cr,
)
from papers.clinical_notes.charts import generate
from papers.clinical_notes.gold import Note
from papers.clinical_notes.query import Lexicon, parse
from rag import retrieval as rag
from rag.retrieval import chunk_spans, min_max

LEXICON = Lexicon(
    {
        "levetiracetam": ["Keppra", "LEV"],
        "lamotrigine": ["Lamictal"],
        "perampanel": ["Fycompa", "PER"],
    },
    ["lip smacking", "rash"],
    ["P0001", "P0002", "P0003"],
)


class WordsEncoder(vectors.Encoder):
    """Texts as sums of one random direction a word: quick, and near for texts that share words."""

    name, engine, digest, dimension, max_tokens = "words", "numpy", "words", 64, 10**9

    def _encode(self, texts, progress):
        result = np.zeros((len(texts), self.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            for word in ["", *re.findall(r"\w+", text.lower())]:
                result[row] += np.random.default_rng(zlib.crc32(word.encode())).normal(
                    size=self.dimension
                )
        return result / np.linalg.norm(result, axis=1, keepdims=True), np.zeros(
            len(texts), dtype=bool
        )

    def _find_truncated(self, texts):
        return np.zeros(len(texts), dtype=bool)


@pytest.fixture(autouse=True)
def _indexes_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setattr(indexes, "INDEXES", tmp_path / "indexes")


def chunk(n: int, patient: str, day: str, text: str) -> passages.Chunk:
    return passages.Chunk(
        f"{patient}-{n}",
        f"n{n}",
        patient,
        date.fromisoformat(day),
        0,
        len(text),
        text,
        LEXICON.drugs_in(text),
    )


def retriever(chunks: list[passages.Chunk], reranker: rag.Reranker | None = None) -> cr.Retriever:
    return cr.Retriever(chunks, LEXICON, WordsEncoder(), reranker)


# ---------------------------------------------------------------------------------------------------------- passages

PROSE = st.text(alphabet=st.sampled_from("abc de. \n"), max_size=600)


@given(PROSE, st.integers(20, 200), st.floats(0, 0.49))
def test_passages_cover_the_text_and_none_is_too_long(text, size, share):
    overlap = int(size * share)
    spans = chunk_spans(text, size, overlap)
    assert bool(spans) == bool(text)
    covered = 0
    for i, (start, end) in enumerate(spans):
        assert 0 < end - start <= size
        assert start <= covered < end
        if i:
            assert covered - start <= overlap
            assert start > spans[i - 1][0]
        covered = end
    assert covered == len(text)


def test_a_paragraph_that_fits_is_not_cut():
    paragraphs = [f"Paragraph {i}. " + "word " * 40 for i in range(12)]
    text = "\n\n".join(paragraphs)
    pieces = [text[a:b] for a, b in chunk_spans(text, 500, 100)]
    assert all(any(p.strip() in piece for piece in pieces) for p in paragraphs)
    assert all(piece.startswith("Paragraph") for piece in pieces)


def test_a_long_paragraph_repeats_its_end_in_the_next_passage():
    text = "word " * 400
    spans = chunk_spans(text, 500, 100)
    assert all(80 <= a_end - b_start <= 100 for (_, a_end), (b_start, _) in pairwise(spans))


def test_an_overlap_of_half_the_size_is_refused():
    with pytest.raises(ValueError, match="below half"):
        chunk_spans("text", 100, 50)


@given(st.text(max_size=200))
def test_masking_keeps_every_place(text):
    assert len(passages.mask_identifiers(text)) == len(text)


@pytest.mark.parametrize(
    "identifier", ["(555) 014-1234", "00-1234567", "115154574", "a.b@clinic.org", "555-014-1234"]
)
def test_identifiers_are_masked_and_doses_and_dates_are_not(identifier):
    text = f"Seen 2021-03-04, MRN {identifier}. Keppra 1500 mg BID, sodium 130, EEG 10-20 system."
    hidden = passages.mask_identifiers(text)
    assert identifier not in hidden
    assert hidden.replace("#", "") == text.replace(identifier, "").replace("#", "") or "#" in hidden
    for value in ("2021-03-04", "1500 mg", "130", "10-20"):
        assert value in hidden


# ----------------------------------------------------------------------------------------------------------- parsing


@pytest.mark.parametrize(
    ("question", "intent", "patients", "drugs"),
    [
        ("When was patient P0001 started on Keppra?", "patient", {"P0001"}, {"levetiracetam"}),
        ("Did lev help p0002?", "effectiveness", {"P0002"}, {"levetiracetam"}),
        ("How effective was lamotrigien for P0003?", "effectiveness", {"P0003"}, {"lamotrigine"}),
        ("Which patients developed rash on Lamictal?", "cohort", set(), {"lamotrigine"}),
        ("Which patients responded to LEV?", "cohort", set(), {"levetiracetam"}),
        ("adverse effects of PER", "general", set(), {"perampanel"}),
        ("seizures, two per month", "general", set(), set()),
        ("What did patient 115154574 take in 2023?", "patient", {"115154574"}, set()),
    ],
)
def test_intent_patient_and_drug_are_read_off_a_question(question, intent, patients, drugs):
    query = parse(question, LEXICON)
    assert (query.intent, query.patients, query.drugs) == (intent, patients, drugs)


@pytest.mark.parametrize(
    ("words", "since", "until"),
    [
        ("in 2021", "2021-01-01", "2021-12-31"),
        ("in February 2020", "2020-02-01", "2020-02-29"),
        ("between 2021-03-01 and 2021-05-02", "2021-03-01", "2021-05-02"),
        ("from March 2020 to May 2021", "2020-03-01", "2021-05-31"),
        ("since 2019", "2019-01-01", None),
        ("after 2019", "2020-01-01", None),
        ("before June 2021", None, "2021-05-31"),
        ("until 2021", None, "2021-12-31"),
        ("on 2021-02-31", None, None),
        ("at 1500 mg", None, None),
    ],
)
def test_dates_are_read_off_a_question(words, since, until):
    query = parse(f"seizures of patient P0001 {words}", LEXICON)
    assert (query.since, query.until) == tuple(d and date.fromisoformat(d) for d in (since, until))


@given(st.text(max_size=80))
def test_any_text_is_a_question(text):
    assert parse(text, LEXICON).text == text


def test_symptoms_are_named_as_the_lexicon_does():
    assert parse("Rash, lip smacking?", LEXICON).symptoms == {"rash", "lip smacking"}


# ----------------------------------------------------------------------------------------------------------- filters

WORDS = st.sampled_from(["seizure", "keppra", "lamictal", "rash", "mg", "EEG", "daily", "denies"])
CHUNKS = st.lists(
    st.tuples(
        st.sampled_from(["P0001", "P0002", "P0003", "Q9"]),
        st.dates(date(2019, 1, 1), date(2022, 12, 31)),
        st.lists(WORDS, min_size=1, max_size=6).map(" ".join),
    ),
    min_size=1,
    max_size=30,
)


@given(
    CHUNKS,
    st.sampled_from(["P0001", "P0002", "P0003", "P0777"]),
    st.lists(WORDS, max_size=4),
    st.sampled_from([1, 200]),
)
def test_a_filter_on_a_patient_never_returns_another_patients_passage(
    parts, patient, words, candidates
):
    store = retriever([chunk(i, p, d.isoformat(), t) for i, (p, d, t) in enumerate(parts)])
    few = cr.RetrieverConfig(candidates=candidates)
    result = store.retrieve(f"Patient {patient}: {' '.join(words)} since 2020?", k=50, config=few)
    assert all(c.patient == patient and c.date >= date(2020, 1, 1) for c in result.passages)
    assert result.audit["returned"] == len(result.passages)


def test_an_unknown_patient_finds_nothing_rather_than_everyone():
    store = retriever(
        [chunk(0, "P0001", "2020-01-01", "seizure"), chunk(1, "P0002", "2020-01-01", "seizure")]
    )
    result = store.retrieve("What did patient 99887766 take?")
    assert result.passages == ()
    assert result.audit["after filters"] == 0
    assert "99887766" in str(result.audit["filters"])


# ------------------------------------------------------------------------------------------------- fusion and audit


def test_components_add_up_to_the_score_and_the_order_follows_it():
    texts = [
        "keppra 500 mg daily",
        "lamictal rash",
        "denies seizure",
        "keppra stopped for mood",
        "EEG normal",
    ]
    chunks = [chunk(i, "P0001", "2020-01-01", t) for i, t in enumerate(texts)]
    encode = WordsEncoder()
    store = retriever(chunks, cr.MeanPooledReranker(chunks, encode))
    result = store.retrieve("Why was levetiracetam stopped in patient P0001?")
    table = result.table()
    assert table.score.is_monotonic_decreasing
    for passage, (_, row) in zip(result.passages, table.iterrows(), strict=True):
        assert row.passage == passage.id
        assert row.score == pytest.approx(row.rerank + row.semantic + row.lexical + row.medication)
        assert row.medication == (0.2 if "levetiracetam" in passage.drugs else -0.05)
    # found by its brand name
    assert result.passages[0].text == "keppra stopped for mood"
    assert (result.audit["found by FAISS"], result.audit["filters"]) == (5, "patient P0001")


@given(st.lists(st.one_of(st.floats(-100, 100), st.just(float("nan"))), max_size=20))
def test_normalised_scores_lie_within_0_and_1_and_what_was_not_found_has_0(scores):
    raw = np.array(scores)
    scaled = min_max(raw)
    assert ((scaled >= 0) & (scaled <= 1)).all()
    assert (scaled[np.isnan(raw)] == 0).all()
    if np.isfinite(raw).any():
        assert scaled[np.nanargmax(raw)] == 1


def test_the_papers_reranker_with_the_same_encoder_repeats_the_semantic_order():
    chunks = [
        chunk(i, "P0001", "2020-01-01", " ".join(f"w{(i * j) % 7}" for j in range(9)))
        for i in range(20)
    ]
    mean = cr.MeanPooledReranker(chunks, WordsEncoder())
    store = retriever(chunks, mean)
    result = store.candidates(parse("w1 w2 w3", LEXICON))
    assert mean.score("w1 w2 w3", result.rows) == pytest.approx(result.semantic, abs=1e-5)


def test_a_cross_encoder_that_cannot_be_had_is_said_and_not_replaced():
    with pytest.raises(vectors.EncoderUnavailable, match=r"cross-encoder.*hub"):
        rag.CrossEncoder(["text"], "nobody/no-such-model")


# --------------------------------------------------------------------------------------------------------- measures


def test_measures_are_those_of_the_field_and_a_question_without_results_has_0():
    grades = {"a": {"x": 2, "y": 1}, "b": {"z": 2}}
    scores = trec.score_rankings(rankings.MEASURES, grades, {"a": ["y", "w", "x"], "b": []})
    assert scores["a"] == pytest.approx(
        {
            "P@5": 0.4,
            "R@10": 1,
            "MRR": 1,
            "AP": (1 + 2 / 3) / 2,
            "nDCG@10": (1 + 2 / 2) / (2 + 1 / np.log2(3)),
        }
    )
    assert set(scores["b"].values()) == {0}


@given(
    st.permutations(list("abcdefghijkl")),
    st.dictionaries(st.sampled_from("abcdefxyz"), st.integers(1, 2), min_size=1),
)
def test_the_quick_ndcg_of_the_weight_search_is_that_of_ir_measures(order, grades):
    exact = trec.score_rankings(rankings.MEASURES, {"q": grades}, {"q": order})["q"]["nDCG@10"]
    assert rankings.quick_ndcg(grades, order) == pytest.approx(exact)


# ------------------------------------------------------------------------------------------- questions and their gold


@pytest.fixture(scope="module")
def charts():
    return generate(14, 5)


def test_every_question_is_answered_by_passages_that_hold_its_sentences(charts):
    notes = {note.note_id: note for note in charts.notes()}
    lexicon = cq.lexicon_of(charts)
    chunks = cq.by_note(passages.chunk_notes(charts.notes(), lexicon))
    questions = cq.write_questions(charts, cq.antiseizure_names(), 24, 1)
    assert {q.intent for q in questions} == {"patient", "cohort", "effectiveness", "general"}
    assert {q.split for q in questions} == {"tune", "test"}
    assert len({q.id for q in questions}) == len(questions)
    for question in questions:
        graded = cq.relevant(question, chunks)
        assert graded
        for place in question.places:
            sentence = passages.mask_identifiers(notes[place.note].text)[place.start : place.end]
            assert any(sentence in c.text for c in chunks[place.note] if c.id in graded)
        if question.patient:
            assert {notes[p.note].patient_id for p in question.places} == {question.patient}
    assert questions == cq.write_questions(charts, cq.antiseizure_names(), 24, 1)


def test_every_name_that_a_question_gives_a_drug_is_read_as_that_drug(charts):
    lexicon = cq.lexicon_of(charts)
    names = cq.antiseizure_names()
    rng = np.random.default_rng(0)
    for drug in names:
        for _ in range(20):
            called, variant = cq.name_drug(drug, names, rng)
            assert lexicon.drugs_in(f"Was {called} stopped?") == {drug}, (called, variant)


def test_the_parser_reads_the_questions_that_were_written_with_it(charts):
    """What the claims on filters and on the parser say of patient, period and intent."""
    lexicon = cq.lexicon_of(charts)
    n_intents_read = 0
    questions = cq.write_questions(charts, cq.antiseizure_names(), 400, 1)
    for question in questions:
        query = parse(question.text, lexicon)
        patients = {question.patient} if question.patient else set()
        assert query.patients == patients, question.text
        assert (query.since, query.until) == (question.since, question.until), question.text
        n_intents_read += query.intent == question.intent
    assert n_intents_read > 0.98 * len(questions)


def make_question(n: int, text: str, **known) -> cq.Question:
    fields = {
        "patient": None,
        "since": None,
        "until": None,
        "places": (cq.Place(f"n{n}", 0, 5, 2),),
    }
    return cq.Question(f"q{n}", text, f"q{n}", "patient", {}, **(fields | known))


def test_a_patients_questions_belong_together_and_those_that_the_same_sentences_answer():
    same = (cq.Place("n7", 0, 5, 2), cq.Place("n8", 0, 5, 2))
    questions = [
        make_question(1, "a", patient="P0001"),
        make_question(2, "b"),
        make_question(3, "c", patient="P0001"),
        make_question(4, "d", places=same),
        make_question(5, "e", places=same[::-1]),
        make_question(6, "f", patient="P0002"),
    ]
    assert [q.cluster for q in cq.clustered(questions)] == ["q1", "q2", "q1", "q4", "q4", "q6"]
    # a sentence that answers a question about a patient, and one that names nobody, joins them
    joined = cq.clustered([*questions[:3], make_question(9, "g", places=questions[2].places)])
    assert [q.cluster for q in joined] == ["q1", "q2", "q1", "q1"]


def test_questions_know_the_days_that_they_ask_about(charts):
    questions = cq.write_questions(charts, cq.antiseizure_names(), 40, 1)
    dated = [q for q in questions if q.since]
    assert {q.unit.split()[0] for q in dated} == {"dose", "seizures"}
    for q in dated:
        assert q.since
        assert q.until
        words = q.since.strftime("%B %Y") if q.unit.startswith("dose") else str(q.since.year)
        assert words in q.text
        assert (q.until - q.since).days in (
            (27, 28, 29, 30) if q.unit.startswith("dose") else (364, 365)
        )


def test_a_filter_on_what_the_parser_misread_is_seen():
    chunks = [
        chunk(1, "P0001", "2020-03-01", "seizure"),
        chunk(2, "P0001", "2021-03-01", "seizure"),
    ]
    store = retriever([*chunks, chunk(3, "P0002", "2020-03-01", "seizure")])
    day = {"since": date(2020, 1, 1), "until": date(2020, 12, 31)}
    read = make_question(1, "Seizures of patient P0001 in 2020", patient="P0001", **day)
    patient_misread = make_question(2, "Seizures of patient P0002 in 2020", patient="P0001", **day)
    dates_misread = make_question(
        3, "Seizures of patient P0001, the year being 2020", patient="P0001", **day
    )
    grades = {q.id: {"P0001-1": 2} for q in (read, patient_misread, dates_misread)}

    def outside(question: cq.Question) -> float:
        arm = rankings.RankingArm(rankings.Rankings(store, grades), rankings.ARMS["semantic"])
        row = arm(cq.clustered([question]))[0]
        return row.measures["candidates_outside"][0]

    assert [outside(q) for q in (read, patient_misread, dates_misread)] == [0, 1, 1]


def test_a_question_without_patient_and_period_says_nothing_of_the_filters():
    store = retriever([chunk(1, "P0001", "2020-03-01", "seizure")])
    ranking = rankings.Rankings(store, {"q1": {"P0001-1": 2}, "q2": {"P0001-1": 2}})
    arm = rankings.RankingArm(ranking, rankings.ARMS["semantic"])
    anywhere = make_question(1, "Who had seizures?")
    of_patient = make_question(2, "Seizures of patient P0001", patient="P0001")
    rows = arm(cq.clustered([anywhere, of_patient]))
    assert ["candidates_outside" in row.measures for row in rows] == [False, True]


# ------------------------------------------------------------------------------------------------------------- arms


PAPER_MEASURES = ("P@5", "R@10", "MRR", "AP")
OF_THE_RERANKER = ("hybrid_beats_single", "reranking_improves")
PAPER_ENCODERS = ("emilyalsentzer/Bio_ClinicalBERT", "michiyasunaga/BioLinkBERT-base")


def ranked_rows(encoder: str, reranker: str, gain: float, ap_gain: float | None = None) -> Outcomes:
    """Rows of forty questions in which the hybrid gains so much on every other arm."""
    models = {
        "hybrid": reranker,
        "reranker": reranker,
        "semantic": encoder,
        "without_reranker": encoder,
        "without_boost": reranker,
        "without_lexical": reranker,
        "lexical": "",
    }
    gains = dict.fromkeys((*PAPER_MEASURES, "nDCG@10"), gain)
    if ap_gain is not None:
        gains["AP"] = ap_gain
    strata = {"drug named by": "generic"}
    rows = []
    for arm, model in models.items():
        for i in range(40):
            measures = {"candidates_outside": (0.0, 9.0)}
            for name, added in gains.items():
                measures[name] = (0.4 + (added if arm == "hybrid" else 0), 1.0)
            unit = cq.Question(
                f"q{i}",
                f"text {i}",
                f"q{i}",
                "general",
                strata,
                None,
                None,
                None,
                (),
                cluster=f"q{i}",
            )
            answer = answers.Answer(model=model, measures=measures)
            rows.append(answers.make_row(answer, unit, arm=arm))
    return Outcomes(rows, draws=200)


def decide(outcomes: Outcomes, *served: str) -> record.Run:
    """Decide the claims about the search."""
    run = record.start(notebook="t", paper="clinical_notes", profile="smoke", parameters={})
    rules.decide(
        run,
        outcomes,
        *OF_THE_RERANKER,
        "lexical_search_adds",
        "medication_boost_helps",
        "filters_respected",
        served=served,
    )
    return run


def answered_here(outcomes: Outcomes, *served: str) -> dict[str, records.HereFinding]:
    """The answers to the second question by the claims' short names."""
    findings = decide(outcomes, *served).here_findings
    return {finding.id.rsplit(".", 1)[1]: finding for finding in findings}


def test_whatever_searches_no_claim_is_decided_for_the_papers_private_notes():
    for served in (PAPER_ENCODERS, ("all-MiniLM-L6-v2",) * 2):
        findings = decide(ranked_rows(*served, 0.1), *served).claims
        assert len(findings) == len(OF_THE_RERANKER) + 3
        for finding in findings:
            assert (finding.verdict, finding.reason) == ("cannot be tested", "not public")
            assert "no release" in finding.why


def test_one_encoder_in_both_parts_says_nothing_of_reranking_here_either():
    one, other = "all-MiniLM-L6-v2", "another-encoder"
    by_claim = answered_here(ranked_rows(one, one, -0.1), one, one)
    for name in OF_THE_RERANKER:
        assert (by_claim[name].answer, by_claim[name].reason) == ("not run", "one model")
        assert f"but here {one} served as both" in by_claim[name].why
    assert by_claim["lexical_search_adds"].answer == "against it"
    by_claim = answered_here(ranked_rows(one, other, -0.1), one, other)
    assert {by_claim[name].answer for name in OF_THE_RERANKER} == {"against it"}


@pytest.mark.parametrize(
    ("gain", "ap_gain", "answer"),
    [
        (0.1, 0.1, "with the claim"),
        (0.1, 0.0, "inconclusive"),
        (0.1, -0.1, "against it"),
        (-0.1, -0.1, "against it"),
    ],
)
def test_two_encoders_are_judged_by_each_of_the_papers_metrics(gain, ap_gain, answer):
    rows = ranked_rows(*PAPER_ENCODERS, gain, ap_gain)
    foreign = answers.Answer("llm", "u", "u", model="Qwen", measures={"AP": (1.0, 1.0)})
    by_claim = answered_here(rows.concat([foreign]), *PAPER_ENCODERS)
    boost = by_claim.pop("medication_boost_helps")
    assert (boost.answer, boost.reason) == ("not run", "by construction")
    filters = by_claim.pop("filters_respected")
    assert (filters.answer, filters.reason) == ("not run", "by construction")
    assert {name: finding.answer for name, finding in by_claim.items()} == dict.fromkeys(
        by_claim, answer
    )


@pytest.mark.parametrize(
    "name", ["filters_respected", "intent_is_parsed", "synonyms_are_expanded", "audit_trail"]
)
def test_what_this_project_built_to_hold_is_not_asked_here(name):
    run = record.start(notebook="t", paper="clinical_notes", profile="smoke", parameters={})
    rules.decide(run, ranked_rows("", "", 0.1), name)
    [of_the_paper], [here] = run.claims, run.here_findings
    assert (of_the_paper.verdict, of_the_paper.reason) == ("cannot be tested", "not public")
    assert (here.answer, here.reason) == ("not run", "by construction")
    assert "no release" in of_the_paper.why
    assert "no release" not in here.why


def test_one_candidate_of_another_patient_is_counted():
    rows = ranked_rows("", "", 0.1)
    words = rankings.filters_in_words(rows)
    assert words.startswith(
        "Of the 40 test questions, 40 name a patient or a period. Of these 40 questions, none names "
        "a period."
    )
    assert "None of the 40 questions has a candidate" in words
    [row] = rows.where(arm="lexical", unit="q0").frame.to_dict("records")
    row["measures"] = row["measures"] | {"candidates_outside": (1.0, 9.0)}
    row["unit"] = "q40"
    row["strata"] = {"period named": "yes"}
    frame = pd.concat([rows.where(arm="lexical").frame, pd.DataFrame([row])])
    words = rankings.filters_in_words(Outcomes(frame))
    assert words.startswith(
        "Of the 41 test questions, 41 name a patient or a period. Of these 41 questions, 1 names a "
        "period."
    )
    assert "1 of the 41 questions has a candidate" in words
    assert rankings.filters_in_words(rows.where(unit="q0")) == (
        "One question names a patient or a period. It names no period and has no candidate passage "
        "from another patient or period."
    )


def test_a_gain_is_shown_for_questions_that_name_a_drug_and_for_those_that_name_none():
    table = rankings.gains_by_named_drug(ranked_rows("", "", 0.1), "without_lexical")
    assert table["questions that"].tolist() == ["name a drug"] * 4
    assert table.metric.tolist() == list(rankings.PAPER_MEASURES)
    assert set(table["hybrid better"]) == {40}


def test_every_arm_ranks_and_one_without_its_reranker_is_left_out():
    texts = [
        "keppra 500 mg daily",
        "lamictal rash",
        "denies seizure",
        "keppra stopped for mood",
        "EEG normal",
    ]
    chunks = [chunk(i, "P0001", "2020-01-01", t) for i, t in enumerate(texts)]
    store = retriever(chunks, cr.MeanPooledReranker(chunks, WordsEncoder()))
    question = make_question(1, "Why was levetiracetam stopped in patient P0001?", patient="P0001")
    ranking = rankings.Rankings(store, {"q1": {"P0001-3": 2}})
    arms = ranking.arms()
    assert "hybrid" in arms
    assert "cross_encoder" not in arms
    rows = {name: ask([question])[0] for name, ask in arms.items()}
    assert {row.items[0].id for row in rows.values() if row.measures["MRR"] == (1.0, 1.0)} == {
        "P0001-3"
    }
    assert rows["hybrid"].measures["nDCG@10"] == (1.0, 1.0)
    assert (rows["lexical"].model, rows["hybrid"].model) == ("", "words")
    assert [item.rank for item in rows["hybrid"].items] == [1, 2, 3, 4, 5]
    # the same order as the retriever that shows its audit trail
    retrieval = store.retrieve(question.text)
    assert [c.id for c in retrieval.passages] == ranking.passages(question, rankings.ARMS["hybrid"])


# --------------------------------------------------------------------------------------------- notes that others wrote

DIALOGUE = (
    "[doctor] hi , anna .\r\nhow are you ?\r\n[patient] okay .\r\n[doctor] what brings you in ?\r\n"
    "[patient_guest] her left  knee\r\ngave way on the stairs\r\n[doctor] did you fall ?\r\n[patient] no [ laughs ]\r\n"
    "[patient] yes\r\n[patient] twice\r\n[patient] and since then it has been swollen every single evening\r\n"
)


def test_a_dialogue_is_read_by_turns_and_lines_without_a_speaker_go_on_with_the_turn_before():
    read = real_notes.turns(DIALOGUE)
    assert read[0] == ("doctor", "hi , anna . how are you ?")
    assert ("patient_guest", "her left knee gave way on the stairs") in read
    assert ("patient", "no [ laughs ]") in read
    assert len(read) == 9


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["doctor", "patient", "patient_guest"]), st.text("ab ,.", max_size=9)
        )
    )
)
def test_turns_are_read_as_they_were_written_and_the_query_is_one_of_the_patients_first_five(turns):
    read = real_notes.turns("\n".join(f"[{who}] {words}" for who, words in turns))
    assert read == [(who, " ".join(words.split())) for who, words in turns]
    first = [words for who, words in read if who.startswith("patient")][:5]
    query = real_notes.opening("\n".join(f"[{who}] {words}" for who, words in turns))
    assert query in (first or [""])
    assert len(query.split()) == max((len(words.split()) for words in first), default=0)


def conversations_file(folder, n: int):
    note = "CHIEF COMPLAINT\n\n" + "\n\n".join(
        f"Patient {{i}}: the knee is swollen. {'Word ' * 80}" for _ in range(6)
    )
    rows = [
        ("virtscribe", f"D2N{i:03}", DIALOGUE.replace("knee", f"knee{i}"), note.format(i=i))
        for i in range(n)
    ]
    path = folder / "conversations.csv"
    pd.DataFrame(rows, columns=["dataset", "encounter_id", "dialogue", "note"]).to_csv(
        path, index=False
    )
    return path


def test_a_patients_words_are_answered_by_all_passages_of_the_note_and_by_no_other(tmp_path):
    notes, openings = real_notes.read_conversations([conversations_file(tmp_path, 4)], 3)
    chunks = passages.chunk_notes(notes, LEXICON)
    of_note = cq.by_note(chunks)
    grades = {q.id: cq.relevant(q, of_note) for q in openings}
    assert [(q.unit, q.text) for q in openings] == [
        (f"D2N{i:03}", f"her left knee{i} gave way on the stairs") for i in range(3)
    ]
    for q in openings:
        assert len(grades[q.id]) > 1
        assert {chunk.id for chunk in chunks if chunk.note == q.id} == grades[q.id].keys()


def test_notes_of_others_have_rows_of_their_own(tmp_path):
    notes, openings = real_notes.read_conversations([conversations_file(tmp_path, 3)], 3)
    store = cr.Retriever(passages.chunk_notes(notes, LEXICON), LEXICON, WordsEncoder())
    grades = {q.id: cq.relevant(q, cq.by_note(store.chunks)) for q in openings}
    ranking = rankings.Rankings(store, grades, task="conversations")
    run = record.start(notebook="t", paper="clinical_notes", profile="smoke", parameters={})
    rows = run.answer(ranking.arms(**rankings.OPEN), openings)
    assert {(row.task, row.unit) for row in rows} == {("conversations", q.id) for q in openings}


def test_the_answer_of_the_page_compares_the_hybrid_with_the_best_of_its_parts():
    parts = "BM25's score, the medication boost with penalty and the reranker"
    for gain, verdict, verb in ((0.1, "better", "raise"), (-0.1, "worse", "lower")):
        charts = ranked_rows("all-MiniLM-L6-v2", "all-MiniLM-L6-v2", gain)
        charts = charts.concat(charts.where(arm="hybrid").frame.assign(arm="tuned"))
        words = rankings.summary(charts, "all-MiniLM-L6-v2", charts)
        answer, details = words.split("\n\n")
        assert f"weights is significantly {verdict} at ranking passages than " in answer
        assert "all-MiniLM-L6-v2 replaces both of the paper's encoders" in answer
        assert f"{parts} {verb} the hybrid's nDCG@10 significantly." in answer
        assert f"ACI-BENCH, the hybrid is significantly {verdict} than " in details
        assert is_short(answer)
        assert "all-MiniLM-L6-v2" not in rankings.summary(charts)
    equal = ranked_rows("encoder", "reranker", 0)
    equal = equal.concat(equal.where(arm="hybrid").frame.assign(arm="tuned"))
    answer, _ = rankings.summary(equal).split("\n\n")
    assert "is not significantly better at ranking passages than" in answer
    assert "No part changes the hybrid's nDCG@10 significantly." in answer


def test_the_answer_of_the_page_is_short_on_the_stored_answers():
    stored = answers.read(answers.newest("13_notes_retrieval", "laptop"))
    labels = {name: arm.label for name, arm in rankings.ARMS.items()}
    out = Outcomes(stored, labels=labels, draws=200)
    on_notes = out.where(task="conversations")
    answer, details = rankings.summary(out.where(task=""), "encoder", on_notes).split("\n\n")
    assert is_short(answer)
    assert "ACI-BENCH" in details


# ----------------------------------------------------------------------------------------------------------- privacy


def test_neither_identifiers_nor_note_text_leave_for_record_audit_or_log(charts, tmp_path, caplog):
    caplog.set_level(logging.DEBUG)
    planted = Note(
        note_id="P9999-N001",
        patient_id="P9999",
        date=date(2020, 1, 1),
        kind="phone call",
        text="Call back (555) 014-9876, MRN 00-7654321. Seizure clusters reported by the neighbour at dawn.",
    )
    notes = [*charts.notes(), planted]
    secrets = [*(i for chart in charts for i in chart.identifiers), "(555) 014-9876", "00-7654321"]
    assert len(secrets) > 2
    lexicon = cq.lexicon_of(charts)
    chunks = passages.chunk_notes(notes, lexicon)
    assert not [s for s in secrets for c in chunks if s in c.text]

    store = cr.Retriever(chunks, lexicon, WordsEncoder())
    questions = cq.write_questions(charts, cq.antiseizure_names(), 4, 1)
    grades = {q.id: cq.relevant(q, cq.by_note(chunks)) for q in questions}
    run = record.start(notebook="privacy", paper="clinical_notes", profile="smoke", parameters={})
    out = Outcomes(run.answer(rankings.Rankings(store, grades).arms(), questions))
    printed = [
        repr(store.retrieve("Seizure clusters at dawn", k=50)),
        repr(store.retrieve("Call back MRN").passages),
    ]
    rows = repr(out.frame.to_dict("records"))
    outputs = [
        json.dumps(json.loads(run.save(tmp_path / "record.json").read_text())),
        caplog.text,
        rows,
        *printed,
    ]
    pieces = {note.text[i : i + 30] for note in notes for i in range(0, len(note.text) - 30, 30)}
    for text in outputs:
        assert not [s for s in secrets if s in text]
        assert not [piece for piece in pieces if piece in text]
    saved = [path.read_bytes() for path in (tmp_path / "indexes").rglob("*") if path.is_file()]
    assert saved
    assert not [s for s in secrets for content in saved if s.encode() in content]
