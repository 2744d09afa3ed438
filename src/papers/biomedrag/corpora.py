"""The eight data sets of biomedrag.md (section 4.1, Tables 5 and 6), as the authors release them.

Oddities of the files stay, because the paper's numbers were measured on them, unless a docstring
states otherwise; `papers.biomedrag.balance` has what they do to a score.
"""

import json
import random
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain
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
"""How the ids of printed numbers name each data set, in the order of the paper's tables."""
N_VALIDATION: Final = 500
"""Validation rows of ADE-corpus-v2 and MTSamples (Table 6); the authors' own are not released."""
TRAINING: Final = "biomedrag/MTSamples/train.json"
"""Training reports of MTSamples, which not every source has."""

_ADE_LABELS: Final = {0: "not related", 1: "related"}
_QUESTION: Final = re.compile(r"what is the relationship between (.+) \?")


class CorpusError(PublicError, ValueError):
    """A corpus file is not in its format, or there is no such corpus.

    The message says where, and what was needed.
    """


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
        id: Corpus, split and row, joined by full stops.
        text: What a model reads: a sentence, a report, or a question about two entities.
        label: A relation or a class.
        triples: Classification has none, nor has a link whose text does not tell its two names
            apart because one holds an "and".
    """

    id: str
    text: str
    label: str
    triples: tuple[Triple, ...]


Parts = tuple[str, str, tuple[Triple, ...]]
"""Text, label and triples of a row."""


@dataclass(frozen=True, slots=True)
class Corpus:
    """A data set in its splits, in the order of the files.

    A split that is not released is empty.

    Attributes:
        name: A key of `KEYS`.
        labels: The description of each label, the paper's T(l) (section 4.2.1).
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


def load(name: str, data: str = "auto", *, training: bool = False) -> Corpus:
    """Load a data set of the paper.

    GIT-RE is GIT with head and tail given (section 4.1.2). The test file of GIT holds every line
    twice; it is read once. Of ADE-corpus-v2 no validation split is released: here it is the first
    500 rows, of the file whose beginning the training rows are, with a text that is in neither
    training nor test. Of MTSamples the test is read, in which a few texts are empty; `divided`
    makes splits of it.

    Args:
        name: One of `KEYS`.
        data: real, sample or auto, as in `resources.datasets.locate_all`.
        training: Whether to read `TRAINING` for MTSamples, if a source has it.

    Raises:
        CorpusError: There is no such data set, or a row is not in its format.
        DataUnavailable: No source has a file.
    """
    if name not in _SOURCES:
        raise CorpusError(f"There is no data set {name!r}. There are: {', '.join(KEYS)}.")
    source = _SOURCES[name]
    located = locate_all([f"biomedrag/{file}" for file in source.files], data)
    if training and name == "MTSamples" and data != "sample":
        located |= locate_available([TRAINING])
    splits: dict[Split, tuple[Example, ...]] = {}
    for file, place in located.items():
        split = _SPLIT_OF_FILE[Path(file).stem]
        splits[split] = _read_examples(name, split, place.path)
    if name in ("GIT", "GIT-RE"):
        splits["test"] = _without_repeats(splits["test"])
    if name == "ADE-corpus-v2":
        splits["validation"] = _ade_validation(splits)
    return Corpus(
        name=name,
        task=source.task,
        train=splits.get("train", ()),
        validation=splits.get("validation", ()),
        test=splits["test"],
        labels=_describe_labels(name, splits, is_own_description=TRAINING in located),
        files=tuple(located.values()),
    )


def _without_repeats(examples: Sequence[Example]) -> tuple[Example, ...]:
    first: dict[Parts, Example] = {}
    for example in examples:
        first.setdefault((example.text, example.label, example.triples), example)
    return tuple(first.values())


def _ade_validation(splits: Mapping[Split, Sequence[Example]]) -> tuple[Example, ...]:
    used_texts = {example.text for example in (*splits["train"], *splits["test"])}
    unused = [example for example in splits["validation"] if example.text not in used_texts]
    return tuple(unused[:N_VALIDATION])


def _describe_labels(
    name: str, splits: Mapping[Split, Sequence[Example]], *, is_own_description: bool
) -> dict[str, str]:
    """Return the description of each label that is used.

    Args:
        name: The data set.
        splits: Its rows.
        is_own_description: Whether a label without a description describes itself.
    """
    rows = {}
    for example in chain.from_iterable(splits.values()):
        rows[example.label] = example.id
    described = _descriptions(name)
    if is_own_description:
        described = {label: label for label in rows} | described
    for label, row in rows.items():
        if label not in described:
            raise CorpusError(
                f"{row}: the label {label!r} has no description. Correct the file, or describe "
                f"the label under {name} in data/biomedrag_labels.yml."
            )
    return {label: words for label, words in described.items() if label in rows}


def divided(corpus: Corpus, *, seed: int, train: float = 0.4, validation: float = 0.2) -> Corpus:
    """Divide a corpus of which only the test is available, with the same shares of each label.

    Rows of the same text stay together, so that no text is in two splits. This is not the paper's
    split, and there is far less to learn from. If training rows are released too, the test stays as
    it is, and some of them become the validation.

    Args:
        corpus: The data set.
        seed: Seed of the division.
        train: Share of the rows for training.
        validation: Share of the rows for validation.

    Raises:
        CorpusError: The corpus has splits already, or the shares leave nothing to test.
    """
    if corpus.validation:
        raise CorpusError(
            f"{corpus.name} has splits of its own; divide a corpus that has no validation."
        )
    if corpus.train:
        return _divide_training(corpus, seed)
    if not (0 < train < 1 and 0 < validation < 1 and train + validation < 1):
        raise CorpusError(
            f"Shares above 0 that sum to less than 1 are needed; found {train} and {validation}."
        )
    split_of = _assign_texts(corpus.test, seed, train=train, validation=validation)
    parts: dict[Split, list[Example]] = {split: [] for split in corpus.splits}
    for example in corpus.test:
        parts[split_of[example.text]].append(example)
    return replace(
        corpus,
        train=tuple(parts["train"]),
        validation=tuple(parts["validation"]),
        test=tuple(parts["test"]),
    )


def _divide_training(corpus: Corpus, seed: int) -> Corpus:
    """Divide the training rows whose text is not in the test into training and validation."""
    test_texts = {example.text for example in corpus.test}
    rows = [example for example in corpus.train if example.text not in test_texts]
    n = min(N_VALIDATION, len(rows) // 4)
    drawn = random.Random(seed).sample(rows, n)  # noqa: S311  # no secret is drawn
    validation_texts = {example.text for example in drawn}
    train = tuple(example for example in rows if example.text not in validation_texts)
    validation = tuple(example for example in rows if example.text in validation_texts)
    return replace(corpus, train=train, validation=validation)


def _assign_texts(
    examples: Sequence[Example], seed: int, *, train: float, validation: float
) -> dict[str, Split]:
    """Assign a split to each text, of each label the same shares."""
    label_of: dict[str, str] = {}
    for example in examples:
        label_of.setdefault(example.text, example.label)
    texts_by_label: dict[str, list[str]] = defaultdict(list)
    for text, label in label_of.items():
        texts_by_label[label].append(text)
    split_of: dict[str, Split] = {}
    rng = random.Random(seed)  # noqa: S311  # no secret is drawn
    for label in sorted(texts_by_label):
        texts = texts_by_label[label]
        rng.shuffle(texts)
        offset = rng.random()  # so that labels with few rows are not all rounded the same way
        for i, text in enumerate(texts):
            position = (i + offset) / len(texts) % 1
            if position < train:
                split_of[text] = "train"
            elif position < train + validation:
                split_of[text] = "validation"
            else:
                split_of[text] = "test"
    return split_of


def draw(examples: Sequence[Example], n: int, seed: int) -> list[Example]:
    """Draw at most `n` rows by chance, none twice, in their order."""
    shuffled = np.random.default_rng(seed).permutation(len(examples))
    return [examples[i] for i in sorted(shuffled[:n])]


def stratified(examples: Sequence[Example], n: int, seed: int) -> list[Example]:
    """Draw at most `n` rows, of each label its share, in the order of the rows."""
    rng = random.Random(seed)  # noqa: S311  # no secret is drawn
    shuffled = sorted(range(len(examples)), key=lambda _: rng.random())
    by_label = sorted(shuffled, key=lambda i: examples[i].label)
    n = min(n, len(examples))
    # evenly spaced positions in the rows by label give each label its share
    offset = rng.random()
    positions = [int((i + offset) * len(examples) / n) for i in range(n)]
    chosen = {by_label[position] for position in positions}
    return [examples[i] for i in sorted(chosen)]


def shortened(corpus: Corpus, words: int) -> Corpus:
    """Cut the texts of a corpus after so many words, for a model that reads slowly.

    0 leaves them as they are.
    """
    if not words:
        return corpus
    return replace(
        corpus,
        train=_shorten(corpus.train, words),
        validation=_shorten(corpus.validation, words),
        test=_shorten(corpus.test, words),
    )


def _shorten(examples: Sequence[Example], words: int) -> tuple[Example, ...]:
    cut = []
    for example in examples:
        first_words = example.text.split()[:words]
        cut.append(replace(example, text=" ".join(first_words)))
    return tuple(cut)


def question(head: str, tail: str) -> str:
    """Ask about two names as the link-prediction files do."""
    return f"what is the relationship between {head} and {tail} ?"


_SPLIT_OF_FILE: Final[dict[str, Split]] = {
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
    row = line.split("\t")
    if len(row) != 3 or not all(row):
        raise CorpusError(f"needed head, relation and tail divided by tabs, found {row!r}")
    triple = Triple(*row)
    return question(triple.head, triple.tail), triple.relation, (triple,)


def _adint(row: Mapping[str, Any]) -> Parts:
    text, label = _text(row, "text"), _text(row, "label")
    match = _QUESTION.fullmatch(text)
    names = match[1].split(" and ") if match else []
    if len(names) < 2:
        raise CorpusError(f"needed 'what is the relationship between A and B ?', found {text!r}")
    if len(names) > 2:
        return text, label, ()
    return text, label, (Triple(names[0], label, names[1]),)


@lru_cache
def _descriptions(name: str) -> dict[str, str]:
    descriptions = yaml.safe_load((DATA / "biomedrag_labels.yml").read_text(encoding="utf-8"))
    return {str(label): words for label, words in descriptions[name].items()}


def _read_examples(name: str, split: Split, path: Path) -> tuple[Example, ...]:
    source = _SOURCES[name]
    examples = []
    for number, row in enumerate(source.rows(path), start=1):
        try:
            examples.append(Example(f"{name}.{split}.{number}", *source.parse(row)))
        except CorpusError as error:
            raise CorpusError(f"{path.name} of {name}, row {number}: {error}.") from None
    if not examples:
        raise CorpusError(f"{path.name} of {name} holds no row.")
    return tuple(examples)


def json_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the JSON objects of a file, one a line.

    Raises:
        CorpusError: A line holds something else.
    """
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
    is_list = isinstance(rows, list)
    if not is_list or not all(isinstance(row, dict) for row in rows):
        kind = type(rows).__name__
        raise CorpusError(f"{path.name}: needed one JSON list of objects, found {kind}.")
    yield from rows


def _text(row: Mapping[str, Any], field: str, *, empty: bool = False) -> str:
    value = row.get(field)
    if not (isinstance(value, str) and (empty or value.strip())):
        raise CorpusError(f"needed text in the field {field!r}, found {value!r}")
    return value


@dataclass(frozen=True)
class Source:
    """Where a data set is, and how its files are read.

    Attributes:
        task: Its task.
        files: Its files, below the folder biomedrag of the registry.
        rows: Reads the rows of a file.
        parse: Makes text, label and triples of a row.
    """

    task: Task
    files: tuple[str, ...]
    rows: Callable[[Path], Iterator[Any]]
    parse: Callable[[Any], Parts]


def _splits(folder: str, ending: str) -> tuple[str, ...]:
    return tuple(f"{folder}/{split}.{ending}" for split in ("train", "dev", "test"))


_ADE_FILES: Final = ("ADE/train.json", "ADE/pool.json", "ADE/test.json")
_SOURCES: Final = {
    "GIT": Source("triples", _splits("GIT", "jsonl"), json_lines, _git),
    "DDI": Source("triples", _splits("DDI", "json"), _array, _listed),
    "ChemProt": Source("triples", _splits("ChemProt", "json"), _array, _listed),
    "GIT-RE": Source("relations", _splits("GIT", "jsonl"), json_lines, _git),
    "ADE-corpus-v2": Source("classification", _ADE_FILES, json_lines, _ade),
    "MTSamples": Source("classification", ("MTSamples/test.json",), json_lines, _mtsamples),
    "UMLS": Source("links", _splits("UMLS", "txt"), lines, _umls),
    "ADInt": Source("links", _splits("ADInt", "jsonl"), json_lines, _adint),
}
