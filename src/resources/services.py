"""The servers that the settings name, or embedded ones, started on first need.

An embedded server ends with the process that asked for it, or with the make that runs that process.

python -m resources.services start|stop|status [graph|llm]
"""

import argparse
import contextlib
import hashlib
import secrets
import socket
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import httpx
import psutil

from resources import engines, graph_engine, supervisor
from resources.engine_install import EMBEDDED_MODELS, GIB, choose_engine
from resources.engines import Adapter, Launch
from resources.llm_servers import LlmServer, llm_servers
from resources.network import http_client, is_loopback
from resources.settings import (
    BUILD,
    PublicError,
    Settings,
    SettingsError,
    hide_secrets,
    profile_model,
    run_command_line,
    settings,
)
from resources.supervisor import ServiceError

SERVICES = BUILD / "services"
"""Has a folder for each embedded server."""
CONNECT = 4.0
"""Seconds in which a server that the settings name is reached; else it is away, or the network."""
ANSWER = 10.0
"""Seconds in which such a server answers once it is reached."""
DECLARED = "declared:"
"""Begins the weights of a model of unknown digest, whose name alone tells it apart.

Its replies are not shared.
"""


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
        uri = hide_secrets(self.uri)
        return f"GraphEndpoint({uri}, database={self.database}, engine={self.engine})"


@dataclass(frozen=True)
class LlmEndpoint:
    """Where the LLM answers the OpenAI API, and what is known about it.

    What a server does not tell is empty or 0.
    """

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
    """Return the graph server of `NEO4J_URI`, else the embedded one, started if need be.

    Raises:
        SettingsError: `NEO4J_URI` is set and the password is not.
        ServiceError: The embedded server does not start.
    """
    user_settings = settings()
    if user_settings.neo4j_uri:
        return _named_graph(user_settings, user_settings.neo4j_uri)
    database = user_settings.neo4j_database

    def launch(say: Callable[[str], None]) -> Launch:
        return graph_engine.graph_launch(free_port(), free_port(), database, say)

    folder = SERVICES / "graph"
    try:
        return GraphEndpoint(**supervisor.ensure(folder, launch))
    except ServiceError as error:
        ended = "ended with code" in str(error)
        if not ended or not (graph_engine.GRAPH_FOLDER / "databases").exists():
            raise
        graph_engine.mark_damaged()  # which keeps the server from starting
        supervisor.say(str(error))
        return GraphEndpoint(**supervisor.ensure(folder, launch))


def _named_graph(user_settings: Settings, uri: str) -> GraphEndpoint:
    password = user_settings.neo4j_password
    if not password:
        raise SettingsError(
            f"NEO4J_URI={uri} is set but NEO4J_PASSWORD is not. Set it, or unset the URI."
        )
    reader_password = user_settings.neo4j_reader_password or password
    return GraphEndpoint(
        uri=uri,
        user=user_settings.neo4j_user,
        password=password.get_secret_value(),
        database=user_settings.neo4j_database,
        reader_user=user_settings.neo4j_reader_user or user_settings.neo4j_user,
        reader_password=reader_password.get_secret_value(),
        engine="neo4j",
        version="",
        embedded=False,
    )


def llm_endpoint(
    model: str, *, exact: bool = False, adapters: Sequence[Adapter] = (), start: bool = True
) -> LlmEndpoint:
    """Return the LLM server of `LLM_BASE_URL`, else an embedded one that serves a model.

    Args:
        model: The profile's model; `LLM_MODEL` takes its place.
        exact: Whether only that very model will do, whatever `LLM_MODEL` says.
        adapters: LoRA adapters that the server must have.
        start: Whether to start an embedded server that does not run yet; else its description has
            an empty `base_url`.

    Raises:
        ServiceError: The server cannot be reached or started, or does not serve the model.
        EngineError: The engine cannot serve the model.
    """
    user_settings = settings()
    if not exact:
        model = user_settings.llm_model or model
    if not start and user_settings.answers == "stored-only":
        return _stored_llm(model, adapters)
    if user_settings.answers == "plan":
        return _planned_llm(model)
    servers = llm_servers()
    if user_settings.llm_base_url or _is_served(servers, model):
        return _named_llm(servers, model, adapters, exact=exact)
    if user_settings.answers == "collect":
        # a batch will answer, by a model that is known by its name alone
        return LlmEndpoint("", model, "", "vllm", "", "", 0, 64)
    return _embedded_llm(model, adapters, start=start)


def _planned_llm(model: str) -> LlmEndpoint:
    """What is known of a model that is not asked: the context of an embedded one."""
    context = 0
    if model in EMBEDDED_MODELS and not settings().llm_base_url:
        context = engines.llm_card(choose_engine(model)[0], model, ())["context"]
    return LlmEndpoint("", model, "", "vllm", "", "", context, concurrency=64)


def why_not_served(model: str, *, exact: bool = True) -> str:
    """Say why a model cannot be asked. The text is empty if the model can be asked.

    Args:
        model: Name of the model. An empty name means that the profile names no model.
        exact: Whether only this model will do, even if `LLM_MODEL` names another one.
    """
    if not model:
        return "This profile names no model for it."
    name = model if exact else settings().llm_model or model
    if not llm_servers() and name not in EMBEDDED_MODELS:
        return f"No server is named that serves {name}. Set LLM_BASE_URL or LLM_SERVERS."
    try:
        llm_endpoint(model, exact=exact, start=False)
    except PublicError as error:
        return str(error)
    return ""


def _embedded_llm(model: str, adapters: Sequence[Adapter], *, start: bool) -> LlmEndpoint:
    """Return the endpoint of an embedded server, as far as it is known without `start`."""
    if adapters:
        adapters = engines.with_released(model, adapters)
    folder = _llm_folder(settings(), model, adapters)
    if not start and model in EMBEDDED_MODELS and not supervisor.running(folder):
        engine, _ = choose_engine(model)
        return LlmEndpoint(**engines.llm_card(engine, model, adapters))

    def launch(say: Callable[[str], None]) -> Launch:
        return engines.llm_launch(model, free_port(), secrets.token_urlsafe(24), say, adapters)

    return LlmEndpoint(**supervisor.ensure(folder, launch))


def _llm_folder(user_settings: Settings, model: str, adapters: Sequence[Adapter]) -> Path:
    """Return the folder of a server: one a configuration, so that two models can be served."""
    context = user_settings.llm_context or "own"
    name = f"llm-{model.replace('/', '--')}-{context}-{user_settings.llm_engine}"
    if adapters:
        served = " ".join(f"{adapter.name} {adapter.sha256}" for adapter in adapters)
        name += f"-{hashlib.sha256(served.encode()).hexdigest()[:8]}"
    return SERVICES / name


def _stored_llm(model: str, adapters: Sequence[Adapter]) -> LlmEndpoint:
    """What names the stored replies of a model: no server is asked and no engine is needed."""
    if settings().llm_base_url or any(model in server.models for server in llm_servers()):
        return LlmEndpoint("", model, "", "openai", "", "", 0, concurrency=1)
    card = engines.llm_card(choose_engine(model)[0], model, adapters)
    return LlmEndpoint(**card | {"model_sha256": engines.original_sha256(model)})


def served(server: LlmServer) -> list[dict[str, Any]]:
    """Return the models that an OpenAI-compatible server lists, as it describes them.

    Raises:
        ServiceError: The server cannot be reached, refuses the key or lists no model.
    """
    named = f"{server.source}={server.url}"
    try:
        answer = _get(f"{server.url}/models", server.api_key)
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        problem = "cannot be reached"
        if isinstance(error, httpx.ReadTimeout):
            problem = f"did not answer within {ANSWER:.0f} s"
        why = str(error) or type(error).__name__
        raise ServiceError(
            f"{named} {problem} ({why}). Start it or correct {server.source}, or unset "
            f"{server.source} to use the embedded engine."
        ) from None
    if answer.status_code in (401, 403):
        raise ServiceError(f"{named} refused the key (HTTP {answer.status_code}). Set LLM_API_KEY.")
    try:
        cards = _model_cards(answer.raise_for_status().json())
    except (httpx.HTTPStatusError, ValueError, RecursionError):
        raise ServiceError(
            f"{named} answered /models with HTTP {answer.status_code} and no list "
            "of models. It should be the root of an OpenAI-compatible API, such as .../v1."
        ) from None
    if not cards:
        raise ServiceError(
            f"{named} has no model. Load one there, or unset {server.source} to use the embedded "
            "engine."
        )
    return cards


def _model_cards(content: object) -> list[dict[str, Any]]:
    """Return the models of a list that servers give in several forms, each with its ``id``.

    Raises:
        ValueError: It is no list of models.
    """
    if isinstance(content, dict):
        if not {"data", "models"} & content.keys():
            raise ValueError("neither data nor models")
        content = content.get("data") or content.get("models") or []
    if not isinstance(content, list):
        raise ValueError("no list")
    cards = [_model_card(item) for item in content]
    return [card for card in cards if card]


def _model_card(item: object) -> dict[str, Any]:
    """Return the description of a model with its `id`; empty where it has no name."""
    card = {"id": item} if isinstance(item, str) else item
    if not isinstance(card, dict):
        return {}
    name = card.get("id") or card.get("name")
    return {**card, "id": name} if isinstance(name, str) else {}


def _get(url: str, api_key: str) -> httpx.Response:
    timeout = httpx.Timeout(ANSWER, connect=CONNECT)
    headers = {"Authorization": f"Bearer {api_key}"}
    with http_client(timeout, loopback=is_loopback(url)) as client:
        return client.get(url, headers=headers)


def _is_served(servers: Sequence[LlmServer], model: str) -> bool:
    """Whether one of the servers, which may be away, serves a model."""
    for server in servers:
        with contextlib.suppress(ServiceError):
            if server.takes(model) and model in {card["id"] for card in served(server)}:
                return True
    return False


def _named_llm(
    servers: Sequence[LlmServer], model: str, adapters: Sequence[Adapter], *, exact: bool
) -> LlmEndpoint:
    """Return the endpoint of the first of the named servers that serves a model."""
    problems = []
    for server in servers:
        if not server.takes(model):
            continue
        try:
            cards = {card["id"]: card for card in served(server)}
        except ServiceError as error:
            problems.append(str(error))
            continue
        if model in cards:
            return _endpoint_at(server, model, cards, adapters)
        problems.append(
            f"{server.url} does not serve {model!r}. It has: {', '.join(cards) or 'none'}."
        )
    if len(problems) == 1 and "does not serve" not in problems[0]:
        raise ServiceError(problems[0])
    hint = "Set LLM_MODEL to one of them"
    if exact:
        hint = "This step needs that very model, whatever LLM_MODEL says: serve it there too"
    raise ServiceError(" ".join([*problems, f"{hint}."]))


def _endpoint_at(
    server: LlmServer,
    model: str,
    cards: Mapping[str, dict[str, Any]],
    adapters: Sequence[Adapter],
) -> LlmEndpoint:
    """Return the endpoint of a model that a server serves, as it describes itself."""
    base_url, api_key = server.url, server.api_key
    _require_adapters(base_url, cards, adapters)
    card = cards[model]
    owner = card.get("owned_by")
    engine = owner if owner in ("vllm", "llamacpp") else "openai"
    version, concurrency = _version_and_concurrency(base_url.removesuffix("/v1"), api_key, engine)
    context = card.get("max_model_len") or _llamacpp_context(card)
    return LlmEndpoint(
        base_url, model, api_key, engine, version, "", int(context), concurrency=concurrency
    )


def _llamacpp_context(card: Mapping[str, Any]) -> int:
    """Return the context that llama.cpp states in a card of /models; 0 where it states none."""
    meta = card.get("meta") or {}
    return meta.get("n_ctx") or 0


def _require_adapters(
    base_url: str, cards: Mapping[str, object], adapters: Sequence[Adapter]
) -> None:
    missing = [adapter for adapter in adapters if adapter.name not in cards]
    if not missing:
        return
    names = ", ".join(adapter.name for adapter in missing)
    modules = " ".join(f"{adapter.name}={adapter.folder}" for adapter in missing)
    raise ServiceError(
        f"{base_url} does not serve the LoRA adapters {names}. Start vLLM there with --enable-lora "
        f"--lora-modules {modules}, or unset LLM_BASE_URL to use the embedded engine."
    )


def _version_and_concurrency(root: str, api_key: str, engine: str) -> tuple[str, int]:
    """Return what a server says of itself; vLLM does not say how many requests it takes at once."""
    version, concurrency = "", 64
    with contextlib.suppress(httpx.HTTPError, ValueError, KeyError, TypeError):
        if engine == "vllm":
            version = f"vllm {_get(f'{root}/version', api_key).json()['version']}"
        elif engine == "llamacpp":
            slots = int(_get(f"{root}/props", api_key).json()["total_slots"])
            concurrency = slots or concurrency
    return version, concurrency


def free_port() -> int:
    """Return a loopback port that no program listens on."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def stop(kind: str = "") -> list[str]:
    """Stop the embedded servers of a kind, graph or llm, or all, whoever uses them.

    Returns:
        The names of their folders.
    """
    stopped = []
    for folder in _folders(kind):
        if supervisor.is_supervised(folder):
            stopped.append(folder.name)
        supervisor.end(folder)
    return stopped


def _folders(kind: str = "") -> list[Path]:
    return sorted(path for path in SERVICES.glob(f"{kind}*") if path.is_dir())


def _status() -> list[str]:
    """Return a line for each embedded server."""
    lines = []
    for folder in _folders():
        if not supervisor.is_supervised(folder):
            continue
        memory = 0
        for process in supervisor.processes(folder):
            with contextlib.suppress(psutil.Error):
                memory += process.memory_info().rss
        endpoint = supervisor.running(folder)
        address = endpoint.get("uri") or endpoint.get("base_url") or "none yet"
        version = endpoint.get("version", "starting")
        users = ", ".join(supervisor.users(folder)) or "nobody"
        lines.append(
            f"service: {folder.name}  address: {address}  engine: {version}  "
            f"memory: {memory / GIB:.1f} GiB  used by: {users}"
        )
    return lines or ["no embedded server is running"]


def _start(service: str) -> None:
    """Start embedded servers, and keep all that run until `make stop`."""
    if service in ("all", "graph"):
        graph_endpoint()
    if service in ("all", "llm"):
        llm_endpoint(profile_model(settings().profile))
    for folder in _folders():
        if supervisor.running(folder):
            supervisor.keep(folder)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line: start, stop or status."""
    parser = argparse.ArgumentParser(
        prog="python -m resources.services", description="Start and stop embedded servers."
    )
    parser.add_argument("command", choices=["start", "stop", "status"])
    parser.add_argument("service", nargs="?", choices=["graph", "llm", "all"], default="all")
    options = parser.parse_args(arguments)
    if options.command == "stop":
        for name in stop(options.service.replace("all", "")):
            supervisor.say(f"stopped {name}")
        return 0
    if options.command == "start":
        _start(options.service)
    sys.stdout.write("\n".join(_status()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(run_command_line(main))
