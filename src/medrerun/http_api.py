"""The systems over HTTP (side_effects.md, "a lightweight REST API layer").

Each system is a route that calls its `ask`. Nothing is cached: every request asks the engines.
"""

import hmac
import json
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final

import anyio
import anyio.to_thread
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import HTMLResponse, JSONResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException as StarletteHTTPException
from starlette.middleware.trustedhost import TrustedHostMiddleware

from helpers.graph import GraphError
from helpers.llm import LlmError
from rag.system_answer import System, SystemAnswer
from resources.services import ServiceError
from resources.settings import PublicError

log = logging.getLogger(__name__)

MAX_BODY_BYTES: Final = 16_384
MAX_QUESTION_CHARACTERS: Final = 2_000
ANSWER_SECONDS: Final = 15.0
"""Seconds after which a system is given up that asks the graph alone."""
MODEL_SECONDS: Final = 300.0
"""The same for a system whose language model may run on a CPU."""
PAGE: Final = Path(__file__).with_name("api_page.html")
SECURITY_HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "form-action 'none'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
ENGINE_DOWN: Final = (GraphError, ServiceError, LlmError)
"""Errors of an engine that cannot be used."""


class Query(BaseModel):
    """A question in words."""

    question: str = Field(min_length=1, max_length=MAX_QUESTION_CHARACTERS)


class EvidenceBody(BaseModel):
    """A row or an excerpt that an answer rests on."""

    text: str
    source: str
    values: dict[str, Any]


class AnswerBody(BaseModel):
    """An answer with all that it rests on; `answered` is false if the system asks back."""

    question: str
    text: str
    answered: bool
    evidence: list[EvidenceBody]
    citations: list[str]
    statement: str
    parameters: dict[str, Any]
    warnings: list[str]
    notes: list[str]
    details: dict[str, Any]


class ErrorBody(BaseModel):
    """What is wrong, in one line."""

    error: str


ERRORS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"model": ErrorBody} for status in (400, 401, 404, 413, 422, 503)
}


@dataclass(frozen=True)
class Served:
    """A system with the seconds that an answer of it may take."""

    system: System
    seconds: float = MODEL_SECONDS


def make_app(
    systems: Mapping[str, Served], token: str = "", hosts: tuple[str, ...] = ("127.0.0.1",)
) -> FastAPI:
    """Make the application.

    Args:
        systems: The systems by the name of their route.
        token: What each question must carry; empty if none is needed.
        hosts: Names by which the server may be addressed.
    """
    app = FastAPI(title="Medical RAG, rerun", docs_url=None, redoc_url=None)
    app.add_middleware(TrustedHostMiddleware, allowed_hosts=list(hosts))
    app.middleware("http")(_add_headers)
    app.add_middleware(BodyLimit)
    app.add_exception_handler(StarletteHTTPException, _http_error)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    _add_pages(app, systems)
    check_token = _token_check(token)
    for name, served in systems.items():
        _add_route(app, name, served, check_token)
    return app


def _add_pages(app: FastAPI, systems: Mapping[str, Served]) -> None:
    page = PAGE.read_text(encoding="utf-8")

    @app.get("/", include_in_schema=False)
    def show_page() -> HTMLResponse:
        return HTMLResponse(page)

    for name, media_type in (("api_page.js", "text/javascript"), ("api_page.css", "text/css")):
        _add_file(app, name, media_type)

    @app.get("/systems", summary="The systems that can be asked")
    def list_systems() -> list[str]:
        return list(systems)


def _add_file(app: FastAPI, name: str, media_type: str) -> None:
    content = PAGE.with_name(name).read_text(encoding="utf-8")

    @app.get(f"/{name}", include_in_schema=False)
    def send_file() -> Response:
        return Response(content, media_type=media_type)


TokenCheck = Callable[..., None]


def _token_check(token: str) -> TokenCheck:
    """Return a check of the token in the header ``Authorization: Bearer ...``."""
    scheme = HTTPBearer(auto_error=False)

    def check(credentials: Annotated[HTTPAuthorizationCredentials | None, Depends(scheme)]) -> None:
        received = credentials.credentials if credentials else ""
        if token and not hmac.compare_digest(received.encode(), token.encode()):
            raise HTTPException(
                401,
                "The token is missing or wrong: send the one that the server printed, as "
                "Authorization: Bearer TOKEN.",
                headers={"WWW-Authenticate": "Bearer"},
            )

    return check


def _add_route(app: FastAPI, name: str, served: Served, check_token: TokenCheck) -> None:
    @app.post(
        f"/ask/{name}",
        summary=f"Ask the system {name}",
        response_model=AnswerBody,
        responses=ERRORS,
        dependencies=[Depends(check_token)],
    )
    async def ask(query: Query) -> Response:
        if not query.question.strip():
            raise HTTPException(422, "The question is empty.")
        answer = await _ask(served, query.question)
        return Response(json.dumps(answer.as_dict()), media_type="application/json")


async def _ask(served: Served, question: str) -> SystemAnswer:
    """Ask a system in a thread of its own, for as long as an answer may take.

    Raises:
        HTTPException: An engine is down or does not answer, or the question cannot be asked.
    """
    try:
        with anyio.fail_after(served.seconds):
            ask = served.system.ask
            return await anyio.to_thread.run_sync(ask, question, abandon_on_cancel=True)
    except TimeoutError:
        raise HTTPException(503, f"No engine answered within {served.seconds:.0f} s.") from None
    except ENGINE_DOWN as error:
        raise HTTPException(503, _one_line(str(error))) from None
    except PublicError as error:
        raise HTTPException(400, _one_line(str(error))) from None


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _error(status: int, message: str, headers: Mapping[str, str] | None = None) -> JSONResponse:
    return JSONResponse({"error": _one_line(message)}, status, headers)


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, StarletteHTTPException)
    return _error(error.status_code, str(error.detail), error.headers)


async def _invalid_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    place = ".".join(map(str, first["loc"]))
    return _error(
        422,
        f'A body such as {{"question": "Which drugs cause tinnitus?"}} is needed; {place}: '
        f"{first['msg']}.",
    )


async def _add_headers(
    request: Request, call_next: Callable[[Request], Awaitable[Response]]
) -> Response:
    response = await call_next(request)
    response.headers.update(SECURITY_HEADERS)
    return response


class BodyLimit:
    """Refuses a body of more than `MAX_BODY_BYTES`, whatever its header says."""

    def __init__(self, app: Any) -> None:  # noqa: ANN401  # an ASGI application
        """Wrap an application."""
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  # ASGI
        """Read the body before the application does."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        body = b""
        is_complete = False
        while not is_complete and len(body) <= MAX_BODY_BYTES:
            message = await receive()
            body += message.get("body", b"")
            is_complete = not message.get("more_body", False)
        if len(body) > MAX_BODY_BYTES:
            refusal = _error(413, f"The body has more than {MAX_BODY_BYTES:,} bytes.")
            await refusal(scope, receive, send)
            return

        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def replay() -> Any:  # noqa: ANN401  # ASGI
            return messages.pop() if messages else await receive()

        await self.app(scope, replay, send)
