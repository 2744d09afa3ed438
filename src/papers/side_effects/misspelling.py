"""Misspelt drug names (side_effects.md, "Misspelling robustness"): the names, and the authors' released answers."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import zip_longest
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
import pandas as pd
import yaml
from rapidfuzz.distance import DamerauLevenshtein

from evaluation.answers import Answer, make_row
from papers.side_effects.corpus import Arm, Entities, Question, yes_no_answer
from resources.settings import DATA

EDITS = ("insert", "delete", "substitute", "transpose")
OTHER_KINDS = ("brand", "spelling", "synonym")
"""Other names of a drug, in data/other_names.yml."""
LETTERS_PER_EDIT = 3
"""A name gets an edit for every three of its letters at most: of a shorter remainder nobody could tell the drug."""
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
    """A drug's name as somebody typed it, in lower case, and the drug of the knowledge that is meant, if there is one.

    `kind` is one of `GROUPS` or `EDITS`, `edits` the distance from the right name. `meant` is the right name of the
    paper's own list, whose drug may not be in the knowledge.
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
        edits = (
            "right name" if self.kind == "correct" else f"{self.edits} edit{'s' * (self.edits > 1)}"
        )
        return {"names": GROUPS[self.group]} | (
            {"edits": edits} if self.kind in (*EDITS, "correct") else {}
        )

    @property
    def group(self) -> str:
        """`misspelt` for a perturbed name, else its kind."""
        return "misspelt" if self.kind in EDITS else self.kind


def read_misspellings(path: Path) -> dict[str, str]:
    """The paper's list: right name by misspelt name, from a CSV with columns Original and Spelling error."""
    table = pd.read_csv(path, encoding="utf-8-sig")
    clean = {
        column: table[column].str.strip().str.lower() for column in ("Original", "Spelling error")
    }
    return dict(zip(clean["Spelling error"], clean["Original"], strict=True))


def paper_queries(misspellings: Mapping[str, str], vocabulary: Iterable[str]) -> list[Query]:
    """The paper's names; one whose drug is not in the knowledge has no right answer there."""
    known = set(vocabulary)
    return [
        Query(
            typed,
            right if right in known else None,
            "paper",
            DamerauLevenshtein.distance(typed, right),
            right,
        )
        for typed, right in misspellings.items()
    ]


def invented_misspellings(vocabulary: Iterable[str], n: int, seed: int) -> dict[str, str]:
    """A stand-in for the paper's list where its file is not at hand: `n` drugs of the knowledge, each misspelt once."""
    queries = [q for q in perturbed(vocabulary, seed, most=1) if q.drug]
    chosen = np.random.default_rng(seed).choice(
        len(queries), size=min(n, len(queries)), replace=False
    )
    return {queries[i].typed: str(queries[i].drug) for i in sorted(chosen)}


def perturb(name: str, kind: str, edits: int, rng: np.random.Generator) -> str | None:
    """`name` after so many edits (one or more) of its letters, all of one of `EDITS`, at exactly that distance from it.

    Edits can undo one another, so it is tried again; None if there are too few letters, or all are alike.
    """
    if kind not in EDITS or edits < 1:
        raise ValueError(
            f"An edit is one of {', '.join(EDITS)}, and there is at least one; got {edits} x {kind!r}."
        )
    if sum(c.isalpha() for c in name) < LETTERS_PER_EDIT * edits:
        return None
    for _ in range(200):
        typed = name
        for _ in range(edits):
            typed = _edited(typed, kind, rng)
        if DamerauLevenshtein.distance(typed, name) == edits:
            return typed
    return None


def _edited(name: str, kind: str, rng: np.random.Generator) -> str:
    letters = [i for i, c in enumerate(name) if c.isalpha()]
    if kind == "transpose":
        letters = [i for i in letters if name[i + 1 : i + 2].isalpha()]
    if not letters:
        return name
    i = int(rng.choice(letters))
    other = ascii_lowercase[int(rng.integers(26))]
    if kind == "insert":
        i += int(rng.integers(2))  # before the letter or after it, so that an end can grow too
        return name[:i] + other + name[i:]
    if kind == "transpose":
        return name[:i] + name[i + 1] + name[i] + name[i + 2 :]
    return name[:i] + (other if kind == "substitute" else "") + name[i + 1 :]


def perturbed(vocabulary: Iterable[str], seed: int, most: int = 3) -> list[Query]:
    """Each drug's name misspelt by one edit and by up to `most`, as far as it has the letters for it.

    The kinds are dealt out evenly over the shuffled drugs. A name that is another drug's is left out.
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
    return queries + [
        Query(typed, None, "absent") for typed in lists["absent"] if typed not in known
    ]


def benchmark(vocabulary: Iterable[str], seed: int) -> list[Query]:
    """The project's own benchmark: perturbed names, other names, the right names themselves, and names of no drug."""
    drugs = sorted(set(vocabulary))
    return [*perturbed(drugs, seed), *other_names(drugs), *(Query(d, d, "correct") for d in drugs)]


def subset(queries: Sequence[Query], sizes: Mapping[str, int], seed: int) -> list[Query]:
    """So many queries of each group, drawn evenly over its kinds and numbers of edits; an unknown group is an error."""
    rng = np.random.default_rng(seed)
    taken = []
    for name, size in sizes.items():
        cells: dict[tuple[str, int], list[Query]] = {}
        for i in rng.permutation(len(queries)):
            if queries[i].group == name:
                cells.setdefault((queries[i].kind, queries[i].edits), []).append(queries[i])
        if not cells:
            raise ValueError(
                f"No query is {name!r}; there are {', '.join(sorted({q.group for q in queries}))}."
            )
        dealt = zip_longest(*(reversed(cells[key]) for key in sorted(cells)))
        taken += [query for turn in dealt for query in turn if query][:size]
    return taken


def judged(query: Query, answer: Answer) -> Answer:
    """The answer with its measures: `right`, `another` (a wrong drug), and `spelt` on the paper's own list.

    The paper counts a name as corrected whether or not the knowledge has the drug.
    """
    right, another = answer.predicted == query.drug, answer.predicted not in (None, query.drug)
    measures = {"right": (float(right), 1.0), "another": (float(another), 1.0)}
    if query.meant:
        measures["spelt"] = (float(answer.answer == query.meant), 1.0)
    return replace(answer, measures={**answer.measures, **measures})


def renamed(questions: Sequence[Question], names: Mapping[str, str]) -> list[Question]:
    """The same questions about the drug under another name; a drug without one keeps its own."""
    return [Question(names.get(q.drug, q.drug), q.side_effect, q.label) for q in questions]


def as_asked(questions: Iterable[Question]) -> dict[Question, Entities]:
    """Both names of each question as they stand in it: entity recognition without a fault."""
    return {q: Entities(q.drug, q.side_effect) for q in questions}


def under(names: Mapping[str, str], arm: Arm) -> Arm:
    """The arm, asked about each drug under the name that it has in `names`."""
    return lambda questions: arm(renamed(questions, names))


ARMS = {
    "format_b": "RAG, Format B",
    "graphrag": "GraphRAG",
    "format_a": "RAG, Format A",
    "pure_llm": "closed book",
}
"""The architectures of Table 5, and two that it leaves out."""
CONDITIONS = {
    "correct": "names spelt right",
    "misspelt": "names misspelt",
    "normalised": "names corrected",
}
LABELS = {
    f"{condition}.{arm}": f"{name}, {words}"
    for arm, name in ARMS.items()
    for condition, words in CONDITIONS.items()
}
PROMPTED = ("floxetine", "ropirinole", "grisefulvin")
"""Names of the paper's list that stand with their answers in the authors' prompt: FEWSHOT_PROMPT_TEMPLATE in their
src/utils/spell_corrector.py, the same at commits dff2716 and 10e9091 of the repository of the released files. The
released reports say that this prompt was used (`use_fewshot`)."""
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
RELEASED = {
    f"side_effects/released/{file}_{run}.{'csv' if file == 'spelling_corrections' else 'json'}": run
    for file, runs in RUNS.items()
    for run in runs
}
"""The run of each released file."""


def read_corrections(path: Path, run: str, model: str) -> list[Answer]:
    """One released run of the correction of ten names, with the measure `spelt`.

    Columns of the CSV: misspelled_input, qwen_correction, ground_truth.
    """
    table = pd.read_csv(path, keep_default_na=False).apply(
        lambda column: column.astype(str).str.strip().str.lower()
    )
    of: dict[str, Any] = {"arm": "llm", "source": "released", "run": run, "model": model}
    rows = []
    for typed, written, right in zip(
        table.misspelled_input, table.qwen_correction, table.ground_truth, strict=True
    ):
        strata = {
            "run of": _when(run),
            "in the authors' prompt": "yes" if typed in PROMPTED else "no",
        }
        spelt = {"spelt": (float(written == right), 1.0)}
        rows.append(
            Answer(
                **of,
                unit=typed,
                cluster=right,
                answer=written,
                gold=right,
                strata=strata,
                measures=spelt,
            )
        )
    return rows


def read_pairs(
    path: Path,
    run: str,
    model: str,
    asked: Mapping[str, pd.DataFrame],
    knowledge: Mapping[str, Sequence[str]],
) -> list[Answer]:
    """One released run of the 180 questions, of which confusion counts are released, as rows.

    Where as many positives were found as the knowledge holds under the names of that condition, these are taken for
    them, and a drug is a cluster; else each question is its own. Which negatives were called YES is not released: those
    of as few drugs as possible are taken, for the widest interval. `asked` has the questions of each condition (drug,
    side_effect, label), in one order.
    """
    rows = []
    for entry in json.loads(path.read_text(encoding="utf-8")):
        for condition, counts in _counts(entry).items():
            pairs, right = asked[condition], asked["correct"]
            label = pairs.label.to_numpy(dtype=bool)
            known = [
                e in knowledge.get(d, ())
                for d, e in zip(pairs.drug, pairs.side_effect, strict=True)
            ]
            yes = np.array(known) & label
            same = int(yes.sum()) == counts["tp"]
            if not same:
                yes = label & (label.cumsum() <= counts["tp"])
            by_drug = np.argsort(right.drug.to_numpy(), kind="stable")
            yes[by_drug[~label[by_drug]][: int(counts["fp"])]] = True
            of = {
                "source": "released",
                "run": run,
                "model": model,
                "arm": f"{condition}.{entry['architecture']}",
            }
            for drug, effect, true, told in zip(
                right.drug, right.side_effect, label, yes, strict=True
            ):
                row = make_row(yes_no_answer(bool(told)), Question(drug, effect, bool(true)), **of)
                rows.append(
                    replace(
                        row,
                        cluster=row.cluster if same else row.unit,
                        strata={"run of": _when(run)},
                    )
                )
    return rows


def _counts(entry: Mapping[str, Any]) -> dict[str, dict[str, float]]:
    if "results" in entry:
        names = {"correct": "perfect", "misspelt": "raw_misspelled", "normalised": "llm_corrected"}
        return {condition: entry["results"][name]["metrics"] for condition, name in names.items()}
    return {"correct": entry["correct_metrics"], "misspelt": entry["misspelled_metrics"]}


def _when(run: str) -> str:
    at = datetime.strptime(run, "%Y%m%d_%H%M%S")  # the files tell no time zone
    return f"{at.day} {at:%B %Y, %H:%M}"
