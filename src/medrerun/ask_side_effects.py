"""medrerun ask side-effects: yes or no, which drugs, classes, frequencies, organs, comparisons."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer


def ask_side_effects(  # noqa: PLR0913, PLR0917  # options of a command
    question: Annotated[str, typer.Argument(help='such as "Which drugs cause tinnitus?"')],
    table: Annotated[
        Path | None, typer.Option(help="your own CSV, TSV or Excel file; default: SIDER 4.1")
    ] = None,
    drug_column: Annotated[str, typer.Option(help="its column of drugs; else by name")] = "",
    effect_column: Annotated[str, typer.Option(help="its column of effects; else by name")] = "",
    frequency_column: Annotated[str, typer.Option(help="of frequencies; else by name")] = "",
    class_column: Annotated[str, typer.Option(help="of drug classes; else by name")] = "",
    organ_column: Annotated[str, typer.Option(help="of organ classes; else by name")] = "",
    separator: Annotated[
        str, typer.Option(help="of several effects in a cell, such as ','; ';' and '|' always are")
    ] = "",
    llm: Annotated[
        bool, typer.Option("--llm", help="start the embedded model if none is available")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="all evidence, as JSON")] = False,
) -> None:
    """Ask which side effects are listed for which drugs, in SIDER or in your own table."""
    from medrerun.model_cost import say_model_cost  # noqa: PLC0415
    from papers.side_effects import system  # noqa: PLC0415  # takes seconds
    from papers.side_effects.own_table import Layout  # noqa: PLC0415

    if llm:
        say_model_cost()
    layout = Layout(
        drug=drug_column,
        effect=effect_column,
        frequency=frequency_column,
        drug_class=class_column,
        organ=organ_column,
        separator=separator,
    )
    with system.open_system(table or "", layout=layout, start_llm=llm) as side_effects:
        answer = side_effects.ask(question)
    text = json.dumps(answer.as_dict(), indent=1) if as_json else str(answer)
    sys.stdout.write(f"{text}\n")
    raise typer.Exit(0 if answer.answered else 1)
