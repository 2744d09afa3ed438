"""Rows of one's own, from JSON lines, CSV or Excel, as the corpora of this paper hold them."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from helpers import tables, texts
from helpers.texts import TextError
from papers.biomedrag.corpora import Corpus, CorpusError, Example, Task, Triple, divided

TASKS: Final[tuple[Task, ...]] = ("classification", "triples", "relations")
"""What can be learnt from own rows."""
TEXT_NAMES: Final = ("text", "sentence", "report", "note", "abstract", "transcription", "context")
LABEL_NAMES: Final = ("label", "class", "category", "relation", "predicate")
JSON_LINES: Final = (".jsonl", ".ndjson", ".json")
TABLES: Final = (".csv", ".tsv", ".txt", ".xlsx", ".xlsm")
MIN_ROWS: Final = 40
"""Fewer leave no rows to teach, to retrieve from and to test on."""
TRAIN_SHARE: Final = 0.25
"""Share of the rows that teach the scorer."""
MEMORY_SHARE: Final = 0.5
"""Share of the rows that are retrieved from; the rest is held out and scored."""
SEED: Final = 20251121
NAME: Final = "own"


@dataclass(frozen=True)
class Row:
    """A row of the user's file.

    Attributes:
        number: Its line, or its row in a table.
        text: The text.
        label: Its class; empty if there is none.
        triples: Its triples; those of a row whose pair is given may have an empty relation.
    """

    number: int
    text: str
    label: str
    triples: tuple[Triple, ...]


def read_rows(path: Path) -> list[Row]:
    """Read rows with a text, and a label or triples where there are any.

    A file of JSON lines has `text`, and `label` or `triples`, a list of [head, relation, tail]. A
    table has columns of these names, or `head`, `relation` and `tail`.

    Raises:
        CorpusError: The file cannot be read, or a row has another form.
    """
    try:
        if path.suffix.lower() in JSON_LINES:
            rows = list(_json_rows(path))
        else:
            rows = list(_table_rows(path))
    except TextError as error:
        raise CorpusError(f"{path}: {error}") from None
    if not rows:
        raise CorpusError(f"{path}: rows with a text were needed; the file has none.")
    return rows


def _json_rows(path: Path) -> Iterator[Row]:
    for number, line in enumerate(texts.read(path).splitlines(), start=1):
        if not line.strip():
            continue
        try:
            content = json.loads(line)
        except ValueError:
            raise CorpusError(
                f"{path}, line {number}: a JSON object was needed, one a line; found {line[:60]!r}."
            ) from None
        if not isinstance(content, dict):
            raise CorpusError(f"{path}, line {number}: a JSON object was needed.")
        yield _row_of(f"{path}, line {number}", number, content)


def _table_rows(path: Path) -> Iterator[Row]:
    table = tables.read_table(path)
    columns = {str(column).strip().lower(): column for column in table.columns}
    for number, cells in table.iterrows():
        content = {name: cells[column] for name, column in columns.items()}
        yield _row_of(f"{path}, row {number}", int(str(number)), content)


def _row_of(where: str, number: int, content: Mapping[str, Any]) -> Row:
    text = _first_text(content, TEXT_NAMES)
    if not text:
        raise CorpusError(
            f"{where}: a text was needed, in a field such as 'text'; found the fields "
            f"{', '.join(map(str, content)) or 'none'}."
        )
    label = _first_text(content, LABEL_NAMES)
    triples = _triples_of(where, content, label)
    return Row(number, text, label, triples)


def _first_text(content: Mapping[str, Any], names: Sequence[str]) -> str:
    """Return the first field of some names that is not empty, as text; empty if there is none."""
    for name in names:
        value = content.get(name)
        if isinstance(value, str | int | float) and str(value).strip():
            return " ".join(str(value).split())
    return ""


def _triples_of(where: str, content: Mapping[str, Any], label: str) -> tuple[Triple, ...]:
    head, tail = _first_text(content, ("head",)), _first_text(content, ("tail",))
    if head and tail:
        return (Triple(head, label, tail),)
    listed = content.get("triples")
    if not listed:
        return ()
    if isinstance(listed, str):
        try:
            listed = json.loads(listed)
        except ValueError:
            listed = None
    if not isinstance(listed, list):
        raise _no_triple(where, listed)
    return tuple(_triple_of(where, item) for item in listed)


def _triple_of(where: str, item: object) -> Triple:
    parts = item
    if isinstance(item, Mapping):
        parts = [item.get(name) for name in ("head", "relation", "tail")]
    match parts:
        case [str(head), str(relation), str(tail)] if head and relation and tail:
            return Triple(head.strip(), relation.strip(), tail.strip())
    raise _no_triple(where, item)


def _no_triple(where: str, found: object) -> CorpusError:
    return CorpusError(
        f"{where}: triples as a list of [head, relation, tail] were needed; found {found!r:.80}."
    )


def task_of(rows: Sequence[Row], task: str = "") -> Task:
    """Return what can be learnt from rows: the user's choice, else triples if rows have them.

    Raises:
        CorpusError: There is no such task.
    """
    if not task:
        return "triples" if any(row.triples for row in rows) else "classification"
    for known in TASKS:
        if task == known:
            return known
    raise CorpusError(f"A task is one of {', '.join(TASKS)}; found {task!r}.")


def corpus_of(
    rows: Sequence[Row], task: Task, descriptions: Mapping[str, str], seed: int
) -> Corpus:
    """Make a corpus of rows, divided into rows that teach, rows to retrieve from and held-out ones.

    A text with several triples gives a row each, as in the paper's files.

    Args:
        rows: The rows.
        task: What is learnt.
        descriptions: T(l) of labels; a label without one describes itself.
        seed: Seed of the division.

    Raises:
        CorpusError: A row has no label, there are too few rows or labels.
    """
    examples = []
    for row in rows:
        examples += examples_of(row, task)
    if len(examples) < MIN_ROWS:
        raise CorpusError(
            f"At least {MIN_ROWS} labelled rows were needed: some teach, some are retrieved, some "
            f"are held out. Found {len(examples)}."
        )
    labels = dict.fromkeys(example.label for example in examples)
    if len(labels) < 2:
        raise CorpusError(f"At least two labels were needed; found only {next(iter(labels))!r}.")
    described = {label: descriptions.get(label, label) for label in labels}
    undivided = Corpus(NAME, task, (), (), tuple(examples), described)
    corpus = divided(undivided, seed=seed, train=TRAIN_SHARE, validation=MEMORY_SHARE)
    for split, part in corpus.splits.items():
        if not part:
            raise CorpusError(
                f"Too few different texts: none was left for the {split} split. Add rows."
            )
    return corpus


def examples_of(row: Row, task: Task) -> list[Example]:
    """Make examples of a labelled row.

    Raises:
        CorpusError: The row has no label, or no triples where they are learnt.
    """
    if task == "classification":
        if not row.label:
            raise CorpusError(f"Row {row.number}: a label was needed, in a field such as 'label'.")
        return [Example(f"{NAME}.{row.number}", row.text, row.label, ())]
    complete = [triple for triple in row.triples if triple.relation]
    if not complete:
        raise CorpusError(
            f"Row {row.number}: a triple was needed, in the fields head, relation and tail, or "
            "triples."
        )
    examples = []
    for position, triple in enumerate(complete):
        name = f"{NAME}.{row.number}" + (f".{position}" if position else "")
        examples.append(Example(name, row.text, triple.relation, (triple,)))
    return examples


def question_of(row: Row, task: Task) -> Example:
    """Make an example without its answer.

    Raises:
        CorpusError: The pair of a relation is not given.
    """
    if task == "relations" and not row.triples:
        raise CorpusError(f"Row {row.number}: head and tail were needed, whose relation is asked.")
    pair = row.triples if task == "relations" else ()
    return Example(f"new.{row.number}", row.text, "", pair)


def rows_of_arguments(arguments: Sequence[str]) -> list[Row]:
    """Return the rows of a file, if the only argument names one, else a row for each argument.

    Raises:
        CorpusError: The file cannot be read, an argument is blank, or a file is one of several
            arguments.
    """
    kinds = (*JSON_LINES, *TABLES)
    files = [argument for argument in arguments if Path(argument).suffix.lower() in kinds]
    if not files:
        return [row_of_text(argument, number) for number, argument in enumerate(arguments, start=1)]
    if len(arguments) > 1:
        raise CorpusError(
            f"Texts, or one file of rows, were needed. Found {len(arguments)} arguments, of which "
            f"{files[0]!r} names a file. Give this file alone, or texts alone. The option --system "
            "names the system."
        )
    return read_rows(Path(files[0]))


def row_of_text(text: str, number: int) -> Row:
    """Make a row of a text alone.

    Raises:
        CorpusError: The text is blank.
    """
    words = " ".join(text.split())
    if not words:
        raise CorpusError(f"Text {number} is blank. Write a text, or name a file.")
    return Row(number, words, "", ())


def read_descriptions(path: Path) -> dict[str, str]:
    """Read a JSON object that has a description for each label.

    Raises:
        CorpusError: It is no such file.
    """
    try:
        content = json.loads(texts.read(path))
    except TextError as error:
        raise CorpusError(f"{path}: {error}") from None
    except ValueError:
        raise CorpusError(f"{path}: a JSON object of labels was needed; it is no JSON.") from None
    if not isinstance(content, dict):
        raise CorpusError(f"{path}: a JSON object of labels was needed.")
    return {str(label): str(words) for label, words in content.items()}
