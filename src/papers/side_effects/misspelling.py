"""Misspelt drug names (side_effects.md, "Misspelling robustness").

The names, and the authors' released answers.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain, zip_longest
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
import pandas as pd
import yaml
from numpy.typing import NDArray
from rapidfuzz.distance import DamerauLevenshtein

from evaluation import figures
from evaluation.answers import Answer, make_row
from evaluation.outcomes import Outcomes
from papers.side_effects.corpus import Arm, Entities, Question, yes_no_answer
from papers.side_effects.prompted_names import IN_AUTHORS_PROMPT, IS_PROMPTED, PROMPTED
from resources.settings import DATA

EDITS = ("insert", "delete", "substitute", "transpose")
OTHER_KINDS = ("brand", "spelling", "synonym")
"""Other names of a drug, in data/other_names.yml."""
LETTERS_PER_EDIT = 3
"""Letters that a name needs for each edit: of a shorter remainder nobody could tell the drug."""
MAX_TRIES = 200
"""How often a misspelling is drawn until it has the right distance from the name."""
GROUPS = {
    "misspelt": "misspelt",
    "brand": "trade names",
    "spelling": "other spellings",
    "synonym": "other names",
    "correct": "right names",
    "absent": "no drug",
    "paper": "the paper's ten",
}
OTHER_NAMES = DATA / "other_names.yml"


@dataclass(frozen=True)
class Query:
    """A drug's name as somebody typed it, and the drug that is meant.

    Attributes:
        typed: The name as typed, in lower case.
        drug: The drug of the knowledge that is meant, if it has one.
        kind: One of `GROUPS` or `EDITS`.
        edits: Distance from the right name.
        meant: The right name of the paper's own list, whose drug may not be in the knowledge.
    """

    typed: str
    drug: str | None
    kind: str
    edits: int = 0
    meant: str = ""

    @property
    def unit(self) -> str:
        """The typed name, its kind and its drug."""
        return f"{self.kind} | {self.typed} | {self.drug or 'none'}"

    @property
    def cluster(self) -> str:
        """The drug, which its misspelt names share; a name of no drug is its own."""
        return self.drug or self.typed

    @property
    def text(self) -> str:
        """The name as typed."""
        return self.typed

    @property
    def gold(self) -> str:
        """The drug that is meant; empty if the knowledge has none of that name."""
        return self.drug or ""

    @property
    def strata(self) -> dict[str, str]:
        """What was typed, and the number of edits, 0 being the right name."""
        names = {"names": GROUPS[self.group]}
        if self.kind == "correct":
            return {**names, "edits": "right name"}
        if self.kind in EDITS:
            plural = "s" if self.edits > 1 else ""
            return {**names, "edits": f"{self.edits} edit{plural}"}
        return names

    @property
    def group(self) -> str:
        """`misspelt` for a perturbed name, else its kind."""
        return "misspelt" if self.kind in EDITS else self.kind


def read_misspellings(path: Path) -> dict[str, str]:
    """Read the paper's list from a CSV file with the columns Original and Spelling error.

    Returns:
        The right name by misspelt name.
    """
    table = pd.read_csv(path, encoding="utf-8-sig")
    right = table["Original"].str.strip().str.lower()
    misspelt = table["Spelling error"].str.strip().str.lower()
    return dict(zip(misspelt, right, strict=True))


def paper_queries(misspellings: Mapping[str, str], vocabulary: Iterable[str]) -> list[Query]:
    """Make queries of the paper's names.

    Args:
        misspellings: The right name by misspelt name.
        vocabulary: The drugs of the knowledge. A name whose drug it lacks has no right answer.
    """
    known = set(vocabulary)
    queries = []
    for typed, right in misspellings.items():
        drug = right if right in known else None
        edits = DamerauLevenshtein.distance(typed, right)
        queries.append(Query(typed, drug, "paper", edits, right))
    return queries


def invented_misspellings(vocabulary: Iterable[str], n: int, seed: int) -> dict[str, str]:
    """Misspell ``n`` drugs once each: a stand-in for the paper's list where its file is missing.

    Returns:
        The right name by misspelt name.
    """
    queries = [query for query in perturbed(vocabulary, seed, max_edits=1) if query.drug]
    rng = np.random.default_rng(seed)
    rows = rng.choice(len(queries), size=min(n, len(queries)), replace=False)
    return {queries[row].typed: str(queries[row].drug) for row in sorted(rows)}


def perturb(name: str, kind: str, edits: int, rng: np.random.Generator) -> str | None:
    """Misspell a name by edits of one kind, at exactly that distance from it.

    Edits can undo one another, so it is tried again.

    Args:
        name: The right name.
        kind: One of `EDITS`.
        edits: Number of edits, at least one.
        rng: The source of randomness.

    Returns:
        The misspelt name, or None if the name has too few letters or all are alike.

    Raises:
        ValueError: The kind is unknown or there is no edit.
    """
    if kind not in EDITS or edits < 1:
        raise ValueError(
            f"An edit is one of {', '.join(EDITS)}, and there is at least one; "
            f"got {edits} x {kind!r}."
        )
    n_letters = sum(character.isalpha() for character in name)
    if n_letters < LETTERS_PER_EDIT * edits:
        return None
    for _ in range(MAX_TRIES):
        typed = name
        for _ in range(edits):
            typed = _edit_once(typed, kind, rng)
        if DamerauLevenshtein.distance(typed, name) == edits:
            return typed
    return None


def _edit_once(name: str, kind: str, rng: np.random.Generator) -> str:
    positions = _editable_positions(name, kind)
    if not positions:
        return name
    i = int(rng.choice(positions))
    letter = ascii_lowercase[int(rng.integers(26))]
    before, character, after = name[:i], name[i], name[i + 1 :]
    if kind == "insert":
        # before the letter or after it, so that an end can grow too
        inserted = character + letter if rng.integers(2) else letter + character
        return before + inserted + after
    if kind == "transpose":
        return before + after[0] + character + after[1:]
    if kind == "substitute":
        return before + letter + after
    return before + after


def _editable_positions(name: str, kind: str) -> list[int]:
    """Positions of the letters; to transpose, of those with a letter after them."""
    positions = [i for i, character in enumerate(name) if character.isalpha()]
    if kind == "transpose":
        positions = [i for i in positions if name[i + 1 : i + 2].isalpha()]
    return positions


def perturbed(vocabulary: Iterable[str], seed: int, max_edits: int = 3) -> list[Query]:
    """Misspell each drug's name by one edit and by up to ``max_edits``.

    The kinds are dealt out evenly over the shuffled drugs. A name that is another drug's is left
    out, and so is a drug with too few letters.
    """
    drugs = sorted(set(vocabulary))
    known = set(drugs)
    rng = np.random.default_rng(seed)
    queries = []
    for edits in range(1, max_edits + 1):
        for position, i in enumerate(rng.permutation(len(drugs))):
            kind = EDITS[position % len(EDITS)]
            typed = perturb(drugs[i], kind, edits, rng)
            if typed is not None and typed not in known:
                queries.append(Query(typed, drugs[i], kind, edits))
    return queries


def other_names(vocabulary: Iterable[str], path: Path = OTHER_NAMES) -> list[Query]:
    """List other names of the knowledge's drugs, and names of none of them.

    A name that the knowledge holds itself is left out, and so is one whose drug it lacks.

    Args:
        vocabulary: The drugs of the knowledge.
        path: YAML file of trade names, other spellings, other generic names and absent names.
    """
    known = set(vocabulary)
    lists = yaml.safe_load(path.read_text(encoding="utf-8"))
    queries = []
    for kind in OTHER_KINDS:
        for typed, drugs in lists[f"{kind}s"].items():
            drug = next((drug for drug in drugs if drug in known), None)
            if drug and typed not in known:
                queries.append(Query(typed, drug, kind))
    absent = [typed for typed in lists["absent"] if typed not in known]
    return queries + [Query(typed, None, "absent") for typed in absent]


def benchmark(vocabulary: Iterable[str], seed: int) -> list[Query]:
    """Make the project's own benchmark.

    It has perturbed names, other names, the right names themselves, and names of no drug.
    """
    drugs = sorted(set(vocabulary))
    correct = [Query(drug, drug, "correct") for drug in drugs]
    return [*perturbed(drugs, seed), *other_names(drugs), *correct]


def subset(queries: Sequence[Query], sizes: Mapping[str, int], seed: int) -> list[Query]:
    """Draw queries of each group evenly over its kinds and numbers of edits.

    Args:
        queries: The queries to draw from.
        sizes: Number of queries by group.
        seed: Seed of the draw.

    Raises:
        ValueError: No query is of a group.
    """
    rng = np.random.default_rng(seed)
    selected: list[Query] = []
    for group, size in sizes.items():
        order = rng.permutation(len(queries))
        shuffled = [queries[i] for i in order if queries[i].group == group]
        if not shuffled:
            groups = ", ".join(sorted({query.group for query in queries}))
            raise ValueError(f"No query is {group!r}; there are {groups}.")
        selected += _deal_cells(shuffled)[:size]
    return selected


def _deal_cells(shuffled: Sequence[Query]) -> list[Query]:
    """Order queries so that each kind and number of edits has its turn, the last drawn first."""
    cells: dict[tuple[str, int], list[Query]] = {}
    for query in shuffled:
        cells.setdefault((query.kind, query.edits), []).append(query)
    stacks = [reversed(cells[key]) for key in sorted(cells)]
    turns = chain.from_iterable(zip_longest(*stacks))
    return [query for query in turns if query]


def add_measures(query: Query, answer: Answer) -> Answer:
    """Score the answer to a name.

    The paper counts a name as corrected whether or not the knowledge has the drug.

    Returns:
        The answer with the measures ``right``, ``another`` (a wrong drug), and ``spelt`` on the
        paper's own list.
    """
    right = answer.predicted == query.drug
    another = answer.predicted not in (None, query.drug)
    measures = {"right": (float(right), 1.0), "another": (float(another), 1.0)}
    if query.meant:
        measures["spelt"] = (float(answer.answer == query.meant), 1.0)
    return replace(answer, measures={**answer.measures, **measures})


def rename_drugs(questions: Sequence[Question], names: Mapping[str, str]) -> list[Question]:
    """Ask the same questions about each drug under another name, if ``names`` has one."""
    return [
        replace(question, drug=names.get(question.drug, question.drug)) for question in questions
    ]


def entities_as_written(questions: Iterable[Question]) -> dict[Question, Entities]:
    """Return both names of each question as they are in it: recognition without a fault."""
    return {question: Entities(question.drug, question.side_effect) for question in questions}


@dataclass(frozen=True)
class UnderOtherNames:
    """An arm that is asked about each drug under another name.

    Attributes:
        names: The other name of a drug; one without keeps its own.
        arm: The arm to ask.
    """

    names: Mapping[str, str]
    arm: Arm

    def __call__(self, questions: Sequence[Question]) -> list[Answer]:
        """Answer each question."""
        return self.arm(rename_drugs(questions, self.names))


ARMS = {
    "format_b": "RAG (Format B)",
    "graphrag": "GraphRAG",
    "format_a": "RAG (Format A)",
    "pure_llm": "closed book",
}
"""The architectures of Table 5, and two that it leaves out."""
CONDITIONS = {
    "correct": "with correct names",
    "misspelt": "with misspelt names",
    "normalised": "with corrected names",
}
LABELS = {
    f"{condition}.{arm}": f"{name} {words}"
    for arm, name in ARMS.items()
    for condition, words in CONDITIONS.items()
}
NAMES = "side_effects/misspelling/names.csv"
PAIRS = {
    condition: f"side_effects/misspelling/{file}.csv"
    for condition, file in {
        "correct": "correct",
        "misspelt": "misspelled",
        "normalised": "llm_corrected",
    }.items()
}
RUNS = {
    "spelling_corrections": (
        "20251109_141744",
        "20251109_151823",
        "20251129_143712",
        "20251129_162614",
    ),
    "recovery_results": ("20251109_152804", "20251129_144011", "20251129_163320"),
    "misspelling_details": ("20251104_142351", "20251129_134526", "20251129_155639"),
}
"""The released runs, by file."""
PRINTED = (RUNS["spelling_corrections"][1], RUNS["recovery_results"][0])
"""The runs that the paper prints."""
SUFFIXES = {
    "spelling_corrections": "csv",
    "recovery_results": "json",
    "misspelling_details": "json",
}
"""The format of each released file."""
RELEASED = {
    f"side_effects/released/{file}_{run}.{SUFFIXES[file]}": run
    for file, runs in RUNS.items()
    for run in runs
}
"""The run of each released file."""


def read_corrections(path: Path, run: str, model: str) -> list[Answer]:
    """Read one released run of the correction of ten names.

    Args:
        path: CSV file with the columns misspelled_input, qwen_correction and ground_truth.
        run: Time stamp of the run.
        model: Name of the model that corrected.

    Returns:
        One row per name, with the measure ``spelt``.
    """
    table = pd.read_csv(path, keep_default_na=False)
    table = table.apply(lambda column: column.astype(str).str.strip().str.lower())
    rows = []
    for typed, written, right in zip(
        table.misspelled_input, table.qwen_correction, table.ground_truth, strict=True
    ):
        is_prompted = IS_PROMPTED[typed in PROMPTED]
        row = Answer(
            arm="llm",
            source="released",
            run=run,
            model=model,
            unit=typed,
            cluster=right,
            answer=written,
            gold=right,
            strata={"run of": _words_of_time(run), IN_AUTHORS_PROMPT: is_prompted},
            measures={"spelt": (float(written == right), 1.0)},
        )
        rows.append(row)
    return rows


def spelt_by_run(corrections: Outcomes) -> figures.Html:
    """Tabulate the share of corrected names of each released run.

    The runs are not pooled: the first received empty answers.
    """
    rows = []
    for date in corrections.strata("run of"):
        score = corrections.where(**{"run of": date}).score("spelt", "llm")
        rows.append({"run of": date, "names corrected": figures.score_text(score)})
    caption = "Corrected share of the ten misspelt names, by released run; higher is better"
    return figures.table(pd.DataFrame(rows), caption, sample=corrections.sample)


def read_pairs(
    path: Path,
    run: str,
    model: str,
    pairs: Mapping[str, pd.DataFrame],
    knowledge: Mapping[str, Sequence[str]],
) -> list[Answer]:
    """Read one released run of the 180 questions, of which confusion counts are released.

    Where as many positives were found as the knowledge holds under the names of that condition,
    these are taken for them, and a drug is a cluster; else each question is its own. Which
    negatives were called YES is not released: those of as few drugs as possible are taken, for the
    widest interval.

    Args:
        path: JSON file with the counts of each architecture.
        run: Time stamp of the run.
        model: Name of the model that answered.
        pairs: The questions of each condition (drug, side_effect, label), in one order.
        knowledge: The side effects of each drug.

    Returns:
        One row per architecture, condition and question.
    """
    rows = []
    for entry in json.loads(path.read_text(encoding="utf-8")):
        for condition, counts in _counts_by_condition(entry).items():
            arm = f"{condition}.{entry['architecture']}"
            predicted, by_drug = _predict_labels(counts, pairs, condition, knowledge)
            right_names = pairs["correct"]
            for drug, effect, label, yes in zip(
                right_names.drug,
                right_names.side_effect,
                pairs[condition].label,
                predicted,
                strict=True,
            ):
                question = Question(drug, effect, bool(label))
                row = make_row(
                    yes_no_answer(bool(yes)),
                    question,
                    source="released",
                    run=run,
                    model=model,
                    arm=arm,
                )
                cluster = row.cluster if by_drug else row.unit
                is_prompted = IS_PROMPTED[drug in PROMPTED.values()]
                strata = {"run of": _words_of_time(run), IN_AUTHORS_PROMPT: is_prompted}
                rows.append(replace(row, cluster=cluster, strata=strata))
    return rows


def _predict_labels(
    counts: Mapping[str, float],
    pairs: Mapping[str, pd.DataFrame],
    condition: str,
    knowledge: Mapping[str, Sequence[str]],
) -> tuple[NDArray[np.bool_], bool]:
    """Assign predictions to questions that have the released counts.

    Returns:
        The predicted label of each question, and whether the found positives are those that the
        knowledge holds.
    """
    asked_pairs = pairs[condition]
    label = asked_pairs.label.to_numpy(dtype=bool)
    is_known = [
        effect in knowledge.get(drug, ())
        for drug, effect in zip(asked_pairs.drug, asked_pairs.side_effect, strict=True)
    ]
    predicted = np.array(is_known) & label
    same_count = int(predicted.sum()) == counts["tp"]
    if not same_count:
        predicted = label & (label.cumsum() <= counts["tp"])
    order = np.argsort(pairs["correct"].drug.to_numpy(), kind="stable")
    negatives = order[~label[order]]
    predicted[negatives[: int(counts["fp"])]] = True
    return predicted, same_count


def _counts_by_condition(entry: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    if "results" not in entry:
        return {"correct": entry["correct_metrics"], "misspelt": entry["misspelled_metrics"]}
    names = {"correct": "perfect", "misspelt": "raw_misspelled", "normalised": "llm_corrected"}
    return {condition: entry["results"][name]["metrics"] for condition, name in names.items()}


def _words_of_time(run: str) -> str:
    """Date and time of a time stamp in words; the files state no time zone."""
    time = datetime.strptime(run, "%Y%m%d_%H%M%S")
    return f"{time.day} {time:%B %Y, %H:%M}"
