"""`medrerun ask interactions`: drug interactions and side effects, from own text or the book's."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from papers.drug_interactions.own_text import OwnFolder
    from papers.drug_interactions.system import Conversation, Interactions

HELP = "Ask on; an empty line ends, the word new begins another conversation."


def interactions(
    question: Annotated[str, typer.Argument(help="in English; without one, a conversation")] = "",
    text: Annotated[
        Path | None, typer.Option(help="folder of own text: txt, md, html, pdf, docx")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="use the graph without a question")] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="remove the folder's graph and questions")
    ] = False,
) -> None:
    """Ask a graph of drug interactions: the book's, or one made of your own text.

    Own text becomes a graph, which is shown before it is used. The answer comes with its facts,
    the sentences that state them, and the Cypher statement.
    """
    from medrerun.model_cost import say_model_cost  # noqa: PLC0415
    from papers.drug_interactions import system  # noqa: PLC0415

    if forget:
        if text is None:
            raise typer.BadParameter("--forget needs --text FOLDER, the folder to forget.")
        system.forget(text)
        sys.stdout.write(f"Nothing about {text} is kept any more.\n")
        return
    say_model_cost()
    with _open(text, yes) as opened:
        chat = system.Conversation(opened)
        if question:
            _answer(chat, question)
        if not question or sys.stdin.isatty():
            _converse(chat)


def _open(text: Path | None, yes: bool) -> Interactions:
    from papers.drug_interactions import system  # noqa: PLC0415
    from papers.drug_interactions.own_text import OwnFolder  # noqa: PLC0415

    if text is None:
        sys.stderr.write("The book's graph: the DDI corpus and ADE-Corpus-V2. Own text: --text.\n")
        return system.open_book()
    folder = OwnFolder.read(text)
    is_new = bool(folder.pending)
    sys.stderr.write(f"{folder.estimate()}\n")
    _show(folder)
    if is_new and not yes and sys.stdin.isatty():
        typer.confirm("Use this graph?", default=True, abort=True)
    return system.open_text(folder)


def _show(folder: OwnFolder) -> None:
    """Make the graph, and show it."""
    from papers.drug_interactions import own_text  # noqa: PLC0415

    own = own_text.ingest(folder)
    page = folder.home / "graph.html"
    sys.stderr.write(f"{own.summary()}\nAll of it, with the sentences: {page}\n\n")


def _answer(chat: Conversation, question: str) -> None:
    sys.stdout.write(f"{chat.ask(question)}\n\n")


def _converse(chat: Conversation) -> None:
    """Answer questions until an empty line or the end of the input."""
    if sys.stdin.isatty():
        sys.stderr.write(f"{HELP}\n")
    while question := _next_question():
        if question == "new":
            chat.turns.clear()
            continue
        _answer(chat, question)


def _next_question() -> str:
    try:
        return input("> " if sys.stdin.isatty() else "").strip()
    except EOFError:
        return ""
