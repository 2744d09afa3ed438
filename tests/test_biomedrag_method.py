"""BiomedRAG's method: memory, retriever, diversity, taught scorer, arms without a language model."""

from __future__ import annotations

import dataclasses
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from helpers import vectors
from helpers.llm import LLM
from helpers.results.paired import mcnemar
from helpers.results.published import Number, published
from papers.biomedrag import arms, printed_tests, scorer
from papers.biomedrag.adapted import Retrieval, training_pairs
from papers.biomedrag.arms import Asking, PairReader, marked_entities, marks_the_pair, triple_line
from papers.biomedrag.corpora import Corpus, Example, Triple
from papers.biomedrag.experiment import draw
from papers.biomedrag.memory import Document, Memory, Shot, chunks, memory_of, pair_vectors, permute
from papers.biomedrag.scorer import (
    Objective,
    cosine_scorer,
    cross_validate,
    likelihood_prompt,
    loss_and_gradient,
    teach,
    train,
)
from papers.biomedrag.scoring import parse_triples

LABELS = {"TREATS": "a treatment cures or relieves a disease", "INHIBITS": "one substance blocks another"}


def example(number: int, text: str, head: str, relation: str, tail: str) -> Example:
    return Example(f"x.{number}", text, relation, (Triple(head, relation, tail),))


VALIDATION = (
    example(1, "after two weeks the cream relieved the rash of all who had it", "cream", "TREATS", "rash"),
    example(2, "in mice the compound was seen to block the enzyme at low doses", "compound", "INHIBITS", "enzyme"),
    example(3, "yoga was used to cure chronic pain in the back of office workers", "yoga", "TREATS", "pain"),
)


@pytest.fixture(scope="module")
def encoder():
    return vectors.encoder()


@pytest.fixture(scope="module")
def memory(encoder) -> Memory:
    return Memory.build(VALIDATION, LABELS, encoder, words=4)


# ------------------------------------------------------------------------------------------------------------ chunks


@given(st.lists(st.text("abc", min_size=1, max_size=4), max_size=40), st.integers(1, 7))
def test_chunks_hold_every_word_once_and_in_order(words, size):
    cut = chunks("  ".join(words), size)
    assert " ".join(cut).split() == words
    lengths = [len(chunk.split()) for chunk in cut]
    assert not lengths or max(lengths) - min(lengths) <= 1
    assert all(length >= size for length in lengths) or len(cut) == 1


def test_a_chunk_of_no_words_is_an_error():
    with pytest.raises(ValueError, match="at least one word"):
        chunks("a b", 0)


# ------------------------------------------------------------------------------------------------------------ memory


def test_a_sentence_gives_the_two_chunks_nearest_to_its_label(memory, encoder):
    for source in VALIDATION:
        keys = [shot.text for shot in memory.shots if shot.source == source.id]
        nearness = {
            c: float(encoder.encode([c], progress=False)[0] @ encoder.encode([LABELS[source.label]], progress=False)[0])
            for c in chunks(source.text, 4)
        }
        assert keys == sorted(nearness, key=lambda c: -nearness[c])[:2]
    assert {shot.label for shot in memory.shots} == set(LABELS)


def test_each_chunk_of_an_input_fetches_its_nearest_key_once(memory):
    found = memory.retrieve(["the cream relieved the rash of all who had it"])[0]
    assert found[0].source == "x.1"
    assert len({shot.text for shot in found}) == len(found)


def test_the_first_candidate_is_the_nearest_whole_sentence(memory):
    first = memory.candidates(["the compound blocks the enzyme"])[0][0]
    assert first.shots[0].whole
    assert first.shots[0].text == VALIDATION[1].text


def test_links_have_the_whole_input_as_key(encoder):
    corpus = Corpus("UMLS", "links", VALIDATION, VALIDATION, VALIDATION, LABELS)
    pairs = memory_of(corpus, encoder).retrieve(["the rash and the cream"], n=2)[0]
    assert len(pairs) == 2
    assert all(shot.whole for shot in pairs)


def test_an_empty_memory_says_what_it_needs(encoder):
    with pytest.raises(ValueError, match="validation split"):
        Memory.build([], LABELS, encoder)
    with pytest.raises(ValueError, match="TREATS"):
        Memory.build(VALIDATION, {"INHIBITS": "blocks"}, encoder)


@given(st.integers(0, 4))
def test_permutations_are_every_ordered_selection(n):
    shots = [Shot(f"key {i}", "L", (), str(i), False) for i in range(n)]
    documents = permute(shots)
    assert len({d.text for d in documents}) == len(documents) == sum(math.perm(n, k) for k in range(1, n + 1))
    sizes = [len(d.shots) for d in documents]
    assert all(a <= b for a, b in pairwise(sizes))


def test_without_diversity_each_pair_is_a_document_of_its_own(memory):
    plain = memory.candidates([VALIDATION[0].text], diverse=False)[0]
    assert all(len(d.shots) == 1 for d in plain)
    diverse = memory.candidates([VALIDATION[0].text])[0]
    assert any(len(d.shots) == 2 for d in diverse)


def test_vectors_go_to_the_input_of_their_document(memory, encoder):
    texts = [VALIDATION[0].text, VALIDATION[1].text]
    documents = memory.candidates(texts)
    inputs, found = pair_vectors(texts, documents, encoder)
    assert np.allclose(inputs, encoder.encode(texts, progress=False), atol=1e-5)
    assert [len(v) for v in found] == [len(d) for d in documents]
    assert np.allclose(found[1][0], encoder.encode([documents[1][0].text], progress=False)[0], atol=1e-5)


# ------------------------------------------------------------------------------------------------------------ scorer


def lesson(seed: int, n: int = 30, dimension: int = 6):
    """Inputs whose best document is told by a fixed linear map of the vectors."""
    rng = np.random.default_rng(seed)
    hidden = np.diag([4.0, 4.0, 0.1, 0.1, 0.1, 0.1])[:dimension, :dimension]
    x = [v / np.linalg.norm(v) for v in rng.normal(size=(n, dimension))]
    d = [m / np.linalg.norm(m, axis=1, keepdims=True) for m in rng.normal(size=(n, 4, dimension))]
    values = []
    for one, documents in zip(x, d, strict=True):
        near = (documents @ hidden) @ (hidden @ one)
        values.append(near / np.linalg.norm(documents @ hidden, axis=1) / np.linalg.norm(hidden @ one) * 5 - 6)
    return x, d, values


@given(st.integers(0, 1000), st.sampled_from(["text", "code", "each", "kl"]))
def test_the_gradient_is_the_slope_of_the_loss(seed, objective: Objective):
    x, d, values = lesson(seed, n=5)
    d[2], values[2] = d[2][:2], values[2][:2]  # inputs differ in their number of documents
    batch = scorer._padded(x, d, np.float64)
    taught = np.full(batch.mask.shape, -np.inf)
    for row, of_row in enumerate(values):
        taught[row, : len(of_row)] = of_row
    at = np.eye(6) + 0.1 * np.random.default_rng(seed).normal(size=(6, 6))
    direction = np.random.default_rng(seed + 1).normal(size=(6, 6))
    _, gradient = loss_and_gradient(at, batch, taught, objective, 0.3)
    after, before = (
        loss_and_gradient(at + step * direction, batch, taught, objective, 0.3)[0] for step in (1e-6, -1e-6)
    )
    assert (after - before) / 2e-6 == pytest.approx(float((gradient * direction).sum()), abs=2e-4, rel=1e-3)


@pytest.mark.parametrize("objective", ["text", "each", "kl"])
def test_training_lowers_the_loss(objective):
    trained = train(*lesson(1), objective=objective, epochs=100)
    assert trained.losses[-1] < trained.losses[0]


def test_a_loss_for_each_document_finds_better_ones_than_cosine_does():
    choices = cross_validate(*lesson(2, n=80), objectives=["kl", "each"], epochs=150)
    for objective in ("kl", "each"):
        assert choices.values[objective].mean() > choices.values["cosine"].mean()
    assert (choices.values["best"] >= choices.values["kl"]).all()


def test_the_printed_loss_does_not_see_which_document_is_best():
    x, d, values = lesson(3)
    turned = [of_one[::-1].copy() for of_one in values]
    assert np.allclose(train(x, d, values).projection, train(x, d, turned).projection)
    assert not np.allclose(
        train(x, d, values, objective="kl").projection, train(x, d, turned, objective="kl").projection
    )


def test_an_untrained_scorer_is_plain_cosine():
    x, d, _ = lesson(4)
    weights = cosine_scorer(6, eta=0.5).weights(x[0], d[0])
    assert weights == pytest.approx(np.exp(d[0] @ x[0] / 0.5) / np.exp(d[0] @ x[0] / 0.5).sum(), rel=1e-5)


def test_a_scorer_that_was_never_trained_follows_neither_the_teacher_nor_cosine():
    choices = cross_validate(*lesson(6, n=200), objectives=["kl"], epochs=20)
    same = (choices.rows["random"] == choices.rows["cosine"]).mean()
    assert 0.05 < same < 0.6
    assert choices.values["random"].mean() < choices.values["kl"].mean()


def test_scorers_that_cannot_be_trained_say_why():
    with pytest.raises(ValueError, match="objective"):
        train(*lesson(5), objective="best")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="folds"):
        cross_validate(*lesson(5, n=3))
    with pytest.raises(ValueError, match="0 inputs"):
        train([], [], [])


def test_the_likelihood_is_of_the_label_after_document_and_input():
    context, continuation = likelihood_prompt(
        VALIDATION[0], Document((Shot("eased the itch", "TREATS", (), "y", False),))
    )
    assert continuation == " TREATS"
    assert context.index("eased the itch => TREATS") < context.index(VALIDATION[0].text)


@pytest.mark.engine
def test_each_likelihood_is_asked_for_once_and_rises_with_a_document_of_the_true_label(small_llm, tmp_path):
    model = LLM(small_llm, folder=tmp_path)
    documents = [
        Document((Shot("the salve relieved the itch", label, (), "y", False),)) for label in ("TREATS", "INHIBITS")
    ]
    first = teach(model, [VALIDATION[0]] * 2, [documents, documents])
    # the same input with the same documents is the same request
    assert model.usage.requests - model.usage.cached == 2
    assert first[0].loglikelihoods[0] > first[0].loglikelihoods[1]
    again = teach(LLM(small_llm, folder=tmp_path), [VALIDATION[0]], [documents])
    assert np.array_equal(again[0].loglikelihoods, first[0].loglikelihoods)


# -------------------------------------------------------------------------------------------------------------- arms


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a case of  depression  in the  cancer patients .", ["depression", "cancer patients"]),
        (" tpa  inhibition of  glutamate  transport", ["tpa", "glutamate"]),
        ("down-regulation of antigen ( PSA   expression) by  estramustine ", ["PSA", "estramustine"]),
        ("nothing is marked here, and 5 mg is no name.", []),
    ],
)
def test_blanks_mark_entities(text, found):
    assert marked_entities(text) == found


@given(st.text("ab ", min_size=1, max_size=30))
def test_what_is_read_off_the_blanks_stands_in_the_text(text):
    assert all(name in text for name in marked_entities(text))
    assert marked_entities(" ".join(text.split())) == []


MARKED = tuple(
    example(i, text, head, relation, tail)
    for i, (text, head, relation, tail) in enumerate(
        [
            ("the  cream  was used to treat the  rash  of children", "cream", "TREATS", "rash"),
            ("the  salve  was used to treat the  burn  of children", "salve", "TREATS", "burn"),
            ("the  rash  was treated by a  lotion  for children", "lotion", "TREATS", "rash"),
            ("the  burn  was treated by a  gel  for children", "gel", "TREATS", "burn"),
            ("we saw that  zinc  blocks the  kinase  in cells", "zinc", "INHIBITS", "kinase"),
            ("we saw that  iron  blocks the  lipase  in cells", "iron", "INHIBITS", "lipase"),
        ]
    )
)


def test_a_triple_is_read_off_blanks_in_its_right_order():
    assert all(marks_the_pair(e) for e in MARKED)
    new = [
        example(9, "the  wart  was treated by a  balm  for children", "balm", "TREATS", "wart"),
        example(10, "we saw that  gold  blocks the  ligase  in cells", "gold", "INHIBITS", "ligase"),
    ]
    assert [p.triples for p in PairReader(MARKED)(new)] == [e.triples for e in new]
    # without blanks none of these names is known, so there is no pair to answer with
    assert [p.triples for p in PairReader(MARKED, blanks=False)(new)] == [(), ()]


def test_known_names_are_found_where_blanks_are_not_read():
    text = [example(9, "a lotion is given, and the rash is gone", "lotion", "TREATS", "rash")]
    answer = PairReader(MARKED, blanks=False)(text)[0]
    assert {answer.triples[0].head, answer.triples[0].tail} == {"lotion", "rash"}


def test_floors_answer_every_row_with_a_known_label(encoder):
    corpus = Corpus("GIT-RE", "relations", MARKED, VALIDATION, VALIDATION, LABELS)
    for arm in (
        arms.majority(corpus),
        arms.nearest_label(corpus, encoder),
        arms.tfidf(corpus),
        arms.encoded(corpus, encoder),
    ):
        given_answers = arm(VALIDATION)
        assert [p.label in LABELS for p in given_answers] == [True] * len(VALIDATION)
    completed = arms.with_gold_pair(arms.majority(corpus))(VALIDATION)
    assert completed[0].triples == (Triple("cream", "TREATS", "rash"),)


def test_classifiers_that_know_nothing_answer_the_commonest_label(encoder):
    """Micro F1 counts rows: a classifier that weights rare classes up would throw them away."""
    rows = tuple(example(i, "the same words", "same", "A" if i < 2 else "B", "words") for i in range(20))
    corpus = Corpus("GIT-RE", "relations", rows, rows, rows, {"A": "a", "B": "b"})
    for arm in (arms.tfidf(corpus), arms.encoded(corpus, encoder), PairReader(rows, blanks=False)):
        assert {p.label for p in arm(rows)} == {"B"}


def asking(task: str) -> Asking:
    return Asking(llm=None, task=task, labels=tuple(LABELS))


def test_a_prompt_is_instruction_then_document_then_input():
    shot = Shot("eased the itch", "TREATS", VALIDATION[0].triples, "y", True)
    system, user = asking("triples").messages(VALIDATION[1], [shot])
    assert all(label in system["content"] for label in LABELS)
    text = user["content"]
    assert text.index("eased the itch") < text.index("cream|TREATS|rash") < text.index(VALIDATION[1].text)


def test_labels_are_listed_with_their_definitions_or_not_at_all():
    defined = dataclasses.replace(asking("relations"), definitions=LABELS).instruction()
    assert f"TREATS: {LABELS['TREATS']}" in defined
    assert "TREATS" not in dataclasses.replace(asking("triples"), offered=False).instruction()


def test_the_answer_is_not_in_the_prompt():
    for task in ("triples", "relations"):
        prompt = "".join(m["content"] for m in asking(task).messages(VALIDATION[0], []))
        assert "cream|TREATS" not in prompt
        assert ("Head entity: cream" in prompt) == (task == "relations")


def test_a_chunk_shows_its_label_or_wrapped_its_triple():
    chunk = Shot("relieved the", "TREATS", VALIDATION[0].triples, "x.1", False)
    text = asking("triples").messages(VALIDATION[1], [chunk])[1]["content"]
    assert "Example: relieved the\nAnswer: TREATS\n" in text
    wrapped = dataclasses.replace(asking("triples"), wrapped=True).messages(VALIDATION[1], [chunk])[1]["content"]
    assert "Example: cream relieved the rash\nAnswer: cream|TREATS|rash\n" in wrapped


def test_replies_are_read_strictly():
    assert asking("relations").read(" treats.")[0] == "TREATS"
    assert asking("relations").read("It treats it")[0] is None
    assert asking("triples").read("a|TREATS|b") == ("TREATS", (Triple("a", "TREATS", "b"),))
    assert asking("triples").read("a TREATS b") == (None, ())


def test_lora_learns_answers_from_prompts_with_or_without_a_document(memory):
    corpus = Corpus("GIT", "triples", MARKED, VALIDATION, VALIDATION, LABELS)
    plain = training_pairs(corpus, MARKED[:1], None)
    shown = training_pairs(corpus, MARKED[:1], Retrieval(memory, cosine_scorer(memory.encoder.dimension), 2))
    assert plain[0][1] == shown[0][1] == "cream|TREATS|rash"
    texts = [str(prompt) for prompt, _ in (plain[0], shown[0])]
    assert ["Example:" in text for text in texts] == [False, True]
    assert not any("INHIBITS" in text for text in texts[:1])


@given(st.lists(st.builds(Triple, *[st.text("abc", min_size=1, max_size=5)] * 3), min_size=1, max_size=3, unique=True))
def test_triples_are_read_back_from_the_line_that_shows_them(triples):
    assert parse_triples(triple_line(triples)) == triples


# -------------------------------------------------------------------------------------------------------- experiment


@given(st.integers(0, 40), st.integers(0, 5))
def test_a_draw_repeats_no_row_and_depends_on_its_seed_alone(n, seed):
    rows = [example(i, "the same text", "a", "TREATS", "b") for i in range(30)]
    drawn = draw(rows, n, seed)
    assert len({e.id for e in drawn}) == len(drawn) == min(n, 30)
    assert drawn == draw(rows, n, seed)


# ------------------------------------------------------------------------------------------------- printed, reported


def number(value: float, n: int | None = 465, id: str = "a.b.c") -> Number:
    return Number(
        id=id,
        table="T",
        row="r",
        column="c",
        printed=f"{100 * value:.2f}%",
        value=value,
        unit="fraction",
        n=n,
        why_not="-",
    )


@given(
    st.integers(1, 60).flatmap(lambda n: st.tuples(st.just(n), *[st.lists(st.booleans(), min_size=n, max_size=n)] * 2))
)
def test_the_range_of_p_holds_whatever_rows_two_arms_have_right(drawn):
    n, first, second = drawn
    low, high = printed_tests.mcnemar_range(sum(first), sum(second), n)
    assert low - 1e-12 <= mcnemar(first, second).p <= high + 1e-12


@pytest.mark.parametrize(
    ("ours", "theirs", "verdict"),
    # sure however the rows pair up; it depends; a difference of two rows never is; not even positive
    [(0.81, 0.56, "agrees"), (0.89, 0.86, "undecided"), (0.800, 0.796, "differs"), (0.79, 0.80, "differs")],
)
def test_a_printed_difference_is_significant_if_all_its_p_values_are(ours: float, theirs: float, verdict: str):
    compared = printed_tests.Compared(number(ours), number(theirs), "another", 465)
    assert printed_tests.tests([compared])["verdict"].tolist() == [verdict]


def test_better_is_not_refuted_where_it_cannot_be_significant():
    close = printed_tests.Compared(number(0.800), number(0.796), "another", 465)
    assert printed_tests.tests([close], significantly=False)["verdict"].tolist() == ["undecided"]


def test_counts_that_no_rows_give_are_refused():
    with pytest.raises(ValueError, match="Counts within 0 and 10"):
        printed_tests.mcnemar_range(11, 2, 10)
    with pytest.raises(ValueError, match="do not decide"):
        printed_tests.comparisons(published("biomedrag"), "diversity_helps")
    with pytest.raises(ValueError, match="has no n"):
        printed_tests._rows(number(0.8, None))


def test_the_claims_about_printed_numbers_are_decided():
    claims = printed_tests.TRIPLES + printed_tests.RELATIONS
    found = {claim: printed_tests.decision(published("biomedrag"), claim) for claim in claims}
    assert {name: decision.verdict for name, decision in found.items()} == {
        "significant_on_git": "agrees",  # of Table 1's baselines
        "better_on_ddi": "cannot be run",
        "knn_below_none_on_ddi": "cannot be run",
        "best_parts": "agrees",
        "significant_on_git_re": "cannot be run",  # BERT answered the same rows
    }
    baselines = [c.against for c in printed_tests.comparisons(published("biomedrag"), "significant_on_git")]
    assert len(baselines) == 9
    assert not any("BiomedRAG" in name or "RA-KNN" in name for name in baselines)
    assert "the 368 test rows" in found["better_on_ddi"].why
    assert "SPBERE" in printed_tests.shown(published("biomedrag"), ["better_on_ddi"]).html
