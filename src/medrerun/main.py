"""The commands of `medrerun`. Each imports what it needs, for some of that takes seconds."""

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from medrerun.api import api
from medrerun.ask_guidance import guidance
from medrerun.ask_interactions import interactions
from medrerun.ask_notes import ask_notes, notes_app
from medrerun.ask_side_effects import ask_side_effects
from medrerun.extract import apply as extract_apply, train as extract_train
from resources.settings import run_command_line

NOT_RICH = {"add_completion": False, "rich_markup_mode": None, "pretty_exceptions_enable": False}
"""Messages in one line, without a frame."""

app = typer.Typer(
    help="Run the notebooks of the book, look into what they left, and pass it on.",
    no_args_is_help=True,
    **NOT_RICH,  # type: ignore[arg-type]
)
requests_app = typer.Typer(help="Carry stored requests between machines.", **NOT_RICH)  # type: ignore[arg-type]
batch_app = typer.Typer(help="Answer requests elsewhere, as a batch.", **NOT_RICH)  # type: ignore[arg-type]
export_app = typer.Typer(help="Write files for other programs.", **NOT_RICH)  # type: ignore[arg-type]
servers_app = typer.Typer(help="Start and stop the embedded servers.", **NOT_RICH)  # type: ignore[arg-type]
ask_app = typer.Typer(help="Ask the papers' systems about your own data.", **NOT_RICH)  # type: ignore[arg-type]
ask_app.command("guidance")(guidance)
ask_app.command("interactions")(interactions)
ask_app.command("notes")(ask_notes)
ask_app.command("side-effects")(ask_side_effects)
app.add_typer(ask_app, name="ask")
app.add_typer(notes_app, name="notes")
app.command()(api)
extract_app = typer.Typer(help="Teach BiomedRAG on your own labelled texts.", **NOT_RICH)  # type: ignore[arg-type]
extract_app.command("train")(extract_train)
extract_app.command("apply")(extract_apply)
app.add_typer(extract_app, name="extract")
app.add_typer(requests_app, name="requests")
app.add_typer(batch_app, name="batch")
app.add_typer(export_app, name="export")
app.add_typer(servers_app, name="servers")

AUDITED = "CSV or Parquet with the columns question, predicted and gold, or a folder of answers"
Notebook = Annotated[str, typer.Argument(help="for example 01_side_effects_forward")]
Notebooks = Annotated[list[str] | None, typer.Argument(help="default: all")]
Files = Annotated[list[Path], typer.Argument(help="files to read")]
Service = Annotated[str, typer.Argument(help="graph, llm or all")]


@app.command()
def run(
    notebooks: Notebooks = None,
    jobs: Annotated[int | None, typer.Option(min=1, help="notebooks at once")] = None,
    models: Annotated[list[str] | None, typer.Option("--model", help="a further model")] = None,
    again: Annotated[bool, typer.Option("--again", help="also if up to date")] = False,
    listing: Annotated[bool, typer.Option("--list", help="list them, and run none")] = False,
) -> None:
    """Run the notebooks that are not up to date, with the profile's model or with further ones."""
    from publish import schedule  # noqa: PLC0415

    if listing:
        _list_chapters(schedule.select(notebooks or []))
        return
    status = 0
    for model in models or [""]:
        if model:
            _set("LLM_MODEL", model)
        status = max(status, schedule.run_stale(notebooks or [], jobs, again=again))
    raise typer.Exit(status)


def _list_chapters(names: Sequence[str]) -> None:
    """Print the number, the name and the title of notebooks, a line each."""
    from publish.chapters import heading  # noqa: PLC0415
    from resources.settings import NOTEBOOKS  # noqa: PLC0415

    width = max(map(len, names), default=0)
    for name in names:
        number = name.partition("_")[0]
        title = heading(NOTEBOOKS / f"{name}.ipynb")
        sys.stdout.write(f"{number}  {name:<{width}}  {title}\n")


@app.command()
def plan(
    notebooks: Notebooks = None,
    profile: Annotated[str, typer.Option(help="smoke, laptop or paper; default: PROFILE")] = "",
    model: Annotated[str, typer.Option(help="that answers in place of the profile's")] = "",
    price_in: Annotated[float, typer.Option(min=0, help="of a million tokens of prompts")] = 0.0,
    price_out: Annotated[float, typer.Option(min=0, help="of a million tokens of answers")] = 0.0,
    gpu_rate: Annotated[float, typer.Option(min=1, help="tokens a second of one GPU")] = 2500.0,
) -> None:
    """Say what a profile would ask and train, and what that costs.

    It runs each notebook without asking a model, which takes a minute or more a notebook: name some
    to be faster.
    """
    from rich.console import Console  # noqa: PLC0415

    from publish import plan as plan_module  # noqa: PLC0415
    from resources.settings import settings  # noqa: PLC0415

    planned = plan_module.plan(notebooks or [], profile or settings().profile, model)
    prices = plan_module.Prices(price_in, price_out, gpu_rate)
    width = None if sys.stdout.isatty() else plan_module.WIDTH
    plan_module.show(planned, prices, Console(width=width))


def _set(name: str, value: str) -> None:
    """Change a setting of this process and of those that it starts."""
    from resources.settings import settings  # noqa: PLC0415

    os.environ[name] = value
    settings.cache_clear()


@app.command()
def record(notebooks: Notebooks = None) -> None:
    """Run notebooks and record their replies in data/requests, for runs without a model."""
    from evaluation import recording  # noqa: PLC0415
    from publish import schedule  # noqa: PLC0415
    from resources.settings import settings  # noqa: PLC0415

    if settings().answers != "fresh":
        _set("ANSWERS", "stored")
    status = schedule.run_stale(notebooks or [])
    raise typer.Exit(max(status, recording.main()))


@app.command()
def book(
    again: Annotated[bool, typer.Option("--again", help="also if nothing changed")] = False,
) -> None:
    """Build the book from the runs, or from the reference where there is none."""
    _build_book(again)


@app.command()
def reproduce() -> None:
    """Run the notebooks that are not up to date, then build the book, also if one failed."""
    from publish import schedule  # noqa: PLC0415

    status = schedule.run_stale([])
    _build_book()
    raise typer.Exit(status)


def _build_book(again: bool = False) -> None:
    from publish import freshness  # noqa: PLC0415

    if again or freshness.book_is_stale():
        from publish import book as built_book  # noqa: PLC0415  # and Jupyter Book

        inputs = freshness.book_inputs()
        built_book.build()
        freshness.note(freshness.BOOK_NOTE, inputs)
    sys.stdout.write(
        f"The book is in {freshness.BOOK}: open it in a browser, or serve it: make serve\n"
    )


@app.command()
def serve(
    port: Annotated[str, typer.Option(help="of http://127.0.0.1")] = "8000",
) -> None:
    """Build the book if it is not up to date, and serve it."""
    from publish import serving  # noqa: PLC0415

    number = serving.parse_port(port)
    _build_book()
    serving.serve(number)


@app.command()
def doctor() -> None:
    """Say what will be used and why, what is missing, and what to do."""
    from publish import doctor as doctor_module  # noqa: PLC0415

    raise typer.Exit(doctor_module.main([]))


@app.command()
def data(
    names: Annotated[list[str] | None, typer.Argument(help="default: all")] = None,
    fetch: Annotated[bool, typer.Option("--fetch", help="fetch what is missing")] = False,
    notebook: Annotated[str, typer.Option("--for", help="what this notebook reads")] = "",
) -> None:
    """List data and models with source and licence, or fetch and verify them."""
    from resources import datasets  # noqa: PLC0415

    arguments = list(names or [])
    arguments += ["--fetch"] if fetch else []
    arguments += ["--for", notebook] if notebook else []
    raise typer.Exit(datasets.main(arguments))


@app.command()
def answers(
    notebook: Notebook,
    arm: Annotated[str, typer.Option(help="part of its name")] = "",
    unit: Annotated[str, typer.Option(help="part of its name")] = "",
) -> None:
    """Show what was asked, retrieved and answered."""
    from evaluation import show  # noqa: PLC0415
    from publish import schedule  # noqa: PLC0415

    schedule.select([notebook])
    raise typer.Exit(show.main([notebook, "--arm", arm, "--unit", unit]))


@app.command()
def compare(
    notebook: Notebook,
    models: Annotated[list[str] | None, typer.Argument(help="two models")] = None,
    measure: Annotated[str, typer.Option(help="for example f1")] = "",
) -> None:
    """Show where two models differ."""
    from evaluation import compare as comparison  # noqa: PLC0415
    from publish import schedule  # noqa: PLC0415

    schedule.select([notebook])
    options = ["--models", *models] if models else []
    raise typer.Exit(comparison.main([notebook, *options, "--measure", measure]))


@app.command()
def audit(
    table: Annotated[Path, typer.Argument(help=AUDITED)],
) -> None:
    """Check a table of answers for ways in which its scores mislead."""
    from evaluation import audit as audit_module  # noqa: PLC0415

    raise typer.Exit(audit_module.main([str(table)]))


@app.command()
def scoreboard(
    paper: Annotated[str, typer.Argument(help="default: a summary of all papers")] = "",
    verdict: Annotated[str, typer.Option(help="only claims with it, for example differs")] = "",
    check: Annotated[bool, typer.Option("--check", help="fail if a number moved")] = False,
) -> None:
    """Show printed, rescored and rerun numbers and the verdicts on claims."""
    from publish import scoreboard as board  # noqa: PLC0415

    arguments = ["--paper", paper] if paper else []
    arguments += ["--verdict", verdict] if verdict else []
    arguments += ["--check"] if check else []
    raise typer.Exit(board.main(arguments))


@app.command()
def reference(
    changed: Annotated[
        list[str] | None, typer.Option(help="a notebook whose prompts changed on purpose")
    ] = None,
) -> None:
    """Keep this machine's run as the reference that a fresh clone shows."""
    from evaluation import reference as reference_module  # noqa: PLC0415
    from publish import book as built_book  # noqa: PLC0415
    from resources.settings import ROOT, settings  # noqa: PLC0415

    if changed:
        os.environ["CHANGED"] = " ".join(changed)
    status = reference_module.keep_reference(settings().profile)
    picture = ROOT / "book" / "reference" / "scoreboard.svg"
    picture_status = built_book.main(["picture", str(picture)])
    raise typer.Exit(max(status, picture_status))


@app.command("new-experiment")
def new_experiment(
    name: Annotated[str, typer.Argument(help="for example first_try")],
    paper: Annotated[str, typer.Argument(help="for example my_paper")],
) -> None:
    """Begin a notebook of your own."""
    from publish import new_experiment as experiments  # noqa: PLC0415

    raise typer.Exit(experiments.main(["--name", name, "--paper", paper]))


@requests_app.command("export")
def export_requests(file: Annotated[Path, typer.Argument(help="a new Parquet file")]) -> None:
    """Write the stored requests to a file."""
    from helpers import requests  # noqa: PLC0415

    raise typer.Exit(requests.main(["export", str(file)]))


@requests_app.command("import")
def import_requests(files: Files) -> None:
    """Take in the stored requests of other machines."""
    from helpers import requests  # noqa: PLC0415

    raise typer.Exit(requests.main(["import", *map(str, files)]))


@batch_app.command("export")
def export_batch(notebooks: Notebooks = None) -> None:
    """Write the requests that are not stored as batch files, for the model of LLM_MODEL."""
    from helpers import batch  # noqa: PLC0415
    from publish import schedule  # noqa: PLC0415
    from resources.settings import BUILD  # noqa: PLC0415

    (BUILD / "batch" / "pending.jsonl").unlink(missing_ok=True)
    _set("ANSWERS", "collect")
    # a notebook ends where it needs the replies to the requests that it has noted
    schedule.run_stale(notebooks or [])
    raise typer.Exit(batch.main(["export"]))


@batch_app.command("import")
def import_batch(files: Files) -> None:
    """Store the replies of a batch."""
    from helpers import batch  # noqa: PLC0415

    raise typer.Exit(batch.main(["import", *map(str, files)]))


@export_app.command("trec")
def export_trec(notebook: Notebook) -> None:
    """Write the rankings of a notebook as TREC run and qrels files."""
    from evaluation import trec  # noqa: PLC0415

    raise typer.Exit(trec.main([notebook]))


@export_app.command("harness")
def export_harness() -> None:
    """Write the closed book of 01 as a task of lm-evaluation-harness."""
    from papers.side_effects import harness  # noqa: PLC0415

    raise typer.Exit(harness.main())


@export_app.command("neo4j")
def export_neo4j(folder: Annotated[Path, typer.Argument(help="where the files go")]) -> None:
    """Write the graph that is loaded as files for neo4j-admin's import."""
    from helpers import graph_files  # noqa: PLC0415

    raise typer.Exit(graph_files.main([str(folder)]))


@servers_app.command("start")
def start_servers(service: Service = "all") -> None:
    """Start embedded servers, and keep them until they are stopped."""
    _servers("start", service)


@servers_app.command("stop")
def stop_servers(service: Service = "all") -> None:
    """Stop embedded servers."""
    _servers("stop", service)


@servers_app.command("status")
def server_status() -> None:
    """List the embedded servers that run."""
    _servers("status", "all")


def _servers(command: str, service: str) -> None:
    from resources import services  # noqa: PLC0415

    raise typer.Exit(services.main([command, service]))


@app.command("settings")
def show_settings(
    names: Annotated[
        list[str] | None, typer.Argument(help="default: PROFILE and LLM_MODEL")
    ] = None,
) -> None:
    """Print settings as the notebooks get them, a line each; never a secret."""
    from resources.settings import hide_secrets, settings  # noqa: PLC0415

    values = settings().model_dump()
    for name in names or ["PROFILE", "LLM_MODEL"]:
        if name.lower() not in values:
            known = ", ".join(sorted(values)).upper()
            raise typer.BadParameter(f"there is no setting {name!r}. There are: {known}")
        value = values[name.lower()]
        text = "" if value is None else str(value)
        sys.stdout.write(f"{hide_secrets(text)}\n")


def main() -> None:
    """Run the command line."""
    sys.exit(run_command_line(app))
