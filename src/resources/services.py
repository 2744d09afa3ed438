"""The servers that the settings name, or embedded ones: started on first need, shared, stopped once nobody holds them.

python -m resources.services start|stop|status [graph|llm]
"""

import argparse
import contextlib
import hashlib
import ipaddress
import secrets
import socket
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import httpx
import psutil

from resources import engines, graph_engine, supervisor
from resources.engine_install import EMBEDDED_MODELS, GIB, choose_engine
from resources.engines import Adapter, Launch
from resources.settings import (
    BUILD,
    SettingsError,
    hide_secrets,
    profile_model,
    run_command_line,
    settings,
)
from resources.supervisor import ServiceError, ensure, living_leases

SERVICES = BUILD / "services"
CONNECT = 4.0  # seconds in which a server that the settings name is reached; else it is away, or the network
ANSWER = 10.0  # seconds in which it answers once it is reached
DECLARED = "declared:"
"""Begins the weights of a model of unknown digest. Its name alone tells it apart, so its replies are not shared."""


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
        return f"GraphEndpoint({hide_secrets(self.uri)}, database={self.database}, engine={self.engine})"


@dataclass(frozen=True)
class LlmEndpoint:
    """Where the LLM answers the OpenAI API, and what is known about it; what a server does not tell is empty or 0."""

    base_url: str
    model: str
    api_key: str
    engine: str  # vllm, llamacpp, or openai for a server of unknown make
    version: str
    model_sha256: str  # digest of the weights' file or folder
    context: int  # tokens of prompt and answer together
    concurrency: int  # requests that are worth having under way at once
    precision: str = ""  # that the weights are served in: int8, bf16, or gguf for the file's own
    reference: str = ""  # the precision that names the model, whatever serves it; else its own
    adapter: str = ""  # digest of the adapter that `model` names

    @property
    def weights(self) -> str:
        """What decides a reply besides the request: the original model and its adapter.

        The model is named by its file's digest and the precision of its reference, so that
        every engine finds the replies of every other; else by its declared name.
        """
        named = (
            f"{self.model_sha256}:{self.reference or self.precision}"
            if self.model_sha256
            else f"{DECLARED}{self.model}"
        )
        return f"{named}+{self.adapter}" if self.adapter else named

    def adapted(self, adapter: Adapter) -> Self:
        """The same server's model with one of its adapters."""
        base = "" if self.model_sha256 else f"{self.model} "
        return replace(self, model=adapter.name, adapter=f"{base}{adapter.sha256}")

    def __repr__(self) -> str:
        """Without the key."""
        return (
            f"LlmEndpoint({hide_secrets(self.base_url)}, model={self.model}, engine={self.engine})"
        )


def graph_endpoint() -> GraphEndpoint:
    """The graph server of `NEO4J_URI`, else the embedded one, started if need be; or a SettingsError, ServiceError."""
    s = settings()
    if s.neo4j_uri:
        if s.neo4j_password is None:
            raise SettingsError(
                f"NEO4J_URI={s.neo4j_uri} is set but NEO4J_PASSWORD is not. Set it, or unset the URI."
            )
        return GraphEndpoint(
            uri=s.neo4j_uri,
            user=s.neo4j_user,
            password=s.neo4j_password.get_secret_value(),
            database=s.neo4j_database,
            reader_user=s.neo4j_reader_user or s.neo4j_user,
            reader_password=(s.neo4j_reader_password or s.neo4j_password).get_secret_value(),
            engine="neo4j",
            version="",
            embedded=False,
        )

    def launch(say: Callable[[str], None]) -> Launch:
        return graph_engine.graph_launch(_free_port(), _free_port(), s.neo4j_database, say)

    try:
        return GraphEndpoint(**ensure(SERVICES / "graph", launch))
    except ServiceError as error:
        if (
            "ended with code" not in str(error)
            or not (graph_engine.GRAPH_FOLDER / "databases").exists()
        ):
            raise
        graph_engine.mark_damaged()  # which keeps the server from starting
        supervisor.say(str(error))
        return GraphEndpoint(**ensure(SERVICES / "graph", launch))


def llm_endpoint(
    model: str, *, exact: bool = False, adapters: Sequence[Adapter] = (), start: bool = True
) -> LlmEndpoint:
    """The LLM server of `LLM_BASE_URL`, else an embedded one that serves `model`, started if need be.

    `LLM_MODEL` takes the place of `model`, the profile's, unless that `exact` one is asked for. Without `start`, an
    embedded server that does not run yet is described, with an empty `base_url`. Or a ServiceError or EngineError.
    """
    s = settings()
    model = model if exact else s.llm_model or model
    if not start and s.answers == "stored-only":
        return _stored_llm(model, adapters)
    if s.llm_base_url:
        key = s.llm_api_key.get_secret_value() if s.llm_api_key else "none"
        return _external_llm(s.llm_base_url, model, key, adapters, exact)
    if s.answers == "collect":  # a batch will answer, by a model that is known by its name alone
        return LlmEndpoint("", model, "", "vllm", "", "", 0, 64)
    # one folder a configuration, so that two models can be served side by side
    name = f"llm-{model.replace('/', '--')}-{s.llm_context or 'own'}-{s.llm_engine}"
    if adapters:
        adapters = engines.with_released(model, adapters)
        served_with = " ".join(f"{adapter.name} {adapter.sha256}" for adapter in adapters)
        name += f"-{hashlib.sha256(served_with.encode()).hexdigest()[:8]}"
    folder = SERVICES / name
    if not start and model in EMBEDDED_MODELS and not supervisor.running(folder):
        return LlmEndpoint(**engines.llm_card(choose_engine(model)[0], model, adapters))

    def launch(say: Callable[[str], None]) -> Launch:
        return engines.llm_launch(model, _free_port(), secrets.token_urlsafe(24), say, adapters)

    return LlmEndpoint(**ensure(folder, launch))


def _stored_llm(model: str, adapters: Sequence[Adapter]) -> LlmEndpoint:
    """What names the stored replies of a model: no server is asked and no engine is needed."""
    if settings().llm_base_url:
        return LlmEndpoint("", model, "", "openai", "", "", 0, concurrency=1)
    card = engines.llm_card(choose_engine(model)[0], model, adapters)
    return LlmEndpoint(**card | {"model_sha256": engines.original_sha256(model)})


def served(base_url: str, api_key: str) -> list[dict[str, Any]]:
    """The models that an OpenAI-compatible server lists, as it describes them; a ServiceError if it gives no list."""
    mend = "Start it or correct LLM_BASE_URL, or unset LLM_BASE_URL to use the embedded engine."
    try:
        answer = _get(f"{base_url}/models", api_key)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        late = (
            f"did not answer within {ANSWER:.0f} s"
            if isinstance(error, httpx.ReadTimeout)
            else "cannot be reached"
        )
        why = str(error) or type(error).__name__
        raise ServiceError(f"LLM_BASE_URL={base_url} {late} ({why}). {mend}") from None
    if answer.status_code in (401, 403):
        raise ServiceError(
            f"LLM_BASE_URL={base_url} refused the key (HTTP {answer.status_code}). Set LLM_API_KEY."
        )
    try:
        listed: list[dict[str, Any]] = answer.raise_for_status().json()["data"]
    except (httpx.HTTPStatusError, ValueError, KeyError, TypeError):
        found = f"LLM_BASE_URL={base_url} answered /models with HTTP {answer.status_code} and no list of models"
        raise ServiceError(
            f"{found}. It should be the root of an OpenAI-compatible API, such as .../v1."
        ) from None
    return listed


def _get(url: str, api_key: str) -> httpx.Response:
    timeout = httpx.Timeout(ANSWER, connect=CONNECT)
    headers = {"Authorization": f"Bearer {api_key}"}
    return httpx.get(url, headers=headers, timeout=timeout, trust_env=not is_loopback(url))


def is_loopback(url: str) -> bool:
    """Whether a URL is of this machine alone, where no proxy leads."""
    host = httpx.URL(url).host
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _external_llm(
    base_url: str, model: str, api_key: str, adapters: Sequence[Adapter], exact: bool
) -> LlmEndpoint:
    cards = {card["id"]: card for card in served(base_url, api_key)}
    if model not in cards:
        mend = (
            "This step needs that very model, whatever LLM_MODEL says: serve it there too"
            if exact
            else "Set LLM_MODEL to one of them"
        )
        raise ServiceError(
            f"{base_url} does not serve {model!r}. It has: {', '.join(cards) or 'none'}. {mend}."
        )
    if missing := [adapter for adapter in adapters if adapter.name not in cards]:
        modules = " ".join(f"{adapter.name}={adapter.folder}" for adapter in missing)
        raise ServiceError(
            f"{base_url} does not serve the LoRA adapters {', '.join(a.name for a in missing)}. Start vLLM there with "
            f"--enable-lora --lora-modules {modules}, or unset LLM_BASE_URL to use the embedded engine."
        )
    card = cards[model]
    engine = owner if (owner := card.get("owned_by")) in ("vllm", "llamacpp") else "openai"
    version, concurrency, root = "", 64, base_url.removesuffix("/v1")
    with contextlib.suppress(httpx.HTTPError, ValueError, KeyError, TypeError):
        if engine == "vllm":
            version = f"vllm {_get(f'{root}/version', api_key).json()['version']}"
        elif engine == "llamacpp":  # vLLM does not tell how many requests it takes at once
            concurrency = int(_get(f"{root}/props", api_key).json()["total_slots"]) or concurrency
    context = int(card.get("max_model_len") or (card.get("meta") or {}).get("n_ctx") or 0)
    return LlmEndpoint(
        base_url, model, api_key, engine, version, "", context, concurrency=concurrency
    )


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def stop(
    name: str = "", *, only_idle: bool = False, wait: float = 30.0, since: float = 0.0
) -> list[str]:
    """Stop embedded servers of a kind, graph or llm, or all, and return the names of their folders.

    `only_idle` leaves alone what a living process still holds after `wait` seconds in all; for holders that were there
    before `since` (seconds since 1970) nothing is waited.
    """
    stopped = []
    deadline = time.monotonic() + wait
    for folder in _folders(name):
        # an old holder will not let go, so that there is nothing to wait for
        while (
            only_idle
            and min(living_leases(folder).values(), default=0) > since
            and time.monotonic() < deadline
        ):
            time.sleep(0.2)
        if only_idle and living_leases(folder):
            continue
        (folder / "leases" / "pinned").unlink(missing_ok=True)
        if (folder / "pids.json").exists():
            stopped.append(folder.name)
        supervisor.end(folder)
    return stopped


def _folders(name: str = "") -> list[Path]:
    return sorted(path for path in SERVICES.glob(f"{name}*") if path.is_dir())


def _status() -> list[str]:
    lines = []
    for folder in _folders():
        processes = supervisor.session(supervisor.pids(folder).get("server"))
        supervised = supervisor.supervised(folder)
        if not (processes or supervised):
            continue
        memory = 0
        for process in processes:
            with contextlib.suppress(psutil.Error):
                memory += process.memory_info().rss
        endpoint = supervisor.endpoint(folder)
        address = endpoint.get("uri") or endpoint.get("base_url") or "none yet"
        holders = ", ".join(living_leases(folder)) or "nobody"
        if not supervised:
            holders = "nobody: its supervisor has ended; `make stop` ends it"
        lines.append(
            f"service: {folder.name}  address: {address}  engine: {endpoint.get('version', 'starting')}  "
            f"memory: {memory / GIB:.1f} GiB  held by: {holders}"
        )
    return lines or ["no embedded server is running"]


def main(arguments: list[str] | None = None) -> int:
    """The command line: start, stop, status."""
    parser = argparse.ArgumentParser(
        prog="python -m resources.services", description="Start and stop embedded servers."
    )
    parser.add_argument("command", choices=["start", "stop", "status"])
    parser.add_argument("service", nargs="?", choices=["graph", "llm", "all"], default="all")
    parser.add_argument(
        "--only-idle", action="store_true", help="stop: leave alone what a living process holds"
    )
    parser.add_argument(
        "--since", type=Path, help="stop: wait for no process that is older than this file"
    )
    options = parser.parse_args(arguments)
    if options.command == "stop":
        since = options.since.stat().st_mtime if options.since else 0.0
        for stopped in stop(
            options.service.replace("all", ""), only_idle=options.only_idle, since=since
        ):
            supervisor.say(f"stopped {stopped}")
        return 0
    if options.command == "start":
        if options.service in ("all", "graph"):
            graph_endpoint()
        if options.service in ("all", "llm"):
            llm_endpoint(profile_model(settings().profile))
        for folder in filter(supervisor.running, _folders()):
            (folder / "leases" / "pinned").touch()
    sys.stdout.write("\n".join(_status()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_command_line(main))
