"""`medrerun ask notes` and `medrerun notes`: own clinical notes, asked and evaluated."""

import json
import logging
import sys
from pathlib import Path
from typing import Annotated

import typer

PATH = "folder of notes (.txt, .docx, .pdf, .html, .md, .csv, .xlsx), or one table"
PATIENT = "only notes of this patient, by the id in the note, or in the folder or file name"
Since = Annotated[str, typer.Option(help="first day, such as 2023-01-01")]
Until = Annotated[str, typer.Option(help="last day")]
Encoder = Annotated[str, typer.Option(help="of passages; the paper: Bio_ClinicalBERT")]
Out = Annotated[Path | None, typer.Option(help="folder for registry and index")]

notes_app = typer.Typer(
    help="Build and evaluate the registry and the search of own clinical notes.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


def ask_notes(  # noqa: PLR0913, PLR0917  # options of a command
    path: Annotated[Path, typer.Argument(help=PATH)],
    question: Annotated[str, typer.Argument(help="in free words, in quotes")],
    patient: Annotated[str, typer.Option(help=PATIENT)] = "",
    since: Since = "",
    until: Until = "",
    medication: Annotated[str, typer.Option(help="only passages that name this drug")] = "",
    topk: Annotated[int, typer.Option(min=1, help="passages that the model reads")] = 5,
    encoder: Encoder = "all-MiniLM-L6-v2",
    out: Out = None,
    as_json: Annotated[bool, typer.Option("--json", help="all evidence, as JSON")] = False,
) -> None:
    """Ask own clinical notes; the answer cites note, date and passage."""
    from medrerun.model_cost import say_model_cost  # noqa: PLC0415
    from papers.clinical_notes import system  # noqa: PLC0415  # takes seconds

    filters = system.make_filters(patient, since, until, medication)
    _show_log()
    notes = system.open_notes(path, system.Options(encoder=encoder, topk=topk, home=out))
    say_model_cost()
    answer = notes.ask(question, filters)
    text = json.dumps(answer.as_dict(), indent=1, default=str) if as_json else str(answer)
    sys.stdout.write(f"{text}\n")
    sys.stderr.write(f"Registry and index: {notes.home}\n")
    raise typer.Exit(0 if answer.answered else 1)


@notes_app.command("build")
def build_notes(
    path: Annotated[Path, typer.Argument(help=PATH)],
    encoder: Encoder = "all-MiniLM-L6-v2",
    out: Out = None,
) -> None:
    """Build registry and index of own notes, and say where they are."""
    from helpers.counting import counted  # noqa: PLC0415
    from papers.clinical_notes import system  # noqa: PLC0415

    _show_log()
    notes = system.open_notes(path, system.Options(encoder=encoder, home=out))
    sys.stdout.write(
        f"{counted(len(notes.registry), 'row')} in {notes.home / system.REGISTRY_FILE}\n"
        f"{counted(len(notes.retriever.chunks), 'passage')} in "
        f"{notes.home / system.INDEX_FOLDER}\n"
    )


def _show_log() -> None:
    logging.basicConfig(format="%(message)s")
    logging.getLogger("papers").setLevel(logging.INFO)
    logging.getLogger("bm25s").setLevel(logging.WARNING)


@notes_app.command("evaluate")
def evaluate_notes(  # options of a command
    labelled: Annotated[
        Path, typer.Argument(help="CSV or Excel: query, relevant (passages, notes)")
    ],
    path: Annotated[Path, typer.Argument(help=PATH)],
    topk: Annotated[int, typer.Option(min=1, help="ranks that count for P@K and R@K")] = 10,
    plots: Annotated[Path | None, typer.Option(help="folder of the plots")] = None,
    encoder: Encoder = "all-MiniLM-L6-v2",
    out: Out = None,
) -> None:
    """Score the search on labelled questions: P@K, R@K, MRR and AP by intent, and five plots."""
    from papers.clinical_notes import own_evaluation, system  # noqa: PLC0415

    _show_log()
    notes = system.open_notes(path, system.Options(encoder=encoder, home=out))
    queries = own_evaluation.read_labelled(labelled, notes)
    evaluation = own_evaluation.evaluate(notes, queries, topk)
    folder = plots or notes.home / "eval_plots"
    own_evaluation.write_plots(evaluation, folder)
    sys.stdout.write(f"{evaluation.by_intent().to_string(float_format='%.3f')}\n")
    sys.stdout.write(f"Plots and the scores of each question: {folder}\n")
