"""BiomedRAG's method: memory, retriever, diversity, taught scorer, arms without a language model."""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.stats import binomtest

from evaluation.outcomes import Outcomes
from evaluation.published import published
from evaluation.record import Run
from helpers import vectors
from helpers.completions import CapabilityError, Reply
from helpers.llm import LLM
from papers.biomedrag import (
    adapted,
    balance,
    floors,
    gains,
    printed_tests,
    scorer,
    scorer_exam,
    study,
)
from papers.biomedrag.adapted import training_pairs
from papers.biomedrag.arms import Generator, ZeroShot, triple_lines
from papers.biomedrag.corpora import Corpus, Example, Triple, draw, load
from papers.biomedrag.floors import PairReader, marked_entities, marks_the_pair
from papers.biomedrag.memory import (
    Document,
    Memory,
    Nearest,
    Shot,
    chunks,
    memory_of,
    pair_vectors,
    permute,
)
from papers.biomedrag.retriever import Plan, Retriever, Teaching, learn, likelihood_prompt
from papers.biomedrag.scorer import Objective, cosine_scorer, loss_and_gradient, train
from papers.biomedrag.scoring import parse_triples
from publish.headlines import read_headlines
from resources import parameters
from resources.settings import NOTEBOOKS

LABELS = {
    "TREATS": "a treatment cures or relieves a disease",
    "INHIBITS": "one substance blocks another",
}


def example(number: int, text: str, head: str, relation: str, tail: str) -> Example:
    return Example(f"x.{number}", text, relation, (Triple(head, relation, tail),))


VALIDATION = (
    example(
        1,
        "after two weeks the cream relieved the rash of all who had it",
        "cream",
        "TREATS",
        "rash",
    ),
    example(
        2,
        "in mice the compound was seen to block the enzyme at low doses",
        "compound",
        "INHIBITS",
        "enzyme",
    ),
    example(
        3,
        "yoga was used to cure chronic pain in the back of office workers",
        "yoga",
        "TREATS",
        "pain",
    ),
)


@pytest.fixture(scope="module")
def encoder():
    return vectors.encoder()


@pytest.fixture(scope="module")
def memory(encoder) -> Memory:
    return Memory(VALIDATION, LABELS, encoder, 4)


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
            c: float(
                encoder.encode([c], progress=False)[0]
                @ encoder.encode([LABELS[source.label]], progress=False)[0]
            )
            for c in chunks(source.text, 4)
        }
        assert keys == sorted(nearness, key=lambda c: -nearness[c])[:2]
    assert {shot.label for shot in memory.shots} == set(LABELS)


def test_each_chunk_of_an_input_fetches_its_nearest_key_once(memory):
    shots = memory.retrieve(["the cream relieved the rash of all who had it"])[0]
    assert shots[0].source == "x.1"
    assert len({shot.text for shot in shots}) == len(shots)


def test_the_first_candidate_is_the_nearest_whole_sentence(memory):
    first = memory.candidates(["the compound blocks the enzyme"])[0][0]
    assert first.shots[0].is_whole_input
    assert first.shots[0].text == VALIDATION[1].text


def test_a_sentence_does_not_retrieve_itself(memory):
    for example in VALIDATION:
        own = example.text.upper()
        [documents] = memory.candidates([own], permuted=len(VALIDATION))
        sources = {shot.source for document in documents for shot in document.shots}
        assert sources and example.id not in sources
        [nearest] = memory.nearest([own], n=len(VALIDATION) - 1)
        assert {shot.source for shot in nearest} == {e.id for e in VALIDATION} - {example.id}


def test_links_have_the_whole_input_as_key(encoder):
    corpus = Corpus("UMLS", "links", VALIDATION, VALIDATION, VALIDATION, LABELS)
    pairs = memory_of(corpus, encoder).retrieve(["the rash and the cream"], n=2)[0]
    assert len(pairs) == 2
    assert all(shot.is_whole_input for shot in pairs)


def test_an_empty_memory_says_what_it_needs(encoder):
    with pytest.raises(ValueError, match="validation split"):
        Memory([], LABELS, encoder, 5)
    with pytest.raises(ValueError, match="TREATS"):
        Memory(VALIDATION, {"INHIBITS": "blocks"}, encoder, 5)


@given(st.integers(0, 4))
def test_permutations_are_every_ordered_selection(n):
    shots = [Shot(f"key {i}", "L", (), str(i), False) for i in range(n)]
    documents = permute(shots)
    assert (
        len({d.text for d in documents})
        == len(documents)
        == sum(math.perm(n, k) for k in range(1, n + 1))
    )
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
    inputs, document_vectors = pair_vectors(texts, documents, encoder)
    assert np.allclose(inputs, encoder.encode(texts, progress=False), atol=1e-5)
    assert [len(v) for v in document_vectors] == [len(d) for d in documents]
    assert np.allclose(
        document_vectors[1][0], encoder.encode([documents[1][0].text], progress=False)[0], atol=1e-5
    )


# ------------------------------------------------------------------------------------------------------------ scorer


def lesson(seed: int, n: int = 30, dimension: int = 6):
    """Inputs whose best document is told by a fixed linear map of the vectors."""
    rng = np.random.default_rng(seed)
    hidden = np.diag([4.0, 4.0, 0.1, 0.1, 0.1, 0.1])[:dimension, :dimension]
    x = [v / np.linalg.norm(v) for v in rng.normal(size=(n, dimension))]
    d = [m / np.linalg.norm(m, axis=1, keepdims=True) for m in rng.normal(size=(n, 4, dimension))]
    values = []
    for vector, documents in zip(x, d, strict=True):
        near = (documents @ hidden) @ (hidden @ vector)
        values.append(
            near / np.linalg.norm(documents @ hidden, axis=1) / np.linalg.norm(hidden @ vector) * 5
            - 6
        )
    return x, d, values


@given(st.integers(0, 1000), st.sampled_from(["text", "code", "each", "kl"]))
def test_the_gradient_is_the_slope_of_the_loss(seed, objective: Objective):
    x, d, values = lesson(seed, n=5)
    d[2], values[2] = d[2][:2], values[2][:2]  # inputs differ in their number of documents
    batch = scorer.padded(x, d, np.float64)
    likelihoods = np.full(batch.mask.shape, -np.inf)
    for row, row_values in enumerate(values):
        likelihoods[row, : len(row_values)] = row_values
    projection = np.eye(6) + 0.1 * np.random.default_rng(seed).normal(size=(6, 6))
    direction = np.random.default_rng(seed + 1).normal(size=(6, 6))
    _, gradient = loss_and_gradient(projection, batch, likelihoods, objective, 0.3)
    after, before = (
        loss_and_gradient(projection + step * direction, batch, likelihoods, objective, 0.3)[0]
        for step in (1e-6, -1e-6)
    )
    assert (after - before) / 2e-6 == pytest.approx(
        float((gradient * direction).sum()), abs=2e-4, rel=1e-3
    )


@pytest.mark.parametrize("objective", ["text", "each", "kl"])
def test_training_lowers_the_loss(objective):
    trained = train(*lesson(1), objective=objective, epochs=100)
    assert trained.losses[-1] < trained.losses[0]


@pytest.mark.parametrize("objective", ["kl", "each"])
def test_a_loss_for_each_document_finds_better_ones_than_cosine_does(objective):
    x, d, values = lesson(2, n=80)
    test_inputs = range(60, 80)
    trained, cosine = (
        train(x[:60], d[:60], values[:60], objective=objective, epochs=150),
        cosine_scorer(6),
    )
    better, plain = (
        sum(values[i][each_scorer.choose(x[i], d[i])] for i in test_inputs)
        for each_scorer in (trained, cosine)
    )
    assert better > plain


def test_the_printed_loss_does_not_see_which_document_is_best():
    x, d, values = lesson(3)
    turned = [of_one[::-1].copy() for of_one in values]
    assert np.allclose(train(x, d, values).projection, train(x, d, turned).projection)
    assert not np.allclose(
        train(x, d, values, objective="kl").projection,
        train(x, d, turned, objective="kl").projection,
    )


def test_an_untrained_scorer_is_plain_cosine():
    x, d, _ = lesson(4)
    weights = cosine_scorer(6, eta=0.5).weights(x[0], d[0])
    assert weights == pytest.approx(
        np.exp(d[0] @ x[0] / 0.5) / np.exp(d[0] @ x[0] / 0.5).sum(), rel=1e-5
    )


def test_scorers_that_cannot_be_trained_say_why():
    with pytest.raises(ValueError, match="objective"):
        train(*lesson(5), objective="best")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="0 inputs"):
        train([], [], [])


def test_the_likelihood_is_of_the_label_after_document_and_input():
    context, continuation = likelihood_prompt(
        VALIDATION[0], Document((Shot("eased the itch", "TREATS", (), "y", False),))
    )
    assert continuation == " TREATS"
    assert context.index("eased the itch => TREATS") < context.index(VALIDATION[0].text)


class Teacher:
    """Finds the true label likely where the document shows it."""

    endpoint = SimpleNamespace(model="a teacher")

    def loglikelihood_many(self, prompts, label):
        self.prompts = list(prompts)
        return [
            SimpleNamespace(total=-0.1 if f"=> {y.strip()}" in context else -3.0)
            for context, y in self.prompts
        ]


def test_a_scorer_learns_from_each_candidate_of_each_input(memory):
    teacher = Teacher()
    trained_retriever = learn(
        memory, cast(LLM, teacher), VALIDATION, Teaching(objective="kl", epochs=50)
    )
    candidates = memory.candidates([e.text for e in VALIDATION])
    expected_prompts = [
        likelihood_prompt(e, d)
        for e, input_candidates in zip(VALIDATION, candidates, strict=True)
        for d in input_candidates
    ]
    assert teacher.prompts == expected_prompts
    assert trained_retriever.scorer.losses[-1] < trained_retriever.scorer.losses[0]
    choices = trained_retriever(VALIDATION)
    assert all(
        d in input_candidates for d, input_candidates in zip(choices, candidates, strict=True)
    )
    plain = learn(memory, cast(LLM, teacher), VALIDATION, Teaching(diverse=False))
    assert all(len(d.shots) == 1 for d in plain(VALIDATION))


def test_without_likelihoods_the_other_arms_answer_and_biomedrag_is_said_not_to_have_run(memory):
    class Mute(Teacher):
        def loglikelihood_many(self, prompts, label):
            raise CapabilityError("Ollama does not echo the prompt.")

    with pytest.warns(UserWarning, match=r"BiomedRAG was not run.*Ollama does not echo"):
        untrained_retriever = learn(memory, cast(LLM, Mute()), VALIDATION)
    corpus = Corpus("GIT", "triples", (), VALIDATION, (), LABELS)
    generator = study.generator_for(cast(LLM, Mute()), corpus)
    assert list(study.prompted_arms(generator, untrained_retriever, 1)) == [
        "zero_shot",
        "knn",
        "cosine",
    ]
    trained_retriever = learn(memory, cast(LLM, Teacher()), VALIDATION)
    assert "biomedrag" in study.prompted_arms(generator, trained_retriever, 1)
    assert "BiomedRAG was not run" in gains.summary(cast(Run, None), Outcomes([]), ["GIT"])


@pytest.mark.engine
def test_each_likelihood_is_asked_for_once_and_is_kept(small_llm, tmp_path, memory):
    model = LLM(small_llm, folder=tmp_path)
    first = learn(memory, model, [VALIDATION[0]] * 2)
    # the same input with the same documents is the same request
    assert model.usage.requests - model.usage.cached == len(
        memory.candidates([VALIDATION[0].text])[0]
    )
    again = LLM(small_llm, folder=tmp_path)
    assert np.array_equal(
        learn(memory, again, [VALIDATION[0]] * 2).scorer.projection, first.scorer.projection
    )
    assert again.usage.requests == again.usage.cached


# -------------------------------------------------------------------------------------------------------------- arms


@pytest.mark.parametrize(
    ("text", "entities"),
    [
        ("a case of  depression  in the  cancer patients .", ["depression", "cancer patients"]),
        (" tpa  inhibition of  glutamate  transport", ["tpa", "glutamate"]),
        (
            "down-regulation of antigen ( PSA   expression) by  estramustine ",
            ["PSA", "estramustine"],
        ),
        ("nothing is marked here, and 5 mg is no name.", []),
    ],
)
def test_blanks_mark_entities(text, entities):
    assert marked_entities(text) == entities


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
        example(
            10, "we saw that  gold  blocks the  ligase  in cells", "gold", "INHIBITS", "ligase"
        ),
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
        floors.MajorityBaseline(corpus),
        floors.NearestLabel(corpus, encoder),
        floors.TfidfClassifier(corpus),
        floors.EncodedClassifier(corpus, encoder),
    ):
        given_answers = arm(VALIDATION)
        assert [p.label in LABELS for p in given_answers] == [True] * len(VALIDATION)
    completed = floors.WithGoldPair(floors.MajorityBaseline(corpus))(VALIDATION)
    assert completed[0].triples == (Triple("cream", "TREATS", "rash"),)


def test_classifiers_that_know_nothing_answer_the_commonest_label(encoder):
    """Micro F1 counts rows: a classifier that weights rare classes up would throw them away."""
    rows = tuple(
        example(i, "the same words", "same", "A" if i < 2 else "B", "words") for i in range(20)
    )
    corpus = Corpus("GIT-RE", "relations", rows, rows, rows, {"A": "a", "B": "b"})
    for arm in (
        floors.TfidfClassifier(corpus),
        floors.EncodedClassifier(corpus, encoder),
        PairReader(rows, blanks=False),
    ):
        assert {p.label for p in arm(rows)} == {"B"}


def generator_of(task: str) -> Generator:
    return Generator(llm=None, task=task, labels=tuple(LABELS))


def test_a_prompt_is_instruction_then_document_then_input():
    shot = Shot("eased the itch", "TREATS", VALIDATION[0].triples, "y", True)
    system, user = generator_of("triples").messages(VALIDATION[1], [shot])
    assert all(label in system["content"] for label in LABELS)
    text = user["content"]
    assert (
        text.index("eased the itch")
        < text.index("cream|TREATS|rash")
        < text.index(VALIDATION[1].text)
    )


def test_labels_are_listed_with_their_definitions_or_not_at_all():
    defined = dataclasses.replace(generator_of("relations"), definitions=LABELS).instruction()
    assert f"TREATS: {LABELS['TREATS']}" in defined
    assert (
        "TREATS"
        not in dataclasses.replace(generator_of("triples"), lists_labels=False).instruction()
    )


def test_the_answer_is_not_in_the_prompt():
    for task in ("triples", "relations"):
        prompt = "".join(m["content"] for m in generator_of(task).messages(VALIDATION[0], []))
        assert "cream|TREATS" not in prompt
        assert ("Head entity: cream" in prompt) == (task == "relations")


def test_a_chunk_shows_its_label_or_wrapped_its_triple():
    chunk = Shot("relieved the", "TREATS", VALIDATION[0].triples, "x.1", False)
    text = generator_of("triples").messages(VALIDATION[1], [chunk])[1]["content"]
    assert "Example: relieved the\nAnswer: TREATS\n" in text
    wrapped = dataclasses.replace(generator_of("triples"), wrapped=True).messages(
        VALIDATION[1], [chunk]
    )[1]["content"]
    assert "Example: cream relieved the rash\nAnswer: cream|TREATS|rash\n" in wrapped


def test_replies_are_read_strictly():
    assert generator_of("relations").parse(" treats.")[0] == "TREATS"
    assert generator_of("relations").parse("It treats it")[0] is None
    assert generator_of("triples").parse("a|TREATS|b") == ("TREATS", (Triple("a", "TREATS", "b"),))
    assert generator_of("triples").parse("a TREATS b") == (None, ())


def test_lora_learns_answers_from_prompts_with_or_without_a_document(memory):
    corpus = Corpus("GIT", "triples", MARKED, VALIDATION, VALIDATION, LABELS)
    plain = training_pairs(corpus, MARKED[:1], None)
    with_document = training_pairs(
        corpus, MARKED[:1], Retriever(memory, cosine_scorer(memory.encoder.dimension))
    )
    assert plain[0][1] == with_document[0][1] == "cream|TREATS|rash"
    texts = [str(prompt) for prompt, _ in (plain[0], with_document[0])]
    assert ["Example:" in text for text in texts] == [False, True]
    assert not any("INHIBITS" in text for text in texts[:1])


def test_a_base_model_without_a_chat_template_is_taught_and_asked_in_the_same_plain_text(memory):
    corpus = Corpus("GIT", "triples", MARKED, VALIDATION, VALIDATION, LABELS)
    ((prompt, completion),) = training_pairs(corpus, MARKED[:1], None, plain=True)
    assert isinstance(prompt, str)
    assert completion == "cream|TREATS|rash"
    # as in the released prompts, the relations are listed without definitions, and the answer begins a line
    assert ", ".join(LABELS) in prompt
    assert LABELS["TREATS"] not in prompt
    assert prompt.endswith("### Response:\n")

    class Base:
        def chat_many(self, prompts, **_):
            self.prompts = list(prompts)
            return [Reply("cream|TREATS|rash", "complete", 1, 1, 0.0, key="k") for _ in prompts]

    base = Base()
    (prediction,) = ZeroShot(adapted.tuned_generator(cast(LLM, base), corpus, plain=True))(
        MARKED[:1]
    )
    assert base.prompts == [prompt]
    assert prediction.label == "TREATS"


@pytest.mark.parametrize(
    "notebook", sorted(NOTEBOOKS.glob("*_biomedrag_[trcl]*.ipynb")), ids=lambda path: path.stem
)
def test_the_paper_profile_fine_tunes_with_the_released_settings(notebook: Path):
    settings = parameters.parameters(notebook.stem, "paper")
    assert settings["small_model"] == "meta-llama/Llama-2-13b-hf"
    recipe = settings["lora_recipe"]
    assert (settings["lora_steps"], recipe["batch"], recipe["rank"]) == (8000, 4, 64)
    assert (recipe["alpha"], recipe["dropout"], recipe["rate"], recipe["plain"]) == (
        32,
        0.1,
        2e-4,
        True,
    )
    assert recipe["longest"] == (2048 if "classification" in notebook.stem else 512)
    adapted.Recipe(steps=1, seed=0, **recipe)
    # the paper's scorer is taught by the model that reads its documents
    assert settings.get("teacher_model", "") == ""


def test_the_ablation_of_the_paper_profile_shares_the_adapters_of_the_chapter_on_triples():
    triples = parameters.parameters("07_biomedrag_triples", "paper")
    ablated = parameters.parameters("11_biomedrag_ablation", "paper")
    shared = ("seed", "taught", "permuted", "tuned_encoder", "small_model", "lora_steps")
    assert {name: triples[name] for name in shared} == {name: ablated[name] for name in shared}
    of_triples = adapted.Recipe(steps=1, seed=0, **triples["lora_recipe"])
    of_ablation = adapted.Recipe(steps=1, seed=0, **ablated["lora_recipe"])
    assert of_triples.training_settings(None) == of_ablation.training_settings(None)
    few = Nearest(cast(Memory, None), 1)
    many = Nearest(cast(Memory, None), 20)
    assert of_ablation.tokens_of(few) == 512
    assert of_ablation.tokens_of(many) == 2048


def test_the_laptop_profile_keeps_the_teacher_of_the_released_adapters():
    for notebook in sorted(NOTEBOOKS.glob("*_biomedrag_[trcl]*.ipynb")):
        settings = parameters.parameters(notebook.stem, "laptop")
        assert settings["teacher_model"] == "Qwen2.5-Coder-1.5B-Instruct", notebook.stem


def test_the_cost_of_adapters_is_estimated_before_they_are_trained():
    corpus = load("GIT", "sample")
    recipe = adapted.Recipe(steps=1000, seed=0, batch=4)
    no_rows: list[Any] = []
    job = (corpus, {"lora_rag": cast(Plan, None)}, no_rows)
    text = adapted.training_cost([job], recipe, "meta-llama/Llama-2-13b-hf")
    assert text.startswith(
        "To train 2 adapters, each in 1,000 steps of 4 rows, the model reads about "
    )
    tokens = 1e6 * float(text.split("about ")[1].split(" million")[0])
    assert 1e5 < tokens < 2.1e6
    hours = float(text.split("would need ")[1].split(" hours")[0])
    assert hours == pytest.approx(4 * 13e9 * tokens / (0.4 * 989e12) / 3600, abs=0.01)
    assert "hours" not in adapted.training_cost([job], recipe, "a model without a size")


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        ("meta-llama/Llama-2-13b-hf", 13e9),
        ("SmolLM2-135M-Instruct", 135e6),
        ("Qwen2.5-Coder-1.5B-Instruct", 1.5e9),
        ("chaoyi-wu/MedLLaMA_13B", 13e9),
        ("gpt-4", 0),
    ],
)
def test_a_models_name_says_how_large_it_is(model: str, parameters: float):
    assert adapted.parameters_of(model) == parameters


def ranked(n: int, seed: int = 0) -> scorer_exam.Sheet:
    """Sentences whose best of four documents is the one along the first axis."""
    rng = np.random.default_rng(seed)
    documents = [np.eye(4, 8, dtype=np.float32)[rng.permutation(4)] for _ in range(n)]
    inputs = [(np.eye(8)[7] + 0.3 * rng.normal(size=8)).astype(np.float32) for _ in range(n)]
    values = [np.where(own[:, 0] == 1, -0.5, -3.0) for own in documents]
    return scorer_exam.Sheet(inputs, documents, values)


def test_a_scorer_is_examined_on_sentences_that_did_not_teach_it():
    sheet = ranked(60)
    teaching = Teaching(epochs=100)
    best = scorer_exam.held_out_agreement(sheet, "kl", teaching)
    plain = scorer_exam.agreement(scorer.cosine_scorer(8), sheet)
    assert scorer_exam.by_chance(sheet) == pytest.approx(15)
    assert plain.value < 0.5 < best.value, "a loss that sees the best document learns to find it"
    html = scorer_exam.table(ranked(10), ranked(50, 1), teaching).html
    assert ">25.0\N{NO-BREAK SPACE}%<" in html
    assert "loss kl, 5-fold cross-validation" in html
    alt = scorer_exam.loss_plot(ranked(10), ranked(50, 1), teaching).html
    assert "on the sentences that teach" in alt


@given(
    st.lists(
        st.builds(Triple, *[st.text("abc", min_size=1, max_size=5)] * 3),
        min_size=1,
        max_size=3,
        unique=True,
    )
)
def test_triples_are_read_back_from_the_line_that_shows_them(triples):
    assert parse_triples(triple_lines(triples)) == triples


# -------------------------------------------------------------------------------------------------------- experiment


@given(st.integers(0, 40), st.integers(0, 5))
def test_a_draw_repeats_no_row_and_depends_on_its_seed_alone(n, seed):
    rows = [example(i, "the same text", "a", "TREATS", "b") for i in range(30)]
    sample = draw(rows, n, seed)
    assert len({e.id for e in sample}) == len(sample) == min(n, 30)
    assert sample == draw(rows, n, seed)


# ------------------------------------------------------------------------------------------------- printed, reported


@given(
    st.integers(1, 60).flatmap(
        lambda n: st.tuples(st.just(n), *[st.lists(st.booleans(), min_size=n, max_size=n)] * 2)
    )
)
def test_the_range_of_p_holds_whatever_rows_two_arms_have_right(rows_right):
    n, first, second = rows_right
    low, high = printed_tests.mcnemar_range(sum(first), sum(second), n)
    only, other = (
        sum(a > b for a, b in zip(*pair, strict=True))
        for pair in ((first, second), (second, first))
    )
    p = binomtest(only, only + other).pvalue if only + other else 1.0
    assert low - 1e-12 <= p <= high + 1e-12


@pytest.mark.parametrize(
    ("ours", "theirs", "expected"),
    # sure however the rows pair up; it depends; a difference of two rows never is; not even positive;
    # and sure on the other side
    [
        (0.81, 0.56, "agrees"),
        (0.89, 0.86, "inconclusive"),
        (0.800, 0.796, "inconclusive"),
        (0.79, 0.80, "inconclusive"),
        (0.56, 0.81, "differs"),
    ],
)
def test_a_printed_difference_is_significant_if_all_its_p_values_are(
    ours: float, theirs: float, expected: str
):
    _, high = printed_tests.mcnemar_range(round(465 * ours), round(465 * theirs), 465)
    assert printed_tests.verdict(ours - theirs, high) == expected


@pytest.mark.parametrize("share_discordant", [0.02, 0.2])
def test_printed_counts_of_equal_systems_decide_nothing(share_discordant: float):
    rng = np.random.default_rng(0)
    verdicts: Counter[str] = Counter()
    for _ in range(300):
        n_discordant = rng.binomial(465, share_discordant)
        only_first = int(rng.binomial(n_discordant, 0.5))
        first, second = 300 + only_first, 300 + n_discordant - only_first
        _, high = printed_tests.mcnemar_range(first, second, 465)
        verdicts[printed_tests.verdict(first - second, high)] += 1
    assert verdicts["agrees"] + verdicts["differs"] <= 0.05 * 300


@given(
    st.integers(1, 60).flatmap(
        lambda n: st.tuples(st.just(n), *[st.lists(st.booleans(), min_size=n, max_size=n)] * 2)
    )
)
def test_the_widest_interval_contains_that_of_the_rows_two_arms_have_right(rows_right):
    n, first, second = rows_right
    widest = printed_tests.widest_interval(sum(first), sum(second), n)
    gains = np.array(first, dtype=float) - np.array(second, dtype=float)
    half_width = 1.959964 * gains.std() / np.sqrt(n)
    assert widest.value == pytest.approx(gains.mean())
    assert widest.low <= gains.mean() - half_width + 1e-9
    assert widest.high >= gains.mean() + half_width - 1e-9


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["ADE-corpus-v2"], "agrees"),  # 97.00 against 99.89, which so few rows tell apart
        (["ADE-corpus-v2", "MTSamples"], "inconclusive"),  # 38.00 against 41.93
        (["UMLS", "ADInt"], "inconclusive"),
    ],
)
def test_printed_small_models_are_on_par_if_no_pairing_leaves_room(names: list[str], expected: str):
    decision = printed_tests.small_on_par(published("biomedrag"), names)
    assert decision.verdict == expected
    assert all(f"On {name}, " in decision.why for name in names)


def test_the_printed_precision_and_recall_of_unirel_on_ddi_give_another_f1():
    printed = published("biomedrag")
    precision, recall = (
        printed.number(f"biomedrag.table1.unirel.ddi_{name}").value
        for name in ("precision", "recall")
    )
    f1 = 2 * precision * recall / (precision + recall)
    assert f1 == pytest.approx(0.2361, abs=5e-5)
    onerel = printed.number("biomedrag.table1.onerel.ddi_precision").value
    p = printed_tests.mcnemar_range(round(368 * onerel), round(368 * f1), 368)
    assert p[1] == pytest.approx(0.006, abs=5e-4)
    assert printed_tests.verdict(onerel - f1, p[1]) == "agrees"


def test_the_rows_that_the_paper_states_of_ddi_would_decide_onerel_against_unirel():
    printed = published("biomedrag")
    decision = printed_tests.decision(printed, "onerel_beats_unirel")
    assert decision.verdict == "inconclusive"
    why = decision.why.replace("\N{NO-BREAK SPACE}", " ")
    assert (
        "If the authors counted the 1,376 rows that the paper states, the highest possible" in why
    )
    assert "p on DDI would be below 0.001, so the printed numbers would agree with the claim" in why
    assert "the number of rows that the authors counted" in decision.why
    assert printed_tests.ONLY_PAIRED not in decision.why


def test_recalls_that_are_not_counted_as_whole_rows_are_listed():
    table = balance.digits_table(
        published("biomedrag"), ["DDI", "GIT"], {"DDI": (368, "rows that state an interaction")}
    )
    onerel = list(table["not counted, OneRel's second and third column"])
    assert onerel[:2] == ["81.07 no, 22.09 yes", "81.07 no, 22.09 no"]
    assert table["not counted, whole percentages"][0] == "9.00"
    relations = balance.digits_table(published("biomedrag"), ["GIT-RE"])
    assert "OneRel" not in " ".join(relations.columns), "the table of GIT-RE has no such system"


def test_a_claim_of_significance_is_open_where_two_readings_of_its_data_sets_disagree():
    printed = published("biomedrag")
    claim = "significant_on_extraction"
    decision = printed_tests.decision_by_readings(printed, claim, ("git", "git_re"))
    assert decision.verdict == "inconclusive"
    assert "On all data sets of both tasks, the claim is open" in decision.why
    assert "On GIT and GIT-RE alone, the claim holds" in decision.why
    same = printed_tests.decision_by_readings(printed, claim, ("ddi",))
    assert "readings" not in same.why


def test_a_claim_of_each_task_or_data_set_is_open_by_both_readings():
    decision = printed_tests.decision_by_task(published("biomedrag"), "significant_everywhere")
    assert decision.verdict == "inconclusive"
    why = decision.why.replace("\N{NO-BREAK SPACE}", " ")
    assert "the claim holds on ChemProt, with an F1 of 88.83% for LLaMA2 13B +" in why
    assert "For text classification, the claim holds on ADE-corpus-v2" in why
    assert "For relation extraction, the claim is open on GIT-RE" in why
    assert "For link prediction, the claim is open on ADInt" in why
    assert why.endswith(
        "As a claim about each data set, the claim is open. As a claim about each task, the claim is open."
    )


def test_a_claim_that_panels_support_by_their_choice_is_open_by_two_readings():
    why = printed_tests.decision(published("biomedrag"), "more_documents_do_not_help").why
    assert "As a claim about at least one data set, the claim holds" in why
    assert "every panel that the paper's Section 2.2 lists, the claim is open" in why


def test_small_models_are_compared_with_the_larger_model_that_section_3_names_too():
    printed = published("biomedrag")
    why = printed_tests.small_on_par(printed, ["ADE-corpus-v2", "MTSamples"]).why
    assert "stay undecided even if both systems' answers to each row were known" in why
    assert "the better row of LLaMA2 13B on MTSamples (38.50%)" in why
    assert "but answers to each row could decide it" in why


def test_counts_that_no_rows_give_are_refused():
    with pytest.raises(ValueError, match="Counts within 0 and 10"):
        printed_tests.mcnemar_range(11, 2, 10)
    with pytest.raises(ValueError, match="has no n"):
        printed_tests._n_rows(published("biomedrag").number("biomedrag.text.data_sets.tasks"))


def test_the_other_reading_of_figure_2_b_would_refute_one_chunk_for_every_n():
    printed = published("biomedrag")
    with_example = printed.number("biomedrag.table1.medllama_br.chemprot_f1")
    nearest = printed.number("biomedrag.figure2.chemprot.top1")
    assert nearest.value > with_example.value
    _, high = printed_tests._p_range(with_example, nearest)
    n_tests = len(printed_tests._pairs(printed, "one_chunk_beats_many"))
    assert high * n_tests < 0.05
    why = printed_tests.decision(printed, "one_chunk_beats_many").why
    assert f"RA-KNN-1 ({nearest.printed.rstrip('%')}) would score significantly higher" in why


def test_both_printed_f1_of_ddi_are_one_count():
    printed = published("biomedrag")
    precision, recall, f1 = (
        printed.number(f"biomedrag.table1.llama2_br.ddi_{measure}").value
        for measure in ("precision", "recall", "f1")
    )
    n = printed_tests.INTERACTIONS
    assert round(f1 * n) == round(2 * precision * recall / (precision + recall) * n)


def test_the_claims_about_printed_numbers_are_decided():
    decisions = {
        claim: printed_tests.decision(published("biomedrag"), claim)
        for claim in printed_tests.COMPARED
    }
    assert {name: decision.verdict for name, decision in decisions.items()} == {
        "significant_on_git": "agrees",  # of Table 1's baselines
        "better_on_chemprot": "agrees",
        "better_on_ade": "agrees",
        "better_on_ddi": "inconclusive",
        "knn_below_none_on_ddi": "inconclusive",
        "best_parts": "agrees",
        "significant_on_git_re": "inconclusive",  # BERT answered the same rows
        "beats_llm_triples": "inconclusive",  # on DDI
        "beats_llm_relations": "agrees",
        "beats_llm_classification": "inconclusive",  # on MTSamples
        "beats_llm_links": "inconclusive",
        "retrieval_helps_labels": "inconclusive",  # on MTSamples it is printed lower
        # of three models on four corpora, one corpus shows a gain for each
        "better_on_mtsamples": "inconclusive",
        "better_on_umls": "inconclusive",
        "better_on_adint": "inconclusive",
        "one_sentence_best_on_ade": "agrees",
        "onerel_beats_unirel": "inconclusive",  # on DDI; OneRel's F1 is its first column
        # on ADInt RA-KNN-n is above it, by four rows
        "superior_everywhere": "inconclusive",
        "one_chunk_beats_many": "inconclusive",
        # 42.94 and 92.2 against 85.08 and 99.6 at n = 1, in panels that the outcome chose
        "more_documents_do_not_help": "inconclusive",
        "gain_on_git": "agrees",
        "gain_on_chemprot": "agrees",
        "gain_on_ddi": "inconclusive",
        "gain_on_git_re": "agrees",
        "retrieval_beats_onerel": "agrees",
        "light_models_lag_on_git": "agrees",
        "beyond_best_retrieval": "inconclusive",  # 89.03 against 88.38
        "one_sentence_best_on_git_re": "inconclusive",  # 85.16 against 84.51
        "significant_everywhere": "inconclusive",  # DDI, MTSamples and others cannot be
        "significant_on_extraction": "inconclusive",  # on DDI; on GIT and GIT-RE alone it agrees
        "gpt4_untrained_worse": "agrees",
        "gpt4_above_encoders_on_ade": "differs",  # 75.60 against 97
        "prompted_llm_best_on_mtsamples": "inconclusive",
        "scorer_beats_cosine": "inconclusive",
        "diversity_helps": "inconclusive",
        "longest_chunks_best": "inconclusive",
    }
    for claim in printed_tests.COMPARED:
        for ours, other in printed_tests._pairs(published("biomedrag"), claim):
            for number in (ours, other):
                # the F1 of OneRel is its first column; cited systems and figures have only an F1
                is_f1 = number.id.endswith("_f1") or "F1" in number.column
                assert is_f1 or "onerel" in number.id, number.id
    assert all("no repeated training" in decision.why for decision in decisions.values())
    nearest = decisions["significant_on_git"].why.replace("\N{NO-BREAK SPACE}", " ")
    assert "Figure 2 prints 77.66% for RA-KNN-20" in nearest
    assert "minus this value is +3.76 points" in nearest
    assert "lowest possible p < 0.001, highest possible p = 0.217" in nearest, (
        "with it, the claim would not agree"
    )
    assert "over 720 rows" in decisions["superior_everywhere"].why
    assert "Of all 8 differences, one is negative" in decisions["superior_everywhere"].why
    assert decisions["superior_everywhere"].why.startswith(
        "Of 8 printed differences in F1, 1 is significantly positive, "
        "whichever rows each system answered correctly."
    )
    unread = "RA-KNN-n with LLaMA2 13B (n not read from the figure), over 720"
    assert unread in decisions["superior_everywhere"].why
    assert (
        "The lowest difference is \N{MINUS SIGN}21.40 points"
        in decisions["gpt4_above_encoders_on_ade"].why
    )
    baselines = list(
        printed_tests.comparisons(published("biomedrag"), "significant_on_git")["against"]
    )
    assert len(baselines) == 9
    chemprot = list(
        printed_tests.comparisons(published("biomedrag"), "better_on_chemprot")["against"]
    )
    assert chemprot == [*baselines, "JBUIM", "SPBERE"]
    ade = printed_tests.comparisons(published("biomedrag"), "better_on_ade")
    assert [f"{model} + BiomedRAG" for model in ade["against"]] == [
        text.partition(",")[0] for text in ade["printed"]
    ]
    assert not any("BiomedRAG" in name or "RA-KNN" in name for name in baselines)
    assert "the 368 test rows" in decisions["better_on_ddi"].why
    assert "We assume that they answered the same rows" in decisions["better_on_ddi"].why
    ddi = list(printed_tests.comparisons(published("biomedrag"), "better_on_ddi")["against"])
    assert sum("RA-KNN" in name for name in ddi) == 7, "section 2.2 names RA-KNN-n"
    assert (
        "SPBERE" in printed_tests.comparison_table(published("biomedrag"), ["better_on_ddi"]).html
    )


@pytest.mark.parametrize(
    ("claim", "n_undecidable"),
    [
        ("gain_on_ddi", 2),
        ("better_on_ddi", 4),
        ("better_on_mtsamples", 2),
        ("knn_below_none_on_ddi", 2),
        ("beyond_best_retrieval", 1),
        ("superior_everywhere", 6),
        ("significant_everywhere", 6),
        ("longest_chunks_best", 1),
        ("one_chunk_beats_many", 16),
        ("one_sentence_best_on_git_re", 2),
        ("scorer_beats_cosine", 0),
        ("better_on_adint", 0),
    ],
)
def test_paired_answers_are_said_to_decide_only_what_some_pairing_can(
    claim: str, n_undecidable: int
):
    why = printed_tests.decision(published("biomedrag"), claim).why
    assert (printed_tests.ONLY_PAIRED in why) == (n_undecidable == 0)
    n_named = re.search(r"In (\w+)(?: of the \d+)? comparisons", why)
    words = {None: 0, "both": 2} | {str(n): n for n in range(1, 17)}
    assert words[n_named and n_named[1]] == n_undecidable
    table = printed_tests.comparisons(published("biomedrag"), claim)
    assert sum(table["low"] >= 0.05) == n_undecidable, "the page's table has as many"


def test_the_gain_on_triples_is_open_only_on_ddi_as_the_papers_page_says():
    table = printed_tests.comparisons(published("biomedrag"), "beats_llm_triples")
    is_open = table["verdict"] != "agrees"
    assert {text.split(", ")[1] for text in table["printed"][is_open]} == {"DDI"}
    headlines = read_headlines()["biomedrag"].headlines
    (words,) = [entry.words for entry in headlines if entry.claim.endswith("beats_llm_triples")]
    assert words.endswith("to extract triples (undecided only on DDI).")


def test_claims_that_join_data_sets_name_the_gains_that_are_significant():
    significant = []
    for claim in ("beats_llm_triples", "beats_llm_classification", "beats_llm_links"):
        table = printed_tests.comparisons(published("biomedrag"), claim)
        texts = table["printed"][table["high"] < 0.05]
        significant += [text.partition(", F1")[0].replace(" + BiomedRAG", "") for text in texts]
    assert significant == [
        "MedLLaMA 13B, GIT",
        "LLaMA2 13B, GIT",
        "MedLLaMA 13B, ChemProt",
        "LLaMA2 13B, ChemProt",
        "MedLLaMA 13B, Ade-corpus-v2",
        "LLaMA2 13B, Ade-corpus-v2",
        "GPT-4, Ade-corpus-v2",
        "MedLLaMA 13B, MTsample",
        "MedLLaMA 13B, UMLS",
        "GPT-4, UMLS",
        "MedLLaMA 13B, ADInt",
    ]
