"""Finds the servers that the settings name, or starts the embedded ones.

Clients see an endpoint and never ask where it comes from. An embedded server is started on first need under a lock,
shared by all notebooks of the machine, and stopped when nobody holds it any more: each process that asks for an
endpoint leaves a lease (a file with its process id), and a small supervisor beside the server stops it once no lease is
alive. The supervisor also checks the server's health and restarts it once if it dies.

    python -m helpers.services start|stop|status [graph|llm]
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import ipaddress
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import httpx
import psutil
from filelock import FileLock

from helpers import engines
from helpers.engines import Adapter, EngineError, Launch, write_secret
from helpers.settings import (
    BUILD,
    HIDDEN,
    LOGS,
    SECRET_NAME,
    PublicError,
    SettingsError,
    profile_model,
    public,
    settings,
)

SERVICES = BUILD / "services"
GRACE = 60.0
"""Seconds without a living lease after which an embedded server stops: long enough for the next notebook to start."""
CONTEXT = 4096
"""Tokens of prompt and answer that an embedded LLM server accepts."""
HEALTH_EVERY = 5.0
DECLARED = "declared:"
"""Begins the weights of a model of unknown digest. Its name alone tells it apart, so its replies are not shared."""
UNHEALTHY_AFTER = 12
"""Failed health checks in a row (one minute) after which a server that still runs counts as dead."""


class ServiceError(PublicError, RuntimeError):
    """A server cannot be reached or started; the message says what was tried and what to do."""


@dataclass(frozen=True)
class GraphEndpoint:
    """Where the graph answers Bolt, and who may do what there."""

    uri: str
    user: str
    password: str
    database: str
    reader_user: str
    reader_password: str
    engine: str
    version: str
    embedded: bool

    def __repr__(self) -> str:
        """Without the passwords."""
        return f"GraphEndpoint({public(self.uri)}, database={self.database}, engine={self.engine})"


@dataclass(frozen=True)
class LlmEndpoint:
    """Where the LLM answers the OpenAI API, and what is known about it.

    Attributes:
        engine: vllm, llamacpp, or openai for a server of unknown make.
        version: the engine's version as it gives it.
        model_sha256: digest of the weights' file, for a folder or a hub's model of what `engines.weights_folder` looks
            at; empty where a server does not tell.
        context: tokens of prompt and answer together; 0 where a server does not tell.
        concurrency: requests that are worth having under way at once.
        precision: that the weights are served in: int8, bf16, or gguf for the file's own.
        adapter: digest of the adapter that `model` names; empty for the model itself.
    """

    base_url: str
    model: str
    api_key: str
    engine: str
    version: str
    model_sha256: str
    context: int
    concurrency: int
    precision: str = ""
    adapter: str = ""

    @property
    def weights(self) -> str:
        """What decides a reply besides the request: digest, precision and adapter, or else the declared name."""
        named = f"{self.model_sha256}:{self.precision}" if self.model_sha256 else f"{DECLARED}{self.model}"
        return f"{named}+{self.adapter}" if self.adapter else named

    def adapted(self, adapter: Adapter) -> LlmEndpoint:
        """The same server's model with one of its adapters."""
        base = "" if self.model_sha256 else f"{self.model} "
        return replace(self, model=adapter.name, adapter=f"{base}{adapter.sha256}")

    def __repr__(self) -> str:
        """Without the key."""
        return f"LlmEndpoint({public(self.base_url)}, model={self.model}, engine={self.engine})"


# ------------------------------------------------------------------------------------------------------- endpoints


def graph_endpoint() -> GraphEndpoint:
    """The graph server of `NEO4J_URI`, else the embedded one, started if need be.

    Raises:
        SettingsError: `NEO4J_URI` without `NEO4J_PASSWORD`.
        ServiceError: the embedded server did not start.
    """
    s = settings()
    if s.neo4j_uri:
        if s.neo4j_password is None:
            raise SettingsError(
                f"NEO4J_URI={s.neo4j_uri} is set but NEO4J_PASSWORD is not. Set it, or unset NEO4J_URI."
            )
        reader = s.neo4j_reader_password or s.neo4j_password
        return GraphEndpoint(
            uri=s.neo4j_uri,
            user=s.neo4j_user,
            password=s.neo4j_password.get_secret_value(),
            database=s.neo4j_database,
            reader_user=s.neo4j_reader_user or s.neo4j_user,
            reader_password=reader.get_secret_value(),
            engine="neo4j",
            version="",
            embedded=False,
        )

    def launch(say: Callable[[str], None]) -> Launch:
        folder = engines.GRAPH_FOLDER
        folder.mkdir(parents=True, exist_ok=True)
        kept = folder / "passwords.json"
        if not kept.exists():
            write_secret(kept, json.dumps({user: secrets.token_urlsafe(24) for user in ("root", "reader")}))
        say("Starting the embedded graph server ...")
        return engines.graph_launch(folder, _free_port(), _free_port(), json.loads(kept.read_text()), s.neo4j_database)

    return _as(GraphEndpoint, _ensure("graph", {"database": s.neo4j_database}, launch))


def llm_endpoint(
    model: str, context: int = CONTEXT, *, exact: bool = False, adapters: Sequence[Adapter] = (), start: bool = True
) -> LlmEndpoint:
    """The LLM server of `LLM_BASE_URL`, else an embedded one that serves `model`, started if need be.

    Args:
        model: the profile's model; `LLM_MODEL` takes its place.
        context: tokens of prompt and answer that an embedded server should accept.
        exact: ask for `model` whatever `LLM_MODEL` says, for a second model beside the first.
        adapters: LoRA adapters of the model; `LlmEndpoint.adapted` gives the endpoint of one.
        start: False describes an embedded server that does not run yet, with an empty `base_url`.

    Raises:
        ServiceError: the server does not answer, or does not have the model or an adapter.
        EngineError: the embedded engine cannot serve the model or an adapter.
    """
    s = settings()
    model = model if exact else s.llm_model or model
    if s.llm_base_url:
        key = s.llm_api_key.get_secret_value() if s.llm_api_key else "none"
        return _external_llm(s.llm_base_url, model, key, adapters, exact=exact)
    config = {
        "model": model,
        "context": context,
        "engine": s.llm_engine,
        "adapters": [f"{adapter.name} {adapter.sha256}" for adapter in adapters],
    }
    if not start and not _running(_folder("llm", config)) and (card := engines.llm_card(model, context, adapters)):
        return _as(LlmEndpoint, card)

    def launch(say: Callable[[str], None]) -> Launch:
        return engines.llm_launch(model, _free_port(), secrets.token_urlsafe(24), context, say, adapters)

    return _as(LlmEndpoint, _ensure("llm", config, launch))


def served(base_url: str, api_key: str) -> list[dict[str, Any]]:
    """The models that an OpenAI-compatible server lists, as it describes them.

    Raises:
        ServiceError: it does not answer, refuses the key, or gives no such list.
    """
    mend = "Start it or correct LLM_BASE_URL, or unset LLM_BASE_URL to use the embedded engine."
    try:
        answer = _get(f"{base_url}/models", api_key)
    except httpx.HTTPError as error:
        raise ServiceError(f"LLM_BASE_URL={base_url} did not answer within 10 s ({error}). {mend}") from None
    if answer.status_code in (401, 403):
        raise ServiceError(f"LLM_BASE_URL={base_url} refused the key (HTTP {answer.status_code}). Set LLM_API_KEY.")
    try:
        listed: list[dict[str, Any]] = answer.raise_for_status().json()["data"]
    except (httpx.HTTPStatusError, ValueError, KeyError, TypeError):
        raise ServiceError(
            f"LLM_BASE_URL={base_url} answered /models with HTTP {answer.status_code} and no list of models. It should "
            "be the root of an OpenAI-compatible API and usually ends with /v1."
        ) from None
    return listed


def _get(url: str, api_key: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {api_key}"}
    return httpx.get(url, headers=headers, timeout=10, trust_env=not is_loopback(url))


def is_loopback(url: str) -> bool:
    """Whether a URL is of this machine alone, where no proxy leads."""
    host = httpx.URL(url).host
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _external_llm(
    base_url: str, model: str, api_key: str, adapters: Sequence[Adapter], *, exact: bool = False
) -> LlmEndpoint:
    listed = served(base_url, api_key)
    card = next((m for m in listed if m["id"] == model), None)
    if card is None:
        have = ", ".join(m["id"] for m in listed) or "none"
        mend = (
            "This step needs that very model, whatever LLM_MODEL says: serve it there too"
            if exact
            else "Set LLM_MODEL to one of them"
        )
        raise ServiceError(f"{base_url} does not serve {model!r}. It has: {have}. {mend}.")
    if missing := [adapter for adapter in adapters if adapter.name not in {m["id"] for m in listed}]:
        modules = " ".join(f"{adapter.name}={adapter.folder}" for adapter in missing)
        raise ServiceError(
            f"{base_url} does not serve the LoRA adapters {', '.join(a.name for a in missing)}. Start vLLM there with "
            f"--enable-lora --lora-modules {modules}, or unset LLM_BASE_URL to use the embedded engine."
        )
    engine = {"vllm": "vllm", "llamacpp": "llamacpp"}.get(card.get("owned_by", ""), "openai")
    version = ""
    if engine == "vllm":
        with contextlib.suppress(httpx.HTTPError, ValueError, KeyError):
            root = base_url.removesuffix("/v1")
            version = f"vllm {_get(f'{root}/version', api_key).json()['version']}"
    context = int(card.get("max_model_len") or (card.get("meta") or {}).get("n_ctx") or 0)
    return LlmEndpoint(base_url, model, api_key, engine, version, "", context, concurrency=64)


def _as(kind: type, endpoint: dict[str, Any]) -> Any:  # noqa: ANN401  # one of the two dataclasses above
    return kind(**{f.name: endpoint[f.name] for f in fields(kind) if f.name in endpoint})


# -------------------------------------------------------------------------------------------------- start and share


def _ensure(name: str, config: dict[str, Any], launch: Callable[[Callable[[str], None]], Launch]) -> dict[str, Any]:
    """Endpoint of a running server with this configuration; starts one, and holds it for this process."""
    folder = _folder(name, config)
    folder.mkdir(parents=True, exist_ok=True)
    with FileLock(folder / "lock"):
        _lease(folder)
        endpoint = _running(folder)
        if endpoint:
            return endpoint
        _kill_leftover(folder)
        spec = launch(_say)
        for stale in ("endpoint.json", "failed.txt", "stop"):
            (folder / stale).unlink(missing_ok=True)
        write_secret(folder / "launch.json", json.dumps(spec.as_json()))
        LOGS.mkdir(parents=True, exist_ok=True)
        supervisor = subprocess.Popen(
            [sys.executable, "-m", "helpers.services", "supervise", str(folder)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=(LOGS / f"{name}-supervisor.log").open("ab"),
            start_new_session=True,
            # A package cache of one notebook must not decide where the supervisor finds this module.
            env={**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])},
        )
        return _wait_ready(folder, spec, supervisor)


def _wait_ready(folder: Path, spec: Launch, supervisor: subprocess.Popen[bytes]) -> dict[str, Any]:
    start = time.monotonic()
    told = start
    while True:
        if endpoint := _running(folder):
            _say(f"  {spec.name}: ready after {time.monotonic() - start:.0f} s")
            return endpoint
        failed = folder / "failed.txt"
        if failed.exists() or supervisor.poll() is not None:
            why = failed.read_text() if failed.exists() else "its supervisor ended"
            raise ServiceError(
                f"The embedded {spec.name} server did not start: {why}\nThe whole log is {_log(spec.name)}. "
                "`make doctor` shows what is missing."
            )
        if time.monotonic() - told > 15:
            told = time.monotonic()
            _say(f"  {spec.name}: starting, {told - start:.0f} s ...")
        time.sleep(0.2)


def _folder(name: str, config: dict[str, Any]) -> Path:
    """One folder a configuration, so that two models can be served side by side."""
    if name == "graph":
        return SERVICES / "graph"
    folder = f"{name}-{config['model'].replace('/', '--')}-{config['context']}-{config['engine']}"
    if config["adapters"]:
        folder += f"-{hashlib.sha256(' '.join(config['adapters']).encode()).hexdigest()[:8]}"
    return SERVICES / folder


def _lease(folder: Path) -> None:
    leases = folder / "leases"
    leases.mkdir(exist_ok=True)
    # moved into place whole, for a lease that cannot be read is taken for a dead process's
    part = folder / f"lease.{os.getpid()}"
    part.write_text(str(psutil.Process().create_time()))
    part.replace(leases / str(os.getpid()))


def _living_leases(folder: Path) -> dict[str, float]:
    """Leases whose process is alive, and when it began; dead ones are removed."""
    living = {}
    for path in (folder / "leases").glob("*"):
        with contextlib.suppress(FileNotFoundError):  # another process, looking too, has removed it
            created = path.read_text()
            if path.name == "pinned":
                living[path.name] = 0.0
            elif _alive(int(path.name), created):
                living[path.name] = float(created)
            else:
                path.unlink(missing_ok=True)
    return living


def _alive(pid: int, created: str) -> bool:
    # a process id is used again; its creation time tells the two apart
    try:
        process = psutil.Process(pid)
        return abs(process.create_time() - float(created or 0)) < 1 and process.status() != psutil.STATUS_ZOMBIE
    except (psutil.NoSuchProcess, ValueError):
        return False


def _running(folder: Path) -> dict[str, Any] | None:
    """The endpoint of a server that is ready, if its supervisor is alive."""
    path = folder / "endpoint.json"
    try:
        state = json.loads(path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return None
    if (folder / "stop").exists() or not _alive(state["supervisor"], state["supervisor_created"]):
        return None
    endpoint: dict[str, Any] = state["endpoint"]
    return endpoint


def _kill_leftover(folder: Path) -> None:
    """Stop what a killed supervisor left behind, and wait for one that is stopping."""
    pids = folder / "pids.json"
    if not pids.exists():
        return
    try:
        state = json.loads(pids.read_text())
    except json.JSONDecodeError:
        state = {}
    deadline = time.monotonic() + 30
    while "supervisor" in state and _alive(*state["supervisor"]) and time.monotonic() < deadline:
        (folder / "stop").touch()
        time.sleep(0.2)
    if "server" in state:
        _terminate(*state["server"])
    pids.unlink(missing_ok=True)


def _terminate(server: int, created: str, wait: float = 15.0) -> None:
    """End a server and all that it started, also what it left behind if it is dead already.

    It leads a session of its own: vLLM's engine is a process beside the server, and outlives it when that is killed.
    """
    with contextlib.suppress(psutil.NoSuchProcess):
        if _alive(server, created):
            leader = psutil.Process(server)
            leader.terminate()
            psutil.wait_procs([leader], timeout=wait)
    family = _session(server, float(created))
    for member in family:
        with contextlib.suppress(psutil.NoSuchProcess):
            member.kill()
    psutil.wait_procs(family, timeout=5)


def _session(leader: int, created: float) -> list[psutil.Process]:
    """The processes of the session that a server leads, or led."""
    if created < psutil.boot_time():  # another one's number by now
        return []
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, OSError):
            if os.getsid(process.pid) == leader and process.create_time() >= created:
                found.append(process)
    return found


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _log(name: str) -> Path:
    return LOGS / f"{name}.log"


def _say(text: str) -> None:
    sys.stderr.write(text + "\n")
    sys.stderr.flush()


# ------------------------------------------------------------------------------------------------------ supervisor


def supervise(folder: Path) -> int:
    """Run one server until nobody holds it: start, watch, restart once, stop. Returns the exit code."""
    spec = Launch(**json.loads((folder / "launch.json").read_text()))
    (folder / "launch.json").unlink()
    stop_requested = False

    def request_stop(*_: object) -> None:
        nonlocal stop_requested
        stop_requested = True

    signal.signal(signal.SIGTERM, request_stop)
    signal.signal(signal.SIGINT, request_stop)
    me = (os.getpid(), str(psutil.Process().create_time()))
    for last_chance in (False, True):
        with _log(spec.name).open("ab") as log:
            offset = log.tell()
            server = psutil.Popen(
                spec.command,
                env={**os.environ, **spec.environment},
                cwd=LOGS,  # ArcadeDB writes a log of its own where it is started
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        this = server.pid, str(server.create_time())
        write_secret(folder / "pids.json", json.dumps({"supervisor": me, "server": this}))
        reason, wanted = "", True
        for reason in _watch(spec, server, folder):
            if reason == "ready":
                state = {"supervisor": me[0], "supervisor_created": me[1], "endpoint": spec.endpoint}
                write_secret(folder / "endpoint.json", json.dumps(state))
            wanted = not (reason == "idle" or stop_requested or (folder / "stop").exists())
            if not wanted:
                break
        _terminate(*this)
        if not wanted:
            _forget(folder)
            return 0
        _stamped_log(spec.name, f"{reason}; {'giving up' if last_chance else 'restarting it once'}")
    tail = _log(spec.name).read_bytes()[offset:].decode(errors="replace").splitlines()[-12:]
    (folder / "endpoint.json").unlink(missing_ok=True)
    said = public(f"{reason}. The last lines of its log:\n  " + "\n  ".join(tail))
    # those that were made for this server alone
    for secret in (value for name, value in spec.endpoint.items() if SECRET_NAME.search(name)):
        said = said.replace(secret, HIDDEN)
    (folder / "failed.txt").write_text(said)
    return 1


def _watch(spec: Launch, server: psutil.Popen, folder: Path) -> Iterator[str]:
    """Yield `starting`, `ready`, `running` or `idle` while the server lives, then why it is held for dead."""
    started = time.monotonic()
    ready = False
    idle_since: float | None = None
    checked = failures = 0.0
    # the server is on loopback, where no proxy leads
    with httpx.Client(timeout=5, headers=spec.ready_headers, trust_env=False) as http:
        while True:
            if server.poll() is not None:
                yield f"the {spec.name} server ended with code {server.returncode}"
                return
            now = time.monotonic()
            if now - checked > (HEALTH_EVERY if ready else 0.2):
                checked = now
                try:
                    healthy = http.get(spec.ready_url).status_code < 400
                except httpx.HTTPError:
                    healthy = False
                failures = 0 if healthy else failures + 1
                if healthy and not ready:
                    ready = True
                    yield "ready"
            if not ready and now - started > spec.start_timeout:
                yield f"the {spec.name} server was not ready after {spec.start_timeout:.0f} s"
                return
            if ready and failures >= UNHEALTHY_AFTER:
                yield f"the {spec.name} server stopped answering"
                return
            idle_since = None if _living_leases(folder) else idle_since or now
            yield "idle" if idle_since and now - idle_since > GRACE else "running"
            time.sleep(0.2)


def _stamped_log(name: str, text: str) -> None:
    with _log(name).open("a") as log:
        log.write(f"--- {time.strftime('%Y-%m-%dT%H:%M:%S')} {text}\n")


def _forget(folder: Path) -> None:
    for name in ("endpoint.json", "pids.json", "launch.json", "stop", "failed.txt"):
        (folder / name).unlink(missing_ok=True)


# ------------------------------------------------------------------------------------------------------ by hand


def stop(name: str = "", *, only_idle: bool = False, wait: float = 30.0, since: float = 0.0) -> list[str]:
    """Stop embedded servers.

    Args:
        name: graph or llm; empty for all.
        only_idle: leave alone what a living process still holds after `wait` seconds.
        wait: seconds to wait, in all, for their holders to end.
        since: not for holders that were there before (seconds since 1970): they hold on.

    Returns:
        Names of the folders whose servers were stopped.
    """
    stopped = []
    deadline = time.monotonic() + wait
    for folder in sorted(SERVICES.glob(f"{name}*")):
        # an old holder will not let go, so that there is nothing to wait for
        while only_idle and min(_living_leases(folder).values(), default=0) > since and time.monotonic() < deadline:
            time.sleep(0.2)
        if only_idle and _living_leases(folder):
            continue
        (folder / "leases" / "pinned").unlink(missing_ok=True)
        if (folder / "pids.json").exists():
            stopped.append(folder.name)
            _kill_leftover(folder)
        _forget(folder)
    return stopped


def status() -> list[dict[str, str]]:
    """One row for each embedded server that runs: name, address, engine, memory, holders."""
    rows = []
    for folder in sorted(SERVICES.glob("*")):
        endpoint = _running(folder)
        if endpoint is None:
            continue
        pid, created = json.loads((folder / "pids.json").read_text())["server"]
        memory = 0
        if _alive(pid, created):
            process = psutil.Process(pid)
            memory = sum(p.memory_info().rss for p in [process, *process.children(recursive=True)])
        rows.append(
            {
                "service": folder.name,
                "address": endpoint.get("uri") or endpoint["base_url"],
                "engine": endpoint["version"],
                "memory": f"{memory / engines.GIB:.1f} GiB",
                "held by": ", ".join(_living_leases(folder)) or "nobody",
            }
        )
    return rows


def main(arguments: list[str] | None = None) -> int:
    """The command line: start, stop, status."""
    parser = argparse.ArgumentParser(prog="python -m helpers.services", description="Start and stop embedded servers.")
    commands = parser.add_subparsers(dest="command", required=True)
    for command in ("start", "stop"):
        sub = commands.add_parser(command)
        sub.add_argument("service", nargs="?", choices=["graph", "llm", "all"], default="all")
        if command == "stop":
            sub.add_argument("--only-idle", action="store_true", help="leave alone what a living process holds")
            sub.add_argument("--since", type=Path, help="wait for no process that is older than this file")
        else:
            sub.add_argument("--model", help="the model to serve; default: the profile's")
    commands.add_parser("status")
    commands.add_parser("supervise").add_argument("folder", type=Path)
    options = parser.parse_args(arguments)
    if options.command == "supervise":
        return supervise(options.folder)
    try:
        if options.command == "start":
            _start_by_hand(options.service, options.model)
        elif options.command == "stop":
            since = options.since.stat().st_mtime if options.since else 0.0
            for stopped in stop(options.service.replace("all", ""), only_idle=options.only_idle, since=since):
                _say(f"stopped {stopped}")
    except (ServiceError, EngineError, SettingsError) as error:
        _say(str(error))
        return 1
    if options.command in ("start", "status"):
        rows = status()
        for row in rows:
            sys.stdout.write("  ".join(f"{key}: {value}" for key, value in row.items()) + "\n")
        if not rows:
            sys.stdout.write("no embedded server is running\n")
    return 0


def _start_by_hand(service: str, model: str | None) -> None:
    if service in ("all", "graph"):
        graph_endpoint()
    if service in ("all", "llm"):
        llm_endpoint(model or profile_model(settings().profile))
    for folder in SERVICES.glob("*"):
        if _running(folder):
            (folder / "leases" / "pinned").touch()


if __name__ == "__main__":
    sys.exit(main())
