"""medrerun api: the systems over HTTP, with a page to ask them."""

import secrets
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from resources.network import is_loopback
from resources.settings import PublicError

if TYPE_CHECKING:
    from medrerun.http_api import Served

TOKEN_BYTES = 24
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")


class ApiError(PublicError, ValueError):
    """The interface cannot be started as asked."""


def api(
    host: Annotated[str, typer.Option(help="address to listen on")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="port to listen on")] = 8008,
    table: Annotated[
        str, typer.Option(help="side effects: your own CSV, TSV or Excel file; default: SIDER")
    ] = "",
    more: Annotated[
        list[str] | None,
        typer.Option(
            "--with",
            help="a further system: interactions, interactions=FOLDER, guidance=FOLDER, "
            "notes=FOLDER, or extract=NAME; can be repeated",
        ),
    ] = None,
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
        systems = open_systems(stack, [f"side-effects={table}", *(more or [])])
        app = make_app(systems, secret, LOCAL_NAMES if is_local else ("*",))
        mark = "#" if secret else ""
        sys.stderr.write(f"Ask at http://{host}:{port}/{mark}{secret}\n")
        if secret:
            sys.stderr.write("The link has the token, which is shown only here.\n")
        uvicorn.run(app, host=host, port=port, log_level="warning", server_header=False)


def open_systems(stack: ExitStack, names: list[str]) -> dict[str, "Served"]:
    """Open systems by name, each with what it is about, such as ``notes=FOLDER``.

    Raises:
        ApiError: There is no such system, or it needs a folder.
    """
    systems = {}
    for text in names:
        name, _, about = text.partition("=")
        if name not in OPENERS:
            raise ApiError(f"There is no system {name!r}. There are: {', '.join(OPENERS)}.")
        systems[name] = OPENERS[name](stack, about)
    return systems


def _open_side_effects(stack: ExitStack, table: str) -> "Served":
    from medrerun.http_api import ANSWER_SECONDS, MODEL_SECONDS, Served  # noqa: PLC0415
    from papers.side_effects import system  # noqa: PLC0415  # takes seconds

    side_effects = stack.enter_context(system.open_system(table))
    seconds = ANSWER_SECONDS if side_effects.reader.llm is None else MODEL_SECONDS
    return Served(side_effects, seconds)


def _open_interactions(stack: ExitStack, folder: str) -> "Served":
    from medrerun.http_api import Served  # noqa: PLC0415
    from papers.drug_interactions import system  # noqa: PLC0415

    opened = system.open_text(Path(folder)) if folder else system.open_book()
    return Served(stack.enter_context(opened))


def _open_guidance(_: ExitStack, folder: str) -> "Served":
    from medrerun.http_api import Served  # noqa: PLC0415
    from papers.qa_rag import system  # noqa: PLC0415

    return Served(system.open_guidance(_folder(folder, "guidance")))


def _open_notes(_: ExitStack, folder: str) -> "Served":
    from medrerun.http_api import Served  # noqa: PLC0415
    from papers.clinical_notes import system  # noqa: PLC0415

    return Served(system.open_notes(_folder(folder, "notes")))


def _open_extract(_: ExitStack, name: str) -> "Served":
    from medrerun.http_api import Served  # noqa: PLC0415
    from papers.biomedrag import system  # noqa: PLC0415

    return Served(system.load(name))


def _folder(folder: str, name: str) -> Path:
    if not folder:
        raise ApiError(f"The system {name} needs a folder: --with {name}=FOLDER.")
    return Path(folder)


OPENERS: dict[str, Callable[[ExitStack, str], "Served"]] = {
    "side-effects": _open_side_effects,
    "interactions": _open_interactions,
    "guidance": _open_guidance,
    "notes": _open_notes,
    "extract": _open_extract,
}
"""Opens each system, with what it is about."""
