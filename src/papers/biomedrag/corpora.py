"""The eight data sets of biomedrag.md (section 4.1, Tables 5 and 6), as the authors release them.

What is odd about the files is kept, because the paper's numbers were measured on them, unless said otherwise here; what
it does to a score is told by `papers.biomedrag.balance`.
"""

from __future__ import annotations

import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal

import yaml

from helpers.datasets import Located, locate_all
from helpers.settings import DATA, PublicError

Task = Literal["triples", "relations", "classification", "links"]
Split = Literal["train", "validation", "test"]

NAMES: Final = ("GIT", "DDI", "ChemProt", "GIT-RE", "ADE-corpus-v2", "MTSamples", "UMLS", "ADInt")
"""The data sets, in the order of the paper's tables."""
ADE_VALIDATION: Final = 500
"""Validation sentences of ADE-corpus-v2 (Table 6); the authors' own are not released."""

_ADE_LABELS: Final = {0: "not related", 1: "related"}
_QUESTION: Final = re.compile(r"what is the relationship between (.+) \?")


class CorpusError(PublicError, ValueError):
    """A corpus file is not in its format, or there is no such corpus; the message says where and what was needed."""


@dataclass(frozen=True, slots=True)
class Triple:
    """A relation of two entities."""

    head: str
    relation: str
    tail: str


@dataclass(frozen=True, slots=True)
class Example:
    """One row of a data set.

    Attributes:
        id: corpus, split and row, joined by full stops.
        text: what a model reads: a sentence, a report, or a question about two entities.
        label: what is to be told: a relation or a class.
        triples: what the row states; empty in classification, and in links where the text does not tell its two names
            apart (a name holds the word "and").
    """

    id: str
    text: str
    label: str
    triples: tuple[Triple, ...]


@dataclass(frozen=True, slots=True)
class Corpus:
    """A data set in its splits; a split that is not released is empty.

    Attributes:
        name: one of `NAMES`.
        task: what is asked.
        train, validation, test: the rows, in the order of the files.
        labels: each label with its description, the paper's T(l) (section 4.2.1).
        files: what was read, for the record of a run.
    """

    name: str
    task: Task
    train: tuple[Example, ...]
    validation: tuple[Example, ...]
    test: tuple[Example, ...]
    labels: dict[str, str]
    files: tuple[Located, ...] = ()

    @property
    def sample(self) -> bool:
        """Whether these are the bundled samples."""
        return any(file.sample for file in self.files)

    @property
    def splits(self) -> dict[Split, tuple[Example, ...]]:
        """The three splits by name."""
        return {"train": self.train, "validation": self.validation, "test": self.test}


def load(name: str, data: str = "auto", *, repeats: bool = False) -> Corpus:
    """A data set of the paper.

    GIT-RE is GIT with head and tail given (section 4.1.2). The test file of GIT holds every line twice; it is read once
    unless `repeats`. Of ADE-corpus-v2 no validation split is released: here it is the first 500 rows, of the file whose
    beginning the training rows are, with a text that is in neither training nor test. Of MTSamples only the test is at
    hand (`absent` in data/registry.yml names the rest), in which a few texts are empty; `divided` makes splits of it.

    Args:
        name: one of `NAMES`.
        data: real, sample or auto, as in `helpers.datasets.locate_all`.
        repeats: keep the second copy of GIT's test lines.

    Raises:
        CorpusError: there is no such data set, or a row is not in its format.
        DataUnavailable: a file is not to be had.
    """
    if name not in NAMES:
        raise CorpusError(f"There is no data set {name!r}. There are: {', '.join(NAMES)}.")
    task, files, read = _SETS[name]
    located = locate_all([f"biomedrag/{file}" for file in files], data)
    paths = {file: located[f"biomedrag/{file}"].path for file in files}
    splits = read(name, paths)
    if name in ("GIT", "GIT-RE") and not repeats:
        splits["test"] = _once(splits["test"])
    labels = _labels(name)
    for examples in splits.values():
        for example in examples:
            if example.label not in labels:
                raise CorpusError(
                    f"{example.id}: the label {example.label!r} has no description. Correct the file, or describe the "
                    f"label under {name} in data/biomedrag_labels.yml."
                )
    used = {example.label for examples in splits.values() for example in examples}
    return Corpus(
        name=name,
        task=task,
        train=splits.get("train", ()),
        validation=splits.get("validation", ()),
        test=splits["test"],
        labels={label: words for label, words in labels.items() if label in used},
        files=tuple(located.values()),
    )


def divided(corpus: Corpus, *, seed: int, train: float = 0.4, validation: float = 0.2) -> Corpus:
    """A corpus of which only the test is at hand, in splits of its own: of each label the same shares.

    Rows of the same text stay together, so that no text is in two splits. This is not the paper's split, and its scores
    are no rerun of the paper's in the strict sense: there is far less to learn from.

    Args:
        corpus: with empty `train` and `validation`.
        seed: of the draw.
        train: share of the rows for training.
        validation: share of the rows for validation.

    Raises:
        CorpusError: the corpus has splits already, or the shares leave nothing to test.
    """
    if corpus.train or corpus.validation:
        raise CorpusError(f"{corpus.name} has splits of its own; divide a corpus that has a test alone.")
    if not (0 < train < 1 and 0 < validation < 1 and train + validation < 1):
        raise CorpusError(f"Shares above 0 that sum to less than 1 are needed; found {train} and {validation}.")
    by_text: dict[str, list[Example]] = defaultdict(list)
    for example in corpus.test:
        by_text[example.text].append(example)
    by_label: dict[str, list[str]] = defaultdict(list)
    for text, examples in by_text.items():
        by_label[examples[0].label].append(text)
    where: dict[str, Split] = {}
    draw = random.Random(seed)  # noqa: S311  # no secret is drawn
    for label in sorted(by_label):
        texts = by_label[label]
        draw.shuffle(texts)
        offset = draw.random()  # so that labels with few rows are not all rounded the same way
        for i, text in enumerate(texts):
            place = (i + offset) / len(texts) % 1
            where[text] = "train" if place < train else "validation" if place < train + validation else "test"
    parts: dict[Split, tuple[Example, ...]] = {
        split: tuple(example for example in corpus.test if where[example.text] == split)
        for split in ("train", "validation", "test")
    }
    return replace(corpus, train=parts["train"], validation=parts["validation"], test=parts["test"])


def stratified(examples: Sequence[Example], n: int, seed: int) -> list[Example]:
    """At most n rows, of each label its share, in the order of the rows.

    Args:
        examples: to draw from.
        n: how many.
        seed: of the draw.
    """
    draw = random.Random(seed)  # noqa: S311  # no secret is drawn
    mixed = sorted(range(len(examples)), key=lambda _: draw.random())
    by_label = sorted(mixed, key=lambda i: examples[i].label)
    n = min(n, len(examples))
    # evenly spaced places in the rows by label give each label its share
    offset = draw.random()
    chosen = {by_label[int((i + offset) * len(examples) / n)] for i in range(n)}
    return [examples[i] for i in sorted(chosen)]


def shortened(corpus: Corpus, words: int) -> Corpus:
    """A corpus whose texts end after so many words, for a model that reads slowly; 0 leaves them whole."""
    if not words:
        return corpus

    def cut(examples: Sequence[Example]) -> tuple[Example, ...]:
        return tuple(replace(e, text=" ".join(e.text.split()[:words])) for e in examples)

    return replace(corpus, train=cut(corpus.train), validation=cut(corpus.validation), test=cut(corpus.test))


# ---------------------------------------------------------------------------------------------------------- readers


Splits = dict[Split, tuple[Example, ...]]
_OF_FILE: Final[dict[str, Split]] = {"train": "train", "dev": "validation", "test": "test"}


def _git(name: str, paths: Mapping[str, Path]) -> Splits:
    """JSON lines with PREDICATE, SUBJECT_TEXT, OBJECT_TEXT and SENTENCE."""

    def example(row: Mapping[str, Any]) -> tuple[str, str, tuple[Triple, ...]]:
        triple = Triple(_text(row, "SUBJECT_TEXT"), _text(row, "PREDICATE"), _text(row, "OBJECT_TEXT"))
        return _text(row, "SENTENCE"), triple.relation, (triple,)

    return {split: _examples(name, split, path, _lines(path), example) for split, path in _by_split(paths)}


def _listed(name: str, paths: Mapping[str, Path]) -> Splits:
    """One JSON list of rows with `text` and `triple_list`, of one triple each."""

    def example(row: Mapping[str, Any]) -> tuple[str, str, tuple[Triple, ...]]:
        triples = row.get("triple_list")
        if not (isinstance(triples, list) and len(triples) == 1 and _three(triples[0])):
            raise CorpusError(f"needed a triple_list of one [head, relation, tail], found {triples!r}")
        triple = Triple(*triples[0])
        return _text(row, "text"), triple.relation, (triple,)

    return {split: _examples(name, split, path, _array(path), example) for split, path in _by_split(paths)}


def _ade(name: str, paths: Mapping[str, Path]) -> Splits:
    """JSON lines with `text` and `label` 0 or 1."""

    def example(row: Mapping[str, Any]) -> tuple[str, str, tuple[Triple, ...]]:
        label = row.get("label")
        if label not in _ADE_LABELS:
            raise CorpusError(f"needed the label 0 or 1, found {label!r}")
        return _text(row, "text"), _ADE_LABELS[label], ()

    train, test, pool = (paths[f"ADE/{part}.json"] for part in ("train", "test", "pool"))
    splits: Splits = {
        "train": _examples(name, "train", train, _lines(train), example),
        "test": _examples(name, "test", test, _lines(test), example),
    }
    taken = {row.text for rows in splits.values() for row in rows}
    rest = [row for row in _examples(name, "validation", pool, _lines(pool), example) if row.text not in taken]
    splits["validation"] = tuple(rest[:ADE_VALIDATION])
    return splits


def _mtsamples(name: str, paths: Mapping[str, Path]) -> Splits:
    """JSON lines with `medical_specialty` and `transcription`, which is empty in a few; the test alone."""

    def example(row: Mapping[str, Any]) -> tuple[str, str, tuple[Triple, ...]]:
        return _text(row, "transcription", empty=True), _text(row, "medical_specialty").strip(), ()

    return {split: _examples(name, split, path, _lines(path), example) for split, path in _by_split(paths)}


def _umls(name: str, paths: Mapping[str, Path]) -> Splits:
    """Lines of head, relation and tail, divided by tabs; asked as the authors' question files ask."""

    def example(row: Sequence[str]) -> tuple[str, str, tuple[Triple, ...]]:
        if len(row) != 3 or not all(row):
            raise CorpusError(f"needed head, relation and tail divided by tabs, found {row!r}")
        triple = Triple(*row)
        return question(triple.head, triple.tail), triple.relation, (triple,)

    return {
        split: _examples(name, split, path, (line.split("\t") for line in _rows(path)), example)
        for split, path in _by_split(paths)
    }


def _adint(name: str, paths: Mapping[str, Path]) -> Splits:
    """JSON lines with `text`, a question about two names, and `label`."""

    def example(row: Mapping[str, Any]) -> tuple[str, str, tuple[Triple, ...]]:
        text, label = _text(row, "text"), _text(row, "label")
        asked = _QUESTION.fullmatch(text)
        names = asked[1].split(" and ") if asked else []
        if len(names) < 2:
            raise CorpusError(f"needed 'what is the relationship between A and B ?', found {text!r}")
        return text, label, (Triple(names[0], label, names[1]),) if len(names) == 2 else ()

    return {split: _examples(name, split, path, _lines(path), example) for split, path in _by_split(paths)}


def question(head: str, tail: str) -> str:
    """How the link-prediction files ask about two names."""
    return f"what is the relationship between {head} and {tail} ?"


_THREE: Final = ("train", "dev", "test")
_SETS: Final[dict[str, tuple[Task, tuple[str, ...], Callable[[str, Mapping[str, Path]], Splits]]]] = {
    "GIT": ("triples", tuple(f"GIT/{split}.jsonl" for split in _THREE), _git),
    "DDI": ("triples", tuple(f"DDI/{split}.json" for split in _THREE), _listed),
    "ChemProt": ("triples", tuple(f"ChemProt/{split}.json" for split in _THREE), _listed),
    "GIT-RE": ("relations", tuple(f"GIT/{split}.jsonl" for split in _THREE), _git),
    "ADE-corpus-v2": ("classification", ("ADE/train.json", "ADE/pool.json", "ADE/test.json"), _ade),
    "MTSamples": ("classification", ("MTSamples/test.json",), _mtsamples),
    "UMLS": ("links", tuple(f"UMLS/{split}.txt" for split in _THREE), _umls),
    "ADInt": ("links", tuple(f"ADInt/{split}.jsonl" for split in _THREE), _adint),
}


@lru_cache
def _labels(name: str) -> dict[str, str]:
    descriptions = yaml.safe_load((DATA / "biomedrag_labels.yml").read_text(encoding="utf-8"))
    return {str(label): words for label, words in descriptions[name].items()}


def _by_split(paths: Mapping[str, Path]) -> list[tuple[Split, Path]]:
    return [(_OF_FILE[path.stem], path) for path in paths.values()]


def _once(examples: Sequence[Example]) -> tuple[Example, ...]:
    """The first of each set of equal rows."""
    first: dict[tuple[str, str, tuple[Triple, ...]], Example] = {}
    for example in examples:
        first.setdefault((example.text, example.label, example.triples), example)
    return tuple(first.values())


def _examples(
    name: str, split: Split, path: Path, rows: Iterator[Any], read: Callable[[Any], tuple[str, str, tuple[Triple, ...]]]
) -> tuple[Example, ...]:
    examples = []
    for number, row in enumerate(rows, start=1):
        try:
            text, label, triples = read(row)
        except CorpusError as error:
            raise CorpusError(f"{path.name} of {name}, row {number}: {error}.") from None
        examples.append(Example(f"{name}.{split}.{number}", text, label, triples))
    if not examples:
        raise CorpusError(f"{path.name} of {name} holds no row.")
    return tuple(examples)


def _rows(path: Path) -> Iterator[str]:
    with path.open(encoding="utf-8", newline="\n") as file:
        yield from (line.rstrip("\r\n") for line in file if line.strip())


def _lines(path: Path) -> Iterator[Any]:
    for number, line in enumerate(_rows(path), start=1):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise CorpusError(f"{path.name}, line {number}: needed JSON, found {line[:60]!r} ({error}).") from None
        if not isinstance(row, dict):
            raise CorpusError(f"{path.name}, line {number}: needed a JSON object, found {line[:60]!r}.")
        yield row


def _array(path: Path) -> Iterator[Any]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CorpusError(f"{path.name}: needed one JSON list ({error}).") from None
    if not (isinstance(rows, list) and all(isinstance(row, dict) for row in rows)):
        raise CorpusError(f"{path.name}: needed one JSON list of objects, found {type(rows).__name__}.")
    yield from rows


def _text(row: Mapping[str, Any], field: str, *, empty: bool = False) -> str:
    value = row.get(field)
    if not (isinstance(value, str) and (empty or value.strip())):
        raise CorpusError(f"needed text in the field {field!r}, found {value!r}")
    return value


def _three(row: object) -> bool:
    return isinstance(row, list) and len(row) == 3 and all(isinstance(part, str) and part for part in row)
