"""`medrerun ask guidance`: questions to a folder of documents, by the system of QA-RAG."""

import json
import logging
import sys
from pathlib import Path
from typing import Annotated, cast, get_args

import typer

FOLDER = "folder of documents: .pdf, .docx, .html, .md, .txt"
TUNED = "a served model that is fine-tuned on questions and answers"
PAIRS = "own questions and answers (.csv, .xlsx, .jsonl): a small model is fine-tuned on them"
SEARCH = "start of passages (as in the paper), windows, or words (BM25)"
RERANKER = "agent, or a cross-encoder such as BAAI/bge-reranker-large; default: the encoder"


def guidance(  # noqa: PLR0913, PLR0917  # options of a command
    folder: Annotated[Path, typer.Argument(help=FOLDER)],
    questions: Annotated[list[str], typer.Argument(help="one or more, in quotes")],
    tuned: Annotated[str, typer.Option(help=TUNED)] = "",
    pairs: Annotated[Path | None, typer.Option(help=PAIRS)] = None,
    reranker: Annotated[str, typer.Option(help=RERANKER)] = "",
    encoder: Annotated[str, typer.Option(help="of passages")] = "all-MiniLM-L6-v2",
    search: Annotated[str, typer.Option(help=SEARCH)] = "start",
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Ask a folder of documents; the answer cites file and page (QA-RAG)."""
    from medrerun.model_cost import say_model_cost  # noqa: PLC0415
    from papers.qa_rag import system  # noqa: PLC0415
    from papers.qa_rag.search import Search  # noqa: PLC0415

    logging.basicConfig(format="%(message)s")
    logging.getLogger("papers").setLevel(logging.INFO)
    if search not in get_args(Search):
        raise typer.BadParameter(f"--search is one of {', '.join(get_args(Search))}.")
    options = system.Options(
        tuned=tuned,
        pairs=pairs,
        reranker=reranker,
        encoder=encoder,
        search=cast(Search, search),
    )
    opened = system.open_guidance(folder, options)
    say_model_cost()
    answers = opened.answer(questions)
    if as_json:
        rows = [answer.as_dict() for answer in answers]
        sys.stdout.write(f"{json.dumps(rows, indent=1)}\n")
    else:
        for answer in answers:
            sys.stdout.write(f"\n{answer.question}\n\n{answer}\n")
    is_answered = all(answer.answered for answer in answers)
    raise typer.Exit(0 if is_answered else 1)
