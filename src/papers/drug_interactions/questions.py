"""Questions about drugs with known answers: written from the gold graph, and MedQuAD's with their reference answers.

The paper's 100 expert questions are not released, and its Table II is headed MedQuAD. So there are two sets here: one
whose right answers are sets that plain Python reads off the gold graph, and MedQuAD's questions about drugs.
"""

from __future__ import annotations

import csv
import io
import re
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path

import numpy as np

from papers.drug_interactions.corpora import CorpusError
from papers.drug_interactions.forms import FORMS, KINDS, Form, Parameters, Source
from papers.drug_interactions.graph import KnowledgeGraph

Answer = frozenset[str]

MEDQUAD = "drug_interactions/medquad_answers.zip"

YES: Answer = frozenset({"yes"})
NO: Answer = frozenset({"no"})
NOT_KNOWN: Answer = frozenset({"not known"})
LARGEST = 10
"""Names that a right answer may have: as many facts as are retrieved (Methods, C)."""


@dataclass(frozen=True)
class Asked:
    """One question with the names in it and its right answer.

    Attributes:
        parameters: the names, as the question writes them.
        meant: the names as the graph has them; they differ for a brand.
        answer: names, or one of `YES`, `NO`, `NOT_KNOWN`.
    """

    form: Form
    text: str
    paraphrased: bool
    parameters: Mapping[str, str]
    answer: Answer
    meant: Mapping[str, str]

    @property
    def cluster(self) -> str:
        """The first name that is asked about, a drug mostly: questions about the same one belong together."""
        return next(iter(self.meant.values()))

    @property
    def unit(self) -> str:
        """Its form and its words."""
        return f"{self.form.name}: {self.text}"

    @property
    def gold(self) -> str:
        """The right answer in words, for a judge and a reader."""
        if self.answer == NOT_KNOWN:
            return "Not known; there is no such drug."
        words = ", ".join(sorted(self.answer))
        return f"{words[0].upper()}{words[1:]}."

    @property
    def strata(self) -> Mapping[str, str]:
        """The kind of question, and its form."""
        return {"kind": KINDS[self.form.kind], "form": self.form.name}


@dataclass(frozen=True)
class FollowUp(Asked):
    """A question that only its history makes whole ("And with warfarin?"); `text` has `first` and `then`."""

    first: Asked
    then: str


@dataclass(frozen=True)
class Reference:
    """A question of MedQuAD with its answer; the cluster is the address of its page, one for each drug."""

    text: str
    gold: str
    sort: str
    cluster: str

    @property
    def unit(self) -> str:
        """Its words."""
        return self.text

    @property
    def strata(self) -> Mapping[str, str]:
        """What it asks for."""
        return {"sort": self.sort}


# ---------------------------------------------------------------------------------------------------------- questions


def answer_of(form: Form, parameters: Parameters, names: frozenset[str]) -> Answer:
    """An answer from the names that a query or a reading of facts gave: a yes or no, the names, or not known.

    It is a yes if a name that the question holds is among them: a list of other side effects is none.
    """
    if form.role == "yes or no":
        return YES if names.intersection(parameters.values()) else NO
    return names or NOT_KNOWN


def make_questions(graph: KnowledgeGraph, brands: Mapping[str, str], per_form: int, seed: int) -> list[Asked]:
    """A seeded benchmark: of each form so many questions, its wordings in turn, each with its right answer.

    No right answer holds more than `LARGEST` names. A small graph may give fewer questions of a form. `brands` are
    names that the graph lacks, with the drug of the graph that each stands for.
    """
    asked: list[Asked] = []
    for number, form in enumerate(FORMS):
        source = Source(graph, brands, np.random.default_rng([seed, number]))
        seen: set[tuple[str, ...]] = set()
        for question in _drawn(form, source):
            if (key := tuple(question.parameters.values())) in seen:
                continue
            if (
                form.role == "yes or no"
                and sum(a.form is form and a.answer == question.answer for a in asked) >= (per_form + 1) // 2
            ):
                continue  # as many that are right with yes as with no
            seen.add(key)
            asked.append(_worded(question, form.wordings, (number + len(seen) - 1) % len(form.wordings)))
            if len(seen) == per_form:
                break
    return asked


def _drawn(form: Form, source: Source) -> Iterator[Asked]:
    for _ in range(400):
        names = form.draw(source)
        if names:
            meant = {
                key: source.brands.get(name, name) if form.kind == "brand" else name for key, name in names.items()
            }
            truth = form.truth(source.graph, meant)
            known = truth or form.kind == "unknown" or form.role == "yes or no"
            if known and len(truth) <= LARGEST:
                yield Asked(form, "", False, names, answer_of(form, meant, truth), meant)


def _worded(question: Asked, wordings: Sequence[str], number: int) -> Asked:
    return replace(question, text=wordings[number].format(**question.parameters), paraphrased=number > 0)


def make_follow_ups(graph: KnowledgeGraph, n: int, seed: int) -> list[FollowUp]:
    """So many pairs of a question and one that follows it up with another name ("What about Drug X with Drug Z?")."""
    forms = [form for form in FORMS if form.follow_ups]
    pairs: list[FollowUp] = []
    for number, form in enumerate(forms):
        source = Source(graph, {}, np.random.default_rng([seed, 100 + number]))
        drawn = _drawn(form, source)
        for i in range(n // len(forms) + (number < n % len(forms))):
            first = next(drawn, None)
            then = next((q for q in drawn if first and q.parameters != first.parameters), None)
            if first and then:
                follow_up = _worded(then, form.follow_ups, i % len(form.follow_ups))
                before = _worded(first, form.wordings, 0)
                whole = replace(follow_up, text=f"{before.text} {follow_up.text}")
                pairs.append(FollowUp(**vars(whole), first=before, then=follow_up.text))
    return pairs


def spread(questions: Sequence[Asked], n: int) -> list[Asked]:
    """So many of the questions, each form in turn, in the order in which they were made."""
    of_form: dict[str, list[int]] = {}
    for i, question in enumerate(questions):
        of_form.setdefault(question.form.name, []).append(i)
    turns = [i for turn in zip_longest(*of_form.values()) for i in turn if i is not None]
    return [questions[i] for i in sorted(turns[:n])]


# ------------------------------------------------------------------------------------------------------------ MedQuAD

_ROW = re.compile(r"Question: (?P<question>.*?)\s*\nURL: (?P<url>\S+)\s*\nAnswer: (?P<answer>.*?)\)?\s*", re.DOTALL)
_SORTS = {
    "side effects": r"side effects",
    "precautions, interactions": r"precautions|interactions|important warning|dietary",
    "brand names": r"brand names",
    "use and dose": r"prescribed|be used|dosage|forget a dose|storage|overdose",
}


def read_medquad(path: Path) -> list[Reference]:
    """MedQuAD's questions about drugs that have an answer, each once, in the order of the file.

    The drug part of the collection itself is released without its answers, for copyright. Of its questions those have
    one that were among the judged answers for TREC LiveQA 2017; they are told by the address of their page.

    Raises:
        CorpusError: the archive is not as released.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            (name,) = (n for n in archive.namelist() if n.endswith(".csv") and not n.startswith("__MACOSX"))
            text = archive.read(name).decode("utf-8", errors="replace")
        rows = [row["Answer"] for row in csv.DictReader(io.StringIO(text, newline=""))]
    except (zipfile.BadZipFile, ValueError, KeyError) as error:
        raise CorpusError(f"{path.name} is not MedQuAD's archive of judged answers: {error}") from error
    found: dict[str, Reference] = {}
    for number, row in enumerate(rows, start=1):
        match = _ROW.fullmatch(row.strip())
        if match is None:
            raise CorpusError(f"{path.name}, row {number}: needed question, URL and answer, found {row[:60]!r}.")
        if "/druginfo/" in match["url"] and match["answer"]:
            question = " ".join(match["question"].split()).replace(" ?", "?")
            sort = next((sort for sort, words in _SORTS.items() if re.search(words, question)), "other")
            found.setdefault(question, Reference(question, " ".join(match["answer"].split()), sort, match["url"]))
    return list(found.values())


def sample_references(references: Sequence[Reference], n: int, seed: int) -> list[Reference]:
    """So many of them by chance, each sort in turn."""
    order = np.random.default_rng(seed).permutation(len(references))
    of_sort: dict[str, list[Reference]] = {sort: [] for sort in (*_SORTS, "other")}
    for i in order:
        of_sort[references[i].sort].append(references[i])
    return [r for turn in zip_longest(*of_sort.values()) for r in turn if r is not None][:n]
