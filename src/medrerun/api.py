"""medrerun api: the systems over HTTP, with a page to ask them."""

import secrets
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from resources.network import is_loopback
from resources.settings import PublicError

if TYPE_CHECKING:
    from medrerun.http_api import Served

TOKEN_BYTES = 24


class ApiError(PublicError, ValueError):
    """The interface cannot be started as asked."""


def api(  # options of a command
    host: Annotated[str, typer.Option(help="address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="port to listen on")] = 8008,
    table: Annotated[
        Path | None, typer.Option(help="side effects: your own CSV, TSV or Excel file")
    ] = None,
    guidance: Annotated[
        Path | None, typer.Option(help="a folder of documents: adds the system guidance")
    ] = None,
    interactions: Annotated[
        bool, typer.Option("--interactions", help="adds the system interactions")
    ] = False,
    token: Annotated[
        bool, typer.Option("--token/--no-token", help="whether a question needs the token")
    ] = True,
) -> None:
    """Serve the systems over HTTP: side effects, and others by option; with a page and OpenAPI."""
    is_local = is_loopback(f"http://{host}")
    if not token and not is_local:
        raise ApiError(f"Without a token, only this machine may ask; --host is {host}.")
    try:
        import uvicorn  # noqa: PLC0415  # an extra of the package

        from medrerun.http_api import make_app  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ApiError(
            f"The package {error.name} is needed for this command: run `make setup`, or install "
            "the extra serve."
        ) from None
    secret = secrets.token_urlsafe(TOKEN_BYTES) if token else ""
    with ExitStack() as stack:
        systems = _open_systems(stack, table, guidance, interactions=interactions)
        hosts = ("localhost", "127.0.0.1", "[::1]") if is_local else ("*",)
        app = make_app(systems, secret, hosts)
        link = f"http://{host}:{port}/"
        sys.stderr.write(f"Ask at {link}{'#' if secret else ''}{secret}\n")
        if secret:
            sys.stderr.write("The link has the token, which is shown only here.\n")
        uvicorn.run(app, host=host, port=port, log_level="warning", server_header=False)


def _open_systems(
    stack: ExitStack, table: Path | None, guidance: Path | None, *, interactions: bool
) -> dict[str, "Served"]:
    """Open what the options name; each system is closed with the stack."""
    from medrerun.http_api import ANSWER_SECONDS, MODEL_SECONDS, Served  # noqa: PLC0415
    from papers.side_effects import system as side_effects  # noqa: PLC0415  # takes seconds

    opened = stack.enter_context(side_effects.open_system(table or ""))
    seconds = ANSWER_SECONDS if opened.reader.llm is None else MODEL_SECONDS
    systems = {"side-effects": Served(opened, seconds)}
    if interactions:
        from papers.drug_interactions import system as drug_interactions  # noqa: PLC0415

        systems["interactions"] = Served(stack.enter_context(drug_interactions.open_book()))
    if guidance is not None:
        from papers.qa_rag import system as qa_rag  # noqa: PLC0415

        systems["guidance"] = Served(qa_rag.open_guidance(guidance))
    return systems
