"""The systems over HTTP: who may ask, which bodies are refused, and what an engine that is down gives."""

from __future__ import annotations

import inspect
import logging
import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest
import uvicorn
from playwright.sync_api import Browser
from starlette.testclient import TestClient
from test_graph import graph_server

from helpers import graph
from helpers.graph import GraphError
from medrerun import http_api
from medrerun.api import ApiError, api, open_systems
from papers.biomedrag.system import Extractor
from papers.clinical_notes.system import Notes
from papers.drug_interactions.system import Interactions
from papers.qa_rag.system import Guidance
from papers.side_effects import system as side_effects
from papers.side_effects.catalogue import read_sider
from papers.side_effects.reading import Reader
from papers.side_effects.system import SideEffects
from rag.system_answer import Evidence, SystemAnswer
from resources.services import free_port

TOKEN = "a-secret-that-nobody-logs"
QUESTION = {"question": "Which drugs cause nausea?"}
SIGNED = {"Authorization": f"Bearer {TOKEN}"}


@dataclass
class Echo:
    """A system that answers with the question, or fails."""

    error: Exception | None = None

    def ask(self, question: str) -> SystemAnswer:
        if self.error:
            raise self.error
        return SystemAnswer(question, question, evidence=(Evidence("row", "file, row 2"),))


def client(error: Exception | None = None, token: str = TOKEN) -> TestClient:
    app = http_api.make_app({"echo": http_api.Served(Echo(error))}, token, ("testserver",))
    return TestClient(app, raise_server_exceptions=False)


def test_a_question_is_answered_with_its_evidence() -> None:
    response = client().post("/ask/echo", json=QUESTION, headers=SIGNED)
    assert response.status_code == 200
    answer = http_api.AnswerBody.model_validate(response.json())
    assert answer.text == QUESTION["question"]
    assert answer.evidence[0].source == "file, row 2"


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": "Bearer "},
        {"Authorization": "Bearer wrong"},
        {"Authorization": f"Bearer {TOKEN}x"},
        {"Authorization": f"Basic {TOKEN}"},
    ],
)
def test_without_the_token_nothing_is_answered(
    headers: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        response = client().post("/ask/echo", json=QUESTION, headers=headers)
        by_address = client().post(f"/ask/echo?token={TOKEN}", json=QUESTION)
    assert response.status_code == by_address.status_code == 401
    assert list(response.json()) == ["error"]
    assert TOKEN not in caplog.text.replace(f"token={TOKEN}", "")


def test_without_a_token_on_ones_own_machine_all_are_answered() -> None:
    assert client(token="").post("/ask/echo", json=QUESTION).status_code == 200
    with pytest.raises(ApiError, match="only this machine may ask"):
        api(host="0.0.0.0", token=False)


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b"", 422),
        (b"{}", 422),
        (b"not json", 422),
        (b'{"question": ""}', 422),
        (b'{"question": "  "}', 422),
        (b'{"question": 1}', 422),
        (b'{"question": "' + b"x" * 2001 + b'"}', 422),
        (b'{"question": "' + b"x" * 20_000 + b'"}', 413),
        (b"[" * 10_000, 400),
    ],
)
def test_a_body_that_is_no_question_is_refused_in_a_line(body: bytes, status: int) -> None:
    headers = SIGNED | {"Content-Type": "application/json"}
    response = client().post("/ask/echo", content=body, headers=headers)
    assert response.status_code == status
    message = response.json()["error"]
    assert message
    assert "\n" not in message
    assert len(message) < 300


def test_a_body_without_a_length_is_limited_too() -> None:
    def parts() -> Iterator[bytes]:
        for _ in range(100):
            yield b" " * 1000

    response = client().post("/ask/echo", content=parts(), headers=SIGNED)
    assert response.status_code == 413


def test_a_form_of_another_site_is_refused() -> None:
    text = {"Content-Type": "text/plain"}
    response = client(token="").post("/ask/echo", content=b'{"question": "x"}', headers=text)
    assert response.status_code == 422
    rebound = client(token="").post("/ask/echo", json=QUESTION, headers={"Host": "evil.example"})
    assert rebound.status_code == 400


def test_an_engine_that_is_down_gives_503_in_a_line() -> None:
    response = client(GraphError("The graph\nis down.")).post(
        "/ask/echo", json=QUESTION, headers=SIGNED
    )
    assert response.status_code == 503
    assert response.json() == {"error": "The graph is down."}


def test_another_system_or_method_is_not_there() -> None:
    assert client().post("/ask/other", json=QUESTION, headers=SIGNED).status_code == 404
    assert client().get("/ask/echo", headers=SIGNED).status_code == 405


def test_the_page_loads_nothing_from_elsewhere_and_its_files_are_there() -> None:
    requester = client()
    page = requester.get("/")
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert not re.search(r"https?://", page.text)
    linked = re.findall(r'(?:href|src)="([^"]+)"', page.text)
    assert linked
    for name in linked:
        response = requester.get(f"/{name}")
        assert response.status_code == 200, name
        assert not re.search(r"https?://(?!127)", response.text) or name == "openapi.json"


def test_the_interface_describes_itself() -> None:
    schema = client().get("/openapi.json").json()
    responses = schema["paths"]["/ask/echo"]["post"]["responses"]
    assert {"200", "401", "413", "422", "503"} <= set(responses)
    assert client().get("/systems").json() == ["echo"]


@pytest.mark.engine
def test_the_first_papers_system_is_asked_over_http_until_its_graph_is_down(
    tmp_path: Path,
) -> None:
    catalogue = read_sider("sample")
    with graph_server(tmp_path) as endpoint:
        connection = graph.connect(endpoint)
        side_effects.load_catalogue(connection, catalogue)
        reader = Reader(catalogue.facts.vocabulary)
        system = side_effects.SideEffects(catalogue, connection, reader)
        served = {"side-effects": http_api.Served(system, seconds=5.0)}
        requester = TestClient(http_api.make_app(served, "", ("testserver",)))
        answer = requester.post("/ask/side-effects", json=QUESTION).json()
        assert "metformin" in answer["details"]["names"]
        assert answer["statement"].startswith("MATCH")
    if not endpoint.embedded:
        return  # a server of one's own keeps running
    response = requester.post("/ask/side-effects", json=QUESTION)
    assert response.status_code == 503
    assert "\n" not in response.json()["error"]


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing=x", "no system 'nothing'. There are: side-effects, interactions"),
        ("guidance", "--with guidance=FOLDER"),
        ("notes=", "--with notes=FOLDER"),
    ],
)
def test_a_system_that_cannot_be_opened_says_what_it_needs(name: str, message: str) -> None:
    with ExitStack() as stack, pytest.raises(ApiError, match=re.escape(message)):
        open_systems(stack, [name])


def test_each_of_the_five_systems_can_be_asked_a_question() -> None:
    for kind in (SideEffects, Interactions, Guidance, Notes, Extractor):
        parameters = [
            parameter.name
            for parameter in inspect.signature(kind.ask).parameters.values()
            if parameter.default is parameter.empty
        ]
        assert parameters == ["self", "question"], kind


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Where the page is served, with the token behind the address."""
    app = http_api.make_app({"echo": http_api.Served(Echo())}, TOKEN, ("127.0.0.1",))
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.05)
    yield f"http://127.0.0.1:{port}/#{TOKEN}"
    server.should_exit = True
    thread.join(10)


@pytest.mark.book
def test_the_page_asks_with_the_token_of_the_link_and_shows_the_answer_as_text(
    browser: Browser, address: str
) -> None:
    page = browser.new_page()
    problems: list[str] = []
    page.on("console", lambda message: problems.append(message.text))
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.goto(address)
    page.wait_for_selector("#system option", state="attached")
    page.fill("#question", "<img src=x onerror=alert(1)>")
    page.click("button")
    page.wait_for_selector("#answer .text")
    text = page.inner_text("#answer")
    assert "<img src=x onerror=alert(1)>" in text
    assert "file, row 2" in text
    assert TOKEN not in page.url
    assert problems == []
    page.fill("#token", "wrong")
    page.click("button")
    page.wait_for_selector("#answer .error")
    assert "token is missing or wrong" in page.inner_text("#answer")
    page.close()
