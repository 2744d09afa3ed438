"""Embedded servers: started once, shared, restarted, stopped; and errors of servers that the settings name."""

from __future__ import annotations

import json
import math
import os
import signal
import socket
import stat
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest
from conftest import SMALL_MODEL, still_running

from helpers.llm import LLM, ContextOverflowError
from publish import doctor
from resources import download, graph_engine, network, services, settings, supervisor
from resources.engines import Adapter
from resources.services import ServiceError

USE = """
import sys, time
from resources import services
endpoint = services.graph_endpoint()
print(endpoint.uri, flush=True)
time.sleep(float(sys.argv[1]))
"""


@pytest.fixture
def set_settings(monkeypatch):
    """Set settings for one test."""

    def use(**variables: str) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name.upper(), value)
        settings.settings.cache_clear()

    yield use
    monkeypatch.undo()
    settings.settings.cache_clear()


# ---------------------------------------------------------------------------------------- servers that settings name


def test_a_named_graph_without_password_says_what_to_set(set_settings):
    set_settings(neo4j_uri="bolt://localhost:7687")
    with pytest.raises(settings.SettingsError, match="NEO4J_PASSWORD is not"):
        services.graph_endpoint()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("neo4j_uri", "localhost:7687"),
        ("llm_base_url", "gpu:8000"),
        ("llm_base_url", "http://gpu:80000/v1"),
        ("llm_base_url", "http://[gpu]/v1"),
        ("llm_base_url", "http:///v1"),
        ("llm_engine", "ollama"),
    ],
)
def test_a_setting_that_cannot_be_used_is_named(set_settings, name, value):
    set_settings(**{name: value})
    with pytest.raises(settings.SettingsError, match=name.upper()):
        settings.settings()


def test_a_wrong_setting_never_shows_a_secret(set_settings):
    set_settings(neo4j_password="hunter2", profile="huge")
    with pytest.raises(settings.SettingsError) as error:
        settings.settings()
    assert "hunter2" not in str(error.value)


def test_an_llm_that_does_not_answer_is_named(set_settings):
    set_settings(llm_base_url="http://127.0.0.1:9/v1")
    with pytest.raises(
        ServiceError, match=r"127\.0\.0\.1:9/v1 cannot be reached .* unset LLM_BASE_URL"
    ):
        services.llm_endpoint("m")


def answering(body: object, status: int = 200) -> ThreadingHTTPServer:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self):
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *args):
            pass

    http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=http.serve_forever, daemon=True).start()
    return http


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ({"data": [{"id": "other"}]}, 200, "does not serve 'm'. It has: other"),
        ({"hello": "world"}, 200, "no list of models"),
        ({}, 401, "Set LLM_API_KEY"),
        ({}, 500, "HTTP 500"),
    ],
)
def test_an_llm_server_that_cannot_be_used_says_why(set_settings, body, status, message):
    http = answering(body, status)
    set_settings(llm_base_url=f"http://127.0.0.1:{http.server_port}/v1")
    with pytest.raises(ServiceError, match=message):
        services.llm_endpoint("m")
    http.shutdown()


def test_an_llm_server_without_an_adapter_says_how_to_serve_it(set_settings):
    http = answering({"data": [{"id": "m", "owned_by": "vllm"}, {"id": "here"}]})
    set_settings(llm_base_url=f"http://127.0.0.1:{http.server_port}/v1")
    present, absent = (Adapter(name, Path("/adapters") / name, "") for name in ("here", "missing"))
    assert services.llm_endpoint("m", adapters=[present]).model == "m"
    with pytest.raises(ServiceError, match="--lora-modules missing=/adapters/missing,"):
        services.llm_endpoint("m", adapters=[present, absent])
    http.shutdown()


def test_the_setting_llm_model_takes_the_place_of_the_profiles(set_settings):
    http = answering({"data": [{"id": "mine", "owned_by": "vllm", "max_model_len": 512}]})
    set_settings(llm_base_url=f"http://127.0.0.1:{http.server_port}/v1", llm_model="mine")
    endpoint = services.llm_endpoint("the profile's")
    assert (endpoint.model, endpoint.engine, endpoint.context) == ("mine", "vllm", 512)
    with pytest.raises(
        ServiceError, match=r"does not serve 'a second one'.* serve it there too"
    ) as error:
        services.llm_endpoint("a second one", exact=True)
    assert "Set LLM_MODEL" not in str(error.value)  # it would not be heard
    http.shutdown()


def test_a_server_says_how_many_requests_it_takes_at_once(set_settings):
    http = answering({"data": [{"id": "m", "owned_by": "llamacpp"}], "total_slots": 6})
    set_settings(llm_base_url=f"http://127.0.0.1:{http.server_port}/v1")
    assert services.llm_endpoint("m").concurrency == 6
    http.shutdown()


@pytest.fixture
def proxied(monkeypatch):
    """A proxy that is not there, for all hosts."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)


def test_no_proxy_is_asked_for_a_server_on_this_machine(set_settings, proxied):
    http = answering({"data": [{"id": "m", "owned_by": "vllm"}], "version": "1"})
    set_settings(llm_base_url=f"http://127.0.0.1:{http.server_port}/v1")
    assert services.llm_endpoint("m").version == "vllm 1"
    http.shutdown()


@pytest.mark.parametrize("proxy", ["socks5://127.0.0.1:9", "socks://127.0.0.1:9", "ftp://proxy"])
def test_a_proxy_of_another_kind_is_named_in_one_line(set_settings, proxied, monkeypatch, proxy):
    monkeypatch.setenv("ALL_PROXY", proxy)
    set_settings(llm_base_url="http://gpu.invalid/v1")
    download._client.cache_clear()
    for call in (
        lambda: services.llm_endpoint("m"),
        lambda: download.download("http://data.invalid/x", 1, "", Path("never written")),
    ):
        with pytest.raises(network.ProxyError, match=f"ALL_PROXY={proxy}.* unset it") as error:
            call()
        assert "\n" not in str(error.value)
    hints = {finding.part: finding.hint for finding in doctor.findings()}
    assert proxy in hints["proxy"]
    http = answering({"data": [{"id": "m", "owned_by": "vllm"}], "version": "1"})
    set_settings(llm_base_url=f"http://127.0.0.1:{http.server_port}/v1")
    assert services.llm_endpoint("m").version == "vllm 1"
    http.shutdown()


def test_a_server_that_accepts_and_says_nothing_is_given_up(set_settings, monkeypatch):
    monkeypatch.setattr(services, "ANSWER", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        set_settings(llm_base_url=f"http://127.0.0.1:{silent.getsockname()[1]}/v1")
        with pytest.raises(ServiceError, match="did not answer within 1 s"):
            services.llm_endpoint("m")


def test_no_network_is_told_within_5_s(set_settings):
    with socket.socket() as away:
        away.bind(("127.0.0.1", 0))
        away.listen(0)
        # once its queue is full, it answers like a machine that is not there
        queue = [socket.socket() for _ in range(3)]
        for connection in queue:
            connection.setblocking(False)
            connection.connect_ex(away.getsockname())
        url = f"http://127.0.0.1:{away.getsockname()[1]}/v1"
        set_settings(llm_base_url=url)
        began = time.monotonic()
        with pytest.raises(ServiceError, match="cannot be reached"):
            services.llm_endpoint("m")
        assert time.monotonic() - began < 40, "the system alone gives up after minutes"
        began = time.monotonic()
        with pytest.raises(download.SourceError, match="cannot be reached"):
            download.download(url, 1, "", Path("never written"))
        assert time.monotonic() - began < 40, "the system alone gives up after minutes"
        for connection in queue:
            connection.close()


@pytest.mark.parametrize(
    ("url", "is_local"),
    [
        ("http://127.0.0.1:8000/v1", True),
        ("http://localhost/v1", True),
        ("http://[::1]:8000/v1", True),
        ("http://127.0.0.2:8000/v1", True),
        ("http://10.0.0.1/v1", False),
        ("https://127.0.0.1.example.org/v1", False),
    ],
)
def test_what_lies_on_this_machine_is_told(url, is_local):
    assert network.is_loopback(url) is is_local


# ------------------------------------------------------------------------------------------------- embedded: the graph


def state(project: Path, name: str) -> Path:
    return project / "_build" / "services" / "graph" / name


def wait_for(condition, seconds: float = 120) -> bool:
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.1)
    return bool(condition())


@pytest.mark.engine
def test_two_processes_share_one_server_and_stop_ends_it(project, run_in):
    results = []
    threads = [
        threading.Thread(target=lambda: results.append(run_in(sys.executable, "-c", USE, "0")))
        for _ in range(2)
    ]
    assert run_in(sys.executable, "-m", "resources.services", "start", "graph").returncode == 0
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [r.returncode for r in results] == [0, 0], results
    assert results[0].stdout == results[1].stdout
    pids = json.loads(state(project, "pids.json").read_text())
    server = psutil.Process(pids["server"])

    # what holds a secret is its owner's alone, and no command line shows one
    endpoint, arguments = (
        state(project, "endpoint.json"),
        project / "_build" / "graph" / "java.args",
    )
    for secret in (endpoint, arguments):
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
    described = json.loads(endpoint.read_text())
    for password in (described["password"], described["reader_password"]):
        assert len(password) > 20
        assert password in arguments.read_text()
        assert password not in " ".join(server.cmdline())
        for log in (p for p in (project / "_build" / "logs").rglob("*") if p.is_file()):
            assert password not in log.read_text(errors="replace")
    # nothing listens beyond loopback
    assert {
        c.laddr.ip.removeprefix("::ffff:") for c in server.net_connections() if c.status == "LISTEN"
    } == {"127.0.0.1"}

    assert "graph" in run_in(sys.executable, "-m", "resources.services", "status").stdout
    assert run_in(sys.executable, "-m", "resources.services", "stop").returncode == 0
    assert wait_for(lambda: not server.is_running())
    assert (
        "no embedded server" in run_in(sys.executable, "-m", "resources.services", "status").stdout
    )


@pytest.mark.engine
def test_a_server_that_dies_is_restarted_once(project, run_in):
    assert run_in(sys.executable, "-m", "resources.services", "start", "graph").returncode == 0
    first = json.loads(state(project, "pids.json").read_text())["server"]
    os.kill(first, signal.SIGKILL)
    assert wait_for(lambda: json.loads(state(project, "pids.json").read_text())["server"] != first)
    second = json.loads(state(project, "pids.json").read_text())["server"]
    check = "from helpers import graph\nwith graph.connect() as g: print(g.read('RETURN 1 AS one'))"
    assert wait_for(lambda: "'one': 1" in run_in(sys.executable, "-c", check).stdout)
    # a second death is final, and says so
    os.kill(second, signal.SIGKILL)
    assert wait_for(lambda: state(project, "failed.txt").exists())
    assert "ended with code" in state(project, "failed.txt").read_text()


KILL = """
import json, os, signal
from concurrent.futures import ThreadPoolExecutor
from helpers import graph
from resources import services
one = "RETURN 1 AS one"
def connect():
    with graph.connect() as another:
        return another.read(one)
with graph.connect() as db, ThreadPoolExecutor(3) as at_once:
    assert db.read_untrusted(one).rows
    state = json.loads((services.SERVICES / "graph" / "pids.json").read_text())
    os.kill(state["server"], signal.SIGKILL)
    asked = [at_once.submit(*ask) for ask in ((db.read, one), (db.read_untrusted, one), (connect,))]
    print(asked[0].result(), asked[1].result().rows, asked[2].result())
"""


@pytest.mark.engine
def test_a_notebook_does_not_see_that_its_graph_server_died(project, run_in):
    process = run_in(sys.executable, "-c", KILL)
    assert process.stdout.count("{'one': 1}") == 3, process.stderr


@pytest.mark.engine
def test_a_killed_supervisor_leaves_nothing_that_blocks_the_next_start(project, run_in):
    assert run_in(sys.executable, "-m", "resources.services", "start", "graph").returncode == 0
    pids = json.loads(state(project, "pids.json").read_text())
    os.kill(pids["supervisor"], signal.SIGKILL)
    again = run_in(sys.executable, "-c", USE, "0")
    assert again.returncode == 0, again.stderr
    assert not psutil.pid_exists(pids["server"])
    assert wait_for(lambda: not still_running(project), 60), still_running(project)


@pytest.mark.engine
def test_a_graph_server_ends_with_the_killed_process_that_asked_for_it(project, start_in):
    user = start_in(sys.executable, "-c", USE, "120")
    assert user.stdout.readline().startswith("bolt://")
    assert len(still_running(project)) >= 3
    user.kill()
    user.wait()
    assert wait_for(lambda: not still_running(project), 60), still_running(project)


# --------------------------------------------------------------------------------------------------- embedded: the LLM


@pytest.mark.engine
def test_answers_arrive_though_the_llm_server_dies_meanwhile(small_llm):
    folder = next(
        p.parent
        for p in services.SERVICES.glob("*/endpoint.json")
        if small_llm.base_url in p.read_text()
    )
    model = LLM(small_llm, folder=None)
    prompts = [
        [{"role": "user", "content": f"Write a story about the number {i}."}] for i in range(60)
    ]
    before = supervisor.processes(folder)
    if small_llm.engine == "vllm":
        assert len(before) > 1, "its engine is a process beside its server"
    killer = threading.Timer(1.0, before[0].kill)
    killer.start()
    replies = model.chat_many(prompts, max_tokens=24)
    assert len(replies) == 60
    assert all(r.text for r in replies)
    assert supervisor.processes(folder)[0] != before[0]
    assert not any(process.is_running() for process in before), "what it had started is gone"


@pytest.mark.engine
def test_llamacpp_serves_on_loopback_alone_what_the_other_engine_does(set_settings, tmp_path):
    set_settings(llm_engine="llamacpp")
    endpoint = services.llm_endpoint(SMALL_MODEL)
    assert endpoint.engine == "llamacpp"
    folder = next(
        p.parent
        for p in services.SERVICES.glob("*/endpoint.json")
        if endpoint.base_url in p.read_text()
    )
    server = psutil.Process(json.loads((folder / "pids.json").read_text())["server"])
    listening = {
        c.laddr.ip for c in server.net_connections("tcp") if c.status == psutil.CONN_LISTEN
    }
    assert listening == {"127.0.0.1"}
    model = LLM(endpoint, folder=tmp_path)
    prompts = [[{"role": "user", "content": f"Is {i} a number?"}] for i in range(6)]
    for choice in model.choose_many(prompts, ["ZEBRA", "GIRAFFE"]):
        assert choice.answer in {"ZEBRA", "GIRAFFE"}
        assert sum(map(math.exp, choice.logprobs.values())) == pytest.approx(1, abs=1e-6)
    assert all(reply.text for reply in model.chat_many(prompts, max_tokens=4))
    paris, rome = model.loglikelihood_many(
        [("The capital of France is", f" {city}") for city in ("Paris", "Rome")]
    )
    assert -1 < paris.total < 0 and rome.total < paris.total - 3
    euro, full = (
        "The sign ",
        "The sign \u20ac costs",
    )  # a sign of several tokens, and a continuation of two words
    parts = model.loglikelihood_many(
        [(euro, "\u20ac costs"), (euro, "\u20ac"), (f"{euro}\u20ac", " costs")]
    )
    assert parts[0].total == pytest.approx(parts[1].total + parts[2].total, abs=0.05), full
    with pytest.raises(ContextOverflowError):
        model.chat_many(
            [[{"role": "user", "content": "word " * (endpoint.context + 100)}]], max_tokens=4
        )


def test_a_damaged_graph_is_set_aside_once(tmp_path, monkeypatch):
    monkeypatch.setattr(graph_engine, "GRAPH_FOLDER", tmp_path)
    (tmp_path / "databases").mkdir()
    assert not graph_engine.set_aside()
    graph_engine.mark_damaged()
    assert (tmp_path / graph_engine.set_aside()).is_dir()
    assert not graph_engine.set_aside()
