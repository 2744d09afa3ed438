"""The authors' own prompts as arms of notebook 01: read from their released code, see `resources.authors_code`.

The code of September 2025, behind the released answers, lacks its client; the client is that of November. Unlike the
paper's text, Format A has no filter, ten units are retrieved for both formats, and the true names stand in for
recognised ones. As in the client, a prompt is cut to 2,000 characters.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace

from evaluation.answers import Answer
from helpers.completions import label_probability
from helpers.graph import Graph
from papers.side_effects.corpus import Arm, Entities, Question, TextStore, yes_no_answer
from papers.side_effects.forward import MAX_PROMPT_CHARACTERS, Generator, edge_exists, parse_label
from rag.prompts import arm_of
from resources.authors_code import Code

FILES = tuple(
    f"side_effects/code/{name}.py"
    for name in ("vllm_model", "rag_format_a", "rag_format_b", "graphrag")
)
LABELS = {
    "authors_query": "Closed book, authors' prompt for one question",
    "authors_batch": "Closed book, authors' prompt for a batch",
    "authors_format_a": "RAG, Format A, authors' prompt",
    "authors_format_b": "RAG, Format B, authors' prompt",
    "authors_graphrag": "GraphRAG, authors' prompt",
}
K = 10  # units that the code retrieves for both formats; the paper says 5 for Format A
CLOSED_BOOK_TEMPERATURE = 0.3  # of the client where nothing is retrieved; the paper says 0.1
Evidence = Callable[[Sequence[Question]], Iterable[str]]
"""What stands in the prompt beside each question."""
LABEL = re.compile(r"\b(yes|no)\b", re.IGNORECASE)
"""The first YES or NO of a reply, as a word: one of these prompts lets the model repeat the request before it."""


def arms(
    generator: Generator,
    codes: Mapping[str, Code],
    format_a: TextStore,
    format_b: TextStore,
    graph: Graph,
) -> dict[str, Arm]:
    """The five arms, from `FILES` by name; none if the code is not there, `NotInCode` if a file lacks a prompt."""
    if not codes:
        return {}
    client, code_a, code_b, code_graph = (codes[name] for name in FILES)
    (_, system), *_ = client.messages("generate_response")
    document = code_a.with_fields("query_batch", "drug_name", "drug_text")
    pair = code_b.with_fields("query_batch", "pair_drug", "pair_effect")
    (nothing,) = code_b.assigned("context", "query_batch")
    yes, no = code_graph.assigned("graph_result", "query_batch")

    def lists(questions: Sequence[Question]) -> Iterable[str]:
        for numbers in format_a.search(questions, K):
            units = [(format_a.pairs[i][0], format_a.texts[i]) for i in numbers]
            yield "\n\n".join(
                document.format(drug_name=name, drug_text=text) for name, text in units
            )

    def pairs(questions: Sequence[Question]) -> Iterable[str]:
        for question, numbers in zip(questions, format_b.search(questions, K), strict=True):
            kept = [
                pair.format(pair_drug=name, pair_effect=effect)
                for name, (effect,) in (format_b.pairs[i] for i in numbers)
                if question.drug.lower() in name.lower()
            ]
            yield "\n".join(kept) or _filled(nothing, question)

    def edges(questions: Sequence[Question]) -> Iterable[str]:
        for question in questions:
            yield _filled(
                yes if edge_exists(graph, Entities(question.drug, question.side_effect)) else no,
                question,
            )

    def none(questions: Sequence[Question]) -> Iterable[str]:
        return [""] * len(questions)

    bare = replace(generator, temperature=CLOSED_BOOK_TEMPERATURE)
    made: dict[str, tuple[Generator, str, Evidence]] = {
        "authors_query": (bare, client.assigned("prompt", "query")[0], none),
        "authors_batch": (bare, client.assigned("prompt", "query_batch")[0], none),
        "authors_format_a": (generator, code_a.assigned("prompt", "query_batch")[0], lists),
        "authors_format_b": (generator, code_b.assigned("prompt", "query_batch")[0], pairs),
        "authors_graphrag": (generator, code_graph.assigned("prompt", "query_batch")[0], edges),
    }
    return {
        name: _arm(by, system.format(), text, evidence, name)
        for name, (by, text, evidence) in made.items()
    }


def _filled(template: str, question: Question, evidence: str = "") -> str:
    names = {"drug": question.drug, "side_effect": question.side_effect}
    return template.format(**names, context=evidence, graph_result=evidence)


@arm_of
def _arm(
    questions: Sequence[Question],
    generator: Generator,
    system: str,
    template: str,
    evidence: Evidence,
    name: str,
) -> list[Answer]:
    texts = [_filled(template, q, e) for q, e in zip(questions, evidence(questions), strict=True)]
    prompts = [
        [{"role": "system", "content": system}, {"role": "user", "content": cut(text)}]
        for text in texts
    ]
    replies = generator.generate(prompts, LABELS[name])
    return [
        yes_no_answer(parse_label(r.text, LABEL), p_yes=label_probability(r.first_token), reply=r)
        for r in replies
    ]


def cut(prompt: str) -> str:
    """A prompt as the client sends it (`_safe_generate_response`)."""
    return prompt[:MAX_PROMPT_CHARACTERS] + "..." if len(prompt) > MAX_PROMPT_CHARACTERS else prompt
