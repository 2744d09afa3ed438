"""`medrerun extract`: BiomedRAG on one's own labelled texts."""

import json
import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

TRAIN_FILE = (
    "JSON lines, CSV or Excel of at least 40 labelled rows: text, with label, or with head, "
    "relation and tail"
)
TASK = "classification, triples, or relations (head and tail are given); default: by the columns"
NEW = "a file with texts, or texts in quotes"
SYSTEM = "name of a trained system; default: the newest"


def train(  # noqa: PLR0913  # options of a command
    file: Annotated[Path, typer.Argument(help=TRAIN_FILE)],
    name: Annotated[str, typer.Option(help="name of the system; default: the file's")] = "",
    task: Annotated[str, typer.Option(help=TASK)] = "",
    taught: Annotated[int, typer.Option(min=2, help="rows that teach the scorer")] = 40,
    held_out: Annotated[int, typer.Option(min=2, help="held-out rows to score")] = 50,
    max_words: Annotated[int, typer.Option(min=0, help="words of a text; 0: all")] = 150,
    descriptions: Annotated[Path | None, typer.Option(help="JSON: label and words")] = None,
) -> None:
    """Teach BiomedRAG on your rows, and score it on held-out ones."""
    from medrerun.model_cost import say_model_cost  # noqa: PLC0415
    from papers.biomedrag import own_rows, system  # noqa: PLC0415

    _show_log()
    options = system.Options(
        task=task,
        taught=taught,
        held_out=held_out,
        max_words=max_words,
        descriptions=own_rows.read_descriptions(descriptions) if descriptions else None,
    )
    rows = own_rows.read_rows(file)
    say_model_cost()
    trained = system.train(rows, name or file.stem, options)
    sys.stdout.write(f"\n{trained}\n")


def apply(
    texts: Annotated[list[str], typer.Argument(help=NEW)],
    name: Annotated[str, typer.Option("--system", help=SYSTEM)] = "",
    as_json: Annotated[bool, typer.Option("--json", help="print JSON lines")] = False,
) -> None:
    """Answer new texts; each answer shows the example that was retrieved."""
    from medrerun.model_cost import say_model_cost  # noqa: PLC0415
    from papers.biomedrag import own_rows, system  # noqa: PLC0415

    _show_log()
    extractor = system.load(name)
    rows = own_rows.rows_of_arguments(texts)
    say_model_cost()
    answers = extractor.apply(rows)
    for answer in answers:
        if as_json:
            sys.stdout.write(f"{json.dumps(answer.as_dict(), ensure_ascii=False)}\n")
        else:
            sys.stdout.write(f"\n{answer.question}\n\n{answer}\n")


def _show_log() -> None:
    logging.basicConfig(format="%(message)s")
    logging.getLogger("papers").setLevel(logging.INFO)
