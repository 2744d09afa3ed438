"""Misspelt drug names (side_effects.md, "Misspelling robustness"): names to try, normalisers, and what they recover.

The paper puts a language model before retrieval that corrects the drug's name. Here each way of doing so is a function
of the same signature: names as typed in, drugs of the knowledge out, or None where it finds none.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from numpy.typing import NDArray
from rapidfuzz import process
from rapidfuzz.distance import DamerauLevenshtein, JaroWinkler
from sklearn.feature_extraction.text import TfidfVectorizer

from helpers.graph import BATCH_ROWS, Graph
from helpers.llm import LLM
from helpers.results.answers import Answer
from helpers.results.metrics import Score, bootstrap, proportion
from helpers.settings import DATA
from helpers.vectors import Index
from papers.side_effects.forward import Arm, Entities, Question, TextStore, said, share_of

EDITS = ("insert", "delete", "substitute", "transpose")
OTHER_KINDS = ("brand", "spelling", "synonym")
KINDS = (*EDITS, *OTHER_KINDS, "correct", "absent")
"""Perturbed by one kind of edit; another name of the drug; a right name, to be left alone; a name of no known drug."""
MOST_EDITS = 3
LETTERS_PER_EDIT = 3
"""A name gets an edit for every three of its letters at most: of a shorter remainder nobody could tell the drug."""
OTHER_NAMES = DATA / "other_names.yml"

_ALPHABET = "abcdefghijklmnopqrstuvwxyz"
_TRIES = 200


@dataclass(frozen=True)
class Query:
    """A drug's name as somebody typed it.

    Attributes:
        typed: the name, in lower case.
        drug: the drug of the knowledge that is meant; None if the knowledge has none of that name.
        kind: one of `KINDS`, or `paper` for a name of the paper's own list.
        edits: how many edits away from the right name; 0 where it is no matter of edits.
    """

    typed: str
    drug: str | None
    kind: str
    edits: int = 0


# -------------------------------------------------------------------------------------------------------------- names


def read_misspellings(path: Path) -> dict[str, str]:
    """The paper's list: right name by misspelt name, from a CSV with columns Original and Spelling error."""
    table = pd.read_csv(path, encoding="utf-8-sig")
    clean = {column: table[column].str.strip().str.lower() for column in ("Original", "Spelling error")}
    return dict(zip(clean["Spelling error"], clean["Original"], strict=True))


def paper_queries(misspellings: Mapping[str, str], vocabulary: Iterable[str]) -> list[Query]:
    """The paper's names; one whose drug is not in the knowledge has no right answer there."""
    known = set(vocabulary)
    return [
        Query(typed, right if right in known else None, "paper", DamerauLevenshtein.distance(typed, right))
        for typed, right in misspellings.items()
    ]


def invented_misspellings(vocabulary: Iterable[str], n: int, seed: int) -> dict[str, str]:
    """A stand-in for the paper's list where its file is not at hand: `n` drugs of the knowledge, each misspelt once."""
    queries = [q for q in perturbed(vocabulary, seed, most=1) if q.drug]
    chosen = np.random.default_rng(seed).choice(len(queries), size=min(n, len(queries)), replace=False)
    return {queries[i].typed: str(queries[i].drug) for i in sorted(chosen)}


def perturb(name: str, kind: str, edits: int, rng: np.random.Generator) -> str | None:
    """`name` after so many edits of one kind, at exactly that Damerau-Levenshtein distance from it.

    Only letters are touched. Edits can undo one another, so it is tried again until the distance is right.

    Returns:
        The misspelt name, or None if there is none to be found: too few letters, or all alike.

    Raises:
        ValueError: the kind is not one of `EDITS`, or `edits` is not positive.
    """
    if kind not in EDITS or edits < 1:
        raise ValueError(f"An edit is one of {', '.join(EDITS)}, and there is at least one; got {edits} x {kind!r}.")
    if sum(c.isalpha() for c in name) < LETTERS_PER_EDIT * edits:
        return None
    for _ in range(_TRIES):
        typed = name
        for _ in range(edits):
            typed = _edited(typed, kind, rng)
        if DamerauLevenshtein.distance(typed, name) == edits:
            return typed
    return None


def _edited(name: str, kind: str, rng: np.random.Generator) -> str:
    letters = [i for i, c in enumerate(name) if c.isalpha()]
    if kind == "transpose":
        letters = [i for i in letters if i + 1 < len(name) and name[i + 1].isalpha()]
    if not letters:
        return name
    i = int(rng.choice(letters))
    other = _ALPHABET[int(rng.integers(len(_ALPHABET)))]
    if kind == "insert":
        i += int(rng.integers(2))  # before the letter or after it, so that an end can grow too
        return name[:i] + other + name[i:]
    if kind == "delete":
        return name[:i] + name[i + 1 :]
    if kind == "substitute":
        return name[:i] + other + name[i + 1 :]
    return name[:i] + name[i + 1] + name[i] + name[i + 2 :]


def perturbed(vocabulary: Iterable[str], seed: int, most: int = MOST_EDITS) -> list[Query]:
    """Each drug's name misspelt by one edit, by two and by three, as far as it has the letters for it.

    The kinds are dealt out evenly over the shuffled drugs. A name that is another drug's is left out.

    Args:
        vocabulary: the drugs of the knowledge.
        seed: of the shuffle and of the edits.
        most: most edits of a name.
    """
    drugs = sorted(set(vocabulary))
    known = set(drugs)
    rng = np.random.default_rng(seed)
    queries = []
    for edits in range(1, most + 1):
        for position, i in enumerate(rng.permutation(len(drugs))):
            kind = EDITS[position % len(EDITS)]
            typed = perturb(drugs[i], kind, edits, rng)
            if typed is not None and typed not in known:
                queries.append(Query(typed, drugs[i], kind, edits))
    return queries


def other_names(vocabulary: Iterable[str], path: Path = OTHER_NAMES) -> list[Query]:
    """Trade names, other spellings and other generic names of the knowledge's drugs, and names of none of them.

    A name that the knowledge holds itself is left out, and so is one whose drug it lacks.
    """
    known = set(vocabulary)
    lists = yaml.safe_load(path.read_text(encoding="utf-8"))
    queries = []
    for kind in OTHER_KINDS:
        for typed, drugs in lists[f"{kind}s"].items():
            drug = next((d for d in drugs if d in known), None)
            if drug and typed not in known:
                queries.append(Query(typed, drug, kind))
    return queries + [Query(typed, None, "absent") for typed in lists["absent"] if typed not in known]


def benchmark(vocabulary: Iterable[str], seed: int) -> list[Query]:
    """The project's own benchmark: perturbed names, other names, the right names themselves, and names of no drug."""
    drugs = sorted(set(vocabulary))
    return [*perturbed(drugs, seed), *other_names(drugs), *(Query(d, d, "correct") for d in drugs)]


def subset(queries: Sequence[Query], sizes: Mapping[str, int], seed: int) -> list[Query]:
    """Some queries of each group, drawn evenly over the kinds and numbers of edits in it.

    Args:
        queries: the whole benchmark.
        sizes: how many to draw of each group, by `group`; all of a group that has no more.
        seed: of the draw.

    Raises:
        ValueError: a group that the benchmark does not have.
    """
    rng = np.random.default_rng(seed)
    taken = []
    for name, size in sizes.items():
        cells: dict[tuple[str, int], list[Query]] = {}
        for i in rng.permutation(len(queries)):
            if group(queries[i]) == name:
                cells.setdefault((queries[i].kind, queries[i].edits), []).append(queries[i])
        if not cells:
            raise ValueError(f"No query is {name!r}; there are {', '.join(sorted({group(q) for q in queries}))}.")
        waiting = [cells[key] for key in sorted(cells)]
        rest = min(size, sum(map(len, waiting)))
        while rest:
            for cell in waiting:
                if cell and rest:
                    taken.append(cell.pop())
                    rest -= 1
    return taken


def group(query: Query) -> str:
    """`misspelt` for a perturbed name, else its kind."""
    return "misspelt" if query.kind in EDITS else query.kind


def to_mend(query: Query) -> bool:
    """Whether a drug of the knowledge is meant that is not typed as the knowledge spells it."""
    return query.drug is not None and query.drug != query.typed


def ambiguous(queries: Sequence[Query], vocabulary: Iterable[str]) -> Score:
    """Share of perturbed names that are no more edits away from another drug's name than from the right one.

    The interval is over drugs.
    """
    drugs = sorted(set(vocabulary))
    mine = [q for q in queries if q.kind in EDITS]
    distances = process.cdist(
        [q.typed for q in mine],
        drugs,
        scorer=DamerauLevenshtein.distance,
        score_cutoff=MOST_EDITS,
    )
    own = np.array([[q.drug == d for d in drugs] for q in mine])
    nearest_other = np.where(own, len(max(drugs, key=len)), distances).min(axis=1)
    return over_drugs(mine, nearest_other <= [q.edits for q in mine])


# -------------------------------------------------------------------------------------------------------- normalisers


@dataclass(frozen=True)
class Normalised:
    """What a normaliser made of one name.

    Attributes:
        drug: a drug of the knowledge, or None.
        words: what a language model wrote; else empty.
        tokens: prompt and answer, of a language model.
        seconds: what it took; of a language model from sending to the last token, with others under way beside it.
    """

    drug: str | None
    words: str = ""
    tokens: int = 0
    seconds: float = 0.0


Normaliser = Callable[[Sequence[str]], list[Normalised]]
"""Names as typed in, one outcome for each out."""
Ranker = Callable[[Sequence[str], int], list[list[tuple[str, float]]]]
"""Names as typed and k in; for each the k likeliest drugs with their similarity (1: the same) out, best first."""


def unchanged(vocabulary: Iterable[str]) -> Normaliser:
    """No normalisation: a name is found if it is spelt as in the knowledge."""
    known = frozenset(vocabulary)
    return lambda names: [Normalised(name if name in known else None) for name in names]


SIMILARITIES: dict[str, Any] = {
    "damerau_levenshtein": DamerauLevenshtein.normalized_similarity,
    "jaro_winkler": JaroWinkler.normalized_similarity,
}


def by_edits(vocabulary: Iterable[str], similarity: str = "damerau_levenshtein") -> Ranker:
    """Drugs by the similarity of their letters.

    Args:
        vocabulary: the drugs of the knowledge.
        similarity: `damerau_levenshtein` (1 less the edits' share of the longer name's letters) or `jaro_winkler`.
    """
    drugs = sorted(set(vocabulary))
    scorer = SIMILARITIES[similarity]

    def rank(names: Sequence[str], k: int) -> list[list[tuple[str, float]]]:
        if not names:
            return []
        scores = process.cdist(list(names), drugs, scorer=scorer)
        # a stable sort: of equally similar drugs the first of the alphabet is taken
        best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
        return [[(drugs[i], float(row[i])) for i in order] for row, order in zip(scores, best, strict=True)]

    return rank


def by_ngrams(vocabulary: Iterable[str], sizes: tuple[int, int] = (2, 3)) -> Ranker:
    """Drugs by the cosine of their letter groups, weighted by rarity (tf-idf), in a FAISS index.

    Args:
        vocabulary: the drugs of the knowledge.
        sizes: fewest and most letters of a group; a name's beginning and end count as a letter.
    """
    drugs = sorted(set(vocabulary))
    vectoriser = TfidfVectorizer(analyzer="char_wb", ngram_range=sizes, sublinear_tf=True, dtype=np.float32)
    index = Index.build(vectoriser.fit_transform(drugs).toarray())

    def rank(names: Sequence[str], k: int) -> list[list[tuple[str, float]]]:
        if not names:
            return []
        scores, ids = index.search(vectoriser.transform(names).toarray(), k)
        return [[(drugs[i], float(s)) for i, s in zip(*of, strict=True)] for of in zip(ids, scores, strict=True)]

    return rank


def nearest(ranker: Ranker, cut: float) -> Normaliser:
    """The likeliest drug, unless its similarity is below `cut`."""

    def normalise(names: Sequence[str]) -> list[Normalised]:
        return [Normalised(drug if score >= cut else None) for ((drug, score),) in ranker(names, 1)]

    return normalise


def by_dictionary(vocabulary: Iterable[str], *, fuzzy: bool = True) -> Normaliser:
    """The package drug-named-entity-recognition: its dictionary of drug names, and letter trigrams if `fuzzy`.

    It answers with names of its own. Such a name stands for the drug of the knowledge that it is, or else for the first
    one that it lists as a synonym.

    Raises:
        ImportError: the package is not installed.
    """
    # seconds to load, and it opens a file of the home folder; so only where it is asked for
    from drug_named_entity_recognition import find_drugs  # noqa: PLC0415

    known = frozenset(vocabulary)

    def look_up(typed: str) -> Normalised:
        for found, _, _ in find_drugs([typed], is_fuzzy_match=fuzzy):
            names = [str(found.get("name", "")).lower(), *sorted(found.get("synonyms", ()))]
            if drug := next((n for n in names if n in known), None):
                return Normalised(drug)
        return Normalised(None)

    return lambda names: [look_up(name) for name in names]


def in_turn(*normalisers: Normaliser) -> Normaliser:
    """The first normaliser's answer; where it finds nothing the second one's, and so on."""

    def normalise(names: Sequence[str]) -> list[Normalised]:
        results = [Normalised(None)] * len(names)
        for normaliser in normalisers:
            open_ones = [i for i, r in enumerate(results) if r.drug is None]
            for i, result in zip(open_ones, normaliser([names[i] for i in open_ones]), strict=True):
                results[i] = replace(
                    result,
                    tokens=results[i].tokens + result.tokens,
                    seconds=results[i].seconds + result.seconds,
                )
        return results

    return normalise


# ------------------------------------------------------------------------------------------- language-model normalisers

# No examples: of six wordings tried on names outside the test, those with examples made a small model repeat its input.
SPELLING = (
    "You are given the name of a drug as somebody typed it. Answer with the drug's generic name, spelt correctly, and "
    "nothing else. If the name is right already, repeat it."
)
CHOOSING = (
    "You are given the name of a drug as somebody typed it: perhaps misspelt, perhaps a trade name. Which drug of the "
    "list is meant? Answer with its number, or with 0 if it is none of them."
)


def spelling_prompt(typed: str) -> list[dict[str, str]]:
    """The messages that ask for the right spelling."""
    return [{"role": "system", "content": SPELLING}, {"role": "user", "content": typed}]


def parse_spelling(reply: str) -> str:
    """The first word of a reply, in lower case and without quotes or a final full stop."""
    found = re.search(r"\S+", reply)
    return found[0].strip("\"'`*.,;:").lower() if found else ""


def by_llm(llm: LLM, vocabulary: Iterable[str], *, temperature: float = 0.1, top_p: float = 0.9) -> Normaliser:
    """The paper's way: a language model writes the name, whatever it likes (Methods, "Misspelling experiment").

    What it wrote stands in `words`; it is an answer only if the knowledge has a drug of that name.
    """
    known = frozenset(vocabulary)

    def normalise(names: Sequence[str]) -> list[Normalised]:
        replies = llm.chat_many(
            [spelling_prompt(name) for name in names],
            max_tokens=24,
            temperature=temperature,
            top_p=top_p,
            stop=["\n"],
            label="LLM spells",
        )
        words = [parse_spelling(reply.text) for reply in replies]
        return [
            Normalised(w if w in known else None, w, r.prompt_tokens + r.generated_tokens, r.seconds)
            for w, r in zip(words, replies, strict=True)
        ]

    return normalise


def choosing_prompt(typed: str, candidates: Sequence[str]) -> list[dict[str, str]]:
    """The messages that ask which candidate is meant."""
    listed = "\n".join(f"{number}. {drug}" for number, drug in enumerate(candidates, start=1))
    return [
        {"role": "system", "content": CHOOSING},
        {"role": "user", "content": f"Typed: {typed}\n\n{listed}\n0. none of them"},
    ]


def by_llm_choice(llm: LLM, ranker: Ranker, k: int = 5) -> Normaliser:
    """A language model chooses among the `k` likeliest drugs, or none of them, by constrained decoding.

    The candidates stand in alphabetical order, so that the order says nothing about which one the ranker prefers.
    """

    def normalise(names: Sequence[str]) -> list[Normalised]:
        candidates = [sorted(drug for drug, _ in ranked) for ranked in ranker(names, k)]
        prompts = [choosing_prompt(name, of) for name, of in zip(names, candidates, strict=True)]
        numbers = [str(number) for number in range(min(k, max(map(len, candidates), default=1)) + 1)]
        choices = llm.choose_many(prompts, numbers, label="LLM chooses")
        return [
            Normalised(
                of[int(c.answer) - 1] if 0 < int(c.answer) <= len(of) else None,
                c.answer,
                c.prompt_tokens + c.generated_tokens,
                c.seconds,
            )
            for c, of in zip(choices, candidates, strict=True)
        ]

    return normalise


def normalise(normaliser: Normaliser, queries: Sequence[Query]) -> list[Normalised]:
    """The outcome of each query, with the seconds that a normaliser does not state itself shared out evenly."""
    start = time.perf_counter()
    results = normaliser([q.typed for q in queries])
    each = (time.perf_counter() - start) / max(1, len(queries))
    return [r if r.tokens else replace(r, seconds=each) for r in results]


def candidate_recall(ranker: Ranker, queries: Sequence[Query], k: int) -> Score:
    """Share of names whose drug is among the `k` likeliest: the ceiling of whoever chooses among them."""
    ranked = ranker([q.typed for q in queries], k)
    return over_drugs(queries, [q.drug in dict(of) for q, of in zip(queries, ranked, strict=True)])


# ------------------------------------------------------------------------------------------------------------ scoring


def right(queries: Sequence[Query], results: Sequence[Normalised]) -> NDArray[np.bool_]:
    """Whether each outcome is the drug that is meant, or None where none is."""
    return np.array([r.drug == q.drug for q, r in zip(queries, results, strict=True)], dtype=bool)


def whose(queries: Sequence[Query]) -> list[str]:
    """The drug of each query, which its misspelt names share; a name of no drug stands for itself."""
    return [q.drug or q.typed for q in queries]


def over_drugs(queries: Sequence[Query], hits: Sequence[bool] | NDArray[np.bool_]) -> Score:
    """Share of hits among the queries, with its interval over drugs."""
    return share_of(hits, whose(queries))


def correction(queries: Sequence[Query], results: Sequence[Normalised], *groups: str) -> Score | None:
    """Share of right outcomes among the queries of these groups (see `group`); None if there is no such query."""
    return share_where(queries, results, lambda q: group(q) in groups)


def share_where(
    queries: Sequence[Query], results: Sequence[Normalised], wanted: Callable[[Query], bool]
) -> Score | None:
    """Share of right outcomes among the wanted queries, with its interval over drugs; None if there is none."""
    mine = [(q, r) for q, r in zip(queries, results, strict=True) if wanted(q)]
    return over_drugs([q for q, _ in mine], [r.drug == q.drug for q, r in mine]) if mine else None


def spelt(words: Sequence[str], truths: Sequence[str]) -> Score:
    """Share of words that are the right name, as the paper counts it: whether or not the knowledge has the drug."""
    return proportion(sum(w == t for w, t in zip(words, truths, strict=True)), len(truths))


def trade_off(ranker: Ranker, queries: Sequence[Query], cuts: Sequence[float]) -> pd.DataFrame:
    """What a cut-off buys and costs: names corrected, and names of no drug that are forced onto one.

    Returns:
        Columns cut, corrected (share of perturbed names given their drug), wrong (share of them given another one),
        forced (share of absent names given any).
    """
    ranked = ranker([q.typed for q in queries], 1)
    drugs = np.array([of[0][0] for of in ranked], dtype=object)
    scores = np.array([of[0][1] for of in ranked])
    misspelt = np.array([group(q) == "misspelt" for q in queries])
    absent = np.array([q.kind == "absent" for q in queries])
    own = np.array([d == q.drug for d, q in zip(drugs, queries, strict=True)])
    rows = [
        {
            "cut": cut,
            "corrected": float((own & given)[misspelt].mean()),
            "wrong": float((~own & given)[misspelt].mean()),
            "forced": float(given[absent].mean()),
        }
        for cut in cuts
        for given in [scores >= cut]
    ]
    return pd.DataFrame(rows)


# --------------------------------------------------------------------------------------------------------- downstream

EDGES = """
UNWIND $pairs AS pair
MATCH (d:Drug {name: pair.drug})-[:may_cause_side_effect]->(s:SideEffect {name: pair.side_effect})
RETURN d.name AS drug, s.name AS side_effect
"""


def known_edges(graph: Graph, pairs: Iterable[tuple[str, str]]) -> set[tuple[str, str]]:
    """Those of the (drug, side effect) pairs that are an edge of the graph, asked for thousands at a time."""
    found: set[tuple[str, str]] = set()
    rows = [{"drug": d, "side_effect": e} for d, e in sorted(set(pairs))]
    for start in range(0, len(rows), BATCH_ROWS):
        there = graph.read(EDGES, pairs=rows[start : start + BATCH_ROWS])
        found |= {(row["drug"], row["side_effect"]) for row in there}
    return found


@dataclass(frozen=True)
class Answered:
    """Questions asked with some drug's name, and the answers: one row each.

    Attributes:
        drugs: the drug that is meant, (n,).
        labels: whether the effect is documented, (n,).
        answers: True, False, or None where the answer could not be read, (n,).
    """

    drugs: list[str]
    labels: list[bool]
    answers: list[bool | None]


def questions_of(questions: Iterable[Question], drugs: Iterable[str]) -> list[Question]:
    """The questions about these drugs."""
    wanted = set(drugs)
    return [q for q in questions if q.drug in wanted]


def renamed(questions: Sequence[Question], names: Mapping[str, str]) -> list[Question]:
    """The same questions about the drug under another name; a drug without one keeps its own."""
    return [Question(names.get(q.drug, q.drug), q.side_effect, q.label) for q in questions]


def as_asked(questions: Iterable[Question]) -> dict[Question, Entities]:
    """Both names of each question as they stand in it: entity recognition without a fault."""
    return {q: Entities(q.drug, q.side_effect) for q in questions}


def ask_as(arm: Arm, questions: Sequence[Question], names: Mapping[str, str]) -> Answered:
    """An arm's answers to the questions with each drug under the name that it has in `names`."""
    predictions = arm(renamed(questions, names))
    labels = {"YES": True, "NO": False, None: None}
    answers = [labels[p.predicted] for p in predictions]
    return Answered([q.drug for q in questions], [q.label for q in questions], answers)


def graph_alone(graph: Graph) -> Arm:
    """The graph's own answer: YES where the edge is there. No language model."""

    def arm(questions: Sequence[Question]) -> list[Answer]:
        pairs = [(q.drug, q.side_effect) for q in questions]
        edges = known_edges(graph, pairs)
        return [said(pair in edges, handed=pair in edges) for pair in pairs]

    return arm


def format_b_alone(store: TextStore, k: int) -> Arm:
    """The filter's own answer in text RAG: YES where one of the k retrieved sentences states the pair."""

    def arm(questions: Sequence[Question]) -> list[Answer]:
        hits = store.search(questions, k)
        found = [
            any((q.drug, frozenset({q.side_effect})) == store.pairs[i] for i in numbers if i >= 0)
            for q, numbers in zip(questions, hits, strict=True)
        ]
        return [said(f, handed=f) for f in found]

    return arm


def downstream(
    graph: Graph,
    questions: Sequence[Question],
    queries: Sequence[Query],
    outcomes: Mapping[str, Sequence[Normalised]],
) -> dict[str, Answered]:
    """Every question about the drug of every query, answered by the graph's edges under the name that was found.

    Right names, which have nothing to recover, and names of no drug are left out. A name that was not found has no
    edges.

    Args:
        graph: holds the edges.
        questions: the forward benchmark.
        queries: what was typed.
        outcomes: of each normaliser, for these queries.
    """
    of_drug: dict[str, list[Question]] = {}
    for question in questions:
        of_drug.setdefault(question.drug, []).append(question)
    asked = [(i, question) for i, q in enumerate(queries) if to_mend(q) for question in of_drug.get(q.drug or "", ())]
    pairs = {
        name: [(results[i].drug or "", question.side_effect) for i, question in asked]
        for name, results in outcomes.items()
    }
    edges = known_edges(graph, {pair for of in pairs.values() for pair in of if pair[0]})
    drugs, labels = [q.drug for _, q in asked], [q.label for _, q in asked]
    return {name: Answered(drugs, labels, [pair in edges for pair in of]) for name, of in pairs.items()}


def f1(labels: NDArray[np.bool_], answers: NDArray[np.bool_]) -> float:
    """F1 of YES; 0 if nothing is, or is called, YES."""
    hits = int((labels & answers).sum())
    called = int(labels.sum() + answers.sum())
    return 2 * hits / called if called else 0.0


def recovered(spelt_right: Answered, other: Answered, draws: int, seed: int = 0) -> Score | None:
    """F1 with other names as a share of F1 with the right ones, bootstrapped over drugs.

    Args:
        spelt_right: answers with the right names.
        other: answers to the same questions with other names.
        draws: of the bootstrap over drugs.
        seed: of the bootstrap.

    Returns:
        None if F1 with the right names is 0, so that there is nothing to recover. Where all drugs agree on 0 or 1, the
        interval is Wilson's over the drugs.
    """
    labels = np.array(spelt_right.labels, dtype=bool)
    a, b = (np.array([bool(x) for x in answered.answers]) for answered in (spelt_right, other))
    if not f1(labels, a):
        return None

    def share(rows: NDArray[np.float64]) -> float:
        i = rows.astype(np.int64)
        whole = f1(labels[i], a[i])
        return f1(labels[i], b[i]) / whole if whole else 0.0

    score = bootstrap(np.arange(len(labels)), share, clusters=spelt_right.drugs, draws=draws, seed=seed)
    if score.low == score.high and score.value in (0.0, 1.0):
        drugs = len(set(spelt_right.drugs))
        sure = proportion(round(score.value * drugs), drugs)
        return replace(score, low=sure.low, high=sure.high)
    return score
