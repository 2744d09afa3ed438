"""The eight data sets of biomedrag.md (section 4.1, Tables 5 and 6), as the authors release them.

What is odd about the files is kept, because the paper's numbers were measured on them, unless said otherwise here; what
it does to a score is told by `papers.biomedrag.balance`.
"""

import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal

import numpy as np
import yaml

from helpers.texts import lines
from resources.datasets import Located, locate_all, locate_available
from resources.settings import DATA, PublicError

Task = Literal["triples", "relations", "classification", "links"]
Split = Literal["train", "validation", "test"]

KEYS: Final = {
    "GIT": "git",
    "DDI": "ddi",
    "ChemProt": "chemprot",
    "GIT-RE": "git_re",
    "ADE-corpus-v2": "ade",
    "MTSamples": "mtsamples",
    "UMLS": "umls",
    "ADInt": "adint",
}
"""The data sets, in the order of the paper's tables, and how the ids of printed numbers name each."""
VALIDATION: Final = 500
"""Validation rows of ADE-corpus-v2 and MTSamples (Table 6); the authors' own are not released."""
TRAINING: Final = "biomedrag/MTSamples/train.json"

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

    Classification has no triples, nor has a link whose text does not tell its two names apart (one holds an "and").
    """

    id: str  # corpus, split and row, joined by full stops
    text: str  # what a model reads: a sentence, a report, or a question about two entities
    label: str  # a relation or a class
    triples: tuple[Triple, ...]


@dataclass(frozen=True, slots=True)
class Corpus:
    """A data set in its splits, in the order of the files; a split that is not released is empty."""

    name: str  # a key of `KEYS`
    task: Task
    train: tuple[Example, ...]
    validation: tuple[Example, ...]
    test: tuple[Example, ...]
    labels: dict[str, str]  # each with its description, the paper's T(l) (section 4.2.1)
    files: tuple[Located, ...] = ()

    @property
    def sample(self) -> bool:
        """Whether these are the bundled samples."""
        return any(file.sample for file in self.files)

    @property
    def splits(self) -> dict[Split, tuple[Example, ...]]:
        """The three splits by name."""
        return {"train": self.train, "validation": self.validation, "test": self.test}


def load(name: str, data: str = "auto", *, training: bool = False) -> Corpus:
    """A data set of the paper; `data` is real, sample or auto, as in `resources.datasets.locate_all`.

    GIT-RE is GIT with head and tail given (section 4.1.2). The test file of GIT holds every line twice; it is read
    once. Of ADE-corpus-v2 no validation split is released: here it is the first 500 rows, of the file whose beginning
    the training rows are, with a text that is in neither training nor test. Of MTSamples the test is read, in which a
    few texts are empty, and with `training` what a source gives of `TRAINING`; `divided` makes splits of it.

    Raises CorpusError: no such data set, or a row is not in its format; DataUnavailable: a file is not to be had.
    """
    if name not in _SETS:
        raise CorpusError(f"There is no data set {name!r}. There are: {', '.join(KEYS)}.")
    task, files, rows, read = _SETS[name]
    located = locate_all([f"biomedrag/{file}" for file in files], data)
    if training and name == "MTSamples" and data != "sample":
        located |= locate_available([TRAINING])
    splits: dict[Split, tuple[Example, ...]] = {}
    for file, there in located.items():
        split = _OF_FILE[Path(file).stem]
        splits[split] = _examples(name, split, there.path, rows, read)
    if name in ("GIT", "GIT-RE"):
        first: dict[Parts, Example] = {}
        for e in splits["test"]:
            first.setdefault((e.text, e.label, e.triples), e)
        splits["test"] = tuple(first.values())
    if name == "ADE-corpus-v2":
        taken = {e.text for e in splits["train"] + splits["test"]}
        splits["validation"] = tuple(e for e in splits["validation"] if e.text not in taken)[
            :VALIDATION
        ]
    used = {e.label: e.id for examples in splits.values() for e in examples}
    labels = ({label: label for label in used} if TRAINING in located else {}) | _labels(name)
    for label, row in used.items():
        if label not in labels:
            raise CorpusError(
                f"{row}: the label {label!r} has no description. Correct the file, or describe the label under {name} "
                "in data/biomedrag_labels.yml."
            )
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

    Rows of the same text stay together, so that no text is in two splits. This is not the paper's split, and there is
    far less to learn from. `train` and `validation` are shares of the rows. If training rows are released too, the test
    stays whole, and some of them become the validation.

    Raises CorpusError: the corpus has splits already, or the shares leave nothing to test.
    """
    if corpus.validation:
        raise CorpusError(
            f"{corpus.name} has splits of its own; divide a corpus that has no validation."
        )
    if corpus.train:
        tested = {e.text for e in corpus.test}
        known = [e for e in corpus.train if e.text not in tested]
        some = random.Random(seed).sample(known, min(VALIDATION, len(known) // 4))  # noqa: S311
        held = {e.text for e in some}
        learned, kept = ([e for e in known if (e.text in held) == of] for of in (False, True))
        return replace(corpus, train=tuple(learned), validation=tuple(kept))
    if not (0 < train < 1 and 0 < validation < 1 and train + validation < 1):
        raise CorpusError(
            f"Shares above 0 that sum to less than 1 are needed; found {train} and {validation}."
        )
    label_of: dict[str, str] = {}
    for example in corpus.test:
        label_of.setdefault(example.text, example.label)
    by_label: dict[str, list[str]] = defaultdict(list)
    for text, label in label_of.items():
        by_label[label].append(text)
    where: dict[str, Split] = {}
    draw = random.Random(seed)  # noqa: S311  # no secret is drawn
    for label in sorted(by_label):
        texts = by_label[label]
        draw.shuffle(texts)
        offset = draw.random()  # so that labels with few rows are not all rounded the same way
        for i, text in enumerate(texts):
            place = (i + offset) / len(texts) % 1
            where[text] = (
                "train" if place < train else "validation" if place < train + validation else "test"
            )
    parts = {
        split: tuple(e for e in corpus.test if where[e.text] == split) for split in corpus.splits
    }
    return replace(corpus, train=parts["train"], validation=parts["validation"], test=parts["test"])


def draw(examples: Sequence[Example], n: int, seed: int) -> list[Example]:
    """At most `n` rows drawn by chance without repeats of a row, in their order."""
    return [examples[i] for i in sorted(np.random.default_rng(seed).permutation(len(examples))[:n])]


def stratified(examples: Sequence[Example], n: int, seed: int) -> list[Example]:
    """At most `n` rows, of each label its share, in the order of the rows."""
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

    return replace(
        corpus, train=cut(corpus.train), validation=cut(corpus.validation), test=cut(corpus.test)
    )


def question(head: str, tail: str) -> str:
    """How the link-prediction files ask about two names."""
    return f"what is the relationship between {head} and {tail} ?"


Parts = tuple[str, str, tuple[Triple, ...]]
"""Text, label and triples of a row."""
_OF_FILE: Final[dict[str, Split]] = {
    "train": "train",
    "dev": "validation",
    "pool": "validation",
    "test": "test",
}


def _git(row: Mapping[str, Any]) -> Parts:
    triple = Triple(_text(row, "SUBJECT_TEXT"), _text(row, "PREDICATE"), _text(row, "OBJECT_TEXT"))
    return _text(row, "SENTENCE"), triple.relation, (triple,)


def _listed(row: Mapping[str, Any]) -> Parts:
    match row.get("triple_list"):
        case [[str(head), str(relation), str(tail)]] if head and relation and tail:
            return _text(row, "text"), relation, (Triple(head, relation, tail),)
        case triples:
            raise CorpusError(
                f"needed a triple_list of one [head, relation, tail], found {triples!r}"
            )


def _ade(row: Mapping[str, Any]) -> Parts:
    label = row.get("label")
    if label not in _ADE_LABELS:
        raise CorpusError(f"needed the label 0 or 1, found {label!r}")
    return _text(row, "text"), _ADE_LABELS[label], ()


def _mtsamples(row: Mapping[str, Any]) -> Parts:
    return _text(row, "transcription", empty=True), _text(row, "medical_specialty").strip(), ()


def _umls(line: str) -> Parts:
    """Asked as the authors' question files ask."""
    row = line.split("\t")
    if len(row) != 3 or not all(row):
        raise CorpusError(f"needed head, relation and tail divided by tabs, found {row!r}")
    triple = Triple(*row)
    return question(triple.head, triple.tail), triple.relation, (triple,)


def _adint(row: Mapping[str, Any]) -> Parts:
    text, label = _text(row, "text"), _text(row, "label")
    asked = _QUESTION.fullmatch(text)
    names = asked[1].split(" and ") if asked else []
    if len(names) < 2:
        raise CorpusError(f"needed 'what is the relationship between A and B ?', found {text!r}")
    return text, label, (Triple(names[0], label, names[1]),) if len(names) == 2 else ()


@lru_cache
def _labels(name: str) -> dict[str, str]:
    descriptions = yaml.safe_load((DATA / "biomedrag_labels.yml").read_text(encoding="utf-8"))
    return {str(label): words for label, words in descriptions[name].items()}


def _examples(
    name: str,
    split: Split,
    path: Path,
    rows: Callable[[Path], Iterator[Any]],
    read: Callable[[Any], Parts],
) -> tuple[Example, ...]:
    examples = []
    for number, row in enumerate(rows(path), start=1):
        try:
            examples.append(Example(f"{name}.{split}.{number}", *read(row)))
        except CorpusError as error:
            raise CorpusError(f"{path.name} of {name}, row {number}: {error}.") from None
    if not examples:
        raise CorpusError(f"{path.name} of {name} holds no row.")
    return tuple(examples)


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The JSON objects of a file, one a line; a CorpusError if a line holds something else."""
    for number, line in enumerate(lines(path), start=1):
        try:
            row = json.loads(line)
        except ValueError as error:
            raise CorpusError(
                f"{path.name}, line {number}: needed JSON, found {line[:60]!r} ({error})."
            ) from None
        if not isinstance(row, dict):
            raise CorpusError(
                f"{path.name}, line {number}: needed a JSON object, found {line[:60]!r}."
            )
        yield row


def _array(path: Path) -> Iterator[dict[str, Any]]:
    try:
        rows = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise CorpusError(f"{path.name}: needed one JSON list ({error}).") from None
    if not (isinstance(rows, list) and all(isinstance(row, dict) for row in rows)):
        raise CorpusError(
            f"{path.name}: needed one JSON list of objects, found {type(rows).__name__}."
        )
    yield from rows


def _text(row: Mapping[str, Any], field: str, *, empty: bool = False) -> str:
    value = row.get(field)
    if not (isinstance(value, str) and (empty or value.strip())):
        raise CorpusError(f"needed text in the field {field!r}, found {value!r}")
    return value


def _three(folder: str, ending: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{split}.{ending}" for split in ("train", "dev", "test"))


_SETS: Final[
    dict[str, tuple[Task, tuple[str, ...], Callable[[Path], Iterator[Any]], Callable[[Any], Parts]]]
] = {
    "GIT": ("triples", _three("GIT", "jsonl"), json_lines, _git),
    "DDI": ("triples", _three("DDI", "json"), _array, _listed),
    "ChemProt": ("triples", _three("ChemProt", "json"), _array, _listed),
    "GIT-RE": ("relations", _three("GIT", "jsonl"), json_lines, _git),
    "ADE-corpus-v2": (
        "classification",
        ("ADE/train.json", "ADE/pool.json", "ADE/test.json"),
        json_lines,
        _ade,
    ),
    "MTSamples": ("classification", ("MTSamples/test.json",), json_lines, _mtsamples),
    "UMLS": ("links", _three("UMLS", "txt"), lines, _umls),
    "ADInt": ("links", _three("ADInt", "jsonl"), json_lines, _adint),
}
